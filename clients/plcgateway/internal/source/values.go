package source

// Values: the numbers of regions that a PLC is shown.

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/polyscan/polyscan/internal/digits"
	"github.com/polyscan/polyscan/internal/exact"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// Value is a number of a region, as "U7.mean", or "U7.red.mean" of one of several channels.
type Value struct {
	text      string
	region    string
	channel   polyscanv1.Channel // unspecified: the first
	statistic string
	percent   float64 // of a percentile
}

// statistics are those of a channel.
var statistics = map[string]func(*polyscanv1.ChannelStatistics) (float64, bool){
	"sum": func(c *polyscanv1.ChannelStatistics) (float64, bool) {
		return exact.SampleSum(c.GetSum(), c.GetCount(), c.GetStep(), c.GetZero()),
			c.Sum != nil && (c.GetZero() == 0 || c.Count != nil)
	},
	"mean":     func(c *polyscanv1.ChannelStatistics) (float64, bool) { return c.GetMean(), c.Mean != nil },
	"variance": func(c *polyscanv1.ChannelStatistics) (float64, bool) { return c.GetVariance(), c.Variance != nil },
	"stddev":   func(c *polyscanv1.ChannelStatistics) (float64, bool) { return c.GetStddev(), c.Stddev != nil },
	"min": func(c *polyscanv1.ChannelStatistics) (float64, bool) {
		return exact.Sample(c.GetMin(), c.GetStep(), c.GetZero()), c.Min != nil
	},
	"max": func(c *polyscanv1.ChannelStatistics) (float64, bool) {
		return exact.Sample(c.GetMax(), c.GetStep(), c.GetZero()), c.Max != nil
	},
	"median": func(c *polyscanv1.ChannelStatistics) (float64, bool) { return c.GetMedian(), c.Median != nil },
	"mode": func(c *polyscanv1.ChannelStatistics) (float64, bool) {
		return exact.Sample(c.GetMode(), c.GetStep(), c.GetZero()), c.Mode != nil
	},
	"distinct": func(c *polyscanv1.ChannelStatistics) (float64, bool) {
		return float64(c.GetDistinct()), c.Distinct != nil
	},
	"skewness": func(c *polyscanv1.ChannelStatistics) (float64, bool) { return c.GetSkewness(), c.Skewness != nil },
	"kurtosis": func(c *polyscanv1.ChannelStatistics) (float64, bool) { return c.GetKurtosis(), c.Kurtosis != nil },
	"entropy":  func(c *polyscanv1.ChannelStatistics) (float64, bool) { return c.GetEntropy(), c.Entropy != nil },
	"mad": func(c *polyscanv1.ChannelStatistics) (float64, bool) {
		return c.GetMeanAbsoluteDeviation(), c.MeanAbsoluteDeviation != nil
	},
	"ks": func(c *polyscanv1.ChannelStatistics) (float64, bool) {
		return c.GetKolmogorovSmirnov(), c.KolmogorovSmirnov != nil
	},
	"wasserstein": func(c *polyscanv1.ChannelStatistics) (float64, bool) { return c.GetWasserstein(), c.Wasserstein != nil },
	"js": func(c *polyscanv1.ChannelStatistics) (float64, bool) {
		return c.GetJensenShannon(), c.JensenShannon != nil
	},
	"chisquare": func(c *polyscanv1.ChannelStatistics) (float64, bool) { return c.GetChiSquare(), c.ChiSquare != nil },
	"plane.x":   func(c *polyscanv1.ChannelStatistics) (float64, bool) { return c.GetPlaneX(), c.PlaneX != nil },
	"plane.y":   func(c *polyscanv1.ChannelStatistics) (float64, bool) { return c.GetPlaneY(), c.PlaneY != nil },
	"plane.residual": func(c *polyscanv1.ChannelStatistics) (float64, bool) {
		return c.GetPlaneResidual(), c.PlaneResidual != nil
	},
	"iqr": func(c *polyscanv1.ChannelStatistics) (float64, bool) {
		return c.GetInterquartileRange(), c.InterquartileRange != nil
	},
}

// ofRegion are the statistics of a region that have no channel.
var ofRegion = map[string]func(*polyscanv1.RegionResult) (float64, bool){
	"count":    func(r *polyscanv1.RegionResult) (float64, bool) { return float64(r.GetCount()), true },
	"area":     func(r *polyscanv1.RegionResult) (float64, bool) { return r.GetArea(), true },
	"coverage": func(r *polyscanv1.RegionResult) (float64, bool) { return r.GetCoverage(), r.Coverage != nil },

	"count_mm2": func(r *polyscanv1.RegionResult) (float64, bool) { return r.GetCountMm2(), r.CountMm2 != nil },
	"area_mm2":  func(r *polyscanv1.RegionResult) (float64, bool) { return r.GetAreaMm2(), r.AreaMm2 != nil },
}

// ParseValue reads a value's name: a region, perhaps a channel, and a statistic.
func ParseValue(text string) (Value, error) {
	v := Value{text: text}
	i := strings.LastIndexByte(text, '.')
	if i <= 0 {
		return v, fmt.Errorf("value %q: want REGION.STATISTIC, as U7.mean", text)
	}
	v.region, v.statistic = text[:i], text[i+1:]
	if region, ok := strings.CutSuffix(v.region, ".plane"); ok && region != "" { // its names have a dot
		if name := "plane." + v.statistic; statistics[name] != nil {
			v.region, v.statistic = region, name
		}
	}
	_, channel := statistics[v.statistic]
	if p, ok := strings.CutPrefix(v.statistic, "p"); ok && !channel {
		f, err := digits.Float(p)
		if channel = err == nil && f >= 0 && f <= 100; channel {
			v.percent, v.statistic = f, "p"
		}
	}
	if _, ok := ofRegion[v.statistic]; !ok && !channel {
		var known []string
		for name := range statistics {
			known = append(known, name)
		}
		for name := range ofRegion {
			known = append(known, name)
		}
		slices.Sort(known)
		return v, fmt.Errorf("value %q: no statistic %q: there are %s, and p50 for a percentile", text, v.statistic,
			strings.Join(known, ", "))
	}
	if i := strings.LastIndexByte(v.region, '.'); i > 0 && channel {
		name := v.region[i+1:]
		for _, space := range []string{"lab", "matrix"} { // whose channels have a dot
			if at := i - len(space) - 1; at > 0 && v.region[at:i] == "."+space {
				i, name = at, space+"_"+name
			}
		}
		if name == "gray709" {
			name = "gray_709"
		}
		if n, ok := polyscanv1.Channel_value["CHANNEL_"+strings.ToUpper(name)]; ok && n != 0 {
			v.region, v.channel = v.region[:i], polyscanv1.Channel(n)
		}
	}
	return v, nil
}

// String is the value's name as it was given.
func (v Value) String() string { return v.text }

// of is the value in a result, or NaN.
func (v Value) of(results []*polyscanv1.RegionResult) float32 {
	for _, r := range results {
		if r.GetName() != v.region {
			continue
		}
		if f, ok := ofRegion[v.statistic]; ok {
			return number(f(r))
		}
		for _, c := range r.GetChannels() {
			if v.channel != 0 && c.GetChannel() != v.channel {
				continue
			}
			if v.statistic != "p" {
				return number(statistics[v.statistic](c))
			}
			for _, p := range c.GetPercentiles() {
				if p.GetPercentile() == v.percent {
					return number(p.GetValue(), true)
				}
			}
			break
		}
	}
	return nan
}

var nan = float32(math.NaN())

func number(f float64, ok bool) float32 {
	if !ok {
		return nan
	}
	return float32(f)
}

func valuesOf(values []Value, results []*polyscanv1.RegionResult) []float32 {
	all := make([]float32, len(values))
	for i, v := range values {
		all[i] = v.of(results)
	}
	return all
}

// firstFailed is the index of the first region that failed, and how many did.
func firstFailed(results []*polyscanv1.RegionResult) (first, n int) {
	for _, r := range results {
		if r.GetVerdict() == polyscanv1.Verdict_VERDICT_FAIL {
			if i := int(r.GetIndex()); n == 0 || i < first {
				first = i
			}
			n++
		}
	}
	return first, n
}
