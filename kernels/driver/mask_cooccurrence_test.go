package driver

import (
	"errors"
	"testing"
)

// TestCooccurrenceArguments: each argument out of its bounds is named, and those at the bounds pass.
func TestCooccurrenceArguments(t *testing.T) {
	good := func() *MaskCooccurrence {
		return &MaskCooccurrence{Count: 2, Levels: 64, Offsets: []PixelOffset{{DX: 1}}, ToRow: 5,
			Frame: Image{Width: 8, Height: 5, Stride: 8, Format: Gray8}}
	}
	for _, c := range []struct {
		field string // "" where it is fine
		set   func(*MaskCooccurrence)
	}{
		{"", func(*MaskCooccurrence) {}},
		{"", func(op *MaskCooccurrence) { op.Levels = MinPairLevels }},
		{"", func(op *MaskCooccurrence) { op.Levels = MaxPairLevels }},
		{"", func(op *MaskCooccurrence) { op.Offsets = make([]PixelOffset, MaxPairOffsets) }},
		{"", func(op *MaskCooccurrence) { op.Offsets[0] = PixelOffset{-MaxPairReach, MaxPairReach} }},
		{"", func(op *MaskCooccurrence) { op.Count, op.FromRow, op.ToRow = 0, 1<<30, 1<<30 }},
		{"Levels", func(op *MaskCooccurrence) { op.Levels = MinPairLevels - 1 }},
		{"Levels", func(op *MaskCooccurrence) { op.Levels = MaxPairLevels + 1 }},
		{"Offsets", func(op *MaskCooccurrence) { op.Offsets = nil }},
		{"Offsets", func(op *MaskCooccurrence) { op.Offsets = make([]PixelOffset, MaxPairOffsets+1) }},
		{"Offsets[0]", func(op *MaskCooccurrence) { op.Offsets[0].DX = MaxPairReach + 1 }},
		{"Offsets[0]", func(op *MaskCooccurrence) { op.Offsets[0].DY = -MaxPairReach - 1 }},
		{"FromRow, ToRow", func(op *MaskCooccurrence) { op.FromRow = -1 }},
		{"FromRow, ToRow", func(op *MaskCooccurrence) { op.FromRow = 6 }},
		{"Row0", func(op *MaskCooccurrence) { op.Row0 = -1 }},
		{"First, Count", func(op *MaskCooccurrence) { op.Count = -1 }},
		{"Frame.Stride", func(op *MaskCooccurrence) { op.Frame.Stride = 7 }},
	} {
		op := good()
		c.set(op)
		err := Check(op)
		var bad *ArgError
		if errors.As(err, &bad) != (c.field != "") || bad != nil && bad.Field != c.field {
			t.Errorf("%+v: %v, want %q refused", op, err, c.field)
		}
	}
	// Counts have room for each region, channel and offset.
	op := good()
	op.Frame.Format, op.Frame.Stride = RGB8, 24
	for _, o := range Operands(op, nil) {
		if o.Field == "Counts" && o.Bytes != 4*2*3*64*64 {
			t.Errorf("Counts take %d bytes", o.Bytes)
		}
	}
}
