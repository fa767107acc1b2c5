// The checks in front of Voronoi.

package kernels

import (
	"cmp"

	"github.com/polyscan/polyscan/kernels/driver"
)

// VoronoiScratch says how much Scratch [Queue.Voronoi] needs for n sites and a diagram of a size.
func (d *Device) VoronoiScratch(n, width, height int, m driver.VoronoiMethod) (int64, error) {
	return d.voronoiScratch("VoronoiScratch", n, width, height, m)
}

func (d *Device) voronoiScratch(op string, n, width, height int, m driver.VoronoiMethod) (int64, error) {
	if err := checkDiagram(op, n, width, height); err != nil {
		return 0, err
	}
	if m > driver.Banding {
		return 0, &ArgError{op, "Method", uint8(m), "is no method"}
	}
	return d.dev.VoronoiScratch(n, width, height, m)
}

// Voronoi enqueues the op after checking its arguments. See [driver.Voronoi].
func (q *Queue) Voronoi(op driver.Voronoi) error {
	const name = "Voronoi"
	scratch, err := q.dev.voronoiScratch(name, op.N, op.Width, op.Height, op.Method)
	if err != nil {
		return err
	}
	if err := q.checkSlices(name,
		slot{"Sites", op.Sites, 8 * int64(op.N), false},
		slot{"Labels", op.Labels, 4 * int64(op.Width) * int64(op.Height), false},
		slot{"Scratch", op.Scratch, scratch, true},
	); err != nil {
		return err
	}
	return q.stream.Voronoi(op)
}

// checkDiagram checks the size of a Voronoi diagram of n sites.
func checkDiagram(op string, n, width, height int) error {
	return cmp.Or(checkCount(op, "N", n, driver.MaxPoints), checkSize(op, width, height))
}
