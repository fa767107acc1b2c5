//go:build !purego

package cpu

import "github.com/polyscan/polyscan/kernels/driver"

// n is a multiple of 32, and at most pairs8Most.
//
//go:noescape
func pairs8AVX2(first, second *byte, n int) (a, b, aa, bb, ab uint64)

// pairs8 adds the sums of bytes, a multiple of 32 and at most pairs8Most, which are as many of both.
func pairs8(to *driver.PairSums, first, second []byte) {
	if simd < levelAVX2 || len(first) == 0 {
		pairs8Go(to, first, second)
		return
	}
	_ = second[len(first)-1]
	a, b, aa, bb, ab := pairs8AVX2(&first[0], &second[0], len(first))
	to.A, to.B, to.SqA, to.SqB, to.Product = to.A+a, to.B+b, to.SqA+aa, to.SqB+bb, to.Product+ab
}
