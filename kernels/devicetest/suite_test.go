package devicetest_test

import (
	"testing"

	"github.com/polyscan/polyscan/kernels/devicetest"
	"github.com/polyscan/polyscan/kernels/driver"
)

func TestOracleDriver(t *testing.T) {
	oneMethod := []driver.Method{driver.MethodDefault} // it has but one
	devicetest.Suite{Driver: devicetest.Oracle(), Short: true, Random: 20, Methods: oneMethod}.Run(devicetest.On(t))
}
