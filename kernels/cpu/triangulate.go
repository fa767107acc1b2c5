// Triangulate: exact Delaunay triangulation by divide and conquer.
//
// Guibas and Stolfi's algorithm (Primitives for the manipulation of general subdivisions and the computation of Voronoi
// diagrams, 1985) with Dwyer's cuts (A faster divide-and-conquer algorithm for constructing Delaunay triangulations,
// 1987): points are sorted into vertical strips of about sqrt(N log N) points, each strip is triangulated from bottom
// to top, and then strips are merged from left to right. Strips are short sides of merges, so that nearly all work is
// in the leaves and the time is about linear: O(N log N) at worst. Threads sort runs of points, take strips, and then
// pairs of strips.
//
// All predicates are exact. Ties of the in-circle test are broken as if the first point in lexicographic order lay
// infinitesimally inside the circle. That is a perturbation of the points' heights on the paraboloid, so the algorithm
// works as it does for points of which no four are cocircular, and the result is the one that driver.Triangulate asks
// for.

package cpu

import (
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"unsafe"

	"github.com/polyscan/polyscan/kernels/driver"
)

// noHalf ends lists and marks half-edges that are not in use.
const noHalf = ^uint32(0)

// halfEdge is an edge seen from the point it starts at. Half-edges 2i and 2i+1 are the two sides of an edge. Those that
// start at a point form a ring.
type halfEdge struct {
	org  uint32 // index of the point; noHalf: free
	next uint32 // counter-clockwise; of a free edge the next free one
	prev uint32
}

// keyed is a point in a form to sort by.
type keyed struct {
	key   uint64
	index uint32
}

// mesh is a triangulation under construction. Points [lo, hi) own the half-edges [6*lo, 6*hi), more than a planar graph
// over them can have; so parts can be built by several threads, and what a part reads and writes lies together.
type mesh struct {
	points []driver.Point
	index  []uint32 // of each point in the op's order
	edges  []halfEdge
}

// submesh is a triangulated run of points. Parts are merged along a direction; first and last are the outermost of its
// points in that direction.
type submesh struct {
	first      uint32 // half-edge along the hull out of the first point, the part on its left
	last       uint32 // half-edge along the hull out of the last point, the part on its right
	head, tail uint32 // free edges, by their even half
}

// triangulateLayout are the offsets of what lies in the scratch memory for n points.
type triangulateLayout struct{ sorted, spare, points, index, edges, end int64 }

func layoutTriangulate(n int) (l triangulateLayout) {
	place := func(at *int64, size uintptr) {
		*at = l.end
		l.end += (int64(n)*int64(size) + driver.Align - 1) &^ (driver.Align - 1)
	}
	place(&l.sorted, unsafe.Sizeof(keyed{}))
	place(&l.spare, unsafe.Sizeof(keyed{}))
	place(&l.points, unsafe.Sizeof(driver.Point{}))
	place(&l.index, 4)
	place(&l.edges, 6*unsafe.Sizeof(halfEdge{}))
	return l
}

func triangulateScratch(op *driver.Triangulate) int64 { return layoutTriangulate(op.N).end }

// triangulation is an op in progress.
type triangulation struct {
	mesh
	sorted, spare []keyed
	cuts          []int // strip i is points [cuts[i], cuts[i+1])
	parts         []submesh
	low           driver.Point // least coordinates
	xBits, yBits  uint         // of the differences to low
	out           []driver.Triangle
}

func (d *device) triangulate(op *driver.Triangulate, stop *stopFlag) error {
	points := viewAs[driver.Point](op.Points)
	out := viewAs[driver.Triangle](op.Triangles)
	count := viewAs[uint32](op.Count)
	scratch := view(op.Scratch)
	l := layoutTriangulate(op.N)
	count[0] = 0
	if op.N < 3 {
		return nil
	}
	t := &triangulation{
		sorted: sliceAt[keyed](scratch, l.sorted, op.N),
		spare:  sliceAt[keyed](scratch, l.spare, op.N),
		out:    out,
	}
	pace := newPace(stop)
	r := d.runsOf(op.N)
	var counters [][digits]uint32
	if r.n > 1 {
		counters = sliceAt[[digits]uint32](scratch, l.edges, r.n) // there is room: a run has more points than digits
	}
	if err := t.sort(d, points, r, counters, &pace); err != nil {
		return err
	}
	n := len(t.sorted)
	if n < 3 {
		return nil
	}
	t.points = sliceAt[driver.Point](scratch, l.points, n)
	t.index = sliceAt[uint32](scratch, l.index, n)
	t.edges = sliceAt[halfEdge](scratch, l.edges, 6*n)
	strips := max(1, isqrt(n/bits.Len(uint(n))))
	t.cuts = make([]int, strips+1)
	for i := range t.cuts {
		t.cuts[i] = int(int64(n) * int64(i) / int64(strips))
	}
	t.parts = make([]submesh, strips)
	if err := d.longPieces("Triangulate", strips, stop, t.strip); err != nil {
		return err
	}
	for len(t.parts) > 1 {
		if err := d.longPieces("Triangulate", len(t.parts)/2, stop, t.join); err != nil {
			return err
		}
		half := t.parts[:0]
		for i := 0; i < len(t.parts); i += 2 {
			half = append(half, t.parts[i])
		}
		t.parts = half
	}
	found, err := d.collect(t, stop)
	count[0] = uint32(found)
	return err
}

func sliceAt[T any](b []byte, off int64, n int) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(&b[off])), n)
}

func isqrt(n int) int {
	r := 0
	for (r+1)*(r+1) <= n {
		r++
	}
	return r
}

const (
	sortStep = 1 << 13 // points that are looked at between two looks at the clock
	sortRun  = 1 << 15 // points that a thread takes at a time, at least

	// A digit of the radix sort: its counters fit in the first-level cache.
	digitBits = 11
	digits    = 1 << digitBits
)

// runs is things cut into n runs.
type runs struct{ things, n int }

// runsOf cuts things into runs, some for each thread, as not all threads get on alike.
func (d *device) runsOf(things int) runs {
	return runs{things, max(1, min(4*d.threads, things/sortRun))}
}

// run is number i: things [lo, hi).
func (r runs) run(i int) (lo, hi int) {
	at := func(i int) int { return int(int64(r.things) * int64(i) / int64(r.n)) }
	return at(i), at(i + 1)
}

// sort sorts the distinct points by X, then Y. Where there are several runs, each has counters.
func (t *triangulation) sort(d *device, points []driver.Point, r runs, counters [][digits]uint32, p *pace) error {
	var mu sync.Mutex
	low, high := points[0], points[0]
	err := d.longPieces("Triangulate", r.n, p.stop, func(i int, p *pace) bool {
		lo, hi := r.run(i)
		least, most := points[lo], points[lo]
		for part := range slices.Chunk(points[lo:hi], sortStep) {
			for _, q := range part {
				least.X, least.Y = min(least.X, q.X), min(least.Y, q.Y)
				most.X, most.Y = max(most.X, q.X), max(most.Y, q.Y)
			}
			if p.spend(len(part)) {
				return false
			}
		}
		mu.Lock()
		defer mu.Unlock()
		low.X, low.Y = min(low.X, least.X), min(low.Y, least.Y)
		high.X, high.Y = max(high.X, most.X), max(high.Y, most.Y)
		return true
	})
	if err != nil {
		return err
	}
	within := func(p driver.Point) bool {
		return p.X >= -driver.MaxPoint && p.Y >= -driver.MaxPoint && p.X <= driver.MaxPoint && p.Y <= driver.MaxPoint
	}
	if !within(low) || !within(high) {
		i := slices.IndexFunc(points, func(p driver.Point) bool { return !within(p) })
		return fmt.Errorf("Points[%d] = (%d, %d): coordinates must be %d to %d", i, points[i].X, points[i].Y,
			-driver.MaxPoint, driver.MaxPoint)
	}
	t.low = low
	t.xBits = uint(bits.Len32(uint32(high.X - low.X)))
	t.yBits = uint(bits.Len32(uint32(high.Y - low.Y)))
	err = d.longPieces("Triangulate", r.n, p.stop, func(i int, p *pace) bool {
		at, hi := r.run(i)
		for part := range slices.Chunk(points[at:hi], sortStep) {
			for j, q := range part {
				t.sorted[at+j] = keyed{uint64(q.X-low.X)<<t.yBits | uint64(q.Y-low.Y), uint32(at + j)}
			}
			if at += len(part); p.spend(2 * len(part)) {
				return false
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	if t.sorted, t.spare, err = d.sortRuns(t.sorted, t.spare, t.xBits+t.yBits, r, counters, p); err != nil {
		return err
	}
	n := 1
	for part := range slices.Chunk(t.sorted[1:], sortStep) {
		for _, k := range part { // the sort is stable: the first of equal points has the least index
			if k.key != t.sorted[n-1].key {
				t.sorted[n] = k
				n++
			}
		}
		if p.spend(2 * len(part)) {
			return errAborted
		}
	}
	t.sorted = t.sorted[:n]
	return nil
}

// sortRuns is radixSort on as many threads as there are, in runs of a, with counters for each.
func (d *device) sortRuns(a, b []keyed, bits uint, r runs, counters [][digits]uint32, p *pace) (sorted, other []keyed,
	err error) {
	if r.n == 1 {
		var ok bool
		if sorted, other, ok = radixSort(a, b, bits, p); !ok {
			err = errAborted
		}
		return sorted, other, err
	}
	for shift := uint(0); shift < bits; shift += digitBits {
		each := func(do func(run []keyed, c *[digits]uint32, p *pace) bool) error {
			return d.longPieces("Triangulate", r.n, p.stop, func(i int, p *pace) bool {
				lo, hi := r.run(i)
				return do(a[lo:hi], &counters[i], p)
			})
		}
		if err := each(func(run []keyed, c *[digits]uint32, p *pace) bool {
			return countDigits(c, run, shift, p)
		}); err != nil {
			return nil, nil, err
		}
		placeDigits(counters)
		if err := each(func(run []keyed, c *[digits]uint32, p *pace) bool {
			return moveDigits(b, c, run, shift, p)
		}); err != nil {
			return nil, nil, err
		}
		a, b = b, a
	}
	return a, b, nil
}

// radixSort sorts by the low bits of the keys, stably. It returns the sorted one of the two slices, and the other; ok
// is false where it was told to stop.
func radixSort(a, b []keyed, bits uint, p *pace) (sorted, other []keyed, ok bool) {
	var counters [1][digits]uint32
	for shift := uint(0); shift < bits; shift += digitBits {
		if !countDigits(&counters[0], a, shift, p) {
			return nil, nil, false
		}
		placeDigits(counters[:])
		if !moveDigits(b, &counters[0], a, shift, p) {
			return nil, nil, false
		}
		a, b = b, a
	}
	return a, b, true
}

// countDigits counts the digits of a run. It returns false where it was told to stop.
func countDigits(c *[digits]uint32, run []keyed, shift uint, p *pace) bool {
	clear(c[:])
	for part := range slices.Chunk(run, sortStep) {
		for _, k := range part {
			c[k.key>>shift%digits]++
		}
		if p.spend(len(part)) {
			return false
		}
	}
	return true
}

// placeDigits turns how many of each digit there are in each run into the place of the first of them.
func placeDigits(counters [][digits]uint32) {
	sum := uint32(0)
	for digit := range digits {
		for i := range counters {
			c := &counters[i][digit]
			*c, sum = sum, sum+*c
		}
	}
}

// moveDigits moves a run to its places in out. It returns false where it was told to stop.
func moveDigits(out []keyed, c *[digits]uint32, run []keyed, shift uint, p *pace) bool {
	for part := range slices.Chunk(run, sortStep) {
		for _, k := range part {
			at := &c[k.key>>shift%digits]
			out[*at] = k
			*at++
		}
		if p.spend(5 * len(part)) {
			return false
		}
	}
	return true
}

// strip triangulates strip i.
func (t *triangulation) strip(i int, p *pace) bool {
	lo, hi := t.cuts[i], t.cuts[i+1]
	in := t.sorted[lo:hi]
	// Along Y, then against X: the order along X, then Y, turned by a quarter.
	first, last := in[0].key>>t.yBits, in[len(in)-1].key>>t.yBits
	width := uint(bits.Len64(last - first))
	for j, k := range in {
		in[j].key = k.key&(1<<t.yBits-1)<<width | (last - k.key>>t.yBits)
	}
	in, _, ok := radixSort(in, t.spare[lo:hi], t.yBits+width, p)
	if !ok {
		return false
	}
	for j, k := range in {
		t.points[lo+j] = driver.Point{
			X: t.low.X + int32(last-k.key&(1<<width-1)),
			Y: t.low.Y + int32(k.key>>width),
		}
		t.index[lo+j] = k.index
	}
	if hi-lo < 2 { // only where there are no other strips
		return true
	}
	part, ok := t.build(uint32(lo), uint32(hi), p)
	if ok {
		t.parts[i] = t.turn(part)
	}
	return ok
}

// join merges parts 2i and 2i+1.
func (t *triangulation) join(i int, p *pace) bool {
	var ok bool
	t.parts[2*i], ok = t.merge(t.parts[2*i], t.parts[2*i+1], p)
	return ok
}

// build triangulates points [lo, hi), at least two, which are sorted in the direction of the merges. ok is false where
// it was told to stop.
func (m *mesh) build(lo, hi uint32, pace *pace) (p submesh, ok bool) {
	n := hi - lo
	if n > 3 {
		mid := lo + n/2
		l, ok := m.build(lo, mid, pace)
		if !ok {
			return submesh{}, false
		}
		r, ok := m.build(mid, hi, pace)
		if !ok {
			return submesh{}, false
		}
		return m.merge(l, r, pace)
	}
	if pace.spend(50) {
		return submesh{}, false
	}
	p = submesh{head: 6 * lo, tail: 6*hi - 2}
	for e := p.head; e <= p.tail; e += 2 {
		m.edges[e] = halfEdge{org: noHalf, next: e + 2}
	}
	m.edges[p.tail].next = noHalf
	a := p.add(m, lo, lo+1)
	if n == 2 {
		p.first, p.last = a, a^1
		return p, true
	}
	b := p.add(m, lo+1, lo+2)
	m.splice(a^1, b)
	p.first, p.last = a, b^1
	switch o := orient(m.points[lo], m.points[lo+1], m.points[lo+2]); {
	case o > 0:
		p.connect(m, b, a)
	case o < 0:
		c := p.connect(m, b, a)
		p.first, p.last = c^1, c
	}
	return p, true
}

// mergeStep is about how many nanoseconds a step of a merge takes. A merge takes few steps where points are even, and
// as many as there are points where they are not.
const mergeStep = 25

// merge joins two parts; all points of l are before all of r in the direction of the merge. Names are those of the
// paper. ok is false where it was told to stop.
func (m *mesh) merge(l, r submesh, pace *pace) (p submesh, ok bool) {
	p = l
	m.edges[l.tail].next = r.head
	p.tail = r.tail
	ldo, ldi, rdi, rdo := l.first, l.last, r.first, r.last
	for { // down to the lower common tangent
		if pace.spend(mergeStep) {
			return submesh{}, false
		}
		if m.ccw(m.edges[rdi].org, m.edges[ldi].org, m.dest(ldi)) {
			ldi = m.leftNext(ldi)
		} else if m.ccw(m.edges[ldi].org, m.dest(rdi), m.edges[rdi].org) {
			rdi = m.edges[rdi^1].next
		} else {
			break
		}
	}
	base := p.connect(m, rdi^1, ldi)
	if m.edges[ldi].org == m.edges[ldo].org {
		ldo = base ^ 1
	}
	if m.edges[rdi].org == m.edges[rdo].org {
		rdo = base
	}
	for { // up
		if pace.spend(2 * mergeStep) {
			return submesh{}, false
		}
		right, left := m.points[m.edges[base].org], m.points[m.dest(base)]
		lc := m.edges[base^1].next
		lp := m.points[m.dest(lc)]
		lok := orient(lp, left, right) > 0
		for lok {
			e := m.edges[lc].next
			q := m.points[m.dest(e)]
			if !inCircle(left, right, lp, q) {
				break
			}
			if p.remove(m, lc); pace.spend(mergeStep) {
				return submesh{}, false
			}
			lc, lp = e, q
		}
		rc := m.edges[base].prev
		rp := m.points[m.dest(rc)]
		rok := orient(rp, left, right) > 0
		for rok {
			e := m.edges[rc].prev
			q := m.points[m.dest(e)]
			if !inCircle(left, right, rp, q) {
				break
			}
			if p.remove(m, rc); pace.spend(mergeStep) {
				return submesh{}, false
			}
			rc, rp = e, q
		}
		switch {
		case !lok && !rok:
			p.first, p.last = ldo, rdo
			return p, true
		case !lok || rok && inCircle(lp, left, right, rp):
			base = p.connect(m, rc, base^1)
		default:
			base = p.connect(m, base^1, lc^1)
		}
	}
}

// turn replaces the first and last points of a part by those along X, then Y.
func (m *mesh) turn(p submesh) submesh {
	lo, hi := p.first, p.first
	for e := m.edges[p.first^1].next; e != p.first; e = m.edges[e^1].next { // around the hull
		o := m.points[m.edges[e].org]
		if before(o, m.points[m.edges[lo].org]) {
			lo = e
		}
		if before(m.points[m.edges[hi].org], o) {
			hi = e
		}
	}
	p.first, p.last = lo, m.edges[hi].prev
	return p
}

// dest is the point where a half-edge ends.
func (m *mesh) dest(e uint32) uint32 { return m.edges[e^1].org }

// leftNext is the half-edge behind e around the face on its left.
func (m *mesh) leftNext(e uint32) uint32 { return m.edges[e^1].prev }

func (m *mesh) ccw(a, b, c uint32) bool { return orient(m.points[a], m.points[b], m.points[c]) > 0 }

// splice joins the rings of a and b, or parts them.
func (m *mesh) splice(a, b uint32) {
	an, bn := m.edges[a].next, m.edges[b].next
	m.edges[a].next, m.edges[b].next = bn, an
	m.edges[bn].prev, m.edges[an].prev = a, b
}

// add takes a free edge for one from point a to point b that is connected to no other.
func (p *submesh) add(m *mesh, a, b uint32) uint32 {
	e := p.head
	p.head = m.edges[e].next
	m.edges[e] = halfEdge{a, e, e}
	m.edges[e^1] = halfEdge{b, e ^ 1, e ^ 1}
	return e
}

// connect adds an edge from the end of a to the start of b, on the left of both.
func (p *submesh) connect(m *mesh, a, b uint32) uint32 {
	e := p.add(m, m.dest(a), m.edges[b].org)
	m.splice(e, m.leftNext(a))
	m.splice(e^1, b)
	return e
}

func (p *submesh) remove(m *mesh, e uint32) {
	for _, h := range [2]uint32{e, e ^ 1} {
		prev, next := m.edges[h].prev, m.edges[h].next
		m.edges[prev].next, m.edges[next].prev = next, prev
	}
	e &^= 1
	m.edges[e] = halfEdge{org: noHalf, next: p.head}
	p.head = e
}

// collectStep is how many half-edges a thread looks at at a time.
const collectStep = 1 << 15

// collect writes the triangles and returns how many there are. Each is found at one of its half-edges, and so at one
// place whatever the threads; a first pass counts, so that a second one knows where to write.
func (d *device) collect(t *triangulation, stop *stopFlag) (int, error) {
	steps := (len(t.edges) + collectStep - 1) / collectStep
	at := make([]int, steps+1)
	err := d.pieces("Triangulate", steps, stop, func(i int) int {
		n := 0
		for range t.triangles(i * collectStep) {
			n++
		}
		at[i+1] = n
		return collectStep * 5
	})
	if err != nil {
		return 0, err
	}
	for i := range steps {
		at[i+1] += at[i]
	}
	err = d.pieces("Triangulate", steps, stop, func(i int) int {
		n := at[i]
		for v := range t.triangles(i * collectStep) {
			t.out[n] = v
			n++
		}
		return collectStep * 5
	})
	return at[steps], err
}

// triangles yields those that are found at half-edges from first on.
func (t *triangulation) triangles(first int) func(yield func(driver.Triangle) bool) {
	return func(yield func(driver.Triangle) bool) {
		for e := uint32(first); e < uint32(min(first+collectStep, len(t.edges))); e++ {
			if t.edges[e&^1].org == noHalf {
				continue
			}
			f := t.leftNext(e)
			g := t.leftNext(f)
			a, b, c := t.edges[e].org, t.edges[f].org, t.edges[g].org
			// the face around the hull may have three edges, too
			if a > b || a > c || t.leftNext(g) != e || !t.ccw(a, b, c) {
				continue
			}
			v := driver.Triangle{A: t.index[a], B: t.index[b], C: t.index[c]}
			for v.A > v.B || v.A > v.C {
				v.A, v.B, v.C = v.B, v.C, v.A
			}
			if !yield(v) {
				return
			}
		}
	}
}

// before is the lexicographic order.
func before(a, b driver.Point) bool { return a.X < b.X || a.X == b.X && a.Y < b.Y }

// orient is positive where a, b and c turn from the x axis towards the y axis, and 0 where they are on a line.
func orient(a, b, c driver.Point) int64 {
	return (int64(b.X)-int64(a.X))*(int64(c.Y)-int64(a.Y)) - (int64(b.Y)-int64(a.Y))*(int64(c.X)-int64(a.X))
}

// inCircle reports whether q is inside the circle through a, b and c, which turn as orient wants it. On the circle it
// is where a fan around the first of the four has no edge that parts q from that point.
func inCircle(a, b, c, q driver.Point) bool {
	ax, ay := int64(a.X)-int64(q.X), int64(a.Y)-int64(q.Y)
	bx, by := int64(b.X)-int64(q.X), int64(b.Y)-int64(q.Y)
	cx, cy := int64(c.X)-int64(q.X), int64(c.Y)-int64(q.Y)
	al, bl, cl := ax*ax+ay*ay, bx*bx+by*by, cx*cx+cy*cy
	bc, ca, ab := bx*cy-by*cx, cx*ay-cy*ax, ax*by-ay*bx
	if al|bl|cl < 1<<30 { // so are bc, ca and ab, by Cauchy and Schwarz, and three products stay below 2^62
		if det := al*bc + bl*ca + cl*ab; det != 0 {
			return det > 0
		}
	} else if s := sumSign(al, bc, bl, ca, cl, ab); s != 0 {
		return s > 0
	}
	if q == a || q == b || q == c {
		return false
	}
	// The first point counts as inside. That puts q inside where it is the first itself, or is opposite of it: where q
	// lies beyond the edge between the other two.
	switch {
	case before(q, a) && before(q, b) && before(q, c):
		return true
	case before(a, b) && before(a, c):
		return orient(b, c, q) < 0
	case before(b, c):
		return orient(c, a, q) < 0
	default:
		return orient(a, b, q) < 0
	}
}

// sumSign is the sign of a1*b1 + a2*b2 + a3*b3, in 128 bits. Each product must be below 2^125.
func sumSign(a1, b1, a2, b2, a3, b3 int64) int {
	hi, lo := mul(a1, b1)
	for _, f := range [2][2]int64{{a2, b2}, {a3, b3}} {
		h, l := mul(f[0], f[1])
		var carry uint64
		lo, carry = bits.Add64(lo, l, 0)
		hi, _ = bits.Add64(hi, h, carry)
	}
	switch {
	case int64(hi) < 0:
		return -1
	case hi|lo != 0:
		return 1
	}
	return 0
}

// mul is the product in two's complement.
func mul(a, b int64) (hi, lo uint64) {
	hi, lo = bits.Mul64(uint64(a), uint64(b))
	return hi - uint64(a>>63&b) - uint64(b>>63&a), lo
}
