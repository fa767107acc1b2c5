//go:build cuda

package cuda

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *stream) Edges(driver.Edges) error {
	return fmt.Errorf("cuda: Edges: %w", driver.ErrNotSupported)
}
