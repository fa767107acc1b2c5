//go:build cuda

// MaskWeigh: one kernel takes all regions, which share their blocks where they are few.

package cuda

import (
	"cmp"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *stream) maskWeigh(op *driver.MaskWeigh) error {
	if op.Count == 0 {
		return nil
	}
	f := op.Frame.Format
	n := op.Pixels.Len / 8
	// Blocks of a region: as many as pixels of an average one need, and multiprocessors have room for.
	most := s.dev.info.ComputeUnits * weighBlocks
	gx := min(op.Count, most)
	gy := int(min(n/int64(op.Regions)/weighThreads+1, int64(most/gx)))
	args := weighArgs{Pixels: at(op.Pixels), Starts: at(op.Starts), Frame: at(op.Frame.Data), Sums: at(op.Sums),
		Stride: uint64(op.Frame.Stride), N: uint64(n), First: uint32(op.First), Count: uint32(op.Count),
		Width: int32(op.Frame.Width), Row0: int32(op.Row0), Rows: int32(op.Frame.Height), Pixel: uint32(f.PixelBytes()),
		Channels: uint32(f.Channels), Levels: uint32(f.Levels())}
	for c, at := range f.Order[:f.Channels] {
		args.Order |= uint32(at) << (8 * c)
	}
	var err error
	if op.Hist.Len > 0 {
		args.Hist = at(op.Hist)
	}
	if !op.Accumulate {
		if gy == 1 {
			args.Own = 1
		} else {
			err = s.fill(at(op.Sums), 0, op.Sums.Len)
		}
		if op.Hist.Len > 0 {
			err = cmp.Or(err, s.fill(at(op.Hist), 0, op.Hist.Len))
		}
	}
	if err != nil {
		return err
	}
	k := weighGray8
	switch {
	case f.SampleBytes == 2:
		k = weigh16
	case f.Channels > 1:
		k = weigh8
	}
	return k.launch(s, gx, gy, weighThreads, 0, &args)
}
