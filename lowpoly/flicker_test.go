package lowpoly_test

import (
	"context"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/internal/race"
	_ "github.com/polyscan/polyscan/internal/shorttest"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/lowpoly"
)

// watched is what there is to see in a video, in levels.
type watched struct {
	flicker float64 // mean absolute change from frame to frame of samples whose source changed by less than 2 levels
	error   float64 // mean absolute difference from the source
	moving  float64 // the same of samples whose source changed by 16 levels or more
}

// watch converts a video.
func watch(t *testing.T, dev *kernels.Device, frames []*devicetest.Picture, opt lowpoly.Options) watched {
	t.Helper()
	v := lowpoly.NewVideo(dev, opt)
	defer v.Close()
	var out, before lowpoly.Result
	var changes, errs, moves mean
	for i, p := range frames {
		out, before = before, out
		if err := v.Convert(context.Background(), imageOf(p), &out); err != nil {
			t.Fatal(err)
		}
		for k, s := range p.Pixels {
			errs.add(out.Data[0][k], s)
			if i == 0 {
				continue
			}
			switch d := int(s) - int(frames[i-1].Pixels[k]); {
			case max(d, -d) < 2:
				changes.add(out.Data[0][k], before.Data[0][k])
			case max(d, -d) >= 16:
				moves.add(out.Data[0][k], s)
			}
		}
	}
	return watched{changes.value(), errs.value(), moves.value()}
}

// mean is of absolute differences.
type mean struct{ sum, n int }

func (m *mean) add(a, b byte) {
	d := int(a) - int(b)
	m.sum += max(d, -d)
	m.n++
}

func (m *mean) value() float64 { return float64(m.sum) / float64(m.n) }

// With hysteresis a video flickers a fifth as much as without: that is, with the same random numbers for all frames.
// For that, colours are off by a level more in the mean, by no more than Hold anywhere, and where the picture moves not
// by much more than they are anyway.
func TestFlicker(t *testing.T) {
	if race.Enabled || testing.Short() {
		t.Skip("it takes seconds")
	}
	frames := sequence(t)
	dev, err := kernels.Open(cpu.New(cpu.Options{}), kernels.Config{MemoryBytes: 128 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	for _, n := range []int{500, 2500, 10_000} {
		without := watch(t, dev, frames, lowpoly.Options{Vertices: n})
		with := watch(t, dev, frames,
			lowpoly.Options{Vertices: n, Strength: lowpoly.DefaultStrength, Hold: lowpoly.DefaultHold})
		t.Logf("%d vertices: flicker %.3f levels, %.3f with hysteresis: %.3f of it; error %.3f, %.3f; where it moves %.3f, %.3f",
			n, without.flicker, with.flicker, with.flicker/without.flicker, without.error, with.error, without.moving,
			with.moving)
		if with.flicker > without.flicker/5 {
			t.Errorf("%d vertices: hysteresis leaves too much", n)
		}
		if with.error > without.error+1.25 || with.moving > without.moving+lowpoly.DefaultHold {
			t.Errorf("%d vertices: the video is too far from its source", n)
		}
	}
}
