//go:build cuda

package cuda

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
)

// The conformance suite has the cases of Triangulate; here are large sets, and those that are hard for stars.

// triangulator has room for Triangulate of up to most points, as often as there are sets of points to take turns.
type triangulator struct {
	s    driver.Stream
	ops  []driver.Triangulate
	most int
}

func newTriangulator(t *testing.T, dev driver.Device, most, sets int) *triangulator {
	t.Helper()
	scratch, err := dev.Scratch(&driver.Triangulate{N: most})
	if err != nil {
		t.Fatal(err)
	}
	x := &triangulator{s: newStream(t, dev), most: most}
	for range sets {
		n := int64(most)
		x.ops = append(x.ops, driver.Triangulate{
			N: most, Points: alloc(t, dev, pointBytes*n), Triangles: alloc(t, dev, 2*triangleBytes*n),
			Count: alloc(t, dev, 4), Scratch: alloc(t, dev, scratch),
		})
	}
	return x
}

// run triangulates points in room i.
func (x *triangulator) run(t testing.TB, i int, points []driver.Point) ([]driver.Triangle, error) {
	op := x.ops[i]
	op.N = len(points)
	op.Points.Len, op.Triangles.Len = pointBytes*int64(op.N), 2*triangleBytes*int64(op.N)
	var n [1]uint32
	err := errors.Join(
		x.s.Upload(op.Points, [][]byte{bytesOf(points)}),
		x.s.Run(&driver.Fill{Dst: op.Triangles, Value: 0xa5}), x.s.Run(&driver.Fill{Dst: op.Count, Value: 0xa5}),
		x.s.Run(&driver.Fill{Dst: op.Scratch, Value: 0xa5}),
		x.s.Run(&op),
		x.s.Download(bytesOf(n[:]), op.Count),
		x.s.Wait(t.Context()))
	if err != nil {
		return nil, err
	}
	if int(n[0]) > 2*op.N {
		return nil, fmt.Errorf("%d triangles of %d points", n[0], op.N)
	}
	out := make([]driver.Triangle, n[0])
	err = errors.Join(x.s.Download(bytesOf(out), part(op.Triangles, 0, triangleBytes*int64(n[0]))),
		x.s.Wait(t.Context()))
	return out, err
}

// pointsOf makes n points.
func pointsOf(n int, next func(r *rand.Rand) (x, y float64)) []driver.Point {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	p := make([]driver.Point, n)
	for i := range p {
		x, y := next(r)
		p[i] = driver.Point{X: int32(math.Floor(x)), Y: int32(math.Floor(y))}
	}
	return p
}

func uniform(side float64) func(*rand.Rand) (x, y float64) {
	return func(r *rand.Rand) (x, y float64) { return r.Float64() * side, r.Float64() * side }
}

func gaussian(r *rand.Rand) (x, y float64) {
	return 8192 + r.NormFloat64()*2048, 8192 + r.NormFloat64()*2048
}

// lattice is a full grid of about n points, in any order.
func lattice(n int) []driver.Point {
	side := int(math.Sqrt(float64(n)))
	p := make([]driver.Point, side*side)
	for i := range p {
		p[i] = driver.Point{X: int32(i % side), Y: int32(i / side)}
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(p), func(i, j int) { p[i], p[j] = p[j], p[i] })
	return p
}

// Sets with many points that have large circles, or many neighbours, all of which go the way of few in others; and the
// CPU's triangles, whatever the set.
func TestTriangulateHard(t *testing.T) {
	counted(t)
	n := 100_000
	if testing.Short() {
		n = 5_000
	}
	far := float64(driver.MaxPoint)
	x := newTriangulator(t, open(t, devicetest.Mirror(Driver, cpu.Driver)), 10*n, 1)
	line := func(dx, dy, apart float64) func(*rand.Rand) (x, y float64) {
		return func(r *rand.Rand) (x, y float64) {
			at := math.Floor(r.Float64() * far / 4)
			return at*dx - apart*float64(r.IntN(2)), at * dy
		}
	}
	for _, c := range []struct {
		name   string
		points []driver.Point
	}{
		{"uniform", pointsOf(10*n, uniform(16384))},
		{"uniform, as many as places", pointsOf(10*n, uniform(math.Sqrt(float64(10*n))))},
		{"uniform, whole range", pointsOf(10*n, func(r *rand.Rand) (x, y float64) {
			return (2*r.Float64() - 1) * far, (2*r.Float64() - 1) * far
		})},
		{"Gaussian", pointsOf(10*n, gaussian)},
		{"lattice", lattice(10 * n)},
		{"tight clusters", pointsOf(10*n, func(r *rand.Rand) (x, y float64) {
			c := float64(r.IntN(7))
			return c*3e7 - 1e8 + r.NormFloat64()*2000, c*c*5e6 - 1e8 + r.NormFloat64()*2000
		})},
		{"circle", pointsOf(n, func(r *rand.Rand) (x, y float64) {
			y, x = math.Sincos(r.Float64() * 2 * math.Pi)
			return x * far * 0.99, y * far * 0.99
		})},
		{"ring", pointsOf(n, func(r *rand.Rand) (x, y float64) {
			y, x = math.Sincos(r.Float64() * 2 * math.Pi)
			radius := 2e8 + 1e5*r.NormFloat64()
			return x * radius, y * radius
		})},
		{"two lines", pointsOf(n, line(0, 3, 1e5))},
		{"two slanted lines", pointsOf(n, line(2, 1, 1e5))},
		{"a line and a point", append(pointsOf(n, line(1, 0, 0)), driver.Point{X: 12345, Y: 99999})},
		{"flat", pointsOf(n, func(r *rand.Rand) (x, y float64) { return r.Float64() * far, r.Float64() * 5 })},
	} {
		if _, err := x.run(t, 0, c.points); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// The order of the triangles is always the same, too.
func TestTriangulateRepeats(t *testing.T) {
	counted(t)
	const n = 50_000
	x := newTriangulator(t, open(t, Driver), n, 2)
	for name, points := range map[string][]driver.Point{
		"Gaussian": pointsOf(n, gaussian),
		"sparse":   pointsOf(n/10, uniform(driver.MaxPoint)), // all by triangulate_far
	} {
		first, err := x.run(t, 0, points)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			again, err := x.run(t, (i+1)%2, points)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(first, again) {
				t.Fatalf("%s: run %d has other triangles, or another order", name, i+1)
			}
		}
	}
}

func TestTriangulateProperty(t *testing.T) {
	counted(t)
	const most = 2000
	x := newTriangulator(t, open(t, Driver), most, 1)
	rapid.Check(t, func(rt *rapid.T) {
		// Of few bits there are ties and copies; a stride makes lattices and lines of them.
		bits := rapid.IntRange(0, 28).Draw(rt, "bits")
		bound := int32(1) << bits
		stride := rapid.Int32Range(1, max(1, int32(driver.MaxPoint>>bits))).Draw(rt, "stride")
		coordinate := rapid.Int32Range(-bound, bound)
		points := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) driver.Point {
			return driver.Point{X: coordinate.Draw(rt, "x") * stride, Y: coordinate.Draw(rt, "y")}
		}), 0, most).Draw(rt, "points")
		got, err := x.run(t, 0, points)
		if err == nil {
			err = devicetest.CheckTriangles(points, got)
		}
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// A coordinate out of range is found by the device, and the error says where.
func TestTriangulateRange(t *testing.T) {
	counted(t)
	x := newTriangulator(t, open(t, Driver), 5000, 1)
	points := pointsOf(5000, uniform(1000))
	points[4321].Y = -driver.MaxPoint - 1
	if _, err := x.run(t, 0, points); err == nil ||
		!strings.Contains(err.Error(), "Triangulate: Points[4321]: a coordinate is out of range") {
		t.Errorf("%v", err)
	}
	points[4321].Y = -driver.MaxPoint
	got, err := x.run(t, 0, points)
	if err == nil {
		err = devicetest.CheckTriangles(points, got)
	}
	if err != nil {
		t.Errorf("after it: %v", err)
	}
}

// triangulations adds rows for Triangulate. Results are checked by the definition, several at a time, because that
// takes the host longer than all else.
func triangulations(t *testing.T, dev driver.Device, small int) {
	var checks sync.WaitGroup
	defer checks.Wait()
	for _, c := range []struct {
		name   string
		n      int
		goal   float64
		points func(n int) []driver.Point
	}{
		{"uniform, 16384x16384", 1_000_000, 6000, func(n int) []driver.Point { return pointsOf(n, uniform(16384)) }},
		{"uniform, 16384x16384", 10_000_000, 60000, func(n int) []driver.Point { return pointsOf(n, uniform(16384)) }},
		{"uniform, 4096x4096", 1_000_000, 6000, func(n int) []driver.Point { return pointsOf(n, uniform(4096)) }},
		{"uniform, 4096x4096", 10_000_000, 60000, func(n int) []driver.Point { return pointsOf(n, uniform(4096)) }},
		{"Gaussian, deviation 2048", 1_000_000, 6000, func(n int) []driver.Point { return pointsOf(n, gaussian) }},
		{"Gaussian, deviation 2048", 10_000_000, 60000, func(n int) []driver.Point { return pointsOf(n, gaussian) }},
		{"all of 1000x1000", 1_000_000, 6000, lattice},
		{"uniform, 16384x16384", 10_000, 0, func(n int) []driver.Point { return pointsOf(n, uniform(16384)) }},
	} {
		name := fmt.Sprintf("triangulate %d, %s", c.n, c.name)
		t.Run(name, func(st *testing.T) {
			counted(st)
			points := c.points(c.n / small)
			sets := max(1, min(4, 4_000_000/len(points))) // together they exceed the caches
			x := newTriangulator(st, dev, len(points), sets)
			var got []driver.Triangle
			for i := range sets {
				var err error
				if got, err = x.run(st, i, points); err != nil {
					st.Fatal(err)
				}
			}
			checks.Go(func() {
				if err := devicetest.CheckTriangles(points, got); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
			b := &bench{t: st, dev: dev.(*device), s: x.s.(*stream)}
			b.timed(name, (pointBytes+2*triangleBytes)*int64(len(points)), c.goal, sets,
				func(i int) error { return x.s.Run(&x.ops[i%sets]) },
				func(i int) error { return x.s.Run(&x.ops[i%sets]) })
		})
	}
}
