// MaskReduce: folds over the pixels of prepared regions.

package cpu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sort"
	"sync/atomic"
	"unsafe"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *stream) MaskReduce(op driver.MaskReduce) error {
	return s.enqueue("MaskReduce", func(stop *stopFlag) error { return s.dev.maskReduce(op, stop) })
}

type reduceScratch struct {
	_ [0]byte
}

// checkImage returns the bytes of an image after checking what [driver.Image] says about it.
func checkImage(im driver.Image, field string) ([]byte, error) {
	data, err := view(im.Data, field+".Data")
	if err != nil {
		return nil, err
	}
	if !im.Format.Valid() {
		return nil, fmt.Errorf("%s.Format = %v: is no known pixel format", field, im.Format)
	}
	if im.Width < 1 || im.Width > driver.MaxSide || im.Height < 1 || im.Height > driver.MaxSide {
		return nil, fmt.Errorf("%s: %dx%d: sides must be 1 to %d", field, im.Width, im.Height, driver.MaxSide)
	}
	row := im.Width * im.Format.PixelBytes()
	if im.Stride < row || (im.Height > 1 && im.Stride > (len(data)-row)/(im.Height-1)) || len(data) < row {
		return nil, fmt.Errorf("%s: %d rows of %d bytes, %d apart, are not within %d bytes", field, im.Height, row, im.Stride, len(data))
	}
	return data, nil
}

var errCorrupt = errors.New("Prepared: spans outside of the image")

func (d *device) maskReduce(op driver.MaskReduce, stop *stopFlag) error {
	blob, err := view(op.Prepared, "Prepared")
	if err != nil {
		return err
	}
	p, err := openPrepared(blob)
	if err != nil {
		return err
	}
	if err := p.rangeOf(op.First, op.Count); err != nil {
		return err
	}
	data, err := checkImage(op.Frame, "Frame")
	if err != nil {
		return err
	}
	im := op.Frame
	if im.Width != int(p.header.Width) || op.Row0 < 0 || op.Row0 > int(p.header.Height)-im.Height {
		return fmt.Errorf("Frame: rows [%d, %d+%d) of width %d: the regions were prepared for %dx%d",
			op.Row0, op.Row0, im.Height, im.Width, p.header.Width, p.header.Height)
	}
	channels, levels := int(im.Format.Channels), im.Format.Levels()
	statsBytes, err := view(op.Stats, "Stats")
	if err != nil {
		return err
	}
	n := op.Count * channels
	if len(statsBytes) != n*int(unsafe.Sizeof(driver.MaskStats{})) || !aligned(statsBytes) {
		return fmt.Errorf("Stats: %d bytes for %d structs", len(statsBytes), n)
	}
	stats := unsafe.Slice((*driver.MaskStats)(unsafe.Pointer(unsafe.SliceData(statsBytes))), n)
	var hist []uint32
	if op.What&driver.MaskHistogram != 0 {
		histBytes, err := view(op.Hist, "Hist")
		if err != nil {
			return err
		}
		if len(histBytes) != n*levels*4 || !aligned(histBytes) {
			return fmt.Errorf("Hist: %d bytes for %d histograms of %d", len(histBytes), n, levels)
		}
		hist = unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(histBytes))), n*levels)
	}
	var next atomic.Int64
	return d.share("MaskReduce", min(d.threads, op.Count), func(*scratch) error {
		for {
			i := int(next.Add(1) - 1)
			if i >= op.Count {
				return nil
			}
			spans, err := p.regionSpans(op.First + i)
			if err != nil {
				return err
			}
			lo := sort.Search(len(spans), func(i int) bool { return int(spans[i].Y) >= op.Row0 })
			hi := sort.Search(len(spans), func(i int) bool { return int(spans[i].Y) >= op.Row0+im.Height })
			spans = spans[lo:max(lo, hi)]
			for c := range channels {
				at := int(im.Format.Order[c]) * int(im.Format.SampleBytes)
				st := driver.EmptyMaskStats
				var h []uint32
				if hist != nil {
					h = hist[(i*channels+c)*levels:][:levels]
					if !op.Accumulate {
						clear(h)
					}
				}
				for _, sp := range spans {
					if stop.Load() {
						return errAborted
					}
					y := int(sp.Y) - op.Row0
					if y < 0 || y >= im.Height || sp.X0 < 0 || sp.X0 >= sp.X1 || int(sp.X1) > im.Width {
						return errCorrupt
					}
					row := data[y*im.Stride:]
					for x := int(sp.X0); x < int(sp.X1); x++ {
						o := x*im.Format.PixelBytes() + at
						v := uint64(row[o])
						if im.Format.SampleBytes == 2 {
							v = uint64(binary.LittleEndian.Uint16(row[o:]))
						}
						st.Count++
						st.Sum += v
						st.SumSq += v * v
						if op.What&driver.MaskExtrema != 0 {
							pos := uint32(int(sp.Y)*im.Width + x)
							st.MinKey = min(st.MinKey, v<<32|uint64(pos))
							st.MaxKey = max(st.MaxKey, v<<32|uint64(^pos))
						}
						if op.What&driver.MaskMoments != 0 {
							st.SumX += uint64(x)
							st.SumY += uint64(sp.Y)
							st.SumVX += v * uint64(x)
							st.SumVY += v * uint64(sp.Y)
						}
						if h != nil {
							h[int(v)&(levels-1)]++
						}
					}
				}
				if op.Accumulate {
					st.Merge(stats[i*channels+c])
				}
				stats[i*channels+c] = st
			}
		}
	})
}
