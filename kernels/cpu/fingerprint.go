// Fingerprint: values of polynomials over the bytes of a slice.

package cpu

import (
	"encoding/binary"
	"math/bits"

	"github.com/polyscan/polyscan/kernels/driver"
)

const (
	// fingerprintPiece is how many bytes a thread takes at a time, about 20 µs.
	fingerprintPiece = 64 << 10
	// fingerprintBlock is how many words are summed between two reductions. Their powers of both keys take 1 KiB.
	fingerprintBlock = 64
)

func (d *device) fingerprint(op *driver.Fingerprint, stop *stopFlag) error {
	src := view(op.Src)
	dst := viewAs[uint64](op.Dst)
	keys := [2]fingerprintKey{newFingerprintKey(op.Keys[0]), newFingerprintKey(op.Keys[1])}
	sums := make([][2]uint64, (len(src)+fingerprintPiece-1)/fingerprintPiece)
	err := d.pieces("Fingerprint", len(sums), stop, func(i int) int {
		b := src[i*fingerprintPiece:]
		b = b[:min(len(b), fingerprintPiece)]
		sums[i] = fingerprintSums(&keys, b)
		return len(b) / 4
	})
	if err != nil {
		return err
	}
	for k := range keys {
		key := op.Keys[k]
		h := modMul(uint64(len(src)), key)
		whole := modPow(key, fingerprintPiece/4)
		for i, s := range sums {
			by := whole
			if i == len(sums)-1 {
				by = modPow(key, uint64(len(src)-i*fingerprintPiece+3)/4)
			}
			h = modAdd(modMul(h, by), s[k])
		}
		dst[k] = h
	}
	return nil
}

// fingerprintKey is powers of a key, from that of fingerprintBlock down to that of 1.
type fingerprintKey [fingerprintBlock]uint64

func newFingerprintKey(key uint64) (k fingerprintKey) {
	power := key
	for i := range k {
		k[fingerprintBlock-1-i] = power
		power = modMul(power, key)
	}
	return k
}

// fingerprintSums is, for each key, the sum of w[i] K^(n-i) over the n words of b.
func fingerprintSums(keys *[2]fingerprintKey, b []byte) (sums [2]uint64) {
	x, y := &keys[0], &keys[1]
	for ; len(b) >= 4*fingerprintBlock; b = b[4*fingerprintBlock:] {
		sums[0], sums[1] = fingerprintWords(sums[0], sums[1], x[:], y[:], b[:4*fingerprintBlock])
	}
	if len(b) == 0 {
		return sums
	}
	var last [4 * fingerprintBlock]byte
	copy(last[:], b)
	n := (len(b) + 3) / 4
	sums[0], sums[1] = fingerprintWords(sums[0], sums[1], x[fingerprintBlock-n:], y[fingerprintBlock-n:], last[:4*n])
	return sums
}

// fingerprintWords continues two sums with up to fingerprintBlock words, as many as there are powers of each key.
//
// A product of a word and a power is below 2^93, and one of a sum and a power below 2^122, so that all of a block are
// added up in 128 bits, with carries but without dependencies between the products, and reduced once.
func fingerprintWords(a, b uint64, x, y []uint64, words []byte) (uint64, uint64) {
	aHi, aLo := bits.Mul64(a, x[0])
	bHi, bLo := bits.Mul64(b, y[0])
	y = y[:len(x)]
	var carry uint64
	for i := range x {
		w := uint64(binary.LittleEndian.Uint32(words[4*i:]))
		hi, lo := bits.Mul64(w, x[i])
		aLo, carry = bits.Add64(aLo, lo, 0)
		aHi, _ = bits.Add64(aHi, hi, carry)
		hi, lo = bits.Mul64(w, y[i])
		bLo, carry = bits.Add64(bLo, lo, 0)
		bHi, _ = bits.Add64(bHi, hi, carry)
	}
	return modReduce(aHi, aLo), modReduce(bHi, bLo)
}

// modReduce is hi 2^64 + lo, which is below 2^124, modulo [driver.FingerprintPrime]: 2^61 is 1 there.
func modReduce(hi, lo uint64) uint64 {
	const p = driver.FingerprintPrime
	s := lo&p + (hi<<3 | lo>>61)
	return modAdd(s&p, s>>61)
}

// modAdd is a+b, neither of which exceeds the modulus.
func modAdd(a, b uint64) uint64 {
	const p = driver.FingerprintPrime
	if a += b; a >= p {
		a -= p
	}
	return a
}

// modMul is a*b, both of which are below 2^62.
func modMul(a, b uint64) uint64 { return modReduce(bits.Mul64(a, b)) }

// modPow is a^n, of a below the modulus.
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
