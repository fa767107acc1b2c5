//go:build cuda

// Hold: launches one behind the other. What is wrong with the triangles is a fault, as that of Shade.

package cuda

import (
	"cmp"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *stream) hold(op *driver.Hold) error {
	v := shading{Max: uint32(op.Max), Width: int32(op.Dst.Width), Height: int32(op.Dst.Height)}
	s.shadingOf(&v, &driver.Shade{Src: op.Before, Dst: op.Dst, Points: op.Points, N: op.N, Triangles: op.Triangles,
		Count: op.Count, Colors: op.Colors})
	args := holdCheckParams{V: v, Changed: at(op.Changed), Limit: uint32(op.Limit), Jump: uint32(op.Jump)}
	blocks := func(n int) int {
		return min(max((n+shadeThreads-1)/shadeThreads, 1), s.dev.info.ComputeUnits*8)
	}
	return cmp.Or(
		s.fill(at(op.Changed), 0, 4),
		holdCheck.launch(s, blocks(max(op.N, op.Max)), 1, shadeThreads, 0, &args),
		holdTriangles.launch(s, blocks(shadeThreads*op.Max), 1, shadeThreads, 0, &args))
}
