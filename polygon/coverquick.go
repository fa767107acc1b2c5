// Fractional coverage of rows that edges go through, one beside the other: in doubles.

package polygon

import "github.com/polyscan/polyscan/kernels/driver"

// quickEdges is how many edges a row may have for quickRow, which sorts them by insertion.
const quickEdges = 64

// quickBits is how many bits behind the point a share has when it is rounded, and quickDoubt how near to the middle of two
// weights it must not be, in its last place: 2^-14. Doubles are off by less: a column by 2^-43 of the grid's steps and a
// height by 2^-43, and so a share by 2^-33.
const (
	quickBits  = 20
	quickDoubt = 1 << (quickBits - 14)
)

// quickWeight rounds a share. It is false where that is near the middle of two weights.
func quickWeight(share float64) (weight int64, ok bool) {
	near := int64(share*(1<<quickBits)) + 1<<(quickBits-1)
	rest := uint64(near) & (1<<quickBits - 1)
	return near >> quickBits, rest-quickDoubt < 1<<quickBits-2*quickDoubt
}

// coverLine is an edge on its way down: its columns at the top of a row and at the bottom, or at its own ends where
// these lie between.
type coverLine struct {
	row         int // of the columns; -2 before the first
	top, bottom fixed
	whole, half fixed   // what a row adds to the column, and half a row
	perHeight   float64 // 1/dy
	perWidth    float64 // 1/|dx|
	falls       bool    // to the left
}

// plus adds columns with one denominator.
func (a fixed) plus(b fixed) fixed {
	a.q += b.q
	if a.r += b.r; a.r >= a.den {
		a.r -= a.den
		a.q++
	}
	return a
}

// advance takes the line to a row that the edge has a part of.
func (l *coverLine) advance(e *driver.Edge, row int) {
	top := int32(row) << driver.SubpixelBits
	bottom := top + driver.Subpixel
	d := int64(e.Y1) - int64(e.Y0)
	if l.row == row-1 {
		l.top = l.bottom
	} else {
		dx := int64(e.X1) - int64(e.X0)
		l.perHeight, l.perWidth = 1/float64(d), 1/float64(max(dx, -dx, 1))
		l.falls = dx < 0
		l.half.q, l.half.r = floorDiv(driver.Subpixel/2*dx, d)
		l.half.den = d
		l.whole = l.half.plus(l.half)
		l.top = fixed{int64(e.X0), 0, d}
		if e.Y0 < top {
			l.top = columnAt(e, top)
		}
	}
	l.row = row
	switch {
	case e.Y1 <= bottom:
		l.bottom = fixed{int64(e.X1), 0, d}
	case e.Y0 <= top:
		l.bottom = l.top.plus(l.whole)
	default:
		l.bottom = columnAt(e, bottom)
	}
}

// quickRow adds the pixels of row y, left of column end, as row does, where edges all go through the row, each by
// columns of its own. It is false where that isn't so, or a share is near the middle of two, and has added nothing then.
func (x *coverer) quickRow(fill driver.FillRule, y, end int) bool {
	top, live := int32(y)<<driver.SubpixelBits, x.live
	if len(live) > quickEdges || len(x.touched) > 0 {
		return false
	}
	for i := range live {
		if e := &x.edges[live[i]]; e.Y0 > top || e.Y1 < top+driver.Subpixel {
			return false
		}
		for k := i; k > 0; k-- { // by place, as they were in the row above
			a, b := &x.lines[live[k-1]], &x.lines[live[k]]
			if a.top.q < b.top.q || a.top.q == b.top.q && a.top.compare(b.top) <= 0 {
				break
			}
			live[k-1], live[k] = live[k], live[k-1]
		}
	}
	had := len(x.out)
	if !x.quickSides(fill, y, end) {
		x.out = x.out[:had]
		return false
	}
	x.steps -= int64(len(live))
	return true
}

// quickSides adds the pixels of lines in their order.
func (x *coverer) quickSides(fill driver.FillRule, y, end int) bool {
	var winding int32
	free := x.base
	for k, i := range x.live {
		l := &x.lines[i]
		if k > 0 {
			if b := &x.lines[x.live[k-1]].bottom; l.bottom.q <= b.q && l.bottom.compare(*b) < 0 {
				return false // they cross
			}
		}
		was := fill.Inside(winding)
		winding += x.signs[i]
		if is := fill.Inside(winding); is != was {
			if free = x.quickSide(l, y, free, end, was); free < 0 {
				return false
			}
		}
	}
	return !fill.Inside(winding)
}

// quickSide adds the pixels of row y that a line goes through, which has an inside on one side: on the left, or else on
// the right. It returns the column behind them, or -1 where they aren't in columns from free to end, or a share is near
// the middle of two.
func (x *coverer) quickSide(l *coverLine, y, free, end int, onLeft bool) int {
	left, right := &l.top, &l.bottom
	if l.falls {
		left, right = right, left
	}
	j0, j1 := int(left.q>>driver.SubpixelBits), int(right.q>>driver.SubpixelBits)
	if j0 < free || j1 >= end || len(x.out)+j1-j0 >= maxCoverPixels {
		return -1
	}
	// From column p on centres lie on the right.
	p := int((l.top.plus(l.half).ceil() + driver.Subpixel/2 - 1) >> driver.SubpixelBits)
	// to is dx times the height, from the left end on, at which the line meets the right side of column j: an integer.
	d := left.den
	to := (int64(j0+1)<<driver.SubpixelBits-left.q)*d - left.r
	above := 0.0 // the height at the left side
	for j := j0; j <= j1; j++ {
		var share float64 // of what is right of the line
		switch {
		case j < j1:
			below := float64(to) * l.perWidth
			share = (above + below) * (driver.Subpixel / 2)
			if j == j0 {
				share = below * float64(to) * l.perHeight / 2
			}
			above = below
			to += d << driver.SubpixelBits
		case j == j0:
			share = float64(2*driver.Subpixel*int64(j+1)-left.q-right.q) - float64(left.r+right.r)*l.perHeight
			share *= driver.Subpixel / 2
		default:
			share = float64(driver.Subpixel*int64(j+2)-right.q) - float64(right.r)*l.perHeight
			share = driver.Subpixel*above + share*(driver.Subpixel-above)/2
		}
		if onLeft {
			share = wholePixel - share
		}
		weight, ok := quickWeight(share)
		if !ok {
			return -1
		}
		if onLeft == (j < p) {
			weight -= wholePixel
		}
		if weight != 0 {
			x.out = append(x.out, driver.NewWeightedPixel(j, y, int32(weight)))
		}
	}
	return j1 + 1
}
