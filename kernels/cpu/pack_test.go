package cpu

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels/driver"
)

// The conformance suite has the cases of Unpack and Pack; here are arbitrary input, the way there and back, and their
// speed.

// roundTrip runs Unpack and then Pack on what came of it, with no pixel taken from the source.
func roundTrip(t testing.TB, p *devicetest.Picture) []byte {
	n := p.Width * p.Height
	x := newFixture(t, 2, int64(2*len(p.Pixels)+n+4*n*p.Format.Colours()+4*driver.Align))
	src := p.Image(x.upload(p.Pixels))
	flags, planes := x.slice(int64(n)), x.slice(4*int64(n*p.Format.Colours()))
	dst := p.Image(x.slice(int64(len(p.Pixels))))
	x.ok(x.s.Run(&driver.Unpack{Src: src, Flags: flags, Planes: planes}))
	x.ok(x.s.Run(&driver.Pack{Planes: planes, Dst: dst}))
	return download[byte](x, dst.Data)
}

// TestPackRoundTrip: every sample of every format comes back.
func TestPackRoundTrip(t *testing.T) {
	for _, f := range devicetest.PictureFormats() {
		p := &devicetest.Picture{Width: 256, Height: max(f.Levels()/256, 1), Format: f, Stride: 256 * f.PixelBytes()}
		p.Pixels = make([]byte, p.Stride*p.Height)
		for i := range p.Width * p.Height {
			for k := range f.PixelBytes() {
				p.Pixels[i*f.PixelBytes()+k] = byte(i)
			}
			if f.SampleBytes == 2 {
				binary.LittleEndian.PutUint16(p.Pixels[2*i:], uint16(i))
			} else if f.HasAlpha() {
				p.Pixels[i*f.PixelBytes()+int(f.Order[f.Channels-1])] = 255
			}
		}
		if d := devicetest.ComparePainted("Pack", roundTrip(t, p), p.Pixels, p); d != nil {
			t.Errorf("%+v: %v", f, d)
		}
	}
}

func FuzzPack(f *testing.F) {
	for i, p := range devicetest.Pictures(1, 6) {
		f.Add(p.Pixels, []byte{0, 0, 0x80, 0x3f, 0, 0, 0xc0, 0x7f, byte(i), 1, 2, 0xbf}, uint8(p.Width), uint8(i))
	}
	f.Fuzz(func(t *testing.T, b, numbers []byte, w, format uint8) {
		formats := devicetest.PictureFormats()
		p := devicetest.Picture{Format: formats[int(format)%len(formats)], Width: 1 + int(w)}
		p.Stride = p.Width * p.Format.PixelBytes()
		if p.Height = min(len(b)/p.Stride, 64); p.Height == 0 || len(numbers) < 4 {
			return
		}
		p.Pixels = b[:p.Height*p.Stride]
		n := p.Width * p.Height
		flags, planes := make([]byte, n), make([]float32, n*p.Format.Colours())
		for i := range flags {
			flags[i] = numbers[i%len(numbers)] & driver.DiffusionFixed
		}
		for i := range planes {
			at := 4 * i % (len(numbers) - 3)
			planes[i] = math.Float32frombits(binary.LittleEndian.Uint32(numbers[at:]))
		}
		x := newFixture(t, 2, int64(3*len(p.Pixels)+n+4*len(planes)+6*driver.Align))
		op := driver.Pack{Planes: x.upload(bytesOf(planes)), Flags: x.upload(flags), Src: p.Image(x.upload(p.Pixels))}
		op.Dst, op.Residual = p.Image(x.slice(int64(len(p.Pixels)))), p.Image(x.slice(int64(len(p.Pixels))))
		x.ok(x.s.Run(&op))
		dst, residual := p.Pack(planes, flags)
		if d := devicetest.ComparePainted("Pack", download[byte](x, op.Dst.Data), dst.Pixels, dst); d != nil {
			t.Error(d)
		}
		if d := devicetest.ComparePainted("Pack", download[byte](x, op.Residual.Data), residual.Pixels,
			residual); d != nil {
			t.Error(d)
		}
	})
}

func BenchmarkPack(b *testing.B) {
	const w, h = 1920, 1080
	for _, format := range []driver.PixelFormat{driver.Gray8, driver.RGB8} {
		size, colours := format.PixelBytes(), format.Colours()
		f := newFixture(b, 2, int64(w*h*(2*size+1+4*colours)+4*driver.Align))
		src := driver.Image{Data: f.upload(texture(w * h * size)), Width: w, Height: h, Stride: w * size,
			Format: format}
		dst := src
		flags, planes := f.slice(w*h), f.slice(4*int64(w*h*colours))
		dst.Data = f.slice(src.Data.Len)
		f.wait()
		for name, op := range map[string]func() error{
			"Unpack": func() error { return f.s.Run(&driver.Unpack{Src: src, Flags: flags, Planes: planes}) },
			"Pack":   func() error { return f.s.Run(&driver.Pack{Planes: planes, Flags: flags, Src: src, Dst: dst}) },
		} {
			b.Run(fmt.Sprintf("%s/%dx%d/channels=%d", name, w, h, colours), func(b *testing.B) {
				b.SetBytes(int64(w * h * (size + 1 + 4*colours)))
				for b.Loop() {
					if err := errors.Join(op(), f.s.Wait(context.Background())); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
