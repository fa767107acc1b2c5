// The op that takes a camera's and a light's unevenness out of pixels.

package driver

// Bounds of a flat field.
const (
	MinFraction = 9  // of Correct.Fraction
	MaxFraction = 15 // likewise
)

// fieldAlign is what the samples of a row of Correct.Dark and Correct.Gain are padded to a multiple of.
const fieldAlign = 16

// Correct is flat-field correction: each sample is freed from what a camera adds to it in the dark, and multiplied by
// what makes an even scene even. With the largest sample of the format max, 255 or 2^Bits - 1, and the dark value and
// the gain of its place,
//
//	out = clamp(floor(((raw - dark) * gain + 2^(Fraction-1)) / 2^Fraction), 0, max)
//
// so that gain is a fixed-point number with Fraction bits behind the point: nearest, of two the greater. A sample of max
// is saturated: nobody knows how bright it was, and it stays max. One beyond max, of a format with fewer bits than its
// samples have, stays as it is, so that those who look for such samples find it.
//
// It is of samples, whatever they stand for: alpha stays as it is where its dark is 0 and its gain 1, 1<<Fraction.
//
// All of it is integers, the same on every backend. Time grows with the samples. Source: EMVA Standard 1288, and what
// cameras have for it, in integers.
type Correct struct {
	Src Image
	// Dst has the size and the format of Src. It is apart from it.
	Dst Image
	// Fraction is MinFraction to MaxFraction.
	Fraction int
	// FieldRows is how many rows Dark and Gain have: as many as Src, or 1 that all rows of Src have, as the columns of a
	// line-scan camera do.
	FieldRows int
	// Dark has samples as Src has them, and Gain a uint16 for each of them, both in the order of the samples in memory.
	// Rows follow each other, those of Dark [FieldPitch] samples apart, those of Gain as many uint16.
	Dark, Gain Slice
}

// FieldPitch is how many samples apart the rows of a field for images of a width are.
func FieldPitch(width int, f PixelFormat) int {
	return (width*int(f.Channels) + fieldAlign - 1) / fieldAlign * fieldAlign
}

func (op *Correct) name() string { return "Correct" }

func (op *Correct) check() error {
	name := op.name()
	if err := op.Src.check(name, "Src."); err != nil {
		return err
	}
	if err := op.Dst.check(name, "Dst."); err != nil {
		return err
	}
	if err := op.Dst.as(name, "Dst", &op.Src, "Src"); err != nil {
		return err
	}
	if op.FieldRows != 1 && op.FieldRows != op.Src.Height {
		return refuse(name, "FieldRows", op.FieldRows, "must be 1, or the %d of Src", op.Src.Height)
	}
	return between(name, "Fraction", op.Fraction, MinFraction, MaxFraction)
}

func (op *Correct) operands(to []Operand) []Operand {
	dst := op.Dst.operand("Dst.Data", Write)
	dst.Apart = true
	samples := int64(FieldPitch(op.Src.Width, op.Src.Format)) * int64(op.FieldRows)
	return append(to, op.Src.operand("Src.Data", Read), dst,
		Operand{Field: "Dark", Slice: &op.Dark, Bytes: samples * int64(op.Src.Format.SampleBytes), Access: Read,
			Align: fieldAlign},
		Operand{Field: "Gain", Slice: &op.Gain, Bytes: samples * 2, Access: Read, Align: fieldAlign})
}
