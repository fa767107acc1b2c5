// The ops between images and the planes of numbers that diffusion works on.

package driver

import "cmp"

// Colours is how many channels of an image are colours: all but alpha, which is the last of two or four.
func (f PixelFormat) Colours() int {
	if f.HasAlpha() {
		return int(f.Channels) - 1
	}
	return int(f.Channels)
}

// HasAlpha reports whether the last channel is alpha.
func (f PixelFormat) HasAlpha() bool { return f.Channels == 2 || f.Channels == 4 }

// Unpack writes the colours of an image as planes of numbers, and which pixels are given: those that a mask leaves out
// and, where the image has alpha, whose alpha is the largest.
//
// The number of a sample v is float32(min(v, Levels-1)) / float32(Levels-1), 0 to 1, rounded once. All backends write
// the same bits. Time grows with the pixels.
type Unpack struct {
	Src Image
	// Mask is Width*Height bytes in row-major order: pixels where it is not 0 are not given. An empty one leaves out
	// nothing.
	Mask Slice
	// Flags receives Width*Height bytes in row-major order: [DiffusionFixed] where the pixel is given, and else 0.
	Flags Slice
	// Planes receives Src.Format.Colours() planes of Width*Height float32 in row-major order.
	Planes Slice
}

// Pack is the way back: it rounds planes of numbers to samples, the nearest one, of two the greater, and those beyond
// the range of the format to its ends; what is not a number becomes 0. Alpha becomes the largest.
//
// Pixels that Flags say are given are those of Src, whatever the planes say, and what has become of their alpha.
// Residual receives Src less Dst plus half of the levels, in each colour, cut to the range of the format, and the
// largest alpha. Dst and Residual have the size and the number of colours of the planes; Src and Residual have the
// format of Dst, but for its alpha and the order of channels, which are each one's own. All backends write the same
// bytes, and none between rows. Time grows with the pixels.
type Pack struct {
	// Planes is Dst.Format.Colours() planes of Width*Height float32 in row-major order.
	Planes Slice
	// Flags is Width*Height bytes in row-major order, or empty where no pixels are to be taken from Src.
	Flags Slice
	// Src is not looked at where Flags and Residual.Data are empty.
	Src Image
	Dst Image
	// Residual is left out where its Data is empty.
	Residual Image
}

func (op *Unpack) name() string { return "Unpack" }

func (op *Unpack) check() error { return op.Src.check(op.name(), "Src.") }

func (op *Unpack) operands(to []Operand) []Operand {
	pixels := int64(op.Src.Width) * int64(op.Src.Height)
	return append(to,
		exact("Planes", &op.Planes, 4*pixels*int64(op.Src.Format.Colours()), Write),
		pixelBytes("Mask", &op.Mask, pixels, Read, true),
		pixelBytes("Flags", &op.Flags, pixels, Write, false),
		op.Src.operand("Src.Data", Read))
}

// pixelBytes is an operand of a byte for each pixel, which may begin anywhere, and may be left out where it is
// optional.
func pixelBytes(field string, s *Slice, pixels int64, a Access, optional bool) Operand {
	if optional && s.Len == 0 {
		pixels = 0
	}
	return Operand{Field: field, Slice: s, Bytes: pixels, Access: a, Align: 1}
}

func (op *Pack) name() string { return "Pack" }

func (op *Pack) check() error {
	name := op.name()
	err := op.Dst.check(name, "Dst.")
	if err == nil && op.TakesSrc() {
		err = cmp.Or(op.Src.check(name, "Src."), op.Src.like(name, "Src", &op.Dst))
	}
	if err == nil && op.Residual.Data.Len > 0 {
		err = cmp.Or(op.Residual.check(name, "Residual."), op.Residual.like(name, "Residual", &op.Dst))
	}
	return err
}

// TakesSrc reports whether the op looks at Src.
func (op *Pack) TakesSrc() bool { return op.Flags.Len > 0 || op.Residual.Data.Len > 0 }

// like checks that an image has the size of Dst, and as many colours with as many levels.
func (m *Image) like(op, field string, dst *Image) error {
	switch f, g := m.Format, dst.Format; {
	case m.Width != dst.Width:
		return refuse(op, field+".Width", m.Width, "must be that of Dst, %d", dst.Width)
	case m.Height != dst.Height:
		return refuse(op, field+".Height", m.Height, "must be that of Dst, %d", dst.Height)
	case f.Colours() != g.Colours() || f.SampleBytes != g.SampleBytes || f.Bits != g.Bits:
		return refuse(op, field+".Format", f, "must have the colours and bits of %v, the format of Dst", g)
	}
	return nil
}

func (op *Pack) operands(to []Operand) []Operand {
	pixels := int64(op.Dst.Width) * int64(op.Dst.Height)
	to = append(to,
		exact("Planes", &op.Planes, 4*pixels*int64(op.Dst.Format.Colours()), Read),
		pixelBytes("Flags", &op.Flags, pixels, Read, true))
	if op.TakesSrc() {
		to = append(to, op.Src.operand("Src.Data", Read))
	}
	if op.Residual.Data.Len > 0 {
		to = append(to, op.Residual.operand("Residual.Data", Write))
	}
	return append(to, op.Dst.operand("Dst.Data", Write))
}
