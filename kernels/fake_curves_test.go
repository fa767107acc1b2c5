// The fake driver: curves and blur.

package kernels

import (
	"errors"
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *fakeStream) CurveRaster(op driver.CurveRaster) error {
	n := int64(op.Width) * int64(op.Height)
	var kept error
	if op.Width < 1 || op.Height < 1 || n > driver.MaxPixels || op.Channels < 1 ||
		op.Channels > driver.MaxDiffusionChannels ||
		op.Flags.Len != n || op.Values.Len != 4*n*int64(op.Channels) || op.Scratch.Len < op.ScratchBytes() {
		kept = fmt.Errorf("%dx%d, %d channels, lengths %d, %d, %d", op.Width, op.Height, op.Channels, op.Flags.Len,
			op.Values.Len, op.Scratch.Len)
	}
	for i, x := range op.Segments {
		if int(x.Curve) >= len(op.Curves) || x.LogPieces > 11 {
			kept = errors.Join(kept, fmt.Errorf("segment %d: %+v", i, x))
		}
	}
	for i, c := range op.Curves {
		for _, r := range []driver.CurveStops{c.Left, c.Right} {
			if int(r.First)+int(r.Count) > len(op.Stops) {
				kept = errors.Join(kept, fmt.Errorf("curve %d: %+v", i, c))
			}
		}
	}
	for _, x := range []driver.Slice{op.Flags, op.Values, op.Scratch} {
		kept = errors.Join(kept, s.inside(x, driver.Align))
	}
	return s.op("CurveRaster", kept)
}

func (s *fakeStream) Blur(op driver.Blur) error {
	n := int64(op.Width) * int64(op.Height)
	var kept error
	if op.Width < 1 || op.Height < 1 || n > driver.MaxPixels || op.Channels < 1 ||
		op.Channels > driver.MaxDiffusionChannels || !(op.Scale > 0) ||
		op.Src.Len != 4*n*int64(op.Channels) || op.Sigma.Len != 4*n || op.Dst.Len != op.Src.Len ||
		op.Scratch.Len < op.ScratchBytes() {
		kept = fmt.Errorf("%+v", op)
	}
	for _, x := range []driver.Slice{op.Src, op.Dst, op.Scratch} {
		kept = errors.Join(kept, s.inside(x, driver.Align))
	}
	return s.op("Blur", errors.Join(kept, s.inside(op.Sigma, 4)))
}
