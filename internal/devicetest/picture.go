// Pictures, and the oracle of edges.

package devicetest

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Picture is pixels of a format, Stride bytes from row to row. What is between rows is arbitrary.
type Picture struct {
	Name          string
	Width, Height int
	Stride        int
	Format        driver.PixelFormat
	Pixels        []byte
}

// PictureFormats are formats of every kind: channels in several orders, 16 bits of which all or fewer are used.
func PictureFormats() []driver.PixelFormat {
	return []driver.PixelFormat{
		driver.Gray8, driver.RGB8, driver.BGR8, driver.RGBA8, driver.Gray16(16), driver.Gray16(12), driver.Gray16(8),
		{Channels: 2, SampleBytes: 1, Bits: 8, Order: [4]uint8{1, 0}},
		{Channels: 4, SampleBytes: 1, Bits: 8, Order: [4]uint8{1, 2, 3, 0}}, // ARGB
	}
}

// Pictures are what ops on images are tested on: one pixel, one row, one column, flat ones, steps, checkers, ramps and
// noise, in all formats and around sizes at which backends cut, and random others.
func Pictures(seed uint64, random int) []Picture {
	r := rand.New(rand.NewPCG(seed, 13))
	formats := PictureFormats()
	var out []Picture
	add := func(name string, w, h int, sample func(x, y, c int) int) {
		f := formats[len(out)%len(formats)]
		p := Picture{Name: fmt.Sprintf("%s of %dx%d, %+v", name, w, h, f), Width: w, Height: h, Format: f}
		p.Stride = w*f.PixelBytes() + r.IntN(3)*int(f.SampleBytes)
		p.Pixels = make([]byte, p.Stride*(h-1)+w*f.PixelBytes())
		for i := range p.Pixels {
			p.Pixels[i] = byte(r.Uint32())
		}
		for y := range h {
			for x := range w {
				for c := range int(f.Channels) {
					if v := sample(x, y, c); f.SampleBytes == 2 {
						binary.LittleEndian.PutUint16(p.Pixels[y*p.Stride+2*x:], uint16(v))
					} else {
						p.Pixels[y*p.Stride+x*f.PixelBytes()+c] = byte(v)
					}
				}
			}
		}
		out = append(out, p)
	}
	noise := func(int, int, int) int { return int(r.Uint32()) }
	flat := func(int, int, int) int { return 0x9c9c }
	for _, s := range [][2]int{{1, 1}, {1, 2}, {2, 1}, {1, 50}, {50, 1}, {2, 2}, {3, 3}, {31, 33}, {32, 32}, {33, 31},
		{17, 65}, {64, 64}} {
		add("noise", s[0], s[1], noise)
		add("flat", s[0], s[1], flat)
	}
	add("step", 40, 20, func(x, _, _ int) int { return x / 20 * 0xffff })
	add("checker", 20, 40, func(x, y, _ int) int { return (x + y) % 2 * 0xffff })
	add("ramp", 50, 41, func(x, y, c int) int { return x*900 + y*3 + c*40 })
	// Longer than what backends do in one go.
	add("noise", 700, 9, noise)
	add("noise", 9, 500, noise)
	for i := range random {
		w, h := 1+r.IntN(80), 1+r.IntN(80)
		cx, cy, size := r.IntN(w), r.IntN(h), 1+r.IntN(30)
		switch i % 3 {
		case 0:
			add("noise", w, h, noise)
		case 1:
			add("square", w, h, func(x, y, c int) int {
				if max(x-cx, cx-x, y-cy, cy-y) < size {
					return 0xffff
				}
				return c * 0x3030
			})
		default:
			add("waves", w, h, func(x, y, c int) int { return (x*x/size + y*cy + c*77) * 257 })
		}
	}
	return out
}

// Image is the picture where its pixels are in device memory.
func (p *Picture) Image(data driver.Slice) driver.Image {
	return driver.Image{Data: data, Width: p.Width, Height: p.Height, Stride: p.Stride, Format: p.Format}
}

// sample is channel c of a pixel, channels in the order of [driver.PixelFormat].
func (p *Picture) sample(x, y, c int) int {
	at := p.Pixels[y*p.Stride+x*p.Format.PixelBytes():]
	if p.Format.SampleBytes == 2 {
		return int(binary.LittleEndian.Uint16(at))
	}
	return int(at[p.Format.Order[c]])
}

// luminance is as [driver.Edges] has it. A pixel beyond the picture has that of the nearest one.
func (p *Picture) luminance(x, y int) int {
	x, y = min(max(x, 0), p.Width-1), min(max(y, 0), p.Height-1)
	switch {
	case p.Format.SampleBytes == 2:
		return min(p.sample(x, y, 0), p.Format.Levels()-1) / (p.Format.Levels() / 256)
	case p.Format.Channels < 3:
		return p.sample(x, y, 0)
	}
	return (77*p.sample(x, y, 0) + 150*p.sample(x, y, 1) + 29*p.sample(x, y, 2) + 128) / 256
}

// Edges is what [driver.Edges] asks for, by its definition.
func (p *Picture) Edges() []uint16 {
	out := make([]uint16, 0, p.Width*p.Height)
	for y := range p.Height {
		for x := range p.Width {
			gx, gy := 0, 0
			for d, k := range [3]int{1, 2, 1} {
				gx += k * (p.luminance(x+1, y+d-1) - p.luminance(x-1, y+d-1))
				gy += k * (p.luminance(x+d-1, y+1) - p.luminance(x+d-1, y-1))
			}
			out = append(out, uint16(max(gx, -gx)+max(gy, -gy)))
		}
	}
	return out
}
