// Cache: device memory that is kept by key, to be used again.

package kernels

import (
	"container/list"
	"sync"
)

// evictable is what a [Cache] keeps: a [Resident], or something that has one.
type evictable interface {
	Bytes() int64 // device memory that it takes
	Gone() bool   // the device has evicted it, or it was dropped: it is of no more use
	Drop()        // gives the memory back, at once or when the last holder has released it
}

// Cache keeps the values that were used last, with device memory such as that of a [Resident], within a number of bytes
// and of entries. The device evicts them besides, when it needs the memory; the cache notices in its next call. Its
// methods may be called from several goroutines.
type Cache[K comparable, V evictable] struct {
	bytes   int64 // limits
	entries int

	// mu comes before the memory's lock, which Gone and Drop take.
	mu    sync.Mutex
	byKey map[K]*list.Element
	order list.List // of cacheEntry[K, V]; used last in front
	stats CacheStats
}

type cacheEntry[K comparable, V evictable] struct {
	key   K
	value V
}

// CacheStats says how useful a cache is. Bytes and Entries are of values that can be had now.
type CacheStats struct {
	Bytes                   int64
	Entries                 int
	Hits, Misses, Evictions uint64 // calls that found a value, and that did not; values that made room for others
}

// NewCache returns an empty cache that keeps at most so many bytes and entries, at least one of any size.
func NewCache[K comparable, V evictable](bytes int64, entries int) *Cache[K, V] {
	return &Cache[K, V]{bytes: bytes, entries: entries, byKey: map[K]*list.Element{}}
}

// Get returns the value of a key. It may be gone by the time that the caller uses it.
func (c *Cache[K, V]) Get(key K) (V, bool) {
	return c.get(key, func(v V) bool { return !v.Gone() })
}

// get is Get for a value that the caller could acquire.
func (c *Cache[K, V]) get(key K, acquire func(V) bool) (_ V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el := c.byKey[key]; el != nil {
		if v := el.Value.(cacheEntry[K, V]).value; acquire(v) {
			c.order.MoveToFront(el)
			c.stats.Hits++
			return v, true
		}
		c.evicted(el)
	}
	c.stats.Misses++
	var none V
	return none, false
}

// Put keeps a value, and drops those that were used longest ago where there are too many. It returns false, and leaves
// the value to the caller, where the key has one that is not gone.
func (c *Cache[K, V]) Put(key K, v V) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep()
	if c.byKey[key] != nil {
		return false
	}
	c.byKey[key] = c.order.PushFront(cacheEntry[K, V]{key, v})
	c.stats.Bytes += v.Bytes()
	c.stats.Entries++
	for (c.stats.Bytes > c.bytes || c.stats.Entries > c.entries) && c.stats.Entries > 1 {
		c.evicted(c.order.Back()).Drop()
	}
	return true
}

// Remove drops the values of some keys.
func (c *Cache[K, V]) Remove(which func(K) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep()
	for key, el := range c.byKey {
		if which(key) {
			c.take(el).Drop()
		}
	}
}

// Stats returns what became of the cache so far.
func (c *Cache[K, V]) Stats() CacheStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep()
	return c.stats
}

// sweep removes what the device has evicted. c.mu is held.
func (c *Cache[K, V]) sweep() {
	for el := c.order.Back(); el != nil; {
		at := el
		el = el.Prev()
		if at.Value.(cacheEntry[K, V]).value.Gone() {
			c.evicted(at)
		}
	}
}

// evicted removes an entry that made room for others. c.mu is held.
func (c *Cache[K, V]) evicted(el *list.Element) V {
	c.stats.Evictions++
	return c.take(el)
}

// take removes an entry. c.mu is held.
func (c *Cache[K, V]) take(el *list.Element) V {
	e := c.order.Remove(el).(cacheEntry[K, V])
	delete(c.byKey, e.key)
	c.stats.Bytes -= e.value.Bytes()
	c.stats.Entries--
	return e.value
}
