package driver

import "fmt"

// PixelFormat says how the samples of a pixel lie in memory. Formats are data: ops take any value of it that
// [PixelFormat.Valid] accepts, and have no code path for each camera.
type PixelFormat struct {
	Channels    uint8    // samples in a pixel, 1 to 4
	SampleBytes uint8    // 1, or 2 (little endian)
	Bits        uint8    // significant low bits of a sample, 8 to 8*SampleBytes
	Order       [4]uint8 // Order[c] is the index in memory of channel c, channels counted in the order R, G, B, A
}

// The formats of cameras. Gray16 takes the number of significant bits.
var (
	Gray8 = PixelFormat{Channels: 1, SampleBytes: 1, Bits: 8}
	RGB8  = PixelFormat{Channels: 3, SampleBytes: 1, Bits: 8, Order: [4]uint8{0, 1, 2}}
	BGR8  = PixelFormat{Channels: 3, SampleBytes: 1, Bits: 8, Order: [4]uint8{2, 1, 0}}
	RGBA8 = PixelFormat{Channels: 4, SampleBytes: 1, Bits: 8, Order: [4]uint8{0, 1, 2, 3}}
)

// Gray16 is one little-endian 16-bit sample a pixel, of which the low bits are used. It is not [PixelFormat.Valid]
// unless bits is 8 to 16.
func Gray16(bits int) PixelFormat {
	if bits < 0 || bits > 16 {
		bits = 0
	}
	return PixelFormat{Channels: 1, SampleBytes: 2, Bits: uint8(bits)}
}

// String is the name that the protocol has for the format, or says what it is made of.
func (f PixelFormat) String() string {
	switch f {
	case Gray8:
		return "GRAY8"
	case RGB8:
		return "RGB8"
	case BGR8:
		return "BGR8"
	case RGBA8:
		return "RGBA8"
	}
	if f.SampleBytes == 2 && f.Channels == 1 {
		return fmt.Sprintf("GRAY16LE with %d bits", f.Bits)
	}
	return fmt.Sprintf("%d channels of %d bytes with %d bits", f.Channels, f.SampleBytes, f.Bits)
}

// PixelBytes is the size of a pixel.
func (f PixelFormat) PixelBytes() int { return int(f.Channels) * int(f.SampleBytes) }

// Levels is the number of values that a sample can have, 2^Bits.
func (f PixelFormat) Levels() int { return 1 << f.Bits }

// Valid reports whether f is a format that ops take: 1 to 4 channels of 8 bits in any order, or one channel of
// 16 bits of which 8 to 16 are used.
func (f PixelFormat) Valid() bool {
	switch f.SampleBytes {
	case 1:
		if f.Bits != 8 || f.Channels < 1 || f.Channels > 4 {
			return false
		}
		var seen uint8
		for _, o := range f.Order[:f.Channels] {
			seen |= 1 << o
		}
		return seen == 1<<f.Channels-1
	case 2:
		return f.Channels == 1 && f.Order[0] == 0 && f.Bits >= 8 && f.Bits <= 16
	}
	return false
}

// Image is pixels in device memory: Height rows of Width pixels, top to bottom, Stride bytes from one row to the
// next, Stride >= Width*Format.PixelBytes(). Data.Len >= Stride*(Height-1) + Width*Format.PixelBytes().
// 16-bit samples are at even addresses: Stride is even then.
type Image struct {
	Data   Slice
	Width  int
	Height int
	Stride int
	Format PixelFormat
}

// Bounds of images, kept by package kernels. They make the integers of [MaskStats] exact: with at most
// MaxPixels pixels of 16 bits and MaxSide columns, the largest, SumVX, stays below 2^16 * 2^29 * 2^19 = 2^64.
const (
	MaxSide   = 1 << 20
	MaxPixels = 1 << 29
)
