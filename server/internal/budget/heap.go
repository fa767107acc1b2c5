// The heap itself, whatever was counted.

package budget

import (
	"fmt"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/polyscan/polyscan/internal/steady"
	"github.com/polyscan/polyscan/kernels"
)

// Heap watches what is in use of the heap, as of the last collection. Its limit is the memory limit of the runtime,
// which a program that is a server and nothing else sets; without one nothing is shed, since the rest of the heap is
// another program's. Beyond three quarters of the limit batch work is shed, beyond nine tenths interactive work, and
// line-scan never. All but line-scan is shed where a machine that is too busy leaves the collector no processor and the
// heap is beyond its limit, however little of it is in use.
type Heap struct {
	// Read is nil but in tests. Objects are all that the heap has, with what nobody uses and is not swept yet.
	Read func() (live, objects, limit, collections int64)

	next        atomic.Int64 // when to look again, ns
	live        atomic.Int64
	objects     atomic.Int64
	limit       atomic.Int64
	collections atomic.Int64
	garbage     atomic.Int64
	shed        [3]atomic.Int64
}

// often is how often the heap is looked at, at most. A look takes some microseconds, and the collector works for
// longer.
const often = 10 * time.Millisecond

// Live is how many bytes were in use at the last collection.
func (h *Heap) Live() int64 {
	h.look()
	return h.live.Load()
}

// collectionsBefore is how many there have been before somebody makes n bytes or gives them back; a nil Heap doesn't
// know.
func (h *Heap) collectionsBefore(n int64) int64 {
	if h == nil {
		return 0
	}
	if n > SmallShare { // worth a look: one that is old would miss the last one
		h.next.Store(0)
	}
	h.look()
	return h.collections.Load()
}

// gone counts n bytes that nobody has any more and that have been there at a collection: they are in Live and in no
// budget until the next.
func (h *Heap) gone(n int64) {
	if h != nil {
		h.garbage.Add(n)
	}
}

// Garbage is how many bytes of Live are known to be in nobody's use since.
func (h *Heap) Garbage() int64 {
	h.look()
	return h.garbage.Load()
}

func (h *Heap) look() {
	if now := steady.Now(); now >= h.next.Load() {
		h.next.Store(now + int64(often))
		read := h.Read
		if read == nil {
			read = readHeap
		}
		live, objects, limit, collections := read()
		h.live.Store(live)
		h.objects.Store(objects)
		h.limit.Store(limit)
		if h.collections.Swap(collections) != collections {
			h.garbage.Store(0)
		}
	}
}

func readHeap() (live, objects, limit, collections int64) {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/gc/gomemlimit:bytes"}, {Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(samples)
	value := func(i int) int64 { return int64(samples[i].Value.Uint64()) }
	return value(0), value(1), value(2), value(3)
}

// Admit returns a *[FullError] where there is no room for more work of a class. A nil Heap has room.
func (h *Heap) Admit(c kernels.Class) error {
	if h == nil || c == kernels.LineScan {
		return nil
	}
	used, most := h.Live(), h.limit.Load()
	limit := most / 10 * 9
	if c == kernels.Batch {
		limit = most / 4 * 3
	}
	if objects := h.objects.Load(); objects > most {
		used, limit = objects, most
	}
	if used <= limit {
		return nil
	}
	h.shed[c].Add(1)
	return &FullError{c, used, limit}
}

// Shed is how often work of a class was refused.
func (h *Heap) Shed(c kernels.Class) int64 { return h.shed[c].Load() }

// FullError says that the heap has no room for work of a class.
type FullError struct {
	Class       kernels.Class
	Used, Limit int64 // bytes
}

func (e *FullError) Error() string {
	return fmt.Sprintf("%d bytes of host memory are in use: beyond %d no %v work begins that takes much of it", e.Used,
		e.Limit, e.Class)
}
