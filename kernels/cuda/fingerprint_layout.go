//lint:file-ignore U1000 launched under the tag cuda

package cuda

import (
	"math/bits"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Constants of fingerprint.cu, by the names they have there.
const (
	fingerprintThreads = 128  // THREADS
	fingerprintVectors = 4    // VECTORS
	fingerprintRound   = 2048 // ROUND_WORDS
	fingerprintBlocks  = 1024 // MAX_BLOCKS
	fingerprintLimbs   = 2    // LIMBS
)

// fingerprintTree is FingerprintTree of fingerprint.cu.
type fingerprintTree struct {
	Lanes [5]uint64
	Warp  uint64
}

// fingerprintKey is FingerprintKey of fingerprint.cu.
type fingerprintKey struct {
	Threads, Blocks              fingerprintTree
	Round, Block, Factor, Length uint64
	Dot                          [fingerprintVectors * 4 * fingerprintLimbs]uint32
}

type fingerprintParams struct {
	A, B                           fingerprintKey
	Src, Bytes, Values, Ended, Dst uint64
	Rounds, Each                   uint32
}

var fingerprintPolynomials = listKernel[fingerprintParams]("fingerprint", "fingerprint_polynomials")

// fingerprintBytes is the memory that a stream keeps for the kernel: values of blocks, and how many have ended, which is 0 between launches.
const (
	fingerprintEnded = fingerprintBlocks * 16
	fingerprintBytes = fingerprintEnded + 8
)

// newFingerprint returns the blocks of a launch for so many bytes, and its parameters but for addresses.
func newFingerprint(n int64, keys [2]uint64) (blocks int, p fingerprintParams) {
	rounds := max(ceilDiv64(n, 4*fingerprintRound), 1)
	each := ceilDiv64(rounds, fingerprintBlocks) // rounds of a block
	blocks = int(ceilDiv64(rounds, each))
	p.Bytes, p.Rounds, p.Each = uint64(n), uint32(each), uint32(ceilDiv64(int64(blocks), fingerprintThreads))
	p.A, p.B = p.key(keys[0]), p.key(keys[1])
	return blocks, p
}

func ceilDiv64(a, b int64) int64 { return (a + b - 1) / b }

// key returns the powers of a key that a launch needs.
func (p *fingerprintParams) key(key uint64) (k fingerprintKey) {
	powers := [4]uint64{1, key} // within a vector
	for i := 2; i < len(powers); i++ {
		powers[i] = modMul(powers[i-1], key)
	}
	k.Threads = newFingerprintTree(modMul(powers[3], key))
	apart := modPow(k.Threads.Warp, fingerprintThreads/32) // vectors of a thread
	k.Round = 1
	for v := fingerprintVectors - 1; v >= 0; v-- {
		for i := range powers {
			power := modMul(k.Round, powers[3-i])
			dot := k.Dot[(4*v+i)*fingerprintLimbs:]
			dot[0], dot[1] = uint32(power), uint32(power>>32)
		}
		k.Round = modMul(k.Round, apart)
	}
	k.Block = modPow(k.Round, uint64(p.Rounds))
	k.Blocks = newFingerprintTree(modPow(k.Block, uint64(p.Each)))

	// The kernel leaves the power 0 to the last of all words that its blocks and threads could have. What has the power 1 is the last one
	// of Src.
	words := (p.Bytes + 3) / 4
	all := uint64(p.Rounds) * uint64(p.Each) * fingerprintThreads * fingerprintRound
	k.Factor = modPow(key, words+1+fingerprintOrder-all%fingerprintOrder)
	k.Length = modMul(p.Bytes, modPow(key, words+1))
	return k
}

// newFingerprintTree returns what moves up by one, two, four and so on, given what moves up by one.
func newFingerprintTree(power uint64) (t fingerprintTree) {
	for i := range t.Lanes {
		t.Lanes[i] = power
		power = modMul(power, power)
	}
	t.Warp = power
	return t
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
