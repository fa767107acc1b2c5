// The op that tells contents of device memory apart without a download.

package driver

import "fmt"

// FingerprintPrime is the modulus of [Fingerprint], a Mersenne prime: 2^61 - 1.
const FingerprintPrime = 1<<61 - 1

// FingerprintBytes is the size of the Dst of a [Fingerprint].
const FingerprintBytes = 16

// Fingerprint hashes the bytes of Src under two keys: values of polynomials (universal hashing as of Carter and Wegman,
// 1979).
//
// Src is read as n words of 4 bytes, little endian, the last one filled up with zero bytes. The hash under key K is
//
//	(L K^(n+1) + sum of w[i] K^(n-i) over i = 0 to n-1) mod FingerprintPrime
//
// where L is Src.Len, and it is 0 where Src is empty. Of two given contents that differ, the difference of their
// polynomials is not zero and has a degree of at most m+1, where m is the number of words of the longer one. So at most
// m+1 keys give both the same hash, and of all pairs of keys the share that gives both the same pair of hashes is
// ((m+1)/FingerprintPrime)^2 or less: less than 1 in 10^23 for 16 MiB. That holds for contents chosen without knowledge
// of the keys, and keys drawn at random.
//
// All backends write the same bits. Time grows with the bytes.
type Fingerprint struct {
	// Src is aligned to [Align], has any length, and is not written to.
	Src Slice
	// Keys are 2 to FingerprintPrime-2 each.
	Keys [2]uint64
	// Dst receives the hash under each key, 0 to FingerprintPrime-1, as a uint64. It does not overlap Src.
	Dst Slice
}

func (op *Fingerprint) name() string { return "Fingerprint" }

func (op *Fingerprint) check() error {
	for i, k := range op.Keys {
		if k < 2 || k > FingerprintPrime-2 {
			return refuse(op.name(), fmt.Sprintf("Keys[%d]", i), k, "must be 2 to %d", uint64(FingerprintPrime-2))
		}
	}
	return nil
}

func (op *Fingerprint) operands(to []Operand) []Operand {
	dst := exact("Dst", &op.Dst, FingerprintBytes, Write)
	dst.Apart = true
	return append(to, made("Src", &op.Src), dst)
}
