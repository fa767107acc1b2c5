package teach

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

func quantity(t testing.TB, name string) polygon.Quantity {
	t.Helper()
	q, err := polygon.ParseQuantity(name)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// passes says whether a value satisfies a limit; an empty one says nothing.
func passes(t testing.TB, expr string, v float64) bool {
	t.Helper()
	if expr == "" {
		return true
	}
	l, err := polygon.ParseLimit(expr)
	if err != nil {
		t.Fatalf("%q: %v", expr, err)
	}
	return l.Judge(v, polygon.NoChannel).Verdict == polygon.Pass
}

func TestLearn(t *testing.T) {
	sigma := func(k float64) *pb.Margin { return &pb.Margin{Kind: &pb.Margin_Sigma{Sigma: k}} }
	quantile := func(p, s float64) *pb.Margin {
		return &pb.Margin{Kind: &pb.Margin_Quantile{Quantile: &pb.QuantileMargin{Percent: p, SharePercent: s}}}
	}
	for _, tc := range []struct {
		name     string
		quantity string
		margin   *pb.Margin
		values   []float64
		want     string
	}{
		// Mean 100, standard deviation sqrt(2/2) = 1.
		{"sigma", "mean", sigma(4), []float64{99, 100, 101}, "mean in [96, 104]"},
		{"default", "mean", nil, []float64{99, 100, 101}, "mean in [96, 104]"},
		{"colour", "r.mean", sigma(4), []float64{99, 100, 101}, "r.mean in [96, 104]"},
		// Mean 51, standard deviation sqrt(10).
		{"the farthest good frame passes", "mean", sigma(1), []float64{50, 50, 50, 50, 50, 50, 50, 50, 50, 60},
			"mean in [47.8, 60]"},
		{"rounded outwards", "mean", sigma(3), []float64{10.01, 10.02, 10.04}, "mean in [9.9775, 10.0692]"},
		{"whole numbers", "max", sigma(4), []float64{99, 100, 101}, "max in [96, 104]"},
		// 4/sqrt(12) = 1.15: one more and one less.
		{"equal whole numbers", "max", sigma(4), []float64{100, 100, 100}, "max in [99, 101]"},
		{"equal whole numbers, three sigma", "max", sigma(3), []float64{100, 100, 100}, "max in [100, 100]"},
		{"none", "count of pixels above 200", sigma(4), []float64{0, 0, 0}, "count of pixels above 200 <= 1"},
		{"none, of its range", "count of pixels above 200", quantile(0, 50), []float64{0, 0, 0},
			"count of pixels above 200 <= 0"},
		{"equal", "mean", sigma(4), []float64{100.123456789, 100.123456789}, "mean in [100.1234, 100.1235]"},
		{"equal and 0", "stddev", sigma(4), []float64{0, 0}, "stddev <= 0"},
		{"up to the lowest", "stddev", sigma(4), []float64{1, 2, 3}, "stddev <= 6"},
		{"up to the highest", "min", sigma(4), []float64{250, 250, 255}, "min >= 241"},
		{"anything", "mean", sigma(4), []float64{0, 255}, ""},
		{"range", "mean", quantile(0, 0), []float64{10, 30, 20}, "mean in [10, 30]"},
		{"range and share", "mean", quantile(0, 25), []float64{10, 30, 20}, "mean in [5, 35]"},
		// Of ten frames 10 % is one on either side.
		{"quantile", "mean", quantile(10, 0), []float64{9, 8, 7, 6, 5, 4, 3, 2, 1, 10}, "mean in [2, 9]"},
		{"quantile between frames", "mean", quantile(19, 0), []float64{9, 8, 7, 6, 5, 4, 3, 2, 1, 10}, "mean in [2, 9]"},
		{"quantile of few", "mean", quantile(10, 0), []float64{3, 1, 2}, "mean in [1, 3]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, _ := marginOf(tc.margin).learn(quantity(t, tc.quantity), slices.Clone(tc.values), 0, 255)
			if got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// exactSpread computes mean and standard deviation with 500 bits.
func exactSpread(values []float64) (mean, stddev *big.Float) {
	real := func(v float64) *big.Float { return new(big.Float).SetPrec(500).SetFloat64(v) }
	mean = real(0)
	for _, v := range values {
		mean.Add(mean, real(v))
	}
	mean.Quo(mean, real(float64(len(values))))
	sum := real(0)
	for _, v := range values {
		d := real(0).Sub(real(v), mean)
		sum.Add(sum, d.Mul(d, d))
	}
	return mean, sum.Sqrt(sum.Quo(sum, real(float64(len(values)-1))))
}

// Squares of the deviations of tiny values are too small for a float64 of full precision.
func TestSpreadOfTinyValues(t *testing.T) {
	for _, values := range [][]float64{
		{1.821106243453124e-158, 3.641767935156351e-158}, {0, 1e-200}, {0, 0, math.SmallestNonzeroFloat64 * 1024}, {0, 65535},
	} {
		_, want := exactSpread(values)
		if got := spreadOf(values).stddev; math.Abs(got-asFloat(want)) > 1e-9*asFloat(want) || got == 0 {
			t.Errorf("%g: %g, want %g", values, got, asFloat(want))
		}
	}
}

func asFloat(v *big.Float) float64 {
	f, _ := v.Float64()
	return f
}

func near(t *rapid.T, what string, got float64, want *big.Float, scale float64) {
	w := asFloat(want)
	if math.Abs(got-w) > 1e-9*(scale+math.Abs(w)) {
		t.Errorf("%s: %v, want %v", what, got, w)
	}
}

// Learned limits are those of the formulas, computed in another way, rounded outwards by at most a tenth of their
// width; good values pass as the margin says.
func TestLearnProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		integer := rapid.Bool().Draw(rt, "integer")
		q := quantity(t, "mean")
		// Wide enough that ends are rarely left out.
		const lowest, highest = -1e9, 1e9
		value := rapid.Float64Range(0, 65535)
		if integer {
			q = quantity(t, "sum")
			value = rapid.Map(rapid.IntRange(0, 1<<20), func(v int) float64 { return float64(v) })
		}
		values := rapid.SliceOfN(value, 2, 60).Draw(rt, "values")
		if rapid.Bool().Draw(rt, "close") {
			for i := range values {
				values[i] = values[0] + math.Trunc(values[i])/65536*float64(1-b2i(integer))
			}
		}
		var m margin
		mean, stddev := exactSpread(values)
		sorted := slices.Sorted(slices.Values(values))
		var lo, hi *big.Float
		out := 0 // good frames that may fail on either side
		if rapid.Bool().Draw(rt, "sigma") {
			m.sigma = rapid.Float64Range(0.1, 10).Draw(rt, "k")
			s := new(big.Float).Copy(stddev)
			if f, _ := s.Float64(); integer && f < 1/math.Sqrt(12) {
				s.SetFloat64(1 / math.Sqrt(12))
			}
			s.Mul(s, big.NewFloat(m.sigma))
			lo, hi = new(big.Float).Sub(mean, s), new(big.Float).Add(mean, s)
			if first := big.NewFloat(sorted[0]); lo.Cmp(first) > 0 {
				lo = first
			}
			if last := big.NewFloat(sorted[len(sorted)-1]); hi.Cmp(last) < 0 {
				hi = last
			}
		} else {
			m.percent = float64(rapid.IntRange(0, 49).Draw(rt, "percent"))
			m.share = float64(rapid.IntRange(0, 200).Draw(rt, "share"))
			// All values with more than so many percent of them at or below, and at or above.
			var kept []float64
			for i, v := range sorted {
				if 100*(i+1) > int(m.percent)*len(sorted) && 100*(len(sorted)-i) > int(m.percent)*len(sorted) {
					kept = append(kept, v)
				}
			}
			a, b := kept[0], kept[len(kept)-1]
			w := (b - a) * m.share / 100
			lo, hi = big.NewFloat(a-w), big.NewFloat(b+w)
			out = int(m.percent) * len(values) / 100
		}
		expr, s := m.learn(q, slices.Clone(values), lowest, highest)
		scale := sorted[len(sorted)-1] - sorted[0]
		near(rt, "mean", s.mean, mean, scale)
		near(rt, "stddev", s.stddev, stddev, scale)
		if s.least != sorted[0] || s.greatest != sorted[len(sorted)-1] {
			rt.Errorf("%+v of %v", s, sorted)
		}
		failed := 0
		for _, v := range values {
			if !passes(t, expr, v) {
				failed++
			}
		}
		if failed > 2*out {
			rt.Errorf("%q fails %d of %d good frames, and %d may fail on either side", expr, failed, len(values), out)
		}
		// The ends are where the formula has them.
		flo, _ := lo.Float64()
		fhi, _ := hi.Float64()
		slack := 0.1*(fhi-flo) + 1e-5*max(math.Abs(flo), math.Abs(fhi)) + 1e-8
		tiny := 1e-9 * (1 + math.Abs(flo) + math.Abs(fhi))
		if integer {
			if passes(t, expr, math.Ceil(flo-tiny)-1) || passes(t, expr, math.Floor(fhi+tiny)+1) ||
				math.Ceil(flo+tiny) <= math.Floor(fhi-tiny) &&
					(!passes(t, expr, math.Ceil(flo+tiny)) || !passes(t, expr, math.Floor(fhi-tiny))) {
				rt.Errorf("%q: the ends are %v and %v", expr, flo, fhi)
			}
			return
		}
		if !passes(t, expr, flo+tiny) && flo+tiny < fhi || !passes(t, expr, fhi-tiny) && fhi-tiny > flo ||
			passes(t, expr, flo-slack) || passes(t, expr, fhi+slack) {
			rt.Errorf("%q: the ends are %v and %v", expr, flo, fhi)
		}
	})
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestEnough(t *testing.T) {
	for _, tc := range []struct {
		m    margin
		want int
	}{{margin{sigma: 4}, 20}, {margin{}, 20}, {margin{percent: 1}, 100}, {margin{percent: 20}, 20},
		{margin{percent: 0.3}, 334}} {
		if got := tc.m.enough(); got != tc.want {
			t.Errorf("%v: %d, want %d", tc.m, got, tc.want)
		}
	}
}
