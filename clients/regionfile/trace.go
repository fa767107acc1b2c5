package regionfile

// Outlining a mask: from runs of set pixels to rings along the pixels' borders.

import (
	"cmp"
	"math"
	"slices"
)

// tracer collects the set pixels of a mask in column-major order (down each column, columns from left to right) and
// outlines them.
//
// The rings run along pixel borders, so under this project's rule (a pixel is inside if its centre is) they contain
// exactly the set pixels, under either fill rule. Outer borders have positive area, holes negative. Set pixels that
// touch only at a corner are on different rings, or on one that meets itself there; no ring crosses itself or another.
// A vertex is kept only where the direction changes.
//
// Time is O(n log n) and memory O(n) in the number n of column pieces that the runs consist of, however many pixels
// they cover: equal neighbouring columns, and the full columns inside a long run, count once. The edges of one mask are
// limited to Options.MaxVertices, because the vertices that remain can be far fewer and wouldn't limit memory.
//
// The method: cut the plane into slabs of equal columns. Each piece of a slab gives a top edge to the right and a
// bottom edge to the left. Where two slabs meet, what one has and the other hasn't gives vertical edges. Every edge has
// set pixels on its right. Following edges from end to start, turning right where two go on, gives the rings.
type tracer struct {
	b          *builder
	h          int64 // height of the mask
	x0, y0     int32 // position of its first pixel
	from, to   int64 // the last run, which the next may extend
	left, slab slab  // the last finished slab, and the one being built
	column     slab  // the column being built
	edges      []edge
}

// slab is a set of neighbouring columns [x0, x1) with the same set pixels: pieces [from, to) of y, in order, not
// touching.
type slab struct {
	x0, x1 int32
	pieces [][2]int32
}

type edge struct{ fromX, fromY, toX, toY int32 }

// heading is the direction of an edge. The right of a heading (dx, dy) is (-dy, dx), because y grows down.
type heading struct{ dx, dy int }

func (e edge) heading() heading {
	return heading{cmp.Compare(e.toX, e.fromX), cmp.Compare(e.toY, e.fromY)}
}

func newTracer(b *builder, height, x0, y0 int) *tracer {
	return &tracer{b: b, h: int64(height), x0: int32(x0), y0: int32(y0)}
}

// run adds the pixels [from, to) in column-major order; runs come in order and don't overlap, and may be empty.
func (t *tracer) run(from, to int64) *Error {
	switch {
	case from >= to:
		return nil
	case t.to > t.from && from == t.to: // goes on where the last one stopped
		t.to = to
		return nil
	}
	t.flush()
	t.from, t.to = from, to
	return t.room()
}

func (t *tracer) room() *Error {
	if len(t.edges) > t.b.opts.MaxVertices {
		return fail(ErrLimit, "the mask's outline has more than %d edges, the limit", t.b.opts.MaxVertices)
	}
	return nil
}

// flush cuts the last run into pieces of columns.
func (t *tracer) flush() {
	if t.from >= t.to {
		return
	}
	x, y := t.from/t.h, t.from%t.h
	last, rest := t.to/t.h, t.to%t.h
	if x == last {
		t.piece(x, x+1, y, rest)
		return
	}
	if y > 0 {
		t.piece(x, x+1, y, t.h)
		x++
	}
	if x < last {
		t.piece(x, last, 0, t.h)
	}
	if rest > 0 {
		t.piece(last, last+1, 0, rest)
	}
}

// piece adds the pixels [y0, y1) of the columns [x0, x1).
func (t *tracer) piece(x0, x1, y0, y1 int64) {
	if len(t.column.pieces) > 0 && int64(t.column.x0) != x0 {
		t.columnDone()
	}
	t.column.x0, t.column.x1 = int32(x0), int32(x1)
	t.column.pieces = append(t.column.pieces, [2]int32{int32(y0), int32(y1)})
}

// columnDone joins the column to the slab before it if they are alike, and makes it the new slab otherwise.
func (t *tracer) columnDone() {
	if len(t.slab.pieces) > 0 && t.slab.x1 == t.column.x0 && slices.Equal(t.slab.pieces, t.column.pieces) {
		t.slab.x1 = t.column.x1
		t.column.pieces = t.column.pieces[:0]
		return
	}
	t.slabDone()
	t.slab, t.column = t.column, slab{pieces: t.slab.pieces[:0]}
}

// slabDone adds the edges of the slab and of its left border.
func (t *tracer) slabDone() {
	if len(t.slab.pieces) == 0 {
		return
	}
	for _, p := range t.slab.pieces {
		t.edges = append(t.edges,
			edge{t.slab.x0, p[0], t.slab.x1, p[0]},
			edge{t.slab.x1, p[1], t.slab.x0, p[1]})
	}
	if t.left.x1 == t.slab.x0 {
		t.border(t.slab.x0, t.left.pieces, t.slab.pieces)
	} else {
		t.border(t.left.x1, t.left.pieces, nil)
		t.border(t.slab.x0, nil, t.slab.pieces)
	}
	t.left, t.slab = t.slab, slab{pieces: t.left.pieces[:0]}
}

// border adds the vertical edges at x between the pieces left and right of it: downwards where only the left is set,
// upwards where only the right is.
func (t *tracer) border(x int32, left, right [][2]int32) {
	// Sweep over the ends of both lists: even positions of i and j are starts of pieces, odd ones their ends. Between
	// two ends nothing changes.
	i, j := 0, 0
	since := int32(0)
	for i < 2*len(left) || j < 2*len(right) {
		yl, yr := int32(math.MaxInt32), int32(math.MaxInt32)
		if i < 2*len(left) {
			yl = left[i/2][i%2]
		}
		if j < 2*len(right) {
			yr = right[j/2][j%2]
		}
		y := min(yl, yr)
		switch inLeft, inRight := i%2 == 1, j%2 == 1; {
		case y == since:
		case inLeft && !inRight:
			t.edges = append(t.edges, edge{x, since, x, y})
		case inRight && !inLeft:
			t.edges = append(t.edges, edge{x, y, x, since})
		}
		if yl == y {
			i++
		}
		if yr == y {
			j++
		}
		since = y
	}
}

// rings returns the outline of all pixels that were added; none if there were none. The tracer is spent.
func (t *tracer) rings() ([][][2]float64, *Error) {
	t.flush()
	if len(t.column.pieces) > 0 {
		t.columnDone()
	}
	t.slabDone()
	t.border(t.left.x1, t.left.pieces, nil)
	if e := t.room(); e != nil {
		return nil, e
	}
	slices.SortFunc(t.edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.fromX, b.fromX), cmp.Compare(a.fromY, b.fromY))
	})
	used := make([]bool, len(t.edges))
	var out [][][2]float64
	for first := range t.edges {
		if used[first] {
			continue
		}
		// The first unused edge starts at the leftmost and there topmost vertex of its ring, which is a corner.
		ring := t.b.scratch[:0]
		last := heading{}
		for at := first; !used[at]; at = t.follow(at) {
			used[at] = true
			e := t.edges[at]
			if h := e.heading(); h != last {
				if e := t.b.spend(1); e != nil {
					return nil, e
				}
				ring = append(ring, [2]float64{float64(e.fromX + t.x0), float64(e.fromY + t.y0)})
				last = h
			}
		}
		t.b.scratch = ring
		out = append(out, t.b.keep(ring))
	}
	return out, nil
}

// follow returns the edge that continues the ring after an edge. At a vertex where set pixels touch only with their
// corners, two edges go on; the right turn stays with the pixel that this edge belongs to. So each edge has one
// successor and one predecessor, and following them leads back to where one began.
func (t *tracer) follow(at int) int {
	e := t.edges[at]
	i, _ := slices.BinarySearchFunc(t.edges, e, func(other, e edge) int {
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
