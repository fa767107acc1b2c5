// The checks in front of Triangulate.

package kernels

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

// TriangulateScratch says how much Scratch [Queue.Triangulate] needs for n points.
func (d *Device) TriangulateScratch(n int) (int64, error) {
	return d.triangulateScratch("TriangulateScratch", n)
}

func (d *Device) triangulateScratch(op string, n int) (int64, error) {
	if err := checkCount(op, "N", n, driver.MaxPoints); err != nil {
		return 0, err
	}
	return d.dev.TriangulateScratch(n)
}

// Triangulate enqueues the op after checking its arguments. See [driver.Triangulate].
func (q *Queue) Triangulate(op driver.Triangulate) error {
	const name = "Triangulate"
	scratch, err := q.dev.triangulateScratch(name, op.N)
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

// checkCount checks a number of things.
func checkCount(op, field string, n, most int) error {
	if n < 0 || n > most {
		return &ArgError{op, field, n, fmt.Sprintf("must be 0 to %d", most)}
	}
	return nil
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
		fits := exactly
		if s.more {
			fits = atLeast
		}
		if err := fits(op, s.field, s.slice, s.need); err != nil {
			return err
		}
	}
	for _, s := range slots {
		if err := q.checkAligned(op, s.field, s.slice); err != nil {
			return err
		}
	}
	return nil
}
