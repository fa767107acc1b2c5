// Columns: the numbers of many regions, each quantity as one slice.

package polygon

import (
	"math"
	"slices"

	"github.com/polyscan/polyscan/internal/exact"
	"github.com/polyscan/polyscan/kernels/driver"
)

// Output says what of a result is returned, and in which form. The zero value is all of it, as [Result.Regions].
type Output struct {
	// Columns asks for [Result.Columns] in place of Result.Regions.
	Columns bool
	// Failed leaves out the regions whose verdict isn't [Fail]. The result's verdict is of all regions.
	Failed bool
	// Fields are the parts of a region to return; 0 means all. Without [FieldChannels] no statistics are computed but
	// those that limits need. Result.Regions may hold other parts than those that were asked for.
	Fields Fields
	// Later leaves limits over parts to [Parts.Judge]: until then the result's verdict is [Fail], and what Failed
	// leaves out is there. Without it they fail.
	Later bool
}

// Fields are parts of what is returned of a region.
type Fields uint16

const (
	FieldVerdict Fields = 1 << iota // comes in any case, as does the index
	FieldName
	FieldCount
	FieldArea
	FieldCoverage
	FieldBounds
	FieldCentroid
	FieldChannels // and with them the count
	FieldLimits

	allFields = 1<<iota - 1
)

// Has reports whether x is in f, which has all where it is 0.
func (f Fields) Has(x Fields) bool { return f == 0 || f&x != 0 }

// Columns holds the numbers of R regions and C channels. Each column holds the values of one quantity in the order of
// rows, then channels, then bins or coordinates; it is nil where it was not asked for. What follows from other columns
// has none: mean, variance and standard deviation are those of Count, Sum and SumOfSquares, the cumulative histogram
// that of the histogram, and where this is Full, so are median, mode, distinct and percentiles. In a row of which Count
// is 0, what has no value is NaN in columns of float64 and 0 in others.
type Columns struct {
	Rows     int // R
	Regions  int // of the set: R, or more where only failed ones are here
	Channels []Channel
	// Steps and Zeros say what samples of each channel stand for, as [ChannelStatistics].Step and Zero do; nil where no
	// channel is derived from colours. Where one is, nothing follows from other columns but the cumulative histogram.
	// The mode of [Hue] is 255 where no pixel has a hue.
	Steps []float64
	Zeros []uint32
	// Statistics that were asked for, those without a column included.
	Statistics Statistics
	// Percentiles that were asked for: P of them.
	Percentiles      []float64
	PercentileMethod PercentileMethod

	Index    []uint32 // [R]: of the region in the set; nil where row i is region i
	Verdict  []Verdict
	Name     []string
	Count    []uint64
	Area     []float64
	Coverage []float64    // NaN where it is unknown
	Bounds   [][4]uint32  // X0, Y0, X1, Y1
	Centroid [][2]float64 // X, Y
	// Limits are the outcomes of all rows; those of row i end at LimitEnds[i].
	Limits    []LimitResult
	LimitEnds []uint32

	Sum              []uint64  // [R][C], as all that follow
	Mean             []float64 // nil, as Variance and StdDev, where no channel is derived
	Variance, StdDev []float64
	SumOfSquares     []uint64
	Min, Max         []uint32
	MinAt, MaxAt     [][2]uint32 // X, Y
	Median           []float64
	Mode             []uint32
	Distinct         []uint32
	Percentile       []float64 // [R][C][P]
	WeightedCentroid [][2]float64
	Histogram        *HistogramColumns

	Skewness, Kurtosis    []float64 // NaN where all samples are equal
	Entropy               []float64
	MeanAbsoluteDeviation []float64
	InterquartileRange    []float64
	KolmogorovSmirnov     []float64 // NaN where there is nothing to compare, as in those below
	Wasserstein           []float64
	JensenShannon         []float64
	ChiSquare             []float64
	PlaneX, PlaneY        []float64 // NaN where all pixels are on a line
	PlaneResidual         []float64

	Textures     *TextureColumns     // nil where none were asked for
	Covered      *CoveredColumns     // likewise
	Blobs        *BlobColumns        // likewise
	Correlations *CorrelationColumns // likewise
}

// BlobColumns holds how many blobs there are, as [RegionBlobs] has it: [R] each. Blobs themselves are in rows only.
type BlobColumns struct {
	Found, Kept, Seen []uint32 // Seen is how many of Kept were looked at
	Area              []uint64 // of these together
}

// CorrelationColumns holds what [CorrelationValue] holds, of T correlations.
type CorrelationColumns struct {
	Correlations []Correlation // T of them
	Pairs        []uint64      // [R][C][T]
	// [R][C][T] each, NaN where there is none.
	Product, Covariance, Coefficient []float64
}

// TextureColumns holds what [TextureValue] holds, of pairs at O offsets in L levels.
type TextureColumns struct {
	Levels  int      // L
	Offsets []Offset // O of them
	Pairs   []uint32 // [R][C][O]
	// Contrast, homogeneity, energy, correlation and entropy: [R][C][O] each, NaN where there is none.
	Numbers [5][]float64
	Counts  []uint32 // [R][C][O][L][L]; nil where they weren't asked for
}

// HistogramColumns holds histograms of B bins each.
type HistogramColumns struct {
	Bins         int // B
	Lower, Upper float64
	Full         bool     // one bin a value: bin k counts the samples k
	Counts       []uint32 // [R][C][B]
	Below, Above []uint32 // [R][C]; nil where Full

	lent *hostMemory // that Counts lies in, or nil
}

// columnsOf are the statistics that columns are made of.
func columnsOf(asked Statistics, full bool) Statistics {
	if asked&(Variance|StdDev) != 0 {
		asked |= Sum | SumOfSquares
	}
	if asked.Has(Mean) {
		asked |= Sum
	}
	if asked.Has(Cumulative) {
		asked |= Histogram
	}
	asked &^= Mean | Variance | StdDev | Cumulative
	if asked.Has(Histogram) && full {
		asked &^= Median | Mode | Distinct | Percentiles
	}
	return asked
}

// newColumns makes columns for all regions of the set. Counts have no memory before makeCounts.
func newColumns(p *plan) *Columns {
	n := p.set.Len()
	f := p.output.Fields
	c := &Columns{Rows: n, Regions: n, Channels: p.channels, Statistics: p.listed, Percentiles: p.percentiles,
		PercentileMethod: p.method, Verdict: make([]Verdict, n)}
	if f.Has(FieldName) {
		c.Name = p.set.names
	}
	if f.Has(FieldArea) {
		c.Area = p.set.areas
	}
	if f.Has(FieldCoverage) {
		c.Coverage = make([]float64, n)
	}
	if f.Has(FieldBounds) {
		c.Bounds = make([][4]uint32, n)
	}
	if f.Has(FieldCentroid) && p.asked.Has(Centroid) {
		c.Centroid = make([][2]float64, n)
	}
	if f.Has(FieldLimits) && p.set.limitFrom != nil {
		c.Limits = make([]LimitResult, len(p.set.limits))
		c.LimitEnds = make([]uint32, n)
		for i := range c.LimitEnds {
			c.LimitEnds[i] = uint32(p.set.limitFrom[i+1])
		}
	}
	if f.Has(FieldCount | FieldChannels) {
		c.Count = make([]uint64, n)
	}
	if !f.Has(FieldChannels) {
		return c
	}
	if p.codings != nil {
		c.Steps, c.Zeros = make([]float64, len(p.codings)), make([]uint32, len(p.codings))
		for i, k := range p.codings {
			if k != asIs {
				c.Steps[i], c.Zeros[i] = k.step, uint32(k.zero)
			}
		}
	}
	n *= len(p.channels)
	has := p.asked.Has
	for _, m := range []struct {
		is Statistics
		to *[]float64
	}{{Mean, &c.Mean}, {Variance, &c.Variance}, {StdDev, &c.StdDev}} {
		if has(m.is) {
			*m.to = make([]float64, n)
		}
	}
	if has(Sum) {
		c.Sum = make([]uint64, n)
	}
	if has(SumOfSquares) {
		c.SumOfSquares = make([]uint64, n)
	}
	if has(Min) {
		c.Min, c.MinAt = make([]uint32, n), make([][2]uint32, n)
	}
	if has(Max) {
		c.Max, c.MaxAt = make([]uint32, n), make([][2]uint32, n)
	}
	if has(Median) {
		c.Median = make([]float64, n)
	}
	if has(Mode) {
		c.Mode = make([]uint32, n)
	}
	if has(Distinct) {
		c.Distinct = make([]uint32, n)
	}
	if has(Percentiles) {
		c.Percentile = make([]float64, n*len(p.percentiles))
	}
	if has(Centroid) {
		c.WeightedCentroid = make([][2]float64, n)
	}
	for _, s := range shapes {
		if has(s.is) {
			*s.column(c) = make([]float64, n)
		}
	}
	if no := p.listedOffsets; no > 0 {
		t := &TextureColumns{Levels: p.levels, Offsets: p.offsets[:no], Pairs: make([]uint32, n*no)}
		for k := range t.Numbers {
			t.Numbers[k] = make([]float64, n*no)
		}
		c.Textures = t
	}
	if p.coveredListed {
		c.Covered = p.newCoveredColumns(p.set.Len())
	}
	if p.listedBlobs {
		rows := p.set.Len()
		c.Blobs = &BlobColumns{make([]uint32, rows), make([]uint32, rows), make([]uint32, rows), make([]uint64, rows)}
	}
	if nk := p.listedCorrelations; nk > 0 {
		c.Correlations = &CorrelationColumns{Correlations: p.correlations[:nk], Pairs: make([]uint64, n*nk),
			Product: make([]float64, n*nk), Covariance: make([]float64, n*nk), Coefficient: make([]float64, n*nk)}
	}
	if has(Histogram) {
		c.Histogram = &HistogramColumns{Bins: p.bins.bins, Lower: p.bins.lower, Upper: p.bins.upper, Full: p.bins.full}
		if !p.bins.full {
			c.Histogram.Below, c.Histogram.Above = make([]uint32, n), make([]uint32, n)
		}
	}
	return c
}

// makeCounts makes what counts lie in, where there is nothing that was lent: they take far more than all else.
func (c *Columns) makeCounts(p *plan) {
	n := c.Regions * len(c.Channels)
	if h := c.Histogram; h != nil && h.lent == nil {
		h.Counts = make([]uint32, n*h.Bins)
	}
	if t := c.Textures; t != nil && p.matrices {
		t.Counts = make([]uint32, n*len(t.Offsets)*t.Levels*t.Levels)
	}
	if x := c.Covered; x != nil && x.Histogram != nil {
		x.Histogram.Counts = make([]float64, n*x.Histogram.Bins)
	}
}

// histogram is the column of histograms; nil where there is none.
func (d *deriver) histogram() *HistogramColumns {
	if d.res.Columns == nil {
		return nil
	}
	return d.res.Columns.Histogram
}

// Release gives memory that the result's columns lie in back for later calls: they must not be read after it. Calling
// it is no duty, and without effect on a result without columns.
func (r *Result) Release() {
	if r.Columns == nil || r.Columns.Histogram == nil {
		return
	}
	if h := r.Columns.Histogram; h.lent != nil {
		h.Counts = nil
		hostPool.Put(h.lent)
		h.lent = nil
	}
}

// take puts counts into place k, and returns how many samples they hold and their sum.
func (h *HistogramColumns) take(k int, from counts) (n, sum uint64) {
	if h.lent != nil { // they are there, with those of values that no sample should have
		return tally(from.all, 0)
	}
	copy(h.Counts[k*h.Bins+int(from.lo):], from.n)
	return tally(from.n, from.lo)
}

// row is the scratch for region i.
func (d *deriver) row(s *scratch, i int) *RegionResult {
	nc, np := len(d.channels), len(d.fractions)
	s.channels, s.percentiles = grow(s.channels, nc), grow(s.percentiles, nc*np)
	s.row = RegionResult{Index: i, Name: d.set.names[i], Area: d.set.areas[i], Channels: s.channels}
	for c := range s.channels {
		s.channels[c] = ChannelStatistics{Channel: d.channels[c]}
		if np > 0 {
			s.channels[c].Percentiles = s.percentiles[c*np : (c+1)*np]
		}
	}
	if d.set.limitFrom != nil {
		if all := d.res.Columns.Limits; all != nil {
			s.row.Limits = all[d.set.limitFrom[i]:d.set.limitFrom[i+1]]
		} else {
			s.limits = grow(s.limits, len(d.set.Limits(i)))
			s.row.Limits = s.limits
		}
	}
	return &s.row
}

// put puts the numbers of a region that are of no channel into row i.
func (c *Columns) put(i int, r *RegionResult) {
	if b := c.Blobs; b != nil {
		b.Found[i], b.Kept[i] = uint32(r.Blobs.Found), uint32(r.Blobs.Kept)
		b.Seen[i], b.Area[i] = uint32(len(r.Blobs.looked)), r.Blobs.Area
	}
	c.Verdict[i] = r.Verdict
	if c.Count != nil {
		c.Count[i] = r.Count
	}
	if c.Coverage != nil {
		c.Coverage[i] = r.Coverage
		if !r.CoverageKnown {
			c.Coverage[i] = math.NaN()
		}
	}
	if c.Covered != nil {
		c.Covered.Count[i] = r.CoveredCount
	}
	if b := r.Bounds; c.Bounds != nil && !b.Empty() {
		c.Bounds[i] = [4]uint32{uint32(b.X0), uint32(b.Y0), uint32(b.X1), uint32(b.Y1)}
	}
	if c.Centroid != nil {
		c.Centroid[i] = pointOrNaN(r.Centroid, r.HasCentroid)
	}
}

// putChannel puts the numbers of a channel of a region into place k; s holds their distribution.
func (c *Columns) putChannel(p *plan, s *scratch, k int, from *ChannelStatistics) {
	for _, m := range []struct {
		is   Statistics
		to   []float64
		from float64
	}{{Mean, c.Mean, from.Mean}, {Variance, c.Variance, from.Variance}, {StdDev, c.StdDev, from.StdDev}} {
		if m.to == nil {
			continue
		}
		if m.to[k] = m.from; !from.Has.Has(m.is) {
			m.to[k] = math.NaN()
		}
	}
	if c.Sum != nil {
		c.Sum[k] = from.Sum
	}
	if c.SumOfSquares != nil {
		c.SumOfSquares[k] = from.SumOfSquares
	}
	if c.Min != nil {
		c.Min[k], c.MinAt[k] = from.Min, [2]uint32{uint32(from.MinAt.X), uint32(from.MinAt.Y)}
	}
	if c.Max != nil {
		c.Max[k], c.MaxAt[k] = from.Max, [2]uint32{uint32(from.MaxAt.X), uint32(from.MaxAt.Y)}
	}
	if c.Median != nil {
		c.Median[k] = from.Median
		if !from.Has.Has(Median) {
			c.Median[k] = math.NaN()
		}
	}
	if c.Mode != nil {
		if c.Mode[k] = from.Mode; from.Channel == Hue && !from.Has.Has(Mode) {
			c.Mode[k] = driver.NoHue
		}
	}
	if c.Distinct != nil {
		c.Distinct[k] = from.Distinct
	}
	if c.Percentile != nil {
		to := c.Percentile[k*len(p.fractions):][:len(p.fractions)]
		for i := range to {
			to[i] = math.NaN()
			if from.Percentiles != nil {
				to[i] = from.Percentiles[i].Value
			}
		}
	}
	if c.WeightedCentroid != nil {
		c.WeightedCentroid[k] = pointOrNaN(from.WeightedCentroid, from.Has.Has(Centroid))
	}
	if p.asked&(needShape|Plane) != 0 {
		for _, s := range shapes {
			if to := *s.column(c); to != nil {
				to[k] = *s.field(from)
				if !from.Has.Has(s.is) {
					to[k] = math.NaN()
				}
			}
		}
	}
	if t := c.Textures; t != nil {
		t.put(k, s.textures[:len(t.Offsets)])
	}
	if c.Covered != nil {
		c.Covered.put(k, &s.covered, k%len(c.Channels) >= p.own)
	}
	if t := c.Correlations; t != nil {
		for i, v := range s.correlations[:len(t.Correlations)] {
			at := k*len(t.Correlations) + i
			t.Pairs[at], t.Product[at], t.Covariance[at], t.Coefficient[at] = v.Pairs, v.Product, v.Covariance,
				v.Coefficient
		}
	}
	if h := c.Histogram; h != nil && !h.Full {
		h.Below[k], h.Above[k] = fillBins(p.binner(k%len(c.Channels)), h.Counts[k*h.Bins:(k+1)*h.Bins], &s.dist)
	}
}

// put puts the values of a channel of a region into place k.
func (t *TextureColumns) put(k int, values []TextureValue) {
	cells := t.Levels * t.Levels
	for i := range values {
		at := k*len(t.Offsets) + i
		t.Pairs[at] = uint32(values[i].Pairs)
		for n, v := range values[i].numbers() {
			t.Numbers[n][at] = *v
		}
		if t.Counts != nil {
			copy(t.Counts[at*cells:(at+1)*cells], values[i].Counts)
		}
	}
}

// values are those of place k, which share nothing with the columns.
func (t *TextureColumns) values(k int) []TextureValue {
	cells := t.Levels * t.Levels
	out := make([]TextureValue, len(t.Offsets))
	for i := range out {
		at := k*len(t.Offsets) + i
		out[i] = TextureValue{Offset: t.Offsets[i], Levels: t.Levels, Pairs: uint64(t.Pairs[at])}
		for n, v := range out[i].numbers() {
			*v = t.Numbers[n][at]
		}
		if t.Counts != nil {
			out[i].Counts = slices.Clone(t.Counts[at*cells : (at+1)*cells])
		}
	}
	return out
}

// values are those of place k.
func (t *CorrelationColumns) values(k int) []CorrelationValue {
	out := make([]CorrelationValue, len(t.Correlations))
	for i, c := range t.Correlations {
		at := k*len(out) + i
		out[i] = CorrelationValue{c, t.Pairs[at], t.Product[at], t.Covariance[at], t.Coefficient[at]}
	}
	return out
}

func pointOrNaN(p Point, has bool) [2]float64 {
	if !has {
		return [2]float64{math.NaN(), math.NaN()}
	}
	return [2]float64{p.X, p.Y}
}

// chooseFailed leaves the rows that failed.
func (c *Columns) chooseFailed() {
	rows := make([]uint32, 0, 16)
	for i, v := range c.Verdict {
		if v == Fail {
			rows = append(rows, uint32(i))
		}
	}
	if len(rows) == c.Rows {
		return
	}
	if c.Name != nil { // the set's, which is not ours to change
		names := make([]string, len(rows))
		for k, i := range rows {
			names[k] = c.Name[i]
		}
		c.Name = names
	}
	if c.Area != nil {
		c.Area = choose(slices.Clone(c.Area), rows, 1)
	}
	if c.LimitEnds != nil {
		ends, n := make([]uint32, len(rows)), 0
		for k, i := range rows {
			from := uint32(0)
			if i > 0 {
				from = c.LimitEnds[i-1]
			}
			n += copy(c.Limits[n:], c.Limits[from:c.LimitEnds[i]])
			ends[k] = uint32(n)
		}
		c.Limits, c.LimitEnds = c.Limits[:n], ends
	}
	nc := len(c.Channels)
	c.Rows, c.Index = len(rows), rows
	c.Verdict = choose(c.Verdict, rows, 1)
	c.Count, c.Coverage = choose(c.Count, rows, 1), choose(c.Coverage, rows, 1)
	c.Bounds, c.Centroid = choose(c.Bounds, rows, 1), choose(c.Centroid, rows, 1)
	c.Sum, c.SumOfSquares = choose(c.Sum, rows, nc), choose(c.SumOfSquares, rows, nc)
	c.Min, c.Max = choose(c.Min, rows, nc), choose(c.Max, rows, nc)
	c.MinAt, c.MaxAt = choose(c.MinAt, rows, nc), choose(c.MaxAt, rows, nc)
	c.Median, c.Mode, c.Distinct = choose(c.Median, rows, nc), choose(c.Mode, rows, nc), choose(c.Distinct, rows, nc)
	for _, s := range shapes {
		column := s.column(c)
		*column = choose(*column, rows, nc)
	}
	c.Mean, c.Variance, c.StdDev = choose(c.Mean, rows, nc), choose(c.Variance, rows, nc), choose(c.StdDev, rows, nc)
	c.Percentile = choose(c.Percentile, rows, nc*len(c.Percentiles))
	c.WeightedCentroid = choose(c.WeightedCentroid, rows, nc)
	if t := c.Textures; t != nil {
		no := nc * len(t.Offsets)
		t.Pairs, t.Counts = choose(t.Pairs, rows, no), choose(t.Counts, rows, no*t.Levels*t.Levels)
		for n := range t.Numbers {
			t.Numbers[n] = choose(t.Numbers[n], rows, no)
		}
	}
	if c.Covered != nil {
		c.Covered.choose(rows, nc)
	}
	if b := c.Blobs; b != nil {
		b.Found, b.Kept = choose(b.Found, rows, 1), choose(b.Kept, rows, 1)
		b.Seen, b.Area = choose(b.Seen, rows, 1), choose(b.Area, rows, 1)
	}
	if t := c.Correlations; t != nil {
		nk := nc * len(t.Correlations)
		t.Pairs, t.Product = choose(t.Pairs, rows, nk), choose(t.Product, rows, nk)
		t.Covariance, t.Coefficient = choose(t.Covariance, rows, nk), choose(t.Coefficient, rows, nk)
	}
	if h := c.Histogram; h != nil {
		h.Counts = choose(h.Counts, rows, nc*h.Bins)
		h.Below, h.Above = choose(h.Below, rows, nc), choose(h.Above, rows, nc)
	}
}

// choose moves the rows of a column that are chosen to its front; a row has so many values.
func choose[T any](column []T, rows []uint32, values int) []T {
	if column == nil {
		return nil
	}
	for k, i := range rows {
		copy(column[k*values:(k+1)*values], column[int(i)*values:])
	}
	return column[:len(rows)*values]
}

// AsRows is the result with Regions, which share nothing with the columns that they are made of. It is the result
// itself where that has no columns.
func (r *Result) AsRows() *Result {
	if r == nil || r.Columns == nil {
		return r
	}
	c := r.Columns
	out := &Result{Regions: make([]RegionResult, c.Rows), Verdict: r.Verdict, Scale: r.Scale, Pose: r.Pose,
		Method: r.Method, Timing: r.Timing}
	nc := len(c.Channels)
	channels := make([]ChannelStatistics, c.Rows*nc)
	s := scratchPool.Get().(*scratch)
	defer scratchPool.Put(s)
	fractions := make([]exact.Fraction, len(c.Percentiles))
	for i, p := range c.Percentiles {
		fractions[i] = exact.Percent(p)
	}
	for i := range out.Regions {
		to := &out.Regions[i]
		to.Index, to.Verdict = i, c.Verdict[i]
		if c.Index != nil {
			to.Index = int(c.Index[i])
		}
		if c.Name != nil {
			to.Name = c.Name[i]
		}
		if c.Count != nil {
			to.Count = c.Count[i]
		}
		if c.Area != nil {
			to.Area = c.Area[i]
		}
		if c.Coverage != nil && !math.IsNaN(c.Coverage[i]) {
			to.Coverage, to.CoverageKnown = c.Coverage[i], true
		}
		if c.Covered != nil {
			to.CoveredCount = c.Covered.Count[i]
		}
		if c.Bounds != nil {
			b := c.Bounds[i]
			to.Bounds = Rect{int(b[0]), int(b[1]), int(b[2]), int(b[3])}
		}
		if c.Centroid != nil && !math.IsNaN(c.Centroid[i][0]) {
			to.Centroid, to.HasCentroid = Point{c.Centroid[i][0], c.Centroid[i][1]}, true
		}
		if c.LimitEnds != nil {
			from := uint32(0)
			if i > 0 {
				from = c.LimitEnds[i-1]
			}
			to.Limits = slices.Clone(c.Limits[from:c.LimitEnds[i]])
		}
		if b := c.Blobs; b != nil {
			to.Blobs = &RegionBlobs{Found: uint64(b.Found[i]), Kept: uint64(b.Kept[i]), Area: b.Area[i],
				All: b.Seen[i] == b.Kept[i]}
		}
		if c.Statistics&^Centroid == 0 && c.WeightedCentroid == nil && c.Textures == nil && c.Covered == nil &&
			c.Correlations == nil {
			continue // no channels were asked for
		}
		to.Channels = channels[i*nc : (i+1)*nc : (i+1)*nc]
		for k := range to.Channels {
			to.Channels[k].Channel = c.Channels[k]
			c.channel(s, fractions, i*nc+k, to.Count, &to.Channels[k])
		}
	}
	return out
}

// channel puts what is asked for of place k, with so many pixels, into to.
func (c *Columns) channel(s *scratch, fractions []exact.Fraction, k int, count uint64, to *ChannelStatistics) {
	asked := c.Statistics
	code := asIs
	if at := k % len(c.Channels); c.Steps != nil && c.Steps[at] != 0 {
		code = codingOf(to.Channel, c.Steps[at], c.Zeros[at])
		to.Step, to.Zero = c.Steps[at], c.Zeros[at]
	}
	to.Has = asked & (Count | Sum | SumOfSquares | Distinct | Histogram | Cumulative)
	if asked.Has(Count) {
		to.Count = count
	}
	if c.Textures != nil {
		to.Textures = c.Textures.values(k)
	}
	if c.Covered != nil {
		to.Covered = c.Covered.value(k)
	}
	if c.Correlations != nil {
		to.Correlations = c.Correlations.values(k)
	}
	if asked.Has(Sum) {
		to.Sum = c.Sum[k]
	}
	if asked.Has(SumOfSquares) {
		to.SumOfSquares = c.SumOfSquares[k]
	}
	full := c.Histogram != nil && c.Histogram.Full
	if h := c.Histogram; h != nil {
		words := h.Counts[k*h.Bins : (k+1)*h.Bins]
		to.Histogram = &HistogramCounts{Counts: make([]uint64, h.Bins)}
		bins := binner{lower: h.Lower, upper: h.Upper}
		levels := 256 // of frames with colours
		if to.Channel == Laplacian {
			levels = int(float64(code.zero) * code.step / 4)
		}
		to.Histogram.Lower, to.Histogram.Upper = bins.rangeOf(code, levels)
		for i, n := range words {
			to.Histogram.Counts[i] = uint64(n)
		}
		if !full {
			to.Histogram.Below, to.Histogram.Above = uint64(h.Below[k]), uint64(h.Above[k])
		}
		if asked.Has(Cumulative) {
			to.Cumulative = slices.Clone(to.Histogram.Counts)
			cumulate(to.Cumulative, to.Histogram.Below)
		}
		if !asked.Has(Histogram) {
			to.Histogram = nil
		}
		if full {
			s.dist.load(words, 0)
			if asked.Has(Distinct) && c.Distinct == nil {
				to.Distinct = uint32(len(s.dist.values))
			}
		}
	}
	if c.Distinct != nil {
		to.Distinct = c.Distinct[k]
	}
	if c.WeightedCentroid != nil && !math.IsNaN(c.WeightedCentroid[k][0]) {
		to.WeightedCentroid = Point{c.WeightedCentroid[k][0], c.WeightedCentroid[k][1]}
		to.Has |= Centroid
	}
	if to.Channel == Hue {
		to.Has &= hueStatistics
		asked &= hueStatistics
		to.Sum, to.SumOfSquares = 0, 0
		if c.Mode != nil && c.Mode[k] == driver.NoHue {
			asked &^= Mode
		}
	}
	if count == 0 {
		return
	}
	if c.Steps != nil {
		for _, m := range []struct {
			is   Statistics
			from []float64
			to   *float64
		}{{Mean, c.Mean, &to.Mean}, {Variance, c.Variance, &to.Variance}, {StdDev, c.StdDev, &to.StdDev}} {
			if asked.Has(m.is) && !math.IsNaN(m.from[k]) {
				*m.to = m.from[k]
				to.Has |= m.is
			}
		}
		asked &^= Mean | Variance | StdDev
	}
	to.Has |= asked & (Mean | Variance | StdDev | Min | Max | Median | Mode | Percentiles)
	if asked.Has(Mean) {
		to.Mean = exact.Quotient(0, c.Sum[k], count)
	}
	if asked&(Variance|StdDev) != 0 {
		v, root := exact.Variance(count, c.Sum[k], c.SumOfSquares[k])
		if asked.Has(Variance) {
			to.Variance = v
		}
		if asked.Has(StdDev) {
			to.StdDev = root
		}
	}
	if asked.Has(Min) {
		to.Min, to.MinAt = c.Min[k], Position{int(c.MinAt[k][0]), int(c.MinAt[k][1])}
	}
	if asked.Has(Max) {
		to.Max, to.MaxAt = c.Max[k], Position{int(c.MaxAt[k][0]), int(c.MaxAt[k][1])}
	}
	switch {
	case c.Median != nil && asked.Has(Median):
		to.Median = c.Median[k]
	case full && asked.Has(Median):
		to.Median = s.dist.median()
	}
	switch {
	case c.Mode != nil && asked.Has(Mode):
		to.Mode = c.Mode[k]
	case full && asked.Has(Mode):
		to.Mode = s.dist.mode
	}
	for _, s := range shapes {
		if column := *s.column(c); column != nil && !math.IsNaN(column[k]) {
			*s.field(to) = column[k]
			to.Has |= s.is
		}
	}
	if asked.Has(Percentiles) {
		to.Percentiles = make([]PercentileValue, len(c.Percentiles))
		for i, p := range c.Percentiles {
			v := &to.Percentiles[i]
			v.Percentile = p
			switch {
			case c.Percentile != nil:
				v.Value = c.Percentile[k*len(c.Percentiles)+i]
			case c.PercentileMethod == Linear:
				v.Value = fractions[i].Linear(count, s.dist.at)
			default:
				v.Value = float64(s.dist.at(fractions[i].NearestRank(count)))
			}
		}
	}
}
