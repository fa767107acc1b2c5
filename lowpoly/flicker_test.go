package lowpoly_test

import (
	"context"
	"testing"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/devicetest"
	"github.com/polyscan/polyscan/kernels/driver"
	"github.com/polyscan/polyscan/lowpoly"
)

// flicker is the mean absolute change from frame to frame of samples whose source changed by less than 2 levels.
func flicker(t *testing.T, dev *kernels.Device, frames []*devicetest.Picture, vertices int, option func(frame int, before []driver.Point) lowpoly.Options) float64 {
	t.Helper()
	var before *lowpoly.Picture
	var source []byte
	sum, count := 0, 0
	for i, p := range frames {
		var points []driver.Point
		if before != nil {
			points = before.Mesh.Points
		}
		opt := option(i, points)
		opt.Vertices = vertices
		out, err := lowpoly.Convert(context.Background(), dev, imageOf(p), opt)
		if err != nil {
			t.Fatal(err)
		}
		for k := range source {
			if d := int(p.Pixels[k]) - int(source[k]); max(d, -d) < 2 {
				e := int(out.Pixels[k]) - int(before.Pixels[k])
				sum += max(e, -e)
				count++
			}
		}
		before, source = out, p.Pixels
	}
	return float64(sum) / float64(count)
}

// With hysteresis a video flickers a fifth as much as where each frame's vertices are chosen by themselves, as the seeds do; and
// less than with the same random numbers for all frames.
func TestFlicker(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("it takes seconds")
	}
	frames := sequence(t)
	dev, err := kernels.Open(cpu.New(cpu.Options{}), kernels.Config{MemoryBytes: 128 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	for _, n := range []int{500, 2500} {
		alone := flicker(t, dev, frames, n, func(i int, _ []driver.Point) lowpoly.Options { return lowpoly.Options{Seed: uint64(i)} })
		same := flicker(t, dev, frames, n, func(int, []driver.Point) lowpoly.Options { return lowpoly.Options{} })
		kept := flicker(t, dev, frames, n, func(_ int, before []driver.Point) lowpoly.Options {
			return lowpoly.Options{Previous: before, Strength: 3}
		})
		t.Logf("%d vertices: %.3f levels; %.3f with the same seed for all frames, %.3f with a strength of 3", n, alone, same, kept)
		if kept > alone/5 || kept >= same {
			t.Errorf("%d vertices: hysteresis leaves too much", n)
		}
	}
}
