package history

import (
	"fmt"
	"math"
	"slices"
	"testing"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

func near(t *testing.T, what string, got *float64, want, tolerance float64) {
	t.Helper()
	if got == nil || math.Abs(*got-want) > tolerance {
		t.Errorf("%s is %v, want %v ± %v", what, got, want, tolerance)
	}
}

// Flow rates of ten batches, the individuals example of the NIST/SEMATECH e-Handbook of Statistical Methods, 6.3.2.2:
// mean 50.81, mean moving range 1.8778, limits 45.82 and 55.80 (with d2 = 1.128).
func TestIndividualsOfHandbook(t *testing.T) {
	c := chartOf([]float64{49.6, 47.6, 49.9, 51.3, 47.8, 51.2, 52.6, 52.4, 53.6, 52.1}, 0, 0, nil, nil)
	near(t, "mean", &c.Mean, 50.81, 0.005)
	near(t, "range", c.Range, 1.8778, 0.0001)
	near(t, "upper", c.Upper, 55.8041, 0.002)
	near(t, "lower", c.Lower, 45.8159, 0.002)
	near(t, "range upper", c.RangeUpper, 3.267*1.8778, 0.002)
	near(t, "range lower", c.RangeLower, 0, 0)
	if len(c.GetOutside()) != 0 || len(c.GetRanges()) != 9 || c.Cp != nil || c.Cpk != nil {
		t.Errorf("%v", c)
	}
}

// The factors for limits of X-bar and R charts that textbooks list, A2, D3 and D4, follow from d2 and d3.
func TestFactors(t *testing.T) {
	for n, want := range map[int][3]float64{
		2: {1.880, 0, 3.267}, 3: {1.023, 0, 2.574}, 4: {0.729, 0, 2.282}, 5: {0.577, 0, 2.114}, 6: {0.483, 0, 2.004},
		7: {0.419, 0.076, 1.924}, 8: {0.373, 0.136, 1.864}, 9: {0.337, 0.184, 1.816}, 10: {0.308, 0.223, 1.777},
		15: {0.223, 0.347, 1.653}, 20: {0.180, 0.415, 1.585}, 25: {0.153, 0.459, 1.541},
	} {
		a2, lower, upper := 3/(d2[n]*math.Sqrt(float64(n))), max(0, 1-3*d3[n]/d2[n]), 1+3*d3[n]/d2[n]
		for i, got := range []float64{a2, lower, upper} {
			if math.Abs(got-want[i]) > 0.0011 {
				t.Errorf("n = %d, factor %d is %.4f, want %v", n, i, got, want[i])
			}
		}
	}
}

// d2 and d3 are the mean and the deviation of the range of n normal values, integrated here.
func TestRangeConstants(t *testing.T) {
	if len(d2) != 26 || len(d3) != 26 {
		t.Fatalf("%d and %d constants", len(d2), len(d3))
	}
	phi := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	const from, to, step = -7.0, 7.0, 0.05
	for n := 2; n <= 25; n++ {
		// P(range <= w) = n * integral of density(x) (Phi(x+w) - Phi(x))^(n-1); E(R) = integral of 1-P, E(R^2) of 2w(1-P).
		first, second := 0.0, 0.0
		for w := step / 2; w < 12; w += step {
			p := 0.0
			for x := from + step/2; x < to; x += step {
				p += math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) * math.Pow(phi(x+w)-phi(x), float64(n-1)) * step
			}
			p *= float64(n)
			first += (1 - p) * step
			second += 2 * w * (1 - p) * step
		}
		second -= step * step / 12 // what the midpoint rule has too much where the integrand begins with a slope of 2
		if deviation := math.Sqrt(second - first*first); math.Abs(first-d2[n]) > 1e-4 || math.Abs(deviation-d3[n]) > 1e-4 {
			t.Errorf("n = %d: d2 = %.5f and d3 = %.5f, want %.5f and %.5f", n, d2[n], d3[n], first, deviation)
		}
	}
}

// The chart of subgroups, written down by hand: two of three values, and one that is left over.
func TestSubgroups(t *testing.T) {
	c := chartOf([]float64{1, 2, 6, 4, 4, 7, 100}, pb.ChartKind_CHART_KIND_XBAR_R, 3, new(0.0), new(10.0))
	if !slices.Equal(c.GetMeans(), []float64{3, 5}) || !slices.Equal(c.GetRanges(), []float64{5, 3}) ||
		c.GetValues() != 6 || c.GetSubgroup() != 3 {
		t.Errorf("%v", c)
	}
	near(t, "mean", &c.Mean, 4, 0)
	near(t, "range", c.Range, 4, 0)
	near(t, "upper", c.Upper, 4+1.023*4, 0.002)
	near(t, "range upper", c.RangeUpper, 2.574*4, 0.003)
	sigma := 4 / 1.693
	near(t, "Cp", c.Cp, 10/(6*sigma), 0.001)
	near(t, "Cpk", c.Cpk, 4/(3*sigma), 0.001)
}

// What is too few, equal or outside.
func TestChartEdges(t *testing.T) {
	if c := chartOf(nil, 0, 0, nil, nil); c.GetValues() != 0 || c.Upper != nil {
		t.Errorf("of nothing: %v", c)
	}
	if c := chartOf([]float64{3}, 0, 0, nil, nil); c.GetMean() != 3 || c.Stddev != nil || c.Upper != nil {
		t.Errorf("of one: %v", c)
	}
	if c := chartOf([]float64{3, 4}, pb.ChartKind_CHART_KIND_XBAR_R, 0, nil, nil); c.GetValues() != 0 ||
		c.GetSubgroup() != 5 {
		t.Errorf("of too few for a subgroup: %v", c)
	}
	same := slices.Repeat([]float64{0.1}, 10_000)
	if c := chartOf(same, 0, 0, new(0.0), new(1.0)); c.GetMean() != 0.1 || c.GetUpper() != 0.1 ||
		len(c.GetOutside()) != 0 || c.Cpk != nil {
		t.Errorf("of equal values: mean %v, upper %v, %d outside", c.GetMean(), c.GetUpper(), len(c.GetOutside()))
	}
	values := slices.Repeat([]float64{10, 11}, 20)
	values[17] = 40
	c := chartOf(values, 0, 0, nil, new(20.0))
	if !slices.Equal(c.GetOutside(), []uint32{17}) || !slices.Equal(c.GetRangesOutside(), []uint32{16, 17}) ||
		c.Cp != nil || c.Cpk == nil {
		t.Errorf("outside %v, ranges %v", c.GetOutside(), c.GetRangesOutside())
	}
}

func TestQuantities(t *testing.T) {
	gray := &pb.RegionResult{Count: 7, Area: 6.5, Channels: []*pb.ChannelStatistics{{Mean: new(3.0), Max: new(uint32(9)),
		Percentiles: []*pb.PercentileValue{{Percentile: 99.5, Value: 8}}}}}
	colour := &pb.RegionResult{Channels: []*pb.ChannelStatistics{{Channel: pb.Channel_CHANNEL_RED, Mean: new(1.0)},
		{Channel: pb.Channel_CHANNEL_GREEN, Mean: new(2.0)}}}
	for _, c := range []struct {
		text string
		r    *pb.RegionResult
		want string
	}{
		{"count", gray, "7 true"}, {"area", gray, "6.5 true"}, {"coverage", gray, "0 false"}, {"mean", gray, "3 true"},
		{"max", gray, "9 true"}, {"p99.5", gray, "8 true"}, {"p99", gray, "0 false"}, {"median", gray, "0 false"},
		{"g.mean", colour, "2 true"}, {"mean", colour, "0 false"}, {"b.mean", colour, "0 false"},
	} {
		q, err := quantityOf(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if v, ok := q(c.r); fmt.Sprint(v, ok) != c.want {
			t.Errorf("%s: %v %t, want %s", c.text, v, ok, c.want)
		}
	}
	for _, text := range []string{"", "x", "pp", "p101", "p-1", "q.mean", "r.count", "mean ", "pNaN"} {
		if _, err := quantityOf(text); err == nil {
			t.Errorf("%q is a quantity", text)
		}
	}
}
