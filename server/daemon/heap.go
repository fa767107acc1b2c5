package daemon

import (
	"math"
	"runtime/debug"
	"time"

	"github.com/polyscan/polyscan/server"
)

// heapStep is how much the limit of the heap has to change for the runtime to be told, which stops all goroutines for a
// moment.
const heapStep = 16 << 20

// keepHeap keeps the heap to what the server says, unless GOMEMLIMIT or who runs the daemon has said something else.
// The garbage of a burst would take as much memory as all that is in use at its height.
func keepHeap(s *server.Server) (end func()) {
	if debug.SetMemoryLimit(-1) != math.MaxInt64 {
		return func() {}
	}
	told := s.HeapLimit()
	debug.SetMemoryLimit(told)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticks := time.NewTicker(time.Second)
		defer ticks.Stop()
		for {
			select {
			case <-stop:
				debug.SetMemoryLimit(math.MaxInt64)
				return
			case <-ticks.C:
			}
			if limit := s.HeapLimit(); limit-told > heapStep || told-limit > heapStep {
				debug.SetMemoryLimit(limit)
				told = limit
			}
		}
	}()
	return func() {
		close(stop)
		<-done
	}
}
