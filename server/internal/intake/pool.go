// The transport's buffers.

package intake

import (
	"runtime"
	"slices"
	"sync"
	"unsafe"
	"weak"

	"google.golang.org/grpc/mem"

	"github.com/polyscan/polyscan/server/internal/budget"
)

// Pool is where the transport takes its buffers from, which count as held until they are back. Those of connections
// that break and of calls that are reset while data is unread never come back: they count until they are collected.
//
// The library's own pool can't tell these, and what tells them costs more than a frame's buffer does where each Get
// asks for it (0.5 to 1 µs). So a buffer asks for it once, when it is made.
func (g *Guard) Pool() mem.BufferPool {
	p := &pool{out: &ledger{memory: g.cfg.Memory, made: map[uintptr]*made{}}}
	for i, size := range bufferSizes {
		p.shelves[i].size = size
	}
	trimAfterCollections(weak.Make(p))
	return p
}

// bufferSizes are those that are kept for the next message: of small frames, of the largest that the library asks for,
// and of what it puts together of many.
var bufferSizes = [...]int{4 << 10, 16 << 10, 32 << 10, 1 << 20}

// pool keeps buffers that came back on shelves by size, and lets go of those that nobody has taken between two
// collections.
type pool struct {
	shelves [len(bufferSizes)]shelf
	out     *ledger
}

type shelf struct {
	size int

	mu    sync.Mutex
	idle  []*[]byte
	least int // that were idle at some time since the last collection
}

// ledger knows all buffers. It refers to none of them, nor to the pool, which would be kept alive by their clean-ups.
type ledger struct {
	memory *budget.Budget

	mu   sync.Mutex
	made map[uintptr]*made // by address
}

// made is a buffer. collected is when it goes without having come back.
type made struct {
	bytes     int64
	collected runtime.Cleanup
}

// Get implements mem.BufferPool. What the buffer held before is in it.
func (p *pool) Get(n int) *[]byte {
	const page = 4 << 10
	size := (n + page - 1) / page * page
	for i := range p.shelves {
		if s := &p.shelves[i]; n <= s.size {
			if b := s.take(); b != nil {
				p.out.memory.Count(budget.Idle, -int64(s.size))
				p.out.memory.Count(budget.Received, int64(s.size))
				*b = (*b)[:n]
				return b
			}
			size = s.size
			break
		}
	}
	b := make([]byte, n, size)
	p.out.add(b)
	return &b
}

// Put implements mem.BufferPool: b holds the beginning of a buffer of this pool.
func (p *pool) Put(b *[]byte) {
	n := cap(*b)
	for i := range p.shelves {
		if s := &p.shelves[i]; n == s.size {
			p.out.memory.Count(budget.Received, -int64(n))
			p.out.memory.Count(budget.Idle, int64(n))
			s.mu.Lock()
			s.idle = append(s.idle, b)
			s.mu.Unlock()
			return
		}
	}
	p.out.remove(*b, budget.Received)
}

func (s *shelf) take() (b *[]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.idle) - 1
	if n < 0 {
		return nil
	}
	b, s.idle[n] = s.idle[n], nil
	s.idle = s.idle[:n]
	s.least = min(s.least, n)
	return b
}

// trim lets go of the buffers that nobody has taken since it was called last.
func (p *pool) trim() {
	for i := range p.shelves {
		s := &p.shelves[i]
		s.mu.Lock()
		unused := slices.Clone(s.idle[:s.least]) // the last ones are taken first
		s.idle = slices.Delete(s.idle, 0, s.least)
		s.least = len(s.idle)
		s.mu.Unlock()
		for _, b := range unused {
			p.out.remove(*b, budget.Idle)
		}
	}
}

// trimAfterCollections trims a pool after each collection from now on, for as long as there is the pool.
func trimAfterCollections(of weak.Pointer[pool]) {
	runtime.AddCleanup(new(collection), func(of weak.Pointer[pool]) {
		if p := of.Value(); p != nil {
			p.trim()
			trimAfterCollections(of)
		}
	}, of)
}

// collection is garbage: a collection is what ends it. It is large enough to be an allocation of its own.
type collection [4]uintptr

// lost is a buffer that was collected.
type lost struct {
	*made
	at uintptr
}

func (l *ledger) add(b []byte) {
	m := &made{bytes: int64(cap(b))}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	l.mu.Lock()
	l.made[at] = m // the one before it there was collected, if there was one
	l.mu.Unlock()
	l.memory.Count(budget.Received, m.bytes)
	m.collected = runtime.AddCleanup(unsafe.SliceData(b), func(x lost) {
		l.mu.Lock()
		if l.made[x.at] == x.made { // another may be there by now
			delete(l.made, x.at)
		}
		l.mu.Unlock()
		l.memory.Count(budget.Received, -x.bytes)
	}, lost{m, at})
}

// remove takes a buffer out that is alive, and counts as kind.
func (l *ledger) remove(b []byte, kind budget.Kind) {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	l.mu.Lock()
	m := l.made[at]
	delete(l.made, at)
	l.mu.Unlock()
	if m == nil {
		return // it is another pool's
	}
	m.collected.Stop()
	runtime.KeepAlive(b)
	l.memory.Count(kind, -m.bytes)
}
