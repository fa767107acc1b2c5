//go:build cuda

package cuda

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (d *device) HullCompletionScratch(int, int, int) (int64, error) {
	return 0, fmt.Errorf("cuda: HullCompletion: %w", driver.ErrNotSupported)
}

func (s *stream) HullCompletion(driver.HullCompletion) error {
	return fmt.Errorf("cuda: HullCompletion: %w", driver.ErrNotSupported)
}
