package history

import (
	"testing"
	"unsafe"

	"github.com/polyscan/polyscan/polygon"
)

// What a result is taken to have is what its structs have.
func TestResultBytes(t *testing.T) {
	r := result(10, 50)
	want := int64(10 * (unsafe.Sizeof(polygon.RegionResult{}) + unsafe.Sizeof(polygon.ChannelStatistics{}) +
		unsafe.Sizeof(polygon.LimitResult{})))
	if got := resultBytes(r); got < want*9/10 || got > want*2 {
		t.Errorf("%d bytes, and the structs have %d", got, want)
	}
}
