// The checks in front of Flips.

package kernels

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

// FlipsScratch says how much Scratch [Queue.Flips] needs for n points.
func (d *Device) FlipsScratch(n int) (int64, error) { return d.flipsScratch("FlipsScratch", n) }

func (d *Device) flipsScratch(op string, n int) (int64, error) {
	if err := checkCount(op, "N", n, driver.MaxPoints); err != nil {
		return 0, err
	}
	return d.dev.FlipsScratch(n)
}

// Flips enqueues the op after checking its arguments. See [driver.Flips].
func (q *Queue) Flips(op driver.Flips) error {
	const name = "Flips"
	scratch, err := q.dev.flipsScratch(name, op.N)
	if err != nil {
		return err
	}
	if op.Rounds < 1 || op.Rounds > driver.MaxFlipRounds {
		return &ArgError{name, "Rounds", op.Rounds, fmt.Sprintf("must be 1 to %d", driver.MaxFlipRounds)}
	}
	n := int64(op.N)
	if err := q.checkSlices(name,
		slot{"Points", op.Points, 8 * n, false},
		slot{"Triangles", op.Triangles, 2 * 12 * n, false},
		slot{"Counts", op.Counts, 16, false},
		slot{"Status", op.Status, 32, false},
		slot{"Scratch", op.Scratch, scratch, true},
	); err != nil {
		return err
	}
	return q.stream.Flips(op)
}
