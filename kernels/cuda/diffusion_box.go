//go:build cuda

package cuda

import "github.com/polyscan/polyscan/kernels/driver"

// boxDiffuser solves problems without barriers by black box multigrid.
type boxDiffuser struct{}

func (boxDiffuser) setupBytes(driver.DiffusionGrid) (int64, error) { return 0, driver.ErrNotSupported }
func (boxDiffuser) stateBytes(driver.DiffusionGrid, int) (int64, error) {
	return 0, driver.ErrNotSupported
}
func (boxDiffuser) setUp(*stream, *diffusionSetup) error { return driver.ErrNotSupported }
func (boxDiffuser) solve(*stream, *diffusionSolve) error { return driver.ErrNotSupported }
