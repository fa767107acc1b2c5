//go:build cuda

// Blur: a kernel for each level of the pyramid, and one that mixes them.

package cuda

import (
	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *stream) blur(op *driver.Blur) error {
	level := blurLevelParams{Src: at(op.Src), Dst: at(op.Scratch), W: int32(op.Width), H: int32(op.Height)}
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
		Src: at(op.Src), Levels: at(op.Scratch), Sigma: at(op.Sigma), Dst: at(op.Dst), W: int32(op.Width), H: int32(op.Height),
		Channels: uint32(op.Channels), Scale: op.Scale,
	}
	return blurMix.launch(s, blocks(int64(op.Width), blurTileW), blocks(int64(op.Height), blurTileH),
		blurTileW*blurTileH, 0, &mix)
}
