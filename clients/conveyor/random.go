package main

// Random choices that depend on what they are about, and not on when they are made.

// Domains keep the choices about the same number apart.
const (
	domainPart uint64 = iota + 1
	domainGap
	domainPixel
	domainDefect
	domainFault
)

// random is 64 well distributed bits that belong to a seed and up to three numbers (splitmix64's finaliser over them).
func random(seed uint64, keys ...uint64) uint64 {
	h := seed + 0x9e3779b97f4a7c15
	for _, k := range keys {
		h = mix(h ^ mix(k+0x9e3779b97f4a7c15))
	}
	return mix(h)
}

func mix(h uint64) uint64 {
	h ^= h >> 30
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 27
	h *= 0x94d049bb133111eb
	return h ^ h>>31
}

// share is random as a number in [0, 1).
func share(seed uint64, keys ...uint64) float64 {
	return float64(random(seed, keys...)>>11) / (1 << 53)
}
