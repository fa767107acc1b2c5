// The oracle as a driver: the ops that make a triangulation of a Voronoi diagram.

package devicetest

import (
	"fmt"
	"slices"

	"github.com/polyscan/polyscan/kernels/driver"
)

func init() {
	oracle(hostIslands)
	oracle(hostDualTriangles)
	oracle(hostHullCompletion)
	oracle(hostFlips)
}

func hostIslands(op *driver.Islands) error {
	sites := values[driver.Point](op.Sites)
	labels := values[uint32](op.Labels)
	n := Reassign(sites, labels, op.Width, op.Height)
	store(op.Labels, labels...)
	store(op.Count, uint32(n))
	return nil
}

func hostDualTriangles(op *driver.DualTriangles) error {
	sites := values[driver.Point](op.Sites)
	labels := values[uint32](op.Labels)
	found, used := Dual(sites, labels, op.Width, op.Height)
	found = found[:min(len(found), 2*op.N)]
	store(op.Counts, driver.MeshCounts{Triangles: uint32(len(found)), Sites: uint32(used)})
	store(op.Triangles, found...)
	return nil
}

func hostHullCompletion(op *driver.HullCompletion) error {
	sites := values[driver.Point](op.Sites)
	labels := values[uint32](op.Labels)
	mesh := values[driver.Triangle](op.Triangles)
	counts := values[driver.MeshCounts](op.Counts)
	more, border, hull := Complete(sites, labels, op.Width, op.Height)
	from := min(int(counts[0].Triangles), len(mesh))
	counts[0].Triangles = uint32(from + copy(mesh[from:], more))
	counts[0].Border, counts[0].Hull = uint32(border), uint32(hull)
	store(op.Counts, counts...)
	store(op.Triangles, mesh...)
	return nil
}

// Flips takes the triangles of Delaunay, of the points that are corners, where there are no flaws.
func hostFlips(op *driver.Flips) error {
	points, mesh := values[driver.Point](op.Points), values[driver.Triangle](op.Triangles)
	counts := values[driver.MeshCounts](op.Counts)
	if int(counts[0].Triangles) > len(mesh) {
		return fmt.Errorf("%d triangles of %d points", counts[0].Triangles, op.N)
	}
	mesh = mesh[:counts[0].Triangles]
	flaws := MeshFlaws(points, mesh, int(counts[0].Sites))
	if flaws.Sound(len(mesh)) {
		var corners []uint32
		for _, t := range mesh {
			corners = append(corners, t.A, t.B, t.C)
		}
		slices.Sort(corners)
		corners = slices.Compact(corners)
		used := make([]driver.Point, len(corners))
		for i, c := range corners {
			used[i] = points[c]
		}
		mesh = Delaunay(used)
		for i, t := range mesh {
			mesh[i] = driver.Triangle{A: corners[t.A], B: corners[t.B], C: corners[t.C]}
		}
	}
	for i, t := range mesh {
		mesh[i] = startLeast(t.A, t.B, t.C)
	}
	store(op.Triangles, mesh...)
	store(op.Status, flaws)
	return nil
}
