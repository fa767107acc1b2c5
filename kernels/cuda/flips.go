//go:build cuda

package cuda

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (d *device) FlipsScratch(int) (int64, error) {
	return 0, fmt.Errorf("cuda: Flips: %w", driver.ErrNotSupported)
}

func (s *stream) Flips(driver.Flips) error {
	return fmt.Errorf("cuda: Flips: %w", driver.ErrNotSupported)
}
