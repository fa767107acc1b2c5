//go:build cuda

// MaskProfile: one kernel takes all regions, channel by channel; along rows it needs no counters on chip.

package cuda

import (
	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *stream) maskProfile(op *driver.MaskProfile) error {
	im := op.Frame
	p, err := s.preparedFor(op.Prepared, &im, op.Row0, op.First, op.Count)
	if err != nil {
		return err
	}
	if err := p.apart(op.Bins, "Bins"); err != nil {
		return err
	}
	items := p.slots(op.First, op.Count)
	if items == 0 || op.Bins.Len == 0 {
		return nil
	}
	bottom := op.Row0 + im.Height
	args := profileArgs{
		P: p.view(), Frame: at(im.Data), Places: at(op.Places), Bins: at(op.Bins), All: uint64(op.Bins.Len) / profileBinBytes,
		Stride: uint64(im.Stride), First: uint32(op.First), Count: uint32(op.Count),
		Row0: int32(op.Row0), Rows: int32(im.Height),
		FromRow: int32(min(op.FromRow, bottom)), ToRow: int32(min(op.ToRow, bottom)),
		Pixel: uint32(im.Format.PixelBytes()), Channels: uint32(im.Format.Channels),
		Step: int32(op.Step), CentreX: op.CentreX, CentreY: op.CentreY, Segments: uint32(len(op.Segments)),
	}
	copy(args.Segment[:], op.Segments)
	threads, shared := profileThreads, 0
	var k kernelFor[profileArgs]
	switch wide := im.Format.SampleBytes == 2; {
	case op.Axis == driver.ProfileRows:
		threads = profileRowThreads
		switch {
		case wide:
			k = profileRows16
		case im.Format.PixelBytes() == 1:
			k = profileRowsGray8
		default:
			k = profileRows8
		}
	default:
		k = map[driver.ProfileAxis][2]kernelFor[profileArgs]{
			driver.ProfileColumns: {profileColumns8, profileColumns16},
			driver.ProfileRadius:  {profileRadius8, profileRadius16},
			driver.ProfileLine:    {profileLine8, profileLine16},
		}[op.Axis][im.Format.SampleBytes-1]
		// Counters for all bins that there are, if there is room for them: a region has no more.
		const counter = 8
		args.Room = uint32(min(op.Bins.Len/profileBinBytes, int64(min(profileShared, s.dev.profileShared)/counter)))
		shared = int(args.Room) * counter
	}
	blocks := int(min(uint64(profileBlocks*s.dev.info.ComputeUnits*profileThreads/threads), items/uint64(threads/32)+1))
	for c, at := range im.Format.Order[:im.Format.Channels] {
		args.Channel, args.At = uint32(c), uint32(at)
		if err := k.launch(s, blocks, 1, threads, shared, &args); err != nil {
			return err
		}
	}
	return nil
}
