package kernels

import (
	"encoding/binary"
	"fmt"
	"image"
	"image/draw"
	"math"
	"slices"

	"github.com/polyscan/polyscan/kernels/driver"
)

// PixelFormat says how the samples of a pixel lie in memory.
type PixelFormat = driver.PixelFormat

// Coding says how a camera sends pixels that ops don't take as they are.
type Coding = driver.Coding

// The formats of cameras with 8 bits a sample; [Gray16] makes those with more.
var (
	Gray8 = driver.Gray8
	RGB8  = driver.RGB8
	BGR8  = driver.BGR8
	RGBA8 = driver.RGBA8
)

// How cameras send pixels that ops don't take as they are: see [Coding].
const (
	Mono           = driver.Mono
	UYVY           = driver.UYVY
	YUYV           = driver.YUYV
	Bayer          = driver.Bayer
	Bilinear       = driver.Bilinear
	MalvarHeCutler = driver.MalvarHeCutler
)

// Gray16 is one little-endian 16-bit sample a pixel, of which the low bits are used: 8 to 16 of them.
func Gray16(bits int) PixelFormat { return driver.Gray16(bits) }

// Picture is pixels that a call reads or returns, in host memory or on the device: Height rows of Width pixels, top to
// bottom, Stride bytes apart.
type Picture struct {
	Width, Height int
	// Stride is the number of bytes from one row to the next, at least that of a row, and even for 16-bit samples;
	// 0 means that rows follow each other without a gap.
	Stride int
	// Format of the pixels as ops have them. Of what a camera sends otherwise it is that of Coding.
	Format PixelFormat
	// Coding is how the bytes stand for these pixels. The zero value is as Format says.
	Coding Coding
	// Flat is what ops get the pixels corrected by; nil for pixels as they are.
	Flat *FlatField
	// Data holds the bytes in one piece or several, cut anywhere. Together they are Stride*Height bytes; the gap behind
	// the last row may be missing. A call only reads them, once, and keeps none of them.
	Data [][]byte
	// Resident, where it isn't empty, holds the bytes in memory of the device that computes: nothing is copied, and
	// Data isn't looked at. Whoever made it keeps it, and doesn't write to it, during the call.
	Resident Buffer[byte]
}

// RowBytes is Stride with its default.
func (p *Picture) RowBytes() int {
	if p.Stride == 0 {
		return p.RowSize()
	}
	return p.Stride
}

// RowSize is how many bytes the pixels of a row take.
func (p *Picture) RowSize() int {
	if p.Coding.Kind == driver.Plain {
		return p.Width * p.Format.PixelBytes()
	}
	return p.Coding.RowBytes(p.Width)
}

// UploadBytes is how many bytes of Data are to be uploaded: none where the picture is on the device.
func (p *Picture) UploadBytes() int {
	if p.Resident.Len() > 0 {
		return 0
	}
	n := 0
	for _, d := range p.Data {
		n += len(d)
	}
	return n
}

// Bytes are Data in one piece, and a copy only where there are several.
func (p *Picture) Bytes() []byte {
	if len(p.Data) == 1 {
		return p.Data[0]
	}
	return slices.Concat(p.Data...)
}

// Check reports in an [*InvalidError] what is wrong with the picture. Its fields have paths below at, such as
// "frame.stride" below "frame".
func (p *Picture) Check(at ...any) error {
	least, most, err := p.Sizes(at...)
	if err != nil {
		return err
	}
	field, have := "data", int64(p.UploadBytes())
	if n := p.Resident.Len(); n > 0 {
		field, have = "resident", int64(n)
	}
	if have >= least && have <= most {
		return nil
	}
	need := fmt.Sprintf("%d bytes", most)
	if least != most {
		need += fmt.Sprintf(" (or %d without the gap behind the last row)", least)
	}
	return Invalid("kernels", Path(at).Join(field), fmt.Sprintf("%d bytes", have),
		"must hold %s: %d rows of %v with %d pixels, %d bytes apart", need, p.Height, p.Sent(), p.Width, p.RowBytes())
}

// Sent is the name of what the bytes are: of Coding, or of Format.
func (p *Picture) Sent() fmt.Stringer {
	if p.Coding.Kind == driver.Plain {
		return p.Format
	}
	return p.Coding
}

// Sizes is [Picture.Check] for a picture whose pixels are not there yet. A flat field that doesn't fit has the path
// "flat_field", wherever the picture is. It returns the least and the most bytes that
// they may take together: without the gap behind the last row, and with it.
func (p *Picture) Sizes(at ...any) (least, most int64, _ error) {
	bad := InvalidError{Domain: "kernels"}
	bad.Include(CheckSize(p.Width, p.Height, at...))
	p.checkFlat(&bad)
	sized := len(bad.Violations) == 0
	row, stride := p.RowSize(), p.RowBytes()
	switch f, c := p.Format, p.Coding; {
	case c.Kind != driver.Plain && (!c.Valid() || f != c.Format()):
		bad.Add(Path(at).Join("coding"), fmt.Sprintf("%+v", c), "is none that becomes %v", f)
	case f == PixelFormat{}:
		bad.Add(Path(at).Join("format"), "", "must be given")
	case !f.Valid() && f.SampleBytes == 2:
		bad.Add(Path(at).Join("format"), f, "16-bit samples must be of one channel and have 8 to 16 significant bits")
	case !f.Valid():
		bad.Add(Path(at).Join("format"), f, "is no known pixel format")
	case !sized:
	case stride < row:
		bad.Add(Path(at).Join("stride"), stride, "is less than a row of %d bytes (%d pixels of %v)", row, p.Width,
			p.Sent())
	case stride > math.MaxInt32:
		bad.Add(Path(at).Join("stride"), stride, "must be at most %d", math.MaxInt32)
	case c.Kind != driver.Plain:
		if side, reason := c.Fits(p.Width, p.Height); side != "" {
			value := p.Width
			if side == "height" {
				value = p.Height
			}
			bad.Add(Path(at).Join(side), value, "%s", reason)
		}
		if stride%c.Align() != 0 {
			bad.Add(Path(at).Join("stride"), stride, "must be even for 16-bit samples")
		}
	case stride%int(f.SampleBytes) != 0:
		bad.Add(Path(at).Join("stride"), stride, "must be even for 16-bit samples")
	}
	most = int64(stride) * int64(p.Height)
	return most - int64(stride) + int64(row), most, bad.Err()
}

// CheckSize reports in an [*InvalidError] what is wrong with the width and height of a picture. Their paths are below
// at.
func CheckSize(width, height int, at ...any) error {
	bad := InvalidError{Domain: "kernels"}
	for _, side := range [...]struct {
		name string
		v    int
	}{{"width", width}, {"height", height}} {
		if side.v < 1 || side.v > driver.MaxSide {
			bad.Add(Path(at).Join(side.name), side.v, "must be 1 to %d", driver.MaxSide)
		}
	}
	if n := int64(width) * int64(height); len(bad.Violations) == 0 && n > driver.MaxPixels {
		bad.Add(Path(at).Join("height"), height, "makes %d pixels with a width of %d: the limit is %d pixels", n, width,
			driver.MaxPixels)
	}
	return bad.Err()
}

// PictureOf returns the pixels of an image: GRAY8 or GRAY16LE for gray ones, else RGB8 where the image says that it is
// opaque, and RGBA8 with straight alpha where it doesn't. Pixels of an [image.Gray] and an [image.NRGBA] that isn't
// opaque are the image's own; others are copies.
func PictureOf(im image.Image) Picture {
	b := im.Bounds()
	p := Picture{Width: b.Dx(), Height: b.Dy()}
	own := func(pix []byte, stride int, f PixelFormat) Picture {
		if p.Stride, p.Format = stride, f; p.Width > 0 && p.Height > 0 {
			p.Data = [][]byte{pix[:stride*(p.Height-1)+p.Width*f.PixelBytes()]}
		}
		return p
	}
	opaque, ok := im.(interface{ Opaque() bool })
	switch im := im.(type) {
	case *image.Gray:
		return own(im.Pix, im.Stride, Gray8)
	case *image.Gray16:
		return own(swapped(im.Pix), im.Stride, Gray16(16))
	case *image.NRGBA:
		if !im.Opaque() {
			return own(im.Pix, im.Stride, RGBA8)
		}
	}
	if !ok || !opaque.Opaque() {
		straight := image.NewNRGBA(image.Rect(0, 0, p.Width, p.Height))
		draw.Draw(straight, straight.Rect, im, b.Min, draw.Src)
		return own(straight.Pix, straight.Stride, RGBA8)
	}
	colours := image.NewRGBA(image.Rect(0, 0, p.Width, p.Height))
	draw.Draw(colours, colours.Rect, im, b.Min, draw.Src)
	pix := colours.Pix[:0]
	for c := range slices.Chunk(colours.Pix, 4) {
		pix = append(pix, c[:3]...)
	}
	return own(pix, 3*p.Width, RGB8)
}

// Image returns the pixels of Data as an image, for encoders. Those of GRAY8 and RGBA8 are the picture's own where they
// are in one piece; others are copies. 16-bit samples keep their values, and what cameras send is developed. The
// picture is one that [Picture.Check] takes.
func (p *Picture) Image() image.Image {
	if p.Coding.Kind != driver.Plain {
		p, _ = p.Developed() // what is wrong with samples doesn't show
	}
	rect, pix, stride, f := image.Rect(0, 0, p.Width, p.Height), p.Bytes(), p.RowBytes(), p.Format
	switch {
	case f.SampleBytes == 2:
		return &image.Gray16{Pix: swapped(pix), Stride: stride, Rect: rect}
	case f.Channels == 1:
		return &image.Gray{Pix: pix, Stride: stride, Rect: rect}
	case f == RGBA8:
		return &image.NRGBA{Pix: pix, Stride: stride, Rect: rect}
	}
	out := make([]byte, 0, 4*p.Width*p.Height)
	for y := range p.Height {
		for s := range slices.Chunk(pix[y*stride:][:p.Width*f.PixelBytes()], f.PixelBytes()) {
			c := [4]byte{s[f.Order[0]], s[f.Order[0]], s[f.Order[0]], 255}
			if f.Channels >= 3 {
				c[1], c[2] = s[f.Order[1]], s[f.Order[2]]
			}
			if f.Channels%2 == 0 {
				c[3] = s[f.Order[f.Channels-1]]
			}
			out = append(out, c[:]...)
		}
	}
	return &image.NRGBA{Pix: out, Stride: 4 * p.Width, Rect: rect}
}

// Developed is the picture as ops have it, its pixels in host memory that is new: what [driver.Develop] makes of it.
// The picture is one that [Picture.Check] takes, whose Coding isn't the zero value. The error is that of [Intake.Err];
// the picture is there with it.
func (p *Picture) Developed(at ...any) (*Picture, error) {
	out := &Picture{Width: p.Width, Height: p.Height, Format: p.Format}
	pixels, from, row := make([]byte, p.Height*out.RowBytes()), p.Bytes(), out.RowBytes()
	raw := driver.RawRows{Coding: p.Coding, Width: p.Width, Height: p.Height,
		Row: func(y int) []byte { return from[y*p.RowBytes():][:p.RowSize()] }}
	beyond, _ := raw.Develop(0, p.Height, func(y int) []byte { return pixels[y*row:][:row] },
		func() bool { return true })
	out.Data = [][]byte{pixels}
	return out, p.Beyond(beyond, 0, p.Height, at)
}

// Sketch is about what colours a pixel has, of 8 bits, in a picture whose Coding isn't the zero value, for pictures
// that leave most pixels out: Bayer has those of 2 x 2 pixels, without interpolation. Gray is in all three. at returns
// a byte of Data.
func (p *Picture) Sketch(x, y int, at func(offset int) byte) [3]byte {
	raw := driver.RawRows{Coding: p.Coding, Width: p.Width, Height: p.Height}
	return raw.Sketch(x, y, func(y, i int) byte { return at(y*p.RowBytes() + i) })
}

// swapped are 16-bit samples in the other byte order: that of images is big endian.
func swapped(pix []byte) []byte {
	out := make([]byte, len(pix)&^1)
	for i := 0; i < len(out); i += 2 {
		binary.BigEndian.PutUint16(out[i:], binary.LittleEndian.Uint16(pix[i:]))
	}
	return out
}
