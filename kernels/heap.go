// heap: which parts of a range are handed out. It counts bytes and touches none, so that it can be tested alone.

package kernels

import (
	"iter"
	"math"
	"math/bits"
	"slices"

	"github.com/polyscan/polyscan/kernels/driver"
)

// heap hands out parts of the range [0, size), in multiples of [driver.Align].
//
// It is a segregated fit with immediate coalescing: free spans are filed by size class, sixteen to a power of two, and
// a bitmap finds the next class that has one (Masmano, Ripoll, Crespo, Real: "TLSF: a new dynamic memory allocator for
// real-time systems", ECRTS 2004). Unlike there,
//
//   - what it knows of spans lies beside the range: the host can't read device memory;
//   - a request looks in its own class first. Cameras send frames of one size, and the block of the last one is filed
//     there; TLSF rounds requests up to the next class and would cut another;
//   - where only its own class can serve a request, all of that class is searched: alloc fails only where no free span
//     is large enough;
//   - blocks that live long are cut from the high end of a span and others from the low end, so that short-lived ones
//     leave large holes: BenchmarkReplay needs less room for it.
//
// Cost: alloc and free are O(1): a class list is looked at up to heapProbe spans. Only an alloc that nothing but the
// end of its own class's list may serve takes time in the number of spans there. No block is larger than was asked for,
// so nothing is lost inside of blocks; BenchmarkReplay reports what is lost between them. The order of calls decides
// the offsets; nothing is random.
type heap struct {
	size  int64
	avail int64 // bytes not handed out
	first *span
	live  map[int64]*span            // handed out, by offset
	heads [heapClasses]*span         // free, by class
	some  [heapClasses/64 + 1]uint64 // bit c: heads[c] is not nil
	spare *span                      // structs to use again, linked by next

	// Of victims: blocks that may go and are neighbours, with the free spans between them. The blocks at both ends of a
	// run have its index. Those within have an old one; nobody looks at them again.
	search uint64 // number of the call
	runs   []run
}

// span is a part of the range, free or handed out.
type span struct {
	off, len   int64
	prev, next *span // neighbours
	up, down   *span // in the list of the class, where free
	free       bool
	search     uint64 // the last in which it was the end of a run
	run        int
}

const (
	// heapProbe is how many spans of a class alloc compares for the best. BenchmarkReplay loses as much between blocks
	// with 1 and with 1000; BenchmarkHeap takes up to 1.5 times as long with 1, and 3 to 5 times with 1000.
	heapProbe = 16
	// heapClasses is above the class of maxBytes.
	heapClasses = 800
)

// classOf is the class of spans of n bytes, n > 0. Up to 32 units of [driver.Align] each size is a class of its own;
// then there are sixteen to a power of two.
func classOf(n int64) int {
	u := uint64(n) / driver.Align
	if u < 16 {
		return int(u)
	}
	shift := bits.Len64(u) - 5
	return 16*shift + int(u>>shift)
}

// newHeap returns a heap of one free span. size is a multiple of [driver.Align].
func newHeap(size int64) *heap {
	h := &heap{live: map[int64]*span{}}
	h.reset(size)
	return h
}

// reset makes all free, of a new size.
func (h *heap) reset(size int64) {
	for s := h.first; s != nil; {
		next := s.next
		if s.free {
			h.unlink(s)
		}
		h.discard(s)
		s = next
	}
	clear(h.live)
	h.size, h.avail, h.first = size, size, nil
	if size > 0 {
		h.first = h.newSpan(span{len: size})
		h.link(h.first)
	}
}

// alloc hands out n bytes, a positive multiple of [driver.Align]. long says that the block will outlive most. ok is
// false where no free span has n bytes.
func (h *heap) alloc(n int64, long bool) (off int64, ok bool) {
	s := h.fit(n)
	if s == nil {
		return 0, false
	}
	h.unlink(s)
	if s.len > n {
		rest := h.newSpan(span{off: s.off + n, len: s.len - n, prev: s, next: s.next})
		if s.next != nil {
			s.next.prev = rest
		}
		s.next = rest
		s.len = n
		if long {
			s.len, rest.len = rest.len, n
			rest.off = s.off + s.len
			s, rest = rest, s
		}
		h.link(rest)
	}
	h.live[s.off] = s
	h.avail -= n
	return s.off, true
}

// free takes back the block at off, and returns its length. ok is false, and nothing happens, where no block that is
// handed out begins there.
func (h *heap) free(off int64) (n int64, ok bool) {
	s := h.live[off]
	if s == nil {
		return 0, false
	}
	delete(h.live, off)
	n = s.len
	h.avail += n
	if p := s.prev; p != nil && p.free {
		h.unlink(p)
		h.absorb(p, s)
		s = p
	}
	if x := s.next; x != nil && x.free {
		h.unlink(x)
		h.absorb(s, x)
	}
	h.link(s)
	return n, true
}

// shorten takes back the last n bytes of the block at off. n is a positive multiple of [driver.Align], and the block
// has more.
func (h *heap) shorten(off, n int64) {
	s := h.live[off]
	s.len -= n
	rest := h.newSpan(span{off: off + s.len, len: n, prev: s, next: s.next})
	if s.next != nil {
		s.next.prev = rest
	}
	s.next = rest
	h.live[rest.off] = rest
	h.free(rest.off)
}

// largest is the length of the largest free span.
func (h *heap) largest() int64 {
	var n int64
	if c := h.lastClass(); c >= 0 {
		for s := h.heads[c]; s != nil; s = s.down {
			n = max(n, s.len)
		}
	}
	return n
}

// fit finds a free span for n bytes.
func (h *heap) fit(n int64) *span {
	c := classOf(n)
	if s := h.best(c, n, heapProbe); s != nil {
		return s
	}
	if c := h.nextClass(c + 1); c >= 0 {
		return h.best(c, n, heapProbe)
	}
	return h.best(c, n, len(h.live)+1) // neighbours are merged: there are no more free spans than that
}

// best is the smallest of the first few spans of a class that have n bytes, the lowest of the smallest.
func (h *heap) best(class int, n int64, few int) *span {
	var b *span
	for s := h.heads[class]; s != nil && few > 0; s = s.down {
		if s.len >= n && (b == nil || s.len < b.len || s.len == b.len && s.off < b.off) {
			b = s
		}
		few--
	}
	return b
}

// nextClass is the first class from c on that has a span, or -1.
func (h *heap) nextClass(c int) int {
	for w := c / 64; w < len(h.some); w++ {
		m := h.some[w]
		if w == c/64 {
			m &^= 1<<(c%64) - 1
		}
		if m != 0 {
			return 64*w + bits.TrailingZeros64(m)
		}
	}
	return -1
}

// lastClass is the highest class that has a span, or -1.
func (h *heap) lastClass() int {
	for w, m := range slices.Backward(h.some[:]) {
		if m != 0 {
			return 64*w + bits.Len64(m) - 1
		}
	}
	return -1
}

// link files a free span in front of its class: what was used last is found first.
func (h *heap) link(s *span) {
	c := classOf(s.len)
	s.free = true
	s.up, s.down = nil, h.heads[c]
	if s.down != nil {
		s.down.up = s
	}
	h.heads[c] = s
	h.some[c/64] |= 1 << (c % 64)
}

// unlink takes a span out of its class.
func (h *heap) unlink(s *span) {
	s.free = false
	if s.down != nil {
		s.down.up = s.up
	}
	if s.up != nil {
		s.up.down = s.down
		return
	}
	c := classOf(s.len)
	if h.heads[c] = s.down; s.down == nil {
		h.some[c/64] &^= 1 << (c % 64)
	}
}

// absorb makes b, the neighbour above a, part of it.
func (h *heap) absorb(a, b *span) {
	a.len += b.len
	if a.next = b.next; a.next != nil {
		a.next.prev = a
	}
	h.discard(b)
}

func (h *heap) newSpan(v span) *span {
	s := h.spare
	if s == nil {
		s = new(span)
	} else {
		h.spare = s.next
	}
	*s = v
	return s
}

func (h *heap) discard(s *span) {
	*s = span{next: h.spare}
	h.spare = s
}

// victims chooses blocks to free so that n bytes come free in one piece. oldest yields the offsets of the blocks that
// may go, the one that was used longest ago first. It returns nil where freeing all of them would not help.
//
// The youngest victim is as old as can be; blocks that don't help stay, however old they are. Of the choices that this
// leaves, it takes the one of the fewest bytes, the lowest of them. It takes O(1) time for each block up to the
// youngest victim.
func (h *heap) victims(n int64, oldest iter.Seq[int64]) []int64 {
	h.search++
	h.runs = h.runs[:0]
	for off := range oldest {
		s := h.live[off]
		r := run{s, s, s.len}
		if left := h.runOf(r.above()); left != nil {
			r.len += left.len + r.before()
			r.first = left.first
		}
		if right := h.runOf(r.below()); right != nil {
			r.len += right.len + r.behind()
			r.last = right.last
		}
		h.runs = append(h.runs, r)
		for _, end := range []*span{r.first, r.last} {
			end.search, end.run = h.search, len(h.runs)-1
		}
		if r.before()+r.len+r.behind() >= n {
			return r.cheapest(n)
		}
	}
	return nil
}

// runOf is the run that a block is the end of, in this search.
func (h *heap) runOf(s *span) *run {
	if s == nil || s.search != h.search {
		return nil
	}
	return &h.runs[s.run]
}

// run is neighbours from one block to another.
type run struct {
	first, last *span
	len         int64
}

// before and behind are the lengths of the free spans around the run.
func (r *run) before() int64 { return freeLen(r.first.prev) }
func (r *run) behind() int64 { return freeLen(r.last.next) }

func freeLen(s *span) int64 {
	if s == nil || !s.free {
		return 0
	}
	return s.len
}

// above and below are the blocks next to the run, nil where it reaches the end of the range.
func (r *run) above() *span {
	s := r.first.prev
	if s != nil && s.free {
		s = s.prev
	}
	return s
}

func (r *run) below() *span {
	s := r.last.next
	if s != nil && s.free {
		s = s.next
	}
	return s
}

// cheapest returns the blocks of the part of the run, and of the free spans around it, that has n bytes and the fewest
// of them in blocks.
func (r *run) cheapest(n int64) []int64 {
	from, end := r.first, r.last.next
	if r.before() > 0 {
		from = from.prev
	}
	if r.behind() > 0 {
		end = end.next
	}
	var first, last *span
	least, sum, taken := int64(math.MaxInt64), int64(0), int64(0)
	for to := from; to != end; to = to.next {
		sum += to.len
		taken += to.len - freeLen(to)
		for ; sum-from.len >= n; from = from.next {
			sum -= from.len
			taken -= from.len - freeLen(from)
		}
		if sum >= n && taken < least {
			first, last, least = from, to, taken
		}
	}
	var offs []int64
	for s := first; s != last.next; s = s.next {
		if !s.free {
			offs = append(offs, s.off)
		}
	}
	return offs
}
