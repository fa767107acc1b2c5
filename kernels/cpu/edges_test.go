package cpu

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels/driver"
)

// The conformance suite has the cases of Edges; here are arbitrary input and its speed.

func FuzzEdges(f *testing.F) {
	for i, p := range devicetest.Pictures(1, 6) {
		f.Add(p.Pixels, uint8(p.Width), uint8(i))
	}
	f.Fuzz(func(t *testing.T, b []byte, w, format uint8) {
		formats := devicetest.PictureFormats()
		p := devicetest.Picture{Format: formats[int(format)%len(formats)], Width: 1 + int(w)}
		p.Stride = p.Width * p.Format.PixelBytes()
		if p.Height = min(len(b)/p.Stride, 64); p.Height == 0 {
			return
		}
		p.Pixels = b[:p.Height*p.Stride]
		x := newFixture(t, 2, int64(len(p.Pixels)+2*p.Width*p.Height+2*driver.Align))
		src := x.upload(p.Pixels)
		dst := x.slice(2 * int64(p.Width) * int64(p.Height))
		x.ok(x.s.Run(&driver.Edges{Src: p.Image(src), Dst: dst}))
		if diff := devicetest.CompareEdges(download[uint16](x, dst), p.Edges(), p.Width); diff != nil {
			t.Fatal(diff)
		}
	})
}

func BenchmarkEdges(b *testing.B) {
	const w, h = 1920, 1080
	for name, format := range map[string]driver.PixelFormat{"GRAY8": driver.Gray8, "RGB8": driver.RGB8} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%dx%d/%s/threads=%d", w, h, name, threads), func(b *testing.B) {
				n := format.PixelBytes()
				f := newFixture(b, threads, int64(w*h*(n+2)+2*driver.Align))
				op := driver.Edges{Src: driver.Image{Data: f.upload(texture(w * h * n)), Width: w, Height: h,
					Stride: w * n, Format: format}}
				op.Dst = f.slice(2 * w * h)
				f.wait()
				b.SetBytes(int64(w * h * (n + 2)))
				for b.Loop() {
					if err := errors.Join(f.s.Run(&op), f.s.Wait(context.Background())); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
