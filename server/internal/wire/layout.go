// Layouts and pixel formats, as messages and as packages of kernels have them.

package wire

import (
	"fmt"
	"math/bits"

	"github.com/polyscan/polyscan/kernels"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
)

// FormatOf is the format of raw pixels, and how they are sent.
func FormatOf(l *pb.FrameLayout, path string) (kernels.PixelFormat, kernels.Coding, error) {
	fail := func(field string, value any, format string, args ...any) (kernels.PixelFormat, kernels.Coding, error) {
		return kernels.PixelFormat{}, kernels.Coding{}, apierr.Refuse(path+".layout."+field, value, format, args...)
	}
	f, bits, wide := l.GetPixelFormat(), l.GetSignificantBits(), false
	var format kernels.PixelFormat
	coding, coded := Codings[f]
	switch {
	case f == pb.PixelFormat_PIXEL_FORMAT_UNSPECIFIED:
		return fail("pixel_format", nil, "must be given for raw pixels")
	case f == pb.PixelFormat_PIXEL_FORMAT_GRAY16LE, coded && !coding.Packed && coding.Bits == 16:
		wide = true
	case coded:
	default:
		var ok bool
		if format, ok = Formats[f]; !ok {
			return fail("pixel_format", int32(f), "is no pixel format")
		}
	}
	switch {
	case wide:
		switch bits {
		case 0:
			bits = 16
		case 10, 12, 14, 16:
		default:
			return fail("significant_bits", bits, "must be 10, 12, 14 or 16 (or 0, for 16) for %s", FormatName(f))
		}
		if format = kernels.Gray16(int(bits)); coded {
			coding.Bits = uint8(bits)
		}
	case bits != 0 && bits != uint32(max(coding.Bits, format.Bits)):
		own := max(coding.Bits, format.Bits)
		return fail("significant_bits", bits, "must be %d (or 0, for %d) for %s", own, own, FormatName(f))
	}
	if coded {
		format = coding.Format()
	}
	switch d := l.GetDemosaic(); {
	case d == pb.Demosaic_DEMOSAIC_UNSPECIFIED:
	case coding.Kind != kernels.Bayer:
		return fail("demosaic", d, "must be unspecified for %s: it is for Bayer", FormatName(f))
	case d == pb.Demosaic_DEMOSAIC_MALVAR_HE_CUTLER:
		coding.Demosaic = kernels.MalvarHeCutler
	case d != pb.Demosaic_DEMOSAIC_BILINEAR:
		return fail("demosaic", int32(d), "is no way to interpolate")
	}
	return format, coding, nil
}

// Formats of 8 bits a sample.
var Formats = map[pb.PixelFormat]kernels.PixelFormat{
	pb.PixelFormat_PIXEL_FORMAT_GRAY8: kernels.Gray8,
	pb.PixelFormat_PIXEL_FORMAT_RGB8:  kernels.RGB8,
	pb.PixelFormat_PIXEL_FORMAT_BGR8:  kernels.BGR8,
	pb.PixelFormat_PIXEL_FORMAT_RGBA8: kernels.RGBA8,
}

// Codings are the formats of cameras that ops don't take as they are; those of 16 bits may have fewer that are used.
var Codings = func() map[pb.PixelFormat]kernels.Coding {
	out := map[pb.PixelFormat]kernels.Coding{
		pb.PixelFormat_PIXEL_FORMAT_MONO10P:     {Kind: kernels.Mono, Bits: 10, Packed: true},
		pb.PixelFormat_PIXEL_FORMAT_MONO12P:     {Kind: kernels.Mono, Bits: 12, Packed: true},
		pb.PixelFormat_PIXEL_FORMAT_YUV422_UYVY: {Kind: kernels.UYVY, Bits: 8},
		pb.PixelFormat_PIXEL_FORMAT_YUV422_YUYV: {Kind: kernels.YUYV, Bits: 8},
	}
	for i, c := range []kernels.Coding{{Bits: 8}, {Bits: 16}, {Bits: 10, Packed: true}, {Bits: 12, Packed: true}} {
		for phase := range 4 { // numbers follow each other
			c.Kind, c.Phase = kernels.Bayer, uint8(phase)
			out[pb.PixelFormat_PIXEL_FORMAT_BAYER_RG8+pb.PixelFormat(4*i+phase)] = c
		}
	}
	return out
}()

// FormatName is the name without its prefix.
func FormatName(f pb.PixelFormat) string {
	const prefix = len("PIXEL_FORMAT_")
	if s := f.String(); len(s) > prefix && s[0] == 'P' {
		return s[prefix:]
	}
	return fmt.Sprint(int32(f))
}

// LayoutOf describes a frame as it was reduced.
func LayoutOf(f kernels.Picture) *pb.FrameLayout {
	if f.Coding != (kernels.Coding{}) {
		f.Stride, f.Coding = 0, kernels.Coding{}
	}
	l := &pb.FrameLayout{Width: uint32(f.Width), Height: uint32(f.Height), Stride: uint32(f.RowBytes()),
		SignificantBits: uint32(f.Format.Bits)}
	l.PixelFormat = pb.PixelFormat_PIXEL_FORMAT_GRAY16LE
	for name, d := range Formats {
		if d == f.Format {
			l.PixelFormat = name
		}
	}
	return l
}

// SentLayoutOf describes a frame as it came.
func SentLayoutOf(f kernels.Picture) *pb.FrameLayout {
	if f.Coding == (kernels.Coding{}) {
		return LayoutOf(f)
	}
	l := &pb.FrameLayout{Width: uint32(f.Width), Height: uint32(f.Height), Stride: uint32(f.RowBytes()),
		SignificantBits: uint32(f.Coding.Bits)}
	if f.Coding.Kind == kernels.Bayer {
		l.Demosaic = pb.Demosaic_DEMOSAIC_BILINEAR + pb.Demosaic(f.Coding.Demosaic)
	}
	bare := f.Coding
	bare.Demosaic = 0
	if bare.Bits > 8 && !bare.Packed {
		bare.Bits = 16
	}
	for name, c := range Codings {
		if c == bare {
			l.PixelFormat = name
		}
	}
	return l
}

// Pixels is width*height without overflow: the largest int64 where it would.
func Pixels(width, height uint32) int64 {
	hi, lo := bits.Mul64(uint64(width), uint64(height))
	if hi != 0 || lo > 1<<63-1 {
		return 1<<63 - 1
	}
	return int64(lo)
}
