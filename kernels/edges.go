// The checks in front of Edges.

package kernels

import (
	"cmp"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Edges enqueues the op after checking its arguments. See [driver.Edges].
func (q *Queue) Edges(op driver.Edges) error {
	const name = "Edges"
	if err := checkImage(name, "Src", op.Src); err != nil {
		return err
	}
	if err := cmp.Or(
		exactly(name, "Dst", op.Dst, 2*int64(op.Src.Width)*int64(op.Src.Height)),
		q.check(name, "Src.Data", op.Src.Data),
		q.checkAligned(name, "Dst", op.Dst),
	); err != nil {
		return err
	}
	return q.stream.Edges(op)
}
