//go:build cuda

package cuda

import (
	"cmp"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (d *device) DualTrianglesScratch(n, width, height int) (int64, error) {
	return dualScratch(n, width, height)
}

func (s *stream) DualTriangles(op driver.DualTriangles) error {
	return s.enqueue("DualTriangles", 0, func() error { return s.dualTriangles(op) })
}

func (s *stream) dualTriangles(op driver.DualTriangles) error {
	need, err := dualScratch(op.N, op.Width, op.Height)
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
	if err := cmp.Or(s.fill(scratch.at(), 0, need), s.fill(counts.at(), 0, meshCountsBytes)); err != nil {
		return err
	}
	v := meshDiagram{Sites: sites.at(), Labels: labels.at(), N: uint32(op.N), Width: int32(op.Width), Height: int32(op.Height)}
	find := dualFindParams{V: v, Triangles: triangles.at(), Counts: counts.at(), State: scratch.at(), Status: scratch.at() + driver.Align}
	return cmp.Or(
		dualSites.launch(s, min(ceilDiv(op.N, dualThreads), s.dev.info.ComputeUnits*pointBlocks), 1, dualThreads, 0, &dualSitesParams{V: v, Counts: counts.at()}),
		dualFind.launch(s, dualTiles(op.Width, op.Height), 1, dualThreads, 0, &find))
}
