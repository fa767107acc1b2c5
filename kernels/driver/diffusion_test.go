package driver_test

import (
	"math"
	"testing"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Only what is said to have weights has any.
func TestDiffusionPlainSweeps(t *testing.T) {
	plain := (&driver.DiffusionSolve{}).Weights()
	for i, w := range plain {
		if w != 1 {
			t.Errorf("weight %d is %v without a threshold", i, w)
		}
	}
	greedy := driver.DiffusionPyramidGreedy
	for _, c := range []struct {
		name      string
		grid      driver.DiffusionGrid
		threshold float32
		plain     bool
	}{
		{"greedy to a threshold", driver.DiffusionGrid{Method: greedy}, 1, false},
		{"greedy to a tolerance", driver.DiffusionGrid{Method: greedy}, 0, true},
		{"barriers", driver.DiffusionGrid{Method: greedy, Barriers: true}, 1, true},
		{"one way", driver.DiffusionGrid{Method: greedy, OneWay: true}, 1, true},
		{"cautious", driver.DiffusionGrid{Method: driver.DiffusionPyramidCautious}, 1, true},
		{"naive", driver.DiffusionGrid{Method: driver.DiffusionNaive}, 1, true},
	} {
		got := (&driver.DiffusionSolve{Grid: c.grid, Threshold: c.threshold}).Weights()
		if (got == plain) != c.plain {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// A sweep multiplies an eigenvector by 1-wλ, with λ from 0 to 2 where edges are open both ways: none grows, from the
// first sweep to the last. A value that is off by 1 puts others off by at most 3 in all on the way and 2 in the end, so
// the largest error grows by no more than that. That is on a plane without given pixels; an image mirrors itself at its
// border, which changes nothing.
func TestDiffusionWeights(t *testing.T) {
	weights := (&driver.DiffusionSolve{Grid: driver.DiffusionGrid{Method: driver.DiffusionPyramidGreedy},
		Threshold: 1}).Weights()
	const side, middle = 2*len(weights) + 3, len(weights) + 1
	var plane [side][side]float64
	plane[middle][middle] = 1
	var parts [1 + 1000]float64
	for i := range parts {
		parts[i] = 1
	}
	sum, spread := 0.0, 0.0
	for sweep, weight := range weights {
		w := float64(weight)
		sum += w
		for i := range parts {
			if parts[i] *= 1 - w*2*float64(i)/float64(len(parts)-1); math.Abs(parts[i]) > 1 {
				t.Fatalf("after %d sweeps %v of part %d", sweep+1, parts[i], i)
			}
		}
		before := plane
		spread = 0
		for y := 1; y < side-1; y++ {
			for x := 1; x < side-1; x++ {
				mean := (before[y-1][x] + before[y+1][x] + before[y][x-1] + before[y][x+1]) / 4
				plane[y][x] += w * (mean - before[y][x])
				spread += math.Abs(plane[y][x])
			}
		}
		if spread > 3 {
			t.Errorf("after %d sweeps a value has spread to %v", sweep+1, spread)
		}
	}
	if spread > 2 {
		t.Errorf("in the end a value has spread to %v", spread)
	}
	if sum != 33.75 || weights[len(weights)-1] != 1 {
		t.Errorf("the sum is %v, and the last weight %v", sum, weights[len(weights)-1])
	}
}
