// The oracle of Fingerprint and its comparator.

package devicetest

import (
	"fmt"
	"math/big"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Fingerprint is what [driver.Fingerprint] asks for, by its definition.
func Fingerprint(b []byte, keys [2]uint64) (hashes [2]uint64) {
	prime := big.NewInt(driver.FingerprintPrime)
	for k := range keys {
		key, h := new(big.Int).SetUint64(keys[k]), big.NewInt(int64(len(b)))
		for i := 0; i < len(b); i += 4 {
			var word int64
			for at, v := range b[i:min(i+4, len(b))] {
				word += int64(v) << (8 * at)
			}
			h.Mul(h, key).Add(h, big.NewInt(word)).Mod(h, prime)
		}
		hashes[k] = h.Mul(h, key).Mod(h, prime).Uint64()
	}
	return hashes
}

// CompareFingerprints compares what [driver.Fingerprint] wrote.
func CompareFingerprints(a, b [2]uint64) *Difference {
	var f found
	for k := range a {
		f.add("Fingerprint", -1, 0, func() string { return fmt.Sprintf("hash under key %d", k) }, a[k], b[k])
	}
	return f.d
}
