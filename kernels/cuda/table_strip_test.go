//go:build cuda

package cuda

// The benchmark table: how long a strip takes beside one large op of low priority, which the scheduler can't cut.

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels/driver"
)

// TestStripBenchmarks reduces strips of 4096x64 pixels on a stream of high priority, one after the other, beside
// nothing, a triangulation and a Voronoi diagram, which a stream of low priority makes again and again. Of each it adds
// a row for the median and one for the 99th percentile, as the host sees them.
func TestStripBenchmarks(t *testing.T) {
	counted(t)
	dev := open(t, Driver)
	points, side, strips := 10_000_000, 16384, 2000
	if testing.Short() {
		points, side, strips = 10_000, 256, 20
	}
	p := benchProblem(4096, 64, driver.Gray8, driver.MaskRegions{})
	star(&p.Regions, 2048, 32, 1500, 126, 2, 3)
	p.Count = len(p.Regions.Regions)
	n, err := dev.Scratch(&driver.MaskPrepare{Regions: p.Regions, Width: p.Width, Height: p.Height,
		Method: driver.MethodDefault})
	if err != nil {
		t.Fatal(err)
	}
	_, size := placeWork(p, n, nil)
	w, _ := placeWork(p, n, alloc(t, dev, size).Mem)
	stream := func(priority int) driver.Stream {
		s, err := dev.NewStream(priority)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
	low, high := stream(-1), stream(1)
	// Sites on a circle are what blocks of some kernels take that can fill a whole device.
	voronoi := diagram(t, dev, low, scattered(points, side, side, "even"), side, side, driver.VoronoiDefault)
	circle := diagram(t, dev, low, scattered(points/100, side, side, "on a circle"), side, side, driver.VoronoiDefault)
	mesh := func(v *driver.Voronoi) *driver.Triangulate {
		scratch, err := dev.Scratch(&driver.Triangulate{N: v.N})
		if err != nil {
			t.Fatal(err)
		}
		return &driver.Triangulate{Points: v.Sites, N: v.N, Triangles: alloc(t, dev, 24*int64(v.N)),
			Count: alloc(t, dev, 4), Scratch: alloc(t, dev, scratch)}
	}
	reduce := w.reduce(devicetest.Strip{Height: p.Height}, false)
	if err := errors.Join(high.Run(w.prepare(driver.MethodDefault)), high.Run(reduce), high.Wait(t.Context()),
		low.Wait(t.Context())); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		op   driver.Op
	}{
		{"nothing", nil},
		{fmt.Sprintf("a triangulation of %d points", points), mesh(voronoi)},
		{fmt.Sprintf("a triangulation of %d points on a circle", circle.N), mesh(circle)},
		{fmt.Sprintf("a Voronoi diagram of %d sites, %dx%d", points, side, side), voronoi},
		{fmt.Sprintf("a Voronoi diagram of %d sites on a circle, %dx%d", circle.N, side, side), circle},
	} {
		stop, done := make(chan struct{}), make(chan error, 1)
		go func() { // an op may look, midway, how far it has come
			for {
				select {
				case <-stop:
					done <- nil
					return
				default:
				}
				if c.op == nil {
					time.Sleep(time.Millisecond)
				} else if err := errors.Join(low.Run(c.op), low.Wait(t.Context())); err != nil {
					done <- err
					return
				}
			}
		}()
		var times []time.Duration
		var failed error
		for len(times) < strips && failed == nil {
			start := time.Now()
			failed = errors.Join(high.Run(reduce), high.Wait(t.Context()))
			times = append(times, time.Since(start))
		}
		close(stop)
		if err := errors.Join(failed, <-done); err != nil {
			t.Fatal(err)
		}
		slices.Sort(times)
		micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
		rows = append(rows, row{Name: "strip of 4096x64 beside " + c.name + ", median", CallUS: micros(times[len(times)/2])},
			row{Name: "strip of 4096x64 beside " + c.name + ", 99th percentile",
				CallUS: micros(times[len(times)*99/100])})
	}
}
