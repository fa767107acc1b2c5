//go:build cuda

// MaskReduce: one kernel takes all regions. Where a block has each to itself it writes the results; where blocks share
// regions the results are first set to those of no pixel. Neither is so where strips accumulate.

package cuda

import (
	"cmp"
	"unsafe"

	"github.com/polyscan/polyscan/kernels/driver"
)

const (
	clearThreads = 256
	// maxClearBlocks is enough for the clearing of results to be bound by memory.
	maxClearBlocks = 1024
	statsBytes     = int64(unsafe.Sizeof(driver.MaskStats{}))
)

func (s *stream) maskReduce(op *driver.MaskReduce) error {
	im := op.Frame
	p, err := s.preparedFor(op.Prepared, &im, op.Row0, op.First, op.Count)
	if err != nil {
		return err
	}
	channels, levels := int64(op.Channels()), int64(im.Format.Levels())
	n := int64(op.Count) * channels
	if n == 0 {
		return nil
	}
	if err := cmp.Or(p.apart(op.Stats, "Stats"), p.apart(op.Hist, "Hist")); err != nil {
		return err
	}
	if op.Colors.Spaces != 0 {
		return s.reduceColors(op, p)
	}
	frame, what := at(im.Data), op.Computes()
	r := reductionFor(im.Format, what, smallRegions(p.largest, op.Count, s.dev.info.ComputeUnits), s.dev.sharedBytes)
	if !op.Accumulate && !r.each {
		if err := s.clearReduction(op); err != nil {
			return err
		}
	}
	args := reduceArgs{
		P:        p.view(),
		Frame:    frame,
		FrameEnd: frame + uint64(im.Data.Len),
		Stats:    at(op.Stats),
		Hist:     at(op.Hist),
		Stride:   uint64(im.Stride),
		Item0:    p.regions[op.First].Item0,
		First:    uint32(op.First),
		Count:    uint32(op.Count),
		Row0:     int32(op.Row0),
		Rows:     int32(im.Height),
		Channels: uint32(channels),
		Levels:   uint32(levels),
		What:     uint32(what),
	}
	for c, at := range im.Format.Order[:channels] {
		args.Order |= uint32(at) << (8 * c)
	}
	if !op.Accumulate {
		args.Cleared = 1
	}
	if op.Row0 == 0 && im.Height == int(p.head.Height) {
		args.Whole = 1
	}
	blocks := op.Count
	if !r.each {
		// A block a multiprocessor, and no more than there can be items: those without any would only be in the way.
		blocks = int(min(uint64(s.dev.info.ComputeUnits), p.slots(op.First, op.Count)))
	}
	return r.kernel.launch(s, blocks, 1, r.threads, r.shared, &args)
}
