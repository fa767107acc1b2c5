package kernels

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels/driver"
)

type extent struct{ off, len int64 }

// heapModel is what a heap has to behave like: the set of blocks that are out.
type heapModel struct {
	size int64
	out  []extent // by offset
}

// gaps returns the free ranges, in order.
func (m *heapModel) gaps() []extent {
	var gaps []extent
	at := int64(0)
	for _, b := range append(slices.Clone(m.out), extent{m.size, 0}) {
		if b.off > at {
			gaps = append(gaps, extent{at, b.off - at})
		}
		at = b.off + b.len
	}
	return gaps
}

func (m *heapModel) largest() (n int64) {
	for _, g := range m.gaps() {
		n = max(n, g.len)
	}
	return n
}

// reporter is a *testing.T or *rapid.T.
type reporter interface {
	Helper()
	Fatalf(string, ...any)
}

func (m *heapModel) alloc(t reporter, h *heap, n int64, long bool) {
	t.Helper()
	gaps := m.gaps()
	off, ok := h.alloc(n, long)
	if fits := m.largest() >= n; ok != fits {
		t.Fatalf("alloc(%d) is %v with %v free", n, ok, gaps)
	}
	if !ok {
		return
	}
	i := slices.IndexFunc(gaps, func(g extent) bool { return g.off <= off && off+n <= g.off+g.len })
	if i < 0 || off%driver.Align != 0 {
		t.Fatalf("alloc(%d) is at %d with %v free", n, off, gaps)
	}
	if g := gaps[i]; long && off+n != g.off+g.len || !long && off != g.off {
		t.Fatalf("alloc(%d, %v) is at %d, not at its end of %v", n, long, off, g)
	}
	at, _ := slices.BinarySearchFunc(m.out, off, func(b extent, off int64) int { return int(b.off - off) })
	m.out = slices.Insert(m.out, at, extent{off, n})
}

func (m *heapModel) free(t reporter, h *heap, i int) {
	t.Helper()
	b := m.out[i]
	m.out = slices.Delete(m.out, i, i+1)
	if n, ok := h.free(b.off); !ok || n != b.len {
		t.Fatalf("free(%d) of %d bytes is %d, %v", b.off, b.len, n, ok)
	}
}

// check compares all that the heap knows with the model.
func (m *heapModel) check(t reporter, h *heap) {
	t.Helper()
	var out, gaps []extent
	var prev *span
	var filed int
	for s := h.first; s != nil; prev, s = s, s.next {
		if s.prev != prev || prev != nil && s.off != prev.off+prev.len || s.len <= 0 {
			t.Fatalf("span %+v after %+v", s, prev)
		}
		if s.free {
			gaps = append(gaps, extent{s.off, s.len})
		} else {
			out = append(out, extent{s.off, s.len})
			if h.live[s.off] != s {
				t.Fatalf("the span at %d is not the one that is found there", s.off)
			}
		}
	}
	if !slices.Equal(out, m.out) || !slices.Equal(gaps, m.gaps()) || len(h.live) != len(out) {
		t.Fatalf("out %v, want %v; free %v, want %v; %d found by offset", out, m.out, gaps, m.gaps(), len(h.live))
	}
	for c, s := range h.heads {
		if some := h.some[c/64]>>(c%64)&1 == 1; some != (s != nil) {
			t.Fatalf("class %d has spans: %v, bitmap: %v", c, s != nil, some)
		}
		for up := (*span)(nil); s != nil; up, s = s, s.down {
			if classOf(s.len) != c || !s.free || s.up != up {
				t.Fatalf("%+v is filed in class %d", s, c)
			}
			filed++
		}
	}
	if filed != len(gaps) {
		t.Fatalf("%d of %d free spans are filed", filed, len(gaps))
	}
	var avail int64
	for _, g := range gaps {
		avail += g.len
	}
	if h.avail != avail || h.largest() != m.largest() {
		t.Fatalf("%d bytes free, at most %d in one piece; want %d and %d", h.avail, h.largest(), avail, m.largest())
	}
}

func TestHeapAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &heapModel{size: driver.Align * rapid.Int64Range(0, 400).Draw(t, "size")}
		h := newHeap(m.size)
		t.Repeat(map[string]func(*rapid.T){
			"alloc": func(t *rapid.T) {
				n := rapid.OneOf(rapid.Int64Range(1, 8), rapid.SampledFrom([]int64{30, 37, 38}),
					rapid.Int64Range(1, 410)).Draw(t, "units")
				m.alloc(t, h, n*driver.Align, rapid.Bool().Draw(t, "long"))
			},
			"free": func(t *rapid.T) {
				if len(m.out) == 0 {
					t.Skip("nothing is out")
				}
				m.free(t, h, rapid.IntRange(0, len(m.out)-1).Draw(t, "i"))
			},
			"shorten": func(t *rapid.T) {
				i := slices.IndexFunc(m.out, func(b extent) bool { return b.len > driver.Align })
				if i < 0 {
					t.Skip("nothing that can be shorter is out")
				}
				n := driver.Align * rapid.Int64Range(1, m.out[i].len/driver.Align-1).Draw(t, "units")
				m.out[i].len -= n
				h.shorten(m.out[i].off, n)
			},
			"free nothing": func(t *rapid.T) {
				off := rapid.Int64Range(-1, m.size+driver.Align).Draw(t, "off")
				if slices.ContainsFunc(m.out, func(b extent) bool { return b.off == off }) {
					t.Skip("a block is there")
				}
				if _, ok := h.free(off); ok {
					t.Fatalf("free(%d) with %v out", off, m.out)
				}
			},
			"reset": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "dice") > 0 {
					t.Skip("rarely")
				}
				m.size = driver.Align * rapid.Int64Range(0, 400).Draw(t, "size")
				m.out = nil
				h.reset(m.size)
			},
			"": func(t *rapid.T) { m.check(t, h) },
		})
		for len(m.out) > 0 {
			m.free(t, h, 0)
		}
		m.check(t, h)
	})
}

// Classes are in order of size, hold about a sixteenth of a power of two, and end within the array.
func TestHeapClasses(t *testing.T) {
	for n := int64(driver.Align); n <= 1<<20; n += driver.Align {
		if c, d := classOf(n), classOf(n+driver.Align); d != c && d != c+1 {
			t.Fatalf("%d is of class %d, and %d of class %d", n, c, n+driver.Align, d)
		}
	}
	for s := range 60 - 8 {
		n := int64(driver.Align) << s
		if c, d := classOf(n), classOf(2*n-1); s >= 4 && d-c != 15 || d >= heapClasses {
			t.Errorf("%d is of class %d and %d of class %d", n, c, 2*n-1, d)
		}
		if last := classOf(maxBytes); last >= heapClasses {
			t.Errorf("class %d of %d", last, heapClasses)
		}
	}
}

// The same calls give the same offsets.
func TestHeapIsDeterministic(t *testing.T) {
	run := func() (offs []int64) {
		h := newHeap(1 << 20)
		g := seed.New(t, 1, 2)
		var out []int64
		for range 2000 {
			if len(out) > 0 && g.IntN(2) == 0 {
				i := g.IntN(len(out))
				h.free(out[i])
				out = slices.Delete(out, i, i+1)
			} else if off, ok := h.alloc(roundUp(g.Int64N(1<<15)), g.IntN(2) == 0); ok {
				out = append(out, off)
				offs = append(offs, off)
			}
		}
		return offs
	}
	if a, b := run(), run(); !slices.Equal(a, b) {
		t.Errorf("%v and %v", a, b)
	}
}

// A block of a size that came before goes where that was, though larger spans are free.
func TestHeapReusesTheSameSize(t *testing.T) {
	h := newHeap(1 << 24)
	const frame = 1001 * driver.Align
	a, _ := h.alloc(frame, false)
	if _, ok := h.alloc(driver.Align, false); !ok {
		t.Fatal("no room")
	}
	h.free(a)
	if b, ok := h.alloc(frame, false); !ok || b != a {
		t.Errorf("the second frame is at %d, the first was at %d", b, a)
	}
}

func FuzzHeap(f *testing.F) {
	f.Add([]byte{100, 0, 1, 0, 9, 0, 2, 1, 0})
	f.Add([]byte{255, 7, 200, 2, 30, 2, 31, 1, 0, 0, 30, 1, 1})
	f.Fuzz(func(t *testing.T, ops []byte) {
		if len(ops) < 2 || len(ops) > 400 {
			return
		}
		m := &heapModel{size: driver.Align * int64(binary.LittleEndian.Uint16(ops)%2000)}
		h := newHeap(m.size)
		for ops = ops[2:]; len(ops) >= 2; ops = ops[2:] {
			switch arg := int64(ops[1]) + 1; ops[0] % 4 {
			case 0:
				m.alloc(t, h, arg*driver.Align, false)
			case 1:
				if len(m.out) > 0 {
					m.free(t, h, int(arg-1)%len(m.out))
				}
			case 2:
				m.alloc(t, h, arg*driver.Align, true)
			case 3:
				m.alloc(t, h, arg*arg*driver.Align, arg%2 == 0)
			}
			m.check(t, h)
		}
	})
}

// The victims are those that a search through all choices finds.
func TestHeapVictims(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &heapModel{size: driver.Align * rapid.Int64Range(1, 60).Draw(t, "size")}
		h := newHeap(m.size)
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			if len(m.out) > 0 && rapid.IntRange(0, 2).Draw(t, "dice") == 0 {
				m.free(t, h, rapid.IntRange(0, len(m.out)-1).Draw(t, "i"))
			} else {
				m.alloc(t, h, driver.Align*rapid.Int64Range(1, 12).Draw(t, "units"), rapid.Bool().Draw(t, "long"))
			}
		}
		used := map[int64]int{} // by offset, those that may go
		var oldest []int64
		for i, v := range rapid.Permutation(m.out).Draw(t, "order") {
			if rapid.IntRange(0, 3).Draw(t, "held") > 0 {
				used[v.off] = i
				oldest = append(oldest, v.off)
			}
		}
		n := m.largest() + driver.Align*rapid.Int64Range(1, 20).Draw(t, "more")
		got := h.victims(n, slices.Values(oldest))
		m.check(t, h)

		// All runs of neighbours that may go, with the free ranges around them.
		type choice struct {
			youngest  int
			bytes, at int64
			offs      []int64
		}
		var best *choice
		for i := range m.out {
			var c choice
			for j := i; j < len(m.out); j++ {
				b := m.out[j]
				u, ok := used[b.off]
				if !ok {
					break
				}
				c.youngest, c.bytes, c.at, c.offs = max(c.youngest, u), c.bytes+b.len, m.out[i].off,
					append(slices.Clone(c.offs), b.off)
				from, to := int64(0), m.size
				if i > 0 {
					from = m.out[i-1].off + m.out[i-1].len
				}
				if j+1 < len(m.out) {
					to = m.out[j+1].off
				}
				if to-from < n {
					continue
				}
				if d := c; best == nil || d.youngest < best.youngest || d.youngest == best.youngest &&
					d.bytes < best.bytes {
					best = &d
				}
			}
		}
		switch {
		case best == nil && got != nil:
			t.Fatalf("victims(%d) is %v, and nothing helps", n, got)
		case best == nil:
			return
		case !slices.Equal(got, best.offs):
			t.Fatalf("victims(%d) is %v, want %v (out %v, used %v)", n, got, best.offs, m.out, used)
		}
		for _, off := range got {
			m.free(t, h, slices.IndexFunc(m.out, func(b extent) bool { return b.off == off }))
		}
		if _, ok := h.alloc(n, false); !ok {
			t.Fatalf("%d bytes are not free without %v", n, got)
		}
	})
}

// What an alloc and a free take does not depend on how many blocks are out.
func BenchmarkHeap(b *testing.B) {
	for _, live := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprint("live=", live), func(b *testing.B) {
			g := seed.New(b, 1, 2)
			size := func() int64 { return driver.Align * (1 + int64(g.ExpFloat64()*200)) }
			h := newHeap(int64(live) * 400 * driver.Align)
			out := make([]int64, live)
			for i := range out {
				out[i], _ = h.alloc(size(), g.IntN(2) == 0)
			}
			b.ReportAllocs()
			for b.Loop() {
				i := g.IntN(live)
				h.free(out[i])
				var ok bool
				if out[i], ok = h.alloc(size(), g.IntN(2) == 0); !ok {
					b.Fatal("no room")
				}
			}
		})
	}
}
