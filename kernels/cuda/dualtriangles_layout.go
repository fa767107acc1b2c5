//lint:file-ignore U1000 launched under the tag cuda

package cuda

// Constants of dualtriangles.cu, by the names they have there.
const (
	dualThreads      = 256  // THREADS
	dualItems        = 16   // ITEMS
	dualScanThreads  = 1024 // SCAN_THREADS
	dualWriteThreads = 128  // WRITE_THREADS
	dualTileBytes    = 8    // of DualTile
)

type (
	dualSitesParams struct {
		V      meshDiagram
		Counts uint64
	}
	dualFindParams struct {
		V           meshDiagram
		Tiles, List uint64
	}
	dualScanParams struct {
		V             meshDiagram
		Tiles, Counts uint64
	}
	dualWriteParams struct {
		V                      meshDiagram
		Triangles, Tiles, List uint64
	}
)

var (
	dualSites = listKernel[dualSitesParams]("dualtriangles", "dual_sites")
	dualFind  = listKernel[dualFindParams]("dualtriangles", "dual_find")
	dualScan  = listKernel[dualScanParams]("dualtriangles", "dual_scan")
	dualWrite = listKernel[dualWriteParams]("dualtriangles", "dual_write")
)

// dualTiles is how many tiles of blocks of 2x2 pixels there are.
func dualTiles(width, height int) int { return ceilDiv((width-1)*(height-1), dualThreads*dualItems) }

// dualScratch is the tiles and, from list on, a list in which any block may be.
func dualScratch(n, width, height int) (list, bytes int64, err error) {
	if err := checkDiagram("DualTriangles", n, width, height); err != nil {
		return 0, 0, err
	}
	tiles := int64(dualTiles(width, height))
	list = alignUp(dualTileBytes * tiles)
	return list, list + 4*dualThreads*dualItems*tiles, nil
}
