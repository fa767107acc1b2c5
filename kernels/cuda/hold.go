//go:build cuda

// Hold: launches one behind the other. What is wrong with the triangles is a fault, as that of Shade.

package cuda

import (
	"cmp"
	"fmt"
	"math"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *stream) Hold(op driver.Hold) error {
	return s.enqueue("Hold", 0, func() error { return s.hold(op) })
}

func (s *stream) hold(op driver.Hold) error {
	if op.Limit < 0 || op.Limit > op.Jump || op.Jump > math.MaxUint16 {
		return fmt.Errorf("Limit, Jump = %d, %d: must be 0 to %d, the first no more than the second", op.Limit, op.Jump,
			math.MaxUint16)
	}
	changed, err := s.dev.structs(op.Changed, "Changed")
	if err != nil {
		return err
	}
	if changed.n != 4 {
		return fmt.Errorf("Changed: %d bytes, must be 4", changed.n)
	}
	v := shading{Max: uint32(op.Max), Width: int32(op.Dst.Width), Height: int32(op.Dst.Height)}
	if err := s.shadingOf(&v, op.Before, "Before", op.Dst, op.Points, op.N, op.Triangles, op.Max, op.Count,
		op.Colors); err != nil {
		return err
	}
	changed.overwritten()
	args := holdCheckParams{V: v, Changed: changed.at(), Limit: uint32(op.Limit), Jump: uint32(op.Jump)}
	blocks := func(n int) int {
		return min(max((n+shadeThreads-1)/shadeThreads, 1), s.dev.info.ComputeUnits*8)
	}
	return cmp.Or(
		s.fill(changed.at(), 0, 4),
		holdCheck.launch(s, blocks(max(op.N, op.Max)), 1, shadeThreads, 0, &args),
		holdTriangles.launch(s, blocks(shadeThreads*op.Max), 1, shadeThreads, 0, &args))
}
