package devicetest

import (
	"testing"

	"github.com/polyscan/polyscan/internal/race"
	"github.com/polyscan/polyscan/kernels/driver"
)

// Every op has an oracle, and the suite runs it: an op without a case fails here.
func TestEveryOpIsTested(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	tr := Trace(Oracle(), false)
	s := Suite{Driver: tr, Short: true, Random: 2, Methods: []driver.Method{driver.MethodDefault}, only: smallCases,
		small: true}
	s.Run(On(t))
	names := OpNames(On(t))
	if len(names) < 21 {
		t.Errorf("the source has %d ops: %v", len(names), names)
	}
	for _, name := range names {
		if oracles[name] == nil {
			t.Errorf("%s has no oracle", name)
		}
		if len(tr.Records(name)) == 0 {
			t.Errorf("%s: the suite has no case", name)
		}
	}
	for name := range oracles {
		if len(tr.Records(name)) == 0 {
			t.Errorf("%s has an oracle and is no op", name)
		}
	}
}
