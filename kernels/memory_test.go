package kernels

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels/driver"
)

// plainMem is memory that is nowhere.
type plainMem int64

func (m plainMem) Bytes() int64 { return int64(m) }
func (plainMem) Free() error    { return nil }

func TestRoundUp(t *testing.T) {
	for _, c := range [][2]int64{
		{math.MinInt64, 256}, {-1, 256}, {0, 256}, {1, 256}, {255, 256}, {256, 256}, {257, 512}, {1000, 1024},
		{maxBytes - 1, maxBytes}, {maxBytes, maxBytes}, {maxBytes + 1, maxBytes}, {math.MaxInt64, maxBytes},
	} {
		if got := roundUp(c[0]); got != c[1] {
			t.Errorf("roundUp(%d) is %d, want %d", c[0], got, c[1])
		}
	}
}

func TestBytes(t *testing.T) {
	if n := Bytes[byte](0); n != 256 {
		t.Errorf("0 bytes take %d", n)
	}
	if n := Bytes[uint32](65); n != 512 {
		t.Errorf("65 uint32 take %d", n)
	}
	if n := Bytes[driver.MaskStats](16); n != 1280 {
		t.Errorf("16 MaskStats take %d", n)
	}
	for _, n := range []int{math.MaxInt, math.MaxInt / 2, 1 << 61} {
		if b := Bytes[driver.MaskStats](n); b != maxBytes&^255 && b < maxBytes/2 || b+b+b+b < 0 {
			t.Errorf("%d MaskStats take %d", n, b)
		}
	}
}

// model is what memory has to behave like: a set of blocks, some of them of residents.
type model struct {
	t         *rapid.T
	m         *memory
	size      int64
	used      []block // scratch and session
	residents []*modelResident
	high      int64
	evictions int64
	free      int // how often onFree was called
}

type modelResident struct {
	*resident
	holders int
	gone    bool // dropped, and still held
}

// out returns all blocks, in order.
func (d *model) out() []block {
	out := slices.Clone(d.used)
	for _, r := range d.residents {
		out = append(out, r.block)
	}
	slices.SortFunc(out, func(a, b block) int { return int(a.off - b.off) })
	return out
}

// heap is the model of the heap.
func (d *model) heap() *heapModel {
	h := &heapModel{size: d.size}
	for _, b := range d.out() {
		h.out = append(h.out, extent{b.off, b.len})
	}
	return h
}

func (d *model) inUse() (n int64) {
	for _, b := range d.out() {
		n += b.len
	}
	return n
}

func (d *model) evictable() (n int64) {
	for _, r := range d.residents {
		if r.holders == 0 {
			n += r.len
		}
	}
	return n
}

// helps reports whether n bytes are free in one piece without the residents that nobody holds; for a memo, without the
// memos among them.
func (d *model) helps(n int64, t tenant) bool {
	h := d.heap()
	for _, r := range d.residents {
		if r.holders == 0 && (t != computed || r.tenant == computed) {
			h.out = slices.DeleteFunc(h.out, func(b extent) bool { return b.off == r.off })
		}
	}
	return h.largest() >= n
}

// reserve calls reserve and takes note of what it handed out and evicted.
func (d *model) reserve(n int64, t tenant, label string) (block, bool) {
	need := roundUp(n)
	fits, memos, helps := d.heap().largest() >= need, d.helps(need, computed), d.helps(need, t)
	b, err := d.m.reserve(n, t, label)
	if !helps {
		d.checkRefusal(err, need, label)
		return b, false
	}
	if err != nil {
		d.t.Fatalf("reserve(%d) with %v free, or to be had: %v", n, d.heap().gaps(), err)
	}
	// Nobody goes where there is room, and nobody who is held. Which of the others do is what TestHeapVictims is about.
	var gone []*modelResident
	d.residents = slices.DeleteFunc(d.residents, func(r *modelResident) bool {
		if r.gone || !r.resident.gone {
			return false
		}
		gone = append(gone, r)
		return true
	})
	d.checkMemos(t)
	if fits && slices.ContainsFunc(gone, func(r *modelResident) bool { return t != session || r.tenant != computed }) {
		d.t.Fatalf("%d residents evicted for %d bytes that were free", len(gone), need)
	}
	for _, r := range gone {
		if r.holders > 0 {
			d.t.Fatalf("resident %+v evicted with %d holders", r.block, r.holders)
		}
		if r.tenant == computed {
			continue
		}
		d.evictions++
		if memos {
			d.t.Fatalf("resident %+v evicted where memos would have done", r.block)
		}
	}
	if b.len != need || b.bytes != n || b.label != label || b.tenant != t || b.off%driver.Align != 0 {
		d.t.Fatalf("block %+v for %d bytes of %q", b, need, label)
	}
	if gaps := d.heap().gaps(); !slices.ContainsFunc(gaps, func(g extent) bool {
		return g.off <= b.off && b.off+b.len <= g.off+g.len
	}) {
		d.t.Fatalf("block %+v overlaps another or the end: free were %v", b, gaps)
	}
	return b, true
}

// checkMemos checks that no memo is left that nobody holds, where memory was asked for that sessions are to have.
func (d *model) checkMemos(t tenant) {
	for _, r := range d.residents {
		if t == session && r.tenant == computed && r.holders == 0 {
			d.t.Fatalf("memo %+v is still there", r.block)
		}
	}
}

func (d *model) check(*rapid.T) {
	d.high = max(d.high, d.inUse())
	s := d.m.snapshot()
	var want MemoryStats
	want.ByLabel = map[string]int64{}
	for _, b := range d.out() {
		want.ByLabel[b.label] += b.len
		switch b.tenant {
		case scratch:
			want.ByTenant.Scratch += b.len
		case session:
			want.ByTenant.Session += b.len
		case cached, computed:
			want.ByTenant.Resident += b.len
		}
	}
	want.Reserved, want.Used, want.HighWater, want.Largest = d.size, d.inUse(), d.high, d.heap().largest()
	want.Evictable, want.Evictions = d.evictable(), d.evictions
	if free := want.Reserved - want.Used; free > 0 {
		want.Fragmentation = 1 - float64(want.Largest)/float64(free)
	}
	if !reflect.DeepEqual(s, want) {
		d.t.Fatalf("%+v, want %+v", s, want)
	}
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	d.heap().check(d.t, d.m.heap)
	n := 0
	for _, r := range d.residents {
		if !r.gone {
			n++
		}
	}
	if len(d.m.residents) != n {
		d.t.Fatalf("%d residents, want %d", len(d.m.residents), n)
	}
}

func (d *model) checkRefusal(err error, need int64, label string) {
	var c *CapacityError
	if !errors.As(err, &c) || !errors.Is(err, driver.ErrOutOfMemory) {
		d.t.Fatalf("refusal of %d bytes: %v", need, err)
	}
	never := need > d.size
	if c.Label != label || c.Needed != need || c.Total != d.size || c.Available != d.size-d.inUse() ||
		c.Evictable != d.evictable() ||
		c.Largest != d.heap().largest() || c.Never() != never || never != (c.RetryAfter == 0) || c.RetryAfter < 0 ||
		c.RetryAfter > maxRetry {
		d.t.Fatalf("refusal of %d bytes of %q: %+v", need, label, c)
	}
}

// calls expects so many calls of onFree in f.
func (d *model) calls(want int, f func()) {
	was := d.free
	if f(); d.free != was+want {
		d.t.Fatalf("onFree was called %d times, want %d", d.free-was, want)
	}
}

func TestMemoryAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &model{t: t, size: driver.Align * rapid.Int64Range(1, 40).Draw(t, "size")}
		d.m = newMemory(plainMem(d.size + rapid.Int64Range(0, driver.Align-1).Draw(t, "tail")))
		d.m.onFree = func() {
			d.free++
			d.m.snapshot() // no lock is held
		}
		size := rapid.OneOf(rapid.Int64Range(0, 3000), rapid.Int64Range(0, d.size+1000))
		label := rapid.SampledFrom([]string{"frame", "regions", "scratch"})
		resident := func(t *rapid.T) *modelResident {
			if len(d.residents) == 0 {
				t.Skip("no residents")
			}
			return d.residents[rapid.IntRange(0, len(d.residents)-1).Draw(t, "i")]
		}
		remove := func(r *modelResident) {
			d.residents = slices.DeleteFunc(d.residents, func(x *modelResident) bool { return x == r })
		}
		release := func(r *modelResident) {
			r.holders--
			if r.gone && r.holders == 0 {
				remove(r)
			}
			calls := 0
			if r.holders == 0 {
				calls = 1
			}
			d.calls(calls, func() { d.m.letGo(r.resident) })
		}
		t.Repeat(map[string]func(*rapid.T){
			"reserve": func(t *rapid.T) {
				tenant := rapid.SampledFrom([]tenant{scratch, session}).Draw(t, "tenant")
				d.calls(0, func() {
					if b, ok := d.reserve(size.Draw(t, "n"), tenant, label.Draw(t, "label")); ok {
						d.used = append(d.used, b)
					}
				})
			},
			"release": func(t *rapid.T) {
				if len(d.used) == 0 {
					t.Skip("nothing to give back")
				}
				i := rapid.IntRange(0, len(d.used)-1).Draw(t, "i")
				b := d.used[i]
				d.used = slices.Delete(d.used, i, i+1)
				d.calls(1, func() { d.m.release(b) })
			},
			"shorten": func(t *rapid.T) {
				i := slices.IndexFunc(d.used, func(b block) bool { return b.room() > driver.Align })
				if i < 0 {
					t.Skip("nothing that can be shorter")
				}
				b := &d.used[i]
				n := driver.Align * rapid.Int64Range(1, b.room()/driver.Align-1).Draw(t, "units")
				want := *b
				want.len -= n
				want.bytes = want.len
				d.calls(1, func() { d.m.shorten(b, n) })
				if *b != want {
					t.Fatalf("%+v, want %+v", *b, want)
				}
			},
			"store": func(t *rapid.T) {
				tenant := rapid.SampledFrom([]tenant{cached, computed}).Draw(t, "tenant")
				if b, ok := d.reserve(size.Draw(t, "n"), tenant, label.Draw(t, "label")); ok {
					d.residents = append(d.residents, &modelResident{resident: d.m.store(b), holders: 1})
				}
			},
			"acquire": func(t *rapid.T) {
				r := resident(t)
				if ok := d.m.acquire(r.resident); ok == r.gone {
					t.Fatalf("acquire is %v", ok)
				} else if ok {
					r.holders++
				}
			},
			"let go": func(t *rapid.T) {
				r := resident(t)
				if r.holders == 0 {
					t.Skip("nobody holds it")
				}
				release(r)
			},
			"drop": func(t *rapid.T) {
				r := resident(t)
				calls := 0
				if r.holders == 0 {
					remove(r)
					calls = 1
				}
				r.gone = true
				d.calls(calls, func() { d.m.drop(r.resident) })
			},
			"": d.check,
		})
		// At the end everything goes back and is one piece.
		for len(d.used) > 0 {
			b := d.used[0]
			d.used = d.used[1:]
			d.m.release(b)
		}
		for _, r := range slices.Clone(d.residents) {
			for r.holders > 0 {
				release(r)
			}
		}
		d.check(t)
		d.residents = nil
		if err := d.m.close(); err != nil {
			t.Fatalf("close: %v", err)
		}
		d.heap().check(t, d.m.heap)
	})
}

// Goroutines that reserve and release never own the same bytes, and leave one free piece.
func TestMemoryConcurrently(t *testing.T) {
	const units = 64
	m := newMemory(plainMem(units * 256))
	var owner [units]atomic.Int32
	own := func(b block, was, is int) {
		for u := b.off / 256; u < (b.off+b.len)/256; u++ {
			if got := owner[u].Swap(int32(is)); got != int32(was) {
				t.Errorf("unit %d belongs to %d, not to %d", u, got, was)
			}
		}
	}
	var wg sync.WaitGroup
	var served, evicted atomic.Int64
	for id := range 12 {
		wg.Go(func() {
			g := seed.New(t, uint64(id), 9)
			for range 300 {
				kind := tenant(g.IntN(3))
				b, err := m.reserve(int64(1+g.IntN(20)*256), kind, fmt.Sprint(id%3))
				if err != nil {
					if !errors.Is(err, driver.ErrOutOfMemory) {
						t.Errorf("reserve: %v", err)
					}
					continue
				}
				served.Add(1)
				own(b, 0, id+1)
				if g.IntN(4) == 0 {
					runtime.Gosched()
				}
				if kind != cached {
					own(b, id+1, 0)
					m.release(b)
					continue
				}
				r := m.store(b)
				for range g.IntN(3) {
					own(b, id+1, 0)
					m.letGo(r)
					if runtime.Gosched(); !m.acquire(r) {
						evicted.Add(1)
						r = nil
						break
					}
					own(b, 0, id+1)
				}
				if r != nil {
					own(b, id+1, 0)
					m.drop(r)
					m.letGo(r)
				}
			}
		})
	}
	wg.Wait()
	s := m.snapshot()
	if s.Used != 0 || len(s.ByLabel) != 0 || s.ByTenant != (TenantBytes{}) || s.Evictable != 0 ||
		s.Largest != s.Reserved || s.Evictions != evicted.Load() {
		t.Errorf("%+v; %d evicted", s, evicted.Load())
	}
	if served.Load() == 0 || evicted.Load() == 0 {
		t.Errorf("%d served, %d evicted", served.Load(), evicted.Load())
	}
}

func TestMemoryBlockGivenBackTwice(t *testing.T) {
	m := newMemory(plainMem(4 * 256))
	a, _ := m.reserve(256, scratch, "a")
	b, _ := m.reserve(512, session, "b")
	m.release(a)
	for _, twice := range []block{a, {off: 0, len: 512}, {off: 0, len: 4 * 256}, {off: 3 * 256, len: 256}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v was given back twice and nobody said so", twice)
				}
			}()
			m.release(twice)
		}()
	}
	m.release(b)
	if s := m.snapshot(); s.Largest != s.Reserved {
		t.Errorf("%+v", s)
	}
}

// When to retry follows how fast memory came back.
func TestReturns(t *testing.T) {
	var r returns
	now := time.Now()
	if d := r.wait(1<<20, now); d != quietRetry {
		t.Errorf("nothing came back: %v", d)
	}
	for range 2000 { // 100 MB/s, for long
		now = now.Add(10 * time.Millisecond)
		r.add(1e6, now)
	}
	for _, c := range []struct {
		n        int64
		min, max time.Duration
	}{
		{1, minRetry, minRetry},
		{50e6, 480 * time.Millisecond, 520 * time.Millisecond},
		{1e9, 9600 * time.Millisecond, 10400 * time.Millisecond},
		{1e12, maxRetry, maxRetry},
		{math.MaxInt64, maxRetry, maxRetry},
	} {
		if d := r.wait(c.n, now); d < c.min || d > c.max {
			t.Errorf("%d bytes: %v, want %v to %v", c.n, d, c.min, c.max)
		}
	}
	if d := r.wait(50e6, now.Add(5*time.Second)); d < time.Second || d > 2*time.Second {
		t.Errorf("after a pause: %v", d)
	}
	if d := r.wait(50e6, now.Add(time.Hour)); d != quietRetry {
		t.Errorf("after an hour: %v", d)
	}
}

func TestCapacityErrorSaysWhy(t *testing.T) {
	for _, c := range []struct {
		err  CapacityError
		want string
	}{
		{CapacityError{Label: "reduce", Needed: 512, Available: 256, Total: 1024, Largest: 256},
			"kernels: reduce needs 512 bytes of device memory; 256 of 1024 are available"},
		{CapacityError{Label: "reduce", Needed: 512, Available: 768, Total: 1024, Largest: 256},
			"kernels: reduce needs 512 bytes of device memory; 768 of 1024 are available, at most 256 in one piece"},
		{CapacityError{Label: "reduce", Needed: 768, Available: 512, Evictable: 256, Total: 1024, Largest: 256,
			RetryAfter: 1500100 * time.Microsecond},
			"kernels: reduce needs 768 bytes of device memory; 512 of 1024 are available and 256 evictable, at " +
				"most 256 in one piece; try again in 1.5s"},
		{CapacityError{Label: "regions", Needed: 256, Available: 256, Total: 1024, Largest: 256, Ahead: 3},
			"kernels: regions needs 256 bytes of device memory; 256 of 1024 are available, and 3 requests are ahead"},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
