// Outlines of masks, for those who draw them.

package polygon

import (
	"cmp"
	"math"
	"slices"
)

// Outline is the rings around the pixels of a mask, as [Region.Mask] has them, along the borders of pixels: a region of
// these rings has the mask's pixels, under either fill rule. Outer borders have positive area, holes negative. Pixels
// that touch only at a corner are on different rings, or on one that meets itself there; no ring crosses itself or
// another. A vertex is where the direction changes. It takes O(n log n) time for n runs; equal rows beside each other
// count once.
//
// The method: cut the plane into slabs of equal rows. Each run of a slab gives an edge upwards on its left and one
// downwards on its right. Where two slabs meet, what one has and the other hasn't gives horizontal edges. Every edge
// has the mask on its right. Following edges from end to start, turning right where two go on, gives the rings.
func Outline(mask []Run) []Ring {
	t := tracer{}
	for at := 0; at < len(mask); {
		y := mask[at].Y
		end := at + 1
		for end < len(mask) && mask[end].Y == y {
			end++
		}
		t.row(y, mask[at:end])
		at = end
	}
	t.done()
	return t.rings()
}

// slab is neighbouring rows [y0, y1) with the same runs.
type slab struct {
	y0, y1 int32
	runs   []Run
}

type traced struct{ fromX, fromY, toX, toY int32 }

// heading is the direction of an edge. The right of a heading (dx, dy) is (-dy, dx), because y grows down.
type heading struct{ dx, dy int }

func (e traced) heading() heading {
	return heading{cmp.Compare(e.toX, e.fromX), cmp.Compare(e.toY, e.fromY)}
}

type tracer struct {
	above, slab slab // the last slab that is finished, and the one being built
	edges       []traced
}

func (t *tracer) row(y int32, runs []Run) {
	same := func(a, b Run) bool { return a.X0 == b.X0 && a.X1 == b.X1 }
	if t.slab.y1 == y && slices.EqualFunc(t.slab.runs, runs, same) {
		t.slab.y1++
		return
	}
	t.slabDone()
	t.slab = slab{y, y + 1, runs}
}

func (t *tracer) slabDone() {
	s := t.slab
	if len(s.runs) == 0 {
		return
	}
	for _, u := range s.runs {
		t.edges = append(t.edges, traced{u.X0, s.y1, u.X0, s.y0}, traced{u.X1, s.y0, u.X1, s.y1})
	}
	if t.above.y1 == s.y0 {
		t.border(s.y0, t.above.runs, s.runs)
	} else {
		t.border(t.above.y1, t.above.runs, nil)
		t.border(s.y0, nil, s.runs)
	}
	t.above, t.slab = s, slab{}
}

func (t *tracer) done() {
	t.slabDone()
	t.border(t.above.y1, t.above.runs, nil)
}

// border adds the horizontal edges at y between runs above and below it: to the left where only what is above is of the
// mask, to the right where only what is below is.
func (t *tracer) border(y int32, above, below []Run) {
	since := int32(0)
	eachEnd(above, below, func(x int32, inAbove, inBelow bool) {
		switch {
		case x == since:
		case inAbove && !inBelow:
			t.edges = append(t.edges, traced{x, y, since, y})
		case inBelow && !inAbove:
			t.edges = append(t.edges, traced{since, y, x, y})
		}
		since = x
	})
}

// eachEnd visits the ends of the runs of two rows from left to right, and says what lies left of each.
func eachEnd(a, b []Run, at func(x int32, inA, inB bool)) {
	// Even positions are starts of runs, odd ones their ends.
	end := func(runs []Run, i int) int32 {
		switch {
		case i >= 2*len(runs):
			return math.MaxInt32
		case i%2 == 0:
			return runs[i/2].X0
		}
		return runs[i/2].X1
	}
	for i, j := 0, 0; i < 2*len(a) || j < 2*len(b); {
		xa, xb := end(a, i), end(b, j)
		x := min(xa, xb)
		at(x, i%2 == 1, j%2 == 1)
		if xa == x {
			i++
		}
		if xb == x {
			j++
		}
	}
}

func (t *tracer) rings() []Ring {
	slices.SortFunc(t.edges, func(a, b traced) int {
		return cmp.Or(cmp.Compare(a.fromX, b.fromX), cmp.Compare(a.fromY, b.fromY))
	})
	used := make([]bool, len(t.edges))
	var out []Ring
	for first := range t.edges {
		if used[first] {
			continue
		}
		// The first unused edge starts at the leftmost and there topmost vertex of its ring, which is a corner.
		var ring Ring
		last := heading{}
		for at := first; !used[at]; at = t.follow(at) {
			used[at] = true
			e := t.edges[at]
			if h := e.heading(); h != last {
				ring = append(ring, Point{float64(e.fromX), float64(e.fromY)})
				last = h
			}
		}
		out = append(out, ring)
	}
	return out
}

// follow returns the edge that continues the ring after an edge. At a vertex where pixels touch only with their
// corners, two edges go on; the right turn stays with the pixel that this edge belongs to. So each edge has one
// successor and one predecessor, and following them leads back to where one began.
func (t *tracer) follow(at int) int {
	e := t.edges[at]
	i, _ := slices.BinarySearchFunc(t.edges, e, func(other, e traced) int {
		return cmp.Or(cmp.Compare(other.fromX, e.toX), cmp.Compare(other.fromY, e.toY))
	})
	if i+1 < len(t.edges) && t.edges[i+1].fromX == e.toX && t.edges[i+1].fromY == e.toY {
		h := e.heading()
		if t.edges[i].heading() != (heading{-h.dy, h.dx}) {
			i++
		}
	}
	return i
}
