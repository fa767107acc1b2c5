package devicetest_test

import (
	"fmt"
	"testing"

	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/devicetest"
	"github.com/polyscan/polyscan/kernels/driver"
)

// The suite over the CPU backend, over numbers of threads. The first runs all of it, the others what is not about
// large data.
func TestCPU(t *testing.T) {
	for _, threads := range []int{2, 1, 3} {
		t.Run(fmt.Sprintf("threads=%d", threads), func(t *testing.T) {
			s := devicetest.Suite{
				Driver: cpu.New(cpu.Options{Threads: threads}),
				Short:  testing.Short() || threads != 2,
				Seed:   uint64(threads),
			}
			if s.Short && threads != 2 {
				s.Random = 20
			}
			s.Run(devicetest.On(t))
		})
	}
}

// The CPU beside the oracle, through a mirror.
func TestMirrorOfCPUAndOracle(t *testing.T) {
	if testing.Short() {
		t.Skip("the oracle takes some seconds")
	}
	devicetest.Suite{
		Driver:  devicetest.Mirror(cpu.New(cpu.Options{Threads: 2}), devicetest.Oracle()),
		Short:   true,
		Random:  40,
		Methods: []driver.Method{driver.MethodDefault, driver.TiledEdgeFiltered},
	}.Run(devicetest.On(t))
}
