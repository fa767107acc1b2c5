//go:build cuda

// Diffusion: what all solvers have in common. diffusion_box.go has the solver for problems without barriers,
// diffusion_graph.go that for others, diffusion_sweeps.go has those of the seed.

package cuda

import (
	"encoding/binary"
	"fmt"

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
	Tolerance, Threshold                    float32
	Weights                                 [8]float32
	Flags, Setup, Colours, X, State, Status uint64
}

func diffusionSetupBytes(g driver.DiffusionGrid) (int64, error) {
	if err := supported(g); err != nil {
		return 0, err
	}
	return diffuserFor(g).setupBytes(g)
}

func diffusionStateBytes(op *driver.DiffusionSolve) (int64, error) {
	if err := supported(op.Grid); err != nil {
		return 0, err
	}
	return diffuserFor(op.Grid).stateBytes(op.Grid, op.Channels)
}

// supported says which grids there is no solver for.
func supported(g driver.DiffusionGrid) error {
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

func (s *stream) diffusionSetup(op *driver.DiffusionSetup) error {
	if err := supported(op.Grid); err != nil {
		return err
	}
	return diffuserFor(op.Grid).setUp(s, &diffusionSetup{DiffusionGrid: op.Grid, Flags: at(op.Flags), Dst: at(op.Dst),
		Counts: at(op.Counts)})
}

func (s *stream) diffusionSolve(op *driver.DiffusionSolve) error {
	setup, err := diffusionSetupBytes(op.Grid)
	if err != nil {
		return err
	}
	if op.Setup.Len < setup {
		return fmt.Errorf("Setup: %d bytes, %d are needed", op.Setup.Len, setup)
	}
	return diffuserFor(op.Grid).solve(s, &diffusionSolve{DiffusionGrid: op.Grid, Channels: op.Channels,
		Start: op.Start, Cycles: op.Cycles, Tolerance: op.Tolerance, Threshold: op.Threshold, Weights: op.Weights(),
		Flags: at(op.Flags), Setup: at(op.Setup), Colours: at(op.Colours), X: at(op.X), State: at(op.State),
		Status: at(op.Status)})
}
