// Béziers through points. Source: Schneider, An algorithm for automatically fitting digitized curves, 1990.

package diffusion

import "math"

func plus(a, b Point) Point          { return Point{a.X + b.X, a.Y + b.Y} }
func minus(a, b Point) Point         { return Point{a.X - b.X, a.Y - b.Y} }
func times(a Point, f float64) Point { return Point{a.X * f, a.Y * f} }
func dotProduct(a, b Point) float64  { return a.X*b.X + a.Y*b.Y }
func distance(a, b Point) float64    { return math.Hypot(a.X-b.X, a.Y-b.Y) }
func unit(a Point) Point {
	if l := math.Hypot(a.X, a.Y); l > 0 {
		return times(a, 1/l)
	}
	return Point{}
}

// bezier is a cubic.
type bezier [4]Point

func (b *bezier) at(t float64) Point {
	u := 1 - t
	return plus(plus(times(b[0], u*u*u), times(b[1], 3*u*u*t)), plus(times(b[2], 3*u*t*t), times(b[3], t*t*t)))
}

// closer improves the parameter of the point of the curve that is nearest to p, by a step of Newton's method.
func (b *bezier) closer(p Point, t float64) float64 {
	u := 1 - t
	off := minus(b.at(t), p)
	d1 := plus(plus(times(minus(b[1], b[0]), 3*u*u), times(minus(b[2], b[1]), 6*u*t)), times(minus(b[3], b[2]), 3*t*t))
	d2 := plus(times(plus(minus(b[2], times(b[1], 2)), b[0]), 6*u), times(plus(minus(b[3], times(b[2], 2)), b[1]), 6*t))
	slope := dotProduct(d1, d1) + dotProduct(off, d2)
	if math.Abs(slope) < 1e-9 {
		return t
	}
	return min(max(t-dotProduct(off, d1)/slope, 0), 1)
}

// fitter fits Béziers to points, one behind the other.
type fitter struct {
	points   []Point
	flatness float64
	control  []Point
	at       []float64 // of each point: where on the curve it is
	pace     *pacer
}

// fitCurve returns control points of Béziers that are at most flatness from the points, two or more, and where on the
// curve each is; others where pace ends it.
func fitCurve(points []Point, flatness float64, pace *pacer) (control []Point, at []float64) {
	f := &fitter{points: points, flatness: flatness, control: []Point{points[0]}, at: make([]float64, len(points)),
		pace: pace}
	last := len(points) - 1
	f.fit(0, last, f.tangent(0, 1), f.tangent(last, -1))
	f.at[last] = float64(len(f.control) / 3)
	return f.control, f.at
}

// tangent is the direction at a point, looking a few points ahead or back.
func (f *fitter) tangent(i, step int) Point {
	j := min(max(i+3*step, 0), len(f.points)-1)
	return unit(minus(f.points[j], f.points[i]))
}

// fit appends Béziers for the points from a to b that begin and end in directions t0 and t1, both inwards.
func (f *fitter) fit(a, b int, t0, t1 Point) {
	p := f.points[a : b+1]
	n := len(p) - 1
	t := make([]float64, n+1)
	for i := 1; i <= n; i++ {
		t[i] = t[i-1] + distance(p[i], p[i-1])
	}
	for i := range t {
		t[i] /= max(t[n], 1e-9)
	}
	curve := along(p, t, t0, t1)
	worst, where := f.error(&curve, p, t)
	for range 6 {
		if worst <= f.flatness || n < 3 {
			break
		}
		if !f.pace.spend(4 * n) {
			return
		}
		better := make([]float64, n+1)
		for i := range t {
			better[i] = curve.closer(p[i], t[i])
		}
		better[0], better[n] = 0, 1
		other := along(p, better, t0, t1)
		e, at := f.error(&other, p, better)
		if e >= worst {
			break
		}
		curve, t, worst, where = other, better, e, at
	}
	if f.pace.spend(2*n) && worst > f.flatness && n > 1 {
		mid := a + where
		across := unit(minus(f.points[max(mid-2, a)], f.points[min(mid+2, b)]))
		f.fit(a, mid, t0, across)
		f.fit(mid, b, times(across, -1), t1)
		return
	}
	segment := float64(len(f.control) / 3)
	last := 0.0
	for i := range n {
		last = max(last, t[i]) // the places are in order
		f.at[a+i] = segment + last
	}
	f.control = append(f.control, curve[1:]...)
}

// error is how far the points are from those of a curve with their parameters, and which inner one is farthest.
func (f *fitter) error(b *bezier, p []Point, t []float64) (worst float64, where int) {
	where = len(p) / 2
	for i := 1; i < len(p)-1; i++ {
		if d := distance(b.at(t[i]), p[i]); d > worst {
			worst, where = d, i
		}
	}
	return worst, where
}

// along is the cubic with these directions at its ends that is nearest to points with parameters t.
func along(p []Point, t []float64, t0, t1 Point) bezier {
	first, last := p[0], p[len(p)-1]
	var c00, c01, c11, x0, x1 float64
	for i, q := range p {
		u, v := 1-t[i], t[i]
		b0, b1, b2, b3 := u*u*u, 3*u*u*v, 3*u*v*v, v*v*v
		a0, a1 := times(t0, b1), times(t1, b2)
		off := minus(q, plus(times(first, b0+b1), times(last, b2+b3)))
		c00 += dotProduct(a0, a0)
		c01 += dotProduct(a0, a1)
		c11 += dotProduct(a1, a1)
		x0 += dotProduct(a0, off)
		x1 += dotProduct(a1, off)
	}
	length := distance(first, last)
	l0, l1 := length/3, length/3
	if det := c00*c11 - c01*c01; math.Abs(det) > 1e-9 {
		if a, b := (x0*c11-x1*c01)/det, (c00*x1-c01*x0)/det; a > 0.01*length && b > 0.01*length && a < 4*length &&
			b < 4*length {
			l0, l1 = a, b
		}
	}
	return bezier{first, plus(first, times(t0, l0)), plus(last, times(t1, l1)), last}
}
