//go:build cuda

package cuda

// Diffusion without barriers: beside the CPU, and what goes wrong on the device.

import (
	"errors"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
)

// Twins: after the same number of cycles GPU and CPU differ by rounding only, a twentieth of a level, and say the same.
func TestDiffusionTwins(t *testing.T) {
	counted(t)
	devices := []driver.Device{open(t, Driver), open(t, cpu.Driver)}
	// in which the least that a residual lacks adds up to much
	frame := devicetest.NewScene("large frame", 1001, 1000, 1)
	frame.Frame()
	for _, scene := range append(devicetest.Scenes(7, 300), frame) {
		for _, cycles := range []int{1, 2, 3, 9} {
			var x [2][]float32
			var status [2]driver.DiffusionStatus
			for i, dev := range devices {
				x[i], status[i] = newDiffusionOn(t, dev, scene, 1e-12, cycles).solve()
			}
			size := 1.0
			for _, v := range x[1] {
				size = max(size, float64(v), -float64(v))
			}
			a, b := status[0], status[1]
			if d := devicetest.CompareDiffusion(x[0], x[1], scene.Width, devicetest.DiffusionRounding*size); d != nil ||
				max(a.Update-b.Update, b.Update-a.Update) > float32(2*devicetest.DiffusionRounding*size) {
				t.Errorf("%s, %d cycles: %+v and %+v: %v", scene.Name, cycles, a, b, d)
			}
		}
	}
}

// What is wrong with what is on the device is said as well.
func TestDiffusionFaults(t *testing.T) {
	counted(t)
	dev := open(t, Driver)
	scene := devicetest.NewScene("", 12, 10, 1)
	scene.Fix(3, 3, 1)
	for field, do := range map[string]func(driver.Stream, driver.DiffusionSetup, driver.DiffusionSolve) error{
		"Start": func(s driver.Stream, up driver.DiffusionSetup, op driver.DiffusionSolve) error {
			op.Start = driver.DiffusionContinue
			return errors.Join(s.Run(&up), s.Run(&op))
		},
		"Setup": func(s driver.Stream, up driver.DiffusionSetup, op driver.DiffusionSolve) error {
			op.Grid.Width, op.Grid.Height = 10, 12
			return errors.Join(s.Run(&up), s.Run(&op))
		},
		"Flags": func(s driver.Stream, up driver.DiffusionSetup, op driver.DiffusionSolve) error {
			return errors.Join(s.Run(&driver.Fill{Dst: part(up.Flags, 37, 1), Value: driver.DiffusionBlockDown}), s.Run(&up),
				s.Run(&op))
		},
	} {
		d := newDiffusionOn(t, dev, scene, 1e-12, 5)
		s, up, op := d.s, d.up, d.op
		d.ok(s.Run(&driver.Fill{Dst: op.State, Value: 0}))
		if err := errors.Join(do(s, up, op), s.Wait(t.Context())); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
		if err := errors.Join(s.Upload(up.Flags, [][]byte{scene.Flags}), s.Run(&up), s.Run(&op),
			s.Wait(t.Context())); err != nil {
			t.Errorf("after %s: %v", field, err)
		}
	}
}
