package cpu

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/polyscan/polyscan/kernels/devicetest"
)

// honest is how many times an estimate the error is at most, of twenty thousand random images as of the scenes of devicetest.
const honest = 2

// What holds of every diffusion without barriers: given values stay, no other is beyond them, and the estimate is honest.
func TestDiffusionProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w, h := rapid.IntRange(1, 90).Draw(rt, "width"), rapid.IntRange(1, 90).Draw(rt, "height")
		s := devicetest.NewScene("random", w, h, rapid.IntRange(1, 4).Draw(rt, "channels"))
		low, high := math.Inf(1), math.Inf(-1)
		for range rapid.IntRange(1, 1+w*h/4).Draw(rt, "fixed") {
			v := float32(rapid.IntRange(0, 255).Draw(rt, "value")) / 255
			s.Fix(rapid.IntRange(0, w-1).Draw(rt, "x"), rapid.IntRange(0, h-1).Draw(rt, "y"), v)
		}
		for i, v := range s.Colours {
			if s.Flags[i%(w*h)] != 0 {
				low, high = min(low, float64(v)), max(high, float64(v))
			}
		}
		x, status := newDiffusion(t, 1, s, grayLevel/4).run()
		if status.Converged != 1 || !(status.Estimate <= grayLevel/4) {
			rt.Fatalf("%dx%d: %+v", w, h, status)
		}
		allowed := honest*float64(status.Estimate) + devicetest.DiffusionRounding
		for i, v := range x {
			if s.Flags[i%(w*h)] != 0 && v != s.Colours[i] {
				rt.Fatalf("value %d was given as %v and is %v", i, s.Colours[i], v)
			}
			if float64(v) < low-allowed || float64(v) > high+allowed {
				rt.Fatalf("value %d is %v, those given are %v to %v", i, v, low, high)
			}
		}
		if d := devicetest.CompareDiffusion(x, s.Refine(x), w, allowed); d != nil {
			rt.Fatalf("%+v: %v", status, d)
		}
	})
}
