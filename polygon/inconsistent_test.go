package polygon

import (
	"context"
	"errors"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
)

// A device that returns numbers that can't all be right gets an error, never a verdict and never a panic.
func TestInconsistentDevice(t *testing.T) {
	rgb := noise(40, 30, driver.RGB8)
	gray16 := noise(40, 30, driver.Gray16(16))
	for _, c := range []struct {
		name  string
		frame kernels.Picture
		p     devicetest.Perturbation
	}{
		{"a sample too many in the histogram", rgb,
			devicetest.Perturbation{Hist: func(_ *driver.MaskReduce, h []uint32) { h[7]++ }}},
		{"an empty histogram", rgb, devicetest.Perturbation{Hist: func(_ *driver.MaskReduce, h []uint32) { clear(h) }}},
		{"a sample in the wrong bin", rgb, devicetest.Perturbation{Hist: func(_ *driver.MaskReduce, h []uint32) {
			for v := range h {
				if h[v] > 0 {
					h[v]--
					h[(v+1)%256]++
					return
				}
			}
		}}},
		{"a wrong sum", rgb, devicetest.Perturbation{Stats: func(_ *driver.MaskReduce, s []driver.MaskStats) {
			s[1].Sum++
		}}},
		{"a pixel less in one channel", rgb,
			devicetest.Perturbation{Stats: func(_ *driver.MaskReduce, s []driver.MaskStats) { s[2].Count-- }}},
		{"a maximum below the truth, 16 bits", gray16,
			devicetest.Perturbation{Stats: func(_ *driver.MaskReduce, s []driver.MaskStats) {
				s[0].MaxKey = s[0].MinKey &^ (1<<32 - 1)
			}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dev, err := kernels.Open(devicetest.Perturb(cpu.Driver, c.p), kernels.Config{MemoryBytes: 16 << 20})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := dev.Close(); err != nil {
					t.Error(err)
				}
			}()
			set := mustSet(t, Region{Name: "r", Rings: []Ring{rectangle(3, 4, 20, 11)}, Limits: []string{"mean < 255"}})
			r, err := Reduce(context.Background(), dev, set, c.frame, Reductions{Statistics: AllStatistics},
				driver.MethodDefault)
			if !errors.Is(err, ErrInconsistent) || r != nil {
				t.Errorf("result %v, error %v", r, err)
			}
		})
	}
}
