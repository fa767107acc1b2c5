//go:build cuda

package cuda

import (
	"cmp"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *stream) dualTriangles(op *driver.DualTriangles) error {
	list, _ := dualScratch(op.Width, op.Height)
	counts := at(op.Counts)
	if err := s.fill(counts, 0, meshCountsBytes); err != nil {
		return err
	}
	v := meshDiagram{Sites: at(op.Sites), Labels: at(op.Labels), N: uint32(op.N), Width: int32(op.Width),
		Height: int32(op.Height)}
	tiles, blocks := at(op.Scratch), dualTiles(op.Width, op.Height)
	items := tiles + uint64(list)
	return cmp.Or(
		dualSites.launch(s, min(ceilDiv(op.N, dualThreads), s.dev.info.ComputeUnits*pointBlocks), 1, dualThreads, 0,
			&dualSitesParams{V: v, Counts: counts}),
		dualFind.launch(s, blocks, 1, dualThreads, 0, &dualFindParams{V: v, Tiles: tiles, List: items}),
		dualScan.launch(s, 1, 1, dualScanThreads, 0, &dualScanParams{V: v, Tiles: tiles, Counts: counts}),
		dualWrite.launch(s, blocks, 1, dualWriteThreads, 0,
			&dualWriteParams{V: v, Triangles: at(op.Triangles), Tiles: tiles, List: items}))
}
