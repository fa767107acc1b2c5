package intake

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/polyscan/polyscan/server/internal/budget"
)

// Buffers that the transport drops without giving them back count until they are collected, and others until they are
// back: else the ledger fills up for good, and no message finds room any more.
func TestPoolCountsDroppedBuffers(t *testing.T) {
	memory := budget.New(64 << 20)
	p := (&Guard{cfg: Config{Memory: memory}}).Pool()
	back := p.Get(100_000)
	want := int64(cap(*back))
	for range 100 {
		p.Get(100_000)
	}
	for deadline := time.Now().Add(10 * time.Second); memory.Used(budget.Received) != want; runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes count as received after buffers were dropped, want %d", memory.Used(budget.Received),
				want)
		}
	}
	p.Put(back)
	if n := memory.Used(budget.Received); n != 0 {
		t.Errorf("%d bytes count as received once all are back", n)
	}
	for range 1000 { // the same buffers come again
		p.Put(p.Get(100_000))
	}
	runtime.GC()
	if n := memory.Used(budget.Received); n != 0 {
		t.Errorf("%d bytes count as received", n)
	}
	// What nobody takes goes, and counts until then.
	for deadline := time.Now().Add(10 * time.Second); memory.Used(budget.Idle) > 0; runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes are idle after buffers were not taken", memory.Used(budget.Idle))
		}
	}
	if n := memory.Used(budget.Received) + memory.Out(); n != 0 {
		t.Errorf("%d bytes count after all have gone", n)
	}
	runtime.KeepAlive(p)
}

// Buffers are as long as they were asked for, no two that are out share memory, and the ledger tells of each to the
// byte.
func TestPool(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		memory := budget.New(64 << 20)
		p := &pool{out: &ledger{memory: memory, made: map[uintptr]*made{}}} // without the clock of collections
		for i, size := range bufferSizes {
			p.shelves[i].size = size
		}
		type taken struct {
			b    *[]byte
			mark byte
		}
		var out []taken
		marks := byte(0)
		t.Repeat(map[string]func(*rapid.T){
			"get": func(t *rapid.T) {
				n := rapid.SampledFrom([]int{0, 1, 1025, 4096, 4097, 16384, 30_000, 32_769, 1 << 20, 1<<20 + 1}).Draw(t,
					"n")
				b := p.Get(n)
				if len(*b) != n || cap(*b) < n {
					t.Fatalf("%d of %d bytes, want %d", len(*b), cap(*b), n)
				}
				marks++
				for i := range *b {
					(*b)[i] = marks
				}
				out = append(out, taken{b, marks})
			},
			"put": func(t *rapid.T) {
				if len(out) == 0 {
					return
				}
				i := rapid.IntRange(0, len(out)-1).Draw(t, "which")
				x := out[i]
				for _, v := range *x.b {
					if v != x.mark {
						t.Fatal("two have the same buffer")
					}
				}
				*x.b = (*x.b)[:len(*x.b)/2] // as frames with padding come back
				p.Put(x.b)
				out = append(out[:i], out[i+1:]...)
			},
			"trim": func(*rapid.T) { p.trim() },
			"another pool's": func(*rapid.T) {
				b := make([]byte, 5000)
				p.Put(&b)
			},
			"": func(t *rapid.T) {
				var received, idle int64
				for _, x := range out {
					received += int64(cap(*x.b))
				}
				for i := range p.shelves {
					for _, b := range p.shelves[i].idle {
						idle += int64(cap(*b))
					}
				}
				if r, i := memory.Used(budget.Received), memory.Used(budget.Idle); r != received || i != idle {
					t.Fatalf("%d bytes received and %d idle, want %d and %d", r, i, received, idle)
				}
			},
		})
		for _, x := range out {
			p.Put(x.b)
		}
		p.trim()
		p.trim()
		if n := len(p.out.made); n != 0 || memory.Used(budget.Idle) != 0 {
			t.Errorf("%d buffers and %d bytes are left", n, memory.Used(budget.Idle))
		}
	})
}

// Buffers come and go on all processors while others are lost and collected.
func TestPoolAtOnce(t *testing.T) {
	memory := budget.New(64 << 20)
	p := (&Guard{cfg: Config{Memory: memory}}).Pool()
	var all sync.WaitGroup
	for k := range 4 {
		all.Go(func() {
			for i := range 2000 {
				b := p.Get(1 + i*k%40_000)
				(*b)[0] = byte(k)
				if i%50 == 0 {
					continue // lost
				}
				if (*b)[0] != byte(k) {
					t.Error("two have the same buffer")
				}
				p.Put(b)
			}
		})
	}
	all.Wait()
	for deadline := time.Now().Add(10 * time.Second); memory.Used(budget.Received) != 0; runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes count as received once all are back or lost", memory.Used(budget.Received))
		}
	}
	runtime.KeepAlive(p)
}

// What the buffer of a data frame costs, beside what it holds.
func BenchmarkPool(b *testing.B) {
	p := (&Guard{cfg: Config{Memory: budget.New(64 << 20)}}).Pool()
	b.ReportAllocs()
	for b.Loop() {
		p.Put(p.Get(16 << 10))
	}
}
