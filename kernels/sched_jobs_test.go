// Jobs on a device whose work is time that passes, in a bubble where time is the test's.

package kernels

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels/driver"
)

// bench is a device and a diary of what ran on it.
type bench struct {
	*testing.T
	*Device
	mu    sync.Mutex
	diary []string
	wg    sync.WaitGroup
}

func inBubble(t *testing.T, cfg Config, f func(*bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, Device: openFake(t, &fakeDriver{}, cfg)}
		f(b)
		b.wg.Wait()
		idle(t, b.Device)
	})
}

func (b *bench) note(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.diary = append(b.diary, what)
}

// start runs a job that sleeps, and returns when it has begun or waits. The function's error goes to the channel.
func (b *bench) start(ctx context.Context, job Job, fn func(*Queue) error) <-chan error {
	done := make(chan error, 1)
	b.wg.Go(func() {
		done <- b.Do(ctx, job, func(q *Queue) error {
			b.note(job.Label)
			return fn(q)
		})
	})
	synctest.Wait()
	return done
}

func takes(d time.Duration) func(*Queue) error {
	return func(*Queue) error { time.Sleep(d); return nil }
}

func (b *bench) expect(what ...string) {
	b.Helper()
	b.wg.Wait()
	if !slices.Equal(b.diary, what) {
		b.Errorf("%q, want %q", b.diary, what)
	}
}

// due is a context with a deadline that only orders.
func due(ctx context.Context, d time.Duration) context.Context {
	return WithDeadline(ctx, time.Now().Add(d))
}

func TestClassTravelsWithContext(t *testing.T) {
	ctx := t.Context()
	if c := scheduleOf(ctx).class; c != Interactive {
		t.Errorf("%v without a word", c)
	}
	soon, late := time.Now().Add(time.Second), time.Now().Add(time.Hour)
	ctx = WithDeadline(WithClass(ctx, LineScan), late)
	if c := scheduleOf(ctx).class; c != LineScan {
		t.Errorf("%v", c)
	}
	if d := deadlineOf(ctx, scheduleOf(ctx)); !d.Equal(late) {
		t.Errorf("%v", d)
	}
	hard, cancel := context.WithDeadline(ctx, soon)
	defer cancel()
	if d := deadlineOf(hard, scheduleOf(hard)); !d.Equal(soon) {
		t.Errorf("%v", d)
	}
	if d := deadlineOf(ctx, scheduleOf(WithDeadline(hard, soon.Add(-1)))); !d.Equal(soon.Add(-1)) {
		t.Errorf("%v", d)
	}
	dev := openFake(t, &fakeDriver{}, Config{})
	var a *ArgError
	if err := dev.Do(WithClass(ctx, numClasses), Job{}, nil); !errors.As(err, &a) {
		t.Errorf("a class that is none: %v", err)
	}
	if err := dev.Do(ctx, Job{Units: -1}, nil); !errors.As(err, &a) || a.Field != "Job.Units" {
		t.Errorf("negative units: %v", err)
	}
}

func TestEarliestDeadlineFirst(t *testing.T) {
	for _, c := range byUrgency {
		inBubble(t, Config{Streams: 1, LineScanStreams: 1, BatchStreams: 1}, func(b *bench) {
			ctx := WithClass(b.Context(), c)
			b.start(ctx, Job{Label: "first"}, takes(time.Second))
			b.start(ctx, Job{Label: "no deadline"}, takes(time.Second)) // as if in 10 s
			b.start(due(ctx, 60*time.Second), Job{Label: "in 60 s"}, takes(time.Second))
			b.start(due(ctx, 8*time.Second), Job{Label: "in 8 s"}, takes(time.Second))
			b.start(due(ctx, 5*time.Second), Job{Label: "in 5 s"}, takes(time.Second))
			b.start(ctx, Job{Label: "no deadline 2"}, takes(time.Second))
			hard, cancel := context.WithTimeout(ctx, 6*time.Second)
			defer cancel()
			b.start(hard, Job{Label: "in 6 s"}, takes(time.Second))
			b.expect("first", "in 5 s", "in 6 s", "in 8 s", "no deadline", "no deadline 2", "in 60 s")
		})
	}
}

// Each class has streams of its own, with its priority.
func TestStreamsByClass(t *testing.T) {
	inBubble(t, Config{Streams: 2, LineScanStreams: 3, BatchStreams: 1}, func(b *bench) {
		for _, c := range byUrgency {
			for i := range 4 {
				b.start(WithClass(b.Context(), c), Job{Label: fmt.Sprint(c, i)}, takes(time.Second))
			}
		}
		s := b.Sched()
		if s[LineScan].Running != 3 || s[Interactive].Running != 2 || s[Batch].Running != 1 {
			b.Errorf("%+v", s)
		}
		if s[LineScan].Waiting != 1 || s[Interactive].Waiting != 2 || s[Batch].Waiting != 3 {
			b.Errorf("%+v", s)
		}
		b.wg.Wait()
		if s := b.Sched(); s[Batch].Admitted != 4 || s[Batch].Done != 4 || s[Batch].Waited != 6*time.Second {
			b.Errorf("%+v", s)
		}
	})
	if LineScan.urgency() <= Interactive.urgency() || Interactive.urgency() <= Batch.urgency() {
		t.Error("urgency")
	}
}

// Jobs that wait for memory keep it from those that are less urgent, and not from those that are more.
func TestMemoryByClass(t *testing.T) {
	inBubble(t, Config{MemoryBytes: 4096, Streams: 8, BatchStreams: 8}, func(b *bench) {
		ctx := b.Context()
		batch, strip := WithClass(ctx, Batch), WithClass(ctx, LineScan)
		b.start(ctx, Job{Label: "runs", Footprint: 2048}, takes(time.Second))
		b.start(batch, Job{Label: "large batch", Footprint: 4096}, takes(time.Second))
		b.start(batch, Job{Label: "small batch", Footprint: 256}, takes(time.Second))
		b.start(batch, Job{Label: "batch without memory"}, takes(time.Second))
		b.start(strip, Job{Label: "strip", Footprint: 256}, takes(2*time.Second))
		b.start(ctx, Job{Label: "small", Footprint: 256}, takes(2*time.Second))
		b.start(ctx, Job{Label: "large", Footprint: 2048}, takes(time.Second))
		b.start(ctx, Job{Label: "small behind it", Footprint: 1500}, takes(time.Second))
		b.start(strip, Job{Label: "strip 2", Footprint: 256}, takes(2*time.Second))
		if n := b.Memory().Waiting; n != 4 {
			b.Errorf("%d wait for memory", n)
		}
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		if n := b.Memory().Waiting; n != 3 {
			b.Errorf("%d wait for memory", n)
		}
		b.expect("runs", "batch without memory", "strip", "small", "strip 2", "large", "small behind it", "large batch",
			"small batch")
	})
}

func TestDeadlineThatCantBeMade(t *testing.T) {
	inBubble(t, Config{Streams: 2}, func(b *bench) {
		ctx := b.Context()
		for i := range 6 { // 1 s for each unit
			u := int64(1 + i%2)
			b.start(ctx, Job{Label: "x", Units: u}, takes(time.Duration(u)*time.Second))
		}
		b.wg.Wait()
		never := func(*Queue) error { b.Error("the job ran"); return nil }
		refused := func(within time.Duration, units int64, estimate, retry time.Duration) {
			b.Helper()
			for _, c := range []Class{Interactive, Batch} {
				if c == Batch && retry > 0 {
					continue // it has streams of its own
				}
				err := b.Do(WithClass(due(ctx, within), c), Job{Label: "x", Units: units}, never)
				var e *DeadlineError
				if !errors.As(err, &e) || e.Label != "x" || e.Class != c || e.Remaining != within ||
					!near(e.Estimate, estimate, 0.2) || !near(e.RetryAfter, retry, 0.2) {
					b.Errorf("%v within %v: %#v", c, within, err)
				}
			}
		}
		refused(4*time.Second, 5, 5*time.Second, 0)
		refused(-time.Second, 0, 0, 0)
		// Two run for 10 s, two wait for as long.
		for range 4 {
			b.start(ctx, Job{Label: "x", Units: 10}, takes(10*time.Second))
		}
		refused(10*time.Second, 1, 21*time.Second, 20*time.Second)
		if err := b.Do(WithClass(due(ctx, time.Millisecond), LineScan), Job{Label: "x", Units: 10},
			takes(10*time.Second)); err != nil {
			b.Errorf("line-scan: %v", err)
		}
		s := b.Sched()
		if s[Interactive].Refused != 3 || s[Batch].Refused != 2 || s[LineScan].Refused != 0 || s[LineScan].Missed != 1 {
			b.Errorf("%+v", s)
		}
	})
	// One that could be in time when it came, for all that was known, and can't be when its turn comes.
	inBubble(t, Config{Streams: 1}, func(b *bench) {
		b.start(b.Context(), Job{Label: "unknown"}, takes(10*time.Second))
		err := <-b.start(due(b.Context(), 5*time.Second), Job{Label: "y"}, takes(0))
		var e *DeadlineError
		if !errors.As(err, &e) || e.Remaining != -5*time.Second {
			b.Errorf("%v", err)
		}
	})
}

// An estimate that is far too long does not refuse all jobs for ever.
func TestWrongEstimateIsCorrected(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		for range 10 {
			b.start(b.Context(), Job{Label: "x"}, takes(10*time.Second))
			b.wg.Wait()
		}
		refused := 0
		for range 200 {
			if err := b.Do(due(b.Context(), 2*time.Second), Job{Label: "x"}, takes(time.Second)); err != nil {
				refused++
			}
		}
		if refused == 0 || refused > 60 {
			b.Errorf("%d of 200 were refused", refused)
		}
	})
}

// Line-scan jobs are never refused, however many there are and however late; those that are late are counted.
func TestLineScanIsNeverRefused(t *testing.T) {
	var mu sync.Mutex
	late := 0
	inBubble(t, Config{LineScanStreams: 1, MaxWaiting: 2, Observe: func(e JobEvent) {
		mu.Lock()
		defer mu.Unlock()
		if e.Late > 0 {
			late++
		}
		if e.Err != nil || e.Class != LineScan || e.Ran != time.Second || e.Label != "strip" {
			t.Errorf("%+v", e)
		}
	}}, func(b *bench) {
		for range 20 {
			b.start(WithClass(due(b.Context(), 10*time.Second), LineScan), Job{Label: "strip"}, takes(time.Second))
		}
		b.wg.Wait()
		if s := b.Sched()[LineScan]; s.Done != 20 || s.Missed != 10 || s.Shed+s.Refused != 0 {
			b.Errorf("%+v", s)
		}
		if late != 10 {
			b.Errorf("%d were late", late)
		}
	})
}

// Between chunks a job waits for the more urgent ones that are there, but not for those behind them, nor for long.
func TestYieldToMoreUrgent(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		ctx := b.Context()
		b.start(WithClass(ctx, Batch), Job{Label: "batch", Footprint: 1024}, func(q *Queue) error {
			for i := range 4 {
				time.Sleep(time.Millisecond)
				if err := q.Yield(); err != nil {
					return err
				}
				b.note(fmt.Sprint("chunk ", i))
			}
			if q.arena.len == 0 || q.away < 12*time.Millisecond {
				b.Errorf("%+v", q.ticket)
			}
			return nil
		})
		strip := WithClass(ctx, LineScan)
		b.start(strip, Job{Label: "strip 1"}, func(*Queue) error {
			time.Sleep(3 * time.Millisecond)
			b.note("strip 1 is done")
			return nil
		})
		time.Sleep(2 * time.Millisecond)
		b.start(strip, Job{Label: "strip 2"}, func(*Queue) error { // in the pause
			time.Sleep(time.Second)
			b.note("strip 2 is done")
			return nil
		})
		b.expect("batch", "strip 1", "strip 2", "strip 1 is done", "chunk 0", "chunk 1", "chunk 2", "chunk 3",
			"strip 2 is done")
	})
}

// A job does not wait for one that waits for its memory.
func TestYieldDoesNotDeadlock(t *testing.T) {
	inBubble(t, Config{MemoryBytes: 4096}, func(b *bench) {
		b.start(WithClass(b.Context(), Batch), Job{Label: "batch", Footprint: 4096}, func(q *Queue) error {
			time.Sleep(time.Millisecond)
			start := time.Now()
			err := q.Yield()
			if d := time.Since(start); d != 0 {
				b.Errorf("paused for %v", d)
			}
			return err
		})
		b.start(WithClass(b.Context(), LineScan), Job{Label: "strip", Footprint: 4096}, takes(0))
		b.expect("batch", "strip")
	})
}

// However times vary, chunks are not far larger than those of a millisecond: others would wait for all of one.
func TestChunksOfUnevenWork(t *testing.T) {
	rng := seed.New(t, 8, 8)
	inBubble(t, Config{}, func(b *bench) {
		for trial := range 200 {
			b.start(b.Context(), Job{Label: "long"}, func(q *Queue) error {
				label := fmt.Sprint("work ", trial)
				for range 60 {
					n := q.Chunk(label, 1<<50)
					took := time.Duration(float64(n) * (0.2 + 3*rng.Float64()))
					if rng.IntN(4) == 0 {
						took += time.Duration(rng.IntN(3_000_000))
					}
					if n > 10_000_000 {
						b.Errorf("trial %d: a chunk of %d units, of about two nanoseconds each", trial, n)
					}
					time.Sleep(took)
					if err := q.Yield(); err != nil {
						return err
					}
				}
				return nil
			})
			b.wg.Wait()
		}
	})
}

// Between chunks a job gives its stream to one of its class that is due earlier.
func TestYieldToEarlierDeadline(t *testing.T) {
	inBubble(t, Config{BatchStreams: 1, MemoryBytes: 4096}, func(b *bench) {
		ctx := WithClass(b.Context(), Batch)
		long := b.start(ctx, Job{Label: "long", Footprint: 1024}, func(q *Queue) error {
			buf, err := Alloc[byte](q, 100, "state")
			for i := range 30 {
				time.Sleep(time.Second)
				if err := errors.Join(err, Fill(q, buf, 1), q.Yield()); err != nil {
					return err
				}
				b.note(fmt.Sprint(i))
			}
			return nil
		})
		time.Sleep(1500 * time.Millisecond)
		b.start(due(ctx, 5*time.Second), Job{Label: "in 5 s", Footprint: 1024}, takes(time.Second))
		b.start(due(ctx, time.Hour), Job{Label: "in an hour", Footprint: 1024}, takes(time.Second))
		b.start(due(ctx, 5*time.Second), Job{Label: "in 5 s, no room", Footprint: 3500}, takes(time.Second))
		time.Sleep(3 * time.Second) // at 4.5 s
		b.mu.Lock()
		got := slices.Clone(b.diary)
		b.mu.Unlock()
		if want := []string{"long", "0", "in 5 s", "1", "2"}; !slices.Equal(got[:min(len(got), 5)], want) {
			b.Errorf("%q", got)
		}
		if err := <-long; err != nil {
			b.Error(err)
		}
	})
}

// What had no room at one yield is asked again at the next: memory may have come free where no stream was to be had.
func TestYieldAsksForMemoryAgain(t *testing.T) {
	inBubble(t, Config{BatchStreams: 1, MemoryBytes: 4096}, func(b *bench) {
		ctx := WithClass(b.Context(), Batch)
		b.start(b.Context(), Job{Label: "holds memory", Footprint: 2048}, takes(3*time.Second))
		b.start(ctx, Job{Label: "long", Footprint: 1024}, func(q *Queue) error {
			for range 10 {
				time.Sleep(time.Second)
				if err := q.Yield(); err != nil {
					return err
				}
			}
			b.note("long is done")
			return nil
		})
		b.start(due(ctx, 8*time.Second), Job{Label: "in 8 s", Footprint: 2048}, takes(time.Second))
		b.expect("holds memory", "long", "in 8 s", "long is done")
	})
}

// What is told of a job that ends without its stream adds up.
func TestEventOfJobWithoutStream(t *testing.T) {
	var got JobEvent
	inBubble(t, Config{BatchStreams: 1, Observe: func(e JobEvent) {
		if e.Label == "long" {
			got = e
		}
	}}, func(b *bench) {
		ctx, cancel := context.WithTimeout(WithClass(b.Context(), Batch), 20*time.Second)
		defer cancel()
		b.start(ctx, Job{Label: "long"}, func(q *Queue) error { time.Sleep(time.Second); return q.Yield() })
		b.start(due(WithClass(b.Context(), Batch), 5*time.Second), Job{Label: "other"}, takes(time.Minute))
		b.wg.Wait()
	})
	if got.Ran != time.Second || got.Paused != 19*time.Second || !errors.Is(got.Err, context.DeadlineExceeded) {
		t.Errorf("%+v", got)
	}
}

// The context ends while a job is without its stream, or pauses.
func TestYieldCancelled(t *testing.T) {
	for _, poisoned := range []bool{false, true} {
		inBubble(t, Config{BatchStreams: 1, Poison: poisoned}, func(b *bench) {
			ctx, cancel := context.WithCancelCause(WithClass(b.Context(), Batch))
			var after error
			done := b.start(ctx, Job{Label: "batch", Footprint: 1024}, func(q *Queue) error {
				time.Sleep(time.Second)
				err := q.Yield()
				after = q.Wait()
				return err
			})
			b.start(due(WithClass(b.Context(), Batch), 5*time.Second), Job{Label: "other"}, takes(3*time.Second))
			time.Sleep(2 * time.Second)
			cancel(errCause)
			synctest.Wait()
			if !poisoned {
				select {
				case err := <-done:
					if !errors.Is(err, errCause) {
						b.Error(err)
					}
				default:
					b.Error("the job still waits for a stream")
				}
				if !errors.Is(after, ErrEnded) {
					b.Errorf("the queue can still be used: %v", after)
				}
			}
			b.wg.Wait()
		})
	}
	inBubble(t, Config{}, func(b *bench) {
		ctx, cancel := context.WithCancelCause(WithClass(b.Context(), Batch))
		done := b.start(ctx, Job{Label: "batch"},
			func(q *Queue) error { time.Sleep(time.Millisecond); return q.Yield() })
		b.start(b.Context(), Job{Label: "interactive"}, takes(time.Second))
		time.Sleep(2 * time.Millisecond)
		cancel(errCause)
		synctest.Wait()
		select {
		case err := <-done:
			if !errors.Is(err, errCause) {
				b.Error(err)
			}
		default:
			b.Error("the job still pauses")
		}
	})
}

// Ops of a job whose context has ended are refused.
func TestOpsAfterCancel(t *testing.T) {
	f := &fakeDriver{}
	d := openFake(t, f, Config{})
	ctx, cancel := context.WithCancelCause(t.Context())
	err := d.Do(ctx, Job{Label: "x", Footprint: 512}, func(q *Queue) error {
		buf, err := Alloc[byte](q, 10, "x")
		if err != nil {
			return err
		}
		cancel(errCause)
		return Upload(q, buf, make([]byte, 10))
	})
	if !errors.Is(err, errCause) || f.ops != 0 {
		t.Errorf("%d ops, %v", f.ops, err)
	}
	works(t, d)
}

func TestLostDeviceRefusesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeDriver{}
		d := openFake(t, f, Config{BatchStreams: 1, MemoryBytes: 4096})
		ctx := WithClass(t.Context(), Batch)
		errs := make(chan error, 4)
		go func() {
			errs <- d.Do(ctx, Job{Label: "gave up its stream"},
				func(q *Queue) error { time.Sleep(time.Second); return q.Yield() })
		}()
		synctest.Wait()
		go func() {
			errs <- d.Do(due(ctx, time.Second*5), Job{Label: "loses it"}, func(q *Queue) error {
				time.Sleep(time.Second)
				return fmt.Errorf("smoke: %w", driver.ErrDeviceLost)
			})
		}()
		synctest.Wait()
		go func() { errs <- d.Do(ctx, Job{Label: "waits", Footprint: 4096}, takes(0)) }()
		synctest.Wait()
		for range 3 {
			if err := <-errs; !errors.Is(err, driver.ErrDeviceLost) {
				t.Error(err)
			}
		}
		isLost(t, d)
	})
}

// Chunks of work take about a millisecond, whatever the speed and however it changes.
func TestChunks(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		for _, perUnit := range []time.Duration{10, 1000, 3} {
			const total = 50 << 20
			var chunks []time.Duration
			b.start(b.Context(), Job{Label: "long"}, func(q *Queue) error {
				for left := int64(total); left > 0; {
					n := q.Chunk("work", left)
					if n < 1 || n > left {
						b.Fatalf("%d of %d", n, left)
					}
					d := time.Duration(n) * perUnit / 100
					time.Sleep(d)
					if err := q.Yield(); err != nil {
						return err
					}
					chunks = append(chunks, d)
					left -= n
				}
				return nil
			})
			b.wg.Wait()
			for _, d := range chunks[min(10, len(chunks)):] {
				if d > 1100*time.Microsecond || d < 400*time.Microsecond && perUnit*total/100 > time.Millisecond {
					b.Errorf("%v a unit: a chunk of %v", perUnit, d)
				}
			}
		}
		err := b.Do(WithClass(b.Context(), LineScan), Job{}, func(q *Queue) error {
			if n := q.Chunk("work", 1<<40); n != 1<<40 {
				b.Errorf("a line-scan job is cut at %d", n)
			}
			return q.Yield()
		})
		if err != nil {
			b.Error(err)
		}
	})
}

// Ten thousand jobs of all kinds, half of which are cancelled at some time: in the end all is as it was.
func TestJobsCancelledAtRandom(t *testing.T) {
	inBubble(t, Config{MemoryBytes: 64 << 10, MaxWaiting: 40}, func(b *bench) {
		rng := seed.New(t, 7, 7)
		var mu sync.Mutex
		outcomes := map[string]int{}
		for i := range 10_000 {
			ctx := WithClass(b.Context(), byUrgency[rng.IntN(3)])
			if rng.IntN(3) == 0 {
				ctx = due(ctx, time.Duration(rng.IntN(200))*time.Millisecond)
			}
			cancel := context.CancelFunc(func() {})
			switch rng.IntN(4) {
			case 0:
				ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(100))*time.Millisecond)
			case 1:
				ctx, cancel = context.WithCancel(ctx)
				time.AfterFunc(time.Duration(rng.IntN(100))*time.Millisecond, cancel)
			}
			job := Job{Label: fmt.Sprint(i % 5), Footprint: int64(rng.IntN(16 << 10)), Units: int64(rng.IntN(100))}
			chunks, step := rng.IntN(5), time.Duration(rng.IntN(5000))*time.Microsecond
			b.wg.Go(func() {
				defer cancel()
				err := b.Do(ctx, job, func(q *Queue) error {
					for range chunks {
						time.Sleep(step)
						if err := q.Yield(); err != nil {
							return err
						}
					}
					return nil
				})
				what := "other"
				var (
					late     *DeadlineError
					overload *OverloadError
				)
				switch {
				case err == nil:
					what = "done"
				case errors.As(err, &late):
					what = "refused"
				case errors.As(err, &overload):
					what = "shed"
				case ctx.Err() != nil:
					what = "cancelled"
				default:
					b.Errorf("%v", err)
				}
				mu.Lock()
				defer mu.Unlock()
				outcomes[what]++
			})
			if rng.IntN(4) == 0 {
				time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond)
			}
		}
		b.wg.Wait()
		total := 0
		for _, n := range outcomes {
			total += n
		}
		if total != 10_000 || outcomes["done"] < 1000 || outcomes["cancelled"] < 500 || outcomes["shed"] < 100 ||
			outcomes["refused"] < 10 {
			b.Errorf("%v", outcomes)
		}
		s := b.Sched()
		if s[LineScan].Shed+s[LineScan].Refused != 0 {
			b.Errorf("%+v", s)
		}
	})
}

// Jobs whose callers hold memory wait for jobs that run, and for nothing else: not behind a job that may wait for just
// what they hold, and not for each other.
func TestCallersNeverWaitForEachOther(t *testing.T) {
	inBubble(t, Config{MemoryBytes: 16 << 10, Streams: 4}, func(b *bench) {
		ctx := b.Context()
		one, err := AllocPersistent[byte](b.Device, 5<<10, "one")
		if err != nil {
			t.Fatal(err)
		}
		two, err := AllocPersistent[byte](b.Device, 5<<10, "two")
		if err != nil {
			t.Fatal(err)
		}
		refused := func(err error) {
			t.Helper()
			var c *CapacityError
			if !errors.As(err, &c) || c.Never() || c.RetryAfter == 0 {
				t.Errorf("%v", err)
			}
		}
		nothing := func(*Queue) error { return nil }
		refused(b.Do(ctx, Job{Label: "alone", Footprint: 8 << 10, Held: 5 << 10}, nothing)) // for 6 KiB are free

		large := b.start(ctx, Job{Label: "large", Footprint: 12 << 10}, nothing)
		refused(b.Do(ctx, Job{Label: "behind it", Footprint: 8 << 10, Held: 5 << 10}, nothing))
		running := b.start(ctx, Job{Label: "that fits", Footprint: 4 << 10, Held: 5 << 10}, takes(overtaking/2))
		waiting := b.start(ctx, Job{Label: "that waits for it", Footprint: 6 << 10, Held: 5 << 10}, nothing)
		if n := b.Memory().Waiting; n != 2 {
			t.Errorf("%d jobs wait for memory", n)
		}
		if err := <-running; err != nil {
			t.Error(err)
		}
		if err := <-waiting; err != nil {
			t.Error(err)
		}
		one.Free()
		two.Free()
		if err := <-large; err != nil {
			t.Error(err)
		}
		if s := b.Sched()[Interactive]; s.Refused != 2 || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// Callers that hold memory, one after another, go ahead of a job that waits for what they hold, but not for ever. Where
// that job waits for something else they are hardly refused.
func TestCallersGiveWay(t *testing.T) {
	for _, kept := range []int{0, 5 << 10} { // kept for good, so that large never fits
		inBubble(t, Config{MemoryBytes: 24 << 10, Streams: 4}, func(b *bench) {
			k, err := AllocPersistent[byte](b.Device, kept, "kept")
			if err != nil {
				t.Fatal(err)
			}
			defer k.Free()
			patient, cancel := context.WithCancelCause(b.Context()) // a deadline would order it
			gone := errors.New("gone")
			defer time.AfterFunc(20*time.Second, func() { cancel(gone) }).Stop()
			var answered, refused atomic.Int64
			over := make(chan struct{})
			for i := range 2 {
				frame, err := Store[byte](b.Device, 5<<10, "frame")
				if err != nil {
					t.Fatal(err)
				}
				frame.Release()
				b.wg.Go(func() {
					defer frame.Drop()
					// so that one of them holds its frame at any time
					time.Sleep(time.Duration(i) * 20 * time.Millisecond)
					for {
						select {
						case <-over:
							return
						default:
						}
						if _, ok := frame.Acquire(); !ok {
							return // the large job has its memory
						}
						err := b.Do(b.Context(), Job{Label: "on a frame", Footprint: 4 << 10, Held: 5 << 10},
							takes(40*time.Millisecond))
						var c *CapacityError
						switch {
						case err == nil:
							answered.Add(1)
							time.Sleep(30 * time.Millisecond) // with the answer
						case !errors.As(err, &c) || c.Never() || c.RetryAfter <= 0:
							t.Error(err)
						default:
							refused.Add(1)
						}
						frame.Release()
						if c != nil {
							time.Sleep(c.RetryAfter)
						}
					}
				})
			}
			time.Sleep(25 * time.Millisecond)
			start := time.Now()
			err = b.Do(patient, Job{Label: "large", Footprint: 20 << 10}, func(*Queue) error { return nil })
			took := time.Since(start)
			close(over)
			if kept == 0 && (err != nil || took < overtaking || took > 2*overtaking) {
				t.Errorf("the large job took %v: %v", took, err)
			}
			if kept > 0 && (!errors.Is(err, gone) || refused.Load() == 0 || answered.Load() < 5*refused.Load()) {
				t.Errorf("%v; %d calls were answered and %d refused", err, answered.Load(), refused.Load())
			}
		})
	}
}

// A long job makes way for others of its class after a turn, whatever their deadlines, and goes on after them.
func TestTurns(t *testing.T) {
	inBubble(t, Config{Streams: 1}, func(b *bench) {
		ctx := b.Context()
		far := due(ctx, patience+5*time.Second)
		b.start(ctx, Job{Label: "long"}, func(q *Queue) error {
			for range 100 {
				time.Sleep(time.Millisecond)
				if err := q.Yield(); err != nil {
					return err
				}
			}
			b.note("long ends")
			return nil
		})
		b.start(ctx, Job{Label: "short"}, takes(time.Millisecond))
		b.start(ctx, Job{Label: "short too"}, takes(time.Millisecond))
		time.Sleep(turn + 5*time.Millisecond)
		b.start(far, Job{Label: "later"}, takes(time.Millisecond))
		b.expect("long", "short", "short too", "later", "long ends")
	})
}
