package lowpoly

import (
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// Route is the way to a triangulation. All lead to the same set of triangles.
type Route uint8

const (
	// RouteDirect is [driver.Triangulate].
	RouteDirect Route = iota
	// RouteVoronoi goes by way of a discrete Voronoi diagram: its labels, cells of one piece, the triangles between
	// cells, those up to the convex hull, and flips until all are Delaunay. Source: Ke and Huang, Parallel Low Poly
	// Style Image/Video Converter; Yang, Low poly in CUDA, 2018; Zhang and Fan, Parallel Delaunay Triangulation.
	RouteVoronoi
)

var routeNames = [...]string{"DIRECT", "VORONOI"}

func (r Route) String() string {
	if int(r) < len(routeNames) {
		return routeNames[r]
	}
	return "INVALID"
}

// VoronoiSteps is what the steps of [RouteVoronoi] found.
type VoronoiSteps struct {
	Islands      int // pixels that their site can't be reached from, and that others got
	Border, Hull int // edges around the mesh before it was completed, and after
	Rounds       int // of flips
	Flips        int
	// Direct is set where the mesh was not sound, or the rounds were not enough, so that the triangles are those of
	// RouteDirect after all. No set of points is known for which that happens.
	Direct bool
}

// flipRounds is the most rounds of flips there may be. Meshes of diagrams take about five, of circles and bands too:
// see TestMeshLarge in kernels/cpu.
const flipRounds = 1000

// mesher makes triangles of points.
type mesher struct {
	route         Route
	n             int // room for points
	width, height int // of the diagram, of which all points are pixels

	direct, labelling, scratch int64 // bytes of Scratch: of Triangulate, of the Voronoi diagram, and of any step
	steps                      VoronoiSteps
}

// newMesher plans a mesher for up to n points among the pixels of a diagram. RouteDirect doesn't look at its size.
func newMesher(dev *kernels.Device, route Route, n, width, height int) (m mesher, err error) {
	m = mesher{route: route, n: n, width: width, height: height}
	if m.direct, err = dev.Scratch(&driver.Triangulate{N: n}); err != nil {
		return m, err
	}
	if m.scratch = m.direct; route == RouteDirect {
		return m, nil
	}
	if err := kernels.CheckSize(width, height); err != nil {
		return m, invalid(path{"route"}, route, "labels an image that has all points, and one of %d x %d pixels can't be: %v",
			width, height, err)
	}
	if m.labelling, err = dev.Scratch(&driver.Voronoi{N: n, Width: width, Height: height}); err != nil {
		return m, err
	}
	m.scratch = max(m.scratch, m.labelling)
	for _, size := range []func() (int64, error){
		func() (int64, error) { return dev.Scratch(&driver.Islands{N: n, Width: width, Height: height}) },
		func() (int64, error) { return dev.Scratch(&driver.DualTriangles{N: n, Width: width, Height: height}) },
		func() (int64, error) { return dev.Scratch(&driver.HullCompletion{N: n, Width: width, Height: height}) },
		func() (int64, error) { return dev.Scratch(&driver.Flips{N: n, Rounds: 1}) },
	} {
		bytes, err := size()
		if err != nil {
			return m, err
		}
		m.scratch = max(m.scratch, bytes)
	}
	return m, nil
}

// footprint is what run allocates, and frees again.
func (m *mesher) footprint() int64 {
	n := kernels.Bytes[byte](int(m.scratch))
	if m.route == RouteVoronoi {
		n += kernels.Bytes[uint32](m.width*m.height) + kernels.Bytes[uint32](1) + kernels.Bytes[driver.FlipStatus](1)
	}
	return n
}

// run writes the triangles of points and their number, counts.Triangles. Room for triangles is twice that for points.
func (m *mesher) run(q *kernels.Queue, points kernels.Buffer[driver.Point], triangles kernels.Buffer[driver.Triangle],
	counts kernels.Buffer[driver.MeshCounts]) error {
	s := &stack{q: q}
	scratch := take[byte](s, int(m.scratch), "scratch")
	if s.err != nil {
		return s.err
	}
	n := points.Len()
	triangles = triangles.Range(0, 2*n)
	direct := func() error {
		return q.Run(&driver.Triangulate{Points: points.Slice(), N: n, Triangles: triangles.Slice(),
			Count: countOf(counts), Scratch: scratch.Slice()})
	}
	if m.route == RouteDirect {
		if err := direct(); err != nil {
			return err
		}
		return s.free()
	}
	labels := take[uint32](s, m.width*m.height, "labels")
	islands := take[uint32](s, 1, "count")
	status := take[driver.FlipStatus](s, 1, "status")
	if s.err != nil {
		return s.err
	}
	w, h := m.width, m.height
	for _, step := range []func() error{
		func() error {
			return q.Run(&driver.Voronoi{Sites: points.Slice(), N: n, Width: w, Height: h, Labels: labels.Slice(),
				Scratch: scratch.Slice()})
		},
		func() error {
			return q.Run(&driver.Islands{Sites: points.Slice(), N: n, Width: w, Height: h, Labels: labels.Slice(),
				Count: islands.Slice(), Scratch: scratch.Slice()})
		},
		func() error {
			return q.Run(&driver.DualTriangles{
				Sites: points.Slice(), N: n, Width: w, Height: h, Labels: labels.Slice(), Triangles: triangles.Slice(),
				Counts: counts.Slice(), Scratch: scratch.Slice(),
			})
		},
		func() error {
			return q.Run(&driver.HullCompletion{
				Sites: points.Slice(), N: n, Width: w, Height: h, Labels: labels.Slice(), Triangles: triangles.Slice(),
				Counts: counts.Slice(), Scratch: scratch.Slice(),
			})
		},
		func() error {
			return q.Run(&driver.Flips{
				Points: points.Slice(), N: n, Triangles: triangles.Slice(), Counts: counts.Slice(), Rounds: flipRounds,
				Status: status.Slice(), Scratch: scratch.Slice(),
			})
		},
	} {
		if err := step(); err != nil {
			return err
		}
		if err := q.Yield(); err != nil {
			return err
		}
	}
	var lost [1]uint32
	var count [1]driver.MeshCounts
	var flips [1]driver.FlipStatus
	if err := kernels.Download(q, lost[:], islands); err != nil {
		return err
	}
	if err := kernels.Download(q, count[:], counts); err != nil {
		return err
	}
	if err := kernels.Download(q, flips[:], status); err != nil {
		return err
	}
	if err := q.Wait(); err != nil {
		return err
	}
	m.steps = VoronoiSteps{
		Islands: int(lost[0]), Border: int(count[0].Border), Hull: int(count[0].Hull), Rounds: int(flips[0].Rounds),
		Flips:  int(flips[0].Flips),
		Direct: !flips[0].Delaunay(int(count[0].Triangles)),
	}
	if m.steps.Direct {
		if err := direct(); err != nil {
			return err
		}
	}
	return s.free()
}

// countOf is the number of triangles alone.
func countOf(counts kernels.Buffer[driver.MeshCounts]) driver.Slice {
	s := counts.Slice()
	s.Len = 4
	return s
}
