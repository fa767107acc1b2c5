// Black box multigrid for diffusion without barriers: coarse operators of nine points by Galerkin's rule, interpolation
// made of the operators themselves (Dendy, Black box multigrid, Journal of Computational Physics 48, 1982).

package cpu

import (
	"iter"
	"math"
	"sync"

	"github.com/polyscan/polyscan/kernels/driver"
)

// boxSmooth is how many sweeps of a coarse level go before the correction by the level below it, as many as there are
// after.
const boxSmooth = 2

// boxCoarsest is how long the sides of the coarsest level are at most. It is solved by the inverse of its operator.
const boxCoarsest = 8

// boxLevel is a coarse level. Points have a border of one all around, where everything is 0; point (x, y) is at
// (y+1)*stride + x+1.
//
// Its operator is sum over neighbours of coupling*(own value - theirs) + sink*(own value). A coupling is kept at the
// one of its two points from which it leads right or down.
type boxLevel struct {
	w, h, stride int
	e, s, se, sw []float32
	sink         []float32
	inv          []float32 // 1/(sum of couplings + sink); 0 where there is no equation
	// what is added to the point right of that with the same index as this one, from it and the next
	h0, h1         []float32
	v0, v1         []float32 // and to the point below
	c0, c1, c2, c3 []float32 // and to the one diagonally below
	x, b           [][]float32
}

func (l *boxLevel) points() int { return l.stride * (l.h + 2) }

func (l *boxLevel) operator() []*[]float32 {
	return []*[]float32{&l.e, &l.s, &l.se, &l.sw, &l.sink, &l.inv, &l.h0, &l.h1, &l.v0, &l.v1, &l.c0, &l.c1, &l.c2,
		&l.c3}
}

// box is the solver's levels. The finest is the image itself, without a border, and has no more of an operator than
// inv.
//
// Between cycles the image is the result of a relaxation of the pixels of colour 1 of a chequerboard. A cycle is a
// correction by the levels and five more such half sweeps: the first of them forgets what the pixels of colour 1 were
// before.
type box struct {
	dev     *device
	stop    *stopFlag
	w, h    int
	inv     []float32 // 1/neighbours; 0 where there is no equation
	levels  []boxLevel
	inverse []float32 // of the last level's operator; points are in row-major order
	head    *solveHeader
	state   boxState
}

// boxStep is how many times its correction the cycle after so many goes. The parts of an error that a correction by
// itself would leave are 0 to 0.25 of it (measured on scenes of devicetest; in narrow images more), none of them
// negative, as a cycle is symmetric: pixels of colour 1 are relaxed first and last, and levels in one order down and in
// the other up. So the first three steps are those of Chebyshev, the inverses of 1 less the zeros of his polynomial of
// degree 3 on that interval, by which three cycles leave 1/1351 of the error instead of 1/64; then it is the one for
// the middle of the interval. What a correction leaves more of shrinks faster by any of these.
func boxStep(cycles uint32) float32 {
	switch cycles {
	case 0:
		return 1.0170321
	case 2:
		return 1.3042116
	}
	return 1.1428571
}

// boxSides yields the sides of the levels of an image: half those of the one before, until 8x8 points or fewer are
// left. Images as small as that have one level, and those of up to 2x2 pixels none.
func boxSides(w, h int) iter.Seq2[int, int] {
	return func(yield func(w, h int) bool) {
		for last := max(w, h) <= 2; !last; last = max(w, h) <= boxCoarsest {
			w, h = (w+1)/2, (h+1)/2
			if !yield(w, h) {
				return
			}
		}
	}
}

func layBox(a *arena, w, h int) *box {
	b := &box{w: w, h: h, inv: a.floats(w * h)}
	for w, h := range boxSides(w, h) {
		l := boxLevel{w: w, h: h, stride: w + 2}
		for _, p := range l.operator() {
			*p = a.floats(l.points())
		}
		b.levels = append(b.levels, l)
	}
	if n := len(b.levels); n > 0 {
		points := b.levels[n-1].w * b.levels[n-1].h
		b.inverse = a.floats(points * points)
	}
	return b
}

// boxState is what a solve keeps.
type boxState struct {
	old    []float32 // the image before the cycle
	rows   []float32 // a number for each row
	levels []float32 // the levels' vectors
}

func layBoxState(a *arena, w, h, channels int) (s boxState) {
	s.old, s.rows = a.floats(w*h*channels), a.floats(h)
	n := 0
	for w, h := range boxSides(w, h) {
		n += 2 * channels * (w + 2) * (h + 2)
	}
	s.levels = a.floats(n)
	return s
}

// open makes the levels of a set-up usable, with memory for their vectors.
func (b *box) open(s boxState, channels int) {
	b.state = s
	v := s.levels
	for k := range b.levels {
		l := &b.levels[k]
		n := l.points()
		for range channels {
			l.x = append(l.x, v[:n:n])
			l.b = append(l.b, v[n:2*n:2*n])
			v = v[2*n:]
		}
	}
}

func (b *box) bands(rows, ns int, f func(from, to int)) error {
	return b.dev.bands("Diffusion", rows, ns, b.stop, f)
}

// boxRow is a row of an operator. Point x is at x+1, and there are points before the first and two behind the last.
type boxRow struct{ e, s, se, sw, sink []float32 }

// rowMemory is what bands of rows work in, a *[]float32 each. A band takes some 30 us: with memory of its own each
// time, BenchmarkFillHoles of package server allocated 700 MB a call and took 1.4 times as long.
var rowMemory sync.Pool

// borrowRows returns n numbers of any value, for rowMemory to take back.
func borrowRows(n int) *[]float32 {
	if p, ok := rowMemory.Get().(*[]float32); ok && cap(*p) >= n {
		*p = (*p)[:n]
		return p
	}
	v := make([]float32, n)
	return &v
}

// finest fills in points from to before to, from -1 to w+3, of row y of the operator of the image; it is 0 outside.
func (r *boxRow) finest(flags []byte, w, h, y, from, to int) {
	first, last := max(from, 0), min(to, w)
	for _, v := range []([]float32){r.e, r.s, r.sink} {
		if y < 0 || y >= h {
			clear(v[from+1 : to+1])
			continue
		}
		clear(v[from+1 : first+1])
		clear(v[last+1 : to+1])
	}
	if y < 0 || y >= h {
		return
	}
	row := flags[y*w:][:w]
	up, down := row, row // where there is none, no neighbour and no sink
	if y > 0 {
		up = flags[(y-1)*w:][:w]
	}
	if y+1 < h {
		down = flags[(y+1)*w:][:w]
	}
	for x := first; x < last; x++ {
		f := row[x]
		e, s, sink := byte(0), byte(0), byte(0)
		if f == 0 {
			if x+1 < w {
				e = 1 - row[x+1]
				sink += row[x+1]
			}
			if x > 0 {
				sink += row[x-1]
			}
			if y+1 < h {
				s = 1 - down[x]
			}
			sink += down[x] + up[x]
		}
		r.e[x+1], r.s[x+1], r.sink[x+1] = float32(e), float32(s), float32(sink)
	}
}

// row is row y of a level, from -1 to its height.
func (l *boxLevel) row(y int) boxRow {
	at := (y + 1) * l.stride
	return boxRow{l.e[at:], l.s[at:], l.se[at:], l.sw[at:], l.sink[at:]}
}

// boxRun is points x0 to before x1 of row y.
type boxRun struct{ y, x0, x1 int }

// fineRows yields the operator's rows 2Y-1, 2Y and 2Y+1 for the rows Y of a level, in order, as far as points from x0
// to before x1 need them.
func (b *box) fineRows(level int, flags []byte, from, to, x0, x1 int, f func(at boxRun, up, row, down *boxRow)) {
	if level == 0 {
		first, last := max(2*x0-2, -1), min(2*x1+2, b.w+3)
		n := b.w + 4
		memory := borrowRows(10 * n)
		defer rowMemory.Put(memory)
		v := *memory
		cut := func() []float32 { r := v[:n:n]; v = v[n:]; return r }
		zeros := cut()
		clear(zeros)
		var r [3]boxRow
		for i := range r {
			r[i] = boxRow{cut(), cut(), zeros, zeros, cut()}
		}
		r[0].finest(flags, b.w, b.h, 2*from-1, first, last)
		for y := from; y < to; y++ {
			r[1].finest(flags, b.w, b.h, 2*y, first, last)
			r[2].finest(flags, b.w, b.h, 2*y+1, first, last)
			f(boxRun{y, x0, x1}, &r[0], &r[1], &r[2])
			r[0], r[2] = r[2], r[0]
		}
		return
	}
	l := &b.levels[level-1]
	memory := borrowRows(l.w + 4)
	defer rowMemory.Put(memory)
	zeros := *memory
	clear(zeros)
	none := boxRow{zeros, zeros, zeros, zeros, zeros}
	row := func(y int) *boxRow {
		if y < 0 || y >= l.h {
			return &none
		}
		// A row is followed by the border of the next, so that there are two zeros behind the last point.
		r := l.row(y)
		return &r
	}
	for y := from; y < to; y++ {
		f(boxRun{y, x0, x1}, row(2*y-1), row(2*y), row(2*y+1))
	}
}

// setUp computes all levels. flags are 0 or driver.DiffusionFixed, void whether there is nothing to solve.
func (b *box) setUp(flags []byte, void bool) error {
	err := b.bands(b.h, b.w, func(y0, y1 int) {
		for y := y0; y < y1; y++ {
			row := b.inv[y*b.w:][:b.w]
			for x, f := range flags[y*b.w:][:b.w] {
				if row[x] = 0; f&driver.DiffusionFixed == 0 && !void {
					row[x] = b.invFinest(x, y)
				}
			}
		}
	})
	if err != nil {
		return err
	}
	return b.setUpLevels(0, flags)
}

// invFinest is inv of a pixel that has an equation.
func (b *box) invFinest(x, y int) float32 {
	n := min(x, 1) + min(b.w-1-x, 1) + min(y, 1) + min(b.h-1-y, 1)
	if n == 0 {
		return 0
	}
	return 1 / float32(n)
}

// setUpLevels computes the levels from one on.
func (b *box) setUpLevels(first int, flags []byte) error {
	for k := first; k < len(b.levels); k++ {
		l := &b.levels[k]
		l.clearBorder()
		ns := 40 * l.w
		if err := b.bands(l.h, ns, func(from, to int) {
			b.fineRows(k, flags, from, to, 0, l.w, l.interpolateEdges)
		}); err != nil {
			return err
		}
		if err := b.bands(l.h, ns, func(from, to int) {
			b.fineRows(k, flags, from, to, 0, l.w, l.interpolateCentres)
		}); err != nil {
			return err
		}
		if err := b.bands(l.h, 3*ns, func(from, to int) {
			for y := from; y < to; y++ {
				at := (y + 1) * l.stride
				for _, p := range []([]float32){l.e, l.s, l.se, l.sw, l.sink} {
					clear(p[at:][:l.stride])
				}
			}
			// Each point of the level gets something from the rows above and below it. The first of these another band
			// has, too.
			memory, spare := l.spareRow()
			defer rowMemory.Put(memory)
			b.fineRows(k, flags, max(from-1, 0), to, 0, l.w, func(at boxRun, up, row, down *boxRow) {
				upper, lower := spare, spare
				if at.y >= from {
					upper = l.row(at.y)
				}
				if at.y+1 < to {
					lower = l.row(at.y + 1)
				}
				l.galerkin(at, up, row, down, upper, lower)
			})
		}); err != nil {
			return err
		}
		if err := b.bands(l.h, 10*l.w, func(from, to int) {
			for y := from; y < to; y++ {
				l.invert(boxRun{y, 0, l.w})
			}
		}); err != nil {
			return err
		}
	}
	if n := len(b.levels); n > 0 {
		b.levels[n-1].invertWhole(b.inverse)
	}
	return nil
}

// spareRow is a row that is 0, for rowMemory to take back.
func (l *boxLevel) spareRow() (*[]float32, boxRow) {
	n := l.w + 4
	memory := borrowRows(5 * n)
	v := *memory
	clear(v)
	return memory, boxRow{v[:n], v[n:][:n], v[2*n:][:n], v[3*n:][:n], v[4*n:]}
}

// clearBorder sets what surrounds the level to 0.
func (l *boxLevel) clearBorder() {
	for _, p := range l.operator() {
		v := *p
		clear(v[:l.stride])
		clear(v[l.stride*(l.h+1):])
		for y := 1; y <= l.h; y++ {
			v[y*l.stride], v[y*l.stride+l.w+1] = 0, 0
		}
	}
}

// interpolateEdges computes what points between two coarse ones get of them: the equation at the point, with what lies
// across taken for as large as the point, and what lies beside a coarse point for as large as that.
func (l *boxLevel) interpolateEdges(of boxRun, up, row, down *boxRow) {
	at := (of.y + 1) * l.stride
	h0, h1, v0, v1 := l.h0[at:][:l.w+2], l.h1[at:][:l.w+2], l.v0[at:][:l.w+2], l.v1[at:][:l.w+2]
	for x := of.x0; x < of.x1; x++ {
		k := 2*x + 2 // of the point at the right
		west := row.e[k-1] + up.se[k-1] + row.sw[k]
		east := row.e[k] + up.sw[k+1] + row.se[k]
		h0[x+1], h1[x+1] = 0, 0
		if all := west + east + row.sink[k]; all > deadPoint {
			h0[x+1], h1[x+1] = west/all, east/all
		}
		k = 2*x + 1 // of the point below
		north := row.s[k] + row.se[k-1] + row.sw[k+1]
		south := down.s[k] + down.sw[k] + down.se[k]
		v0[x+1], v1[x+1] = 0, 0
		if all := north + south + down.sink[k]; all > deadPoint {
			v0[x+1], v1[x+1] = north/all, south/all
		}
	}
}

// deadPoint is the largest sum of couplings that is none. It is as large as what rounding leaves of couplings of about
// 1.
const deadPoint = 1e-6

// interpolateCentres computes what points between four coarse ones get of them: the equation at the point, with the
// points between two as they were interpolated.
func (l *boxLevel) interpolateCentres(of boxRun, _, row, down *boxRow) {
	at := (of.y + 1) * l.stride
	below := at + l.stride
	for x := of.x0; x < of.x1; x++ {
		i, j := at+x+1, below+x+1
		k := 2*x + 2
		nw, n, ne := row.se[k-1], row.s[k], row.sw[k+1]
		w, e := down.e[k-1], down.e[k]
		sw, s, se := down.sw[k], down.s[k], down.se[k]
		all := nw + n + ne + w + e + sw + s + se + down.sink[k]
		if all <= deadPoint {
			l.c0[i], l.c1[i], l.c2[i], l.c3[i] = 0, 0, 0, 0
			continue
		}
		inv := 1 / all
		l.c0[i] = inv * (nw + n*l.h0[i] + w*l.v0[i])
		l.c1[i] = inv * (ne + n*l.h1[i] + e*l.v0[i+1])
		l.c2[i] = inv * (sw + s*l.h0[j] + w*l.v1[i])
		l.c3[i] = inv * (se + s*l.h1[j] + e*l.v1[i+1])
	}
}

// galerkin adds what the points of rows 2y and 2y+1 contribute to the coarse operator's rows y and y+1: to points x0 to
// x1 of each, as far as cells of the run do. The sinks are
// summed as differences from 1, of which little is lost by rounding where there are few constraints.
func (l *boxLevel) galerkin(of boxRun, up, row, down *boxRow, upper, lower boxRow) {
	st := l.stride
	for x := of.x0; x < of.x1; x++ {
		i := (of.y+1)*st + x + 1
		h0, h1, v0, v1 := l.h0[i], l.h1[i], l.v0[i], l.v1[i]
		c0, c1, c2, c3 := l.c0[i], l.c1[i], l.c2[i], l.c3[i]
		// The points around: nw of the cell's first point, and so on clockwise.
		uNW := l.c0[i-st-1] + l.c1[i-st-1] + l.c2[i-st-1] + l.c3[i-st-1]
		uN := l.v0[i-st] + l.v1[i-st]
		uNE := l.c0[i-st] + l.c1[i-st] + l.c2[i-st] + l.c3[i-st]
		uN2 := l.v0[i-st+1] + l.v1[i-st+1]
		uW := l.h0[i-1] + l.h1[i-1]
		uSW := l.c0[i-1] + l.c1[i-1] + l.c2[i-1] + l.c3[i-1]
		uE2 := l.v0[i+1] + l.v1[i+1] // right of the centre
		uS2 := l.h0[i+st] + l.h1[i+st]
		uSW2 := l.h0[i+st-1] + l.h1[i+st-1]
		uH, uV, uC := h0+h1, v0+v1, c0+c1+c2+c3
		k := 2*x + 1

		// The coarse point itself.
		e, w, s, n := row.e[k], row.e[k-1], row.s[k], up.s[k]
		se, sw, ne, nw := row.se[k], row.sw[k], up.sw[k+1], up.se[k-1]
		upper.e[x+1] += e*h1 + se*c1 + ne*l.c3[i-st]
		upper.s[x+1] += s*v1 + se*c2 + sw*l.c3[i-1]
		upper.se[x+1] += se * c3
		upper.sw[x+1] += sw * l.c2[i-1]
		upper.sink[x+1] += row.sink[k] + e*(1-uH) + w*(1-uW) + s*(1-uV) + n*(1-uN) + se*(1-uC) + sw*(1-uSW) +
			ne*(1-uNE) + nw*(1-uNW)

		// The point at its right.
		k++
		e, w, s, n = row.e[k], row.e[k-1], row.s[k], up.s[k]
		se, sw, ne, nw = row.se[k], row.sw[k], up.sw[k+1], up.se[k-1]
		d := e + w + s + n + se + sw + ne + nw + row.sink[k]
		tR := e - d*h1 + n*l.c3[i-st] + s*c1 + ne*l.v1[i-st+1] + se*l.v0[i+1]
		t01 := s*c2 + sw*v1
		t11 := s*c3 + se*l.v1[i+1]
		v := row.sink[k]*uH + (e+w)*(uH-1) + s*(uH-uC) + n*(uH-uNE) + se*(uH-uE2) + sw*(uH-uV) + ne*(uH-uN2) +
			nw*(uH-uN)
		upper.e[x+1] += h0 * tR
		upper.s[x+1] += h0 * t01
		upper.se[x+1] += h0 * t11
		upper.sink[x+1] += h0 * v
		upper.s[x+2] += h1 * t11
		upper.sw[x+2] += h1 * t01
		upper.sink[x+2] += h1 * v

		// The centre.
		e, w, s, n = down.e[k], down.e[k-1], down.s[k], row.s[k]
		se, sw, ne, nw = down.se[k], down.sw[k], row.sw[k+1], row.se[k-1]
		d = e + w + s + n + se + sw + ne + nw + down.sink[k]
		t10 := ne - d*c1 + n*h1 + e*l.v0[i+1]
		t01 = sw - d*c2 + w*v1 + s*l.h0[i+st]
		t11 = se - d*c3 + e*l.v1[i+1] + s*l.h1[i+st]
		v = down.sink[k]*uC + (se+sw+ne+nw)*(uC-1) + e*(uC-uE2) + w*(uC-uV) + n*(uC-uH) + s*(uC-uS2)
		upper.e[x+1] += c0 * t10
		upper.s[x+1] += c0 * t01
		upper.se[x+1] += c0 * t11
		upper.sink[x+1] += c0 * v
		upper.s[x+2] += c1 * t11
		upper.sw[x+2] += c1 * t01
		upper.sink[x+2] += c1 * v
		lower.e[x+1] += c2 * t11
		lower.sink[x+1] += c2 * v
		lower.sink[x+2] += c3 * v

		// The point below.
		k--
		e, w, s, n = down.e[k], down.e[k-1], down.s[k], row.s[k]
		se, sw, ne, nw = down.se[k], down.sw[k], row.sw[k+1], row.se[k-1]
		d = e + w + s + n + se + sw + ne + nw + down.sink[k]
		t10 = e*c1 + ne*h1
		tD := s - d*v1 + e*c2 + w*l.c3[i-1] + se*l.h0[i+st] + sw*l.h1[i+st-1]
		t11 = e*c3 + se*l.h1[i+st]
		tL := w*l.c2[i-1] + sw*l.h0[i+st-1]
		v = down.sink[k]*uV + (s+n)*(uV-1) + e*(uV-uC) + w*(uV-uSW) + se*(uV-uS2) + sw*(uV-uSW2) + ne*(uV-uH) +
			nw*(uV-uW)
		upper.e[x+1] += v0 * t10
		upper.s[x+1] += v0 * tD
		upper.se[x+1] += v0 * t11
		upper.sw[x+1] += v0 * tL
		upper.sink[x+1] += v0 * v
		lower.e[x+1] += v1 * t11
		lower.sink[x+1] += v1 * v
	}
}

// invert computes inv.
func (l *boxLevel) invert(of boxRun) {
	at := (of.y+1)*l.stride + 1
	for i := at + of.x0; i < at+of.x1; i++ {
		up := i - l.stride
		d := l.e[i] + l.e[i-1] + l.s[i] + l.s[up] + l.se[i] + l.se[up-1] + l.sw[i] + l.sw[up+1] + l.sink[i]
		l.inv[i] = 0
		if d > deadPoint {
			l.inv[i] = 1 / d
		}
	}
}

// invertWhole computes the inverse of the operator, by Gauss and Jordan without pivots: it is symmetric and positive
// definite. Rows of points without an equation are 0 but for a 1 of their own.
func (l *boxLevel) invertWhole(m []float32) {
	n := l.w * l.h
	clear(m)
	for p := range n {
		i := (p/l.w+1)*l.stride + p%l.w + 1
		if l.inv[i] == 0 {
			m[p*n+p] = 1
			continue
		}
		m[p*n+p] = 1 / l.inv[i]
		for _, next := range [...]struct {
			to, at int // of the neighbour, among all and among those of the level
			by     float32
		}{{p + 1, i + 1, l.e[i]}, {p + l.w, i + l.stride, l.s[i]}, {p + l.w + 1, i + l.stride + 1, l.se[i]},
			{p + l.w - 1, i + l.stride - 1, l.sw[i]}} {
			if l.inv[next.at] != 0 { // which it has beyond the border
				m[p*n+next.to], m[next.to*n+p] = -next.by, -next.by
			}
		}
	}
	for k := range n {
		pivot := m[k*n:][:n]
		inv := 1 / pivot[k]
		pivot[k] = 1
		for i := range pivot {
			pivot[i] *= inv
		}
		for p := range n {
			row := m[p*n:][:n]
			if f := row[k]; p != k && f != 0 {
				row[k] = 0
				for i, v := range pivot {
					row[i] -= f * v
				}
			}
		}
	}
}

func (b *box) begin(x []float32) error { return b.sweep(x, 1, 0, 1) }

// cycle is one V-cycle on the image, by a step. It returns by how much a pixel has changed at most. Pixels of colour 1
// are what their neighbours make them before and behind the cycle, and so they are after the step, too.
func (b *box) cycle(x []float32) (float32, error) {
	if err := b.bands(len(x)/b.w, b.w/4, func(y0, y1 int) {
		copy(b.state.old[y0*b.w:y1*b.w], x[y0*b.w:y1*b.w])
	}); err != nil {
		return 0, err
	}
	if err := b.correct(x); err != nil {
		return 0, err
	}
	n := b.w * b.h
	step := boxStep(b.head.Cycles)
	err := b.bands(b.h, len(x)/b.h, func(y0, y1 int) {
		for y := y0; y < y1; y++ {
			m := float32(0)
			for p := y * b.w; p < len(x); p += n {
				m = max(m, stepRow(x[p:][:b.w], b.state.old[p:][:b.w], step))
			}
			b.state.rows[y] = m
		}
	})
	return largest(b.state.rows), err
}

// stepRow goes from what a row was by some times what it changed, and returns the largest way.
func stepRow(row, was []float32, step float32) (most float32) {
	n := eights(len(row))
	if n > 0 {
		most = math.Float32frombits(stepAVX2(&row[0], &was[:n][0], n, step))
	}
	for i := n; i < len(row); i++ {
		d := step * (row[i] - was[i])
		row[i] = was[i] + d
		most = max(most, d, -d)
	}
	return most
}

// eights is how many of n numbers there are instructions for, those that make eight at a time.
func eights(n int) int {
	if simd < levelAVX2 {
		return 0
	}
	return max(n, 0) &^ 7
}

func (b *box) correct(x []float32) error {
	if len(b.levels) > 0 {
		if err := b.restrictFinest(x); err != nil {
			return err
		}
		if err := b.coarse(0); err != nil {
			return err
		}
		if err := b.prolong(x); err != nil {
			return err
		}
	}
	return b.sweep(x, 1, 0, 1, 0, 1)
}

// neighbours returns row y of a plane and the rows above and below. Where there is none it is the row itself, to which
// there is no difference.
func (b *box) neighbours(plane []float32, y int) (up, row, down []float32) {
	w := b.w
	row = plane[y*w:][:w]
	up, down = row, row
	if y > 0 {
		up = plane[(y-1)*w:][:w]
	}
	if y+1 < b.h {
		down = plane[(y+1)*w:][:w]
	}
	return up, row, down
}

// sweep relaxes the pixels of colours of a chequerboard, one after the other.
func (b *box) sweep(x []float32, colours ...int) error {
	n := b.w * b.h
	for _, colour := range colours {
		err := b.bands(b.h, len(x)/b.h, func(from, to int) {
			for y := from; y < to; y++ {
				inv := b.inv[y*b.w:][:b.w]
				for p := 0; p < len(x); p += n {
					up, row, down := b.neighbours(x[p:p+n], y)
					relaxFinest(row, up, down, inv, (y+colour)&1)
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// relaxFinest makes every second pixel, from first on, the mean of its neighbours. It sums differences: sums of values
// would stall far above the tolerance in float32.
func relaxFinest(x, up, down, inv []float32, first int) {
	n := len(x)
	up, down, inv = up[:n], down[:n], inv[:n]
	i := first
	if i == 0 {
		v := x[0]
		s := (up[0] - v) + (down[0] - v)
		if n > 1 {
			s += x[1] - v
		}
		x[0] = v + inv[0]*s
		i = 2
	}
	if m := eights(n - 2); m > 0 {
		relaxFinestAVX2(&x[1], &up[1], &down[1], &inv[1], m, i-1)
		i += m
	}
	for ; i < n-1; i += 2 {
		v := x[i]
		x[i] = v + inv[i]*(((x[i-1]-v)+(x[i+1]-v))+((up[i]-v)+(down[i]-v)))
	}
	if i == n-1 {
		v := x[i]
		x[i] = v + inv[i]*((x[i-1]-v)+((up[i]-v)+(down[i]-v)))
	}
}

// residualRow computes the residual of row y of a plane, 0 where there is no equation, and returns the largest.
func (b *box) residualRow(dst, plane []float32, y int) (most float32) {
	up, x, down := b.neighbours(plane, y)
	n := len(x)
	inv := b.inv[y*b.w:][:n]
	dst, up, down = dst[:n], up[:n], down[:n]
	m := eights(n - 2)
	if m > 0 {
		most = math.Float32frombits(residualFinestAVX2(&dst[1], &x[1], &up[1], &down[1], &inv[1], m))
	}
	for i := 0; i < n; i++ {
		if i == 1 {
			i += m
		}
		v := x[i]
		s := (up[i] - v) + (down[i] - v)
		if i > 0 {
			s += x[i-1] - v
		}
		if i+1 < n {
			s += x[i+1] - v
		}
		if inv[i] == 0 {
			s = 0
		}
		dst[i] = s
		most = max(most, s, -s)
	}
	return most
}

// residual is the largest one.
func (b *box) residual(x []float32) (float32, error) {
	n := b.w * b.h
	err := b.bands(b.h, 2*len(x)/b.h, func(from, to int) {
		memory := borrowRows(b.w)
		defer rowMemory.Put(memory)
		r := *memory
		for y := from; y < to; y++ {
			m := float32(0)
			for p := 0; p < len(x); p += n {
				m = max(m, b.residualRow(r, x[p:p+n], y))
			}
			b.state.rows[y] = m
		}
	})
	return largest(b.state.rows), err
}

// restrictFinest makes the right-hand side of the first coarse level of the residual of the image.
func (b *box) restrictFinest(x []float32) error {
	l := &b.levels[0]
	n := b.w * b.h
	return b.bands(l.h, 5*len(x)/b.h, func(from, to int) {
		b.restrictRows(l, from, to, len(x)/n, b.w, b.h,
			func(dst []float32, c, y int) { b.residualRow(dst, x[c*n:][:n], y) })
	})
}

// restrictRows computes rows of the right-hand side of a level from rows of residuals of the one above it.
func (b *box) restrictRows(l *boxLevel, from, to, channels, w, h int, residual func(dst []float32, c, y int)) {
	// Rows have a 0 before the first point, and two behind the last.
	memory := borrowRows(3 * (w + 3))
	defer rowMemory.Put(memory)
	v := *memory
	clear(v)
	up, row, down := v[:w+3], v[w+3:2*(w+3)], v[2*(w+3):]
	for c := range channels {
		get := func(dst []float32, y int) {
			if y < 0 || y >= h {
				clear(dst)
				return
			}
			residual(dst[1:w+1], c, y)
		}
		get(up, 2*from-1)
		for y := from; y < to; y++ {
			get(row, 2*y)
			get(down, 2*y+1)
			at := (y + 1) * l.stride
			above := at - l.stride
			rhs := l.b[c][at:][:l.stride]
			h0, h1 := l.h0[at:][:l.stride], l.h1[at:][:l.stride]
			v0, v1 := l.v0[at:][:l.stride], l.v1[above:][:l.stride]
			c0, c1 := l.c0[at:][:l.stride], l.c1[at:][:l.stride]
			c2, c3 := l.c2[above:][:l.stride], l.c3[above:][:l.stride]
			rhs[0], rhs[l.w+1] = 0, 0
			for i := 1; i <= l.w; i++ {
				k := 2*i - 1
				rhs[i] = row[k] + h0[i]*row[k+1] + h1[i-1]*row[k-1] +
					v0[i]*down[k] + v1[i]*up[k] +
					c0[i]*down[k+1] + c1[i-1]*down[k-1] + c2[i]*up[k+1] + c3[i-1]*up[k-1]
			}
			up, down = down, up
		}
	}
}

// coarse solves level k by a V-cycle from 0.
func (b *box) coarse(k int) error {
	l := &b.levels[k]
	for c := range l.x {
		clear(l.x[c])
	}
	if k == len(b.levels)-1 {
		n := l.w * l.h
		for c, x := range l.x {
			for p := range n {
				sum := float32(0)
				for i, v := range b.inverse[p*n:][:n] {
					sum += v * l.b[c][(i/l.w+1)*l.stride+i%l.w+1]
				}
				x[(p/l.w+1)*l.stride+p%l.w+1] = sum
			}
		}
		return nil
	}
	for range boxSmooth {
		if err := b.sweepCoarse(l, false); err != nil {
			return err
		}
	}
	g := &b.levels[k+1]
	err := b.bands(g.h, 30*g.w*len(l.x), func(from, to int) {
		b.restrictRows(g, from, to, len(l.x), l.w, l.h, l.residualRow)
	})
	if err != nil {
		return err
	}
	if err := b.coarse(k + 1); err != nil {
		return err
	}
	err = b.bands(g.h, 10*g.w*len(l.x), func(from, to int) {
		for c, x := range l.x {
			for y := from; y < to; y++ {
				at := (2*y + 1) * l.stride
				g.prolongRow(g.x[c], y, x[at+1:][:l.w], x[at+l.stride+1:][:l.w])
			}
		}
	})
	if err != nil {
		return err
	}
	for range boxSmooth {
		if err := b.sweepCoarse(l, true); err != nil {
			return err
		}
	}
	return nil
}

// sweepCoarse relaxes a level in four colours, the other way round where reverse is set.
func (b *box) sweepCoarse(l *boxLevel, reverse bool) error {
	for i := range 2 {
		parity := i
		if reverse {
			parity = 1 - i
		}
		// Rows of one parity are not coupled with each other.
		err := b.bands((l.h+1-parity)/2, 8*l.w*len(l.x), func(from, to int) {
			for j := from; j < to; j++ {
				for c := range l.x {
					if reverse {
						l.relaxRow(c, 2*j+parity, 2)
						l.relaxRow(c, 2*j+parity, 1)
					} else {
						l.relaxRow(c, 2*j+parity, 1)
						l.relaxRow(c, 2*j+parity, 2)
					}
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// relaxRow solves for every second point of row y, from that at index first on.
func (l *boxLevel) relaxRow(c, y, first int) {
	st, n := l.stride, l.w+2
	at := (y + 1) * st
	up := at - st
	x, xu, xd := l.x[c][at:][:n], l.x[c][up:][:n], l.x[c][at+st:][:n]
	b, inv := l.b[c][at:][:n], l.inv[at:][:n]
	e, s, se, sw := l.e[at:][:n], l.s[at:][:n], l.se[at:][:n], l.sw[at:][:n]
	su, seu, swu := l.s[up:][:n], l.se[up:][:n], l.sw[up:][:n]
	if m := eights(n - 2); m > 0 {
		relaxCoarseAVX2(&x[1], &b[1], &inv[1], &e[1], &s[1], &se[1], &sw[1], st, m, first-1)
		first += m
	}
	for i := first; i < n-1; i += 2 {
		x[i] = inv[i] * (b[i] + (e[i]*x[i+1] + e[i-1]*x[i-1]) + (s[i]*xd[i] + su[i]*xu[i]) +
			(se[i]*xd[i+1] + seu[i-1]*xu[i-1]) + (sw[i]*xd[i-1] + swu[i+1]*xu[i+1]))
	}
}

// residualRow computes the residual of a row.
func (l *boxLevel) residualRow(dst []float32, c, y int) {
	st, n := l.stride, l.w+2
	at := (y + 1) * st
	up := at - st
	x, xu, xd := l.x[c][at:][:n], l.x[c][up:][:n], l.x[c][at+st:][:n]
	b, inv, sink := l.b[c][at:][:n], l.inv[at:][:n], l.sink[at:][:n]
	e, s, se, sw := l.e[at:][:n], l.s[at:][:n], l.se[at:][:n], l.sw[at:][:n]
	su, seu, swu := l.s[up:][:n], l.se[up:][:n], l.sw[up:][:n]
	dst = dst[:n-2]
	m := eights(n - 2)
	if m > 0 {
		residualCoarseAVX2(&dst[0], &x[1], &b[1], &inv[1], &sink[1], &e[1], &s[1], &se[1], &sw[1], st, m)
	}
	for i := 1 + m; i < n-1; i++ {
		v := x[i]
		r := b[i] - sink[i]*v + (e[i]*(x[i+1]-v) + e[i-1]*(x[i-1]-v)) + (s[i]*(xd[i]-v) + su[i]*(xu[i]-v)) +
			(se[i]*(xd[i+1]-v) + seu[i-1]*(xu[i-1]-v)) + (sw[i]*(xd[i-1]-v) + swu[i+1]*(xu[i+1]-v))
		if inv[i] == 0 {
			r = 0
		}
		dst[i-1] = r
	}
}

// prolong corrects the image.
func (b *box) prolong(x []float32) error {
	l := &b.levels[0]
	n := b.w * b.h
	return b.bands(l.h, 4*len(x)/b.h, func(from, to int) {
		for c := range l.x {
			plane := x[c*n:][:n]
			for y := from; y < to; y++ {
				var down []float32
				if 2*y+1 < b.h {
					down = plane[(2*y+1)*b.w:][:b.w]
				}
				l.prolongRow(l.x[c], y, plane[2*y*b.w:][:b.w], down)
			}
		}
	})
}

// prolongRow adds what row y of a level's correction g is on the level above to rows 2y and 2y+1 of that. Where there
// is no equation, it is 0.
func (l *boxLevel) prolongRow(g []float32, y int, row, down []float32) {
	st := l.stride
	at := (y + 1) * st
	g0, g1 := g[at:][:st], g[at+st:][:st]
	h0, h1 := l.h0[at:][:st], l.h1[at:][:st]
	n := len(row)
	for i := 0; i < n; i++ {
		k := i/2 + 1
		row[i] += g0[k]
		if i++; i < n {
			row[i] += h0[k]*g0[k] + h1[k]*g0[k+1]
		}
	}
	n = len(down)
	v0, v1 := l.v0[at:][:st], l.v1[at:][:st]
	c0, c1, c2, c3 := l.c0[at:][:st], l.c1[at:][:st], l.c2[at:][:st], l.c3[at:][:st]
	for i := 0; i < n; i++ {
		k := i/2 + 1
		down[i] += v0[k]*g0[k] + v1[k]*g1[k]
		if i++; i < n {
			down[i] += c0[k]*g0[k] + c1[k]*g0[k+1] + c2[k]*g1[k] + c3[k]*g1[k+1]
		}
	}
}
