// Mask: the pixels of regions on the device, for jobs of others.

package polygon

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// Mask returns what draws the pixels inside any region of the set into memory of dev, in jobs of whoever needs them
// there, so that they don't pass through the host as those of [Rasterize] do; and how many bytes of the job's memory
// that takes until it returns. draw enqueues writing to dst, of width*height bytes in row-major order, 255 for each
// pixel inside any region and 0 for the others, and lets more urgent jobs go first. It is safe for concurrent use. All
// methods and backends write the same. Errors are those of [Rasterize].
func (s *Set) Mask(dev *kernels.Device, width, height int, m Method) (
	draw func(q *kernels.Queue, dst kernels.Buffer[byte]) error, bytes int64, _ error) {
	if err := kernels.CheckSize(width, height); err != nil {
		return nil, 0, err
	}
	op, size, err := s.preparation(dev, width, height, m)
	if err != nil {
		return nil, 0, err
	}
	return func(q *kernels.Queue, dst kernels.Buffer[byte]) error {
		if dst.Len() != width*height {
			return &kernels.ArgError{Op: "Mask", Field: "dst", Value: dst.Len(),
				Reason: fmt.Sprintf("must be %d bytes: the mask has %dx%d pixels", width*height, width, height)}
		}
		prepared, err := prepare(q, op, size)
		if err != nil {
			return err
		}
		if err := q.Run(&driver.MaskRaster{
			Prepared: prepared.Slice(), Count: s.Len(), Mode: RasterMask,
			Dst: driver.Image{Data: dst.Slice(), Width: width, Height: height, Stride: width, Format: driver.Gray8},
		}); err != nil {
			return err
		}
		if err := kernels.Free(q, prepared); err != nil {
			return err
		}
		return q.Yield()
	}, kernels.Bytes[byte](int(size)), nil
}

// preparation is the op that finds the pixels of each region within images of a size, and how much memory they take.
func (s *Set) preparation(dev *kernels.Device, width, height int, m Method) (*driver.MaskPrepare, int64, error) {
	if err := checkMethod(m); err != nil {
		return nil, 0, err
	}
	op := &driver.MaskPrepare{Regions: s.maskRegions(), Width: width, Height: height, Method: m}
	size, err := dev.Scratch(op)
	return op, size, err
}

// prepare runs a preparation in size bytes of the job. The op itself stays as it is, and can be run again.
func prepare(q *kernels.Queue, op *driver.MaskPrepare, size int64) (kernels.Buffer[byte], error) {
	b, err := kernels.Alloc[byte](q, int(size), "regions")
	if err != nil {
		return b, err
	}
	run := *op
	run.Dst = b.Slice()
	return b, q.Run(&run)
}
