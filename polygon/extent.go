// Counting all pixels of a region, with no frame around it.

package polygon

import (
	"context"
	"math/bits"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// extentBudget is how many steps (an edge looked at for a band of rows) a call spends on counting pixels outside its
// frame; about 1 s. Ordinary regions take as many steps as they have edges times the edges that share a row with one.
const extentBudget = 1 << 26

// extent counts pixels of regions until its budget is spent.
type extent struct {
	ctx   context.Context
	pause func() error // lets others go first; nil where nobody waits for what the caller has
	last  time.Time    // it was called
	err   error        // why counting ended: the context's cause, or what pause said
	ended bool
	looks int   // until the next look at the context
	steps int64 // left
	order []int32
	live  []int32
	band  []bandEdge
}

// pauseEvery is how often others go first: a piece of work on the device takes as long.
const pauseEvery = time.Millisecond

// ExtentBytes is about how much host memory a call takes to count the pixels of regions that stick out of frames of a
// size: as much as for the one of which most edges share rows.
func (s *Set) ExtentBytes(width, height int) (most int64) {
	for i := range s.regions {
		if s.regions[i].Fill == driver.ByRuns || !s.sticksOut(i, width, height) {
			continue
		}
		edges := s.edgesOf(i)
		_, y0, _, y1 := s.boxes[i].pixels()
		const bands = 64
		var share [bands + 1]int64 // begin to share the rows of each, and end to
		of := func(y int) int { return min(max((y-y0)*bands/(y1-y0), 0), bands-1) }
		for _, e := range edges {
			if from, to := edgeRows(e); from < to {
				share[of(from)]++
				share[of(to-1)+1]--
			}
		}
		live, now := int64(0), int64(0)
		for _, n := range share {
			now += n
			live = max(live, now)
		}
		const index = int64(unsafe.Sizeof(int32(0)))
		most = max(most, int64(len(edges))*index+live*(index+int64(unsafe.Sizeof(bandEdge{}))))
	}
	return most
}

// sticksOut says whether region i may have pixels outside a frame of a size.
func (s *Set) sticksOut(i, width, height int) bool {
	x0, y0, x1, y1 := s.boxes[i].pixels()
	return x0 < x1 && y0 < y1 && (x0 < 0 || y0 < 0 || x1 > width || y1 > height)
}

// done looks at the context now and then, and lets others go first. Sorting asks in each comparison, which are equal
// once it says so, and then ends.
func (x *extent) done() bool {
	if x.looks--; x.looks < 0 {
		const often = 1 << 12 // some 50 µs
		x.looks = often
		if x.ended {
			return true
		}
		runtime.Gosched() // a goroutine that doesn't has its processor for 10 ms
		x.err = context.Cause(x.ctx)
		if now := time.Now(); x.err == nil && x.pause != nil && now.Sub(x.last) > pauseEvery {
			x.err = x.pause()
			x.last = time.Now()
		}
		x.ended = x.err != nil
	}
	return x.ended
}

// pixels counts the pixels of a region. ok is false when the budget did not last, or the context ended.
//
// Rows are taken in bands between the ends of edges. Where the edges of a band are in the same order in its first and
// its last row, no two of them cross between, and the pixels of all its rows are a sum of floors of an arithmetic
// progression for each edge. Where they are not, the band is cut in half. So a region that is millions of rows tall
// takes no longer than one of its shape that fits a frame.
func (x *extent) pixels(edges []driver.Edge, fill driver.FillRule) (n uint64, ok bool) {
	if len(edges) > cap(x.order) {
		kernels.Made(x.ctx, 4*len(edges))
	}
	x.order, x.live, x.looks = grow(x.order, len(edges))[:0], x.live[:0], 0
	for i, e := range edges {
		if from, to := edgeRows(e); from < to {
			x.order = append(x.order, int32(i))
		}
	}
	from := func(i int32) int { from, _ := edgeRows(edges[i]); return from }
	slices.SortFunc(x.order, func(a, b int32) int {
		if x.done() {
			return 0
		}
		return from(a) - from(b)
	})

	var total int64
	next, y := 0, 0
	for {
		x.looks -= len(x.live)
		x.live = slices.DeleteFunc(x.live, func(i int32) bool { _, to := edgeRows(edges[i]); return to <= y })
		if len(x.live) == 0 {
			if next == len(x.order) {
				return uint64(total), true
			}
			y = from(x.order[next])
		}
		for next < len(x.order) && from(x.order[next]) <= y {
			x.live = append(x.live, x.order[next])
			next++
		}
		end := 1 << 40
		if next < len(x.order) {
			end = from(x.order[next])
		}
		for _, i := range x.live {
			_, to := edgeRows(edges[i])
			end = min(end, to)
		}
		if x.done() || !x.rows(&total, edges, fill, y, end) {
			return 0, false
		}
		y = end
	}
}

// bandEdge is an edge in a band of rows. Its turn is at the ceiling of a fraction of denominator den, which grows by
// step/den from row to row.
type bandEdge struct {
	top, bottom fixed // in the first row and in the last
	num, step   int64
	den         int64
	sign        int32
}

// fixed is q + r/den, 0 <= r < den.
type fixed struct{ q, r, den int64 }

func (a fixed) compare(b fixed) int {
	if a.q != b.q {
		return int(a.q - b.q)
	}
	// a.r/a.den with b.r/b.den; den < 2^40
	ahi, alo := bits.Mul64(uint64(a.r), uint64(b.den))
	bhi, blo := bits.Mul64(uint64(b.r), uint64(a.den))
	switch {
	case ahi < bhi || ahi == bhi && alo < blo:
		return -1
	case ahi == bhi && alo == blo:
		return 0
	}
	return 1
}

func (a fixed) ceil() int64 {
	if a.r > 0 {
		return a.q + 1
	}
	return a.q
}

// rows adds the pixels of rows [y0, y1), in which all live edges count.
func (x *extent) rows(total *int64, edges []driver.Edge, fill driver.FillRule, y0, y1 int) bool {
	if x.steps -= int64(len(x.live)); x.steps < 0 || x.done() {
		return false
	}
	x.looks -= len(x.live)
	if len(x.live) > cap(x.band) {
		kernels.Made(x.ctx, len(x.live)*int(unsafe.Sizeof(bandEdge{})))
	}
	x.band = slices.Grow(x.band[:0], len(x.live))
	at := func(e driver.Edge, y int) (num int64, f fixed) {
		num, den := crossingFraction(e, y)
		q, r := floorDiv(num, den)
		return num, fixed{q, r, den}
	}
	for _, i := range x.live {
		if x.done() {
			return false
		}
		e := edges[i]
		b := bandEdge{sign: signOf(e), step: (int64(e.X1) - int64(e.X0)) << driver.SubpixelBits * int64(signOf(e))}
		b.num, b.top = at(e, y0)
		b.den, b.bottom = b.top.den, b.top
		if y1 > y0+1 {
			_, b.bottom = at(e, y1-1)
		}
		x.band = append(x.band, b)
	}
	slices.SortFunc(x.band, func(a, b bandEdge) int {
		if x.done() {
			return 0
		}
		if c := a.top.compare(b.top); c != 0 {
			return c
		}
		return a.bottom.compare(b.bottom)
	})
	if x.ended {
		return false
	}
	for i := 1; i < len(x.band); i++ {
		if x.band[i-1].bottom.compare(x.band[i].bottom) > 0 {
			mid := y0 + (y1-y0)/2
			return x.rows(total, edges, fill, y0, mid) && x.rows(total, edges, fill, mid, y1)
		}
	}
	var winding int32
	inside := false
	for i := range x.band {
		b := &x.band[i]
		winding -= b.sign
		if in := fill.Inside(winding); in != inside {
			const costs = 30 // comparisons
			if x.looks -= costs; x.done() {
				return false
			}
			sum := b.sum(y1 - y0)
			if in {
				sum = -sum
			}
			*total += sum
			inside = in
		}
	}
	return true
}

// sum is the sum of the edge's turns over n rows.
func (b *bandEdge) sum(n int) int64 {
	if n == 1 {
		return b.top.ceil()
	}
	// ceil(v/den) = floor((v + den-1)/den)
	q, r := floorDiv(b.num+b.den-1, b.den)
	stepQ, step := floorDiv(b.step, b.den)
	k := int64(n)
	return k*q + k*(k-1)/2*stepQ + int64(floorSum(uint64(n), uint64(b.den), uint64(step), uint64(r)))
}

// floorSum is the sum of floor((a*i + b)/m) for i from 0 to n-1, by Euclid's algorithm on a and m. a, b < m < 2^40 and
// n < 2^24, so that nothing overflows.
func floorSum(n, m, a, b uint64) (sum uint64) {
	for {
		sum += n * (n - 1) / 2 * (a / m)
		a %= m
		sum += n * (b / m)
		b %= m
		top := a*n + b
		if top < m {
			return sum
		}
		n, b = top/m, top%m
		m, a = a, m
	}
}
