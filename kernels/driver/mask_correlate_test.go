package driver

import (
	"errors"
	"math"
	"math/bits"
	"testing"
)

// TestCorrelateArguments: each argument out of its bounds is named, and those at the bounds pass.
func TestCorrelateArguments(t *testing.T) {
	good := func() *MaskCorrelate {
		im := Image{Width: 8, Height: 5, Stride: 8, Format: Gray8}
		return &MaskCorrelate{Count: 2, Lags: []Lag{{DX: 1}}, Slots: 1, Series: []ChannelPair{{}}, ToRow: 5, Frame: im,
			Other: im}
	}
	wide := func(op *MaskCorrelate, width, height int) {
		op.Frame = Image{Width: width, Height: height, Stride: 2 * width, Format: Gray16(16)}
		op.Other = op.Frame
	}
	for _, c := range []struct {
		field string // "" where it is fine
		set   func(*MaskCorrelate)
	}{
		{"", func(*MaskCorrelate) {}},
		{"", func(op *MaskCorrelate) { op.Lags = make([]Lag, MaxLags) }},
		{"", func(op *MaskCorrelate) { op.Lags[0] = Lag{-MaxLagReach, MaxLagReach, 0} }},
		{"", func(op *MaskCorrelate) { op.Slots, op.Lags[0].Slot = MaxLags, MaxLags-1 }},
		{"", func(op *MaskCorrelate) { op.Count, op.FromRow, op.ToRow = 0, 1<<30, 1<<30 }},
		{"", func(op *MaskCorrelate) { op.Other.Stride = 100 }},
		{"", func(op *MaskCorrelate) { wide(op, 1<<16, 1<<12); op.Lags = make([]Lag, 16) }},
		{"Lags", func(op *MaskCorrelate) { wide(op, 1<<16, 1<<12); op.Lags = make([]Lag, 17) }},
		{"Lags", func(op *MaskCorrelate) { op.Lags = nil }},
		{"Lags", func(op *MaskCorrelate) { op.Lags = make([]Lag, MaxLags+1) }},
		{"Lags[0]", func(op *MaskCorrelate) { op.Lags[0].DX = MaxLagReach + 1 }},
		{"Lags[0]", func(op *MaskCorrelate) { op.Lags[0].DY = -MaxLagReach - 1 }},
		{"Lags[0].Slot", func(op *MaskCorrelate) { op.Lags[0].Slot = 1 }},
		{"Lags[0].Slot", func(op *MaskCorrelate) { op.Lags[0].Slot = -1 }},
		{"Slots", func(op *MaskCorrelate) { op.Slots = 0 }},
		{"Slots", func(op *MaskCorrelate) { op.Slots = MaxLags + 1 }},
		{"Series", func(op *MaskCorrelate) { op.Series = nil }},
		{"Series", func(op *MaskCorrelate) { op.Series = make([]ChannelPair, MaxSeries+1) }},
		{"Series[0]", func(op *MaskCorrelate) { op.Series[0].B = 1 }},
		{"Other.Width, Height", func(op *MaskCorrelate) { op.Other.Height = 4 }},
		{"Other.Format", func(op *MaskCorrelate) { op.Other.Format, op.Other.Stride = RGB8, 24 }},
		{"Other.Stride", func(op *MaskCorrelate) { op.Other.Stride = 7 }},
		{"FromRow, ToRow", func(op *MaskCorrelate) { op.FromRow = -1 }},
		{"FromRow, ToRow", func(op *MaskCorrelate) { op.FromRow = 6 }},
		{"Row0", func(op *MaskCorrelate) { op.Row0 = -1 }},
		{"First, Count", func(op *MaskCorrelate) { op.Count = -1 }},
		{"Frame.Stride", func(op *MaskCorrelate) { op.Frame.Stride = 7 }},
	} {
		op := good()
		c.set(op)
		err := Check(op)
		var bad *ArgError
		if errors.As(err, &bad) != (c.field != "") || bad != nil && bad.Field != c.field {
			t.Errorf("%+v: %v, want %q refused", op, err, c.field)
		}
	}
}

// TestPairSumsHaveRoom: what the check lets through stays below 2^64, of bytes whatever the lags.
func TestPairSumsHaveRoom(t *testing.T) {
	if hi, _ := bits.Mul64(1<<32, math.MaxUint16*math.MaxUint16); hi != 0 {
		t.Error("2^32 pairs of 16 bits overflow")
	}
	if hi, _ := bits.Mul64(MaxPixels*MaxLags, math.MaxUint8*math.MaxUint8); hi != 0 {
		t.Error("pairs of bytes overflow")
	}
}
