// The methods that test pixels: every pixel against every edge, and Berényi's ways to test fewer. They are here to be
// compared with; row spans are faster. Tiles set bits, which become spans at the end of each band of rows.

package cpu

import (
	"math"
	"math/bits"

	"github.com/polyscan/polyscan/kernels/driver"
)

// tileSide is the side of a tile in pixels.
const tileSide = 32

// keepEdges is how many edges scratch is kept for between ops: 1 MiB.
const keepEdges = 1 << 16

type tileScratch struct {
	mask []uint64      // tileSide rows of bits
	band []driver.Edge // edges that matter to the band
	kept []driver.Edge // edges that matter to the tile
}

// tiler finds the spans of a region, a band of tiles after the other.
type tiler struct {
	*tileScratch
	*pace
	fill  driver.FillRule
	words int // of a row of mask
	y0    int // first row of the band
}

// rectangle of pixels.
type rectangle struct{ x0, y0, x1, y1 int }

// A tileTest sets the bits of a tile.
type tileTest func(t *tiler, edges []driver.Edge, r rectangle) error

func findNaive(sc *scratch, w *spanWriter, edges []driver.Edge, fill driver.FillRule, width, lo, hi int) error {
	return findByTiles(sc, w, edges, fill, width, lo, hi, false,
		func(t *tiler, edges []driver.Edge, r rectangle) error {
			return t.each(edges, 0, r)
		})
}

func findTiled(sc *scratch, w *spanWriter, edges []driver.Edge, fill driver.FillRule, width, lo, hi int) error {
	return findByTiles(sc, w, edges, fill, width, lo, hi, false,
		func(t *tiler, edges []driver.Edge, r rectangle) error {
			near, err := t.near(edges, r)
			if err != nil {
				return err
			}
			if near {
				return t.each(edges, 0, r)
			}
			return t.uniform(edges, 0, r)
		})
}

func findEdgeFiltered(sc *scratch, w *spanWriter, edges []driver.Edge, fill driver.FillRule, width, lo, hi int) error {
	return findByTiles(sc, w, edges, fill, width, lo, hi, true, func(t *tiler, edges []driver.Edge, r rectangle) error {
		base, _, err := t.filter(edges, r)
		if err != nil {
			return err
		}
		return t.each(t.kept, base, r)
	})
}

func findTiledEdgeFiltered(sc *scratch, w *spanWriter, edges []driver.Edge, fill driver.FillRule, width, lo,
	hi int) error {
	return findByTiles(sc, w, edges, fill, width, lo, hi, true, func(t *tiler, edges []driver.Edge, r rectangle) error {
		base, near, err := t.filter(edges, r)
		if err == nil && !near {
			near, err = t.near(t.kept, r)
		}
		if err != nil {
			return err
		}
		if near {
			return t.each(t.kept, base, r)
		}
		return t.uniform(t.kept, base, r)
	})
}

// findByTiles calls test for the tiles that the region's bounds meet. With filter it only gets the edges that reach
// into the rows of the band.
func findByTiles(sc *scratch, w *spanWriter, edges []driver.Edge, fill driver.FillRule, width, lo, hi int, filter bool,
	test tileTest) error {
	x0, x1 := columns(edges, width)
	if x0 >= x1 {
		return nil
	}
	t := &tiler{tileScratch: &sc.tiles, pace: &sc.pace, fill: fill, words: (width + 63) / 64}
	if len(edges) > keepEdges {
		defer func() { t.band, t.kept = nil, nil }()
	}
	t.mask = grow(t.mask, t.words*tileSide)
	for y0 := lo; y0 < hi; y0 += tileSide {
		y1 := min(y0+tileSide, hi)
		t.y0 = y0
		clear(t.mask)
		band := edges
		if filter {
			if t.spend(2 * len(edges)) {
				return errAborted
			}
			t.band = appendBand(t.band[:0], edges, centre(y0), centre(y1-1))
			band = t.band
		}
		for x := x0; x < x1; x += tileSide {
			if err := test(t, band, rectangle{x, y0, min(x+tileSide, x1), y1}); err != nil {
				return err
			}
		}
		for y := y0; y < y1; y++ {
			if !putBits(w, t.row(y), int32(y)) {
				return errOpen
			}
		}
	}
	return nil
}

// centre is the coordinate of a pixel's centre.
func centre(i int) int64 { return int64(i)*driver.Subpixel + driver.Subpixel/2 }

// columns returns the columns [x0, x1) of the image outside of which no pixel is inside.
func columns(edges []driver.Edge, width int) (x0, x1 int) {
	x0, x1 = width, 0
	for i := range edges {
		k0, k1 := columnRange(edges[i])
		x0, x1 = min(x0, k0), max(x1, k1)
	}
	return max(x0, 0), min(x1, width)
}

// appendBand appends the edges that have a point between two heights, both included.
func appendBand(band, edges []driver.Edge, top, bottom int64) []driver.Edge {
	for _, e := range edges {
		if int64(max(e.Y0, e.Y1)) >= top && int64(min(e.Y0, e.Y1)) <= bottom {
			band = append(band, e)
		}
	}
	return band
}

func (t *tiler) row(y int) []uint64 { return t.mask[(y-t.y0)*t.words:][:t.words] }

// set sets the bits of pixels [a, b) of a row.
func (t *tiler) set(y, a, b int) {
	row := t.row(y)
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

// testStep is how many tests are done between looks at the clock: 0.1 ms.
const testStep = 1 << 16

// inside tests a pixel against edges; base is the winding number that others contribute.
func (t *tiler) inside(edges []driver.Edge, base int32, x, y int) (bool, error) {
	cx, cy := centre(x), centre(y)
	for {
		n := min(len(edges), testStep)
		for i := range edges[:n] {
			base += crossing(&edges[i], cx, cy)
		}
		if t.spend(2 + 3*n/2) {
			return false, errAborted
		}
		if edges = edges[n:]; len(edges) == 0 {
			return t.fill.Inside(base), nil
		}
	}
}

// each tests every pixel of a tile.
func (t *tiler) each(edges []driver.Edge, base int32, r rectangle) error {
	for y := r.y0; y < r.y1; y++ {
		for x := r.x0; x < r.x1; x++ {
			inside, err := t.inside(edges, base, x, y)
			if err != nil {
				return err
			}
			if inside {
				t.set(y, x, x+1)
			}
		}
	}
	return nil
}

// uniform decides a tile by one pixel. It takes the one next to the tile's centre; the centre itself may lie between
// two rows, where filtered edges say nothing.
func (t *tiler) uniform(edges []driver.Edge, base int32, r rectangle) error {
	inside, err := t.inside(edges, base, (r.x0+r.x1)/2, (r.y0+r.y1)/2)
	if inside {
		for y := r.y0; y < r.y1; y++ {
			t.set(y, r.x0, r.x1)
		}
	}
	return err
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

// near reports whether any edge meets the tile.
func (t *tiler) near(edges []driver.Edge, r rectangle) (bool, error) {
	c := r.disc()
	for i := range edges {
		if c.meets(&edges[i]) {
			return true, nil
		}
		if t.spend(3) {
			return false, errAborted
		}
	}
	return false, nil
}

// filter keeps the edges that can change a winding number within the tile, and adds up the signs of those that count
// for all of its pixels.
//
// Left out are edges that cross no row of the tile; edges that lie left of the first column's centre or on it, which
// count for none; and edges right of the last column's centre that cross all rows, which count for all. The latter
// two don't meet the rectangle R in the proof at meets, so it holds without them. An edge that crosses no row
// may: it may run between two rows. near says whether one does, as far as meets can tell.
func (t *tiler) filter(edges []driver.Edge, r rectangle) (base int32, near bool, err error) {
	t.kept = t.kept[:0]
	c := r.disc()
	for _, e := range edges {
		if t.spend(3) {
			return 0, false, errAborted
		}
		r0, r1 := rowRange(e, r.y0, r.y1)
		k0, k1 := columnRange(e)
		switch {
		case k1 <= r.x0:
		case k0 >= r.x1 && r0 == r.y0 && r1 == r.y1:
			base += direction(e)
		case r0 < r1:
			t.kept = append(t.kept, e)
		case k0 < r.x1:
			near = near || c.meets(&e)
		}
	}
	return base, near, nil
}

// direction is the sign with which an edge counts.
func direction(e driver.Edge) int32 {
	if e.Y1 > e.Y0 {
		return 1
	}
	return -1
}
