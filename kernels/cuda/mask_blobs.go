//go:build cuda

// MaskBlobs: as many regions at a time as scratch memory has room for the bits of.

package cuda

import (
	"cmp"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *stream) maskBlobs(op *driver.MaskBlobs) error {
	im := op.Frame
	p, err := s.preparedFor(op.Prepared, &im, op.Row0, op.First, op.Count)
	if err != nil {
		return err
	}
	if op.Count == 0 {
		return nil
	}
	if err := cmp.Or(p.apart(op.Counts, "Counts"), p.apart(op.Blobs, "Blobs"), p.apart(op.Runs, "Runs"),
		p.apart(op.Scratch, "Scratch")); err != nil {
		return err
	}
	lay := layBlobs(op)
	maps, batches := p.blobMaps(op, lay.words)
	from := at(op.Scratch)
	g := gather{pieces: [][]byte{bytesOf(maps)}}
	if err := s.send(from+uint64(lay.maps), &g, int64(len(maps))*blobMapBytes, s.stop.Load); err != nil {
		return err
	}
	// Nothing is before the first region.
	if err := s.fill(from+uint64(lay.starts), 0, blobStartBytes); err != nil {
		return err
	}
	args := blobArgs{
		P: p.view(), Frame: at(im.Data), FrameEnd: at(im.Data) + uint64(im.Data.Len), Blobs: at(op.Blobs),
		Runs: at(op.Runs), Labels: from + uint64(lay.labels), Status: from + uint64(lay.status),
		Stride: uint64(im.Stride), Row0: int32(op.Row0), Pixel: uint32(im.Format.PixelBytes()),
		At: uint32(im.Format.Order[op.Channel]), MinCount: op.MinCount, MaxBlobs: uint32(op.MaxBlobs),
		MaxRuns: uint32(op.MaxRuns), RunPrefix: from + uint64(lay.runPrefix),
	}
	if im.Format.SampleBytes == 2 {
		args.Wide, args.At = 1, 0
	}
	if op.Eight {
		args.Eight = 1
	}
	for k, first := range batches[:len(batches)-1] {
		count := batches[k+1] - first
		last := &maps[first+count-1]
		words := int64(last.Word0) + blobRegionWords(int64(last.Y1-last.Y0), int64(last.RowWords))
		args.Maps = from + uint64(lay.maps) + uint64(first)*blobMapBytes
		args.Starts = from + uint64(lay.starts) + uint64(first)*blobStartBytes
		args.Counts = at(op.Counts) + uint64(first)*blobCountBytes
		args.First, args.Count = uint32(op.First+first), uint32(count)
		args.Words, args.Tiles = uint32(words), uint32(lay.tiles(words))
		args.Bits = from + uint64(lay.bits)
		if len(op.Steps) > 0 {
			args.Inside, args.Spare = from+uint64(lay.inside), from+uint64(lay.spare)
		}
		if err := s.findBlobs(op, &args, p.slots(op.First+first, count)); err != nil {
			return err
		}
	}
	return nil
}

// findBlobs enqueues what finds the blobs of the regions of args, which have room for so many items.
func (s *stream) findBlobs(op *driver.MaskBlobs, args *blobArgs, items uint64) error {
	if err := cmp.Or(s.fill(args.Bits, 0, int64(args.Words)*4),
		s.fill(args.Status, 0, 4*(3*int64(args.Tiles)+1))); err != nil {
		return err
	}
	if args.Inside != 0 {
		if err := s.fill(args.Inside, 0, int64(args.Words)*4); err != nil {
			return err
		}
	}
	marks := int(min(uint64(16*s.dev.info.ComputeUnits), items/(blobThreads/32)+1))
	if err := blobsMark.launch(s, marks, 1, blobThreads, 0, args); err != nil {
		return err
	}
	words := blocks(int64(args.Words), blobThreads)
	for i := range op.Steps {
		step := &op.Steps[i]
		args.Erode, args.Reach = 0, uint32(len(step.Half)-1)
		if step.Erode {
			args.Erode = 1
		}
		copy(args.Half[:], step.Half)
		if err := blobsStep.launch(s, words, 1, blobThreads, 0, args); err != nil {
			return err
		}
		args.Bits, args.Spare = args.Spare, args.Bits
	}
	return cmp.Or(
		blobsLink.launch(s, words, 1, blobThreads, 0, args),
		blobsJoin.launch(s, words, 1, blobThreads, 0, args),
		blobsFlatten.launch(s, words, 1, blobThreads, 0, args),
		blobsNumber.launch(s, int(args.Tiles), 1, blobThreads, 0, args),
		blobsMeasure.launch(s, blocks(int64(args.Words)/blobRows, blobThreads), 1, blobThreads, 0, args))
}
