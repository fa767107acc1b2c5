// Row spans by crossings: each edge yields the column at which it crosses each row's centre line, by an integer DDA;
// the crossings of a row are sorted and the winding number swept over them.

package cpu

import (
	"math"
	"math/bits"
	"slices"

	"github.com/polyscan/polyscan/kernels/driver"
)

// rowScratch holds active edges, or the crossings of a band of rows.
type rowScratch struct {
	edges  []activeEdge // that cross a row
	order  []uint64     // first row<<32 | index of an edge
	act    []uint32     // the edges that cross the current row, by index
	bounds []uint32     // those of them at which spans begin and end
	ends   []int32      // by row: the number of crossings, at first as differences; then where to put the next one
	base   []int32      // by row: the sum of the signs of edges right of column 0, at first as differences
	keys   []uint32     // crossings by row: column<<1 | 1 where the sign is +1
	delta  []int32      // by column, zero between uses
	set    []uint64     // bit by column, zero between uses
}

// bandKeys bounds how many crossings are held at a time, unless a single row has more: 1 MiB. A variable for tests.
var bandKeys = 1 << 18

// denseShift is the binary logarithm of the number of columns for each crossing, up to which going through the bits of
// a row takes less time than sorting. A variable for tests.
var denseShift = 9

func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// crossings walks an edge down the rows: k is the number of columns, from the left, whose centres lie left of the
// edge's crossing with a row. It may be negative or beyond the image.
//
// In row r, whose centre is y, k is the ceiling of (N - 128 D) / (256 D), where D = |y1-y0| and N/D is the crossing's
// x. From row to row N grows by 256 dx, so k grows by the floor step of dx/D or by one more, when what was left to the
// next integer has been used up: left = 256 D k - (N - 128 D) stays in [0, 256 D). With |coordinates| <= 2^30 all of it
// fits in 63 bits.
type crossings struct {
	k, left    int64
	step, rest int64
	full       int64 // 256 D
}

// start begins at row r0, which the edge must cross. It returns the sign with which the edge counts.
func (c *crossings) start(e driver.Edge, r0 int) (sign int32) {
	xa, ya, xb, yb := int64(e.X0), int64(e.Y0), int64(e.X1), int64(e.Y1)
	sign = 1
	if ya > yb {
		xa, ya, xb, yb = xb, yb, xa, ya
		sign = -1
	}
	d, dx := yb-ya, xb-xa
	t := centre(r0) - ya
	num := (xa-driver.Subpixel/2)*d + t*dx
	full := d << driver.SubpixelBits
	// Quotients are guessed in floating point, which is faster than division, and then made right.
	slope := float64(dx) / float64(d)
	step := int64(slope)
	rest := dx - step*d
	for rest < 0 { // never d or more: rounding reaches the next integer at most, and truncating goes towards 0
		rest += d
		step--
	}
	k := int64((float64(xa-driver.Subpixel/2) + float64(t)*slope) * (1. / driver.Subpixel))
	left := k*full - num
	for left < 0 {
		left += full
		k++
	}
	for left >= full {
		left -= full
		k--
	}
	c.k, c.left, c.step, c.rest, c.full = k, left, step, rest<<driver.SubpixelBits, full
	return sign
}

// next goes to the next row.
func (c *crossings) next() {
	c.k += c.step
	c.left -= c.rest
	borrow := c.left >> 63 // -1 or 0; a branch would be mispredicted
	c.left += c.full & borrow
	c.k -= borrow
}

// Active edges are the better way unless there are very many. Variables, so that tests go both ways with few.
var (
	// activeEdges bounds the memory that active edges take, and the time to sort them: 1 MiB, 1 ms.
	activeEdges = 1 << 14
	// activeCrossings is how many crossings a row may have on average. With 40, active edges take 0.6 times as long as
	// buckets, with 400 in no good order 1.8 times.
	activeCrossings = 128
)

// findByRows writes the spans of rows [lo, hi) of a region.
func findByRows(sc *scratch, w *spanWriter, edges []driver.Edge, fill driver.FillRule, width, lo, hi int) error {
	s := &sc.rows
	if len(edges) <= activeEdges && s.begin(edges, lo, hi) <= activeCrossings*(hi-lo) {
		return s.active(w, fill, width, lo, hi, &sc.pace)
	}
	return s.buckets(w, edges, fill, width, lo, hi, &sc.pace)
}

// activeEdge is an edge while it crosses rows, up to r1. It stays where it is: to copy what was just written in parts
// stalls the processor.
type activeEdge struct {
	crossings
	r1   int32
	sign int32
}

// begin lists the edges that cross rows [lo, hi), and returns how many crossings there are.
func (s *rowScratch) begin(edges []driver.Edge, lo, hi int) int {
	s.edges = grow(s.edges, len(edges))
	s.order = s.order[:0]
	n := 0
	for _, e := range edges {
		r0, r1 := rowRange(e, lo, hi)
		if r0 >= r1 {
			continue
		}
		if _, k1 := columnRange(e); k1 <= 0 {
			continue // left of all pixels
		}
		i := len(s.order)
		s.order = append(s.order, uint64(r0)<<32|uint64(i))
		a := &s.edges[i]
		a.r1 = int32(r1)
		a.sign = a.start(e, r0)
		n += r1 - r0
	}
	return n
}

// active goes down the rows in bands between two rows in which an edge begins or ends. Most bands have few edges, and
// these keep their order from left to right.
func (s *rowScratch) active(w *spanWriter, fill driver.FillRule, width, lo, hi int, pace *pace) error {
	sortRows(s.order)
	todo, act := s.order, s.act[:0]
	for r := lo; ; {
		n, end := 0, hi
		for _, i := range act {
			if r1 := int(s.edges[i].r1); r1 > r {
				act[n] = i
				n++
				end = min(end, r1)
			}
		}
		act = act[:n]
		if n == 0 {
			if len(todo) == 0 {
				return nil
			}
			r = int(todo[0] >> 32)
		}
		for len(todo) > 0 && int(todo[0]>>32) == r {
			i := uint32(todo[0])
			act = append(act, i)
			end = min(end, int(s.edges[i].r1))
			todo = todo[1:]
		}
		s.act = act
		if len(todo) > 0 {
			end = min(end, int(todo[0]>>32))
		}
		if pace.spend(20 + 2*len(act)*(end-r)) {
			return errAborted
		}
		var ok bool
		if len(act) == 2 && s.edges[act[0]].sign != s.edges[act[1]].sign {
			ok = w.between(&s.edges[act[0]].crossings, &s.edges[act[1]].crossings, int64(width), int32(r), int32(end))
		} else {
			ok = s.among(w, fill, int64(width), int32(r), int32(end))
		}
		if !ok {
			return errOpen
		}
		r = end
	}
}

func sortRows(keys []uint64) {
	if len(keys) > 24 {
		slices.Sort(keys)
		return
	}
	insert(keys)
}

// insert sorts few keys, or many that are almost in order.
func insert[T uint32 | uint64](keys []T) {
	for i := 1; i < len(keys); i++ {
		k, j := keys[i], i
		for ; j > 0 && keys[j-1] > k; j-- {
			keys[j] = keys[j-1]
		}
		keys[j] = k
	}
}

// between writes the spans between two edges of opposite signs, for rows [r, end): inside by either rule.
func (w *spanWriter) between(a, b *crossings, width int64, r, end int32) bool {
	ak, aleft, astep, arest, afull := a.k, a.left, a.step, a.rest, a.full
	bk, bleft, bstep, brest, bfull := b.k, b.left, b.step, b.rest, b.full
	out, n := w.out[w.n:], 0
	x0, x1, pixels := int64(w.x0), int64(w.x1), w.pixels
	for ; r < end; r++ {
		from, to := max(min(ak, bk), 0), min(max(ak, bk), width)
		if from < to {
			if n >= len(out) {
				return false
			}
			out[n] = span{r, int32(from), int32(to)}
			n++
			pixels += uint64(to - from)
			x0, x1 = min(x0, from), max(x1, to)
		}
		aleft -= arest
		m := aleft >> 63
		aleft += afull & m
		ak += astep - m
		bleft -= brest
		m = bleft >> 63
		bleft += bfull & m
		bk += bstep - m
	}
	a.k, a.left = ak, aleft
	b.k, b.left = bk, bleft
	w.n += n
	w.x0, w.x1, w.pixels = int32(x0), int32(x1), pixels
	return true
}

// among writes the spans among the active edges, for rows [r, end). As long as the edges are in order, the same
// edges begin and end the spans of each row.
func (s *rowScratch) among(w *spanWriter, fill driver.FillRule, width int64, r, end int32) bool {
	act := s.act
	wind := int32(0) // left of all edges
	for _, i := range act {
		wind += s.edges[i].sign
	}
	for sorted := false; r < end; r++ {
		if !sorted {
			for i := range act {
				for j := i; j > 0 && s.edges[act[j]].k < s.edges[act[j-1]].k; j-- {
					act[j], act[j-1] = act[j-1], act[j]
				}
			}
			s.findBounds(wind, fill)
		}
		last := int64(-1) // where the row's last span ends
		for i := 0; i+1 < len(s.bounds); i += 2 {
			from, to := int64(0), width
			if b := s.bounds[i]; b != noEdge {
				from = min(max(s.edges[b].k, 0), width)
			}
			if b := s.bounds[i+1]; b != noEdge {
				to = min(max(s.edges[b].k, 0), width)
			}
			switch {
			case from >= to:
				continue
			case from == last:
				w.extend(int32(to))
			case !w.put(r, int32(from), int32(to)):
				return false
			}
			last = to
		}
		sorted = true
		before := int64(math.MinInt64)
		for _, i := range act {
			a := &s.edges[i]
			a.next()
			if a.k < before {
				sorted = false
			}
			before = a.k
		}
	}
	return true
}

const noEdge = math.MaxUint32

// findBounds lists the edges at which spans begin and end, in turns; noEdge stands for the sides of the image.
func (s *rowScratch) findBounds(wind int32, fill driver.FillRule) {
	s.bounds = s.bounds[:0]
	inside := fill.Inside(wind)
	if inside {
		s.bounds = append(s.bounds, noEdge)
	}
	for _, i := range s.act {
		wind -= s.edges[i].sign
		if now := fill.Inside(wind); now != inside {
			s.bounds = append(s.bounds, i)
			inside = now
		}
	}
	if inside {
		s.bounds = append(s.bounds, noEdge)
	}
}

// buckets sorts all crossings of a band of rows by row: its memory does not grow with the number of edges.
func (s *rowScratch) buckets(w *spanWriter, edges []driver.Edge, fill driver.FillRule, width, lo, hi int,
	pace *pace) error {
	rows := hi - lo
	s.ends = grow(s.ends, rows+1)
	s.base = grow(s.base, rows+1)
	clear(s.ends)
	clear(s.base)
	// With sums over rows, an edge that can't cross inside costs O(1), wherever it is.
	for i := range edges {
		e := edges[i]
		r0, r1 := rowRange(e, lo, hi)
		if r0 >= r1 {
			continue
		}
		k0, k1 := columnRange(e)
		if k1 <= 0 {
			continue // left of all pixels
		}
		sign := direction(e)
		s.base[r0-lo] += sign
		s.base[r1-lo] -= sign
		if k0 < width {
			s.ends[r0-lo]++
			s.ends[r1-lo]--
		}
	}
	// The sums can exceed 31 bits over all rows, but not in a row: there are fewer edges than that.
	var live, wind int32
	for r := range rows {
		live += s.ends[r]
		wind += s.base[r]
		s.ends[r], s.base[r] = live, wind
	}
	for b0 := 0; b0 < rows; {
		// A band: as many rows as fit, at least one.
		n, b1 := 0, b0
		for ; b1 < rows && (b1 == b0 || n+int(s.ends[b1]) <= bandKeys); b1++ {
			c := int(s.ends[b1])
			s.ends[b1] = int32(n)
			n += c
		}
		s.keys = grow(s.keys, n)
		for i := range edges {
			if pace.spend(2 + s.cross(edges[i], width, lo, lo+b0, lo+b1)) {
				return errAborted
			}
		}
		from := int32(0)
		for r := b0; r < b1; r++ {
			to := s.ends[r] // cross has moved it to the end of the row's crossings
			if pace.spend(10 + 4*int(to-from)) {
				return errAborted
			}
			if !s.sweep(w, s.keys[from:to], s.base[r], fill, width, int32(lo+r)) {
				return errOpen
			}
			from = to
		}
		b0 = b1
	}
	return nil
}

// cross puts the crossings of an edge with rows [b0, b1) at the places that ends has for them. It returns about
// how long that took, in ns.
func (s *rowScratch) cross(e driver.Edge, width, lo, b0, b1 int) int {
	r0, r1 := rowRange(e, b0, b1)
	if r0 >= r1 {
		return 0
	}
	if k0, k1 := columnRange(e); k1 <= 0 || k0 >= width {
		return 0
	}
	var c crossings
	sign := uint32(c.start(e, r0)+1) >> 1
	for r := r0 - lo; r < r1-lo; r++ {
		at := s.ends[r]
		s.keys[at] = uint32(min(max(c.k, 0), int64(width)))<<1 | sign
		s.ends[r] = at + 1
		c.next()
	}
	return 20 + 3*(r1-r0)
}

// sweep writes the spans of a row. wind is the number of crossings, with sign, that lie right of column 0's centre.
func (s *rowScratch) sweep(w *spanWriter, keys []uint32, wind int32, fill driver.FillRule, width int, y int32) bool {
	n := len(keys)
	switch {
	case n <= 24:
		insert(keys)
	case n < width>>denseShift:
		slices.Sort(keys)
	default:
		return s.sweepDense(w, keys, wind, fill, width, y)
	}
	inside := fill.Inside(wind)
	start := uint32(0)
	for i := 0; i < n; {
		k := keys[i] >> 1
		for ; i < n && keys[i]>>1 == k; i++ {
			wind += 1 - int32(keys[i]&1)<<1
		}
		if now := fill.Inside(wind); now != inside {
			if now {
				start = k
			} else if k > start && !w.put(y, int32(start), int32(k)) {
				return false
			}
			inside = now
		}
	}
	if inside && start < uint32(width) {
		return w.put(y, int32(start), int32(width))
	}
	return true
}

// sweepDense adds the signs up by column and visits the columns in order: for rows with so many crossings that
// sorting would take longer than going through the bits of a row.
func (s *rowScratch) sweepDense(w *spanWriter, keys []uint32, wind int32, fill driver.FillRule, width int,
	y int32) bool {
	if len(s.delta) < width+1 {
		s.delta = make([]int32, width+1)
		s.set = make([]uint64, width/64+1)
	}
	for _, key := range keys {
		k := key >> 1
		s.delta[k] += 1 - int32(key&1)<<1
		s.set[k/64] |= 1 << (k % 64)
	}
	inside := fill.Inside(wind)
	start := int32(0)
	ok := true
	for i := range s.set[:width/64+1] {
		word := s.set[i]
		s.set[i] = 0
		for ; word != 0; word &= word - 1 {
			k := int32(i*64 + bits.TrailingZeros64(word))
			wind += s.delta[k]
			s.delta[k] = 0
			if now := fill.Inside(wind); now != inside {
				if now {
					start = k
				} else if k > start {
					ok = ok && w.put(y, start, k)
				}
				inside = now
			}
		}
	}
	if inside && start < int32(width) {
		ok = ok && w.put(y, start, int32(width))
	}
	return ok
}
