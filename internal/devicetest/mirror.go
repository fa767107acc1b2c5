// Mirror: two drivers that do the same, compared op by op.

package devicetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"unsafe"

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

func (d *mirrorDevice) Scratch(op driver.Op) (int64, error) {
	a, err := d.a.Scratch(op)
	if err != nil {
		return 0, err
	}
	b, err := d.b.Scratch(op)
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

// Run runs a copy of the op on each side, with that side's slices, and compares what they wrote.
func (s *mirrorStream) Run(op driver.Op) error {
	a, b := copyOf(op), copyOf(op)
	x := &written{s: s, a: driver.Operands(a, nil), b: driver.Operands(b, nil)}
	for i := range x.a {
		*x.a[i].Slice, *x.b[i].Slice = split(*x.a[i].Slice)
	}
	err := s.both(driver.Name(op), func() error { return s.a.Run(a) }, func() error { return s.b.Run(b) })
	if err != nil || s.err != nil {
		return err
	}
	d := x.compare(op)
	if s.err = x.err; s.err == nil && d != nil {
		s.err = d
	}
	return nil
}

// copyOf is an op with the same fields.
func copyOf(op driver.Op) driver.Op {
	c := reflect.New(reflect.TypeOf(op).Elem())
	c.Elem().Set(reflect.ValueOf(op).Elem())
	return c.Interface().(driver.Op)
}

// written is what both sides have in the slices of an op.
type written struct {
	s    *mirrorStream
	a, b []driver.Operand
	err  error // of a download
}

// both is what the two sides have in the slice of a field.
func both[E any](x *written, field string) (a, b []E) {
	i := slices.IndexFunc(x.a, func(o driver.Operand) bool { return o.Field == field })
	return fetchFrom[E](x, "first", x.s.a, *x.a[i].Slice), fetchFrom[E](x, "second", x.s.b, *x.b[i].Slice)
}

func fetchFrom[E any](x *written, side string, s driver.Stream, from driver.Slice) []E {
	v := make([]E, from.Len/int64(unsafe.Sizeof(*new(E))))
	if len(v) > 0 && x.err == nil {
		if err := errors.Join(s.Download(bytesOf(v), from), s.Wait(context.Background())); err != nil {
			x.err = fmt.Errorf("mirror: %s side: %w", side, err)
			clear(v)
		}
	}
	return v
}

// compare compares what the op wrote, by what the op promises: some leave order or rounding to the backend. Of ops that
// are not listed it compares all that they wrote byte by byte.
func (x *written) compare(op driver.Op) (d error) {
	found := func(by *Difference) {
		if d == nil && by != nil {
			d = by
		}
	}
	switch op := op.(type) {
	case *driver.Fill, *driver.MaskPrepare: // prepared regions are each backend's own
	case *driver.MaskReduce:
		nc := op.Channels()
		statsA, statsB := both[driver.MaskStats](x, "Stats")
		histA, histB := both[uint32](x, "Hist")
		found(CompareStats(statsA, statsB, op.First, nc))
		found(CompareHist(histA, histB, op.First, nc, op.Frame.Format.Levels()))
	case *driver.MaskCooccurrence:
		a, b := both[uint32](x, "Counts")
		found(CompareCooccurrence(a, b, op.First, int(op.Frame.Format.Channels), len(op.Offsets), op.Levels))
	case *driver.MaskWeigh:
		a, b := both[driver.WeightSums](x, "Sums")
		histA, histB := both[int64](x, "Hist")
		found(CompareWeights(a, b, histA, histB, op.First, int(op.Frame.Format.Channels), op.Frame.Format.Levels()))
	case *driver.MaskBlobs:
		var a, b Found
		a.Counts, b.Counts = both[driver.BlobCount](x, "Counts")
		a.Blobs, b.Blobs = both[driver.Blob](x, "Blobs")
		a.Runs, b.Runs = both[driver.BlobRun](x, "Runs")
		a.Cut()
		b.Cut()
		found(CompareFound(&a, &b))
	case *driver.MaskCorrelate:
		a, b := both[driver.PairSums](x, "Sums")
		found(ComparePairs(a, b, op.First, len(op.Series), op.Slots))
	case *driver.MaskRaster:
		a, b := both[byte](x, "Dst.Data")
		im := op.Dst
		found(CompareImage(a, b, im.Width, im.Height, im.Stride, im.Stride, int(im.Format.SampleBytes)))
	case *driver.Triangulate:
		a, b := both[driver.Triangle](x, "Triangles")
		countA, countB := both[uint32](x, "Count")
		found(CompareTriangles(firstOf(a, countA[0]), firstOf(b, countB[0])))
	case *driver.Voronoi:
		a, b := both[uint32](x, "Labels")
		found(CompareLabels(a, b, op.Width))
	case *driver.Islands:
		a, b := both[uint32](x, "Labels")
		countA, countB := both[uint32](x, "Count")
		found(CompareIslands(a, b, op.Width, countA[0], countB[0]))
	case *driver.DualTriangles, *driver.HullCompletion:
		a, b := both[driver.Triangle](x, "Triangles")
		countsA, countsB := both[driver.MeshCounts](x, "Counts")
		found(CompareMesh(driver.Name(op), firstOf(a, countsA[0].Triangles), firstOf(b, countsB[0].Triangles), countsA[0],
			countsB[0]))
	case *driver.Flips:
		a, b := both[driver.Triangle](x, "Triangles")
		counts, _ := both[driver.MeshCounts](x, "Counts")
		statusA, statusB := both[driver.FlipStatus](x, "Status")
		found(CompareFlaws(statusA[0], statusB[0]))
		if statusA[0].Left == 0 && statusB[0].Left == 0 { // what is done after some rounds may differ
			found(CompareTriangles(firstOf(a, counts[0].Triangles), firstOf(b, counts[0].Triangles)))
		}
	case *driver.Edges:
		a, b := both[uint16](x, "Dst")
		found(CompareEdges(a, b, op.Src.Width))
	case *driver.Derivatives:
		for _, field := range [...]string{"Gradient", "Laplacian"} {
			a, b := both[uint16](x, field)
			found(CompareDerivatives(field, a, b, op.Src.Width))
		}
	case *driver.SelectVertices:
		a, b := both[driver.Point](x, "Points")
		countA, countB := both[uint32](x, "Count")
		found(CompareVertices(firstOf(a, countA[0]), firstOf(b, countB[0])))
		found(CompareVertices(a, b)) // what is behind them
	case *driver.Shade:
		x.painted(driver.Name(op), "Dst", op.Dst, found)
	case *driver.Hold:
		x.painted(driver.Name(op), "Dst", op.Dst, found)
		a, b := both[uint32](x, "Changed")
		if a[0] != b[0] {
			found(&Difference{Op: "Hold", Region: -1, Field: "Changed", A: uint64(a[0]), B: uint64(b[0]), Count: 1})
		}
	case *driver.DiffusionSetup:
		a, b := both[driver.DiffusionCounts](x, "Counts")
		found(CompareCounts(a[0], b[0]))
	case *driver.DiffusionSolve:
		// Sides that have converged may differ by what their estimates allow, twice, and by rounding. Others need only
		// have numbers: each gets there its own way.
		a, b := both[float32](x, "X")
		statusA, statusB := both[driver.DiffusionStatus](x, "Status")
		allowed := 2*float64(statusA[0].Estimate) + 2*float64(statusB[0].Estimate) + DiffusionRounding*magnitude(a)
		if statusA[0].Converged&statusB[0].Converged == 0 {
			allowed = math.MaxFloat32
		}
		found(CompareDiffusion(a, b, op.Grid.Width, allowed))
	case *driver.CurveRaster:
		flagsA, flagsB := both[byte](x, "Flags")
		a, b := both[float32](x, "Values")
		found(CompareConstraints(flagsA, flagsB, a, b, op.Width))
	case *driver.Blur: // one side may be the oracle, which rounds otherwise
		a, b := both[float32](x, "Dst")
		found(CompareBlur(a, b, op.Width, BlurRounding*magnitude(a)))
	case *driver.Unpack:
		flagsA, flagsB := both[byte](x, "Flags")
		a, b := both[float32](x, "Planes")
		found(CompareUnpacked(flagsA, flagsB, a, b, op.Src.Width))
	case *driver.Pack:
		x.painted(driver.Name(op), "Dst", op.Dst, found)
		x.painted(driver.Name(op), "Residual", op.Residual, found)
	case *driver.Fingerprint:
		a, b := both[uint64](x, "Dst")
		found(CompareFingerprints([2]uint64(a), [2]uint64(b)))
	default:
		for _, o := range x.a {
			if o.Access&driver.Write != 0 && !o.Longer {
				a, b := both[byte](x, o.Field)
				found(CompareBytes(driver.Name(op), o.Field, a, b))
			}
		}
	}
	return d
}

// painted compares the pixels of an image, if the op has it.
func (x *written) painted(op, field string, im driver.Image, found func(*Difference)) {
	if im.Data.Len > 0 {
		a, b := both[byte](x, field+".Data")
		found(ComparePainted(op, a, b, pictureOf(im, nil)))
	}
}

// firstOf is the first n of values, or all where there are fewer.
func firstOf[E any](v []E, n uint32) []E { return v[:min(int(n), len(v))] }

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
