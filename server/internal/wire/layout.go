// Layouts and pixel formats, as messages and as packages of kernels have them.

package wire

import (
	"fmt"
	"math/bits"

	"github.com/polyscan/polyscan/kernels"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
)

// FormatOf is the format of raw pixels.
func FormatOf(l *pb.FrameLayout, path string) (kernels.PixelFormat, error) {
	sig := l.GetSignificantBits()
	switch f := l.GetPixelFormat(); f {
	case pb.PixelFormat_PIXEL_FORMAT_GRAY16LE:
		switch sig {
		case 0:
			sig = 16
		case 10, 12, 14, 16:
		default:
			return kernels.PixelFormat{},
				apierr.Refuse(path+".layout.significant_bits", sig, "must be 10, 12, 14 or 16 (or 0, for 16) for GRAY16LE")
		}
		return kernels.Gray16(int(sig)), nil
	case pb.PixelFormat_PIXEL_FORMAT_UNSPECIFIED:
		return kernels.PixelFormat{}, apierr.Refuse(path+".layout.pixel_format", nil, "must be given for raw pixels")
	default:
		d, ok := Formats[f]
		if !ok {
			return kernels.PixelFormat{}, apierr.Refuse(path+".layout.pixel_format", int32(f), "is no pixel format")
		}
		if sig != 0 && sig != 8 {
			return kernels.PixelFormat{},
				apierr.Refuse(path+".layout.significant_bits", sig, "must be 8 (or 0, for 8) for %s", FormatName(f))
		}
		return d, nil
	}
}

// Formats of 8 bits a sample.
var Formats = map[pb.PixelFormat]kernels.PixelFormat{
	pb.PixelFormat_PIXEL_FORMAT_GRAY8: kernels.Gray8,
	pb.PixelFormat_PIXEL_FORMAT_RGB8:  kernels.RGB8,
	pb.PixelFormat_PIXEL_FORMAT_BGR8:  kernels.BGR8,
	pb.PixelFormat_PIXEL_FORMAT_RGBA8: kernels.RGBA8,
}

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
	l := &pb.FrameLayout{Width: uint32(f.Width), Height: uint32(f.Height), Stride: uint32(f.Stride),
		SignificantBits: uint32(f.Format.Bits)}
	if f.Stride == 0 {
		l.Stride = uint32(f.Width * f.Format.PixelBytes())
	}
	l.PixelFormat = pb.PixelFormat_PIXEL_FORMAT_GRAY16LE
	for name, d := range Formats {
		if d == f.Format {
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
