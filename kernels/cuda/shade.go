//go:build cuda

package cuda

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (d *device) ShadeScratch(int, int, int, driver.ShadeMethod) (int64, error) {
	return 0, fmt.Errorf("cuda: Shade: %w", driver.ErrNotSupported)
}

func (s *stream) Shade(driver.Shade) error {
	return fmt.Errorf("cuda: Shade: %w", driver.ErrNotSupported)
}
