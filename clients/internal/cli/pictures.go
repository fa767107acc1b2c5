package cli

// Picture files that programs decode themselves.

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	_ "image/jpeg" // PNG and JPEG are known wherever pictures are decoded
	_ "image/png"
	"io"

	"github.com/polyscan/polyscan/internal/pictures"
)

// DecodePicture decodes a file that is one picture whose pixels a frame can hold as they are. A file that goes on with
// another picture behind the first is an error, since nobody would look at that; those that a JPEG itself speaks of are
// its own (CIPA DC-007). So are colours of 16 bits and pixels that are transparent: the lower bits of the one would be
// lost, and the other would be darker than the file says.
func DecodePicture(file []byte) (image.Image, error) {
	// What the file says is read before its pixels, which may be many.
	if err := pictures.Check(func(off int64, n int) []byte {
		return file[min(off, int64(len(file))):min(off+int64(n), int64(len(file)))]
	}); err != nil {
		return nil, err
	}
	cfg, _, err := image.DecodeConfig(bytes.NewReader(file))
	if err == nil && int64(cfg.Width)*int64(cfg.Height) > mostPixels {
		return nil, fmt.Errorf("%d x %d pixels: a frame has at most %d", cfg.Width, cfg.Height, mostPixels)
	}
	r := &pieces{Reader: bytes.NewReader(file)}
	img, kind, err := image.Decode(r)
	if err != nil {
		return nil, pictures.Error(err)
	}
	end := len(file) - r.Len()
	behind := bytes.Index(file[max(0, end-piece):], []byte("\xff\xd9\xff\xd8\xff"))
	if kind == "jpeg" && behind >= 0 && behind < piece && !bytes.Contains(file[:end], []byte("MPF\x00")) {
		return nil, errors.New("another JPEG picture begins behind the end of the first: a frame is one picture")
	}
	if kind == "png" && bytes.HasPrefix(file[end:], []byte("\x89PNG\r\n\x1a\n")) {
		return nil, errors.New("another PNG picture begins behind the end of the first: a frame is one picture")
	}
	switch img.(type) {
	case *image.RGBA64, *image.NRGBA64:
		return nil, errors.New("16-bit colour: no pixel format holds it: convert the file to 8 bits a channel, or to " +
			"16-bit gray")
	}
	return img, checkOpaque(img)
}

// mostPixels are those of the largest frame that a server can be told to take.
const mostPixels = 1 << 29

// checkOpaque names the first pixel that is transparent. All kinds of pictures that decoders make say whether one is.
func checkOpaque(img image.Image) error {
	if o, ok := img.(interface{ Opaque() bool }); ok && o.Opaque() {
		return nil
	}
	b := img.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			if _, _, _, alpha := img.At(x, y).RGBA(); alpha < 0xffff {
				return fmt.Errorf("pixel (%d, %d) is transparent, alpha %d of 255: want a picture that is opaque throughout",
					x-b.Min.X, y-b.Min.Y, alpha>>8)
			}
		}
	}
	return nil
}

// piece is how many bytes decoders get at once, so that what they read beyond the end of a picture is no more.
const piece = 16

// pieces reads little at once. It has a Peek, without which package image would read ahead.
type pieces struct{ *bytes.Reader }

func (p *pieces) Read(b []byte) (int, error) { return p.Reader.Read(b[:min(len(b), piece)]) }

func (p *pieces) Peek(n int) ([]byte, error) {
	b := make([]byte, n)
	got, err := p.ReadAt(b, p.Size()-int64(p.Len()))
	if err == io.EOF && got == n {
		err = nil
	}
	return b[:got], err
}
