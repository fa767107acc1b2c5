// The checks in front of Islands.

package kernels

import "github.com/polyscan/polyscan/kernels/driver"

// IslandsScratch says how much Scratch [Queue.Islands] needs for n sites and a diagram of a size.
func (d *Device) IslandsScratch(n, width, height int) (int64, error) {
	return d.islandsScratch("IslandsScratch", n, width, height)
}

func (d *Device) islandsScratch(op string, n, width, height int) (int64, error) {
	if err := checkDiagram(op, n, width, height); err != nil {
		return 0, err
	}
	return d.dev.IslandsScratch(n, width, height)
}

// Islands enqueues the op after checking its arguments. See [driver.Islands].
func (q *Queue) Islands(op driver.Islands) error {
	const name = "Islands"
	scratch, err := q.dev.islandsScratch(name, op.N, op.Width, op.Height)
	if err != nil {
		return err
	}
	n := int64(op.N)
	if err := q.checkSlices(name,
		slot{"Sites", op.Sites, 8 * n, false},
		slot{"Labels", op.Labels, 4 * int64(op.Width) * int64(op.Height), false},
		slot{"Count", op.Count, 4, false},
		slot{"Scratch", op.Scratch, scratch, true},
	); err != nil {
		return err
	}
	return q.stream.Islands(op)
}
