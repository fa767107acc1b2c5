// Residents: memory that stays as long as there is room, such as frames that were uploaded once and prepared regions.

package kernels

import (
	"container/list"
	"fmt"
	"iter"
)

// Resident is n elements of device memory that outlive jobs and that the device takes back when it needs the room. Who
// uses the memory holds it: [Store] and [Resident.Acquire] hold it once each, until [Resident.Release]. What nobody
// holds may be evicted, what was let go longest ago first, but none where it is enough that memos ([Queue.Recall]) go.
// Its methods may be called from several goroutines.
type Resident[T Elem] struct {
	dev *Device
	r   *resident
	buf Buffer[T]
}

// resident is a Resident without its type. Its fields are the memory's, under its lock.
type resident struct {
	block
	holders int
	idle    *list.Element // where nobody holds it
	gone    bool          // evicted or dropped: nobody gets it any more
}

// Store allocates n elements, of undefined content, and holds them once for the caller. It does not wait: where there
// is no room, even without the residents that nobody holds, or where jobs wait for memory, it returns a
// [*CapacityError].
func Store[T Elem](d *Device, n int, label string) (*Resident[T], error) {
	blk, buf, err := reserve[T](d, n, cached, "Store", label)
	if err != nil {
		return nil, err
	}
	return &Resident[T]{d, d.mem.store(blk), buf}, nil
}

// Len is the number of elements.
func (r *Resident[T]) Len() int { return r.buf.Len() }

// Bytes is the device memory that it takes, padding included.
func (r *Resident[T]) Bytes() int64 { return r.r.len }

// Acquire holds the memory once more. The content is what it was. It returns false, and holds nothing, where the memory
// was evicted or dropped.
func (r *Resident[T]) Acquire() (Buffer[T], bool) {
	if !r.dev.mem.acquire(r.r) {
		return Buffer[T]{}, false
	}
	return r.buf, true
}

// Buffer is the memory, for its holder.
func (r *Resident[T]) Buffer() Buffer[T] { return r.buf }

// Gone reports whether the memory was evicted or dropped: nobody can acquire it any more.
func (r *Resident[T]) Gone() bool {
	m := r.dev.mem
	m.mu.Lock()
	defer m.mu.Unlock()
	return r.r.gone
}

// Release lets go of the memory once. No job of the caller's may still use it. Releasing what nobody holds panics.
func (r *Resident[T]) Release() { r.dev.mem.letGo(r.r) }

// Drop gives the memory back, at once or when the last holder releases it. Nobody can acquire it any more. Calls after
// the first do nothing, nor does one after eviction.
func (r *Resident[T]) Drop() { r.dev.mem.drop(r.r) }

// store makes a resident of a block, held once.
func (m *memory) store(b block) *resident {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &resident{block: b, holders: 1}
	m.residents[b.off] = r
	return r
}

// acquire adds a holder, unless the resident is gone.
func (m *memory) acquire(r *resident) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.gone {
		return false
	}
	m.busy(r)
	r.holders++
	return true
}

// letGo takes a holder away.
func (m *memory) letGo(r *resident) {
	m.mu.Lock()
	if r.holders == 0 {
		m.mu.Unlock()
		panic(fmt.Sprintf("kernels: resident %q released, and nobody holds it", r.label))
	}
	r.holders--
	last := r.holders == 0
	if last && !r.gone {
		r.idle = m.idleOf(r.tenant).PushBack(r)
		m.stats.Evictable += r.len
	}
	gone := r.gone
	m.mu.Unlock()
	switch {
	case last && gone:
		m.release(r.block)
	case last:
		m.freed() // it can be evicted now
	}
}

// drop makes a resident gone.
func (m *memory) drop(r *resident) {
	m.mu.Lock()
	if r.gone {
		m.mu.Unlock()
		return
	}
	m.forget(r)
	idle := r.holders == 0
	m.mu.Unlock()
	if idle {
		m.release(r.block)
	}
}

// forget makes a resident gone whose memory is still out. m.mu is held.
func (m *memory) forget(r *resident) {
	r.gone = true
	delete(m.residents, r.off)
	m.busy(r)
}

// busy takes a resident off the idle ones. m.mu is held.
func (m *memory) busy(r *resident) {
	if r.idle != nil {
		m.idleOf(r.tenant).Remove(r.idle)
		r.idle = nil
		m.stats.Evictable -= r.len
	}
}

// idleOf is the list for a tenant's residents that nobody holds. m.mu is held.
func (m *memory) idleOf(t tenant) *list.List {
	if t == computed {
		return &m.idleMemos
	}
	return &m.idle
}

// evictable are the offsets of the residents that nobody holds and that may go for a tenant, the first to go first. A
// memo is nobody's loss but some time, so they come first, and for a new one only others go. m.mu is held.
func (m *memory) evictable(t tenant) iter.Seq[int64] {
	lists := []*list.List{&m.idleMemos, &m.idle}
	if t == computed {
		lists = lists[:1]
	}
	return func(yield func(int64) bool) {
		for _, l := range lists {
			for el := l.Front(); el != nil; el = el.Next() {
				if !yield(el.Value.(*resident).off) {
					return
				}
			}
		}
	}
}

// evict takes the memory of residents that nobody holds. m.mu is held; it is let go of while the memory is poisoned.
// The scheduler's lock is not: with [Config.Poison] no job begins or ends meanwhile. The ops that go on need none of
// these locks.
func (m *memory) evict(offs []int64) {
	var out []*resident
	for _, off := range offs {
		r := m.residents[off]
		m.forget(r)
		if r.tenant != computed {
			m.stats.Evictions++
		}
		out = append(out, r)
	}
	if m.poisoner != nil {
		m.mu.Unlock()
		for _, r := range out {
			m.poisoner.bury(r.block)
		}
		m.mu.Lock()
	}
	for _, r := range out {
		m.put(r.block)
	}
}
