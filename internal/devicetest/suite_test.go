package devicetest

import (
	"testing"

	"github.com/polyscan/polyscan/internal/race"
	"github.com/polyscan/polyscan/kernels/driver"
)

func TestOracleDriver(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	oneMethod := []driver.Method{driver.MethodDefault} // it has but one
	forRace(&Suite{Driver: Oracle(), Short: true, Random: 20, Methods: oneMethod, small: true}).Run(On(t))
}
