// The checks in front of Voronoi.

package kernels

import (
	"cmp"
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

// VoronoiScratch says how much Scratch [Queue.Voronoi] needs for n sites and a diagram of a size.
func (d *Device) VoronoiScratch(n, width, height int, m driver.VoronoiMethod) (int64, error) {
	return d.voronoiScratch("VoronoiScratch", n, width, height, m)
}

func (d *Device) voronoiScratch(op string, n, width, height int, m driver.VoronoiMethod) (int64, error) {
	if n < 0 || n > driver.MaxPoints {
		return 0, &ArgError{op, "N", n, fmt.Sprintf("must be 0 to %d", driver.MaxPoints)}
	}
	if err := checkSize(op, width, height); err != nil {
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
	if need := 8 * int64(op.N); op.Sites.Len != need {
		return &ArgError{name, "Sites", op.Sites.Len, fmt.Sprintf("must be %d bytes", need)}
	}
	if need := 4 * int64(op.Width) * int64(op.Height); op.Labels.Len != need {
		return &ArgError{name, "Labels", op.Labels.Len, fmt.Sprintf("must be %d bytes", need)}
	}
	if op.Scratch.Len < scratch {
		return &ArgError{name, "Scratch", op.Scratch.Len, fmt.Sprintf("is less than the %d bytes needed", scratch)}
	}
	if err := cmp.Or(
		q.checkAligned(name, "Sites", op.Sites),
		q.checkAligned(name, "Labels", op.Labels),
		q.checkAligned(name, "Scratch", op.Scratch),
	); err != nil {
		return err
	}
	return q.stream.Voronoi(op)
}
