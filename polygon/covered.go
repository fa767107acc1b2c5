// Covered: the statistics of pixels that are weighted by the share of them that a region covers.

package polygon

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"unsafe"

	"github.com/polyscan/polyscan/internal/exact"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// CoveredSpec asks for statistics of pixels that are weighted by fractional coverage: by the share of each pixel's
// square that the region covers, by its fill rule, exactly and then rounded once to 1/65,536. The pixels of masks and
// shapes have the weight 1. They are of the frame's own channels.
type CoveredSpec struct {
	// Histogram asks for [CoveredValue].Histogram, too, in the bins of [Reductions].Histogram.
	Histogram bool
}

// CoveredValue is what the weighted samples of a channel come to. Weights are whole numbers of 1/65,536, and what is
// derived from their sums is the exact value, correctly rounded, but for StdDev, which is the square root of Variance.
// Mean, Variance and StdDev are NaN where the region covers nothing.
type CoveredValue struct {
	Sum       float64 // of weight times sample
	Mean      float64
	Variance  float64 // of the population, by weights
	StdDev    float64
	Histogram *CoveredHistogram // nil unless it was asked for
}

// CoveredHistogram has the pixels, in fractions, of each bin of a histogram; see [HistogramCounts].
type CoveredHistogram struct {
	Lower, Upper float64
	Counts       []float64
	Below, Above float64
}

// wholePixel is the weight of a pixel that is covered.
const wholePixel = 1 << driver.WeightBits

// inPixels is a sum of weights.
func inPixels(weight uint64) float64 { return float64(weight) / wholePixel }

// quantity spelled with "covered." in limits.
var coveredQuantities = map[string]quantity{
	"count":    quantityCoveredCount,
	"sum":      quantityCoveredSum,
	"mean":     quantityCoveredMean,
	"variance": quantityCoveredVariance,
	"stddev":   quantityCoveredStdDev,
}

// covered says that the quantity is of weighted pixels.
func (q quantity) covered() bool {
	return q == quantityCoveredCount || q >= quantityCoveredSum && q <= quantityCoveredStdDev
}

// covered says that the limit looks at weighted pixels.
func (l *Limit) covered() bool {
	if l.expression != nil {
		for i := range l.expression.operands {
			if l.expression.operands[i].is.quantity.covered() {
				return true
			}
		}
	}
	return l.quantity.covered()
}

// planCovered finds whether pixels are weighted, and for whom.
func (p *plan) planCovered(r *Reductions) {
	if r.Covered != nil && p.output.Fields.Has(FieldChannels) {
		p.coveredListed, p.coveredHistogram = true, r.Covered.Histogram
	}
	p.covered = p.coveredListed || p.set.covered
}

// leavesFrame says that the outline of region i does, though perhaps by less than the centre of a pixel.
func (p *plan) leavesFrame(i int) bool {
	b := p.set.boxes[i]
	return p.set.regions[i].Fill != driver.ByRuns && b.x0 < b.x1 && b.y0 < b.y1 &&
		(min(b.x0, b.y0) < 0 || int64(b.x1) > int64(p.frame.Width)*driver.Subpixel ||
			int64(b.y1) > int64(p.frame.Height)*driver.Subpixel)
}

// weights are what a device returned of the weighted pixels of a region's channel.
type weights struct {
	sums *driver.WeightSums
	hist []int64 // by value; nil without histograms
}

// coveredWeight is the sum of the weights of a region with so many pixels; false where it can't be.
func coveredWeight(count uint64, w *driver.WeightSums) (uint64, bool) {
	n := int64(count)<<driver.WeightBits + w.Weight // below 2^45 + 2^47
	return uint64(n), n >= 0
}

// coveredOf derives the weighted statistics of channel c of region i, of which h are the counts.
func (d *deriver) coveredOf(s *scratch, i, c int, m *driver.MaskStats, w weights, h counts) error {
	s.covered = CoveredValue{Mean: math.NaN(), Variance: math.NaN(), StdDev: math.NaN()}
	if w.sums == nil { // of a channel that is derived from colours
		return nil
	}
	weight, ok := coveredWeight(m.Count, w.sums)
	sum := int64(m.Sum)<<driver.WeightBits + w.sums.Sum // below 2^61 + 2^63: it wraps around where it can't be
	if !ok || sum < 0 || weight == 0 && sum != 0 {
		return fmt.Errorf("%w: region %d, %v: weights of %d/65536 pixels sum to %d/65536", ErrInconsistent, i,
			d.channels[c], int64(weight), sum)
	}
	v := &s.covered
	v.Sum = exact.Quotient(0, uint64(sum), wholePixel)
	if weight > 0 {
		v.Mean = exact.Quotient(0, uint64(sum), weight)
		// The sum of squares takes 128 bits: below 2^77 + 2^63 * 2^16.
		squares := twiceArea{hi: m.SumSq >> (64 - driver.WeightBits), lo: m.SumSq << driver.WeightBits}
		squares.add(w.sums.SqLow)
		squares.addWide(uint64(w.sums.SqHigh>>(64-16)), uint64(w.sums.SqHigh)<<16)
		var fine bool
		if v.Variance, fine = weightedVariance(weight, uint64(sum), squares); !fine {
			return fmt.Errorf("%w: region %d, %v: weighted squares are less than that of the sum", ErrInconsistent, i,
				d.channels[c])
		}
		v.StdDev = math.Sqrt(v.Variance)
	}
	if d.coveredHistogram {
		return d.coveredBins(i, c, v, weight, w.hist, h)
	}
	return nil
}

// addWide adds a number of 128 bits.
func (a *twiceArea) addWide(hi, lo uint64) {
	var carry uint64
	a.lo, carry = bits.Add64(a.lo, lo, 0)
	a.hi, _ = bits.Add64(a.hi, hi, carry)
}

// weightedVariance is (n q - s^2) / n^2, correctly rounded, for weights that sum to n, weighted samples to s and
// weighted squares to q. It is false where that is negative.
func weightedVariance(n, s uint64, q twiceArea) (float64, bool) {
	total := wide{q.lo, q.hi}.times(wideOf(n))
	square := wideOf(s).times(wideOf(s))
	switch c := total.compare(&square); {
	case c < 0 || int64(q.hi) < 0:
		return 0, false
	case c == 0:
		return 0, true
	}
	num, den := total.minus(square), wideOf(n).times(wideOf(n))
	return roundedTo(num.near()/den.near(), func(m uint64, e int) int {
		quotient, at := num.shifted(e), den.times(wideOf(m))
		return quotient.compare(&at)
	}), true
}

// coveredBins makes the histogram of weights, which sum to total.
func (d *deriver) coveredBins(i, c int, to *CoveredValue, total uint64, hist []int64, h counts) error {
	b := d.binner(c)
	out := &CoveredHistogram{Counts: make([]float64, b.bins)}
	out.Lower, out.Upper = d.bins.rangeOf(d.coding(c), d.frame.Format.Levels())
	var sums []uint64 // of bins, exactly
	if !b.full {
		sums = make([]uint64, b.bins)
	}
	var all, below, above uint64
	k := 0
	for v, extra := range hist {
		n := extra
		if at := v - int(h.lo); at >= 0 && at < len(h.n) {
			n += int64(h.n[at]) << driver.WeightBits
		}
		switch {
		case n == 0:
			continue
		case n < 0:
			return fmt.Errorf("%w: region %d, %v: the weights of samples of %d sum to %d", ErrInconsistent, i,
				d.channels[c], v, n)
		}
		all += uint64(n)
		switch {
		case b.full:
			out.Counts[v] = inPixels(uint64(n))
		case uint32(v) < b.edges[0]:
			below += uint64(n)
		case uint32(v) >= b.edges[b.bins]:
			above += uint64(n)
		default:
			for uint32(v) >= b.edges[k+1] {
				k++
			}
			sums[k] += uint64(n)
		}
	}
	for k, n := range sums {
		out.Counts[k] = inPixels(n)
	}
	if all != total {
		return fmt.Errorf("%w: region %d, %v: the weighted histogram sums to %d/65536 pixels, the weights to %d",
			ErrInconsistent, i, d.channels[c], all, total)
	}
	out.Below, out.Above = inPixels(below), inPixels(above)
	to.Histogram = out
	return nil
}

// measureCovered is the quantity of a limit on weighted pixels in one channel.
func (v *CoveredValue) measure(q quantity) (float64, bool) {
	switch q {
	case quantityCoveredSum:
		return v.Sum, true
	case quantityCoveredMean:
		return v.Mean, !math.IsNaN(v.Mean)
	case quantityCoveredVariance:
		return v.Variance, !math.IsNaN(v.Variance)
	}
	return v.StdDev, !math.IsNaN(v.StdDev)
}

// CoveredColumns holds what [CoveredValue] holds; NaN in channels that are derived from colours.
type CoveredColumns struct {
	Count               []float64 // [R]: [RegionResult].CoveredCount
	Sum, Mean, Variance []float64 // [R][C]
	Histogram           *CoveredHistogramColumns
}

// CoveredHistogramColumns holds histograms of B bins each.
type CoveredHistogramColumns struct {
	Bins         int // B
	Lower, Upper float64
	Counts       []float64 // [R][C][B]
	Below, Above []float64 // [R][C]
}

func (p *plan) newCoveredColumns(rows int) *CoveredColumns {
	n := rows * len(p.channels)
	c := &CoveredColumns{Count: make([]float64, rows), Sum: make([]float64, n), Mean: make([]float64, n),
		Variance: make([]float64, n)}
	if p.coveredHistogram {
		c.Histogram = &CoveredHistogramColumns{Bins: p.bins.bins, Lower: p.bins.lower, Upper: p.bins.upper,
			Below: make([]float64, n), Above: make([]float64, n)}
	}
	return c
}

// put puts the values of a channel of a region into place k.
func (c *CoveredColumns) put(k int, v *CoveredValue, derived bool) {
	c.Sum[k], c.Mean[k], c.Variance[k] = v.Sum, v.Mean, v.Variance
	if derived {
		c.Sum[k] = math.NaN()
	}
	if h := c.Histogram; h != nil && v.Histogram != nil {
		copy(h.Counts[k*h.Bins:], v.Histogram.Counts)
		h.Below[k], h.Above[k] = v.Histogram.Below, v.Histogram.Above
	}
}

// value is that of place k, which shares nothing with the columns; nil of a channel that has none.
func (c *CoveredColumns) value(k int) *CoveredValue {
	if math.IsNaN(c.Sum[k]) {
		return nil
	}
	v := &CoveredValue{Sum: c.Sum[k], Mean: c.Mean[k], Variance: c.Variance[k], StdDev: math.Sqrt(c.Variance[k])}
	if h := c.Histogram; h != nil {
		v.Histogram = &CoveredHistogram{Lower: h.Lower, Upper: h.Upper, Below: h.Below[k], Above: h.Above[k],
			Counts: append([]float64(nil), h.Counts[k*h.Bins:(k+1)*h.Bins]...)}
	}
	return v
}

// choose leaves rows alone, of nc channels.
func (c *CoveredColumns) choose(rows []uint32, nc int) {
	c.Count = choose(c.Count, rows, 1)
	c.Sum, c.Mean, c.Variance = choose(c.Sum, rows, nc), choose(c.Mean, rows, nc), choose(c.Variance, rows, nc)
	if h := c.Histogram; h != nil {
		h.Counts = choose(h.Counts, rows, nc*h.Bins)
		h.Below, h.Above = choose(h.Below, rows, nc), choose(h.Above, rows, nc)
	}
}

// coverMemory is coverage on a device: the pixels, and behind them where those of each region begin.
type coverMemory struct {
	at      kernels.Buffer[byte]
	pixels  int
	regions int
}

// upload brings coverage to the device, into memory of its bytes. It must stay as it is until the job is done.
func (c *coverage) upload(q *kernels.Queue, to kernels.Buffer[byte]) (coverMemory, error) {
	m := coverMemory{to, len(c.pixels), len(c.starts) - 1}
	first := int(kernels.Bytes[driver.WeightedPixel](len(c.pixels)))
	if n := 8 * len(c.pixels); n > 0 {
		bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(c.pixels))), n)
		if err := kernels.UploadChunks(q, to.Range(0, n), [][]byte{bytes}); err != nil {
			return m, err
		}
	}
	n := 4 * len(c.starts)
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(c.starts))), n)
	return m, kernels.Upload(q, to.Range(first, first+n), bytes)
}

// op weighs the pixels of regions of a frame; its results are the caller's to set.
func (m *coverMemory) op(frame driver.Image, row0, first, count int) driver.MaskWeigh {
	at := int(kernels.Bytes[driver.WeightedPixel](m.pixels))
	return driver.MaskWeigh{Pixels: m.at.Range(0, 8*m.pixels).Slice(),
		Starts: m.at.Range(at, at+4*(m.regions+1)).Slice(), Regions: m.regions, First: first, Count: count,
		Frame: frame, Row0: row0}
}

// coverRows is the range of rows in which a region with this box can cover pixels.
func (b box) coverRows() (y0, y1 int) {
	return int(b.y0) >> driver.SubpixelBits, (int(b.y1) + driver.Subpixel - 1) >> driver.SubpixelBits
}

// coverOf finds the coverage of a call's regions, in order.
func (p *plan) coverOf(ctx context.Context, dev *kernels.Device) (*coverage, error) {
	if !p.covered {
		return nil, nil
	}
	c, err := p.set.cover(ctx, func(f func(pause func() error) error) error { return dev.OnHost(ctx, f) }, allOf(p.set),
		p.frame.Width, p.frame.Height)
	return &c, err
}

// weigh enqueues the weighing of the pixels of regions of a batch.
func (d *deriver) weigh(q *kernels.Queue, frame driver.Image, row0, first, count int,
	sums kernels.Buffer[driver.WeightSums], hist kernels.Buffer[int64]) error {
	if err := q.Yield(); err != nil {
		return err
	}
	n := int64(d.there.pixels) + int64(count)
	q.Chunk("weigh pixels", n)
	q.SetChunkUnits(n)
	op := d.there.op(frame, row0, first, count)
	op.Sums, op.Hist = sums.Slice(), hist.Slice()
	return q.Run(&op)
}

// crossed is how many pixels of a frame the edges cross, at most.
func (s *Set) crossed(width, height int) (n int64) {
	for i := range s.edges {
		e := &s.edges[i]
		along := func(a, b int32, most int) int64 {
			lo, hi := max(min(a, b)>>driver.SubpixelBits, 0), min(max(a, b)>>driver.SubpixelBits, int32(most-1))
			return int64(hi) - int64(lo) + 1 // below 1 where it lies beside the frame
		}
		if w, h := along(e.X0, e.X1, width), along(e.Y0, e.Y1, height); w > 0 && h > 0 {
			n += w + h
		}
	}
	return min(n, maxCoverPixels)
}

// CoverBytes is about how much host memory a call takes to find the coverage of frames of a size; 0 where r and the
// set's limits don't ask for it.
func (s *Set) CoverBytes(r Reductions, width, height int) int64 {
	if r.Covered == nil && !s.covered {
		return 0
	}
	return 8*s.crossed(width, height) + int64(width)*20 +
		int64(len(s.edges))*int64(unsafe.Sizeof(driver.Edge{})+unsafe.Sizeof(coverLine{})+4)
}
