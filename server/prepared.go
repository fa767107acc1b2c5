// preparedCache: regions that stay on the device from frame to frame.

package server

import (
	"container/list"
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
	"github.com/polyscan/polyscan/polygon"
)

// preparedCache keeps prepared sets, those used last, within a number of bytes. What is in use is never closed.
type preparedCache struct {
	limit int64

	mu      sync.Mutex
	entries map[preparedKey]*preparedEntry
	order   list.List // of *preparedEntry that are ready; used last in front
	bytes   int64     // of those in order
	closed  bool

	hits, misses, evictions uint64
}

type preparedKey struct {
	set           *polygon.Set // sets are immutable, so the pointer stands for the content
	width, height int
	method        driver.Method
}

type preparedEntry struct {
	key   preparedKey
	ready chan struct{} // closed when p or err is set
	p     *polygon.Prepared
	err   error

	// Under the cache's mu.
	users int
	out   bool          // no longer in the cache: the last user closes it
	place *list.Element // in order
}

func newPreparedCache(limit int64) *preparedCache {
	return &preparedCache{limit: limit, entries: map[preparedKey]*preparedEntry{}}
}

// get returns the set prepared for frames of a size, and done, which the caller has to call after use. It returns nil
// without an error where the device has no room to keep it: then a reduction brings its own scratch, and can wait for it.
func (c *preparedCache) get(ctx context.Context, dev lease, set *polygon.Set, width, height int, m driver.Method) (_ *polygon.Prepared, done func(), err error) {
	key := preparedKey{set, width, height, m}
	for {
		c.mu.Lock()
		e := c.entries[key]
		if e == nil {
			return c.make(ctx, dev, key) // unlocks
		}
		e.users++
		c.hits++
		if e.place != nil {
			c.order.MoveToFront(e.place)
		}
		c.mu.Unlock()
		select {
		case <-e.ready:
		case <-ctx.Done():
			c.release(e)
			return nil, nil, context.Cause(ctx)
		}
		if e.err == nil {
			return e.p, func() { c.release(e) }, nil
		}
		c.release(e)
		if errors.Is(e.err, context.Canceled) || errors.Is(e.err, context.DeadlineExceeded) {
			continue // the call that prepared it ended; this one has not
		}
		return result(e)
	}
}

// make prepares the set for this caller and those who come meanwhile. c.mu is held.
func (c *preparedCache) make(ctx context.Context, dev lease, key preparedKey) (*polygon.Prepared, func(), error) {
	c.misses++
	e := &preparedEntry{key: key, ready: make(chan struct{}), users: 1, out: c.closed}
	if !c.closed {
		c.entries[key] = e
	}
	c.mu.Unlock()

	defer func() {
		if e.p == nil && e.err == nil { // a panic; those who wait must not wait for ever
			e.err = errors.New("server: preparing regions panicked")
			c.fail(e)
		}
	}()
	p, err := key.set.Prepare(ctx, dev.Device, key.width, key.height, key.method)
	if errors.Is(err, driver.ErrOutOfMemory) && c.evict(math.MaxInt, -1) > 0 {
		p, err = key.set.Prepare(ctx, dev.Device, key.width, key.height, key.method)
	}
	if err != nil {
		e.err = err
		c.fail(e)
		return result(e)
	}
	e.p = p
	close(e.ready)
	c.mu.Lock()
	if !e.out {
		e.place = c.order.PushFront(e)
		c.bytes += p.Bytes()
	}
	c.mu.Unlock()
	c.evict(math.MaxInt, c.limit)
	return p, func() { c.release(e) }, nil
}

// result is what get returns for an entry that could not be made.
func result(e *preparedEntry) (*polygon.Prepared, func(), error) {
	if errors.Is(e.err, driver.ErrOutOfMemory) {
		return nil, nil, nil
	}
	return nil, nil, e.err
}

func (c *preparedCache) fail(e *preparedEntry) {
	c.mu.Lock()
	if !e.out {
		e.out = true
		delete(c.entries, e.key)
	}
	e.users--
	c.mu.Unlock()
	close(e.ready)
}

func (c *preparedCache) release(e *preparedEntry) {
	c.mu.Lock()
	e.users--
	last := e.users == 0 && e.out && e.p != nil
	c.mu.Unlock()
	if last {
		e.p.Close() // never fails
	}
}

// remove takes an entry out of the cache. The result is to be closed where it isn't nil; else its last user does it.
// c.mu is held.
func (c *preparedCache) remove(e *preparedEntry) *polygon.Prepared {
	e.out = true
	delete(c.entries, e.key)
	if e.place != nil {
		c.order.Remove(e.place)
		e.place = nil
		c.bytes -= e.p.Bytes()
	}
	if e.users > 0 {
		return nil
	}
	return e.p
}

// evict closes entries that nobody uses, those used longest ago first: at most n, and while more than so many bytes are kept.
// It returns how many went.
func (c *preparedCache) evict(n int, bytes int64) int {
	var close []*polygon.Prepared
	c.mu.Lock()
	for el := c.order.Back(); el != nil && len(close) < n && c.bytes > bytes; {
		e := el.Value.(*preparedEntry)
		el = el.Prev()
		if e.users == 0 {
			close = append(close, c.remove(e))
			c.evictions++
		}
	}
	c.mu.Unlock()
	for _, p := range close {
		p.Close()
	}
	return len(close)
}

// relief gives the device memory that nobody uses, for as long as some job waits for memory. What is kept for speed must not
// starve what has to run: without it a job that doesn't fit beside idle regions would wait for ever.
type relief struct {
	cache *preparedCache
	dev   *kernels.Device

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

// reliefInterval is how long a job waits before room is made for it. Jobs usually wait for others, which are done sooner.
const reliefInterval = 10 * time.Millisecond

// relieve starts looking after the jobs that wait. stop is to be called when the caller's own is done.
func (c *preparedCache) relieve(dev lease) (stop func()) {
	r := &relief{cache: c, dev: dev.Device}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timer = time.AfterFunc(reliefInterval, r.tick)
	return r.stop
}

func (r *relief) tick() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return
	}
	for r.dev.Memory().Waiting > 0 {
		if r.cache.evict(1, -1) == 0 {
			break
		}
	}
	r.timer.Reset(reliefInterval)
}

func (r *relief) stop() {
	r.timer.Stop()
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
}

// drop forgets all that was prepared of a set.
func (c *preparedCache) drop(set *polygon.Set) {
	c.removeAll(func(e *preparedEntry) bool { return e.key.set == set })
}

// clear forgets everything.
func (c *preparedCache) clear() { c.removeAll(func(*preparedEntry) bool { return true }) }

// close forgets everything; what is prepared from now on is closed after use.
func (c *preparedCache) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.clear()
}

func (c *preparedCache) removeAll(which func(*preparedEntry) bool) {
	var close []*polygon.Prepared
	c.mu.Lock()
	for _, e := range c.entries {
		if !which(e) {
			continue
		}
		if p := c.remove(e); p != nil {
			close = append(close, p)
		}
	}
	c.mu.Unlock()
	for _, p := range close {
		p.Close()
	}
}

type preparedStats struct {
	bytes                   int64
	entries                 int
	hits, misses, evictions uint64
}

func (c *preparedCache) stats() preparedStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return preparedStats{c.bytes, c.order.Len(), c.hits, c.misses, c.evictions}
}
