// Fractional coverage: the share of each pixel that a region covers, in exact integers.

package polygon

import (
	"context"
	"fmt"
	"math/big"
	"math/bits"
	"slices"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// coverSteps is how many steps (an edge that is looked at between two heights in a row) finding the shares of the
// pixels of a set may take; some 1 s. maxCoverPixels is how many pixels boundaries may cross: 32 MiB.
const (
	coverSteps     = 1 << 26
	maxCoverPixels = 1 << 22
)

// coverage is what fractional coverage adds to the pixels of the regions of a set within a frame: of the pixels whose
// share is not what their centre says, how much more it is than 0 or 1, in 1/65,536. Those of region k are
// pixels[starts[k]:starts[k+1]], row by row.
//
// A share is the area of the pixel's square in which the winding number is inside, by the region's fill rule, rounded
// once to 1/65,536, ties to even: it is off by 2^-17 at most. Rings may cross.
type coverage struct {
	pixels []driver.WeightedPixel
	starts []uint32
}

// bytes is what the device needs for it, behind each other and aligned.
func (c *coverage) bytes() int64 {
	return kernels.Bytes[driver.WeightedPixel](len(c.pixels)) + kernels.Bytes[uint32](len(c.starts))
}

// cover finds the coverage of the regions by their number, order[k] for the k-th, within a frame. onHost is that of the
// device. Regions whose shares take too long, or too much memory, are an [*kernels.InvalidError].
func (s *Set) cover(ctx context.Context, onHost func(func(pause func() error) error) error, order []int, width,
	height int) (c coverage, err error) {
	err = onHost(func(pause func() error) error {
		x := coverer{extent: extent{ctx: ctx, pause: pause}, width: width, height: height, steps: coverSteps,
			out: make([]driver.WeightedPixel, 0, s.crossed(width, height))}
		c.starts = append(make([]uint32, 0, len(order)+1), 0)
		had := 0
		for _, i := range order {
			if s.regions[i].Fill != driver.ByRuns { // whose pixels are whole
				if why := x.region(s.edgesOf(i), s.regions[i].Fill, s.boxes[i]); x.err != nil {
					return x.err
				} else if why != "" {
					return invalid(path{"regions", i}, quoted(s.names[i]), "%s", why)
				}
			}
			kernels.Made(ctx, int(kernels.Bytes[driver.WeightedPixel](cap(x.out)-had)))
			had = cap(x.out)
			c.starts = append(c.starts, uint32(len(x.out)))
		}
		c.pixels = x.out
		return nil
	})
	return c, err
}

// coverFraction is how many bits behind the point sums of areas have, whose unit is 1/65,536 px, and coverHeight those
// of heights, whose unit is 1/256 px.
const (
	coverFraction = 24
	coverHeight   = 32
)

// coverError bounds by how much an edge makes the sum of a pixel wrong, in its last place. A height is off by less than
// 1 in its last place, and so is a width; an area is half a height of up to 256 times a width of up to 512, which makes
// 2^-32 (512 + 256) / 2 < 2^-23, and is cut off, 2^-24; the heights to the left of the pixel make 2^-24 more.
const coverError = 4

// coverer finds shares, region by region. The heights of a row between which no edge begins or ends are a slab: in it,
// an edge that does not cross another has the same regions on both sides. What lies right of it gains or loses the area
// between it and the right end of the frame, which is summed up for the pixels that the edge touches and, as a height,
// for all of those behind.
//
// Sums are cut off behind 2^-24 of a weight's unit. Where all that a pixel's sum is made of was exact, so is the sum;
// where the rounded weight could be another one, and where edges cross, the pixel is done in fractions.
type coverer struct {
	extent
	width, height int
	steps         int64
	out           []driver.WeightedPixel

	edges   []driver.Edge // downward, by their upper end
	signs   []int32
	live    []int32
	flat    []driver.Edge // level ones within a row, from the top: pixels along them have a share
	slab    []coverEdge
	turns   []turn
	base    int // the column of the first place below
	area    []int64
	cover   []int64
	inexact []int32 // how many edges made the sum inexact; -1 where it is no sum at all
	touched []span32
	least   []int32
	lines   []coverLine // of edges
}

type span32 struct{ from, to int32 } // both ends included

// coverEdge is an edge between two heights.
type coverEdge struct {
	i           int32
	top, bottom fixed // columns, in 1/256 px
}

// region adds the pixels of a region. It says why it can't.
func (x *coverer) region(edges []driver.Edge, fill driver.FillRule, b box) string {
	x0, x1 := max(int(b.x0)>>driver.SubpixelBits, 0), min((int(b.x1)+driver.Subpixel-1)>>driver.SubpixelBits, x.width)
	y0, y1 := max(int(b.y0)>>driver.SubpixelBits, 0), min((int(b.y1)+driver.Subpixel-1)>>driver.SubpixelBits, x.height)
	if x0 >= x1 || y0 >= y1 {
		return ""
	}
	x.base = x0
	n := x1 - x0 + 1 // one behind the last
	if len(x.area) < n {
		x.area, x.cover, x.inexact = make([]int64, n), make([]int64, n), make([]int32, n)
	}
	x.edges, x.signs, x.live, x.flat, x.lines = x.edges[:0], x.signs[:0], x.live[:0], x.flat[:0], x.lines[:0]
	for _, e := range edges {
		if e.Y0 == e.Y1 {
			if e.Y0&(driver.Subpixel-1) != 0 && e.Y0 > int32(y0)<<driver.SubpixelBits {
				x.flat = append(x.flat, e)
			}
			continue
		}
		if max(e.Y0, e.Y1) <= int32(y0)<<driver.SubpixelBits ||
			min(e.Y0, e.Y1) >= int32(y1)<<driver.SubpixelBits || min(e.X0, e.X1) >= int32(x1)<<driver.SubpixelBits {
			continue // above, below, or right of all pixels
		}
		x.edges = append(x.edges, e)
	}
	slices.SortFunc(x.edges, func(a, b driver.Edge) int {
		if x.done() {
			return 0
		}
		return int(min(a.Y0, a.Y1)) - int(min(b.Y0, b.Y1))
	})
	slices.SortFunc(x.flat, func(a, b driver.Edge) int {
		if x.done() {
			return 0
		}
		return int(a.Y0) - int(b.Y0)
	})
	for i, e := range x.edges {
		x.signs = append(x.signs, signOf(e))
		if e.Y0 > e.Y1 {
			x.edges[i] = driver.Edge{X0: e.X1, Y0: e.Y1, X1: e.X0, Y1: e.Y0}
		}
		x.lines = append(x.lines, coverLine{row: -2})
	}
	next, flat := 0, 0
	for y := y0; y < y1 && (next < len(x.edges) || len(x.live) > 0); y++ {
		top := int32(y) << driver.SubpixelBits
		x.looks -= len(x.live)
		if x.done() {
			return ""
		}
		live := x.live[:0]
		for _, i := range x.live {
			if x.edges[i].Y1 > top {
				live = append(live, i)
			}
		}
		x.live = live
		for next < len(x.edges) && x.edges[next].Y0 < top+driver.Subpixel {
			if x.edges[next].Y1 > top {
				x.live = append(x.live, int32(next))
			}
			next++
		}
		for ; flat < len(x.flat) && x.flat[flat].Y0 < top+driver.Subpixel; flat++ {
			e := &x.flat[flat]
			lo, hi := max(int(min(e.X0, e.X1))>>driver.SubpixelBits, x0),
				min(int(max(e.X0, e.X1))>>driver.SubpixelBits, x1-1)
			if lo <= hi {
				x.touched = append(x.touched, span32{int32(lo), int32(hi)})
			}
		}
		if why := x.row(fill, y, x1); why != "" {
			return why
		}
	}
	return ""
}

// row adds the pixels of row y, left of column end.
func (x *coverer) row(fill driver.FillRule, y, end int) string {
	for _, i := range x.live {
		x.lines[i].advance(&x.edges[i], y)
	}
	if x.quickRow(fill, y, end) {
		return ""
	}
	top := int32(y) << driver.SubpixelBits
	var heights [driver.Subpixel/64 + 1]uint64 // at which edges begin or end, below top
	set := func(h int32) { heights[h>>6] |= 1 << (h & 63) }
	for _, i := range x.live {
		e := &x.edges[i]
		set(max(e.Y0-top, 0))
		set(min(e.Y1-top, driver.Subpixel))
	}
	last := int32(-1)
	for k, word := range heights {
		for ; word != 0; word &= word - 1 {
			h := int32(k*64 + bits.TrailingZeros64(word))
			if last >= 0 {
				if x.steps -= int64(len(x.live)); x.steps < 0 {
					return x.tooLong(y)
				}
				x.addSlab(fill, top+last, top+h, end)
			}
			last = h
		}
	}
	return x.flush(fill, y, end)
}

func (x *coverer) tooLong(y int) string {
	return fmt.Sprintf("its shares of pixels, and those of the regions before it, take too long: more than %d steps, "+
		"of edges that share a row, or cross, at row %d", coverSteps, y)
}

// at is the column of an edge at height y.
func columnAt(e *driver.Edge, y int32) fixed {
	d := int64(e.Y1) - int64(e.Y0)
	q, r := floorDiv((int64(y)-int64(e.Y0))*(int64(e.X1)-int64(e.X0)), d)
	return fixed{int64(e.X0) + q, r, d}
}

// addSlab adds the areas between two heights.
func (x *coverer) addSlab(fill driver.FillRule, y0, y1 int32, end int) {
	x.looks -= len(x.live)
	x.slab = x.slab[:0]
	for _, i := range x.live {
		if e := &x.edges[i]; e.Y0 <= y0 && e.Y1 >= y1 {
			at := coverEdge{i, x.lines[i].top, x.lines[i].bottom} // unless others begin or end between
			if y0&(driver.Subpixel-1) != 0 && y0 != e.Y0 {
				at.top = columnAt(e, y0)
			}
			if y1&(driver.Subpixel-1) != 0 && y1 != e.Y1 {
				at.bottom = columnAt(e, y1)
			}
			x.slab = append(x.slab, at)
		}
	}
	s := x.slab
	byPlace := func(a, b coverEdge) int {
		if c := a.top.compare(b.top); c != 0 {
			return c
		}
		return a.bottom.compare(b.bottom)
	}
	if len(s) <= 12 {
		for i := 1; i < len(s); i++ {
			for k := i; k > 0 && byPlace(s[k], s[k-1]) < 0; k-- {
				s[k], s[k-1] = s[k-1], s[k]
			}
		}
	} else {
		slices.SortFunc(s, byPlace)
	}
	// Where edges change places between the heights, least[k] is the one of those from k on that ends farthest left.
	x.least = x.least[:0]
	for i := 1; i < len(s); i++ {
		if s[i].bottom.compare(s[i-1].bottom) < 0 {
			x.least = grow(x.least, len(s))
			for k := len(s) - 1; k >= 0; k-- {
				x.least[k] = int32(k)
				if k+1 < len(s) && s[x.least[k+1]].bottom.compare(s[k].bottom) < 0 {
					x.least[k] = x.least[k+1]
				}
			}
			break
		}
	}
	var winding int32
	for i := 0; i < len(s); {
		before := fill.Inside(winding)
		winding += x.signs[s[i].i]
		n := i + 1
		for right := s[i].bottom; len(x.least) > 0 && n < len(s) && s[x.least[n]].bottom.compare(right) < 0; n++ {
			if s[n].bottom.compare(right) > 0 {
				right = s[n].bottom
			}
			winding += x.signs[s[n].i]
		}
		gain := int64(0)
		if after := fill.Inside(winding); after && !before {
			gain = 1
		} else if before && !after {
			gain = -1
		}
		if n > i+1 {
			x.crossed(s[i:n], gain*int64(y1-y0), end)
		} else if gain != 0 {
			x.add(&s[i], gain, y0, y1, end)
		}
		i = n
	}
}

// crossed leaves the pixels among edges that cross to exactly, and adds what lies behind them.
func (x *coverer) crossed(edges []coverEdge, gain int64, end int) {
	from, to := edges[0].top.q, edges[0].top.q
	for i := range edges {
		e := &edges[i]
		from, to = min(from, e.top.q, e.bottom.q), max(to, e.top.q, e.bottom.q)
	}
	lo, hi := max(int(from>>driver.SubpixelBits), x.base), min(int(to>>driver.SubpixelBits), end-1)
	if lo <= hi {
		x.touched = append(x.touched, span32{int32(lo), int32(hi)})
		for j := lo; j <= hi; j++ {
			x.inexact[j-x.base] = -1
		}
	}
	if lo < end {
		x.cover[max(hi+1, x.base)-x.base] += gain << coverHeight
	}
}

// add adds the area right of an edge between two heights, or takes it away.
func (x *coverer) add(s *coverEdge, gain int64, y0, y1 int32, end int) {
	left, right := &s.top, &s.bottom
	if right.compare(*left) < 0 {
		left, right = right, left
	}
	j0, j1 := int(left.q>>driver.SubpixelBits), int(right.q>>driver.SubpixelBits)
	dy := int64(y1 - y0)
	switch {
	case j0 >= end:
		return
	case j1 < x.base:
		x.cover[0] += gain * dy << coverHeight
		return
	}
	if j0 == j1 {
		// The mean of both columns; the fractions are below 2^8 * 2^32 together.
		whole := dy * (2*driver.Subpixel*int64(j0+1) - left.q - right.q) << (coverFraction - 1)
		rest := uint64(dy*(left.r+right.r)) << (coverFraction - 1)
		at := j0 - x.base
		x.area[at] += gain * (whole - int64(rest/uint64(left.den)))
		x.cover[at+1] += gain * dy << coverHeight
		if x.inexact[at] >= 0 && rest%uint64(left.den) != 0 {
			x.inexact[at]++
		}
		x.touched = append(x.touched, span32{int32(j0), int32(j0)})
		return
	}
	e := &x.edges[s.i]
	d, dx := int64(e.Y1)-int64(e.Y0), int64(e.X1)-int64(e.X0)
	// height is that of the edge where it meets the left side of column k, from its end on the left.
	height := func(k int) (h int64, exact bool) {
		along := int64(k)<<driver.SubpixelBits - int64(e.X0)
		over := dx
		if dx < 0 {
			along, over = -along, -dx
		}
		q, r := floorDiv(along*d, over)
		part := uint64(r) << coverHeight
		fraction := int64(part / uint64(over))
		exact = part%uint64(over) == 0
		if dx > 0 {
			return (int64(e.Y0)+q-int64(y0))<<coverHeight + fraction, exact
		}
		return (int64(y1)-int64(e.Y0)-q)<<coverHeight - fraction, exact
	}
	width := func(of int64, f *fixed) (w uint64, exact bool) {
		part := uint64(f.r) << coverHeight
		return uint64(of-f.q)<<coverHeight - part/uint64(f.den), part%uint64(f.den) == 0
	}
	h, exactBefore := int64(0), true
	j := j0
	if j < x.base {
		j = x.base
		h, exactBefore = height(j)
		x.cover[0] += gain * h
	}
	last := min(j1, end-1)
	x.touched = append(x.touched, span32{int32(j), int32(last)})
	for ; j <= last; j++ {
		below, exact := dy<<coverHeight, true
		if j < j1 {
			below, exact = height(j + 1)
		}
		var area int64
		dh, ok := uint64(below-h), exact && exactBefore
		if j != j0 && j != j1 {
			area = int64(dh >> 1)
			ok = ok && dh&1 == 0
		} else {
			of, f := driver.Subpixel*int64(j+1), left
			if j == j1 {
				of, f = driver.Subpixel*int64(j+2), right
			}
			w, exactly := width(of, f)
			const cut = 2*coverHeight + 1 - coverFraction
			hi, lo := bits.Mul64(dh, w)
			area = int64(hi<<(64-cut) | lo>>cut)
			ok = ok && exactly && lo&(1<<cut-1) == 0
		}
		at := j - x.base
		x.area[at] += gain * area
		x.cover[at+1] += gain * int64(dh)
		if !ok && x.inexact[at] >= 0 {
			x.inexact[at]++
		}
		h, exactBefore = below, exact
	}
}

// flush makes pixels of the sums of row y, and clears them.
func (x *coverer) flush(fill driver.FillRule, y, end int) string {
	x.turns = x.turns[:0]
	yc := centre(y)
	for _, i := range x.live {
		if e := x.edges[i]; int64(e.Y0) <= yc && yc < int64(e.Y1) {
			x.turns = append(x.turns, turn{crossing(e, y), x.signs[i]})
		}
	}
	sortTurns(x.turns)
	turns, winding := x.turns, int32(0)
	if len(x.touched) > 1 {
		slices.SortFunc(x.touched, func(a, b span32) int { return int(a.from) - int(b.from) })
	}
	sum := x.cover[0] // of what lies left of all
	x.cover[0] = 0
	j := x.base
	for _, t := range x.touched {
		if j <= int(t.from) && j > x.base {
			sum += x.cover[j-x.base] // behind the pixels before
			x.cover[j-x.base] = 0
		}
		for j = max(j, int(t.from)); j <= int(t.to); j++ {
			at := j - x.base
			sum += x.cover[at]
			x.cover[at] = 0
			weight, ok := rounded(sum+x.area[at], x.inexact[at])
			x.area[at], x.inexact[at] = 0, 0
			if !ok {
				if weight, ok = x.exactly(fill, j, y); !ok {
					return x.tooLong(y)
				}
			}
			for ; len(turns) > 0 && turns[0].p <= j; turns = turns[1:] {
				winding -= turns[0].sign
			}
			if fill.Inside(winding) {
				weight -= 1 << driver.WeightBits
			}
			if weight == 0 {
				continue
			}
			if len(x.out) == maxCoverPixels {
				return fmt.Sprintf("its boundary and those of the regions before it cross more than %d pixels",
					maxCoverPixels)
			}
			x.out = append(x.out, driver.NewWeightedPixel(j, y, int32(weight)))
		}
	}
	x.cover[j-x.base] = 0
	x.touched = x.touched[:0]
	return ""
}

// rounded is a sum of areas without its fraction; false where it is not known well enough.
func rounded(sum int64, inexact int32) (weight int64, ok bool) {
	const half = 1 << (coverFraction - 1)
	weight, rest := sum>>coverFraction, sum&(2*half-1)
	switch {
	case inexact < 0:
		return 0, false
	case inexact > 0:
		if far := int64(inexact) * coverError; rest >= half-far && rest <= half+far {
			return 0, false
		}
	case rest == half:
		return weight + weight&1, true
	}
	return weight + rest>>(coverFraction-1), true
}

// Steps for a comparison of fractions, and for one more height in a pixel.
const (
	coverFractionSteps = 64
	coverHeightSteps   = 1024
)

// exactly is the share of pixel (j, y), from the definition, in fractions: between the heights at which anything
// begins, ends or crosses within the pixel, what lies inside is as wide as half way between on average. It is false
// where that takes too long.
func (x *coverer) exactly(fill driver.FillRule, j, y int) (weight int64, ok bool) {
	l, t := int64(j)<<driver.SubpixelBits, int64(y)<<driver.SubpixelBits
	r, b := l+driver.Subpixel, t+driver.Subpixel
	type line struct {
		slope, x0, y0 *big.Rat
		e             *driver.Edge
		sign          int32
		within        bool // the pixel, in part
	}
	var lines []line
	within := 0
	heights := []*big.Rat{big.NewRat(t, 1), big.NewRat(b, 1)}
	spend := func(n int64) bool {
		x.steps -= n
		x.looks -= int(n / 8)
		return x.steps >= 0 && !x.done()
	}
	cut := func(h *big.Rat) bool {
		if h.Cmp(heights[0]) > 0 && h.Cmp(heights[1]) < 0 {
			heights = append(heights, h)
			return spend(coverHeightSteps)
		}
		return true
	}
	for _, i := range x.live {
		e := &x.edges[i]
		top, bottom := columnAt(e, max(e.Y0, int32(t))), columnAt(e, min(e.Y1, int32(b)))
		if top.q >= r && bottom.q >= r {
			continue
		}
		at := line{slope: big.NewRat(int64(e.X1)-int64(e.X0), int64(e.Y1)-int64(e.Y0)), x0: big.NewRat(int64(e.X0), 1),
			y0: big.NewRat(int64(e.Y0), 1), e: e, sign: x.signs[i], within: top.q >= l || bottom.q >= l}
		if at.within {
			within++
		}
		lines = append(lines, at)
		if !cut(big.NewRat(int64(e.Y0), 1)) || !cut(big.NewRat(int64(e.Y1), 1)) {
			return 0, false
		}
	}
	for i := range lines {
		a := &lines[i]
		if !a.within {
			continue
		}
		if a.slope.Sign() != 0 {
			for _, side := range []int64{l, r} {
				h := new(big.Rat).Sub(big.NewRat(side, 1), a.x0)
				if !cut(h.Add(h.Quo(h, a.slope), a.y0)) {
					return 0, false
				}
			}
		}
		for k := range lines[:i] {
			c := &lines[k]
			if !c.within || a.slope.Cmp(c.slope) == 0 {
				continue
			}
			// a.x0 + (h - a.y0) a.slope = c.x0 + (h - c.y0) c.slope
			h := new(big.Rat).Sub(c.x0, a.x0)
			h.Add(h, new(big.Rat).Mul(a.y0, a.slope))
			h.Sub(h, new(big.Rat).Mul(c.y0, c.slope))
			if !spend(coverFractionSteps) || !cut(h.Quo(h, new(big.Rat).Sub(a.slope, c.slope))) {
				return 0, false
			}
		}
	}
	slices.SortFunc(heights, (*big.Rat).Cmp)
	area, left, right := new(big.Rat), big.NewRat(l, 1), big.NewRat(r, 1)
	type place struct {
		x    *big.Rat
		sign int32
	}
	for i, end := range heights[1:] {
		begin := heights[i]
		if begin.Cmp(end) == 0 {
			continue
		}
		if !spend(coverFractionSteps * int64(len(lines)+1)) {
			return 0, false
		}
		mid := new(big.Rat).Add(begin, end)
		mid.Quo(mid, big.NewRat(2, 1))
		var winding int32
		places := make([]place, 0, within)
		for k := range lines {
			a := &lines[k]
			if mid.Cmp(a.y0) < 0 || mid.Cmp(big.NewRat(int64(a.e.Y1), 1)) > 0 {
				continue
			}
			if !a.within {
				winding += a.sign
				continue
			}
			at := new(big.Rat).Sub(mid, a.y0)
			at.Add(at.Mul(at, a.slope), a.x0)
			if at.Cmp(left) <= 0 {
				winding += a.sign
			} else if at.Cmp(right) < 0 {
				places = append(places, place{at, a.sign})
			}
		}
		slices.SortFunc(places, func(a, b place) int { return a.x.Cmp(b.x) })
		wide, from := new(big.Rat), left
		for _, p := range append(places, place{right, 0}) {
			if fill.Inside(winding) {
				wide.Add(wide, new(big.Rat).Sub(p.x, from))
			}
			from, winding = p.x, winding+p.sign
		}
		area.Add(area, wide.Mul(wide, new(big.Rat).Sub(end, begin)))
	}
	return wholeNear(area), true
}

// wholeNear is the integer nearest to a fraction that is not negative, the even one of two.
func wholeNear(v *big.Rat) int64 {
	twice := new(big.Int).Lsh(v.Num(), 1)
	twice.Add(twice, v.Denom())
	q, r := twice.QuoRem(twice, new(big.Int).Lsh(v.Denom(), 1), new(big.Int))
	n := q.Int64()
	if r.Sign() == 0 {
		n &^= 1
	}
	return n
}

// allOf are the numbers of a set's regions, in order.
func allOf(s *Set) []int {
	order := make([]int, s.Len())
	for i := range order {
		order[i] = i
	}
	return order
}

// of are the pixels of region k.
func (c *coverage) of(k int) []driver.WeightedPixel { return c.pixels[c.starts[k]:c.starts[k+1]] }

// inOrder is the coverage with its regions in another order.
func (c *coverage) inOrder(order []scanRegion) coverage {
	out := coverage{make([]driver.WeightedPixel, 0, len(c.pixels)), []uint32{0}}
	for _, r := range order {
		out.pixels = append(out.pixels, c.of(r.index)...)
		out.starts = append(out.starts, uint32(len(out.pixels)))
	}
	return out
}
