package kernels

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

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

// model is what memory has to behave like: a set of used blocks.
type model struct {
	t    *rapid.T
	m    *memory
	size int64
	used []block
	high int64
	free int // how often onFree was called
}

// gaps returns the free ranges, in order.
func (d *model) gaps() []extent {
	slices.SortFunc(d.used, func(a, b block) int { return int(a.off - b.off) })
	var out []extent
	at := int64(0)
	for _, b := range append(slices.Clone(d.used), block{extent: extent{d.size, 0}}) {
		if b.off > at {
			out = append(out, extent{at, b.off - at})
		}
		at = b.off + b.len
	}
	return out
}

func (d *model) largest() int64 {
	var n int64
	for _, g := range d.gaps() {
		n = max(n, g.len)
	}
	return n
}

func (d *model) inUse() (n int64) {
	for _, b := range d.used {
		n += b.len
	}
	return n
}

// got takes note of a block that memory handed out.
func (d *model) got(b block, need int64, label string) {
	if b.len != need || b.label != label || b.off%driver.Align != 0 {
		d.t.Fatalf("block %+v for %d bytes of %q", b, need, label)
	}
	fits := slices.DeleteFunc(d.gaps(), func(g extent) bool { return g.len < need })
	if !slices.ContainsFunc(fits, func(g extent) bool { return g.off <= b.off && b.off+b.len <= g.off+g.len }) {
		d.t.Fatalf("block %+v overlaps another or the end: free were %v", b, d.gaps())
	}
	d.used = append(d.used, b)
	d.high = max(d.high, d.inUse())
}

func (d *model) check(*rapid.T) {
	s := d.m.snapshot()
	byLabel := map[string]int64{}
	for _, b := range d.used {
		byLabel[b.label] += b.len
	}
	if s.Reserved != d.size || s.Used != d.inUse() || s.HighWater != d.high || s.Largest != d.largest() || !maps.Equal(s.ByLabel, byLabel) {
		d.t.Fatalf("%+v: used %d %v, high %d, largest %d", s, d.inUse(), byLabel, d.high, d.largest())
	}
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	if !slices.Equal(d.m.free, d.gaps()) {
		d.t.Fatalf("free list %v, gaps %v", d.m.free, d.gaps())
	}
}

func (d *model) checkRefusal(err error, need int64, label string) {
	var c *CapacityError
	if !errors.As(err, &c) || !errors.Is(err, driver.ErrOutOfMemory) {
		d.t.Fatalf("refusal of %d bytes: %v", need, err)
	}
	if c.Label != label || c.Needed != need || c.Total != d.size || c.Available != d.size-d.inUse() || c.Largest != d.largest() ||
		c.Never() != (need > d.size) {
		d.t.Fatalf("refusal of %d bytes of %q: %+v", need, label, c)
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
		t.Repeat(map[string]func(*rapid.T){
			"reserve": func(t *rapid.T) {
				n, l := size.Draw(t, "n"), label.Draw(t, "label")
				b, err := d.m.reserve(n, l)
				if need := roundUp(n); d.largest() < need {
					d.checkRefusal(err, need, l)
				} else if err != nil {
					t.Fatalf("reserve(%d) with %v free: %v", n, d.gaps(), err)
				} else {
					d.got(b, need, l)
				}
			},
			"release": func(t *rapid.T) {
				if len(d.used) == 0 {
					t.Skip("nothing to give back")
				}
				i := rapid.IntRange(0, len(d.used)-1).Draw(t, "i")
				b := d.used[i]
				d.used = slices.Delete(d.used, i, i+1)
				was := d.free
				if d.m.release(b); d.free != was+1 {
					t.Fatalf("onFree was called %d times", d.free-was)
				}
			},
			"": d.check,
		})
		// At the end everything goes back and is one piece.
		for len(d.used) > 0 {
			b := d.used[0]
			d.used = d.used[1:]
			d.m.release(b)
		}
		d.check(t)
		if !slices.Equal(d.m.free, []extent{{0, d.size}}) {
			t.Fatalf("free at the end: %v of %d", d.m.free, d.size)
		}
	})
}

// Goroutines that reserve and release never own the same bytes, and leave one free piece.
func TestMemoryConcurrently(t *testing.T) {
	const units = 64
	m := newMemory(plainMem(units * 256))
	var owner [units]atomic.Int32
	var wg sync.WaitGroup
	var served atomic.Int64
	for id := range 12 {
		wg.Go(func() {
			g := rand.New(rand.NewPCG(uint64(id), 9))
			for range 300 {
				b, err := m.reserve(int64(1+g.IntN(20)*256), fmt.Sprint(id%3))
				if err != nil {
					if !errors.Is(err, driver.ErrOutOfMemory) {
						t.Errorf("reserve: %v", err)
					}
					continue
				}
				served.Add(1)
				for u := b.off / 256; u < (b.off+b.len)/256; u++ {
					if was := owner[u].Swap(int32(id + 1)); was != 0 {
						t.Errorf("unit %d belongs to %d and to %d", u, was, id+1)
					}
				}
				if g.IntN(4) == 0 {
					time.Sleep(time.Duration(g.IntN(100)) * time.Microsecond)
				}
				for u := b.off / 256; u < (b.off+b.len)/256; u++ {
					owner[u].Store(0)
				}
				m.release(b)
			}
		})
	}
	wg.Wait()
	s := m.snapshot()
	if s.Used != 0 || len(s.ByLabel) != 0 || !slices.Equal(m.free, []extent{{0, units * 256}}) {
		t.Errorf("%+v, free %v", s, m.free)
	}
	if served.Load() == 0 {
		t.Errorf("nobody was served")
	}
}

func TestMemoryBlockGivenBackTwice(t *testing.T) {
	m := newMemory(plainMem(4 * 256))
	a, _ := m.reserve(256, "a")
	b, _ := m.reserve(512, "b")
	m.release(a)
	for _, twice := range []block{a, {extent{0, 512}, "c"}, {extent{0, 4 * 256}, "d"}, {extent{3 * 256, 256}, "e"}} {
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
	if !slices.Equal(m.free, []extent{{0, 4 * 256}}) {
		t.Errorf("free: %v", m.free)
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
		{CapacityError{Label: "regions", Needed: 256, Available: 256, Total: 1024, Largest: 256, Ahead: 3},
			"kernels: regions needs 256 bytes of device memory; 256 of 1024 are available, and 3 requests are ahead"},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
