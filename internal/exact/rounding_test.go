package exact

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/polyscan/polyscan/internal/race"
	"github.com/polyscan/polyscan/internal/seed"
)

func big128(hi, lo uint64) *big.Int {
	b := new(big.Int).SetUint64(hi)
	return b.Lsh(b, 64).Or(b, new(big.Int).SetUint64(lo))
}

// randomBits has up to n bits, often few of them set, or all.
func randomBits(rng *rand.Rand, n int) uint64 {
	v := rng.Uint64()
	switch rng.IntN(4) {
	case 0:
		v &= rng.Uint64() & rng.Uint64()
	case 1:
		v |= rng.Uint64() | rng.Uint64()
	case 2:
		v = 1<<rng.IntN(64) + uint64(rng.IntN(3)) - 1
	}
	return v >> (64 - 1 - rng.IntN(n)) // 1 to n bits
}

func TestQuotient(t *testing.T) {
	check := func(hi, lo, den uint64) {
		t.Helper()
		want, _ := new(big.Rat).SetFrac(big128(hi, lo), new(big.Int).SetUint64(den)).Float64()
		if got := Quotient(hi, lo, den); got != want {
			t.Errorf("Quotient(%#x, %#x, %#x) = %v, want %v", hi, lo, den, got, want)
		}
	}
	for _, v := range []uint64{0, 1, 2, 3, 1<<53 - 1, 1 << 53, 1<<53 + 1, 1<<54 + 2, 1<<54 + 6, 1 << 63, ^uint64(0)} {
		for _, hi := range []uint64{0, 1, 1 << 62, 1 << 63, ^uint64(0)} {
			for _, den := range []uint64{1, 2, 3, 1 << 53, 1<<53 + 1, 1 << 63, ^uint64(0)} {
				check(hi, v, den)
			}
		}
	}
	rng := seed.New(t, 1, 2)
	for range 200_000 {
		hi := uint64(0)
		if rng.IntN(2) == 0 {
			hi = randomBits(rng, 64)
		}
		check(hi, randomBits(rng, 64), max(1, randomBits(rng, 64)))
	}
	// Ties: (2k+1) * 2^s / 2^s' lies half way between floats when 2k+1 has 54 bits.
	for range 10_000 {
		odd := rng.Uint64()>>10 | 1<<53 | 1
		den := max(1, randomBits(rng, 60))
		p := new(big.Int).Mul(new(big.Int).SetUint64(odd), new(big.Int).SetUint64(den))
		check(new(big.Int).Rsh(p, 64).Uint64(), p.Uint64(), den)
		p.Add(p, big.NewInt(int64(rng.IntN(3)-1)))
		check(new(big.Int).Rsh(p, 64).Uint64(), new(big.Int).And(p, new(big.Int).SetUint64(^uint64(0))).Uint64(), den)
	}
}

func TestRootQuotient(t *testing.T) {
	race.Skip(t)
	rng := seed.New(t, 3, 4)
	check := func(hi, lo, den uint64) {
		t.Helper()
		r := new(big.Rat).SetFrac(big128(hi, lo), new(big.Int).SetUint64(den))
		f := new(big.Float).SetPrec(400).SetRat(r)
		want, _ := f.Sqrt(f).Float64()
		if got := RootQuotient(hi, lo, den); got != want {
			t.Errorf("RootQuotient(%#x, %#x, %#x) = %v, want %v", hi, lo, den, got, want)
		}
	}
	naive := 0
	for range 100_000 {
		hi, lo := uint64(0), randomBits(rng, 64)
		if rng.IntN(2) == 0 {
			hi = randomBits(rng, 32)
		}
		if hi == 0 && lo == 0 {
			continue
		}
		den := max(1, randomBits(rng, 64))
		check(hi, lo, den)
		if RootQuotient(hi, lo, den) != math.Sqrt(Quotient(hi, lo, den)) {
			naive++
		}
	}
	if naive == 0 {
		t.Error("the root of the rounded quotient was always right: this test sees nothing")
	}
	for v := uint64(1); v < 2000; v++ { // squares are exact
		check(0, v*v, 1)
		check(0, v*v, 4)
		check(0, v, 1)
	}
}

// TestVarianceOfLargeSums is where float64 sums of squares go wrong: the largest frame of nearly equal large samples.
func TestVarianceOfLargeSums(t *testing.T) {
	for _, c := range []struct{ n, ones uint64 }{{1 << 29, 1}, {1 << 29, 1 << 28}, {1<<29 - 1, 12345}, {3, 1}, {1, 0},
		{1 << 29, 0}} {
		const v = 65534 // and ones samples of 65535
		sum := (c.n-c.ones)*v + c.ones*(v+1)
		sumSq := (c.n-c.ones)*v*v + c.ones*(v+1)*(v+1)
		gotV, gotS := Variance(c.n, sum, sumSq)
		// p(1-p) for a share p of ones
		want := big.NewRat(int64(c.ones), int64(c.n))
		want.Mul(want, new(big.Rat).Sub(big.NewRat(1, 1), want))
		wantV, _ := want.Float64()
		f := new(big.Float).SetPrec(300).SetRat(want)
		wantS, _ := f.Sqrt(f).Float64()
		if gotV != wantV || gotS != wantS {
			t.Errorf("%d of %d: variance %v, stddev %v; want %v, %v", c.ones, c.n, gotV, gotS, wantV, wantS)
		}
	}
}
