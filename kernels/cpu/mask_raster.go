// MaskRaster: prepared regions to an image of the mask or of labels.

package cpu

import (
	"fmt"
	"sort"
	"sync/atomic"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (d *device) maskRaster(op *driver.MaskRaster, stop *stopFlag) error {
	p, err := openPrepared(view(op.Prepared))
	if err != nil {
		return err
	}
	if err := p.rangeOf(op.First, op.Count); err != nil {
		return err
	}
	data := view(op.Dst.Data)
	im := op.Dst
	if im.Width != int(p.header.Width) || im.Height != int(p.header.Height) {
		return fmt.Errorf("Dst: %dx%d: the regions were prepared for %dx%d", im.Width, im.Height, p.header.Width,
			p.header.Height)
	}
	// Bands of rows, not regions, are what threads share: regions may overlap, and the last one has to win.
	bands := min(im.Height, 4*d.threads)
	var next atomic.Int64
	return d.share("MaskRaster", min(d.threads, bands), stop, func(s *scratch) error {
		for {
			b := int(next.Add(1) - 1)
			if b >= bands {
				return nil
			}
			lo, hi := im.Height*b/bands, im.Height*(b+1)/bands
			if err := rasterBand(op, p, data, lo, hi, &s.pace); err != nil {
				return err
			}
		}
	})
}

func rasterBand(op *driver.MaskRaster, p prepared, data []byte, lo, hi int, pace *pace) error {
	im := op.Dst
	size := im.Format.PixelBytes()
	for y := lo; y < hi; y++ {
		if pace.spend(20 + im.Width*size/16) {
			return errAborted
		}
		clear(data[y*im.Stride:][:im.Width*size])
	}
	for i := op.First; i < op.First+op.Count; i++ {
		if pace.spend(10) {
			return errAborted
		}
		if r := p.regions[i]; int(r.Y1) <= lo || int(r.Y0) >= hi {
			continue
		}
		spans, err := p.regionSpans(i)
		if err != nil {
			return err
		}
		from := sort.Search(len(spans), func(i int) bool { return int(spans[i].Y) >= lo })
		for _, s := range spans[from:] {
			if int(s.Y) >= hi {
				break
			}
			if int(s.Y) < lo || s.X0 < 0 || s.X0 >= s.X1 || int(s.X1) > im.Width {
				return errCorrupt
			}
			if pace.spend(10 + int(s.X1-s.X0)*size/8) {
				return errAborted
			}
			px := data[int(s.Y)*im.Stride:][int(s.X0)*size : int(s.X1)*size]
			if op.Mode == driver.RasterMask {
				fill(px, 255)
				continue
			}
			fill16(px, uint16(i+1))
		}
	}
	return nil
}
