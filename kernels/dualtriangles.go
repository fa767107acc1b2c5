// The checks in front of DualTriangles.

package kernels

import "github.com/polyscan/polyscan/kernels/driver"

// DualTrianglesScratch says how much Scratch [Queue.DualTriangles] needs for n sites and a diagram of a size.
func (d *Device) DualTrianglesScratch(n, width, height int) (int64, error) {
	return d.dualTrianglesScratch("DualTrianglesScratch", n, width, height)
}

func (d *Device) dualTrianglesScratch(op string, n, width, height int) (int64, error) {
	if err := checkDiagram(op, n, width, height); err != nil {
		return 0, err
	}
	return d.dev.DualTrianglesScratch(n, width, height)
}

// DualTriangles enqueues the op after checking its arguments. See [driver.DualTriangles].
func (q *Queue) DualTriangles(op driver.DualTriangles) error {
	const name = "DualTriangles"
	scratch, err := q.dev.dualTrianglesScratch(name, op.N, op.Width, op.Height)
	if err != nil {
		return err
	}
	if err := q.checkDual(name, op, scratch); err != nil {
		return err
	}
	return q.stream.DualTriangles(op)
}

// checkDual checks the slices of an op that adds triangles to a diagram: DualTriangles and HullCompletion have the
// same.
func (q *Queue) checkDual(name string, op driver.DualTriangles, scratch int64) error {
	n := int64(op.N)
	return q.checkSlices(name,
		slot{"Sites", op.Sites, 8 * n, false},
		slot{"Labels", op.Labels, 4 * int64(op.Width) * int64(op.Height), false},
		slot{"Triangles", op.Triangles, 2 * 12 * n, false},
		slot{"Counts", op.Counts, 16, false},
		slot{"Scratch", op.Scratch, scratch, true},
	)
}
