// MaskPrepare: regions to row spans. The methods differ in how they find the spans; what is here is common to them:
// how much room there has to be, and how the work is split.

package cpu

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/polyscan/polyscan/kernels/driver"
)

// maskPrepareBytes takes time linear in the number of edges, and logarithmic in that of runs. The methods need the
// same.
func maskPrepareBytes(op *driver.MaskPrepare) (int64, error) {
	var spans int64
	for i := range op.Regions.Regions {
		spans += boundRegion(&op.Regions, i, op.Width, op.Height).spans
	}
	return preparedBytes(len(op.Regions.Regions), spans)
}

// boundRegion is the bound of all of a region.
func boundRegion(r *driver.MaskRegions, i, width, height int) bound {
	if r.Regions[i].Fill == driver.ByRuns {
		return bound{spans: int64(len(rowsOf(r.RunsOf(i), height)))}
	}
	return boundSpans(r.EdgesOf(i), width, 0, height)
}

// rowsOf are the runs in rows [0, height).
func rowsOf(runs []driver.Run, height int) []driver.Run {
	at := func(row int) int {
		n, _ := slices.BinarySearchFunc(runs, int32(row), func(u driver.Run, y int32) int { return cmp.Compare(u.Y, y) })
		return n
	}
	return runs[at(0):at(height)]
}

// clip writes the pixels of runs that lie within the image.
func (w *spanWriter) clip(runs []driver.Run, width int, pace *pace) error {
	for i, u := range runs {
		if i%1024 == 0 && pace.spend(2*min(len(runs)-i, 1024)) {
			return errAborted
		}
		if x0, x1 := max(u.X0, 0), min(u.X1, int32(width)); x0 < x1 && !w.put(u.Y, x0, x1) {
			return errOpen
		}
	}
	return nil
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

// finder is a method: how it finds spans, and what that costs.
type finder struct {
	find findSpans
	// cost of a region's rows, in some unit of about a nanosecond.
	cost func(b bound, edges, width int) int64
}

// A findSpans writes the spans of rows [r0, r1) of a region, in an image of the given width.
type findSpans func(s *scratch, w *spanWriter, edges []driver.Edge, fill driver.FillRule, width, r0, r1 int) error

var finders = map[driver.Method]finder{
	driver.MethodDefault:     {findByRows, rowCost},
	driver.RowSpans:          {findByRows, rowCost},
	driver.Naive:             {findNaive, pixelCost},
	driver.Tiled:             {findTiled, pixelCost},
	driver.EdgeFiltered:      {findEdgeFiltered, pixelCost},
	driver.TiledEdgeFiltered: {findTiledEdgeFiltered, pixelCost},
}

func rowCost(b bound, edges, _ int) int64 { return 4*b.crossings + 16*int64(edges) }

// pixelCost is far from right for most methods, but on the safe side: their regions are split more than need be.
func pixelCost(b bound, edges, width int) int64 {
	return int64(b.r1-b.r0)*int64(width) + 16*int64(edges)
}

// partCost is the least cost of a part of a region that is split, and of what a second thread is started for. A
// variable, so that tests split small regions.
var partCost int64 = 10_000

// part is rows [r0, r1) of a region that is split between threads.
type part struct {
	region int
	r0, r1 int
	first  uint64 // where its spans may be written
	room   uint64
	w      spanWriter
}

// partsPerThread is how many parts are made of a region for each thread, so that all end at about the same time.
const partsPerThread = 4

// preparation is an op in progress.
type preparation struct {
	*driver.MaskPrepare
	finder
	blob  prepared
	total int64 // cost of all regions

	parts []part // by region, then by row
	next  atomic.Int64
	batch int
}

func (d *device) maskPrepare(op *driver.MaskPrepare, stop *stopFlag) error {
	p := &preparation{MaskPrepare: op, finder: finders[op.Method]}
	var err error
	if p.blob, err = layPrepared(view(op.Dst), op.Width, op.Height, len(op.Regions.Regions)); err != nil {
		return err
	}
	pace := newPace(stop)
	if err := p.plan(d.threads, &pace); err != nil {
		return err
	}
	n := int(min(int64(d.threads), 1+p.total/(2*partCost)))
	if err := d.share("MaskPrepare", n, stop, p.work); err != nil {
		return err
	}
	p.join()
	p.blob.header.Magic = preparedMagic
	return nil
}

// Marks of directory entries, in X0, while the op is in progress. Count is then the room for spans, and Y0 and Y1 the
// rows to be looked at.
const (
	whole = iota
	inParts
)

// plan gives each region room for its spans, and makes parts of large ones.
func (p *preparation) plan(threads int, pace *pace) error {
	var spans int64
	for i := range p.Regions.Regions {
		edges := p.Regions.EdgesOf(i)
		if pace.spend(10 + 2*len(edges)) {
			return errAborted
		}
		b := boundRegion(&p.Regions, i, p.Width, p.Height)
		r := &p.blob.regions[i]
		*r = preparedRegion{First: uint64(spans), Count: uint64(b.spans), Y0: int32(b.r0), Y1: int32(b.r1)}
		spans += b.spans
		cost := 2 * b.spans // copied
		if len(edges) > 0 {
			cost = p.cost(b, len(edges), p.Width)
		}
		p.total += cost
		n := min(cost/partCost, int64(partsPerThread*threads), int64(b.r1-b.r0))
		if threads == 1 || n < 2 { // as of runs, which b has no rows of
			continue
		}
		r.X0 = inParts
		first := r.First
		for k := range n {
			t := part{region: i, r0: b.r0 + int(int64(b.r1-b.r0)*k/n), r1: b.r0 + int(int64(b.r1-b.r0)*(k+1)/n),
				first: first}
			t.room = uint64(boundSpans(edges, p.Width, t.r0, t.r1).spans)
			first += t.room
			p.parts = append(p.parts, t)
		}
		if first > r.First+r.Count {
			return fmt.Errorf("Regions[%d]: %w", i, errOpen)
		}
	}
	// Few small regions at a time, but one large part.
	p.batch = 1
	if len(p.parts) == 0 {
		p.batch = 1 + len(p.Regions.Regions)/(16*threads)
	}
	return p.blob.reserve(spans)
}

// work takes parts and then regions until there are none.
func (p *preparation) work(s *scratch) error {
	n := len(p.parts) + len(p.Regions.Regions)
	for {
		i := int(p.next.Add(int64(p.batch))) - p.batch
		if i >= n {
			return nil
		}
		for end := min(i+p.batch, n); i < end; i++ {
			if s.pace.spend(100) {
				return errAborted
			}
			if err := p.one(s, i); err != nil {
				return err
			}
		}
	}
}

// one does the part or region number i.
func (p *preparation) one(s *scratch, i int) error {
	if i < len(p.parts) {
		t := &p.parts[i]
		w, err := p.rows(s, t.region, t.first, t.room, t.r0, t.r1)
		if err == nil {
			t.w = *w
		}
		return err
	}
	i -= len(p.parts)
	r := &p.blob.regions[i]
	if r.X0 == inParts {
		return nil
	}
	w, err := p.rows(s, i, r.First, r.Count, int(r.Y0), int(r.Y1))
	if err != nil {
		return err
	}
	w.describe(r)
	return nil
}

// rows finds the spans of some rows of a region. The writer that it returns is the scratch's.
func (p *preparation) rows(s *scratch, region int, first, room uint64, r0, r1 int) (*spanWriter, error) {
	w := &s.writer
	*w = newSpanWriter(p.blob.spans[first : first+room : first+room])
	var err error
	if fill := p.Regions.Regions[region].Fill; fill == driver.ByRuns {
		err = w.clip(rowsOf(p.Regions.RunsOf(region), p.Height), p.Width, &s.pace)
	} else if r0 < r1 {
		err = p.find(s, w, p.Regions.EdgesOf(region), fill, p.Width, r0, r1)
	}
	if err != nil {
		return nil, fmt.Errorf("Regions[%d]: %w", region, err)
	}
	return w, nil
}

// join moves the spans of parts together.
func (p *preparation) join() {
	for i := 0; i < len(p.parts); {
		region := p.parts[i].region
		r := &p.blob.regions[region]
		all := newSpanWriter(p.blob.spans[r.First : r.First+r.Count])
		for ; i < len(p.parts) && p.parts[i].region == region; i++ {
			all.append(&p.parts[i].w)
		}
		all.describe(r)
	}
}
