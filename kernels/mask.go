// The checks in front of the mask ops.

package kernels

import (
	"cmp"
	"fmt"
	"math"
	"unsafe"

	"github.com/polyscan/polyscan/kernels/driver"
)

const (
	// maxRegions bounds the regions of a set, so that sizes computed from counts don't overflow.
	maxRegions  = math.MaxInt32
	maskWhatAll = driver.MaskSums | driver.MaskExtrema | driver.MaskMoments | driver.MaskHistogram
)

// checkImage checks what [driver.Image] promises to backends.
func checkImage(op, field string, im driver.Image) error {
	switch {
	case !im.Format.Valid():
		return &ArgError{op, field + ".Format", im.Format, "is no known pixel format"}
	case im.Width < 1 || im.Width > driver.MaxSide:
		return &ArgError{op, field + ".Width", im.Width, fmt.Sprintf("must be 1 to %d", driver.MaxSide)}
	case im.Height < 1 || im.Height > driver.MaxSide:
		return &ArgError{op, field + ".Height", im.Height, fmt.Sprintf("must be 1 to %d", driver.MaxSide)}
	case int64(im.Width)*int64(im.Height) > driver.MaxPixels:
		return &ArgError{op, field, fmt.Sprintf("%dx%d", im.Width, im.Height),
			fmt.Sprintf("has more than %d pixels", driver.MaxPixels)}
	}
	row := im.Width * im.Format.PixelBytes()
	switch {
	case im.Stride < row:
		return &ArgError{op, field + ".Stride", im.Stride, fmt.Sprintf("is less than a row of %d bytes", row)}
	case im.Stride%int(im.Format.SampleBytes) != 0:
		return &ArgError{op, field + ".Stride", im.Stride, "must be even for 16-bit samples"}
	case im.Data.Off%int64(im.Format.SampleBytes) != 0:
		return &ArgError{op, field + ".Data.Off", im.Data.Off, "must be even for 16-bit samples"}
	case im.Data.Len > maxBytes:
		return &ArgError{op, field + ".Data", im.Data.Len, fmt.Sprintf("is more than %d bytes", int64(maxBytes))}
	case im.Height > 1 && int64(im.Stride) > im.Data.Len/int64(im.Height-1): // the product below could overflow
		return &ArgError{op, field + ".Stride", im.Stride,
			fmt.Sprintf("is too much for %d rows in %d bytes of data", im.Height, im.Data.Len)}
	}
	if need := int64(im.Stride)*int64(im.Height-1) + int64(row); im.Data.Len < need {
		return &ArgError{op, field + ".Data", im.Data.Len, fmt.Sprintf("is less than the %d bytes of the image", need)}
	}
	return nil
}

// checkSize checks the Width and Height of an op.
func checkSize(op string, width, height int) error {
	switch {
	case width < 1 || width > driver.MaxSide:
		return &ArgError{op, "Width", width, fmt.Sprintf("must be 1 to %d", driver.MaxSide)}
	case height < 1 || height > driver.MaxSide:
		return &ArgError{op, "Height", height, fmt.Sprintf("must be 1 to %d", driver.MaxSide)}
	case int64(width)*int64(height) > driver.MaxPixels:
		return &ArgError{op, "Width, Height", fmt.Sprintf("%dx%d", width, height),
			fmt.Sprintf("have more than %d pixels", driver.MaxPixels)}
	}
	return nil
}

func checkMaskShape(op string, r driver.MaskRegions, width, height int) error {
	if err := checkSize(op, width, height); err != nil {
		return err
	}
	switch {
	case int64(len(r.Edges)) > math.MaxInt32:
		return &ArgError{op, "Regions.Edges", len(r.Edges), fmt.Sprintf("are more than %d", math.MaxInt32)}
	case int64(len(r.Regions)) > maxRegions:
		return &ArgError{op, "Regions.Regions", len(r.Regions), fmt.Sprintf("are more than %d", maxRegions)}
	}
	for i, e := range r.Edges {
		if beyond(e.X0) || beyond(e.Y0) || beyond(e.X1) || beyond(e.Y1) {
			return &ArgError{op, fmt.Sprintf("Regions.Edges[%d]", i), e,
				fmt.Sprintf("has a coordinate beyond %d", driver.MaxCoord)}
		}
	}
	for i, g := range r.Regions {
		if uint64(g.FirstEdge)+uint64(g.EdgeCount) > uint64(len(r.Edges)) {
			return &ArgError{op, fmt.Sprintf("Regions.Regions[%d]", i), g,
				fmt.Sprintf("reaches past the %d edges", len(r.Edges))}
		}
		if g.Fill > driver.EvenOdd {
			return &ArgError{op, fmt.Sprintf("Regions.Regions[%d].Fill", i), g.Fill, "is no fill rule"}
		}
		if !closed(r.Edges[g.FirstEdge:][:g.EdgeCount]) {
			return &ArgError{op, fmt.Sprintf("Regions.Regions[%d]", i), g, "is open: its edges form no closed rings"}
		}
	}
	return nil
}

func beyond(v int32) bool { return v < -driver.MaxCoord || v > driver.MaxCoord }

// closed reports whether the edges form closed rings: whether the points where edges start are those where edges
// end, counted with multiplicity. Sums of hashes tell: rings always pass, anything else fails but once in 2^64.
func closed(edges []driver.Edge) bool {
	var sum uint64
	for _, e := range edges {
		sum += hashPoint(e.X0, e.Y0) - hashPoint(e.X1, e.Y1)
	}
	return sum == 0
}

// hashPoint is the finaliser of SplitMix64.
func hashPoint(x, y int32) uint64 {
	h := uint64(uint32(x))<<32 | uint64(uint32(y))
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// checkRun checks a range of regions.
func checkRun(op string, first, count int) error {
	if first < 0 || count < 0 || first > maxRegions || count > maxRegions-first {
		return &ArgError{op, "First, Count", [2]int{first, count},
			fmt.Sprintf("must not be negative, nor end beyond %d", maxRegions)}
	}
	return nil
}

// MaskPreparedBytes says how many bytes [Queue.MaskPrepare] writes.
func (d *Device) MaskPreparedBytes(r driver.MaskRegions, width, height int, method driver.Method) (int64, error) {
	d.mu.Lock()
	closed := d.closed
	d.mu.Unlock()
	if closed {
		return 0, ErrClosed
	}
	return d.maskPreparedBytes("MaskPreparedBytes", r, width, height, method)
}

// maskPreparedBytes is also for jobs that run while the device is being closed.
func (d *Device) maskPreparedBytes(op string, r driver.MaskRegions, width, height int, method driver.Method) (int64,
	error) {
	if method > driver.RowSpans {
		return 0, &ArgError{op, "Method", uint8(method), "is no method"}
	}
	if err := checkMaskShape(op, r, width, height); err != nil {
		return 0, err
	}
	return d.dev.MaskPreparedBytes(r, width, height, method)
}

// MaskPrepare enqueues the op after checking its arguments. See [driver.MaskPrepare].
func (q *Queue) MaskPrepare(op driver.MaskPrepare) error {
	const name = "MaskPrepare"
	if err := q.checkAligned(name, "Dst", op.Dst); err != nil {
		return err
	}
	need, err := q.dev.maskPreparedBytes(name, op.Regions, op.Width, op.Height, op.Method)
	if err != nil {
		return err
	}
	if op.Dst.Len < need {
		return &ArgError{name, "Dst", op.Dst.Len, fmt.Sprintf("is less than the %d bytes needed", need)}
	}
	return q.stream.MaskPrepare(op)
}

// MaskReduce enqueues the op after checking its arguments. See [driver.MaskReduce].
func (q *Queue) MaskReduce(op driver.MaskReduce) error {
	const name = "MaskReduce"
	if err := checkImage(name, "Frame", op.Frame); err != nil {
		return err
	}
	if op.Row0 < 0 || op.Row0 > driver.MaxSide-op.Frame.Height ||
		int64(op.Row0+op.Frame.Height)*int64(op.Frame.Width) > driver.MaxPixels {
		return &ArgError{name, "Row0", op.Row0, "puts the strip outside of what an image can be"}
	}
	if err := checkRun(name, op.First, op.Count); err != nil {
		return err
	}
	if op.What&^maskWhatAll != 0 {
		return &ArgError{name, "What", fmt.Sprintf("%#x", uint32(op.What)),
			fmt.Sprintf("has bits beyond %#x", uint32(maskWhatAll))}
	}
	if op.Frame.Format.SampleBytes == 2 && op.Frame.Format.Bits < 16 {
		op.What |= driver.MaskExtrema
	}
	rows := int64(op.Count) * int64(op.Frame.Format.Channels)
	if need := rows * int64(unsafe.Sizeof(driver.MaskStats{})); op.Stats.Len != need {
		return &ArgError{name, "Stats", op.Stats.Len, fmt.Sprintf("must be %d bytes", need)}
	}
	var hist int64
	if op.What&driver.MaskHistogram != 0 {
		hist = rows * int64(op.Frame.Format.Levels()) * 4
	}
	if op.Hist.Len != hist {
		return &ArgError{name, "Hist", op.Hist.Len, fmt.Sprintf("must be %d bytes", hist)}
	}
	if err := cmp.Or(
		q.check(name, "Frame.Data", op.Frame.Data),
		q.checkAligned(name, "Prepared", op.Prepared),
		q.checkAligned(name, "Stats", op.Stats),
		q.checkAligned(name, "Hist", op.Hist),
	); err != nil || op.Count == 0 {
		return err
	}
	return q.stream.MaskReduce(op)
}

// MaskRaster enqueues the op after checking its arguments. See [driver.MaskRaster].
func (q *Queue) MaskRaster(op driver.MaskRaster) error {
	const name = "MaskRaster"
	if err := checkImage(name, "Dst", op.Dst); err != nil {
		return err
	}
	if err := checkRun(name, op.First, op.Count); err != nil {
		return err
	}
	var want driver.PixelFormat
	switch op.Mode {
	case driver.RasterMask:
		want = driver.Gray8
	case driver.RasterLabels:
		want = driver.Gray16(16)
		if op.First+op.Count > math.MaxUint16 {
			return &ArgError{name, "First, Count", [2]int{op.First, op.Count},
				fmt.Sprintf("end beyond the %d labels that 16 bits hold", math.MaxUint16)}
		}
	default:
		return &ArgError{name, "Mode", uint8(op.Mode), "is no raster mode"}
	}
	if op.Dst.Format != want {
		return &ArgError{name, "Dst.Format", op.Dst.Format, fmt.Sprintf("must be %v", want)}
	}
	if err := cmp.Or(
		q.check(name, "Dst.Data", op.Dst.Data),
		q.checkAligned(name, "Prepared", op.Prepared),
	); err != nil {
		return err
	}
	return q.stream.MaskRaster(op)
}
