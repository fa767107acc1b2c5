// Bounds of a region's pixels inside a frame.

package polygon

import (
	"github.com/polyscan/polyscan/kernels/driver"
)

// boundsTries is how many rows are looked at one by one, each in O(edges), before it is considered to sweep all of
// them. Polygons take four to six; what takes more has spikes that catch no pixel.
const boundsTries = 32

// boundsFinder grows the rectangle around what it has seen of a region.
type boundsFinder struct {
	edges         []driver.Edge
	fill          driver.FillRule
	width, height int
	seen          Rect
	turns         []turn // scratch
	tries         int
}

// row adds the pixels of row y, and says whether there are any.
func (f *boundsFinder) row(y int) bool {
	f.tries--
	f.turns = rowTurns(f.turns, f.edges, y)
	return f.add(y, f.turns)
}

func (f *boundsFinder) add(y int, turns []turn) (any bool) {
	spans(turns, f.fill, func(x0, x1 int) {
		x0, x1 = max(x0, 0), min(x1, f.width)
		if x0 < x1 {
			any = true
			f.seen.X0, f.seen.X1 = min(f.seen.X0, x0), max(f.seen.X1, x1)
		}
	})
	if any {
		f.seen.Y0, f.seen.Y1 = min(f.seen.Y0, y), max(f.seen.Y1, y+1)
	}
	return any
}

// boundsOf is the smallest rectangle around the pixels of a region inside a frame; b holds the region's vertices.
//
// The region's first and last pixel in x are where some edge is farthest left or right inside the frame, but for
// windings that cancel there; so the row where that happens settles the matter as a rule. O(edges) then; where it does
// not, all rows are swept. turns is scratch, and returned for the next call.
func boundsOf(edges []driver.Edge, fill driver.FillRule, b box, width, height int, turns []turn) (Rect, []turn) {
	f := boundsFinder{edges: edges, fill: fill, width: width, height: height, turns: turns, tries: boundsTries}
	f.reset()
	if !f.find(b) {
		f.reset()
		sweep(edges, 0, height, func(y int, turns []turn) bool {
			f.add(y, turns)
			return true
		})
	}
	if f.seen.Empty() {
		return Rect{}, f.turns
	}
	return f.seen, f.turns
}

func (f *boundsFinder) reset() { f.seen = Rect{X0: f.width, Y0: f.height} }

// find reports whether seen came to hold all of the region within the tries there are.
func (f *boundsFinder) find(b box) bool {
	_, top, _, bottom := b.pixels()
	top, bottom = max(top, 0), min(bottom, f.height)
	for ; top < bottom && !f.row(top); top++ {
		if f.tries <= 0 {
			return false
		}
	}
	for ; top < bottom && !f.row(bottom-1); bottom-- {
		if f.tries <= 0 {
			return false
		}
	}
	// Rows above top and below bottom have no pixel. Find the leftmost and the rightmost turn between.
	left, right := f.seen.X0, f.seen.X1
	leftRow, rightRow := -1, -1
	for _, e := range f.edges {
		x0, x1 := e.X0, e.X1
		y0, y1 := e.Y0, e.Y1
		if x0 > x1 {
			x0, x1, y0, y1 = x1, x0, y1, y0
		}
		// A turn is at firstCentre(x0) or right of it, and at firstCentre(x1) or left of it.
		goLeft, goRight := firstCentre(x0) < left && left > 0, firstCentre(x1) > right && right < f.width
		if !goLeft && !goRight {
			continue
		}
		from, to := edgeRows(e)
		from, to = max(from, top), min(to, bottom)
		if from >= to {
			continue
		}
		leftEnd, rightEnd := from, to-1
		if y0 > y1 {
			leftEnd, rightEnd = rightEnd, leftEnd
		}
		if goLeft {
			if p := crossing(e, leftEnd); p < left {
				left, leftRow = p, leftEnd
			}
		}
		if goRight {
			if p := crossing(e, rightEnd); p > right {
				right, rightRow = p, rightEnd
			}
		}
	}
	if leftRow >= 0 {
		f.row(leftRow)
	}
	if rightRow >= 0 && rightRow != leftRow {
		f.row(rightRow)
	}
	if f.seen.X0 <= max(left, 0) && f.seen.X1 >= min(right, f.width) {
		return true
	}
	return f.settle(top, bottom)
}

// settle looks at all rows in which a turn lies outside what was seen, unless a sweep of all rows is cheaper.
func (f *boundsFinder) settle(top, bottom int) bool {
	// A sweep takes some ten times as long for a turn as a row does for an edge.
	var turns int
	for _, e := range f.edges {
		from, to := edgeRows(e)
		turns += max(0, min(to, bottom)-max(from, top))
	}
	f.tries += 10 * turns / len(f.edges)
	for _, e := range f.edges {
		x0, x1 := e.X0, e.X1
		y0, y1 := e.Y0, e.Y1
		if x0 > x1 {
			x0, x1, y0, y1 = x1, x0, y1, y0
		}
		if !(firstCentre(x0) < f.seen.X0 && f.seen.X0 > 0) && !(firstCentre(x1) > f.seen.X1 && f.seen.X1 < f.width) {
			continue
		}
		from, to := edgeRows(e)
		from, to = max(from, top), min(to, bottom)
		first, last, down := from, to-1, 1 // from left to right
		if y0 > y1 {
			first, last, down = last, first, -1
		}
		for k, y := 0, first; k < to-from && f.seen.X0 > 0 && crossing(e, y) < f.seen.X0; k, y = k+1, y+down {
			if f.tries <= 0 {
				return false
			}
			f.row(y)
		}
		for k, y := 0, last; k < to-from && f.seen.X1 < f.width && crossing(e, y) > f.seen.X1; k, y = k+1, y-down {
			if f.tries <= 0 {
				return false
			}
			f.row(y)
		}
	}
	return true
}
