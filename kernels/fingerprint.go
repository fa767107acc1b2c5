// The checks in front of Fingerprint.

package kernels

import (
	"cmp"
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Fingerprint enqueues the op after checking its arguments. See [driver.Fingerprint].
func (q *Queue) Fingerprint(op driver.Fingerprint) error {
	const name = "Fingerprint"
	for i, k := range op.Keys {
		if k < 2 || k > driver.FingerprintPrime-2 {
			return &ArgError{name, fmt.Sprintf("Keys[%d]", i), k,
				fmt.Sprintf("must be 2 to %d", uint64(driver.FingerprintPrime-2))}
		}
	}
	if err := cmp.Or(
		exactly(name, "Dst", op.Dst, driver.FingerprintBytes),
		q.checkAligned(name, "Src", op.Src),
		q.checkAligned(name, "Dst", op.Dst),
	); err != nil {
		return err
	}
	if overlap(op.Dst, op.Src) {
		return &ArgError{name, "Dst", op.Dst.Off, "overlaps Src"}
	}
	return q.stream.Fingerprint(op)
}
