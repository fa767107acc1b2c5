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
	values := uint64(s.blocks)
	args.Src, args.Dst, args.Values, args.Ended = src.at(), dst.at(), values, values+fingerprintEnded
	return fingerprintPolynomials.launch(s, blocks, 1, fingerprintThreads, 0, &args)
}

// openBlocks makes the memory by which blocks of a kernel hand on what they found to the last one. It is not a part of Scratch: that holds
// anything, and what counts blocks has to be 0 before a launch.
func (s *stream) openBlocks() error {
	var err error
	if s.blocks, err = cu.MemAlloc(fingerprintBytes); err != nil {
		s.blocks = 0
		return s.dev.check("cuMemAlloc", err)
	}
	return s.dev.check("cuMemsetD8Async", cu.MemsetD8Async(s.blocks, 0, fingerprintBytes, s.cu))
}
