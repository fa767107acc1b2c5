// A driver without a device for the tests of the front: it counts what is open, holds streams where a test wants them
// held, and checks that what package driver promises to backends is kept.

package kernels

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/polyscan/polyscan/kernels/driver"
)

type fakeDriver struct {
	mu       sync.Mutex
	devices  int // open now
	streams  int
	mems     int
	ops      int // that reached a stream
	waits    int
	busy     int      // streams with work that nobody has waited for
	promises []string // that were broken

	hold   chan struct{}                           // where not nil, Wait takes an element first
	opErr  error                                   // what Wait returns
	wait   func(context.Context) error             // instead
	needed func(driver.MaskRegions) (int64, error) // answers MaskPreparedBytes
}

func (*fakeDriver) Name() string { return "fake" }

func (d *fakeDriver) count(n *int, by int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	*n += by
}

// open reports how many devices, streams and blocks are open, and streams that went back with work on them.
func (d *fakeDriver) open() [4]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return [4]int{d.devices, d.streams, d.mems, d.busy}
}

func (d *fakeDriver) Open(int) (driver.Device, error) {
	d.count(&d.devices, 1)
	return &fakeDevice{d}, nil
}

type fakeDevice struct{ d *fakeDriver }

func (*fakeDevice) Info() driver.Info {
	return driver.Info{Backend: "fake", Device: "none", ComputeUnits: 7, MemoryBytes: 1 << 20, MaskMethod: driver.Tiled}
}

func (x *fakeDevice) Alloc(n int64) (driver.Mem, error) {
	x.d.count(&x.d.mems, 1)
	return &fakeMem{x.d, n}, nil
}

func (x *fakeDevice) NewStream(int) (driver.Stream, error) {
	x.d.count(&x.d.streams, 1)
	return &fakeStream{d: x.d}, nil
}

func (x *fakeDevice) Scratch(op driver.Op) (int64, error) {
	x.d.promise("Scratch of "+driver.Name(op), driver.Check(op))
	switch op := op.(type) {
	case *driver.MaskPrepare:
		if x.d.needed != nil {
			return x.d.needed(op.Regions)
		}
	case *driver.DiffusionSolve:
		return 500, nil
	}
	return 1000, nil
}

func (x *fakeDevice) Close() error { x.d.count(&x.d.devices, -1); return nil }

type fakeMem struct {
	d *fakeDriver
	n int64
}

func (m *fakeMem) Bytes() int64 { return m.n }
func (m *fakeMem) Free() error  { m.d.count(&m.d.mems, -1); return nil }

type fakeStream struct {
	d    *fakeDriver
	work bool
}

func (s *fakeStream) op(name string, kept error) error {
	s.d.promise(name, kept)
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	s.d.ops++
	if !s.work {
		s.work = true
		s.d.busy++
	}
	return nil
}

func (s *fakeStream) Wait(ctx context.Context) error {
	if s.d.hold != nil {
		<-s.d.hold
	}
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	s.d.waits++
	if s.work {
		s.work = false
		s.d.busy--
	}
	if s.d.wait != nil {
		return s.d.wait(ctx)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return s.d.opErr
}

func (s *fakeStream) Close() error { s.d.count(&s.d.streams, -1); return nil }

func (d *fakeDriver) promise(op string, kept error) {
	if kept != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.promises = append(d.promises, op+": "+kept.Error())
	}
}

func (s *fakeStream) Upload(dst driver.Slice, src [][]byte) error {
	var n int64
	for _, p := range src {
		n += int64(len(p))
	}
	kept := s.inside(dst, 1)
	if n != dst.Len {
		kept = errors.Join(kept, fmt.Errorf("%d bytes to %d", n, dst.Len))
	}
	return s.op("Upload", kept)
}

func (s *fakeStream) Download(dst []byte, src driver.Slice) error {
	kept := s.inside(src, 1)
	if int64(len(dst)) != src.Len {
		kept = errors.Join(kept, fmt.Errorf("%d bytes from %d", len(dst), src.Len))
	}
	return s.op("Download", kept)
}

// Run checks what package driver promises: the fields are right, and slices lie in the memory, aligned and long enough.
func (s *fakeStream) Run(op driver.Op) error {
	kept := errors.Join(driver.Check(op), s.maskKept(op))
	for _, o := range driver.Operands(op, nil) {
		need := o.Bytes
		if need == driver.BackendSized {
			need, _ = (&fakeDevice{s.d}).Scratch(op)
		}
		kept = errors.Join(kept, s.inside(*o.Slice, o.Align))
		if o.Slice.Len < need || o.Slice.Len > need && !o.Longer {
			kept = errors.Join(kept, fmt.Errorf("%s of %d bytes, want %d", o.Field, o.Slice.Len, need))
		}
	}
	return s.op(driver.Name(op), kept)
}

// inside checks that a slice is memory of the device, aligned, or empty.
func (s *fakeStream) inside(x driver.Slice, align int64) error {
	if x.Len == 0 {
		return nil
	}
	m, ok := x.Mem.(*fakeMem)
	if !ok || m.d != s.d {
		return fmt.Errorf("memory %T", x.Mem)
	}
	if x.Off < 0 || x.Len < 0 || float64(x.Off)+float64(x.Len) > float64(m.n) || x.Off%align != 0 {
		return fmt.Errorf("slice %d+%d of %d, aligned to %d", x.Off, x.Len, m.n, align)
	}
	return nil
}

// maskKept checks the fields of mask ops by other means than the ops themselves.
func (s *fakeStream) maskKept(op driver.Op) error {
	switch op := op.(type) {
	case *driver.MaskPrepare:
		return regionsKept(op.Regions, op.Width, op.Height, op.Method)
	case *driver.MaskReduce:
		f := op.Frame.Format
		kept := errors.Join(s.imageKept(op.Frame, op.Row0), s.inside(op.Prepared, driver.Align),
			s.inside(op.Stats, driver.Align), s.inside(op.Hist, driver.Align))
		if op.First < 0 || op.Count < 0 {
			kept = errors.Join(kept, fmt.Errorf("First, Count = %d, %d", op.First, op.Count))
		}
		// In big numbers, as floats are: an overflow on the other side is far from equal.
		if float64(op.Stats.Len) != float64(op.Count)*float64(f.Channels)*float64(unsafe.Sizeof(driver.MaskStats{})) {
			kept = errors.Join(kept, fmt.Errorf("Stats of %d bytes for %d regions", op.Stats.Len, op.Count))
		}
		levels := 0.0
		if op.What&driver.MaskHistogram != 0 {
			levels = float64(f.Levels())
		}
		if float64(op.Hist.Len) != float64(op.Count)*float64(f.Channels)*levels*4 {
			kept = errors.Join(kept, fmt.Errorf("Hist of %d bytes for %d regions", op.Hist.Len, op.Count))
		}
		if op.What > 15 {
			kept = errors.Join(kept, fmt.Errorf("What = %#x", op.What))
		}
		return kept
	case *driver.MaskRaster:
		kept := errors.Join(s.imageKept(op.Dst, 0), s.inside(op.Prepared, driver.Align))
		if op.First < 0 || op.Count < 0 {
			kept = errors.Join(kept, fmt.Errorf("First, Count = %d, %d", op.First, op.Count))
		}
		switch op.Mode {
		case driver.RasterMask:
			if op.Dst.Format != driver.Gray8 {
				kept = errors.Join(kept, fmt.Errorf("format %v", op.Dst.Format))
			}
		case driver.RasterLabels:
			if op.Dst.Format != driver.Gray16(16) || float64(op.First)+float64(op.Count) > 65535 {
				kept = errors.Join(kept, fmt.Errorf("format %v, regions %d+%d", op.Dst.Format, op.First, op.Count))
			}
		default:
			kept = errors.Join(kept, fmt.Errorf("mode %d", op.Mode))
		}
		return kept
	}
	return nil
}

// imageKept checks what driver.Image says.
func (s *fakeStream) imageKept(im driver.Image, row0 int) error {
	f := im.Format
	if !f.Valid() {
		return fmt.Errorf("format %v", f)
	}
	w, h, stride := float64(im.Width), float64(im.Height), float64(im.Stride)
	row := w * float64(f.Channels) * float64(f.SampleBytes)
	if w < 1 || h < 1 || row0 < 0 || w > driver.MaxSide || h+float64(row0) > driver.MaxSide ||
		w*(h+float64(row0)) > driver.MaxPixels {
		return fmt.Errorf("%dx%d at row %d", im.Width, im.Height, row0)
	}
	if stride < row || stride*(h-1)+row > float64(im.Data.Len) {
		return fmt.Errorf("stride %d for %d pixels in %d bytes", im.Stride, im.Width, im.Data.Len)
	}
	if f.SampleBytes == 2 && im.Stride%2 != 0 {
		return fmt.Errorf("stride %d for 16 bits", im.Stride)
	}
	return s.inside(im.Data, int64(f.SampleBytes))
}

// regionsKept checks what driver.MaskRegions says.
func regionsKept(r driver.MaskRegions, w, h int, m driver.Method) error {
	if w < 1 || h < 1 || w > driver.MaxSide || h > driver.MaxSide || w*h > driver.MaxPixels {
		return fmt.Errorf("image of %dx%d", w, h)
	}
	if m > driver.RowSpans {
		return fmt.Errorf("method %d", m)
	}
	for _, e := range r.Edges {
		for _, v := range []int32{e.X0, e.Y0, e.X1, e.Y1} {
			if v > driver.MaxCoord || v < -driver.MaxCoord {
				return fmt.Errorf("edge %+v", e)
			}
		}
	}
	for i, g := range r.Regions {
		if g.Fill == driver.ByRuns {
			if int64(g.First)+int64(g.Count) > int64(len(r.Runs)) {
				return fmt.Errorf("region %d: %+v of %d runs", i, g, len(r.Runs))
			}
			for k, u := range r.Runs[g.First : g.First+g.Count] {
				switch last := r.Runs[max(int(g.First)+k-1, 0)]; {
				case max(u.Y, u.X0, u.X1) > 1<<22, min(u.Y, u.X0, u.X1) < -1<<22, u.X0 >= u.X1,
					k > 0 && (u.Y < last.Y || u.Y == last.Y && u.X0 <= last.X1):
					return fmt.Errorf("region %d: run %d %+v", i, k, u)
				}
			}
			continue
		}
		if int64(g.First)+int64(g.Count) > int64(len(r.Edges)) || g.Fill > 1 {
			return fmt.Errorf("region %d: %+v", i, g)
		}
		ends := map[[2]int32]int{}
		for _, e := range r.Edges[g.First : g.First+g.Count] {
			ends[[2]int32{e.X0, e.Y0}]++
			ends[[2]int32{e.X1, e.Y1}]--
		}
		for v, n := range ends {
			if n != 0 {
				return fmt.Errorf("region %d is open at %v", i, v)
			}
		}
	}
	return nil
}
