//go:build cuda

// Unpack and Pack: images to planes of numbers and back.

package cuda

import (
	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *stream) unpack(op *driver.Unpack) error {
	im := op.Src
	args := packUnpackParams{
		Src: packImageAt(im, at(im.Data)), Mask: at(op.Mask), Flags: at(op.Flags), Planes: at(op.Planes),
		Width: int32(im.Width), Height: int32(im.Height), Most: uint32(im.Format.Levels() - 1),
	}
	return packUnpack.launch(s, (im.Width+packThreads-1)/packThreads, min(im.Height, 65535), packThreads, 0, &args)
}

func (s *stream) pack(op *driver.Pack) error {
	im := op.Dst
	args := packPackParams{
		Planes: at(op.Planes), Flags: at(op.Flags), Dst: packImageAt(im, at(im.Data)),
		Width: int32(im.Width), Height: int32(im.Height), Most: uint32(im.Format.Levels() - 1),
	}
	if op.Residual.Data.Len > 0 {
		args.Residual = packImageAt(op.Residual, at(op.Residual.Data))
	}
	if op.TakesSrc() {
		args.Src = packImageAt(op.Src, at(op.Src.Data))
	}
	return packPack.launch(s, (im.Width+packThreads-1)/packThreads, min(im.Height, 65535), packThreads, 0, &args)
}
