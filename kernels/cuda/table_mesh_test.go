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

// meshSteps are the ops from sites to triangles, with their memory on one device.
type meshSteps struct {
	voronoi driver.Voronoi
	islands driver.Islands
	dual    driver.DualTriangles
	hull    driver.HullCompletion
	flips   driver.Flips
}

func placeMesh(t *testing.T, dev driver.Device, n, width, height int) *meshSteps {
	t.Helper()
	need := func(bytes int64, err error) int64 {
		if err != nil {
			t.Fatal(err)
		}
		return bytes
	}
	scratch := alloc(t, dev, max(1, need(dev.Scratch(&driver.Voronoi{N: n, Width: width, Height: height, Method: driver.VoronoiDefault})),
		need(dev.Scratch(&driver.Islands{N: n, Width: width, Height: height})),
		need(dev.Scratch(&driver.DualTriangles{N: n, Width: width, Height: height})),
		need(dev.Scratch(&driver.HullCompletion{N: n, Width: width, Height: height})),
		need(dev.Scratch(&driver.Flips{N: n}))))
	sites, labels, triangles := alloc(t, dev, 8*int64(n)), alloc(t, dev, 4*int64(width)*int64(height)),
		alloc(t, dev, 24*int64(n))
	count, counts, status := alloc(t, dev, 4), alloc(t, dev, 16), alloc(t, dev, 32)
	return &meshSteps{
		voronoi: driver.Voronoi{Sites: sites, N: n, Width: width, Height: height, Labels: labels, Scratch: scratch},
		islands: driver.Islands{Sites: sites, N: n, Width: width, Height: height, Labels: labels, Count: count,
			Scratch: scratch},
		dual: driver.DualTriangles{Sites: sites, N: n, Width: width, Height: height, Labels: labels,
			Triangles: triangles, Counts: counts, Scratch: scratch},
		hull: driver.HullCompletion{Sites: sites, N: n, Width: width, Height: height, Labels: labels,
			Triangles: triangles, Counts: counts, Scratch: scratch},
		flips: driver.Flips{Points: sites, N: n, Triangles: triangles, Counts: counts, Rounds: 1000, Status: status,
			Scratch: scratch},
	}
}

// run enqueues all of them.
func (m *meshSteps) run(s driver.Stream) error {
	return errors.Join(s.Run(&m.voronoi), s.Run(&m.islands), s.Run(&m.dual), s.Run(&m.hull),
		s.Run(&m.flips))
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
	b.must(b.s.Upload(m.voronoi.Sites, [][]byte{bytesOf(sites)}))

	// The CPU does it, too.
	host := open(t, cpu.Driver)
	cs := newStream(t, host)
	want := placeMesh(t, host, n, side, side)
	type result struct {
		triangles []driver.Triangle
		counts    []driver.MeshCounts
		status    []driver.FlipStatus
	}
	fetch := func(s driver.Stream, m *meshSteps) (x result) {
		t.Helper()
		x = result{make([]driver.Triangle, 2*n), make([]driver.MeshCounts, 1), make([]driver.FlipStatus, 1)}
		b.must(s.Download(bytesOf(x.triangles), m.flips.Triangles), s.Download(bytesOf(x.counts), m.flips.Counts),
			s.Download(bytesOf(x.status), m.flips.Status), s.Wait(t.Context()))
		x.triangles = x.triangles[:min(int(x.counts[0].Triangles), 2*n)]
		return x
	}
	b.must(cs.Upload(want.voronoi.Sites, [][]byte{bytesOf(sites)}), want.run(cs))
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
	b.must(m.run(b.s))
	check("the way from the sites")

	// Flips changes what it gets, so that it gets a copy each time.
	b.must(b.s.Run(&m.voronoi), b.s.Run(&m.islands), b.s.Run(&m.dual), b.s.Run(&m.hull))
	start := alloc(t, dev, m.flips.Triangles.Len)
	b.must(b.s.Copy(start, m.flips.Triangles), b.s.Wait(t.Context()))
	name, px, points := fmt.Sprintf("%d sites, %dx%d", n, side, side), int64(side)*int64(side), int64(n)
	one := func(what string, bytes int64, op func(i int) error) { b.timed(what+", "+name, bytes, 0, 5, op, nil) }
	one("islands", 4*px, func(int) error { return b.s.Run(&m.islands) })
	one("dual triangles", 4*px+24*points, func(int) error { return b.s.Run(&m.dual) })
	one("dual triangles and hull completion", 0, func(int) error {
		return errors.Join(b.s.Run(&m.dual), b.s.Run(&m.hull))
	})
	b.must(b.s.Run(&m.dual), b.s.Run(&m.hull))
	one("flips, and a copy of the triangles", 0, func(int) error {
		return errors.Join(b.s.Copy(m.flips.Triangles, start), b.s.Run(&m.flips))
	})
	check("the flips of copies")
	one("Voronoi diagram to triangulation, all steps", 0, func(int) error { return m.run(b.s) })
	check("all steps")
}
