//go:build cuda

// MaskCooccurrence: regions are drawn into bitmaps, as many at a time as scratch memory has room for, and pairs are
// counted for one channel after the other and as many offsets at a time as a block has counters for.

package cuda

import (
	"github.com/polyscan/polyscan/kernels/driver"
)

// pairScratch has room for the bitmap of a region that covers the frame.
func pairScratch(f *driver.Image) int64 { return int64(f.Height) * int64(ceilDiv(f.Width, 32)) * 4 }

func (s *stream) maskCooccurrence(op *driver.MaskCooccurrence) error {
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
	}{{op.Counts, "Counts"}, {op.Scratch, "Scratch"}} {
		if err := p.apart(to.is, to.field); err != nil {
			return err
		}
	}
	if !op.Accumulate {
		if err := s.fill(at(op.Counts), 0, op.Counts.Len); err != nil {
			return err
		}
	}
	bottom := op.Row0 + im.Height
	args := pairArgs{
		P: p.view(), Frame: at(im.Data), FrameEnd: at(im.Data) + uint64(im.Data.Len), Counts: at(op.Counts),
		Bits: at(op.Scratch), Stride: uint64(im.Stride),
		Row0: int32(op.Row0), Rows: int32(im.Height),
		FromRow: int32(min(op.FromRow, bottom)), ToRow: int32(min(op.ToRow, bottom)),
		Pixel: uint32(im.Format.PixelBytes()), SampleBits: uint32(im.Format.Bits), Levels: uint32(op.Levels),
		Channels: uint32(im.Format.Channels), AllOffsets: uint32(len(op.Offsets)),
	}
	words := uint64(op.Scratch.Len / 4)
	for first := op.First; first < op.First+op.Count; {
		count, slot := p.bitmaps(first, op.First+op.Count-first, op.Row0, op.Row0+im.Height, words)
		args.First, args.Count, args.Slot, args.Out = uint32(first), uint32(count), slot, uint32(first-op.First)
		if items := p.slots(first, count); slot > 0 && items > 0 {
			if err := s.countPairs(op, &args, items); err != nil {
				return err
			}
		}
		first += count
	}
	return nil
}

// bitmaps says how many of regions [first, first+most) have room for their bitmaps in so many words, each with as many
// words as the largest needs.
func (s *set) bitmaps(first, most, y0, y1 int, words uint64) (count int, slot uint64) {
	for count < most {
		r := &s.regions[first+count]
		rows := max(min(r.Y1, int32(y1))-max(r.Y0, int32(y0)), 0)
		need := max(slot, uint64(rows)*uint64((r.X1-r.X0&^31+31)/32))
		if count > 0 && need*uint64(count+1) > words {
			break
		}
		count, slot = count+1, need
	}
	return count, slot
}

// mark enqueues what draws the bitmaps of the regions of args, which have room for so many items.
func (s *stream) mark(args *pairArgs, items uint64) error {
	if err := s.fill(args.Bits, 0, int64(args.Slot)*int64(args.Count)*4); err != nil {
		return err
	}
	blocks := int(min(uint64(8*s.dev.info.ComputeUnits), items/(pairMarkThreads/32)+1))
	return cooccurrenceMark.launch(s, blocks, 1, pairMarkThreads, 0, args)
}

// countPairs enqueues what counts the regions of args, which have room for so many items.
func (s *stream) countPairs(op *driver.MaskCooccurrence, args *pairArgs, items uint64) error {
	units := s.dev.info.ComputeUnits
	if err := s.mark(args, items); err != nil {
		return err
	}
	cells := op.Levels * op.Levels * 4
	k, step := cooccurrenceGray8, min(pairShared, s.dev.pairShared)/cells
	if step == 0 {
		k, step = cooccurrenceGray8Global, driver.MaxPairOffsets
		cells = 0
	}
	switch f := op.Frame.Format; {
	case f.SampleBytes == 2:
		k += cooccurrence16 - cooccurrenceGray8
	case f.Channels > 1:
		k += cooccurrence8 - cooccurrenceGray8
	}
	blocks := int(min(uint64(pairBlocks*units), items/(pairThreads/32)+1))
	for c, at := range op.Frame.Format.Order[:op.Frame.Format.Channels] {
		args.Channel, args.At = uint32(c), uint32(at)
		for first := 0; first < len(op.Offsets); first += step {
			n := min(step, len(op.Offsets)-first)
			args.Offset0, args.Offsets = uint32(first), uint32(n)
			for i, o := range op.Offsets[first : first+n] {
				args.Dx[i], args.Dy[i] = o.DX, o.DY
			}
			if err := k.launch(s, blocks, 1, pairThreads, n*cells, args); err != nil {
				return err
			}
		}
	}
	return nil
}
