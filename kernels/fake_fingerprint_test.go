package kernels

import (
	"errors"
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *fakeStream) Fingerprint(op driver.Fingerprint) error {
	kept := errors.Join(s.inside(op.Src, driver.Align), s.inside(op.Dst, driver.Align))
	for _, k := range op.Keys {
		if k < 2 || k > 1<<61-3 {
			kept = errors.Join(kept, fmt.Errorf("key %d", k))
		}
	}
	if apart := op.Src.Mem != op.Dst.Mem || op.Src.Off+op.Src.Len <= op.Dst.Off || op.Dst.Off+
		op.Dst.Len <= op.Src.Off; op.Dst.Len != 16 || !apart {
		kept = errors.Join(kept, fmt.Errorf("Dst %d+%d, Src %d+%d", op.Dst.Off, op.Dst.Len, op.Src.Off, op.Src.Len))
	}
	return s.op("Fingerprint", kept)
}
