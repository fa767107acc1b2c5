package frames

import (
	"bytes"
	"image"
	"image/color"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/polyscan/polyscan/kernels"

	"github.com/polyscan/polyscan/server/internal/hostwork"
)

func randomBytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

// checkPixels compares a colour frame with a picture, pixel by pixel.
func checkPixels(t *testing.T, f kernels.Picture, img image.Image, format kernels.PixelFormat) {
	t.Helper()
	b := img.Bounds()
	if f.Width != b.Dx() || f.Height != b.Dy() || f.Format != format {
		t.Fatalf("%d x %d of %v, want %v of %v", f.Width, f.Height, f.Format, b, format)
	}
	data := slices.Concat(f.Data...)
	n := format.PixelBytes()
	for y := range f.Height {
		for x := range f.Width {
			c := color.NRGBAModel.Convert(img.At(b.Min.X+x, b.Min.Y+y)).(color.NRGBA)
			want := []byte{c.R, c.G, c.B, c.A}[:n]
			if format == kernels.BGR8 {
				want = []byte{c.B, c.G, c.R}
			}
			if got := data[y*f.Stride+x*n:][:n]; !bytes.Equal(got, want) {
				t.Fatalf("pixel (%d, %d): %v, want %v", x, y, got, want)
			}
		}
	}
}

func TestConvertYCbCr(t *testing.T) {
	for _, ratio := range []image.YCbCrSubsampleRatio{
		image.YCbCrSubsampleRatio444, image.YCbCrSubsampleRatio422, image.YCbCrSubsampleRatio420,
		image.YCbCrSubsampleRatio440, image.YCbCrSubsampleRatio411, image.YCbCrSubsampleRatio410,
	} {
		for _, size := range [][2]int{{1, 1}, {2, 3}, {31, 9}, {64, 2}} {
			img := image.NewYCbCr(image.Rect(0, 0, size[0], size[1]), ratio)
			for _, p := range [][]byte{img.Y, img.Cb, img.Cr} {
				copy(p, randomBytes(len(p)))
			}
			for _, format := range []kernels.PixelFormat{kernels.RGB8, kernels.BGR8, kernels.RGBA8} {
				f, free, err := convertImage(img, &imageHeader{width: size[0], height: size[1]}, format, nil)
				if err != nil {
					t.Fatal(err)
				}
				checkPixels(t, f, img, format)
				free()
			}
		}
	}
}

// All of the conversion's arithmetic.
func TestConvertYCbCrExhaustive(t *testing.T) {
	if testing.Short() {
		t.Skip("16.8 million colours")
	}
	img := image.NewYCbCr(image.Rect(0, 0, 256, 1), image.YCbCrSubsampleRatio444)
	dst := make([]byte, 3*256)
	for y := range 256 {
		for i := range img.Y {
			img.Y[i] = byte(y)
		}
		for cb := range 256 {
			for i := range 256 {
				img.Cb[i], img.Cr[i] = byte(cb), byte(i)
			}
			rowYCbCr(dst, img, 0, 256, kernels.RGB8)
			for i := range 256 {
				r, g, b := color.YCbCrToRGB(byte(y), byte(cb), byte(i))
				if dst[3*i] != r || dst[3*i+1] != g || dst[3*i+2] != b {
					t.Fatalf("(%d, %d, %d): %v, want %d %d %d", y, cb, i, dst[3*i:3*i+3], r, g, b)
				}
			}
		}
	}
}

func TestConvertOthers(t *testing.T) {
	r := image.Rect(0, 0, 33, 3)
	cmyk := image.NewCMYK(r)
	copy(cmyk.Pix, randomBytes(len(cmyk.Pix)))
	for _, format := range []kernels.PixelFormat{kernels.RGB8, kernels.BGR8, kernels.RGBA8} {
		f, free, err := convertImage(cmyk, &imageHeader{width: 33, height: 3}, format, nil)
		if err != nil {
			t.Fatal(err)
		}
		checkPixels(t, f, cmyk, format)
		free()
	}
	if _, _, err := convertImage(image.NewAlpha(r), &imageHeader{width: 33, height: 3}, kernels.Gray8, nil); err == nil {
		t.Error("an image of another type: no error")
	}
}

func TestUnmultiply(t *testing.T) {
	for a := range 256 {
		for c := range a + 1 {
			p := []byte{byte(c), byte(c), byte(c), byte(a)}
			unmultiply(p)
			want := 0.0
			if a > 0 {
				want = float64(c) * 255 / float64(a)
			}
			if d := float64(p[0]) - want; d < -0.5 || d > 0.5 {
				t.Fatalf("%d of %d: %d, want %v", c, a, p[0], want)
			}
		}
	}
}

// Reading the same bytes again and again ends.
func TestPieceReaderBudget(t *testing.T) {
	turn, err := hostwork.New(1).Enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	src := newPieceReader(t.Context(), turn, [][]byte{make([]byte, 10), nil, make([]byte, 90)})
	buf := make([]byte, 100)
	n := 0
	for ; n < 1<<20; n++ {
		if _, err := src.ReadAt(buf, 0); err != nil {
			if err != errReadTooOften {
				t.Error(err)
			}
			break
		}
	}
	if n > 20_000 {
		t.Errorf("%d reads of a file of 100 bytes", n)
	}
}
