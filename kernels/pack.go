// The checks in front of Unpack and Pack.

package kernels

import (
	"cmp"
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Unpack enqueues the op after checking its arguments. See [driver.Unpack].
func (q *Queue) Unpack(op driver.Unpack) error {
	const name = "Unpack"
	if err := checkImage(name, "Src", op.Src); err != nil {
		return err
	}
	pixels := int64(op.Src.Width) * int64(op.Src.Height)
	if err := checkPlanes(name, pixels, op.Src.Format.Colours(), op.Planes, op.Mask, "Mask"); err != nil {
		return err
	}
	if op.Flags.Len != pixels {
		return &ArgError{name, "Flags", op.Flags.Len, fmt.Sprintf("must be %d bytes", pixels)}
	}
	if err := cmp.Or(
		q.check(name, "Src.Data", op.Src.Data),
		q.check(name, "Mask", op.Mask),
		q.check(name, "Flags", op.Flags),
		q.checkAligned(name, "Planes", op.Planes),
	); err != nil {
		return err
	}
	return q.stream.Unpack(op)
}

// Pack enqueues the op after checking its arguments. See [driver.Pack].
func (q *Queue) Pack(op driver.Pack) error {
	const name = "Pack"
	if err := checkImage(name, "Dst", op.Dst); err != nil {
		return err
	}
	pixels := int64(op.Dst.Width) * int64(op.Dst.Height)
	if err := checkPlanes(name, pixels, op.Dst.Format.Colours(), op.Planes, op.Flags, "Flags"); err != nil {
		return err
	}
	images := []struct {
		field string
		image driver.Image
		used  bool
	}{
		{"Src", op.Src, op.Flags.Len > 0 || op.Residual.Data.Len > 0},
		{"Residual", op.Residual, op.Residual.Data.Len > 0},
	}
	for _, x := range images {
		if !x.used {
			continue
		}
		if err := cmp.Or(checkImage(name, x.field, x.image), checkAlike(name, x.field, x.image, op.Dst),
			q.check(name, x.field+".Data", x.image.Data)); err != nil {
			return err
		}
	}
	if err := cmp.Or(
		q.check(name, "Dst.Data", op.Dst.Data),
		q.check(name, "Flags", op.Flags),
		q.checkAligned(name, "Planes", op.Planes),
	); err != nil {
		return err
	}
	return q.stream.Pack(op)
}

// checkPlanes checks lengths: that of planes, and that of bytes for each pixel, which may be left out.
func checkPlanes(name string, pixels int64, colours int, planes, bytes driver.Slice, field string) error {
	if need := 4 * pixels * int64(colours); planes.Len != need {
		return &ArgError{name, "Planes", planes.Len, fmt.Sprintf("must be %d bytes", need)}
	}
	if bytes.Len != 0 && bytes.Len != pixels {
		return &ArgError{name, field, bytes.Len, fmt.Sprintf("must be 0 or %d bytes", pixels)}
	}
	return nil
}

// checkAlike checks that an image has the size of another, and as many colours with as many levels.
func checkAlike(name, field string, im, other driver.Image) error {
	switch f, g := im.Format, other.Format; {
	case im.Width != other.Width:
		return &ArgError{name, field + ".Width", im.Width, fmt.Sprintf("must be %d, as that of Dst", other.Width)}
	case im.Height != other.Height:
		return &ArgError{name, field + ".Height", im.Height, fmt.Sprintf("must be %d, as that of Dst", other.Height)}
	case f.Colours() != g.Colours() || f.SampleBytes != g.SampleBytes || f.Bits != g.Bits:
		return &ArgError{name, field + ".Format", f,
			fmt.Sprintf("must have the colours and bits of %v, the format of Dst", g)}
	}
	return nil
}
