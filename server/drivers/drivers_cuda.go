//go:build cuda

package drivers

import (
	"github.com/polyscan/polyscan/kernels/cuda"
	"github.com/polyscan/polyscan/kernels/driver"
)

func init() {
	backends = append([]backend{{cuda.Name, func(Options) driver.Driver { return cuda.Driver }}}, backends...)
}
