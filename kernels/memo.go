// Memos: what jobs have computed and others can use, such as a solver's set-up for constraints that come again.

package kernels

import (
	"container/list"
	"crypto/rand"
	"encoding/binary"
	"sync"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Memo is device memory that a job fills with what others may need as well. It is the job's, as what [Alloc] returns
// is, and becomes one that jobs can [Queue.Recall] with Publish.
type Memo struct {
	q         *Queue
	res       *Resident[byte]
	published bool
}

// memos are those of a device that were published, those used last, within a number of bytes. The device evicts them
// besides, when it needs the memory: see [memory.evictable].
type memos struct {
	limit int64
	keys  [2]uint64 // of fingerprints

	mu      sync.Mutex
	entries map[any]*memoEntry
	order   list.List // of *memoEntry; used last in front
	stats   MemoStats
}

type memoEntry struct {
	key, note any
	res       *Resident[byte]
	place     *list.Element // in order
}

// MemoStats is what became of memos. Bytes and Entries are of those that can be recalled now.
type MemoStats struct {
	Bytes                   int64
	Entries                 int
	Hits, Misses, Evictions uint64 // calls of Recall that found one, and that did not; memos that made room for others
}

// maxMemos is how many memos there may be, so that small ones take little of the host's memory, and that of the time of
// jobs which looking at all of them does: see sweep. BenchmarkMemos takes 40 µs for that.
const maxMemos = 1024

// defaultMemoShare is the part of the device's memory that memos may take.
const defaultMemoShare = 2

func newMemos(limit, reserved int64) *memos {
	if limit == 0 {
		limit = reserved / defaultMemoShare
	}
	return &memos{limit: limit, keys: [2]uint64{randomKey(), randomKey()}, entries: map[any]*memoEntry{}}
}

// randomKey draws one of the keys of [driver.Fingerprint], each with the same chance.
func randomKey() uint64 {
	for {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		if k := binary.LittleEndian.Uint64(b[:]) & driver.FingerprintPrime; k >= 2 && k <= driver.FingerprintPrime-2 {
			return k
		}
	}
}

// Memos returns what became of the device's memos so far.
func (d *Device) Memos() MemoStats {
	m := d.memos
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep()
	return m.stats
}

// Recall returns the memory that was published under a key, which is to be read only and is held until the job ends,
// and what was noted with it. It returns false where there is none, be it that it was evicted. A key is comparable and
// says all that the content depends on; keys of different purposes have different types.
func (q *Queue) Recall(key any) (_ Buffer[byte], note any, ok bool) {
	if q.done.Load() {
		return Buffer[byte]{}, nil, false
	}
	m := q.dev.memos
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entries[key]; e != nil {
		if buf, ok := e.res.Acquire(); ok {
			q.memos = append(q.memos, &Memo{q, e.res, true})
			m.order.MoveToFront(e.place)
			m.stats.Hits++
			return buf, e.note, true
		}
		m.evicted(e)
	}
	m.stats.Misses++
	return Buffer[byte]{}, nil, false
}

// NewMemo returns n bytes, of undefined content, beside the job's footprint. It takes memory that is free, or that
// other memos have and nobody uses, within [Config.MemoBytes], and never waits: it returns false where there is none,
// or where jobs wait for memory. Then the job uses its own. The memory goes back when the job ends, unless it is
// published by then.
func (q *Queue) NewMemo(n int, label string) (*Memo, bool) {
	d := q.dev
	if q.done.Load() || d.mem.padded(int64(n)) > d.memos.limit {
		return nil, false
	}
	blk, buf, err := reserve[byte](d, n, computed, "NewMemo", label)
	if err != nil {
		return nil, false
	}
	m := &Memo{q: q, res: &Resident[byte]{d, d.mem.store(blk), buf}}
	q.memos = append(q.memos, m)
	return m, true
}

// Buffer is the memory.
func (m *Memo) Buffer() Buffer[byte] { return m.res.Buffer() }

// Publish lets other jobs recall the memory, whose content the job has computed and waited for, and which nobody
// changes from now on. Where another job was faster it stays the job's own. Those that were recalled longest ago go
// where all take more than [Config.MemoBytes], or are more than 1024. It is called once, before the job ends.
func (m *Memo) Publish(key, note any) {
	all := m.q.dev.memos
	all.mu.Lock()
	defer all.mu.Unlock()
	if e := all.entries[key]; e != nil {
		if !e.res.Gone() {
			return
		}
		all.evicted(e)
	}
	m.published = true
	e := &memoEntry{key: key, note: note, res: m.res}
	e.place = all.order.PushFront(e)
	all.entries[key] = e
	all.stats.Bytes += e.res.r.len
	all.stats.Entries++
	all.sweep()
	for all.stats.Bytes > all.limit || all.stats.Entries > maxMemos {
		old := all.order.Back().Value.(*memoEntry)
		all.evicted(old)
		old.res.Drop()
	}
}

// forgetMemos lets go of the job's memos, when the stream has drained.
func (q *Queue) forgetMemos() {
	for _, m := range q.memos {
		if !m.published {
			m.res.Drop()
		}
		m.res.Release()
	}
	q.memos = nil
}

// sweep removes what the device has evicted. m.mu is held.
func (m *memos) sweep() {
	for el := m.order.Back(); el != nil; {
		e := el.Value.(*memoEntry)
		el = el.Prev()
		if e.res.Gone() {
			m.evicted(e)
		}
	}
}

// evicted removes an entry that made room for others. m.mu is held.
func (m *memos) evicted(e *memoEntry) {
	delete(m.entries, e.key)
	m.order.Remove(e.place)
	m.stats.Bytes -= e.res.r.len
	m.stats.Entries--
	m.stats.Evictions++
}

// Fingerprint is a pair of numbers that is the same for the same content of a length, in one device, and differs for
// others but for one in 2^70: see [driver.Fingerprint]. The keys are random, and the device's own.
type Fingerprint [2]uint64

// FingerprintBytes is what [FingerprintOf] takes of the job's footprint while it runs.
func FingerprintBytes() int64 { return Bytes[uint64](len(Fingerprint{})) }

// FingerprintOf computes the fingerprint of what a buffer holds by then, and waits for it.
func FingerprintOf[T Elem](q *Queue, b Buffer[T]) (f Fingerprint, err error) {
	dst, err := Alloc[uint64](q, len(f), "fingerprint")
	if err != nil {
		return f, err
	}
	if err := q.Run(&driver.Fingerprint{Src: b.Slice(), Keys: q.dev.memos.keys, Dst: dst.Slice()}); err != nil {
		return f, err
	}
	if err := Download(q, f[:], dst); err != nil {
		return f, err
	}
	if err := q.Wait(); err != nil {
		return f, err
	}
	return f, Free(q, dst)
}
