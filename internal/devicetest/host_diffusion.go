// The oracle device: diffusion.

package devicetest

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

func init() {
	oracle(hostDiffusionSetup)
	oracle(hostDiffusionSolve)
}

// hostSetup is what a set-up of the oracle holds: nothing that it could make use of.
const hostSetup = 0x0ac1e001

func hostDiffusionSetup(op *driver.DiffusionSetup) error {
	scene := Scene{Width: op.Grid.Width, Height: op.Grid.Height, Flags: view(op.Flags)}
	var counts driver.DiffusionCounts
	for i, f := range scene.Flags {
		if f&^op.Grid.Allowed() != 0 {
			return fmt.Errorf("flags of pixel %d are %#x", i, f)
		}
		counts.Fixed += uint32(f & driver.DiffusionFixed)
	}
	for _, v := range scene.Void() {
		if v {
			counts.Void++
		}
	}
	store(op.Dst, uint32(hostSetup))
	store(op.Counts, counts)
	return nil
}

// hostDiffusionSolve is exact after one cycle, whatever it starts with; to a threshold it is what
// all cycles make of nothing, whatever it starts with, and counts them.
func hostDiffusionSolve(op *driver.DiffusionSolve) error {
	if op.Setup.Len < 4 || binary.LittleEndian.Uint32(view(op.Setup)) != hostSetup {
		return errors.New("there is no set-up")
	}
	scene := Scene{Width: op.Grid.Width, Height: op.Grid.Height, Channels: op.Channels, Flags: view(op.Flags),
		Colours: values[float32](op.Colours)}
	status := driver.DiffusionStatus{Cycles: 1, Converged: 1, Ratio: 0.5}
	var exact []float64
	if scene.Method = op.Grid.Method; op.Threshold > 0 {
		made, cycles := op.Cycles, 0
		if op.Start == driver.DiffusionContinue {
			made += int(values[driver.DiffusionStatus](op.Status)[0].Cycles)
		}
		exact, cycles = scene.Sweeps(float64(op.Threshold))
		if status = (driver.DiffusionStatus{Cycles: uint32(min(made, cycles))}); made >= cycles {
			status.Converged = 1
		}
	} else {
		exact = scene.Exact()
	}
	x := make([]float32, 0, len(scene.Colours))
	for _, v := range exact {
		x = append(x, float32(v))
	}
	store(op.X, x...)
	store(op.Status, status)
	return nil
}
