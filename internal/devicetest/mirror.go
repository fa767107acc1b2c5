// Mirror: two drivers that do the same, compared op by op.

package devicetest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Mirror returns a driver that does everything on a and on b, and compares what each op wrote, but for prepared
// regions. It waits for those ops on both. Where they differ the op fails, as work on a stream does: Wait returns a
// [*Difference] (errors.As), in which A is a's value and B is b's. Results come from a. Prepared regions are each
// backend's own and are not compared; they can't be downloaded from one place of a mirror and uploaded to another.
func Mirror(a, b driver.Driver) driver.Driver { return mirrorDriver{a, b} }

type mirrorDriver struct{ a, b driver.Driver }

func (d mirrorDriver) Name() string { return "mirror(" + d.a.Name() + ", " + d.b.Name() + ")" }

func (d mirrorDriver) Open(ordinal int) (driver.Device, error) {
	a, err := d.a.Open(ordinal)
	if err != nil {
		return nil, err
	}
	b, err := d.b.Open(ordinal)
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return &mirrorDevice{d.Name(), a, b}, nil
}

type mirrorDevice struct {
	name string
	a, b driver.Device
}

func (d *mirrorDevice) Info() driver.Info {
	a, b := d.a.Info(), d.b.Info()
	return driver.Info{
		Backend:      d.name,
		Device:       a.Device + ", " + b.Device,
		ComputeUnits: min(a.ComputeUnits, b.ComputeUnits),
		Capability:   a.Capability + ", " + b.Capability,
		MemoryBytes:  min(a.MemoryBytes, b.MemoryBytes),
		MaskMethod:   a.MaskMethod,
	}
}

func (d *mirrorDevice) Alloc(n int64) (driver.Mem, error) {
	a, err := d.a.Alloc(n)
	if err != nil {
		return nil, err
	}
	b, err := d.b.Alloc(n)
	if err != nil {
		return nil, errors.Join(err, a.Free())
	}
	return &mirrorMem{a, b}, nil
}

type mirrorMem struct{ a, b driver.Mem }

func (m *mirrorMem) Bytes() int64 { return min(m.a.Bytes(), m.b.Bytes()) }
func (m *mirrorMem) Free() error  { return errors.Join(m.a.Free(), m.b.Free()) }

// split returns the slices of both sides. A slice of something else goes through, for the backends to refuse.
func split(s driver.Slice) (a, b driver.Slice) {
	a, b = s, s
	if m, ok := s.Mem.(*mirrorMem); ok {
		a.Mem, b.Mem = m.a, m.b
	}
	return a, b
}

func (d *mirrorDevice) NewStream(priority int) (driver.Stream, error) {
	a, err := d.a.NewStream(priority)
	if err != nil {
		return nil, err
	}
	b, err := d.b.NewStream(priority)
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return &mirrorStream{a: a, b: b}, nil
}

func (d *mirrorDevice) MaskPreparedBytes(r driver.MaskRegions, width, height int, m driver.Method) (int64, error) {
	a, err := d.a.MaskPreparedBytes(r, width, height, m)
	if err != nil {
		return 0, err
	}
	b, err := d.b.MaskPreparedBytes(r, width, height, m)
	return max(a, b), err
}

func (d *mirrorDevice) TriangulateScratch(n int) (int64, error) {
	a, err := d.a.TriangulateScratch(n)
	if err != nil {
		return 0, err
	}
	b, err := d.b.TriangulateScratch(n)
	return max(a, b), err
}

func (d *mirrorDevice) VoronoiScratch(n, width, height int, m driver.VoronoiMethod) (int64, error) {
	a, err := d.a.VoronoiScratch(n, width, height, m)
	if err != nil {
		return 0, err
	}
	b, err := d.b.VoronoiScratch(n, width, height, m)
	return max(a, b), err
}

func (d *mirrorDevice) IslandsScratch(n, width, height int) (int64, error) {
	a, err := d.a.IslandsScratch(n, width, height)
	if err != nil {
		return 0, err
	}
	b, err := d.b.IslandsScratch(n, width, height)
	return max(a, b), err
}

func (d *mirrorDevice) DualTrianglesScratch(n, width, height int) (int64, error) {
	a, err := d.a.DualTrianglesScratch(n, width, height)
	if err != nil {
		return 0, err
	}
	b, err := d.b.DualTrianglesScratch(n, width, height)
	return max(a, b), err
}

func (d *mirrorDevice) HullCompletionScratch(n, width, height int) (int64, error) {
	a, err := d.a.HullCompletionScratch(n, width, height)
	if err != nil {
		return 0, err
	}
	b, err := d.b.HullCompletionScratch(n, width, height)
	return max(a, b), err
}

func (d *mirrorDevice) FlipsScratch(n int) (int64, error) {
	a, err := d.a.FlipsScratch(n)
	if err != nil {
		return 0, err
	}
	b, err := d.b.FlipsScratch(n)
	return max(a, b), err
}

func (d *mirrorDevice) SelectVerticesScratch(n, width, height int, rule driver.VertexRule) (int64, error) {
	a, err := d.a.SelectVerticesScratch(n, width, height, rule)
	if err != nil {
		return 0, err
	}
	b, err := d.b.SelectVerticesScratch(n, width, height, rule)
	return max(a, b), err
}

func (d *mirrorDevice) ShadeScratch(n, width, height int, m driver.ShadeMethod) (int64, error) {
	a, err := d.a.ShadeScratch(n, width, height, m)
	if err != nil {
		return 0, err
	}
	b, err := d.b.ShadeScratch(n, width, height, m)
	return max(a, b), err
}

func (d *mirrorDevice) Close() error { return errors.Join(d.a.Close(), d.b.Close()) }

type mirrorStream struct {
	a, b driver.Stream
	err  error // that Wait has to return; ops behind it do nothing
}

// both enqueues on both sides. An op that fails at once on the second only has been enqueued on the first: the streams
// are not the same any more, which Wait says.
func (s *mirrorStream) both(op string, a, b func() error) error {
	if s.err != nil {
		return nil
	}
	errA := a()
	if errA != nil && !errors.Is(errA, driver.ErrNotSupported) {
		if errB := b(); errB == nil {
			s.err = fmt.Errorf("mirror: %s failed on the first side only: %w", op, errA)
			return nil
		}
	}
	if errA != nil {
		return errA
	}
	if errB := b(); errB != nil {
		if errors.Is(errB, driver.ErrNotSupported) {
			return errB
		}
		s.err = fmt.Errorf("mirror: %s failed on the second side only: %w", op, errB)
	}
	return nil
}

func (s *mirrorStream) Upload(dst driver.Slice, src [][]byte) error {
	a, b := split(dst)
	return s.both("Upload", func() error { return s.a.Upload(a, src) }, func() error { return s.b.Upload(b, src) })
}

// Download downloads from the first side.
func (s *mirrorStream) Download(dst []byte, src driver.Slice) error {
	if s.err != nil {
		return nil
	}
	a, _ := split(src)
	return s.a.Download(dst, a)
}

func (s *mirrorStream) Fill(dst driver.Slice, value byte) error {
	a, b := split(dst)
	return s.both("Fill", func() error { return s.a.Fill(a, value) }, func() error { return s.b.Fill(b, value) })
}

func (s *mirrorStream) MaskPrepare(op driver.MaskPrepare) error {
	opA, opB := op, op
	opA.Dst, opB.Dst = split(op.Dst)
	return s.both("MaskPrepare", func() error {
		return s.a.MaskPrepare(opA)
	}, func() error { return s.b.MaskPrepare(opB) })
}

func (s *mirrorStream) MaskReduce(op driver.MaskReduce) error {
	opA, opB := op, op
	opA.Prepared, opB.Prepared = split(op.Prepared)
	opA.Frame.Data, opB.Frame.Data = split(op.Frame.Data)
	opA.Stats, opB.Stats = split(op.Stats)
	opA.Hist, opB.Hist = split(op.Hist)
	err := s.both("MaskReduce", func() error {
		return s.a.MaskReduce(opA)
	}, func() error { return s.b.MaskReduce(opB) })
	if err != nil || s.err != nil {
		return err
	}
	nc := int(op.Frame.Format.Channels)
	statsA, statsB := make([]driver.MaskStats, op.Count*nc), make([]driver.MaskStats, op.Count*nc)
	histA, histB := make([]uint32, op.Hist.Len/4), make([]uint32, op.Hist.Len/4)
	s.err = s.fetch(
		[]transfer{{bytesOf(statsA), opA.Stats}, {bytesOf(histA), opA.Hist}},
		[]transfer{{bytesOf(statsB), opB.Stats}, {bytesOf(histB), opB.Hist}})
	if s.err != nil {
		return nil
	}
	if d := CompareStats(statsA, statsB, op.First, nc); d != nil {
		s.err = d
	} else if d := CompareHist(histA, histB, op.First, nc, op.Frame.Format.Levels()); d != nil {
		s.err = d
	}
	return nil
}

func (s *mirrorStream) MaskRaster(op driver.MaskRaster) error {
	opA, opB := op, op
	opA.Prepared, opB.Prepared = split(op.Prepared)
	opA.Dst.Data, opB.Dst.Data = split(op.Dst.Data)
	err := s.both("MaskRaster", func() error {
		return s.a.MaskRaster(opA)
	}, func() error { return s.b.MaskRaster(opB) })
	if err != nil || s.err != nil {
		return err
	}
	im := op.Dst
	a, b := make([]byte, im.Data.Len), make([]byte, im.Data.Len)
	s.err = s.fetch([]transfer{{a, opA.Dst.Data}}, []transfer{{b, opB.Dst.Data}})
	if s.err != nil {
		return nil
	}
	if d := CompareImage(a, b, im.Width, im.Height, im.Stride, im.Stride, int(im.Format.SampleBytes)); d != nil {
		s.err = d
	}
	return nil
}

func (s *mirrorStream) Triangulate(op driver.Triangulate) error {
	opA, opB := op, op
	for _, f := range []struct{ a, b *driver.Slice }{
		{&opA.Points, &opB.Points}, {&opA.Triangles, &opB.Triangles}, {&opA.Count, &opB.Count},
		{&opA.Scratch, &opB.Scratch},
	} {
		*f.a, *f.b = split(*f.a)
	}
	err := s.both("Triangulate", func() error {
		return s.a.Triangulate(opA)
	}, func() error { return s.b.Triangulate(opB) })
	if err != nil || s.err != nil {
		return err
	}
	a, b := make([]driver.Triangle, 2*op.N), make([]driver.Triangle, 2*op.N)
	var countA, countB [1]uint32
	s.err = s.fetch(
		[]transfer{{bytesOf(a), opA.Triangles}, {bytesOf(countA[:]), opA.Count}},
		[]transfer{{bytesOf(b), opB.Triangles}, {bytesOf(countB[:]), opB.Count}})
	if s.err != nil {
		return nil
	}
	if d := CompareTriangles(a[:min(int(countA[0]), len(a))], b[:min(int(countB[0]), len(b))]); d != nil {
		s.err = d
	}
	return nil
}

func (s *mirrorStream) Voronoi(op driver.Voronoi) error {
	opA, opB := op, op
	opA.Sites, opB.Sites = split(op.Sites)
	opA.Labels, opB.Labels = split(op.Labels)
	opA.Scratch, opB.Scratch = split(op.Scratch)
	err := s.both("Voronoi", func() error { return s.a.Voronoi(opA) }, func() error { return s.b.Voronoi(opB) })
	if err != nil || s.err != nil {
		return err
	}
	a, b := make([]uint32, op.Width*op.Height), make([]uint32, op.Width*op.Height)
	if s.err = s.fetch([]transfer{{bytesOf(a), opA.Labels}}, []transfer{{bytesOf(b), opB.Labels}}); s.err != nil {
		return nil
	}
	if d := CompareLabels(a, b, op.Width); d != nil {
		s.err = d
	}
	return nil
}

func (s *mirrorStream) Edges(op driver.Edges) error {
	opA, opB := op, op
	opA.Src.Data, opB.Src.Data = split(op.Src.Data)
	opA.Dst, opB.Dst = split(op.Dst)
	err := s.both("Edges", func() error { return s.a.Edges(opA) }, func() error { return s.b.Edges(opB) })
	if err != nil || s.err != nil {
		return err
	}
	n := op.Src.Width * op.Src.Height
	a, b := make([]uint16, n), make([]uint16, n)
	if s.err = s.fetch([]transfer{{bytesOf(a), opA.Dst}}, []transfer{{bytesOf(b), opB.Dst}}); s.err != nil {
		return nil
	}
	if d := CompareEdges(a, b, op.Src.Width); d != nil {
		s.err = d
	}
	return nil
}

func (s *mirrorStream) SelectVertices(op driver.SelectVertices) error {
	opA, opB := op, op
	for _, f := range []struct{ a, b *driver.Slice }{
		{&opA.Edges, &opB.Edges}, {&opA.Previous, &opB.Previous}, {&opA.Points, &opB.Points}, {&opA.Count, &opB.Count},
		{&opA.Scratch, &opB.Scratch},
	} {
		*f.a, *f.b = split(*f.a)
	}
	err := s.both("SelectVertices", func() error {
		return s.a.SelectVertices(opA)
	}, func() error { return s.b.SelectVertices(opB) })
	if err != nil || s.err != nil {
		return err
	}
	a, b := make([]driver.Point, op.N), make([]driver.Point, op.N)
	var countA, countB [1]uint32
	s.err = s.fetch(
		[]transfer{{bytesOf(a), opA.Points}, {bytesOf(countA[:]), opA.Count}},
		[]transfer{{bytesOf(b), opB.Points}, {bytesOf(countB[:]), opB.Count}})
	if s.err != nil {
		return nil
	}
	if d := CompareVertices(a[:min(int(countA[0]), len(a))], b[:min(int(countB[0]), len(b))]); d != nil {
		s.err = d
	} else if d := CompareVertices(a, b); d != nil { // what is behind them
		s.err = d
	}
	return nil
}

func (s *mirrorStream) Shade(op driver.Shade) error {
	opA, opB := op, op
	for _, f := range []struct{ a, b *driver.Slice }{
		{&opA.Src.Data, &opB.Src.Data}, {&opA.Points, &opB.Points}, {&opA.Triangles, &opB.Triangles},
		{&opA.Count, &opB.Count},
		{&opA.Dst.Data, &opB.Dst.Data}, {&opA.Colors, &opB.Colors}, {&opA.Scratch, &opB.Scratch},
	} {
		*f.a, *f.b = split(*f.a)
	}
	err := s.both("Shade", func() error { return s.a.Shade(opA) }, func() error { return s.b.Shade(opB) })
	if err != nil || s.err != nil {
		return err
	}
	a, b := make([]byte, op.Dst.Data.Len), make([]byte, op.Dst.Data.Len)
	if s.err = s.fetch([]transfer{{a, opA.Dst.Data}}, []transfer{{b, opB.Dst.Data}}); s.err != nil {
		return nil
	}
	if d := ComparePainted("Shade", a, b, pictureOf(op.Dst, nil)); d != nil {
		s.err = d
	}
	return nil
}

func (s *mirrorStream) Hold(op driver.Hold) error {
	opA, opB := op, op
	for _, f := range []struct{ a, b *driver.Slice }{
		{&opA.Before.Data, &opB.Before.Data}, {&opA.Points, &opB.Points}, {&opA.Triangles, &opB.Triangles},
		{&opA.Count, &opB.Count},
		{&opA.Dst.Data, &opB.Dst.Data}, {&opA.Colors, &opB.Colors}, {&opA.Changed, &opB.Changed},
	} {
		*f.a, *f.b = split(*f.a)
	}
	err := s.both("Hold", func() error { return s.a.Hold(opA) }, func() error { return s.b.Hold(opB) })
	if err != nil || s.err != nil {
		return err
	}
	a, b := make([]byte, op.Dst.Data.Len), make([]byte, op.Dst.Data.Len)
	if s.err = s.fetch([]transfer{{a, opA.Dst.Data}}, []transfer{{b, opB.Dst.Data}}); s.err != nil {
		return nil
	}
	if d := ComparePainted("Hold", a, b, pictureOf(op.Dst, nil)); d != nil {
		s.err = d
		return nil
	}
	a, b = make([]byte, 4), make([]byte, 4)
	if s.err = s.fetch([]transfer{{a, opA.Changed}}, []transfer{{b, opB.Changed}}); s.err != nil {
		return nil
	}
	if a, b := uint64(binary.LittleEndian.Uint32(a)), uint64(binary.LittleEndian.Uint32(b)); a != b {
		s.err = &Difference{Op: "Hold", Region: -1, Field: "Changed", A: a, B: b, Count: 1}
	}
	return nil
}

type transfer struct {
	dst []byte
	src driver.Slice
}

// fetch downloads from both sides and waits for both.
func (s *mirrorStream) fetch(a, b []transfer) error {
	var errs []error
	for _, side := range []struct {
		name   string
		stream driver.Stream
		from   []transfer
	}{{"first", s.a, a}, {"second", s.b, b}} {
		var err error
		for _, t := range side.from {
			if t.src.Len > 0 && err == nil {
				err = side.stream.Download(t.dst, t.src)
			}
		}
		if err := errors.Join(err, side.stream.Wait(context.Background())); err != nil {
			errs = append(errs, fmt.Errorf("mirror: %s side: %w", side.name, err))
		}
	}
	return errors.Join(errs...)
}

func (s *mirrorStream) Wait(ctx context.Context) error {
	// Both are drained, whatever the first says.
	a, b := s.a.Wait(ctx), s.b.Wait(ctx)
	err := s.err
	s.err = nil
	for _, e := range []error{a, b} {
		if err == nil {
			err = e
		}
	}
	return err
}

func (s *mirrorStream) Close() error { return errors.Join(s.a.Close(), s.b.Close()) }
