package clients

import (
	"bytes"
	"errors"
	"image"
	"image/color"
	"strings"
	"testing"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

func TestRawBytes(t *testing.T) {
	for _, tt := range []struct {
		r    Raw
		want int64
		err  string
	}{
		{Raw{Width: 4, Height: 3, Format: Gray8}, 12, ""},
		{Raw{Width: 4, Height: 3, Format: Gray16LE}, 24, ""},
		{Raw{Width: 4, Height: 3, Format: RGB8}, 36, ""},
		{Raw{Width: 4, Height: 3, Format: BGR8, Stride: 16}, 44, ""},
		{Raw{Width: 4, Height: 3, Format: RGBA8, Stride: 16}, 48, ""},
		{Raw{Width: 1 << 20, Height: 1 << 20, Format: RGBA8}, 1 << 42, ""},
		{Raw{Width: 4, Height: 3, Format: RGB8, Stride: 11}, 0, "stride 11: less than a row of 12 bytes"},
		{Raw{Width: 4, Height: 3, Format: RGB8, Stride: -1}, 0, "stride -1: less than a row"},
		{Raw{Width: 4, Height: 3, Format: RGB8, Stride: 1 << 31}, 0, "more than"},
		{Raw{Width: 0, Height: 3, Format: RGB8}, 0, "width 0"},
		{Raw{Width: 4, Height: 1<<20 + 1, Format: RGB8}, 0, "height 1048577"},
		{Raw{Width: 4, Height: 3}, 0, "pixel format"},
	} {
		got, err := tt.r.Bytes()
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%+v: %d, %v; want %d, %q", tt.r, got, err, tt.want, tt.err)
		}
	}
}

func TestRawFrame(t *testing.T) {
	data := []byte{1, 2, 3, 4, 5, 6}
	f := Raw{Width: 2, Height: 1, Format: Gray16LE, Stride: 4, Bits: 12, ID: "a"}.Frame(data)
	l := f.GetLayout()
	if l.GetWidth() != 2 || l.GetHeight() != 1 || l.GetPixelFormat() != Gray16LE || l.GetStride() != 4 ||
		l.GetSignificantBits() != 12 ||
		f.GetFrameId() != "a" || f.GetEncoding() != polyscanv1.Encoding_ENCODING_RAW {
		t.Errorf("frame %v", f)
	}
	if &f.GetData()[0] != &data[0] {
		t.Error("the data was copied")
	}
	// What can't be a frame must not wrap around to what can.
	l = Raw{Width: -1, Height: 1 << 40, Format: Gray8}.Frame(nil).GetLayout()
	if l.GetWidth() != 1<<32-1 || l.GetHeight() != 1<<32-1 {
		t.Errorf("layout %v", l)
	}
}

func TestFromImage(t *testing.T) {
	window := image.Rect(3, 2, 8, 6)
	pixels := func(f *polyscanv1.Frame) []byte {
		var out []byte
		l := f.GetLayout()
		row := int(l.GetWidth()) * PixelBytes(l.GetPixelFormat())
		for y := range int(l.GetHeight()) {
			out = append(out, f.GetData()[y*int(l.GetStride()):][:row]...)
		}
		return out
	}
	gray := image.NewGray(image.Rect(0, 0, 10, 9))
	gray16 := image.NewGray16(gray.Rect)
	nrgba := image.NewNRGBA(gray.Rect)
	rgba := image.NewRGBA(gray.Rect)
	for y := range 9 {
		for x := range 10 {
			v := uint8(10*y + x)
			gray.SetGray(x, y, color.Gray{v})
			gray16.SetGray16(x, y, color.Gray16{uint16(v)<<8 | uint16(x)})
			nrgba.SetNRGBA(x, y, color.NRGBA{v, uint8(x), uint8(y), uint8(x * y)})
			rgba.SetRGBA(x, y, color.RGBA{v, uint8(x), uint8(y), 255})
		}
	}
	var wantGray, wantGray16, wantNRGBA, wantRGBA []byte
	for y := window.Min.Y; y < window.Max.Y; y++ {
		for x := window.Min.X; x < window.Max.X; x++ {
			v := uint8(10*y + x)
			wantGray = append(wantGray, v)
			wantGray16 = append(wantGray16, uint8(x), v)
			wantNRGBA = append(wantNRGBA, v, uint8(x), uint8(y), uint8(x*y))
			wantRGBA = append(wantRGBA, v, uint8(x), uint8(y), 255)
		}
	}
	for _, tt := range []struct {
		img  image.Image
		want []byte
	}{
		{gray.SubImage(window), wantGray},
		{gray16.SubImage(window), wantGray16},
		{nrgba.SubImage(window), wantNRGBA},
		{rgba.SubImage(window), wantRGBA},
	} {
		f, err := FromImage(tt.img)
		if err != nil {
			t.Errorf("%T: %v", tt.img, err)
			continue
		}
		if l := f.GetLayout(); l.GetWidth() != 5 || l.GetHeight() != 4 || !bytes.Equal(pixels(f), tt.want) {
			t.Errorf("%T: layout %v, pixels %v, want %v", tt.img, l, pixels(f), tt.want)
		}
	}
	rgba.SetRGBA(4, 4, color.RGBA{1, 1, 1, 9})
	for _, img := range []image.Image{rgba, image.NewCMYK(window),
		image.NewPaletted(window, color.Palette{color.Black})} {
		if _, err := FromImage(img); !errors.Is(err, ErrImage) {
			t.Errorf("%T: %v, want ErrImage", img, err)
		}
	}
	if _, err := FromImage(image.NewGray(image.Rect(0, 0, 0, 5))); err == nil {
		t.Error("an empty image: no error")
	}
}
