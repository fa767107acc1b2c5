// Memos: what jobs have computed and others can use, such as a solver's set-up for constraints that come again.

package kernels

import (
	"crypto/rand"
	"encoding/binary"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Memo is device memory that a job fills with what others may need as well. It is the job's, as what [Alloc] returns
// is, and becomes one that jobs can [Queue.Recall] with Publish.
type Memo struct {
	q         *Queue
	res       *Resident[byte]
	published bool
}

// memos are those of a device that were published. The device evicts them first when it needs memory: see
// [memory.evictable].
type memos struct {
	*Cache[any, published]
	limit int64     // bytes of them all
	keys  [2]uint64 // of fingerprints
}

// published is a memo that jobs can recall.
type published struct {
	*Resident[byte]
	note any
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
	return &memos{NewCache[any, published](limit, maxMemos), limit, [2]uint64{randomKey(), randomKey()}}
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

// Memos returns what became of the device's memos so far: a hit is a call of Recall that found one.
func (d *Device) Memos() CacheStats { return d.memos.Stats() }

// Recall returns the memory that was published under a key, which is to be read only and is held until the job ends,
// and what was noted with it. It returns false where there is none, be it that it was evicted, or that it is another
// owner's ([WithOwner]). A key is comparable and says all that the content depends on; keys of different purposes have
// different types.
func (q *Queue) Recall(key any) (_ Buffer[byte], note any, ok bool) {
	if q.done.Load() {
		return Buffer[byte]{}, nil, false
	}
	var buf Buffer[byte]
	m, ok := q.dev.memos.get(q.owned(key), func(m published) (ok bool) {
		buf, ok = m.Acquire()
		return ok
	})
	if !ok {
		return Buffer[byte]{}, nil, false
	}
	q.memos = append(q.memos, &Memo{q, m.Resident, true})
	return buf, m.note, true
}

// ownedKey is the key of a memo of an owner.
type ownedKey struct {
	owner string
	key   any
}

func (q *Queue) owned(key any) any {
	if owner := scheduleOf(q.ctx).owner; owner != "" {
		return ownedKey{owner, key}
	}
	return key
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
	m.published = m.q.dev.memos.Put(m.q.owned(key), published{m.res, note})
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
