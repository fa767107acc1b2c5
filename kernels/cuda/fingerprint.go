//go:build cuda

// Fingerprint: one launch.

package cuda

import (
	"gorgonia.org/cu"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *stream) fingerprint(op *driver.Fingerprint) error {
	blocks, args := newFingerprint(op.Src.Len, op.Keys)
	args.Src, args.Dst, args.Sums = at(op.Src), at(op.Dst), uint64(s.sums)
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
