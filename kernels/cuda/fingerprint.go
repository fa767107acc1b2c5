//go:build cuda

// Fingerprint: one launch.

package cuda

import (
	"fmt"

	"gorgonia.org/cu"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *stream) Fingerprint(op driver.Fingerprint) error {
	return s.enqueue("Fingerprint", 0, func() error { return s.fingerprint(op) })
}

func (s *stream) fingerprint(op driver.Fingerprint) error {
	src, err := s.dev.structs(op.Src, "Src")
	if err != nil {
		return err
	}
	dst, err := s.dev.structs(op.Dst, "Dst")
	if err != nil {
		return err
	}
	if dst.n != driver.FingerprintBytes {
		return fmt.Errorf("Dst: %d bytes, must be %d", dst.n, driver.FingerprintBytes)
	}
	dst.overwritten()
	blocks, args := newFingerprint(src.n, op.Keys)
	args.Src, args.Dst, args.Sums = src.at(), dst.at(), uint64(s.sums)
	return fingerprintPolynomials.launch(s, blocks, 1, fingerprintThreads, 0, &args)
}

// openSums makes the memory in which the kernel adds up what its blocks have. It can't be a part of an op's memory:
// that holds anything, and what is added to has to be 0 before a launch.
func (s *stream) openSums() error {
	var err error
	if s.sums, err = cu.MemAlloc(fingerprintSums); err != nil {
		s.sums = 0
		return s.dev.check("cuMemAlloc", err)
	}
	return s.dev.check("cuMemsetD8Async", cu.MemsetD8Async(s.sums, 0, fingerprintSums, s.cu))
}
