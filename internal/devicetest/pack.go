// Planes of numbers, and the oracles of the ops between them and images.

package devicetest

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"

	"github.com/polyscan/polyscan/kernels/driver"
)

// set writes a sample.
func (p *Picture) set(x, y, c, v int) {
	at := p.Pixels[y*p.Stride+x*p.Format.PixelBytes():]
	if p.Format.SampleBytes == 2 {
		binary.LittleEndian.PutUint16(at, uint16(v))
	} else {
		at[p.Format.Order[c]] = byte(v)
	}
}

// opaque reports whether a pixel has no alpha, or all of it.
func (p *Picture) opaque(x, y int) bool {
	return !p.Format.HasAlpha() || p.sample(x, y, int(p.Format.Channels)-1) == 255
}

// Unpack is what [driver.Unpack] asks for, by its definition. mask may be nil.
func (p *Picture) Unpack(mask []byte) (flags []byte, planes []float32) {
	n := p.Width * p.Height
	flags, planes = make([]byte, n), make([]float32, n*p.Format.Colours())
	most := p.Format.Levels() - 1
	for i := range n {
		x, y := i%p.Width, i/p.Width
		if (mask == nil || mask[i] == 0) && p.opaque(x, y) {
			flags[i] = driver.DiffusionFixed
		}
		for c := range p.Format.Colours() {
			planes[c*n+i], _ = big.NewRat(int64(min(p.sample(x, y, c), most)), int64(most)).Float32()
		}
	}
	return flags, planes
}

// Pack is what [driver.Pack] asks for, by its definition, in the format of p, whose pixels are Src's. flags may be nil.
func (p *Picture) Pack(planes []float32, flags []byte) (dst, residual *Picture) {
	n := p.Width * p.Height
	dst, residual = p.blank(), p.blank()
	most := p.Format.Levels() - 1
	for i := range n {
		x, y := i%p.Width, i/p.Width
		for c := range p.Format.Colours() {
			s := min(p.sample(x, y, c), most)
			d := s
			if flags == nil || flags[i]&driver.DiffusionFixed == 0 {
				d = nearest(planes[c*n+i], most)
			}
			dst.set(x, y, c, d)
			residual.set(x, y, c, min(max(s-d+p.Format.Levels()/2, 0), most))
		}
		if c := int(p.Format.Channels) - 1; p.Format.HasAlpha() {
			dst.set(x, y, c, 255)
			residual.set(x, y, c, 255)
		}
	}
	return dst, residual
}

// blank is a picture of the same layout.
func (p *Picture) blank() *Picture {
	q := *p
	q.Pixels = make([]byte, len(p.Pixels))
	for i := range q.Pixels {
		q.Pixels[i] = dirtyByte
	}
	return &q
}

// nearest is the sample nearest to a number times most, as float32 has the product and the sum with a half.
func nearest(v float32, most int) int {
	product := rounded(float64(v) * float64(most)) // 24 bits times 16 fit in a float64
	switch sum := rounded(float64(product) + 0.5); {
	case math.IsNaN(float64(v)) || sum < 0:
		return 0
	case float64(sum) > float64(most):
		return most
	default:
		return int(math.Floor(float64(sum)))
	}
}

func rounded(v float64) float32 { return float32(v) }

// CompareUnpacked compares what [driver.Unpack] wrote for images of a width.
func CompareUnpacked(flagsA, flagsB []byte, planesA, planesB []float32, width int) *Difference {
	const op = "Unpack"
	var f found
	f.add(op, -1, 0, func() string { return "len(Flags)" }, uint64(len(flagsA)), uint64(len(flagsB)))
	f.add(op, -1, 0, func() string { return "len(Planes)" }, uint64(len(planesA)), uint64(len(planesB)))
	for i := range min(len(flagsA), len(flagsB)) {
		f.add(op, -1, 0, func() string {
			return fmt.Sprintf("Flags of pixel (%d, %d)", i%width, i/width)
		}, uint64(flagsA[i]), uint64(flagsB[i]))
	}
	for i := range min(len(planesA), len(planesB)) {
		f.add(op, -1, 0, func() string {
			n := len(flagsA)
			return fmt.Sprintf("bits of channel %d of pixel (%d, %d)", i/n, i%n%width, i%n/width)
		}, uint64(math.Float32bits(planesA[i])), uint64(math.Float32bits(planesB[i])))
	}
	return f.d
}
