//go:build cuda

package cuda

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *stream) Hold(driver.Hold) error {
	return fmt.Errorf("cuda: Hold: %w", driver.ErrNotSupported)
}
