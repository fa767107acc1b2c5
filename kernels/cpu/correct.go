// Correct: flat-field correction.

package cpu

import (
	"unsafe"

	"github.com/polyscan/polyscan/kernels/driver"
)

// correctBlock is about how many samples a thread takes at a time.
const correctBlock = 1 << 16

func (d *device) correct(op *driver.Correct, stop *stopFlag) error {
	if op.Src.Format.SampleBytes == 2 {
		return correctSamples(d, op, stop, correctWords)
	}
	return correctSamples(d, op, stop, correctBytes)
}

// correctSamples corrects rows of samples, which do makes of a row of each.
func correctSamples[T uint8 | uint16](d *device, op *driver.Correct, stop *stopFlag,
	do func(dst, src, dark []T, gain []uint16, fraction, most uint)) error {
	src, dst, dark, gain := view(op.Src.Data), view(op.Dst.Data), view(op.Dark), viewAs[uint16](op.Gain)
	n, pitch := op.Src.Width*int(op.Src.Format.Channels), driver.FieldPitch(op.Src.Width, op.Src.Format)
	row := func(samples []byte, at int) []T { return unsafe.Slice((*T)(unsafe.Pointer(&samples[at])), n) }
	height, rows := op.Src.Height, max(1, correctBlock/n)
	return d.pieces("Correct", (height+rows-1)/rows, stop, func(i int) int {
		to := min((i+1)*rows, height)
		for y := i * rows; y < to; y++ {
			at := 0
			if op.FieldRows > 1 {
				at = y * pitch
			}
			do(row(dst, y*op.Dst.Stride), row(src, y*op.Src.Stride), row(dark, at*int(op.Src.Format.SampleBytes)),
				gain[at:][:n], uint(op.Fraction), uint(op.Src.Format.Levels()-1))
		}
		return (to - i*rows) * n / 8
	})
}

// correctGo corrects samples, all slices of which are as long.
func correctGo[T uint8 | uint16](dst, src, dark []T, gain []uint16, fraction, most uint) {
	src, dark, gain = src[:len(dst)], dark[:len(dst)], gain[:len(dst)]
	half := uint32(1) << (fraction - 1)
	for i, raw := range src {
		v := uint32(raw)
		if v < uint32(most) {
			// A negative difference comes to 0 as 0 does: half of one is below it.
			v = min((uint32(raw-min(raw, dark[i]))*uint32(gain[i])+half)>>(fraction&31), uint32(most))
		}
		dst[i] = T(v)
	}
}
