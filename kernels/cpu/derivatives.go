// Derivatives: the gradient's magnitude and the Laplacian.

package cpu

import (
	"encoding/binary"
	"math"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (d *device) derivatives(op *driver.Derivatives, stop *stopFlag) error {
	im, bits := &op.Src, int(op.Src.Format.Bits)
	gradient, laplacian := viewAs[uint16](op.Gradient), viewAs[uint16](op.Laplacian)
	return threeRows(d, "Derivatives", im, 8, &lumaLines, luma, stop, func(y int, above, here, below []uint16) {
		from, to := y*im.Width, (y+1)*im.Width
		derive(gradient[from:to], laplacian[from:to], above, here, below, bits)
	})
}

// derive writes a row. above, here and below have a pixel more on either side.
func derive(gradient, laplacian []uint16, above, here, below []uint16, bits int) {
	n := len(gradient) + 2
	above, here, below, laplacian = above[:n], here[:n], below[:n], laplacian[:len(gradient)]
	_, shift := driver.DerivativeBits(bits)
	half, zero := int32(1)<<shift>>1, int32(4)<<bits
	// Sums and differences of columns: of the one to the left, of this one, and of the one to the right.
	column := func(x int) (sum, diff int32) {
		a, b := int32(above[x]), int32(below[x])
		return a + 2*int32(here[x]) + b, b - a
	}
	s0, d0 := column(0)
	s1, d1 := column(1)
	for x := range gradient {
		s2, d2 := column(x + 2)
		gx, gy := float64(s2-s0), float64(d0+2*d1+d2)
		// The sum is below 2^38, so its root lies farther from a half than doubles round.
		gradient[x] = uint16((int32(math.Sqrt(gx*gx+gy*gy)+0.5) + half) >> shift)
		c := int32(here[x+1])
		l := s1 - 6*c + int32(here[x]) + int32(here[x+2]) // s1 has the pixel itself twice
		laplacian[x] = uint16(min((l+zero+half)>>shift, math.MaxUint16))
		s0, d0, s1, d1 = s1, d1, s2, d2
	}
}

// luma writes that of a row of len(dst) pixels, in all their bits.
func luma(dst []uint16, src []byte, f driver.PixelFormat) {
	n := f.PixelBytes()
	switch {
	case f.SampleBytes == 2:
		most := uint16(f.Levels() - 1)
		for x := range dst {
			dst[x] = min(binary.LittleEndian.Uint16(src[2*x:]), most)
		}
	case f.Channels < 3:
		for x := range dst {
			dst[x] = uint16(src[n*x+int(f.Order[0])])
		}
	default:
		r, g, b := int(f.Order[0]), int(f.Order[1]), int(f.Order[2])
		for x := range dst {
			p := src[n*x : n*x+n : n*x+n]
			dst[x] = uint16((299*uint32(p[r]) + 587*uint32(p[g]) + 114*uint32(p[b]) + 500) / 1000)
		}
	}
}
