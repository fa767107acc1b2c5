package lowpoly

import (
	"context"
	"fmt"
	"slices"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// Triangulation is what [Triangulate] made of points.
type Triangulation struct {
	// Triangles as [driver.Triangulate] describes them: a unique set, in an order that the backend chooses, always the
	// same.
	Triangles []Triangle
	// Steps is what the steps of RouteVoronoi found; nil with RouteDirect.
	Steps *VoronoiSteps
	kernels.Timing
}

// checkPoints returns an [*kernels.InvalidError] where there are more than [driver.MaxPoints], or a coordinate is
// beyond [driver.MaxPoint].
func checkPoints(points []Point) error {
	if len(points) > driver.MaxPoints {
		return invalid(path{"points"}, len(points), "are more than %d", driver.MaxPoints)
	}
	for i, p := range points {
		for _, c := range [2]struct {
			name  string
			value int32
		}{{"x", p.X}, {"y", p.Y}} {
			if c.value < -driver.MaxPoint || c.value > driver.MaxPoint {
				return invalid(path{"points", i, c.name}, c.value, "must be -%d to %[1]d", driver.MaxPoint)
			}
		}
	}
	return nil
}

// Triangulate computes the Delaunay triangulation of points, in one job on dev. points are only read, and only during
// the call. RouteDirect takes about 150 bytes of device memory a point, and time that grows a little faster than their
// number; RouteVoronoi about 170, and 8 bytes for each pixel of the rectangle that the points span, which has limits,
// see [driver.MaxSide] and [driver.MaxPixels]. What is special about a set (none, equal points, all on a line, a
// lattice) is no error; see [driver.Triangulate] for what comes of it. Bad input is an [*kernels.InvalidError];
// where the device has no room the error is a [*kernels.CapacityError].
func Triangulate(ctx context.Context, dev *kernels.Device, points []Point, route Route) (*Triangulation, error) {
	if err := checkPoints(points); err != nil {
		return nil, err
	}
	if route > RouteVoronoi {
		return nil, invalid(path{"route"}, uint8(route), "is no route")
	}
	n := len(points)
	low, width, height := span(points)
	mesh, err := newMesher(dev, route, n, width, height)
	if err != nil {
		return nil, err
	}
	if route == RouteVoronoi && low != (driver.Point{}) {
		points = slices.Clone(points)
		for i, p := range points {
			points[i] = driver.Point{X: p.X - low.X, Y: p.Y - low.Y}
		}
	}
	res := &Triangulation{}
	job := kernels.Job{
		Label: "triangulate",
		Footprint: kernels.Bytes[driver.Point](n) + kernels.Bytes[driver.Triangle](2*n) +
			kernels.Bytes[driver.MeshCounts](1) +
			mesh.footprint(),
		Units: int64(n), Timing: &res.Timing,
	}
	err = dev.Do(ctx, job, func(q *kernels.Queue) error {
		s := &stack{q: q}
		in := take[driver.Point](s, n, "points")
		out := take[driver.Triangle](s, 2*n, "triangles")
		counts := take[driver.MeshCounts](s, 1, "count")
		if s.err != nil {
			return s.err
		}
		if n > 0 {
			if err := kernels.Upload(q, in, points); err != nil {
				return err
			}
		}
		if err := mesh.run(q, in, out, counts); err != nil {
			return err
		}
		var count [1]driver.MeshCounts
		if err := kernels.Download(q, count[:], counts); err != nil {
			return err
		}
		if err := q.Wait(); err != nil {
			return err
		}
		points = nil // a copy of them may go where the triangles come
		found := int(count[0].Triangles)
		if found > 2*n {
			return fmt.Errorf("lowpoly: the device returned %d triangles of %d points", found, n)
		}
		res.Triangles = make([]Triangle, found)
		if found > 0 {
			if err := kernels.Download(q, res.Triangles, out.Range(0, found)); err != nil {
				return err
			}
		}
		return q.Wait()
	})
	if err != nil {
		return nil, err
	}
	if route == RouteVoronoi {
		res.Steps = &mesh.steps
	}
	return res, nil
}

// span is the least coordinates of points, and the size of the image of which they are pixels: at least one.
func span(points []Point) (low driver.Point, width, height int) {
	if len(points) == 0 {
		return low, 1, 1
	}
	low, high := points[0], points[0]
	for _, p := range points {
		low.X, low.Y = min(low.X, p.X), min(low.Y, p.Y)
		high.X, high.Y = max(high.X, p.X), max(high.Y, p.Y)
	}
	return low, int(high.X) - int(low.X) + 1, int(high.Y) - int(low.Y) + 1
}
