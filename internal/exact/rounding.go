// Package exact holds fractions of integers that are rounded to float64 once: means, variances, percentiles. Server and
// clients derive numbers with it, so that both come to the same bits.
package exact

import (
	"math"
	"math/bits"
)

// Quotient is hi:lo / den, correctly rounded (to nearest, ties to even). den must not be 0. The result is never
// subnormal nor infinite.
func Quotient(hi, lo, den uint64) float64 {
	if hi == 0 {
		if lo < 1<<53 && den < 1<<53 {
			return float64(lo) / float64(den) // both exact, so that IEEE division rounds once
		}
		if lo == 0 {
			return 0
		}
	}
	// Shift the denominator to the top bit and the numerator to the one below: the quotient then has 63 or 64 bits
	// (62 at the least), 53 of which are kept, and what the remainder would change is told by the lowest.
	s := bits.LeadingZeros64(den)
	d := den << s
	var t int
	if hi != 0 {
		t = bits.LeadingZeros64(hi) - 1
	} else {
		t = 63 + bits.LeadingZeros64(lo)
	}
	nhi, nlo, lost := shift128(hi, lo, t)
	q, r := bits.Div64(nhi, nlo, d)
	if r != 0 || lost {
		q |= 1
	}
	// q = (n*2^t*2^64 / 2^64) / (den*2^s): Div64's quotient is of integers, n*2^t over den*2^s.
	return math.Ldexp(float64(q), s-t)
}

// shift128 is hi:lo shifted left by t, or right by -t where t is negative; lost says that a bit fell out on the right.
func shift128(hi, lo uint64, t int) (rhi, rlo uint64, lost bool) {
	switch {
	case t >= 64:
		return lo << (t - 64), 0, false
	case t > 0:
		return hi<<t | lo>>(64-t), lo << t, false
	case t == 0:
		return hi, lo, false
	}
	t = -t // only ever 1
	return hi >> t, lo>>t | hi<<(64-t), lo<<(64-t) != 0
}

// Variance returns the population variance and its root, both correctly rounded, of n samples with the given sum and
// sum of squares: (n*sumSq - sum^2) / n^2. n > 0; n < 2^32; samples below 2^16, so that n^2 fits in 64 bits and the
// numerator in 96.
func Variance(n, sum, sumSq uint64) (v, root float64) {
	hi, lo := bits.Mul64(n, sumSq)
	shi, slo := bits.Mul64(sum, sum)
	lo, borrow := bits.Sub64(lo, slo, 0)
	hi, _ = bits.Sub64(hi, shi, borrow)
	if hi == 0 && lo == 0 {
		return 0, 0
	}
	return Quotient(hi, lo, n*n), RootQuotient(hi, lo, n*n)
}

// RootQuotient is the square root of hi:lo / den, correctly rounded. Rounding the quotient before taking the root would
// be off by one unit now and then. hi < 2^62.
func RootQuotient(hi, lo, den uint64) float64 {
	// floor(sqrt(n*4^k / den)) is the floor of the root of the floor of the quotient. Choose k so that the quotient has
	// 117 to 120 bits, and the root 59 or 60, of which 53 are kept.
	n := bits.Len64(hi) + 64
	if hi == 0 {
		n = bits.Len64(lo)
	}
	k := (119 - (n - bits.Len64(den))) / 2
	// n*4^k in 192 bits: its length is at most 119 + len(den) <= 183.
	w := [3]uint64{lo, hi, 0}
	shiftLeft192(&w, 2*k)
	// Long division by den, a word at a time.
	var q [3]uint64
	var r uint64
	q[2], r = w[2]/den, w[2]%den
	q[1], r = bits.Div64(r, w[1], den)
	q[0], r = bits.Div64(r, w[0], den)
	root, exact := sqrt128(q[1], q[0])
	if r != 0 || !exact {
		root |= 1
	}
	return math.Ldexp(float64(root), -k)
}

func shiftLeft192(w *[3]uint64, n int) {
	for ; n >= 64; n -= 64 {
		w[2], w[1], w[0] = w[1], w[0], 0
	}
	if n > 0 {
		w[2] = w[2]<<n | w[1]>>(64-n)
		w[1] = w[1]<<n | w[0]>>(64-n)
		w[0] <<= n
	}
}

// sqrt128 is the floor of the square root of hi:lo, from 2^110 to 2^122, and whether it is exact.
func sqrt128(hi, lo uint64) (root uint64, exact bool) {
	// The seed is within 2^-52 of it relatively. One Newton step squares that, and never ends below the floor, because
	// (x + n/x)/2 >= sqrt(n).
	x := uint64(math.Sqrt(math.Ldexp(float64(hi), 64) + float64(lo)))
	q, _ := bits.Div64(hi, lo, x) // hi < x, because hi:lo is about x^2 and x < 2^62
	for x = (x + q) / 2; ; x-- {
		shi, slo := bits.Mul64(x, x)
		if shi < hi || shi == hi && slo <= lo {
			return x, shi == hi && slo == lo
		}
	}
}
