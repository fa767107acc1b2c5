// The oracle as a driver: masks.

package devicetest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"github.com/polyscan/polyscan/kernels/driver"
)

func init() {
	oracle(hostMaskPrepare)
	oracle(hostMaskReduce)
	oracle(hostMaskRaster)
}

// A prepared set of the oracle is what it was given: magic, width, height, regions, edges, runs, then those.
const (
	hostMagic  = 0x0ac1e000
	hostHeader = 6 * 4
)

// VoronoiScratch takes all methods for the same exact one, and so lacks the one that isn't exact.
func hostMaskPrepare(op *driver.MaskPrepare) error {
	p := Problem{Regions: op.Regions, Width: op.Width, Height: op.Height, Format: driver.Gray8, Stride: op.Width}
	if err := p.checkRegions(); err != nil {
		return err
	}
	b := view(op.Dst)[:0]
	put := func(v uint32) { b = binary.LittleEndian.AppendUint32(b, v) }
	for _, v := range []int{hostMagic, op.Width, op.Height, len(op.Regions.Regions), len(op.Regions.Edges),
		len(op.Regions.Runs)} {
		put(uint32(v))
	}
	for _, r := range op.Regions.Regions {
		put(r.First)
		put(r.Count)
		put(uint32(r.Fill))
	}
	for _, e := range op.Regions.Edges {
		for _, v := range []int32{e.X0, e.Y0, e.X1, e.Y1} {
			put(uint32(v))
		}
	}
	for _, u := range op.Regions.Runs {
		put(uint32(u.Y))
		put(uint32(u.X0))
		put(uint32(u.X1))
	}
	return nil
}

// preparedFor is [prepared] for an op on regions [first, first+count), whose frame holds rows from row0. The problem's
// pixels are the caller's to set.
func preparedFor(s driver.Slice, frame *driver.Image, row0, first, count int) (*Problem, error) {
	p, err := prepared(s)
	if err != nil {
		return nil, err
	}
	if frame.Width != p.Width || row0+frame.Height > p.Height {
		return nil, fmt.Errorf("rows [%d, %d+%d) of width %d for regions of %dx%d", row0, row0, frame.Height,
			frame.Width, p.Width, p.Height)
	}
	p.Format, p.Stride = frame.Format, frame.Stride
	p.First, p.Count = first, count
	p.Strips = []Strip{{row0, frame.Height}}
	return p, nil
}

// prepared reads a set back.
func prepared(s driver.Slice) (*Problem, error) {
	b := view(s)
	if len(b) < hostHeader || binary.LittleEndian.Uint32(b) != hostMagic {
		return nil, errors.New("no prepared regions")
	}
	b = b[4:]
	get := func() uint32 {
		v := binary.LittleEndian.Uint32(b)
		b = b[4:]
		return v
	}
	p := &Problem{Width: int(get()), Height: int(get())}
	p.Regions.Regions = make([]driver.Region, get())
	p.Regions.Edges = make([]driver.Edge, get())
	p.Regions.Runs = make([]driver.Run, get())
	for i := range p.Regions.Regions {
		p.Regions.Regions[i] = driver.Region{First: get(), Count: get(), Fill: driver.FillRule(get())}
	}
	for i := range p.Regions.Edges {
		p.Regions.Edges[i] = driver.Edge{X0: int32(get()), Y0: int32(get()), X1: int32(get()), Y1: int32(get())}
	}
	for i := range p.Regions.Runs {
		p.Regions.Runs[i] = driver.Run{Y: int32(get()), X0: int32(get()), X1: int32(get())}
	}
	return p, nil
}

func hostMaskReduce(op *driver.MaskReduce) error {
	p, err := prepared(op.Prepared)
	if err != nil {
		return err
	}
	if op.Frame.Width != p.Width {
		return fmt.Errorf("a frame %d wide for regions of %d", op.Frame.Width, p.Width)
	}
	p.Format, p.Stride = op.Frame.Format, op.Frame.Stride
	p.What, p.Colors, p.First, p.Count = op.Computes(), op.Colors, op.First, op.Count
	p.Strips = []Strip{{op.Row0, op.Frame.Height}}
	data := view(op.Frame.Data)
	if op.Row0 > p.Height {
		return fmt.Errorf("Row0 %d of %d", op.Row0, p.Height)
	}
	// Rows before the strip are not there; nobody looks at them.
	pixels := make([]byte, op.Row0*p.Stride, p.Stride*p.Height+len(data))
	p.Pixels = append(pixels, data...)
	if err := p.checkUse(); err != nil {
		return err
	}
	e := p.Expect()
	stats := view(op.Stats)
	hist := view(op.Hist)
	for i := range e.Stats {
		to := stats[i*int(unsafe.Sizeof(driver.MaskStats{})):]
		if op.Accumulate {
			old := getStats(to)
			old.Merge(e.Stats[i])
			e.Stats[i] = old
		}
		putStats(to, e.Stats[i])
	}
	for i, n := range e.Hist {
		if op.Accumulate {
			n += binary.LittleEndian.Uint32(hist[4*i:])
		}
		binary.LittleEndian.PutUint32(hist[4*i:], n)
	}
	return nil
}

// getStats and putStats read and write sums as they lie in memory.
func getStats(b []byte) (s driver.MaskStats) {
	for i, f := range statsFields {
		*f.of(&s) = binary.LittleEndian.Uint64(b[8*i:])
	}
	return s
}

func putStats(b []byte, s driver.MaskStats) {
	clear(b[:unsafe.Sizeof(s)])
	for i, f := range statsFields {
		binary.LittleEndian.PutUint64(b[8*i:], *f.of(&s))
	}
}

func hostMaskRaster(op *driver.MaskRaster) error {
	p, err := prepared(op.Prepared)
	if err != nil {
		return err
	}
	if op.Dst.Width != p.Width || op.Dst.Height != p.Height {
		return fmt.Errorf("an image of %dx%d for regions of %dx%d", op.Dst.Width, op.Dst.Height, p.Width, p.Height)
	}
	p.Format = op.Dst.Format
	p.First, p.Count = op.First, op.Count
	p.Stride = op.Dst.Stride
	if err := p.checkUse(); err != nil {
		return err
	}
	dst := view(op.Dst.Data)
	e := p.Expect()
	for y := range p.Height {
		for x := range p.Width {
			if i := y*p.Width + x; op.Mode == driver.RasterMask {
				dst[y*p.Stride+x] = e.Mask[i]
			} else {
				binary.LittleEndian.PutUint16(dst[y*p.Stride+2*x:], e.Labels[i])
			}
		}
	}
	return nil
}
