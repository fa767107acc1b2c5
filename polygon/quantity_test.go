package polygon

import (
	"math"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/kernels"
)

func TestQuantity(t *testing.T) {
	for _, tc := range []struct {
		expr, want string
		integer    bool
		lo, hi     float64 // of 8 bits and ten pixels
	}{
		{"Mean", "mean", false, 0, 255},
		{" R . mean", "r.mean", false, 0, 255},
		{"alpha.max", "a.max", true, 0, 255},
		{"grey.p99.5", "gray.p99.5", true, 0, 255},
		{"sum", "sum", true, 0, 2550},
		{"stddev", "stddev", false, 0, 127.5},
		{"variance", "variance", false, 0, 16256.25},
		{"distinct", "distinct", true, 1, 10},
		{"count of pixels BELOW 40", "count of pixels below 40", true, 0, 10},
		{"count of pixels in [10, 20)", "count of pixels in [10, 20)", true, 0, 10},
		{"coverage", "coverage", false, 0, 1},
		{"median", "median", false, 0, 255},
	} {
		q, err := ParseQuantity(tc.expr)
		if err != nil {
			t.Errorf("%q: %v", tc.expr, err)
			continue
		}
		lo, hi := mustSet(t, Region{Rings: []Ring{rectangle(0, 0, 20, 20)}}).Range(0, q, 255, 10, &Reductions{})
		if q.String() != tc.want || q.Integer() != tc.integer || lo != tc.lo || hi != tc.hi {
			t.Errorf("%q: %q, whole: %t, %v to %v", tc.expr, q, q.Integer(), lo, hi)
		}
		for want, expr := range map[string]string{
			" in [1.5, 20000000]": q.Interval(1.5, 2e7), " <= 3": q.Interval(math.Inf(-1), 3),
			" >= 0.25": q.Interval(0.25, math.Inf(1)),
			" == -1e9": q.Probe(),
		} {
			l, err := ParseLimit(expr)
			if err != nil || expr != tc.want+want || l.Quantity().String() != tc.want {
				t.Errorf("%q: %v, %q", expr, err, l.Quantity())
			}
		}
	}
	for expr, words := range map[string]string{
		"": "a quantity", "mean < 3": "the end of the quantity", "meen": "a quantity", "r.area": "no channel",
		strings.Repeat("m", MaxLimit+1): "the limit is",
	} {
		if q, err := ParseQuantity(expr); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%q: %v, %v", expr, q, err)
		}
	}
}

func TestQuantityCovers(t *testing.T) {
	of := func(expr string) Quantity {
		q, err := ParseQuantity(expr)
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{"mean", "mean", true}, {"mean", "r.mean", true}, {"r.mean", "mean", false}, {"r.mean", "g.mean", false},
		{"mean", "median", false}, {"p1", "p99", false}, {"p50", "p50.0", true},
		{"count of pixels below 40", "count of pixels below 40.0", true},
		{"count of pixels below 40", "count of pixels below 41", false},
		{"count of pixels above 40", "count of pixels below 40", false}, {"count", "count of pixels below 40", false},
	} {
		if got := of(tc.a).Covers(of(tc.b)); got != tc.want {
			t.Errorf("%q covers %q: %t", tc.a, tc.b, got)
		}
	}
	if q := of("mean").In(Blue); q.String() != "b.mean" || q.Channel() != Blue || q.OfRegion() || !of("area").OfRegion() {
		t.Errorf("%v", q)
	}
}

// A probe measures what a limit on the quantity would, and fails.
func TestProbe(t *testing.T) {
	dev := openCPU(t, kernels.Config{MemoryBytes: 1 << 20})
	f := kernels.Picture{Width: 4, Height: 1, Format: kernels.Gray8, Data: [][]byte{{0, 0, 7, 9}}}
	for expr, want := range map[string]float64{"mean": 4, "min": 0, "p75": 7, "count of pixels below 8": 3, "distinct": 3,
		"stddev": math.Sqrt(16.5)} {
		q, err := ParseQuantity(expr)
		if err != nil {
			t.Fatal(err)
		}
		set := mustSet(t, Region{Rings: []Ring{{{0, 0}, {4, 0}, {4, 1}, {0, 1}}}, Limits: []string{q.Probe()}})
		res, err := Reduce(t.Context(), dev, set, f, Reductions{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if l := res.Regions[0].Limits[0]; l.Verdict != Fail || !l.Measured || l.Value != want {
			t.Errorf("%s: %+v, want %v", expr, l, want)
		}
	}
}
