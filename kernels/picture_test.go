package kernels

import (
	"bytes"
	"errors"
	"image"
	"image/color"
	"image/draw"
	"testing"

	"github.com/polyscan/polyscan/kernels/driver"
)

func TestPictureCheck(t *testing.T) {
	pieces := func(n ...int) (out [][]byte) {
		for _, k := range n {
			out = append(out, make([]byte, k))
		}
		return out
	}
	for _, x := range []struct {
		field   string // "": none
		picture Picture
	}{
		{"", Picture{Width: 4, Height: 3, Format: driver.RGB8, Data: pieces(10, 0, 26)}},
		{"", Picture{Width: 4, Height: 3, Stride: 20, Format: driver.RGB8, Data: pieces(52)}}, // without the last gap
		{"", Picture{Width: 4, Height: 3, Stride: 20, Format: driver.RGB8, Data: pieces(60)}},
		{"format", Picture{Width: 4, Height: 3}},
		{"width", Picture{Height: 3, Format: driver.Gray8}},
		{"width", Picture{Width: driver.MaxSide + 1, Height: 3, Format: driver.Gray8}},
		{"height", Picture{Width: 4, Height: -1, Format: driver.Gray8}},
		{"height", Picture{Width: 1 << 20, Height: 1 << 10, Format: driver.Gray8}},
		{"stride", Picture{Width: 4, Height: 3, Stride: 11, Format: driver.RGB8, Data: pieces(36)}},
		{"stride", Picture{Width: 4, Height: 3, Stride: 9, Format: driver.Gray16(12), Data: pieces(27)}},
		{"stride", Picture{Width: 4, Height: 3, Stride: 1 << 40, Format: driver.Gray8}},
		{"data", Picture{Width: 4, Height: 3, Format: driver.RGB8, Data: pieces(35)}},
		{"data", Picture{Width: 4, Height: 3, Stride: 20, Format: driver.RGB8, Data: pieces(51)}},
		{"data", Picture{Width: 4, Height: 3, Stride: 20, Format: driver.RGB8, Data: pieces(61)}},
		{"data", Picture{Width: 4, Height: 3, Format: driver.Gray8}},
	} {
		var bad *InvalidError
		err := x.picture.Check("frame")
		if x.field == "" && err != nil || x.field != "" && (!errors.As(err, &bad) ||
			bad.Violations[0].Path.String() != "frame."+x.field || bad.Violations[0].Reason == "") {
			t.Errorf("%+v: %v, want an error about %q", x.picture, err, x.field)
		}
	}
}

// TestPictureOf: each kind of image becomes the pixels that it shows, in the format that holds them, and an image
// again.
func TestPictureOf(t *testing.T) {
	r := image.Rect(-1, 2, 4, 5)
	opaque := func(x, y int) color.Color {
		return color.NRGBA{uint8(40 * (x + 1)), uint8(30 * y), uint8(7 * x * y), 255}
	}
	clear := func(x, y int) color.Color {
		return color.NRGBA{uint8(40 * (x + 1)), uint8(30 * y), uint8(x + y), uint8(60 * (x + 1))}
	}
	for _, c := range []struct {
		im   draw.Image
		at   func(x, y int) color.Color
		want PixelFormat
	}{
		{image.NewGray(r), opaque, Gray8},
		{image.NewGray16(r), opaque, Gray16(16)},
		{image.NewNRGBA(r), clear, RGBA8},
		{image.NewNRGBA(r), opaque, RGB8},
		{image.NewRGBA(r), opaque, RGB8},
		{image.NewRGBA(r), clear, RGBA8},
		{image.NewCMYK(r), opaque, RGB8},
		{image.NewPaletted(r, color.Palette{color.White, color.NRGBA{200, 100, 50, 128}}), clear, RGBA8},
	} {
		for y := r.Min.Y; y < r.Max.Y; y++ {
			for x := r.Min.X; x < r.Max.X; x++ {
				c.im.Set(x, y, c.at(x, y))
			}
		}
		p := PictureOf(c.im)
		if err := p.Check(); err != nil || p.Format != c.want {
			t.Errorf("%T: %v, %v, want %v", c.im, p.Format, err, c.want)
			continue
		}
		again := p.Image()
		for y := range p.Height {
			for x := range p.Width {
				want := color.NRGBA64Model.Convert(c.im.At(r.Min.X+x, r.Min.Y+y)).(color.NRGBA64)
				got := color.NRGBA64Model.Convert(again.At(x, y)).(color.NRGBA64)
				for k, d := range []int{int(got.R) - int(want.R), int(got.G) - int(want.G), int(got.B) - int(want.B),
					int(got.A) - int(want.A)} {
					if max(d, -d) > 0x101 { // a level of 8 bits, by which dividing by alpha may round
						t.Fatalf("%T: sample %d of (%d, %d) is %v, want %v", c.im, k, x, y, got, want)
					}
				}
			}
		}
	}
	if p := PictureOf(image.NewGray(image.Rect(0, 0, 0, 5))); p.Check() == nil {
		t.Error("no pixels: no error")
	}
}

// TestPictureImage: pieces and gaps between rows make no difference, and formats without an image of their own do
// neither.
func TestPictureImage(t *testing.T) {
	p := Picture{Width: 2, Height: 2, Stride: 8, Format: BGR8,
		Data: [][]byte{{1, 2, 3, 4}, {}, {5, 6, 99, 99, 7, 8, 9}, {10, 11, 12}}}
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	want := []byte{3, 2, 1, 255, 6, 5, 4, 255, 9, 8, 7, 255, 12, 11, 10, 255}
	if got := p.Image().(*image.NRGBA); !bytes.Equal(got.Pix, want) {
		t.Errorf("%v, want %v", got.Pix, want)
	}
	p = Picture{Width: 1, Height: 2, Format: Gray16(12), Data: [][]byte{{0x34, 0x02, 0x78, 0x06}}}
	if got := p.Image().(*image.Gray16); !bytes.Equal(got.Pix, []byte{2, 0x34, 6, 0x78}) {
		t.Errorf("% x", got.Pix)
	}
	grayAlpha := PixelFormat{Channels: 2, SampleBytes: 1, Bits: 8, Order: [4]uint8{1, 0}}
	p = Picture{Width: 1, Height: 1, Format: grayAlpha, Data: [][]byte{{200, 50}}}
	if got := p.Image().(*image.NRGBA); !bytes.Equal(got.Pix, []byte{50, 50, 50, 200}) {
		t.Errorf("%v", got.Pix)
	}
}

func TestInvalidError(t *testing.T) {
	bad := InvalidError{Domain: "polygon"}
	if bad.Err() != nil || bad.Error() != "polygon: invalid input" {
		t.Errorf("%v, %q", bad.Err(), bad.Error())
	}
	bad.Include(nil)
	for i := range 30 {
		bad.Add(Path{"regions", i, "rings", 0, "x"}, i, "must be %d", 1)
	}
	more := InvalidError{}
	for range MaxViolations + 1 {
		more.Add(Path{"frame"}, "", "must be given")
	}
	bad.Include(more.Err())
	want := "polygon: regions[0].rings[0].x = 0: must be 1 (and 62 more)"
	if err := bad.Err(); err == nil || err.Error() != want || len(bad.Violations) != 32 || bad.More != 31 {
		t.Errorf("%v, %d violations and %d more; want %s", err, len(bad.Violations), bad.More, want)
	}
	if s := bad.Violations[31].String(); s != "frame: must be given" {
		t.Error(s)
	}
}
