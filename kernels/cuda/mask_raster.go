//go:build cuda

// MaskRaster: one region goes from its edges to pixels, by the method that it was prepared with; several, and one that
// has runs, are written from their items over a cleared image.

package cuda

import (
	"fmt"

	"gorgonia.org/cu"

	"github.com/polyscan/polyscan/kernels/driver"
)

// rasterItemsBlocks is how many blocks a multiprocessor gets of mask_raster_items.
const rasterItemsBlocks = 8

func (s *stream) maskRaster(op *driver.MaskRaster) error {
	p, err := s.prepared(op.Prepared)
	if err != nil {
		return err
	}
	if err := p.rangeOf(op.First, op.Count); err != nil {
		return err
	}
	im := op.Dst
	if im.Width != int(p.head.Width) || im.Height != int(p.head.Height) {
		return fmt.Errorf("Dst: %dx%d: the regions were prepared for %dx%d", im.Width, im.Height, p.head.Width,
			p.head.Height)
	}
	if err := p.apart(im.Data, "Dst"); err != nil {
		return err
	}
	v, dst := p.view(), at(im.Data)

	if op.Mode == driver.RasterMask && op.Count == 1 && driver.FillRule(p.regions[op.First].Fill) != driver.ByRuns {
		_, k, _ := methodKernels(driver.Method(p.head.Method))
		args := rasterRowSpansParams{P: v, R: p.regions[op.First], Dst: dst, Stride: uint64(im.Stride)}
		gx, gy := (im.Width+tileWidth-1)/tileWidth, (im.Height+tileHeight-1)/tileHeight
		if k == rasterRowSpans {
			gx, gy = (im.Height+rasterRows-1)/rasterRows, 1
		}
		return k.launch(s, gx, gy, maskThreads, 0, &args)
	}

	// The bytes between rows are not ours.
	row := int64(im.Width) * int64(im.Format.PixelBytes())
	if row == int64(im.Stride) || im.Height == 1 {
		err = s.fill(dst, 0, row*int64(im.Height))
	} else {
		s.dirty, s.kernelLast = true, false
		err = s.dev.check("cuMemsetD2D8Async",
			cu.MemsetD2D8Async(cu.DevicePtr(dst), int64(im.Stride), 0, row, int64(im.Height), s.cu))
	}
	if err != nil || op.Count == 0 {
		return err
	}
	args := rasterItemsParams{P: v, First: uint32(op.First), Count: uint32(op.Count), Dst: dst,
		Stride: uint64(im.Stride)}
	if op.Mode == driver.RasterLabels {
		args.Labels = 1
	}
	// A column of the grid for each region, and as many blocks in it as there are left and warps for items.
	most := s.dev.info.ComputeUnits * rasterItemsBlocks
	gx := min(op.Count, most)
	gy := int(min(uint64(most/gx), max(p.largest/(maskThreads/32), 1)))
	return rasterItems.launch(s, gx, gy, maskThreads, 0, &args)
}
