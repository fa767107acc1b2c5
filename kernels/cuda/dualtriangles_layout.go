//lint:file-ignore U1000 launched under the tag cuda

package cuda

import "github.com/polyscan/polyscan/kernels/driver"

// Constants of dualtriangles.cu, by the names they have there.
const (
	dualThreads = 256 // THREADS
	dualItems   = 16  // ITEMS
)

type (
	dualSitesParams struct {
		V      meshDiagram
		Counts uint64
	}
	dualFindParams struct {
		V                                meshDiagram
		Triangles, Counts, State, Status uint64
	}
)

var (
	dualSites = listKernel[dualSitesParams]("dualtriangles", "dual_sites")
	dualFind  = listKernel[dualFindParams]("dualtriangles", "dual_find")
)

// dualTiles is how many tiles of blocks of 2x2 pixels there are.
func dualTiles(width, height int) int { return ceilDiv((width-1)*(height-1), dualThreads*dualItems) }

// dualScratch is a counter and the status of each tile.
func dualScratch(n, width, height int) (int64, error) {
	if err := checkDiagram("DualTriangles", n, width, height); err != nil {
		return 0, err
	}
	return driver.Align + 4*int64(dualTiles(width, height)), nil
}
