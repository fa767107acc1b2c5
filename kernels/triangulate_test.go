package kernels

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/polyscan/polyscan/kernels/driver"
)

// What the front lets through keeps its promises to backends (the fake driver checks them); what it refuses names the
// field.
func TestTriangulateChecks(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 1 << 20})
	const n = 100
	tests := []struct {
		field string // of the error; "": none
		spoil func(op *driver.Triangulate)
	}{
		{"", func(*driver.Triangulate) {}},
		{"", func(op *driver.Triangulate) { op.N, op.Points.Len, op.Triangles.Len = 0, 0, 0 }},
		{"", func(op *driver.Triangulate) { op.Scratch.Len += 256 }},
		{"N", func(op *driver.Triangulate) { op.N = -1 }},
		{"N", func(op *driver.Triangulate) { op.N = driver.MaxPoints + 1 }},
		{"N", func(op *driver.Triangulate) { op.N = math.MaxInt }},
		{"Points", func(op *driver.Triangulate) { op.Points.Len-- }},
		{"Points", func(op *driver.Triangulate) { op.Points.Len++ }},
		{"Points", func(op *driver.Triangulate) { op.Points.Off = 1 << 20 }},
		{"Points.Off", func(op *driver.Triangulate) { op.Points.Off += 8 }},
		{"Points.Mem", func(op *driver.Triangulate) { op.Points.Mem = nil }},
		{"Triangles", func(op *driver.Triangulate) { op.N++; op.Points.Len += 8 }},
		{"Triangles.Off", func(op *driver.Triangulate) { op.Triangles.Off++ }},
		{"Count", func(op *driver.Triangulate) { op.Count.Len = 8 }},
		{"Count.Off", func(op *driver.Triangulate) { op.Count.Off += 4 }},
		{"Scratch", func(op *driver.Triangulate) { op.Scratch.Len = 999 }},
		{"Scratch", func(op *driver.Triangulate) { op.Scratch.Off = -256 }},
	}
	for i, x := range tests {
		err := d.Do(context.Background(), Job{Label: "test", Footprint: 100 << 10}, func(q *Queue) error {
			points, err := Alloc[int32](q, 2*n, "points")
			if err != nil {
				return err
			}
			triangles, err := Alloc[uint32](q, 6*n, "triangles")
			if err != nil {
				return err
			}
			count, err := Alloc[uint32](q, 1, "count")
			if err != nil {
				return err
			}
			scratch, err := Alloc[byte](q, 2000, "scratch")
			if err != nil {
				return err
			}
			op := driver.Triangulate{
				Points: points.Slice(), N: n, Triangles: triangles.Slice(), Count: count.Slice(),
				Scratch: scratch.Slice(),
			}
			x.spoil(&op)
			return q.Run(&op)
		})
		var arg *ArgError
		switch {
		case x.field == "" && err != nil:
			t.Errorf("%d: %v", i, err)
		case x.field != "" && (!errors.As(err, &arg) || arg.Field != x.field):
			t.Errorf("%d: %v, want an error about %s", i, err, x.field)
		}
	}
	for _, n := range []int{-1, driver.MaxPoints + 1} {
		if _, err := d.Scratch(&driver.Triangulate{N: n}); err == nil {
			t.Errorf("TriangulateScratch(%d): no error", n)
		}
	}
}
