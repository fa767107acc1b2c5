// The host driver and Mirror: fingerprints.

package devicetest

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *hostStream) Fingerprint(op driver.Fingerprint) error {
	return s.enqueue("Fingerprint", func() error {
		var src []byte
		var err error
		if op.Src.Len > 0 {
			if src, err = s.dev.view(op.Src, driver.Align); err != nil {
				return err
			}
		}
		dst, err := s.dev.view(op.Dst, driver.Align)
		if err != nil {
			return err
		}
		hashes := Fingerprint(src, op.Keys)
		if b := bytesOf(hashes[:]); len(dst) != copy(dst, b) || len(dst) != len(b) {
			return fmt.Errorf("%d bytes for the hashes", len(dst))
		}
		return nil
	})
}

func (s *mirrorStream) Fingerprint(op driver.Fingerprint) error {
	opA, opB := op, op
	opA.Src, opB.Src = split(op.Src)
	opA.Dst, opB.Dst = split(op.Dst)
	err := s.both("Fingerprint", func() error {
		return s.a.Fingerprint(opA)
	}, func() error { return s.b.Fingerprint(opB) })
	if err != nil || s.err != nil {
		return err
	}
	var a, b [2]uint64
	if s.err = s.fetch([]transfer{{bytesOf(a[:]), opA.Dst}}, []transfer{{bytesOf(b[:]), opB.Dst}}); s.err != nil {
		return nil
	}
	if d := CompareFingerprints(a, b); d != nil {
		s.err = d
	}
	return nil
}
