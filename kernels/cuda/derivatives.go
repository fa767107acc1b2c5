//go:build cuda

// Derivatives: one launch.

package cuda

import (
	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *stream) derivatives(op *driver.Derivatives) error {
	im, f := op.Src, op.Src.Format
	a := derivativesArgs{
		Src: at(im.Data), Stride: uint64(im.Stride), Gradient: at(op.Gradient), Laplacian: at(op.Laplacian),
		Width: int32(im.Width), Height: int32(im.Height), Kind: uint32(f.Channels),
		Zero: 4 << f.Bits,
	}
	_, rounded := driver.DerivativeBits(int(f.Bits))
	a.Drop = uint32(rounded)
	switch {
	case f.SampleBytes == 2:
		a.Kind, a.Most = 16, uint32(f.Levels()-1)
	case f.Channels < 3:
		a.Most = 8 * uint32(f.Order[0])
	default:
		for c := range 3 {
			a.Weights |= 8 * uint32(f.Order[c]) << (8 * c)
		}
	}
	return derivativesSobel.launch(s, (im.Width+edgeColumns-1)/edgeColumns, (im.Height+edgeHeight-1)/edgeHeight, edgeThreads,
		0, &a)
}
