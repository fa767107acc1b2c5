// Reduce: a frame and regions in, numbers out.

package polygon

import (
	"context"
	"errors"
	"sync"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// Reduce computes statistics of the pixels of f inside each region of set, in one job on dev. The prepared form of the
// regions is scratch of the job; where the same regions meet many frames, [Set.Prepare] once and [Prepared.Reduce] is
// cheaper.
//
// All methods give the same result, bit for bit, as does every backend. Bad frames and reductions give an
// [*kernels.InvalidError] with paths such as "frame.stride", before anything is enqueued; so do limits on channels that
// the frame does not have, and, after the pixels were looked at, a 16-bit sample inside a region that is above what the
// format's bits hold. Where the device has no room the error is a [*kernels.CapacityError]; a method that the backend
// lacks is [driver.ErrNotSupported]. A region that catches no pixel is no error.
func Reduce(ctx context.Context, dev *kernels.Device, set *Set, f kernels.Picture, r Reductions, m Method) (*Result,
	error) {
	p, err := newPlan(set, f, r)
	if err != nil {
		return nil, err
	}
	prep, size, err := set.preparation(dev, f.Width, f.Height, m)
	if err != nil {
		return nil, err
	}
	d := newDeriver(p, nil)
	err = d.run(ctx, dev, kernels.Bytes[byte](int(size)), 0, func(q *kernels.Queue) (driver.Slice, error) {
		b, err := prepare(q, prep, size)
		return b.Slice(), err
	})
	if err != nil {
		return nil, err
	}
	d.res.Method = methodUsed(dev, m)
	return d.res, nil
}

func checkMethod(m Method) error {
	if m > RowSpans {
		return invalid(path{"method"}, uint8(m), "must be 0 to %d", RowSpans)
	}
	return nil
}

// methodUsed names the method that the backend chose where m leaves it open.
func methodUsed(dev *kernels.Device, m Method) Method {
	if m == MethodDefault {
		return dev.Info().MaskMethod
	}
	return m
}

// histogramArena is how much device memory histograms of a batch of regions take at most: those of 16,384 regions of
// 256 levels, or 64 regions of 65,536. BenchmarkReduce/gray16/1000-small is slower with 64 MiB (out of the caches) and
// with 4 (too little in a round trip).
const histogramArena = 16 << 20

// run is the job of both kinds of Reduce: extra bytes are for prepare, which returns the prepared regions, or else the
// caller holds these, which take held bytes.
func (d *deriver) run(ctx context.Context, dev *kernels.Device, extra, held int64,
	prepare func(*kernels.Queue) (driver.Slice, error)) error {
	n, nc := d.set.Len(), len(d.channels)
	levels := d.frame.Format.Levels()

	// Only the rows that regions can reach are uploaded.
	_, y0, _, y1 := d.set.rows.pixels()
	y0, y1 = max(y0, 0), min(y1, d.frame.Height)
	if y0 >= y1 {
		y0, y1 = 0, 1
	}
	host := hostPool.Get().(*hostMemory)
	lent := false
	defer func() {
		if !lent {
			hostPool.Put(host)
		}
	}()
	size, uploaded := d.frame.Resident.Len(), 0
	if size > 0 {
		y0, y1 = 0, d.frame.Height
		host.pieces = host.pieces[:0]
	} else {
		host.pieces, size = rowsOf(&d.frame, host.pieces[:0], y0, y1)
		defer clear(host.pieces[:cap(host.pieces)])
		uploaded = size
	}

	perRegion, pairBytes := d.histogramBytes(), 4*int64(d.pairCounts())
	batch := n
	if perRegion+pairBytes > 0 {
		// On a small device histograms get a quarter of what is left beside frame and regions, so that calls can
		// overlap.
		arena := min(histogramArena, (dev.Info().MemoryBytes-extra-int64(size))/4)
		batch = int(max(1, min(int64(n), arena/(perRegion+pairBytes))))
	}
	hlen := 0
	if perRegion > 0 {
		hlen = batch * nc * levels
	}
	pairs, pairScratch, err := d.pairOp(dev, y0, y1)
	if err != nil {
		return err
	}
	plen := batch * d.pairCounts()
	footprint := extra + kernels.Bytes[byte](uploaded) + kernels.Bytes[driver.MaskStats](batch*nc) +
		kernels.Bytes[uint32](hlen) + kernels.Bytes[uint32](plen) + kernels.Bytes[byte](int(pairScratch))
	host.stats = grow(host.stats, batch*nc)
	host.hist = grow(host.hist, hlen)
	host.pairs = grow(host.pairs, plen)
	columns := d.histogram()
	switch {
	case columns == nil:
	case columns.Full && batch == n && levels < rangedLevels:
		columns.Counts, columns.lent = host.hist, host
	default:
		columns.makeCounts(n * nc)
	}

	work := int64(uploaded)
	work += d.set.work(0, n, d.frame.Width, y0, y1, d.frame.Format.PixelBytes()) * int64(1+len(d.offsets))
	job := kernels.Job{Label: "reduce", Footprint: footprint, Held: held + kernels.Held(d.frame.Resident), Units: work,
		Timing: &d.res.Timing}
	err = dev.Do(ctx, job, func(q *kernels.Queue) error {
		prepared, err := prepare(q)
		if err != nil {
			return err
		}
		pixels, err := kernels.Alloc[byte](q, uploaded, "frame")
		if err != nil {
			return err
		}
		stats, err := kernels.Alloc[driver.MaskStats](q, batch*nc, "sums")
		if err != nil {
			return err
		}
		hist, err := kernels.Alloc[uint32](q, hlen, "histograms")
		if err != nil {
			return err
		}
		counts, err := kernels.Alloc[uint32](q, plen, "pairs")
		if err != nil {
			return err
		}
		if pairs.Scratch, err = scratchOf(q, pairScratch); err != nil {
			return err
		}
		if err := kernels.UploadChunks(q, pixels, host.pieces); err != nil {
			return err
		}
		if uploaded == 0 {
			pixels = d.frame.Resident
		}
		if err := d.measureExtents(ctx, q.OnHost); err != nil { // while the device prepares and copies
			return err
		}
		op := driver.MaskReduce{
			Prepared: prepared,
			Frame: driver.Image{
				Data: pixels.Slice(), Width: d.frame.Width, Height: y1 - y0, Stride: d.frame.RowBytes(),
				Format: d.frame.Format,
			},
			Row0:   y0,
			What:   d.what,
			Colors: d.colors,
		}
		for first := 0; first < n; first += batch {
			count := min(batch, n-first)
			s := stats.Range(0, count*nc)
			h := hist.Range(0, 0)
			if perRegion > 0 {
				h = hist.Range(0, count*nc*levels)
			}
			if first > 0 {
				if err := q.Yield(); err != nil {
					return err
				}
			}
			op.First, op.Count = first, count
			if err := d.set.reduce(q, op, s, h); err != nil {
				return err
			}
			if plen > 0 {
				pairs.Prepared, pairs.Frame.Data, pairs.First, pairs.Count = prepared, op.Frame.Data, first, count
				if err := d.countPairs(q, pairs, counts.Range(0, count*d.pairCounts()), host.pairs); err != nil {
					return err
				}
			}
			src, err := host.download(q, s, h, levels)
			if err != nil {
				return err
			}
			if plen > 0 {
				src.pairs, src.each = host.pairs[:count*d.pairCounts()], d.pairCounts()/d.own
				src.own, src.channels = d.own, nc
			}
			if err := d.inPieces(first, host.stats[:count*nc], src, q.OnHost); err != nil {
				return err
			}
		}
		d.finish()
		return nil
	})
	lent = err == nil && columns != nil && columns.lent != nil
	return err
}

// rowsOf returns the pieces of rows [y0, y1) of a frame in host memory and their number of bytes; the gap behind the
// last of them is left out. The pieces are appended to dst.
func rowsOf(f *kernels.Picture, dst [][]byte, y0, y1 int) ([][]byte, int) {
	stride := f.RowBytes()
	from := y0 * stride
	n := (y1-y0-1)*stride + f.Width*f.Format.PixelBytes()
	left := n
	for _, p := range f.Data {
		if from >= len(p) {
			from -= len(p)
			continue
		}
		p = p[from:]
		from = 0
		if len(p) > left {
			p = p[:left]
		}
		if len(p) > 0 {
			dst = append(dst, p)
		}
		if left -= len(p); left == 0 {
			break
		}
	}
	return dst, n
}

// hostMemory is where a call's downloads go. It is pooled: with 65,536 bins it is large.
type hostMemory struct {
	pieces [][]byte
	stats  []driver.MaskStats
	hist   []uint32
	pairs  []uint32
}

var hostPool = sync.Pool{New: func() any { return new(hostMemory) }}

func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// rangedLevels is where histograms become so long that the sums are waited for first, and only what lies between min
// and max is copied.
const rangedLevels = 4096

// download waits for the results of a batch.
func (m *hostMemory) download(q *kernels.Queue, s kernels.Buffer[driver.MaskStats], h kernels.Buffer[uint32],
	levels int) (histogramSource, error) {
	stats := m.stats[:s.Len()]
	if err := kernels.Download(q, stats, s); err != nil {
		return histogramSource{}, err
	}
	if h.Len() == 0 {
		return histogramSource{}, q.Wait()
	}
	src := histogramSource{counts: m.hist[:h.Len()], levels: levels, ranged: levels > 256}
	if levels < rangedLevels {
		return src, errors.Join(kernels.Download(q, src.counts, h), q.Wait())
	}
	if err := q.Wait(); err != nil {
		return src, err
	}
	for i := range stats {
		if stats[i].Count == 0 {
			continue
		}
		lo, _ := stats[i].Min()
		hi, _ := stats[i].Max()
		if int(hi) >= levels {
			continue // the caller refuses the frame
		}
		from, to := i*levels+int(lo), i*levels+int(hi)+1
		if err := kernels.Download(q, src.counts[from:to], h.Range(from, to)); err != nil {
			return src, err
		}
	}
	return src, q.Wait()
}
