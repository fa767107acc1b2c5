//go:build cuda

package cuda

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (d *device) DualTrianglesScratch(int, int, int) (int64, error) {
	return 0, fmt.Errorf("cuda: DualTriangles: %w", driver.ErrNotSupported)
}

func (s *stream) DualTriangles(driver.DualTriangles) error {
	return fmt.Errorf("cuda: DualTriangles: %w", driver.ErrNotSupported)
}
