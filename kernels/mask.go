// The checks in front of the mask ops.

package kernels

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/polyscan/polyscan/kernels/driver"
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
		return &ArgError{op, field, fmt.Sprintf("%dx%d", im.Width, im.Height), fmt.Sprintf("has more than %d pixels", driver.MaxPixels)}
	}
	row := im.Width * im.Format.PixelBytes()
	switch {
	case im.Stride < row:
		return &ArgError{op, field + ".Stride", im.Stride, fmt.Sprintf("is less than a row of %d bytes", row)}
	case im.Stride%int(im.Format.SampleBytes) != 0:
		return &ArgError{op, field + ".Stride", im.Stride, "must be even for 16-bit samples"}
	}
	if need := int64(im.Stride)*int64(im.Height-1) + int64(row); im.Data.Len < need {
		return &ArgError{op, field + ".Data", im.Data.Len, fmt.Sprintf("is less than the %d bytes of the image", need)}
	}
	return nil
}

func checkMaskShape(op string, r driver.MaskRegions, width, height int) error {
	switch {
	case width < 1 || width > driver.MaxSide:
		return &ArgError{op, "Width", width, fmt.Sprintf("must be 1 to %d", driver.MaxSide)}
	case height < 1 || height > driver.MaxSide:
		return &ArgError{op, "Height", height, fmt.Sprintf("must be 1 to %d", driver.MaxSide)}
	case int64(width)*int64(height) > driver.MaxPixels:
		return &ArgError{op, "Width, Height", fmt.Sprintf("%dx%d", width, height), fmt.Sprintf("have more than %d pixels", driver.MaxPixels)}
	case int64(len(r.Edges)) > math.MaxInt32:
		return &ArgError{op, "Regions.Edges", len(r.Edges), "are too many"}
	}
	for i, g := range r.Regions {
		if uint64(g.FirstEdge)+uint64(g.EdgeCount) > uint64(len(r.Edges)) {
			return &ArgError{op, fmt.Sprintf("Regions.Regions[%d]", i), g, fmt.Sprintf("reaches past the %d edges", len(r.Edges))}
		}
		if g.Fill > driver.EvenOdd {
			return &ArgError{op, fmt.Sprintf("Regions.Regions[%d].Fill", i), g.Fill, "is no fill rule"}
		}
	}
	return nil
}

// MaskPreparedBytes says how many bytes [Queue.MaskPrepare] writes.
func (d *Device) MaskPreparedBytes(r driver.MaskRegions, width, height int, method driver.Method) (int64, error) {
	if err := checkMaskShape("MaskPreparedBytes", r, width, height); err != nil {
		return 0, err
	}
	return d.dev.MaskPreparedBytes(r, width, height, method)
}

// MaskPrepare enqueues the op after checking its arguments. See [driver.MaskPrepare].
func (q *Queue) MaskPrepare(op driver.MaskPrepare) error {
	need, err := q.dev.MaskPreparedBytes(op.Regions, op.Width, op.Height, op.Method)
	if err != nil {
		return err
	}
	if op.Dst.Len < need {
		return &ArgError{"MaskPrepare", "Dst", op.Dst.Len, fmt.Sprintf("is less than the %d bytes needed", need)}
	}
	return q.stream.MaskPrepare(op)
}

// MaskReduce enqueues the op after checking its arguments. See [driver.MaskReduce].
func (q *Queue) MaskReduce(op driver.MaskReduce) error {
	const name = "MaskReduce"
	if err := checkImage(name, "Frame", op.Frame); err != nil {
		return err
	}
	if op.Row0 < 0 || op.Row0+op.Frame.Height > driver.MaxSide ||
		int64(op.Row0+op.Frame.Height)*int64(op.Frame.Width) > driver.MaxPixels {
		return &ArgError{name, "Row0", op.Row0, "puts the strip outside of what an image can be"}
	}
	if op.First < 0 || op.Count < 0 {
		return &ArgError{name, "First, Count", [2]int{op.First, op.Count}, "must not be negative"}
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
	if op.Count == 0 {
		return nil
	}
	return q.stream.MaskReduce(op)
}

// MaskRaster enqueues the op after checking its arguments. See [driver.MaskRaster].
func (q *Queue) MaskRaster(op driver.MaskRaster) error {
	const name = "MaskRaster"
	if err := checkImage(name, "Dst", op.Dst); err != nil {
		return err
	}
	want := driver.Gray8
	if op.Mode == driver.RasterLabels {
		want = driver.Gray16(16)
		if op.Count > math.MaxUint16 {
			return &ArgError{name, "Count", op.Count, "labels have 16 bits"}
		}
	}
	if op.Dst.Format != want {
		return &ArgError{name, "Dst.Format", op.Dst.Format, fmt.Sprintf("must be %v", want)}
	}
	if op.First < 0 || op.Count < 0 {
		return &ArgError{name, "First, Count", [2]int{op.First, op.Count}, "must not be negative"}
	}
	return q.stream.MaskRaster(op)
}
