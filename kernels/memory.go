package kernels

import (
	"container/list"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/polyscan/polyscan/kernels/driver"
)

// MemoryStats is the state of a device's memory, in bytes. Used is what blocks take, padding to [driver.Align]
// included.
type MemoryStats struct {
	Reserved  int64            // taken from the driver at Open
	Used      int64            // handed out now
	HighWater int64            // most ever handed out at once
	ByLabel   map[string]int64 // in use now; adds up to Used
	ByTenant  TenantBytes      // in use now; adds up to Used
	Evictable int64            // part of Used that goes when it is needed: residents that nobody holds
	Largest   int64            // bytes of the largest free block: what a request can get without eviction
	// Fragmentation is the part of the free bytes that is outside of the largest free block, 0 to 1.
	Fragmentation float64
	Waiting       int   // jobs in the queue that need memory
	Refused       int64 // requests refused so far
	Evictions     int64 // residents evicted so far; for memos see [CacheStats]
}

// TenantBytes is memory by what it is for.
type TenantBytes struct {
	Scratch  int64 // of jobs: goes back when they end
	Session  int64 // kept until it is freed: see [AllocPersistent]
	Resident int64 // kept while there is room: see [Store] and [Queue.Recall]
}

// tenant is what a block is for.
type tenant uint8

const (
	scratch tenant = iota
	session
	cached
	computed // a memo
)

func (t *TenantBytes) of(x tenant) *int64 {
	return [...]*int64{scratch: &t.Scratch, session: &t.Session, cached: &t.Resident, computed: &t.Resident}[x]
}

// memory hands out blocks of one reservation to its tenants, and counts them. It reserves or refuses; who wants to
// wait for memory does so in the device's queue (see sched).
type memory struct {
	mem driver.Mem
	// onFree is called, with no lock held, after bytes came free or a resident was let go. [memory.reserve] must not
	// call it: the queue calls that with its own lock held.
	onFree func()
	// poisoner overwrites what is handed out and comes back; nil but in tests.
	poisoner *poisoner

	mu        sync.Mutex
	heap      *heap
	stats     MemoryStats         // but for what snapshot computes
	residents map[int64]*resident // that can be had, by offset
	idle      list.List           // of those that nobody holds, but memos; the one let go longest ago in front
	idleMemos list.List           // of memos that nobody holds
	returns   returns
}

// block is what memory hands out.
type block struct {
	off, len int64
	bytes    int64 // asked for; the rest is padding
	label    string
	tenant   tenant
}

// room is how many bytes [Alloc] may hand out of an arena.
func (b block) room() int64 {
	if b.len == 0 {
		return 0
	}
	return roundUp(b.bytes)
}

func newMemory(mem driver.Mem) *memory {
	size := mem.Bytes() &^ (driver.Align - 1)
	return &memory{
		mem:       mem,
		heap:      newHeap(size),
		stats:     MemoryStats{Reserved: size, ByLabel: map[string]int64{}},
		residents: map[int64]*resident{},
	}
}

// maxBytes bounds every size, so that the sizes of a few buffers add up without overflow. No device has as much.
const maxBytes = 1 << 60

// roundUp makes n a multiple of the alignment; never 0, so that each block has its own offset, and at most maxBytes.
func roundUp(n int64) int64 {
	n = min(max(n, 1), maxBytes)
	return (n + driver.Align - 1) &^ (driver.Align - 1)
}

// padded is how long the block for n bytes is. Where there is a poisoner a guard comes behind it, unless that would
// make what fits alone fit no more.
func (m *memory) padded(n int64) int64 {
	p := roundUp(n)
	if m.poisoner != nil && p+driver.Align <= m.stats.Reserved {
		p += driver.Align
	}
	return p
}

// reserve returns a block of at least n bytes, or else a [*CapacityError]. It does not wait. Where no free block is
// large enough it evicts residents that nobody holds, if that makes one: see [heap.victims] for which. What is kept for
// a session gets the place that it would have without memos, so that it does not part the memory for good where some
// that go soon had the end of it.
func (m *memory) reserve(n int64, t tenant, label string) (block, error) {
	b := block{len: m.padded(n), bytes: n, label: label, tenant: t}
	m.mu.Lock()
	defer m.mu.Unlock()
	if t == session && (m.heap.largest() >= b.len || m.heap.victims(b.len, m.evictable(t)) != nil) {
		m.evict(slices.Collect(m.evictable(computed)))
	}
	for {
		var ok bool
		if b.off, ok = m.heap.alloc(b.len, t != scratch); ok {
			m.stats.Used += b.len
			m.stats.HighWater = max(m.stats.HighWater, m.stats.Used)
			m.stats.ByLabel[label] += b.len
			*m.stats.ByTenant.of(t) += b.len
			return b, nil
		}
		if m.heap.avail+m.stats.Evictable < b.len {
			break
		}
		victims := m.heap.victims(b.len, m.evictable(t))
		if victims == nil {
			break
		}
		m.evict(victims)
	}
	return block{}, m.lack(n, label)
}

// lack describes what there is too little of.
func (m *memory) lack(n int64, label string) *CapacityError {
	need := m.padded(n)
	c := &CapacityError{
		Label:     label,
		Needed:    need,
		Available: m.heap.avail,
		Evictable: m.stats.Evictable,
		Total:     m.stats.Reserved,
		Largest:   m.heap.largest(),
		unused:    m.stats.ByTenant.Scratch == 0,
	}
	if !c.Never() {
		missing := need - c.Available - c.Evictable
		if missing <= 0 { // there is enough, but not in one piece
			missing = need - c.Largest
		}
		c.RetryAfter = m.returns.wait(missing, time.Now())
	}
	return c
}

// refuse counts and describes the refusal, for good, of a request that had so many before it.
func (m *memory) refuse(n int64, label string, ahead int) *CapacityError {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stats.Refused++
	c := m.lack(n, label)
	c.Ahead = ahead
	return c
}

// release gives a block back. It panics where the block is free already: going on would hand the same bytes to two
// owners.
func (m *memory) release(b block) {
	if b.tenant != scratch { // jobs do it on their own stream
		m.poisoner.bury(b)
	}
	func() {
		m.mu.Lock()
		defer m.mu.Unlock() // put may panic
		m.put(b)
	}()
	m.freed()
}

func (m *memory) freed() {
	if m.onFree != nil {
		m.onFree()
	}
}

// put takes a block back. m.mu is held.
func (m *memory) put(b block) {
	if n, ok := m.heap.free(b.off); !ok || n != b.len {
		panic(fmt.Sprintf("kernels: block %d+%d of %q given back twice", b.off, b.len, b.label))
	}
	m.returned(b, b.len)
}

// shorten takes back the last n bytes of a block, a positive multiple of [driver.Align] and less than its room.
func (m *memory) shorten(b *block, n int64) {
	m.mu.Lock()
	m.heap.shorten(b.off, n)
	m.returned(*b, n)
	m.mu.Unlock()
	b.bytes = b.room() - n
	b.len -= n
	m.freed()
}

// returned counts n bytes of a block that came back. m.mu is held.
func (m *memory) returned(b block, n int64) {
	m.stats.Used -= n
	*m.stats.ByTenant.of(b.tenant) -= n
	if m.stats.ByLabel[b.label] -= n; m.stats.ByLabel[b.label] == 0 {
		delete(m.stats.ByLabel, b.label)
	}
	m.returns.add(n, time.Now())
}

func (m *memory) snapshot() MemoryStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.stats
	s.Largest = m.heap.largest()
	if m.heap.avail > 0 {
		s.Fragmentation = 1 - float64(s.Largest)/float64(m.heap.avail)
	}
	s.ByLabel = maps.Clone(m.stats.ByLabel)
	return s
}

// close gives the reservation back, with the residents that nobody holds. It returns an error that matches ErrLeak
// where blocks are still out.
func (m *memory) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.evict(slices.Collect(m.evictable(cached)))
	var leak error
	if m.stats.Used != 0 {
		leak = fmt.Errorf("%w: %d bytes %v", ErrLeak, m.stats.Used, m.stats.ByLabel)
	}
	return errors.Join(leak, m.poisoner.close(), m.mem.Free())
}

// returns is how fast memory came back lately: bytes, each counted less the longer ago that was.
type returns struct {
	bytes float64
	at    time.Time
}

const (
	// returnsMemory is after how long a byte that came back counts 1/e. Frames take milliseconds and batch jobs
	// seconds: both have a say.
	returnsMemory = 5 * time.Second

	minRetry = 10 * time.Millisecond // sooner is not worth a round trip
	maxRetry = 30 * time.Second
	// quietRetry is for when nothing came back lately.
	quietRetry = time.Second
)

// decayed is what counts at a time.
func (r *returns) decayed(now time.Time) float64 {
	return r.bytes * math.Exp(-float64(now.Sub(r.at))/float64(returnsMemory))
}

func (r *returns) add(n int64, now time.Time) {
	r.bytes, r.at = r.decayed(now)+float64(n), now
}

// wait estimates how long n bytes take to come back, n > 0.
func (r *returns) wait(n int64, now time.Time) time.Duration {
	lately := r.decayed(now) // in returnsMemory
	if lately < 1 {
		return quietRetry
	}
	d := float64(n) / lately * float64(returnsMemory)
	return time.Duration(min(max(d, float64(minRetry)), float64(maxRetry)))
}
