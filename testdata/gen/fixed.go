// fixed.go holds the arithmetic that every picture is computed with: 48.16 fixed point on int64.
//
// Floating point is not used for pixels: compilers may fuse x*y+z on some architectures and not on others, and one unit
// in the last place is enough to turn a pixel around. Integers give the same frames everywhere.

package main

import "math"

// fix is a number in units of 1/65536: a length in pixels, a grey level, a share, or an angle in turns.
type fix int64

const (
	one  fix = 1 << 16
	half fix = one / 2
)

// q converts a literal. Scaling by a power of two is exact, so the rounding is the only step that can round.
func q(v float64) fix { return fix(math.Round(v * 65536)) }

// px converts whole pixels.
func px(v int) fix { return fix(v) << 16 }

// mul multiplies with rounding; |a*b| must stay below 2^31 in value.
func mul(a, b fix) fix { return (a*b + half) >> 16 }

// div divides, truncating; b must not be zero.
func div(a, b fix) fix { return (a << 16) / b }

func lerp(a, b, t fix) fix { return a + mul(b-a, t) }

func clamp(v, lo, hi fix) fix { return min(max(v, lo), hi) }

// abs is the absolute value.
func abs(v fix) fix {
	if v < 0 {
		return -v
	}
	return v
}

// isqrt is the integer square root, rounded down. The hardware root is correctly rounded wherever Go runs; the loops
// repair what the conversion of large v to 53 bits lost.
func isqrt(v int64) int64 {
	if v <= 0 {
		return 0
	}
	r := int64(math.Sqrt(float64(v)))
	for r*r > v {
		r--
	}
	for (r+1)*(r+1) <= v {
		r++
	}
	return r
}

// hypot is the length of (x, y); both must stay below 2^15.
func hypot(x, y fix) fix { return fix(isqrt(int64(x*x + y*y))) }

// smooth is the Hermite step from 0 at lo to 1 at hi. lo may be greater than hi, which turns it around.
func smooth(lo, hi, v fix) fix {
	t := clamp(div(v-lo, hi-lo), 0, one)
	return mul(mul(t, t), 3*one-2*t)
}

// bump is a bell of height 1 and finite width: 1 at v = 0, 0 from |v| = w on.
func bump(v, w fix) fix {
	t := abs(v)
	if t >= w {
		return 0
	}
	t = div(t, w)
	u := one - mul(t, t)
	return mul(u, u)
}

// sin of an angle in turns, by the Taylor polynomial of a quarter wave (error below 5e-6 before rounding).
func sin(turns fix) fix {
	a := turns & (one - 1)
	z := (a & (one/4 - 1)) << 2
	if a>>14&1 == 1 {
		z = one - z
	}
	z2 := mul(z, z)
	s := q(0.00016044)
	s = q(-0.00468175) + mul(z2, s)
	s = q(0.07969263) + mul(z2, s)
	s = q(-0.64596410) + mul(z2, s)
	s = q(1.57079633) + mul(z2, s)
	s = mul(z, s)
	if a >= half {
		return -s
	}
	return s
}

func cos(turns fix) fix { return sin(turns + one/4) }
