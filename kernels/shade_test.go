package kernels

import (
	"context"
	"errors"
	"testing"

	"github.com/polyscan/polyscan/kernels/driver"
)

func TestShadeChecks(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 1 << 20})
	tests := []struct {
		field string // of the error; "": none
		spoil func(op *driver.Shade)
	}{
		{"", func(*driver.Shade) {}},
		{"", func(op *driver.Shade) { op.N, op.Max, op.Points.Len, op.Triangles.Len, op.Colors.Len = 0, 0, 0, 0, 0 }},
		{"", func(op *driver.Shade) { op.Method, op.Color = driver.PerTile, driver.CentroidColor }},
		{"", func(op *driver.Shade) { op.Dst.Stride-- }},
		{"N", func(op *driver.Shade) { op.N = -1 }},
		{"N", func(op *driver.Shade) { op.N = driver.MaxPoints + 1 }},
		{"Max", func(op *driver.Shade) { op.Max = -1 }},
		{"Max", func(op *driver.Shade) { op.Max = 2*driver.MaxPoints + 1 }},
		{"Method", func(op *driver.Shade) { op.Method = driver.PerTile + 1 }},
		{"Color", func(op *driver.Shade) { op.Color = driver.CentroidColor + 1 }},
		{"Src.Width", func(op *driver.Shade) { op.Src.Width = 0 }},
		{"Dst.Width", func(op *driver.Shade) { op.Dst.Width-- }},
		{"Dst.Height", func(op *driver.Shade) { op.Dst.Height-- }},
		{"Dst.Format", func(op *driver.Shade) { op.Dst.Format = driver.BGR8 }},
		{"Dst.Stride", func(op *driver.Shade) { op.Dst.Stride = 119 }},
		{"Dst.Data", func(op *driver.Shade) { op.Dst.Data = op.Src.Data }},
		{"Src.Data", func(op *driver.Shade) { op.Src.Data.Off = 1 << 20 }},
		{"Dst.Data.Mem", func(op *driver.Shade) { op.Dst.Data.Mem = nil }},
		{"Points", func(op *driver.Shade) { op.N++ }},
		{"Points.Off", func(op *driver.Shade) { op.Points.Off += 8 }},
		{"Triangles", func(op *driver.Shade) { op.Triangles.Len-- }},
		{"Count", func(op *driver.Shade) { op.Count.Len = 8 }},
		{"Colors", func(op *driver.Shade) { op.Colors.Len-- }},
		{"Scratch", func(op *driver.Shade) { op.Scratch.Len = 999 }},
		{"Scratch", func(op *driver.Shade) { op.Scratch.Off = -256 }},
	}
	for i, x := range tests {
		err := d.Do(context.Background(), Job{Label: "test", Footprint: 100 << 10}, func(q *Queue) error {
			bytes := func(n int) driver.Slice {
				b, err := Alloc[byte](q, n, "bytes")
				if err != nil {
					t.Fatal(err)
				}
				return b.Slice()
			}
			im := driver.Image{Data: bytes(3025), Width: 40, Height: 25, Stride: 121, Format: driver.RGB8}
			op := driver.Shade{
				Src: im, Dst: im, Points: bytes(80), N: 10, Triangles: bytes(240), Count: bytes(4), Max: 20,
				Colors: bytes(60), Scratch: bytes(1000),
			}
			op.Dst.Data = bytes(3025)
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
