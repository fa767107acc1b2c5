package polygon

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/polyscan/polyscan/internal/exact"
	"github.com/polyscan/polyscan/internal/race"
	"github.com/polyscan/polyscan/internal/seed"
)

func TestNearestRank(t *testing.T) {
	for _, c := range []struct {
		p    float64
		n    uint64
		want uint64
	}{
		{99.9, 1000, 999}, // in binary floats, ceil(99.9/100*1000) is 1000
		{0, 1, 1}, {0, 1000, 1}, {100, 1, 1}, {100, 1000, 1000}, {50, 1, 1}, {50, 2, 1}, {50, 3, 2}, {50, 4, 2},
		{0.1, 1000, 1}, {0.1, 1001, 2}, {0.3, 1000, 3}, {0.7, 1000, 7}, {29, 100, 29}, {57, 100, 57}, {58, 100, 58},
		{1e-300, 1 << 29, 1}, {5e-324, 7, 1}, {99.99999999999999, 1 << 29, 1 << 29}, {math.Nextafter(100, 0), 10, 10},
		{33.333333333333336, 3, 2}, {33.33333333333333, 3, 1}, {1e-10, 1 << 29, 1}, {0.0000001, 1e9, 1},
		{0.0000001, 1e9 + 1, 2},
	} {
		if got := exact.Percent(c.p).NearestRank(c.n); got != c.want {
			t.Errorf("rank of p%v of %d is %d, want %d", c.p, c.n, got, c.want)
		}
	}
	rng := seed.New(t, 7, 8)
	for range 20_000 {
		p := rng.Float64() * 100
		switch rng.IntN(3) {
		case 0:
			p = float64(rng.IntN(100_001)) / 1000
		case 1:
			p *= math.Pow(10, -float64(rng.IntN(30)))
		}
		n := 1 + rng.Uint64N(1<<29)
		r := new(big.Rat).Mul(decimalRat(p), big.NewRat(int64(n), 100))
		want := new(big.Int).Neg(floorRat(r.Neg(r))).Uint64()
		if got := exact.Percent(p).NearestRank(n); got != max(want, 1) {
			t.Fatalf("rank of p%v of %d is %d, want %d", p, n, got, max(want, 1))
		}
	}
}

func TestLinear(t *testing.T) {
	values := []uint32{0, 1, 10, 65535}
	at := func(k uint64) uint32 { return values[k-1] }
	for _, c := range []struct {
		p    float64
		n    uint64
		want float64
	}{
		{0, 4, 0}, {100, 4, 65535}, {50, 4, 5.5}, {25, 4, 0.75}, {75, 4, 16391.25}, {50, 1, 0}, {10, 2, 0.1},
		{99.9, 2, 0.999},
		{1e-30, 4, 3e-32}, {5e-324, 4, 0}, // 1.5e-325 is less than half the smallest float
	} {
		if got := exact.Percent(c.p).Linear(c.n, at); got != c.want {
			t.Errorf("p%v of %v is %v, want %v", c.p, values[:c.n], got, c.want)
		}
	}
	rng := seed.New(t, 9, 10)
	for range 20_000 {
		ch := oracleChannel{sorted: make([]uint32, 1+rng.IntN(20))}
		for i := range ch.sorted {
			ch.sorted[i] = uint32(rng.IntN(1 << (1 + rng.IntN(16))))
		}
		slices.Sort(ch.sorted)
		p := rng.Float64() * 100 * math.Pow(10, -float64(rng.IntN(4)*rng.IntN(10)))
		got := exact.Percent(p).Linear(uint64(len(ch.sorted)), func(k uint64) uint32 { return ch.sorted[k-1] })
		if want := ch.linear(p); got != want {
			t.Fatalf("p%v of %v is %v, want %v", p, ch.sorted, got, want)
		}
	}
}

// TestHistogramEdges compares where bins begin with the definition, for bounds that floats can't hold and huge ones.
func TestHistogramEdges(t *testing.T) {
	race.Skip(t)
	specs := []HistogramSpec{
		{0, 0, 0}, {1, 0, 0}, {256, 0, 256}, {100, 0, 0}, {65536, 0, 0}, {65536, 0, 1}, {10, 0.1, 10.1},
		{200, 0.1, 20.1},
		{3, -1e300, 1e300}, {7, 1e-300, 255}, {5, -5e-324, 5e-324}, {2, math.MaxFloat64 / 2, math.MaxFloat64},
		{13, -17.25, 300.5}, {10, 0.3, 0.4}, {1, 255, 255.5}, {9, 1e15, 1e16}, {3, 123456789.123, 123456790},
		{10, -1000, -1},
		{1000, 0.123456789012, 200.123456789012}, {11, 0.1234567890123, 250},
	}
	rng := seed.New(t, 11, 12)
	for range 300 {
		lo := rng.NormFloat64() * 300
		specs = append(specs, HistogramSpec{1 + rng.IntN(300), lo, lo + rng.ExpFloat64()*300})
		lo = float64(rng.IntN(30000)-5000) / 100
		specs = append(specs, HistogramSpec{1 + rng.IntN(300), lo, lo + float64(1+rng.IntN(30000))/100})
	}
	for _, spec := range specs {
		for _, levels := range []int{256, 1024} {
			b := newBinner(spec, levels)
			ch := oracleChannel{}
			hist := make([]uint32, levels)
			for v := range levels {
				hist[v] = uint32(1 + v%3)
				for range hist[v] {
					ch.sorted = append(ch.sorted, uint32(v))
				}
			}
			var d distribution
			d.load(hist, 0)
			got := HistogramCounts{Lower: b.lower, Upper: b.upper, Counts: make([]uint64, b.bins)}
			got.Below, got.Above = fillBins(&b, got.Counts, &d)
			want := ch.histogram(spec, levels)
			if got.Below != want.Below || got.Above != want.Above || got.Lower != want.Lower ||
				got.Upper != want.Upper ||
				!slices.Equal(got.Counts, want.Counts) {
				t.Errorf("%+v of %d levels:\n got %v\nwant %v", spec, levels, got, want)
			}
		}
	}
}
