// Cases: the problems that every backend has to solve. Each is data, made when asked for from its own seed.

package devicetest

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Case is a named problem.
type Case struct {
	Name  string
	Seed  uint64
	Heavy bool // takes the oracle, or a slow backend, more than some 50 ms
	build func(g *rand.Rand) *Problem
}

// Problem makes the problem; it is the same each time.
func (c Case) Problem() *Problem {
	h := fnv.New64a()
	fmt.Fprint(h, c.Name)
	return c.build(rand.New(rand.NewPCG(c.Seed, h.Sum64())))
}

// Cases returns the fixed cases, with what is random in them made from seed, and n random ones.
func Cases(seed uint64, n int) []Case {
	var cs []Case
	put := func(heavy bool, build func(*rand.Rand) *Problem, name string, args ...any) {
		cs = append(cs, Case{fmt.Sprintf(name, args...), seed, heavy, build})
	}
	for _, s := range shapes {
		put(s.heavy, func(g *rand.Rand) *Problem {
			p := frame(g, s.width, s.height, driver.Gray8, someContent)
			s.draw(g, &p.Regions)
			return p.all()
		}, "shape %s", s.name)
	}
	for _, d := range dimensions {
		put(d[0]*d[1] > 1<<18, func(g *rand.Rand) *Problem {
			p := frame(g, d[0], d[1], pick(g, Formats), someContent)
			scribbles(g, p, 2)
			return p.all()
		}, "size %dx%d", d[0], d[1])
	}
	for i, f := range Formats {
		for _, pad := range []int{0, 1, 3, 64} {
			put(false, func(g *rand.Rand) *Problem {
				p := frameOf(g, 61+i, 37, f, pad, anyContent)
				scribbles(g, p, 3)
				return p.all()
			}, "format %s pad %d", formatName(f), pad)
		}
		put(false, func(g *rand.Rand) *Problem {
			p := frameOf(g, 53, 29, f, 2, constant)
			scribbles(g, p, 3)
			return p.all()
		}, "format %s constant", formatName(f))
		put(false, func(g *rand.Rand) *Problem {
			p := frameOf(g, 53, 29, f, 0, greatest)
			scribbles(g, p, 3)
			return p.all()
		}, "format %s greatest", formatName(f))
	}
	for what := range driver.MaskWhat(16) {
		for _, f := range []driver.PixelFormat{driver.Gray8, driver.BGR8, driver.Gray16(12)} {
			put(false, func(g *rand.Rand) *Problem {
				p := frame(g, 47, 51, f, someContent)
				scribbles(g, p, 4)
				return p.asking(what)
			}, "what %#x %s", uint32(what), formatName(f))
		}
	}
	for _, c := range []struct {
		rows    int
		heights []int
	}{{24, []int{1}}, {100, []int{1, 0}}, {100, []int{7}}, {100, []int{32, 1}}, {100, []int{33, 31}}} {
		put(false, func(g *rand.Rand) *Problem {
			p := frame(g, 70, c.rows, driver.RGB8, someContent)
			scribbles(g, p, 3)
			return p.all().cut(g, c.heights)
		}, "strips of %v", c.heights)
	}
	for i := range 6 {
		put(false, func(g *rand.Rand) *Problem {
			p := frame(g, 66, 40, pick(g, Formats), someContent)
			scribbles(g, p, 9)
			p.asking(anyWhat(g))
			p.First = g.IntN(9)
			p.Count = g.IntN(9 - p.First + 1)
			return p
		}, "part of the regions %d", i)
	}
	for i, f := range Formats {
		if f.Channels < 3 {
			continue
		}
		for spaces := driver.ColorSpaces(1); spaces < 32; spaces += driver.ColorSpaces(1 + i) {
			put(false, func(g *rand.Rand) *Problem {
				width := []int{1, 3, 31, 32, 33, 61, 130, 259}[(int(spaces)+i)%8]
				p := frameOf(g, width, 1+g.IntN(70), f, []int{0, 1, 2, 3, 7}[int(spaces)%5], someContent)
				p.Colors = driver.Colors{Spaces: spaces, Matrix: anyMatrix(g)}
				scribbles(g, p, 1+int(spaces)%4)
				p.asking(anyWhat(g))
				if spaces%3 == 0 {
					p.cut(g, []int{1 + g.IntN(9), 3})
				}
				return p
			}, "colors %s %#x", formatName(f), uint8(spaces))
		}
	}
	for what := range driver.MaskWhat(16) {
		put(false, func(g *rand.Rand) *Problem {
			p := frame(g, 147, 51, driver.RGB8, someContent)
			p.Colors = driver.Colors{Spaces: driver.ColorLab | driver.ColorHSV}
			scribbles(g, p, 4)
			return p.asking(what)
		}, "colors what %#x", uint32(what))
	}
	put(false, func(g *rand.Rand) *Problem {
		p := frame(g, 2500, 19, driver.RGB8, someContent) // rows of several items
		p.Colors = driver.Colors{Spaces: 31, Matrix: anyMatrix(g)}
		scribbles(g, p, 2)
		return p.all()
	}, "colors of long rows")
	for _, c := range largeCases {
		put(true, c.build, "large %s", c.name)
	}
	for i := range n {
		put(false, random, "random %d", i)
	}
	return cs
}

// Formats are the pixel formats of the cases: those of cameras, and others that [driver.PixelFormat.Valid] takes.
var Formats = []driver.PixelFormat{
	driver.Gray8,
	driver.RGB8,
	driver.BGR8,
	driver.RGBA8,
	driver.Gray16(10),
	driver.Gray16(12),
	driver.Gray16(14),
	driver.Gray16(16),
	driver.Gray16(8),
	driver.Gray16(9),
	{Channels: 2, SampleBytes: 1, Bits: 8, Order: [4]uint8{1, 0}},       // two channels
	{Channels: 3, SampleBytes: 1, Bits: 8, Order: [4]uint8{1, 2, 0}},    // a rotation, not a swap
	{Channels: 4, SampleBytes: 1, Bits: 8, Order: [4]uint8{2, 1, 0, 3}}, // BGRA
	{Channels: 4, SampleBytes: 1, Bits: 8, Order: [4]uint8{1, 2, 3, 0}}, // ARGB
}

func formatName(f driver.PixelFormat) string {
	if f.SampleBytes == 2 {
		return fmt.Sprintf("16-bit of %d", f.Bits)
	}
	return fmt.Sprintf("%dx8 %v", f.Channels, f.Order[:f.Channels])
}

// dimensions of images: around the widths of vectors, warps and tiles, lines, and positions beyond 16 bits.
var dimensions = [][2]int{
	{1, 1}, {2, 1}, {1, 2}, {1, 7}, {7, 1}, {3, 3}, {1, 33}, {33, 1}, {15, 17}, {16, 16}, {17, 15},
	{31, 31}, {32, 32}, {33, 33}, {31, 33}, {33, 31}, {32, 1}, {1, 32}, {64, 3}, {63, 65}, {65, 63},
	{100, 70}, {127, 5}, {128, 4}, {129, 6}, {5, 129}, {255, 9}, {256, 8}, {257, 7}, {9, 257}, {300, 221},
	{1000, 3}, {3, 1000}, {1025, 2}, {70001, 1}, {1, 70001}, {driver.MaxSide, 1},
}

// A content fills the samples of a frame.
type content int

const (
	noise       content = iota
	constant            // one value
	greatest            // the largest value of the sample's bytes, which is out of range for most 16-bit formats
	fewValues           // so that extrema have several positions
	slopes              // smooth
	outOfRange          // 16-bit samples of 16 random bits
	someContent         // any of those whose samples are in range
	anyContent          // any
)

func pick[E any](g *rand.Rand, from []E) E { return from[g.IntN(len(from))] }

// anyMatrix is one that gives samples from 0 to the most.
func anyMatrix(g *rand.Rand) (m [3]driver.ColorRow) {
	for k := range m {
		lo, hi := int64(0), int64(0)
		for c := range m[k].C {
			m[k].C[c] = int32(g.IntN(2<<20) - 1<<20)
			lo += 255 * int64(min(m[k].C[c], 0))
			hi += 255 * int64(max(m[k].C[c], 0))
		}
		most := int64(driver.MostColorSample) << 14
		m[k].Offset = int32(-lo + g.Int64N(most-(hi-lo)))
	}
	return m
}

// frame makes a frame with random padding.
func frame(g *rand.Rand, w, h int, f driver.PixelFormat, c content) *Problem {
	return frameOf(g, w, h, f, pick(g, []int{0, 0, 1, 5, 32}), c)
}

// frameOf makes a frame whose rows are followed by pad pixels' worth of bytes, which are noise; for samples of 8 bits
// pad is in bytes, which makes odd strides.
func frameOf(g *rand.Rand, w, h int, f driver.PixelFormat, pad int, c content) *Problem {
	switch c {
	case someContent:
		c = pick(g, []content{noise, constant, fewValues, slopes})
	case anyContent:
		c = content(g.IntN(int(someContent)))
	}
	size := int(f.SampleBytes)
	p := &Problem{Width: w, Height: h, Format: f, Stride: w*f.PixelBytes() + pad*size, Offset: g.IntN(40) * size}
	p.Pixels = make([]byte, p.Stride*(h-1)+p.rowBytes())
	for i := range p.Pixels {
		p.Pixels[i] = byte(g.Uint32())
	}
	levels := f.Levels()
	fixed := g.IntN(levels)
	few := []int{g.IntN(levels), g.IntN(levels), 0, levels - 1}[:2+2*g.IntN(2)]
	for y := range h {
		for i := range w * int(f.Channels) {
			v := 0
			switch c {
			case noise:
				v = g.IntN(levels)
			case constant:
				v = fixed
			case greatest:
				v = 1<<(8*size) - 1
			case fewValues:
				v = pick(g, few)
			case slopes:
				v = (i + 2*y) * levels / 512 % levels
			case outOfRange:
				v = g.IntN(1 << (8 * size))
			}
			row := p.Pixels[y*p.Stride:]
			if size == 2 {
				row[2*i], row[2*i+1] = byte(v), byte(v>>8)
			} else {
				row[i] = byte(v)
			}
		}
	}
	return p
}

// all asks for everything about all regions.
func (p *Problem) all() *Problem {
	return p.asking(driver.MaskSums | driver.MaskExtrema | driver.MaskMoments | driver.MaskHistogram)
}

// asking asks for parts about all regions. Extrema are always asked for where samples may be out of range, as package
// kernels does.
func (p *Problem) asking(what driver.MaskWhat) *Problem {
	if p.Format.SampleBytes == 2 && p.Format.Bits < 16 {
		what |= driver.MaskExtrema
	}
	p.What = what
	p.First, p.Count = 0, len(p.Regions.Regions)
	p.Strips = p.wholeStrip()
	return p
}

func anyWhat(g *rand.Rand) driver.MaskWhat { return driver.MaskWhat(g.IntN(16)) }

// cut makes strips of the given heights in turn, 0 for a random one, in random order.
func (p *Problem) cut(g *rand.Rand, heights []int) *Problem {
	p.Strips = nil
	for row, i := 0, 0; row < p.Height; i++ {
		n := heights[i%len(heights)]
		if n == 0 {
			n = 1 + g.IntN(40)
		}
		n = min(n, p.Height-row)
		p.Strips = append(p.Strips, Strip{row, n})
		row += n
	}
	g.Shuffle(len(p.Strips), func(i, j int) { p.Strips[i], p.Strips[j] = p.Strips[j], p.Strips[i] })
	return p
}

// scribbles adds n regions of random rings and fill rules.
func scribbles(g *rand.Rand, p *Problem, n int) {
	for range n {
		var rings []ring
		for range 1 + g.IntN(3) {
			rings = append(rings, scribble(g, placement(g.IntN(int(placements))), p.Width, p.Height, 3+g.IntN(9)))
		}
		add(&p.Regions, driver.FillRule(g.IntN(2)), rings...)
	}
}

// random is a small problem of any kind.
func random(g *rand.Rand) *Problem {
	w, h := 1+g.IntN(70), 1+g.IntN(70)
	p := frame(g, w, h, pick(g, Formats), anyContent)
	place := placement(g.IntN(int(placements)))
	for range 1 + g.IntN(5) {
		var rings []ring
		for range 1 + g.IntN(3) {
			switch g.IntN(6) {
			case 0:
				rings = append(rings,
					jagged(g, g.Float64()*float64(w), g.Float64()*float64(h), 0, float64(w), 3+g.IntN(40)))
			case 1:
				rings = append(rings, regular(g.Float64()*float64(w), g.Float64()*float64(h), g.Float64()*float64(h),
					5+g.IntN(9), 1+g.IntN(4), g.Float64()))
			default:
				rings = append(rings, scribble(g, place, w, h, 1+g.IntN(14)))
			}
		}
		add(&p.Regions, driver.FillRule(g.IntN(2)), rings...)
	}
	for range g.IntN(3) {
		share := g.IntN(9)
		addRuns(&p.Regions, g.IntN(2*w)-w, g.IntN(2*h)-h, 1+g.IntN(2*w), 1+g.IntN(2*h),
			func(int, int) bool { return g.IntN(8) < share })
	}
	g.Shuffle(len(p.Regions.Regions), func(i, j int) {
		r := p.Regions.Regions
		r[i], r[j] = r[j], r[i]
	})
	// The order of edges is free.
	for i := range p.Regions.Regions {
		es := p.Regions.EdgesOf(i)
		if g.IntN(4) == 0 {
			g.Shuffle(len(es), func(i, j int) { es[i], es[j] = es[j], es[i] })
		}
	}
	p.asking(anyWhat(g))
	if g.IntN(3) == 0 {
		p.cut(g, []int{0})
		if g.IntN(3) == 0 { // not all rows
			p.Strips = p.Strips[:1+g.IntN(len(p.Strips))]
		}
	}
	if g.IntN(4) == 0 {
		p.First = g.IntN(len(p.Regions.Regions))
		p.Count = 1 + g.IntN(len(p.Regions.Regions)-p.First)
	}
	return p
}
