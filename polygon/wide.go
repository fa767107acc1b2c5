// Wide: unsigned integers of 448 bits, for quotients of moments that are to be rounded correctly.

package polygon

import (
	"math"
	"math/bits"
)

// wide has its lowest word first. What doesn't fit is lost.
type wide [7]uint64

func wideOf(v uint64) wide { return wide{v} }

func (a wide) plus(b wide) wide {
	carry := uint64(0)
	for i := range a {
		a[i], carry = bits.Add64(a[i], b[i], carry)
	}
	return a
}

// minus is a-b; b is at most a.
func (a wide) minus(b wide) wide {
	borrow := uint64(0)
	for i := range a {
		a[i], borrow = bits.Sub64(a[i], b[i], borrow)
	}
	return a
}

// times is the product of a and all of the factors.
func (a wide) times(factors ...wide) wide {
	for f := range factors {
		a = multiply(&a, &factors[f])
	}
	return a
}

func multiply(a, b *wide) (p wide) {
	n := b.words()
	for i, x := range a[:a.words()] {
		carry := uint64(0)
		to := p[i:]
		for k, y := range b[:min(n, len(to))] {
			hi, lo := bits.Mul64(x, y)
			var c uint64
			lo, c = bits.Add64(lo, carry, 0)
			hi += c
			to[k], c = bits.Add64(to[k], lo, 0)
			carry = hi + c
		}
		if n < len(to) {
			to[n] = carry // nothing was there before
		}
	}
	return p
}

// words is how many there are up to the last that isn't 0.
func (a *wide) words() int {
	n := len(a)
	for n > 0 && a[n-1] == 0 {
		n--
	}
	return n
}

// shifted is a times 2^n.
func (a wide) shifted(n int) (s wide) {
	words, n := n/64, n%64
	for i := len(s) - 1; i >= words; i-- {
		s[i] = a[i-words] << n
		if i > words {
			s[i] |= a[i-words-1] >> (64 - n) // 0 where n is
		}
	}
	return s
}

// compare is below 0 where a is below b, and so on.
func (a *wide) compare(b *wide) int {
	for i := len(a) - 1; i >= 0; i-- {
		switch {
		case a[i] < b[i]:
			return -1
		case a[i] > b[i]:
			return 1
		}
	}
	return 0
}

// near is a with a relative error of some 2^-52.
func (a *wide) near() float64 {
	i := max(a.words()-1, 1)
	return math.Ldexp(float64(a[i])*0x1p64+float64(a[i-1]), 64*(i-1))
}

// roundedTo is the number nearest to a quotient between 2^-200 and 2^50, the even one of two that are equally near.
// Near is a number that is off by a few units in its last place; compare says where m*2^-e lies from the quotient, m
// below 2^55: below 0 for a quotient that is below it.
func roundedTo(near float64, compare func(m uint64, e int) int) float64 {
	for {
		fraction, exponent := math.Frexp(near)
		m, e := uint64(math.Ldexp(fraction, 53)), 53-exponent // near is m*2^-e
		// Halfway to the neighbours. The one below is half as far away where m is a power of 2.
		high := compare(2*m+1, e+1)
		if high > 0 || high == 0 && m%2 == 1 {
			near = math.Nextafter(near, math.Inf(1))
			continue
		}
		low := 0
		if m == 1<<52 {
			low = compare(4*m-1, e+2)
		} else {
			low = compare(2*m-1, e+1)
		}
		if low > 0 || low == 0 && m%2 == 0 {
			return near
		}
		near = math.Nextafter(near, 0)
	}
}
