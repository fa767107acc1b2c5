//go:build cuda

// MaskCorrelate: regions are drawn into bitmaps, as MaskCooccurrence does, unless all pixels are paired with those at
// their own places, and pairs are summed up for as many lags as a launch takes.

package cuda

import (
	"slices"

	"github.com/polyscan/polyscan/kernels/driver"
)

// correlateScratch has room for the bitmap of a region that covers the frame, where one is needed.
func correlateScratch(op *driver.MaskCorrelate) int64 {
	if op.Still() {
		return 0
	}
	return pairScratch(&op.Frame)
}

func (s *stream) maskCorrelate(op *driver.MaskCorrelate) error {
	im := op.Frame
	p, err := s.preparedFor(op.Prepared, &im, op.Row0, op.First, op.Count)
	if err != nil {
		return err
	}
	if op.Count == 0 {
		return nil
	}
	for _, to := range []struct {
		is    driver.Slice
		field string
	}{{op.Sums, "Sums"}, {op.Scratch, "Scratch"}} {
		if err := p.apart(to.is, to.field); err != nil {
			return err
		}
	}
	if !op.Accumulate {
		if err := s.fill(at(op.Sums), 0, op.Sums.Len); err != nil {
			return err
		}
	}
	bottom := op.Row0 + im.Height
	args := correlateArgs{
		P: p.view(), Sums: at(op.Sums), Frame: at(im.Data), FrameEnd: at(im.Data) + uint64(im.Data.Len),
		Other: at(op.Other.Data), OtherEnd: at(op.Other.Data) + uint64(op.Other.Data.Len),
		Stride: uint64(im.Stride), OtherStride: uint64(op.Other.Stride),
		Row0: int32(op.Row0), Rows: int32(im.Height),
		FromRow: int32(min(op.FromRow, bottom)), ToRow: int32(min(op.ToRow, bottom)),
		Pixel: uint32(im.Format.PixelBytes()), Slots: uint32(op.Slots), Series: uint32(len(op.Series)),
	}
	for i, c := range op.Series {
		args.AAt[i], args.BAt[i] = uint32(im.Format.Order[c.A]), uint32(im.Format.Order[c.B])
	}
	if op.Still() {
		args.First, args.Count = uint32(op.First), uint32(op.Count)
		return s.correlate(op, &args, p.slots(op.First, op.Count))
	}
	args.Bits = at(op.Scratch)
	for first := op.First; first < op.First+op.Count; {
		count, slot := p.bitmaps(first, op.First+op.Count-first, op.Row0, bottom, uint64(op.Scratch.Len/4))
		args.First, args.Count, args.Slot, args.Out = uint32(first), uint32(count), slot, uint32(first-op.First)
		if items := p.slots(first, count); slot > 0 && items > 0 {
			marks := pairArgs{P: args.P, Bits: args.Bits, Slot: slot, First: args.First, Count: args.Count,
				Row0: args.Row0, Rows: args.Rows}
			if err := s.mark(&marks, items); err != nil {
				return err
			}
			if err := s.correlate(op, &args, items); err != nil {
				return err
			}
		}
		first += count
	}
	return nil
}

// correlate enqueues what sums up the regions of args, which have room for so many items.
func (s *stream) correlate(op *driver.MaskCorrelate, args *correlateArgs, items uint64) error {
	if items == 0 {
		return nil
	}
	units := s.dev.info.ComputeUnits
	for lags := range slices.Chunk(op.Lags, correlateLaunch) {
		args.Lags = uint32(len(lags))
		for i, l := range lags {
			args.Dx[i], args.Dy[i], args.To[i] = l.DX, l.DY, uint32(l.Slot)
		}
		k, threads, lanes, rows := correlateGray8, correlateThreads, 32, ceilDiv(len(lags), correlateLags)
		switch f := op.Frame.Format; {
		case f.PixelBytes() == 1 && args.Bits == 0:
			k, threads, lanes, rows = correlateStill8, stillThreads, stillGroup, 1
		case f.PixelBytes() == 1:
		case f.SampleBytes == 2:
			k, rows = correlate16, len(lags)*len(op.Series)
		default:
			k, rows = correlate8, len(lags)*len(op.Series)
		}
		// Twice as many blocks as there is room for, so that those with fewer pixels make up for others.
		blocks := int(min(uint64(ceilDiv(4*units*correlateThreads/threads, rows)), items/uint64(threads/lanes)+1))
		if err := k.launch(s, blocks, rows, threads, 0, args); err != nil {
			return err
		}
	}
	return nil
}
