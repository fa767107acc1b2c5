// The checks in front of HullCompletion.

package kernels

import "github.com/polyscan/polyscan/kernels/driver"

// HullCompletionScratch says how much Scratch [Queue.HullCompletion] needs for n sites and a diagram of a size.
func (d *Device) HullCompletionScratch(n, width, height int) (int64, error) {
	return d.hullCompletionScratch("HullCompletionScratch", n, width, height)
}

func (d *Device) hullCompletionScratch(op string, n, width, height int) (int64, error) {
	if err := checkDiagram(op, n, width, height); err != nil {
		return 0, err
	}
	return d.dev.HullCompletionScratch(n, width, height)
}

// HullCompletion enqueues the op after checking its arguments. See [driver.HullCompletion].
func (q *Queue) HullCompletion(op driver.HullCompletion) error {
	const name = "HullCompletion"
	scratch, err := q.dev.hullCompletionScratch(name, op.N, op.Width, op.Height)
	if err != nil {
		return err
	}
	if err := q.checkDual(name, driver.DualTriangles(op), scratch); err != nil {
		return err
	}
	return q.stream.HullCompletion(op)
}
