package kernels

import (
	"container/list"
	"context"
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
	Waiting   int              // requests in the queue
	Refused   int64            // requests refused so far
}

// memory hands out blocks of one reservation. Requests that can't be met wait in order of arrival, so that a large
// one is not starved by small ones behind it.
type memory struct {
	mem driver.Mem

	mu      sync.Mutex
	free    []extent // by offset; neighbours are merged
	waiters list.List
	stats   MemoryStats
	closed  bool
}

type extent struct{ off, len int64 }

// block is what memory hands out.
type block struct {
	extent
	label string
}

type waiter struct {
	need  int64
	label string
	ready chan block // buffered
}

func newMemory(mem driver.Mem) *memory {
	size := mem.Bytes() &^ (driver.Align - 1)
	return &memory{
		mem:   mem,
		free:  []extent{{0, size}},
		stats: MemoryStats{Reserved: size, ByLabel: map[string]int64{}},
	}
}

// roundUp makes n a multiple of the alignment; never 0, so that each block has its own offset.
func roundUp(n int64) int64 {
	return max(driver.Align, (n+driver.Align-1)&^(driver.Align-1))
}

// get returns a block of at least n bytes, and waits for one until ctx ends. What never fits is refused at once.
func (m *memory) get(ctx context.Context, n int64, label string) (block, error) {
	n = roundUp(n)
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return block{}, ErrClosed
	}
	if n > m.stats.Reserved {
		m.stats.Refused++
		err := m.refusal(n, label)
		m.mu.Unlock()
		return block{}, err
	}
	if m.waiters.Len() == 0 {
		if b, ok := m.take(n, label); ok {
			m.mu.Unlock()
			return b, nil
		}
	}
	w := &waiter{need: n, label: label, ready: make(chan block, 1)}
	el := m.waiters.PushBack(w)
	m.mu.Unlock()

	select {
	case b := <-w.ready:
		return b, nil
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case b := <-w.ready: // it came just now; hand it on
		m.put(b)
	default:
		m.waiters.Remove(el)
		m.wake() // those behind may fit
	}
	m.stats.Refused++
	return block{}, fmt.Errorf("%w: %w", context.Cause(ctx), m.refusal(n, label))
}

// tryGet is get without waiting.
func (m *memory) tryGet(n int64, label string) (block, error) {
	n = roundUp(n)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return block{}, ErrClosed
	}
	if m.waiters.Len() == 0 || n <= 0 {
		if b, ok := m.take(n, label); ok {
			return b, nil
		}
	}
	m.stats.Refused++
	return block{}, m.refusal(n, label)
}

func (m *memory) refusal(n int64, label string) *CapacityError {
	return &CapacityError{Label: label, Needed: n, Available: m.stats.Reserved - m.stats.Used, Total: m.stats.Reserved}
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

func (m *memory) release(b block) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(b)
}

func (m *memory) put(b block) {
	i := sort.Search(len(m.free), func(i int) bool { return m.free[i].off > b.off })
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
	m.wake()
}

// wake serves waiters from the front as long as they fit.
func (m *memory) wake() {
	for el := m.waiters.Front(); el != nil; el = m.waiters.Front() {
		w := el.Value.(*waiter)
		b, ok := m.take(w.need, w.label)
		if !ok {
			return
		}
		m.waiters.Remove(el)
		w.ready <- b
	}
}

func (m *memory) snapshot() MemoryStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.stats
	s.Waiting = m.waiters.Len()
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
	m.closed = true
	var leak error
	if m.stats.Used != 0 {
		leak = fmt.Errorf("%w: %d bytes %v", ErrLeak, m.stats.Used, m.stats.ByLabel)
	}
	if err := m.mem.Free(); err != nil {
		return err
	}
	return leak
}
