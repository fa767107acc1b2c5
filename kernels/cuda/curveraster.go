//go:build cuda

package cuda

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *stream) CurveRaster(driver.CurveRaster) error {
	return fmt.Errorf("cuda: CurveRaster: %w", driver.ErrNotSupported)
}

func (s *stream) Blur(driver.Blur) error {
	return fmt.Errorf("cuda: Blur: %w", driver.ErrNotSupported)
}
