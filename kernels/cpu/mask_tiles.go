// The methods that test pixels: every pixel against every edge, and the seed's two ways to test fewer.
// They set bits, which become spans at the end of each band of rows.

package cpu

import (
	"math"
	"math/bits"

	"github.com/polyscan/polyscan/kernels/driver"
)

// tileSide is the side of a tile in pixels.
const tileSide = 32

// pollTests is the number of tests of a pixel against an edge between looks at the stop flag, about 0.1 ms.
const pollTests = 1 << 16

type tileScratch struct {
	mask  []uint64 // tileSide rows of words
	edges []driver.Edge
}

// crossing returns the sign with which an edge counts for the point (x, y), or 0. See [driver.Edge].
func crossing(e *driver.Edge, x, y int64) int32 {
	xa, ya, xb, yb := int64(e.X0), int64(e.Y0), int64(e.X1), int64(e.Y1)
	sign := int32(1)
	if ya > yb {
		xa, ya, xb, yb = xb, yb, xa, ya
		sign = -1
	}
	if y < ya || y >= yb || (x-xa)*(yb-ya) >= (y-ya)*(xb-xa) {
		return 0
	}
	return sign
}

// tester counts tests and looks at the stop flag.
type tester struct {
	stop *stopFlag
	left int
}

// winding is the winding number of the point (x, y). It is undefined after ok is false, which means stop.
func (t *tester) winding(edges []driver.Edge, x, y int64) (wind int32, ok bool) {
	for {
		n := min(len(edges), t.left)
		for i := range edges[:n] {
			wind += crossing(&edges[i], x, y)
		}
		t.left -= n
		if edges = edges[n:]; len(edges) == 0 {
			return wind, true
		}
		if t.stop.Load() {
			return 0, false
		}
		t.left = pollTests
	}
}

func centre(i int) int64 { return int64(i)*driver.Subpixel + driver.Subpixel/2 }

// columns returns the columns [x0, x1) within the image outside of which no pixel is inside.
func columns(edges []driver.Edge, width int) (x0, x1 int) {
	x0, x1 = width, 0
	for i := range edges {
		k0, k1 := columnRange(edges[i])
		x0, x1 = min(x0, k0), max(x1, k1)
	}
	return max(x0, 0), min(x1, width)
}

// rectangle of pixels.
type rectangle struct{ x0, y0, x1, y1 int }

// bandwise calls fill for tiles of up to side x rows pixels, left to right, one band of rows after the other, and
// writes the spans of the bits that it sets.
func bandwise(s *tileScratch, w *spanWriter, edges []driver.Edge, width, lo, hi, side int, test func(r rectangle, set func(y, x0, x1 int)) bool) error {
	x0, x1 := columns(edges, width)
	if x0 >= x1 {
		return nil
	}
	words := (width + 63) / 64
	s.mask = grow(s.mask, words*min(side, tileSide))
	for y0 := lo; y0 < hi; y0 += min(side, tileSide) {
		y1 := min(y0+min(side, tileSide), hi)
		clear(s.mask)
		set := func(y, a, b int) { setBits(s.mask[(y-y0)*words:(y-y0+1)*words], a, b) }
		for x := x0; x < x1; x += side {
			if !test(rectangle{x, y0, min(x+side, x1), y1}, set) {
				return errAborted
			}
		}
		for y := y0; y < y1; y++ {
			if !putBits(w, s.mask[(y-y0)*words:(y-y0+1)*words], int32(y)) {
				return errOpen
			}
		}
	}
	return nil
}

func setBits(row []uint64, a, b int) {
	for a < b {
		n := min(b, a|63+1) - a
		row[a/64] |= (^uint64(0) >> (64 - n)) << (a % 64)
		a += n
	}
}

// putBits writes the runs of ones as spans.
func putBits(w *spanWriter, row []uint64, y int32) bool {
	for i := 0; i < len(row)*64; {
		word := row[i/64] >> (i % 64)
		if word == 0 {
			i = (i/64 + 1) * 64
			continue
		}
		i += bits.TrailingZeros64(word)
		j := i
		for j < len(row)*64 {
			ones := bits.TrailingZeros64(^(row[j/64] >> (j % 64)))
			if j += ones; j%64 != 0 || ones == 0 {
				break
			}
		}
		if !w.put(y, int32(i), int32(j)) {
			return false
		}
		i = j
	}
	return true
}

// findNaive tests every pixel of the region's bounds against every edge.
func findNaive(sc *scratch, w *spanWriter, edges []driver.Edge, fill driver.FillRule, width, lo, hi int, stop *stopFlag) error {
	t := tester{stop: stop, left: pollTests}
	return bandwise(&sc.tiles, w, edges, width, lo, hi, tileSide, func(r rectangle, set func(y, x0, x1 int)) bool {
		return t.tile(edges, 0, fill, r, set)
	})
}

// tile tests every pixel of r against the edges given; base is the winding number that others contribute.
func (t *tester) tile(edges []driver.Edge, base int32, fill driver.FillRule, r rectangle, set func(y, x0, x1 int)) bool {
	for y := r.y0; y < r.y1; y++ {
		for x := r.x0; x < r.x1; x++ {
			wind, ok := t.winding(edges, centre(x), centre(y))
			if !ok {
				return false
			}
			if fill.Inside(base + wind) {
				set(y, x, x+1)
			}
		}
	}
	return true
}

// uniform decides a tile by the winding number of one pixel. It takes the one next to the tile's centre; the centre
// itself may lie between two rows, where filtered edges say nothing.
func (t *tester) uniform(edges []driver.Edge, base int32, fill driver.FillRule, r rectangle, set func(y, x0, x1 int)) bool {
	wind, ok := t.winding(edges, centre((r.x0+r.x1)/2), centre((r.y0+r.y1)/2))
	if ok && fill.Inside(base+wind) {
		for y := r.y0; y < r.y1; y++ {
			set(y, r.x0, r.x1)
		}
	}
	return ok
}

// disc is the smallest disc around a tile's centre that holds the centres of its pixels, grown by a margin.
type disc struct {
	x, y   int64
	square float64 // of the radius
}

func (r rectangle) disc() disc {
	radius := math.Hypot(float64(r.x1-r.x0-1), float64(r.y1-r.y0-1))*driver.Subpixel/2 + 2
	// The middle of the centres is an integer.
	return disc{(centre(r.x0) + centre(r.x1-1)) / 2, (centre(r.y0) + centre(r.y1-1)) / 2, radius * radius}
}

// meets reports whether the edge comes as near to the tile's centre as half the diagonal of its pixel centres.
//
// Why one winding number holds for all pixels of a tile that no edge meets: with 0 < ε << δ << 1 the rule's winding
// number of a pixel centre (x, y) is the winding number of the point (x+δ, y+ε), which lies on no edge. (An edge
// counts for y where it crosses the line at y+ε, and for x where it does so right of x+δ.) Those points of a tile
// lie within the rectangle R that they span, and R in the disc of that radius around the tile's centre, grown by one
// unit. No edge meets it, and edges form closed curves, so the winding number is the same everywhere in R.
//
// Distances are computed in float64. Differences of coordinates are exact; the products and their quotient have
// relative errors below 2^-50, so that a distance is off by less than 2^-50 * 2^32 units. One more unit of margin
// covers that and the δ above.
func (c disc) meets(e *driver.Edge) bool {
	px, py := float64(c.x-int64(e.X0)), float64(c.y-int64(e.Y0))
	dx, dy := float64(int64(e.X1)-int64(e.X0)), float64(int64(e.Y1)-int64(e.Y0))
	if l := dx*dx + dy*dy; l > 0 {
		h := min(max((px*dx+py*dy)/l, 0), 1)
		px, py = px-h*dx, py-h*dy
	}
	return px*px+py*py <= c.square
}

// far reports whether all edges are farther from the tile than that.
func (t *tester) far(edges []driver.Edge, c disc) (far, ok bool) {
	for i := range edges {
		if c.meets(&edges[i]) {
			return false, true
		}
		if t.left--; t.left <= 0 {
			if t.stop.Load() {
				return false, false
			}
			t.left = pollTests
		}
	}
	return true, true
}

// filter collects the edges that can change a winding number within the tile, and adds up the signs of those that
// count for all of its pixels.
//
// Left out are edges that cross no row of the tile; edges that lie left of the first column's centre or on it, which
// count for none; and edges right of the last column's centre that cross all rows, which count for all. The latter
// two don't meet the rectangle R in the proof at meets, so it holds without them. An edge that crosses no row
// may: it may run between two rows. near says whether one does, as far as meets can tell.
func (t *tester) filter(kept, edges []driver.Edge, r rectangle) (_ []driver.Edge, base int32, near, ok bool) {
	kept = kept[:0]
	c := r.disc()
	for i := range edges {
		if t.left--; t.left <= 0 {
			if t.stop.Load() {
				return kept, 0, false, false
			}
			t.left = pollTests
		}
		e := edges[i]
		r0, r1 := rowRange(e, r.y0, r.y1)
		k0, k1 := columnRange(e)
		switch {
		case k1 <= r.x0:
		case k0 >= r.x1:
			if r0 == r.y0 && r1 == r.y1 {
				base += direction(e)
			} else if r0 < r1 {
				kept = append(kept, e)
			}
		case r0 < r1:
			kept = append(kept, e)
		default:
			near = near || c.meets(&e)
		}
	}
	return kept, base, near, true
}

// direction is the sign with which an edge counts.
func direction(e driver.Edge) int32 {
	if e.Y1 > e.Y0 {
		return 1
	}
	return -1
}

func findTiled(sc *scratch, w *spanWriter, edges []driver.Edge, fill driver.FillRule, width, lo, hi int, stop *stopFlag) error {
	t := tester{stop: stop, left: pollTests}
	return bandwise(&sc.tiles, w, edges, width, lo, hi, tileSide, func(r rectangle, set func(y, x0, x1 int)) bool {
		far, ok := t.far(edges, r.disc())
		switch {
		case !ok:
			return false
		case far:
			return t.uniform(edges, 0, fill, r, set)
		}
		return t.tile(edges, 0, fill, r, set)
	})
}

func findEdgeFiltered(sc *scratch, w *spanWriter, edges []driver.Edge, fill driver.FillRule, width, lo, hi int, stop *stopFlag) error {
	t := tester{stop: stop, left: pollTests}
	s := &sc.tiles
	return bandwise(s, w, edges, width, lo, hi, tileSide, func(r rectangle, set func(y, x0, x1 int)) (ok bool) {
		var base int32
		if s.edges, base, _, ok = t.filter(s.edges, edges, r); !ok {
			return false
		}
		return t.tile(s.edges, base, fill, r, set)
	})
}

func findTiledEdgeFiltered(sc *scratch, w *spanWriter, edges []driver.Edge, fill driver.FillRule, width, lo, hi int, stop *stopFlag) error {
	t := tester{stop: stop, left: pollTests}
	s := &sc.tiles
	return bandwise(s, w, edges, width, lo, hi, tileSide, func(r rectangle, set func(y, x0, x1 int)) (ok bool) {
		var base int32
		var near, far bool
		if s.edges, base, near, ok = t.filter(s.edges, edges, r); ok && !near {
			far, ok = t.far(s.edges, r.disc())
		}
		switch {
		case !ok:
			return false
		case far:
			return t.uniform(s.edges, base, fill, r, set)
		}
		return t.tile(s.edges, base, fill, r, set)
	})
}
