//go:build cuda

package cuda

// What every backend has to do, over the GPU; and what only this one can get wrong.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
)

var everyMethod = []driver.Method{driver.MethodDefault, driver.Naive, driver.Tiled, driver.EdgeFiltered,
	driver.TiledEdgeFiltered, driver.RowSpans}

func TestConformance(t *testing.T) {
	counted(t)
	devicetest.Suite{Driver: Driver, Short: testing.Short()}.Run(counting{t})
}

// TestMirror runs the GPU beside the CPU, op by op: random cases beyond those that the oracle has the time for, and the
// real polygons.
func TestMirror(t *testing.T) {
	counted(t)
	s := newSolver(t, open(t, devicetest.Mirror(Driver, cpu.Driver)))
	random := 1500
	if testing.Short() {
		random = 100
	}
	// The fixed cases come first; with another seed than the suite's.
	for _, c := range devicetest.Cases(99, random) {
		if c.Heavy && testing.Short() {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			counted(t)
			p := c.Problem()
			for _, m := range everyMethod {
				if err := s.solve(t, p, m); err != nil {
					t.Errorf("%v: %v", m, err)
				}
			}
		})
	}
}

// TestShared: every polygon of the shared data, by all methods, on the GPU as on the CPU. (The suite compares them with
// exact results.)
func TestShared(t *testing.T) {
	counted(t)
	dir, ok := devicetest.SharedDir()
	if !ok {
		t.Skip("ABSENT: the shared data (POLYSCAN_SHARED, or ../shared beside the repository) is not there")
	}
	cases, err := devicetest.SharedCases(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := newSolver(t, open(t, devicetest.Mirror(Driver, cpu.Driver)))
	for _, c := range cases {
		if c.Heavy && testing.Short() {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			counted(t)
			p := c.Problem()
			for _, m := range everyMethod {
				if err := s.solve(t, p, m); err != nil {
					t.Errorf("%v: %v", m, err)
				}
			}
		})
	}
}

// A mirror that finds nothing is no proof: with one changed bit it has to.
func TestMirrorNotices(t *testing.T) {
	counted(t)
	p := problem(t, "shape holes")
	var diff *devicetest.Difference
	for _, c := range []struct {
		op string
		devicetest.Perturbation
	}{
		{"MaskReduce", devicetest.Perturbation{Stats: func(_ *driver.MaskReduce, v []driver.MaskStats) {
			v[len(v)-1].SumVY++
		}}},
		{"MaskReduce", devicetest.Perturbation{Hist: func(_ *driver.MaskReduce, v []uint32) { v[len(v)-1]++ }}},
		{"MaskRaster", devicetest.Perturbation{Raster: func(_ *driver.MaskRaster, v []byte) { v[len(v)-1] ^= 1 }}},
	} {
		s := newSolver(t, open(t, devicetest.Mirror(devicetest.Perturb(Driver, c.Perturbation), cpu.Driver)))
		if err := s.solve(t, p, driver.MethodDefault); !errors.As(err, &diff) || diff.Op != c.op {
			t.Errorf("a changed result of %s: %v", c.op, err)
		}
	}
}

func open(t *testing.T, d driver.Driver) driver.Device {
	t.Helper()
	dev, err := d.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return dev
}

func newStream(t *testing.T, dev driver.Device) driver.Stream {
	t.Helper()
	s, err := dev.NewStream(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func alloc(t *testing.T, dev driver.Device, n int64) driver.Slice {
	t.Helper()
	m, err := dev.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Free(); err != nil {
			t.Errorf("Free: %v", err)
		}
	})
	return driver.Slice{Mem: m, Len: n}
}

// part is a slice of a slice.
func part(s driver.Slice, off, n int64) driver.Slice {
	return driver.Slice{Mem: s.Mem, Off: s.Off + off, Len: n}
}

// work is a problem in device memory.
type work struct {
	p                     *devicetest.Problem
	prepared, stats, hist driver.Slice
	frame                 driver.Image
	mask, labels          driver.Image
}

// placeWork lays a problem out in one block, and says how large it has to be.
func placeWork(p *devicetest.Problem, preparedBytes int64, m driver.Mem) (w work, bytes int64) {
	take := func(n int64) driver.Slice {
		s := driver.Slice{Mem: m, Off: bytes, Len: n}
		bytes = alignUp(bytes+n) + driver.Align
		return s
	}
	channels := int64(p.Format.Channels) + int64(p.Colors.Spaces.Channels())
	w.p = p
	w.prepared = take(preparedBytes)
	w.stats = take(int64(p.Count) * channels * statsBytes)
	if p.What&driver.MaskHistogram != 0 {
		w.hist = take(int64(p.Count) * channels * int64(p.Format.Levels()) * 4)
	}
	pixels := take(int64(p.Offset + len(p.Pixels)))
	pixels.Off += int64(p.Offset)
	pixels.Len -= int64(p.Offset)
	w.frame = driver.Image{Data: pixels, Width: p.Width, Height: p.Height, Stride: p.Stride, Format: p.Format}
	w.mask = driver.Image{Data: take(int64(p.Width) * int64(p.Height)), Width: p.Width, Height: p.Height,
		Stride: p.Width, Format: driver.Gray8}
	w.labels = driver.Image{Data: take(2 * int64(p.Width) * int64(p.Height)), Width: p.Width, Height: p.Height,
		Stride: 2 * p.Width, Format: driver.Gray16(16)}
	return w, bytes
}

func (w *work) prepare(m driver.Method) *driver.MaskPrepare {
	return &driver.MaskPrepare{Regions: w.p.Regions, Width: w.p.Width, Height: w.p.Height, Method: m, Dst: w.prepared}
}

func (w *work) reduce(strip devicetest.Strip, accumulate bool) *driver.MaskReduce {
	im := w.frame
	im.Height = strip.Height
	im.Data = part(im.Data, int64(strip.Row0)*int64(im.Stride), int64(strip.Height-1)*int64(im.Stride)+
		int64(im.Width*im.Format.PixelBytes()))
	return &driver.MaskReduce{
		Prepared: w.prepared, First: w.p.First, Count: w.p.Count, Frame: im, Row0: strip.Row0,
		What: w.p.What, Accumulate: accumulate, Colors: w.p.Colors, Stats: w.stats, Hist: w.hist,
	}
}

func (w *work) raster(mode driver.RasterMode) *driver.MaskRaster {
	op := &driver.MaskRaster{Prepared: w.prepared, First: w.p.First, Count: w.p.Count, Mode: mode, Dst: w.mask}
	if mode == driver.RasterLabels {
		op.Dst = w.labels
	}
	return op
}

// solver runs problems on a stream and in a block that it keeps.
type solver struct {
	dev    driver.Device
	stream driver.Stream
	block  driver.Mem
}

func newSolver(t *testing.T, dev driver.Device) *solver {
	s := &solver{dev: dev, stream: newStream(t, dev)}
	t.Cleanup(func() {
		if s.block != nil {
			if err := s.block.Free(); err != nil {
				t.Errorf("Free: %v", err)
			}
		}
	})
	return s
}

// solve runs all ops of a problem. On a mirror the error is a difference.
func (s *solver) solve(t *testing.T, p *devicetest.Problem, method driver.Method) error {
	t.Helper()
	n, err := s.dev.Scratch(&driver.MaskPrepare{Regions: p.Regions, Width: p.Width, Height: p.Height, Method: method})
	if err != nil {
		return err
	}
	_, size := placeWork(p, n, nil)
	if s.block == nil || s.block.Bytes() < size {
		if s.block != nil {
			err = s.block.Free()
			s.block = nil
		}
		if err == nil {
			s.block, err = s.dev.Alloc(size)
		}
		if err != nil {
			return err
		}
	}
	w, _ := placeWork(p, n, s.block)
	steps := []error{
		s.stream.Run(&driver.Fill{Dst: driver.Slice{Mem: s.block, Len: size}, Value: 0xa5}),
		s.stream.Upload(w.frame.Data, [][]byte{p.Pixels}),
		s.stream.Run(w.prepare(method)),
	}
	if p.Count > 0 {
		for i, strip := range p.Strips {
			steps = append(steps, s.stream.Run(w.reduce(strip, i > 0)))
		}
	}
	steps = append(steps, s.stream.Run(w.raster(driver.RasterMask)),
		s.stream.Run(w.raster(driver.RasterLabels)), s.stream.Wait(t.Context()))
	return errors.Join(steps...)
}

// Copies that are larger than the staging memory, in odd pieces, both ways, several at a time.
func TestLargeCopies(t *testing.T) {
	counted(t)
	dev := open(t, Driver)
	s := newStream(t, dev)
	const n = 3*slotBytes*slotCount + 12345
	a, b := alloc(t, dev, n), alloc(t, dev, n)
	g := seed.New(t, 1, 1)
	want := make([]byte, n)
	for i := range want {
		want[i] = byte(g.Uint32())
	}
	var pieces [][]byte
	for rest := want; len(rest) > 0; {
		k := min(len(rest), 1+g.IntN(1<<uint(1+g.IntN(23))))
		pieces = append(pieces, rest[:k], nil)
		rest = rest[k:]
	}
	for round := range 3 {
		gotA, gotB, few := make([]byte, n), make([]byte, n), make([]byte, 3)
		err := errors.Join(
			s.Upload(a, pieces),
			s.Download(few, part(a, n-3, 3)),
			s.Upload(b, [][]byte{want}),
			s.Download(gotA, a),
			s.Run(&driver.Fill{Dst: part(a, 5, n-9), Value: 7}),
			s.Download(gotB, b),
			s.Wait(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(gotA, want) || !bytes.Equal(gotB, want) || !bytes.Equal(few, want[n-3:]) {
			t.Errorf("round %d: large copies came back changed", round)
		}
	}
}

// Page-locked host memory goes without staging: alone, mixed with other pieces, and in parts.
func TestPageLocked(t *testing.T) {
	counted(t)
	dev := open(t, Driver)
	s := newStream(t, dev)
	d := dev.(*device)
	const n = 2*slotBytes + 77
	host, unlockHost := pageLocked(t, d, n)
	other, unlockOther := pageLocked(t, d, 100)
	if !d.isPinned(host) || !d.isPinned(host[n-1:]) || !d.isPinned(other[5:9]) || d.isPinned(make([]byte, 10)) {
		t.Error("page-locked memory is not told from other memory")
	}
	g := seed.New(t, 1, 2)
	for i := range host {
		host[i] = byte(g.Uint32())
	}
	plain := slices.Clone(host[:1000])
	dst := alloc(t, dev, n+1000+50)
	got := make([]byte, n+1050)
	err := errors.Join(
		s.Upload(dst, [][]byte{host[:10], plain[:500], nil, plain[500:], host[10:], plain[:50]}),
		s.Download(got, dst),
		s.Wait(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	if want := slices.Concat(host[:10], plain, host[10:], plain[:50]); !bytes.Equal(got, want) {
		t.Error("a mixed upload came back changed")
	}
	want := slices.Clone(host)
	err = errors.Join(s.Upload(part(dst, 0, n), [][]byte{want}), s.Wait(t.Context()))
	clear(host)
	err = errors.Join(err, s.Download(host, part(dst, 0, n)), s.Wait(t.Context()))
	if err != nil || !bytes.Equal(host, want) {
		t.Errorf("a download to page-locked memory: %v", err)
	}
	if err := errors.Join(unlockHost(), unlockOther()); err != nil {
		t.Error(err)
	}
	if d.isPinned(host) || d.isPinned(other) {
		t.Error("memory is said to be page-locked that no longer is")
	}
	if err := unlockOther(); err == nil {
		t.Error("unlocked twice: no error")
	}
}

// pageLocked returns host memory that the device was told of, in pages of its own.
func pageLocked(t *testing.T, d driver.HostRegistrar, n int) (b []byte, unlock func() error) {
	t.Helper()
	page := os.Getpagesize()
	b = make([]byte, n+2*page)
	b = b[page-int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))%uintptr(page)):][:n:n]
	unlock, err := d.RegisterHost(b)
	if err != nil {
		t.Fatal(err)
	}
	return b, unlock
}

// Host memory of others that the device was told of goes without staging too, also where it is mapped for reading only.
func TestRegisterHost(t *testing.T) {
	counted(t)
	dev := open(t, Driver)
	s := newStream(t, dev)
	d := dev.(*device)
	const n = 3<<20 + 4096
	host := make([]byte, n)
	for i := range host {
		host[i] = byte(i * 7)
	}
	want := slices.Clone(host)
	unregister, err := d.RegisterHost(host)
	if err != nil {
		t.Fatal(err)
	}
	if !d.isPinned(host[5:n]) {
		t.Error("registered memory is not known")
	}
	dst, got := alloc(t, dev, n), make([]byte, n)
	if err := errors.Join(s.Upload(dst, [][]byte{host}), s.Download(got, dst), s.Wait(t.Context())); err != nil ||
		!bytes.Equal(got, want) {
		t.Errorf("an upload from registered memory: %v", err)
	}
	if err := unregister(); err != nil {
		t.Error(err)
	}
	if d.isPinned(host) || unregister() == nil {
		t.Error("unregistered memory is still known, or can be unregistered twice")
	}
	if _, err := d.RegisterHost(nil); err == nil {
		t.Error("RegisterHost(nil): no error")
	}
	if err := errors.Join(s.Upload(dst, [][]byte{host}), s.Wait(t.Context())); err != nil {
		t.Error(err)
	}
}

// Kernels that begin while the one before them ends see all that it wrote: masks drawn over each other, each reduced at
// once.
func TestKernelsInTurn(t *testing.T) {
	counted(t)
	dev := open(t, Driver)
	s := newStream(t, dev)
	const w, h, rounds = 640, 480, 200
	var m driver.MaskRegions
	star(&m, 200, 200, 190, 40, 1, 1)
	star(&m, 400, 260, 210, 900, 1, 2)
	p := &devicetest.Problem{Regions: m, Width: w, Height: h, Format: driver.Gray8, Stride: w,
		Pixels: make([]byte, w*h), What: everything, Count: 2}
	n, err := dev.Scratch(&driver.MaskPrepare{Regions: p.Regions, Width: w, Height: h, Method: driver.MethodDefault})
	if err != nil {
		t.Fatal(err)
	}
	_, size := placeWork(p, n, nil)
	wk, _ := placeWork(p, n, alloc(t, dev, size).Mem)
	if err := errors.Join(s.Run(wk.prepare(driver.MethodDefault)), s.Wait(t.Context())); err != nil {
		t.Fatal(err)
	}
	one := func(first int) (*driver.MaskRaster, *driver.MaskReduce) {
		draw, sum := wk.raster(driver.RasterMask), wk.reduce(devicetest.Strip{Height: h}, false)
		draw.First, draw.Count = first, 1
		sum.Frame = wk.mask
		return draw, sum
	}
	results := alloc(t, dev, rounds*2*alignUp(2*statsBytes))
	got := make([]driver.MaskStats, 2*rounds)
	for i := range rounds {
		draw, sum := one(i % 2)
		sum.Stats = part(results, int64(i)*alignUp(2*statsBytes), 2*statsBytes)
		if err := errors.Join(s.Run(draw), s.Run(sum)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range rounds {
		if err := s.Download(bytesOf(got[2*i:2*i+2]),
			part(results, int64(i)*alignUp(2*statsBytes), 2*statsBytes)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range rounds {
		if in := got[2*i+i%2]; in.Count == 0 || in.Sum != 255*in.Count {
			t.Fatalf("round %d: region %d has %d pixels that add up to %d in the mask of itself", i, i%2, in.Count,
				in.Sum)
		}
		if out := got[2*i+1-i%2]; out.Sum >= 255*out.Count {
			t.Fatalf("round %d: region %d is all in the mask of the other", i, 1-i%2)
		}
	}
}

// A set that something was written over is not used: not from the host's memory of it, nor from what is left on the
// device.
func TestOverwrittenSet(t *testing.T) {
	counted(t)
	dev := open(t, Driver)
	s := newStream(t, dev)
	p := problem(t, "shape holes")
	n, err := dev.Scratch(&driver.MaskPrepare{Regions: p.Regions, Width: p.Width, Height: p.Height, Method: driver.MethodDefault})
	if err != nil {
		t.Fatal(err)
	}
	_, size := placeWork(p, n, nil)
	block := alloc(t, dev, size)
	w, _ := placeWork(p, n, block.Mem)
	reduce := func() error {
		return errors.Join(s.Run(w.reduce(devicetest.Strip{Height: p.Height}, false)), s.Wait(t.Context()))
	}
	prepare := func() {
		t.Helper()
		err := errors.Join(s.Upload(w.frame.Data, [][]byte{p.Pixels}), s.Run(w.prepare(driver.MethodDefault)),
			s.Wait(t.Context()))
		if err == nil {
			err = reduce()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	set, err := newSet(p.Regions, p.Width, p.Height, driver.MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	lay := set.lay
	for _, c := range []struct {
		what string
		at   driver.Slice
	}{
		{"header", part(w.prepared, 0, 8)},
		{"regions", part(w.prepared, lay.regions+20, 4)},
		{"counts", part(w.prepared, lay.counts, 4)},
		{"prefix", part(w.prepared, lay.prefix+8, 8)},
		{"items", part(w.prepared, lay.items, 64)},
		{"all", w.prepared},
	} {
		prepare()
		if err := errors.Join(s.Run(&driver.Fill{Dst: c.at, Value: 0xee}), s.Wait(t.Context())); err != nil {
			t.Fatal(err)
		}
		if err := reduce(); !errors.Is(err, errNotPrepared) {
			t.Errorf("%s overwritten by Fill: MaskReduce: %v", c.what, err)
		}
		prepare()
		junk := bytes.Repeat([]byte{0xee}, int(c.at.Len))
		if err := errors.Join(s.Upload(c.at, [][]byte{junk}), s.Wait(t.Context())); err != nil {
			t.Fatal(err)
		}
		if err := reduce(); !errors.Is(err, errNotPrepared) {
			t.Errorf("%s overwritten by Upload: MaskReduce: %v", c.what, err)
		}
	}
	// Results over the set that they come from are refused: kernels would read what they write.
	prepare()
	op := w.reduce(devicetest.Strip{Height: p.Height}, false)
	op.Stats.Off = w.prepared.Off
	if err := errors.Join(s.Run(op), s.Wait(t.Context())); err == nil ||
		!strings.Contains(err.Error(), "Stats overlaps Prepared") {
		t.Errorf("results over the set: MaskReduce: %v", err)
	}
	draw := w.raster(driver.RasterMask)
	draw.Dst.Data.Off = w.prepared.Off
	if err := errors.Join(s.Run(draw), s.Wait(t.Context())); err == nil ||
		!strings.Contains(err.Error(), "Dst overlaps Prepared") {
		t.Errorf("a mask over the set: MaskRaster: %v", err)
	}
	if err := reduce(); err != nil {
		t.Errorf("after both: %v", err)
	}
}

// What is known of sets, without the GPU.
func TestPlacedSets(t *testing.T) {
	counted(t)
	m := &mem{}
	mk := func(n int64) *set { return &set{lay: parts{bytes: n}} }
	known := func() (offs []int64) {
		for _, s := range m.sets {
			offs = append(offs, s.off)
		}
		return offs
	}
	a, b, c := mk(100), mk(100), mk(100)
	m.remember(200, b)
	m.remember(0, a)
	m.remember(400, c)
	if got := known(); !slices.Equal(got, []int64{0, 200, 400}) || m.find(200) != b || m.find(0) != a ||
		m.find(1) != nil || m.find(500) != nil {
		t.Fatalf("sets at %v", got)
	}
	for _, f := range []struct {
		off, n int64
		want   []int64
	}{
		{100, 100, []int64{0, 200, 400}}, // between two
		{300, 0, []int64{0, 200, 400}},
		{250, 0, []int64{0, 200, 400}},
		{99, 1, []int64{200, 400}},
		{500, 1000, []int64{200, 400}},
		{499, 1, []int64{200}},
		{0, 1000, nil},
		{0, 1000, nil},
	} {
		m.forget(f.off, f.n)
		if got := known(); !slices.Equal(got, f.want) {
			t.Errorf("%d bytes at %d overwritten: sets at %v, want %v", f.n, f.off, got, f.want)
		}
	}
	m.remember(0, a)
	m.remember(200, b)
	m.remember(50, mk(200)) // over both
	if got := known(); !slices.Equal(got, []int64{50}) {
		t.Errorf("sets at %v, want that at 50", got)
	}
}

// Random use of one block by several streams, each in its own part: what the host knows of sets stays right.
func TestManySets(t *testing.T) {
	counted(t)
	dev := open(t, Driver)
	p := problem(t, "size 300x221")
	n, err := dev.Scratch(&driver.MaskPrepare{Regions: p.Regions, Width: p.Width, Height: p.Height, Method: driver.MethodDefault})
	if err != nil {
		t.Fatal(err)
	}
	_, size := placeWork(p, n, nil)
	size = alignUp(size)
	const places = 6
	block := alloc(t, dev, places*size)
	want := p.Expect()
	errs := make([]error, places)
	var wg sync.WaitGroup
	for k := range places {
		wg.Go(func() {
			errs[k] = func() (err error) {
				s, err := dev.NewStream(k - 3)
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, s.Close()) }()
				w, _ := placeWork(p, n, block.Mem)
				for _, sl := range []*driver.Slice{&w.prepared, &w.stats, &w.hist, &w.frame.Data, &w.mask.Data,
					&w.labels.Data} {
					sl.Off += int64(k) * size
				}
				g := seed.New(t, 5, uint64(k))
				for range 40 {
					m := everyMethod[g.IntN(len(everyMethod))]
					stats := make([]driver.MaskStats, len(want.Stats))
					mask := make([]byte, len(want.Mask))
					steps := []error{
						s.Run(&driver.Fill{Dst: part(block, int64(k)*size, size), Value: byte(g.Uint32())}),
						s.Upload(w.frame.Data, [][]byte{p.Pixels}),
						s.Run(w.prepare(m)),
						s.Run(w.reduce(devicetest.Strip{Height: p.Height}, false)),
						s.Run(w.raster(driver.RasterMask)),
						s.Download(bytesOf(stats), w.stats),
						s.Download(mask, w.mask.Data),
						s.Wait(t.Context()),
					}
					if err := errors.Join(steps...); err != nil {
						return err
					}
					if d := devicetest.CompareStats(stats, want.Stats, p.First, int(p.Format.Channels)); d != nil {
						return d
					}
					if !bytes.Equal(mask, want.Mask) {
						return fmt.Errorf("%v: the mask is wrong", m)
					}
				}
				return nil
			}()
		})
	}
	wg.Wait()
	for k, err := range errs {
		if err != nil {
			t.Errorf("stream %d: %v", k, err)
		}
	}
}

// A Wait that is cut short while a long upload runs stops it, and the stream works on.
func TestCancelUpload(t *testing.T) {
	counted(t)
	dev := open(t, Driver)
	s := newStream(t, dev)
	const n = 256 << 20
	dst := alloc(t, dev, n)
	src := make([]byte, n)
	for i := range src {
		src[i] = byte(i)
	}
	cause := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(2*time.Millisecond, func() { cancel(cause) })
	if err := errors.Join(s.Upload(dst, [][]byte{src}), s.Wait(ctx)); !errors.Is(err, cause) {
		t.Errorf("Wait: %v", err)
	}
	got := make([]byte, n)
	if err := errors.Join(s.Upload(dst, [][]byte{src}), s.Download(got, dst), s.Wait(t.Context())); err != nil ||
		!bytes.Equal(got, src) {
		t.Errorf("after it: %v, equal %v", err, bytes.Equal(got, src))
	}
	if err := s.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

// Streams of all priorities, and several devices at the same time.
func TestStreamsAndDevices(t *testing.T) {
	counted(t)
	a, b := open(t, Driver), open(t, Driver)
	for _, p := range []int{-100, -1, 0, 1, 2, 100} {
		s, err := a.NewStream(p)
		if err != nil {
			t.Fatalf("priority %d: %v", p, err)
		}
		d := a.(*device)
		var got int
		err = d.do(func() (err error) {
			got, err = s.(*stream).cu.Priority()
			return err
		})
		if want := min(max(-p, d.most), d.least); err != nil || got != want {
			t.Errorf("priority %d: CUDA says %d, want %d (%v)", p, got, want, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	s := newStream(t, a)
	if err := errors.Join(s.Run(&driver.Fill{Dst: alloc(t, b, 10), Value: 1}), s.Wait(t.Context())); err == nil ||
		!strings.Contains(err.Error(), "another device") {
		t.Errorf("memory of another device: %v", err)
	}
	m, err := a.Alloc(100)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Free(); err != nil {
		t.Error(err)
	}
	if err := m.Free(); err == nil {
		t.Error("freed twice: no error")
	}
	if err := errors.Join(s.Run(&driver.Fill{Dst: driver.Slice{Mem: m, Len: 100}, Value: 1}), s.Wait(t.Context())); err == nil ||
		!strings.Contains(err.Error(), "freed") {
		t.Errorf("freed memory: %v", err)
	}
	if _, err := Driver.Open(99); !errors.Is(err, driver.ErrNoDevice) {
		t.Errorf("Open(99): %v", err)
	}
}

// Higher priority runs first: an op enqueued while the device has milliseconds of blocks to begin, all of lower
// priority, is done before those are.
func TestPriority(t *testing.T) {
	counted(t)
	dev := open(t, Driver)
	p := benchProblem(8192, 4096, driver.Gray8, driver.MaskRegions{})
	star(&p.Regions, 4096, 2048, 2000, 126, 2, 3)
	n, err := dev.Scratch(&driver.MaskPrepare{Regions: p.Regions, Width: p.Width, Height: p.Height, Method: driver.Naive})
	if err != nil {
		t.Fatal(err)
	}
	_, size := placeWork(p, n, nil)
	w, _ := placeWork(p, n, alloc(t, dev, size).Mem)
	low, err := dev.NewStream(-1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := low.Close(); err != nil {
			t.Error(err)
		}
	}()
	high, err := dev.NewStream(1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := high.Close(); err != nil {
			t.Error(err)
		}
	}()
	small := alloc(t, dev, 256)
	ping := func() error {
		return errors.Join(high.(driver.Timer).Launch(), high.Run(&driver.Fill{Dst: small, Value: 1}), high.Wait(t.Context()))
	}
	if err := errors.Join(low.Run(w.prepare(driver.Naive)), low.Wait(t.Context()), ping()); err != nil {
		t.Fatal(err)
	}
	for range 20 { // some 2 ms each on an H200
		if err := low.Run(w.raster(driver.RasterMask)); err != nil {
			t.Fatal(err)
		}
	}
	if err := ping(); err != nil {
		t.Fatal(err)
	}
	var busy bool
	err = dev.(*device).do(func() error {
		busy = low.(*stream).cu.Query() != nil // not ready
		return nil
	})
	if err = errors.Join(err, low.Wait(t.Context())); err != nil {
		t.Fatal(err)
	}
	if !busy {
		t.Error("an op of high priority waited for 20 kernels of low priority")
	}
}

// A device that is closed with something in use says so.
func TestCloseInUse(t *testing.T) {
	counted(t)
	dev, err := Driver.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	m, err := dev.Alloc(1000)
	if err != nil {
		t.Fatal(err)
	}
	if err := dev.Close(); err == nil || !strings.Contains(err.Error(), "1 blocks of memory") {
		t.Errorf("Close: %v", err)
	}
	if err := m.Free(); err == nil {
		t.Error("Free after Close: no error")
	}
	if _, err := dev.NewStream(0); err == nil {
		t.Error("NewStream after Close: no error")
	}
}

func TestErrors(t *testing.T) {
	counted(t)
	for _, c := range []struct {
		code int
		name string
		is   error
	}{
		{2, "CUDA_ERROR_OUT_OF_MEMORY", driver.ErrOutOfMemory},
		{100, "CUDA_ERROR_NO_DEVICE", driver.ErrNoDevice},
		{214, "CUDA_ERROR_ECC_UNCORRECTABLE", driver.ErrDeviceLost},
		{700, "CUDA_ERROR_ILLEGAL_ADDRESS", driver.ErrDeviceLost},
		{719, "CUDA_ERROR_LAUNCH_FAILED", driver.ErrDeviceLost},
		{1, "CUDA_ERROR_INVALID_VALUE", nil},
	} {
		err := fmt.Errorf("op: %w", failedCode("cuSomething", c.code))
		if want := fmt.Sprintf("op: cuSomething: %s (%d)", c.name, c.code); err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
		for _, kind := range []error{driver.ErrOutOfMemory, driver.ErrNoDevice, driver.ErrDeviceLost,
			driver.ErrNotSupported} {
			if errors.Is(err, kind) != (kind == c.is) {
				t.Errorf("%v: errors.Is %v is %v", err, kind, errors.Is(err, kind))
			}
		}
		var e *Error
		if !errors.As(err, &e) || e.Code != c.code {
			t.Errorf("%v: no *Error", err)
		}
	}
	if failedCode("x", 0) != nil || failed("x", nil) != nil {
		t.Error("success is an error")
	}
}

// A panic in an op is an error of its stream.
func TestPanic(t *testing.T) {
	counted(t)
	s := newStream(t, open(t, Driver)).(*stream)
	if err := errors.Join(s.enqueue(0, task{name: "Bug", call: func() error {
		panic("planted")
	}}), s.Wait(t.Context())); err == nil || !strings.Contains(err.Error(), "panic in Bug: planted") {
		t.Errorf("%v", err)
	}
	if err := s.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

// TimeDevice gives times, leaves results as the ops do, and refuses what can't be captured without harm to the stream.
func TestTimeDevice(t *testing.T) {
	counted(t)
	dev := open(t, Driver)
	s := newStream(t, dev).(*stream)
	p := problem(t, "size 300x221")
	n, err := dev.Scratch(&driver.MaskPrepare{Regions: p.Regions, Width: p.Width, Height: p.Height, Method: driver.MethodDefault})
	if err != nil {
		t.Fatal(err)
	}
	_, size := placeWork(p, n, nil)
	block := alloc(t, dev, size)
	w, _ := placeWork(p, n, block.Mem)
	if err := errors.Join(s.Upload(w.frame.Data, [][]byte{p.Pixels}), s.Wait(t.Context())); err != nil {
		t.Fatal(err)
	}
	times, err := s.TimeDevice(t.Context(), 3, 5, func(int) error {
		return errors.Join(s.Run(w.prepare(driver.MethodDefault)),
			s.Run(w.reduce(devicetest.Strip{Height: p.Height}, false)))
	})
	if err != nil || len(times) != 5 || slices.Min(times) <= 0 || slices.Max(times) > time.Second {
		t.Errorf("times %v, %v", times, err)
	}
	want := p.Expect()
	stats := make([]driver.MaskStats, len(want.Stats))
	if err := errors.Join(s.Download(bytesOf(stats), w.stats), s.Wait(t.Context())); err != nil {
		t.Fatal(err)
	}
	if d := devicetest.CompareStats(stats, want.Stats, p.First, int(p.Format.Channels)); d != nil {
		t.Error(d)
	}
	if _, err := s.TimeDevice(t.Context(), 1, 1, func(int) error {
		return s.Download(make([]byte, 8), part(block, 0, 8))
	}); !errors.Is(err, driver.ErrNotSupported) {
		t.Errorf("a download: %v", err)
	}
	planted := errors.New("planted")
	if _, err := s.TimeDevice(t.Context(), 1, 1, func(int) error { return planted }); !errors.Is(err, planted) {
		t.Errorf("an error of fn: %v", err)
	}
	big := make([]byte, slotBytes*slotCount+1)
	if _, err := s.TimeDevice(t.Context(), 1, 1, func(int) error {
		return s.Upload(driver.Slice{Mem: block.Mem, Len: int64(len(big))}, [][]byte{big})
	}); err == nil {
		t.Error("an upload beyond the staging memory, or the block: no error")
	}
	if _, err := s.TimeDevice(t.Context(), 0, 1, nil); err == nil {
		t.Error("no copies: no error")
	}
	if err := newSolver(t, dev).solve(t, p, driver.MethodDefault); err != nil {
		t.Error(err)
	}
}

// loseDevice is set in the process that TestDeviceLost sacrifices.
const loseDevice = "POLYSCAN_TEST_LOSE_DEVICE"

// A kernel that writes where nothing is takes the device with it: the op fails, everything after it does at once, the
// device can be closed, and opening it again works or says plainly that this process has lost it. The latter is what
// CUDA documents for such errors ("the process must be terminated and relaunched") and what driver 580 does, so that
// the test loses the device in a process of its own.
func TestDeviceLost(t *testing.T) {
	counted(t)
	if os.Getenv(loseDevice) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestDeviceLost$", "-test.v")
		cmd.Env = append(os.Environ(), loseDevice+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("--- PASS: TestDeviceLost")) {
			t.Errorf("%v:\n%s", err, out)
		}
		return
	}
	dev, err := Driver.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	m, err := dev.Alloc(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	st, err := dev.NewStream(0)
	if err != nil {
		t.Fatal(err)
	}
	other, err := dev.NewStream(0)
	if err != nil {
		t.Fatal(err)
	}
	s := st.(*stream)
	bad := func() error {
		args := reduceClearParams{Stats: 0x100, N: 1}
		return reduceClear.launch(s, 1, 1, clearThreads, 0, &args)
	}
	err = errors.Join(s.enqueue(0, task{name: "Planted", call: bad}), s.Wait(t.Context()))
	if !errors.Is(err, driver.ErrDeviceLost) || !strings.Contains(err.Error(), "CUDA_ERROR_ILLEGAL_ADDRESS (700)") ||
		!strings.Contains(err.Error(), "Planted") {
		t.Errorf("Wait: %v", err)
	}
	got := make([]byte, 10)
	for i, s := range []driver.Stream{st, other} {
		err := errors.Join(s.Run(&driver.Fill{Dst: driver.Slice{Mem: m, Len: 10}, Value: 1}), s.Download(got, driver.Slice{Mem: m, Len: 10}),
			s.Wait(t.Context()))
		if !errors.Is(err, driver.ErrDeviceLost) {
			t.Errorf("stream %d after it: %v", i, err)
		}
	}
	if _, err := dev.Alloc(10); !errors.Is(err, driver.ErrDeviceLost) {
		t.Errorf("Alloc after it: %v", err)
	}
	if _, err := dev.NewStream(0); !errors.Is(err, driver.ErrDeviceLost) {
		t.Errorf("NewStream after it: %v", err)
	}
	if err := errors.Join(st.Close(), other.Close(), m.Free(), dev.Close()); err != nil {
		t.Errorf("closing it: %v", err)
	}
	if again, err := Driver.Open(0); err == nil {
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
		s := newSolver(t, open(t, devicetest.Mirror(Driver, cpu.Driver)))
		if err := s.solve(t, problem(t, "shape holes"), driver.MethodDefault); err != nil {
			t.Errorf("the device opened again: %v", err)
		}
	} else if !errors.Is(err, driver.ErrDeviceLost) {
		t.Errorf("opening it again: %v, which is no %v", err, driver.ErrDeviceLost)
	}
}
