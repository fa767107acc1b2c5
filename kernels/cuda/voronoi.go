//go:build cuda

package cuda

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (d *device) VoronoiScratch(int, int, int, driver.VoronoiMethod) (int64, error) {
	return 0, fmt.Errorf("cuda: Voronoi: %w", driver.ErrNotSupported)
}

func (s *stream) Voronoi(driver.Voronoi) error {
	return fmt.Errorf("cuda: Voronoi: %w", driver.ErrNotSupported)
}
