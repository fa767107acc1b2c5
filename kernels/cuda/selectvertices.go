//go:build cuda

package cuda

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (d *device) SelectVerticesScratch(int, int, int, driver.VertexRule) (int64, error) {
	return 0, fmt.Errorf("cuda: SelectVertices: %w", driver.ErrNotSupported)
}

func (s *stream) SelectVertices(driver.SelectVertices) error {
	return fmt.Errorf("cuda: SelectVertices: %w", driver.ErrNotSupported)
}
