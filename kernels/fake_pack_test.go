package kernels

import (
	"errors"
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *fakeStream) Unpack(op driver.Unpack) error {
	n := int64(op.Src.Width) * int64(op.Src.Height)
	kept := errors.Join(s.imageKept(op.Src, 0), s.inside(op.Flags, 1), s.inside(op.Planes, driver.Align))
	if op.Mask.Len != 0 {
		kept = errors.Join(kept, s.inside(op.Mask, 1))
	}
	if op.Mask.Len != 0 && op.Mask.Len != n || op.Flags.Len != n ||
		op.Planes.Len != 4*n*int64(op.Src.Format.Colours()) {
		kept = errors.Join(kept, fmt.Errorf("%+v", op))
	}
	return s.op("Unpack", kept)
}

func (s *fakeStream) Pack(op driver.Pack) error {
	n, colours := int64(op.Dst.Width)*int64(op.Dst.Height), op.Dst.Format.Colours()
	kept := errors.Join(s.imageKept(op.Dst, 0), s.inside(op.Planes, driver.Align))
	if op.Flags.Len != 0 {
		kept = errors.Join(kept, s.inside(op.Flags, 1))
	}
	if op.Flags.Len != 0 && op.Flags.Len != n || op.Planes.Len != 4*n*int64(colours) {
		kept = errors.Join(kept, fmt.Errorf("%+v", op))
	}
	images := []driver.Image{}
	if op.Residual.Data.Len > 0 {
		images = append(images, op.Residual)
	}
	if op.Flags.Len > 0 || op.Residual.Data.Len > 0 {
		images = append(images, op.Src)
	}
	for _, im := range images {
		kept = errors.Join(kept, s.imageKept(im, 0))
		if im.Width != op.Dst.Width || im.Height != op.Dst.Height || im.Format.Colours() != colours ||
			im.Format.Bits != op.Dst.Format.Bits {
			kept = errors.Join(kept, fmt.Errorf("%+v beside %+v", im, op.Dst))
		}
	}
	return s.op("Pack", kept)
}
