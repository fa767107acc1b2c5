// The oracle device: diffusion.

package devicetest

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

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

// hostDiffusionSolve is exact after one cycle, whatever it starts with.
func hostDiffusionSolve(op *driver.DiffusionSolve) error {
	if op.Setup.Len < 4 || binary.LittleEndian.Uint32(view(op.Setup)) != hostSetup {
		return errors.New("there is no set-up")
	}
	scene := Scene{Width: op.Grid.Width, Height: op.Grid.Height, Channels: op.Channels, Flags: view(op.Flags),
		Colours: values[float32](op.Colours)}
	x := make([]float32, 0, len(scene.Colours))
	for _, v := range scene.Exact() {
		x = append(x, float32(v))
	}
	store(op.X, x...)
	store(op.Status, driver.DiffusionStatus{Cycles: 1, Converged: 1, Ratio: 0.5})
	return nil
}
