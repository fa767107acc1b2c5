package driver

import (
	"errors"
	"testing"
)

// TestProfileArguments: each argument out of its bounds is named, and those at the bounds pass.
func TestProfileArguments(t *testing.T) {
	good := func(axis ProfileAxis) *MaskProfile {
		op := &MaskProfile{Count: 2, Regions: 2, ToRow: 5, Axis: axis, Step: 1,
			Frame: Image{Width: 8, Height: 5, Stride: 8, Format: Gray8}}
		if axis == ProfileLine {
			op.Step, op.Segments = 0, []ProfileSegment{{DX: Subpixel, Bins: 1, Low: -1, High: 1}}
		}
		return op
	}
	const far = MaxProfilePlace * Subpixel
	for _, c := range []struct {
		axis  ProfileAxis
		field string // "" where it is fine
		set   func(*MaskProfile)
	}{
		{ProfileRows, "", func(*MaskProfile) {}},
		{ProfileColumns, "", func(op *MaskProfile) { op.Step = MaxProfileStep }},
		{ProfileRadius, "", func(op *MaskProfile) { op.Step = MaxProfileStep * Subpixel }},
		{ProfileRadius, "", func(op *MaskProfile) { op.CentreX, op.CentreY = far, -far }},
		{ProfileLine, "", func(*MaskProfile) {}},
		{ProfileLine, "", func(op *MaskProfile) {
			op.Segments[0] = ProfileSegment{X: far, Y: -far, DX: MaxProfileLength * Subpixel,
				DY: -MaxProfileLength * Subpixel, Bins: MaxProfileBins - 1, First: MaxProfileBins - 1,
				Low: -MaxProfileAside, High: MaxProfileAside}
		}},
		{ProfileRows, "", func(op *MaskProfile) { op.Count, op.FromRow, op.ToRow = 0, 1<<30, 1<<30 }},
		{ProfileLine + 1, "Axis", func(*MaskProfile) {}},
		{ProfileRows, "Step", func(op *MaskProfile) { op.Step = 0 }},
		{ProfileColumns, "Step", func(op *MaskProfile) { op.Step = MaxProfileStep + 1 }},
		{ProfileRadius, "Step", func(op *MaskProfile) { op.Step = MaxProfileStep*Subpixel + 1 }},
		{ProfileLine, "Step", func(op *MaskProfile) { op.Step = 1 }},
		{ProfileRadius, "CentreX, CentreY", func(op *MaskProfile) { op.CentreY = far + 1 }},
		{ProfileRadius, "CentreX, CentreY", func(op *MaskProfile) { op.CentreX = -far - 1 }},
		{ProfileRows, "Segments", func(op *MaskProfile) { op.Segments = make([]ProfileSegment, 1) }},
		{ProfileLine, "Segments", func(op *MaskProfile) { op.Segments = nil }},
		{ProfileLine, "Segments", func(op *MaskProfile) { op.Segments = make([]ProfileSegment, MaxProfileSegments+1) }},
		{ProfileLine, "Segments[0]", func(op *MaskProfile) { op.Segments[0].X = far + 1 }},
		{ProfileLine, "Segments[0]", func(op *MaskProfile) { op.Segments[0].DX = MaxProfileLength*Subpixel + 1 }},
		{ProfileLine, "Segments[0]", func(op *MaskProfile) { op.Segments[0].DY = -MaxProfileLength*Subpixel - 1 }},
		{ProfileLine, "Segments[0]", func(op *MaskProfile) { op.Segments[0].DX = 0 }},
		{ProfileLine, "Segments[0].Bins", func(op *MaskProfile) { op.Segments[0].Bins = 0 }},
		{ProfileLine, "Segments[0].Bins", func(op *MaskProfile) { op.Segments[0].Bins = MaxProfileBins }},
		{ProfileLine, "Segments[0].First", func(op *MaskProfile) { op.Segments[0].First = MaxProfileBins }},
		{ProfileLine, "Segments[0].Low, High", func(op *MaskProfile) { op.Segments[0].Low = 2 }},
		{ProfileLine, "Segments[0].Low, High", func(op *MaskProfile) { op.Segments[0].High = MaxProfileAside + 1 }},
		{ProfileRows, "FromRow, ToRow", func(op *MaskProfile) { op.FromRow = -1 }},
		{ProfileRows, "FromRow, ToRow", func(op *MaskProfile) { op.FromRow = 6 }},
		{ProfileRows, "First, Count", func(op *MaskProfile) { op.First = 1 }},
		{ProfileRows, "First, Count", func(op *MaskProfile) { op.Count = -1 }},
		{ProfileRows, "Regions", func(op *MaskProfile) { op.Regions = -1 }},
		{ProfileRows, "Bins", func(op *MaskProfile) { op.Bins.Len = 8 }},
		{ProfileRows, "Row0", func(op *MaskProfile) { op.Row0 = -1 }},
		{ProfileRows, "Frame.Stride", func(op *MaskProfile) { op.Frame.Stride = 7 }},
	} {
		op := good(c.axis)
		c.set(op)
		err := Check(op)
		var bad *ArgError
		if errors.As(err, &bad) != (c.field != "") || bad != nil && bad.Field != c.field {
			t.Errorf("%+v: %v, want %q refused", op, err, c.field)
		}
	}
	for _, o := range Operands(good(ProfileRows), nil) {
		if o.Field == "Places" && o.Bytes != 2*16 {
			t.Errorf("Places take %d bytes", o.Bytes)
		}
	}
}
