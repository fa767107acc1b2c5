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
	d := newDeriver(p, known{})
	if d.cover, err = p.coverOf(ctx, dev); err != nil {
		return nil, err
	}
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
	if d.covered {
		top, bottom := d.set.rows.coverRows()
		y0, y1 = min(y0, top), max(y1, bottom)
	}
	if d.slopes > 0 { // which look at the pixels above and below
		y0, y1 = y0-1, y1+1
	}
	y0, y1 = max(y0, 0), min(y1, d.frame.Height)
	if y0 >= y1 {
		y0, y1 = 0, 1
	}
	host := hostPool.Get().(*hostMemory)
	lent := false
	defer func() {
		host.shrink()
		if !lent {
			hostPool.Put(host)
		}
	}()
	intake := &host.intake
	intake.Take(&d.frame, y0, y1)
	defer intake.Forget()
	y0, y1 = intake.Rows()
	size := int64(d.frame.Resident.Len()) + intake.Footprint()

	frameChannels := nc - d.slopes
	perRegion, pairBytes, weightLevels := d.histogramBytes(), 4*int64(d.pairCounts()), 0
	if d.coveredHistogram {
		weightLevels = levels
		pairBytes += 8 * int64(d.own*levels)
	}
	pairBytes += kernels.Bytes[driver.PairSums](d.correlationSums(1))
	batch := n
	if perRegion+pairBytes > 0 {
		// On a small device histograms get a quarter of what is left beside frame and regions, so that calls can
		// overlap.
		arena := min(histogramArena, (dev.Info().MemoryBytes-extra-size)/4)
		batch = int(max(1, min(int64(n), arena/(perRegion+pairBytes))))
	}
	hlen := 0
	if perRegion > 0 {
		hlen = batch * frameChannels * levels
	}
	pairs, pairScratch, err := d.pairOp(dev, y0, y1, intake.Stride())
	if err != nil {
		return err
	}
	found, blobBytes, err := d.blobOp(dev, y0, y1, intake.Stride(), batch)
	if err != nil {
		return err
	}
	plen, wlen := batch*d.pairCounts(), 0
	coverBytes := int64(0)
	if d.covered {
		wlen = batch * d.own
	}
	if d.cover != nil {
		coverBytes = d.cover.bytes()
	}
	correlates, correlateScratch, err := d.correlationOps(dev, y0, y1, intake.Stride())
	if err != nil {
		return err
	}
	others, more := d.takeOthers(y0, y1)
	defer func() {
		for _, o := range others {
			o.Forget()
		}
	}()
	clen := d.correlationSums(batch)
	slopes := d.derivativesOf(y0, y1, batch)
	footprint := extra + intake.Footprint() + kernels.Bytes[driver.MaskStats](batch*frameChannels) +
		kernels.Bytes[uint32](hlen) + kernels.Bytes[uint32](plen) + kernels.Bytes[byte](int(pairScratch)) +
		kernels.Bytes[byte](int(coverBytes)) + kernels.Bytes[driver.WeightSums](wlen) +
		kernels.Bytes[int64](wlen*weightLevels) + kernels.Bytes[driver.PairSums](clen) +
		kernels.Bytes[byte](int(correlateScratch)) + more + blobBytes + slopes.bytes()
	columns := d.histogram()

	work := intake.Work()
	work += d.set.work(0, n, d.frame.Width, y0, y1, d.frame.Format.PixelBytes()) * (int64(1+len(d.offsets)) +
		d.correlationWork())
	if found != nil {
		work += int64(1+len(d.blobSteps)) * d.set.work(0, n, d.frame.Width, y0, y1, 1)
	}
	work += int64(d.slopes) * d.set.work(0, n, d.frame.Width, y0, y1, 2)
	held += kernels.Held(d.frame.Resident)
	for name, f := range d.others {
		held += kernels.Held(f.Resident)
		work += others[name].Work()
	}
	job := kernels.Job{Label: "reduce", Footprint: footprint, Held: held, Units: work,
		Timing: &d.res.Timing}
	err = dev.Do(ctx, job, func(q *kernels.Queue) error {
		// Only jobs that run have memory for what comes of them: hundreds may wait.
		host.stats, host.weights = grow(host.stats, batch*frameChannels), grow(host.weights, wlen)
		host.sums = grow(host.sums, clen)
		// Nor have those that end before there are counts, but for what another call has left.
		bytes := 4*(hlen+plen) + 8*wlen*weightLevels
		left := 4 * min(hlen, cap(host.hist))
		kernels.Made(ctx, left)
		makeRoom := func() error {
			if bytes >= waitedFor {
				if err := q.Wait(); err != nil {
					return err
				}
			}
			host.hist, host.pairs = grow(host.hist, hlen), grow(host.pairs, plen)
			host.weightHist = grow(host.weightHist, wlen*weightLevels)
			kernels.Made(ctx, 2*bytes-left) // with results of as much
			if columns != nil && columns.Full && batch == n && levels < rangedLevels {
				columns.Counts, columns.lent = slopes.counts(host, nc*levels), host
			}
			if to := d.res.Columns; to != nil {
				to.makeCounts(d.plan)
			}
			return nil
		}
		prepared, err := prepare(q)
		if err != nil {
			return err
		}
		stats, err := kernels.Alloc[driver.MaskStats](q, batch*frameChannels, "sums")
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
		weightSums, err := kernels.Alloc[driver.WeightSums](q, wlen, "weighted sums")
		if err != nil {
			return err
		}
		weightHist, err := kernels.Alloc[int64](q, wlen*weightLevels, "weighted histograms")
		if err != nil {
			return err
		}
		if d.cover != nil {
			to, err := kernels.Alloc[byte](q, int(coverBytes), "boundary pixels")
			if err != nil {
				return err
			}
			if d.there, err = d.cover.upload(q, to); err != nil {
				return err
			}
		}
		if err := found.alloc(q); err != nil {
			return err
		}
		sums, err := kernels.Alloc[driver.PairSums](q, clen, "correlations")
		if err != nil {
			return err
		}
		room, err := scratchOf(q, correlateScratch)
		if err != nil {
			return err
		}
		frame, err := intake.Run(q)
		if err != nil {
			return err
		}
		if err := slopes.run(q, frame); err != nil {
			return err
		}
		if err := d.runOthers(q, others, correlates); err != nil {
			return err
		}
		if err := d.measure(ctx, q.OnHost); err != nil { // while the device prepares and copies
			return err
		}
		op := driver.MaskReduce{
			Prepared: prepared,
			Frame:    frame,
			Row0:     y0,
			What:     d.what,
			Colors:   d.colors,
		}
		for first := 0; first < n; first += batch {
			count := min(batch, n-first)
			s := stats.Range(0, count*frameChannels)
			h := hist.Range(0, 0)
			if perRegion > 0 {
				h = hist.Range(0, count*frameChannels*levels)
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
				if err := d.countPairs(q, pairs, counts.Range(0, count*d.pairCounts())); err != nil {
					return err
				}
			}
			if d.covered {
				n := count * d.own
				if err := d.weigh(q, op.Frame, y0, first, count, weightSums.Range(0, n),
					weightHist.Range(0, n*weightLevels)); err != nil {
					return err
				}
			}
			if clen > 0 {
				if err := d.correlate(q, correlates, prepared, room, op.Frame.Data, first, count, sums,
					host.sums); err != nil {
					return err
				}
			}
			if first == 0 {
				if err := makeRoom(); err != nil {
					return err
				}
			}
			if err := errors.Join(downloadTo(q, host.pairs, counts, count*d.pairCounts()),
				downloadTo(q, host.weights, weightSums, count*d.own),
				downloadTo(q, host.weightHist, weightHist, count*d.own*weightLevels)); err != nil {
				return err
			}
			src, err := download(q, host.stats, s, host.hist, h, levels)
			if err != nil {
				return err
			}
			regions := host.stats
			if slopes != nil {
				if regions, src, err = slopes.join(q, op, host, src); err != nil {
					return err
				}
			}
			if err := intake.Err("frame"); err != nil {
				return err
			}
			for name, o := range others {
				if err := o.Err("frames", name); err != nil {
					return err
				}
			}
			src.own, src.channels = d.own, nc
			if d.covered {
				src.weights = host.weights[:count*d.own]
			}
			if d.coveredHistogram {
				src.weightHist = host.weightHist[:count*d.own*levels]
			}
			if found != nil {
				found.op.Prepared, found.op.Frame = prepared, op.Frame
				if err := d.findBlobs(ctx, q, found, first, d.ranges(regions[:count*nc], src)); err != nil {
					return err
				}
			}
			if plen > 0 {
				src.pairs, src.each = host.pairs[:count*d.pairCounts()], d.pairCounts()/d.own
			}
			if clen > 0 {
				src.correlated = pairSource{sums: host.sums, count: count}
			}
			if err := d.inPieces(first, regions[:count*nc], src, q.OnHost); err != nil {
				return err
			}
		}
		if err := d.settle(q.OnHost); err != nil {
			return err
		}
		d.finish()
		return nil
	})
	lent = err == nil && columns != nil && columns.lent != nil
	return err
}

// hostMemory is where a call's downloads go. It is pooled: with 65,536 bins it is large. What lies in the pool is in
// no call's share of the host's memory, so what takes longer to count than to make doesn't.
type hostMemory struct {
	intake kernels.Intake
	stats  []driver.MaskStats
	hist   []uint32
	pairs  []uint32
	sums   []driver.PairSums

	slopes     []driver.MaskStats // of one derivative
	slopeHist  []uint32
	joined     []driver.MaskStats // those of stats, and of derivatives behind them
	joinedHist []uint32

	weights    []driver.WeightSums
	weightHist []int64
}

func (m *hostMemory) shrink() {
	if 4*cap(m.pairs)+8*cap(m.weightHist) >= waitedFor {
		m.pairs, m.weightHist = nil, nil
	}
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

// waitedFor is from how many bytes on the counts of a call are waited for before they have memory on the host. Below it
// the wait for the device takes longer than what is copied then.
const waitedFor = 1 << 20

// downloadTo enqueues the copy of the first n elements, which are none where there is no such buffer.
func downloadTo[T kernels.Elem](q *kernels.Queue, host []T, from kernels.Buffer[T], n int) error {
	if n = min(n, from.Len()); n == 0 {
		return nil
	}
	return kernels.Download(q, host[:n], from.Range(0, n))
}

// download waits for the results of a batch, and puts them into stats and hist.
func download(q *kernels.Queue, stats []driver.MaskStats, s kernels.Buffer[driver.MaskStats], hist []uint32,
	h kernels.Buffer[uint32], levels int) (histogramSource, error) {
	stats = stats[:s.Len()]
	if err := kernels.Download(q, stats, s); err != nil {
		return histogramSource{}, err
	}
	if h.Len() == 0 {
		return histogramSource{}, q.Wait()
	}
	src := histogramSource{counts: hist[:h.Len()], levels: levels, ranged: levels > 256}
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
