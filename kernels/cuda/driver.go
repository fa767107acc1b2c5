//go:build cuda

// The driver. It has no device yet.

package cuda

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Name is what the driver is called by users and responses.
const Name = "cuda"

// Driver is the driver.
var Driver driver.Driver = cudaDriver{}

type cudaDriver struct{}

func (cudaDriver) Name() string { return Name }

// Open returns an error that matches [driver.ErrNotSupported].
func (cudaDriver) Open(ordinal int) (driver.Device, error) {
	return nil, fmt.Errorf("cuda: device %d: %w", ordinal, driver.ErrNotSupported)
}
