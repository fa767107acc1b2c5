// The ops between images and the planes of numbers that diffusion works on.

package driver

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
