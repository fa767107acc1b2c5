// Control charts: limits of a process as it ran, and its capability. Pure functions of values.
//
// The formulas and constants are those of the ISO 7870-2 and of every textbook on the subject: sigma within a short
// time is the mean range divided by d2, the expected range of n normal values of unit deviation; limits are three sigma
// from the mean, and those of ranges three times d3, the deviation of such a range.

package history

import (
	"math"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// d2 and d3 by the number of values of a subgroup, from 2 to 25. A test integrates them anew.
var (
	d2 = [...]float64{2: 1.12838, 1.69257, 2.05875, 2.32593, 2.53441, 2.70436, 2.84720, 2.97003, 3.07751, 3.17287, 3.25846,
		3.33598, 3.40676, 3.47183, 3.53198, 3.58788, 3.64006, 3.68896, 3.73495, 3.77834, 3.81938, 3.85832, 3.89535, 3.93063}
	d3 = [...]float64{2: 0.85250, 0.88837, 0.87981, 0.86408, 0.84804, 0.83321, 0.81983, 0.80783, 0.79705, 0.78731, 0.77848,
		0.77042, 0.76302, 0.75621, 0.74991, 0.74405, 0.73859, 0.73348, 0.72869, 0.72417, 0.71991, 0.71589, 0.71207, 0.70844}
)

const defaultSubgroup = 5

// chartOf draws the chart of values in the order of time. lower and upper are specification limits, nil for none.
func chartOf(values []float64, kind pb.ChartKind, subgroup int, lower, upper *float64) *pb.ControlChart {
	c := &pb.ControlChart{Kind: pb.ChartKind_CHART_KIND_INDIVIDUALS, Subgroup: 1}
	n := 2 // values of a range
	points := values
	if kind == pb.ChartKind_CHART_KIND_XBAR_R {
		if subgroup == 0 {
			subgroup = defaultSubgroup
		}
		c.Kind, c.Subgroup, n = kind, uint32(subgroup), subgroup
		values = values[:len(values)/subgroup*subgroup]
		for i := 0; i < len(values); i += subgroup {
			g := values[i : i+subgroup]
			low, high := extremes(g)
			c.Means = append(c.Means, mean(g))
			c.Ranges = append(c.Ranges, high-low)
		}
		points = c.Means
	} else {
		for i := 1; i < len(values); i++ {
			c.Ranges = append(c.Ranges, math.Abs(values[i]-values[i-1]))
		}
	}
	c.Values = uint64(len(values))
	if len(values) == 0 {
		return c
	}
	c.Mean = mean(values)
	if len(values) > 1 {
		c.Stddev = new(deviation(values, c.Mean))
	}
	if len(c.Ranges) == 0 {
		return c
	}
	r := mean(c.Ranges)
	sigma := r / d2[n]
	width := 3 * sigma
	if c.Subgroup > 1 {
		width /= math.Sqrt(float64(n))
	}
	c.Range, c.Sigma = &r, &sigma
	c.Upper, c.Lower = new(c.Mean+width), new(c.Mean-width)
	c.RangeUpper, c.RangeLower = new(r+3*d3[n]*sigma), new(max(0, r-3*d3[n]*sigma))
	for i, v := range points {
		if v > *c.Upper || v < *c.Lower {
			c.Outside = append(c.Outside, uint32(i))
		}
	}
	for i, v := range c.Ranges {
		if v > *c.RangeUpper || v < *c.RangeLower {
			c.RangesOutside = append(c.RangesOutside, uint32(i))
		}
	}
	if sigma == 0 { // no spread: a process that can't be told from a broken gauge has no capability
		return c
	}
	if lower != nil && upper != nil {
		c.Cp = new((*upper - *lower) / (6 * sigma))
	}
	near := math.Inf(1)
	if lower != nil {
		near = min(near, c.Mean-*lower)
	}
	if upper != nil {
		near = min(near, *upper-c.Mean)
	}
	if !math.IsInf(near, 1) {
		c.Cpk = new(near / (3 * sigma))
	}
	return c
}

func mean(values []float64) float64 {
	sum, lost := 0.0, 0.0 // Neumaier's sum: ten thousand equal values have their value as the mean
	for _, v := range values {
		t := sum + v
		if math.Abs(sum) >= math.Abs(v) {
			lost += (sum - t) + v
		} else {
			lost += (v - t) + sum
		}
		sum = t
	}
	return (sum + lost) / float64(len(values))
}

func deviation(values []float64, mean float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += (v - mean) * (v - mean)
	}
	return math.Sqrt(sum / float64(len(values)-1))
}

func extremes(values []float64) (low, high float64) {
	low, high = values[0], values[0]
	for _, v := range values {
		low, high = min(low, v), max(high, v)
	}
	return low, high
}
