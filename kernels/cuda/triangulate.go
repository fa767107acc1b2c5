//go:build cuda

package cuda

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (d *device) TriangulateScratch(int) (int64, error) {
	return 0, fmt.Errorf("cuda: Triangulate: %w", driver.ErrNotSupported)
}

func (s *stream) Triangulate(driver.Triangulate) error {
	return fmt.Errorf("cuda: Triangulate: %w", driver.ErrNotSupported)
}
