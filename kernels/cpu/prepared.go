// The layout of prepared regions: a header, a directory with an entry for each region, and row spans.

package cpu

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/polyscan/polyscan/kernels/driver"
)

const (
	preparedMagic   = 0x6b73614d_6c6f5050
	preparedVersion = 1
)

// preparedHeader is at offset 0. Magic is written last, so that what an op left unfinished is not taken for regions.
type preparedHeader struct {
	Magic   uint64
	Version uint32
	Width   uint32
	Height  uint32
	Regions uint32
	Spans   uint64 // room for spans, not their number
	_       [4]uint64
}

// preparedRegion is an entry of the directory, which follows the header. Spans of a region lie beside each other, in
// row-major order and not touching one another; there may be unused room between regions.
type preparedRegion struct {
	First, Count uint64 // spans
	Pixels       uint64
	X0, Y0       int32 // bounds of the pixels; X0 = X1 where there are none
	X1, Y1       int32
}

// span is the pixels [X0, X1) of row Y. The spans follow the directory.
type span struct{ Y, X0, X1 int32 }

const (
	headerBytes = int64(unsafe.Sizeof(preparedHeader{}))
	regionBytes = int64(unsafe.Sizeof(preparedRegion{}))
	spanBytes   = int64(unsafe.Sizeof(span{}))
)

// preparedBytes is the size of a blob with room for so many regions and spans.
func preparedBytes(regions int, spans int64) (int64, error) {
	if regions < 0 || int64(regions) > math.MaxUint32 || spans < 0 ||
		spans > (math.MaxInt64-headerBytes-math.MaxUint32*regionBytes)/spanBytes {
		return 0, fmt.Errorf("cpu: %d regions with up to %d spans are too many", regions, spans)
	}
	return headerBytes + int64(regions)*regionBytes + spans*spanBytes, nil
}

// prepared is a view of a blob.
type prepared struct {
	header  *preparedHeader
	regions []preparedRegion
	spans   []span
	rest    []byte // from the spans on
}

var errNotPrepared = errors.New("Prepared: the memory does not hold regions prepared by the cpu backend")

func aligned(b []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%unsafe.Alignof(preparedHeader{}) == 0
}

// layPrepared begins a blob in b. The magic number is cleared.
func layPrepared(b []byte, width, height, regions int) (prepared, error) {
	need, err := preparedBytes(regions, 0)
	if err != nil {
		return prepared{}, err
	}
	if int64(len(b)) < need {
		return prepared{}, fmt.Errorf("Dst: %d bytes, at least %d are needed", len(b), need)
	}
	if !aligned(b) {
		return prepared{}, errors.New("Dst: is not aligned")
	}
	h := (*preparedHeader)(unsafe.Pointer(unsafe.SliceData(b)))
	*h = preparedHeader{Version: preparedVersion, Width: uint32(width), Height: uint32(height),
		Regions: uint32(regions)}
	return viewPrepared(b, h), nil
}

// reserve makes room for so many spans.
func (p *prepared) reserve(spans int64) error {
	if have := int64(len(p.rest)) / spanBytes; spans > have {
		return fmt.Errorf("Dst: has room for %d spans, %d are needed", have, spans)
	}
	p.header.Spans = uint64(spans)
	p.spans = unsafe.Slice((*span)(unsafe.Pointer(unsafe.SliceData(p.rest))), spans)
	return nil
}

// openPrepared makes a view of a finished blob. Nothing in it is trusted beyond what is checked here and in
// [prepared.regionSpans]; users of spans check those as they go.
func openPrepared(b []byte) (prepared, error) {
	if int64(len(b)) < headerBytes || !aligned(b) {
		return prepared{}, errNotPrepared
	}
	h := (*preparedHeader)(unsafe.Pointer(unsafe.SliceData(b)))
	if h.Magic != preparedMagic || h.Version != preparedVersion || h.Spans > math.MaxInt64 ||
		driver.CheckSize("", "", int(h.Width), int(h.Height)) != nil {
		return prepared{}, errNotPrepared
	}
	need, err := preparedBytes(int(h.Regions), int64(h.Spans))
	if err != nil || int64(len(b)) < need {
		return prepared{}, errNotPrepared
	}
	p := viewPrepared(b, h)
	return p, p.reserve(int64(h.Spans))
}

func viewPrepared(b []byte, h *preparedHeader) prepared {
	dir := b[headerBytes:]
	return prepared{
		header:  h,
		regions: unsafe.Slice((*preparedRegion)(unsafe.Pointer(unsafe.SliceData(dir))), h.Regions),
		rest:    dir[int64(h.Regions)*regionBytes:],
	}
}

// regionSpans returns the spans of region i.
func (p prepared) regionSpans(i int) ([]span, error) {
	r := &p.regions[i]
	n := uint64(len(p.spans))
	if r.First > n || r.Count > n-r.First {
		return nil, errNotPrepared
	}
	return p.spans[r.First : r.First+r.Count : r.First+r.Count], nil
}

// openPreparedFor opens a set that has regions [first, first+count) and was prepared for an image of which a frame
// holds the rows from row0.
func openPreparedFor(from driver.Slice, im *driver.Image, row0, first, count int) (prepared, error) {
	p, err := openPrepared(view(from))
	if err != nil {
		return prepared{}, err
	}
	if err := p.rangeOf(first, count); err != nil {
		return prepared{}, err
	}
	if w, h := int(p.header.Width), int(p.header.Height); im.Width != w || row0 > h-im.Height {
		return prepared{}, fmt.Errorf("Frame: rows [%d, %d+%d) of width %d: the regions were prepared for %dx%d",
			row0, row0, im.Height, im.Width, w, h)
	}
	return p, nil
}

// taskRows is rows [from, to) of a region, which counts from an op's first.
type taskRows struct{ region, from, to int }

// taskRows divides what regions [first, first+count) have in rows [from, to) into tasks of about equal work, where each
// pixel is work for so many pairs. total is about how many pairs there are.
func (p prepared) taskRows(first, count, from, to, threads int, each uint64) (tasks []taskRows, total uint64) {
	inRows := func(i int) (pairs uint64, y0, y1 int) {
		e := &p.regions[first+i]
		y0, y1 = max(int(e.Y0), from), min(int(e.Y1), to)
		if y0 >= y1 || e.Count == 0 {
			return 0, 0, 0
		}
		return uint64(float64(e.Pixels)*float64(y1-y0)/float64(e.Y1-e.Y0)) * each, y0, y1
	}
	for i := range count {
		n, _, _ := inRows(i)
		total += n
	}
	target := max(minTaskPixels, total/uint64(tasksPerThread*threads))
	for i := range count {
		n, y0, y1 := inRows(i)
		if y0 == y1 {
			continue
		}
		parts := 1
		if threads > 1 {
			parts = int(min(max(n/target, 1), uint64(y1-y0)))
		}
		for k := range parts {
			tasks = append(tasks, taskRows{i, y0 + (y1-y0)*k/parts, y0 + (y1-y0)*(k+1)/parts})
		}
	}
	return tasks, total
}

// rangeOf checks the range of regions that an op asks for.
func (p prepared) rangeOf(first, count int) error {
	if n := len(p.regions); first < 0 || count < 0 || first > n || count > n-first {
		return fmt.Errorf("First, Count = %d, %d: only %d regions are prepared", first, count, n)
	}
	return nil
}

// spanWriter takes spans in row-major order.
type spanWriter struct {
	out    []span
	n      int
	pixels uint64
	x0, x1 int32
}

func newSpanWriter(out []span) spanWriter {
	return spanWriter{out: out, x0: math.MaxInt32, x1: math.MinInt32}
}

// errOpen is returned where spans exceed the room that closed rings can need.
var errOpen = errors.New("edges do not form closed rings")

// put appends [x0, x1) of row y. It returns false where there is no room.
func (w *spanWriter) put(y, x0, x1 int32) bool {
	if w.n >= len(w.out) {
		return false
	}
	w.out[w.n] = span{y, x0, x1}
	w.n++
	w.pixels += uint64(x1 - x0)
	w.x0 = min(w.x0, x0)
	w.x1 = max(w.x1, x1)
	return true
}

// extend lengthens the last span.
func (w *spanWriter) extend(x1 int32) {
	s := &w.out[w.n-1]
	w.pixels += uint64(x1 - s.X1)
	s.X1 = x1
	w.x1 = max(w.x1, x1)
}

// append moves the spans of the rows that follow to the end of w, in the same memory.
func (w *spanWriter) append(o *spanWriter) {
	w.n += copy(w.out[w.n:], o.out[:o.n])
	w.pixels += o.pixels
	w.x0 = min(w.x0, o.x0)
	w.x1 = max(w.x1, o.x1)
}

// describe writes what was written to the directory.
func (w *spanWriter) describe(r *preparedRegion) {
	*r = preparedRegion{First: r.First, Count: uint64(w.n), Pixels: w.pixels}
	if w.n > 0 {
		r.X0, r.X1 = w.x0, w.x1
		r.Y0, r.Y1 = w.out[0].Y, w.out[w.n-1].Y+1
	}
}
