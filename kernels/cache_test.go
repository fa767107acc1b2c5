package kernels

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	testseed "github.com/polyscan/polyscan/internal/seed"
)

// fakeResident is one that the test evicts.
type fakeResident struct {
	bytes int64
	gone  bool
	drops int
	key   int
}

func (e *fakeResident) Bytes() int64 { return e.bytes }
func (e *fakeResident) Gone() bool   { return e.gone }
func (e *fakeResident) Drop()        { e.gone = true; e.drops++ }

// slowCache does what a Cache is to do, with a list: used last in front.
type slowCache struct {
	bytes   int64
	entries int
	list    []*fakeResident
	stats   CacheStats
}

func (c *slowCache) total() (bytes int64) {
	for _, e := range c.list {
		bytes += e.bytes
	}
	return bytes
}

func (c *slowCache) sweep() {
	n := len(c.list)
	c.list = slices.DeleteFunc(c.list, func(e *fakeResident) bool { return e.gone })
	c.stats.Evictions += uint64(n - len(c.list))
}

func (c *slowCache) get(key int) *fakeResident {
	i := slices.IndexFunc(c.list, func(e *fakeResident) bool { return e.key == key })
	if i >= 0 {
		e := c.list[i]
		c.list = slices.Delete(c.list, i, i+1)
		if !e.gone {
			c.list = slices.Insert(c.list, 0, e)
			c.stats.Hits++
			return e
		}
		c.stats.Evictions++
	}
	c.stats.Misses++
	return nil
}

// put returns what it dropped.
func (c *slowCache) put(e *fakeResident) (dropped []*fakeResident, ok bool) {
	c.sweep()
	if slices.ContainsFunc(c.list, func(x *fakeResident) bool { return x.key == e.key }) {
		return nil, false
	}
	c.list = slices.Insert(c.list, 0, e)
	for len(c.list) > 1 && (c.total() > c.bytes || len(c.list) > c.entries) {
		last := len(c.list) - 1
		dropped = append(dropped, c.list[last])
		c.list = c.list[:last]
		c.stats.Evictions++
	}
	return dropped, true
}

// A cache does what a list does, whatever is asked of it and whatever the device evicts.
func TestCacheAgainstAList(t *testing.T) {
	g := testseed.New(t, 14, 6)
	for range 200 {
		model := &slowCache{bytes: 1 + g.Int64N(60), entries: 1 + g.IntN(8)}
		c := NewCache[int, *fakeResident](model.bytes, model.entries)
		var all []*fakeResident
		for step := range 60 {
			key := g.IntN(8)
			what := "stats"
			switch g.IntN(6) {
			case 0, 1:
				want := model.get(key)
				what = fmt.Sprintf("get %d", key)
				if got, ok := c.Get(key); got != want || ok != (want != nil) {
					t.Fatalf("%s: %+v, %v, want %+v", what, got, ok, want)
				}
			case 2, 3:
				e := &fakeResident{bytes: g.Int64N(30), key: key}
				all = append(all, e)
				dropped, want := model.put(e)
				what = fmt.Sprintf("put %+v", *e)
				if ok := c.Put(key, e); ok != want {
					t.Fatalf("%s: %v, want %v", what, ok, want)
				}
				for _, d := range dropped {
					if d.drops != 1 {
						t.Fatalf("%s: %+v is still there", what, *d)
					}
				}
			case 4:
				if len(all) > 0 {
					all[g.IntN(len(all))].gone = true
				}
				continue // the cache doesn't know yet
			case 5:
				model.sweep()
				odd := func(key int) bool { return key%2 == 1 }
				what = "remove odd keys"
				c.Remove(odd)
				model.list = slices.DeleteFunc(model.list, func(e *fakeResident) bool {
					if odd(e.key) && e.drops != 1 {
						t.Fatalf("%s: %+v is still there", what, *e)
					}
					return odd(e.key)
				})
			}
			model.sweep()
			model.stats.Bytes, model.stats.Entries = model.total(), len(model.list)
			if got := c.Stats(); got != model.stats {
				t.Fatalf("step %d, %s: %+v, want %+v", step, what, got, model.stats)
			}
		}
		for _, e := range all {
			if kept := slices.Contains(model.list, e); e.drops > 1 || kept && e.drops > 0 {
				t.Fatalf("%+v dropped, kept: %v", *e, kept)
			}
		}
	}
}

// A value that is larger than the limit is kept alone.
func TestCacheOfOneThatIsTooLarge(t *testing.T) {
	c := NewCache[string, *fakeResident](10, 5)
	small, large := &fakeResident{bytes: 5}, &fakeResident{bytes: 11}
	if !c.Put("small", small) || !c.Put("large", large) || small.drops != 1 || large.drops != 0 {
		t.Errorf("%+v, %+v", small, large)
	}
	if got, want := c.Stats(), (CacheStats{Bytes: 11, Entries: 1, Evictions: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Residents of a device are evicted by it, and the cache notices, while several goroutines use it.
func TestCacheOfResidents(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 8192})
	c := NewCache[int, *Resident[byte]](4096, 100)
	var wg sync.WaitGroup
	for u := range 4 {
		wg.Go(func() {
			for k := range 50 {
				key := (u + k*k) % 7
				if r, ok := c.Get(key); ok {
					if b, ok := r.Acquire(); ok {
						if b.Len() != 700+key {
							t.Errorf("%d bytes of key %d", b.Len(), key)
						}
						r.Release()
					}
					continue
				}
				r, err := Store[byte](d, 700+key, "cached")
				if err != nil {
					continue // the others hold it all
				}
				if !c.Put(key, r) {
					r.Drop()
				}
				r.Release()
				if k%10 == 9 {
					c.Remove(func(k int) bool { return k == key })
				}
			}
		})
	}
	wg.Wait()
	if s, m := c.Stats(), d.Memory(); s.Bytes != m.Used || s.Bytes > 4096 || s.Entries == 0 || s.Hits == 0 {
		t.Errorf("%+v; %+v", s, m)
	}
	all, err := AllocPersistent[byte](d, 8192, "state")
	if err != nil {
		t.Fatal(err)
	}
	defer all.Free()
	if s := c.Stats(); s.Bytes != 0 || s.Entries != 0 {
		t.Errorf("after eviction: %+v", s)
	}
}
