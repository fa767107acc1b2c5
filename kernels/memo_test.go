package kernels

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/polyscan/polyscan/kernels/driver"
)

// do runs a job without a footprint.
func do(t *testing.T, d *Device, fn func(q *Queue)) {
	t.Helper()
	if err := d.Do(context.Background(), Job{Label: "job"}, func(q *Queue) error { fn(q); return nil }); err != nil {
		t.Fatal(err)
	}
}

// publish makes a memo of n bytes, in a job of its own.
func publish(t *testing.T, d *Device, key any, n int) {
	t.Helper()
	do(t, d, func(q *Queue) {
		m, ok := q.NewMemo(n, "memo")
		if !ok {
			t.Fatalf("no memory for memo %v", key)
		}
		m.Publish(key, key)
	})
}

// recalled says which of some keys have memos, and recalls none.
func recalled(d *Device, keys ...any) (there []any) {
	d.memos.mu.Lock()
	defer d.memos.mu.Unlock()
	for _, k := range keys {
		if el := d.memos.byKey[k]; el != nil && !el.Value.(cacheEntry[any, published]).value.Gone() {
			there = append(there, k)
		}
	}
	return there
}

func wantMemos(t *testing.T, when string, d *Device, want CacheStats) {
	t.Helper()
	if got := d.Memos(); got != want {
		t.Errorf("%s: %+v, want %+v", when, got, want)
	}
}

func TestMemo(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 8192})
	var first Buffer[byte]
	do(t, d, func(q *Queue) {
		if b, note, ok := q.Recall(1); ok || b.Len() != 0 || note != nil {
			t.Errorf("recalled %v, %v from nowhere", b, note)
		}
		m, ok := q.NewMemo(300, "memo")
		if !ok {
			t.Fatal("no memory")
		}
		if first = m.Buffer(); first.Len() != 300 || first.Slice().Len != 300 {
			t.Errorf("%+v", first)
		}
		m.Publish(1, "note")
		if m := d.Memory(); m.ByLabel["memo"] != 512 || m.ByTenant != (TenantBytes{Resident: 512}) || m.Evictable != 0 {
			t.Errorf("in the job: %+v", m)
		}
	})
	if m := d.Memory(); m.Used != 512 || m.Evictable != 512 {
		t.Errorf("after the job: %+v", m)
	}
	wantMemos(t, "published", d, CacheStats{Bytes: 512, Entries: 1, Misses: 1})
	do(t, d, func(q *Queue) {
		if b, note, ok := q.Recall(1); !ok || b != first || note != "note" {
			t.Errorf("recalled %+v, %v, %v, want %+v", b, note, ok, first)
		}
		if _, _, ok := q.Recall("1"); ok {
			t.Error("recalled by a key of another type")
		}
		if m := d.Memory(); m.Evictable != 0 {
			t.Errorf("nobody holds what a job recalled: %+v", m)
		}
	})
	if m := d.Memory(); m.Used != 512 || m.Evictable != 512 {
		t.Errorf("after the job that recalled it: %+v", m)
	}
	wantMemos(t, "recalled", d, CacheStats{Bytes: 512, Entries: 1, Hits: 1, Misses: 2})
}

// What was not published goes with its job, however that ends.
func TestMemoOfAJobThatFails(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 8192})
	for name, end := range map[string]func() error{
		"returns": func() error { return nil },
		"fails":   func() error { return errors.New("failed") },
		"panics":  func() error { panic("panicked") },
		"exits":   func() error { runtime.Goexit(); return nil },
	} {
		var ended sync.WaitGroup
		ended.Go(func() {
			defer func() { _ = recover() }()
			_ = d.Do(context.Background(), Job{Label: "job", Footprint: 256}, func(q *Queue) error {
				for range 3 {
					if _, ok := q.NewMemo(100, "memo"); !ok {
						t.Errorf("%s: no memory", name)
					}
				}
				return end()
			})
		})
		ended.Wait()
		idle(t, d)
	}
	wantMemos(t, "in the end", d, CacheStats{})
}

// A queue whose job has ended gives nothing.
func TestMemoAfterItsJob(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 8192})
	var q *Queue
	var late *Memo
	do(t, d, func(now *Queue) {
		q = now
		late, _ = q.NewMemo(1, "memo")
	})
	if _, ok := q.NewMemo(1, "memo"); ok {
		t.Error("memory for a job that has ended")
	}
	late.Publish("late", nil)
	publish(t, d, 1, 1)
	if _, _, ok := q.Recall(1); ok {
		t.Error("a job that has ended recalled something")
	}
	if got := recalled(d, "late", 1); fmt.Sprint(got) != "[1]" {
		t.Errorf("there are %v", got)
	}
}

// Memos stay within their limit: those used last.
func TestMemoLimit(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 16 << 10, MemoBytes: 2048})
	for k := range 4 {
		publish(t, d, k, 512)
	}
	do(t, d, func(q *Queue) { q.Recall(0) })
	publish(t, d, 4, 600) // takes the place of two
	if got := recalled(d, 0, 1, 2, 3, 4); fmt.Sprint(got) != "[0 3 4]" {
		t.Errorf("there are %v", got)
	}
	wantMemos(t, "full", d, CacheStats{Bytes: 1792, Entries: 3, Hits: 1, Evictions: 2})
	if m := d.Memory(); m.Used != 1792 || m.Evictable != 1792 {
		t.Errorf("%+v", m)
	}
	do(t, d, func(q *Queue) {
		if _, ok := q.NewMemo(2049, "memo"); ok {
			t.Error("a memo that is larger than all of them may be")
		}
		if _, ok := q.NewMemo(-1, "memo"); ok {
			t.Error("a memo of a negative size")
		}
		if _, ok := q.NewMemo(2048, "memo"); !ok {
			t.Error("no memory for one as large as all of them may be")
		}
	})

	odd := openFake(t, &fakeDriver{}, Config{MemoryBytes: 16 << 10, MemoBytes: 2000})
	do(t, odd, func(q *Queue) {
		if _, ok := q.NewMemo(1999, "memo"); ok {
			t.Error("a memo that takes more than all of them may")
		}
	})
	none := openFake(t, &fakeDriver{}, Config{MemoryBytes: 8192, MemoBytes: -1})
	do(t, none, func(q *Queue) {
		if _, ok := q.NewMemo(0, "memo"); ok {
			t.Error("a memo where there are to be none")
		}
	})
	half := openFake(t, &fakeDriver{}, Config{MemoryBytes: 8192})
	do(t, half, func(q *Queue) {
		if _, ok := q.NewMemo(4097, "memo"); ok {
			t.Error("a memo of more than half of the memory")
		}
		if _, ok := q.NewMemo(4096, "memo"); !ok {
			t.Error("no memo of half of the memory")
		}
	})
}

// There are so many of them at most, however small.
func TestMemoCount(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 1 << 20})
	for k := range maxMemos + 3 {
		publish(t, d, k, 1)
	}
	wantMemos(t, "full", d, CacheStats{Bytes: 256 * maxMemos, Entries: maxMemos, Evictions: 3})
	if got := recalled(d, 0, 2, 3, maxMemos+2); fmt.Sprint(got) != fmt.Sprint([]int{3, maxMemos + 2}) {
		t.Errorf("there are %v", got)
	}
}

// BenchmarkMemos is a look at as many memos as there may be.
func BenchmarkMemos(b *testing.B) {
	d, err := Open(&fakeDriver{}, Config{MemoryBytes: 1 << 20})
	if err != nil {
		b.Fatal(err)
	}
	for k := range maxMemos {
		if err := d.Do(b.Context(), Job{Label: "job"}, func(q *Queue) error {
			m, _ := q.NewMemo(1, "memo")
			m.Publish(k, nil)
			return nil
		}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		d.Memos()
	}
	if err := d.Close(); err != nil {
		b.Fatal(err)
	}
}

// A memo takes no memory from residents, and goes before them.
func TestMemosGoFirst(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 4096, MemoBytes: 4096})
	old := stored(t, d, 1024)
	publish(t, d, "a", 1024)
	publish(t, d, "b", 1024)
	r := stored(t, d, 1024)
	do(t, d, func(q *Queue) {
		if _, _, ok := q.Recall("a"); !ok {
			t.Fatal("gone without need")
		}
		m, ok := q.NewMemo(1024, "memo") // b goes for it
		if !ok {
			t.Fatal("no memory, and a memo that nobody holds")
		}
		if _, ok := q.NewMemo(1024, "memo"); ok {
			t.Error("a memo that took memory from somebody")
		}
		m.Publish("c", nil)
	})
	if got := recalled(d, "a", "b", "c"); fmt.Sprint(got) != "[a c]" || old.Gone() || r.Gone() {
		t.Errorf("there are %v; residents are gone: %v, %v", got, old.Gone(), r.Gone())
	}
	if m := d.Memory(); m.Refused != 0 || m.Evictions != 0 {
		t.Errorf("%+v", m)
	}
	k, err := AllocPersistent[byte](d, 1024, "state")
	if err != nil {
		t.Fatal(err)
	}
	if got := recalled(d, "a", "b", "c"); got != nil || old.Gone() || r.Gone() {
		t.Errorf("there are %v; residents are gone: %v, %v", got, old.Gone(), r.Gone())
	}
	wantMemos(t, "in the end", d, CacheStats{Hits: 1, Evictions: 3})
	do(t, d, func(q *Queue) {
		if _, _, ok := q.Recall("a"); ok {
			t.Error("recalled what was evicted")
		}
	})
	k.Free()
}

// What is kept for long lies where it would without memos: it leaves as much in one piece.
func TestMemosLeaveTheEndToSessions(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 8192})
	publish(t, d, "a", 2048)
	k, err := AllocPersistent[byte](d, 1024, "state")
	if err != nil {
		t.Fatal(err)
	}
	defer k.Free()
	publish(t, d, "b", 2048)
	if err := d.Do(context.Background(), Job{Label: "large", Footprint: 7168, Held: 1}, func(*Queue) error {
		return nil
	}); err != nil {
		t.Error(err) // without Held it would wait until the session ends
	}
}

// No memory goes to memos that jobs wait for.
func TestMemoWhileJobsWait(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 4096, MemoBytes: 4096})
	done := make(chan error, 1)
	if err := d.Do(context.Background(), Job{Label: "job", Footprint: 2048}, func(q *Queue) error {
		go func() {
			done <- d.Do(context.Background(), Job{Label: "larger", Footprint: 4096}, func(*Queue) error { return nil })
		}()
		for d.Memory().Waiting == 0 {
		}
		if _, ok := q.NewMemo(256, "memo"); ok {
			t.Error("a memo of memory that a job waits for")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	idle(t, d)
}

// Of two jobs that computed the same, one has done it for others; both have their memory.
func TestMemoPublishedTwice(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 8192})
	do(t, d, func(q *Queue) {
		m, _ := q.NewMemo(256, "memo")
		publish(t, d, 1, 512)
		m.Publish(1, "second")
		if mem := d.Memory(); mem.Used != 768 || mem.Evictable != 512 {
			t.Errorf("%+v", mem)
		}
	})
	if mem := d.Memory(); mem.Used != 512 || mem.Evictable != 512 {
		t.Errorf("%+v", mem)
	}
	do(t, d, func(q *Queue) {
		if b, note, ok := q.Recall(1); !ok || b.Len() != 512 || note != 1 {
			t.Errorf("%v, %v, %v", b, note, ok)
		}
	})
}

// What the device has evicted can be published again, and counts no more, whoever notices first.
func TestMemoPublishedAfterEviction(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 8192, MemoBytes: 2048})
	publish(t, d, 1, 1024)
	all, err := AllocPersistent[byte](d, 8192, "state")
	if err != nil {
		t.Fatal(err)
	}
	all.Free()
	publish(t, d, 1, 512)
	wantMemos(t, "again", d, CacheStats{Bytes: 512, Entries: 1, Evictions: 1})
	do(t, d, func(q *Queue) {
		if b, _, ok := q.Recall(1); !ok || b.Len() != 512 {
			t.Errorf("recalled %v, %v", b, ok)
		}
	})

	publish(t, d, 2, 1536)
	do(t, d, func(q *Queue) {
		q.Recall(1)
		do(t, d, func(q *Queue) { q.Recall(2) }) // used last, and evicted, as nobody holds it
		all, err := AllocPersistent[byte](d, 8192-512, "state")
		if err != nil {
			t.Fatal(err)
		}
		all.Free()
		publish(t, d, 3, 1536)
	})
	if got := recalled(d, 1, 2, 3); fmt.Sprint(got) != "[1 3]" {
		t.Errorf("there are %v: one that was evicted took the place of one that was not", got)
	}
}

// A fingerprint tells contents apart by keys that are the device's own, and gives its memory back.
func TestFingerprintOf(t *testing.T) {
	const n = 1001
	var all []Fingerprint
	for range 2 {
		d, done := openPoisoned(t, 1<<16)
		if err := d.Do(context.Background(), Job{Label: "job", Footprint: Bytes[byte](n) + FingerprintBytes()},
			func(q *Queue) error {
				b, err := Alloc[byte](q, n, "b")
				if err != nil {
					return err
				}
				var got [3]Fingerprint
				for i, last := range []byte{1, 2, 1} {
					content := make([]byte, n)
					content[n-1] = last
					if err := Upload(q, b, content); err != nil {
						return err
					}
					if got[i], err = FingerprintOf(q, b); err != nil {
						return err
					}
				}
				if got[0] != got[2] {
					t.Errorf("%v and %v of the same", got[0], got[2])
				}
				all = append(all, got[:2]...)
				return nil
			}); err != nil {
			t.Error(err)
		}
		if err := done(); err != nil {
			t.Error(err)
		}
	}
	numbers := map[uint64]bool{}
	for _, f := range all {
		numbers[f[0]], numbers[f[1]] = true, true
	}
	if len(numbers) != 8 {
		t.Errorf("fingerprints of two contents, of two devices each: %v", all)
	}
}

// Jobs that share memos under pressure find in them what was published, or nothing.
func TestMemosConcurrently(t *testing.T) {
	d, done := openPoisoned(t, 16<<10)
	const contents, users = 6, 6
	var hits atomic.Int64
	var wg sync.WaitGroup
	for u := range users {
		wg.Go(func() {
			for k := range 40 {
				i := (u*7 + k*k) % contents
				err := d.Do(context.Background(), Job{Label: "job", Footprint: int64(256 * (k % 5))},
					func(q *Queue) error {
						want, got := bytes.Repeat([]byte{byte(i)}, 1000+100*i), make([]byte, 1000+100*i)
						b, note, ok := q.Recall(i)
						if ok {
							hits.Add(1)
						} else {
							m, mine := q.NewMemo(len(want), "memo")
							if !mine {
								return nil
							}
							if err := errors.Join(Upload(q, m.Buffer(), want), q.Yield()); err != nil {
								return err
							}
							b, note = m.Buffer(), i
							m.Publish(i, note)
						}
						if err := errors.Join(Download(q, got, b), q.Yield()); err != nil {
							return err
						}
						if note != i || !bytes.Equal(got, want) {
							t.Errorf("memo %d of %v holds %x", i, note, got[:8])
						}
						return nil
					})
				if err != nil {
					t.Error(err)
				}
				if k%8 == 7 { // others take memory for a while
					if r, err := Store[byte](d, 6000, "frame"); err == nil {
						r.Drop()
						r.Release()
					} else if !errors.Is(err, driver.ErrOutOfMemory) {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	m, s := d.Memory(), d.Memos()
	if hits.Load() == 0 || s.Hits != uint64(hits.Load()) || s.Evictions == 0 {
		t.Errorf("%d hits, %+v: no use, or no pressure", hits.Load(), s)
	}
	if m.Used != s.Bytes || m.Evictable != s.Bytes || s.Bytes > m.Reserved/2 {
		t.Errorf("%+v; %+v", m, s)
	}
	if err := done(); err != nil {
		t.Error(err)
	}
}
