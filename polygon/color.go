// Channels that are derived from red, green and blue, or from a pixel's neighbours, and what their samples stand for.

package polygon

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/polyscan/polyscan/internal/exact"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// ColorSpaces is a set of what is derived from the colours of a frame in RGB8, BGR8 or RGBA8.
type ColorSpaces uint8

const (
	ColorGray    = ColorSpaces(driver.ColorGray)    // [Gray]: the luma of BT.601
	ColorGray709 = ColorSpaces(driver.ColorGray709) // [Gray709]
	ColorHSV     = ColorSpaces(driver.ColorHSV)     // [Hue], [Saturation], [Value]
	ColorLab     = ColorSpaces(driver.ColorLab)     // [LabL], [LabA], [LabB]
	ColorMatrix  = ColorSpaces(driver.ColorMatrix)  // [MatrixX], [MatrixY], [MatrixZ]

	allColors = ColorGray | ColorGray709 | ColorHSV | ColorLab | ColorMatrix
)

// words are the names of the spaces, as the command line has them.
func (s ColorSpaces) words() string {
	var names []string
	for i, name := range []string{"gray", "gray709", "hsv", "lab", "matrix"} {
		if s>>i&1 != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// Colors says which channels are derived, beside those that limits name.
type Colors struct {
	Spaces ColorSpaces
	// Matrix has the three channels of ColorMatrix as rows, which are multiplied by red, green and blue, 0 to 255 each.
	// It needn't be asked for where limits name its channels. Numbers are at most 64 in magnitude; all 0 is no matrix.
	Matrix [3][3]float64
}

// mostMatrix bounds the numbers of a matrix.
const mostMatrix = 64

func (c *Colors) check(bad *kernels.InvalidError) {
	if rest := c.Spaces &^ allColors; rest != 0 {
		bad.Add(path{"reductions", "colors"}, fmt.Sprintf("%#x", uint8(rest)), "are no known colour spaces")
	}
	for i, row := range c.Matrix {
		for k, v := range row {
			if !(math.Abs(v) <= mostMatrix) {
				bad.Add(path{"reductions", "color_matrix", 3*i + k}, number(v), "must be -%d to %d", mostMatrix, mostMatrix)
			}
		}
	}
	if c.Spaces&ColorMatrix != 0 && c.Matrix == [3][3]float64{} {
		bad.Add(path{"reductions", "color_matrix"}, "", "must be given, and not all 0")
	}
}

// coding says what the samples of a channel stand for: (sample - zero) * step. Bin k of their histogram is of those
// around k << shift.
type coding struct {
	step  float64
	zero  int64
	shift uint8
}

// asIs is that of the channels of a frame, whose samples stand for themselves.
var asIs = coding{step: 1}

func (k coding) value(sample float64) float64 { return (sample - float64(k.zero)) * k.step }

// bin is the value in the middle of a bin.
func (k coding) bin(at float64) float64 { return k.value(at * float64(uint32(1)<<k.shift)) }

// width is that of a bin.
func (k coding) width() float64 { return k.step * float64(uint32(1)<<k.shift) }

// binOf is where a value lies among bins.
func (k coding) binOf(v float64) float64 {
	return (v/k.step + float64(k.zero)) / float64(uint32(1)<<k.shift)
}

// sum is that of the values of n samples.
func (k coding) sum(sum, n uint64) float64 { return float64(int64(sum)-k.zero*int64(n)) * k.step }

// derived is what each channel is derived by.
var derived = [...]struct {
	channel Channel
	space   ColorSpaces
	coding
}{
	{Gray, ColorGray, asIs},
	{Gray709, ColorGray709, asIs},
	{Hue, ColorHSV, coding{step: hueStep}},
	{Saturation, ColorHSV, coding{1.0 / 128, 0, 7}},
	{Value, ColorHSV, coding{1.0 / 128, 0, 7}},
	{LabL, ColorLab, coding{1.0 / 256, 0, 8}},
	{LabA, ColorLab, coding{1.0 / 256, 32768, 8}},
	{LabB, ColorLab, coding{1.0 / 256, 32768, 8}},
	{MatrixX, ColorMatrix, coding{}},
	{MatrixY, ColorMatrix, coding{}},
	{MatrixZ, ColorMatrix, coding{}},
	{Gradient, spaceGradient, coding{}},
	{Laplacian, spaceLaplacian, coding{}},
}

// isDerived says that no frame has the channel. Gray is derived from colours, and the channel of others.
func (c Channel) isDerived() bool { return c > Alpha }

// spaceOf is the space that a channel is of; 0 where it is derived from nothing.
func spaceOf(c Channel) ColorSpaces {
	for _, d := range derived {
		if d.channel == c {
			return d.space
		}
	}
	return 0
}

// codingOf is how a channel of columns is coded.
func codingOf(c Channel, step float64, zero uint32) coding {
	for _, d := range derived {
		if d.channel != c {
			continue
		}
		k := d.coding
		if k == (coding{}) {
			k = coding{step, int64(zero), 8}
		}
		switch c {
		case Gradient: // a bin is one level a pixel wide
			k.shift = uint8(-math.Ilogb(step))
		case Laplacian: // and one that is eight
			k.shift = uint8(3 - math.Ilogb(step))
		}
		return k
	}
	return asIs
}

// derivedOf is what is derived of frames of a format: what was asked for, and the channels that limits name.
func (s *Set) derivedOf(r *Reductions, f kernels.PixelFormat) ColorSpaces {
	spaces := r.Colors.Spaces
	for _, c := range r.Derivatives {
		spaces |= spaceOf(c)
	}
	for channel, used := range s.channels {
		if used {
			spaces |= spaceOf(Channel(channel))
		}
	}
	if f.Channels < 3 {
		spaces &^= allColors
	}
	if r.Colors.Matrix == [3][3]float64{} {
		spaces &^= ColorMatrix // what limits name isn't there
	}
	return spaces
}

// Channels is how many channels results of frames of a format have.
func (s *Set) Channels(r *Reductions, f kernels.PixelFormat) int {
	n, spaces := int(f.Channels), s.derivedOf(r, f)
	for _, d := range derived {
		if spaces&d.space != 0 {
			n++
		}
	}
	return n
}

// derives says that a channel of limits is derived, and not the frame's own.
func (p *plan) derives(c Channel) bool {
	return spaceOf(c) != 0 && !slices.Contains(p.channels[:p.own], c)
}

// addDerived makes the channels that are derived, those that were asked for and those that limits name.
func (p *plan) addDerived(bad *kernels.InvalidError, r *Reductions) {
	p.own = len(p.channels)
	c, spaces := &r.Colors, p.set.derivedOf(r, p.frame.Format)
	if p.own < 3 && c.Spaces != 0 {
		bad.Add(path{"reductions", "colors"}, c.Spaces.words(), "needs a frame with red, green and blue; this one is %v",
			p.frame.Format)
	}
	if spaces == 0 {
		return
	}
	p.colors.Spaces = driver.ColorSpaces(spaces & allColors)
	p.codings = make([]coding, p.own, p.set.Channels(r, p.frame.Format))
	for i := range p.codings {
		p.codings[i] = asIs
	}
	for _, d := range derived {
		if spaces&d.space == 0 {
			continue
		}
		k := d.coding
		switch d.space {
		case ColorMatrix:
			row := int(d.channel - MatrixX)
			k = matrixRow(c.Matrix[row], &p.colors.Matrix[row])
		case spaceGradient, spaceLaplacian:
			k = derivativeCoding(d.channel, int(p.frame.Format.Bits))
			p.slopes++
		}
		p.channels = append(p.channels, d.channel)
		p.codings = append(p.codings, k)
	}
}

// matrixRow rounds a row of a matrix to integers. Steps are a power of two, as small as the range of what the row can
// give allows, and at least 1/256. Of the value the rounding leaves less than 0.53 steps.
func matrixRow(row [3]float64, to *driver.ColorRow) coding {
	lo, hi := 0.0, 0.0
	for _, v := range row {
		lo += 255 * min(v, 0)
		hi += 255 * max(v, 0)
	}
	for up := 8; ; up-- {
		zero := math.Ceil(-math.Ldexp(lo, up)/256) * 256
		if math.Ldexp(hi, up)+zero+1 > driver.MostColorSample {
			continue
		}
		for i, v := range row {
			to.C[i] = int32(math.RoundToEven(math.Ldexp(v, up+14)))
		}
		to.Offset = int32(zero)<<14 + 1<<13
		return coding{math.Ldexp(1, -up), int64(zero), 8}
	}
}

// coding is that of channel c of the results.
func (p *plan) coding(c int) coding {
	if p.codings == nil {
		return asIs
	}
	return p.codings[c]
}

// unnamed says that limits that name no channel are about channel c: not alpha, and none that is derived.
func (p *plan) unnamed(c int) bool { return c < p.own && p.channels[c] != Alpha }

// binner is that of channel c. Bins of a range are of values, whatever the channel; those of the whole range are as
// many of its samples.
func (p *plan) binner(c int) *binner {
	if p.binners == nil || p.bins.full {
		return &p.bins
	}
	return &p.binners[c]
}

// addBinners makes those of derived channels.
func (p *plan) addBinners(levels int) {
	if p.codings == nil || p.bins.full {
		return
	}
	p.binners = make([]binner, len(p.codings))
	for c, k := range p.codings {
		p.binners[c] = p.bins
		if k != asIs && (p.bins.lower != 0 || p.bins.upper != float64(levels)) {
			p.binners[c] = newBinner(HistogramSpec{p.bins.bins, k.binOf(p.bins.lower), k.binOf(p.bins.upper)}, 0)
		}
	}
}

// rangeOf are the ends of the bins of a channel as results have them.
func (b *binner) rangeOf(k coding, levels int) (lower, upper float64) {
	if b.lower == 0 && b.upper == float64(levels) {
		return k.bin(0), k.bin(float64(levels))
	}
	return b.lower, b.upper
}

// decode makes values of what was derived from samples and from bins.
func (k coding) decode(c *ChannelStatistics, m *driver.MaskStats) {
	if k == asIs {
		return
	}
	c.Step, c.Zero = k.step, uint32(k.zero)
	c.Mode <<= k.shift
	if m.Count == 0 {
		return
	}
	if c.Has.Has(Mean) {
		c.Mean = k.mean(m.Sum, m.Count)
	}
	c.Variance *= k.step * k.step
	c.StdDev *= k.step
	if c.Has.Has(Median) {
		c.Median = k.bin(c.Median)
	}
	for i := range c.Percentiles {
		c.Percentiles[i].Value = k.bin(c.Percentiles[i].Value)
	}
	c.PlaneX, c.PlaneY, c.PlaneResidual = c.PlaneX*k.step, c.PlaneY*k.step, c.PlaneResidual*k.step
	c.MeanAbsoluteDeviation *= k.width()
	c.InterquartileRange *= k.width()
	if k.zero != 0 { // weights may be negative
		c.WeightedCentroid = Point{}
		c.Has &^= Centroid
	}
}

// mean is that of n samples, rounded once.
func (k coding) mean(sum, n uint64) float64 {
	v := int64(sum) - k.zero*int64(n)
	if v < 0 {
		return -exact.Quotient(0, uint64(-v), n) * k.step
	}
	return exact.Quotient(0, uint64(v), n) * k.step
}

// Value is what a sample of the channel stands for: of a derived channel, (sample - Zero) * Step.
func (c *ChannelStatistics) Value(sample uint32) float64 {
	return exact.Sample(sample, c.Step, c.Zero)
}

const (
	hueStep = 1.5 // degrees
	hues    = 240
	// hueUnit is the length of the integer vectors that hues are added up as.
	hueUnit = 1 << 30
)

// hueStatistics are what a hue has: it is an angle.
const hueStatistics = Count | Mean | Variance | StdDev | Mode | Distinct | Entropy | Histogram | Cumulative

// hueVectors are cosines and sines of all hues, times hueUnit, rounded.
var hueVectors = func() (v [hues][2]int64) {
	for i := range v {
		sin, cos := math.Sincos(float64(i) * hueStep * math.Pi / 180)
		v[i] = [2]int64{int64(math.RoundToEven(cos * hueUnit)), int64(math.RoundToEven(sin * hueUnit))}
	}
	return v
}()

// hue replaces what was derived of a channel of hues as if they were numbers. d has pixels without hue, too.
func (d *distribution) hue(c *ChannelStatistics, want Statistics) {
	dist := *d
	if n := len(dist.values); n > 0 && dist.values[n-1] == driver.NoHue {
		dist.values, dist.cumulative = dist.values[:n-1], dist.cumulative[:n-1]
	}
	*c = ChannelStatistics{Channel: c.Channel, Has: c.Has & (Count | Histogram | Cumulative), Count: c.Count,
		Histogram: c.Histogram, Cumulative: c.Cumulative, Step: hueStep}
	c.Has |= want & Distinct
	c.Distinct = uint32(len(dist.values))
	if len(dist.values) == 0 {
		return
	}
	var x, y int64 // below 2^59
	before, most := uint64(0), uint64(0)
	for i, v := range dist.values {
		n := dist.cumulative[i] - before
		before = dist.cumulative[i]
		x += int64(n) * hueVectors[v][0]
		y += int64(n) * hueVectors[v][1]
		if n > most {
			c.Mode, most = v, n
		}
	}
	c.Has |= want & (Mode | Entropy | Variance | StdDev)
	if want.Has(Entropy) {
		c.Entropy = dist.entropy()
	}
	length := math.Hypot(float64(x), float64(y)) / hueUnit / float64(before)
	if len(dist.values) == 1 || length > 1 {
		length = 1
	}
	c.Variance, c.StdDev = 1-length, hueDeviation(1-length)
	if length > 2.0/hueUnit { // else the directions cancel out, but for their rounding
		c.Has |= want & Mean
		if c.Mean = math.Atan2(float64(y), float64(x)) * 180 / math.Pi; c.Mean < 0 {
			c.Mean += 360
		}
	}
}

// hueDeviation is the circular standard deviation in degrees of a circular variance, 0 to 1.
func hueDeviation(variance float64) float64 {
	return math.Sqrt(max(-2*math.Log1p(-variance), 0)) * 180 / math.Pi
}

// withinHues is within for hues in degrees, whose interval may lead through 0.
func (d *distribution) withinHues(i interval) (n uint64) {
	for _, bins := range i.hueBins() {
		n += d.within(bins)
	}
	return n
}

// hueBins are the bins of an interval of hues in degrees: in two pieces where it leads through 0, else the second one
// is empty.
func (i interval) hueBins() (pieces [2]interval) {
	above, below := i, interval{lo: 1}
	if i.wraps() {
		below = interval{hi: i.hi, openHi: i.openHi}
		above.hi = 360
	}
	if above.hi >= 360 {
		above.hi, above.openHi = 360, true
	}
	for k, p := range []interval{above, below} {
		p.lo, p.hi = p.lo/hueStep, p.hi/hueStep
		pieces[k] = p
	}
	return pieces
}

// withinOf counts the samples of a channel whose values are within an interval.
func (d *distribution) withinOf(c Channel, i interval, k coding) uint64 {
	switch {
	case c == Hue:
		return d.withinHues(i)
	case k != asIs:
		i.lo, i.hi = k.binOf(i.lo), k.binOf(i.hi)
	}
	return d.within(i)
}

// wraps says that an interval of angles leads through 0.
func (i interval) wraps() bool { return i.lo > i.hi }

// turn is by how much b is ahead of a, both of them angles.
func turnTo(a, b float64) float64 {
	if b < a {
		b += 360
	}
	return b - a
}

// ofHue says whether hues have the quantity, which is of no order and no origin.
func (q quantity) ofHue() bool {
	return slices.Contains([]quantity{quantityMean, quantityVariance, quantityStdDev, quantityMode, quantityDistinct,
		quantityEntropy, quantityPixels}, q)
}

// signed says that values of the channel may be negative.
func (c Channel) signed() bool { return c == LabA || c == LabB || c >= MatrixX && c != Gradient }

// derivedRange are the least and the greatest that values of a derived channel can be.
func derivedRange(c Channel, of *scope) (lo, hi float64) {
	switch c {
	case Gradient: // an edge between 0 and most at a slope of 1:2 has the root of 20, of 8, and some for rounding
		return 0, float64(of.most) * 9 / 16
	case Laplacian:
		return -4 * float64(of.most), 4 * float64(of.most)
	case Hue:
		return 0, 360
	case Saturation, Value, LabL:
		return 0, 100
	case LabA: // of the 2^24 colours, those of green and magenta: TestLabRange
		return -86.1875, 98.25
	case LabB: // those of blue and yellow
		return -107.85546875, 94.48828125
	case Gray709:
		return 0, 255
	}
	k, ok := matrixCoding(c, of)
	if !ok {
		return -math.MaxFloat64, math.MaxFloat64
	}
	for _, v := range of.matrix[c-MatrixX] {
		lo += 255 * min(v, 0)
		hi += 255 * max(v, 0)
	}
	return lo - 0.53*k.step, hi + 0.53*k.step // as matrixRow rounds
}

// matrixCoding is that of a channel of the matrix, where that is known.
func matrixCoding(c Channel, of *scope) (coding, bool) {
	if spaceOf(c) != ColorMatrix || of.matrix == [3][3]float64{} {
		return coding{}, false
	}
	return matrixRow(of.matrix[c-MatrixX], &driver.ColorRow{}), true
}

// derivedBins are the first and the last of the bins that values of a derived channel are rounded to; ok is false where
// they aren't known.
func derivedBins(c Channel, of *scope) (k coding, from, to float64, ok bool) {
	last := 255.0
	switch c {
	case Hue: // a circle
		return codingOf(c, 0, 0), 0, hues - 1, true
	case Gradient, Laplacian:
		k, last = derivativeCoding(c, bits.Len(uint(of.most))), float64(of.most)
	case MatrixX, MatrixY, MatrixZ:
		if k, ok = matrixCoding(c, of); !ok {
			return k, 0, 0, false
		}
	default:
		k = codingOf(c, 0, 0)
	}
	lo, hi := derivedRange(c, of)
	return k, max(math.Ceil(k.binOf(lo)-0.5), 0), min(math.Floor(k.binOf(hi)+0.5), last), true
}

// derivedValues are the least and the greatest that the quantity of a derived channel can be.
func (l *Limit) derivedValues(of *scope) (lo, hi float64) {
	lo, hi = derivedRange(l.channel, of)
	switch l.quantity {
	case quantityMean, quantityMin, quantityMax, quantitySum:
	default:
		if k, from, to, ok := derivedBins(l.channel, of); ok && l.channel != Hue {
			lo, hi = min(lo, k.bin(from)), max(hi, k.bin(to))
		}
	}
	bounded, width := hi < math.MaxFloat64, math.MaxFloat64
	if bounded {
		width = hi - lo
	}
	switch l.quantity {
	case quantityMean, quantityMin, quantityMax, quantityMedian, quantityMode, quantityPercentile:
		return lo, hi
	case quantitySum:
		if !bounded {
			return lo, hi
		}
		return lo * float64(of.pixels), hi * float64(of.pixels)
	case quantityVariance:
		switch {
		case l.channel == Hue:
			return 0, 1
		case bounded:
			return 0, width * width / 4
		}
		return 0, width
	case quantityStdDev, quantityDeviation, quantityPlaneResidual:
		if l.channel == Hue {
			return 0, math.MaxFloat64
		}
		return 0, width / 2
	case quantityPlaneX, quantityPlaneY:
		if !bounded {
			return -width, width
		}
		if l.quantity == quantityPlaneX {
			return -width * of.tiltX, width * of.tiltX
		}
		return -width * of.tiltY, width * of.tiltY
	case quantityQuartiles, quantityWasserstein:
		return 0, width
	case quantityPixels:
		return 0, float64(of.pixels)
	case quantityDistinct:
		return 1, min(l.binsOf(of), float64(of.pixels))
	case quantityEntropy:
		return 0, bitsOf(min(l.binsOf(of), float64(of.pixels)))
	}
	same, bytes := *l, *of
	same.channel, bytes.most = NoChannel, 255
	return same.values(&bytes)
}

// binsOf is how many bins the values of a derived channel can be in.
func (l *Limit) binsOf(of *scope) float64 {
	_, from, to, ok := derivedBins(l.channel, of)
	if !ok {
		return 256
	}
	return to - from + 1
}
