package cpu

import (
	"math"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/internal/seed"
)

// slowestOf is 1 over the least eigenvalue of the tridiagonal matrix that steps of conjugate gradients make, by
// bisection: as many pivots are negative as eigenvalues are less.
func slowestOf(alphas, betas []float64) float64 {
	less := func(x float64) bool {
		pivot := 1.0
		for k, alpha := range alphas {
			d := 1/alpha - x
			if k > 0 {
				off := betas[k] / (alphas[k-1] * alphas[k-1])
				d += betas[k]/alphas[k-1] - off/pivot
			}
			if pivot = d; pivot < 0 {
				return true
			}
		}
		return false
	}
	lo, hi := 0.0, 1/alphas[0]
	for range 60 {
		if mid := (lo + hi) / 2; less(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return 2 / (lo + hi)
}

// The slowest mode is that of the matrix of Lanczos, or somewhat faster.
func TestSlowMode(t *testing.T) {
	r := seed.New(t, 5, 43)
	for trial := range 200 {
		// Conjugate gradients, of a matrix with eigenvalues as behind the preconditioner: most are near 1.
		const n = 60
		eigenvalues, res, p := make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range n {
			eigenvalues[i] = 1 - 0.7*math.Pow(r.Float64(), 3)
			res[i] = r.NormFloat64()
		}
		var m slowMode
		var alphas, betas []float64
		rho := 0.0
		for step := 0; step < 7; step++ {
			before := rho
			rho = 0
			for _, v := range res {
				rho += v * v
			}
			beta := 0.0
			if step > 0 {
				beta = rho / before
			}
			pq := 0.0
			for i := range p {
				p[i] = res[i] + beta*p[i]
				pq += eigenvalues[i] * p[i] * p[i]
			}
			alpha := rho / pq
			for i := range p {
				res[i] -= alpha * eigenvalues[i] * p[i]
			}
			alphas, betas = append(alphas, alpha), append(betas, beta)
			m.step(alpha, beta)
			if want := slowestOf(alphas, betas); m.Inverse > want*(1+1e-9) || m.Inverse < 0.6*want {
				t.Fatalf("trial %d, step %d: %v instead of %v", trial, step, m.Inverse, want)
			}
		}
	}
}

// A corridor one pixel wide and thousands long takes few cycles: there is room for its levels, and what lies side by
// side in a block, but far apart on the way, does not become one node.
func TestDiffusionLongCorridor(t *testing.T) {
	s := devicetest.NewScene("", 83, 104, 1)
	s.Snake(1)
	x, status := newDiffusion(t, 2, s, grayLevel/2).run()
	if status.Converged != 1 || status.Cycles > 4 {
		t.Errorf("%+v", status)
	}
	// The way goes to and fro, at the same pace.
	length := float64(len(x) - 1)
	for i, v := range x {
		y, at := i/s.Width, i%s.Width
		if y%2 == 1 {
			at = s.Width - 1 - at
		}
		if want := float64(y*s.Width+at) / length; math.Abs(float64(v)-want) > 2*float64(status.Estimate) {
			t.Fatalf("pixel %d is %v instead of %v: %+v", i, v, want, status)
		}
	}
}
