// The oracle as a driver: the ops that make a triangulation of a Voronoi diagram.

package devicetest

import (
	"fmt"
	"slices"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (*hostDevice) IslandsScratch(_, _, _ int) (int64, error)        { return 0, nil }
func (*hostDevice) DualTrianglesScratch(_, _, _ int) (int64, error)  { return 0, nil }
func (*hostDevice) HullCompletionScratch(_, _, _ int) (int64, error) { return 0, nil }
func (*hostDevice) FlipsScratch(int) (int64, error)                  { return 0, nil }

// values copies the content of a slice.
func values[E any](d *hostDevice, s driver.Slice, n int) ([]E, error) {
	b, err := d.view(s, driver.Align)
	if err != nil {
		return nil, err
	}
	v := make([]E, n)
	if to := bytesOf(v); copy(to, b) != len(to) || len(b) != len(to) {
		return nil, fmt.Errorf("%d bytes for %d values", len(b), n)
	}
	return v, nil
}

// store writes values to the start of a slice.
func store[E any](d *hostDevice, s driver.Slice, v ...E) error {
	b, err := d.view(s, driver.Align)
	if err == nil && copy(b, bytesOf(v)) != len(bytesOf(v)) {
		err = fmt.Errorf("%d bytes for %d values", len(b), len(v))
	}
	return err
}

func (s *hostStream) Islands(op driver.Islands) error {
	return s.enqueue("Islands", func() error {
		sites, err := values[driver.Point](s.dev, op.Sites, op.N)
		if err != nil {
			return err
		}
		labels, err := values[uint32](s.dev, op.Labels, op.Width*op.Height)
		if err != nil {
			return err
		}
		n := Reassign(sites, labels, op.Width, op.Height)
		if err := store(s.dev, op.Labels, labels...); err != nil {
			return err
		}
		return store(s.dev, op.Count, uint32(n))
	})
}

func (s *hostStream) DualTriangles(op driver.DualTriangles) error {
	return s.enqueue("DualTriangles", func() error {
		sites, err := values[driver.Point](s.dev, op.Sites, op.N)
		if err != nil {
			return err
		}
		labels, err := values[uint32](s.dev, op.Labels, op.Width*op.Height)
		if err != nil {
			return err
		}
		found, used := Dual(sites, labels, op.Width, op.Height)
		found = found[:min(len(found), 2*op.N)]
		if err := store(s.dev, op.Counts,
			driver.MeshCounts{Triangles: uint32(len(found)), Sites: uint32(used)}); err != nil {
			return err
		}
		return store(s.dev, op.Triangles, found...)
	})
}

func (s *hostStream) HullCompletion(op driver.HullCompletion) error {
	return s.enqueue("HullCompletion", func() error {
		sites, err := values[driver.Point](s.dev, op.Sites, op.N)
		if err != nil {
			return err
		}
		labels, err := values[uint32](s.dev, op.Labels, op.Width*op.Height)
		if err != nil {
			return err
		}
		mesh, err := values[driver.Triangle](s.dev, op.Triangles, 2*op.N)
		if err != nil {
			return err
		}
		counts, err := values[driver.MeshCounts](s.dev, op.Counts, 1)
		if err != nil {
			return err
		}
		more, border, hull := Complete(sites, labels, op.Width, op.Height)
		from := min(int(counts[0].Triangles), len(mesh))
		counts[0].Triangles = uint32(from + copy(mesh[from:], more))
		counts[0].Border, counts[0].Hull = uint32(border), uint32(hull)
		if err := store(s.dev, op.Counts, counts...); err != nil {
			return err
		}
		return store(s.dev, op.Triangles, mesh...)
	})
}

// Flips takes the triangles of Delaunay, of the points that are corners, where there are no flaws.
func (s *hostStream) Flips(op driver.Flips) error {
	if op.N > MaxOraclePoints {
		return fmt.Errorf("oracle: Flips: N = %d: takes at most %d: %w", op.N, MaxOraclePoints, driver.ErrNotSupported)
	}
	return s.enqueue("Flips", func() error {
		points, err := values[driver.Point](s.dev, op.Points, op.N)
		if err != nil {
			return err
		}
		mesh, err := values[driver.Triangle](s.dev, op.Triangles, 2*op.N)
		if err != nil {
			return err
		}
		counts, err := values[driver.MeshCounts](s.dev, op.Counts, 1)
		if err != nil {
			return err
		}
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
		if err := store(s.dev, op.Triangles, mesh...); err != nil {
			return err
		}
		return store(s.dev, op.Status, flaws)
	})
}
