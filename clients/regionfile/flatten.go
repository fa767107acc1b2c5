package regionfile

// Turning outlines of lines, Bézier curves and elliptical arcs into rings, within a tolerance in pixels.

import "math"

// matrix maps (x, y) to (a·x + c·y + e, b·x + d·y + f), as SVG's matrix(a b c d e f) does.
type matrix struct{ a, b, c, d, e, f float64 }

var identity = matrix{a: 1, d: 1}

// times returns the map that applies n first, then m.
func (m matrix) times(n matrix) matrix {
	return matrix{
		m.a*n.a + m.c*n.b, m.b*n.a + m.d*n.b,
		m.a*n.c + m.c*n.d, m.b*n.c + m.d*n.d,
		m.a*n.e + m.c*n.f + m.e, m.b*n.e + m.d*n.f + m.f,
	}
}

func (m matrix) apply(x, y float64) [2]float64 {
	return [2]float64{m.a*x + m.c*y + m.e, m.b*x + m.d*y + m.f}
}

// finite says whether all six numbers are.
func (m matrix) finite() bool {
	for _, v := range []float64{m.a, m.b, m.c, m.d, m.e, m.f} {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}

// norm returns the largest factor by which the linear map with columns (a, b) and (c, d) stretches a vector: its larger
// singular value.
func norm(a, b, c, d float64) float64 {
	// The singular values of a 2×2 matrix are |p| ± |q|, with p and q its parts that keep and reverse orientation.
	p := math.Hypot(a+d, b-c)
	q := math.Hypot(a-d, b+c)
	return (p + q) / 2
}

// flattener collects the subpaths of one element as rings in pixels. It is given points in the element's coordinates.
//
// How far the polygon is from the curve: each curve B(t) is replaced by chords between n+1 points on it, at equal steps
// h of its parameter. At equal parameters, curve and chord are at most h²/8 · max|B"| apart (the error of linear
// interpolation). So the distance is at most the tolerance, both from curve to chord and back, with
//
//	quadratic Bézier:  |B"|  = 2·|P0-2P1+P2|                                   n = ⌈√(|P0-2P1+P2| / 4·tol)⌉
//	cubic Bézier:      |B"| <= 6·M, M = max(|P0-2P1+P2|, |P1-2P2+P3|)          n = ⌈√(3·M / 4·tol)⌉
//
// (the cubic's is known as Wang's formula). An affine image of a circular arc is flattened like the arc on the unit
// circle: a chord over the angle θ there is 1-cos(θ/2) from the arc, and the map to pixels stretches that by its norm
// s at most, hence
//
//	elliptical arc:    n = ⌈Δ / 2·acos(1 - tol/s)⌉ for an arc over the angle Δ
//
// All of this is in pixels, after every transform. A test measures the bound.
type flattener struct {
	b   *builder
	m   matrix // from the element's coordinates to pixels
	tol float64

	rings [][][2]float64 // finished subpaths
	// subpaths that were left out: fewer than 3 different vertices, but more than a lone point
	degenerate int

	ring       [][2]float64 // the subpath being built, in pixels
	start, cur [2]float64   // its first and its last point, in the element's coordinates
}

func newFlattener(b *builder, m matrix) *flattener {
	return &flattener{b: b, m: m, tol: b.opts.Tolerance, ring: b.scratch[:0]}
}

// emit adds a vertex in pixels, unless it equals the one before it.
func (f *flattener) emit(p [2]float64) *Error {
	if !(math.Abs(p[0]) < coordinateLimit && math.Abs(p[1]) < coordinateLimit) {
		return outOfRange("point", p)
	}
	if n := len(f.ring); n > 0 && f.ring[n-1] == p {
		return nil
	}
	if e := f.b.spend(1); e != nil {
		return e
	}
	f.ring = append(f.ring, p)
	return nil
}

func outOfRange(what string, p [2]float64) *Error {
	return fail(ErrInvalid, "the %s (%v, %v) in pixels is out of range, magnitudes must be below %d", what, p[0], p[1],
		coordinateLimit)
}

// control maps a control point to pixels. Curves whose control points are out of range are refused like the curves' own
// points: the number of chords, and the meaning of the bound, depend on them.
func (f *flattener) control(x, y float64) ([2]float64, *Error) {
	p := f.m.apply(x, y)
	if !(math.Abs(p[0]) < coordinateLimit && math.Abs(p[1]) < coordinateLimit) {
		return p, outOfRange("control point", p)
	}
	return p, nil
}

// finish ends the subpath: it is closed implicitly, as filling does.
func (f *flattener) finish() {
	ring := f.ring
	if n := len(ring); n > 1 && ring[0] == ring[n-1] {
		ring = ring[:n-1]
		f.b.vertices--
	}
	if len(ring) >= 3 {
		f.rings = append(f.rings, f.b.keep(ring))
	} else {
		f.b.vertices -= len(ring)
		if len(f.ring) > 1 {
			f.degenerate++
		}
	}
	f.ring = f.ring[:0]
	f.b.scratch = f.ring
}

func (f *flattener) moveTo(x, y float64) *Error {
	f.finish()
	f.start, f.cur = [2]float64{x, y}, [2]float64{x, y}
	return nil
}

// begin adds the first vertex of a subpath, so that moves that draw nothing cost nothing and can't be out of range.
func (f *flattener) begin() *Error {
	if len(f.ring) > 0 {
		return nil
	}
	f.start = f.cur
	return f.emit(f.m.apply(f.cur[0], f.cur[1]))
}

func (f *flattener) lineTo(x, y float64) *Error {
	if e := f.begin(); e != nil {
		return e
	}
	f.cur = [2]float64{x, y}
	return f.emit(f.m.apply(x, y))
}

func (f *flattener) quadTo(x1, y1, x2, y2 float64) *Error {
	p0 := f.m.apply(f.cur[0], f.cur[1])
	p1, e := f.control(x1, y1)
	if e != nil {
		return e
	}
	p2, e := f.control(x2, y2)
	if e != nil {
		return e
	}
	if e := f.begin(); e != nil {
		return e
	}
	n, e := f.chords(math.Sqrt(bend(p0, p1, p2) / (4 * f.tol)))
	if e != nil {
		return e
	}
	for i := 1; i < n; i++ {
		t := float64(i) / float64(n)
		s := 1 - t
		var p [2]float64
		for k := range p {
			p[k] = s*s*p0[k] + 2*s*t*p1[k] + t*t*p2[k]
		}
		if e := f.emit(p); e != nil {
			return e
		}
	}
	f.cur = [2]float64{x2, y2}
	return f.emit(p2)
}

func (f *flattener) cubeTo(x1, y1, x2, y2, x3, y3 float64) *Error {
	p0 := f.m.apply(f.cur[0], f.cur[1])
	p1, e := f.control(x1, y1)
	if e != nil {
		return e
	}
	p2, e := f.control(x2, y2)
	if e != nil {
		return e
	}
	p3, e := f.control(x3, y3)
	if e != nil {
		return e
	}
	if e := f.begin(); e != nil {
		return e
	}
	n, e := f.chords(math.Sqrt(3 * max(bend(p0, p1, p2), bend(p1, p2, p3)) / (4 * f.tol)))
	if e != nil {
		return e
	}
	for i := 1; i < n; i++ {
		t := float64(i) / float64(n)
		s := 1 - t
		var p [2]float64
		for k := range p {
			p[k] = s*s*s*p0[k] + 3*s*s*t*p1[k] + 3*s*t*t*p2[k] + t*t*t*p3[k]
		}
		if e := f.emit(p); e != nil {
			return e
		}
	}
	f.cur = [2]float64{x3, y3}
	return f.emit(p3)
}

// bend is half of a quadratic Bézier's second derivative.
func bend(p0, p1, p2 [2]float64) float64 {
	return math.Hypot(p0[0]-2*p1[0]+p2[0], p0[1]-2*p1[1]+p2[1])
}

// chords rounds a number of chords up, and refuses it if the vertices wouldn't be allowed anyway.
func (f *flattener) chords(n float64) (int, *Error) {
	if left := f.b.opts.MaxVertices - f.b.vertices; !(n < float64(left)+1) { // also when n is NaN
		return 0, fail(ErrLimit, "more than %d vertices in the file, the limit, when curves are flattened to %v px",
			f.b.opts.MaxVertices, f.tol)
	}
	return max(1, int(math.Ceil(n))), nil
}

// arcTo adds SVG's elliptical arc: radii, rotation of the ellipse in degrees, which of the four arcs, and the end.
// Radii that are too small for the chord are scaled up; a radius of 0 means a line.
func (f *flattener) arcTo(rx, ry, rotation float64, large, sweep bool, x, y float64) *Error {
	if f.cur == [2]float64{x, y} {
		return nil // as SVG says: the segment is left out
	}
	rx, ry = math.Abs(rx), math.Abs(ry)
	if rx == 0 || ry == 0 {
		return f.lineTo(x, y)
	}
	sin, cos := sincosDegrees(rotation)
	// In coordinates where the ellipse is the unit circle, half the chord is (hx, hy), and the centre is its middle
	// plus a multiple of its normal.
	dx, dy := (f.cur[0]-x)/2, (f.cur[1]-y)/2
	hx, hy := (cos*dx+sin*dy)/rx, (cos*dy-sin*dx)/ry
	half := math.Hypot(hx, hy)
	if half > 1 {
		rx, ry = rx*half, ry*half
		hx, hy = hx/half, hy/half
		half = 1
	}
	// The arc spans twice the angle of half the chord. Taking it from the same numbers as the centre's distance keeps
	// both ends on the ellipse, also for nearly straight arcs and nearly half ones, where differences of two angles
	// lose their digits.
	apothem := math.Sqrt((1 - half) * (1 + half))
	delta := 2 * math.Atan2(half, apothem)
	off := apothem / half
	if large == sweep {
		off = -off
	}
	if large {
		delta = 2*math.Pi - delta
	}
	if !sweep {
		delta = -delta
	}
	ux, uy := off*hy, -off*hx // the centre relative to the chord's middle, on the unit circle
	from := math.Atan2(hy-uy, hx-ux)
	mx, my := (f.cur[0]+x)/2, (f.cur[1]+y)/2
	// unit maps the unit circle to the element's ellipse.
	unit := matrix{cos * rx, sin * rx, -sin * ry, cos * ry, 0, 0}
	c := unit.apply(ux, uy)
	unit.e, unit.f = mx+c[0], my+c[1]
	return f.arc(unit, from, delta, x, y)
}

// arc adds the image of an arc of the unit circle under a map into the element's coordinates. It starts at the current
// point and ends exactly at (x, y).
func (f *flattener) arc(unit matrix, from, delta, x, y float64) *Error {
	if e := f.begin(); e != nil {
		return e
	}
	m := f.m.times(unit)
	if !m.finite() || math.IsNaN(from) || math.IsNaN(delta) {
		return fail(ErrInvalid, "the arc's radii are out of range")
	}
	n, e := f.chords(math.Abs(delta) / f.step(m))
	if e != nil {
		return e
	}
	for i := 1; i < n; i++ {
		sin, cos := math.Sincos(from + delta*float64(i)/float64(n))
		if e := f.emit(m.apply(cos, sin)); e != nil {
			return e
		}
	}
	f.cur = [2]float64{x, y}
	return f.emit(f.m.apply(x, y))
}

// step returns the largest angle on the unit circle whose chord stays within the tolerance under a map to pixels.
func (f *flattener) step(m matrix) float64 {
	s := norm(m.a, m.b, m.c, m.d)
	if s <= f.tol {
		return math.Pi // 1-cos(θ/2) reaches 1 there
	}
	// acos(1-q) loses the digits of a small q; this is the same angle.
	return 4 * math.Asin(math.Sqrt(f.tol/s/2))
}

// ellipse adds a whole ellipse as a subpath, from its rightmost point and, before any transform, clockwise on the
// screen. It gets at least 8 vertices, so that even a small one is no thin diamond.
func (f *flattener) ellipse(cx, cy, rx, ry float64) *Error {
	f.finish()
	unit := matrix{rx, 0, 0, ry, cx, cy}
	m := f.m.times(unit)
	if !m.finite() {
		return fail(ErrInvalid, "its radii or its place are out of range")
	}
	n, e := f.chords(2 * math.Pi / f.step(m))
	if e != nil {
		return e
	}
	n = max(n, 8)
	for i := range n {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / float64(n))
		if e := f.emit(m.apply(cos, sin)); e != nil {
			return e
		}
	}
	f.cur = [2]float64{cx + rx, cy}
	f.finish()
	return nil
}

// close ends the subpath; what follows without a move starts where it started.
func (f *flattener) close() *Error {
	f.finish()
	f.cur = f.start
	return nil
}

// polygon adds a closed subpath.
func (f *flattener) polygon(points [][2]float64) *Error {
	f.finish()
	for _, p := range points {
		if e := f.emit(f.m.apply(p[0], p[1])); e != nil {
			return e
		}
	}
	f.finish()
	return nil
}
