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

func (*hostDevice) DiffusionSetupBytes(driver.DiffusionGrid) (int64, error)      { return 4, nil }
func (*hostDevice) DiffusionStateBytes(driver.DiffusionGrid, int) (int64, error) { return 0, nil }

func (s *hostStream) DiffusionSetup(op driver.DiffusionSetup) error {
	return s.enqueue("DiffusionSetup", func() error {
		views, err := s.dev.views(op.Flags, op.Dst, op.Counts)
		if err != nil {
			return err
		}
		scene := Scene{Width: op.Grid.Width, Height: op.Grid.Height, Flags: views[0]}
		if len(scene.Flags) != scene.Width*scene.Height || len(views[1]) < 4 || len(views[2]) != 8 {
			return fmt.Errorf("%d, %d and %d bytes for %dx%d", len(views[0]), len(views[1]), len(views[2]), scene.Width,
				scene.Height)
		}
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
		binary.LittleEndian.PutUint32(views[1], hostSetup)
		copy(views[2], bytesOf([]driver.DiffusionCounts{counts}))
		return nil
	})
}

// DiffusionSolve is exact after one cycle, whatever it starts with.
func (s *hostStream) DiffusionSolve(op driver.DiffusionSolve) error {
	return s.enqueue("DiffusionSolve", func() error {
		views, err := s.dev.views(op.Flags, op.Setup, op.Colours, op.X, op.Status)
		if err != nil {
			return err
		}
		n := op.Grid.Width * op.Grid.Height
		if len(views[0]) != n || len(views[1]) < 4 || len(views[2]) != 4*n*op.Channels ||
			len(views[3]) != len(views[2]) || len(views[4]) != 32 {
			return fmt.Errorf("%d, %d, %d, %d and %d bytes for %d channels of %d pixels",
				len(views[0]), len(views[1]), len(views[2]), len(views[3]), len(views[4]), op.Channels, n)
		}
		if binary.LittleEndian.Uint32(views[1]) != hostSetup {
			return errors.New("there is no set-up")
		}
		scene := Scene{Width: op.Grid.Width, Height: op.Grid.Height, Channels: op.Channels, Flags: views[0],
			Colours: make([]float32, n*op.Channels)}
		copy(bytesOf(scene.Colours), views[2])
		x := make([]float32, 0, len(scene.Colours))
		for _, v := range scene.Exact() {
			x = append(x, float32(v))
		}
		copy(views[3], bytesOf(x))
		copy(views[4], bytesOf([]driver.DiffusionStatus{{Cycles: 1, Converged: 1, Ratio: 0.5}}))
		return nil
	})
}

// views are the bytes of aligned slices.
func (d *hostDevice) views(slices ...driver.Slice) ([][]byte, error) {
	out := make([][]byte, len(slices))
	for i, x := range slices {
		v, err := d.view(x, driver.Align)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}
