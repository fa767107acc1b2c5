//go:build cuda

// Edges: one launch.

package cuda

import (
	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *stream) edges(op *driver.Edges) error {
	im := op.Src
	kind, weights, shift := luminanceOf(im.Format)
	args := edgesSobelParams{
		Src: at(im.Data), Stride: uint64(im.Stride), Dst: at(op.Dst), Width: int32(im.Width), Height: int32(im.Height),
		Kind: kind, Weights: weights, Shift: shift,
	}
	return edgesSobel.launch(s, (im.Width+edgeColumns-1)/edgeColumns, (im.Height+edgeHeight-1)/edgeHeight, edgeThreads,
		0, &args)
}
