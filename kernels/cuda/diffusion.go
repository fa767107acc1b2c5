//go:build cuda

package cuda

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (d *device) DiffusionSetupBytes(driver.DiffusionGrid) (int64, error) {
	return 0, fmt.Errorf("cuda: DiffusionSetup: %w", driver.ErrNotSupported)
}

func (d *device) DiffusionStateBytes(driver.DiffusionGrid, int) (int64, error) {
	return 0, fmt.Errorf("cuda: DiffusionSolve: %w", driver.ErrNotSupported)
}

func (s *stream) DiffusionSetup(driver.DiffusionSetup) error {
	return fmt.Errorf("cuda: DiffusionSetup: %w", driver.ErrNotSupported)
}

func (s *stream) DiffusionSolve(driver.DiffusionSolve) error {
	return fmt.Errorf("cuda: DiffusionSolve: %w", driver.ErrNotSupported)
}
