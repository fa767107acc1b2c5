// The checks in front of Hold.

package kernels

import (
	"cmp"
	"fmt"
	"math"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Hold enqueues the op after checking its arguments. See [driver.Hold].
func (q *Queue) Hold(op driver.Hold) error {
	const name = "Hold"
	if err := cmp.Or(checkImage(name, "Before", op.Before), checkImage(name, "Dst", op.Dst)); err != nil {
		return err
	}
	switch {
	case op.Dst.Width != op.Before.Width:
		return &ArgError{name, "Dst.Width", op.Dst.Width, fmt.Sprintf("must be that of Before, %d", op.Before.Width)}
	case op.Dst.Height != op.Before.Height:
		return &ArgError{name, "Dst.Height", op.Dst.Height, fmt.Sprintf("must be that of Before, %d", op.Before.Height)}
	case op.Dst.Format != op.Before.Format:
		return &ArgError{name, "Dst.Format", op.Dst.Format, fmt.Sprintf("must be that of Before, %v", op.Before.Format)}
	case op.Jump < 0 || op.Jump > math.MaxUint16:
		return &ArgError{name, "Jump", op.Jump, fmt.Sprintf("must be 0 to %d", math.MaxUint16)}
	case op.Limit < 0 || op.Limit > op.Jump:
		return &ArgError{name, "Limit", op.Limit, fmt.Sprintf("must be 0 to Jump, %d", op.Jump)}
	case op.N < 0 || op.N > driver.MaxPoints:
		return &ArgError{name, "N", op.N, fmt.Sprintf("must be 0 to %d", driver.MaxPoints)}
	case op.Max < 0 || op.Max > 2*driver.MaxPoints:
		return &ArgError{name, "Max", op.Max, fmt.Sprintf("must be 0 to %d", 2*driver.MaxPoints)}
	}
	for _, s := range []struct {
		field string
		slice driver.Slice
		need  int64
	}{
		{"Points", op.Points, 8 * int64(op.N)},
		{"Triangles", op.Triangles, 12 * int64(op.Max)},
		{"Count", op.Count, 4},
		{"Changed", op.Changed, 4},
		{"Colors", op.Colors, int64(op.Dst.Format.PixelBytes()) * int64(op.Max)},
	} {
		if s.slice.Len != s.need {
			return &ArgError{name, s.field, s.slice.Len, fmt.Sprintf("must be %d bytes", s.need)}
		}
	}
	if err := cmp.Or(
		q.check(name, "Before.Data", op.Before.Data),
		q.check(name, "Dst.Data", op.Dst.Data),
		q.checkAligned(name, "Points", op.Points),
		q.checkAligned(name, "Triangles", op.Triangles),
		q.checkAligned(name, "Count", op.Count),
		q.checkAligned(name, "Colors", op.Colors),
		q.checkAligned(name, "Changed", op.Changed),
	); err != nil {
		return err
	}
	if a, b := op.Before.Data, op.Dst.Data; a.Off < b.Off+b.Len && b.Off < a.Off+a.Len {
		return &ArgError{name, "Dst.Data", [2]int64{b.Off, b.Len}, fmt.Sprintf("(offset, length) overlaps Before.Data, %d", [2]int64{a.Off, a.Len})}
	}
	return q.stream.Hold(op)
}
