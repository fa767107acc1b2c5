// preparedCache: regions that stay on the device from frame to frame.

package inspect

import (
	"context"
	"errors"
	"math"
	"sync"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/polygon"
	"github.com/polyscan/polyscan/server/internal/device"
)

// preparedCache keeps prepared sets, and prepares a set once for all calls that ask for it at a time.
type preparedCache struct {
	cache *kernels.Cache[preparedKey, prepared]

	mu        sync.Mutex // comes before the cache's
	preparing map[preparedKey]*preparation
	joined    uint64 // calls that waited for the preparation of another
	closed    bool
}

type preparedKey struct {
	set           *polygon.Set // sets are immutable, so the pointer stands for the content
	width, height int
	method        polygon.Method
}

type prepared struct{ *polygon.Prepared }

func (p prepared) Drop() { _ = p.Close() } // it never fails

// preparation is a set that is being prepared.
type preparation struct {
	ready chan struct{} // closed when p or err is set
	p     *polygon.Prepared
	err   error
	drop  bool // when it is ready; under the cache's mu
}

func newPreparedCache(limit int64) *preparedCache {
	return &preparedCache{
		cache:     kernels.NewCache[preparedKey, prepared](limit, math.MaxInt),
		preparing: map[preparedKey]*preparation{},
	}
}

// get returns the set prepared for frames of a size, which may be evicted or closed before the caller gets to use it.
// It returns nil without an error where the device has no room to keep it: then a reduction brings its own scratch, and
// can wait for it.
func (c *preparedCache) get(ctx context.Context, dev device.Lease, set *polygon.Set, width, height int,
	m polygon.Method) (*polygon.Prepared, error) {
	key := preparedKey{set, width, height, m}
	for {
		c.mu.Lock()
		now := c.preparing[key]
		if now == nil {
			if kept, ok := c.cache.Get(key); ok {
				c.mu.Unlock()
				return kept.Prepared, nil
			}
			now = &preparation{ready: make(chan struct{}), drop: c.closed}
			if !c.closed {
				c.preparing[key] = now
			}
			c.mu.Unlock()
			return c.prepare(ctx, dev, key, now)
		}
		c.joined++
		c.mu.Unlock()
		select {
		case <-now.ready:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if errors.Is(now.err, context.Canceled) || errors.Is(now.err, context.DeadlineExceeded) {
			continue // the call that prepared it ended; this one has not
		}
		return now.result()
	}
}

// prepare prepares the set for this caller and those who come meanwhile.
func (c *preparedCache) prepare(ctx context.Context, dev device.Lease, key preparedKey,
	now *preparation) (*polygon.Prepared, error) {
	now.err = errors.New("server: preparing regions panicked") // unless it doesn't; others must not wait for ever
	defer close(now.ready)
	defer c.prepared(key, now)
	now.p, now.err = key.set.Prepare(ctx, dev.Device, key.width, key.height, key.method)
	return now.result()
}

// result is what get returns of a preparation that is ready.
func (p *preparation) result() (*polygon.Prepared, error) {
	if errors.Is(p.err, kernels.ErrOutOfMemory) {
		return nil, nil
	}
	return p.p, p.err
}

// prepared ends a preparation: what it made is kept, unless it was to be dropped meanwhile.
func (c *preparedCache) prepared(key preparedKey, now *preparation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !now.drop {
		delete(c.preparing, key)
	}
	if now.p != nil && (now.drop || !c.cache.Put(key, prepared{now.p})) {
		_ = now.p.Close()
	}
}

// drop forgets all that was prepared of a set.
func (c *preparedCache) drop(set *polygon.Set) {
	c.remove(func(key preparedKey) bool { return key.set == set })
}

// clear forgets everything.
func (c *preparedCache) clear() { c.remove(func(preparedKey) bool { return true }) }

// close forgets everything, and keeps nothing from now on.
func (c *preparedCache) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.clear()
}

// remove forgets what was prepared for some keys. Calls that use it finish.
func (c *preparedCache) remove(which func(preparedKey) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, now := range c.preparing {
		if which(key) {
			now.drop = true
			delete(c.preparing, key)
		}
	}
	c.cache.Remove(which)
}

// Stats returns what became of the cache so far. A call that waited for the preparation of another is a hit.
func (c *preparedCache) Stats() kernels.CacheStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.cache.Stats()
	s.Hits += c.joined
	return s
}
