// The fake driver: diffusion.

package kernels

import (
	"errors"
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (x *fakeDevice) DiffusionSetupBytes(g driver.DiffusionGrid) (int64, error) {
	x.d.promise("DiffusionSetupBytes", diffusionKept(g, 1))
	return 1000, nil
}

func (x *fakeDevice) DiffusionStateBytes(g driver.DiffusionGrid, channels int) (int64, error) {
	x.d.promise("DiffusionStateBytes", diffusionKept(g, channels))
	return 500, nil
}

func diffusionKept(g driver.DiffusionGrid, channels int) error {
	if g.Width < 1 || g.Height < 1 || g.Width > driver.MaxSide || g.Height > driver.MaxSide ||
		g.Width*g.Height > driver.MaxPixels || channels < 1 || channels > driver.MaxDiffusionChannels ||
		g.Method > driver.DiffusionVariableStencil {
		return fmt.Errorf("%v, %d channels", g, channels)
	}
	return nil
}

func (s *fakeStream) DiffusionSetup(op driver.DiffusionSetup) error {
	kept := diffusionKept(op.Grid, 1)
	if op.Flags.Len != int64(op.Grid.Width)*int64(op.Grid.Height) || op.Dst.Len < 1000 || op.Counts.Len != 8 {
		kept = errors.Join(kept, fmt.Errorf("lengths %d, %d, %d", op.Flags.Len, op.Dst.Len, op.Counts.Len))
	}
	for _, x := range []driver.Slice{op.Flags, op.Dst, op.Counts} {
		kept = errors.Join(kept, s.inside(x, driver.Align))
	}
	return s.op("DiffusionSetup", kept)
}

func (s *fakeStream) DiffusionSolve(op driver.DiffusionSolve) error {
	kept := diffusionKept(op.Grid, op.Channels)
	n := int64(op.Grid.Width) * int64(op.Grid.Height)
	if op.Flags.Len != n || op.Colours.Len != 4*n*int64(op.Channels) || op.X.Len != op.Colours.Len ||
		op.Setup.Len < 1000 || op.State.Len < 500 || op.Status.Len != 32 {
		kept = errors.Join(kept, fmt.Errorf("lengths of %+v", op))
	}
	if op.Start > driver.DiffusionContinue || op.Cycles < 1 || !(op.Tolerance > 0) {
		kept = errors.Join(kept, fmt.Errorf("start %d, %d cycles, tolerance %v", op.Start, op.Cycles, op.Tolerance))
	}
	for _, x := range []driver.Slice{op.Flags, op.Setup, op.Colours, op.X, op.State, op.Status} {
		kept = errors.Join(kept, s.inside(x, driver.Align))
	}
	return s.op("DiffusionSolve", kept)
}
