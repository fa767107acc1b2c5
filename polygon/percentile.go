// Percentiles: which samples of the sorted ones they are.

package polygon

import (
	"math/big"
	"math/bits"
	"strconv"
)

// PercentileMethod says what a percentile is where it falls between two samples.
type PercentileMethod uint8

const (
	// NearestRank takes the sample of rank ceil(p*n/100), and rank 1 at least: the smallest value v such that p percent
	// of the samples are v or less.
	NearestRank PercentileMethod = iota
	// Linear interpolates between the samples around rank 1 + p*(n-1)/100, as numpy does by default. The result is the
	// exact fraction, rounded once.
	Linear
)

func (m PercentileMethod) String() string {
	switch m {
	case NearestRank:
		return "NEAREST_RANK"
	case Linear:
		return "LINEAR"
	}
	return "PercentileMethod(" + strconv.Itoa(int(m)) + ")"
}

// DefaultPercentiles are those of [Reductions] that ask for percentiles and list none.
func DefaultPercentiles() []float64 { return []float64{1, 5, 10, 25, 50, 75, 90, 95, 99} }

// PercentileValue is one percentile.
type PercentileValue struct {
	Percentile float64
	Value      float64
}

// decimal is ±digits / 10^scale: the number as people write it. A float64 stands for the shortest decimal that reads
// back as it, so that 99.9 is 999/10 and not the binary fraction nearby.
type decimal struct {
	negative bool
	digits   uint64 // below 10^17
	scale    int    // negative for large numbers
}

func decimalOf(v float64) decimal {
	var buf [32]byte
	var d decimal
	text := strconv.AppendFloat(buf[:0], v, 'e', -1, 64)
	if text[0] == '-' {
		d.negative = true
		text = text[1:]
	}
	fraction := false
	for i, c := range text {
		switch {
		case c == '.':
			fraction = true
		case c == 'e':
			e, _ := strconv.Atoi(string(text[i+1:]))
			d.scale -= e
			return d
		default:
			d.digits = d.digits*10 + uint64(c-'0')
			if fraction {
				d.scale++
			}
		}
	}
	return d
}

var tens = func() (t [20]uint64) {
	t[0] = 1
	for i := range t[1:] {
		t[i+1] = t[i] * 10
	}
	return t
}()

// rat is the decimal as a fraction.
func (d decimal) rat() *big.Rat {
	num := new(big.Int).SetUint64(d.digits)
	if d.negative {
		num.Neg(num)
	}
	ten := big.NewInt(10)
	if d.scale < 0 {
		return new(big.Rat).SetInt(num.Mul(num, ten.Exp(ten, big.NewInt(int64(-d.scale)), nil)))
	}
	return new(big.Rat).SetFrac(num, ten.Exp(ten, big.NewInt(int64(d.scale)), nil))
}

// fraction is p/100 for a percentile p: num / 10^scale, num <= 10^scale.
type fraction struct {
	num   uint64 // below 10^17
	scale int    // at least 2
}

// percentFraction is p/100. p is in [0, 100].
func percentFraction(p float64) fraction {
	d := decimalOf(p)
	f := fraction{d.digits, d.scale + 2}
	for f.scale < 2 { // 10 or 100
		f.num *= 10
		f.scale++
	}
	return f
}

// nearestRank is ceil(p*n/100), and at least 1. n < 2^32.
func (f fraction) nearestRank(n uint64) uint64 {
	scale := f.scale
	hi, lo := bits.Mul64(f.num, n) // below 2^89
	// ceil(a/(b*c)) = ceil(ceil(a/b)/c), so that powers beyond 10^19 can go one after another.
	for {
		den := tens[min(scale, len(tens)-1)]
		q, r := bits.Div64(hi, lo, den) // fits: p*n/100 <= n, and 2^89 / 10^19 is small
		if r != 0 {
			q++
		}
		scale -= min(scale, len(tens)-1)
		if scale == 0 || q <= 1 {
			return max(1, q)
		}
		hi, lo = 0, q
	}
}

// linear is the value between the order statistics. at(k) is the sample of rank k, from 1 to n; n >= 1.
func (f fraction) linear(n uint64, at func(rank uint64) uint32) float64 {
	if f.scale >= len(tens) {
		return f.linearBig(n, at)
	}
	den := tens[f.scale]
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
	return quotient(hi, lo, den)
}

// linearBig is linear for percentiles with more than 17 decimal places.
func (f fraction) linearBig(n uint64, at func(rank uint64) uint32) float64 {
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
