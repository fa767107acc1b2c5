//go:build cuda

// Fingerprint: values of polynomials over the bytes of a slice.

package cuda

import "github.com/polyscan/polyscan/kernels/driver"

func (s *stream) Fingerprint(op driver.Fingerprint) error { return driver.ErrNotSupported }
