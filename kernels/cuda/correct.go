//go:build cuda

// Correct: one launch.

package cuda

import "github.com/polyscan/polyscan/kernels/driver"

// correctRows is how many rows a thread goes through where all have the same row of the field, which it loads once.
const correctRows = 8

func (s *stream) correct(op *driver.Correct) error {
	src, rows := &op.Src, op.Src.Height
	args := correctArgs{
		Src: at(src.Data), Dst: at(op.Dst.Data), Dark: at(op.Dark), Gain: at(op.Gain), SrcStride: uint64(src.Stride),
		DstStride: uint64(op.Dst.Stride), Samples: int32(src.Width * int(src.Format.Channels)), Rows: int32(rows),
		FieldRows: int32(op.FieldRows), Pitch: int32(driver.FieldPitch(src.Width, src.Format)),
		Fraction: uint32(op.Fraction), Most: uint32(src.Format.Levels() - 1),
	}
	if (args.Src|args.SrcStride|args.Dst|args.DstStride)%16 == 0 {
		args.Wide = 1
	}
	if op.FieldRows == 1 {
		rows = ceilDiv(rows, correctRows)
	}
	const samples = correctThreads * correctSamples
	k := correctBytes
	if src.Format.SampleBytes == 2 {
		k = correctWords
	}
	return k.launch(s, ceilDiv(int(args.Samples), samples), min(rows, 65535), correctThreads, 0, &args)
}
