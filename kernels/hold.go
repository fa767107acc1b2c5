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
	p := painting{
		from: "Before", src: op.Before, dst: op.Dst, n: op.N, max: op.Max,
		points: op.Points, triangles: op.Triangles, count: op.Count, colors: op.Colors,
	}
	if err := cmp.Or(p.check(name), checkCount(name, "Jump", op.Jump, math.MaxUint16)); err != nil {
		return err
	}
	if op.Limit < 0 || op.Limit > op.Jump {
		return &ArgError{name, "Limit", op.Limit, fmt.Sprintf("must be 0 to Jump, %d", op.Jump)}
	}
	if err := q.checkPainting(name, &p, slot{"Changed", op.Changed, 4, false}); err != nil {
		return err
	}
	return q.stream.Hold(op)
}
