package lowpoly_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
	"github.com/polyscan/polyscan/lowpoly"
)

func openCPU(t testing.TB, bytes int64) *kernels.Device {
	t.Helper()
	d, err := kernels.Open(cpu.New(cpu.Options{}), kernels.Config{MemoryBytes: bytes, Poison: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestTriangulateSets(t *testing.T) {
	d := openCPU(t, 64<<20)
	for _, set := range devicetest.PointSets(2, 50, 5000) {
		got, err := lowpoly.Triangulate(context.Background(), d, set.Points, lowpoly.RouteDirect)
		if err != nil {
			t.Errorf("%s: %v", set.Name, err)
			continue
		}
		if err := devicetest.CheckTriangles(set.Points, got.Triangles); err != nil {
			t.Errorf("%s: %v", set.Name, err)
		}
		if got.Backend != "cpu" {
			t.Errorf("%s: backend %q", set.Name, got.Backend)
		}
	}
}

// What must hold between triangulations of related sets, whatever the triangulation is.
func TestTriangulateSymmetries(t *testing.T) {
	d := openCPU(t, 16<<20)
	// corners is the set of triangles as coordinates, in an order of its own.
	corners := func(t *rapid.T, points []driver.Point, back func(driver.Point) driver.Point) map[string]bool {
		r, err := lowpoly.Triangulate(context.Background(), d, points, lowpoly.RouteDirect)
		if err != nil {
			t.Fatal(err)
		}
		set := map[string]bool{}
		for _, v := range r.Triangles {
			var s []string
			for _, i := range [3]uint32{v.A, v.B, v.C} {
				s = append(s, fmt.Sprint(back(points[i])))
			}
			least := 0
			for i := range s {
				if s[i] < s[least] {
					least = i
				}
			}
			set[strings.Join(append(s[least:len(s):len(s)], s[:least]...), " ")] = true
		}
		if len(set) != len(r.Triangles) {
			t.Fatalf("%d triangles, %d different ones", len(r.Triangles), len(set))
		}
		return set
	}
	same := func(p driver.Point) driver.Point { return p }
	rapid.Check(t, func(t *rapid.T) {
		side := rapid.Int32Range(1, 50).Draw(t, "side")
		points := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) driver.Point {
			return driver.Point{X: rapid.Int32Range(0, side).Draw(t, "x"), Y: rapid.Int32Range(0, side).Draw(t, "y")}
		}), 0, 120).Draw(t, "points")
		want := corners(t, points, same)

		shuffled := rapid.Permutation(points).Draw(t, "shuffled")
		if got := corners(t, append(shuffled, points...), same); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("twice and in another order: %v, want %v", got, want)
		}
		dx, dy := rapid.Int32Range(-driver.MaxPoint, driver.MaxPoint-side).Draw(t, "dx"),
			rapid.Int32Range(-driver.MaxPoint, driver.MaxPoint-side).Draw(t, "dy")
		moved := make([]driver.Point, len(points))
		for i, p := range points {
			moved[i] = driver.Point{X: p.X + dx, Y: p.Y + dy}
		}
		back := func(p driver.Point) driver.Point { return driver.Point{X: p.X - dx, Y: p.Y - dy} }
		if got := corners(t, moved, back); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("moved by (%d, %d): %v, want %v", dx, dy, got, want)
		}
	})
}

func TestTriangulateRefuses(t *testing.T) {
	d := openCPU(t, 1<<20)
	for field, p := range map[string]driver.Point{
		"points[2].x": {X: driver.MaxPoint + 1}, "points[2].y": {Y: -driver.MaxPoint - 1},
	} {
		_, err := lowpoly.Triangulate(context.Background(), d, []driver.Point{{}, {X: 1}, p}, lowpoly.RouteDirect)
		var invalid *kernels.InvalidError
		if !errors.As(err, &invalid) || invalid.Violations[0].Path.String() != field || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: %v, want an error about %s", p, err, field)
		}
	}
	var capacity *kernels.CapacityError
	if _, err := lowpoly.Triangulate(context.Background(), d, make([]driver.Point, 100_000),
		lowpoly.RouteDirect); !errors.As(err, &capacity) {
		t.Errorf("100,000 points in a device of 1 MiB: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := lowpoly.Triangulate(ctx, d, make([]driver.Point, 10), lowpoly.RouteDirect); !errors.Is(err,
		context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if m := d.Memory(); m.Used != 0 {
		t.Errorf("%d bytes are in use after it", m.Used)
	}
}

// Each op in turn fails; the next call works.
func TestTriangulateFaults(t *testing.T) {
	for _, route := range []lowpoly.Route{lowpoly.RouteDirect, lowpoly.RouteVoronoi} {
		t.Run(route.String(), func(t *testing.T) { triangulateFaults(t, route) })
	}
}

func triangulateFaults(t *testing.T, route lowpoly.Route) {
	points := []driver.Point{{X: 0, Y: 0}, {X: 9, Y: 0}, {X: 4, Y: 7}, {X: 4, Y: 3}}
	tried := 0
	for f := range devicetest.Faults(cpu.New(cpu.Options{}), driver.ErrOutOfMemory, driver.ErrDeviceLost) {
		tried++
		d, err := kernels.Open(f, kernels.Config{MemoryBytes: 1 << 20})
		if err != nil {
			if !errors.Is(err, f.Failure().Err) {
				t.Errorf("Open: %v", err)
			}
			continue
		}
		res, err := lowpoly.Triangulate(context.Background(), d, points, route)
		if err != nil && !errors.Is(err, f.Failure().Err) {
			t.Errorf("%+v: %v", f.Failure(), err)
		}
		if err == nil && len(res.Triangles) != 3 {
			t.Errorf("%+v: %d triangles", f.Failure(), len(res.Triangles))
		}
		if m := d.Memory(); m.Used != 0 {
			t.Errorf("%+v: %d bytes are in use after it", f.Failure(), m.Used)
		}
		if err != nil && !errors.Is(err, driver.ErrDeviceLost) {
			if res, err := lowpoly.Triangulate(context.Background(), d, points, route); err != nil ||
				len(res.Triangles) != 3 {
				t.Errorf("%+v: the next call: %v", f.Failure(), err)
			}
		}
		if err := d.Close(); err != nil && !errors.Is(err, f.Failure().Err) {
			t.Errorf("%+v: Close: %v", f.Failure(), err)
		}
	}
	if tried < 5 {
		t.Errorf("%d faults were tried", tried)
	}
}

// Points may be as far from the origin as they are allowed to.
func TestTriangulateFarthest(t *testing.T) {
	points := []driver.Point{{X: driver.MaxPoint, Y: -driver.MaxPoint}}
	if _, err := lowpoly.Triangulate(t.Context(), openCPU(t, 1<<20), points, lowpoly.RouteDirect); err != nil {
		t.Error(err)
	}
}

func ExampleTriangulate() {
	dev, err := kernels.Open(cpu.New(cpu.Options{}), kernels.Config{MemoryBytes: 1 << 20})
	if err != nil {
		panic(err)
	}
	defer dev.Close()
	square := []driver.Point{{X: 0, Y: 0}, {X: 10, Y: 0}, {X: 10, Y: 10}, {X: 0, Y: 10}}
	r, err := lowpoly.Triangulate(context.Background(), dev, square, lowpoly.RouteDirect)
	if err != nil {
		panic(err)
	}
	for _, t := range r.Triangles {
		fmt.Println(t.A, t.B, t.C)
	}
	// Unordered output:
	// 0 1 2
	// 0 2 3
}

func BenchmarkTriangulate(b *testing.B) {
	d, err := kernels.Open(cpu.New(cpu.Options{}), kernels.Config{MemoryBytes: 256 << 20})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	r := seed.New(b, 1, 2)
	points := make([]driver.Point, 1_000_000)
	for i := range points {
		points[i] = driver.Point{X: r.Int32N(1 << 14), Y: r.Int32N(1 << 14)}
	}
	for b.Loop() {
		if _, err := lowpoly.Triangulate(context.Background(), d, points, lowpoly.RouteDirect); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(points)*b.N)/b.Elapsed().Seconds(), "points/s")
}
