// Weighing: pixels with weights of their own, such as those that a region's boundary crosses.

package driver

import (
	"cmp"
	"unsafe"
)

// WeightBits says what weights are counted in: units of 1 / (1 << WeightBits) of a pixel.
const WeightBits = 16

// WeightedPixel is a pixel and a weight: the column in bits 0 to 19, the row in bits 20 to 39, and above them the
// weight as a signed number.
type WeightedPixel uint64

// NewWeightedPixel packs them. Column and row are 0 to MaxSide-1, |weight| is at most 1 << WeightBits.
func NewWeightedPixel(x, y int, weight int32) WeightedPixel {
	return WeightedPixel(x) | WeightedPixel(y)<<20 | WeightedPixel(int64(weight))<<40
}

// X is the column.
func (p WeightedPixel) X() int { return int(p & 0xfffff) }

// Y is the row.
func (p WeightedPixel) Y() int { return int(p >> 20 & 0xfffff) }

// Weight is the weight.
func (p WeightedPixel) Weight() int32 { return int32(int64(p) >> 40) }

// WeightSums are the weighted sums of one channel of one region: exact integers in two's complement, which can be added
// in any order.
//
// With |weight| <= 2^16, samples below 2^16 and fewer than 2^31 pixels, no sum leaves 64 bits: Weight stays below 2^47,
// and the others below 2^63. Squares of samples are summed up in two halves for that.
//
// Mirrored by WeightSums in kernels/cu/abi/mask_weigh.cuh: 32 bytes.
type WeightSums struct {
	Weight int64 // of w
	Sum    int64 // of w*v
	SqLow  int64 // of w * (v*v mod 2^16)
	SqHigh int64 // of w * (v*v >> 16)
}

// Add adds the sums over other pixels.
func (s *WeightSums) Add(o WeightSums) {
	s.Weight += o.Weight
	s.Sum += o.Sum
	s.SqLow += o.SqLow
	s.SqHigh += o.SqHigh
}

// MaskWeigh adds up the samples of listed pixels, times their weights, for regions [First, First+Count) of a list.
//
// Pixels holds [WeightedPixel] of all regions, and Starts where those of each begin: those of region i are numbers
// Starts[i] to Starts[i+1]-1, of which those behind the end of Pixels are none. Frame holds rows [Row0,
// Row0+Frame.Height) of an image, in which columns and rows are counted; pixels outside of the frame are left out, so
// that results of strips add up.
//
// Sums receives Count*Channels [WeightSums], a region's channels beside each other in the order R, G, B, A. Hist
// receives, for the same order, Levels int64 each, the sums of weights by sample; it has length 0 where no histogram is
// wanted. A sample of a 16-bit format above Levels-1 is counted there under its low Bits. With Accumulate results are
// added to what is there; else they are overwritten. They are exact, and don't depend on the backend or the order of
// pixels.
//
// Time grows with the pixels of those regions times channels, and with Hist.
type MaskWeigh struct {
	Pixels     Slice
	Starts     Slice // Regions+1 uint32
	Regions    int   // of the list
	First      int
	Count      int
	Frame      Image
	Row0       int
	Accumulate bool
	Sums       Slice
	Hist       Slice
}

func (op *MaskWeigh) name() string { return "MaskWeigh" }

func (op *MaskWeigh) check() error {
	name := op.name()
	if err := cmp.Or(checkRows(name, &op.Frame, op.Row0), checkRun(name, op.First, op.Count)); err != nil {
		return err
	}
	switch {
	case op.Regions < 0 || op.Regions > maxRegions:
		return refuse(name, "Regions", op.Regions, "must be 0 to %d", maxRegions)
	case op.First+op.Count > op.Regions:
		return refuse(name, "First, Count", [2]int{op.First, op.Count}, "end beyond the %d regions", op.Regions)
	case op.Pixels.Len%8 != 0:
		return refuse(name, "Pixels", op.Pixels.Len, "must be a multiple of 8 bytes")
	}
	return nil
}

func (op *MaskWeigh) operands(to []Operand) []Operand {
	rows, levels := int64(op.Count)*int64(op.Frame.Format.Channels), int64(0)
	if op.Hist.Len > 0 {
		levels = int64(op.Frame.Format.Levels())
	}
	return append(to,
		op.Frame.operand("Frame.Data", Read),
		exact("Pixels", &op.Pixels, op.Pixels.Len, Read),
		exact("Starts", &op.Starts, 4*int64(op.Regions+1), Read),
		exact("Sums", &op.Sums, rows*int64(unsafe.Sizeof(WeightSums{})), Read|Write),
		exact("Hist", &op.Hist, rows*levels*8, Read|Write))
}
