package clients

// Frames: how pixels and image files become messages.

import (
	"errors"
	"fmt"
	"image"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// Formats of raw pixels.
const (
	Gray8    = polyscanv1.PixelFormat_PIXEL_FORMAT_GRAY8
	Gray16LE = polyscanv1.PixelFormat_PIXEL_FORMAT_GRAY16LE
	RGB8     = polyscanv1.PixelFormat_PIXEL_FORMAT_RGB8
	BGR8     = polyscanv1.PixelFormat_PIXEL_FORMAT_BGR8
	RGBA8    = polyscanv1.PixelFormat_PIXEL_FORMAT_RGBA8

	// Those of cameras, which the server converts on the device: gray without gaps between its bits becomes Gray16LE,
	// and the others RGB8.
	Mono10P    = polyscanv1.PixelFormat_PIXEL_FORMAT_MONO10P
	Mono12P    = polyscanv1.PixelFormat_PIXEL_FORMAT_MONO12P
	YUV422UYVY = polyscanv1.PixelFormat_PIXEL_FORMAT_YUV422_UYVY
	YUV422YUYV = polyscanv1.PixelFormat_PIXEL_FORMAT_YUV422_YUYV

	BayerRG8    = polyscanv1.PixelFormat_PIXEL_FORMAT_BAYER_RG8
	BayerGR8    = polyscanv1.PixelFormat_PIXEL_FORMAT_BAYER_GR8
	BayerGB8    = polyscanv1.PixelFormat_PIXEL_FORMAT_BAYER_GB8
	BayerBG8    = polyscanv1.PixelFormat_PIXEL_FORMAT_BAYER_BG8
	BayerRG16LE = polyscanv1.PixelFormat_PIXEL_FORMAT_BAYER_RG16LE
	BayerGR16LE = polyscanv1.PixelFormat_PIXEL_FORMAT_BAYER_GR16LE
	BayerGB16LE = polyscanv1.PixelFormat_PIXEL_FORMAT_BAYER_GB16LE
	BayerBG16LE = polyscanv1.PixelFormat_PIXEL_FORMAT_BAYER_BG16LE
	BayerRG10P  = polyscanv1.PixelFormat_PIXEL_FORMAT_BAYER_RG10P
	BayerGR10P  = polyscanv1.PixelFormat_PIXEL_FORMAT_BAYER_GR10P
	BayerGB10P  = polyscanv1.PixelFormat_PIXEL_FORMAT_BAYER_GB10P
	BayerBG10P  = polyscanv1.PixelFormat_PIXEL_FORMAT_BAYER_BG10P
	BayerRG12P  = polyscanv1.PixelFormat_PIXEL_FORMAT_BAYER_RG12P
	BayerGR12P  = polyscanv1.PixelFormat_PIXEL_FORMAT_BAYER_GR12P
	BayerGB12P  = polyscanv1.PixelFormat_PIXEL_FORMAT_BAYER_GB12P
	BayerBG12P  = polyscanv1.PixelFormat_PIXEL_FORMAT_BAYER_BG12P
)

// PixelBits is how many bits of a row a pixel takes, 0 for no format.
func PixelBits(f polyscanv1.PixelFormat) int {
	switch {
	case f == Gray8, f >= BayerRG8 && f <= BayerBG8:
		return 8
	case f == Gray16LE, f == YUV422UYVY, f == YUV422YUYV, f >= BayerRG16LE && f <= BayerBG16LE:
		return 16
	case f == RGB8, f == BGR8:
		return 24
	case f == RGBA8:
		return 32
	case f == Mono10P, f >= BayerRG10P && f <= BayerBG10P:
		return 10
	case f == Mono12P, f >= BayerRG12P && f <= BayerBG12P:
		return 12
	}
	return 0
}

// PixelBytes is the size of a pixel in memory, 0 for no format and where it is no whole number of bytes.
func PixelBytes(f polyscanv1.PixelFormat) int {
	if bits := PixelBits(f); bits%8 == 0 {
		return bits / 8
	}
	return 0
}

// RowBytes is how many bytes a row of pixels takes, 0 for no format: each row begins with a byte of its own.
func RowBytes(f polyscanv1.PixelFormat, width int) int64 {
	return (int64(width)*int64(PixelBits(f)) + 7) / 8
}

// IsBayer says that a format is of pixels that have one colour each.
func IsBayer(f polyscanv1.PixelFormat) bool { return f >= BayerRG8 && f <= BayerBG12P }

// HasBits says that samples of a format may use fewer bits than they have, see [Raw].
func HasBits(f polyscanv1.PixelFormat) bool {
	return f == Gray16LE || f >= BayerRG16LE && f <= BayerBG16LE
}

// Raw describes raw pixels: rows from top to bottom, Stride bytes apart.
type Raw struct {
	Width, Height int
	Format        polyscanv1.PixelFormat
	// Stride is the number of bytes from one row to the next; 0 means that rows follow each other without a gap.
	Stride int
	// Bits is the number of significant low bits of a sample of Gray16LE, BayerRG16LE and its like: 10, 12, 14 or 16; 0
	// means 16.
	Bits int
	// Demosaic is how the colours of Bayer are interpolated; 0 means bilinear.
	Demosaic polyscanv1.Demosaic
	// ID is the caller's own name of the frame; it comes back with the result.
	ID string
}

// Bytes is how many bytes the pixels take: the last row needs no padding. It is an error where the description can't be
// a frame; the server checks more.
func (r Raw) Bytes() (int64, error) {
	row := RowBytes(r.Format, r.Width)
	stride := int64(r.Stride)
	switch {
	case PixelBits(r.Format) == 0:
		return 0, fmt.Errorf("pixel format %v: want GRAY8, GRAY16LE, RGB8, BGR8, RGBA8 or one of those of cameras",
			r.Format)
	case r.Width < 1 || r.Width > maxSide:
		return 0, fmt.Errorf("width %d: must be 1 to %d", r.Width, maxSide)
	case r.Height < 1 || r.Height > maxSide:
		return 0, fmt.Errorf("height %d: must be 1 to %d", r.Height, maxSide)
	case stride == 0:
		stride = row
	case stride < row:
		return 0, fmt.Errorf("stride %d: less than a row of %d bytes (%d pixels of %d bits)", stride, row, r.Width,
			PixelBits(r.Format))
	case stride > maxStride:
		return 0, fmt.Errorf("stride %d: more than %d", stride, maxStride)
	}
	return stride*int64(r.Height-1) + row, nil
}

const (
	maxSide   = 1 << 20
	maxStride = 1<<31 - 1
)

// Frame makes the message for pixels that r describes. The data isn't copied.
func (r Raw) Frame(data []byte) *polyscanv1.Frame {
	return &polyscanv1.Frame{
		Layout: &polyscanv1.FrameLayout{
			Width:           clampUint32(r.Width),
			Height:          clampUint32(r.Height),
			PixelFormat:     r.Format,
			Stride:          clampUint32(r.Stride),
			SignificantBits: clampUint32(r.Bits),
			Demosaic:        r.Demosaic,
		},
		Encoding: polyscanv1.Encoding_ENCODING_RAW,
		FrameId:  r.ID,
		Source:   &polyscanv1.Frame_Data{Data: data},
	}
}

// clampUint32 keeps what no frame can be from wrapping around to what one could be.
func clampUint32(v int) uint32 {
	if v < 0 || uint64(v) > 1<<32-1 {
		return 1<<32 - 1
	}
	return uint32(v)
}

// Encoded makes the message for an image file: PNG, JPEG, TIFF or BMP, recognised by the server. The file isn't copied.
func Encoded(file []byte) *polyscanv1.Frame {
	return &polyscanv1.Frame{
		Encoding: polyscanv1.Encoding_ENCODING_AUTO,
		Source:   &polyscanv1.Frame_Data{Data: file},
	}
}

// ErrImage is matched by the error of [FromImage] for an image whose type has no pixel format of the protocol.
var ErrImage = errors.New("no pixel format of the protocol holds this image")

// FromImage makes the message for an image in memory: *image.Gray, *image.NRGBA and an opaque *image.RGBA without
// copying the pixels, *image.Gray16 with its bytes swapped. Others match [ErrImage], because converting them would
// change their values.
func FromImage(img image.Image) (*polyscanv1.Frame, error) {
	r := Raw{Width: img.Bounds().Dx(), Height: img.Bounds().Dy()}
	var pix []byte
	switch m := img.(type) {
	case *image.Gray:
		r.Format, r.Stride, pix = Gray8, m.Stride, m.Pix
	case *image.NRGBA:
		r.Format, r.Stride, pix = RGBA8, m.Stride, m.Pix
	case *image.RGBA:
		if !m.Opaque() {
			return nil, fmt.Errorf("%T with transparent pixels has premultiplied samples: %w", img, ErrImage)
		}
		r.Format, r.Stride, pix = RGBA8, m.Stride, m.Pix
	case *image.Gray16:
		r.Format, r.Stride = Gray16LE, 2*r.Width
		pix = make([]byte, r.Stride*r.Height)
		for y := range r.Height {
			row := m.Pix[m.PixOffset(m.Rect.Min.X, m.Rect.Min.Y+y):][:r.Stride]
			for x := 0; x < len(row); x += 2 {
				pix[y*r.Stride+x], pix[y*r.Stride+x+1] = row[x+1], row[x]
			}
		}
	default:
		return nil, fmt.Errorf("%T: %w", img, ErrImage)
	}
	n, err := r.Bytes()
	if err != nil {
		return nil, err
	}
	return r.Frame(pix[:n]), nil
}
