package cpu

import (
	"math"
	"math/bits"
	"slices"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels/driver"
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

// All instructions give the same bits, and closed edges let nothing through, not even what isn't a number. Behind the
// pixels anything may change up to a multiple of 16, and nothing beyond.
func TestSweepRow(t *testing.T) {
	nan := float32(math.NaN())
	for _, l := range levels() {
		atLevel(t, l, func() {
			rng := seed.New(t, 9, uint64(l))
			for n := 1; n <= ringRow-2*ringPad; n++ {
				for _, walls := range []bool{false, true} {
					weight := float32(1)
					if !walls {
						weight = 0.5 + 25*rng.Float32()
					}
					var up, x, down, inv [ringRow]float32
					var open [ringRow]uint8
					for i := range x {
						up[i], x[i], down[i] = rng.Float32(), rng.Float32(), rng.Float32()
					}
					for i := range n {
						if open[i] = openAll; walls {
							open[i] = uint8(rng.Uint32()) & openAll
						}
						if i%7 == 3 {
							open[i] = 0
						}
						if open[i] != 0 {
							inv[i] = 1 / float32(bits.OnesCount8(open[i]))
						}
						if walls && open[i]&openUp == 0 {
							up[ringPad+i] = nan
						}
						if walls && open[i]&openDown == 0 {
							down[ringPad+i] = nan
						}
					}
					want := up
					for i := range n {
						at := ringPad + i
						var parts [4]float32
						for k, v := range []float32{x[at+1], x[at-1], down[at], up[at]} {
							if !walls || open[i]>>k&1 != 0 {
								parts[k] = v - x[at]
							}
						}
						want[at] = x[at] + float32(inv[i]*float32(weight*(parts[0]+parts[1]+parts[2]+parts[3])))
					}
					sweepRow(&up, &up, &x, &down, &inv, &open, n, weight, walls) // into the row above, as passes do
					most := ringPad + (n+15)&^15
					copy(want[ringPad+n:most], up[ringPad+n:most])
					if !slices.Equal(bytesOf(up[:]), bytesOf(want[:])) {
						t.Fatalf("%v, %d pixels, walls %v: %v instead of %v", l, n, walls, up, want)
					}
				}
			}
		})
	}
}

// All instructions give the same sum, which is about that in double precision, and the largest distance.
func TestApartBy(t *testing.T) {
	var sums [1 + 100]float32
	for _, l := range levels() {
		atLevel(t, l, func() {
			rng := seed.New(t, 10, 10)
			for n := range sums {
				a, b := make([]float32, n), make([]float32, n+3)
				want, most := 0.0, float32(0)
				for i := range b {
					b[i] = rng.Float32() - 0.5
					if i < n {
						a[i] = rng.Float32() - 0.5
						want += math.Abs(float64(a[i]) - float64(b[i]))
						most = max(most, a[i]-b[i], b[i]-a[i])
					}
				}
				var all lanes
				var c pieceChange
				all.add(a, b)
				all.into(&c)
				sum, m := float32(c.sum), c.most
				if math.Abs(float64(sum)-want) > 1e-5 || m != most || l > 0 && sum != sums[n] {
					t.Errorf("%v, %d values: %v and %v instead of %v and %v", l, n, sum, m, want, most)
				}
				sums[n] = sum
			}
		})
	}
}

// A pass is its sweeps one after another over the whole image, to the bit and at every level: images of one row and one
// column, those that end inside a tile and a vector, and those of several tiles and bands. Zeros keep their signs.
// That is so with weights and without.
func TestPass(t *testing.T) {
	opened, err := Driver.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	sizes := [][2]int{{1, 1}, {1, 40}, {40, 1}, {2, 2}, {7, 33}, {15, 3}, {16, 16}, {17, 17}, {129, 5}, {160, 64}, {300, 35},
		{5, 31}, {3, 32}, {33, 50}, {20, 101}, {257, 513}}
	if testing.Short() {
		sizes = sizes[:len(sizes)-1]
	}
	for _, size := range sizes {
		w, h := size[0], size[1]
		rng := seed.New(t, uint64(w), uint64(h))
		l := sweepLevel{lattice: lattice{w: w, h: h, inv: make([]float32, w*h), open: make([]uint8, w*h)}}
		flags := make([]byte, w*h)
		start, want := make([]float32, 2*w*h), make([]float32, 2*w*h)
		for i := range start {
			start[i] = rng.Float32()
			if i >= w*h && i%w < w/2 { // zeros of both signs, and where they end the least values that there are
				start[i] = math.Float32frombits(uint32(rng.IntN(2))<<31 | uint32(rng.IntN(20)/19))
			}
		}
		for i := range flags {
			if open := openEdges(flags, i, w); rng.IntN(5) > 0 && open != 0 {
				l.open[i], l.inv[i] = open, 1/float32(bits.OnesCount8(open))
			}
		}
		ones := (&driver.DiffusionSolve{}).Weights()
		weighed := (&driver.DiffusionSolve{Grid: driver.DiffusionGrid{Method: driver.DiffusionPyramidGreedy},
			Threshold: 1}).Weights()
		for _, weights := range [][8]float32{ones, weighed} {
			copy(want, start)
			var sum float64
			for t := range passSweeps {
				sum = 0
				before := slices.Clone(want)
				for i := range want {
					of := i % (w * h)
					v, total := before[i], float32(0)
					x, y := of%w, of/w
					inside := [4]bool{x+1 < w, x > 0, y+1 < h, y > 0}
					for k, step := range []int{1, -1, w, -w} { // right, left, down, up
						if inside[k] { // pixels without an equation have flows, too, times zero
							total += before[i+step] - v
						} else {
							total += 0
						}
					}
					want[i] = v + float32(l.inv[of]*float32(weights[t%len(weights)]*total))
					sum += math.Abs(float64(want[i]) - float64(v))
				}
			}
			for _, level := range levels() {
				atLevel(t, level, func() {
					got := make([]float32, len(start))
					s := &sweeper{dev: opened.(*device), stop: &stopFlag{}, channels: 2, old: make([]float32, len(start))}
					s.weigh(weights)
					p := &pass{sweeper: s, level: &l, from: start, to: got, global: true}
					if _, err := p.run(); err != nil {
						t.Fatal(err)
					}
					if !slices.Equal(bytesOf(got), bytesOf(want)) {
						t.Errorf("%v, %dx%d, weights %v: not the sweeps one after another", level, w, h, weights)
					}
					if off := math.Abs(s.global[0] - sum); off > 1e-5*sum {
						t.Errorf("%v, %dx%d: the global difference is %v instead of %v", level, w, h, s.global[0], sum)
					}
				})
			}
		}
	}
}

// All instructions give the same image, to the bit, and the same numbers about it, cycle by cycle.
func TestBoxLevels(t *testing.T) {
	for _, size := range [][2]int{{1, 5}, {3, 3}, {9, 4}, {10, 31}, {17, 17}, {63, 40}, {100, 9}, {131, 67}} {
		s := devicetest.NewScene("levels", size[0], size[1], 2)
		rng := seed.New(t, uint64(size[0]), uint64(size[1]))
		for range 1 + size[0]*size[1]/20 {
			s.Fix(rng.IntN(s.Width), rng.IntN(s.Height), rng.Float32(), rng.Float32())
		}
		var want [3][]float32
		var status [3]driver.DiffusionStatus
		for _, l := range levels() {
			atLevel(t, l, func() {
				d := newDiffusion(t, 2, s, 1e-9)
				d.ok(d.s.Run(&d.setup))
				d.solve.Cycles = 1
				for k := range want {
					x, got := d.next()
					if l == 0 {
						want[k], status[k] = x, got
					}
					if !slices.Equal(bytesOf(x), bytesOf(want[k])) || got != status[k] {
						t.Errorf("%v, %dx%d, cycle %d: not the same: %+v instead of %+v", l, s.Width, s.Height, k, got, status[k])
					}
				}
			})
		}
	}
}
