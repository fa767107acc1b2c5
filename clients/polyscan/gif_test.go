package main

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/internal/seed"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// testGIF has frames with each way of disposal: a red background, a green square that goes again, a blue one that
// leaves a hole, and a white pixel.
func testGIF(t testing.TB) []byte {
	palette := color.Palette{color.NRGBA{}, color.NRGBA{255, 0, 0, 255}, color.NRGBA{0, 255, 0, 255},
		color.NRGBA{0, 0, 255, 255}, color.NRGBA{255, 255, 255, 255}}
	part := func(r image.Rectangle, index uint8) *image.Paletted {
		im := image.NewPaletted(r, palette)
		for i := range im.Pix {
			im.Pix[i] = index
		}
		return im
	}
	g := &gif.GIF{
		Image: []*image.Paletted{
			part(image.Rect(0, 0, 6, 4), 1), part(image.Rect(1, 1, 3, 3), 2), part(image.Rect(2, 0, 5, 2), 3),
			part(image.Rect(5, 3, 6, 4), 4),
		},
		Delay:    []int{1, 1, 1, 1},
		Disposal: []byte{gif.DisposalNone, gif.DisposalPrevious, gif.DisposalBackground, 0},
		Config:   image.Config{ColorModel: palette, Width: 6, Height: 4},
	}
	g.Image[1].SetColorIndex(1, 1, 0) // what is transparent shows what is below
	var b bytes.Buffer
	if err := gif.EncodeAll(&b, g); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestGIFClip(t *testing.T) {
	c, err := gifClip("film.gif", testGIF(t))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for f, err := range c.frames {
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for p := range slices.Chunk(f.data, 4) {
			switch [4]byte(p) {
			case [4]byte{255, 0, 0, 255}:
				b.WriteByte('r')
			case [4]byte{0, 255, 0, 255}:
				b.WriteByte('g')
			case [4]byte{0, 0, 255, 255}:
				b.WriteByte('b')
			case [4]byte{255, 255, 255, 255}:
				b.WriteByte('w')
			case [4]byte{}:
				b.WriteByte('.')
			default:
				fmt.Fprintf(&b, "%x", p)
			}
		}
		got = append(got, b.String())
	}
	want := []string{
		"rrrrrr" + "rrrrrr" + "rrrrrr" + "rrrrrr",
		"rrrrrr" + "rrgrrr" + "rggrrr" + "rrrrrr",
		"rrbbbr" + "rrbbbr" + "rrrrrr" + "rrrrrr",
		"rr...r" + "rr...r" + "rrrrrr" + "rrrrrw",
	}
	if !slices.Equal(got, want) || c.count != 4 {
		t.Errorf("%d frames:\n%s\nwant\n%s", c.count, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for range c.frames {
		break // leaves nothing behind
	}
}

func FuzzGIFClip(f *testing.F) {
	f.Add(testGIF(f))
	f.Add([]byte("GIF89a"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if cfg, err := gif.DecodeConfig(bytes.NewReader(b)); err == nil && cfg.Width*cfg.Height > 1<<16 {
			return // slow, and nothing new
		}
		c, err := gifClip("film.gif", b)
		if err != nil {
			return
		}
		n := 0
		for f, err := range c.frames {
			if n++; err != nil || len(f.data) != 4*f.raw.Width*f.raw.Height {
				t.Fatalf("frame %d of %dx%d has %d bytes, %v", n, f.raw.Width, f.raw.Height, len(f.data), err)
			}
		}
		if n != c.count {
			t.Fatalf("%d frames of %d", n, c.count)
		}
	})
}

// rawPicture is an answer of RGBA pixels.
func rawPicture(im *image.NRGBA) *polyscanv1.Frame {
	raw := clients.Raw{Width: im.Rect.Dx(), Height: im.Rect.Dy(), Format: clients.RGBA8}
	return raw.Frame(im.Pix)
}

// shown is a GIF's pictures as a viewer shows them.
func shown(t *testing.T, data []byte) (out []*image.NRGBA) {
	t.Helper()
	c, err := gifClip("film.gif", data)
	if err != nil {
		t.Fatal(err)
	}
	for f, err := range c.frames {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, &image.NRGBA{Pix: f.data, Stride: 4 * f.raw.Width,
			Rect: image.Rect(0, 0, f.raw.Width, f.raw.Height)})
	}
	return out
}

// Pictures of up to 255 colours come out as they went in, with delays and loops, also where something is transparent in
// some of them.
func TestGIFSink(t *testing.T) {
	r := seed.New(t, 1, 1)
	for _, holes := range []bool{false, true} {
		name := filepath.Join(t.TempDir(), "out.gif")
		s := &gifSink{name: name, delays: []int{7, 0, 300, 2, 9, 1}, loops: 4, rate: defaultRate}
		var want []*image.NRGBA
		im := image.NewNRGBA(image.Rect(0, 0, 31, 17))
		for i := range im.Rect.Dx() * im.Rect.Dy() {
			copy(im.Pix[4*i:], []byte{byte(i % 16 * 16), byte(i / 31 % 8 * 30), 99, 255})
		}
		for i := range 6 {
			if i > 0 && i != 3 { // that is the same once more
				for range 5 {
					at := im.PixOffset(3+r.IntN(20), 2+r.IntN(9))
					copy(im.Pix[at:], []byte{byte(r.IntN(3) * 100), 7, 7, 255})
				}
			}
			if holes && i == 2 {
				clear(im.Pix[im.PixOffset(5, 5):im.PixOffset(12, 5)])
			}
			if holes && i == 4 {
				for p := 3; p < len(im.Pix); p += 4 {
					im.Pix[p] = 255
				}
			}
			frame := &image.NRGBA{Pix: bytes.Clone(im.Pix), Stride: im.Stride, Rect: im.Rect}
			want = append(want, frame)
			if err := s.add(rawPicture(&image.NRGBA{Pix: bytes.Clone(im.Pix), Stride: im.Stride,
				Rect: im.Rect})); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.close(true); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		got := shown(t, data)
		for i := range want {
			if i >= len(got) || !bytes.Equal(got[i].Pix, want[i].Pix) {
				t.Errorf("holes %v: frame %d of %d differs", holes, i, len(got))
			}
		}
		g, err := gif.DecodeAll(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(g.Delay, []int{7, 0, 300, 2, 9, 1}) || g.LoopCount != 4 {
			t.Errorf("delays %v, %d loops", g.Delay, g.LoopCount)
		}
		if !holes && (g.Image[1].Bounds() == g.Image[0].Bounds() || g.Image[3].Bounds() != image.Rect(0, 0, 1, 1)) {
			t.Errorf("frames that hardly change are %v and %v", g.Image[1].Bounds(), g.Image[3].Bounds())
		}
	}
}

// A palette of 256 is near to pictures of many colours, and few colours stay what they are beside many others.
func TestReduceColors(t *testing.T) {
	im := image.NewNRGBA(image.Rect(0, 0, 256, 256))
	r := seed.New(t, 1, 2)
	for y := range 256 {
		for x := range 256 {
			c := color.NRGBA{uint8(x), uint8(y), uint8((x + y) / 2), 255}
			if x < 128 && y < 128 {
				c = color.NRGBA{250, 0, 250, 255} // far from the rest
			}
			im.SetNRGBA(x, y, c)
		}
	}
	out := reduceColors(im, im.Bounds())
	if len(out.Palette) != 256 {
		t.Fatalf("%d colours", len(out.Palette))
	}
	sum := 0
	for y := range 256 {
		for x := range 256 {
			a, b := im.NRGBAAt(x, y), color.NRGBAModel.Convert(out.At(x, y)).(color.NRGBA)
			if x < 128 && y < 128 && a != b {
				t.Fatalf("pixel (%d, %d) is %v, was %v", x, y, b, a)
			}
			for _, d := range []int{int(a.R) - int(b.R), int(a.G) - int(b.G), int(a.B) - int(b.B)} {
				sum += max(d, -d)
			}
		}
	}
	if mean := float64(sum) / (3 * 256 * 256); mean > 4 {
		t.Errorf("colours are off by %.2f levels", mean)
	}
	for n := range 6 { // parts of few colours, of one, of none
		part := image.Rect(0, 0, n, 1+n/2).Add(image.Pt(r.IntN(200), r.IntN(200)))
		for _, p := range []image.Rectangle{part, part.Intersect(image.Rect(0, 0, 100, 100))} {
			if got := reduceColors(im, p); got.Bounds() != p {
				t.Errorf("%v became %v", p, got.Bounds())
			}
		}
	}
}

func TestGIFSinkRefuses(t *testing.T) {
	s := &gifSink{name: filepath.Join(t.TempDir(), "out.gif"), rate: defaultRate}
	if err := s.add(rawPicture(image.NewNRGBA(image.Rect(0, 0, 5, 4)))); err != nil {
		t.Fatal(err)
	}
	err := s.add(rawPicture(image.NewNRGBA(image.Rect(0, 0, 4, 5))))
	if err == nil || !strings.Contains(err.Error(), "4x5 follows others of 5x4") {
		t.Error(err)
	}
	if err := s.close(false); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.name); err == nil {
		t.Error("there is a file")
	}
	if err := s.add(&polyscanv1.Frame{Layout: &polyscanv1.FrameLayout{Width: 3, Height: 3,
		PixelFormat: polyscanv1.PixelFormat_PIXEL_FORMAT_RGB8}}); err == nil {
		t.Error("a picture without pixels is fine")
	}
}

// Delays add up to what the rate says.
func TestDelay(t *testing.T) {
	for _, f := range []fraction{{25, 1}, {30, 1}, {30000, 1001}, {60, 1}, {1000, 1}, {1, 3}} {
		sum := 0
		for i := range 600 {
			sum += f.delay(i)
		}
		if want := (200*600*f.den + f.num) / (2 * f.num); sum != want {
			t.Errorf("600 frames at %v take %d, want %d", f, sum, want)
		}
	}
}
