package cpu

import (
	"slices"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
)

// The backend lacks no op, and has none that there isn't.
func TestOps(t *testing.T) {
	var have []string
	for name := range ops {
		have = append(have, name)
	}
	slices.Sort(have)
	if names := devicetest.OpNames(devicetest.On(t)); !slices.Equal(have, names) {
		t.Errorf("the table has %v, package driver %v", have, names)
	}
}
