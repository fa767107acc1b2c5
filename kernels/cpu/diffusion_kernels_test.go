package cpu

import (
	"math"
	"slices"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/internal/seed"
)

// All instructions give the same bits, and closed edges let nothing through, not even what isn't a number.
func TestRowFlows(t *testing.T) {
	nan := float32(math.NaN())
	for _, l := range levels() {
		atLevel(t, l, func() {
			rng := seed.New(t, 7, uint64(l))
			for n := 1; n <= 70; n++ {
				for _, all := range []bool{false, true} {
					open := make([]uint8, n)
					var rows [3][]float32
					for k := range rows {
						rows[k] = make([]float32, n)
						for i := range rows[k] {
							rows[k][i] = rng.Float32()
						}
					}
					up, x, down := rows[0], rows[1], rows[2]
					for i := range open {
						if open[i] = uint8(rng.Uint32()); all {
							open[i] = openAll
						}
					}
					open[0] &^= openLeft | openLeft<<openInner
					open[n-1] &^= openRight | openRight<<openInner
					// Where nobody looks there may be anything.
					for i := range open {
						if open[i]&openUp == 0 {
							up[i] = nan
						}
						if open[i]&openDown == 0 {
							down[i] = nan
						}
					}
					got, want := make([]float32, n+16), make([]float32, n+16)
					for i := range got {
						got[i], want[i] = 5, 5
					}
					rowFlows(got[:n], up, x, down, open)
					for i, o := range open {
						var parts [4]float32
						for k, j := range [][]float32{x[min(i+1, n-1):], x[max(i-1, 0):], down[i:], up[i:]} {
							if o>>k&1 != 0 {
								parts[k] = j[0] - x[i]
							}
						}
						want[i] = (parts[0] + parts[1]) + (parts[2] + parts[3])
					}
					if !slices.Equal(bytesOf(got), bytesOf(want)) {
						t.Fatalf("%v, %d pixels: %v instead of %v", l, n, got, want)
					}
				}
			}
		})
	}
}

// All instructions give the same bits, in any part of a level.
func TestNodeResiduals(t *testing.T) {
	g := setUpGraph(t, 1, devicetest.BarrierScenes(6, 90)[0])
	rng := seed.New(t, 8, 8)
	for k := 0; g.table[k] > 0; k++ {
		l := g.level(k)
		l.x, l.b, l.r = make([]nodeValues, l.n), make([]nodeValues, l.n), make([]nodeValues, l.n)
		for i := range l.n {
			for c := range l.x[i] {
				l.x[i][c], l.b[i][c] = rng.Float32(), rng.Float32()-0.5
			}
		}
		l.residualsGo(0, l.n)
		want := l.r
		for _, at := range levels() {
			atLevel(t, at, func() {
				l.r = make([]nodeValues, l.n)
				cut := rng.IntN(l.n + 1)
				l.residuals(cut, l.n)
				if slices.IndexFunc(l.r[:cut], func(v nodeValues) bool { return v != nodeValues{} }) >= 0 {
					t.Errorf("%v, level %d, as of node %d: those before it, too", at, k, cut)
				}
				l.residuals(0, cut)
				if !slices.Equal(l.r, want) {
					t.Errorf("%v, level %d: not the same", at, k)
				}
			})
		}
	}
}
