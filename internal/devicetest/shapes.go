// The fixed shapes of cases: every class of geometry that has gone wrong somewhere.

package devicetest

import (
	"math/rand/v2"

	"github.com/polyscan/polyscan/kernels/driver"
)

type shape struct {
	name          string
	width, height int
	heavy         bool
	draw          func(g *rand.Rand, m *driver.MaskRegions)
}

const far = float64(driver.MaxCoord / driver.Subpixel) // the bound of coordinates in px

var shapes = []shape{
	{name: "no regions", width: 40, height: 30, draw: func(_ *rand.Rand, m *driver.MaskRegions) {}},
	{name: "no edges", width: 40, height: 30, draw: func(_ *rand.Rand, m *driver.MaskRegions) {
		add(m, driver.NonZero)
		add(m, driver.EvenOdd)
		add(m, driver.NonZero, box(3, 3, 20, 20))
		add(m, driver.NonZero)
	}},
	{name: "one vertex", width: 40, height: 30, draw: func(_ *rand.Rand, m *driver.MaskRegions) {
		addBoth(m, ring{at(10.5, 10.5)})
		addBoth(m, ring{at(10.5, 10.5), at(10.5, 10.5), at(10.5, 10.5)})
	}},
	{name: "no area", width: 40, height: 30, draw: func(_ *rand.Rand, m *driver.MaskRegions) {
		addBoth(m, ring{at(5, 5), at(30, 25)})                                        // there and back
		addBoth(m, ring{at(5.5, 5.5), at(30.5, 5.5), at(12.5, 5.5)})                  // level, through centres
		addBoth(m, ring{at(5.5, 2), at(5.5, 28), at(5.5, 11)})                        // upright, through centres
		addBoth(m, ring{at(1, 1), at(20, 20), at(10, 10), at(25, 25), at(1, 1)})      // diagonal
		addBoth(m, ring{at(5, 5), at(20, 5), at(20, 20), at(20, 5), at(5, 5)})        // a bent line
		addBoth(m, box(4, 4, 30, 20), box(4, 4, 30, 20).reversed())                   // two that cancel out
		addBoth(m, ring{at(7.25, 7.25), at(7.75, 7.25), at(7.75, 7.4), at(7.3, 7.4)}) // between centres
	}},
	{name: "repeated and collinear vertices", width: 40, height: 30, draw: func(_ *rand.Rand, m *driver.MaskRegions) {
		addBoth(m, ring{at(5, 5), at(5, 5), at(20, 5), at(25, 5), at(30, 5), at(30, 5), at(30, 25), at(30, 12),
			at(30, 25), at(5, 25), at(5, 5)})
	}},
	{name: "spikes", width: 60, height: 50, draw: func(_ *rand.Rand, m *driver.MaskRegions) {
		addBoth(m, ring{at(5, 5), at(50, 5), at(30, 5), at(30, 40), at(30, 45), at(30, 40), at(5, 40), at(5, 20),
			at(-20, 20), at(5, 20)})
		addBoth(m, ring{at(10.5, 10.5), at(20.5, 10.5), at(20.5, 20.5), at(59.5, 20.5), at(20.5, 20.5), at(10.5, 20.5)})
		addBoth(m, ring{at(10, 10), at(29, 10), at(29, 30), at(1000, 31), at(29, 32), at(29, 40), at(10, 40)}) // needle
	}},
	{name: "outside", width: 40, height: 30, draw: func(_ *rand.Rand, m *driver.MaskRegions) {
		for _, d := range [][2]float64{{-60, 0}, {60, 0}, {0, -60}, {0, 60}, {-60, -60}, {60, 60}, {-far + 20, 0},
			{far - 60, 0}, {0, far - 60}, {0, -far + 20}} {
			add(m, driver.NonZero, box(d[0]+5, d[1]+5, d[0]+30, d[1]+25))
		}
		// its right side on the first centres: not theirs
		add(m, driver.NonZero, box(-10, 5, 0.5, 25))
		// its left side on the last centres: theirs
		add(m, driver.NonZero, box(39.5, 5, 50, 25))
		// the bottom on the first centres: not theirs
		add(m, driver.NonZero, box(5, -10, 25, 0.5))
		add(m, driver.NonZero, box(5, 29.5, 25, 50))                         // the top on the last centres: theirs
		add(m, driver.NonZero, ring{at(-50, 15), at(20, -40), at(-50, -40)}) // its box meets the image, it does not
	}},
	{name: "covering", width: 70, height: 66, draw: func(_ *rand.Rand, m *driver.MaskRegions) {
		addBoth(m, box(0, 0, 70, 66))
		addBoth(m, box(-1, -1, 71, 67).reversed())
		addBoth(m, box(0.5, 0.5, 69.5, 65.5)) // without the last row and column
		addBoth(m, box(-far, -far, far, far))
		addBoth(m, ring{at(-far, -far), at(far, 0), at(-far, far)})
		addBoth(m, regular(35, 33, 1000, 37, 1, 0.1))
	}},
	{name: "sides on centres", width: 70, height: 40, draw: func(_ *rand.Rand, m *driver.MaskRegions) {
		addBoth(m, box(5.5, 5.5, 15.5, 15.5))
		addBoth(m, box(15.5, 5.5, 25.5, 15.5)) // its neighbours
		addBoth(m, box(5.5, 15.5, 15.5, 25.5))
		addBoth(m, ring{at(30.5, 20.5), at(40.5, 10.5), at(50.5, 20.5), at(40.5, 30.5)}) // slopes of 1 through centres
		addBoth(m, ring{at(2.5, 30.5), at(32.5, 39.5), at(62.5, 30.5)})
		addBoth(m, ring{at(60, 0), at(70, 3), at(60, 6)}) // slopes that meet centres now and then
	}},
	{name: "corners on centres", width: 64, height: 64, draw: func(g *rand.Rand, m *driver.MaskRegions) {
		for range 12 {
			addBoth(m, scribble(g, onCentres, 64, 64, 7))
		}
	}},
	{name: "one unit off a centre", width: 33, height: 33, draw: func(_ *rand.Rand, m *driver.MaskRegions) {
		const u = 1.0 / driver.Subpixel
		for _, dx := range []float64{-u, 0, u} {
			for _, dy := range []float64{-u, 0, u} {
				add(m, driver.NonZero, box(10.5+dx, 10.5+dy, 20.5+dx, 20.5+dy))
				add(m, driver.NonZero, ring{at(10.5+dx, 10.5+dy), at(20.5, 15.5), at(10.5, 20.5)})
			}
		}
	}},
	{name: "single pixels", width: 35, height: 35, draw: func(_ *rand.Rand, m *driver.MaskRegions) {
		const u = 1.0 / driver.Subpixel
		for _, c := range [][2]float64{{0, 0}, {34, 0}, {0, 34}, {34, 34}, {31, 31}, {32, 32}, {31, 32}, {17, 5}} {
			add(m, driver.NonZero, box(c[0]+0.5, c[1]+0.5, c[0]+0.5+u, c[1]+0.5+u))
			add(m, driver.NonZero, box(c[0], c[1], c[0]+1, c[1]+1))
		}
	}},
	{name: "winding numbers", width: 80, height: 60, draw: func(_ *rand.Rand, m *driver.MaskRegions) {
		b := box(5, 5, 60, 50)
		addBoth(m, b, b)
		addBoth(m, b, b.reversed(), b)
		addBoth(m, b.reversed(), b.reversed(), b.reversed())
		addBoth(m, regular(40, 30, 28, 5, 2, 0.3))
		addBoth(m, regular(40, 30, 28, 7, 3, 0.3).reversed())
		addBoth(m, regular(40, 30, 28, 31, 14, 0))
		addBoth(m, ring{at(5, 5), at(70, 50), at(70, 5), at(5, 50)})      // bow tie: +1 and -1
		addBoth(m, b, box(20, 20, 75, 58).reversed())                     // overlap of +1 and -1 is outside
		addBoth(m, b, box(20, 20, 75, 58), box(30, 0, 40, 60).reversed()) // 2, 1, 0, -1
	}},
	{name: "winding beyond 8 bits", width: 9, height: 9, draw: func(_ *rand.Rand, m *driver.MaskRegions) {
		for _, n := range []int{127, 128, 129, 255, 256, 257, 512} {
			var r ring
			for range n {
				r = append(r, box(2, 2, 7, 7)...)
			}
			addBoth(m, r)
			addBoth(m, r.reversed())
		}
	}},
	{name: "winding beyond 16 bits", width: 3, height: 3, heavy: true, draw: func(_ *rand.Rand, m *driver.MaskRegions) {
		for _, n := range []int{32768, 65536} {
			var r ring
			for range n {
				r = append(r, box(1, 1, 2, 2)...)
			}
			addBoth(m, r)
		}
	}},
	{name: "holes", width: 90, height: 70, draw: func(_ *rand.Rand, m *driver.MaskRegions) {
		outer, hole, island := box(4, 4, 84, 64), box(20.5, 20.5, 60.5, 50.5), box(30, 30, 40, 40)
		addBoth(m, outer, hole.reversed())
		addBoth(m, outer, hole)
		addBoth(m, outer, hole.reversed(), island)
		addBoth(m, outer, hole, island)
		addBoth(m, outer, outer.reversed())
		addBoth(m, outer, box(4, 20, 50, 30).reversed()) // shares a side
		addBoth(m, regular(45, 35, 33, 60, 1, 0), regular(45, 35, 20, 60, 1, 0).reversed())
	}},
	{name: "far vertices", width: 50, height: 50, draw: func(g *rand.Rand, m *driver.MaskRegions) {
		for range 12 {
			addBoth(m, scribble(g, faraway, 50, 50, 5))
		}
		addBoth(m, ring{at(-far, -far), at(far, far), at(far, far-1.0/driver.Subpixel)})
		addBoth(m, ring{at(-far, -far), at(far, far), at(-far, far)}) // the diagonal through all centres
		addBoth(m, ring{at(far, -far), at(-far, far), at(far, far)})
		addBoth(m, ring{at(-far, 25.5), at(far, 25.5), at(far, 26)})
	}},
	{name: "crossings next to centres", width: 24, height: 24, draw: func(g *rand.Rand, m *driver.MaskRegions) {
		// Long edges aimed at a centre, and one unit beside: the crossing differs from the centre by less than a
		// double can tell.
		for range 60 {
			cx, cy := int32(g.IntN(24)*256+128), int32(g.IntN(24)*256+128)
			dx, dy := g.Int32N(1<<29)-1<<28, 1+g.Int32N(1<<28)
			a := point{cx - dx, cy - dy}
			b := point{cx + dx + g.Int32N(3) - 1, cy + dy}
			add(m, driver.NonZero, ring{a, b, {driver.MaxCoord, b.y}, {driver.MaxCoord, a.y}})
		}
	}},
	{name: "shared edges", width: 100, height: 75, draw: func(g *rand.Rand, m *driver.MaskRegions) {
		for _, r := range partition(g, anywhere, 100, 75, 9, 7) {
			add(m, driver.NonZero, r)
		}
		for _, r := range partition(g, onCentres, 100, 75, 10, 5) {
			add(m, driver.EvenOdd, r.reversed())
		}
	}},
	{name: "runs in any order", width: 50, height: 40, draw: func(g *rand.Rand, m *driver.MaskRegions) {
		for range 5 {
			add(m, driver.NonZero, scribble(g, anywhere, 50, 40, 6))
		}
		g.Shuffle(5, func(i, j int) { m.Regions[i], m.Regions[j] = m.Regions[j], m.Regions[i] })
		m.Regions = append(m.Regions, m.Regions[2], m.Regions[0]) // and shared
		m.Regions = append(m.Regions, driver.Region{First: 6, Count: 12, Fill: driver.EvenOdd})
		m.Edges = append(m.Edges, driver.Edge{X0: 1, Y0: 2, X1: 3000, Y1: 4000}) // nobody's
	}},
	{name: "comb", width: 130, height: 64, draw: func(_ *rand.Rand, m *driver.MaskRegions) {
		// Teeth of a quarter pixel: many edges for a tile, many crossings for a row.
		r := ring{at(1, 60)}
		for x := 1.0; x < 129; x += 0.25 {
			r = append(r, at(x, 3), at(x+0.125, 60))
		}
		addBoth(m, append(r, at(129, 63), at(1, 63)))
	}},
	{name: "spiral", width: 96, height: 96, draw: func(_ *rand.Rand, m *driver.MaskRegions) {
		var out, in ring
		for i := range 24 {
			d := float64(i) * 2
			out = append(out, at(d, d), at(96-d, d), at(96-d, 96-d), at(d+2, 96-d))
			in = append(in, at(d+1, d+1), at(95-d, d+1), at(95-d, 95-d), at(d+3, 95-d))
		}
		addBoth(m, append(out, in.reversed()...))
	}},
	{name: "checkerboard", width: 67, height: 35, draw: func(_ *rand.Rand, m *driver.MaskRegions) {
		var rings []ring
		for y := range 35 {
			for x := y % 2; x < 67; x += 2 {
				rings = append(rings, box(float64(x), float64(y), float64(x+1), float64(y+1)))
			}
		}
		addBoth(m, rings...) // the most spans that an image can have
	}},
	{name: "tile corners", width: 97, height: 97, draw: func(_ *rand.Rand, m *driver.MaskRegions) {
		for _, s := range []float64{8, 16, 32, 64} {
			addBoth(m, box(s, s, 2*s, 2*s))
			addBoth(m, box(s-0.5, s-0.5, s+0.5, s+0.5))
			addBoth(m, regular(s, s, 3, 3, 1, 1))
			// Within a tile, clear of its centre and of its sides.
			addBoth(m, box(s+0.4, s+0.4, s+0.6, s+0.6))
		}
	}},
	{name: "thin slopes", width: 200, height: 40, draw: func(_ *rand.Rand, m *driver.MaskRegions) {
		addBoth(m, ring{at(0, 0), at(200, 39), at(200, 40), at(0, 1)})
		addBoth(m, ring{at(0, 20.5), at(200, 20.6), at(200, 20.7)})
		addBoth(m, ring{at(100.5, 0), at(100.6, 40), at(100.4, 40)})
	}},
	{name: "overlapping regions", width: 70, height: 70, draw: func(g *rand.Rand, m *driver.MaskRegions) {
		for range 40 {
			add(m, driver.FillRule(g.IntN(2)), jagged(g, 35, 35, 2, 50, 20))
		}
	}},
	{name: "many tiny regions", width: 200, height: 150, draw: func(g *rand.Rand, m *driver.MaskRegions) {
		for range 3000 {
			x, y := g.Float64()*200, g.Float64()*150
			add(m, driver.NonZero, regular(x, y, 0.3+2*g.Float64(), 3+g.IntN(6), 1, g.Float64()))
		}
	}},
	{name: "masks", width: 131, height: 67, draw: func(g *rand.Rand, m *driver.MaskRegions) {
		all := func(int, int) bool { return true }
		for _, side := range []int{0, 1, 31, 32, 33} { // between polygons, and beyond each side of the image
			addRuns(m, 5, 3, side, side, all)
			add(m, driver.NonZero, box(5, 3, 9.5, 40))
			addRuns(m, -side/2, -side/2, side, side, func(x, y int) bool { return (x+y)%2 == 0 })
			addRuns(m, 131-side/2, 67-side/2, side, side, func(x, y int) bool { return x != y })
			addRuns(m, 200, 3, side, side, all)
			addRuns(m, 5, -40, side, side, all)
			addRuns(m, 5, 67, side, side, all)
		}
		addRuns(m, -9, -9, 150, 90, all)
		addRuns(m, 0, 0, 131, 67, func(x, y int) bool { return (x+y)%2 == 1 }) // the most runs that an image can have
		for k := range 4 {
			addRuns(m, 0, 0, 131, 67, func(int, int) bool { return g.IntN(4) <= k })
		}
		far := driver.Run{Y: 30, X0: -driver.MaxPixel, X1: driver.MaxPixel}
		m.Regions = append(m.Regions, driver.Region{First: uint32(len(m.Runs)), Count: 2, Fill: driver.ByRuns},
			m.Regions[3], m.Regions[1]) // two that come twice
		m.Runs = append(m.Runs, far, driver.Run{Y: 66, X0: 130, X1: 140}, driver.Run{Y: driver.MaxPixel, X0: 1, X1: 2})
	}},
	{name: "masks of long runs", width: 3000, height: 9, draw: func(g *rand.Rand, m *driver.MaskRegions) {
		// Runs that end at multiples of what backends cut them at, and beside.
		for _, n := range []int{1023, 1024, 1025, 2048, 3000} {
			addRuns(m, 0, 0, n, 9, func(x, _ int) bool { return x%2048 != 2047 })
			addRuns(m, 1, 2, n, 5, func(x, y int) bool { return x%(512<<y) != 0 })
		}
	}},
	{name: "ring of thousands", width: 100, height: 80, draw: func(g *rand.Rand, m *driver.MaskRegions) {
		addBoth(m, jagged(g, 50, 40, 5, 50, 5000))
	}},
}

// largeCases are beyond what the small ones can reach: sums of more than 32 bits, positions of more than 16.
var largeCases = []struct {
	name  string
	build func(g *rand.Rand) *Problem
}{
	{"sums", func(g *rand.Rand) *Problem {
		p := frameOf(g, 700, 500, driver.Gray16(16), 0, greatest)
		addBoth(&p.Regions, box(0, 0, 700, 500))
		add(&p.Regions, driver.NonZero, regular(350, 250, 300, 100, 1, 0))
		return p.all()
	}},
	{"colour", func(g *rand.Rand) *Problem {
		p := frameOf(g, 641, 481, driver.BGR8, 1, noise)
		for range 12 {
			add(&p.Regions, driver.NonZero, jagged(g, g.Float64()*640, g.Float64()*480, 50, 200, 60))
		}
		return p.all().cut(g, []int{100, 1})
	}},
	{"row of 2^20", func(g *rand.Rand) *Problem {
		p := frameOf(g, driver.MaxSide, 2, driver.Gray16(12), 0, noise)
		add(&p.Regions, driver.NonZero, box(10, 0, driver.MaxSide, 2))
		add(&p.Regions, driver.NonZero,
			ring{at(driver.MaxSide-300, 0), at(driver.MaxSide, 1), at(driver.MaxSide-300, 2)})
		return p.all()
	}},
	{"column of 2^20", func(g *rand.Rand) *Problem {
		p := frameOf(g, 2, driver.MaxSide, driver.Gray8, 1, noise)
		add(&p.Regions, driver.NonZero, box(0, 10, 2, driver.MaxSide))
		add(&p.Regions, driver.NonZero,
			ring{at(0, driver.MaxSide-300), at(1, driver.MaxSide), at(2, driver.MaxSide-300)})
		return p.all().cut(g, []int{400000})
	}},
	{"histograms of many regions", func(g *rand.Rand) *Problem {
		p := frameOf(g, 120, 90, driver.Gray16(14), 0, noise)
		for range 150 {
			add(&p.Regions, driver.NonZero, box(g.Float64()*100, g.Float64()*80, 100+g.Float64()*20, 80+g.Float64()*10))
		}
		return p.all()
	}},
	{"ten thousand regions", func(g *rand.Rand) *Problem {
		p := frameOf(g, 400, 300, driver.Gray8, 0, noise)
		for range 10000 {
			add(&p.Regions, driver.NonZero, scribble(g, anywhere, 4, 4, 3))
			es := p.Regions.Edges[len(p.Regions.Edges)-3:]
			dx, dy := px(g.Float64()*396), px(g.Float64()*296)
			for i := range es {
				es[i].X0, es[i].X1 = es[i].X0+dx, es[i].X1+dx
				es[i].Y0, es[i].Y1 = es[i].Y0+dy, es[i].Y1+dy
			}
		}
		return p.asking(driver.MaskSums | driver.MaskExtrema | driver.MaskMoments)
	}},
}
