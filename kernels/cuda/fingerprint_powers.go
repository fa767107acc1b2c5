//lint:file-ignore U1000 launched under the tag cuda

package cuda

import (
	"math/bits"

	"github.com/polyscan/polyscan/kernels/driver"
)

// fingerprintSums is the memory that a stream keeps for the kernel, in which it brings together what the blocks have:
// two sums for each key, which are 0 between launches.
const fingerprintSums = 4 * 8

// newFingerprint returns the blocks of a launch for so many bytes, and its parameters but for addresses.
func newFingerprint(n int64, keys [2]uint64) (blocks int, p fingerprintPolynomialsParams) {
	const round = 4 * fingerprintRound
	rounds := max((n+round-1)/round, 1)
	each := (rounds + fingerprintBlocks - 1) / fingerprintBlocks
	blocks = int((rounds + each - 1) / each)
	p.Bytes, p.Rounds = uint64(n), uint32(each)
	const places = len(p.Places.Powers) / 2
	for i, k := range []*fingerprintKey{&p.A, &p.B} {
		*k = newFingerprintKey(keys[i], p.Bytes, uint64(blocks)*uint64(each))
		power := modPow(k.Round, uint64(each))
		for b := range places {
			p.Places.Powers[places*i+b] = power
			power = modMul(power, power)
		}
	}
	return blocks, p
}

// newFingerprintKey returns the powers of a key for a launch that has so many rounds in all.
func newFingerprintKey(key, bytes, rounds uint64) (k fingerprintKey) {
	powers := [5]uint64{1} // within a vector
	for i := range powers[1:] {
		powers[i+1] = modMul(powers[i], key)
	}
	power := powers[4]
	for i := range k.Lanes {
		k.Lanes[i] = power
		power = modMul(power, power)
	}
	k.Warp = power
	apart := modPow(k.Warp, fingerprintThreads/32) // from a vector of a thread to its next
	k.Round = 1
	for v := fingerprintVectors - 1; v >= 0; v-- {
		for i := range 4 {
			power := modMul(k.Round, powers[3-i])
			dot := k.Dot[(4*v+i)*fingerprintLimbs:]
			dot[0], dot[1] = uint32(power), uint32(power>>32)
		}
		k.Round = modMul(k.Round, apart)
	}
	// The kernel leaves the power 0 to the last word of the last round. It is the last word of the contents that has
	// the power 1.
	words := (bytes + 3) / 4
	k.Factor = modPow(key, words+1+fingerprintOrder-rounds*fingerprintRound%fingerprintOrder)
	k.Length = modMul(bytes, modPow(key, words+1))
	return k
}

// fingerprintOrder is such that a power of it is 1: Fermat's little theorem.
const fingerprintOrder = driver.FingerprintPrime - 1

// modMul is a*b modulo [driver.FingerprintPrime], of numbers below 2^61: 2^61 is 1 there.
func modMul(a, b uint64) uint64 {
	const p = driver.FingerprintPrime
	hi, lo := bits.Mul64(a, b)
	s := lo&p + (hi<<3 | lo>>61)
	if s >= p {
		s -= p
	}
	return s
}

// modPow is a^n.
func modPow(a, n uint64) uint64 {
	power := uint64(1)
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			power = modMul(power, a)
		}
		a = modMul(a, a)
	}
	return power
}
