// A rig: a device with one stream and memory laid out for a problem, with guards around everything that ops write.

package devicetest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"unsafe"

	"github.com/polyscan/polyscan/kernels/driver"
)

const (
	guardByte  = 0x5c
	guardBytes = driver.Align
	dirtyByte  = 0xcd // what memory holds before an op writes it
)

type rig struct {
	dev    driver.Device
	stream driver.Stream
	mem    driver.Mem
	used   int64
	guards []driver.Slice
}

func newRig(t T, dev driver.Device) *rig {
	t.Helper()
	s, err := dev.NewStream(0)
	if err != nil {
		t.Fatalf("NewStream: %v", err)
	}
	return &rig{dev: dev, stream: s}
}

func (r *rig) close(t T) {
	t.Helper()
	if err := r.stream.Close(); err != nil {
		t.Errorf("stream: Close: %v", err)
	}
	if r.mem != nil {
		if err := r.mem.Free(); err != nil {
			t.Errorf("Free: %v", err)
		}
	}
}

func alignUp(n int64) int64 { return (n + driver.Align - 1) / driver.Align * driver.Align }

// reserve makes sure that there is memory for n slices of so many bytes altogether, and starts over with it.
func (r *rig) reserve(t T, n int, total int64) {
	t.Helper()
	need := total + int64(n+1)*(2*guardBytes+driver.Align)
	r.used, r.guards = 0, nil
	if r.mem == nil || r.mem.Bytes() < need {
		if r.mem != nil {
			if err := r.mem.Free(); err != nil {
				t.Fatalf("Free: %v", err)
			}
			r.mem = nil
		}
		m, err := r.dev.Alloc(alignUp(max(need, 1<<20)))
		if err != nil {
			t.Fatalf("Alloc(%d): %v", need, err)
		}
		r.mem = m
	}
	r.guard(t, guardBytes)
}

// guard puts n bytes that nobody must write.
func (r *rig) guard(t T, n int64) {
	t.Helper()
	g := driver.Slice{Mem: r.mem, Off: r.used, Len: n}
	r.fill(t, g, guardByte)
	r.guards = append(r.guards, g)
	r.used += n
}

// slice takes n bytes, offset from alignment, with a guard right before and right behind: kernels may read the words
// that the first and the last byte are in.
func (r *rig) slice(t T, n int64, offset int) driver.Slice {
	t.Helper()
	if offset > 0 {
		r.guard(t, int64(offset))
	}
	s := driver.Slice{Mem: r.mem, Off: r.used, Len: n}
	r.used += n
	r.guard(t, alignUp(r.used+guardBytes)-r.used)
	return s
}

// Enqueue enqueues an op after the checks that package kernels makes.
func Enqueue(dev driver.Device, s driver.Stream, op driver.Op) error {
	if err := driver.Check(op); err != nil {
		return err
	}
	if err := driver.CheckOperands(op, driver.Operands(op, nil), nil, dev.Scratch); err != nil {
		return err
	}
	return s.Run(op)
}

// lay gives an op memory for its slices, as much as it needs, with dirt in all of it. Those that the backend alone
// knows the size of, as another op made them, stay as they are.
func (r *rig) lay(t T, op driver.Op) {
	t.Helper()
	scratch, err := r.dev.Scratch(op)
	if err != nil {
		t.Fatalf("Scratch of %s: %v", driver.Name(op), err)
	}
	operands, total := driver.Operands(op, nil), int64(0)
	for i := range operands {
		if o := &operands[i]; o.Bytes == driver.BackendSized {
			o.Bytes = scratch
		}
		total += operands[i].Bytes
	}
	r.reserve(t, len(operands), total)
	for _, o := range operands {
		if o.Bytes > 0 {
			*o.Slice = r.slice(t, o.Bytes, 0)
			r.fill(t, *o.Slice, dirtyByte)
		}
	}
}

// checkGuards waits, and reports guards that were written to.
func (r *rig) checkGuards(t T) {
	t.Helper()
	got := make([][]byte, len(r.guards))
	for i, g := range r.guards {
		got[i] = make([]byte, g.Len)
		r.download(t, got[i], g)
	}
	r.wait(t)
	for i, b := range got {
		if n := bytes.Count(b, []byte{guardByte}); n != len(b) {
			t.Errorf("%d bytes were written outside of what the ops were given, near offset %d", len(b)-n,
				r.guards[i].Off)
		}
	}
}

func (r *rig) fill(t T, s driver.Slice, v byte) {
	t.Helper()
	if err := r.stream.Run(&driver.Fill{Dst: s, Value: v}); err != nil {
		t.Fatalf("Fill: %v", err)
	}
}

func (r *rig) upload(t T, s driver.Slice, src ...[]byte) {
	t.Helper()
	if err := r.stream.Upload(s, src); err != nil {
		t.Fatalf("Upload: %v", err)
	}
}

func (r *rig) download(t T, dst []byte, s driver.Slice) {
	t.Helper()
	if err := r.stream.Download(dst, s); err != nil {
		t.Fatalf("Download: %v", err)
	}
}

func (r *rig) wait(t T) {
	t.Helper()
	if err := r.stream.Wait(context.Background()); err != nil {
		t.Fatalf("Wait: %v", err)
	}
}

// bytesOf views values as bytes.
func bytesOf[E any](v []E) []byte {
	var z E
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(z)))
}

// setup is a problem in device memory.
type setup struct {
	p        *Problem
	prepared driver.Slice
	frame    driver.Slice
	stats    driver.Slice
	hist     driver.Slice
	mask     driver.Image
	labels   driver.Image
}

// set lays p out for a method, uploads its frame in pieces, and dirties what ops will write.
func (r *rig) set(t T, p *Problem, m driver.Method) *setup {
	t.Helper()
	n, err := r.dev.Scratch(&driver.MaskPrepare{Regions: p.Regions, Width: p.Width, Height: p.Height, Method: m})
	if err != nil {
		t.Fatalf("MaskPreparedBytes: %v", err)
	}
	if n < 0 {
		t.Fatalf("MaskPreparedBytes: %d", n)
	}
	// Strides of the images that are drawn: odd for the mask, with a gap for the labels.
	maskStride, labelStride := p.Width+3, 2*p.Width+6
	maskBytes := int64(maskStride*(p.Height-1) + p.Width)
	labelBytes := int64(labelStride*(p.Height-1) + 2*p.Width)
	r.reserve(t, 6, n+int64(len(p.Pixels)+p.Offset)+p.statsBytes()+p.histBytes()+maskBytes+labelBytes+16)
	u := &setup{p: p}
	u.prepared = r.slice(t, n, 0)
	u.frame = r.slice(t, int64(len(p.Pixels)), p.Offset)
	u.stats = r.slice(t, p.statsBytes(), 0)
	u.hist = r.slice(t, p.histBytes(), 0)
	u.mask = driver.Image{Data: r.slice(t, maskBytes, p.Offset%5), Width: p.Width, Height: p.Height, Stride: maskStride,
		Format: driver.Gray8}
	u.labels = driver.Image{Data: r.slice(t, labelBytes, p.Offset%3*2), Width: p.Width, Height: p.Height,
		Stride: labelStride, Format: driver.Gray16(16)}
	r.fill(t, u.prepared, dirtyByte)
	r.dirty(t, u)
	r.upload(t, u.frame, pieces(p.Pixels)...)
	return u
}

// dirty overwrites the results, so that those of an earlier run can't be taken for new ones.
func (r *rig) dirty(t T, u *setup) {
	t.Helper()
	for _, s := range []driver.Slice{u.stats, u.hist, u.mask.Data, u.labels.Data} {
		r.fill(t, s, dirtyByte)
	}
}

// pieces cuts b into a few uneven parts, one of them empty.
func pieces(b []byte) [][]byte {
	g := rand.New(rand.NewPCG(uint64(len(b)), 7))
	var out [][]byte
	for len(b) > 0 && len(out) < 5 {
		n := 1 + g.IntN(len(b))
		out = append(out, b[:n], nil)
		b = b[n:]
	}
	return append(out, b)
}

// prepare enqueues the op.
func (r *rig) prepare(u *setup, m driver.Method) error {
	return r.stream.Run(&driver.MaskPrepare{
		Regions: u.p.Regions, Width: u.p.Width, Height: u.p.Height, Method: m, Dst: u.prepared,
	})
}

// reduce enqueues the strips of the problem.
func (r *rig) reduce(t T, u *setup) {
	t.Helper()
	if u.p.Count == 0 {
		return // which package kernels keeps from backends
	}
	for i, s := range u.p.Strips {
		op := u.reduceOp(s)
		op.Accumulate = i > 0
		if err := r.stream.Run(&op); err != nil {
			t.Fatalf("MaskReduce of strip %d: %v", i, err)
		}
	}
}

func (u *setup) reduceOp(s Strip) driver.MaskReduce {
	p := u.p
	data := u.frame
	data.Off += int64(s.Row0) * int64(p.Stride)
	data.Len = int64(s.Height-1)*int64(p.Stride) + int64(p.rowBytes())
	return driver.MaskReduce{
		Prepared: u.prepared, First: p.First, Count: p.Count,
		Frame: driver.Image{Data: data, Width: p.Width, Height: s.Height, Stride: p.Stride, Format: p.Format},
		Row0:  s.Row0, What: p.What, Colors: p.Colors, Stats: u.stats, Hist: u.hist,
	}
}

func (r *rig) raster(t T, u *setup) {
	t.Helper()
	op := driver.MaskRaster{Prepared: u.prepared, First: u.p.First, Count: u.p.Count, Mode: driver.RasterMask,
		Dst: u.mask}
	if err := r.stream.Run(&op); err != nil {
		t.Fatalf("MaskRaster of the mask: %v", err)
	}
	labels := op
	labels.Mode, labels.Dst = driver.RasterLabels, u.labels
	if err := r.stream.Run(&labels); err != nil {
		t.Fatalf("MaskRaster of the labels: %v", err)
	}
}

// results are what the ops wrote, as it lies in memory.
type results struct {
	stats  []driver.MaskStats
	hist   []uint32
	mask   []byte
	labels []byte
}

func (r *rig) results(t T, u *setup) *results {
	t.Helper()
	p := u.p
	out := &results{
		stats:  make([]driver.MaskStats, p.Count*p.channels()),
		hist:   make([]uint32, u.hist.Len/4),
		mask:   make([]byte, u.mask.Data.Len),
		labels: make([]byte, u.labels.Data.Len),
	}
	for _, d := range []struct {
		to   []byte
		from driver.Slice
	}{{bytesOf(out.stats), u.stats}, {bytesOf(out.hist), u.hist}, {out.mask, u.mask.Data},
		{out.labels, u.labels.Data}} {
		if d.from.Len > 0 {
			r.download(t, d.to, d.from)
		}
	}
	r.wait(t)
	return out
}

// differ returns where results are not what is expected, or nil.
func (u *setup) differ(got *results, want *Expected) error {
	p := u.p
	nc := p.channels()
	if d := CompareStats(got.stats, want.Stats, p.First, nc); d != nil {
		return d
	}
	if d := CompareHist(got.hist, want.Hist, p.First, nc, p.Format.Levels()); d != nil {
		return d
	}
	if d := CompareImage(got.mask, want.Mask, p.Width, p.Height, u.mask.Stride, p.Width, 1); d != nil {
		return d
	}
	if d := CompareImage(got.labels, bytesOf(want.Labels), p.Width, p.Height, u.labels.Stride, 2*p.Width, 2); d != nil {
		return d
	}
	for _, im := range []struct {
		im  driver.Image
		pix []byte
	}{{u.mask, got.mask}, {u.labels, got.labels}} {
		row := im.im.Width * im.im.Format.PixelBytes()
		for y := range p.Height - 1 {
			for x, b := range im.pix[y*im.im.Stride+row : (y+1)*im.im.Stride] {
				if b != dirtyByte {
					return fmt.Errorf("MaskRaster wrote byte %d behind row %d", x, y)
				}
			}
		}
	}
	return nil
}
