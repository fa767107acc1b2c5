//go:build cuda

package cuda

import "github.com/polyscan/polyscan/kernels/driver"

// graphDiffuser solves problems with barriers.
type graphDiffuser struct{}

func (graphDiffuser) setupBytes(driver.DiffusionGrid) (int64, error) {
	return 0, driver.ErrNotSupported
}
func (graphDiffuser) stateBytes(driver.DiffusionGrid, int) (int64, error) {
	return 0, driver.ErrNotSupported
}
func (graphDiffuser) setUp(*stream, *diffusionSetup) error { return driver.ErrNotSupported }
func (graphDiffuser) solve(*stream, *diffusionSolve) error { return driver.ErrNotSupported }
