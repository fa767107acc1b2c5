// noise.go holds the counter-based randomness: every value is a function of (seed, x, y) and of nothing else, so
// pictures do not depend on the order in which their pixels are made.

package main

// hash mixes a seed and a lattice point to 32 well distributed bits.
func hash(seed uint32, x, y int) uint32 {
	h := seed*0x9e3779b1 ^ uint32(int32(x))*0x85ebca77 ^ uint32(int32(y))*0xc2b2ae3d
	h ^= h >> 15
	h *= 0x2c1b3c6d
	h ^= h >> 12
	h *= 0x297a2d39
	h ^= h >> 15
	return h
}

// uniform is a share in [0, 1) that belongs to (seed, x, y).
func uniform(seed uint32, x, y int) fix { return fix(hash(seed, x, y) >> 16) }

// between is a value in [lo, hi) that belongs to (seed, x, y).
func between(seed uint32, x, y int, lo, hi fix) fix { return lo + mul(hi-lo, uniform(seed, x, y)) }

// speckle is sensor noise at pixel (x, y): triangular in (-amp, amp), independent from pixel to pixel.
func speckle(seed uint32, x, y int, amp fix) fix {
	h := hash(seed, x, y)
	return mul(fix(h&0xffff)+fix(h>>16)-one, amp)
}

// noise is gradient noise on the unit lattice, smooth, about -0.7 to 0.7, zero at lattice points.
func noise(seed uint32, x, y fix) fix {
	xi, yi := int(x>>16), int(y>>16)
	fx, fy := x&(one-1), y&(one-1)
	corner := func(dx, dy int) fix {
		h := hash(seed, xi+dx, yi+dy)
		gx, gy := fix(h&0xffff)*2-one, fix(h>>16)*2-one
		return mul(gx, fx-px(dx)) + mul(gy, fy-px(dy))
	}
	u, v := fade(fx), fade(fy)
	return lerp(lerp(corner(0, 0), corner(1, 0), u), lerp(corner(0, 1), corner(1, 1), u), v)
}

// fade is the quintic step 6t^5 - 15t^4 + 10t^3.
func fade(t fix) fix { return mul(mul(mul(t, t), t), mul(t, 6*t-15*one)+10*one) }

// fbm sums octaves of noise, each of twice the frequency and half the height of the one before.
func fbm(seed uint32, x, y fix, octaves int) fix {
	var sum fix
	for o := range octaves {
		sum += noise(seed+uint32(o)*101, x, y) >> o
		x, y = 2*x+half/3, 2*y+half/5
	}
	return sum
}
