// Mirror: the ops that make a triangulation of a Voronoi diagram.

package devicetest

import "github.com/polyscan/polyscan/kernels/driver"

func (s *mirrorStream) Islands(op driver.Islands) error {
	opA, opB := op, op
	opA.Sites, opB.Sites = split(op.Sites)
	opA.Labels, opB.Labels = split(op.Labels)
	opA.Count, opB.Count = split(op.Count)
	opA.Scratch, opB.Scratch = split(op.Scratch)
	err := s.both("Islands", func() error { return s.a.Islands(opA) }, func() error { return s.b.Islands(opB) })
	if err != nil || s.err != nil {
		return err
	}
	a, b := make([]uint32, op.Width*op.Height+1), make([]uint32, op.Width*op.Height+1) // the count last
	last := op.Width * op.Height
	s.err = s.fetch(
		[]transfer{{bytesOf(a[:last]), opA.Labels}, {bytesOf(a[last:]), opA.Count}},
		[]transfer{{bytesOf(b[:last]), opB.Labels}, {bytesOf(b[last:]), opB.Count}})
	if s.err != nil {
		return nil
	}
	if d := CompareIslands(a[:last], b[:last], op.Width, a[last], b[last]); d != nil {
		s.err = d
	}
	return nil
}

func (s *mirrorStream) DualTriangles(op driver.DualTriangles) error {
	opA, opB := op, op
	for _, f := range []struct{ a, b *driver.Slice }{
		{&opA.Sites, &opB.Sites}, {&opA.Labels, &opB.Labels}, {&opA.Triangles, &opB.Triangles},
		{&opA.Counts, &opB.Counts}, {&opA.Scratch, &opB.Scratch},
	} {
		*f.a, *f.b = split(*f.a)
	}
	err := s.both("DualTriangles", func() error {
		return s.a.DualTriangles(opA)
	}, func() error { return s.b.DualTriangles(opB) })
	if err != nil || s.err != nil {
		return err
	}
	s.compareMesh("DualTriangles", op.N, opA.Triangles, opA.Counts, opB.Triangles, opB.Counts)
	return nil
}

func (s *mirrorStream) HullCompletion(op driver.HullCompletion) error {
	opA, opB := op, op
	for _, f := range []struct{ a, b *driver.Slice }{
		{&opA.Sites, &opB.Sites}, {&opA.Labels, &opB.Labels}, {&opA.Triangles, &opB.Triangles},
		{&opA.Counts, &opB.Counts}, {&opA.Scratch, &opB.Scratch},
	} {
		*f.a, *f.b = split(*f.a)
	}
	err := s.both("HullCompletion", func() error {
		return s.a.HullCompletion(opA)
	}, func() error { return s.b.HullCompletion(opB) })
	if err != nil || s.err != nil {
		return err
	}
	s.compareMesh("HullCompletion", op.N, opA.Triangles, opA.Counts, opB.Triangles, opB.Counts)
	return nil
}

// compareMesh sets s.err where the meshes of n sites differ.
func (s *mirrorStream) compareMesh(op string, n int, triangleA, countA, triangleB, countB driver.Slice) {
	a, b := make([]driver.Triangle, 2*n), make([]driver.Triangle, 2*n)
	var countsA, countsB [1]driver.MeshCounts
	s.err = s.fetch(
		[]transfer{{bytesOf(a), triangleA}, {bytesOf(countsA[:]), countA}},
		[]transfer{{bytesOf(b), triangleB}, {bytesOf(countsB[:]), countB}})
	if s.err != nil {
		return
	}
	a, b = a[:min(int(countsA[0].Triangles), len(a))], b[:min(int(countsB[0].Triangles), len(b))]
	if d := CompareMesh(op, a, b, countsA[0], countsB[0]); d != nil {
		s.err = d
	}
}

func (s *mirrorStream) Flips(op driver.Flips) error {
	opA, opB := op, op
	for _, f := range []struct{ a, b *driver.Slice }{
		{&opA.Points, &opB.Points}, {&opA.Triangles, &opB.Triangles}, {&opA.Counts, &opB.Counts},
		{&opA.Status, &opB.Status}, {&opA.Scratch, &opB.Scratch},
	} {
		*f.a, *f.b = split(*f.a)
	}
	err := s.both("Flips", func() error { return s.a.Flips(opA) }, func() error { return s.b.Flips(opB) })
	if err != nil || s.err != nil {
		return err
	}
	a, b := make([]driver.Triangle, 2*op.N), make([]driver.Triangle, 2*op.N)
	var counts [1]driver.MeshCounts
	var statusA, statusB [1]driver.FlipStatus
	s.err = s.fetch(
		[]transfer{{bytesOf(a), opA.Triangles}, {bytesOf(counts[:]), opA.Counts}, {bytesOf(statusA[:]), opA.Status}},
		[]transfer{{bytesOf(b), opB.Triangles}, {bytesOf(counts[:]), opB.Counts}, {bytesOf(statusB[:]), opB.Status}})
	if s.err != nil {
		return nil
	}
	if d := CompareFlaws(statusA[0], statusB[0]); d != nil {
		s.err = d
		return nil
	}
	if statusA[0].Left == 0 && statusB[0].Left == 0 { // what is done after some rounds may differ
		n := min(int(counts[0].Triangles), len(a))
		if d := CompareTriangles(a[:n], b[:n]); d != nil {
			s.err = d
		}
	}
	return nil
}
