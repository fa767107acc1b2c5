// Scan conversion on the host: what the rows of a region are, for the few questions that the reduction on the device
// does not answer (bounds, and the pixels outside the frame).

package polygon

import (
	"math"
	"slices"
	"unsafe"

	"github.com/polyscan/polyscan/kernels/driver"
)

// centre is the coordinate of the centre of row or column i, in 1/256 px.
func centre(i int) int64 { return int64(i)<<driver.SubpixelBits + driver.Subpixel/2 }

// edgeRows is the range of rows that an edge counts for.
func edgeRows(e driver.Edge) (from, to int) {
	return firstCentre(min(e.Y0, e.Y1)), firstCentre(max(e.Y0, e.Y1))
}

// crossing is the number p of the first pixel of row y whose centre is not strictly left of the edge: the edge counts
// for pixels below p. It is ceil((x - 128)/256) for the crossing x = X0 + (yc-Y0)*dx/dy. The products stay below 2^63.
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

// turn is a change of the winding number along a row: pixels from p on have the winding of those before, minus sign
// (their crossing is no longer to the right).
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

// sortTurns puts the turns of a row in ascending order.
func sortTurns(t []turn) {
	if len(t) > 32 {
		slices.SortFunc(t, byPixel)
		return
	}
	for i := 1; i < len(t); i++ {
		for k := i; k > 0 && t[k].p < t[k-1].p; k-- {
			t[k], t[k-1] = t[k-1], t[k]
		}
	}
}

// active is an edge that the sweep is at: its turn in the current row is at p, the ceiling of q + r/den.
type active struct {
	p           int64
	q, r, den   int64 // 0 <= r < den
	stepQ, step int64 // added for a row
	end         int   // first row below the edge
	sign        int32
}

func (a *active) turn() {
	a.p = a.q
	if a.r > 0 {
		a.p++
	}
}

// down goes to the next row.
func (a *active) down() {
	a.q += a.stepQ
	if a.r += a.step; a.r >= a.den {
		a.r -= a.den
		a.q++
	}
	a.turn()
}

// sweep calls row for each of the rows [y0, y1) that has turns, from the top, with its turns in ascending order, until
// it returns false; they are valid until row returns. Where edges keep their order from row to row, as in a polygon
// that does not cross itself, it takes O(edges*log(edges) + crossings); never more than a factor of log(edges) beyond
// that.
func sweep(edges []driver.Edge, y0, y1 int, row func(y int, turns []turn) bool) {
	sweepUntil(edges, y0, y1, func(int, int) bool { return false }, row)
}

// sweepPiece is how many edges are looked at between two calls of ended, some 10 ns each.
const sweepPiece = 1024

// sweepBytes is what [sweepUntil] takes for an edge, and liveBytes for one that is live, in slices that may have grown.
const (
	sweepBytes = int(unsafe.Sizeof(int32(0)))
	liveBytes  = 2 * int(unsafe.Sizeof(active{})+unsafe.Sizeof(turn{}))
)

// sweepUntil is [sweep] for callers that must let others go first: it calls ended with how many edges it is going to
// look at and how many are in the row or just coming to it, before there is memory for them, and ends once that says
// so.
func sweepUntil(edges []driver.Edge, y0, y1 int, ended func(steps, live int) bool,
	row func(y int, turns []turn) bool) {
	over := false
	done := func(steps, live int) bool {
		over = over || ended(steps, live)
		return over
	}
	order := make([]int32, 0, len(edges))
	for i, e := range edges {
		if i%sweepPiece == 0 && done(min(sweepPiece, len(edges)-i), 0) {
			return
		}
		if from, to := edgeRows(e); from < to && from < y1 && to > y0 {
			order = append(order, int32(i))
		}
	}
	top := func(i int32) int32 { return min(edges[i].Y0, edges[i].Y1) }
	slices.SortFunc(order, func(a, b int32) int {
		if done(1, 0) { // all are equal then, and sorting ends
			return 0
		}
		return int(top(a)) - int(top(b))
	})
	if over {
		return
	}

	var live []active // in the order of the current row
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
		for ; len(order) > 0; order = order[1:] {
			e := edges[order[0]]
			from, to := edgeRows(e)
			if from > y {
				break
			}
			if done(1, len(live)+1) {
				return
			}
			if to <= y {
				continue
			}
			if len(live) == cap(live) { // twice as many each time: what is given up is no more than what is held
				live = slices.Grow(live, max(len(live), 16))
				turns = make([]turn, 0, cap(live))
			}
			live = append(live, start(e, y, to))
		}
		if sortActive(live, done); over {
			return
		}
		turns = turns[:0]
		keep := live[:0]
		for i, a := range live {
			if i%sweepPiece == 0 && done(min(sweepPiece, len(live)-i), len(live)) {
				return
			}
			turns = append(turns, turn{int(a.p), a.sign})
			if a.end > y+1 {
				a.down()
				keep = append(keep, a)
			}
		}
		live = keep
		if len(turns) > 0 && !row(y, turns) {
			return
		}
		y++
	}
}

// start is edge e in row y.
func start(e driver.Edge, y, end int) active {
	num, den := crossingFraction(e, y)
	a := active{den: den, end: end, sign: signOf(e)}
	a.q, a.r = floorDiv(num, den)
	// From row to row the numerator grows by 256*dx, with dy made positive.
	dx := int64(e.X1) - int64(e.X0)
	if e.Y1 < e.Y0 {
		dx = -dx
	}
	a.stepQ, a.step = floorDiv(dx<<driver.SubpixelBits, den)
	a.turn()
	return a
}

// sortActive is an insertion sort, because rows are nearly sorted as a rule, until it turns out that this one is not.
func sortActive(a []active, done func(steps, live int) bool) {
	moves := 16 * len(a)
	for i := 1; i < len(a); i++ {
		if a[i].p >= a[i-1].p {
			continue
		}
		x := a[i]
		k := i
		for ; k > 0 && x.p < a[k-1].p; k-- {
			a[k] = a[k-1]
		}
		a[k] = x
		if done(1+(i-k)/8, len(a)) {
			return
		}
		if moves -= i - k; moves < 0 {
			slices.SortFunc(a, func(x, y active) int {
				if done(1, len(a)) {
					return 0
				}
				return int(x.p - y.p)
			})
			return
		}
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
