// Mask: the pixels of regions on the device, for jobs of others.

package polygon

import (
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// Mask draws the pixels inside any region of a set into memory of a device, in jobs of whoever needs them there, so
// that they don't pass through the host as those of [Rasterize] do. It holds no device memory, is immutable and safe
// for concurrent use.
type Mask struct {
	set           *Set
	width, height int
	method        driver.Method
	prepared      int64
}

// Mask returns what draws the regions in images of a size on dev. Errors are those of [Rasterize]: a size out of range
// is an [*kernels.InvalidError]; a method that the backend lacks is [driver.ErrNotSupported].
func (s *Set) Mask(dev *kernels.Device, width, height int, m driver.Method) (*Mask, error) {
	if err := kernels.CheckSize(width, height); err != nil {
		return nil, err
	}
	size, err := s.preparedBytes(dev, width, height, m)
	if err != nil {
		return nil, err
	}
	return &Mask{s, width, height, m, size}, nil
}

// Size returns the width and height of the images.
func (m *Mask) Size() (width, height int) { return m.width, m.height }

// Scratch is how many bytes of its job's footprint Draw takes, until it returns.
func (m *Mask) Scratch() int64 { return kernels.Bytes[byte](int(m.prepared)) }

// Draw enqueues writing to dst, of width*height bytes in row-major order, 255 for each pixel inside any region and 0
// for the others. It lets more urgent jobs go first. All methods and backends write the same.
func (m *Mask) Draw(q *kernels.Queue, dst kernels.Buffer[byte]) error {
	prepared, err := m.set.prepare(q, int(m.prepared), m.width, m.height, m.method)
	if err != nil {
		return err
	}
	if err := q.MaskRaster(driver.MaskRaster{
		Prepared: prepared.Slice(), Count: m.set.Len(), Mode: driver.RasterMask,
		Dst: driver.Image{Data: dst.Slice(), Width: m.width, Height: m.height, Stride: m.width, Format: driver.Gray8},
	}); err != nil {
		return err
	}
	if err := kernels.Free(q, prepared); err != nil {
		return err
	}
	return q.Yield()
}

// preparedBytes is how much memory the pixels of each region within images of a size take, which [Set.prepare] finds.
func (s *Set) preparedBytes(dev *kernels.Device, width, height int, m driver.Method) (int64, error) {
	if err := checkMethod(m); err != nil {
		return 0, err
	}
	return dev.MaskPreparedBytes(s.MaskRegions(), width, height, m)
}

// prepare finds the pixels of each region within images of a size, in size bytes of the job.
func (s *Set) prepare(q *kernels.Queue, size, width, height int, m driver.Method) (kernels.Buffer[byte], error) {
	b, err := kernels.Alloc[byte](q, size, "regions")
	if err != nil {
		return b, err
	}
	return b, q.MaskPrepare(driver.MaskPrepare{Regions: s.MaskRegions(), Width: width, Height: height, Method: m,
		Dst: b.Slice()})
}
