//go:build cuda

// Edges: one launch.

package cuda

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *stream) Edges(op driver.Edges) error {
	return s.enqueue("Edges", 0, func() error { return s.edges(op) })
}

func (s *stream) edges(op driver.Edges) error {
	im := op.Src
	src, err := s.dev.image(im, "Src")
	if err != nil {
		return err
	}
	dst, err := s.dev.structs(op.Dst, "Dst")
	if err != nil {
		return err
	}
	if need := 2 * int64(im.Width) * int64(im.Height); dst.n != need {
		return fmt.Errorf("Dst: %d bytes, must be %d", dst.n, need)
	}
	dst.overwritten()
	kind, weights, shift := luminanceOf(im.Format)
	args := edgesSobelParams{
		Src: src.at(), Stride: uint64(im.Stride), Dst: dst.at(), Width: int32(im.Width), Height: int32(im.Height),
		Kind: kind, Weights: weights, Shift: shift,
	}
	return edgesSobel.launch(s, (im.Width+edgeColumns-1)/edgeColumns, (im.Height+edgeHeight-1)/edgeHeight, edgeThreads,
		0, &args)
}
