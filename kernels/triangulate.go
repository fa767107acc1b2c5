// The checks in front of Triangulate.

package kernels

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

// TriangulateScratch says how much Scratch [Queue.Triangulate] needs for n points.
func (d *Device) TriangulateScratch(n int) (int64, error) {
	if n < 0 || n > driver.MaxPoints {
		return 0, &ArgError{"TriangulateScratch", "N", n, fmt.Sprintf("must be 0 to %d", driver.MaxPoints)}
	}
	return d.dev.TriangulateScratch(n)
}

// Triangulate enqueues the op after checking its arguments. See [driver.Triangulate].
func (q *Queue) Triangulate(op driver.Triangulate) error {
	const name = "Triangulate"
	if op.N < 0 || op.N > driver.MaxPoints {
		return &ArgError{name, "N", op.N, fmt.Sprintf("must be 0 to %d", driver.MaxPoints)}
	}
	scratch, err := q.dev.dev.TriangulateScratch(op.N)
	if err != nil {
		return err
	}
	n := int64(op.N)
	if err := q.checkSlices(name,
		slot{"Points", op.Points, 8 * n, false},
		slot{"Triangles", op.Triangles, 2 * 12 * n, false},
		slot{"Count", op.Count, 4, false},
		slot{"Scratch", op.Scratch, scratch, true},
	); err != nil {
		return err
	}
	return q.stream.Triangulate(op)
}

// slot is a slice of an op's, and its length.
type slot struct {
	field string
	slice driver.Slice
	need  int64
	more  bool // it may be longer
}

// checkSlices checks the lengths of an op's slices, and then that they are aligned memory of the device.
func (q *Queue) checkSlices(op string, slots ...slot) error {
	for _, s := range slots {
		switch {
		case s.more && s.slice.Len < s.need:
			return &ArgError{op, s.field, s.slice.Len, fmt.Sprintf("is less than the %d bytes needed", s.need)}
		case !s.more && s.slice.Len != s.need:
			return &ArgError{op, s.field, s.slice.Len, fmt.Sprintf("must be %d bytes", s.need)}
		}
	}
	for _, s := range slots {
		if err := q.checkAligned(op, s.field, s.slice); err != nil {
			return err
		}
	}
	return nil
}
