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

func (x *fakeDevice) MaskPreparedBytes(r driver.MaskRegions, w, h int, m driver.Method) (int64, error) {
	x.d.promise("MaskPreparedBytes", regionsKept(r, w, h, m))
	if x.d.needed != nil {
		return x.d.needed(r)
	}
	return 1000, nil
}

func (x *fakeDevice) TriangulateScratch(n int) (int64, error) {
	if n < 0 || n > driver.MaxPoints {
		x.d.promise("TriangulateScratch", fmt.Errorf("N = %d", n))
	}
	return 1000, nil
}

func (x *fakeDevice) VoronoiScratch(n, w, h int, m driver.VoronoiMethod) (int64, error) {
	x.d.promise("VoronoiScratch", voronoiKept(n, w, h, m))
	return 1000, nil
}

func (x *fakeDevice) IslandsScratch(n, w, h int) (int64, error) {
	x.d.promise("IslandsScratch", voronoiKept(n, w, h, 0))
	return 1000, nil
}

func (x *fakeDevice) DualTrianglesScratch(n, w, h int) (int64, error) {
	x.d.promise("DualTrianglesScratch", voronoiKept(n, w, h, 0))
	return 1000, nil
}

func (x *fakeDevice) HullCompletionScratch(n, w, h int) (int64, error) {
	x.d.promise("HullCompletionScratch", voronoiKept(n, w, h, 0))
	return 1000, nil
}

func (x *fakeDevice) FlipsScratch(n int) (int64, error) {
	x.d.promise("FlipsScratch", voronoiKept(n, 1, 1, 0))
	return 1000, nil
}

func voronoiKept(n, w, h int, m driver.VoronoiMethod) error {
	if n < 0 || n > driver.MaxPoints || w < 1 || h < 1 || w > driver.MaxSide || h > driver.MaxSide ||
		w*h > driver.MaxPixels || m > driver.Banding {
		return fmt.Errorf("%d sites, %dx%d, method %d", n, w, h, m)
	}
	return nil
}

func (x *fakeDevice) SelectVerticesScratch(n, w, h int, r driver.VertexRule) (int64, error) {
	x.d.promise("SelectVerticesScratch", verticesKept(n, w, h, r))
	return 1000, nil
}

func verticesKept(n, w, h int, r driver.VertexRule) error {
	if w < 1 || h < 1 || w > driver.MaxSide || h > driver.MaxSide || w*h > driver.MaxPixels ||
		r.Floor < 1 || r.Floor > driver.MaxVertexFloor || r.Spacing < 0 || r.Spacing > driver.MaxVertexSpacing ||
		r.Border < 1 || r.Border > driver.MaxSide || r.Cell < 0 || r.Cell > driver.MaxSide || r.Cell > 0 &&
		r.Cell <= r.Spacing ||
		r.Strength < 0 || r.Strength > driver.MaxVertexStrength {
		return fmt.Errorf("%dx%d by %+v", w, h, r)
	}
	least := 2 * ((w-1)/r.Border + (h-1)/r.Border + 2)
	if r.Cell > 0 {
		least += ((w-1)/r.Cell + 1) * ((h-1)/r.Cell + 1)
	}
	if n < least || n > driver.MaxPoints {
		return fmt.Errorf("N = %d, at least %d are needed", n, least)
	}
	return nil
}

func (x *fakeDevice) ShadeScratch(n, w, h int, m driver.ShadeMethod) (int64, error) {
	x.d.promise("ShadeScratch", shadeKept(n, w, h, m))
	return 1000, nil
}

func shadeKept(n, w, h int, m driver.ShadeMethod) error {
	if n < 0 || n > 2*driver.MaxPoints || w < 1 || h < 1 || w > driver.MaxSide || h > driver.MaxSide ||
		w*h > driver.MaxPixels || m > driver.PerTile {
		return fmt.Errorf("%d triangles, %dx%d, method %d", n, w, h, m)
	}
	return nil
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

func (s *fakeStream) Fill(dst driver.Slice, _ byte) error { return s.op("Fill", s.inside(dst, 1)) }

func (s *fakeStream) MaskPrepare(op driver.MaskPrepare) error {
	kept := errors.Join(regionsKept(op.Regions, op.Width, op.Height, op.Method), s.inside(op.Dst, driver.Align))
	if op.Dst.Len < 1000 && s.d.needed == nil {
		kept = errors.Join(kept, fmt.Errorf("Dst of %d bytes", op.Dst.Len))
	}
	return s.op("MaskPrepare", kept)
}

func (s *fakeStream) MaskReduce(op driver.MaskReduce) error {
	f := op.Frame.Format
	kept := errors.Join(s.imageKept(op.Frame, op.Row0), s.inside(op.Prepared, driver.Align),
		s.inside(op.Stats, driver.Align), s.inside(op.Hist, driver.Align))
	if op.First < 0 || op.Count < 1 {
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
	if f.SampleBytes == 2 && f.Bits < 16 && op.What&driver.MaskExtrema == 0 {
		kept = errors.Join(kept, errors.New("samples may be out of range, and extrema are not asked for"))
	}
	return s.op("MaskReduce", kept)
}

func (s *fakeStream) MaskRaster(op driver.MaskRaster) error {
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
	return s.op("MaskRaster", kept)
}

func (s *fakeStream) Triangulate(op driver.Triangulate) error {
	var kept error
	if op.N < 0 || op.N > driver.MaxPoints {
		kept = fmt.Errorf("N = %d", op.N)
	}
	n := int64(op.N)
	if op.Points.Len != 8*n || op.Triangles.Len != 24*n || op.Count.Len != 4 || op.Scratch.Len < 1000 {
		kept = errors.Join(kept, fmt.Errorf("lengths %d, %d, %d, %d", op.Points.Len, op.Triangles.Len, op.Count.Len,
			op.Scratch.Len))
	}
	for _, x := range []driver.Slice{op.Points, op.Triangles, op.Count, op.Scratch} {
		kept = errors.Join(kept, s.inside(x, driver.Align))
	}
	return s.op("Triangulate", kept)
}

func (s *fakeStream) Voronoi(op driver.Voronoi) error {
	kept := voronoiKept(op.N, op.Width, op.Height, op.Method)
	if op.Sites.Len != 8*int64(op.N) || op.Labels.Len != 4*int64(op.Width)*int64(op.Height) || op.Scratch.Len < 1000 {
		kept = errors.Join(kept, fmt.Errorf("lengths %d, %d, %d", op.Sites.Len, op.Labels.Len, op.Scratch.Len))
	}
	for _, x := range []driver.Slice{op.Sites, op.Labels, op.Scratch} {
		kept = errors.Join(kept, s.inside(x, driver.Align))
	}
	return s.op("Voronoi", kept)
}

func (s *fakeStream) Islands(op driver.Islands) error {
	return s.op("Islands", errors.Join(voronoiKept(op.N, op.Width, op.Height, 0), s.slotsKept(
		op.Sites, 8*int64(op.N), op.Labels, 4*int64(op.Width)*int64(op.Height), op.Count, int64(4), op.Scratch,
		int64(-1000))))
}

func (s *fakeStream) DualTriangles(op driver.DualTriangles) error {
	return s.op("DualTriangles", errors.Join(voronoiKept(op.N, op.Width, op.Height, 0), s.slotsKept(
		op.Sites, 8*int64(op.N), op.Labels, 4*int64(op.Width)*int64(op.Height),
		op.Triangles, 24*int64(op.N), op.Counts, int64(16), op.Scratch, int64(-1000))))
}

func (s *fakeStream) HullCompletion(op driver.HullCompletion) error {
	return s.op("HullCompletion", errors.Join(voronoiKept(op.N, op.Width, op.Height, 0), s.slotsKept(
		op.Sites, 8*int64(op.N), op.Labels, 4*int64(op.Width)*int64(op.Height),
		op.Triangles, 24*int64(op.N), op.Counts, int64(16), op.Scratch, int64(-1000))))
}

func (s *fakeStream) Flips(op driver.Flips) error {
	kept := voronoiKept(op.N, 1, 1, 0)
	if op.Rounds < 1 || op.Rounds > driver.MaxFlipRounds {
		kept = errors.Join(kept, fmt.Errorf("Rounds = %d", op.Rounds))
	}
	return s.op("Flips", errors.Join(kept, s.slotsKept(
		op.Points, 8*int64(op.N), op.Triangles, 24*int64(op.N), op.Counts, int64(16), op.Status, int64(32), op.Scratch,
		int64(-1000))))
}

// slotsKept takes pairs of a slice and its length; where that is negative the slice may be longer.
func (s *fakeStream) slotsKept(pairs ...any) error {
	var kept error
	for i := 0; i < len(pairs); i += 2 {
		x, n := pairs[i].(driver.Slice), pairs[i+1].(int64)
		if n >= 0 && x.Len != n || n < 0 && x.Len < -n {
			kept = errors.Join(kept, fmt.Errorf("slice %d of %d bytes", i/2, x.Len))
		}
		kept = errors.Join(kept, s.inside(x, driver.Align))
	}
	return kept
}

func (s *fakeStream) Edges(op driver.Edges) error {
	kept := errors.Join(s.imageKept(op.Src, 0), s.inside(op.Dst, driver.Align))
	if op.Dst.Len != 2*int64(op.Src.Width)*int64(op.Src.Height) {
		kept = errors.Join(kept, fmt.Errorf("Dst of %d bytes", op.Dst.Len))
	}
	return s.op("Edges", kept)
}

func (s *fakeStream) SelectVertices(op driver.SelectVertices) error {
	kept := verticesKept(op.N, op.Width, op.Height, op.VertexRule)
	if op.Edges.Len != 2*int64(op.Width)*int64(op.Height) || op.NPrevious < 0 ||
		op.Previous.Len != 8*int64(op.NPrevious) ||
		op.Points.Len != 8*int64(op.N) || op.Count.Len != 4 || op.Scratch.Len < 1000 {
		kept = errors.Join(kept, fmt.Errorf("lengths %d, %d, %d, %d, %d", op.Edges.Len, op.Previous.Len, op.Points.Len,
			op.Count.Len, op.Scratch.Len))
	}
	for _, x := range []driver.Slice{op.Edges, op.Previous, op.Points, op.Count, op.Scratch} {
		kept = errors.Join(kept, s.inside(x, driver.Align))
	}
	return s.op("SelectVertices", kept)
}

func (s *fakeStream) Shade(op driver.Shade) error {
	kept := errors.Join(s.imageKept(op.Src, 0), s.imageKept(op.Dst, 0),
		shadeKept(op.Max, op.Src.Width, op.Src.Height, op.Method))
	a, b := op.Src.Data, op.Dst.Data
	if op.Src.Width != op.Dst.Width || op.Src.Height != op.Dst.Height || op.Src.Format != op.Dst.Format ||
		a.Off+a.Len > b.Off && b.Off+b.Len > a.Off || op.Color > driver.CentroidColor {
		kept = errors.Join(kept, fmt.Errorf("%+v", op))
	}
	if op.N < 0 || op.N > driver.MaxPoints || op.Points.Len != 8*int64(op.N) || op.Triangles.Len != 12*int64(op.Max) ||
		op.Count.Len != 4 ||
		op.Colors.Len != int64(op.Max)*int64(op.Src.Format.PixelBytes()) || op.Scratch.Len < 1000 {
		kept = errors.Join(kept, fmt.Errorf("lengths %d, %d, %d, %d, %d", op.Points.Len, op.Triangles.Len, op.Count.Len,
			op.Colors.Len, op.Scratch.Len))
	}
	for _, x := range []driver.Slice{op.Points, op.Triangles, op.Count, op.Colors, op.Scratch} {
		kept = errors.Join(kept, s.inside(x, driver.Align))
	}
	return s.op("Shade", kept)
}

func (s *fakeStream) Hold(op driver.Hold) error {
	kept := errors.Join(s.imageKept(op.Before, 0), s.imageKept(op.Dst, 0))
	a, b := op.Before.Data, op.Dst.Data
	if op.Before.Width != op.Dst.Width || op.Before.Height != op.Dst.Height || op.Before.Format != op.Dst.Format ||
		a.Off+a.Len > b.Off && b.Off+b.Len > a.Off || op.Limit < 0 || op.Limit > op.Jump || op.Jump > 65535 {
		kept = errors.Join(kept, fmt.Errorf("%+v", op))
	}
	if op.N < 0 || op.N > driver.MaxPoints || op.Max < 0 || op.Max > 2*driver.MaxPoints ||
		op.Points.Len != 8*int64(op.N) ||
		op.Triangles.Len != 12*int64(op.Max) || op.Count.Len != 4 || op.Changed.Len != 4 ||
		op.Colors.Len != int64(op.Max)*int64(op.Dst.Format.PixelBytes()) {
		kept = errors.Join(kept, fmt.Errorf("lengths %d, %d, %d, %d", op.Points.Len, op.Triangles.Len, op.Count.Len,
			op.Colors.Len))
	}
	for _, x := range []driver.Slice{op.Points, op.Triangles, op.Count, op.Colors, op.Changed} {
		kept = errors.Join(kept, s.inside(x, driver.Align))
	}
	return s.op("Hold", kept)
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
		if int64(g.FirstEdge)+int64(g.EdgeCount) > int64(len(r.Edges)) || g.Fill > 1 {
			return fmt.Errorf("region %d: %+v", i, g)
		}
		ends := map[[2]int32]int{}
		for _, e := range r.Edges[g.FirstEdge : g.FirstEdge+g.EdgeCount] {
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
