package lowpoly

import (
	"context"
	"fmt"
	"time"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// InvalidError says what was wrong with the input of a call. Nothing was computed.
type InvalidError struct {
	Field   string // such as "points[3].x"
	Value   string
	Problem string // what should have been, with the limit
}

func (e *InvalidError) Error() string {
	return fmt.Sprintf("lowpoly: %s = %s: %s", e.Field, e.Value, e.Problem)
}

// Triangulation is what [Triangulate] made of points.
type Triangulation struct {
	// Triangles as [driver.Triangulate] describes them: a unique set, in an order that the backend chooses, always the same.
	Triangles []driver.Triangle
	// Backend that computed it, such as "cpu" or "cuda".
	Backend string
	// Queue is how long the call waited for memory and a stream of the device, and Compute how long the work took from there.
	Queue, Compute time.Duration
}

// CheckPoints returns an [*InvalidError] where there are more than [driver.MaxPoints], or a coordinate is beyond
// [driver.MaxPoint].
func CheckPoints(points []driver.Point) error {
	if len(points) > driver.MaxPoints {
		return &InvalidError{"points", fmt.Sprint(len(points)), fmt.Sprintf("are more than %d", driver.MaxPoints)}
	}
	for i, p := range points {
		for _, c := range [2]struct {
			name  string
			value int32
		}{{"x", p.X}, {"y", p.Y}} {
			if c.value < -driver.MaxPoint || c.value > driver.MaxPoint {
				return &InvalidError{fmt.Sprintf("points[%d].%s", i, c.name), fmt.Sprint(c.value),
					fmt.Sprintf("must be -%d to %d", driver.MaxPoint, driver.MaxPoint)}
			}
		}
	}
	return nil
}

// Triangulate computes the Delaunay triangulation of points, in one job on dev. points are only read, and only during the
// call. It takes about 150 bytes of device memory a point, and time that grows a little faster than their number. What is
// special about a set (none, equal points, all on a line, a lattice) is no error; see [driver.Triangulate] for what comes
// of it. Points out of range are an [*InvalidError]; where the device has no room the error is a [*kernels.CapacityError].
func Triangulate(ctx context.Context, dev *kernels.Device, points []driver.Point) (*Triangulation, error) {
	if err := CheckPoints(points); err != nil {
		return nil, err
	}
	n := len(points)
	size, err := dev.TriangulateScratch(n)
	if err != nil {
		return nil, err
	}
	job := kernels.Job{
		Label: "triangulate",
		Footprint: kernels.Bytes[driver.Point](n) + kernels.Bytes[driver.Triangle](2*n) + kernels.Bytes[uint32](1) +
			kernels.Bytes[byte](int(size)),
		Units: int64(n),
	}
	res := &Triangulation{Backend: dev.Info().Backend}
	err = dev.Do(ctx, job, func(q *kernels.Queue) error {
		res.Queue = q.Waited()
		start := time.Now()
		in, err := kernels.Alloc[driver.Point](q, n, "points")
		if err != nil {
			return err
		}
		out, err := kernels.Alloc[driver.Triangle](q, 2*n, "triangles")
		if err != nil {
			return err
		}
		count, err := kernels.Alloc[uint32](q, 1, "count")
		if err != nil {
			return err
		}
		scratch, err := kernels.Alloc[byte](q, int(size), "scratch")
		if err != nil {
			return err
		}
		if err := kernels.Upload(q, in, points); err != nil {
			return err
		}
		if err := q.Triangulate(driver.Triangulate{
			Points: in.Slice(), N: n, Triangles: out.Slice(), Count: count.Slice(), Scratch: scratch.Slice(),
		}); err != nil {
			return err
		}
		var found [1]uint32
		if err := kernels.Download(q, found[:], count); err != nil {
			return err
		}
		if err := q.Wait(); err != nil {
			return err
		}
		if int64(found[0]) > 2*int64(n) {
			return fmt.Errorf("lowpoly: the device returned %d triangles of %d points", found[0], n)
		}
		res.Triangles = make([]driver.Triangle, found[0])
		if err := kernels.Download(q, res.Triangles, out.Range(0, len(res.Triangles))); err != nil {
			return err
		}
		err = q.Wait()
		res.Compute = time.Since(start)
		return err
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}
