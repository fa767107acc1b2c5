package regionfile

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/polyscan/polyscan/internal/race"
)

// curve is a parametric curve in pixels, from t = 0 to 1.
type curve func(t float64) [2]float64

// sampled returns points of a curve, dense enough that the distance between neighbours doesn't matter.
func sampled(c curve, n int) [][2]float64 {
	out := make([][2]float64, n+1)
	for i := range out {
		out[i] = c(float64(i) / float64(n))
	}
	return out
}

// casteljau evaluates a Bézier curve of any degree by repeated interpolation.
func casteljau(points [][2]float64, t float64) [2]float64 {
	p := append([][2]float64(nil), points...)
	for n := len(p) - 1; n > 0; n-- {
		for i := range n {
			for k := range 2 {
				p[i][k] += t * (p[i+1][k] - p[i][k])
			}
		}
	}
	return p[0]
}

func matrixGen() *rapid.Generator[matrix] {
	f := rapid.Float64Range(-3, 3)
	return rapid.Custom(func(t *rapid.T) matrix {
		return matrix{f.Draw(t, "a"), f.Draw(t, "b"), f.Draw(t, "c"), f.Draw(t, "d"), 10 * f.Draw(t, "e"),
			10 * f.Draw(t, "f")}
	})
}

// farFromOpen is farFrom without the ring's closing edge, which isn't part of the curve.
func farFromOpen(points, line [][2]float64) float64 {
	worst := 0.0
	for _, p := range points {
		near := math.Inf(1)
		for i := range len(line) - 1 {
			near = min(near, toSegment(p, line[i], line[i+1]))
		}
		worst = max(worst, near)
	}
	return worst
}

// flattenOne flattens one segment from the origin, and returns the polyline in pixels.
func flattenOne(m matrix, tol float64, draw func(*flattener) *Error) ([][2]float64, *Error) {
	o, _ := Options{Tolerance: tol}.withDefaults()
	f := newFlattener(&builder{opts: o, file: &File{}}, m)
	if e := f.moveTo(0, 0); e != nil {
		return nil, e
	}
	if e := draw(f); e != nil {
		return nil, e
	}
	return f.ring, nil
}

// The bound that the flattener derives, measured: no point of the curve is farther from the chords than the tolerance,
// every vertex is on the curve.
func TestFlatteningError(t *testing.T) {
	race.Skip(t)
	const samples = 3000
	c := rapid.Float64Range(-200, 200)
	tolerances := rapid.SampledFrom([]float64{MinTolerance, 1.0 / 256, DefaultTolerance, 1, 8, MaxTolerance})
	check := func(rt *rapid.T, line [][2]float64, e *Error, truth curve, tol float64) {
		if e != nil {
			rt.Fatal(e)
		}
		dense := sampled(truth, samples)
		if len(line) < 2 { // all of it on one spot
			for _, p := range dense {
				if math.Hypot(p[0]-line[0][0], p[1]-line[0][1]) > tol {
					rt.Fatalf("the curve leaves %v and was dropped", line[0])
				}
			}
			return
		}
		const slack = 1e-7 // rounding: coordinates are some thousands, with 1e-13 relative error in either evaluation
		if d := farFromOpen(dense, line); d > tol+slack {
			rt.Fatalf("the curve is up to %v from its %d chords, the tolerance is %v", d, len(line)-1, tol)
		}
		step := 0.0
		for i := range samples {
			step = max(step, math.Hypot(dense[i+1][0]-dense[i][0], dense[i+1][1]-dense[i][1]))
		}
		if d := farFromOpen(line, dense); d > step*step+step/2+slack {
			rt.Fatalf("a vertex is %v from the curve, whose samples are up to %v apart", d, step)
		}
	}
	t.Run("quadratic", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			m, tol := matrixGen().Draw(rt, "m"), tolerances.Draw(rt, "tol")
			x1, y1, x2, y2 := c.Draw(rt, "x1"), c.Draw(rt, "y1"), c.Draw(rt, "x2"), c.Draw(rt, "y2")
			line, e := flattenOne(m, tol, func(f *flattener) *Error { return f.quadTo(x1, y1, x2, y2) })
			check(rt, line, e, func(t float64) [2]float64 {
				p := casteljau(ring(0, 0, x1, y1, x2, y2), t)
				return m.apply(p[0], p[1])
			}, tol)
		})
	})
	t.Run("cubic", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			m, tol := matrixGen().Draw(rt, "m"), tolerances.Draw(rt, "tol")
			x1, y1, x2, y2, x3, y3 := c.Draw(rt, "x1"), c.Draw(rt, "y1"), c.Draw(rt, "x2"), c.Draw(rt, "y2"),
				c.Draw(rt, "x3"), c.Draw(rt, "y3")
			line, e := flattenOne(m, tol, func(f *flattener) *Error { return f.cubeTo(x1, y1, x2, y2, x3, y3) })
			check(rt, line, e, func(t float64) [2]float64 {
				p := casteljau(ring(0, 0, x1, y1, x2, y2, x3, y3), t)
				return m.apply(p[0], p[1])
			}, tol)
		})
	})
	// Arcs are checked in the other direction: from an ellipse with a known centre, angles and rotation to SVG's end
	// points and flags.
	t.Run("arc", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			m, tol := matrixGen().Draw(rt, "m"), tolerances.Draw(rt, "tol")
			rx, ry := rapid.Float64Range(0.5, 150).Draw(rt, "rx"), rapid.Float64Range(0.5, 150).Draw(rt, "ry")
			phi := rapid.Float64Range(-360, 360).Draw(rt, "phi")
			from := rapid.Float64Range(-math.Pi, math.Pi).Draw(rt, "from")
			delta := rapid.Float64Range(0.05, 2*math.Pi-0.05).Draw(rt, "delta")
			large := delta > math.Pi
			if math.Abs(delta-math.Pi) < 1e-3 {
				rt.Skip("which of two half arcs is meant turns on the last digit")
			}
			sweep := rapid.Bool().Draw(rt, "sweep")
			if !sweep {
				delta = -delta
			}
			s, k := math.Sincos(phi * math.Pi / 180)
			on := func(a float64) [2]float64 {
				x, y := rx*math.Cos(a), ry*math.Sin(a)
				return [2]float64{k*x - s*y, s*x + k*y}
			}
			origin, end := on(from), on(from+delta)
			line, e := flattenOne(m, tol, func(f *flattener) *Error {
				return f.arcTo(rx, -ry, phi, large, sweep, end[0]-origin[0], end[1]-origin[1])
			})
			check(rt, line, e, func(t float64) [2]float64 {
				p := on(from + t*delta)
				return m.apply(p[0]-origin[0], p[1]-origin[1])
			}, tol)
		})
	})
	t.Run("ellipse", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			m, tol := matrixGen().Draw(rt, "m"), tolerances.Draw(rt, "tol")
			cx, cy := c.Draw(rt, "cx"), c.Draw(rt, "cy")
			rx, ry := rapid.Float64Range(0.5, 150).Draw(rt, "rx"), rapid.Float64Range(0.5, 150).Draw(rt, "ry")
			o, _ := Options{Tolerance: tol}.withDefaults()
			f := newFlattener(&builder{opts: o, file: &File{}}, m)
			if e := f.ellipse(cx, cy, rx, ry); e != nil {
				rt.Fatal(e)
			}
			if len(f.rings) == 0 {
				rt.Skip("the matrix folds it to a line")
			}
			line := append(f.rings[0][:len(f.rings[0]):len(f.rings[0])], f.rings[0][0])
			check(rt, line, nil, func(t float64) [2]float64 {
				s, k := math.Sincos(2 * math.Pi * t)
				return m.apply(cx+rx*k, cy+ry*s)
			}, tol)
		})
	})
}

// The bound isn't met by wasting vertices: on a parabola, whose second derivative is constant, the error is close to
// the tolerance.
func TestFlatteningIsThrifty(t *testing.T) {
	line, e := flattenOne(identity, DefaultTolerance, func(f *flattener) *Error { return f.quadTo(100, 200, 200, 0) })
	if e != nil {
		t.Fatal(e)
	}
	dense := sampled(func(t float64) [2]float64 { return casteljau(ring(0, 0, 100, 200, 200, 0), t) }, 5000)
	if d := farFromOpen(dense, line); d < 0.8*DefaultTolerance {
		t.Errorf("the error is %v with %d chords, that is more chords than the tolerance of %v needs", d, len(line)-1,
			DefaultTolerance)
	}
	// A circle of radius 100: the chord's angle is 2·acos(1-1/1600), hence 89 chords.
	f := newFlattener(&builder{opts: Options{Tolerance: DefaultTolerance, MaxVertices: 1000}, file: &File{}}, identity)
	if e := f.ellipse(0, 0, 100, 100); e != nil {
		t.Fatal(e)
	}
	if n := len(f.rings[0]); n != 89 {
		t.Errorf("a circle of radius 100 has %d vertices, want 89", n)
	}
}

// The measurement must notice a polyline that is too coarse and a vertex off the curve.
func TestFlatteningMeasureFails(t *testing.T) {
	dense := sampled(func(t float64) [2]float64 { return casteljau(ring(0, 0, 100, 200, 200, 0), t) }, 5000)
	if d := farFromOpen(dense, ring(0, 0, 200, 0)); math.Abs(d-100) > 1e-6 {
		t.Errorf("one chord for the parabola of height 100 is %v off", d)
	}
	if d := farFromOpen(ring(0, 0, 100, 101, 200, 0), dense); math.Abs(d-1) > 1e-3 {
		t.Errorf("a vertex 1 above the parabola is %v off", d)
	}
}

// The norm is the largest stretch that any direction gets.
func TestNorm(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := matrixGen().Draw(rt, "m")
		m.e, m.f = 0, 0
		got := norm(m.a, m.b, m.c, m.d)
		most := 0.0
		for i := range 20000 {
			s, c := math.Sincos(math.Pi * float64(i) / 20000)
			p := m.apply(c, s)
			most = max(most, math.Hypot(p[0], p[1]))
		}
		if most > got*(1+1e-12) || most < got*(1-1e-6) {
			rt.Fatalf("the norm of %v is %v, the largest stretch found is %v", m, got, most)
		}
	})
}

// Arcs that are nearly straight, nearly closed, or on huge radii keep to their ends and bounds.
func TestArcExtremes(t *testing.T) {
	for _, c := range []struct {
		rx           float64
		large, sweep bool
		x            float64
		farthest     float64 // from the chord
	}{
		{1e6, false, true, 100, 100 * 100 / 8e6},
		{1e12, false, true, 100, 1e-6},
		{1e300, false, false, 100, 1e-6},
		{50, false, true, 100, 50},         // a half circle exactly
		{50 + 1e-12, false, true, 100, 50}, // and nearly
		{10, false, true, 100, 50},         // radii too small: scaled up to a half circle
		{5, true, false, 1e-9, 10},         // nearly a full circle
		{5, false, false, 1e-9, 1e-9},      // nearly nothing
		{1e5, true, true, 1e-3, 2e5},       // a large one on a short chord
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			line, e := flattenOne(identity, DefaultTolerance,
				func(f *flattener) *Error { return f.arcTo(c.rx, c.rx, 30, c.large, c.sweep, c.x, 0) })
			if e != nil {
				t.Fatal(e)
			}
			if line[0] != [2]float64{} || line[len(line)-1] != [2]float64{c.x, 0} {
				t.Errorf("from %v to %v", line[0], line[len(line)-1])
			}
			far := farFromOpen(line, ring(0, 0, c.x, 0))
			if far > c.farthest+1e-3 || far < c.farthest-DefaultTolerance-1e-3 {
				t.Errorf("up to %v from the chord, want %v", far, c.farthest)
			}
		})
	}
}
