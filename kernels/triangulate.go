// The checks in front of Triangulate.

package kernels

import (
	"cmp"
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
	for _, f := range []struct {
		field string
		slice driver.Slice
		need  int64
		exact bool
	}{
		{"Points", op.Points, 8 * n, true},
		{"Triangles", op.Triangles, 2 * 12 * n, true},
		{"Count", op.Count, 4, true},
		{"Scratch", op.Scratch, scratch, false},
	} {
		if f.slice.Len < f.need || f.exact && f.slice.Len != f.need {
			return &ArgError{name, f.field, f.slice.Len, fmt.Sprintf("must be %d bytes", f.need)}
		}
	}
	if err := cmp.Or(
		q.checkAligned(name, "Points", op.Points),
		q.checkAligned(name, "Triangles", op.Triangles),
		q.checkAligned(name, "Count", op.Count),
		q.checkAligned(name, "Scratch", op.Scratch),
	); err != nil {
		return err
	}
	return q.stream.Triangulate(op)
}
