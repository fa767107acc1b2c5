package devicetest

import (
	"math"
	"slices"

	"github.com/polyscan/polyscan/kernels/driver"
)

// half is the scene at half the sides, as a pyramid has it: a pixel is fixed where so many of its four are, or all that
// there are, and an edge closed where one of the two is that it is made of.
func (s *Scene) half() *Scene {
	least := 1
	if s.Method == driver.DiffusionPyramidCautious {
		least = 3
	}
	h := NewScene(s.Name, (s.Width+1)/2, (s.Height+1)/2, s.Channels)
	h.Method = s.Method
	for y := range h.Height {
		for x := range h.Width {
			at := func(dx, dy int) byte { // 0 where there is none
				if 2*x+dx >= s.Width || 2*y+dy >= s.Height {
					return 0
				}
				return s.Flags[(2*y+dy)*s.Width+2*x+dx]
			}
			i := y*h.Width + x
			h.Flags[i] = (at(0, 0)|at(0, 1))&driver.DiffusionShutLeft |
				(at(1, 0)|at(1, 1))&(driver.DiffusionShutRight|driver.DiffusionBlockRight) |
				(at(0, 0)|at(1, 0))&driver.DiffusionShutUp |
				(at(0, 1)|at(1, 1))&(driver.DiffusionShutDown|driver.DiffusionBlockDown)
			fixed := at(0, 0)&1 + at(0, 1)&1 + at(1, 0)&1 + at(1, 1)&1
			pixels := (min(2*x+2, s.Width) - 2*x) * (min(2*y+2, s.Height) - 2*y)
			if int(fixed) >= min(least, pixels) {
				h.Flags[i] |= driver.DiffusionFixed
			}
		}
	}
	return h
}

// Sweeps is what a method of the seed makes of the scene with [driver.DiffusionSolve.Threshold], pixel by pixel in
// double precision, and the cycles of the image itself.
//
//go:norace
func (s *Scene) Sweeps(threshold float64) (x []float64, cycles int) {
	n := len(s.Flags)
	x = make([]float64, s.Channels*n)
	for c := range s.Channels {
		sum, fixed := 0.0, 0
		for i, f := range s.Flags {
			if f&driver.DiffusionFixed != 0 {
				sum += float64(s.Colours[c*n+i])
				fixed++
			}
		}
		for i, f := range s.Flags {
			if x[c*n+i] = sum / float64(max(fixed, 1)); f&driver.DiffusionFixed != 0 {
				x[c*n+i] = float64(s.Colours[c*n+i])
			}
		}
	}
	weights := (&driver.DiffusionSolve{Grid: s.Grid(), Threshold: float32(threshold)}).Weights()
	return x, s.sweepLevel(x, threshold, weights[:])
}

// sweepLevel is Sweeps from what there is in x: first of the level of half the sides, then of this one.
//
//go:norace
func (s *Scene) sweepLevel(x []float64, threshold float64, weights []float32) (cycles int) {
	void := s.Void()
	n := len(s.Flags)
	from := make([][]int, n)
	for i, f := range s.Flags {
		if f&driver.DiffusionFixed == 0 && !void[i] {
			from[i] = slices.DeleteFunc(s.around(i, nil), func(j int) bool { return void[j] })
		}
	}
	if s.Method != driver.DiffusionNaive && max(s.Width, s.Height) > 2 {
		h := s.half()
		m := len(h.Flags)
		coarse := make([]float64, s.Channels*m)
		for c := range s.Channels {
			count := make([]int, m)
			for i := range n {
				to := i/s.Width/2*h.Width + i%s.Width/2
				if h.Flags[to]&driver.DiffusionFixed == 0 || s.Flags[i]&driver.DiffusionFixed != 0 {
					coarse[c*m+to] += x[c*n+i]
					count[to]++
				}
			}
			for i, k := range count {
				coarse[c*m+i] /= float64(k)
			}
		}
		h.sweepLevel(coarse, threshold, weights)
		for i := range x {
			if p := i % n; len(from[p]) > 0 {
				x[i] = coarse[i/n*m+p/s.Width/2*h.Width+p%s.Width/2]
			}
		}
	}
	next := slices.Clone(x)
	plain := 0.0
	for t := range 16 {
		plain += float64(weights[t%len(weights)])
	}
	for half, before := 1, 0.0; ; half++ { // of a cycle
		global := 0.0
		for t := range 16 {
			global = 0
			for i := range x {
				list := from[i%n]
				if len(list) == 0 {
					continue
				}
				sum := 0.0
				for _, j := range list {
					sum += x[i-i%n+j]
				}
				next[i] = x[i] + float64(weights[t%len(weights)])*(sum/float64(len(list))-x[i])
				global += math.Abs(next[i] - x[i])
			}
			copy(x, next)
		}
		if half%2 == 0 && (global <= threshold || math.Abs(before-global)/plain <= threshold) || half/2 >= 1000 {
			return half / 2
		}
		before = global
	}
}
