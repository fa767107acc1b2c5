package kernels

import (
	"context"
	"errors"
	"testing"

	"github.com/polyscan/polyscan/kernels/driver"
)

func TestPackChecks(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 1 << 20})
	type ops struct {
		unpack driver.Unpack
		pack   driver.Pack
	}
	tests := []struct {
		unpack, pack string // the field that the error is about; "": none
		spoil        func(op *ops)
	}{
		{"", "", func(*ops) {}},
		{"", "", func(op *ops) { op.unpack.Mask, op.pack.Flags = driver.Slice{}, driver.Slice{} }},
		{"", "", func(op *ops) {
			op.pack.Residual, op.pack.Flags, op.pack.Src = driver.Image{}, driver.Slice{}, driver.Image{}
		}},
		{"", "", func(op *ops) { op.unpack.Src.Format, op.pack.Src.Format = driver.BGR8, driver.BGR8 }},
		{"", "", func(op *ops) { op.unpack.Flags.Off++; op.pack.Flags.Off++; op.unpack.Src.Data.Off++ }},
		{"Src.Width", "Dst.Width", func(op *ops) { op.unpack.Src.Width, op.pack.Dst.Width = 0, 0 }},
		{"Src.Format", "Dst.Format", func(op *ops) { op.unpack.Src.Format.Bits, op.pack.Dst.Format.Bits = 9, 9 }},
		{"Src.Stride", "Residual.Stride", func(op *ops) { op.unpack.Src.Stride, op.pack.Residual.Stride = 119, 119 }},
		{"Src.Data", "Src.Data", func(op *ops) { op.unpack.Src.Data.Len, op.pack.Src.Data.Len = 2999, 2999 }},
		{"Src.Data.Mem", "Dst.Data.Mem", func(op *ops) { op.unpack.Src.Data.Mem, op.pack.Dst.Data.Mem = nil, nil }},
		{"Planes", "Planes", func(op *ops) { op.unpack.Planes.Len -= 4; op.pack.Planes.Len += 4 }},
		{"Planes.Off", "Planes.Off", func(op *ops) { op.unpack.Planes.Off += 4; op.pack.Planes.Off += 4 }},
		{"Planes", "Src.Format", func(op *ops) { op.unpack.Src.Format, op.pack.Dst.Format = driver.Gray8, driver.Gray8 }},
		{"Mask", "Flags", func(op *ops) { op.unpack.Mask.Len--; op.pack.Flags.Len-- }},
		{"Mask.Mem", "Flags.Mem", func(op *ops) { op.unpack.Mask.Mem, op.pack.Flags.Mem = nil, nil }},
		{"Flags", "Src.Width", func(op *ops) { op.unpack.Flags.Len = 0; op.pack.Src.Width-- }},
		{"", "Src.Format", func(op *ops) { op.pack.Src.Format, op.pack.Src.Stride = driver.Gray16(12), 80 }},
		{"", "Residual.Height", func(op *ops) { op.pack.Residual.Height-- }},
		{"", "Residual.Format", func(op *ops) { op.pack.Residual.Format = driver.Gray8 }},
		{"", "Residual.Data.Mem", func(op *ops) { op.pack.Residual.Data.Mem = nil }},
		{"", "", func(op *ops) { op.pack.Dst.Format, op.pack.Dst.Stride = driver.RGBA8, 160 }},
	}
	for i, x := range tests {
		var errs [2]error
		err := d.Do(context.Background(), Job{Label: "test", Footprint: 200 << 10}, func(q *Queue) error {
			image := func() driver.Image {
				b, err := Alloc[byte](q, 4001, "image")
				if err != nil {
					t.Fatal(err)
				}
				return driver.Image{Data: b.Slice(), Width: 40, Height: 25, Stride: 120, Format: driver.RGB8}
			}
			pixels := func() driver.Slice {
				b, err := Alloc[byte](q, 1001, "pixels")
				if err != nil {
					t.Fatal(err)
				}
				s := b.Slice()
				s.Len = 1000
				return s
			}
			planes, err := Alloc[float32](q, 3000, "planes")
			if err != nil {
				return err
			}
			op := ops{
				driver.Unpack{Src: image(), Mask: pixels(), Flags: pixels(), Planes: planes.Slice()},
				driver.Pack{Planes: planes.Slice(), Flags: pixels(), Src: image(), Dst: image(), Residual: image()},
			}
			op.unpack.Src.Data.Len--
			x.spoil(&op)
			errs[0], errs[1] = q.Run(&op.unpack), q.Run(&op.pack)
			return nil
		})
		if err != nil {
			t.Errorf("%d: %v", i, err)
		}
		for k, field := range []string{x.unpack, x.pack} {
			var arg *ArgError
			switch {
			case field == "" && errs[k] != nil:
				t.Errorf("%d: %v", i, errs[k])
			case field != "" && (!errors.As(errs[k], &arg) || arg.Field != field):
				t.Errorf("%d: %v, want an error about %s", i, errs[k], field)
			}
		}
	}
}
