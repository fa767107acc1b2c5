package kernels

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"

	"github.com/polyscan/polyscan/kernels/driver"
)

// MemoryStats is the state of a device's memory, in bytes.
type MemoryStats struct {
	Reserved  int64            // taken from the driver at Open
	Used      int64            // handed out now
	HighWater int64            // most ever handed out at once
	ByLabel   map[string]int64 // in use now; adds up to Used
	Largest   int64            // bytes of the largest free block: what a request can get without waiting
	Waiting   int              // jobs in the queue that need memory
	Refused   int64            // requests refused so far
}

// memory hands out blocks of one reservation. It reserves or refuses; who wants to wait for memory does so in the
// device's queue (see sched).
type memory struct {
	mem driver.Mem
	// onFree is called, with no lock held, after bytes came free. [memory.reserve] must not call it: the queue calls
	// that with its own lock held.
	onFree func()

	mu    sync.Mutex
	free  []extent // by offset; neighbours are merged
	stats MemoryStats
}

type extent struct{ off, len int64 }

// block is what memory hands out.
type block struct {
	extent
	label string
}

func newMemory(mem driver.Mem) *memory {
	size := mem.Bytes() &^ (driver.Align - 1)
	return &memory{
		mem:   mem,
		free:  []extent{{0, size}},
		stats: MemoryStats{Reserved: size, ByLabel: map[string]int64{}},
	}
}

// maxBytes bounds every size, so that the sizes of a few buffers add up without overflow. No device has as much.
const maxBytes = 1 << 60

// roundUp makes n a multiple of the alignment; never 0, so that each block has its own offset, and at most maxBytes.
func roundUp(n int64) int64 {
	n = min(max(n, 1), maxBytes)
	return (n + driver.Align - 1) &^ (driver.Align - 1)
}

// reserve returns a block of at least n bytes, or else a [*CapacityError]. It does not wait.
func (m *memory) reserve(n int64, label string) (block, error) {
	n = roundUp(n)
	m.mu.Lock()
	defer m.mu.Unlock()
	if b, ok := m.take(n, label); ok {
		return b, nil
	}
	return block{}, m.lack(n, label)
}

// lack describes what there is too little of.
func (m *memory) lack(n int64, label string) *CapacityError {
	return &CapacityError{
		Label:     label,
		Needed:    n,
		Available: m.stats.Reserved - m.stats.Used,
		Total:     m.stats.Reserved,
		Largest:   m.largest(),
	}
}

// refuse counts and describes the refusal, for good, of a request that had so many before it.
func (m *memory) refuse(n int64, label string, ahead int) *CapacityError {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stats.Refused++
	c := m.lack(roundUp(n), label)
	c.Ahead = ahead
	return c
}

func (m *memory) largest() int64 {
	var n int64
	for _, e := range m.free {
		n = max(n, e.len)
	}
	return n
}

// take cuts n bytes from the smallest extent that holds them.
func (m *memory) take(n int64, label string) (block, bool) {
	best := -1
	for i, e := range m.free {
		if e.len >= n && (best < 0 || e.len < m.free[best].len) {
			best = i
		}
	}
	if best < 0 {
		return block{}, false
	}
	e := &m.free[best]
	b := block{extent{e.off, n}, label}
	e.off += n
	e.len -= n
	if e.len == 0 {
		m.free = slices.Delete(m.free, best, best+1)
	}
	m.stats.Used += n
	m.stats.HighWater = max(m.stats.HighWater, m.stats.Used)
	m.stats.ByLabel[label] += n
	return b, true
}

// release gives a block back.
func (m *memory) release(b block) {
	func() {
		m.mu.Lock()
		defer m.mu.Unlock() // put may panic
		m.put(b)
	}()
	if m.onFree != nil {
		m.onFree()
	}
}

// put inserts a block into the free list. It panics where the block is free already: going on would hand the same
// bytes to two owners.
func (m *memory) put(b block) {
	i := sort.Search(len(m.free), func(i int) bool { return m.free[i].off > b.off })
	if i > 0 && m.free[i-1].off+m.free[i-1].len > b.off || i < len(m.free) && b.off+b.len > m.free[i].off {
		panic(fmt.Sprintf("kernels: block %d+%d of %q given back twice", b.off, b.len, b.label))
	}
	m.free = slices.Insert(m.free, i, b.extent)
	if i+1 < len(m.free) && b.off+b.len == m.free[i+1].off {
		m.free[i].len += m.free[i+1].len
		m.free = slices.Delete(m.free, i+1, i+2)
	}
	if i > 0 && m.free[i-1].off+m.free[i-1].len == b.off {
		m.free[i-1].len += m.free[i].len
		m.free = slices.Delete(m.free, i, i+1)
	}
	m.stats.Used -= b.len
	if m.stats.ByLabel[b.label] -= b.len; m.stats.ByLabel[b.label] == 0 {
		delete(m.stats.ByLabel, b.label)
	}
}

func (m *memory) snapshot() MemoryStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.stats
	s.Largest = m.largest()
	s.ByLabel = make(map[string]int64, len(m.stats.ByLabel))
	for k, v := range m.stats.ByLabel {
		s.ByLabel[k] = v
	}
	return s
}

// close gives the reservation back. It returns an error that matches ErrLeak where blocks are still out.
func (m *memory) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var leak error
	if m.stats.Used != 0 {
		leak = fmt.Errorf("%w: %d bytes %v", ErrLeak, m.stats.Used, m.stats.ByLabel)
	}
	return errors.Join(leak, m.mem.Free())
}
