package cpu

import (
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
)

// The backend lacks no op, and has none that there isn't.
func TestOps(t *testing.T) {
	devicetest.EveryOp(devicetest.On(t), ops)
}
