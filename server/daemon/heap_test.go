package daemon

import (
	"math"
	"runtime/debug"
	"testing"

	"github.com/polyscan/polyscan/server"
)

// The runtime is told how large the heap may get, and no more once the daemon has ended; what somebody has said counts.
func TestKeepHeap(t *testing.T) {
	before := debug.SetMemoryLimit(math.MaxInt64)
	defer debug.SetMemoryLimit(before)
	s, err := server.New(server.Config{Device: "cpu", MemoryBytes: 16 << 20, HostBytes: 3 << 30})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown(t.Context())
	if n := s.HeapLimit(); n < 3<<30 || n > 4<<30 {
		t.Errorf("a heap of %d bytes, with 3 GiB of host memory", n)
	}
	end := keepHeap(s)
	if got, want := debug.SetMemoryLimit(-1), s.HeapLimit(); got != want {
		t.Errorf("the runtime keeps to %d bytes, want %d", got, want)
	}
	end()
	if got := debug.SetMemoryLimit(-1); got != math.MaxInt64 {
		t.Errorf("after the end the runtime keeps to %d bytes", got)
	}
	const said = 5 << 30
	debug.SetMemoryLimit(said)
	keepHeap(s)()
	if got := debug.SetMemoryLimit(-1); got != said {
		t.Errorf("the runtime keeps to %d bytes, and was told %d", got, said)
	}
}
