package cpu

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels/driver"
)

// TestCorrectKernels compares each set of instructions with the definition: all bytes with gains at which rounding
// changes, and words around what is saturated, at lengths around the steps.
func TestCorrectKernels(t *testing.T) {
	best := simd
	defer func() { simd = best }()
	rng := seed.New(t, 41, 7)
	for simd = levelGo; simd <= best; simd++ {
		for _, n := range []int{0, 1, 31, 32, 33, 63, 64, 65, 1 << 12} {
			for fraction := uint(driver.MinFraction); fraction <= driver.MaxFraction; fraction++ {
				octets, words := newSamples[uint8](n, rng), newSamples[uint16](n, rng)
				correctBytes(octets.dst, octets.src, octets.dark, octets.gain, fraction, 255)
				octets.check(t, fmt.Sprintf("%v, %d bytes", simd, n), fraction, 255)
				for _, most := range []uint{255, 1023, 4095, 65535} {
					for i := range words.src {
						if rng.IntN(2) == 0 {
							words.src[i] = uint16(most) - 1 + uint16(rng.IntN(3)) // wraps around at the largest
						}
					}
					correctWords(words.dst, words.src, words.dark, words.gain, fraction, most)
					words.check(t, fmt.Sprintf("%v, %d words", simd, n), fraction, int64(most))
				}
			}
		}
	}
}

type samples[T uint8 | uint16] struct {
	dst, src, dark []T
	gain           []uint16
}

func newSamples[T uint8 | uint16](n int, rng *rand.Rand) samples[T] {
	s := samples[T]{dst: make([]T, n)}
	for i := range n {
		gain := uint16(rng.Uint32())
		if i%5 == 0 {
			gain = 1 << (9 + i/5%7) // 1, or halves and quarters of it, which are where rounding is told
		}
		if i%7 == 0 {
			gain = 65535
		}
		s.src, s.dark, s.gain = append(s.src, T(rng.Uint32())), append(s.dark, T(rng.Uint32())*T(i%3/2)), append(s.gain, gain)
	}
	return s
}

func (s *samples[T]) check(t *testing.T, name string, fraction uint, most int64) {
	t.Helper()
	for i, raw := range s.src {
		want := int64(raw)
		if want < most {
			// Of numbers that may be negative >> rounds down.
			want = min(max(((want-int64(s.dark[i]))*int64(s.gain[i])+1<<(fraction-1))>>fraction, 0), most)
		}
		if int64(s.dst[i]) != want {
			t.Fatalf("%s: %d - %d times %d/2^%d is %d of %d, want %d", name, raw, s.dark[i], s.gain[i], fraction, s.dst[i],
				most, want)
		}
	}
}

// FuzzCorrect compares with the oracle.
func FuzzCorrect(f *testing.F) {
	f.Add(uint8(3), uint8(2), uint8(0), uint8(0), false, []byte{1, 200, 255})
	f.Add(uint8(40), uint8(3), uint8(3), uint8(6), true, []byte{7})
	f.Add(uint8(33), uint8(2), uint8(5), uint8(3), true, []byte{255, 15, 254, 16})
	f.Fuzz(func(t *testing.T, width, height, format, fraction uint8, whole bool, data []byte) {
		formats := devicetest.PictureFormats()
		p := devicetest.Picture{Width: 1 + int(width), Height: 1 + int(height)%8, Format: formats[int(format)%len(formats)]}
		p.Stride = p.Width * p.Format.PixelBytes()
		next := 0
		take := func() byte {
			if next++; len(data) == 0 {
				return byte(next)
			}
			return data[next%len(data)] + byte(next/len(data))
		}
		for range p.Stride * p.Height {
			p.Pixels = append(p.Pixels, take())
		}
		field := devicetest.Field{Width: p.Width, Height: 1, Format: p.Format,
			Fraction: driver.MinFraction + int(fraction)%(driver.MaxFraction-driver.MinFraction+1)}
		if whole {
			field.Height = p.Height
		}
		for range p.Width * int(p.Format.Channels) * field.Height {
			dark := uint16(take())
			if p.Format.SampleBytes == 2 {
				dark |= uint16(take()) << 8
			}
			field.Dark, field.Gain = append(field.Dark, dark), append(field.Gain, uint16(take())|uint16(take())<<8)
		}
		dark, gain := field.Lay()
		x := newFixture(t, 2, int64(2*len(p.Pixels)+len(dark)+len(gain)+4*driver.Align))
		op := &driver.Correct{Src: p.Image(x.upload(p.Pixels)), Dark: x.upload(dark), Gain: x.upload(gain),
			Fraction: field.Fraction, FieldRows: field.Height}
		op.Dst = p.Image(x.slice(int64(len(p.Pixels))))
		x.ok(x.s.Run(op))
		want := field.Correct(&p, 0)
		if diff := devicetest.ComparePainted("Correct", download[byte](x, op.Dst.Data), want.Pixels, &want); diff != nil {
			t.Fatal(diff)
		}
	})
}

// BenchmarkCorrect corrects frames of 12 Mpx, and copies them, by the same threads.
func BenchmarkCorrect(b *testing.B) {
	const w, h = 4096, 3072
	for _, c := range []struct {
		format driver.PixelFormat
		rows   int
		name   string
	}{
		{driver.Gray8, 0, "copy"}, {driver.Gray8, 1, "columns"}, {driver.Gray8, h, "frame"}, {driver.RGB8, 0, "copy"},
		{driver.RGB8, 1, "columns"}, {driver.RGB8, h, "frame"}, {driver.Gray16(12), 0, "copy"},
		{driver.Gray16(12), 1, "columns"}, {driver.Gray16(12), h, "frame"},
	} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%v/%s/threads=%d", c.format, c.name, threads), func(b *testing.B) {
				row, pitch, rows := w*c.format.PixelBytes(), driver.FieldPitch(w, c.format), max(c.rows, 1)
				n := row * h
				fx := newFixture(b, threads, int64(2*n+4*pitch*rows+1<<12))
				src := texture(n)
				image := func(data driver.Slice) driver.Image {
					return driver.Image{Data: data, Width: w, Height: h, Stride: row, Format: c.format}
				}
				op := &driver.Correct{Src: image(fx.upload(src)), Dst: image(fx.slice(int64(n))), Fraction: 14,
					FieldRows: rows}
				op.Dark = fx.upload(make([]byte, pitch*rows*int(c.format.SampleBytes)))
				op.Gain = fx.upload(bytes.Repeat([]byte{0x11, 0x41}, pitch*rows))
				b.SetBytes(int64(n))
				loop(b, func() {
					if c.rows == 0 {
						fx.ok(fx.s.Upload(op.Dst.Data, [][]byte{src}))
					} else {
						fx.ok(fx.s.Run(op))
					}
					fx.wait()
				})
			})
		}
	}
}
