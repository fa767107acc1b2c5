// The op of blur that differs from pixel to pixel.

package driver

import (
	"cmp"
	"math"
)

const (
	// MaxBlurSigma is the greatest standard deviation of a [Blur], in pixels.
	MaxBlurSigma = 100
	// BlurLevels is how many images of half the sides each a [Blur] makes: the last one's kernel is wider than
	// MaxBlurSigma.
	BlurLevels = 7
)

// Blur makes each pixel a weighted mean of those around, as wide as a plane of standard deviations says. Its kernel is
// close to a Gaussian, and its variance is just that of one. A pixel whose deviation is 0 or less, or NaN, stays as it
// is; of more than MaxBlurSigma counts that. Pixels beyond the image have the value of the nearest one in it.
//
// The kernel is a mix of two from a row of kernels whose variances are 0, 1/2, 1 and (2*4^l - 1)/3, l from 1 to
// BlurLevels, weighted so that the variance comes out. Those are: the pixel itself; 1 2 1 and 1 4 6 4 1, each along
// rows and then along columns; and what level l of a pyramid has there. A pixel (x, y) of a level is the 1 4 6 4 1 mean
// around (2x, 2y) of the level before; a level has half of the sides, rounded down, and one pixel more, so that it
// reaches both borders. Between its pixels it is interpolated by cubic B-splines.
//
// Source planes, of Width*Height float32 each, are finite. Dst gets as many, and overlaps nothing else. The order of
// operations is fixed, each rounded to float32 (see kernels/cpu/blur.go), so that all backends give the same bits.
//
// Complexity: pixels, whatever the deviations. Source: Burt and Adelson, The Laplacian pyramid as a compact image code,
// 1983; Orzan and others, Diffusion curves, 2008, for its use.
type Blur struct {
	Width, Height int // sides up to MaxSide, and MaxPixels in all
	Channels      int // 1 to MaxDiffusionChannels
	Src           Slice
	Sigma         Slice   // a plane of float32: deviations in units of Scale
	Scale         float32 // pixels, more than 0
	Dst           Slice
	Scratch       Slice // at least ScratchBytes
}

// ScratchBytes is how large Scratch has to be: the levels of the pyramid.
func (op *Blur) ScratchBytes() int64 {
	n, w, h := int64(0), int64(op.Width), int64(op.Height)
	for range BlurLevels {
		w, h = w/2+1, h/2+1
		n += (4*int64(op.Channels)*w*h + Align - 1) / Align * Align
	}
	return n
}

func (op *Blur) name() string { return "Blur" }

func (op *Blur) check() error {
	if err := cmp.Or(
		CheckSize(op.name(), "", op.Width, op.Height),
		between(op.name(), "Channels", op.Channels, 1, MaxDiffusionChannels),
	); err != nil {
		return err
	}
	if !(op.Scale > 0 && op.Scale <= math.MaxFloat32) {
		return refuse(op.name(), "Scale", op.Scale, "must be more than 0, and finite")
	}
	return nil
}

func (op *Blur) operands(to []Operand) []Operand {
	plane := 4 * int64(op.Width) * int64(op.Height)
	sigma, dst := exact("Sigma", &op.Sigma, plane, Read), exact("Dst", &op.Dst, plane*int64(op.Channels), Write)
	sigma.Align = 4 // it may be one of several planes
	dst.Apart = true
	return append(to,
		exact("Src", &op.Src, plane*int64(op.Channels), Read),
		sigma,
		dst,
		scratch("Scratch", &op.Scratch, op.ScratchBytes()))
}
