//go:build cuda

package cuda

import "github.com/polyscan/polyscan/kernels/driver"

// sweeper has the methods of the seed.
type sweeper struct{}

func (sweeper) setupBytes(driver.DiffusionGrid) (int64, error)      { return 0, driver.ErrNotSupported }
func (sweeper) stateBytes(driver.DiffusionGrid, int) (int64, error) { return 0, driver.ErrNotSupported }
func (sweeper) setUp(*stream, *diffusionSetup) error                { return driver.ErrNotSupported }
func (sweeper) solve(*stream, *diffusionSolve) error                { return driver.ErrNotSupported }
