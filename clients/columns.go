package clients

// Columns: results of many regions, read where they lie.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"math"
	"math/bits"
	"slices"

	"github.com/polyscan/polyscan/internal/exact"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// Result is what holds the numbers of regions: a FrameResult, or a PartResult.
type Result interface {
	GetRegions() []*polyscanv1.RegionResult
	GetColumns() *polyscanv1.RegionColumns
}

// AsColumns returns an inspection like in whose results come as columns, of those fields of regions, or of all where
// none is named. Read them with [ColumnsOf]. The two inspections share regions and reductions.
func AsColumns(in *polyscanv1.Inspection, fields ...polyscanv1.RegionField) *polyscanv1.Inspection {
	return &polyscanv1.Inspection{
		Regions: in.GetRegions(), Reductions: in.GetReductions(), Method: in.GetMethod(), WorkClass: in.GetWorkClass(),
		Result: &polyscanv1.ResultOptions{
			Form: polyscanv1.ResultForm_RESULT_FORM_COLUMNS, Regions: in.GetResult().GetRegions(), Fields: fields,
		},
	}
}

// Columns reads the numbers of regions by row i and, where they are of a channel, by the number c of the channel. It
// reads them from the message, without copying, and derives what follows from others at each call: keep what you need
// twice. Rows and channels out of range panic, as indexes of a slice do.
//
// A second result of false says that there is no value: it was not asked for, or the region has no pixels.
//
// Derived numbers are those that rows would have, bit for bit.
type Columns struct {
	m    *polyscanv1.RegionColumns
	list []*polyscanv1.RegionResult // in place of m, from a server that sent rows

	rows, channels int
	percents       []exact.Fraction // of m.Percentiles
	scale          *exact.Scale     // nil where the regions have none
}

// ColumnsOf reads the numbers of a result. The inspection is the one that was sent: a server that doesn't know columns
// answers with rows, of all regions, and these are read in the same way, of the regions that were asked for. The error
// names the column that is not what the message says it is.
func ColumnsOf(in *polyscanv1.Inspection, res Result) (*Columns, error) {
	m := res.GetColumns()
	if m != nil {
		c := &Columns{m: m, rows: int(m.GetRows()), channels: len(m.GetChannels())}
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("clients: columns: %w", err)
		}
		for _, p := range m.GetPercentiles() {
			c.percents = append(c.percents, exact.Percent(p))
		}
		if s := m.GetScale(); s != nil {
			c.scale = exact.NewScale(s.GetX(), s.GetY(), s.GetOrigin().GetX(), s.GetOrigin().GetY())
		}
		return c, nil
	}
	list := res.GetRegions()
	if in.GetResult().GetRegions() == polyscanv1.RegionChoice_REGION_CHOICE_FAILED {
		list = slices.DeleteFunc(slices.Clone(list), func(r *polyscanv1.RegionResult) bool {
			return r.GetVerdict() != polyscanv1.Verdict_VERDICT_FAIL
		})
	}
	c := &Columns{list: list, rows: len(list)}
	for i, r := range list {
		if r == nil {
			return nil, fmt.Errorf("clients: columns: regions[%d] is missing", i)
		}
		if i > 0 && len(r.GetChannels()) != c.channels {
			return nil, fmt.Errorf("clients: columns: regions[%d] has %d channels, the regions before it %d", i,
				len(r.GetChannels()), c.channels)
		}
		c.channels = len(r.GetChannels())
	}
	return c, nil
}

// maxChannels bounds what a message may claim.
const maxChannels = 64

// check compares the lengths of columns with what the message says of them, and the order of what ascends.
func (c *Columns) check() error {
	m, rows := c.m, uint64(c.m.GetRows())
	if c.channels > maxChannels {
		return fmt.Errorf("channels: %d, at most %d", c.channels, maxChannels)
	}
	for i, p := range m.GetPercentiles() {
		if !(p >= 0 && p <= 100) {
			return fmt.Errorf("percentiles[%d] = %v: must be 0 to 100", i, p)
		}
	}
	if s := m.GetScale(); s != nil && !(s.GetX() > 0 && s.GetX() <= math.MaxFloat32 && s.GetY() > 0 &&
		s.GetY() <= math.MaxFloat32 && math.Abs(s.GetOrigin().GetX()) <= math.MaxFloat32 &&
		math.Abs(s.GetOrigin().GetY()) <= math.MaxFloat32) {
		return fmt.Errorf("scale: %v", s)
	}
	if n := len(m.GetSteps()); n > 0 && n != c.channels || n != len(m.GetZeros()) {
		return fmt.Errorf("steps: %d, and %d zeros, of %d channels", n, len(m.GetZeros()), c.channels)
	}
	if m.GetRegions() < m.GetRows() {
		return fmt.Errorf("rows: %d of %d regions", m.GetRows(), m.GetRegions())
	}
	var err error
	column := func(name string, b []byte, needed bool, shape ...uint64) {
		if err == nil && (needed || len(b) > 0) {
			err = checkColumn(name, b, shape...)
		}
	}
	ascending := func(name string, b []byte, by, last uint64) {
		if err == nil && len(b) > 0 {
			err = checkAscending(name, b, by, last)
		}
	}
	asked := func(s ...polyscanv1.Statistic) bool {
		return slices.ContainsFunc(s, func(s polyscanv1.Statistic) bool {
			return slices.Contains(m.GetStatistics(), s)
		})
	}
	text := func(name string, t *polyscanv1.TextColumn, n uint64) {
		if t != nil {
			column(name+".ends", t.GetEnds(), true, n, 4)
			ascending(name+".ends", t.GetEnds(), 0, uint64(len(t.GetText())))
			if n == 0 && err == nil && len(t.GetText()) > 0 {
				err = fmt.Errorf("%s.text: %d bytes of no text", name, len(t.GetText()))
			}
		}
	}

	column("index", m.GetIndex(), m.GetRows() < m.GetRegions(), rows, 4)
	if n := m.GetRegions(); n > 0 {
		ascending("index", m.GetIndex(), 1, uint64(n)-1)
	}
	column("verdict", m.GetVerdict(), true, rows)
	text("name", m.GetName(), rows)
	column("area", m.GetArea(), false, rows, 8)
	column("coverage", m.GetCoverage(), false, rows, 8)
	column("bounds", m.GetBounds(), false, rows, 4, 4)
	column("centroid", m.GetCentroid(), false, rows, 2, 8)

	const (
		sum, squares = polyscanv1.Statistic_STATISTIC_SUM, polyscanv1.Statistic_STATISTIC_SUM_OF_SQUARES
		mean         = polyscanv1.Statistic_STATISTIC_MEAN
		variance     = polyscanv1.Statistic_STATISTIC_VARIANCE
		stddev       = polyscanv1.Statistic_STATISTIC_STDDEV
		histogram    = polyscanv1.Statistic_STATISTIC_HISTOGRAM
		cumulative   = polyscanv1.Statistic_STATISTIC_CUMULATIVE
		distances    = polyscanv1.Statistic_STATISTIC_DISTANCES
		plane        = polyscanv1.Statistic_STATISTIC_PLANE
	)
	// Of the centroid alone, the weighted one may not have been asked for, nor the count.
	channels := asked(polyscanv1.Statistic_STATISTIC_COUNT, sum, squares, mean, variance, stddev,
		polyscanv1.Statistic_STATISTIC_MIN, polyscanv1.Statistic_STATISTIC_MAX, histogram,
		polyscanv1.Statistic_STATISTIC_PERCENTILES, polyscanv1.Statistic_STATISTIC_MEDIAN,
		polyscanv1.Statistic_STATISTIC_MODE, polyscanv1.Statistic_STATISTIC_DISTINCT,
		polyscanv1.Statistic_STATISTIC_SKEWNESS, polyscanv1.Statistic_STATISTIC_KURTOSIS,
		polyscanv1.Statistic_STATISTIC_ENTROPY, polyscanv1.Statistic_STATISTIC_MEAN_ABSOLUTE_DEVIATION,
		polyscanv1.Statistic_STATISTIC_INTERQUARTILE_RANGE, cumulative, distances, plane)
	each, full := uint64(c.channels), m.GetHistogram().GetFull() && !c.derived()
	if m.GetHistogram() == nil && asked(histogram, cumulative) && err == nil {
		err = errors.New("histogram: is missing")
	}
	column("count", m.GetCount(), channels, rows, 8)
	derived := c.derived()
	column("mean", m.GetMean(), derived && asked(mean), rows, each, 8)
	column("variance", m.GetVariance(), derived && asked(variance), rows, each, 8)
	column("stddev", m.GetStddev(), derived && asked(stddev), rows, each, 8)
	column("sum", m.GetSum(), asked(sum, mean, variance, stddev), rows, each, 8)
	column("sum_of_squares", m.GetSumOfSquares(), asked(squares, variance, stddev), rows, each, 8)
	column("min", m.GetMin(), asked(polyscanv1.Statistic_STATISTIC_MIN), rows, each, 4)
	column("max", m.GetMax(), asked(polyscanv1.Statistic_STATISTIC_MAX), rows, each, 4)
	column("min_at", m.GetMinAt(), len(m.GetMin()) > 0, rows, each, 2, 4)
	column("max_at", m.GetMaxAt(), len(m.GetMax()) > 0, rows, each, 2, 4)
	column("median", m.GetMedian(), !full && asked(polyscanv1.Statistic_STATISTIC_MEDIAN), rows, each, 8)
	column("mode", m.GetMode(), !full && asked(polyscanv1.Statistic_STATISTIC_MODE), rows, each, 4)
	column("distinct", m.GetDistinct(), !full && asked(polyscanv1.Statistic_STATISTIC_DISTINCT), rows, each, 4)
	column("percentile", m.GetPercentile(), !full && asked(polyscanv1.Statistic_STATISTIC_PERCENTILES), rows, each,
		uint64(len(m.GetPercentiles())), 8)
	column("skewness", m.GetSkewness(), asked(polyscanv1.Statistic_STATISTIC_SKEWNESS), rows, each, 8)
	column("kurtosis", m.GetKurtosis(), asked(polyscanv1.Statistic_STATISTIC_KURTOSIS), rows, each, 8)
	column("entropy", m.GetEntropy(), asked(polyscanv1.Statistic_STATISTIC_ENTROPY), rows, each, 8)
	column("mean_absolute_deviation", m.GetMeanAbsoluteDeviation(),
		asked(polyscanv1.Statistic_STATISTIC_MEAN_ABSOLUTE_DEVIATION), rows, each, 8)
	column("interquartile_range", m.GetInterquartileRange(),
		asked(polyscanv1.Statistic_STATISTIC_INTERQUARTILE_RANGE), rows, each, 8)
	column("kolmogorov_smirnov", m.GetKolmogorovSmirnov(), asked(distances), rows, each, 8)
	column("wasserstein", m.GetWasserstein(), asked(distances), rows, each, 8)
	column("jensen_shannon", m.GetJensenShannon(), asked(distances), rows, each, 8)
	column("chi_square", m.GetChiSquare(), asked(distances), rows, each, 8)
	column("plane_x", m.GetPlaneX(), asked(plane), rows, each, 8)
	column("plane_y", m.GetPlaneY(), asked(plane), rows, each, 8)
	column("plane_residual", m.GetPlaneResidual(), asked(plane), rows, each, 8)
	column("weighted_centroid", m.GetWeightedCentroid(), false, rows, each, 2, 8)
	if h := m.GetHistogram(); h != nil {
		column("histogram.counts", h.GetCounts(), true, rows, each, uint64(h.GetBins()), 4)
		column("histogram.below", h.GetBelow(), !h.GetFull(), rows, each, 4)
		column("histogram.above", h.GetAbove(), !h.GetFull(), rows, each, 4)
	}
	if v := m.GetCovered(); v != nil {
		column("covered.count", v.GetCount(), true, rows, 8)
		column("covered.sum", v.GetSum(), true, rows, each, 8)
		column("covered.mean", v.GetMean(), true, rows, each, 8)
		column("covered.variance", v.GetVariance(), true, rows, each, 8)
		if h := v.GetHistogram(); h != nil {
			column("covered.histogram.counts", h.GetCounts(), true, rows, each, uint64(h.GetBins()), 8)
			column("covered.histogram.below", h.GetBelow(), true, rows, each, 8)
			column("covered.histogram.above", h.GetAbove(), true, rows, each, 8)
		}
	}
	if t := m.GetTextures(); t != nil {
		offsets, cells := uint64(len(t.GetOffsets())), uint64(t.GetLevels())*uint64(t.GetLevels())
		column("textures.pairs", t.GetPairs(), true, rows, each, offsets, 4)
		column("textures.contrast", t.GetContrast(), true, rows, each, offsets, 8)
		column("textures.homogeneity", t.GetHomogeneity(), true, rows, each, offsets, 8)
		column("textures.energy", t.GetEnergy(), true, rows, each, offsets, 8)
		column("textures.correlation", t.GetCorrelation(), true, rows, each, offsets, 8)
		column("textures.entropy", t.GetEntropy(), true, rows, each, offsets, 8)
		column("textures.counts", t.GetCounts(), false, rows, each, offsets, cells, 4)
	}
	blobs := len(m.GetBlobsFound())+len(m.GetBlobsKept())+len(m.GetBlobsSeen())+len(m.GetBlobArea()) > 0
	column("blobs_found", m.GetBlobsFound(), blobs, rows, 4)
	column("blobs_kept", m.GetBlobsKept(), blobs, rows, 4)
	column("blobs_seen", m.GetBlobsSeen(), blobs, rows, 4)
	column("blob_area", m.GetBlobArea(), blobs, rows, 8)
	if t := m.GetCorrelations(); t != nil {
		terms := uint64(len(t.GetTerms()))
		column("correlations.pairs", t.GetPairs(), true, rows, each, terms, 8)
		column("correlations.product", t.GetProduct(), true, rows, each, terms, 8)
		column("correlations.covariance", t.GetCovariance(), true, rows, each, terms, 8)
		column("correlations.correlation", t.GetCorrelation(), true, rows, each, terms, 8)
	}
	if l := m.GetLimits(); l != nil {
		n := uint64(len(l.GetVerdict()))
		column("limits.ends", l.GetEnds(), true, rows, 4)
		ascending("limits.ends", l.GetEnds(), 0, n)
		if rows == 0 && n > 0 && err == nil {
			err = fmt.Errorf("limits.verdict: %d limits of no region", n)
		}
		text("limits.expression", l.GetExpression(), n)
		text("limits.reason", l.GetReason(), n)
		column("limits.value", l.GetValue(), true, n, 8)
		column("limits.channel", l.GetChannel(), true, n)
		column("limits.parts", l.GetParts(), false, n, 4)
	}
	return err
}

// checkColumn compares the length of a column with its shape, of which the last is the width of a value.
func checkColumn(name string, b []byte, shape ...uint64) error {
	want := uint64(1)
	for _, n := range shape {
		hi, lo := bits.Mul64(want, n)
		if hi != 0 {
			return fmt.Errorf("%s: %d bytes, where the message speaks of %v", name, len(b), shape)
		}
		want = lo
	}
	if uint64(len(b)) != want {
		return fmt.Errorf("%s: %d bytes, want %d (%v)", name, len(b), want, shape)
	}
	return nil
}

// checkAscending checks that each word is at least the one before it and by, and that the last is last, or at most that
// where by is not 0.
func checkAscending(name string, b []byte, by, last uint64) error {
	least := uint64(0)
	for i := 0; i < len(b); i += 4 {
		v := uint64(binary.LittleEndian.Uint32(b[i:]))
		if v < least || v > last {
			return fmt.Errorf("%s[%d]: %d, must be %d to %d", name, i/4, v, least, last)
		}
		least = v + by
	}
	if v := uint64(word32(b, len(b)/4-1)); by == 0 && v != last {
		return fmt.Errorf("%s: ends at %d, must end at %d", name, v, last)
	}
	return nil
}

func word32(b []byte, i int) uint32     { return binary.LittleEndian.Uint32(b[4*i:]) }
func word64(b []byte, i int) uint64     { return binary.LittleEndian.Uint64(b[8*i:]) }
func wordFloat(b []byte, i int) float64 { return math.Float64frombits(word64(b, i)) }

// textAt is text i of a column.
func textAt(t *polyscanv1.TextColumn, i int) string {
	if t == nil {
		return ""
	}
	from := uint32(0)
	if i > 0 {
		from = word32(t.GetEnds(), i-1)
	}
	return string(t.GetText()[from:word32(t.GetEnds(), i)])
}

// Len is the number of rows.
func (c *Columns) Len() int { return c.rows }

// Channels is the number of channels.
func (c *Columns) Channels() int { return c.channels }

// Index is that of row i's region in the request's or recipe's list.
func (c *Columns) Index(i int) int {
	switch {
	case c.list != nil:
		return int(c.list[i].GetIndex())
	case len(c.m.GetIndex()) > 0:
		return int(word32(c.m.GetIndex(), i))
	}
	return i
}

// Verdict is the verdict of row i.
func (c *Columns) Verdict(i int) polyscanv1.Verdict {
	if c.list != nil {
		return c.list[i].GetVerdict()
	}
	return polyscanv1.Verdict(c.m.GetVerdict()[i])
}

// Name is the name of row i's region; empty where it has none or names were not asked for.
func (c *Columns) Name(i int) string {
	if c.list != nil {
		return c.list[i].GetName()
	}
	return textAt(c.m.GetName(), i)
}

// Count is the number of pixels of row i's region inside the frame.
func (c *Columns) Count(i int) (uint64, bool) {
	if c.list != nil {
		return c.list[i].GetCount(), true
	}
	return at64(c.m.GetCount(), i)
}

// Area is that of row i's region in square pixels, inside the frame or not.
func (c *Columns) Area(i int) (float64, bool) {
	if c.list != nil {
		return c.list[i].GetArea(), true
	}
	return atFloat(c.m.GetArea(), i)
}

// AreaMM2 is [Columns.Area] in mm², where the regions have a scale.
func (c *Columns) AreaMM2(i int) (float64, bool) {
	if c.list != nil {
		return optional(c.list[i].AreaMm2)
	}
	return c.mm2(c.Area(i))
}

// CountMM2 is the area of [Columns.Count] pixels in mm², where the regions have a scale.
func (c *Columns) CountMM2(i int) (float64, bool) {
	if c.list != nil {
		return optional(c.list[i].CountMm2)
	}
	n, ok := c.Count(i)
	return c.mm2(float64(n), ok)
}

func (c *Columns) mm2(px float64, ok bool) (float64, bool) {
	if !ok || c.scale == nil {
		return math.NaN(), false
	}
	return c.scale.Area(px), true
}

// Millimetres is a place of the frame, such as a centroid, in mm from the scale's origin; false where the regions have
// none, or the result came as rows, which have places in mm. The centre of pixel (i, j) is at (i + 0.5, j + 0.5).
func (c *Columns) Millimetres(x, y float64) (mmX, mmY float64, ok bool) {
	if c.scale == nil {
		return math.NaN(), math.NaN(), false
	}
	return c.scale.X(x), c.scale.Y(y), true
}

// placed is a place in mm as a message; nil where there is none.
func (c *Columns) placed(x, y float64, ok bool) *polyscanv1.Point {
	x, y, scaled := c.Millimetres(x, y)
	return pointOf(x, y, ok && scaled)
}

// Coverage is the share of the region's pixels that lie inside the frame.
func (c *Columns) Coverage(i int) (float64, bool) {
	if c.list != nil {
		return optional(c.list[i].Coverage)
	}
	return atFloat(c.m.GetCoverage(), i)
}

// Bounds is the smallest rectangle of pixels that holds the region inside the frame.
func (c *Columns) Bounds(i int) (image.Rectangle, bool) {
	if c.list != nil {
		b := c.list[i].GetBounds()
		return image.Rect(int(b.GetX0()), int(b.GetY0()), int(b.GetX1()), int(b.GetY1())), b != nil
	}
	b := c.m.GetBounds()
	if len(b) == 0 {
		return image.Rectangle{}, false
	}
	b = b[16*i:]
	r := image.Rectangle{
		image.Pt(int(word32(b, 0)), int(word32(b, 1))), image.Pt(int(word32(b, 2)), int(word32(b, 3))),
	}
	return r, !r.Empty()
}

// Centroid is the mean of the centres of the region's pixels.
func (c *Columns) Centroid(i int) (x, y float64, ok bool) {
	if c.list != nil {
		return point(c.list[i].GetCentroid())
	}
	return atPoint(c.m.GetCentroid(), i)
}

// Limits is the number of limits of row i.
func (c *Columns) Limits(i int) int {
	if c.list != nil {
		return len(c.list[i].GetLimits())
	}
	from, to := c.limits(i)
	return to - from
}

// limits are those of row i.
func (c *Columns) limits(i int) (from, to int) {
	ends := c.m.GetLimits().GetEnds()
	if len(ends) == 0 {
		return 0, 0
	}
	if i > 0 {
		from = int(word32(ends, i-1))
	}
	return from, int(word32(ends, i))
}

// Limit is the outcome of limit k of row i.
func (c *Columns) Limit(i, k int) *polyscanv1.LimitResult {
	if c.list != nil {
		return c.list[i].GetLimits()[k]
	}
	from, to := c.limits(i)
	l := c.m.GetLimits()
	k += from
	if k < from || k >= to {
		panic(fmt.Sprintf("clients: limit %d of row %d, which has %d", k-from, i, to-from))
	}
	out := &polyscanv1.LimitResult{
		Expression: textAt(l.GetExpression(), k), Verdict: polyscanv1.Verdict(l.GetVerdict()[k]),
		Channel: polyscanv1.Channel(l.GetChannel()[k]), Reason: textAt(l.GetReason(), k),
	}
	if v, ok := atFloat(l.GetValue(), k); ok {
		out.Value = &v
	}
	if parts := l.GetParts(); len(parts) > 0 {
		out.Parts = word32(parts, k)
	}
	return out
}

// Channel is what channel c is.
func (c *Columns) Channel(ch int) polyscanv1.Channel {
	if c.list != nil {
		if len(c.list) == 0 {
			return polyscanv1.Channel_CHANNEL_UNSPECIFIED
		}
		return c.list[0].GetChannels()[ch].GetChannel()
	}
	return c.m.GetChannels()[ch]
}

// of are the statistics of a channel in a row; those of rows that came without channels have no values.
func (c *Columns) of(i, ch int) *polyscanv1.ChannelStatistics {
	if r := c.list[i]; c.channels > 0 {
		return r.GetChannels()[ch]
	}
	return &polyscanv1.ChannelStatistics{}
}

type statistics = polyscanv1.ChannelStatistics

// float is a number that came as such: in a column, or in the rows.
func (c *Columns) float(i, ch int, column []byte, row func(*statistics) *float64) (float64, bool) {
	if c.list != nil {
		return optional(row(c.of(i, ch)))
	}
	return atFloat(column, c.place(i, ch))
}

// place is where a channel's value lies in a column.
func (c *Columns) place(i, ch int) int {
	if uint(ch) >= uint(c.channels) {
		panic(fmt.Sprintf("clients: channel %d of %d", ch, c.channels))
	}
	return i*c.channels + ch
}

// Sum is that of the samples.
func (c *Columns) Sum(i, ch int) (uint64, bool) {
	if c.list != nil {
		return optional(c.of(i, ch).Sum)
	}
	if c.Channel(ch) == polyscanv1.Channel_CHANNEL_HUE {
		return 0, false
	}
	return at64(c.m.GetSum(), c.place(i, ch))
}

// SumOfSquares is that of the samples' squares.
func (c *Columns) SumOfSquares(i, ch int) (uint64, bool) {
	if c.list != nil {
		return optional(c.of(i, ch).SumOfSquares)
	}
	if c.Channel(ch) == polyscanv1.Channel_CHANNEL_HUE {
		return 0, false
	}
	return at64(c.m.GetSumOfSquares(), c.place(i, ch))
}

// derived says that a channel is derived from colours: then nothing follows from other columns but the cumulative
// histogram.
func (c *Columns) derived() bool { return len(c.m.GetSteps()) > 0 }

// Value is what a sample of channel ch stands for: min, max and mode are samples, which a channel that is derived from
// colours counts in steps.
func (c *Columns) Value(ch int, sample uint32) float64 {
	switch {
	case len(c.list) > 0:
		s := c.of(0, ch)
		return exact.Sample(sample, s.GetStep(), s.GetZero())
	case c.list == nil && c.derived():
		return exact.Sample(sample, c.m.GetSteps()[ch], c.m.GetZeros()[ch])
	}
	return float64(sample)
}

// Mean is that of the samples.
func (c *Columns) Mean(i, ch int) (float64, bool) {
	if c.list != nil {
		return optional(c.of(i, ch).Mean)
	}
	if c.derived() {
		return atFloat(c.m.GetMean(), c.place(i, ch))
	}
	n, _ := c.Count(i)
	sum, ok := c.Sum(i, ch)
	if !ok || n == 0 {
		return math.NaN(), false
	}
	return exact.Quotient(0, sum, n), true
}

// Variance is the population variance of the samples.
func (c *Columns) Variance(i, ch int) (float64, bool) {
	if c.list != nil {
		return optional(c.of(i, ch).Variance)
	}
	if c.derived() {
		return atFloat(c.m.GetVariance(), c.place(i, ch))
	}
	v, _, ok := c.variance(i, ch)
	return v, ok
}

// StdDev is the population standard deviation of the samples.
func (c *Columns) StdDev(i, ch int) (float64, bool) {
	if c.list != nil {
		return optional(c.of(i, ch).Stddev)
	}
	if c.derived() {
		return atFloat(c.m.GetStddev(), c.place(i, ch))
	}
	_, v, ok := c.variance(i, ch)
	return v, ok
}

func (c *Columns) variance(i, ch int) (v, root float64, ok bool) {
	n, _ := c.Count(i)
	sum, ok := c.Sum(i, ch)
	squares, has := c.SumOfSquares(i, ch)
	if !ok || !has || n == 0 {
		return math.NaN(), math.NaN(), false
	}
	// What no samples can sum to has no root: n <= 2^32, sum <= n * 2^16, and n*squares >= sum^2.
	hi, lo := bits.Mul64(n, squares)
	shi, slo := bits.Mul64(sum, sum)
	if n >= 1<<32 || hi >= 1<<32 || hi < shi || hi == shi && lo < slo {
		return math.NaN(), math.NaN(), false
	}
	v, root = exact.Variance(n, sum, squares)
	return v, root, true
}

// Min is the least sample.
func (c *Columns) Min(i, ch int) (uint32, bool) {
	if c.list != nil {
		return optional(c.of(i, ch).Min)
	}
	if c.Channel(ch) == polyscanv1.Channel_CHANNEL_HUE {
		return 0, false
	}
	return c.extreme(c.m.GetMin(), i, ch)
}

// Max is the greatest sample.
func (c *Columns) Max(i, ch int) (uint32, bool) {
	if c.list != nil {
		return optional(c.of(i, ch).Max)
	}
	if c.Channel(ch) == polyscanv1.Channel_CHANNEL_HUE {
		return 0, false
	}
	return c.extreme(c.m.GetMax(), i, ch)
}

// MinAt is the first pixel in row-major order that has the least sample.
func (c *Columns) MinAt(i, ch int) (image.Point, bool) {
	if c.list != nil {
		return position(c.of(i, ch).GetMinAt())
	}
	if c.Channel(ch) == polyscanv1.Channel_CHANNEL_HUE {
		return image.Point{}, false
	}
	return c.extremeAt(c.m.GetMinAt(), i, ch)
}

// MaxAt is the first pixel in row-major order that has the greatest sample.
func (c *Columns) MaxAt(i, ch int) (image.Point, bool) {
	if c.list != nil {
		return position(c.of(i, ch).GetMaxAt())
	}
	if c.Channel(ch) == polyscanv1.Channel_CHANNEL_HUE {
		return image.Point{}, false
	}
	return c.extremeAt(c.m.GetMaxAt(), i, ch)
}

// extreme is a value of a column that regions without pixels have no value in.
func (c *Columns) extreme(b []byte, i, ch int) (uint32, bool) {
	k := c.place(i, ch)
	if n, _ := c.Count(i); n == 0 || len(b) == 0 {
		return 0, false
	}
	return word32(b, k), true
}

func (c *Columns) extremeAt(b []byte, i, ch int) (image.Point, bool) {
	k := c.place(i, ch)
	if n, _ := c.Count(i); n == 0 || len(b) == 0 {
		return image.Point{}, false
	}
	return image.Pt(int(word32(b, 2*k)), int(word32(b, 2*k+1))), true
}

// WeightedCentroid is the mean of pixel centres weighted by the samples.
func (c *Columns) WeightedCentroid(i, ch int) (x, y float64, ok bool) {
	if c.list != nil {
		return point(c.of(i, ch).GetWeightedCentroid())
	}
	return atPoint(c.m.GetWeightedCentroid(), c.place(i, ch))
}

// Histogram is a histogram that is read where it lies.
type Histogram struct {
	// Lower and Upper bound the bins, which are of equal width.
	Lower, Upper float64
	// Below and Above count the samples below Lower, and at or above Upper.
	Below, Above uint64

	words  []byte
	counts []uint64
}

// Bins is the number of bins.
func (h Histogram) Bins() int { return max(len(h.words)/4, len(h.counts)) }

// Count is the number of samples in bin k.
func (h Histogram) Count(k int) uint64 {
	if h.counts != nil {
		return h.counts[k]
	}
	return uint64(word32(h.words, k))
}

// Histogram is that of the samples.
func (c *Columns) Histogram(i, ch int) (Histogram, bool) {
	if c.list != nil {
		h := c.of(i, ch).GetHistogram()
		return Histogram{Lower: h.GetLower(), Upper: h.GetUpper(), Below: h.GetBelow(), Above: h.GetAbove(),
			counts: h.GetCounts()}, h != nil
	}
	h, k := c.m.GetHistogram(), c.place(i, ch)
	if h == nil {
		return Histogram{}, false
	}
	n := 4 * int(h.GetBins())
	out := Histogram{words: h.GetCounts()[k*n : (k+1)*n : (k+1)*n]}
	out.Lower, out.Upper = c.histogramRange(h, ch)
	if len(h.GetBelow()) > 0 {
		out.Below = uint64(word32(h.GetBelow(), k))
	}
	if len(h.GetAbove()) > 0 {
		out.Above = uint64(word32(h.GetAbove(), k))
	}
	return out, true
}

// noHue is the mode of hues that are none.
const noHue = 255

// histogramRange are the ends of the bins of a channel: those of its own samples, or of values.
func (c *Columns) histogramRange(h *polyscanv1.HistogramColumns, at int) (lower, upper float64) {
	end, levels := uint32(256), 256.0 // of colours
	switch ch := c.Channel(at); {
	case ch == polyscanv1.Channel_CHANNEL_SATURATION, ch == polyscanv1.Channel_CHANNEL_VALUE:
		end *= 128
	case ch >= polyscanv1.Channel_CHANNEL_LAB_L && ch <= polyscanv1.Channel_CHANNEL_MATRIX_Z:
		end *= 256
	case ch == polyscanv1.Channel_CHANNEL_LAPLACIAN: // from -4 to 4 times the levels of the frame
		end = 2 * c.m.GetZeros()[at]
		levels = c.Value(at, end) / 4
	case ch != polyscanv1.Channel_CHANNEL_HUE: // bins are of values in any case
		return h.GetLower(), h.GetUpper()
	}
	if !h.GetFull() && (h.GetLower() != 0 || h.GetUpper() != levels) {
		return h.GetLower(), h.GetUpper()
	}
	return c.Value(at, 0), c.Value(at, end)
}

// full is the histogram of a channel with one bin a value, and its number of samples, which is not 0.
func (c *Columns) full(i, ch int) (h Histogram, n uint64, ok bool) {
	if !c.m.GetHistogram().GetFull() || c.derived() {
		return h, 0, false
	}
	h, _ = c.Histogram(i, ch)
	for k := range h.Bins() {
		n += h.Count(k)
	}
	return h, n, n > 0
}

// rank is the sample of rank k in ascending order, 1 <= k <= the number of samples.
func (h Histogram) rank(k uint64) uint32 {
	seen := uint64(0)
	for v := range h.Bins() {
		if seen += h.Count(v); seen >= k {
			return uint32(v)
		}
	}
	return uint32(h.Bins() - 1)
}

// Median is the middle sample, or the mean of the two middle ones.
func (c *Columns) Median(i, ch int) (float64, bool) {
	if c.list != nil {
		return optional(c.of(i, ch).Median)
	}
	if h, n, ok := c.full(i, ch); ok {
		return (float64(h.rank((n+1)/2)) + float64(h.rank(n/2+1))) / 2, true
	}
	return atFloat(c.m.GetMedian(), c.place(i, ch))
}

// Mode is the most frequent sample, the smallest of several.
func (c *Columns) Mode(i, ch int) (uint32, bool) {
	if c.list != nil {
		return optional(c.of(i, ch).Mode)
	}
	if h, _, ok := c.full(i, ch); ok {
		mode := 0
		for v := range h.Bins() {
			if h.Count(v) > h.Count(mode) {
				mode = v
			}
		}
		return uint32(mode), true
	}
	mode, ok := c.extreme(c.m.GetMode(), i, ch)
	if c.Channel(ch) == polyscanv1.Channel_CHANNEL_HUE && mode == noHue {
		return 0, false
	}
	return mode, ok
}

// Distinct is the number of different samples.
func (c *Columns) Distinct(i, ch int) (uint32, bool) {
	if c.list != nil {
		return optional(c.of(i, ch).Distinct)
	}
	if c.m.GetHistogram().GetFull() && !c.derived() {
		h, _ := c.Histogram(i, ch)
		n := uint32(0)
		for v := range h.Bins() {
			if h.Count(v) > 0 {
				n++
			}
		}
		return n, true
	}
	if b := c.m.GetDistinct(); len(b) > 0 {
		return word32(b, c.place(i, ch)), true
	}
	return 0, false
}

// Skewness is the third standardised moment; it has no value where all samples are equal.
func (c *Columns) Skewness(i, ch int) (float64, bool) {
	return c.float(i, ch, c.m.GetSkewness(), func(s *statistics) *float64 { return s.Skewness })
}

// Kurtosis is the fourth standardised moment, 3 for a normal distribution; it has no value where all samples are equal.
func (c *Columns) Kurtosis(i, ch int) (float64, bool) {
	return c.float(i, ch, c.m.GetKurtosis(), func(s *statistics) *float64 { return s.Kurtosis })
}

// Entropy is that of the values, in bits.
func (c *Columns) Entropy(i, ch int) (float64, bool) {
	return c.float(i, ch, c.m.GetEntropy(), func(s *statistics) *float64 { return s.Entropy })
}

// MeanAbsoluteDeviation is the mean distance of the samples from their mean.
func (c *Columns) MeanAbsoluteDeviation(i, ch int) (float64, bool) {
	return c.float(i, ch, c.m.GetMeanAbsoluteDeviation(),
		func(s *statistics) *float64 { return s.MeanAbsoluteDeviation })
}

// InterquartileRange is the 75th percentile less the 25th.
func (c *Columns) InterquartileRange(i, ch int) (float64, bool) {
	return c.float(i, ch, c.m.GetInterquartileRange(), func(s *statistics) *float64 { return s.InterquartileRange })
}

// KolmogorovSmirnov is the greatest difference of the cumulative distributions of row i's region and of its reference.
// It and the other distances have no value where there is nothing to compare.
func (c *Columns) KolmogorovSmirnov(i, ch int) (float64, bool) {
	return c.float(i, ch, c.m.GetKolmogorovSmirnov(), func(s *statistics) *float64 { return s.KolmogorovSmirnov })
}

// Wasserstein is the first Wasserstein distance from the reference, in levels.
func (c *Columns) Wasserstein(i, ch int) (float64, bool) {
	return c.float(i, ch, c.m.GetWasserstein(), func(s *statistics) *float64 { return s.Wasserstein })
}

// JensenShannon is the divergence from the reference in bits, 0 to 1.
func (c *Columns) JensenShannon(i, ch int) (float64, bool) {
	return c.float(i, ch, c.m.GetJensenShannon(), func(s *statistics) *float64 { return s.JensenShannon })
}

// ChiSquare is half the sum of (p-q)^2/(p+q), 0 to 1.
func (c *Columns) ChiSquare(i, ch int) (float64, bool) {
	return c.float(i, ch, c.m.GetChiSquare(), func(s *statistics) *float64 { return s.ChiSquare })
}

// Plane is the plane that fits the samples best: how much they grow from a pixel to the one on its right and to the one
// below, and the root of the mean square of what is left. It has no value where all pixels of the region are on a line.
func (c *Columns) Plane(i, ch int) (x, y, residual float64, ok bool) {
	x, _ = c.float(i, ch, c.m.GetPlaneX(), func(s *statistics) *float64 { return s.PlaneX })
	y, _ = c.float(i, ch, c.m.GetPlaneY(), func(s *statistics) *float64 { return s.PlaneY })
	residual, ok = c.float(i, ch, c.m.GetPlaneResidual(), func(s *statistics) *float64 { return s.PlaneResidual })
	return x, y, residual, ok
}

// Percentile is percentile p of the samples, one of those that were asked for; where the histogram was asked for with
// one bin a value, any from 0 to 100, by nearest rank unless percentiles were asked for by another method.
func (c *Columns) Percentile(i, ch int, p float64) (float64, bool) {
	if c.list != nil {
		for _, v := range c.of(i, ch).GetPercentiles() {
			if v.GetPercentile() == p {
				return v.GetValue(), true
			}
		}
		return math.NaN(), false
	}
	at := slices.Index(c.m.GetPercentiles(), p)
	if h, n, ok := c.full(i, ch); ok && p >= 0 && p <= 100 {
		var f exact.Fraction
		if at >= 0 {
			f = c.percents[at]
		} else {
			f = exact.Percent(p)
		}
		if c.m.GetPercentileMethod() == polyscanv1.PercentileMethod_PERCENTILE_METHOD_LINEAR {
			return f.Linear(n, h.rank), true
		}
		return float64(h.rank(f.NearestRank(n))), true
	}
	if at < 0 {
		return math.NaN(), false
	}
	return atFloat(c.m.GetPercentile(), c.place(i, ch)*len(c.m.GetPercentiles())+at)
}

// Textures are those of a channel of row i, one for each offset that was asked for, in order; none where none was.
func (c *Columns) Textures(i, ch int) []*polyscanv1.Texture {
	if c.list != nil {
		return c.of(i, ch).GetTextures()
	}
	t := c.m.GetTextures()
	if t == nil {
		return nil
	}
	cells := int(t.GetLevels()) * int(t.GetLevels())
	out := make([]*polyscanv1.Texture, len(t.GetOffsets()))
	for k, o := range t.GetOffsets() {
		at := c.place(i, ch)*len(out) + k
		out[k] = &polyscanv1.Texture{
			Offset: o, Levels: t.GetLevels(), Pairs: uint64(word32(t.GetPairs(), at)),
			Contrast: pointer(atFloat(t.GetContrast(), at)), Homogeneity: pointer(atFloat(t.GetHomogeneity(), at)),
			Energy: pointer(atFloat(t.GetEnergy(), at)), Correlation: pointer(atFloat(t.GetCorrelation(), at)),
			Entropy: pointer(atFloat(t.GetEntropy(), at)),
		}
		if len(t.GetCounts()) > 0 {
			out[k].Counts = make([]uint32, cells)
			for n := range cells {
				out[k].Counts[n] = word32(t.GetCounts(), at*cells+n)
			}
		}
	}
	return out
}

// CoveredCount is the sum of the weights that coverage gives the pixels of row i; false where it wasn't asked for.
func (c *Columns) CoveredCount(i int) (float64, bool) {
	if c.list != nil {
		return c.list[i].GetCoveredCount(), c.list[i].CoveredCount != nil
	}
	return atFloat(c.m.GetCovered().GetCount(), i)
}

// Covered is what the weighted pixels of a channel of row i come to; nil where that wasn't asked for, and of channels
// that are derived from colours.
func (c *Columns) Covered(i, ch int) *polyscanv1.Covered {
	if c.list != nil {
		return c.of(i, ch).GetCovered()
	}
	v, at := c.m.GetCovered(), c.place(i, ch)
	sum, ok := atFloat(v.GetSum(), at)
	if !ok {
		return nil
	}
	out := &polyscanv1.Covered{Sum: sum, Mean: pointer(atFloat(v.GetMean(), at)),
		Variance: pointer(atFloat(v.GetVariance(), at))}
	if out.Variance != nil {
		root := math.Sqrt(*out.Variance)
		out.Stddev = &root
	}
	if h := v.GetHistogram(); h != nil {
		bins := int(h.GetBins())
		to := &polyscanv1.CoveredHistogram{Lower: h.GetLower(), Upper: h.GetUpper(), Counts: make([]float64, bins)}
		for k := range to.Counts {
			to.Counts[k], _ = atFloat(h.GetCounts(), at*bins+k)
		}
		to.Below, _ = atFloat(h.GetBelow(), at)
		to.Above, _ = atFloat(h.GetAbove(), at)
		out.Histogram = to
	}
	return out
}

// Blobs says how many blobs row i's region has; nil where they were not asked for. Rows have the blobs, too.
func (c *Columns) Blobs(i int) *polyscanv1.RegionBlobs {
	if c.list != nil {
		return c.list[i].GetBlobs()
	}
	if len(c.m.GetBlobsFound()) == 0 {
		return nil
	}
	kept, area := word32(c.m.GetBlobsKept(), i), word64(c.m.GetBlobArea(), i)
	return &polyscanv1.RegionBlobs{Found: uint64(word32(c.m.GetBlobsFound(), i)), Kept: uint64(kept), Area: area,
		TooMany: word32(c.m.GetBlobsSeen(), i) < kept, AreaMm2: pointer(c.mm2(float64(area), true))}
}

// Correlations are those of a channel of row i, one for each that was asked for, in order, all distances of a radius
// and all channels one by one; none where none was.
func (c *Columns) Correlations(i, ch int) []*polyscanv1.Correlation {
	if c.list != nil {
		return c.of(i, ch).GetCorrelations()
	}
	t := c.m.GetCorrelations()
	if t == nil {
		return nil
	}
	out := make([]*polyscanv1.Correlation, len(t.GetTerms()))
	for k, of := range t.GetTerms() {
		at := c.place(i, ch)*len(out) + k
		out[k] = &polyscanv1.Correlation{Of: of, Pairs: word64(t.GetPairs(), at),
			Product: pointer(atFloat(t.GetProduct(), at)), Covariance: pointer(atFloat(t.GetCovariance(), at)),
			Correlation: pointer(atFloat(t.GetCorrelation(), at))}
	}
	return out
}

// Row is row i as a message, with what was asked for and has a value.
func (c *Columns) Row(i int) *polyscanv1.RegionResult {
	if c.list != nil {
		return c.list[i]
	}
	r := &polyscanv1.RegionResult{Index: uint32(c.Index(i)), Name: c.Name(i), Verdict: c.Verdict(i)}
	r.Count, _ = c.Count(i)
	if v, ok := c.Area(i); ok {
		r.Area = v
	}
	if v, ok := c.Coverage(i); ok {
		r.Coverage = &v
	}
	if b, ok := c.Bounds(i); ok {
		r.Bounds = &polyscanv1.PixelRect{
			X0: uint32(b.Min.X), Y0: uint32(b.Min.Y), X1: uint32(b.Max.X), Y1: uint32(b.Max.Y),
		}
	}
	r.Centroid, r.CentroidMm = pointOf(c.Centroid(i)), c.placed(c.Centroid(i))
	r.AreaMm2, r.CountMm2 = pointer(c.AreaMM2(i)), pointer(c.CountMM2(i))
	if b := r.Bounds; b != nil && c.scale != nil {
		x0, y0, _ := c.Millimetres(float64(b.X0), float64(b.Y0))
		x1, y1, _ := c.Millimetres(float64(b.X1), float64(b.Y1))
		r.BoundsMm = &polyscanv1.MillimetreRect{X0: x0, Y0: y0, X1: x1, Y1: y1}
	}
	r.CoveredCount = pointer(c.CoveredCount(i))
	r.Blobs = c.Blobs(i)
	for k := range c.Limits(i) {
		r.Limits = append(r.Limits, c.Limit(i, k))
	}
	centroid := polyscanv1.Statistic_STATISTIC_CENTROID // which has a part that is of no channel
	if len(c.m.GetWeightedCentroid()) == 0 && c.m.GetTextures() == nil && c.m.GetCovered() == nil &&
		c.m.GetCorrelations() == nil && !slices.ContainsFunc(c.m.GetStatistics(),
		func(s polyscanv1.Statistic) bool { return s != centroid }) {
		return r // no channels were asked for
	}
	for ch := range c.channels {
		r.Channels = append(r.Channels, c.row(i, ch))
	}
	return r
}

// row is a channel of row i as a message.
func (c *Columns) row(i, ch int) *polyscanv1.ChannelStatistics {
	to := &polyscanv1.ChannelStatistics{Channel: c.Channel(ch), Textures: c.Textures(i, ch), Covered: c.Covered(i, ch),
		Correlations: c.Correlations(i, ch)}
	if c.derived() {
		to.Step, to.Zero = c.m.GetSteps()[ch], c.m.GetZeros()[ch]
	}
	for _, s := range c.m.GetStatistics() {
		switch s {
		case polyscanv1.Statistic_STATISTIC_COUNT:
			to.Count = pointer(c.Count(i))
		case polyscanv1.Statistic_STATISTIC_SUM:
			to.Sum = pointer(c.Sum(i, ch))
		case polyscanv1.Statistic_STATISTIC_SUM_OF_SQUARES:
			to.SumOfSquares = pointer(c.SumOfSquares(i, ch))
		case polyscanv1.Statistic_STATISTIC_MEAN:
			to.Mean = pointer(c.Mean(i, ch))
		case polyscanv1.Statistic_STATISTIC_VARIANCE:
			to.Variance = pointer(c.Variance(i, ch))
		case polyscanv1.Statistic_STATISTIC_STDDEV:
			to.Stddev = pointer(c.StdDev(i, ch))
		case polyscanv1.Statistic_STATISTIC_MIN:
			to.Min, to.MinAt = pointer(c.Min(i, ch)), positionOf(c.MinAt(i, ch))
			to.MinAtMm = c.placed(centre(c.MinAt(i, ch)))
		case polyscanv1.Statistic_STATISTIC_MAX:
			to.Max, to.MaxAt = pointer(c.Max(i, ch)), positionOf(c.MaxAt(i, ch))
			to.MaxAtMm = c.placed(centre(c.MaxAt(i, ch)))
		case polyscanv1.Statistic_STATISTIC_MEDIAN:
			to.Median = pointer(c.Median(i, ch))
		case polyscanv1.Statistic_STATISTIC_MODE:
			to.Mode = pointer(c.Mode(i, ch))
		case polyscanv1.Statistic_STATISTIC_DISTINCT:
			to.Distinct = pointer(c.Distinct(i, ch))
		case polyscanv1.Statistic_STATISTIC_CENTROID:
			to.WeightedCentroid = pointOf(c.WeightedCentroid(i, ch))
			to.WeightedCentroidMm = c.placed(c.WeightedCentroid(i, ch))
		case polyscanv1.Statistic_STATISTIC_PERCENTILES:
			for _, p := range c.m.GetPercentiles() {
				if v, ok := c.Percentile(i, ch, p); ok {
					to.Percentiles = append(to.Percentiles, &polyscanv1.PercentileValue{Percentile: p, Value: v})
				}
			}
		case polyscanv1.Statistic_STATISTIC_SKEWNESS:
			to.Skewness = pointer(c.Skewness(i, ch))
		case polyscanv1.Statistic_STATISTIC_KURTOSIS:
			to.Kurtosis = pointer(c.Kurtosis(i, ch))
		case polyscanv1.Statistic_STATISTIC_ENTROPY:
			to.Entropy = pointer(c.Entropy(i, ch))
		case polyscanv1.Statistic_STATISTIC_MEAN_ABSOLUTE_DEVIATION:
			to.MeanAbsoluteDeviation = pointer(c.MeanAbsoluteDeviation(i, ch))
		case polyscanv1.Statistic_STATISTIC_INTERQUARTILE_RANGE:
			to.InterquartileRange = pointer(c.InterquartileRange(i, ch))
		case polyscanv1.Statistic_STATISTIC_DISTANCES:
			to.KolmogorovSmirnov, to.Wasserstein = pointer(c.KolmogorovSmirnov(i, ch)), pointer(c.Wasserstein(i, ch))
			to.JensenShannon, to.ChiSquare = pointer(c.JensenShannon(i, ch)), pointer(c.ChiSquare(i, ch))
		case polyscanv1.Statistic_STATISTIC_PLANE:
			if x, y, residual, ok := c.Plane(i, ch); ok {
				to.PlaneX, to.PlaneY, to.PlaneResidual = &x, &y, &residual
			}
		case polyscanv1.Statistic_STATISTIC_CUMULATIVE:
			if h, ok := c.Histogram(i, ch); ok {
				to.Cumulative = make([]uint64, h.Bins())
				n := h.Below
				for k := range to.Cumulative {
					n += h.Count(k)
					to.Cumulative[k] = n
				}
			}
		case polyscanv1.Statistic_STATISTIC_HISTOGRAM:
			h, ok := c.Histogram(i, ch)
			if !ok {
				continue
			}
			to.Histogram = &polyscanv1.Histogram{Lower: h.Lower, Upper: h.Upper, Below: h.Below, Above: h.Above,
				Counts: make([]uint64, h.Bins())}
			for k := range to.Histogram.Counts {
				to.Histogram.Counts[k] = h.Count(k)
			}
		}
	}
	return to
}

// at64 is value i of a column that may be empty.
func at64(b []byte, i int) (uint64, bool) {
	if len(b) == 0 {
		return 0, false
	}
	return word64(b, i), true
}

// atFloat is value i of a column that may be empty; NaN is none.
func atFloat(b []byte, i int) (float64, bool) {
	if len(b) == 0 {
		return math.NaN(), false
	}
	v := wordFloat(b, i)
	return v, !math.IsNaN(v)
}

func atPoint(b []byte, i int) (x, y float64, ok bool) {
	x, ok = atFloat(b, 2*i)
	if ok {
		y, ok = atFloat(b, 2*i+1)
	}
	return x, y, ok
}

// optional is the value of a field that may be unset.
func optional[T any](p *T) (v T, ok bool) {
	if p == nil {
		return v, false
	}
	return *p, true
}

func pointer[T any](v T, ok bool) *T {
	if !ok {
		return nil
	}
	return &v
}

func point(p *polyscanv1.Point) (x, y float64, ok bool) { return p.GetX(), p.GetY(), p != nil }

func pointOf(x, y float64, ok bool) *polyscanv1.Point {
	if !ok {
		return nil
	}
	return &polyscanv1.Point{X: x, Y: y}
}

func centre(p image.Point, ok bool) (x, y float64, has bool) {
	return float64(p.X) + 0.5, float64(p.Y) + 0.5, ok
}

func position(p *polyscanv1.PixelPosition) (image.Point, bool) {
	return image.Pt(int(p.GetX()), int(p.GetY())), p != nil
}

func positionOf(p image.Point, ok bool) *polyscanv1.PixelPosition {
	if !ok {
		return nil
	}
	return &polyscanv1.PixelPosition{X: uint32(p.X), Y: uint32(p.Y)}
}
