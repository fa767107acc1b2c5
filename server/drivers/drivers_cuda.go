//go:build cuda

package drivers

import (
	"fmt"
	"os"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cuda"
)

func init() {
	if os.Args[0] == probeName {
		report()
	}
	backends = append([]backend{{cuda.Name, func(Options) kernels.Driver { return cuda.Driver }}}, backends...)
}

// report ends the process that was asked whether there is a GPU. It got here, so CUDA is initialised.
func report() {
	if n, err := cuda.Devices(); err != nil || n == 0 {
		fmt.Printf("cuda: %d GPUs (%v)\n", n, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Prepare has nothing to do: this executable has all backends. See handoff.go.
func Prepare(string) error { return nil }
