package polygon

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
)

// bigPoint is a point in 1/256 px.
type bigPoint struct{ x, y *big.Rat }

// clippedArea is the oracle for rings that don't cross, holes in the other direction: each is clipped by the sides of a
// pixel's square, one after the other, and the areas of what is left are added up, in 1/65,536 px.
func clippedArea(rings []Ring, px, py int) *big.Rat {
	sum := new(big.Rat)
	for _, ring := range rings {
		var points []bigPoint
		for _, p := range ring {
			points = append(points, bigPoint{big.NewRat(int64(quantise(p.X)), 1), big.NewRat(int64(quantise(p.Y)), 1)})
		}
		for side := range 4 {
			at := big.NewRat([]int64{int64(px) * 256, int64(px)*256 + 256, int64(py) * 256, int64(py)*256 + 256}[side],
				1)
			// How far inside of the side a point is.
			inside := func(p bigPoint) *big.Rat {
				v := p.x
				if side >= 2 {
					v = p.y
				}
				d := new(big.Rat).Sub(v, at)
				if side%2 == 1 {
					d.Neg(d)
				}
				return d
			}
			var kept []bigPoint
			for i, p := range points {
				q := points[(i+1)%len(points)]
				dp, dq := inside(p), inside(q)
				if dp.Sign() >= 0 {
					kept = append(kept, p)
				}
				if dp.Sign()*dq.Sign() < 0 {
					f := new(big.Rat).Quo(dp, new(big.Rat).Sub(dp, dq))
					between := func(a, b *big.Rat) *big.Rat {
						d := new(big.Rat).Sub(b, a)
						return d.Add(a, d.Mul(d, f))
					}
					kept = append(kept, bigPoint{between(p.x, q.x), between(p.y, q.y)})
				}
			}
			points = kept
		}
		for i, p := range points {
			q := points[(i+1)%len(points)]
			sum.Add(sum, new(big.Rat).Mul(p.x, q.y))
			sum.Sub(sum, new(big.Rat).Mul(q.x, p.y))
		}
	}
	return sum.Abs(sum.Quo(sum, big.NewRat(2, 1)))
}

// sliverArea is the oracle for all rings: between the columns at which an edge begins, ends or crosses another, within
// the pixel, the winding numbers from the top downwards say what is inside. In 1/65,536 px.
func sliverArea(rings []Ring, fill FillRule, px, py int) *big.Rat {
	type segment struct{ a, b bigPoint }
	var all []segment
	for _, ring := range rings {
		for i := range ring {
			p, q := ring[i], ring[(i+1)%len(ring)]
			s := segment{bigPoint{big.NewRat(int64(quantise(p.X)), 1), big.NewRat(int64(quantise(p.Y)), 1)},
				bigPoint{big.NewRat(int64(quantise(q.X)), 1), big.NewRat(int64(quantise(q.Y)), 1)}}
			if s.a.x.Cmp(s.b.x) != 0 {
				all = append(all, s)
			}
		}
	}
	left, right := big.NewRat(int64(px)*256, 1), big.NewRat(int64(px)*256+256, 1)
	top, bottom := big.NewRat(int64(py)*256, 1), big.NewRat(int64(py)*256+256, 1)
	at := func(s segment, x *big.Rat) *big.Rat {
		f := new(big.Rat).Quo(new(big.Rat).Sub(x, s.a.x), new(big.Rat).Sub(s.b.x, s.a.x))
		return f.Add(s.a.y, f.Mul(f, new(big.Rat).Sub(s.b.y, s.a.y)))
	}
	slope := func(s segment) *big.Rat {
		return new(big.Rat).Quo(new(big.Rat).Sub(s.b.y, s.a.y), new(big.Rat).Sub(s.b.x, s.a.x))
	}
	columns := []*big.Rat{left, right}
	add := func(x *big.Rat) {
		if x.Cmp(left) > 0 && x.Cmp(right) < 0 {
			columns = append(columns, x)
		}
	}
	for i, s := range all {
		add(s.a.x)
		add(s.b.x)
		m := slope(s)
		for _, edge := range []*big.Rat{top, bottom} {
			if m.Sign() != 0 {
				d := new(big.Rat).Sub(edge, s.a.y)
				add(d.Add(d.Quo(d, m), s.a.x))
			}
		}
		for _, o := range all[:i] {
			if n := slope(o); m.Cmp(n) != 0 {
				// at(s, 0) + m x = at(o, 0) + n x
				d := new(big.Rat).Sub(at(o, new(big.Rat)), at(s, new(big.Rat)))
				add(d.Quo(d, new(big.Rat).Sub(m, n)))
			}
		}
	}
	slices.SortFunc(columns, (*big.Rat).Cmp)
	area := new(big.Rat)
	for i, to := range columns[1:] {
		from := columns[i]
		x := new(big.Rat).Add(from, to)
		x.Quo(x, big.NewRat(2, 1))
		type level struct {
			y    *big.Rat
			sign int32
		}
		var levels []level
		for _, s := range all {
			if (s.a.x.Cmp(x) < 0) != (s.b.x.Cmp(x) < 0) {
				levels = append(levels, level{at(s, x), int32(s.a.x.Cmp(s.b.x))})
			}
		}
		slices.SortFunc(levels, func(a, b level) int { return a.y.Cmp(b.y) })
		var winding int32
		high := new(big.Rat)
		y := top
		for _, l := range append(levels, level{bottom, 0}) {
			next := l.y
			if next.Cmp(top) < 0 {
				next = top
			} else if next.Cmp(bottom) > 0 {
				next = bottom
			}
			if winding != 0 && fill == NonZero || winding%2 != 0 && fill == EvenOdd {
				high.Add(high, new(big.Rat).Sub(next, y))
			}
			y, winding = next, winding+l.sign
		}
		area.Add(area, high.Mul(high, new(big.Rat).Sub(to, from)))
	}
	return area
}

// nearestWhole is the nearest integer to a fraction, the even one of two.
func nearestWhole(v *big.Rat) int64 {
	floor := new(big.Int).Div(v.Num(), v.Denom())
	rest := new(big.Rat).Sub(v, new(big.Rat).SetInt(floor))
	switch c := rest.Cmp(big.NewRat(1, 2)); {
	case c > 0 || c == 0 && floor.Bit(0) == 1:
		floor.Add(floor, big.NewInt(1))
	}
	return floor.Int64()
}

// weightsOf are the weights that a set's coverage has for region i, of all pixels of a frame: what its centre says and
// what the list adds.
func weightsOf(t testing.TB, s *Set, i, width, height int) []int64 {
	t.Helper()
	c, err := s.cover(t.Context(), onHostNow, allOf(s), width, height)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]int64, width*height)
	for y := range height {
		spans(rowTurns(nil, s.edgesOf(i), y), s.regions[i].Fill, func(x0, x1 int) {
			for x := max(x0, 0); x < min(x1, width); x++ {
				out[y*width+x] = 1 << driver.WeightBits
			}
		})
	}
	last := -1
	for _, p := range c.pixels[c.starts[i]:c.starts[i+1]] {
		at := p.Y()*width + p.X()
		if at <= last || p.X() >= width || p.Y() >= height || p.Weight() == 0 {
			t.Fatalf("pixel (%d, %d) with %d lies behind number %d", p.X(), p.Y(), p.Weight(), last)
		}
		last = at
		out[at] += int64(p.Weight())
	}
	return out
}

func onHostNow(f func(pause func() error) error) error { return f(func() error { return nil }) }

func coverSet(t testing.TB, fill FillRule, rings ...Ring) *Set {
	t.Helper()
	s, err := NewSet([]Region{{Rings: rings, Fill: fill}}, Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// checkShares compares the weights of a region with the oracle's.
func checkShares(t *testing.T, what string, fill FillRule, rings []Ring, width, height int,
	area func(x, y int) *big.Rat) bool {
	t.Helper()
	got := weightsOf(t, coverSet(t, fill, rings...), 0, width, height)
	for y := range height {
		for x := range width {
			if want := area(x, y); got[y*width+x] != nearestWhole(want) {
				t.Errorf("%s, %v, %v: pixel (%d, %d) weighs %d, want %s", what, fill, rings, x, y, got[y*width+x],
					want.FloatString(6))
				return false
			}
		}
	}
	return true
}

// trials is how many there are, in short tests and in long ones.
func trials(short, long int) int {
	if testing.Short() {
		return short
	}
	return long
}

// starRing doesn't cross itself: vertices around a centre, in the grid's steps.
func starRing(g *rand.Rand, x, y, least, most float64, n int, step float64) Ring {
	var r Ring
	for i := range n {
		sin, cos := sinCos(360 * (float64(i) + 0.8*g.Float64()) / float64(n))
		d := least + (most-least)*g.Float64()
		at := func(v float64) float64 { return float64(int(v/step)) * step }
		r = append(r, Point{at(x + d*cos), at(y + d*sin)})
	}
	return r
}

// TestSharesOfSimpleRings compares with clipping, with holes and without, on coarse and fine grids, inside of the frame
// and around it.
func TestSharesOfSimpleRings(t *testing.T) {
	g := seed.New(t, 11, 18)
	for k := range trials(40, 400) {
		w, h := 1+g.IntN(9), 1+g.IntN(9)
		step := []float64{1. / 256, 1. / 256, 0.5, 1, 0.125}[k%5]
		cx, cy := float64(w)*g.Float64(), float64(h)*g.Float64()
		rings := []Ring{starRing(g, cx, cy, 3, 7, 3+g.IntN(9), step)}
		if k%3 == 0 { // a hole; the area of both in one direction is not what both are
			hole := starRing(g, cx, cy, 0.5, 1, 3+g.IntN(4), 1./256)
			slices.Reverse(hole)
			rings = append(rings, hole)
			inner := rings[0]
			if step > 0.2 || len(inner) < 6 {
				continue // may cross
			}
		}
		fill := FillRule(k % 2)
		checkShares(t, fmt.Sprint("star ", k), fill, rings, w, h, func(x, y int) *big.Rat {
			return clippedArea(rings, x, y)
		})
	}
}

// TestSharesBetweenWeights: of rings whose slopes halve a step of the grid many pixels have shares right between two
// weights, and are taken in doubles no more; so are rows along level edges.
func TestSharesBetweenWeights(t *testing.T) {
	const px = 256
	for k, ring := range [][][2]int{
		// Diagonals, a right angle, a slope of one half, level edges.
		{{3*px + 1, 0}, {7 * px, 4*px - 1}, {3*px + 1, 8*px - 2}, {1, 4*px - 1}},
		{{1, 1}, {8*px - 1, 1}, {8*px - 1, 8*px - 1}, {px + 3, 7*px + 3}},
		{{3, 5}, {7*px + 3, 3*px + 5 + px/2}, {4*px + 1, 8*px - 1}, {5, 6*px + 1}},
		{{3, px + 128}, {4 * px, px + 128}, {4 * px, 3*px + 1}, {8*px - 1, 3*px + 1}, {6 * px, 8 * px}, {px, 8*px - 3}},
	} {
		var r Ring
		for _, at := range ring {
			r = append(r, Point{float64(at[0]) / px, float64(at[1]) / px})
		}
		checkShares(t, fmt.Sprint("ring ", k), NonZero, []Ring{r}, 9, 9, func(x, y int) *big.Rat {
			return clippedArea([]Ring{r}, x, y)
		})
	}
}

// TestSharesOfCrossingRings compares with slivers: any vertices, coarse grids where all meets, and repeated ones.
func TestSharesOfCrossingRings(t *testing.T) {
	g := seed.New(t, 12, 18)
	for k := range trials(50, 500) {
		w, h := 1+g.IntN(4), 1+g.IntN(4)
		var rings []Ring
		for range 1 + g.IntN(3) {
			var r Ring
			step := []float64{1. / 256, 0.5, 1, 0.25}[g.IntN(4)]
			for range 3 + g.IntN(6) {
				r = append(r, Point{float64(g.IntN(int(float64(w+4)/step)+1))*step - 2,
					float64(g.IntN(int(float64(h+4)/step)+1))*step - 2})
			}
			rings = append(rings, r)
		}
		for _, fill := range []FillRule{NonZero, EvenOdd} {
			if !checkShares(t, fmt.Sprint("case ", k), fill, rings, w, h, func(x, y int) *big.Rat {
				return sliverArea(rings, fill, x, y)
			}) {
				return
			}
		}
	}
}

// FuzzCover: shares of any rings are the oracle's.
func FuzzCover(f *testing.F) {
	f.Add([]byte{0, 1, 0, 0, 4, 0, 0, 0, 0, 4, 0, 0, 4, 0, 4})
	f.Add([]byte{1, 250, 3, 7, 1, 128, 2, 2, 128, 1, 3, 128, 0, 2, 128, 255, 0, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 13 || len(data) > 1+10*4 {
			return
		}
		const width, height = 3, 2
		var ring Ring
		for at := data[1:]; len(at) >= 4; at = at[4:] {
			place := func(px, part byte) float64 { return float64(int(px%6)-1) + float64(part)/driver.Subpixel }
			ring = append(ring, Point{place(at[0], at[1]), place(at[2], at[3])})
		}
		if len(ring) < 3 {
			return
		}
		fill := FillRule(data[0] % 2)
		rings := []Ring{ring}
		checkShares(t, "fuzz", fill, rings, width, height, func(x, y int) *big.Rat {
			return sliverArea(rings, fill, x, y)
		})
	})
}

// BenchmarkCover finds the shares of a ring of 126 edges in a frame of 10240x4096.
func BenchmarkCover(b *testing.B) {
	g := rand.New(rand.NewPCG(1, 126))
	s := coverSet(b, NonZero, starRing(g, 5120, 2048, 1000, 2000, 126, 1./256))
	n := 0
	for b.Loop() {
		c, err := s.cover(b.Context(), onHostNow, allOf(s), 10240, 4096)
		if err != nil {
			b.Fatal(err)
		}
		n = len(c.pixels)
	}
	b.ReportMetric(float64(n), "pixels")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(max(n, 1)), "ns/pixel")
}

// BenchmarkCovered weighs the pixels of 1000 hexagons by fractional coverage: finding the shares alone, and all of a
// call whose set is new.
func BenchmarkCovered(b *testing.B) {
	g := rand.New(rand.NewPCG(1, 6))
	var hexagons []Region
	for i := range 1000 {
		x, y := 40+float64(i%40)*70+g.Float64(), 30+float64(i/40)*55+g.Float64()
		hexagons = append(hexagons, Region{Rings: []Ring{starRing(g, x, y, 30, 32, 6, 1./256)}})
	}
	set := func() *Set {
		s, err := NewSet(hexagons, Bounds{})
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	least := func(b *testing.B, f func(s *Set)) {
		took := time.Hour // others use the machine, too
		for b.Loop() {
			s := set()
			begun := time.Now()
			f(s)
			took = min(took, time.Since(begun))
		}
		b.ReportMetric(float64(took), "min-ns/op")
	}
	b.Run("shares", func(b *testing.B) {
		least(b, func(s *Set) {
			if _, err := s.cover(b.Context(), onHostNow, allOf(s), 2880, 1440); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("call", func(b *testing.B) {
		dev, err := kernels.Open(cpu.New(cpu.Options{Threads: 1}), kernels.Config{MemoryBytes: 256 << 20})
		if err != nil {
			b.Fatal(err)
		}
		defer dev.Close()
		f := noise(2880, 1440, driver.Gray8)
		for _, r := range []Reductions{{}, {Covered: &CoveredSpec{}}} {
			b.Run(fmt.Sprint("covered ", r.Covered != nil), func(b *testing.B) {
				least(b, func(s *Set) {
					if _, err := Reduce(b.Context(), dev, s, f, r, 0); err != nil {
						b.Fatal(err)
					}
				})
			})
		}
	})
}
