//go:build cuda

// Blur: a kernel for each level of the pyramid, and one that mixes them.

package cuda

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *stream) Blur(op driver.Blur) error {
	return s.enqueue("Blur", 0, func() error { return s.blur(op) })
}

func (s *stream) blur(op driver.Blur) error {
	n := int64(op.Width) * int64(op.Height)
	src, err := s.dev.structs(op.Src, "Src")
	if err != nil {
		return err
	}
	sigma, err := s.dev.span(op.Sigma, "Sigma")
	if err != nil {
		return err
	}
	dst, err := s.dev.structs(op.Dst, "Dst")
	if err != nil {
		return err
	}
	scratch, err := s.dev.structs(op.Scratch, "Scratch")
	if err != nil {
		return err
	}
	if src.n != 4*n*int64(op.Channels) || dst.n != src.n || sigma.n != 4*n || sigma.off%4 != 0 ||
		scratch.n < op.ScratchBytes() {
		return fmt.Errorf("Src, Sigma, Dst and Scratch have %d, %d, %d and %d bytes for %d channels of %dx%d",
			src.n, sigma.n, dst.n, scratch.n, op.Channels, op.Width, op.Height)
	}
	dst.overwritten()
	scratch.overwritten()
	level := blurLevelParams{Src: src.at(), Dst: scratch.at(), W: int32(op.Width), H: int32(op.Height)}
	for range driver.BlurLevels {
		level.Dw, level.Dh = level.W/2+1, level.H/2+1
		level.Rows = uint32(blocks(int64(level.Dh), blurTileH))
		if err := blurLevel.launch(s, blocks(int64(level.Dw), blurTileW), int(level.Rows)*op.Channels,
			blurTileW*blurTileH, 0, &level); err != nil {
			return err
		}
		level.Src = level.Dst
		level.Dst += uint64(alignUp(4 * int64(op.Channels) * int64(level.Dw) * int64(level.Dh)))
		level.W, level.H = level.Dw, level.Dh
	}
	mix := blurMixParams{
		Src: src.at(), Levels: scratch.at(), Sigma: sigma.at(), Dst: dst.at(), W: int32(op.Width), H: int32(op.Height),
		Channels: uint32(op.Channels), Scale: op.Scale,
	}
	return blurMix.launch(s, blocks(int64(op.Width), blurTileW), blocks(int64(op.Height), blurTileH),
		blurTileW*blurTileH, 0, &mix)
}
