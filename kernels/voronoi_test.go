package kernels

import (
	"context"
	"errors"
	"testing"

	"github.com/polyscan/polyscan/kernels/driver"
)

// What the front lets through keeps its promises to backends (the fake driver checks them); what it refuses names the
// field.
func TestVoronoiChecks(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 1 << 20})
	tests := []struct {
		field string // of the error; "": none
		spoil func(op *driver.Voronoi)
	}{
		{"", func(*driver.Voronoi) {}},
		{"", func(op *driver.Voronoi) { op.N, op.Sites.Len = 0, 0 }},
		{"", func(op *driver.Voronoi) { op.Width, op.Height = 20, 50 }},
		{"", func(op *driver.Voronoi) { op.Method = driver.JumpFlood }},
		{"N", func(op *driver.Voronoi) { op.N = -1 }},
		{"N", func(op *driver.Voronoi) { op.N = driver.MaxPoints + 1 }},
		{"Width", func(op *driver.Voronoi) { op.Width = 0 }},
		{"Width", func(op *driver.Voronoi) { op.Width = driver.MaxSide + 1 }},
		{"Height", func(op *driver.Voronoi) { op.Height = -5 }},
		{"Height", func(op *driver.Voronoi) { op.Height = driver.MaxSide + 1 }},
		{"Width, Height", func(op *driver.Voronoi) { op.Width, op.Height = 1<<16, 1<<16 }},
		{"Method", func(op *driver.Voronoi) { op.Method = driver.Banding + 1 }},
		{"Sites", func(op *driver.Voronoi) { op.Sites.Len-- }},
		{"Sites", func(op *driver.Voronoi) { op.Sites.Off = 1 << 20 }},
		{"Sites.Off", func(op *driver.Voronoi) { op.Sites.Off += 8 }},
		{"Labels", func(op *driver.Voronoi) { op.Width++ }},
		{"Labels.Mem", func(op *driver.Voronoi) { op.Labels.Mem = nil }},
		{"Labels.Off", func(op *driver.Voronoi) { op.Labels.Off -= 4 }},
		{"Scratch", func(op *driver.Voronoi) { op.Scratch.Len = 999 }},
		{"Scratch", func(op *driver.Voronoi) { op.Scratch.Off = -256 }},
	}
	for i, x := range tests {
		err := d.Do(context.Background(), Job{Label: "test", Footprint: 100 << 10}, func(q *Queue) error {
			sites, err := Alloc[driver.Point](q, 10, "sites")
			if err != nil {
				return err
			}
			labels, err := Alloc[uint32](q, 1000, "labels")
			if err != nil {
				return err
			}
			scratch, err := Alloc[byte](q, 2000, "scratch")
			if err != nil {
				return err
			}
			op := driver.Voronoi{Sites: sites.Slice(), N: 10, Width: 40, Height: 25, Labels: labels.Slice(),
				Scratch: scratch.Slice()}
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
}
