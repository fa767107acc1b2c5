package kernels

import (
	"container/list"
	"context"
	"fmt"
	"sync"

	"github.com/polyscan/polyscan/kernels/driver"
)

// sched admits jobs: it hands out memory and a stream together, to those that wait in order of arrival, so that a large
// job is not starved by small ones behind it, and no job waits for a stream with memory in its hands.
//
// Its lock may be held while that of memory is taken, not the other way round.
type sched struct {
	mem *memory

	mu      sync.Mutex
	idle    []driver.Stream
	streams int       // idle and leased
	waiting list.List // of *waiter
	closed  bool
}

// waiter is a job in the queue.
type waiter struct {
	job   Job
	ready chan grant // buffered
}

// grant is what a job needs to run, or why it won't.
type grant struct {
	arena  block
	stream driver.Stream
	err    error
}

// acquire returns what the job needs to run, and waits for it until ctx ends. What never fits is refused at once.
func (s *sched) acquire(ctx context.Context, job Job) (grant, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return grant{}, ErrClosed
	}
	if job.Footprint > s.mem.stats.Reserved { // which does not change
		s.mu.Unlock()
		return grant{}, s.mem.refuse(job.Footprint, job.Label, 0)
	}
	w := &waiter{job: job, ready: make(chan grant, 1)}
	el := s.waiting.PushBack(w)
	s.dispatch()
	s.mu.Unlock()

	select {
	case g := <-w.ready:
		return g, g.err
	case <-ctx.Done():
	}
	s.mu.Lock()
	select {
	case g := <-w.ready: // it came just now; hand it on
		s.mu.Unlock()
		if g.err == nil {
			s.release(g)
			g.err = context.Cause(ctx)
		}
		return grant{}, g.err
	default:
	}
	defer s.mu.Unlock()
	ahead := 0
	for p := el.Prev(); p != nil; p = p.Prev() {
		ahead++
	}
	s.waiting.Remove(el)
	s.dispatch() // those behind may fit
	err := context.Cause(ctx)
	if job.Footprint > 0 && len(s.idle) > 0 { // it was memory that it waited for
		err = fmt.Errorf("%w: %w", err, s.mem.refuse(job.Footprint, job.Label, ahead))
	}
	return grant{}, err
}

// dispatch serves the queue from the front as long as there is room. s.mu is held.
func (s *sched) dispatch() {
	for el := s.waiting.Front(); el != nil && len(s.idle) > 0; el = s.waiting.Front() {
		w := el.Value.(*waiter)
		var g grant
		if w.job.Footprint > 0 {
			var err error
			if g.arena, err = s.mem.reserve(w.job.Footprint, scratch, w.job.Label); err != nil {
				return
			}
		}
		g.stream = s.idle[len(s.idle)-1]
		s.idle = s.idle[:len(s.idle)-1]
		s.waiting.Remove(el)
		w.ready <- g
	}
}

// release takes back what a job was granted.
func (s *sched) release(g grant) {
	s.mu.Lock()
	s.idle = append(s.idle, g.stream)
	s.mu.Unlock()
	if g.arena.len > 0 {
		s.mem.release(g.arena) // and then looks at the queue
		return
	}
	s.memoryFreed()
}

// memoryFreed looks at the queue again.
func (s *sched) memoryFreed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dispatch()
}

// keep reserves memory at once, unless jobs wait for some.
func (s *sched) keep(n int64, t tenant, label string) (block, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return block{}, ErrClosed
	}
	ahead := s.forMemory()
	if ahead == 0 {
		if b, err := s.mem.reserve(n, t, label); err == nil {
			return b, nil
		}
	}
	return block{}, s.mem.refuse(n, label, ahead)
}

// forMemory counts the jobs in the queue that need memory.
func (s *sched) forMemory() (n int) {
	for el := s.waiting.Front(); el != nil; el = el.Next() {
		if el.Value.(*waiter).job.Footprint > 0 {
			n++
		}
	}
	return n
}

// shut refuses jobs from now on, those that wait as well.
func (s *sched) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for el := s.waiting.Front(); el != nil; el = s.waiting.Front() {
		s.waiting.Remove(el).(*waiter).ready <- grant{err: ErrClosed}
	}
}
