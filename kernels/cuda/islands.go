//go:build cuda

package cuda

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (d *device) IslandsScratch(int, int, int) (int64, error) {
	return 0, fmt.Errorf("cuda: Islands: %w", driver.ErrNotSupported)
}

func (s *stream) Islands(driver.Islands) error {
	return fmt.Errorf("cuda: Islands: %w", driver.ErrNotSupported)
}
