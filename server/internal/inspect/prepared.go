// preparedCache: regions that stay on the device from frame to frame.

package inspect

import (
	"container/list"
	"context"
	"errors"
	"sync"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/polygon"
	"github.com/polyscan/polyscan/server/internal/device"
)

// preparedCache keeps prepared sets, those used last, within a number of bytes. The device may evict them besides, when
// it needs the memory.
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
	method        polygon.Method
}

type preparedEntry struct {
	key   preparedKey
	ready chan struct{} // closed when p or err is set
	p     *polygon.Prepared
	err   error

	// Under the cache's mu.
	out   bool          // no longer in the cache
	place *list.Element // in order
}

func newPreparedCache(limit int64) *preparedCache {
	return &preparedCache{limit: limit, entries: map[preparedKey]*preparedEntry{}}
}

// get returns the set prepared for frames of a size, which may be evicted or closed before the caller gets to use it.
// It returns nil without an error where the device has no room to keep it: then a reduction brings its own scratch, and
// can wait for it.
func (c *preparedCache) get(ctx context.Context, dev device.Lease, set *polygon.Set, width, height int,
	m polygon.Method) (*polygon.Prepared, error) {
	key := preparedKey{set, width, height, m}
	for {
		c.mu.Lock()
		e := c.entries[key]
		if e != nil && e.place != nil && e.p.Gone() {
			c.remove(e)
			c.evictions++
			e = nil
		}
		if e == nil {
			return c.make(ctx, dev, key) // unlocks
		}
		c.hits++
		if e.place != nil {
			c.order.MoveToFront(e.place)
		}
		c.mu.Unlock()
		select {
		case <-e.ready:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if errors.Is(e.err, context.Canceled) || errors.Is(e.err, context.DeadlineExceeded) {
			continue // the call that prepared it ended; this one has not
		}
		return e.result()
	}
}

// make prepares the set for this caller and those who come meanwhile. c.mu is held.
func (c *preparedCache) make(ctx context.Context, dev device.Lease, key preparedKey) (*polygon.Prepared, error) {
	c.misses++
	e := &preparedEntry{key: key, ready: make(chan struct{}), out: c.closed}
	if !c.closed {
		c.entries[key] = e
	}
	c.mu.Unlock()

	e.err = errors.New("server: preparing regions panicked") // unless it doesn't; those who wait must not wait for ever
	defer close(e.ready)
	defer c.add(e)
	e.p, e.err = key.set.Prepare(ctx, dev.Device, key.width, key.height, key.method)
	return e.result()
}

// result is what get returns for an entry that is ready.
func (e *preparedEntry) result() (*polygon.Prepared, error) {
	if errors.Is(e.err, kernels.ErrOutOfMemory) {
		return nil, nil
	}
	return e.p, e.err
}

// add gives an entry that is about to be ready its place, and makes room for it.
func (c *preparedCache) add(e *preparedEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case e.p == nil:
		if !e.out {
			c.remove(e)
		}
	case e.out:
		e.p.Close()
	default:
		e.place = c.order.PushFront(e)
		c.bytes += e.p.Bytes()
		c.sweep()
		for c.bytes > c.limit && c.order.Len() > 1 { // one that is larger than the limit is there alone
			c.remove(c.order.Back().Value.(*preparedEntry))
			c.evictions++
		}
	}
}

// sweep removes what the device has evicted. c.mu is held.
func (c *preparedCache) sweep() {
	for el := c.order.Back(); el != nil; {
		e := el.Value.(*preparedEntry)
		el = el.Prev()
		if e.p.Gone() {
			c.remove(e)
			c.evictions++
		}
	}
}

// remove takes an entry out of the cache. Calls that use it finish. c.mu is held.
func (c *preparedCache) remove(e *preparedEntry) {
	e.out = true
	delete(c.entries, e.key)
	if e.place != nil {
		c.order.Remove(e.place)
		e.place = nil
		c.bytes -= e.p.Bytes()
		e.p.Close() // never fails
	}
}

// drop forgets all that was prepared of a set.
func (c *preparedCache) drop(set *polygon.Set) {
	c.removeAll(func(e *preparedEntry) bool { return e.key.set == set })
}

// clear forgets everything.
func (c *preparedCache) clear() { c.removeAll(func(*preparedEntry) bool { return true }) }

// close forgets everything, and keeps nothing from now on.
func (c *preparedCache) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.clear()
}

func (c *preparedCache) removeAll(which func(*preparedEntry) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.entries {
		if which(e) {
			c.remove(e)
		}
	}
}

type PreparedStats struct {
	Bytes                   int64
	Entries                 int
	Hits, Misses, Evictions uint64
}

func (c *preparedCache) Stats() PreparedStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep()
	return PreparedStats{c.bytes, c.order.Len(), c.hits, c.misses, c.evictions}
}
