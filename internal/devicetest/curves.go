// The oracle of curves, and the sketches that it is tested on.

package devicetest

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Sketch is what [driver.CurveRaster] draws, and what was there before.
type Sketch struct {
	Name          string
	Width, Height int
	Channels      int
	Segments      []driver.CurveSegment
	Curves        []driver.Curve
	Stops         []driver.CurveStop
	Flags         []byte
	Values        []float32 // in planes
}

// NewSketch returns one without curves.
func NewSketch(name string, width, height, channels int) *Sketch {
	return &Sketch{Name: name, Width: width, Height: height, Channels: channels,
		Flags: make([]byte, width*height), Values: make([]float32, channels*width*height)}
}

// Add adds a curve through segments of 3n+1 control points, in pixels, with stops from the beginning to the end on both
// sides.
func (s *Sketch) Add(barrier bool, logPieces uint32, left, right [][]float32, points ...[2]float64) {
	curve := driver.Curve{Left: s.stops(left, len(points)/3), Right: s.stops(right, len(points)/3)}
	if barrier {
		curve.Barrier = 1
	}
	for i := 0; i+3 < len(points); i += 3 {
		seg := driver.CurveSegment{Curve: uint32(len(s.Curves)), Start: uint32(i / 3 * driver.CurveUnit),
			LogPieces: logPieces}
		for k := range 4 {
			seg.X[k], seg.Y[k] = int32(math.Round(points[i+k][0]*driver.Subpixel)),
				int32(math.Round(points[i+k][1]*driver.Subpixel))
		}
		s.Segments = append(s.Segments, seg)
	}
	s.Curves = append(s.Curves, curve)
}

// stops spreads values evenly over segments.
func (s *Sketch) stops(values [][]float32, segments int) driver.CurveStops {
	run := driver.CurveStops{First: uint32(len(s.Stops)), Count: uint32(len(values))}
	for i, v := range values {
		stop := driver.CurveStop{At: uint32(i * segments * driver.CurveUnit / max(len(values)-1, 1))}
		copy(stop.Values[:], v)
		s.Stops = append(s.Stops, stop)
	}
	return run
}

// a2 is a point in 1/256 px.
type a2 struct{ x, y int64 }

// crossed is a way that a line crosses, from the pixel of one centre to its right or lower neighbour.
type crossed struct {
	x, y    int  // of the first pixel
	down    bool // the second is the one below
	toRight bool // the first is to the right of somebody who walks along the line
	piece   int
	from    a2 // the line
	to      a2
	segment int
}

// side is 1 where a centre, as driver.CurveRaster takes it, is to the right of the line from a to b on a screen, and -1
// where it is to the left. 0 only where a is b.
func side(a, b, centre a2) int {
	dx, dy := b.x-a.x, b.y-a.y
	cross := dx*(centre.y-a.y) - dy*(centre.x-a.x)
	for _, v := range []int64{cross, -dy, dx} { // a little to the right of where it is, and still less below
		if v != 0 {
			return 1 - 2*int(uint64(v)>>63)
		}
	}
	return 0
}

func centreOf(x, y int) a2 { return a2{int64(x)*256 + 128, int64(y)*256 + 128} }

// beyond reports whether a coordinate is greater than that of a centre.
func beyond(v, centre int64) bool { return v > centre }

// crossings are all of a segment, found by looking at every way of the image and its surroundings.
func (s *Sketch) crossings(i int) []crossed {
	var out []crossed
	seg := &s.Segments[i]
	points := CurvePoints(seg)
	for k := 0; k+1 < len(points); k++ {
		a, b := points[k], points[k+1]
		if a == b {
			continue
		}
		for y := -1; y < s.Height; y++ {
			for x := -1; x < s.Width; x++ {
				p := centreOf(x, y)
				for _, down := range []bool{false, true} {
					q := centreOf(x+1, y)
					apart := beyond(a.y, p.y) != beyond(b.y, p.y)
					if down {
						q = centreOf(x, y+1)
						apart = beyond(a.x, p.x) != beyond(b.x, p.x)
					}
					// The line and the way cross where each has its ends on different sides of the other.
					if at := side(a, b, p); apart && at != side(a, b, q) {
						out = append(out, crossed{x, y, down, at > 0, k, a, b, i})
					}
				}
			}
		}
	}
	return out
}

// CurvePoints are the points that a segment is drawn through.
func CurvePoints(seg *driver.CurveSegment) []a2 {
	n := int64(1) << seg.LogPieces
	out := make([]a2, 0, n+1)
	at := func(p [4]int32, i int64) int64 {
		sum := new(big.Int)
		for k, times := range []int64{1, 3, 3, 1} {
			term := big.NewInt(times * int64(p[k]))
			for range 3 - k {
				term.Mul(term, big.NewInt(n-i))
			}
			for range k {
				term.Mul(term, big.NewInt(i))
			}
			sum.Add(sum, term)
		}
		cube := new(big.Int).Exp(big.NewInt(n), big.NewInt(3), nil)
		sum.Add(sum.Lsh(sum, 1), cube)
		return sum.Div(sum, cube.Lsh(cube, 1)).Int64() // Euclidean: rounded down
	}
	for i := range n + 1 {
		out = append(out, a2{at(seg.X, i), at(seg.Y, i)})
	}
	return out
}

// claimed is what a pixel was claimed with.
type claimed struct {
	distance, segment, parameter int64
	right                        bool
}

func (c claimed) better(o claimed) bool {
	switch {
	case c.distance != o.distance:
		return c.distance < o.distance
	case c.segment != o.segment:
		return c.segment > o.segment
	case c.parameter != o.parameter:
		return c.parameter < o.parameter
	}
	return !c.right && o.right
}

// floor16 is 65536 times r rounded down, and most at most.
func floor16(r *big.Rat, most int64) int64 {
	r = new(big.Rat).Mul(r, big.NewRat(1<<16, 1))
	return min(new(big.Int).Div(r.Num(), r.Denom()).Int64(), most)
}

// Draw is what [driver.CurveRaster] asks for, by its definition.
func (s *Sketch) Draw() (flags []byte, values []float32) {
	flags, values = slices.Clone(s.Flags), slices.Clone(s.Values)
	claims := make([]*claimed, s.Width*s.Height)
	for i := range s.Segments {
		seg := &s.Segments[i]
		curve := s.Curves[seg.Curve]
		for _, c := range s.crossings(i) {
			// Where along the line, and how far from the first centre.
			p := centreOf(c.x, c.y)
			var part, distance *big.Rat
			if c.down {
				part = big.NewRat(p.x-c.from.x, c.to.x-c.from.x)
				distance = new(big.Rat).Mul(part, big.NewRat(c.to.y-c.from.y, 1))
				distance.Add(distance, big.NewRat(c.from.y-p.y, 1))
			} else {
				part = big.NewRat(p.y-c.from.y, c.to.y-c.from.y)
				distance = new(big.Rat).Mul(part, big.NewRat(c.to.x-c.from.x, 1))
				distance.Add(distance, big.NewRat(c.from.x-p.x, 1))
			}
			distance.Quo(distance, big.NewRat(256, 1))
			at := (int64(c.piece)*driver.CurveUnit + floor16(part, 1<<16)) >> seg.LogPieces
			at = min(at, driver.CurveUnit-1)
			x, y := c.x+1, c.y
			if c.down {
				x, y = c.x, c.y+1
			}
			for _, end := range []struct {
				x, y     int
				right    bool
				distance *big.Rat
			}{{c.x, c.y, c.toRight, distance}, {x, y, !c.toRight, new(big.Rat).Sub(big.NewRat(1, 1), distance)}} {
				stops := curve.Left
				if end.right {
					stops = curve.Right
				}
				if stops.Count == 0 || end.x < 0 || end.y < 0 || end.x >= s.Width || end.y >= s.Height {
					continue
				}
				claim := &claimed{floor16(end.distance, 1<<16-1), int64(i), at, end.right}
				if to := &claims[end.y*s.Width+end.x]; *to == nil || claim.better(**to) {
					*to = claim
				}
			}
			if curve.Barrier != 0 && min(c.x, c.y) >= 0 && x < s.Width && y < s.Height {
				bit := driver.DiffusionBlockRight
				if c.down {
					bit = driver.DiffusionBlockDown
				}
				flags[c.y*s.Width+c.x] |= bit
			}
		}
	}
	for i, c := range claims {
		if c == nil {
			continue
		}
		flags[i] |= driver.DiffusionFixed
		seg := s.Segments[c.segment]
		run := s.Curves[seg.Curve].Left
		if c.right {
			run = s.Curves[seg.Curve].Right
		}
		for k := range s.Channels {
			values[k*len(flags)+i] = valueAt(s.Stops[run.First:][:run.Count], seg.Start+uint32(c.parameter), k)
		}
	}
	return flags, values
}

func valueAt(stops []driver.CurveStop, at uint32, channel int) float32 {
	v := stops[0].Values[channel]
	for i, s := range stops {
		if s.At > at {
			break
		}
		v = s.Values[channel]
		if i+1 < len(stops) && stops[i+1].At > at {
			f := float32(at-s.At) / float32(stops[i+1].At-s.At)
			step := float32(stops[i+1].Values[channel]-v) * f
			return v + step
		}
	}
	return v
}

// CompareConstraints compares what drawings left in flags and values.
func CompareConstraints(flagsA, flagsB []byte, a, b []float32, width int) *Difference {
	const op = "CurveRaster"
	var f found
	f.add(op, -1, 0, func() string { return "len(Flags)" }, uint64(len(flagsA)), uint64(len(flagsB)))
	f.add(op, -1, 0, func() string { return "len(Values)" }, uint64(len(a)), uint64(len(b)))
	for i := range min(len(flagsA), len(flagsB)) {
		f.add(op, -1, 0, func() string {
			return fmt.Sprintf("flags of pixel (%d, %d)", i%width, i/width)
		}, uint64(flagsA[i]), uint64(flagsB[i]))
	}
	for i := range min(len(a), len(b)) {
		n := len(flagsA)
		f.add(op, -1, i/n, func() string {
			return fmt.Sprintf("bits of the value of pixel (%d, %d)", i%n%width, i%n/width)
		},
			uint64(math.Float32bits(a[i])), uint64(math.Float32bits(b[i])))
	}
	return f.d
}

// Sketches are what drawing is tested on: nothing, lines of every direction, through centres and between them, along
// the border, loops, cusps, points, what lies outside, bundles that converge and cross, and random ones, up to a side.
func Sketches(seed uint64, random, side int) []*Sketch {
	r := rand.New(rand.NewPCG(seed, 17))
	red, blue, gray := []float32{1, 0, 0, 3}, []float32{0, 0.25, 1, 1}, []float32{0.5}
	both := func() (left, right [][]float32) { return [][]float32{red, blue}, [][]float32{blue, gray, red} }
	var out []*Sketch
	add := func(name string, w, h int, draw func(s *Sketch)) {
		s := NewSketch(name, w, h, 1+len(out)%4)
		for i := range s.Values { // what is there before stays
			s.Values[i] = float32(i%7) / 8
			if r.IntN(9) == 0 {
				s.Flags[i%len(s.Flags)] = driver.DiffusionAllFlags & byte(r.Uint32())
			}
		}
		draw(s)
		out = append(out, s)
	}
	line := func(s *Sketch, barrier bool, x0, y0, x1, y1 float64) {
		left, right := both()
		s.Add(barrier, 0, left, right, [2]float64{x0, y0}, [2]float64{x0, y0}, [2]float64{x1, y1}, [2]float64{x1, y1})
	}
	add("no curve", 5, 3, func(*Sketch) {})
	for i, d := range [][2]float64{{9, 0}, {9, 4}, {9, 9}, {4, 9}, {0, 9}, {-4, 9}, {-9, 9}, {-9, 3}, {-9, 0}, {-9, -5},
		{-9, -9}, {-1, -9}, {0, -9}, {2, -9}, {9, -9}, {9, -1}} {
		for _, at := range []float64{0, 0.5, 0.25} {
			add(fmt.Sprintf("line %d through a multiple of %v", i, at), 21, 20, func(s *Sketch) {
				line(s, i%2 == 0, 10+at, 10+at, 10+at+d[0], 10+at+d[1])
			})
		}
	}
	add("one pixel", 1, 1, func(s *Sketch) { line(s, true, -3, 0.5, 4, 0.5) })
	add("one row", 30, 1, func(s *Sketch) { line(s, true, 3, -1, 20, 1.5) })
	add("one column", 1, 33, func(s *Sketch) { line(s, true, 0.1, -1, 0.9, 40) })
	add("the border", 12, 9, func(s *Sketch) {
		line(s, true, 0, 0, 12, 0)
		line(s, true, 12, 0, 12, 9)
		line(s, true, 12, 9, 0, 9)
		line(s, true, 0, 9, 0, 0)
	})
	add("outside", 12, 9, func(s *Sketch) {
		line(s, true, -5, -5, 20, -1)
		line(s, true, -1, -4, -1, 20)
		line(s, true, 13, 2, 14, 8)
		line(s, true, 2, 10, 3, 12)
	})
	add("a point, and a curve between centres", 12, 9, func(s *Sketch) {
		line(s, true, 5.5, 5.5, 5.5, 5.5)
		line(s, true, 2.6, 2.6, 3.4, 3.4)
	})
	add("long", side, side, func(s *Sketch) { line(s, false, -1<<20, -1<<20, 1<<20, 1<<20) })
	left, right := both()
	h := float64(side)
	add("loop", side, side, func(s *Sketch) {
		s.Add(true, 5, left, right, [2]float64{h / 4, h / 2}, [2]float64{h / 4, 0}, [2]float64{3 * h / 4, 0},
			[2]float64{3 * h / 4, h / 2},
			[2]float64{3 * h / 4, h}, [2]float64{h / 4, h}, [2]float64{h / 4, h / 2})
	})
	add("cusp", side, side, func(s *Sketch) {
		s.Add(false, 6, left, right, [2]float64{0, h}, [2]float64{h, 0}, [2]float64{0, 0}, [2]float64{h, h})
	})
	add("one side", side, side, func(s *Sketch) {
		s.Add(true, 6, nil, right, [2]float64{2, 3}, [2]float64{h, 0}, [2]float64{0, h}, [2]float64{h, h})
		s.Add(false, 6, left, nil, [2]float64{h, 3}, [2]float64{0, 3}, [2]float64{h, h}, [2]float64{3, h})
		s.Add(true, 3, nil, nil, [2]float64{0, h / 2}, [2]float64{h / 3, h}, [2]float64{h / 3, 0}, [2]float64{h, h / 2})
	})
	add("a bundle", side, side, func(s *Sketch) {
		for i := range 9 {
			s.Add(i%2 == 0, 4, left, right, [2]float64{0, float64(i)}, [2]float64{h / 2, float64(i)},
				[2]float64{h / 2, h}, [2]float64{h, h - 1})
		}
	})
	add("stops in one place", side, side, func(s *Sketch) {
		line(s, false, 0, 3, h, 4)
		for i := range s.Stops {
			s.Stops[i].At = driver.CurveUnit / 2
		}
	})
	for i := range random {
		w, hh := 1+r.IntN(side), 1+r.IntN(side)
		add(fmt.Sprintf("random %d of %dx%d", i, w, hh), w, hh, func(s *Sketch) {
			for range 1 + r.IntN(6) {
				n := 1 + r.IntN(3)
				p := make([][2]float64, 0, 3*n+1)
				grid := []float64{256, 2, 1}[r.IntN(3)] // many points on centres, or between
				for range 3*n + 1 {
					p = append(p, [2]float64{
						math.Floor((r.Float64()*1.4-0.2)*float64(w)*grid) / grid,
						math.Floor((r.Float64()*1.4-0.2)*float64(hh)*grid) / grid,
					})
				}
				values := func() (v [][]float32) {
					for range r.IntN(4) {
						v = append(v, []float32{r.Float32(), r.Float32(), r.Float32(), r.Float32()})
					}
					return v
				}
				s.Add(r.IntN(2) == 0, uint32(r.IntN(6)), values(), values(), p...)
			}
		})
	}
	return out
}
