//go:build cuda

package cuda

import (
	"cmp"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (d *device) HullCompletionScratch(n, width, height int) (int64, error) {
	_, bytes, err := layoutHull(n, width, height, 0)
	return bytes, err
}

func (s *stream) HullCompletion(op driver.HullCompletion) error {
	return s.enqueue("HullCompletion", 0, func() error { return s.hullCompletion(op) })
}

func (s *stream) hullCompletion(op driver.HullCompletion) error {
	_, need, err := layoutHull(op.N, op.Width, op.Height, 0)
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
	g, _, _ := layoutHull(op.N, op.Width, op.Height, scratch.at())
	g.V = meshDiagram{Sites: sites.at(), Labels: labels.at(), N: uint32(op.N), Width: int32(op.Width),
		Height: int32(op.Height)}
	g.Triangles, g.Counts = triangles.at(), counts.at()
	args := g
	return cmp.Or(
		hullChains.launch(s, 4, 1, hullThreads, 0, &args),
		hullJoin.launch(s, 1, 1, hullThreads, 0, &args))
}
