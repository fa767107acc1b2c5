// Oracle: the oracle as a driver.

package devicetest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Oracle returns a driver that is slow and plain: it computes as [Problem.Expect] does, and runs what was enqueued when
// Wait is called and no sooner, so that what is read too early is not there. It checks that the promises of package
// driver are kept: an op that breaks one fails. It needs no hardware, and is what other drivers are mirrored with.
func Oracle() driver.Driver { return hostDriver{} }

type hostDriver struct{}

// hostLimit is how much memory a device of the oracle has.
const hostLimit = 4 << 30

func (hostDriver) Name() string { return "oracle" }

func (d hostDriver) Open(ordinal int) (driver.Device, error) {
	if ordinal != 0 {
		return nil, fmt.Errorf("oracle: device %d: %w", ordinal, driver.ErrNoDevice)
	}
	return &hostDevice{}, nil
}

type hostDevice struct {
	mu      sync.Mutex
	bytes   int64
	streams int
	closed  bool
}

func (*hostDevice) Info() driver.Info {
	return driver.Info{Backend: "oracle", Device: "host", ComputeUnits: 1, Capability: "exact", MemoryBytes: 256 << 20,
		MaskMethod: driver.Naive}
}

func (d *hostDevice) Alloc(n int64) (driver.Mem, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n < 0 || n > hostLimit-d.bytes {
		return nil, fmt.Errorf("oracle: %d bytes: %w", n, driver.ErrOutOfMemory)
	}
	d.bytes += n
	return &hostMem{dev: d, data: make([]byte, n)}, nil
}

func (d *hostDevice) NewStream(int) (driver.Stream, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errors.New("oracle: device is closed")
	}
	d.streams++
	return &hostStream{dev: d}, nil
}

func (d *hostDevice) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.streams != 0 || d.bytes != 0 {
		return fmt.Errorf("oracle: closed with %d streams and %d bytes in use", d.streams, d.bytes)
	}
	return nil
}

type hostMem struct {
	dev  *hostDevice
	data []byte
}

func (m *hostMem) Bytes() int64 { return int64(len(m.data)) }

func (m *hostMem) Free() error {
	m.dev.mu.Lock()
	defer m.dev.mu.Unlock()
	if m.data == nil {
		return errors.New("oracle: memory freed twice")
	}
	m.dev.bytes -= int64(len(m.data))
	m.data = nil
	return nil
}

// view is the bytes of a slice.
func (d *hostDevice) view(s driver.Slice, align int64) ([]byte, error) {
	if s.Len == 0 {
		return nil, nil
	}
	m, ok := s.Mem.(*hostMem)
	if !ok || m.dev != d {
		return nil, fmt.Errorf("memory %T of another device", s.Mem)
	}
	if s.Off < 0 || s.Len < 0 || s.Off > m.Bytes() || s.Len > m.Bytes()-s.Off {
		return nil, fmt.Errorf("bytes %d+%d of %d", s.Off, s.Len, m.Bytes())
	}
	if s.Off%align != 0 {
		return nil, fmt.Errorf("offset %d is no multiple of %d", s.Off, align)
	}
	return m.data[s.Off : s.Off+s.Len : s.Off+s.Len], nil
}

type hostStream struct {
	dev   *hostDevice
	queue []func() error
	done  bool
}

func (s *hostStream) enqueue(name string, f func() error) error {
	if s.done {
		return errors.New("oracle: stream is closed")
	}
	s.queue = append(s.queue, func() error {
		if err := f(); err != nil {
			return fmt.Errorf("oracle: %s: %w", name, err)
		}
		return nil
	})
	return nil
}

func (s *hostStream) Wait(ctx context.Context) error {
	queue := s.queue
	s.queue = nil
	for _, f := range queue {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

func (s *hostStream) Close() error {
	s.queue = nil
	if !s.done {
		s.done = true
		s.dev.mu.Lock()
		s.dev.streams--
		s.dev.mu.Unlock()
	}
	return nil
}

func (s *hostStream) Upload(dst driver.Slice, src [][]byte) error {
	return s.enqueue("Upload", func() error {
		to, err := s.dev.view(dst, 1)
		if err != nil {
			return err
		}
		from := slices.Concat(src...)
		if len(from) != len(to) {
			return fmt.Errorf("%d bytes for %d", len(from), len(to))
		}
		copy(to, from)
		return nil
	})
}

func (s *hostStream) Download(dst []byte, src driver.Slice) error {
	return s.enqueue("Download", func() error {
		from, err := s.dev.view(src, 1)
		if err != nil {
			return err
		}
		if len(from) != len(dst) {
			return fmt.Errorf("%d bytes for %d", len(from), len(dst))
		}
		copy(dst, from)
		return nil
	})
}

func (s *hostStream) Fill(dst driver.Slice, value byte) error {
	return s.enqueue("Fill", func() error {
		to, err := s.dev.view(dst, 1)
		for i := range to {
			to[i] = value
		}
		return err
	})
}

// A prepared set of the oracle is what it was given: magic, width, height, regions, edges, then those.
const (
	hostMagic  = 0x0ac1e000
	hostHeader = 5 * 4
)

func (*hostDevice) MaskPreparedBytes(r driver.MaskRegions, width, height int, method driver.Method) (int64, error) {
	return hostHeader + int64(len(r.Regions))*12 + int64(len(r.Edges))*16, nil
}

// VoronoiScratch takes all methods for the same exact one, and so lacks the one that isn't exact.
func (*hostDevice) VoronoiScratch(_, _, _ int, m driver.VoronoiMethod) (int64, error) {
	if m == driver.JumpFlood {
		return 0, fmt.Errorf("oracle: %v: %w", m, driver.ErrNotSupported)
	}
	return 0, nil
}

func (s *hostStream) Voronoi(op driver.Voronoi) error {
	return s.enqueue("Voronoi", func() error {
		sites, err := s.dev.view(op.Sites, driver.Align)
		if err != nil {
			return err
		}
		labels, err := s.dev.view(op.Labels, driver.Align)
		if err != nil {
			return err
		}
		if len(sites) != 8*op.N || len(labels) != 4*op.Width*op.Height {
			return fmt.Errorf("%d and %d bytes for %d sites and %dx%d pixels", len(sites), len(labels), op.N, op.Width,
				op.Height)
		}
		points := make([]driver.Point, op.N)
		copy(bytesOf(points), sites)
		for i, p := range points {
			if p.X < 0 || int(p.X) >= op.Width || p.Y < 0 || int(p.Y) >= op.Height {
				return fmt.Errorf("site %d is %v", i, p)
			}
		}
		copy(labels, bytesOf(NearestSites(points, op.Width, op.Height)))
		return nil
	})
}

func (s *hostStream) Edges(op driver.Edges) error {
	return s.enqueue("Edges", func() error {
		src, err := s.dev.view(op.Src.Data, int64(op.Src.Format.SampleBytes))
		if err != nil {
			return err
		}
		dst, err := s.dev.view(op.Dst, driver.Align)
		if err != nil {
			return err
		}
		p := Picture{Width: op.Src.Width, Height: op.Src.Height, Stride: op.Src.Stride, Format: op.Src.Format,
			Pixels: src}
		if out := bytesOf(p.Edges()); len(out) != copy(dst, out) || len(out) != len(dst) {
			return fmt.Errorf("%d bytes for %dx%d pixels", len(dst), p.Width, p.Height)
		}
		return nil
	})
}

func (*hostDevice) SelectVerticesScratch(int, int, int, driver.VertexRule) (int64, error) {
	return 0, nil
}

func (s *hostStream) SelectVertices(op driver.SelectVertices) error {
	return s.enqueue("SelectVertices", func() error {
		var views [4][]byte
		for i, x := range []driver.Slice{op.Edges, op.Previous, op.Points, op.Count} {
			v, err := s.dev.view(x, driver.Align)
			if err != nil {
				return err
			}
			views[i] = v
		}
		if len(views[0]) != 2*op.Width*op.Height || len(views[1]) != 8*op.NPrevious || len(views[2]) != 8*op.N ||
			len(views[3]) != 4 {
			return fmt.Errorf("%d, %d, %d and %d bytes for %d of %dx%d pixels", len(views[0]), len(views[1]),
				len(views[2]), len(views[3]), op.N, op.Width, op.Height)
		}
		edges, previous := make([]uint16, op.Width*op.Height), make([]driver.Point, op.NPrevious)
		copy(bytesOf(edges), views[0])
		copy(bytesOf(previous), views[1])
		chosen := ChooseVertices(edges, op.Width, op.Height, op.N, op.VertexRule, previous)
		clear(views[2][copy(views[2], bytesOf(chosen)):])
		binary.LittleEndian.PutUint32(views[3], uint32(len(chosen)))
		return nil
	})
}

func (*hostDevice) ShadeScratch(int, int, int, driver.ShadeMethod) (int64, error) { return 0, nil }

func (s *hostStream) Shade(op driver.Shade) error {
	return s.enqueue("Shade", func() error {
		p, dst, colors, err := s.painting(op.Src, op.Dst, op.Points, op.N, op.Triangles, op.Max, op.Count, op.Colors)
		if err != nil {
			return err
		}
		painted, err := p.Shade(op.Color, dst)
		copy(colors, painted)
		return err
	})
}

func (s *hostStream) Hold(op driver.Hold) error {
	return s.enqueue("Hold", func() error {
		p, dst, colors, err := s.painting(op.Before, op.Dst, op.Points, op.N, op.Triangles, op.Max, op.Count, op.Colors)
		if err != nil {
			return err
		}
		changed, err := s.dev.view(op.Changed, driver.Align)
		if err != nil || len(changed) != 4 {
			return fmt.Errorf("Changed of %d bytes: %w", len(changed), err)
		}
		binary.LittleEndian.PutUint32(changed, uint32(p.Hold(op.Limit, op.Jump, dst, colors)))
		return nil
	})
}

// painting is the triangles of an op on a picture, with the memory of what it paints on and of its colours.
func (s *hostStream) painting(
	src, dst driver.Image, points driver.Slice, n int, triangles driver.Slice, most int, count, colors driver.Slice,
) (p *Painting, to *Picture, out []byte, err error) {
	var views [6][]byte
	for i, x := range []driver.Slice{src.Data, dst.Data, points, triangles, count, colors} {
		align := int64(driver.Align)
		if i < 2 {
			align = int64(src.Format.SampleBytes)
		}
		if views[i], err = s.dev.view(x, align); err != nil {
			return nil, nil, nil, err
		}
	}
	p = &Painting{Picture: *pictureOf(src, views[0])}
	k := binary.LittleEndian.Uint32(views[4])
	if len(views[2]) != 8*n || len(views[3]) != 12*most || k > uint32(most) {
		return nil, nil, nil, fmt.Errorf("%d of %d triangles in %d bytes, %d points in %d", k, most, len(views[3]), n,
			len(views[2]))
	}
	p.Points, p.Triangles = make([]driver.Point, n), make([]driver.Triangle, k)
	copy(bytesOf(p.Points), views[2])
	copy(bytesOf(p.Triangles), views[3])
	for i, v := range p.Points {
		if v.X < 0 || int(v.X) > p.Width || v.Y < 0 || int(v.Y) > p.Height {
			return nil, nil, nil, fmt.Errorf("point %d is %v", i, v)
		}
	}
	for i, v := range p.Triangles {
		if max(v.A, v.B, v.C) >= uint32(n) {
			return nil, nil, nil, fmt.Errorf("triangle %d is %v", i, v)
		}
	}
	return p, pictureOf(dst, views[1]), views[5], nil
}

func pictureOf(im driver.Image, pixels []byte) *Picture {
	return &Picture{Width: im.Width, Height: im.Height, Stride: im.Stride, Format: im.Format, Pixels: pixels}
}

func (*hostDevice) TriangulateScratch(int) (int64, error) { return 0, nil }

func (s *hostStream) Triangulate(op driver.Triangulate) error {
	if op.N > MaxOraclePoints {
		return fmt.Errorf("oracle: Triangulate: N = %d: takes at most %d: %w", op.N, MaxOraclePoints,
			driver.ErrNotSupported)
	}
	return s.enqueue("Triangulate", func() error {
		var views [3][]byte
		for i, x := range []driver.Slice{op.Points, op.Triangles, op.Count} {
			v, err := s.dev.view(x, driver.Align)
			if err != nil {
				return err
			}
			views[i] = v
		}
		if len(views[0]) != 8*op.N || len(views[1]) != 24*op.N || len(views[2]) != 4 {
			return fmt.Errorf("%d, %d and %d bytes for %d points", len(views[0]), len(views[1]), len(views[2]), op.N)
		}
		points := make([]driver.Point, op.N)
		copy(bytesOf(points), views[0])
		for i, p := range points {
			if p.X < -driver.MaxPoint || p.X > driver.MaxPoint || p.Y < -driver.MaxPoint || p.Y > driver.MaxPoint {
				return fmt.Errorf("Points[%d] = (%d, %d): coordinates must be %d to %d", i, p.X, p.Y, -driver.MaxPoint,
					driver.MaxPoint)
			}
		}
		triangles := Delaunay(points)
		copy(views[1], bytesOf(triangles))
		binary.LittleEndian.PutUint32(views[2], uint32(len(triangles)))
		return nil
	})
}

func (s *hostStream) MaskPrepare(op driver.MaskPrepare) error {
	return s.enqueue("MaskPrepare", func() error {
		p := Problem{Regions: op.Regions, Width: op.Width, Height: op.Height, Format: driver.Gray8, Stride: op.Width}
		if err := p.checkRegions(); err != nil {
			return err
		}
		dst, err := s.dev.view(op.Dst, driver.Align)
		if err != nil {
			return err
		}
		need, _ := s.dev.MaskPreparedBytes(op.Regions, op.Width, op.Height, op.Method)
		if int64(len(dst)) < need {
			return fmt.Errorf("%d bytes for %d", len(dst), need)
		}
		b := dst[:0]
		put := func(v uint32) { b = binary.LittleEndian.AppendUint32(b, v) }
		for _, v := range []int{hostMagic, op.Width, op.Height, len(op.Regions.Regions), len(op.Regions.Edges)} {
			put(uint32(v))
		}
		for _, r := range op.Regions.Regions {
			put(r.FirstEdge)
			put(r.EdgeCount)
			put(uint32(r.Fill))
		}
		for _, e := range op.Regions.Edges {
			for _, v := range []int32{e.X0, e.Y0, e.X1, e.Y1} {
				put(uint32(v))
			}
		}
		return nil
	})
}

// prepared reads a set back.
func (d *hostDevice) prepared(s driver.Slice) (*Problem, error) {
	b, err := d.view(s, driver.Align)
	if err != nil {
		return nil, err
	}
	if len(b) < hostHeader || binary.LittleEndian.Uint32(b) != hostMagic {
		return nil, errors.New("no prepared regions")
	}
	b = b[4:]
	get := func() uint32 {
		v := binary.LittleEndian.Uint32(b)
		b = b[4:]
		return v
	}
	p := &Problem{Width: int(get()), Height: int(get())}
	p.Regions.Regions = make([]driver.Region, get())
	p.Regions.Edges = make([]driver.Edge, get())
	for i := range p.Regions.Regions {
		p.Regions.Regions[i] = driver.Region{FirstEdge: get(), EdgeCount: get(), Fill: driver.FillRule(get())}
	}
	for i := range p.Regions.Edges {
		p.Regions.Edges[i] = driver.Edge{X0: int32(get()), Y0: int32(get()), X1: int32(get()), Y1: int32(get())}
	}
	return p, nil
}

func (s *hostStream) MaskReduce(op driver.MaskReduce) error {
	return s.enqueue("MaskReduce", func() error {
		p, err := s.dev.prepared(op.Prepared)
		if err != nil {
			return err
		}
		if op.Frame.Width != p.Width {
			return fmt.Errorf("a frame %d wide for regions of %d", op.Frame.Width, p.Width)
		}
		p.Format, p.Stride = op.Frame.Format, op.Frame.Stride
		p.What, p.First, p.Count = op.What, op.First, op.Count
		p.Strips = []Strip{{op.Row0, op.Frame.Height}}
		data, err := s.dev.view(op.Frame.Data, max(1, int64(p.Format.SampleBytes)))
		if err != nil {
			return err
		}
		// Rows before the strip are not there; nobody looks at them.
		if op.Row0 < 0 || op.Row0 > p.Height {
			return fmt.Errorf("Row0 %d of %d", op.Row0, p.Height)
		}
		pixels := make([]byte, op.Row0*p.Stride, p.Stride*p.Height+len(data))
		p.Pixels = append(pixels, data...)
		if last := p.Stride*(op.Row0+op.Frame.Height-1) + p.rowBytes(); len(p.Pixels) < last {
			return fmt.Errorf("%d bytes of pixels", len(data))
		}
		if err := p.checkUse(); err != nil {
			return err
		}
		if p.Format.SampleBytes == 2 && p.Format.Bits < 16 && p.What&driver.MaskExtrema == 0 {
			return errors.New("samples may be out of range, and extrema are not asked for")
		}
		e := p.Expect()
		stats, err := s.dev.view(op.Stats, driver.Align)
		if err != nil {
			return fmt.Errorf("stats: %w", err)
		}
		hist, err := s.dev.view(op.Hist, driver.Align)
		if err != nil {
			return fmt.Errorf("hist: %w", err)
		}
		if len(stats) != len(e.Stats)*int(unsafe.Sizeof(driver.MaskStats{})) || len(hist) != 4*len(e.Hist) {
			return fmt.Errorf("stats and hist of %d and %d bytes for %d and %d values", len(stats), len(hist),
				len(e.Stats), len(e.Hist))
		}
		for i := range e.Stats {
			to := stats[i*int(unsafe.Sizeof(driver.MaskStats{})):]
			if op.Accumulate {
				old := getStats(to)
				old.Merge(e.Stats[i])
				e.Stats[i] = old
			}
			putStats(to, e.Stats[i])
		}
		for i, n := range e.Hist {
			if op.Accumulate {
				n += binary.LittleEndian.Uint32(hist[4*i:])
			}
			binary.LittleEndian.PutUint32(hist[4*i:], n)
		}
		return nil
	})
}

// getStats and putStats read and write sums as they lie in memory.
func getStats(b []byte) (s driver.MaskStats) {
	for i, f := range statsFields {
		*f.of(&s) = binary.LittleEndian.Uint64(b[8*i:])
	}
	return s
}

func putStats(b []byte, s driver.MaskStats) {
	clear(b[:unsafe.Sizeof(s)])
	for i, f := range statsFields {
		binary.LittleEndian.PutUint64(b[8*i:], *f.of(&s))
	}
}

func (s *hostStream) MaskRaster(op driver.MaskRaster) error {
	return s.enqueue("MaskRaster", func() error {
		p, err := s.dev.prepared(op.Prepared)
		if err != nil {
			return err
		}
		if op.Dst.Width != p.Width || op.Dst.Height != p.Height {
			return fmt.Errorf("an image of %dx%d for regions of %dx%d", op.Dst.Width, op.Dst.Height, p.Width, p.Height)
		}
		size := 1
		if op.Mode == driver.RasterLabels {
			size = 2
		}
		if f := op.Dst.Format; int(f.SampleBytes) != size || f.Channels != 1 || int(f.Bits) != 8*size {
			return fmt.Errorf("format %v for mode %d", f, op.Mode)
		}
		p.Format = op.Dst.Format
		p.First, p.Count = op.First, op.Count
		p.Stride = op.Dst.Stride
		if err := p.checkUse(); err != nil {
			return err
		}
		if p.First+p.Count > 0xffff && size == 2 {
			return fmt.Errorf("%d labels", p.First+p.Count)
		}
		dst, err := s.dev.view(op.Dst.Data, int64(size))
		if err != nil {
			return fmt.Errorf("dst: %w", err)
		}
		if need := p.Stride*(p.Height-1) + p.rowBytes(); len(dst) < need {
			return fmt.Errorf("dst: %d bytes for %d", len(dst), need)
		}
		e := p.Expect()
		for y := range p.Height {
			for x := range p.Width {
				if i := y*p.Width + x; size == 1 {
					dst[y*p.Stride+x] = e.Mask[i]
				} else {
					binary.LittleEndian.PutUint16(dst[y*p.Stride+2*x:], e.Labels[i])
				}
			}
		}
		return nil
	})
}
