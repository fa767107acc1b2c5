// Package seed makes the random numbers of tests. A test that fails logs how to run it again with the same numbers, and
// POLYSCAN_SEED gives all tests others.
package seed

import (
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
)

const variable = "POLYSCAN_SEED"

// logs has the tests that log the seed at their end.
var logs sync.Map

// New returns the generator of the PCG seeds a and b, moved by the number in POLYSCAN_SEED. Without it, or with 0, they
// are a and b themselves. It ends the test where POLYSCAN_SEED isn't a number of 64 bits.
func New(t testing.TB, a, b uint64) *rand.Rand {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		text = "0"
	}
	base, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s = %q: must be a number from 0 to 2^64-1", variable, text)
	}
	if _, done := logs.LoadOrStore(t, true); !done {
		t.Cleanup(func() {
			logs.Delete(t)
			if t.Failed() {
				t.Logf("run again with the same random numbers: %s=%d", variable, base)
			}
		})
	}
	// 2^64 by the golden ratio: the seeds of tests are small numbers, and no base leads from one to another.
	return rand.New(rand.NewPCG(a+base*0x9e3779b97f4a7c15, b))
}
