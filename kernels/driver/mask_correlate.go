// Correlation: sums of products of pixels that lie at a lag from each other inside a region.

package driver

import (
	"cmp"
	"fmt"
)

// Lag says where the second pixel of a pair lies: DX columns to the right of the first one, and DY rows below. Lags
// with the same Slot add up to one result.
type Lag struct{ DX, DY, Slot int32 }

// ChannelPair says of which channels the two samples of a pair are, each an index in the order R, G, B, A.
type ChannelPair struct{ A, B uint8 }

// Bounds of a [MaskCorrelate].
const (
	MaxLags     = 4096 // of one op
	MaxLagReach = MaxPairReach
	MaxSeries   = 16 // pairs of channels of one op: all of four channels
)

// PairSums are sums over pairs of samples a and b. They are integers, exact, and independent of the order in which
// pairs are visited. With at most 2^32 pairs of 16-bit samples no sum overflows: each product is below 2^32.
//
// Mirrored by PairSums in kernels/cu/abi/mask_correlate.cuh.
type PairSums struct {
	Pairs    uint64
	A, B     uint64
	SqA, SqB uint64 // of a*a, of b*b
	Product  uint64 // of a*b
}

const pairSumsBytes = 48

// MaskCorrelate adds up products of samples for regions [First, First+Count) of a prepared set. A pair is a pixel of
// rows [FromRow, ToRow) of Frame, with the sample a, and the pixel at a lag from it in Other, with the sample b; the
// places of both are inside the region and inside the frame. Other may be Frame itself, and has its size and its
// format.
//
// Frame holds rows [Row0, Row0+Frame.Height) of the image that the regions were prepared for, and has its width, as
// does Other. FromRow and ToRow count from the top of that image, and may reach beyond the frame.
//
// Sums receives Count*len(Series)*Slots PairSums: of each region its series as given, of each series its slots. With
// Accumulate sums are added to what is there, so that a region can be summed up in bands of rows; else they are
// overwritten. Sums are exact, and do not depend on the backend or the order of pixels.
//
// Scratch has at least Device.Scratch bytes. Only the backend can read Prepared: it fails the op where First+Count
// exceeds the regions there, or Frame and Row0 are not rows of the image it was prepared for. That holds for a Count of
// 0, too.
//
// Time grows with the pixels of the regions times Lags and Series.
//
// Source: Padfield, Masked object registration in the Fourier domain, 2012, whose masked sums these are. Runs of pairs
// by row spans (CPU) and by a bitmap of the region (CUDA) are ours.
type MaskCorrelate struct {
	Prepared       Slice
	First          int
	Count          int
	Frame, Other   Image
	Row0           int
	FromRow, ToRow int // of the first pixels
	// Lags are 1 to MaxLags, with components up to MaxLagReach, and Series 1 to MaxSeries; neither to be changed before
	// the op ran.
	Lags       []Lag
	Slots      int // 1 to MaxLags
	Series     []ChannelPair
	Accumulate bool
	Sums       Slice
	Scratch    Slice
}

func (op *MaskCorrelate) name() string { return "MaskCorrelate" }

// Still says that each pixel is paired with that at its own place, so that both are inside wherever one is.
func (op *MaskCorrelate) Still() bool {
	for _, l := range op.Lags {
		if l.DX != 0 || l.DY != 0 {
			return false
		}
	}
	return true
}

func (op *MaskCorrelate) check() error {
	name := op.name()
	if err := cmp.Or(
		checkRows(name, &op.Frame, op.Row0),
		op.Other.check(name, "Other."),
		checkRun(name, op.First, op.Count),
		between(name, "Slots", op.Slots, 1, MaxLags),
	); err != nil {
		return err
	}
	switch a, b := &op.Frame, &op.Other; {
	case a.Width != b.Width || a.Height != b.Height:
		return refuse(name, "Other.Width, Height", [2]int{b.Width, b.Height}, "must be those of Frame, %d and %d",
			a.Width, a.Height)
	case a.Format != b.Format:
		return refuse(name, "Other.Format", b.Format, "must be that of Frame, %v", a.Format)
	}
	if op.FromRow < 0 || op.ToRow < op.FromRow {
		return refuse(name, "FromRow, ToRow", [2]int{op.FromRow, op.ToRow}, "must not be negative, nor fall")
	}
	if n := len(op.Lags); n < 1 || n > MaxLags {
		return refuse(name, "Lags", n, "must be 1 to %d", MaxLags)
	}
	if n := len(op.Series); n < 1 || n > MaxSeries {
		return refuse(name, "Series", n, "must be 1 to %d", MaxSeries)
	}
	for i, s := range op.Series {
		if n := op.Frame.Format.Channels; max(s.A, s.B) >= n {
			return refuse(name, fmt.Sprintf("Series[%d]", i), s, "has a channel beyond the %d of the format", n)
		}
	}
	var in [MaxLags]uint16
	most := uint16(0)
	for i, l := range op.Lags {
		switch {
		case max(l.DX, l.DY) > MaxLagReach || min(l.DX, l.DY) < -MaxLagReach:
			return refuse(name, fmt.Sprintf("Lags[%d]", i), l, "has a component beyond %d", MaxLagReach)
		case l.Slot < 0 || int(l.Slot) >= op.Slots:
			return refuse(name, fmt.Sprintf("Lags[%d].Slot", i), l.Slot, "must be 0 to %d", op.Slots-1)
		}
		in[l.Slot]++
		most = max(most, in[l.Slot])
	}
	// A sum of products of 16 bits has room for 2^32 pairs, one of bytes for all that there can be.
	pixels := uint64(op.Frame.Width) * uint64(op.Frame.Height)
	if op.Frame.Format.SampleBytes == 2 && uint64(most)*pixels > 1<<32 {
		return refuse(name, "Lags", most, "of one slot have more than 2^32 pairs of 16 bits in %d pixels", pixels)
	}
	return nil
}

func (op *MaskCorrelate) operands(to []Operand) []Operand {
	return append(to,
		op.Frame.operand("Frame.Data", Read),
		op.Other.operand("Other.Data", Read),
		made("Prepared", &op.Prepared),
		exact("Sums", &op.Sums, int64(op.Count)*int64(len(op.Series))*int64(op.Slots)*pairSumsBytes, Read|Write),
		scratch("Scratch", &op.Scratch, BackendSized))
}
