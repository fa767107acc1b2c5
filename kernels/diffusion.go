// The checks in front of diffusion.

package kernels

import (
	"cmp"
	"fmt"
	"unsafe"

	"github.com/polyscan/polyscan/kernels/driver"
)

// DiffusionSetupBytes says how much Dst [Queue.DiffusionSetup] needs.
func (d *Device) DiffusionSetupBytes(g driver.DiffusionGrid) (int64, error) {
	if err := checkDiffusionGrid("DiffusionSetupBytes", g); err != nil {
		return 0, err
	}
	return d.dev.DiffusionSetupBytes(g)
}

// DiffusionStateBytes says how much State [Queue.DiffusionSolve] needs.
func (d *Device) DiffusionStateBytes(g driver.DiffusionGrid, channels int) (int64, error) {
	const name = "DiffusionStateBytes"
	if err := cmp.Or(checkDiffusionGrid(name, g), checkDiffusionChannels(name, channels)); err != nil {
		return 0, err
	}
	return d.dev.DiffusionStateBytes(g, channels)
}

func checkDiffusionGrid(op string, g driver.DiffusionGrid) error {
	switch {
	case g.Width < 1 || g.Width > driver.MaxSide:
		return &ArgError{op, "Grid.Width", g.Width, fmt.Sprintf("must be 1 to %d", driver.MaxSide)}
	case g.Height < 1 || g.Height > driver.MaxSide:
		return &ArgError{op, "Grid.Height", g.Height, fmt.Sprintf("must be 1 to %d", driver.MaxSide)}
	case int64(g.Width)*int64(g.Height) > driver.MaxPixels:
		return &ArgError{op, "Grid", fmt.Sprintf("%dx%d", g.Width, g.Height),
			fmt.Sprintf("has more than %d pixels", driver.MaxPixels)}
	case g.Method > driver.DiffusionVariableStencil:
		return &ArgError{op, "Grid.Method", uint8(g.Method), "is no method"}
	}
	return nil
}

func checkDiffusionChannels(op string, channels int) error {
	if channels < 1 || channels > driver.MaxDiffusionChannels {
		return &ArgError{op, "Channels", channels, fmt.Sprintf("must be 1 to %d", driver.MaxDiffusionChannels)}
	}
	return nil
}

// DiffusionSetup enqueues the op after checking its arguments. See [driver.DiffusionSetup].
func (q *Queue) DiffusionSetup(op driver.DiffusionSetup) error {
	const name = "DiffusionSetup"
	if err := checkDiffusionGrid(name, op.Grid); err != nil {
		return err
	}
	need, err := q.dev.dev.DiffusionSetupBytes(op.Grid)
	if err != nil {
		return err
	}
	if err := cmp.Or(
		exactly(name, "Flags", op.Flags, int64(op.Grid.Width)*int64(op.Grid.Height)),
		exactly(name, "Counts", op.Counts, int64(unsafe.Sizeof(driver.DiffusionCounts{}))),
		atLeast(name, "Dst", op.Dst, need),
		q.checkAligned(name, "Flags", op.Flags),
		q.checkAligned(name, "Dst", op.Dst),
		q.checkAligned(name, "Counts", op.Counts),
	); err != nil {
		return err
	}
	return q.stream.DiffusionSetup(op)
}

// DiffusionSolve enqueues the op after checking its arguments. See [driver.DiffusionSolve].
func (q *Queue) DiffusionSolve(op driver.DiffusionSolve) error {
	const name = "DiffusionSolve"
	if err := cmp.Or(checkDiffusionGrid(name, op.Grid), checkDiffusionChannels(name, op.Channels)); err != nil {
		return err
	}
	switch {
	case op.Start > driver.DiffusionContinue:
		return &ArgError{name, "Start", uint8(op.Start), "is none"}
	case op.Cycles < 1:
		return &ArgError{name, "Cycles", op.Cycles, "must be 1 or more"}
	case !(op.Tolerance > 0):
		return &ArgError{name, "Tolerance", op.Tolerance, "must be more than 0"}
	}
	setup, err := q.dev.dev.DiffusionSetupBytes(op.Grid)
	if err != nil {
		return err
	}
	state, err := q.dev.dev.DiffusionStateBytes(op.Grid, op.Channels)
	if err != nil {
		return err
	}
	pixels := int64(op.Grid.Width) * int64(op.Grid.Height)
	if err := cmp.Or(
		exactly(name, "Flags", op.Flags, pixels),
		atLeast(name, "Setup", op.Setup, setup),
		exactly(name, "Colours", op.Colours, 4*pixels*int64(op.Channels)),
		exactly(name, "X", op.X, 4*pixels*int64(op.Channels)),
		atLeast(name, "State", op.State, state),
		exactly(name, "Status", op.Status, int64(unsafe.Sizeof(driver.DiffusionStatus{}))),
		q.checkAligned(name, "Flags", op.Flags),
		q.checkAligned(name, "Setup", op.Setup),
		q.checkAligned(name, "Colours", op.Colours),
		q.checkAligned(name, "X", op.X),
		q.checkAligned(name, "State", op.State),
		q.checkAligned(name, "Status", op.Status),
	); err != nil {
		return err
	}
	return q.stream.DiffusionSolve(op)
}

func exactly(op, field string, s driver.Slice, bytes int64) error {
	if s.Len != bytes {
		return &ArgError{op, field, s.Len, fmt.Sprintf("must be %d bytes", bytes)}
	}
	return nil
}

func atLeast(op, field string, s driver.Slice, bytes int64) error {
	if s.Len < bytes {
		return &ArgError{op, field, s.Len, fmt.Sprintf("is less than the %d bytes needed", bytes)}
	}
	return nil
}
