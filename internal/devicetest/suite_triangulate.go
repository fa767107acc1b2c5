// The suite: triangulations.

package devicetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/polyscan/polyscan/kernels/driver"
)

// PointSet is a named set of points.
type PointSet struct {
	Name   string
	Points []driver.Point
}

// PointSets are what triangulations are tested on: degenerate sets, lattices where everything is cocircular, random
// sets of many densities and ranges, and n uniform and n Gaussian points.
func PointSets(seed uint64, random, n int) []PointSet {
	r := rand.New(rand.NewPCG(seed, 7))
	var sets []PointSet
	add := func(name string, p ...driver.Point) { sets = append(sets, PointSet{name, p}) }
	xy := func(v ...int32) (p []driver.Point) {
		for i := 0; i < len(v); i += 2 {
			p = append(p, driver.Point{X: v[i], Y: v[i+1]})
		}
		return p
	}
	far := int32(driver.MaxPoint)
	add("none")
	add("one", xy(3, 4)...)
	add("two", xy(3, 4, 1, 1)...)
	add("three", xy(0, 0, 5, 1, 2, 7)...)
	add("three clockwise", xy(0, 0, 2, 7, 5, 1)...)
	add("square", xy(0, 0, 1, 0, 0, 1, 1, 1)...)
	add("all equal", xy(5, 5, 5, 5, 5, 5, 5, 5)...)
	add("two distinct of many", xy(5, 5, 6, 5, 5, 5, 6, 5, 6, 5)...)
	add("duplicates of a triangle", xy(9, 0, 0, 0, 0, 9, 9, 0, 0, 9, 0, 0)...)
	add("corners of the range", xy(-far, -far, far, -far, -far, far, far, far, 0, 0, 1, 0)...)
	add("a needle over the whole range", xy(-far, -far, far, far, far-1, far, 0, 0, 1, 1, 0, 1)...)
	line := func(dx, dy int32) (p []driver.Point) {
		for i := range int32(40) {
			p = append(p, driver.Point{X: (i*17 - 300) * dx, Y: (i*17 - 300) * dy})
		}
		r.Shuffle(len(p), func(i, j int) { p[i], p[j] = p[j], p[i] })
		return p
	}
	for _, d := range [][2]int32{{1, 0}, {0, 1}, {1, 1}, {3, -7}} {
		add(fmt.Sprintf("line along %v", d), line(d[0], d[1])...)
		add(fmt.Sprintf("line along %v and a point", d), append(line(d[0], d[1]), driver.Point{X: 1, Y: 5})...)
		beside := line(d[0], d[1])
		for _, p := range line(d[0], d[1]) {
			beside = append(beside, driver.Point{X: p.X - 30*d[1], Y: p.Y + 30*d[0]})
		}
		add(fmt.Sprintf("parallel lines along %v", d), beside...)
	}
	for _, d := range [][3]int32{{1, 0, 20}, {7, 0, 33}, {3, 1, 25}, {-5, 12, 21}} {
		var p []driver.Point
		for i := range d[2] {
			for j := range d[2] {
				p = append(p, driver.Point{X: i*d[0] - j*d[1], Y: i*d[1] + j*d[0]})
			}
		}
		r.Shuffle(len(p), func(i, j int) { p[i], p[j] = p[j], p[i] })
		add(fmt.Sprintf("%dx%d lattice along (%d, %d)", d[2], d[2], d[0], d[1]), p...)
	}
	for _, radius := range []int{5, 65, 1105, 71825} { // with 12, 36, 108 and 180 lattice points on them
		var p []driver.Point
		for x := -radius; x <= radius; x++ {
			if y := int(math.Sqrt(float64(radius*radius - x*x))); x*x+y*y == radius*radius {
				p = append(p, driver.Point{X: int32(x), Y: int32(y)}, driver.Point{X: int32(x), Y: int32(-y)})
			}
		}
		add(fmt.Sprintf("circle of radius %d", radius), p...)
		add(fmt.Sprintf("circle of radius %d and its centre", radius), append(slices.Clone(p), driver.Point{})...)
	}
	for i := range random {
		n := 1 + r.IntN(1<<(1+i%10))
		bits := 1 + r.IntN(29)
		p := make([]driver.Point, n)
		for j := range p {
			p[j] = driver.Point{X: r.Int32N(1<<bits) - 1<<(bits-1), Y: r.Int32N(1<<bits) - 1<<(bits-1)}
		}
		add(fmt.Sprintf("random %d: %d points of %d bits", i, n, bits), p...)
	}
	uniform, gaussian, clusters := make([]driver.Point, n), make([]driver.Point, n), make([]driver.Point, n)
	for i := range n {
		uniform[i] = driver.Point{X: r.Int32N(1 << 14), Y: r.Int32N(1 << 14)}
		gaussian[i] = driver.Point{X: int32(8192 + r.NormFloat64()*2048), Y: int32(8192 + r.NormFloat64()*2048)}
		c := int32(r.IntN(5))
		clusters[i] = driver.Point{X: c*1_000_003 + int32(r.NormFloat64()*50),
			Y: c*c*3_000_017 + int32(r.NormFloat64()*50)}
	}
	add(fmt.Sprintf("%d uniform", n), uniform...)
	add(fmt.Sprintf("%d Gaussian", n), gaussian...)
	add(fmt.Sprintf("%d in clusters far apart", n), clusters...)
	return sets
}

// hardSets are n points each whose triangles have large circles, or many in a corner, or hosts of ties: what is rare
// in others is all that they have.
func hardSets(seed uint64, n int) []PointSet {
	r := rand.New(rand.NewPCG(seed, 8))
	const far = driver.MaxPoint
	var sets []PointSet
	add := func(name string, next func() (x, y float64)) {
		p := make([]driver.Point, n)
		for i := range p {
			x, y := next()
			p[i] = driver.Point{X: int32(x), Y: int32(y)}
		}
		sets = append(sets, PointSet{fmt.Sprintf("%d %s", n, name), p})
	}
	side := math.Sqrt(float64(n))
	add("on as many places", func() (x, y float64) { return r.Float64() * side, r.Float64() * side })
	add("over the whole range", func() (x, y float64) { return (2*r.Float64() - 1) * far, (2*r.Float64() - 1) * far })
	add("in a flat strip", func() (x, y float64) { return r.Float64() * far, r.Float64() * 4 })
	add("around a circle", func() (x, y float64) {
		y, x = math.Sincos(r.Float64() * 2 * math.Pi)
		return x * far, y * far
	})
	add("in a ring", func() (x, y float64) {
		y, x = math.Sincos(r.Float64() * 2 * math.Pi)
		radius := 1e8 * (2 + 1e-4*r.NormFloat64())
		return x * radius, y * radius
	})
	add("on two lines", func() (x, y float64) {
		at := math.Floor(r.Float64() * far / 4)
		return 2*at - 1e5*float64(r.IntN(2)), at
	})
	add("beside a point", func() (x, y float64) { return math.Floor(r.Float64() * far), 12345 })
	sets[len(sets)-1].Points[0] = driver.Point{X: 54321, Y: -23456}
	return sets
}

// triangulate checks triangulations with the checker and, of few points, with the oracle. A subtest is a set of points.
func (s Suite) triangulate(t T, dev driver.Device) {
	if _, err := dev.Scratch(&driver.Triangulate{N: 3}); errors.Is(err, driver.ErrNotSupported) {
		t.Logf("%s lacks the op: %v", s.Driver.Name(), err)
		return
	}
	n, random := 20000, s.Random
	if s.Short || s.small {
		n = 3000
	}
	if s.Short {
		random = min(random, 20) // each number of points twice
	}
	r := newRig(t, dev)
	defer r.close(t)
	for _, set := range append(PointSets(s.Seed, random, n), hardSets(s.Seed, n/10)...) {
		t.Run(set.Name, func(t T) {
			got, err := r.triangles(t, set.Points)
			if errors.Is(err, driver.ErrNotSupported) {
				t.Logf("%v", err)
				return
			}
			if err != nil {
				t.Errorf("%v", err)
				return
			}
			if err := CheckTriangles(set.Points, got); err != nil {
				t.Errorf("%v", err)
			}
			if len(set.Points) <= MaxOraclePoints {
				if d := CompareTriangles(got, Delaunay(set.Points)); d != nil {
					t.Errorf("%v", d)
				}
			}
		})
	}
	t.Run("errors", r.triangulateErrors)
}

// triangulateErrors looks for what has to be refused.
func (r *rig) triangulateErrors(t T) {
	for i, p := range []driver.Point{{X: driver.MaxPoint + 1}, {Y: driver.MaxPoint + 1}, {X: -driver.MaxPoint - 1},
		{Y: math.MinInt32}} {
		points := slices.Insert([]driver.Point{{}, {X: 1}, {Y: 1}}, i, p)
		if _, err := r.triangles(t, points); err == nil ||
			!strings.Contains(err.Error(), fmt.Sprintf("Points[%d]", i)) {
			t.Errorf("a point at %v is beyond the range: %v, want an error about Points[%d]", p, err, i)
		}
	}
	if got, err := r.triangles(t, []driver.Point{{}, {X: 1}, {Y: 1}}); err != nil || len(got) != 1 {
		t.Errorf("after an error: %v, %v", got, err)
	}
}

// triangles runs one Triangulate.
func (r *rig) triangles(t T, points []driver.Point) ([]driver.Triangle, error) {
	t.Helper()
	n := len(points)
	scratch, err := r.dev.Scratch(&driver.Triangulate{N: n})
	if err != nil {
		t.Fatalf("TriangulateScratch(%d): %v", n, err)
	}
	r.reserve(t, 4, int64(n)*32+4+scratch)
	op := driver.Triangulate{N: n}
	op.Points = r.slice(t, int64(n)*8, 0)
	op.Triangles = r.slice(t, int64(n)*24, 0)
	op.Count = r.slice(t, 4, 0)
	op.Scratch = r.slice(t, scratch, 0)
	r.upload(t, op.Points, bytesOf(points))
	for _, dirty := range []driver.Slice{op.Triangles, op.Count, op.Scratch} {
		r.fill(t, dirty, dirtyByte)
	}
	r.wait(t)
	if err := errors.Join(r.stream.Run(&op), r.stream.Wait(context.Background())); err != nil {
		return nil, err
	}
	var count [1]uint32
	out := make([]driver.Triangle, 2*n)
	r.download(t, bytesOf(count[:]), op.Count)
	r.download(t, bytesOf(out), op.Triangles)
	r.wait(t)
	r.checkGuards(t)
	if int(count[0]) > len(out) {
		return nil, fmt.Errorf("%d triangles of %d points", count[0], n)
	}
	return out[:count[0]], nil
}
