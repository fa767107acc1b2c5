// Colours: channels that a masked reduction derives from the red, green and blue of each pixel.

package driver

import "math/bits"

// ColorSpaces is a set of what is derived from the colour of a pixel. The channels of a reduction are those of the
// frame, and behind them, in this order, those of each space.
type ColorSpaces uint8

const (
	ColorGray    ColorSpaces = 1 << iota // the luma of BT.601
	ColorGray709                         // the luma of BT.709
	ColorHSV                             // hue, saturation, value
	ColorLab                             // CIE L*, a*, b*
	ColorMatrix                          // the three rows of [Colors].Matrix

	allColors = 1<<iota - 1
)

// Channels is how many channels the spaces have together.
func (s ColorSpaces) Channels() int {
	return bits.OnesCount8(uint8(s&(ColorGray|ColorGray709))) +
		3*bits.OnesCount8(uint8(s&(ColorHSV|ColorLab|ColorMatrix)))
}

// MaxColorChannels is how many channels a reduction has at most: four of the frame, and those of all spaces.
const MaxColorChannels = 4 + 2 + 3*3

// Colors says which channels a [MaskReduce] derives from pixels of red, green and blue, 8 bits each; alpha doesn't
// count. A derived sample is an integer of 16 bits, defined by integer arithmetic alone and so the same on every
// backend; / rounds down. The histogram of a derived channel has 256 bins: bin k counts the samples v with
// (v + 2^s/2) / 2^s = k, for the s of the channel.
//
//	gray       (299 R + 587 G + 114 B + 500) / 1000, s = 0
//	gray 709   (2126 R + 7152 G + 722 B + 5000) / 10000, s = 0
//	hue        in steps of 1.5 degrees, 0 to 239, and [NoHue] where R = G = B; s = 0. With M the greatest of the three,
//	           m the least, and d = M - m, it is ((2 (40 x + k d) + d) / (2 d)) mod 240, where (x, k) is (G-B, 240) if
//	           M = R, else (B-R, 80) if M = G, else (R-G, 160)
//	saturation in 1/128 percent: (25600 d + M) / (2 M), 0 where M = 0; s = 7
//	value      in 1/128 percent: (25600 M + 255) / 510; s = 7
//	L*         in 1/256: (29 Fy + 62) / 125 - 4096; s = 8
//	a*         in 1/256, plus 32768: 32768 + Fx - Fy; s = 8
//	b*         in 1/256, plus 32768: (2 (Fy - Fz) + 163842) / 5; s = 8
//	matrix     (c0 R + c1 G + c2 B + Offset) / 2^14 for each row; s = 8
//
// Colours of Lab are sRGB (IEC 61966-2-1) under D65, of the 2 degree observer. Fx is 128,000 f(X/Xn) of CIE 15: the sum
// T of three entries of a table for red, green and blue is X/Xn in units of 2^-20, and F is entry i = T / 512 of a
// table of cubic roots, in its high 17 bits, plus (T mod 512 times the low 15 bits + 16384) / 32768. The tables are
// written by tools/colortables; entries for a gray give the same sum for X, Y and Z, so that its a* and b* are exactly
// 0. L* is within 0.0051, a* within 0.021 and b* within 0.009 of the real numbers, which a test shows for all colours.
//
// Shown by a test of all 2^24 colours, too: no sample is above 65,279.
type Colors struct {
	Spaces ColorSpaces
	Matrix [3]ColorRow // for ColorMatrix
}

// NoHue is the sample of hue of a pixel that has none.
const NoHue = 255

// ColorRow is one row of a matrix.
type ColorRow struct {
	C      [3]int32
	Offset int32
}

// MostColorSample is the largest sample that a row of a matrix may give.
const MostColorSample = 255 << 8

// bounds are the least and the greatest of what the row is before it is divided.
func (r *ColorRow) bounds() (lo, hi int64) {
	lo, hi = int64(r.Offset), int64(r.Offset)
	for _, c := range r.C {
		lo += 255 * int64(min(c, 0))
		hi += 255 * int64(max(c, 0))
	}
	return lo, hi
}

// check looks at colours of frames of a format.
func (c *Colors) check(op string, f PixelFormat) error {
	switch {
	case c.Spaces == 0:
		return nil
	case c.Spaces&^allColors != 0:
		return refuse(op, "Colors.Spaces", uint8(c.Spaces), "has bits beyond %#x", uint8(allColors))
	case f.Channels < 3:
		return refuse(op, "Colors.Spaces", uint8(c.Spaces), "needs red, green and blue: the frame is of %v", f)
	}
	if c.Spaces&ColorMatrix != 0 {
		for i := range c.Matrix {
			if lo, hi := c.Matrix[i].bounds(); lo < 0 || hi>>14 > MostColorSample {
				return refuse(op, "Colors.Matrix", c.Matrix[i], "gives samples outside of 0 to %d", MostColorSample)
			}
		}
	}
	return nil
}

// ColorShifts appends the s of each derived channel to dst.
func (s ColorSpaces) ColorShifts(dst []uint8) []uint8 {
	for _, space := range [...]struct {
		is     ColorSpaces
		shifts string
	}{{ColorGray, "\x00"}, {ColorGray709, "\x00"}, {ColorHSV, "\x00\x07\x07"}, {ColorLab, "\x08\x08\x08"},
		{ColorMatrix, "\x08\x08\x08"}} {
		if s&space.is != 0 {
			dst = append(dst, space.shifts...)
		}
	}
	return dst
}
