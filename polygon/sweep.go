// Scan conversion on the host: what the rows of a region are, for the few questions that the reduction on the device
// does not answer (bounds, and the pixels outside the frame).

package polygon

import (
	"math"
	"slices"

	"github.com/polyscan/polyscan/kernels/driver"
)

// centre is the coordinate of the centre of row or column i, in 1/256 px.
func centre(i int) int64 { return int64(i)<<driver.SubpixelBits + driver.Subpixel/2 }

// edgeRows is the range of rows that an edge counts for.
func edgeRows(e driver.Edge) (from, to int) {
	return firstCentre(min(e.Y0, e.Y1)), firstCentre(max(e.Y0, e.Y1))
}

// crossing is the number p of the first pixel of row y whose centre is not strictly left of the edge: the edge counts for
// pixels below p. It is ceil((x - 128)/256) for the crossing x = X0 + (yc-Y0)*dx/dy. The products stay below 2^63.
func crossing(e driver.Edge, y int) int {
	num, den := crossingFraction(e, y)
	q := num / den
	if num%den > 0 {
		q++
	}
	return int(q)
}

// crossingFraction is (x - 128)/256, with a positive denominator.
func crossingFraction(e driver.Edge, y int) (num, den int64) {
	dx, dy := int64(e.X1)-int64(e.X0), int64(e.Y1)-int64(e.Y0)
	ty := centre(y) - int64(e.Y0)
	if dy < 0 {
		dx, dy = -dx, -dy
	}
	return (int64(e.X0)-driver.Subpixel/2)*dy + ty*dx, dy << driver.SubpixelBits
}

// turn is a change of the winding number along a row: pixels from p on have the winding of those before, minus sign (their
// crossing is no longer to the right).
type turn struct {
	p    int
	sign int32
}

func signOf(e driver.Edge) int32 {
	if e.Y1 > e.Y0 {
		return 1
	}
	return -1
}

// spans calls fn for each run [x0, x1) of pixels inside, given the turns of a row in ascending order.
func spans(turns []turn, fill driver.FillRule, fn func(x0, x1 int)) {
	var winding int32
	start, inside := 0, false
	for i := 0; i < len(turns); {
		p := turns[i].p
		for ; i < len(turns) && turns[i].p == p; i++ {
			winding -= turns[i].sign
		}
		if in := fill.Inside(winding); in != inside {
			if inside {
				fn(start, p)
			}
			start, inside = p, in
		}
	}
}

func byPixel(a, b turn) int { return a.p - b.p }

// rowTurns gathers the turns of one row, in ascending order, in dst's memory. O(edges).
func rowTurns(dst []turn, edges []driver.Edge, y int) []turn {
	dst = dst[:0]
	yc := centre(y)
	for _, e := range edges {
		if (int64(e.Y0) <= yc) != (int64(e.Y1) <= yc) {
			dst = append(dst, turn{crossing(e, y), signOf(e)})
		}
	}
	sortTurns(dst)
	return dst
}

// sortTurns is an insertion sort for short or nearly sorted rows.
func sortTurns(t []turn) {
	if len(t) > 64 && !slices.IsSortedFunc(t, byPixel) {
		slices.SortFunc(t, byPixel)
		return
	}
	for i := 1; i < len(t); i++ {
		for k := i; k > 0 && t[k].p < t[k-1].p; k-- {
			t[k], t[k-1] = t[k-1], t[k]
		}
	}
}

// crossings is how many turns the rows [y0, y1) have together.
func crossings(edges []driver.Edge, y0, y1 int) (n int64) {
	for _, e := range edges {
		from, to := edgeRows(e)
		n += int64(max(0, min(to, y1)-max(from, y0)))
	}
	return n
}

// active is an edge that the sweep is at: its turn in the current row is at ceil(q + r/den).
type active struct {
	q, r, den   int64 // 0 <= r < den
	stepQ, step int64 // added for a row
	end         int   // first row below the edge
	sign        int32
}

// sweep calls row for each of the rows [y0, y1) that has turns, from the top, with its turns in ascending order; they
// are valid until row returns. O(edges*log(edges) + crossings), where rows keep their order.
func sweep(edges []driver.Edge, y0, y1 int, row func(y int, turns []turn)) {
	order := make([]int32, 0, len(edges))
	for i, e := range edges {
		if from, to := edgeRows(e); from < to && from < y1 && to > y0 {
			order = append(order, int32(i))
		}
	}
	top := func(i int32) int32 { return min(edges[i].Y0, edges[i].Y1) }
	slices.SortFunc(order, func(a, b int32) int { return int(top(a)) - int(top(b)) })

	var live []active
	var turns []turn
	y := math.MinInt
	for len(order) > 0 || len(live) > 0 {
		if len(live) == 0 {
			from, _ := edgeRows(edges[order[0]])
			y = max(y, from, y0)
		}
		if y >= y1 {
			return
		}
		for len(order) > 0 {
			e := edges[order[0]]
			from, to := edgeRows(e)
			if from > y {
				break
			}
			order = order[1:]
			if to <= y {
				continue
			}
			num, den := crossingFraction(e, y)
			a := active{den: den, end: to, sign: signOf(e)}
			a.q, a.r = floorDiv(num, den)
			// From row to row the numerator grows by 256*dx, with dy made positive.
			dx := int64(e.X1) - int64(e.X0)
			if e.Y1 < e.Y0 {
				dx = -dx
			}
			a.stepQ, a.step = floorDiv(dx<<driver.SubpixelBits, den)
			live = append(live, a)
		}
		turns = turns[:0]
		keep := live[:0]
		for _, a := range live {
			p := int(a.q)
			if a.r > 0 {
				p++
			}
			turns = append(turns, turn{p, a.sign})
			if a.end > y+1 {
				a.q += a.stepQ
				if a.r += a.step; a.r >= a.den {
					a.r -= a.den
					a.q++
				}
				keep = append(keep, a)
			}
		}
		live = keep
		if len(turns) > 0 {
			sortTurns(turns)
			row(y, turns)
		}
		y++
	}
}

func floorDiv(a, b int64) (q, r int64) {
	q, r = a/b, a%b
	if r < 0 {
		q--
		r += b
	}
	return q, r
}

// pixelsOf counts the pixels of a region, with no frame around it.
func pixelsOf(edges []driver.Edge, fill driver.FillRule) (n uint64) {
	sweep(edges, math.MinInt32, math.MaxInt32, func(_ int, turns []turn) {
		spans(turns, fill, func(x0, x1 int) { n += uint64(x1 - x0) })
	})
	return n
}

// boundsOf is the smallest rectangle around the pixels of a region inside a frame.
func boundsOf(edges []driver.Edge, fill driver.FillRule, width, height int) Rect {
	b := Rect{X0: width, Y0: height}
	sweep(edges, 0, height, func(y int, turns []turn) {
		spans(turns, fill, func(x0, x1 int) {
			x0, x1 = max(x0, 0), min(x1, width)
			if x0 < x1 {
				b.X0, b.X1 = min(b.X0, x0), max(b.X1, x1)
				b.Y0, b.Y1 = min(b.Y0, y), y+1
			}
		})
	})
	if b.Empty() {
		return Rect{}
	}
	return b
}
