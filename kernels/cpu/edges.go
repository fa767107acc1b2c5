// Edges: luminance and Sobel.

package cpu

import (
	"encoding/binary"
	"sync"

	"github.com/polyscan/polyscan/kernels/driver"
)

// edgeRows is how many rows a thread takes at a time: the luminance of two more is computed for them.
const edgeRows = 32

func (d *device) edges(op *driver.Edges, stop *stopFlag) error {
	im, dst := &op.Src, viewAs[uint16](op.Dst)
	return threeRows(d, "Edges", im, 4, &lumaRows, luminance, stop, func(y int, above, here, below []uint8) {
		sobel(dst[y*im.Width:][:im.Width], above, here, below)
	})
}

// lumaRows holds memory of pieces, so that they allocate nothing in the steady state; lumaLines is for samples of up to
// 16 bits.
var (
	lumaRows  = sync.Pool{New: func() any { return new([]uint8) }}
	lumaLines = sync.Pool{New: func() any { return new([]uint16) }}
)

// threeRows calls do for each row of an image with its luma and that of the rows above and below. They have a pixel
// more on either side; pixels beyond the image have the value of the nearest one in it. A pixel takes about cost
// nanoseconds.
func threeRows[T uint8 | uint16](d *device, op string, im *driver.Image, cost int, pool *sync.Pool,
	luma func(dst []T, src []byte, f driver.PixelFormat), stop *stopFlag, do func(y int, above, here, below []T)) error {
	src := view(im.Data)
	return d.longPieces(op, (im.Height+edgeRows-1)/edgeRows, stop, func(i int, p *pace) bool {
		w := im.Width + 2
		memory := pool.Get().(*[]T)
		defer pool.Put(memory)
		if len(*memory) < 3*w {
			*memory = make([]T, 3*w)
		}
		row := func(y int) []T { return (*memory)[(y+1)%3*w:][:w] } // from -1 on
		fill := func(y int) {
			r := row(y)
			c := min(max(y, 0), im.Height-1)
			luma(r[1:w-1], src[c*im.Stride:], im.Format)
			r[0], r[w-1] = r[1], r[w-2]
		}
		lo, hi := i*edgeRows, min((i+1)*edgeRows, im.Height)
		fill(lo - 1)
		fill(lo)
		for y := lo; y < hi; y++ {
			fill(y + 1)
			do(y, row(y-1), row(y), row(y+1))
			if p.spend(im.Width * cost) { // rows may be long
				return false
			}
		}
		return true
	})
}

// sobel writes a row. above, here and below have a pixel more on either side.
func sobel(dst []uint16, above, here, below []uint8) {
	n := len(dst) + 2
	above, here, below = above[:n], here[:n], below[:n]
	// Sums and differences of columns: of the one to the left, of this one, and of the one to the right.
	column := func(x int) (sum, diff int32) {
		a, b := int32(above[x]), int32(below[x])
		return a + 2*int32(here[x]) + b, b - a
	}
	s0, d0 := column(0)
	s1, d1 := column(1)
	for x := range dst {
		s2, d2 := column(x + 2)
		dst[x] = uint16(abs(s2-s0) + abs(d0+2*d1+d2))
		s0, d0, s1, d1 = s1, d1, s2, d2
	}
}

func abs(v int32) int32 {
	m := v >> 31
	return (v ^ m) - m
}

// luminance writes that of a row of len(dst) pixels.
func luminance(dst, src []byte, f driver.PixelFormat) {
	switch {
	case f.SampleBytes == 2:
		shift := f.Bits - 8
		for x := range dst {
			dst[x] = uint8(min(binary.LittleEndian.Uint16(src[2*x:])>>shift, 255))
		}
	case f.Channels < 3:
		n, at := int(f.Channels), int(f.Order[0])
		for x := range dst {
			dst[x] = src[n*x+at]
		}
	default:
		n := int(f.Channels)
		// Weights in the order of memory, so that there is one loop for all orders.
		var k [4]uint32
		for c, v := range [3]uint32{77, 150, 29} {
			k[f.Order[c]] = v
		}
		if n == 3 {
			for x := range dst {
				p := src[3*x : 3*x+3 : 3*x+3]
				dst[x] = uint8((k[0]*uint32(p[0]) + k[1]*uint32(p[1]) + k[2]*uint32(p[2]) + 128) >> 8)
			}
			return
		}
		for x := range dst {
			p := src[4*x : 4*x+4 : 4*x+4]
			dst[x] = uint8((k[0]*uint32(p[0]) + k[1]*uint32(p[1]) + k[2]*uint32(p[2]) + k[3]*uint32(p[3]) + 128) >> 8)
		}
	}
}
