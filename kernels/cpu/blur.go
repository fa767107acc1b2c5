// Blur: a pyramid of means, and mixes of its levels. Each product is converted to float32 before it is added to, which
// keeps the compiler from fusing the two: the result is the same on every machine, and on other backends, which keep to
// the same order.

package cpu

import (
	"github.com/polyscan/polyscan/kernels/driver"
)

// blurKernels is how many kernels are mixed: three of the image itself, and the levels.
const blurKernels = 3 + driver.BlurLevels

// blurVariance are their variances.
var blurVariance = func() (v [blurKernels]float32) {
	v[1], v[2] = 0.5, 1
	for l := 1; l <= driver.BlurLevels; l++ {
		v[2+l] = float32(int(2)<<(2*l)-1) / 3
	}
	return v
}()

// plane is a plane of values.
type plane struct {
	v    []float32
	w, h int
}

// at clamps.
func (p *plane) at(x, y int) float32 {
	return p.v[min(max(y, 0), p.h-1)*p.w+min(max(x, 0), p.w-1)]
}

func mean5(a, b, c, d, e float32) float32 {
	return ((a + e) + 4*(b+d) + float32(6*c)) * (1.0 / 16)
}

func mean3(a, b, c float32) float32 { return ((a + c) + 2*b) * (1.0 / 4) }

// mean5x5 is that around a pixel: of rows, and of those a column.
func (p *plane) mean5x5(x, y int) float32 {
	var r [5]float32
	if x >= 2 && x+2 < p.w && y >= 2 && y+2 < p.h {
		for k := range r {
			v := p.v[(y+k-2)*p.w+x-2:][:5:5]
			r[k] = mean5(v[0], v[1], v[2], v[3], v[4])
		}
	} else {
		for k := range r {
			y := y + k - 2
			r[k] = mean5(p.at(x-2, y), p.at(x-1, y), p.at(x, y), p.at(x+1, y), p.at(x+2, y))
		}
	}
	return mean5(r[0], r[1], r[2], r[3], r[4])
}

func (p *plane) mean3x3(x, y int) float32 {
	var r [3]float32
	if x >= 1 && x+1 < p.w && y >= 1 && y+1 < p.h {
		for k := range r {
			v := p.v[(y+k-1)*p.w+x-1:][:3:3]
			r[k] = mean3(v[0], v[1], v[2])
		}
	} else {
		for k := range r {
			y := y + k - 1
			r[k] = mean3(p.at(x-1, y), p.at(x, y), p.at(x+1, y))
		}
	}
	return mean3(r[0], r[1], r[2])
}

// splineWeights are, for each level and each place between two of its pixels, 6*8^l times the weights of a cubic
// B-spline: whole numbers below 2^24.
var splineWeights = func() (weights [driver.BlurLevels + 1][][4]float32) {
	for l := range weights {
		n := int32(1) << l
		for m := range n {
			k := n - m
			weights[l] = append(weights[l], [4]float32{
				float32(k * k * k),
				float32(3*m*m*m - 6*n*m*m + 4*n*n*n),
				float32(3*k*k*k - 6*n*k*k + 4*n*n*n),
				float32(m * m * m),
			})
		}
	}
	return weights
}()

func dot4(w *[4]float32, a, b, c, d float32) float32 {
	return float32(w[0]*a) + float32(w[1]*b) + float32(w[2]*c) + float32(w[3]*d)
}

// spline is level l at pixel (x, y) of the image.
func (p *plane) spline(x, y, l int) float32 {
	between := 1<<l - 1
	wx, wy := &splineWeights[l][x&between], &splineWeights[l][y&between]
	scale := 1 / float32(int32(6)<<(3*l))
	x, y = x>>l, y>>l
	var r [4]float32
	if x >= 1 && x+2 < p.w && y >= 1 && y+2 < p.h {
		for k := range r {
			v := p.v[(y+k-1)*p.w+x-1:][:4:4]
			r[k] = dot4(wx, v[0], v[1], v[2], v[3]) * scale
		}
	} else {
		for k := range r {
			y := y + k - 1
			r[k] = dot4(wx, p.at(x-1, y), p.at(x, y), p.at(x+1, y), p.at(x+2, y)) * scale
		}
	}
	return dot4(wy, r[0], r[1], r[2], r[3]) * scale
}

func (d *device) blur(op *driver.Blur, stop *stopFlag) error {
	n := op.Width * op.Height
	src := viewAs[float32](op.Src)
	sigma := viewAs[float32](op.Sigma)
	dst := viewAs[float32](op.Dst)
	scratch := view(op.Scratch)
	// Levels of each channel, the image first.
	var planes [driver.MaxDiffusionChannels][driver.BlurLevels + 1]plane
	for c := range op.Channels {
		planes[c][0] = plane{src[c*n:][:n], op.Width, op.Height}
	}
	off := int64(0)
	for l := 1; l <= driver.BlurLevels; l++ {
		w, h := planes[0][l-1].w/2+1, planes[0][l-1].h/2+1
		for c := range op.Channels {
			planes[c][l] = plane{sliceAt[float32](scratch, off+int64(4*c*w*h), w*h), w, h}
		}
		off += (int64(4*op.Channels*w*h) + driver.Align - 1) &^ (driver.Align - 1)
		err := d.runs("Blur", w, h, stop, func(x0, x1, y int, p *pace) bool {
			for c := range op.Channels {
				from, row := &planes[c][l-1], planes[c][l].v[y*w:][:w]
				x := x0
				for ; simd >= levelAVX2 && x+8 <= x1; x += 8 {
					half8((*[8]float32)(row[x:]), from, 2*x, 2*y)
				}
				for ; x < x1; x++ {
					row[x] = from.mean5x5(2*x, 2*y)
				}
			}
			return !p.spend(30 * op.Channels * (x1 - x0))
		})
		if err != nil {
			return err
		}
	}
	return d.runs("Blur", op.Width, op.Height, stop, func(x0, x1, y int, p *pace) bool {
		x := x0
		for ; simd >= levelAVX2 && x+8 <= x1; x += 8 {
			blurEight(dst, sigma[y*op.Width+x:][:8], op.Scale, planes[:op.Channels], x, y)
		}
		for ; x < x1; x++ {
			i := y*op.Width + x
			k, f := blurMix(sigma[i], op.Scale)
			for c := range op.Channels {
				if f == 0 && k == 0 {
					dst[c*n+i] = src[c*n+i]
					continue
				}
				a, b := blurred(&planes[c], k, x, y), blurred(&planes[c], k+1, x, y)
				dst[c*n+i] = a + float32((b-a)*f)
			}
		}
		return !p.spend(60 * op.Channels * (x1 - x0))
	})
}

// blurEight is blur for eight pixels from x on, a multiple of 8. They mostly have few kernels in common.
func blurEight(dst, sigma []float32, scale float32, planes [][driver.BlurLevels + 1]plane, x, y int) {
	var kernel [8]int
	var far [8]float32
	least, most := blurKernels, -1 // of the kernels that are needed
	for i, s := range sigma {
		k, f := blurMix(s, scale)
		kernel[i], far[i] = k, f
		if least = min(least, k); k > 0 || f != 0 {
			k++
		}
		most = max(most, k)
	}
	for c := range planes {
		image := &planes[c][0]
		to := dst[c*image.w*image.h+y*image.w+x:][:8]
		var made [blurKernels][8]float32
		for k := least; k <= most; k++ {
			blurred8(&made[k], &planes[c], k, x, y)
		}
		for i, k := range kernel {
			if to[i] = made[k][i]; k > 0 || far[i] != 0 {
				to[i] += float32((made[k+1][i] - to[i]) * far[i])
			}
		}
	}
}

// blurMix says how far to go from kernel k to the next.
func blurMix(sigma, scale float32) (k int, f float32) {
	s := float32(sigma * scale)
	if !(s > 0) {
		return 0, 0
	}
	s = min(s, driver.MaxBlurSigma)
	v := float32(s * s)
	for k = 0; v >= blurVariance[k+1]; k++ {
	}
	return k, (v - blurVariance[k]) / (blurVariance[k+1] - blurVariance[k])
}

// blurred is what kernel k makes of a pixel.
func blurred(levels *[driver.BlurLevels + 1]plane, k, x, y int) float32 {
	switch k {
	case 0:
		return levels[0].at(x, y)
	case 1:
		return levels[0].mean3x3(x, y)
	case 2:
		return levels[0].mean5x5(x, y)
	}
	return levels[k-2].spline(x, y, k-2)
}
