// MaskReduce: folds over the pixels of prepared regions.

package cpu

import (
	"errors"
	"math"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/polyscan/polyscan/kernels/driver"
)

var errCorrupt = errors.New("Prepared: spans outside of the image")

// reduceScratch is what a worker needs for a chunk of pixels, and to gather a region's histograms where it shares
// the region with others.
type reduceScratch struct {
	packed chunk
	planes [4]chunk
	work   [hist8Scratch]byte
	narrow [driver.MaxColorChannels][256]uint32 // by channel; zero between uses
	wide   []uint32                             // for 16-bit samples; likewise
	color  *colorScratch                        // where colours are derived
}

// reduction is an op in progress.
type reduction struct {
	driver.MaskReduce
	prepared prepared
	frame    []byte
	geometry geometry
	stats    []driver.MaskStats
	hist     []uint32
	channels int
	levels   int
	shifts   []uint8 // of each channel, from its samples to the bins of its histogram

	tasks []reduceTask
	next  atomic.Int64 // first task that nobody has taken
	mu    sync.Mutex   // held to merge into the stats and histograms of a region that is in several tasks
}

// reduceTask is either whole regions, first to last, or some of the spans of region first. Regions count from
// MaskReduce.First.
type reduceTask struct {
	first, last int
	spans       []span
	part        bool
}

// minTaskPixels is the least number of pixels of a task where an op is split, so many that its cost does not show.
// A variable, so that tests split small regions.
var minTaskPixels uint64 = 1 << 16

// tasksPerThread makes threads finish at about the same time.
const tasksPerThread = 8

func (d *device) maskReduce(op *driver.MaskReduce, stop *stopFlag) error {
	r := &reduction{MaskReduce: *op}
	r.What = op.Computes()
	if err := r.open(); err != nil {
		return err
	}
	pixels, err := r.plan(d.threads)
	if err != nil {
		return err
	}
	// A second thread for less than two tasks' worth costs more than it gives.
	n := min(d.threads, len(r.tasks), 1+int(pixels/(2*minTaskPixels)))
	return d.share("MaskReduce", n, stop, r.work)
}

// open makes views of the memory, and checks that the frame is of the image that the regions were prepared for.
func (r *reduction) open() (err error) {
	im := r.Frame
	if r.prepared, err = openPreparedFor(r.Prepared, &im, r.Row0, r.First, r.Count); err != nil {
		return err
	}
	r.frame = view(r.Frame.Data)
	r.geometry = geometry{
		row0: r.Row0, height: im.Height, width: im.Width,
		stride: im.Stride, pixel: im.Format.PixelBytes(), safe: len(r.frame) - wideReads(),
	}
	r.channels, r.levels = r.MaskReduce.Channels(), im.Format.Levels()
	if r.Colors.Spaces != 0 {
		r.shifts = r.Colors.Spaces.ColorShifts(make([]uint8, im.Format.Channels, driver.MaxColorChannels))
	}
	r.stats, r.hist = viewAs[driver.MaskStats](r.Stats), viewAs[uint32](r.Hist)
	return nil
}

// spansOf returns the spans of a region, counted from First, that are in the frame, and about how many pixels
// they have.
func (r *reduction) spansOf(i int) ([]span, uint64, error) {
	e := &r.prepared.regions[r.First+i]
	lo, hi := r.Row0, r.Row0+r.Frame.Height
	if e.Count == 0 || int(e.Y1) <= lo || int(e.Y0) >= hi {
		return nil, 0, nil
	}
	spans, err := r.prepared.regionSpans(r.First + i)
	if err != nil || int(e.Y0) >= lo && int(e.Y1) <= hi {
		return spans, e.Pixels, err
	}
	above := sort.Search(len(spans), func(k int) bool { return int(spans[k].Y) >= lo })
	spans = spans[above:]
	spans = spans[:sort.Search(len(spans), func(k int) bool { return int(spans[k].Y) >= hi })]
	return spans, uint64(float64(e.Pixels) / float64(e.Count) * float64(len(spans))), nil
}

// plan makes the tasks and returns about how many pixels they have together.
func (r *reduction) plan(threads int) (uint64, error) {
	if threads == 1 {
		r.tasks = []reduceTask{{first: 0, last: r.Count}}
		return 0, nil
	}
	var total uint64
	for i := range r.Count {
		_, n, err := r.spansOf(i)
		if err != nil {
			return 0, err
		}
		total += n
	}
	target := max(minTaskPixels, total/uint64(tasksPerThread*threads))
	// Regions cost something beside their pixels.
	const regionPixels = 256
	group, pixels := 0, uint64(0)
	for i := range r.Count {
		spans, n, err := r.spansOf(i)
		if err != nil {
			return 0, err
		}
		if parts := min(n/target, uint64(len(spans))); parts >= 2 {
			if group < i {
				r.tasks = append(r.tasks, reduceTask{first: group, last: i})
			}
			group, pixels = i+1, 0
			r.begin(i)
			for k := range parts {
				from, to := uint64(len(spans))*k/parts, uint64(len(spans))*(k+1)/parts
				r.tasks = append(r.tasks, reduceTask{first: i, spans: spans[from:to], part: true})
			}
			continue
		}
		if pixels += n + regionPixels; pixels >= target {
			r.tasks = append(r.tasks, reduceTask{first: group, last: i + 1})
			group, pixels = i+1, 0
		}
	}
	if group < r.Count {
		r.tasks = append(r.tasks, reduceTask{first: group, last: r.Count})
	}
	return total, nil
}

// begin makes the results of a region that parts are merged into.
func (r *reduction) begin(i int) {
	if r.Accumulate {
		return
	}
	for c := range r.channels {
		r.stats[i*r.channels+c] = driver.EmptyMaskStats
	}
	clear(r.histograms(i))
}

// histograms returns the histograms of a region, one channel after the other, or nil.
func (r *reduction) histograms(i int) []uint32 {
	if r.hist == nil {
		return nil
	}
	n := r.channels * r.levels
	return r.hist[i*n : (i+1)*n : (i+1)*n]
}

// work takes tasks until there are none.
func (r *reduction) work(sc *scratch) error {
	s := &sc.reduce
	var a accumulator
	shared := -1 // the region whose parts a holds
	defer func() {
		if shared >= 0 {
			r.merge(s, &a, shared)
		}
	}()
	for {
		i := int(r.next.Add(1) - 1)
		if i >= len(r.tasks) {
			return nil
		}
		t := &r.tasks[i]
		if t.part {
			if shared != t.first {
				if shared >= 0 {
					r.merge(s, &a, shared)
				}
				a.reset(r.channels)
				shared = t.first
				r.private(s, &a)
			}
			if err := r.fold(sc, &a, t.spans); err != nil {
				return err
			}
			continue
		}
		var own accumulator
		for i := t.first; i < t.last; i++ {
			spans, _, err := r.spansOf(i)
			if err != nil {
				return err
			}
			own.reset(r.channels)
			r.begin(i)
			h := r.histograms(i)
			for c := range r.channels {
				if h != nil {
					own.hist[c] = h[c*r.levels : (c+1)*r.levels]
				}
			}
			if err := r.fold(sc, &own, spans); err != nil {
				return err
			}
			for c := range r.channels {
				r.stats[i*r.channels+c].Merge(own.stats[c])
			}
		}
	}
}

// private makes a count into the worker's own histograms.
func (r *reduction) private(s *reduceScratch, a *accumulator) {
	if r.hist == nil {
		return
	}
	if r.Frame.Format.SampleBytes == 2 {
		if s.wide == nil {
			s.wide = make([]uint32, 1<<16)
		}
		a.hist[0] = s.wide[:r.levels]
		return
	}
	for c := range r.channels {
		a.hist[c] = s.narrow[c][:]
	}
}

// merge adds what a worker has of a region it shares.
func (r *reduction) merge(s *reduceScratch, a *accumulator, i int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.histograms(i)
	for c := range r.channels {
		r.stats[i*r.channels+c].Merge(a.stats[c])
		if h == nil {
			continue
		}
		if a.least[c] > a.most[c] {
			continue // nothing was counted
		}
		lo, hi := int(a.least[c]), int(a.most[c])
		if r.shifts != nil {
			half := 1 << r.shifts[c] / 2
			lo, hi = (lo+half)>>r.shifts[c], (hi+half)>>r.shifts[c]
		}
		if hi >= r.levels {
			lo, hi = 0, r.levels-1 // values that wrapped around
		}
		to, from := h[c*r.levels:][lo:hi+1], a.hist[c][lo:hi+1]
		for v, n := range from {
			to[v] += n
		}
		clear(from)
	}
}

// accumulator is the sums of a region's pixels by channel.
type accumulator struct {
	stats       [driver.MaxColorChannels]driver.MaskStats
	least, most [driver.MaxColorChannels]uint64 // values; least > most where there are none
	hist        [driver.MaxColorChannels][]uint32
}

func (a *accumulator) reset(channels int) {
	for c := range channels {
		a.stats[c] = driver.EmptyMaskStats
		a.least[c], a.most[c] = math.MaxUint64, 0
	}
}

// fold adds the pixels of spans. The pixels are packed into chunks that stay in cache, channels are split apart, and
// then each sum is a loop over plain bytes, however short the spans are.
func (r *reduction) fold(sc *scratch, a *accumulator, spans []span) error {
	s := &sc.reduce
	g := &r.geometry
	gray8 := g.pixel == 1
	room := chunkBytes - chunkBytes%g.pixel
	own := int(r.Frame.Format.Channels)
	skip := 0 // pixels of spans[0] that are done
	for len(spans) > 0 {
		if sc.pace.spend(chunkBytes / 4) {
			return errAborted
		}
		pixels := packedPixels{plane: &s.packed, spans: spans, skip: skip}
		n, taken, sum := 0, 0, noSums
		if skip == 0 {
			if gray8 {
				taken, n, sum = gather8(&s.packed, room, r.frame, g, spans)
			} else {
				taken, n = pack(&s.packed, room, r.frame, g, spans)
			}
			spans = spans[taken:]
			pixels.whole = taken
		}
		if len(spans) > 0 && n <= room/4*3 {
			// A span that is longer than a chunk, at the end of the frame, or wrong.
			p, err := r.pixelsOf(spans[0])
			if err != nil {
				return err
			}
			more := copy(s.packed[n:room], p[skip*g.pixel:])
			if gray8 {
				sum.add(sums8(&s.packed, n, more))
			}
			n += more
			pixels.rest = more / g.pixel
			if skip += pixels.rest; skip == len(p)/g.pixel {
				spans, skip = spans[1:], 0
			}
		}
		pixels.n = n / g.pixel
		if gray8 {
			r.chunk(s, a, 0, pixels, sum)
			continue
		}
		if own > 1 {
			split(&s.planes, &s.packed, own, pixels.n)
		}
		for c := range own {
			if own > 1 {
				pixels.plane = &s.planes[r.Frame.Format.Order[c]]
			}
			if pixels.wide = r.Frame.Format.SampleBytes == 2; pixels.wide {
				sum = sums16(pixels.plane, pixels.n)
			} else {
				sum = sums8(pixels.plane, 0, pixels.n)
			}
			r.chunk(s, a, c, pixels, sum)
		}
		if r.Colors.Spaces != 0 {
			r.colors(s, a, pixels)
		}
	}
	return nil
}

// pixelsOf returns the bytes of a span after checking it.
func (r *reduction) pixelsOf(s span) ([]byte, error) {
	g := r.geometry
	g.safe = len(r.frame)
	p := g.pixels(r.frame, s)
	if p == nil {
		return nil, errCorrupt
	}
	return p, nil
}

// packedPixels are n samples beside each other: those of the first whole ones of spans, and then rest samples of the
// next, of which skip were left out. One of whole and skip is 0.
type packedPixels struct {
	plane *chunk
	n     int
	spans []span
	whole int
	rest  int
	skip  int
	wide  bool  // samples of 16 bits
	shift uint8 // from derived samples to bins of their histogram
}

// chunk adds the samples of a channel, whose sums are known.
func (r *reduction) chunk(s *reduceScratch, a *accumulator, c int, p packedPixels, sum sums) {
	st := &a.stats[c]
	// Spans come in row-major order, so only a lesser value can be a new minimum; then it is looked for.
	if r.What&driver.MaskExtrema != 0 {
		if sum.least < st.MinKey>>32 {
			st.MinKey = sum.least<<32 | uint64(r.locate(p, sum.least))
		}
		if st.Count == 0 || sum.most > st.MaxKey>>32 {
			st.MaxKey = sum.most<<32 | uint64(^r.locate(p, sum.most))
		}
	}
	st.Count += uint64(p.n)
	st.Sum += sum.sum
	st.SumSq += sum.sumSq
	a.least[c], a.most[c] = min(a.least[c], sum.least), max(a.most[c], sum.most)
	if r.What&driver.MaskMoments != 0 {
		r.moments(st, p)
	}
	switch {
	case a.hist[c] == nil:
	case p.wide && r.shifts != nil: // derived
		bins := &s.color.bins
		bins16(bins, p.plane, p.n, p.shift)
		half := uint64(1) << p.shift / 2
		hist8(bins, p.n, (sum.least+half)>>p.shift, (sum.most+half)>>p.shift, (*[256]uint32)(a.hist[c]), &s.work)
	case p.wide:
		hist16(p.plane, p.n, a.hist[c])
	default:
		hist8(p.plane, p.n, sum.least, sum.most, (*[256]uint32)(a.hist[c]), &s.work)
	}
}

// locate returns the row-major index of the first pixel that has the value, which is there.
func (r *reduction) locate(p packedPixels, value uint64) uint32 {
	at := indexOf(p.plane, p.n, value, p.wide) + p.skip
	for _, sp := range p.spans {
		n := int(sp.X1 - sp.X0)
		if at < n {
			return uint32(int(sp.Y)*r.Frame.Width + int(sp.X0) + at)
		}
		at -= n
	}
	return 0
}

// moments adds the sums that depend on where a pixel is.
func (r *reduction) moments(st *driver.MaskStats, p packedPixels) {
	var m moments
	if !p.wide {
		m = moments8Spans(p.plane, p.spans[:p.whole])
	} else {
		at := 0
		for _, sp := range p.spans[:p.whole] {
			n := int(sp.X1 - sp.X0)
			sum, first := moments16(p.plane, at, n)
			m.add(sp.Y, sp.X0, n, sum, first)
			at += n
		}
	}
	if n := p.rest; n > 0 {
		sp := p.spans[p.whole]
		var sum, first uint64
		if p.wide {
			sum, first = moments16(p.plane, p.n-n, n)
		} else {
			sum, first = moments8(p.plane, p.n-n, n)
		}
		m.add(sp.Y, sp.X0+int32(p.skip), n, sum, first)
	}
	st.SumX += m.x
	st.SumY += m.y
	st.SumVX += m.vx
	st.SumVY += m.vy
}
