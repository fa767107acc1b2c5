// MaskPrepare: regions to row spans. The methods differ in how they find the spans; what is here is common to them:
// how much room there has to be, and how the work is split.

package cpu

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *stream) MaskPrepare(op driver.MaskPrepare) error {
	return s.enqueue("MaskPrepare", func(stop *stopFlag) error { return s.dev.maskPrepare(op, stop) })
}

// MaskPreparedBytes bounds the number of spans in time linear in the number of edges.
func (d *device) MaskPreparedBytes(r driver.MaskRegions, width, height int, _ driver.Method) (int64, error) {
	var spans int64
	for i := range r.Regions {
		edges, err := regionEdges(r, i)
		if err != nil {
			return 0, err
		}
		spans += boundSpans(edges, width, 0, height).spans
	}
	if width < 1 || width > driver.MaxSide || height < 1 || height > driver.MaxSide {
		return 0, fmt.Errorf("cpu: regions for an image of %dx%d: sides must be 1 to %d", width, height, driver.MaxSide)
	}
	return preparedBytes(len(r.Regions), spans)
}

func regionEdges(r driver.MaskRegions, i int) ([]driver.Edge, error) {
	g := r.Regions[i]
	first, count, n := uint64(g.FirstEdge), uint64(g.EdgeCount), uint64(len(r.Edges))
	if first > n || count > n-first {
		return nil, fmt.Errorf("cpu: Regions[%d] reaches past the %d edges", i, n)
	}
	return r.Edges[first : first+count : first+count], nil
}

// rowRange returns the rows [r0, r1) within [lo, hi) whose centres the rule counts an edge for. The first row centre
// at or below y is the ceiling of (y-128)/256.
func rowRange(e driver.Edge, lo, hi int) (r0, r1 int) {
	a, b := int(e.Y0), int(e.Y1)
	if a > b {
		a, b = b, a
	}
	const up = driver.Subpixel/2 - 1
	return max(lo, (a+up)>>driver.SubpixelBits), min(hi, (b+up)>>driver.SubpixelBits)
}

// columnRange returns the columns whose centres have x such that some point of the edge may lie right of it (k1), and
// the columns that all points of the edge lie right of (k0), as counts of columns from the left.
func columnRange(e driver.Edge) (k0, k1 int) {
	a, b := int(e.X0), int(e.X1)
	if a > b {
		a, b = b, a
	}
	const up = driver.Subpixel/2 - 1
	return (a + up) >> driver.SubpixelBits, (b + up) >> driver.SubpixelBits
}

// bound is what is known about a region's part in some rows before it is prepared.
type bound struct {
	r0, r1    int   // rows that any edge counts for
	crossings int64 // of edges with row centres
	spans     int64 // not exceeded
}

// boundSpans bounds the part of a region in rows [lo, hi). Rings are closed, so the number of crossings in a row is
// even, and each span has two of its own; and two spans don't touch, so that a row of width w has at most (w+1)/2.
// Bounds of parts that partition the rows don't add up to more than the bound of the whole.
func boundSpans(edges []driver.Edge, width, lo, hi int) bound {
	b := bound{r0: math.MaxInt, r1: math.MinInt}
	for i := range edges {
		r0, r1 := rowRange(edges[i], lo, hi)
		if r0 < r1 {
			b.crossings += int64(r1 - r0)
			b.r0 = min(b.r0, r0)
			b.r1 = max(b.r1, r1)
		}
	}
	if b.r0 >= b.r1 {
		return bound{r0: lo, r1: lo}
	}
	b.spans = min(b.crossings/2, int64(b.r1-b.r0)*int64((width+1)/2))
	return b
}

var errOpen = errors.New("Regions: edges do not form closed rings")

// spanWriter takes the spans of a region's part in row-major order.
type spanWriter struct {
	out    []span
	n      int
	pixels uint64
	x0, x1 int32
}

// put appends [x0, x1) of row y. It returns false where there is no room, which closed rings can't cause.
func (w *spanWriter) put(y, x0, x1 int32) bool {
	if w.n >= len(w.out) {
		return false
	}
	w.out[w.n] = span{y, x0, x1}
	w.n++
	w.pixels += uint64(x1 - x0)
	w.x0 = min(w.x0, x0)
	w.x1 = max(w.x1, x1)
	return true
}

// extend lengthens the last span.
func (w *spanWriter) extend(x1 int32) {
	s := &w.out[w.n-1]
	w.pixels += uint64(x1 - s.X1)
	s.X1 = x1
	w.x1 = max(w.x1, x1)
}

// part is a piece of the work: rows [r0, r1) of a region.
type part struct {
	region int
	r0, r1 int
	first  int64 // where its spans may be written
	room   int64
	w      spanWriter
}

func (d *device) maskPrepare(op driver.MaskPrepare, stop *stopFlag) error {
	dst, err := view(op.Dst, "Dst")
	if err != nil {
		return err
	}
	if op.Width < 1 || op.Width > driver.MaxSide || op.Height < 1 || op.Height > driver.MaxSide {
		return fmt.Errorf("Width, Height = %d, %d: must be 1 to %d", op.Width, op.Height, driver.MaxSide)
	}
	find, err := finder(op.Method)
	if err != nil {
		return err
	}
	parts := make([]part, 0, len(op.Regions.Regions))
	var total int64
	for i := range op.Regions.Regions {
		edges, err := regionEdges(op.Regions, i)
		if err != nil {
			return err
		}
		b := boundSpans(edges, op.Width, 0, op.Height)
		parts = append(parts, part{region: i, r0: b.r0, r1: b.r1, first: total, room: b.spans})
		total += b.spans
	}
	p, err := layPrepared(dst, op.Width, op.Height, len(op.Regions.Regions), total)
	if err != nil {
		return err
	}
	var next atomic.Int64
	err = d.share("MaskPrepare", min(d.threads, len(parts)), func(s *scratch) error {
		for {
			i := int(next.Add(1) - 1)
			if i >= len(parts) {
				return nil
			}
			if stop.Load() {
				return errAborted
			}
			t := &parts[i]
			edges, err := regionEdges(op.Regions, t.region)
			if err != nil {
				return err
			}
			t.w = spanWriter{out: p.spans[t.first : t.first+t.room], x0: math.MaxInt32, x1: math.MinInt32}
			if t.r0 < t.r1 {
				if err := find(s, &t.w, edges, op.Regions.Regions[t.region].Fill, op.Width, t.r0, t.r1, stop); err != nil {
					return fmt.Errorf("Regions[%d]: %w", t.region, err)
				}
			}
		}
	})
	if err != nil {
		return err
	}
	for i := range parts {
		t := &parts[i]
		r := preparedRegion{First: uint64(t.first), Count: uint64(t.w.n), Pixels: t.w.pixels}
		if t.w.n > 0 {
			r.X0, r.X1 = t.w.x0, t.w.x1
			r.Y0, r.Y1 = t.w.out[0].Y, t.w.out[t.w.n-1].Y+1
		}
		p.regions[t.region] = r
	}
	p.header.Magic = preparedMagic
	return nil
}

// A findSpans writes the spans of rows [r0, r1) of a region, in an image of the given width.
type findSpans func(s *scratch, w *spanWriter, edges []driver.Edge, fill driver.FillRule, width, r0, r1 int, stop *stopFlag) error

func finder(m driver.Method) (findSpans, error) {
	switch m {
	case driver.MethodDefault, driver.RowSpans:
		return findByRows, nil
	case driver.Naive:
		return findNaive, nil
	case driver.Tiled:
		return findTiled, nil
	case driver.EdgeFiltered:
		return findEdgeFiltered, nil
	case driver.TiledEdgeFiltered:
		return findTiledEdgeFiltered, nil
	}
	return nil, fmt.Errorf("Method = %d: %w", m, driver.ErrNotSupported)
}
