package kernels

import (
	"context"
	"errors"
	"testing"

	"github.com/polyscan/polyscan/kernels/driver"
)

func TestEdgesChecks(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 1 << 20})
	tests := []struct {
		field string // of the error; "": none
		spoil func(op *driver.Edges)
	}{
		{"", func(*driver.Edges) {}},
		{"", func(op *driver.Edges) { op.Src.Data.Off++ }},
		{"", func(op *driver.Edges) { op.Src.Format, op.Src.Stride = driver.Gray16(12), 80 }},
		{"", func(op *driver.Edges) { op.Src.Width, op.Src.Height, op.Src.Stride = 25, 40, 75 }},
		{"Src.Width", func(op *driver.Edges) { op.Src.Width = 0 }},
		{"Src.Height", func(op *driver.Edges) { op.Src.Height = driver.MaxSide + 1 }},
		{"Src.Format", func(op *driver.Edges) { op.Src.Format.Bits = 7 }},
		{"Src.Stride", func(op *driver.Edges) { op.Src.Stride = 119 }},
		{"Src.Data", func(op *driver.Edges) { op.Src.Data.Len-- }},
		{"Src.Data", func(op *driver.Edges) { op.Src.Data.Off = 1 << 20 }},
		{"Src.Data.Mem", func(op *driver.Edges) { op.Src.Data.Mem = nil }},
		{"Dst", func(op *driver.Edges) { op.Dst.Len -= 2 }},
		{"Dst", func(op *driver.Edges) { op.Dst.Off = -256 }},
		{"Dst.Off", func(op *driver.Edges) { op.Dst.Off -= 2 }},
		{"Dst.Mem", func(op *driver.Edges) { op.Dst.Mem = nil }},
	}
	for i, x := range tests {
		err := d.Do(context.Background(), Job{Label: "test", Footprint: 100 << 10}, func(q *Queue) error {
			src, err := Alloc[byte](q, 3000, "src")
			if err != nil {
				return err
			}
			dst, err := Alloc[uint16](q, 1000, "dst")
			if err != nil {
				return err
			}
			op := driver.Edges{
				Src: driver.Image{Data: src.Slice(), Width: 40, Height: 25, Stride: 120, Format: driver.RGB8},
				Dst: dst.Slice(),
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
}
