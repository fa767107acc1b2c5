//go:build !purego

package cpu

import (
	"github.com/polyscan/polyscan/kernels/driver"
)

// These make eight pixels. What they need begins at v, and its rows are stride numbers apart.

// mean5AVX2 reads 12 columns of 5 rows, and half5AVX2, which makes every second pixel, 20 of them.
//
//go:noescape
func mean5AVX2(dst *[8]float32, v *float32, stride int)

//go:noescape
func half5AVX2(dst *[8]float32, v *float32, stride int)

// It reads 10 columns of 3 rows.
//
//go:noescape
func mean3AVX2(dst *[8]float32, v *float32, stride int)

// It reads 8 columns of 4 rows. The weights of each of four columns are step numbers apart, and from says where the
// first of these is.
//
//go:noescape
func splineAVX2(dst *[8]float32, v *float32, stride int, columns *float32, step int, rows *[4]float32, from *[8]int32,
	scale float32)

// splineColumns are splineWeights by columns, as often as eight pixels need them, and splineFrom where those are.
var splineColumns, splineFrom = func() (columns [driver.BlurLevels + 1][]float32,
	from [driver.BlurLevels + 1][8]int32) {
	for l, weights := range splineWeights {
		n := max(8, len(weights))
		for i := range 4 * n {
			columns[l] = append(columns[l], weights[i%n%len(weights)][i/n])
		}
		for i := range from[l] {
			from[l][i] = int32(i >> l)
		}
	}
	return columns, from
}()

// window is a part of a plane, in spare where the plane has not all of it.
func (p *plane) window(spare *[5 * 20]float32, x, y, w, h int) (v *float32, stride int) {
	if x >= 0 && y >= 0 && x+w <= p.w && y+h <= p.h {
		return &p.v[y*p.w+x], p.w
	}
	for i := range w * h {
		spare[i] = p.at(x+i%w, y+i/w)
	}
	return &spare[0], w
}

// half8 is mean5x5 around every second pixel from (x, y) on.
func half8(dst *[8]float32, p *plane, x, y int) {
	var spare [5 * 20]float32
	v, stride := p.window(&spare, x-2, y-2, 20, 5)
	half5AVX2(dst, v, stride)
}

// blurred8 is blurred for pixels from x on, a multiple of 8.
func blurred8(dst *[8]float32, levels *[driver.BlurLevels + 1]plane, k, x, y int) {
	var spare [5 * 20]float32
	switch image := &levels[0]; k {
	case 0:
		*dst = *(*[8]float32)(image.v[y*image.w+x:])
	case 1:
		v, stride := image.window(&spare, x-1, y-1, 10, 3)
		mean3AVX2(dst, v, stride)
	case 2:
		v, stride := image.window(&spare, x-2, y-2, 12, 5)
		mean5AVX2(dst, v, stride)
	default:
		l := k - 2
		between := 1<<l - 1
		v, stride := levels[l].window(&spare, x>>l-1, y>>l-1, 8, 4)
		splineAVX2(dst, v, stride, &splineColumns[l][x&between], len(splineColumns[l])/4, &splineWeights[l][y&between],
			&splineFrom[l], 1/float32(int32(6)<<(3*l)))
	}
}
