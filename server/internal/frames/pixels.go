// Conversion of decoded images to the formats of frames. Most of it happens in place.

package frames

import (
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"math/bits"
	"slices"
	"sync"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/server/internal/budget"
)

// convertImage makes a frame of a decoded image, which is not to be used any more: its pixels may become the frame's.
// free gives pooled memory back.
func convertImage(img image.Image, h *imageHeader, format kernels.PixelFormat, share *budget.Share) (kernels.Picture,
	func(), error) {
	f := kernels.Picture{Width: h.width, Height: h.height, Format: format, Stride: h.width * format.PixelBytes()}
	nothing := func() {}
	at := func(pix []byte, stride int) {
		f.Stride = stride
		f.Data = [][]byte{pix[:stride*(f.Height-1)+f.Width*format.PixelBytes()]}
	}
	// fresh lets row fill a frame from a pool, row by row.
	fresh := func(row func(dst []byte, y int)) (kernels.Picture, func(), error) {
		buf := pixelPool.get(f.Stride * f.Height)
		share.Fill(h.scratch + int64(cap(*buf))) // beside the image
		pix := (*buf)[:f.Stride*f.Height]
		for y := range f.Height {
			row(pix[y*f.Stride:(y+1)*f.Stride], y)
		}
		f.Data = [][]byte{pix}
		return f, func() { pixelPool.put(buf) }, nil
	}
	channels := int(format.Channels)

	switch img := img.(type) {
	case *image.Gray:
		if channels == 1 {
			at(img.Pix, img.Stride)
			return f, nothing, nil
		}
		return fresh(func(dst []byte, y int) {
			expandGray(dst, img.Pix[y*img.Stride:][:f.Width], channels)
		})
	case *image.Gray16:
		swapBytes(img.Pix)
		at(img.Pix, img.Stride)
		return f, nothing, nil
	case *image.RGBA:
		if h.premultiplied {
			unmultiply(img.Pix)
		}
		at(img.Pix, packRGBA(img.Pix, img.Stride, f.Width, f.Height, format))
		return f, nothing, nil
	case *image.NRGBA:
		at(img.Pix, packRGBA(img.Pix, img.Stride, f.Width, f.Height, format))
		return f, nothing, nil
	case *image.Paletted:
		if p, ok := h.config.ColorModel.(color.Palette); ok && len(img.Pix) > 0 {
			if v := slices.Max(img.Pix); int(v) >= len(p) {
				return f, nothing, fmt.Errorf("a pixel has the colour %d of a palette of %d", v, len(p))
			}
		}
		table := paletteTable(img.Palette, format)
		return fresh(func(dst []byte, y int) {
			src := img.Pix[y*img.Stride:][:f.Width]
			switch channels {
			case 1:
				for i, v := range src {
					dst[i] = table[v][0]
				}
			case 3:
				for i, v := range src {
					copy(dst[3*i:3*i+3], table[v][:3])
				}
			default:
				for i, v := range src {
					copy(dst[4*i:4*i+4], table[v][:])
				}
			}
		})
	case *image.YCbCr:
		return fresh(func(dst []byte, y int) { rowYCbCr(dst, img, y, f.Width, format) })
	case *image.CMYK:
		return fresh(func(dst []byte, y int) {
			src := img.Pix[y*img.Stride:][:4*f.Width]
			for i, o := 0, 0; i < len(src); i, o = i+4, o+channels {
				r, g, b := color.CMYKToRGB(src[i], src[i+1], src[i+2], src[i+3])
				putRGB(dst[o:], r, g, b, format)
			}
		})
	}
	return f, nil, fmt.Errorf("pixels of type %T have no pixel format", img)
}

// putRGB writes one pixel. It takes colour formats.
func putRGB(dst []byte, r, g, b byte, f kernels.PixelFormat) {
	dst[f.Order[0]], dst[f.Order[1]], dst[f.Order[2]] = r, g, b
	if f.Channels == 4 {
		dst[f.Order[3]] = 255
	}
}

// expandGray writes a row of gray as colour.
func expandGray(dst, src []byte, channels int) {
	if channels == 3 {
		for i, v := range src {
			d := dst[3*i : 3*i+3]
			d[0], d[1], d[2] = v, v, v
		}
		return
	}
	for i, v := range src {
		binary.LittleEndian.PutUint32(dst[4*i:], uint32(v)*0x010101|0xff000000)
	}
}

// swapBytes exchanges the bytes of 16-bit samples: images have them big endian, frames little endian.
func swapBytes(p []byte) {
	for len(p) >= 8 {
		v := binary.LittleEndian.Uint64(p)
		const low = 0x00ff00ff00ff00ff
		binary.LittleEndian.PutUint64(p, v&low<<8|v>>8&low)
		p = p[8:]
	}
	for ; len(p) >= 2; p = p[2:] {
		p[0], p[1] = p[1], p[0]
	}
}

// packRGBA turns pixels of four bytes into those of the format, in place. It returns the stride.
func packRGBA(pix []byte, stride, width, height int, f kernels.PixelFormat) int {
	if f.Channels == 4 {
		return stride
	}
	o := 0
	for y := range height {
		row := pix[y*stride:][:4*width]
		if f == kernels.BGR8 {
			for i := 0; i < len(row); i, o = i+4, o+3 {
				pix[o], pix[o+1], pix[o+2] = row[i+2], row[i+1], row[i]
			}
			continue
		}
		for i := 0; i < len(row); i, o = i+4, o+3 {
			pix[o], pix[o+1], pix[o+2] = row[i], row[i+1], row[i+2]
		}
	}
	return 3 * width
}

// unmultiply divides colours by alpha, rounding to nearest, in place.
func unmultiply(pix []byte) {
	for ; len(pix) >= 4; pix = pix[4:] {
		a := uint32(pix[3])
		switch a {
		case 255:
			continue
		case 0:
			pix[0], pix[1], pix[2] = 0, 0, 0
			continue
		}
		for i := range 3 {
			pix[i] = byte(min(255, (uint32(pix[i])*255+a/2)/a))
		}
	}
}

// paletteTable holds the palette's colours in the order of the format. What the palette lacks is opaque black.
func paletteTable(p color.Palette, f kernels.PixelFormat) *[256][4]byte {
	table := new([256][4]byte)
	for i := range table {
		c := color.NRGBA{A: 255}
		if i < len(p) {
			c = color.NRGBAModel.Convert(p[i]).(color.NRGBA)
		}
		t := &table[i]
		if f.Channels == 1 {
			t[0] = c.R
			continue
		}
		putRGB(t[:], c.R, c.G, c.B, f)
		if f.Channels == 4 {
			t[3] = c.A
		}
	}
	return table
}

// rowYCbCr converts a row of a JPEG image, with the arithmetic of color.YCbCrToRGB. A chroma sample holds for all the
// pixels of its block, as in image/jpeg; decoders that interpolate it differ.
func rowYCbCr(dst []byte, img *image.YCbCr, y, width int, f kernels.PixelFormat) {
	shift := 0
	switch img.SubsampleRatio {
	case image.YCbCrSubsampleRatio422, image.YCbCrSubsampleRatio420:
		shift = 1
	case image.YCbCrSubsampleRatio411, image.YCbCrSubsampleRatio410:
		shift = 2
	}
	min := img.Rect.Min
	luma := img.Y[img.YOffset(min.X, min.Y+y):][:width]
	c := img.COffset(min.X, min.Y+y)
	n := (width-1)>>shift + 1
	cb, cr := img.Cb[c:][:n], img.Cr[c:][:n]
	step := int(f.Channels)
	ro, bo := int(f.Order[0]), int(f.Order[2])
	for i, l := range luma {
		yy := int32(l) * 0x10101
		cb1, cr1 := int32(cb[i>>shift])-128, int32(cr[i>>shift])-128
		r := (yy + 91881*cr1) >> 16
		g := (yy - 22554*cb1 - 46802*cr1) >> 16
		b := (yy + 116130*cb1) >> 16
		if uint32(r|g|b) > 255 {
			r, g, b = clampByte(r), clampByte(g), clampByte(b)
		}
		d := dst[i*step : i*step+step]
		d[ro], d[1], d[bo] = byte(r), byte(g), byte(b)
		if step == 4 {
			d[3] = 255
		}
	}
}

func clampByte(v int32) int32 { return max(0, min(255, v)) }

// pixelPool keeps buffers for converted pixels.
var pixelPool bufferPool

// bufferPool pools buffers by powers of two.
type bufferPool [64]sync.Pool

func (p *bufferPool) get(n int) *[]byte {
	class := bits.Len(uint(max(n, 1) - 1))
	if b, ok := p[class].Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, 1<<class)
	return &b
}

func (p *bufferPool) put(b *[]byte) { p[bits.Len(uint(cap(*b)-1))].Put(b) }
