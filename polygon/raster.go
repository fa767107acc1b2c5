// Raster: the pixels of regions as an image.

package polygon

import (
	"context"
	"math"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// Raster is an image of regions.
type Raster struct {
	// Picture is GRAY8 for a mask (255 inside any region, 0 elsewhere), and GRAY16LE for labels (1 + the index of the
	// last region that holds the pixel, 0 elsewhere), in one piece, without gaps between rows.
	kernels.Picture
	// Counts of the pixels inside each region, whether another lies over it or not.
	Counts []uint64
	Method Method // as in [Result]
	kernels.Timing
}

// Rasterize draws the regions of set in an image of the given size, in one job on dev. Labels take at most 65,535
// regions. Errors are those of [Reduce].
func Rasterize(ctx context.Context, dev *kernels.Device, set *Set, width, height int, mode RasterMode,
	m Method) (*Raster, error) {
	if err := kernels.CheckSize(width, height); err != nil {
		return nil, err
	}
	bad := newInvalid()
	r := &Raster{Picture: kernels.Picture{Width: width, Height: height}}
	switch mode {
	case RasterMask:
		r.Format = driver.Gray8
	case RasterLabels:
		r.Format = driver.Gray16(16)
		if set.Len() > math.MaxUint16 {
			bad.Add(path{"regions"}, set.Len(), "are too many: labels number at most %d regions", math.MaxUint16)
		}
	default:
		bad.Add(path{"mode"}, uint8(mode), "must be %d (mask) or %d (labels)", RasterMask,
			RasterLabels)
	}
	if err := bad.Err(); err != nil {
		return nil, err
	}
	prep, size, err := set.preparation(dev, width, height, m)
	if err != nil {
		return nil, err
	}
	r.Stride = width * r.Format.PixelBytes()
	n := r.Stride * height
	footprint := kernels.Bytes[byte](int(size)) + kernels.Bytes[byte](n) + kernels.Bytes[driver.MaskStats](set.Len())
	work := int64(n) + set.work(0, set.Len(), width, 0, height, r.Format.PixelBytes())
	job := kernels.Job{Label: "rasterize", Footprint: footprint, Units: work, Timing: &r.Timing}
	var stats []driver.MaskStats
	err = dev.Do(ctx, job, func(q *kernels.Queue) error {
		prepared, err := prepare(q, prep, size)
		if err != nil {
			return err
		}
		pix, err := kernels.Alloc[byte](q, n, "image")
		if err != nil {
			return err
		}
		sums, err := kernels.Alloc[driver.MaskStats](q, set.Len(), "sums")
		if err != nil {
			return err
		}
		image := driver.Image{Data: pix.Slice(), Width: width, Height: height, Stride: r.Stride, Format: r.Format}
		if err := q.Run(&driver.MaskRaster{
			Prepared: prepared.Slice(), Count: set.Len(), Mode: mode, Dst: image,
		}); err != nil {
			return err
		}
		if err := q.Yield(); err != nil {
			return err
		}
		// Counting needs some image of this size, and the one just drawn is at hand.
		count := driver.MaskReduce{Prepared: prepared.Slice(), Count: set.Len(), Frame: image, What: driver.MaskSums}
		if err := set.reduce(q, count, sums, kernels.Buffer[uint32]{}); err != nil {
			return err
		}
		if err := q.Yield(); err != nil {
			return err
		}
		// Only jobs that run have memory for what comes of them: hundreds may wait.
		out := make([]byte, n)
		kernels.Made(ctx, n)
		r.Data = [][]byte{out}
		if err := kernels.DownloadChunks(q, out, pix); err != nil {
			return err
		}
		stats = make([]driver.MaskStats, set.Len())
		return kernels.Download(q, stats, sums)
	})
	if err != nil {
		return nil, err
	}
	r.Counts = make([]uint64, len(stats))
	for i := range stats {
		r.Counts[i] = stats[i].Count
	}
	r.Method = methodUsed(dev, m)
	return r, nil
}
