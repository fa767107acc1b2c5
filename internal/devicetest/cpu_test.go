package devicetest

import (
	"fmt"
	"runtime/debug"
	"testing"

	"github.com/polyscan/polyscan/internal/race"
	_ "github.com/polyscan/polyscan/internal/shorttest"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
)

// Oracles leave much garbage beside little that stays, so it is collected a quarter as often.
func init() { debug.SetGCPercent(400) }

// The suite over the CPU backend, over numbers of threads. The first runs all of it, the others what is not about
// large data; those are few cases, and small ones, when short.
func TestCPU(t *testing.T) {
	t.Parallel()
	for _, threads := range []int{2, 1, 3} {
		if race.Enabled && threads != 3 {
			continue
		}
		t.Run(fmt.Sprintf("threads=%d", threads), func(t *testing.T) {
			s := Suite{
				Driver: cpu.New(cpu.Options{Threads: threads}),
				Short:  testing.Short() || threads != 2,
				Seed:   uint64(threads),
			}
			if s.Short {
				s.Random = 20
			}
			if testing.Short() && threads != 2 {
				s.Random, s.only, s.small = 10, smallCases, true
			}
			forRace(&s).Run(On(t))
		})
	}
}

// forRace leaves out what is about pixels and not about threads, where the race detector makes it slow.
func forRace(s *Suite) *Suite {
	if race.Enabled {
		s.Short, s.Random, s.Tests, s.only = true, 3, 1<<20, smallCases
	}
	return s
}

// The CPU beside the oracle, through a mirror.
func TestMirrorOfCPUAndOracle(t *testing.T) {
	if testing.Short() || race.Enabled {
		t.Skip("the oracle takes some seconds")
	}
	Suite{
		Driver:  Mirror(cpu.New(cpu.Options{Threads: 2}), Oracle()),
		Short:   true,
		Random:  40,
		Methods: []driver.Method{driver.MethodDefault, driver.TiledEdgeFiltered},
		small:   true,
	}.Run(On(t))
}
