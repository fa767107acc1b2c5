// Percentiles as fractions of the decimals that they are written as.

package exact

import (
	"math/big"
	"math/bits"
	"strconv"
)

// Decimal is ±digits / 10^scale: the number as people write it. A float64 stands for the shortest decimal that reads
// back as it, so that 99.9 is 999/10 and not the binary fraction nearby.
type Decimal struct {
	Negative bool
	Digits   uint64 // below 10^17
	Scale    int    // negative for large numbers
}

func DecimalOf(v float64) Decimal {
	var buf [32]byte
	var d Decimal
	text := strconv.AppendFloat(buf[:0], v, 'e', -1, 64)
	if text[0] == '-' {
		d.Negative = true
		text = text[1:]
	}
	Fraction := false
	for i, c := range text {
		switch {
		case c == '.':
			Fraction = true
		case c == 'e':
			e, _ := strconv.Atoi(string(text[i+1:]))
			d.Scale -= e
			return d
		default:
			d.Digits = d.Digits*10 + uint64(c-'0')
			if Fraction {
				d.Scale++
			}
		}
	}
	return d
}

var Tens = func() (t [20]uint64) {
	t[0] = 1
	for i := range t[1:] {
		t[i+1] = t[i] * 10
	}
	return t
}()

// Rat is the decimal as a Fraction.
func (d Decimal) Rat() *big.Rat {
	num := new(big.Int).SetUint64(d.Digits)
	if d.Negative {
		num.Neg(num)
	}
	ten := big.NewInt(10)
	if d.Scale < 0 {
		return new(big.Rat).SetInt(num.Mul(num, ten.Exp(ten, big.NewInt(int64(-d.Scale)), nil)))
	}
	return new(big.Rat).SetFrac(num, ten.Exp(ten, big.NewInt(int64(d.Scale)), nil))
}

// Fraction is p/100 for a percentile p: num / 10^scale, num <= 10^scale.
type Fraction struct {
	num   uint64 // below 10^17
	scale int    // at least 2
}

// Percent is p/100. p is in [0, 100].
func Percent(p float64) Fraction {
	d := DecimalOf(p)
	f := Fraction{d.Digits, d.Scale + 2}
	for f.scale < 2 { // 10 or 100
		f.num *= 10
		f.scale++
	}
	return f
}

// NearestRank is ceil(p*n/100), and at least 1. n < 2^32.
func (f Fraction) NearestRank(n uint64) uint64 {
	scale := f.scale
	hi, lo := bits.Mul64(f.num, n) // below 2^89
	// ceil(a/(b*c)) = ceil(ceil(a/b)/c), so that powers beyond 10^19 can go one after another.
	for {
		den := Tens[min(scale, len(Tens)-1)]
		q, r := bits.Div64(hi, lo, den) // fits: p*n/100 <= n, and 2^89 / 10^19 is small
		if r != 0 {
			q++
		}
		scale -= min(scale, len(Tens)-1)
		if scale == 0 || q <= 1 {
			return max(1, q)
		}
		hi, lo = 0, q
	}
}

// Linear is the value between the order statistics. at(k) is the sample of rank k, from 1 to n; n >= 1.
func (f Fraction) Linear(n uint64, at func(rank uint64) uint32) float64 {
	if f.scale >= len(Tens) {
		return f.linearBig(n, at)
	}
	den := Tens[f.scale]
	hi, lo := bits.Mul64(f.num, n-1)
	i, r := bits.Div64(hi, lo, den)
	v0 := uint64(at(i + 1))
	if r == 0 {
		return float64(v0)
	}
	v1 := uint64(at(i + 2))
	// v0 + (v1-v0)*r/den
	hi, lo = bits.Mul64(v0, den)
	dhi, dlo := bits.Mul64(v1-v0, r)
	lo, carry := bits.Add64(lo, dlo, 0)
	hi, _ = bits.Add64(hi, dhi, carry)
	return Quotient(hi, lo, den)
}

// linearBig is Linear for percentiles with more than 17 decimal places.
func (f Fraction) linearBig(n uint64, at func(rank uint64) uint32) float64 {
	ten := big.NewInt(10)
	h := new(big.Rat).SetFrac(new(big.Int).SetUint64(f.num), ten.Exp(ten, big.NewInt(int64(f.scale)), nil))
	h.Mul(h, new(big.Rat).SetInt(new(big.Int).SetUint64(n-1)))
	i := new(big.Int).Quo(h.Num(), h.Denom())
	h.Sub(h, new(big.Rat).SetInt(i))
	v0 := at(i.Uint64() + 1)
	v := new(big.Rat).SetInt64(int64(v0))
	if h.Sign() != 0 {
		v1 := at(i.Uint64() + 2)
		v.Add(v, h.Mul(h, new(big.Rat).SetInt64(int64(v1)-int64(v0))))
	}
	out, _ := v.Float64()
	return out
}
