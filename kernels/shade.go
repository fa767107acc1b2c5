// The checks in front of Shade.

package kernels

import (
	"cmp"
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

// ShadeScratch says how much Scratch [Queue.Shade] needs for up to n triangles on an image of a size.
func (d *Device) ShadeScratch(n, width, height int, m driver.ShadeMethod) (int64, error) {
	return d.shadeScratch("ShadeScratch", n, width, height, m)
}

func (d *Device) shadeScratch(op string, n, width, height int, m driver.ShadeMethod) (int64, error) {
	if n < 0 || n > 2*driver.MaxPoints {
		return 0, &ArgError{op, "Max", n, fmt.Sprintf("must be 0 to %d", 2*driver.MaxPoints)}
	}
	if err := checkSize(op, width, height); err != nil {
		return 0, err
	}
	if m > driver.PerTile {
		return 0, &ArgError{op, "Method", uint8(m), "is no method"}
	}
	return d.dev.ShadeScratch(n, width, height, m)
}

// Shade enqueues the op after checking its arguments. See [driver.Shade].
func (q *Queue) Shade(op driver.Shade) error {
	const name = "Shade"
	if err := cmp.Or(checkImage(name, "Src", op.Src), checkImage(name, "Dst", op.Dst)); err != nil {
		return err
	}
	switch {
	case op.Dst.Width != op.Src.Width:
		return &ArgError{name, "Dst.Width", op.Dst.Width, fmt.Sprintf("must be that of Src, %d", op.Src.Width)}
	case op.Dst.Height != op.Src.Height:
		return &ArgError{name, "Dst.Height", op.Dst.Height, fmt.Sprintf("must be that of Src, %d", op.Src.Height)}
	case op.Dst.Format != op.Src.Format:
		return &ArgError{name, "Dst.Format", op.Dst.Format, fmt.Sprintf("must be that of Src, %v", op.Src.Format)}
	case op.Color > driver.CentroidColor:
		return &ArgError{name, "Color", uint8(op.Color), "is no colour rule"}
	case op.N < 0 || op.N > driver.MaxPoints:
		return &ArgError{name, "N", op.N, fmt.Sprintf("must be 0 to %d", driver.MaxPoints)}
	}
	scratch, err := q.dev.shadeScratch(name, op.Max, op.Src.Width, op.Src.Height, op.Method)
	if err != nil {
		return err
	}
	for _, s := range []struct {
		field string
		slice driver.Slice
		need  int64
	}{
		{"Points", op.Points, 8 * int64(op.N)},
		{"Triangles", op.Triangles, 12 * int64(op.Max)},
		{"Count", op.Count, 4},
		{"Colors", op.Colors, int64(op.Src.Format.PixelBytes()) * int64(op.Max)},
	} {
		if s.slice.Len != s.need {
			return &ArgError{name, s.field, s.slice.Len, fmt.Sprintf("must be %d bytes", s.need)}
		}
	}
	if op.Scratch.Len < scratch {
		return &ArgError{name, "Scratch", op.Scratch.Len, fmt.Sprintf("is less than the %d bytes needed", scratch)}
	}
	if err := cmp.Or(
		q.check(name, "Src.Data", op.Src.Data),
		q.check(name, "Dst.Data", op.Dst.Data),
		q.checkAligned(name, "Points", op.Points),
		q.checkAligned(name, "Triangles", op.Triangles),
		q.checkAligned(name, "Count", op.Count),
		q.checkAligned(name, "Colors", op.Colors),
		q.checkAligned(name, "Scratch", op.Scratch),
	); err != nil {
		return err
	}
	if a, b := op.Src.Data, op.Dst.Data; a.Off < b.Off+b.Len && b.Off < a.Off+a.Len {
		return &ArgError{name, "Dst.Data", [2]int64{b.Off, b.Len}, fmt.Sprintf("(offset, length) overlaps Src.Data, %d", [2]int64{a.Off, a.Len})}
	}
	return q.stream.Shade(op)
}
