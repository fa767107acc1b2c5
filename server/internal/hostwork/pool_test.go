package hostwork

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/polyscan/polyscan/kernels"
)

// Whoever works for long lets others have turns, in order, and an end of the context ends the waiting.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(1)
		var diary []string
		work := func(name string, pieces int) {
			place, err := p.Enter(t.Context())
			if err != nil {
				t.Error(err)
			}
			defer place.Leave()
			for range pieces {
				diary = append(diary, name)
				time.Sleep(turn - time.Millisecond/2)
				if err := place.Yield(); err != nil {
					t.Error(err)
				}
			}
		}
		go work("long", 5)
		synctest.Wait()
		go work("a", 1)
		synctest.Wait()
		go work("b", 3)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := p.Enter(ctx); err != context.DeadlineExceeded {
			t.Errorf("a place for nobody: %v", err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		want := []string{"long", "long", "a", "b", "b", "long", "long", "b", "long"}
		if !slices.Equal(diary, want) {
			t.Errorf("%q, want %q", diary, want)
		}
	})
}

// Of one client the first to come goes first, whoever behind it has given up.
func TestOrderOfOneClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(1)
		first, err := p.Enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var diary []int
		for i := range 6 {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%2 == 0 {
				time.AfterFunc(time.Millisecond, cancel)
			}
			go func() {
				if turn, err := p.Enter(ctx); err == nil {
					diary = append(diary, i)
					turn.Leave()
				}
			}()
			synctest.Wait()
		}
		time.Sleep(2 * time.Millisecond)
		if n := p.Waiting(); n != 3 {
			t.Errorf("%d wait, of 6 of which 3 have given up", n)
		}
		first.Leave()
		synctest.Wait()
		if !slices.Equal(diary, []int{1, 3, 5}) || len(p.waiting) != 0 || p.Waiting() != 0 {
			t.Errorf("%v had places, and %d clients wait", diary, len(p.waiting))
		}
	})
}

// Interactive work goes before batch work, line-scan waits for nobody, and while there is any a place is kept free.
func TestClasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(2)
		var mu sync.Mutex
		var diary []string
		work := func(class kernels.Class, name string) {
			turn, err := p.Enter(kernels.WithClass(t.Context(), class))
			if err != nil {
				t.Error(err)
			}
			defer turn.Leave()
			mu.Lock()
			diary = append(diary, name)
			mu.Unlock()
			time.Sleep(time.Second)
		}
		go work(kernels.Batch, "first")
		go work(kernels.Batch, "first")
		synctest.Wait()
		done := p.LineScan()
		go work(kernels.Batch, "batch")
		synctest.Wait()
		go work(kernels.Interactive, "interactive")
		go work(kernels.LineScan, "line-scan")
		synctest.Wait()
		if n := p.Waiting(); n != 2 {
			t.Errorf("%d wait", n)
		}
		time.Sleep(1500 * time.Millisecond)
		if n := p.Waiting(); n != 1 {
			t.Errorf("%d wait for the one place beside line-scan", n)
		}
		done()
		time.Sleep(time.Millisecond)
		if n := p.Waiting(); n != 0 {
			t.Errorf("%d wait for the place that came back", n)
		}
		time.Sleep(2 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		want := []string{"first", "first", "line-scan", "interactive", "batch"}
		if !slices.Equal(diary, want) {
			t.Errorf("%q, want %q", diary, want)
		}
	})
}

// Small work is done at once, also where there is no place.
func TestSmallWork(t *testing.T) {
	p := New(1)
	turn, err := p.Enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer turn.Leave()
	if err := p.Do(t.Context(), 9, 10, func(func() error) error { return nil }); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	never := func(func() error) error { t.Error("work without a place"); return nil }
	if err := p.Do(ctx, 10, 10, never); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// Clients that always have work have equal parts, however many pieces of work they have; one that comes now and then
// waits for a turn of each place and each other that does so; no place is idle while somebody waits; and all places
// come back.
func TestSharesOfPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(struct{ rapid.TB }{t}, func(t *rapid.T) { // without a deadline, which there is none of in a bubble
			const horizon = time.Second
			places := rapid.IntRange(1, 3).Draw(t, "places")
			jobs := rapid.SliceOfN(rapid.IntRange(3, 9), 1, 4).Draw(t, "jobs of each")
			piece := time.Duration(rapid.IntRange(1, 10).Draw(t, "piece")) * 100 * time.Microsecond
			period := time.Duration(rapid.IntRange(5, 40).Draw(t, "period")) * time.Millisecond
			p := New(places)
			ctx, cancel := context.WithCancel(context.Background())
			had := make([]time.Duration, len(jobs))
			var all sync.WaitGroup
			var mu sync.Mutex
			for i, n := range jobs {
				c := kernels.WithClient(ctx, fmt.Sprint(i))
				for range n {
					all.Go(func() {
						turn, err := p.Enter(c)
						for err == nil {
							time.Sleep(piece)
							mu.Lock()
							had[i] += piece
							mu.Unlock()
							err = turn.Yield()
						}
						turn.Leave()
					})
				}
			}
			start := time.Now()
			var worst time.Duration
			all.Go(func() {
				for ctx.Err() == nil {
					time.Sleep(period)
					begun := time.Now()
					turn, err := p.Enter(kernels.WithClient(ctx, "small"))
					if err != nil {
						return
					}
					if begun.Sub(start) > horizon/5 { // before that the others are new, too
						worst = max(worst, time.Since(begun))
					}
					time.Sleep(100 * time.Microsecond)
					turn.Leave()
				}
			})
			time.Sleep(horizon)
			mu.Lock()
			sum := time.Duration(0)
			for _, d := range had {
				sum += d
			}
			for i, d := range had {
				// one with fewer jobs than places can't have more than those
				if d < sum/time.Duration(len(jobs))*8/10 {
					t.Errorf("client %d had %v of %v", i, d, sum)
				}
			}
			if sum < time.Duration(places)*horizon*9/10 {
				t.Errorf("%d places were busy for %v", places, sum)
			}
			mu.Unlock()
			cancel()
			all.Wait()
			if worst > turn+2*piece {
				t.Errorf("a small piece of work waited for %v", worst)
			}
			if p.taken != 0 || len(p.waiting) != 0 || len(p.shares) != 0 {
				t.Errorf("%d places are taken, %d wait, %d clients are known", p.taken, len(p.waiting), len(p.shares))
			}
		})
	})
}

func BenchmarkEnter(b *testing.B) {
	p := New(2)
	ctx := kernels.WithClient(b.Context(), "somebody")
	b.ReportAllocs()
	for b.Loop() {
		t, err := p.Enter(ctx)
		if err != nil {
			b.Fatal(err)
		}
		t.Leave()
	}
}

// What is done behind verdicts waits for the strips of all sessions, and not for ever.
func TestCalm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(1)
		begun := time.Now()
		p.Calm(time.Hour)
		p.StripDue()
		p.StripDue()
		p.Calm(0)
		if d := time.Since(begun); d != 0 {
			t.Errorf("%v without a strip, or without patience", d)
		}
		var calm atomic.Int32
		var waiting sync.WaitGroup
		for range 3 {
			waiting.Go(func() { p.Calm(time.Hour); calm.Add(1) })
		}
		synctest.Wait()
		p.StripDone()
		synctest.Wait()
		if n := calm.Load(); n != 0 {
			t.Errorf("%d went on beside a strip", n)
		}
		p.StripDone()
		waiting.Wait()
		p.StripDue()
		p.Calm(5 * time.Millisecond)
		if d := time.Since(begun); d != 5*time.Millisecond {
			t.Errorf("%v, want 5 ms: for the strips there was nothing to wait for", d)
		}
		p.StripDone()
	})
}

// What is done for watchers waits for strips from when they begin to come, and not for ever.
func TestQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(1)
		for _, c := range []struct {
			name          string
			comes         time.Duration // from the first of its bytes to the last
			work          time.Duration // 0: it isn't used
			longest, want time.Duration
		}{
			{name: "no strip", comes: -1, longest: time.Hour},
			{name: "a strip", comes: stripComing / 2, work: time.Millisecond, longest: time.Hour,
				want: stripComing/2 + 50*time.Microsecond + time.Millisecond},
			{name: "one that is done with at once", comes: stripComing / 2, work: time.Nanosecond, longest: time.Hour,
				want: stripComing/2 + stripCame},
			{name: "one that is not used", comes: stripComing / 2, longest: time.Hour, want: stripComing/2 + stripCame},
			{name: "one that doesn't come", comes: time.Hour, longest: time.Hour, want: stripComing},
			{name: "no patience", comes: 0, work: time.Hour, longest: stripComing / 3, want: stripComing / 3},
			{name: "patience for less than it takes", comes: 0, work: time.Hour, longest: time.Minute, want: time.Minute},
		} {
			time.Sleep(time.Hour)
			over := make(chan struct{})
			if c.comes >= 0 {
				p.StripComes(false)
				go func() {
					defer close(over)
					time.Sleep(c.comes)
					p.StripComes(true)
					if c.work > 0 {
						time.Sleep(50 * time.Microsecond) // to its session
						p.StripDue()
						time.Sleep(c.work)
						p.StripDone()
					}
				}()
			} else {
				close(over)
			}
			begun := time.Now()
			p.Quiet(c.longest)
			if d := time.Since(begun); d != c.want {
				t.Errorf("%s: %v, want %v", c.name, d, c.want)
			}
			<-over
		}
	})
}

// Strips come and go while others wait: each of them goes on.
func TestCalmWhileStripsPass(t *testing.T) {
	p := New(1)
	var line, waiting sync.WaitGroup
	var over atomic.Bool
	line.Go(func() {
		for !over.Load() {
			p.StripDue()
			runtime.Gosched()
			p.StripDone()
		}
	})
	for range 4 {
		waiting.Go(func() {
			for range 200 {
				p.Calm(time.Hour)
			}
		})
	}
	waiting.Wait()
	over.Store(true)
	line.Wait()
}

// Work that has a place lets a strip go first, and goes on behind a line that always has one.
func TestStripsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(1)
		took := func(n int) time.Duration {
			begun := time.Now()
			if err := p.Do(t.Context(), 1, 0, func(pause func() error) error {
				for range n {
					time.Sleep(breath)
					if err := pause(); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
			return time.Since(begun)
		}
		if d := took(10); d != 10*breath {
			t.Errorf("without strips: %v", d)
		}
		p.StripDue()
		go func() {
			time.Sleep(oneStrip / 2)
			p.StripDone()
		}()
		if d := took(10); d < oneStrip/2+9*breath || d > oneStrip/2+10*breath {
			t.Errorf("behind a strip: %v", d)
		}
		p.StripDue()
		if d := took(10); d != 10*(breath+oneStrip) {
			t.Errorf("behind a line that always has strips: %v", d)
		}
		p.StripDone()
	})
}
