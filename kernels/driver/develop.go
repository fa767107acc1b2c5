// The op that makes pixels as ops take them of what cameras send.

package driver

import "fmt"

// CodingKind is how the samples of a camera stand for pixels.
type CodingKind uint8

const (
	Plain CodingKind = iota // as a [PixelFormat] says
	Mono                    // gray, packed
	UYVY                    // YUV 4:2:2: bytes U, Y of a pixel, V, Y of the next one
	YUYV                    // YUV 4:2:2: bytes Y of a pixel, U, Y of the next one, V
	Bayer                   // each pixel has one of three colours
)

// Demosaic is how the colours of [Bayer] are interpolated.
type Demosaic uint8

const (
	Bilinear       Demosaic = iota // the mean of the two or four nearest pixels of the colour
	MalvarHeCutler                 // that, corrected by the second derivative of the pixel's own colour
)

// Coding says how a camera sends pixels that ops don't take as they are. [Develop] makes those of Format of them. The
// zero value is pixels that are as a [PixelFormat] says.
type Coding struct {
	Kind CodingKind
	// Bits of a sample: 8 of UYVY and YUYV; 10 or 12 of Mono, which is packed; of Bayer 8, in a byte, or 10, 12, 14 or
	// 16 in two (little endian), or 10 or 12 packed.
	Bits uint8
	// Packed says that samples follow each other without gaps, the first in the lowest bits of the first byte. Each row
	// begins with a byte of its own.
	Packed bool
	// Phase says where red is in each two columns and rows of Bayer: in the first column, or with bit 0 in the second;
	// in the first row, or with bit 1 in the second.
	Phase    uint8
	Demosaic Demosaic // of Bayer
}

// Format is what the pixels become; the zero value for what is [Plain].
func (c Coding) Format() PixelFormat {
	switch c.Kind {
	case Plain:
		return PixelFormat{}
	case Mono:
		return Gray16(int(c.Bits))
	}
	return RGB8
}

// String is the name that the protocol has for the coding.
func (c Coding) String() string {
	switch c.Kind {
	case Plain:
		return "as it is"
	case Mono:
		return fmt.Sprintf("MONO%dP", c.Bits)
	case UYVY:
		return "YUV422_UYVY"
	case YUYV:
		return "YUV422_YUYV"
	}
	s := fmt.Sprintf("BAYER_%s%d", [4]string{"RG", "GR", "GB", "BG"}[c.Phase&3], c.Bits)
	switch {
	case c.Packed:
		return s + "P"
	case c.Bits > 8:
		return fmt.Sprintf("%s16LE with %d bits", s[:len("BAYER_RG")], c.Bits)
	}
	return s
}

// Valid reports whether c is one of those that the comment of [Coding] names.
func (c Coding) Valid() bool {
	if c.Kind != Bayer && (c.Phase != 0 || c.Demosaic != 0) {
		return false
	}
	packed := c.Packed && (c.Bits == 10 || c.Bits == 12)
	switch c.Kind {
	case Plain:
		return c == Coding{}
	case Mono:
		return packed
	case UYVY, YUYV:
		return !c.Packed && c.Bits == 8
	case Bayer:
		return c.Phase < 4 && c.Demosaic <= MalvarHeCutler &&
			(packed || !c.Packed && c.Bits >= 8 && c.Bits <= 16 && c.Bits%2 == 0)
	}
	return false
}

// RowBytes is how many bytes a row of pixels takes.
func (c Coding) RowBytes(width int) int {
	switch {
	case c.Packed:
		return (width*int(c.Bits) + 7) / 8
	case c.Kind == Bayer && c.Bits == 8:
		return width
	}
	return 2 * width
}

// Align is what strides and places of rows are a multiple of.
func (c Coding) Align() int {
	if c.Kind == Bayer && !c.Packed && c.Bits > 8 {
		return 2
	}
	return 1
}

// Checked says that samples may have more bits than Bits, so that somebody has to look.
func (c Coding) Checked() bool { return c.Align() == 2 && c.Bits < 16 }

// Margin is how many rows on either side of a row its colours depend on.
func (c Coding) Margin() int {
	switch {
	case c.Kind != Bayer:
		return 0
	case c.Demosaic == MalvarHeCutler:
		return 2
	}
	return 1
}

// Rows are the rows [first, end) of a frame of so many that rows [from, to) depend on.
func (c Coding) Rows(from, to, height int) (first, end int) {
	return max(from-c.Margin(), 0), min(to+c.Margin(), height)
}

// Fits says what is wrong with the sides of a frame: which one, and why. It returns "" where they are possible.
func (c Coding) Fits(width, height int) (side, reason string) {
	switch {
	case (c.Kind == UYVY || c.Kind == YUYV) && width%2 != 0:
		return "width", fmt.Sprintf("must be even for %v", c)
	case c.Kind == Bayer && width < 2:
		return "width", fmt.Sprintf("must be at least 2 for %v", c)
	case c.Kind == Bayer && height < 2:
		return "height", fmt.Sprintf("must be at least 2 for %v", c)
	}
	return "", ""
}

// RawImage is pixels as a camera sends them, in device memory: rows [First, First+Rows) of a frame of Height rows, of
// Width pixels, Stride bytes from one row to the next. Data.Len >= Stride*(Rows-1) + Coding.RowBytes(Width); it and
// Stride are a multiple of Coding.Align.
type RawImage struct {
	Data          Slice
	Width, Height int
	First, Rows   int
	Stride        int
	Coding        Coding
}

// Develop makes rows [Row0, Row0+Dst.Height) of a frame of what a camera sent: Src has these rows, and those that they
// depend on (see [Coding.Rows]). Dst is in Src.Coding.Format.
//
//   - [Mono]: each sample as it is.
//   - [UYVY], [YUYV]: both pixels of a pair have its U and V; BT.601 of the full range, as JPEG files have it:
//     R = (65793 Y + 91881 (V-128)) >> 16, G = (65793 Y - 22554 (U-128) - 46802 (V-128)) >> 16 and
//     B = (65793 Y + 116130 (U-128)) >> 16, cut to 0 to 255.
//   - [Bayer]: a pixel's own colour is its sample; the others are sums N of samples over D, below. A sample is
//     (N << 8 + D << (Bits-1)) / (D << Bits), rounded down and cut to 0 to 255: N/D of Bits bits, as the nearest one of
//     8 bits, of two the greater. Columns and rows beyond the frame are those that mirror them, without the outermost
//     one: -1 is 1, -2 is 2. A sample beyond what Bits hold counts as the largest.
//
// [Bilinear] has D = 4. At red and blue green is the sum of the 4 neighbours, and the third colour that of the 4
// diagonal ones; at green a colour is twice the sum of its two neighbours. [MalvarHeCutler] has D = 16. At red and blue
// green is 8 times the pixel plus 4 times its neighbours less 2 times those 2 away, and the third colour 12 times the
// pixel plus 4 times the diagonal ones less 3 times those 2 away; at green a colour is 10 times the pixel, plus 8 times
// the two neighbours of the colour, less 2 times the diagonal ones and those 2 away in the direction of these
// neighbours, plus those 2 away in the other direction.
//
// All of it is integers, the same on every backend. Time grows with the pixels. Source: Malvar, He and Cutler,
// High-quality linear interpolation for demosaicing of Bayer-patterned color images, 2004.
type Develop struct {
	Src  RawImage
	Row0 int
	Dst  Image
	// Beyond receives a uint32: how many samples of the rows [Row0, Row0+Dst.Height) are beyond what Bits hold. It is
	// empty where Src.Coding.Checked says that there can't be any.
	Beyond Slice
}

func (op *Develop) name() string { return "Develop" }

func (op *Develop) check() error {
	name, src := op.name(), &op.Src
	if src.Coding.Kind == Plain || !src.Coding.Valid() {
		return refuse(name, "Src.Coding", fmt.Sprintf("%+v", src.Coding), "is nothing to develop")
	}
	if err := CheckSize(name, "Src.", src.Width, src.Height); err != nil {
		return err
	}
	if side, reason := src.Coding.Fits(src.Width, src.Height); side != "" {
		return refuse(name, "Src", fmt.Sprintf("%dx%d", src.Width, src.Height), "the %s %s", side, reason)
	}
	if err := op.Dst.check(name, "Dst."); err != nil {
		return err
	}
	row := src.Coding.RowBytes(src.Width)
	switch {
	case src.First < 0 || src.Rows < 1 || src.First > src.Height-src.Rows:
		return refuse(name, "Src.First, Src.Rows", [2]int{src.First, src.Rows}, "are not rows of %d", src.Height)
	case src.Stride < row:
		return refuse(name, "Src.Stride", src.Stride, "is less than a row of %d bytes", row)
	case src.Stride%src.Coding.Align() != 0:
		return refuse(name, "Src.Stride", src.Stride, "must be even for 16-bit samples")
	case int64(src.Stride) > maxImageBytes/int64(src.Rows):
		return refuse(name, "Src.Stride", src.Stride, "makes more than %d bytes of %d rows", int64(maxImageBytes),
			src.Rows)
	case op.Dst.Width != src.Width:
		return refuse(name, "Dst.Width", op.Dst.Width, "must be that of Src, %d", src.Width)
	case op.Dst.Format != src.Coding.Format():
		return refuse(name, "Dst.Format", op.Dst.Format, "must be %v, which %v becomes", src.Coding.Format(),
			src.Coding)
	case op.Row0 < 0 || op.Row0 > src.Height-op.Dst.Height:
		return refuse(name, "Row0", op.Row0, "and %d rows are not rows of %d", op.Dst.Height, src.Height)
	}
	if from, to := src.Coding.Rows(op.Row0, op.Row0+op.Dst.Height, src.Height); from < src.First ||
		to > src.First+src.Rows {
		return refuse(name, "Src.First, Src.Rows", [2]int{src.First, src.Rows}, "must have rows %d to %d", from, to-1)
	}
	return nil
}

func (op *Develop) operands(to []Operand) []Operand {
	src, beyond := &op.Src, int64(0)
	if src.Coding.Checked() {
		beyond = 4
	}
	dst := op.Dst.operand("Dst.Data", Write)
	dst.Apart = true
	return append(to,
		Operand{Field: "Src.Data", Slice: &src.Data, Longer: true, Access: Read, Align: int64(src.Coding.Align()),
			Bytes: int64(src.Stride)*int64(src.Rows-1) + int64(src.Coding.RowBytes(src.Width))},
		dst, exact("Beyond", &op.Beyond, beyond, Write))
}
