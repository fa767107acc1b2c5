//go:build cuda

package cuda

import (
	"cmp"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *stream) hullCompletion(op *driver.HullCompletion) error {
	g, _ := layoutHull(op.Width, op.Height, at(op.Scratch))
	g.V = meshDiagram{Sites: at(op.Sites), Labels: at(op.Labels), N: uint32(op.N), Width: int32(op.Width),
		Height: int32(op.Height)}
	g.Triangles, g.Counts = at(op.Triangles), at(op.Counts)
	args := g
	return cmp.Or(
		hullChains.launch(s, 4, 1, hullThreads, 0, &args),
		hullJoin.launch(s, 1, 1, hullThreads, 0, &args))
}
