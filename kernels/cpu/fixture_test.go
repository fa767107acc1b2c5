// What tests and benchmarks share: a device with memory to hand out, and shapes.

package cpu

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/polyscan/polyscan/internal/race"
	"github.com/polyscan/polyscan/kernels/driver"
)

// fixture is a device with one stream and memory that is handed out upwards.
type fixture struct {
	t    testing.TB
	dev  driver.Device
	s    driver.Stream
	mem  driver.Mem
	used int64
}

// cases is how many of n random cases to run: fewer under the race detector, which makes loops over bytes many times
// slower.
func cases(n int) int {
	switch {
	case race.Enabled:
		return n / 50
	case testing.Short():
		return n / 15
	}
	return n
}

func newFixture(t testing.TB, threads int, bytes int64) *fixture {
	t.Helper()
	f := &fixture{t: t}
	var err error
	if f.dev, err = New(Options{Threads: threads}).Open(0); err != nil {
		t.Fatal(err)
	}
	if f.mem, err = f.dev.Alloc(bytes); err != nil {
		t.Fatal(err)
	}
	if f.s, err = f.dev.NewStream(0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.s.Close(); err != nil {
			t.Error(err)
		}
		if err := f.mem.Free(); err != nil {
			t.Error(err)
		}
		if err := f.dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func (f *fixture) reset() { f.used = 0 }

func (f *fixture) slice(n int64) driver.Slice {
	f.t.Helper()
	s := driver.Slice{Mem: f.mem, Off: f.used, Len: n}
	if f.used = (f.used + n + driver.Align - 1) &^ (driver.Align - 1); f.used > f.mem.Bytes() {
		f.t.Fatalf("the fixture's memory has %d bytes, %d are needed", f.mem.Bytes(), f.used)
	}
	return s
}

func (f *fixture) ok(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) wait() {
	f.t.Helper()
	f.ok(f.s.Wait(context.Background()))
}

func (f *fixture) upload(b []byte) driver.Slice {
	f.t.Helper()
	s := f.slice(int64(len(b)))
	f.ok(f.s.Upload(s, [][]byte{b}))
	return s
}

func bytesOf[T any](v []T) []byte {
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), len(v)*int(unsafe.Sizeof(v[0])))
}

func download[T any](f *fixture, s driver.Slice) []T {
	f.t.Helper()
	var z T
	v := make([]T, s.Len/int64(unsafe.Sizeof(z)))
	f.ok(f.s.Download(bytesOf(v), s))
	f.wait()
	return v
}

// prepare enqueues a MaskPrepare and returns where the regions are.
func (f *fixture) prepare(r driver.MaskRegions, width, height int, m driver.Method) driver.Slice {
	f.t.Helper()
	n, err := f.dev.Scratch(&driver.MaskPrepare{Regions: r, Width: width, Height: height, Method: m})
	f.ok(err)
	dst := f.slice(n)
	f.ok(f.s.Run(&driver.MaskPrepare{Regions: r, Width: width, Height: height, Method: m, Dst: dst}))
	return dst
}

// outputs makes room for the results of a MaskReduce.
func (f *fixture) outputs(op *driver.MaskReduce) {
	f.t.Helper()
	n := int64(op.Count) * int64(op.Channels())
	op.Stats = f.slice(n * int64(unsafe.Sizeof(driver.MaskStats{})))
	op.Hist = driver.Slice{}
	if op.What&driver.MaskHistogram != 0 {
		op.Hist = f.slice(n * int64(op.Frame.Format.Levels()) * 4)
	}
}

type point struct{ x, y int32 } // 1/256 px

// ring appends the edges of a closed ring.
func ring(edges []driver.Edge, pts ...point) []driver.Edge {
	for i, a := range pts {
		b := pts[(i+1)%len(pts)]
		edges = append(edges, driver.Edge{X0: a.x, Y0: a.y, X1: b.x, Y1: b.y})
	}
	return edges
}

// one is a set of one region.
func one(fill driver.FillRule, edges []driver.Edge) driver.MaskRegions {
	return driver.MaskRegions{
		Edges:   edges,
		Regions: []driver.Region{{Count: uint32(len(edges)), Fill: fill}},
	}
}

// add appends a region to a set.
func add(r *driver.MaskRegions, fill driver.FillRule, edges []driver.Edge) {
	r.Regions = append(r.Regions,
		driver.Region{First: uint32(len(r.Edges)), Count: uint32(len(edges)), Fill: fill})
	r.Edges = append(r.Edges, edges...)
}

// star is a spiky polygon of n vertices around (cx, cy), with radii of 0.6 to 1 times (rx, ry), in pixels.
func star(rng *rand.Rand, n int, cx, cy, rx, ry float64) []point {
	pts := make([]point, n)
	for i := range pts {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / float64(n))
		q := 0.6 + 0.4*rng.Float64()
		pts[i] = point{int32(math.Round((cx + q*rx*cos) * 256)), int32(math.Round((cy + q*ry*sin) * 256))}
	}
	return pts
}
