// Co-occurrence: how often pairs of grey levels lie at an offset from each other inside a region.

package driver

import (
	"cmp"
	"fmt"
)

// PixelOffset says where the second pixel of a pair lies: DX columns to the right of the first one, and DY rows below.
type PixelOffset struct{ DX, DY int32 }

// Bounds of a [MaskCooccurrence]. With MaxPixels pixels no count overflows.
const (
	MinPairLevels  = 2
	MaxPairLevels  = 256  // grey levels
	MaxPairOffsets = 16   // of one op
	MaxPairReach   = 4096 // the greatest |DX| and |DY|
)

// MaskCooccurrence counts pairs of pixels by their grey levels, for regions [First, First+Count) of a prepared set: the
// grey-level co-occurrence matrices of each region. A pair is a pixel of rows [FromRow, ToRow) and the pixel at an
// offset from it, both inside the region and inside the frame.
//
// The level of a sample v of a format with Bits bits is v*Levels >> Bits, and Levels-1 at most: Levels intervals of
// equal width, as close as integers can be, and one for each value where Levels is 1 << Bits.
//
// Frame holds rows [Row0, Row0+Frame.Height) of the image that the regions were prepared for, and has its width.
// FromRow and ToRow count from the top of that image, and may reach beyond the frame.
//
// Counts receives Count*Channels*len(Offsets)*Levels*Levels uint32: of each region its channels in the order R, G, B,
// A, of each channel its offsets as given, of each offset a row for each level of the first pixel with a column for
// each level of the second. With Accumulate counts are added to what is there, so that a region can be counted in bands
// of rows; else they are overwritten. Counts are exact, and do not depend on the backend or the order of pixels.
//
// Scratch has at least Device.Scratch bytes. Only the backend can read Prepared: it fails the op where First+Count
// exceeds the regions there, or Frame and Row0 are not rows of the image it was prepared for. That holds for a Count of
// 0, too.
//
// Time grows with the pixels of the regions times Offsets and channels, and with Counts.
//
// Source: Haralick, Shanmugam, Dinstein, Textural features for image classification, 1973. Tests of the partner by row
// spans (CPU) and by a bitmap of the region (CUDA) are ours.
type MaskCooccurrence struct {
	Prepared       Slice
	First          int
	Count          int
	Frame          Image
	Row0           int
	FromRow, ToRow int           // of the first pixels
	Offsets        []PixelOffset // 1 to MaxPairOffsets, components up to MaxPairReach; not to be changed before the op ran
	Levels         int           // MinPairLevels to MaxPairLevels
	Accumulate     bool
	Counts         Slice
	Scratch        Slice
}

func (op *MaskCooccurrence) name() string { return "MaskCooccurrence" }

// CellCount is how many counts a channel of a region has.
func (op *MaskCooccurrence) CellCount() int { return len(op.Offsets) * op.Levels * op.Levels }

func (op *MaskCooccurrence) check() error {
	name := op.name()
	if err := cmp.Or(
		checkRows(name, &op.Frame, op.Row0),
		checkRun(name, op.First, op.Count),
		between(name, "Levels", op.Levels, MinPairLevels, MaxPairLevels),
	); err != nil {
		return err
	}
	if op.FromRow < 0 || op.ToRow < op.FromRow {
		return refuse(name, "FromRow, ToRow", [2]int{op.FromRow, op.ToRow}, "must not be negative, nor fall")
	}
	if n := len(op.Offsets); n < 1 || n > MaxPairOffsets {
		return refuse(name, "Offsets", n, "must be 1 to %d", MaxPairOffsets)
	}
	for i, o := range op.Offsets {
		if max(o.DX, o.DY) > MaxPairReach || min(o.DX, o.DY) < -MaxPairReach {
			return refuse(name, fmt.Sprintf("Offsets[%d]", i), o, "has a component beyond %d", MaxPairReach)
		}
	}
	return nil
}

func (op *MaskCooccurrence) operands(to []Operand) []Operand {
	cells := int64(op.Count) * int64(op.Frame.Format.Channels) * int64(op.CellCount())
	return append(to,
		op.Frame.operand("Frame.Data", Read),
		made("Prepared", &op.Prepared),
		exact("Counts", &op.Counts, cells*4, Read|Write),
		scratch("Scratch", &op.Scratch, BackendSized))
}
