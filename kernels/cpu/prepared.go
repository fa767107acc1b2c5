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
	if int64(regions) > math.MaxUint32 || spans < 0 || spans > (math.MaxInt64-headerBytes-math.MaxUint32*regionBytes)/spanBytes {
		return 0, fmt.Errorf("cpu: %d regions with up to %d spans are too many", regions, spans)
	}
	return headerBytes + int64(regions)*regionBytes + spans*spanBytes, nil
}

// prepared is a view of a blob.
type prepared struct {
	header  *preparedHeader
	regions []preparedRegion
	spans   []span
}

var errNotPrepared = errors.New("Prepared: the memory does not hold regions prepared by the cpu backend")

func aligned(b []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%unsafe.Alignof(preparedHeader{}) == 0
}

// layPrepared makes a view of b with room for so many regions and spans. The magic number is cleared.
func layPrepared(b []byte, width, height, regions int, spans int64) (prepared, error) {
	need, err := preparedBytes(regions, spans)
	if err != nil {
		return prepared{}, err
	}
	if int64(len(b)) < need {
		return prepared{}, fmt.Errorf("Dst: %d bytes, %d are needed", len(b), need)
	}
	if !aligned(b) {
		return prepared{}, errors.New("Dst: is not aligned")
	}
	h := (*preparedHeader)(unsafe.Pointer(unsafe.SliceData(b)))
	*h = preparedHeader{
		Version: preparedVersion, Width: uint32(width), Height: uint32(height),
		Regions: uint32(regions), Spans: uint64(spans),
	}
	return viewPrepared(b, h), nil
}

// openPrepared makes a view of a finished blob. Nothing in it is trusted beyond what is checked here and in
// [prepared.region]; users of spans check those as they go.
func openPrepared(b []byte) (prepared, error) {
	if int64(len(b)) < headerBytes || !aligned(b) {
		return prepared{}, errNotPrepared
	}
	h := (*preparedHeader)(unsafe.Pointer(unsafe.SliceData(b)))
	if h.Magic != preparedMagic || h.Version != preparedVersion {
		return prepared{}, errNotPrepared
	}
	if h.Width < 1 || h.Width > driver.MaxSide || h.Height < 1 || h.Height > driver.MaxSide || h.Spans > math.MaxInt64 {
		return prepared{}, errNotPrepared
	}
	need, err := preparedBytes(int(h.Regions), int64(h.Spans))
	if err != nil || int64(len(b)) < need {
		return prepared{}, errNotPrepared
	}
	return viewPrepared(b, h), nil
}

func viewPrepared(b []byte, h *preparedHeader) prepared {
	dir := b[headerBytes:]
	run := dir[int64(h.Regions)*regionBytes:]
	return prepared{
		header:  h,
		regions: unsafe.Slice((*preparedRegion)(unsafe.Pointer(unsafe.SliceData(dir))), h.Regions),
		spans:   unsafe.Slice((*span)(unsafe.Pointer(unsafe.SliceData(run))), h.Spans),
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

// rangeOf checks the range of regions that an op asks for.
func (p prepared) rangeOf(first, count int) error {
	if n := len(p.regions); first < 0 || count < 0 || first > n || count > n-first {
		return fmt.Errorf("First, Count = %d, %d: only %d regions are prepared", first, count, n)
	}
	return nil
}
