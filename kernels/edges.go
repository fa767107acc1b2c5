// The checks in front of Edges.

package kernels

import (
	"cmp"
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Edges enqueues the op after checking its arguments. See [driver.Edges].
func (q *Queue) Edges(op driver.Edges) error {
	const name = "Edges"
	if err := checkImage(name, "Src", op.Src); err != nil {
		return err
	}
	if need := 2 * int64(op.Src.Width) * int64(op.Src.Height); op.Dst.Len != need {
		return &ArgError{name, "Dst", op.Dst.Len, fmt.Sprintf("must be %d bytes", need)}
	}
	if err := cmp.Or(
		q.check(name, "Src.Data", op.Src.Data),
		q.checkAligned(name, "Dst", op.Dst),
	); err != nil {
		return err
	}
	return q.stream.Edges(op)
}
