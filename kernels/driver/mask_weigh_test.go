package driver

import (
	"errors"
	"testing"
)

// TestWeighArguments: each argument out of its bounds is named, and those at the bounds pass.
func TestWeighArguments(t *testing.T) {
	for _, c := range []struct {
		field string // "" where it is fine
		set   func(*MaskWeigh)
	}{
		{"", func(*MaskWeigh) {}},
		{"", func(op *MaskWeigh) { op.Regions, op.Count = 0, 0 }},
		{"", func(op *MaskWeigh) { op.First, op.Count = 3, 0 }},
		{"Regions", func(op *MaskWeigh) { op.Regions = -1 }},
		{"First, Count", func(op *MaskWeigh) { op.Count = 4 }},
		{"First, Count", func(op *MaskWeigh) { op.First = -1 }},
		{"Pixels", func(op *MaskWeigh) { op.Pixels.Len = 12 }},
		{"Row0", func(op *MaskWeigh) { op.Row0 = -1 }},
		{"Frame.Stride", func(op *MaskWeigh) { op.Frame.Stride = 7 }},
	} {
		op := &MaskWeigh{Regions: 3, Count: 2, Frame: Image{Width: 8, Height: 5, Stride: 8, Format: Gray8}}
		c.set(op)
		err := Check(op)
		var bad *ArgError
		if errors.As(err, &bad) != (c.field != "") || bad != nil && bad.Field != c.field {
			t.Errorf("error %v, want %q", err, c.field)
		}
	}
	for _, w := range []int32{0, 1, -1, 1 << 16, -1 << 16} {
		if p := NewWeightedPixel(MaxSide-1, 12345, w); p.X() != MaxSide-1 || p.Y() != 12345 || p.Weight() != w {
			t.Errorf("%d comes back as %d of (%d, %d)", w, p.Weight(), p.X(), p.Y())
		}
	}
}
