package budget

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/polyscan/polyscan/kernels"
)

// share is one of a budget, and what it is known to have.
type share struct {
	*Share
	kind          Kind
	taken, filled int64
}

func (s *share) became(want *[numKinds]int64, filled int64) {
	want[s.kind] += filled - s.filled
	want[Reserved] -= filled - s.filled
	s.filled = filled
}

// What is out is counted by kind, never exceeds the whole, and comes back to the byte.
func TestKinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := rapid.Int64Range(2<<20, 64<<20).Draw(t, "whole")
		b := New(whole)
		want := [numKinds]int64{}
		var back []func()
		var shares []*share
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // nobody waits
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				k, n := Kind(rapid.IntRange(0, int(numKinds)-1).Draw(t, "kind")), rapid.Int64Range(0, whole*2).Draw(t, "n")
				before := b.Used(k)
				release, ok := b.Try(k, n)
				if ok {
					want[k] += n
					back = append(back, func() { release(); want[k] -= n })
				} else if b.Used(k) != before {
					t.Error("a refusal was counted")
				}
			},
			"take both": func(t *rapid.T) {
				n, m := rapid.Int64Range(0, whole).Draw(t, "n"), rapid.Int64Range(0, whole).Draw(t, "m")
				before := b.Used(Reserved)
				first, second, err := b.TakeBoth(ctx, n, m)
				if err != nil {
					return
				}
				if taken := b.Used(Reserved) - before; taken > 0 {
					if m <= SmallShare {
						m = 0
					}
					m = min(m, taken)
					want[Reserved] += taken
					shares = append(shares, &share{Share: first, kind: Decoding, taken: taken - m},
						&share{Share: second, kind: Results, taken: m})
				}
			},
			"fill": func(t *rapid.T) {
				if len(shares) > 0 {
					s := rapid.SampledFrom(shares).Draw(t, "which")
					n := rapid.Int64Range(0, s.taken).Draw(t, "n")
					s.Fill(n)
					s.became(&want, n)
				}
			},
			"give a share back": func(t *rapid.T) { // once or again
				if len(shares) > 0 {
					s := rapid.SampledFrom(shares).Draw(t, "which")
					s.Release()
					s.became(&want, 0)
					want[Reserved] -= s.taken
					s.taken = 0
				}
			},
			"give back": func(t *rapid.T) {
				if len(back) > 0 {
					i := rapid.IntRange(0, len(back)-1).Draw(t, "which")
					back[i]()
					back = append(back[:i], back[i+1:]...)
				}
			},
			"": func(t *rapid.T) {
				sum := int64(0)
				for k := range numKinds {
					if b.Used(k) != want[k] {
						t.Fatalf("%s: %d, want %d", Kinds[k], b.Used(k), want[k])
					}
					sum += want[k]
				}
				if sum > whole {
					t.Fatalf("%d of %d bytes are out", sum, whole)
				}
			},
		})
	})
}

// The fuller the heap is the more classes get nothing; small shares are no matter, and line-scan always gets its own.
// What nobody uses counts where the heap is beyond its limit.
func TestHeapSheds(t *testing.T) {
	var live, objects int64
	b := New(1 << 30)
	b.Heap = &Heap{Read: func() (int64, int64, int64, int64) { return live, objects, 1000, 0 }}
	for _, c := range []struct {
		live, objects      int64
		batch, interactive bool
	}{{0, 0, true, true}, {750, 800, true, true}, {751, 800, false, true}, {900, 1000, false, true},
		{901, 901, false, false}, {5000, 5000, false, false}, {10, 1000, true, true}, {10, 1001, false, false}} {
		live, objects = c.live, c.objects
		used := live
		if objects > 1000 {
			used = objects
		}
		b.Heap.next.Store(0)
		for class, want := range map[kernels.Class]bool{kernels.Batch: c.batch, kernels.Interactive: c.interactive,
			kernels.LineScan: true} {
			ctx := kernels.WithClass(t.Context(), class)
			share, err := b.Take(ctx, Results, SmallShare+1)
			var full *FullError
			if (err == nil) != want || err != nil && (!errors.As(err, &full) || full.Class != class || full.Used != used) {
				t.Errorf("%d bytes, %v: %v", used, class, err)
			}
			if err == nil {
				share.Release()
			}
			if share, err := b.Take(ctx, Results, SmallShare); err != nil {
				t.Errorf("a small share: %v", err)
			} else {
				share.Release()
			}
		}
	}
	if b.Heap.Shed(kernels.Batch) != 5 || b.Heap.Shed(kernels.Interactive) != 3 || b.Heap.Shed(kernels.LineScan) != 0 {
		t.Errorf("%d, %d and %d were shed", b.Heap.Shed(kernels.Batch), b.Heap.Shed(kernels.Interactive),
			b.Heap.Shed(kernels.LineScan))
	}
	if b.Used(Results) != 0 {
		t.Errorf("%d bytes are out", b.Used(Results))
	}
}

// The heap of this program is seen to grow.
func TestHeapIsRead(t *testing.T) {
	h := &Heap{}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(3 << 30))
	runtime.GC() // the garbage of other tests is no garbage before
	before := h.Live()
	kept := make([]byte, 64<<20)
	for deadline := time.Now().Add(10 * time.Second); h.Live() < before+32<<20; time.Sleep(often) {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes, %d before", h.Live(), before)
		}
		garbage = make([]byte, 16<<20)
	}
	kept[0] = 1
	if limit := h.limit.Load(); limit != 3<<30 {
		t.Errorf("a limit of %d bytes, the runtime was told 3 GiB", limit)
	}
}

var garbage []byte

// Messages find room as long as there is some beside all that is out, and small and urgent ones beyond; what waits for
// its share doesn't wait for messages, since those who wait hold some.
func TestMessages(t *testing.T) {
	const mb = 1 << 20
	b := New(64 * mb)
	for name, c := range map[string]struct {
		results, received, n int64
		urgent, want         bool
	}{
		"the first":                {0, 0, 32 * mb, false, true},
		"more than half":           {0, 0, 33 * mb, false, false},
		"beside others":            {0, 20 * mb, 12 * mb, false, true},
		"too much beside others":   {0, 21 * mb, 12 * mb, false, false},
		"beside results":           {52 * mb, 0, 12 * mb, false, true},
		"too much beside results":  {53 * mb, 0, 12 * mb, false, false},
		"a small one":              {64 * mb, 32 * mb, mb, false, true},
		"strips":                   {64 * mb, 32 * mb, 16 * mb, true, true},
		"strips beside small ones": {64 * mb, 48 * mb, 8 * mb, true, true},
		"too many small ones":      {64 * mb, 48 * mb, mb, false, false},
		"too many large strips":    {64 * mb, 49 * mb, 8 * mb, true, false},
		"strips beside large ones": {64 * mb, 63 * mb, mb, true, true},
		"too many strips":          {64 * mb, 64 * mb, mb, true, false},
	} {
		share, err := b.Take(t.Context(), Results, c.results)
		if err != nil {
			t.Fatal(err)
		}
		b.Count(Received, c.received)
		if got := b.Admit(Expected, c.n, c.urgent); got != c.want {
			t.Errorf("%s: %t", name, got)
		} else if got {
			b.Count(Expected, -c.n)
		}
		b.Count(Received, -c.received)
		share.Release()
		if n := b.Out(); n != 0 {
			t.Errorf("%s: %d bytes are out", name, n)
		}
	}
	// What others have let grow is in the way of a connection's second strip, and not of its first.
	b.Count(Requests, 1000*mb)
	if b.Admit(Expected, mb, true) || !b.AdmitStrip(Expected, mb) {
		t.Error("requests that have grown are not in the way of strips, or are in that of a first one")
	}
	b.Count(Expected, 63*mb)
	if b.AdmitStrip(Expected, mb) {
		t.Error("there is room for strips without end")
	}
	b.Count(Expected, -64*mb)
	b.Count(Requests, -1000*mb)
	if !b.Admit(Received, 32*mb, false) {
		t.Fatal("no room")
	}
	share, err := b.Take(t.Context(), Results, 64*mb)
	if err != nil {
		t.Fatal(err)
	}
	share.Release()
}

// Recipes that were stored before with more than they may take now keep no messages out; what they may take counts.
func TestRecipesStoredBefore(t *testing.T) {
	const mb = 1 << 20
	b := New(64 * mb)
	b.MaxRecipes = 16 * mb
	b.Count(Recipes, 1000*mb)
	if !b.Admit(Expected, 32*mb, false) {
		t.Error("no room beside recipes that were there before")
	}
	b.Count(Expected, -32*mb)
	share, err := b.Take(t.Context(), Results, 32*mb)
	if err != nil {
		t.Fatal(err)
	}
	defer share.Release()
	if b.Admit(Expected, 17*mb, false) {
		t.Error("the share of recipes does not count")
	}
	if !b.Admit(Expected, 16*mb, false) {
		t.Error("there is room for just that")
	}
}

// Whoever waits for a share has it told each second, until there is one or the call ends.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(4 << 20)
		var told atomic.Int32 // the ledger tells from a goroutine of its own
		b.Waiting = func() { told.Add(1) }
		share, err := b.Take(t.Context(), Results, 4<<20)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		if _, err := b.Take(ctx, Results, 2<<20); err != context.DeadlineExceeded || told.Load() != 2 {
			t.Errorf("%v, told %d times, want 2", err, told.Load())
		}
		time.AfterFunc(1500*time.Millisecond, share.Release)
		again, err := b.Take(t.Context(), Results, 2<<20)
		if err != nil || told.Load() != 3 {
			t.Errorf("%v, told %d times, want 3", err, told.Load())
		}
		again.Release()
		if _, err := b.Take(ctx, Results, 2<<20); err == nil {
			t.Error("a call that has ended takes a share")
		}
		time.Sleep(10 * time.Second)
		if n := told.Load(); n != 3 {
			t.Errorf("told %d times after all have their shares", n)
		}
	})
}

// What is refused counts at no time: a strip finds its room while large messages are refused beside it.
func TestRefusalsDontCount(t *testing.T) {
	b := New(64 << 20)
	if !b.Admit(Received, b.Messages, false) {
		t.Fatal("no room")
	}
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if b.Admit(Expected, b.Messages, false) {
					t.Error("there was room for a large message")
					return
				}
			}
		})
	}
	for i := range 20_000 {
		if !b.Admit(Expected, 1000, true) {
			t.Errorf("strip %d was refused", i)
			break
		}
		b.Count(Expected, -1000)
		if i%100 == 0 {
			runtime.Gosched()
		}
	}
	close(stop)
	all.Wait()
}

// A call holds what it has read last, until it ends; what comes then is not counted.
func TestRequest(t *testing.T) {
	const mb = 1 << 20
	b := New(64 * mb)
	ctx, end := b.WithRequest(t.Context())
	r := RequestOf(ctx)
	for _, c := range []struct {
		n, want int64
		ok      bool
	}{{10 * mb, 10 * mb, true}, {30 * mb, 30 * mb, true}, {50 * mb, 0, false}, {5 * mb, 5 * mb, true}, {0, 0, true},
		{7 * mb, 7 * mb, true}} {
		if ok := r.Hold(c.n); ok != c.ok || b.Used(Requests) != c.want {
			t.Errorf("%d bytes: %t, %d are held", c.n, ok, b.Used(Requests))
		}
	}
	// What it shares with others is theirs to count.
	letGo := 0
	share := func() { r.Share(func() { letGo++ }) }
	share()
	if b.Used(Requests) != 0 || letGo != 0 {
		t.Errorf("a share: %d bytes are held, and it was let go %d times", b.Used(Requests), letGo)
	}
	r.Hold(mb)
	if letGo != 1 {
		t.Errorf("a share is let go %d times at the next message", letGo)
	}
	share()
	end()
	if letGo != 2 {
		t.Errorf("two shares are let go %d times by the end", letGo)
	}
	if ok := r.Hold(mb); !ok || b.Used(Requests) != 0 {
		t.Errorf("after the end: %t, %d are held", ok, b.Used(Requests))
	}
	if share(); letGo != 3 {
		t.Errorf("three shares are let go %d times after the end", letGo)
	}
	if !RequestOf(t.Context()).Hold(1 << 40) {
		t.Error("a call without a ledger is refused")
	}
	if RequestOf(t.Context()).Share(func() { letGo++ }); letGo != 4 {
		t.Error("a call without a ledger holds a share")
	}
}

// What is given back after a collection is garbage until the next one, and no garbage where none has been since it
// came: the runtime doesn't call that live.
func TestGarbage(t *testing.T) {
	const mb = 1 << 20
	collections := int64(0)
	b := New(64 * mb)
	b.Heap = &Heap{Read: func() (int64, int64, int64, int64) { return 0, 0, 1 << 40, collections }}
	want := func(garbage int64) {
		t.Helper()
		b.Heap.next.Store(0)
		if n := b.Heap.Garbage(); n != garbage {
			t.Errorf("%d bytes of garbage, want %d", n, garbage)
		}
	}
	share, err := b.Take(t.Context(), Results, 9*mb)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := b.WithRequest(t.Context())
	share.Fill(8 * mb)
	RequestOf(ctx).Hold(4 * mb)
	share.Fill(5 * mb)
	want(0)
	collections++
	share.Fill(3 * mb)
	want(2 * mb)
	end()
	want(6 * mb)
	share.Release()
	share.Release()
	want(9 * mb)
	if n := b.Out(); n != 0 {
		t.Errorf("%d bytes are out", n)
	}
	collections++
	want(0)

	// Only what was there at the collection is in what it found live.
	if share, err = b.Take(t.Context(), Results, 9*mb); err != nil {
		t.Fatal(err)
	}
	share.Fill(6 * mb)
	collections++
	share.FillAll()
	share.Release()
	want(6 * mb)
}

// What was made counts as such where it is more than what was taken, too.
func TestFilledBeyond(t *testing.T) {
	const mb = 1 << 20
	b := New(64 * mb)
	share, err := b.Take(t.Context(), Results, 4*mb)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ n, filled, reserved int64 }{{mb, mb, 3 * mb}, {6 * mb, 6 * mb, 0}, {2 * mb, 2 * mb, 2 * mb}} {
		share.Fill(c.n)
		if b.Used(Results) != c.filled || b.Used(Reserved) != c.reserved {
			t.Errorf("%d filled: %d are there and %d reserved", c.n, b.Used(Results), b.Used(Reserved))
		}
	}
	share.Add(mb)
	share.FillAll()
	if b.Used(Results) != 4*mb || b.Used(Reserved) != 0 {
		t.Errorf("all filled: %d are there and %d reserved", b.Used(Results), b.Used(Reserved))
	}
	share.Release()
	if share.Fill(mb); b.Out() != 0 {
		t.Errorf("%d bytes are out", b.Out())
	}
	var none *Share
	none.Fill(mb)
	none.Release()
}

// What shapes have asked for is reserved until it is written; what they need no more is taken of that first. Messages
// count all of it.
func TestRequestWritten(t *testing.T) {
	const mb = 1 << 20
	b := New(64 * mb)
	ctx, end := b.WithRequest(t.Context())
	r := RequestOf(ctx)
	r.Hold(2 * mb)
	want := func(what string, written, reserved int64) {
		t.Helper()
		if b.Used(Requests) != written || b.Used(Unwritten) != reserved {
			t.Errorf("%s: %d are there and %d reserved", what, b.Used(Requests), b.Used(Unwritten))
		}
	}
	r.More(20 * mb)
	want("asked", 2*mb, 20*mb)
	if b.Admit(Received, 32*mb, false) {
		t.Error("there is room for messages where shapes have asked for it")
	}
	r.Written(5 * mb)
	want("written", 7*mb, 15*mb)
	r.More(-18 * mb)
	want("given back", 4*mb, 0)
	end()
	want("ended", 0, 0)
	r.Written(mb)
	want("after the end", 0, 0)
	RequestOf(t.Context()).Written(mb)
}
