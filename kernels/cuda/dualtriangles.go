//go:build cuda

package cuda

import (
	"cmp"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (d *device) DualTrianglesScratch(n, width, height int) (int64, error) {
	_, bytes, err := dualScratch(n, width, height)
	return bytes, err
}

func (s *stream) DualTriangles(op driver.DualTriangles) error {
	return s.enqueue("DualTriangles", 0, func() error { return s.dualTriangles(op) })
}

func (s *stream) dualTriangles(op driver.DualTriangles) error {
	list, need, err := dualScratch(op.N, op.Width, op.Height)
	if err != nil {
		return err
	}
	var sites, labels, triangles, counts, scratch span
	if err := s.place(
		argument{&sites, op.Sites, "Sites", pointBytes * int64(op.N)},
		argument{&labels, op.Labels, "Labels", 4 * int64(op.Width) * int64(op.Height)},
		argument{&triangles, op.Triangles, "Triangles", 2 * triangleBytes * int64(op.N)},
		argument{&counts, op.Counts, "Counts", meshCountsBytes},
		argument{&scratch, op.Scratch, "Scratch", need},
	); err != nil {
		return err
	}
	for _, x := range []span{triangles, counts, scratch} {
		x.overwritten()
	}
	if err := s.fill(counts.at(), 0, meshCountsBytes); err != nil {
		return err
	}
	v := meshDiagram{Sites: sites.at(), Labels: labels.at(), N: uint32(op.N), Width: int32(op.Width),
		Height: int32(op.Height)}
	tiles, at, blocks := scratch.at(), scratch.at()+uint64(list), dualTiles(op.Width, op.Height)
	return cmp.Or(
		dualSites.launch(s, min(ceilDiv(op.N, dualThreads), s.dev.info.ComputeUnits*pointBlocks), 1, dualThreads, 0,
			&dualSitesParams{V: v, Counts: counts.at()}),
		dualFind.launch(s, blocks, 1, dualThreads, 0, &dualFindParams{V: v, Tiles: tiles, List: at}),
		dualScan.launch(s, 1, 1, dualScanThreads, 0, &dualScanParams{V: v, Tiles: tiles, Counts: counts.at()}),
		dualWrite.launch(s, blocks, 1, dualWriteThreads, 0,
			&dualWriteParams{V: v, Triangles: triangles.at(), Tiles: tiles, List: at}))
}
