// Rings: the building blocks of problems, from plain to perverse.

package devicetest

import (
	"math"
	"math/rand/v2"

	"github.com/polyscan/polyscan/kernels/driver"
)

// point is in 1/256 px.
type point struct{ x, y int32 }

type ring []point

// px is a coordinate of v pixels.
func px(v float64) int32 { return int32(math.Round(v * driver.Subpixel)) }

func at(x, y float64) point { return point{px(x), px(y)} }

// box is a rectangle, clockwise as it is seen with y downwards.
func box(x0, y0, x1, y1 float64) ring { return ring{at(x0, y0), at(x1, y0), at(x1, y1), at(x0, y1)} }

func (r ring) reversed() ring {
	out := make(ring, 0, len(r))
	for i := range r {
		out = append(out, r[len(r)-1-i])
	}
	return out
}

// add appends a region of the given rings.
func add(m *driver.MaskRegions, fill driver.FillRule, rings ...ring) {
	first := len(m.Edges)
	for _, r := range rings {
		for i, p := range r {
			q := r[(i+1)%len(r)]
			m.Edges = append(m.Edges, driver.Edge{X0: p.x, Y0: p.y, X1: q.x, Y1: q.y})
		}
	}
	m.Regions = append(m.Regions,
		driver.Region{First: uint32(first), Count: uint32(len(m.Edges) - first), Fill: fill})
}

// addBoth appends a region for each fill rule that share their edges.
func addBoth(m *driver.MaskRegions, rings ...ring) {
	add(m, driver.NonZero, rings...)
	r := m.Regions[len(m.Regions)-1]
	r.Fill = driver.EvenOdd
	m.Regions = append(m.Regions, r)
}

// addRuns appends a region of runs: the pixels of an image of a size, with its corner at (x0, y0), of which in says
// that they are inside.
func addRuns(m *driver.MaskRegions, x0, y0, width, height int, in func(x, y int) bool) {
	first := len(m.Runs)
	for y := range height {
		for x := 0; x < width; x++ {
			from := x
			for x < width && in(x, y) {
				x++
			}
			if from < x {
				m.Runs = append(m.Runs, driver.Run{Y: int32(y0 + y), X0: int32(x0 + from), X1: int32(x0 + x)})
			}
		}
	}
	m.Regions = append(m.Regions,
		driver.Region{First: uint32(first), Count: uint32(len(m.Runs) - first), Fill: driver.ByRuns})
}

// regular is a polygon around (cx, cy) that visits every step-th of n corners, so that it winds step times.
func regular(cx, cy, radius float64, n, step int, turn float64) ring {
	r := make(ring, 0, n)
	for i := range n {
		a := turn + 2*math.Pi*float64(i*step%n)/float64(n)
		r = append(r, at(cx+radius*math.Cos(a), cy+radius*math.Sin(a)))
	}
	return r
}

// jagged is a star-shaped ring of n vertices at random distances.
func jagged(g *rand.Rand, cx, cy, least, most float64, n int) ring {
	r := make(ring, 0, n)
	for i := range n {
		a := 2 * math.Pi * float64(i) / float64(n)
		d := least + (most-least)*g.Float64()
		r = append(r, at(cx+d*math.Cos(a), cy+d*math.Sin(a)))
	}
	return r
}

// A placement says where random vertices lie.
type placement int

const (
	anywhere   placement = iota // on the 1/256 px grid
	onCentres                   // on pixel centres
	onCorners                   // on corners of pixels
	onHalves                    // on both
	faraway                     // up to MaxCoord, now and then near the image
	placements                  // how many there are
)

// vertex is a random point in and around an image of w x h.
func (p placement) vertex(g *rand.Rand, w, h int) point {
	sub := driver.Subpixel
	pick := func(n int) int32 {
		margin := n/2 + 2
		v := (g.IntN(n+2*margin) - margin) * sub
		switch p {
		case onCentres:
			return int32(v + sub/2)
		case onCorners:
			return int32(v)
		case onHalves:
			return int32(v + sub/2*g.IntN(2))
		case faraway:
			switch g.IntN(4) {
			case 0:
				return driver.MaxCoord
			case 1:
				return -driver.MaxCoord
			case 2:
				return g.Int32N(2*driver.MaxCoord-1) - driver.MaxCoord + 1
			}
		}
		return int32(v + g.IntN(sub))
	}
	return point{pick(w), pick(h)}
}

// scribble is n random vertices, connected as they come, with repeated vertices, collinear ones and spikes.
func scribble(g *rand.Rand, p placement, w, h, n int) ring {
	r := make(ring, 0, n)
	for len(r) < n {
		switch k := len(r); {
		case k > 0 && g.IntN(12) == 0: // repeated
			r = append(r, r[k-1])
		case k > 1 && g.IntN(12) == 0: // a spike: back to where the edge came from
			r = append(r, r[k-2])
		case k > 0 && g.IntN(10) == 0: // level with the last
			v := p.vertex(g, w, h)
			r = append(r, point{v.x, r[k-1].y})
		case k > 0 && g.IntN(10) == 0:
			v := p.vertex(g, w, h)
			r = append(r, point{r[k-1].x, v.y})
		default:
			r = append(r, p.vertex(g, w, h))
		}
	}
	return r
}

// partition cuts the rectangle [0, w) x [0, h), which a grid with moved inner corners divides, into triangles.
// Each pixel belongs to one of them.
func partition(g *rand.Rand, p placement, w, h, cols, rows int) []ring {
	corner := make([][]point, rows+1)
	for j := range corner {
		for i := range cols + 1 {
			c := point{int32(i * w * driver.Subpixel / cols), int32(j * h * driver.Subpixel / rows)}
			// Inner corners move by less than a quarter of a cell, so that no triangle turns over.
			if i > 0 && i < cols && j > 0 && j < rows {
				c.x += jitter(g, p, w*driver.Subpixel/cols/4)
				c.y += jitter(g, p, h*driver.Subpixel/rows/4)
			}
			corner[j] = append(corner[j], c)
		}
	}
	var out []ring
	for j := range rows {
		for i := range cols {
			a, b, c, d := corner[j][i], corner[j][i+1], corner[j+1][i+1], corner[j+1][i]
			if g.IntN(2) == 0 {
				out = append(out, ring{a, b, c}, ring{a, c, d})
			} else {
				out = append(out, ring{a, b, d}, ring{b, c, d})
			}
		}
	}
	return out
}

func jitter(g *rand.Rand, p placement, most int) int32 {
	if most < 1 {
		return 0
	}
	v := g.IntN(2*most+1) - most
	switch p {
	case onCentres:
		return int32(v/(driver.Subpixel/2)) * driver.Subpixel / 2
	case onCorners:
		return int32(v/driver.Subpixel) * driver.Subpixel
	}
	return int32(v)
}
