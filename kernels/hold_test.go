package kernels

import (
	"context"
	"errors"
	"testing"

	"github.com/polyscan/polyscan/kernels/driver"
)

func TestHoldChecks(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 1 << 20})
	tests := []struct {
		field string // of the error; "": none
		spoil func(op *driver.Hold)
	}{
		{"", func(*driver.Hold) {}},
		{"", func(op *driver.Hold) { op.N, op.Max, op.Points.Len, op.Triangles.Len, op.Colors.Len = 0, 0, 0, 0, 0 }},
		{"", func(op *driver.Hold) { op.Limit, op.Jump = 65535, 65535 }},
		{"", func(op *driver.Hold) { op.Dst.Stride-- }},
		{"N", func(op *driver.Hold) { op.N = -1 }},
		{"N", func(op *driver.Hold) { op.N = driver.MaxPoints + 1 }},
		{"Max", func(op *driver.Hold) { op.Max = -1 }},
		{"Max", func(op *driver.Hold) { op.Max = 2*driver.MaxPoints + 1 }},
		{"Limit", func(op *driver.Hold) { op.Limit = -1 }},
		{"Limit", func(op *driver.Hold) { op.Limit = op.Jump + 1 }},
		{"Jump", func(op *driver.Hold) { op.Jump = -1 }},
		{"Jump", func(op *driver.Hold) { op.Jump = 65536 }},
		{"Before.Width", func(op *driver.Hold) { op.Before.Width = 0 }},
		{"Dst.Width", func(op *driver.Hold) { op.Dst.Width-- }},
		{"Dst.Height", func(op *driver.Hold) { op.Dst.Height-- }},
		{"Dst.Format", func(op *driver.Hold) { op.Dst.Format = driver.BGR8 }},
		{"Dst.Stride", func(op *driver.Hold) { op.Dst.Stride = 119 }},
		{"Dst.Data", func(op *driver.Hold) { op.Dst.Data = op.Before.Data }},
		{"Before.Data", func(op *driver.Hold) { op.Before.Data.Off = 1 << 20 }},
		{"Dst.Data.Mem", func(op *driver.Hold) { op.Dst.Data.Mem = nil }},
		{"Points", func(op *driver.Hold) { op.N++ }},
		{"Points.Off", func(op *driver.Hold) { op.Points.Off += 8 }},
		{"Triangles", func(op *driver.Hold) { op.Triangles.Len-- }},
		{"Count", func(op *driver.Hold) { op.Count.Len = 8 }},
		{"Colors", func(op *driver.Hold) { op.Colors.Len-- }},
		{"Changed", func(op *driver.Hold) { op.Changed.Len = 8 }},
		{"Changed.Off", func(op *driver.Hold) { op.Changed.Off += 4 }},
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
			op := driver.Hold{Before: im, Dst: im, Limit: 5, Jump: 10, Changed: bytes(4), Points: bytes(80), N: 10,
				Triangles: bytes(240), Count: bytes(4), Max: 20, Colors: bytes(60)}
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
