// Learning: from what good frames have to limits.

package teach

import (
	"fmt"
	"math"
	"slices"

	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// defaultSigma is the margin of those who give none. Of normal values, 1 in 16,000 is farther out.
const defaultSigma = 4

// margin is how far limits are from what good frames have: some standard deviations where sigma isn't 0, and else a
// share of the distance between two quantiles beyond them.
type margin struct {
	sigma          float64
	percent, share float64 // of the quantile, and of the distance, both in percent
}

func marginOf(m *pb.Margin) margin {
	if q := m.GetQuantile(); q != nil {
		return margin{percent: q.GetPercent(), share: q.GetSharePercent()}
	}
	if m.GetSigma() > 0 {
		return margin{sigma: m.GetSigma()}
	}
	return margin{sigma: defaultSigma}
}

// String is the margin as a sentence has it.
func (m margin) String() string {
	if m.sigma > 0 {
		return fmt.Sprintf("%g standard deviations", m.sigma)
	}
	if m.percent == 0 {
		return "limits at the farthest ones"
	}
	return fmt.Sprintf("the quantile of %g %%", m.percent)
}

// enough is how many good frames the margin should come from. The standard deviation of 20 is right within 16 % (one
// standard error, 1/sqrt(2(n-1))). A quantile is one of the frames, unless there are as many that it is not the last.
func (m margin) enough() int {
	const least = 20
	if m.sigma > 0 || m.percent == 0 {
		return least
	}
	return max(least, int(math.Ceil(100/m.percent)))
}

// spread is what good frames have of a quantity.
type spread struct {
	least, greatest, mean, stddev float64
}

// spreadOf looks at the values of the good frames, of which there are two or more, in ascending order.
func spreadOf(sorted []float64) spread {
	s := spread{least: sorted[0], greatest: sorted[len(sorted)-1]}
	// From the first one on, so that equal values have a mean that is exactly theirs, and large ones keep their digits.
	base := sorted[0]
	sum := 0.0
	for _, v := range sorted {
		sum += v - base
	}
	n := float64(len(sorted))
	mean := sum / n
	// In units of a power of two near their range, which rounds nothing: squares of tiny numbers would lose their digits.
	_, unit := math.Frexp(s.greatest - s.least)
	for _, v := range sorted {
		d := math.Ldexp(v-base-mean, -unit)
		s.stddev += d * d
	}
	s.mean, s.stddev = base+mean, math.Ldexp(math.Sqrt(s.stddev/(n-1)), unit)
	return s
}

// roundingSigma is the standard deviation of what rounding to whole numbers adds.
var roundingSigma = 1 / math.Sqrt(12)

// bounds are the ends of a limit before it is rounded.
func (m margin) bounds(sorted []float64, s spread, integer bool) (lo, hi float64) {
	if m.sigma > 0 {
		sigma := s.stddev
		if integer {
			sigma = max(sigma, roundingSigma)
		}
		return min(s.least, s.mean-m.sigma*sigma), max(s.greatest, s.mean+m.sigma*sigma)
	}
	beyond := int(math.Floor(float64(len(sorted)) * m.percent / 100))
	lo, hi = sorted[beyond], sorted[len(sorted)-1-beyond]
	more := m.share / 100 * (hi - lo)
	return lo - more, hi + more
}

// round moves the ends of a limit outwards, to a hundredth or so of its width, and to six digits at most. Whole numbers
// lie between the same ends before and after.
func round(lo, hi float64, integer bool) (float64, float64) {
	if integer {
		return math.Ceil(lo), math.Floor(hi)
	}
	unit := max((hi-lo)/100, 1e-6*max(math.Abs(lo), math.Abs(hi)), 1e-9)
	scale := math.Pow(10, max(-math.Floor(math.Log10(unit)), 0))
	first, last := math.Floor(lo*scale), math.Ceil(hi*scale)
	if first/scale > lo { // the last digit of a product or a quotient
		first--
	}
	if last/scale < hi {
		last++
	}
	return first / scale, last / scale
}

// learn makes a limit on a quantity, whose values are all from lowest to highest. It is empty where it could not fail.
// values are those of the good frames; they are sorted.
func (m margin) learn(q polygon.Quantity, values []float64, lowest, highest float64) (expr string, s spread) {
	slices.Sort(values)
	s = spreadOf(values)
	lo, hi := m.bounds(values, s, q.Integer())
	lo, hi = round(lo, hi, q.Integer())
	if lo <= lowest {
		lo = math.Inf(-1)
	}
	if hi >= highest {
		hi = math.Inf(1)
	}
	if math.IsInf(lo, -1) && math.IsInf(hi, 1) {
		return "", s
	}
	return q.Interval(lo, hi), s
}
