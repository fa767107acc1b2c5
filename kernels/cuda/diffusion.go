//go:build cuda

// Diffusion: what all solvers have in common. diffusion_box.go has the solver for problems without barriers,
// diffusion_graph.go that for others, diffusion_sweeps.go has those of the seed.

package cuda

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/polyscan/polyscan/kernels/driver"
)

// diffuser is a solver. It trusts what it is called with: the grid and the sizes have been checked.
type diffuser interface {
	// setupBytes and stateBytes are the sizes of Dst and State, headers included. An error matches
	// driver.ErrNotSupported.
	setupBytes(driver.DiffusionGrid) (int64, error)
	stateBytes(g driver.DiffusionGrid, channels int) (int64, error)
	// setUp and solve enqueue the op.
	setUp(*stream, *diffusionSetup) error
	solve(*stream, *diffusionSolve) error
}

func diffuserFor(g driver.DiffusionGrid) diffuser {
	switch {
	case g.Method != driver.DiffusionMultigrid:
		return sweeper{}
	case g.Barriers:
		return graphDiffuser{}
	}
	return boxDiffuser{}
}

// diffusionSetup is the op with the addresses of its slices on the device.
type diffusionSetup struct {
	driver.DiffusionGrid
	Flags, Dst, Counts uint64
}

// diffusionSolve is the op with the addresses of its slices on the device.
type diffusionSolve struct {
	driver.DiffusionGrid
	Channels                                int
	Start                                   driver.DiffusionStart
	Cycles                                  int
	Tolerance                               float32
	Flags, Setup, Colours, X, State, Status uint64
}

func (d *device) DiffusionSetupBytes(g driver.DiffusionGrid) (int64, error) {
	err := checkDiffusion(g)
	if err == nil {
		var n int64
		if n, err = diffuserFor(g).setupBytes(g); err == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("cuda: DiffusionSetup: %w", err)
}

func (d *device) DiffusionStateBytes(g driver.DiffusionGrid, channels int) (int64, error) {
	err := checkDiffusion(g)
	if err == nil && (channels < 1 || channels > driver.MaxDiffusionChannels) {
		err = fmt.Errorf("Channels = %d: must be 1 to %d", channels, driver.MaxDiffusionChannels)
	}
	if err == nil {
		var n int64
		if n, err = diffuserFor(g).stateBytes(g, channels); err == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("cuda: DiffusionSolve: %w", err)
}

func checkDiffusion(g driver.DiffusionGrid) error {
	if g.Width < 1 || g.Width > driver.MaxSide || g.Height < 1 || g.Height > driver.MaxSide ||
		g.Width*g.Height > driver.MaxPixels {
		return fmt.Errorf("Grid = %dx%d: sides must be 1 to %d, and no more than %d pixels", g.Width, g.Height,
			driver.MaxSide, driver.MaxPixels)
	}
	if g.Method > driver.DiffusionVariableStencil {
		return fmt.Errorf("Grid.Method = %d: %w", g.Method, driver.ErrNotSupported)
	}
	if g.Barriers && g.Method == driver.DiffusionVariableStencil {
		return fmt.Errorf("Grid.Barriers: %w by %v: it looks across them", driver.ErrNotSupported, g.Method)
	}
	if g.OneWay && g.Method == driver.DiffusionVariableStencil {
		return fmt.Errorf("Grid.OneWay: %w by %v: it looks across edges", driver.ErrNotSupported, g.Method)
	}
	if g.OneWay && g.Method == driver.DiffusionMultigrid {
		return fmt.Errorf("Grid.OneWay: %w by %v: its equations have to be symmetric", driver.ErrNotSupported, g.Method)
	}
	return nil
}

func (s *stream) DiffusionSetup(op driver.DiffusionSetup) error {
	return s.enqueue("DiffusionSetup", 0, func() error { return s.diffusionSetup(op) })
}

func (s *stream) DiffusionSolve(op driver.DiffusionSolve) error {
	return s.enqueue("DiffusionSolve", 0, func() error { return s.diffusionSolve(op) })
}

// diffusionSlice is a slice of an op of diffusion, and where its address goes.
type diffusionSlice struct {
	field   string
	from    driver.Slice
	to      *uint64
	bytes   int64
	least   bool // more bytes will do
	written bool
}

// diffusionSlices finds the addresses of slices.
func (s *stream) diffusionSlices(all []diffusionSlice) error {
	for _, x := range all {
		p, err := s.dev.structs(x.from, x.field)
		if err != nil {
			return err
		}
		if p.n < x.bytes || p.n > x.bytes && !x.least {
			return fmt.Errorf("%s: %d bytes, %d are needed", x.field, p.n, x.bytes)
		}
		if x.written {
			p.overwritten()
		}
		*x.to = p.at()
	}
	return nil
}

// repeat enqueues up to so many cycles. Each time when so many are ahead it waits and looks whether more are wanted,
// which the word at done says no more when it isn't 0, and which takes some 20 µs. What comes after the last that is
// needed does nothing, but takes about 1 µs a kernel.
func (s *stream) repeat(cycles, ahead int, done uint64, enqueue func() error) error {
	for i := range cycles {
		if i > 0 && i%ahead == 0 && !s.capturing {
			over := false
			err := s.fetch(done, 4, func(b []byte) error {
				over = binary.NativeEndian.Uint32(b) != 0
				return nil
			})
			if err != nil || over {
				return err
			}
		}
		if err := s.cycle(enqueue); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) diffusionSetup(op driver.DiffusionSetup) error {
	g := op.Grid
	if err := checkDiffusion(g); err != nil {
		return err
	}
	solver := diffuserFor(g)
	bytes, err := solver.setupBytes(g)
	if err != nil {
		return err
	}
	o := diffusionSetup{DiffusionGrid: g}
	if err := s.diffusionSlices([]diffusionSlice{
		{"Flags", op.Flags, &o.Flags, int64(g.Width) * int64(g.Height), false, false},
		{"Dst", op.Dst, &o.Dst, bytes, true, true},
		{"Counts", op.Counts, &o.Counts, int64(unsafe.Sizeof(driver.DiffusionCounts{})), false, true},
	}); err != nil {
		return err
	}
	return solver.setUp(s, &o)
}

func (s *stream) diffusionSolve(op driver.DiffusionSolve) error {
	g := op.Grid
	if err := checkDiffusion(g); err != nil {
		return err
	}
	switch {
	case op.Channels < 1 || op.Channels > driver.MaxDiffusionChannels:
		return fmt.Errorf("Channels = %d: must be 1 to %d", op.Channels, driver.MaxDiffusionChannels)
	case op.Cycles < 1:
		return fmt.Errorf("Cycles = %d: must be 1 or more", op.Cycles)
	case !(op.Tolerance > 0):
		return fmt.Errorf("Tolerance = %v: must be more than 0", op.Tolerance)
	case op.Start > driver.DiffusionContinue:
		return fmt.Errorf("Start = %d: is none", op.Start)
	}
	solver := diffuserFor(g)
	setupBytes, err := solver.setupBytes(g)
	if err != nil {
		return err
	}
	stateBytes, err := solver.stateBytes(g, op.Channels)
	if err != nil {
		return err
	}
	o := diffusionSolve{DiffusionGrid: g, Channels: op.Channels, Start: op.Start, Cycles: op.Cycles,
		Tolerance: op.Tolerance}
	pixels := int64(g.Width) * int64(g.Height)
	planes := 4 * pixels * int64(op.Channels)
	if err := s.diffusionSlices([]diffusionSlice{
		{"Flags", op.Flags, &o.Flags, pixels, false, false},
		{"Setup", op.Setup, &o.Setup, setupBytes, true, false},
		{"Colours", op.Colours, &o.Colours, planes, false, false},
		{"X", op.X, &o.X, planes, false, true},
		{"State", op.State, &o.State, stateBytes, true, true},
		{"Status", op.Status, &o.Status, int64(unsafe.Sizeof(driver.DiffusionStatus{})), false, true},
	}); err != nil {
		return err
	}
	return solver.solve(s, &o)
}
