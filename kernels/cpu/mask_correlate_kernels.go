// The loops of MaskCorrelate: runs of two frames to sums of products.

package cpu

import (
	"encoding/binary"

	"github.com/polyscan/polyscan/kernels/driver"
)

// pairs8Most is how many bytes pairs8 takes at most, so that its sums of 32 bits don't overflow: in each of eight, a
// step of 32 bytes adds four products of at most 255^2.
const pairs8Most = 1 << 18

// pairs8Go adds the sums of bytes, which are as many of both.
func pairs8Go(to *driver.PairSums, first, second []byte) {
	addPairsOf(to, first, second, 1)
}

// addPairsOf adds the sums of bytes that are so far apart.
func addPairsOf(to *driver.PairSums, first, second []byte, step int) {
	var a, b, aa, bb, ab uint64
	for i := 0; i < len(first) && i < len(second); i += step {
		v, w := uint64(first[i]), uint64(second[i])
		a += v
		b += w
		aa += v * v
		bb += w * w
		ab += v * w
	}
	to.A, to.B, to.SqA, to.SqB, to.Product = to.A+a, to.B+b, to.SqA+aa, to.SqB+bb, to.Product+ab
}

// addPairs16 adds the sums of little-endian words, which are as many of both.
func addPairs16(to *driver.PairSums, first, second []byte) {
	var a, b, aa, bb, ab uint64
	for i := 0; i+2 <= len(first) && i+2 <= len(second); i += 2 {
		v, w := uint64(binary.LittleEndian.Uint16(first[i:])), uint64(binary.LittleEndian.Uint16(second[i:]))
		a += v
		b += w
		aa += v * v
		bb += w * w
		ab += v * w
	}
	to.A, to.B, to.SqA, to.SqB, to.Product = to.A+a, to.B+b, to.SqA+aa, to.SqB+bb, to.Product+ab
}
