// Shape of a distribution: what is derived from all counts of samples by value, for those who ask for it; and the table
// of what is a number of a channel, in rows and in columns.

package polygon

import (
	"math"
	"math/bits"

	"github.com/polyscan/polyscan/internal/exact"
)

// shapes are the statistics of this file and of plane.go, with their fields in rows and in columns, in the order of
// their quantities.
var shapes = [...]struct {
	is     Statistics
	field  func(*ChannelStatistics) *float64
	column func(*Columns) *[]float64
}{
	{Skewness, func(c *ChannelStatistics) *float64 { return &c.Skewness },
		func(c *Columns) *[]float64 { return &c.Skewness }},
	{Kurtosis, func(c *ChannelStatistics) *float64 { return &c.Kurtosis },
		func(c *Columns) *[]float64 { return &c.Kurtosis }},
	{Entropy, func(c *ChannelStatistics) *float64 { return &c.Entropy },
		func(c *Columns) *[]float64 { return &c.Entropy }},
	{MeanAbsoluteDeviation, func(c *ChannelStatistics) *float64 { return &c.MeanAbsoluteDeviation },
		func(c *Columns) *[]float64 { return &c.MeanAbsoluteDeviation }},
	{InterquartileRange, func(c *ChannelStatistics) *float64 { return &c.InterquartileRange },
		func(c *Columns) *[]float64 { return &c.InterquartileRange }},
	{Distances, func(c *ChannelStatistics) *float64 { return &c.KolmogorovSmirnov },
		func(c *Columns) *[]float64 { return &c.KolmogorovSmirnov }},
	{Distances, func(c *ChannelStatistics) *float64 { return &c.Wasserstein },
		func(c *Columns) *[]float64 { return &c.Wasserstein }},
	{Distances, func(c *ChannelStatistics) *float64 { return &c.JensenShannon },
		func(c *Columns) *[]float64 { return &c.JensenShannon }},
	{Distances, func(c *ChannelStatistics) *float64 { return &c.ChiSquare },
		func(c *Columns) *[]float64 { return &c.ChiSquare }},
	{Plane, func(c *ChannelStatistics) *float64 { return &c.PlaneX },
		func(c *Columns) *[]float64 { return &c.PlaneX }},
	{Plane, func(c *ChannelStatistics) *float64 { return &c.PlaneY },
		func(c *Columns) *[]float64 { return &c.PlaneY }},
	{Plane, func(c *ChannelStatistics) *float64 { return &c.PlaneResidual },
		func(c *Columns) *[]float64 { return &c.PlaneResidual }},
}

// needShape are those of a distribution.
const needShape = Skewness | Kurtosis | Entropy | MeanAbsoluteDeviation | InterquartileRange | Distances

// shape derives the wanted ones of a channel with samples. Limits take quartiles by nearest rank, whatever the method.
func (d *distribution) shape(c *ChannelStatistics, want Statistics, method PercentileMethod) {
	if want&(Skewness|Kurtosis) != 0 {
		if skewness, kurtosis, ok := d.standardised(want.Has(Kurtosis)); ok {
			if want.Has(Skewness) {
				c.Skewness = skewness
			}
			c.Kurtosis = kurtosis
			c.Has |= want & (Skewness | Kurtosis)
		}
	}
	if want.Has(Entropy) {
		c.Entropy = d.entropy()
	}
	if want.Has(MeanAbsoluteDeviation) {
		c.MeanAbsoluteDeviation = d.meanAbsoluteDeviation()
	}
	if want.Has(InterquartileRange) {
		c.InterquartileRange = d.interquartileRange(method)
	}
	c.Has |= want & (Entropy | MeanAbsoluteDeviation | InterquartileRange)
}

// standardised is the third and, where it is asked for, the fourth standardised moment, correctly rounded; ok is false
// where all samples are equal. Moments are of the samples' distance from the least: they don't depend on it.
func (d *distribution) standardised(fourth bool) (skewness, kurtosis float64, ok bool) {
	if len(d.values) < 2 {
		return 0, 0, false
	}
	// Sums of powers: below 2^48, 2^64, 2^80 and 2^96.
	var sum, squares uint64
	var cubes, fourths twiceArea
	before := uint64(0)
	for i, v := range d.values {
		n, u := d.cumulative[i]-before, uint64(v-d.values[0])
		before = d.cumulative[i]
		sum += n * u
		square := u * u
		squares += n * square
		cubes.addProduct(n*u, square)
		if fourth {
			fourths.addProduct(n*square, square)
		}
	}
	n, s1, s2, s3 := wideOf(before), wideOf(sum), wideOf(squares), wide{cubes.lo, cubes.hi}
	m2 := n.times(s2).minus(s1.times(s1)) // n^2 times the variance; below 2^96
	square := m2.times(m2)
	near2 := m2.near()
	// n^3 times the third central moment, in two parts that are below 2^146.
	up, down := n.times(n, s3).plus(s1.times(s1, s1, wideOf(2))), n.times(s1, s2, wideOf(3))
	negative := up.compare(&down) < 0
	if negative {
		up, down = down, up
	}
	if m3 := up.minus(down); m3 != (wide{}) {
		// |m3| / m2^(3/2), by squares: those that are compared are below 2^401.
		num, den := m3.times(m3), square.times(m2)
		skewness = roundedTo(m3.near()/(near2*math.Sqrt(near2)), func(m uint64, e int) int {
			hi, lo := bits.Mul64(m, m)
			quotient, at := num.shifted(2*e), den.times(wide{lo, hi})
			return quotient.compare(&at)
		})
		if negative {
			skewness = -skewness
		}
	}
	if fourth {
		// n^4 times the fourth: below 2^195.
		m4 := n.times(n, n, wide{fourths.lo, fourths.hi}).plus(n.times(s1, s1, s2, wideOf(6)))
		m4 = m4.minus(n.times(n, s1, s3, wideOf(4)).plus(s1.times(s1, s1, s1, wideOf(3))))
		kurtosis = roundedTo(m4.near()/(near2*near2), func(m uint64, e int) int {
			quotient, at := m4.shifted(e), square.times(wideOf(m))
			return quotient.compare(&at)
		})
	}
	return skewness, kurtosis, true
}

// addProduct adds a*b.
func (a *twiceArea) addProduct(x, y uint64) {
	hi, lo := bits.Mul64(x, y)
	var carry uint64
	a.lo, carry = bits.Add64(a.lo, lo, 0)
	a.hi += hi + carry
}

// entropy is that of the values, in bits.
func (d *distribution) entropy() float64 {
	var s entropySum
	s.begin(d.count())
	before := uint64(0)
	for _, c := range d.cumulative {
		s.add(c-before, 1)
		before = c
	}
	return s.value()
}

// entropySum sums up an entropy in bits: the mean of log2(count of all / count of the value). Its relative error is
// below 2^-49, and its bits don't depend on the processor: nothing here is left to fuse.
type entropySum struct {
	n     uint64
	all   compensated
	small [64]float64 // terms of small counts, which come again and again; that of 1 is above 0, or all there is
}

// begin begins a sum over counts that add up to n.
func (s *entropySum) begin(n uint64) { *s = entropySum{n: n} }

// add adds a count, which comes so many times: a power of 2.
func (s *entropySum) add(k uint64, times int) {
	if k < uint64(len(s.small)) && s.small[k] > 0 {
		s.all.add(float64(float64(times) * s.small[k]))
		return
	}
	term := float64(float64(k) * log2Quotient(s.n, k))
	if k < uint64(len(s.small)) {
		s.small[k] = term
	}
	s.all.add(float64(float64(times) * term))
}

func (s *entropySum) value() float64 { return s.all.sum / float64(s.n) }

// log2Quotient is log2(a/b), 1 <= b <= a < 2^32, with a relative error below 2^-50: a/b is 2^e times a quotient from
// 1/sqrt 2 to sqrt 2, whose logarithm is 2 atanh((a-b)/(a+b)), a series in a number below 0.172. Differences and sums
// of integers are exact. Each product is converted, so that no processor fuses it with a sum.
func log2Quotient(a, b uint64) float64 {
	e := bits.Len64(a) - bits.Len64(b)
	b <<= e // now 1/2 < a/b < 2
	switch {
	case 70*a > 99*b: // sqrt 2, nearly
		b, e = 2*b, e+1
	case 99*a < 70*b:
		a, e = 2*a, e-1
	}
	return logarithm(e, float64(int64(a)-int64(b))/float64(a+b))
}

// logarithm is e + 2 atanh(s) / ln 2 for |s| < 0.172.
func logarithm(e int, s float64) float64 {
	square := float64(s * s)
	series := 1.0 / 23
	for _, c := range inverses {
		series = float64(series*square) + c
	}
	return float64(e) + float64(float64(2/math.Ln2)*float64(s*series))
}

// inverses are those of odd numbers, for log2Quotient.
var inverses = [...]float64{1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1}

// meanAbsoluteDeviation is the mean of |v - mean|, correctly rounded: twice what the samples above the mean are above
// it, divided by their number.
func (d *distribution) meanAbsoluteDeviation() float64 {
	n, sum := d.count(), d.sum()
	var count, above uint64 // of the samples above the mean
	for i := len(d.values) - 1; i >= 0 && uint64(d.values[i])*n > sum; i-- {
		k := d.cumulative[i]
		if i > 0 {
			k -= d.cumulative[i-1]
		}
		count += k
		above += k * uint64(d.values[i])
	}
	// 2 (n*above - count*sum) / n^2; n*above is below 2^80.
	hi, lo := bits.Mul64(n, above)
	mhi, mlo := bits.Mul64(count, sum)
	lo, borrow := bits.Sub64(lo, mlo, 0)
	hi, _ = bits.Sub64(hi, mhi, borrow)
	return exact.Quotient(hi<<1|lo>>63, lo<<1, n*n)
}

// quartiles are those of interquartileRange.
var quartiles = [2]exact.Fraction{exact.Percent(25), exact.Percent(75)}

// interquartileRange is exact: linear percentiles of 25 and 75 are multiples of a quarter.
func (d *distribution) interquartileRange(method PercentileMethod) float64 {
	n := d.count()
	if method == Linear {
		return quartiles[1].Linear(n, d.at) - quartiles[0].Linear(n, d.at)
	}
	return float64(d.at(quartiles[1].NearestRank(n))) - float64(d.at(quartiles[0].NearestRank(n)))
}

// cumulate sums counts up, of which below lie before the first.
func cumulate(counts []uint64, below uint64) {
	for i := range counts {
		below += counts[i]
		counts[i] = below
	}
}
