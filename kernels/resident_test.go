package kernels

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/polyscan/polyscan/kernels/driver"
)

// stored stores n bytes and lets go of them.
func stored(t *testing.T, d *Device, n int) *Resident[byte] {
	t.Helper()
	r, err := Store[byte](d, n, "resident")
	if err != nil {
		t.Fatal(err)
	}
	r.Release()
	return r
}

func TestStore(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 4096})
	r, err := Store[uint32](d, 100, "frame")
	if err != nil {
		t.Fatal(err)
	}
	if r.Len() != 100 || r.Buffer().Len() != 100 || r.Buffer().Slice().Len != 400 || r.Gone() {
		t.Errorf("%+v", r)
	}
	if m := d.Memory(); m.ByLabel["frame"] != 512 || m.ByTenant != (TenantBytes{Resident: 512}) || m.Evictable != 0 {
		t.Errorf("held: %+v", m)
	}
	r.Release()
	if m := d.Memory(); m.ByLabel["frame"] != 512 || m.Evictable != 512 {
		t.Errorf("let go: %+v", m)
	}
	for range 2 {
		if b, ok := r.Acquire(); !ok || b != r.Buffer() {
			t.Errorf("%+v, %v", b, ok)
		}
	}
	r.Release()
	if m := d.Memory(); m.Evictable != 0 {
		t.Errorf("held once more: %+v", m)
	}
	r.Drop()
	r.Drop()
	if b, ok := r.Acquire(); ok || b.Len() != 0 || !r.Gone() {
		t.Errorf("dropped: %+v, %v", b, ok)
	}
	if m := d.Memory(); m.Used != 512 || m.Evictable != 0 {
		t.Errorf("dropped and held: %+v", m)
	}
	r.Release()
	idle(t, d)
	r.Drop()
	func() {
		defer func() {
			if p := fmt.Sprint(recover()); !strings.Contains(p, `"frame" released, and nobody holds it`) {
				t.Errorf("Release once too often: %v", p)
			}
		}()
		r.Release()
	}()
	idle(t, d)

	var a *ArgError
	if _, err := Store[byte](d, -1, "less"); !errors.As(err, &a) || a.Op != "Store" || a.Field != "less" {
		t.Errorf("a negative length: %v", err)
	}
	for _, n := range []int{4096, math.MaxInt, math.MaxInt / 8} {
		var c *CapacityError
		if _, err := Store[uint64](d, n, "more"); !errors.As(err, &c) || !c.Never() || c.RetryAfter != 0 {
			t.Errorf("%d more: %v", n, err)
		}
	}
}

// Pressure takes what was let go longest ago, no more than it needs, and nothing where that would not help.
func TestEviction(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 8 * 1024})
	var r []*Resident[byte]
	for range 8 {
		r = append(r, stored(t, d, 1024))
	}
	if b, ok := r[0].Acquire(); !ok || b.Len() != 1024 {
		t.Fatal("gone without need")
	}
	r[0].Release() // now it is the youngest
	if _, ok := r[4].Acquire(); !ok {
		t.Fatal("gone without need")
	}
	gone := func(when string, want ...bool) {
		t.Helper()
		for i, w := range want {
			if r[i].Gone() != w {
				t.Errorf("%s: resident %d is gone: %v", when, i, !w)
			}
		}
	}
	// No 5 KiB are to be had in one piece while the fourth is held.
	k, err := AllocPersistent[byte](d, 5<<10, "state")
	var c *CapacityError
	if !errors.As(err, &c) || c.Available != 0 || c.Evictable != 7<<10 || c.Never() || c.RetryAfter <= 0 {
		t.Fatalf("%v, %v", k, err)
	}
	gone("refused", false, false, false, false, false, false, false, false)

	if k, err = AllocPersistent[byte](d, 1, "state"); err != nil {
		t.Fatal(err)
	}
	gone("1 byte", false, true, false, false, false, false, false, false)
	k.Free()
	if err := d.Do(context.Background(), Job{Label: "job", Footprint: 3 << 10}, func(*Queue) error {
		return nil
	}); err != nil {
		t.Error(err)
	}
	gone("3 KiB", false, true, true, true, false, false, false, false)
	if m := d.Memory(); m.Evictions != 3 || m.Evictable != 4<<10 {
		t.Errorf("%+v", m)
	}
	r[4].Release()
	d.Memory()
	for _, r := range r {
		r.Drop()
	}
	idle(t, d)
}

// A job that waits for memory gets it as soon as a resident is let go.
func TestLettingGoWakesWhoWaits(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 4096})
	r, err := Store[byte](d, 3000, "frame")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		done <- d.Do(context.Background(), Job{Label: "job", Footprint: 2048}, func(*Queue) error { return nil })
	}()
	for d.Memory().Waiting == 0 {
	}
	r.Release()
	if err := <-done; err != nil || !r.Gone() {
		t.Errorf("%v, gone: %v", err, r.Gone())
	}
	idle(t, d)
}

// Close takes residents that nobody holds, and reports others.
func TestCloseWithResidents(t *testing.T) {
	f := &fakeDriver{}
	d, err := Open(f, Config{MemoryBytes: 4096})
	if err != nil {
		t.Fatal(err)
	}
	left := stored(t, d, 1000)
	held, err := Store[byte](d, 300, "held")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); !errors.Is(err, ErrLeak) || !strings.Contains(err.Error(), "512 bytes map[held:512]") {
		t.Errorf("Close: %v", err)
	}
	if !left.Gone() {
		t.Errorf("a resident outlives its device")
	}
	held.Drop() // too late, and harmless
	held.Release()
	left.Drop()
	if n := f.open(); n != [4]int{} {
		t.Errorf("left open: %v", n)
	}
	if _, err := Store[byte](d, 1, "x"); !errors.Is(err, ErrClosed) {
		t.Errorf("Store: %v", err)
	}
}

// Users that share residents under pressure find in them what was uploaded, or that they are gone.
func TestResidentsConcurrently(t *testing.T) {
	d, done := openPoisoned(t, 16<<10)
	const frames, users = 6, 6
	var mu sync.Mutex
	var cache [frames]*Resident[byte]
	ctx := context.Background()
	var hits, misses atomic.Int64
	// get returns a frame that is held, uploaded where it has to be.
	get := func(i int) (*Resident[byte], error) {
		mu.Lock()
		defer mu.Unlock()
		if r := cache[i]; r != nil {
			if _, ok := r.Acquire(); ok {
				hits.Add(1)
				return r, nil
			}
		}
		misses.Add(1)
		r, err := Store[byte](d, 4000, "frame")
		if err != nil {
			return nil, err
		}
		if err := d.Do(ctx, Job{Label: "upload"}, func(q *Queue) error {
			return Upload(q, r.Buffer(), bytes.Repeat([]byte{byte(i)}, 4000))
		}); err != nil {
			return nil, err
		}
		cache[i] = r
		return r, nil
	}
	var wg sync.WaitGroup
	for u := range users {
		wg.Go(func() {
			for k := range 40 {
				i := (u*7 + k*k) % frames
				r, err := get(i)
				if errors.Is(err, driver.ErrOutOfMemory) {
					continue // all are held
				}
				if err != nil {
					t.Error(err)
					return
				}
				got := make([]byte, 4000)
				if err := d.Do(ctx, Job{Label: "read"},
					func(q *Queue) error { return Download(q, got, r.Buffer()) }); err != nil {
					t.Error(err)
				}
				if !bytes.Equal(got, bytes.Repeat([]byte{byte(i)}, 4000)) {
					t.Errorf("frame %d holds %x", i, got[:8])
				}
				r.Release()
			}
		})
	}
	wg.Wait()
	if hits.Load() == 0 || misses.Load() <= frames {
		t.Errorf("%d hits, %d misses: no pressure", hits.Load(), misses.Load())
	}
	for _, r := range cache {
		if r != nil {
			r.Drop()
		}
	}
	idle(t, d)
	if err := done(); err != nil {
		t.Error(err)
	}
}

// What a Store costs that evicts the oldest of many.
func BenchmarkEviction(b *testing.B) {
	for _, residents := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint("residents=", residents), func(b *testing.B) {
			m := newMemory(plainMem(residents * 1024))
			store := func() {
				blk, err := m.reserve(1024, cached, "frame")
				if err != nil {
					b.Fatal(err)
				}
				m.letGo(m.store(blk))
			}
			for range residents {
				store()
			}
			b.ReportAllocs()
			for b.Loop() {
				store()
			}
		})
	}
}

// What a refusal costs where many could go and none helps: every second is held.
func BenchmarkEvictionInVain(b *testing.B) {
	for _, residents := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint("residents=", residents), func(b *testing.B) {
			m := newMemory(plainMem(residents * 1024))
			for i := range residents {
				blk, err := m.reserve(1024, cached, "frame")
				if err != nil {
					b.Fatal(err)
				}
				if r := m.store(blk); i%2 == 0 {
					m.letGo(r)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := m.reserve(2048, scratch, "job"); err == nil {
					b.Fatal("no refusal")
				}
			}
		})
	}
}
