//go:build cuda

package cuda

// The benchmark table: triangulations by way of Voronoi diagrams, each step by itself and all of them one behind the
// other.

import (
	"errors"
	"fmt"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
)

// placeMesh makes the ops from sites to triangles, with their memory on one device.
func placeMesh(t *testing.T, dev driver.Device, n, width, height int) *devicetest.MeshOps {
	t.Helper()
	var sized devicetest.MeshOps
	scratch, err := sized.Sized(n, width, height).Scratch(dev)
	if err != nil {
		t.Fatal(err)
	}
	return devicetest.NewMeshOps(n, width*height, max(1, scratch), func(bytes int64) driver.Slice {
		return alloc(t, dev, bytes)
	}).Sized(n, width, height)
}

// meshRows adds a row for each step, and one for all.
func meshRows(t *testing.T, dev driver.Device, side, n int) {
	counted(t)
	r := seed.New(t, uint64(n), 3)
	sites := make([]driver.Point, n)
	for i := range sites {
		sites[i] = driver.Point{X: r.Int32N(int32(side)), Y: r.Int32N(int32(side))}
	}
	b := &bench{t: t, dev: dev.(*device), s: newStream(t, dev).(*stream)}
	m := placeMesh(t, dev, n, side, side)
	b.must(b.s.Upload(m.Voronoi.Sites, [][]byte{bytesOf(sites)}))

	// The CPU does it, too.
	host := open(t, cpu.Driver)
	cs := newStream(t, host)
	want := placeMesh(t, host, n, side, side)
	type result struct {
		triangles []driver.Triangle
		counts    []driver.MeshCounts
		status    []driver.FlipStatus
	}
	fetch := func(s driver.Stream, m *devicetest.MeshOps) (x result) {
		t.Helper()
		x = result{make([]driver.Triangle, 2*n), make([]driver.MeshCounts, 1), make([]driver.FlipStatus, 1)}
		b.must(s.Download(bytesOf(x.triangles), m.Flips.Triangles), s.Download(bytesOf(x.counts), m.Flips.Counts),
			s.Download(bytesOf(x.status), m.Flips.Status), s.Wait(t.Context()))
		x.triangles = x.triangles[:min(int(x.counts[0].Triangles), 2*n)]
		return x
	}
	b.must(cs.Upload(want.Voronoi.Sites, [][]byte{bytesOf(sites)}), want.Run(cs))
	expected := fetch(cs, want)
	check := func(what string) {
		t.Helper()
		got := fetch(b.s, m)
		if got.counts[0] != expected.counts[0] || got.status[0] != expected.status[0] {
			t.Errorf("%s: %+v, %+v; on the CPU %+v, %+v", what, got.counts[0], got.status[0], expected.counts[0],
				expected.status[0])
		}
		if d := devicetest.CompareTriangles(got.triangles, expected.triangles); d != nil {
			t.Errorf("%s: %v", what, d)
		}
	}
	if err := devicetest.CheckTriangles(sites, expected.triangles); err != nil {
		t.Error(err)
	}
	b.must(m.Run(b.s))
	check("the way from the sites")

	// Flips changes what it gets, so that it gets a copy each time.
	b.must(b.s.Run(&m.Voronoi), b.s.Run(&m.Islands), b.s.Run(&m.Dual), b.s.Run(&m.Hull))
	start := alloc(t, dev, m.Flips.Triangles.Len)
	b.must(b.s.Copy(start, m.Flips.Triangles), b.s.Wait(t.Context()))
	name, px, points := fmt.Sprintf("%d sites, %dx%d", n, side, side), int64(side)*int64(side), int64(n)
	one := func(what string, bytes int64, op func(i int) error) { b.timed(what+", "+name, bytes, 0, 5, op, nil) }
	one("islands", 4*px, func(int) error { return b.s.Run(&m.Islands) })
	one("dual triangles", 4*px+24*points, func(int) error { return b.s.Run(&m.Dual) })
	one("dual triangles and hull completion", 0, func(int) error {
		return errors.Join(b.s.Run(&m.Dual), b.s.Run(&m.Hull))
	})
	b.must(b.s.Run(&m.Dual), b.s.Run(&m.Hull))
	one("flips, and a copy of the triangles", 0, func(int) error {
		return errors.Join(b.s.Copy(m.Flips.Triangles, start), b.s.Run(&m.Flips))
	})
	check("the flips of copies")
	one("Voronoi diagram to triangulation, all steps", 0, func(int) error { return m.Run(b.s) })
	check("all steps")
}
