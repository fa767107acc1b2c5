//go:build cuda

// Develop: one launch.

package cuda

import "github.com/polyscan/polyscan/kernels/driver"

func (s *stream) develop(op *driver.Develop) error {
	src, c := &op.Src, op.Src.Coding
	args := developArgs{
		Src: at(src.Data), Dst: at(op.Dst.Data), SrcStride: uint64(src.Stride), DstStride: uint64(op.Dst.Stride),
		Width: int32(src.Width), Height: int32(src.Height), First: int32(src.First), Row0: int32(op.Row0),
		Rows: int32(op.Dst.Height), Bits: uint32(c.Bits), Red: uint32(c.Phase),
	}
	if c.Packed {
		args.Packed = 1
	}
	if c.Kind == driver.UYVY {
		args.Luma = 1
	}
	if (args.Src|args.SrcStride)%8 == 0 {
		args.Wide |= 1
	}
	if (args.Dst|args.DstStride)%8 == 0 {
		args.Wide |= 2
	}
	if c.Checked() {
		args.Beyond = at(op.Beyond)
		if err := s.fill(args.Beyond, 0, 4); err != nil {
			return err
		}
	}
	rows := op.Dst.Height
	if c.Kind == driver.Bayer {
		rows = (rows + 1) / 2
	}
	const pixels = developThreads * developPixels
	launch := func(k kernelFor[developArgs]) error {
		return k.launch(s, (src.Width+pixels-1)/pixels, min(rows, 65535), developThreads, 0, &args)
	}
	malvar := c.Demosaic == driver.MalvarHeCutler
	switch {
	case c.Kind == driver.Mono:
		return launch(developMono)
	case c.Kind != driver.Bayer:
		return launch(developYuv)
	case c.Bits == 8 && malvar:
		return launch(developBayer8Malvar)
	case c.Bits == 8:
		return launch(developBayer8)
	case malvar:
		return launch(developBayerMalvar)
	}
	return launch(developBayer)
}
