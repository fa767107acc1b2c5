// Deriving results on the host from the integers that a device returns.

package polygon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/polyscan/polyscan/internal/exact"
	"github.com/polyscan/polyscan/kernels/driver"
)

// geometry is what is known of a region inside a frame of one size without looking at pixels.
type geometry struct {
	bounds        Rect
	coverage      float64
	coverageKnown bool
}

// known is what an earlier call found out about all regions, which is only read; the zero value for nothing.
type known struct {
	geo     []geometry
	moments []moments // nil where no plane was wanted yet
}

// deriver makes the results of one call, batch by batch.
type deriver struct {
	*plan
	res *Result
	known
	made   bool        // geo is known already
	links  []link      // of all regions; nil where none is compared with another
	cover  *coverage   // to be uploaded; nil where it is there, or not wanted
	there  coverMemory // what is
	values [][]float64 // of all regions, what limits between regions need: of each quantity, all channels
	totals []int64     // pixels of each region with no frame, -1 where unknown; nil where none sticks out
	steps  int64       // that counting them may take

	regionBlobs []RegionBlobs // of all regions, where blobs are wanted
}

// newDeriver allocates the results of a call in few pieces.
func newDeriver(p *plan, cached known) *deriver {
	n, nc := p.set.Len(), len(p.channels)
	d := &deriver{plan: p, res: &Result{Scale: p.set.scale, Pose: p.set.pose}, known: cached, made: cached.geo != nil,
		steps: extentBudget}
	if !d.made {
		d.geo = make([]geometry, n)
	}
	if p.want.Has(Distances) && p.set.linked != nil || p.set.wanted != nil {
		d.links = make([]link, n)
	}
	if p.set.wanted != nil {
		d.values = make([][]float64, n)
	}
	if p.output.Columns {
		d.res.Columns = newColumns(p)
		return d
	}
	d.res.Regions = make([]RegionResult, n)
	channels := make([]ChannelStatistics, n*nc)
	var percentiles []PercentileValue
	np := len(p.percentiles)
	if np > 0 {
		percentiles = make([]PercentileValue, n*nc*np)
	}
	var histograms []HistogramCounts
	var counts, cumulative []uint64
	if p.asked.Has(Cumulative) {
		cumulative = make([]uint64, n*nc*p.bins.bins)
	}
	if p.asked.Has(Histogram) {
		histograms = make([]HistogramCounts, n*nc)
		counts = make([]uint64, n*nc*p.bins.bins)
	}
	nt := p.listedOffsets
	var textures []TextureValue
	if nt > 0 {
		textures = make([]TextureValue, n*nc*nt)
	}
	nk := p.listedCorrelations
	var correlations []CorrelationValue
	if nk > 0 {
		correlations = make([]CorrelationValue, n*nc*nk)
	}
	var limits []LimitResult
	if p.set.limitFrom != nil {
		limits = make([]LimitResult, len(p.set.limits))
	}
	for i := range d.res.Regions {
		r := &d.res.Regions[i]
		r.Index, r.Name, r.Area = i, p.set.names[i], p.set.areas[i]
		r.Channels = channels[i*nc : (i+1)*nc : (i+1)*nc]
		for c := range r.Channels {
			ch := &r.Channels[c]
			ch.Channel = p.channels[c]
			k := i*nc + c
			if np > 0 {
				ch.Percentiles = percentiles[k*np : (k+1)*np : (k+1)*np]
			}
			if nt > 0 {
				ch.Textures = textures[k*nt : (k+1)*nt : (k+1)*nt]
			}
			if nk > 0 {
				ch.Correlations = correlations[k*nk : (k+1)*nk : (k+1)*nk]
			}
			if cumulative != nil {
				ch.Cumulative = cumulative[k*p.bins.bins : (k+1)*p.bins.bins : (k+1)*p.bins.bins]
			}
			if histograms != nil {
				ch.Histogram = &histograms[k]
				ch.Histogram.Counts = counts[k*p.bins.bins : (k+1)*p.bins.bins : (k+1)*p.bins.bins]
			}
		}
		if limits != nil {
			from, to := p.set.limitFrom[i], p.set.limitFrom[i+1]
			r.Limits = limits[from:to:to]
		}
	}
	return d
}

// sticksOut says whether region i may have pixels outside the frame.
func (p *plan) sticksOut(i int) bool { return p.set.sticksOut(i, p.frame.Width, p.frame.Height) }

// measure finds what is wanted of the regions and isn't known, as measureExtents does.
func (d *deriver) measure(ctx context.Context, onHost func(func(pause func() error) error) error) error {
	if err := d.measureExtents(ctx, onHost); err != nil {
		return err
	}
	return d.measureMoments(ctx, onHost)
}

// measureExtents counts the pixels of the regions that stick out, in order until the budget is spent, so that the
// outcome does not depend on threads.
//
// onHost is for many edges: [kernels.Queue.OnHost], or that of the device.
func (d *deriver) measureExtents(ctx context.Context, onHost func(func(pause func() error) error) error) error {
	if d.made {
		return nil
	}
	edges := 0
	for i := range d.set.regions {
		if d.sticksOut(i) {
			edges += len(d.set.edgesOf(i))
		}
	}
	const few = 1 << 12 // in rows that edges share, some milliseconds
	if edges <= few {
		return d.countExtents(ctx, nil)
	}
	return onHost(func(pause func() error) error { return d.countExtents(ctx, pause) })
}

// countExtents is measureExtents. pause, where it isn't nil, lets others go first; its error ends the counting.
func (d *deriver) countExtents(ctx context.Context, pause func() error) error {
	x := extent{ctx: ctx, steps: d.steps, pause: pause, last: time.Now()}
	for i := range d.set.regions {
		if !d.sticksOut(i) {
			continue
		}
		if d.totals == nil {
			d.totals = make([]int64, d.set.Len())
		}
		if d.set.regions[i].Fill == driver.ByRuns {
			d.totals[i] = int64(d.set.areas[i]) // below 2^53
			continue
		}
		d.totals[i] = -1
		if n, ok := x.pixels(d.set.edgesOf(i), d.set.regions[i].Fill); ok {
			d.totals[i] = int64(n)
		} else if x.err != nil {
			return x.err
		}
	}
	return nil
}

// parallelWork is how much a goroutine should have to do to be worth starting, in regions of 256 levels and one
// channel, each of which takes half a microsecond or more.
const parallelWork = 64

// inPieces is batch, of which much is done on a place of the host, where others go first between pieces that take about
// half a millisecond.
func (d *deriver) inPieces(first int, stats []driver.MaskStats, hist histogramSource,
	onHost func(func(pause func() error) error) error) error {
	nc := len(d.channels)
	each := 1
	if d.want&needHistogram != 0 {
		each += nc * (d.frame.Format.Levels() / 256)
	}
	each += (d.pairCounts() + 4*nc*len(d.correlations)) / 256
	const piece = 1 << 11 // in the unit of parallelWork
	step := max(piece/each, 1)
	n := len(stats) / nc
	if n <= step {
		return d.batch(first, stats, hist)
	}
	return onHost(func(pause func() error) error {
		for at := 0; at < n; at += step {
			if at > 0 {
				if err := pause(); err != nil {
					return err
				}
			}
			if err := d.batch(first+at, stats[at*nc:min(at+step, n)*nc], hist.from(at*nc)); err != nil {
				return err
			}
		}
		return nil
	})
}

// batch derives regions first to first+len(stats)/channels. hist(i, c) returns the counts of channel c of region i for
// the values from lo on. stats and the histograms are only read.
func (d *deriver) batch(first int, stats []driver.MaskStats, hist histogramSource) error {
	nc := len(d.channels)
	n := len(stats) / nc
	work := n
	if d.want&needHistogram != 0 {
		work += n * nc * (d.frame.Format.Levels() / 256)
	}
	work += n * (d.pairCounts() / 256)
	workers := min(runtime.GOMAXPROCS(0), n, work/parallelWork)
	if workers <= 1 {
		return d.regions(first, n, stats, hist)
	}
	return inParallel(workers, func(w int) error {
		from, to := n*w/workers, n*(w+1)/workers
		return d.regions(first+from, to-from, stats[from*nc:to*nc], hist.from(from*nc))
	})
}

// inParallel runs f(0) to f(n-1), each in a goroutine, and returns the error of the lowest. A panic in one of them is
// raised again here when all have ended: callers can recover from it, and not in goroutines that they don't know.
func inParallel(n int, f func(i int) error) error {
	errs, panics := make([]error, n), make([]any, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					panics[i] = fmt.Sprintf("%v\n%s", p, debug.Stack())
				}
			}()
			errs[i] = f(i)
		})
	}
	wg.Wait()
	for _, p := range panics {
		if p != nil {
			panic(p)
		}
	}
	return cmp.Or(errs...)
}

// scratch is a worker's memory.
type scratch struct {
	dist         distribution
	turns        []turn
	outcomes     []outcome
	pairs        pairWork
	textures     []TextureValue     // of the channel at hand, those of limits included
	covered      CoveredValue       // likewise
	moments      *moments           // of the region at hand; nil where it has no plane
	correlations []CorrelationValue // likewise

	// The region at hand, where its numbers end up in columns.
	row         RegionResult
	channels    []ChannelStatistics
	percentiles []PercentileValue
	limits      []LimitResult
}

var scratchPool = sync.Pool{New: func() any { return new(scratch) }}

func (d *deriver) regions(first, n int, stats []driver.MaskStats, hist histogramSource) error {
	s := scratchPool.Get().(*scratch)
	defer func() {
		clear(s.textures[:cap(s.textures)]) // whose counts lie in memory of the call
		scratchPool.Put(s)
	}()
	nc := len(d.channels)
	for k := range n {
		if err := d.region(s, first+k, stats[k*nc:(k+1)*nc], hist.from(k*nc), ""); err != nil {
			return err
		}
	}
	return nil
}

// region derives region i. lost says which of its lines never came, for people; then its limits fail.
func (d *deriver) region(s *scratch, i int, stats []driver.MaskStats, hist histogramSource, lost string) error {
	cols := d.res.Columns
	var r *RegionResult
	if cols != nil {
		r = d.row(s, i)
	} else {
		r = &d.res.Regions[i]
	}
	r.Count = stats[0].Count
	if !d.made {
		d.geo[i] = d.locate(s, i, r.Count)
	}
	g := &d.geo[i]
	r.Bounds, r.Coverage, r.CoverageKnown = g.bounds, g.coverage, g.coverageKnown
	if d.asked.Has(Centroid) && r.Count > 0 {
		r.Centroid = centroid(stats[0].SumX, stats[0].SumY, r.Count)
		r.HasCentroid = true
	}
	if d.covered {
		weight, ok := coveredWeight(r.Count, hist.weightsOf(0).sums)
		if !ok {
			return fmt.Errorf("%w: region %d covers %d/65536 pixels", ErrInconsistent, i, int64(weight))
		}
		r.CoveredCount = inPixels(weight)
	}
	if d.blobs != nil {
		r.Blobs = &d.regionBlobs[i]
	}
	var err error
	if s.moments, err = d.momentsOf(i, &stats[0], lost); err != nil {
		return err
	}
	limits := d.set.Limits(i)
	if cap(s.outcomes) < len(limits) {
		s.outcomes = make([]outcome, MaxLimits)
	}
	outcomes := s.outcomes[:len(limits)]
	clear(outcomes)
	for k, l := range limits {
		if v, ok := measureRegion(l, r, &stats[0]); ok {
			outcomes[k].see(l, v, NoChannel)
		}
	}
	for c := range stats {
		if c < d.own {
			if err := d.checkSamples(i, &stats[c]); err != nil {
				return err
			}
		}
		if d.want&needHistogram != 0 {
			h := hist.of(c, &stats[c], d.coding(c))
			var n, sum uint64
			if cols != nil && cols.Histogram != nil && cols.Histogram.Full {
				n, sum = cols.Histogram.take(i*len(stats)+c, h)
			}
			if d.distribution {
				s.dist.load(h.n, h.lo)
				n, sum = s.dist.count(), s.dist.sum()
			}
			if err := d.checkHistogram(i, c, &stats[c], n, sum); err != nil {
				return err
			}
		}
		if stats[c].Count != stats[0].Count {
			return fmt.Errorf("%w: region %d has %d pixels in %v and %d in %v", ErrInconsistent, i,
				stats[0].Count, d.channels[0], stats[c].Count, d.channels[c])
		}
		d.channel(s, c, &r.Channels[c], &stats[c])
		if len(d.offsets) > 0 {
			if err := d.pairsOf(s, i, c, &r.Channels[c], &stats[c], hist.pairsOf(c)); err != nil {
				return err
			}
		}
		if d.covered {
			var h counts
			if d.coveredHistogram {
				h = hist.of(c, &stats[c], d.coding(c))
			}
			if err := d.coveredOf(s, i, c, &stats[c], hist.weightsOf(c), h); err != nil {
				return err
			}
			if d.coveredListed && c < d.own {
				r.Channels[c].Covered = new(CoveredValue)
				*r.Channels[c].Covered = s.covered
			}
		}
		if len(d.correlations) > 0 {
			if err := d.correlatedOf(s, i, c, &r.Channels[c], &stats[c], hist.correlated); err != nil {
				return err
			}
		}
		if d.want.Has(Distances) {
			d.compare(i, c, &r.Channels[c], &s.dist)
		}
		if d.values != nil {
			d.gather(i, c, r, &stats[0], s)
		}
		for k, l := range limits {
			if l.expression != nil || l.quantity.distance() && d.set.references[i].with >= 0 {
				continue // until the other region is known, too
			}
			if l.quantity.ofRegion() || l.channel != r.Channels[c].Channel &&
				(l.channel != NoChannel || !d.unnamed(c)) {
				continue
			}
			if v, ok := measure(l, &r.Channels[c], s, d.coding(c)); ok {
				outcomes[k].see(l, v, r.Channels[c].Channel)
			} else if r.Count > 0 {
				outcomes[k].lack(r.Channels[c].Channel, l.novalue())
			}
		}
		if cols == nil {
			r.Channels[c].keep(d.asked)
		} else {
			cols.putChannel(d.plan, s, i*len(stats)+c, &r.Channels[c])
		}
	}
	var why, partly string
	if len(limits) > 0 || d.links != nil {
		why = unseen(r, limits)
		switch {
		case lost != "" && why != "":
			why = lost + "; " + why
		case lost != "":
			why = lost
		}
	}
	if d.set.covered && why == "" && d.leavesFrame(i) {
		partly = outsideFrame + ": part of the region's outline"
	}
	if d.links != nil {
		d.links[i].why = why
	}
	for k, l := range limits {
		if l.expression != nil || l.quantity.distance() && d.set.references[i].with >= 0 {
			continue
		}
		unseen := why
		if l.quantity.covered() && !acceptsOutside(limits) {
			unseen = cmp.Or(why, partly)
		}
		r.Limits[k] = l.judge(&outcomes[k], unseen)
		if l.quantity == quantityBlobs {
			if more := r.Blobs.tooMany(); more != "" {
				r.Limits[k].Verdict, r.Limits[k].Reason = Fail, more
			}
		}
		if l.quantity == quantityCoverage && !r.CoverageKnown {
			r.Limits[k].Reason = "coverage is unknown: the region reaches too far outside the frame"
		}
		if r.Limits[k].Verdict == Fail {
			r.Verdict = Fail
		} else if r.Verdict == NoVerdict {
			r.Verdict = Pass
		}
	}
	if cols != nil {
		cols.put(i, r)
	}
	if d.blobs != nil && !d.listedBlobs {
		r.Blobs = nil
	}
	return nil
}

// locate finds the geometry of region i, which has count pixels inside the frame.
func (d *deriver) locate(s *scratch, i int, count uint64) (g geometry) {
	fill := d.set.regions[i].Fill
	switch {
	case count == 0:
	case fill == driver.ByRuns:
		g.bounds, _ = runsInside(d.set.runsOf(i), d.frame.Width, d.frame.Height)
	default:
		g.bounds, s.turns = boundsOf(d.set.edgesOf(i), fill, d.set.boxes[i], d.frame.Width, d.frame.Height, s.turns)
	}
	switch {
	case !d.sticksOut(i):
		g.coverage, g.coverageKnown = 1, true
	case d.totals[i] == 0:
		g.coverage, g.coverageKnown = 1, true
	case d.totals[i] > 0:
		g.coverage, g.coverageKnown = float64(count)/float64(d.totals[i]), true
	}
	return g
}

// checkSamples refuses samples beyond the format's bits.
func (d *deriver) checkSamples(i int, s *driver.MaskStats) error {
	if d.what&driver.MaskExtrema == 0 || s.Count == 0 {
		return nil
	}
	v, pos := s.Max()
	if v < uint32(d.frame.Format.Levels()) {
		return nil
	}
	at := d.position(pos)
	name := ""
	if n := d.set.names[i]; n != "" {
		name = " " + quoted(n)
	}
	return invalid(path{"frame", "data"}, fmt.Sprintf("pixel (%d, %d) in region %d%s", at.X, at.Y, i, name),
		"%d is above %d, the most that %d bits hold", v, d.frame.Format.Levels()-1, d.frame.Format.Bits)
}

func (p *plan) position(pos uint32) Position {
	w := uint32(p.frame.Width)
	return Position{int(pos % w), int(pos / w)}
}

// centroid is the mean of pixel centres with the given sums of columns and rows: (2*sum + weight) / (2*weight).
func centroid(sumX, sumY, weight uint64) Point {
	mean := func(sum uint64) float64 {
		hi, lo := sum>>63, sum<<1
		lo2 := lo + weight
		if lo2 < lo {
			hi++
		}
		return exact.Quotient(hi, lo2, 2*weight)
	}
	return Point{mean(sumX), mean(sumY)}
}

// ErrInconsistent is matched by the error of a reduction whose device returned numbers that contradict each other: a
// histogram that does not add up to the sums beside it, or channels with different numbers of pixels. Backends compute
// them by different instructions, so that this is what faulty memory or a broken kernel looks like; no verdict comes of
// it.
var ErrInconsistent = errors.New("polygon: the device returned numbers that contradict each other")

// checkHistogram compares the sums of a histogram, n samples that sum to sum, with those that the device computed in
// another way.
func (d *deriver) checkHistogram(i, c int, m *driver.MaskStats, n, sum uint64) error {
	if n != m.Count {
		return fmt.Errorf("%w: region %d, %v: the histogram holds %d samples of %d", ErrInconsistent, i, d.channels[c],
			n, m.Count)
	}
	if k := d.coding(c); k.shift > 0 {
		// Bins are of rounded samples: each is off by half a bin at most.
		if near := n << k.shift / 2; sum<<k.shift+near < m.Sum || m.Sum+near < sum<<k.shift {
			return fmt.Errorf("%w: region %d, %v: the histogram's bins sum to %d, the samples to %d", ErrInconsistent,
				i, d.channels[c], sum<<k.shift, m.Sum)
		}
		return nil
	}
	if sum != m.Sum {
		return fmt.Errorf("%w: region %d, %v: the histogram's samples sum to %d, the sum is %d", ErrInconsistent, i,
			d.channels[c], sum, m.Sum)
	}
	return nil
}

// pairsOf derives the textures of channel c of region i, into the channel those that were asked for.
func (d *deriver) pairsOf(s *scratch, i, c int, to *ChannelStatistics, m *driver.MaskStats, counts []uint32) error {
	s.textures = grow(s.textures, len(d.offsets))
	if counts == nil { // of a channel that is derived from colours
		for k := range s.textures {
			s.textures[k] = TextureValue{Offset: d.offsets[k], Levels: d.levels}
			for _, v := range s.textures[k].numbers() {
				*v = math.NaN()
			}
		}
	} else {
		d.plan.textures(s.textures, counts, &s.pairs)
	}
	for k := range s.textures {
		if t := &s.textures[k]; t.Pairs > m.Count {
			return fmt.Errorf("%w: region %d, %v: %d pairs at %v of %d pixels", ErrInconsistent, i, d.channels[c],
				t.Pairs, t.Offset, m.Count)
		}
	}
	if to.Textures == nil { // of limits alone, or for columns
		return nil
	}
	copy(to.Textures, s.textures)
	if d.matrices { // the counts are the batch's
		for k := range to.Textures {
			to.Textures[k].Counts = slices.Clone(to.Textures[k].Counts)
		}
	}
	return nil
}

// correlatedOf derives the correlations of channel c of region i, into the channel those that were asked for.
func (d *deriver) correlatedOf(s *scratch, i, c int, to *ChannelStatistics, m *driver.MaskStats,
	from pairSource) error {
	s.correlations = grow(s.correlations, len(d.correlations))
	d.correlationsOf(s.correlations, from, c)
	for k := range s.correlations {
		v := &s.correlations[k]
		if n := uint64(max(1, ringLags(v.Radius))); v.Pairs > m.Count*n {
			return fmt.Errorf("%w: region %d, %v: %d pairs of %v in %d pixels", ErrInconsistent, i, d.channels[c],
				v.Pairs, v.Correlation, m.Count)
		}
	}
	copy(to.Correlations, s.correlations) // none where they are of limits alone, or for columns
	return nil
}

// channel derives the wanted statistics of one channel. s.dist holds its distribution, for limits too.
func (d *deriver) channel(s *scratch, at int, c *ChannelStatistics, m *driver.MaskStats) {
	d.plainly(s, at, c, m)
	if d.channels[at] == Hue {
		dist := &s.dist
		if !d.distribution { // then it is another call's
			dist = &distribution{}
		}
		dist.hue(c, d.want)
		return
	}
	d.coding(at).decode(c, m)
}

// plainly is channel for samples that stand for themselves.
func (d *deriver) plainly(s *scratch, at int, c *ChannelStatistics, m *driver.MaskStats) {
	c.Has = d.want & (Count | Sum | SumOfSquares)
	c.Count, c.Sum, c.SumOfSquares = m.Count, m.Sum, m.SumSq
	if d.distribution {
		c.Distinct = uint32(len(s.dist.values))
		c.Has |= d.want & Distinct
		if h := c.Histogram; h != nil {
			h.Lower, h.Upper = d.bins.rangeOf(d.coding(at), d.frame.Format.Levels())
			h.Below, h.Above = fillBins(d.binner(at), h.Counts, &s.dist)
			c.Has |= Histogram
		}
		if c.Cumulative != nil {
			below, _ := fillBins(d.binner(at), c.Cumulative, &s.dist)
			cumulate(c.Cumulative, below)
			c.Has |= Cumulative
		}
	}
	if m.Count == 0 {
		c.Percentiles = nil
		return
	}
	if d.want.Has(Mean) {
		c.Mean = exact.Quotient(0, m.Sum, m.Count)
	}
	if d.want&(Variance|StdDev) != 0 {
		c.Variance, c.StdDev = exact.Variance(m.Count, m.Sum, m.SumSq)
	}
	if d.want&needExtrema != 0 {
		v, pos := m.Min()
		c.Min, c.MinAt = v, d.position(pos)
		v, pos = m.Max()
		c.Max, c.MaxAt = v, d.position(pos)
	}
	c.Has |= d.want & (Mean | Variance | StdDev | Min | Max)
	if d.distribution {
		c.Mode = s.dist.mode
		if d.want.Has(Median) {
			c.Median = s.dist.median()
		}
		for k, f := range d.fractions {
			v := &c.Percentiles[k]
			v.Percentile = d.percentiles[k]
			if d.method == Linear {
				v.Value = f.Linear(m.Count, s.dist.at)
			} else {
				v.Value = float64(s.dist.at(f.NearestRank(m.Count)))
			}
		}
		c.Has |= d.want & (Mode | Median | Percentiles)
		if d.want&needShape != 0 {
			s.dist.shape(c, d.want, d.method)
		}
	}
	if d.want.Has(Centroid) && m.Sum > 0 {
		c.WeightedCentroid = centroid(m.SumVX, m.SumVY, m.Sum)
		c.Has |= Centroid
	}
	if s.moments != nil {
		var ok bool
		if c.PlaneX, c.PlaneY, c.PlaneResidual, ok = s.moments.plane(m); ok {
			c.Has |= Plane
		}
	}
}

// measureRegion is the quantity of a limit that is of the region; false where it has no value, or is of a channel.
func measureRegion(l *Limit, r *RegionResult, stats *driver.MaskStats) (v float64, ok bool) {
	switch l.quantity {
	case quantityBlobs:
		if r.Blobs == nil || r.Count == 0 {
			return 0, false
		}
		return l.blobs.value(r.Blobs, l.scale, l.unit != 0), true
	case quantityCount:
		return float64(r.Count), true
	case quantityArea:
		return r.Area, true
	case quantityCoverage:
		return r.Coverage, r.CoverageKnown
	case quantityWidth:
		return float64(r.Bounds.X1 - r.Bounds.X0), !r.Bounds.Empty()
	case quantityHeight:
		return float64(r.Bounds.Y1 - r.Bounds.Y0), !r.Bounds.Empty()
	case quantityCoveredCount:
		return r.CoveredCount, true
	case quantityCentroidX, quantityCentroidY:
		if r.Count == 0 {
			return 0, false
		}
		at := centroid(stats.SumX, stats.SumY, r.Count)
		if l.quantity == quantityCentroidX {
			return at.X, true
		}
		return at.Y, true
	}
	return 0, false
}

// measure is the quantity of a limit in one channel.
func measure(l *Limit, c *ChannelStatistics, s *scratch, k coding) (v float64, ok bool) {
	if c.Channel == Hue && (!l.quantity.ofHue() || l.quantity == quantityMean && !c.Has.Has(Mean) ||
		l.quantity != quantityDistinct && l.quantity != quantityPixels && c.Distinct == 0) {
		return 0, false
	}
	switch l.quantity {
	case quantitySum:
		return k.sum(c.Sum, c.Count), true
	case quantityDistinct:
		return float64(c.Distinct), true
	case quantityPixels:
		return float64(s.dist.withinOf(c.Channel, l.pixels, k)), true
	}
	if l.quantity.covered() {
		return s.covered.measure(l.quantity)
	}
	if c.Count == 0 {
		return 0, false
	}
	switch l.quantity {
	case quantityMean:
		v = c.Mean
	case quantityVariance:
		v = c.Variance
	case quantityStdDev:
		v = c.StdDev
	case quantityMin:
		v = c.Value(c.Min)
	case quantityMax:
		v = c.Value(c.Max)
	case quantityMedian:
		v = c.Median
	case quantityMode:
		v = c.Value(c.Mode)
	case quantityPercentile:
		v = k.bin(float64(s.dist.at(l.percent.NearestRank(c.Count))))
	case quantityQuartiles:
		v = s.dist.interquartileRange(NearestRank) * k.width()
	case quantityMinX:
		v = c.MinAt.centre().X
	case quantityMinY:
		v = c.MinAt.centre().Y
	case quantityMaxX:
		v = c.MaxAt.centre().X
	case quantityMaxY:
		v = c.MaxAt.centre().Y
	case quantityWeightedX:
		return c.WeightedCentroid.X, c.Has.Has(Centroid)
	case quantityWeightedY:
		return c.WeightedCentroid.Y, c.Has.Has(Centroid)
	case quantityContrast, quantityHomogeneity, quantityEnergy, quantityCorrelation, quantityPairEntropy:
		return l.texture(s.textures)
	case quantityCoefficient, quantityCovariance:
		return l.correlationOf(s.correlations)
	default:
		shape := &shapes[l.quantity-quantitySkewness]
		return *shape.field(c), c.Has.Has(shape.is)
	}
	return v, true
}

// keep clears what was computed for limits only.
func (c *ChannelStatistics) keep(asked Statistics) {
	if c.Has&(needShape|Plane)&^asked != 0 {
		for _, s := range shapes {
			if asked&s.is == 0 {
				*s.field(c) = 0
			}
		}
	}
	c.Has &= asked
	if asked&Count == 0 {
		c.Count = 0
	}
	if asked&Sum == 0 {
		c.Sum = 0
	}
	if asked&SumOfSquares == 0 {
		c.SumOfSquares = 0
	}
	if asked&Mean == 0 {
		c.Mean = 0
	}
	if asked&Variance == 0 {
		c.Variance = 0
	}
	if asked&StdDev == 0 {
		c.StdDev = 0
	}
	if asked&Min == 0 {
		c.Min, c.MinAt = 0, Position{}
	}
	if asked&Max == 0 {
		c.Max, c.MaxAt = 0, Position{}
	}
	if asked&Median == 0 {
		c.Median = 0
	}
	if asked&Mode == 0 {
		c.Mode = 0
	}
	if asked&Distinct == 0 {
		c.Distinct = 0
	}
	if asked&Centroid == 0 {
		c.WeightedCentroid = Point{}
	}
}

// settle finds what regions come to beside others: distances, and limits between them. Where there is much to look at
// it does so on a place of the host; without onHost here, and without an error.
func (d *deriver) settle(onHost func(func(pause func() error) error) error) error {
	const few = 1 << 14 // different samples, and values: a millisecond or two
	n := 0
	for i := range d.links {
		for c := range d.links[i].dist {
			n += len(d.links[i].dist[c].values)
		}
	}
	for i := range d.set.between {
		n += d.set.between[i].looks() * len(d.channels)
	}
	all := func(pause func() error) error {
		if err := d.compareRegions(pause); err != nil {
			return err
		}
		return d.judgeBetween(nil, 0, pause)
	}
	if n <= few || onHost == nil {
		return all(nil)
	}
	return onHost(all)
}

// finish makes the frame's verdict of regions that are settled, and leaves out those that were not asked for.
func (d *deriver) finish() {
	if d.set.lookBack > 0 {
		if d.output.Later {
			d.res.later, d.res.Verdict = d, Fail // until it is judged
			return
		}
		for n := range d.set.between {
			if b := &d.set.between[n]; b.over {
				l := d.set.Limits(b.region)[b.limit]
				d.put(b.region, b.limit, LimitResult{Expression: l.expr, Verdict: Fail, Reason: l.spelled + ": " +
					alone})
			}
		}
	}
	d.conclude()
}

// verdict is that of the regions so far.
func (d *deriver) verdict() (all Verdict) {
	see := func(v Verdict) {
		if v != NoVerdict && all != Fail {
			all = v
		}
	}
	if c := d.res.Columns; c != nil {
		for _, v := range c.Verdict {
			see(v)
		}
		return all
	}
	for i := range d.res.Regions {
		see(d.res.Regions[i].Verdict)
	}
	return all
}

// conclude makes the verdict of what all limits came to, and leaves out the regions that were not asked for.
func (d *deriver) conclude() {
	d.res.Verdict = d.verdict()
	if !d.output.Failed {
		return
	}
	if c := d.res.Columns; c != nil {
		c.chooseFailed()
	} else {
		d.res.Regions = slices.DeleteFunc(d.res.Regions, func(r RegionResult) bool { return r.Verdict != Fail })
	}
}

// counts are those of the values from lo on. all holds them and those of the other values, which may be anything where
// the download left them out.
type counts struct {
	n   []uint32
	lo  uint32
	all []uint32
}

// histogramSource finds the downloaded histograms of a batch: levels counts for each channel of each region.
type histogramSource struct {
	counts []uint32 // nil without histograms
	levels int
	ranged bool // only the part between min and max was downloaded

	weights    []driver.WeightSums // of the first own of channels; nil where none are weighted
	weightHist []int64             // levels of each; nil without histograms
	correlated pairSource

	pairs    []uint32 // counts of pairs, each so many for a channel of a region, of the first own of channels
	each     int
	own      int
	channels int
}

// from skips n histograms.
func (h histogramSource) from(n int) histogramSource {
	if h.counts != nil {
		h.counts = h.counts[n*h.levels:]
	}
	if h.weights != nil {
		h.weights = h.weights[n/h.channels*h.own:]
	}
	if h.weightHist != nil {
		h.weightHist = h.weightHist[n/h.channels*h.own*h.levels:]
	}
	if h.pairs != nil {
		h.pairs = h.pairs[n/h.channels*h.own*h.each:]
	}
	if h.correlated.sums != nil {
		h.correlated.skip += n / h.channels
	}
	return h
}

// weightsOf are the weighted sums of channel c; none where it is derived.
func (h histogramSource) weightsOf(c int) (w weights) {
	if c >= h.own {
		return w
	}
	w.sums = &h.weights[c]
	if h.weightHist != nil {
		w.hist = h.weightHist[c*h.levels : (c+1)*h.levels]
	}
	return w
}

// pairsOf are the counts of pairs of channel c; nil where it is derived.
func (h histogramSource) pairsOf(c int) []uint32 {
	if c >= h.own {
		return nil
	}
	return h.pairs[c*h.each : (c+1)*h.each]
}

// of is histogram c, of samples with these statistics and this coding.
func (h histogramSource) of(c int, s *driver.MaskStats, k coding) counts {
	if h.counts == nil {
		return counts{}
	}
	all := h.counts[c*h.levels : (c+1)*h.levels]
	if s.Count == 0 {
		return counts{all: all}
	}
	if !h.ranged {
		return counts{all, 0, all}
	}
	lo, _ := s.Min()
	hi, _ := s.Max()
	lo, hi = k.bucket(lo, h.levels), k.bucket(hi, h.levels)
	return counts{all[lo : hi+1], lo, all}
}
