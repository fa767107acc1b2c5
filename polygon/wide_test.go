package polygon

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/polyscan/polyscan/internal/seed"
)

func (a wide) big() *big.Int {
	v := new(big.Int)
	for i := len(a) - 1; i >= 0; i-- {
		v.Lsh(v, 64).Or(v, new(big.Int).SetUint64(a[i]))
	}
	return v
}

// randomWide has up to so many bits, often few, runs of ones and of zeros among them.
func randomWide(rng *rand.Rand, bits int) (a wide) {
	for i := range rng.IntN(bits + 1) {
		if w := i / 64; rng.IntN(9) > 0 {
			a[w] |= (rng.Uint64() | -(rng.Uint64() & 1)) & (1 << (i % 64))
		}
	}
	if rng.IntN(4) == 0 {
		for i := range a {
			if i < bits/64 {
				a[i] = math.MaxUint64
			}
		}
	}
	return a
}

func TestWide(t *testing.T) {
	rng := seed.New(t, 19, 1)
	all := new(big.Int).Lsh(big.NewInt(1), 448)
	for range 20_000 {
		a, b := randomWide(rng, 448), randomWide(rng, 448)
		if rng.IntN(9) == 0 {
			a = b
		}
		if a.compare(&b) < 0 {
			a, b = b, a
		}
		n := rng.IntN(448)
		x, y := a.big(), b.big()
		for what, c := range map[string]struct {
			got  wide
			want *big.Int
		}{
			"+": {a.plus(b), new(big.Int).Add(x, y)}, "-": {a.minus(b), new(big.Int).Sub(x, y)},
			"*": {a.times(b), new(big.Int).Mul(x, y)}, "*, turned": {b.times(a), new(big.Int).Mul(x, y)},
			"<<": {a.shifted(n), new(big.Int).Lsh(x, uint(n))}, "of": {wideOf(a[0]), new(big.Int).SetUint64(a[0])},
		} {
			if want := c.want.Mod(c.want, all); c.got.big().Cmp(want) != 0 {
				t.Fatalf("%d %s %d, or %d: %d, want %d", x, what, y, n, c.got.big(), want)
			}
		}
		if a.compare(&b) != x.Cmp(y) || b.compare(&a) != y.Cmp(x) {
			t.Fatalf("%d and %d: %d", x, y, a.compare(&b))
		}
		want, _ := new(big.Float).SetInt(x).Float64()
		if got := a.near(); math.Abs(got-want) > 0x1p-51*want {
			t.Fatalf("%d: near %v", x, got)
		}
	}
}

// Quotients are rounded as package big rounds them, ties included, however far off the guess is.
func TestRoundedTo(t *testing.T) {
	rng := seed.New(t, 19, 2)
	for i := range 20_000 {
		num, den := rng.Uint64N(1<<(1+rng.IntN(63)))+1, rng.Uint64N(1<<(1+rng.IntN(63)))+1
		if i%2 == 0 { // halfway, and a little beside it
			num, den = 1<<53|rng.Uint64N(1<<53)&^(rng.Uint64N(2)*(1<<53-2))|1, 1<<rng.IntN(63)
			if rng.IntN(3) == 0 {
				num = 1<<55 + 2 - rng.Uint64N(5)
			}
		}
		quotient := new(big.Rat).SetFrac(new(big.Int).SetUint64(num), new(big.Int).SetUint64(den))
		want, _ := quotient.Float64()
		near := want
		for range rng.IntN(5) {
			near = math.Nextafter(near, math.Inf(1-2*rng.IntN(2)))
		}
		got := roundedTo(near, func(m uint64, e int) int {
			if m >= 1<<55 {
				t.Fatalf("m = %d", m)
			}
			at := new(big.Rat).SetInt(new(big.Int).SetUint64(m))
			power := new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), uint(max(e, -e))))
			if e < 0 {
				power.Inv(power)
			}
			return quotient.Cmp(at.Quo(at, power))
		})
		if got != want {
			t.Fatalf("%d/%d from %v: %v, want %v", num, den, near, got, want)
		}
	}
}

// As many samples as a frame can have, of values far apart: moments are as large as they get.
func TestStandardisedOfMany(t *testing.T) {
	rng := seed.New(t, 19, 3)
	for range 2000 {
		d := &distribution{}
		left, v := uint64(math.MaxUint32), uint32(0)
		if rng.IntN(2) == 0 {
			left = 2 + rng.Uint64N(1<<(2+rng.IntN(30)))
		}
		n, values := uint64(0), 2+rng.IntN(6)
		for k := range values {
			c := left - n
			if k < values-1 {
				c = 1 + rng.Uint64N(max(1, (left-n)>>rng.IntN(32)))
			}
			if n += c; c == 0 || n > left {
				n -= c
				break
			}
			d.values, d.cumulative = append(d.values, v), append(d.cumulative, n)
			v += 1 + rng.Uint32N((65535-v)>>rng.IntN(14)+1)
			if v > 65535 {
				break
			}
			if rng.IntN(9) == 0 {
				v = 65535
			}
		}
		skewness, kurtosis, ok := d.standardised(true)
		if len(d.values) < 2 {
			if ok {
				t.Fatalf("%+v: %v, %v", d, skewness, kurtosis)
			}
			continue
		}
		mean, m2, m3, m4 := new(big.Rat), new(big.Rat), new(big.Rat), new(big.Rat)
		each := func(f func(v, share *big.Rat)) {
			before := uint64(0)
			for i, v := range d.values {
				f(ratio(int64(v), 1), ratio(int64(d.cumulative[i]-before), int64(d.count())))
				before = d.cumulative[i]
			}
		}
		each(func(v, share *big.Rat) { mean.Add(mean, v.Mul(v, share)) })
		each(func(v, share *big.Rat) {
			v.Sub(v, mean)
			p := share.Mul(share, v)
			for _, m := range []*big.Rat{nil, m2, m3, m4} {
				if m != nil {
					m.Add(m, p)
				}
				p = new(big.Rat).Mul(p, v)
			}
		})
		root := new(big.Float).SetPrec(2000).SetRat(new(big.Rat).Mul(m2, new(big.Rat).Mul(m2, m2)))
		want := new(big.Float).SetPrec(2000).SetRat(m3)
		wantSkewness, _ := want.Quo(want, root.Sqrt(root)).Float64()
		if wantKurtosis := nearest(m4.Quo(m4, m2.Mul(m2, m2))); skewness != wantSkewness || kurtosis != wantKurtosis {
			t.Fatalf("%+v: %v and %v, want %v and %v", d, skewness, kurtosis, wantSkewness, wantKurtosis)
		}
	}
}
