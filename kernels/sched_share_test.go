package kernels

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// sharedDevice is a device that divides its time evenly among those who compute on it, in small slices, and counts what
// each client had.
type sharedDevice struct {
	d     *Device
	slots chan struct{}
	had   map[string]time.Duration
	total time.Duration
}

const slice = 100 * time.Microsecond

func newSharedDevice(d *Device) *sharedDevice {
	x := &sharedDevice{d: d, slots: make(chan struct{}, 1), had: map[string]time.Duration{}}
	x.slots <- struct{}{}
	return x
}

// piece has a client compute for a time of the device's.
func (x *sharedDevice) piece(client string, d time.Duration) {
	for ; d > 0; d -= slice {
		<-x.slots
		time.Sleep(min(d, slice))
		x.had[client] += min(d, slice)
		x.total += min(d, slice)
		x.slots <- struct{}{}
	}
}

// job runs one of so many pieces for a client, of class c.
func (x *sharedDevice) job(ctx context.Context, c Class, client string, pieces int, piece time.Duration) error {
	ctx = WithClass(WithClient(ctx, client), c)
	return x.d.Do(ctx, Job{Label: "x"}, func(q *Queue) error {
		for range pieces {
			x.piece(client, piece)
			if err := q.Yield(); err != nil {
				return err
			}
		}
		return nil
	})
}

// A client that sends a job now and then is not behind all that another has sent at once, when both come to an idle
// device and count as equal; and jobs that had a turn end, rather than all that wait beginning and holding memory.
func TestBurstsOfJobs(t *testing.T) {
	inBubble(t, Config{Streams: 1, MaxWaiting: 1000, MemoryBytes: 1 << 20}, func(b *bench) {
		for range 3 {
			most := int64(0)
			long := func(q *Queue) error {
				for range 5 {
					most = max(most, b.Memory().Used)
					time.Sleep(turn + 1)
					if err := q.Yield(); err != nil {
						return err
					}
				}
				return nil
			}
			for range 100 {
				b.start(WithClient(b.Context(), "many"), Job{Label: "long", Footprint: 1024}, long)
			}
			synctest.Wait()
			begun := time.Now()
			err := <-b.start(WithClient(due(b.Context(), time.Minute), "few"), Job{Label: "short"},
				takes(time.Millisecond))
			if took := time.Since(begun); err != nil || took > headStart+3*turn {
				t.Errorf("%v after %v", err, took)
			}
			b.wg.Wait()
			if most > (maxHalted+2)*1024 {
				t.Errorf("the jobs of one client held %d bytes", most)
			}
			time.Sleep(time.Second)
		}
	})
}

// What a client had of a device that was idle beside it does not count against it when others come.
func TestSharesOfAnIdleDevice(t *testing.T) {
	inBubble(t, Config{Streams: 1, MaxWaiting: 1000}, func(b *bench) {
		few := WithClient(b.Context(), "few")
		short := func() time.Duration {
			begun := time.Now()
			if err := b.Do(due(few, time.Minute), Job{Label: "short"}, takes(time.Millisecond)); err != nil {
				t.Error(err)
			}
			return time.Since(begun)
		}
		for range 100 {
			short()
			time.Sleep(9 * time.Millisecond)
		}
		for i := range 8 {
			for range 10 {
				b.start(WithClient(b.Context(), fmt.Sprint(i)), Job{Label: "long"}, takes(5*time.Millisecond))
			}
		}
		synctest.Wait()
		for range 10 {
			if took := short(); took > 4*5*time.Millisecond {
				t.Errorf("a job of 1 ms took %v", took)
			}
			time.Sleep(9 * time.Millisecond)
		}
	})
}

// The jobs that others have waiting are no reason to refuse a client with a few small ones: it has its turn before
// them. Those of its own are.
func TestDeadlinesOfASmallClient(t *testing.T) {
	inBubble(t, Config{Streams: 2, MaxWaiting: 2000}, func(b *bench) {
		client := func(i int) context.Context { return WithClient(b.Context(), fmt.Sprint(i)) }
		long := Job{Label: "long"}
		if err := b.Do(client(0), long, takes(100*time.Millisecond)); err != nil { // what it takes is known
			b.Fatal(err)
		}
		for i := range 8 {
			for range 100 {
				b.start(client(i), long, takes(100*time.Millisecond))
			}
		}
		small := WithClient(b.Context(), "small")
		for range 50 {
			if err := b.Do(due(small, time.Second), Job{Label: "small"}, takes(time.Millisecond)); err != nil {
				b.Errorf("beside 800 jobs of others: %v", err)
			}
		}
		longer := Job{Label: "longer"}
		for range 5 {
			if err := b.Do(small, longer, takes(10*time.Second)); err != nil { // what it takes is known
				b.Fatal(err)
			}
		}
		for range 5 { // are before the last
			b.start(small, longer, takes(10*time.Second))
		}
		var e *DeadlineError
		if err := b.Do(due(small, 16*time.Second), longer, takes(0)); !errors.As(err, &e) {
			b.Errorf("behind five of its own: %v", err)
		}
	})
}

// What the scheduler owes clients, whatever they do: those who always have work get about equal parts, however many
// jobs they have and however those are cut; one with little work waits for about a piece of the others; nobody is left
// out, new clients keep coming or not; and the device is never idle.
func TestSharesOfClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// without the test's deadline, which there is none of in a bubble
		rapid.Check(struct{ rapid.TB }{t}, func(t *rapid.T) {
			const horizon = 400 * time.Millisecond
			streams := rapid.IntRange(1, 4).Draw(t, "streams")
			class := rapid.SampledFrom([]Class{Interactive, Batch}).Draw(t, "class")
			type load struct {
				piece        time.Duration
				pieces, jobs int
			}
			greedy := make([]load, rapid.IntRange(1, 4).Draw(t, "greedy"))
			longest := time.Duration(0) // piece
			for i := range greedy {
				greedy[i] = load{slice * time.Duration(rapid.IntRange(1, 20).Draw(t, "piece")),
					rapid.IntRange(5, 100).Draw(t, "pieces"), rapid.IntRange(1, 6).Draw(t, "jobs")}
				longest = max(longest, greedy[i].piece)
			}
			deadlines := rapid.SliceOfN(rapid.Bool(), 0, 2).Draw(t, "small, with deadlines?")
			period := time.Duration(rapid.IntRange(15, 40).Draw(t, "period")) * time.Millisecond
			fresh := rapid.Bool().Draw(t, "fresh clients?")

			d, err := Open(&fakeDriver{}, Config{Streams: streams, BatchStreams: streams})
			if err != nil {
				t.Fatal(err)
			}
			x := newSharedDevice(d)
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error)
			running := 0
			run := func(f func() error) {
				running++
				go func() { done <- f() }()
			}
			for i, g := range greedy {
				for range g.jobs {
					run(func() error {
						for ctx.Err() == nil {
							err := x.job(ctx, class, fmt.Sprint("greedy ", i), g.pieces, g.piece)
							if err != nil && ctx.Err() == nil {
								return err
							}
						}
						return nil
					})
				}
			}
			var mu sync.Mutex
			var worst time.Duration
			const smallJob = 2 * slice
			for i, deadline := range deadlines {
				run(func() error {
					for n := 0; ctx.Err() == nil; n++ {
						time.Sleep(period)
						begun, c := time.Now(), ctx
						if deadline {
							c = WithDeadline(ctx, begun.Add(time.Second))
						}
						err := x.job(c, class, fmt.Sprint("small ", i), 1, smallJob)
						if err != nil && ctx.Err() == nil {
							return err
						}
						if n > 0 { // when it comes first, the others are new as well
							mu.Lock()
							worst = max(worst, time.Since(begun))
							mu.Unlock()
						}
					}
					return nil
				})
			}
			if fresh { // of whom each would have to wait for nobody, if there weren't others
				run(func() error {
					for n := 0; ctx.Err() == nil; n++ {
						err := x.job(ctx, class, fmt.Sprint("fresh ", n), 1, 2*slice)
						if err != nil && ctx.Err() == nil {
							return err
						}
					}
					return nil
				})
			}
			time.Sleep(horizon)
			<-x.slots
			had, total := maps.Clone(x.had), x.total
			x.slots <- struct{}{}
			cancel()
			for range running {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			if total < horizon*98/100 {
				t.Errorf("the device was idle: it computed for %v of %v", total, horizon)
			}
			rest := horizon
			for i := range deadlines {
				rest -= had[fmt.Sprint("small ", i)]
			}
			// One with a short job at a time waits for a piece of others before each, in which it has no work to be
			// owed for.
			sharers := len(greedy)
			if fresh {
				sharers++
			}
			part := rest / time.Duration(sharers) / 2
			for i := range greedy {
				if got := had[fmt.Sprint("greedy ", i)]; got < part-longest {
					t.Errorf("greedy client %d had %v, and is to have %v at least", i, got, part)
				}
			}
			// A piece of each job that runs; the small ones of others; and whoever is as far behind, for a step. Where
			// new clients keep coming that may be all the others.
			bound := time.Duration(streams)*longest + time.Duration(len(deadlines))*smallJob*2 + shareStep
			if fresh {
				bound += time.Duration(len(greedy)) * (shareStep + longest)
			}
			if worst > bound {
				t.Errorf("a small job took %v: at most %v", worst, bound)
			}
		})
	})
}

// Jobs of no pieces don't shut out the clients that come after them: there are spare streams, for whoever has none.
func TestJobsWithoutPieces(t *testing.T) {
	inBubble(t, Config{Streams: 2}, func(b *bench) {
		long := WithClient(b.Context(), "long")
		for range 4 {
			b.start(long, Job{Label: "long"}, takes(time.Second))
		}
		synctest.Wait()
		if s := b.Sched()[Interactive]; s.Running != 2 || s.Waiting != 2 {
			t.Errorf("%+v", s)
		}
		begun := time.Now()
		if err := <-b.start(WithClient(b.Context(), "short"), Job{Label: "short"},
			takes(time.Millisecond)); err != nil || time.Since(begun) != time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		time.Sleep(3 * time.Second)
	})
}

// Too many jobs of one client cost that client some, and not one that has a single job.
func TestShedsOfThoseWhoHaveMost(t *testing.T) {
	inBubble(t, Config{Streams: 1, MaxWaiting: 3}, func(b *bench) {
		many := WithClient(b.Context(), "many")
		running := b.start(many, Job{Label: "running"}, takes(time.Second))
		synctest.Wait()
		for range 3 {
			b.start(many, Job{Label: "waits"}, takes(0))
			synctest.Wait()
		}
		one := b.start(WithClient(b.Context(), "one"), Job{Label: "one"}, takes(0))
		for range 3 {
			synctest.Wait()
			err := <-b.start(many, Job{Label: "more"}, takes(0))
			var e *OverloadError
			if !errors.As(err, &e) {
				t.Errorf("one too many: %v", err)
			}
		}
		if err := errors.Join(<-running, <-one); err != nil {
			t.Error(err)
		}
	})
}

// A job that has the device for longer than its class may ends with an error that says so; the time for which it paused
// for others does not count.
func TestLongestRun(t *testing.T) {
	inBubble(t, Config{LongestRun: [3]time.Duration{Interactive: 20 * time.Millisecond, Batch: time.Minute}},
		func(b *bench) {
			work := func(n int) func(*Queue) error {
				return func(q *Queue) error {
					for range n {
						time.Sleep(time.Millisecond)
						if err := q.Yield(); err != nil {
							return err
						}
					}
					return nil
				}
			}
			var e *RunError
			begun := time.Now()
			err := <-b.start(b.Context(), Job{Label: "long"}, work(100))
			if !errors.As(err, &e) || *e != (RunError{"long", Interactive, 20 * time.Millisecond}) ||
				time.Since(begun) > 22*time.Millisecond {
				t.Errorf("%v after %v", err, time.Since(begun))
			}
			if err := <-b.start(b.Context(), Job{Label: "short"}, work(19)); err != nil {
				t.Error(err)
			}
			if err := <-b.start(WithClass(b.Context(), Batch), Job{Label: "batch"}, work(100)); err != nil {
				t.Error(err)
			}
			paused := b.start(b.Context(), Job{Label: "paused"}, work(15))
			synctest.Wait()
			for range 30 {
				<-b.start(WithClass(b.Context(), LineScan), Job{Label: "strip"}, takes(3*time.Millisecond))
			}
			if err := <-paused; err != nil {
				t.Errorf("a job of 15 ms that paused for others: %v", err)
			}
		})
}

// What shares cost a job that nobody competes with: no memory, and little time. Line-scan knows none.
func TestSharesCostNoMemory(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{})
	defer d.Close()
	for _, c := range byUrgency {
		ctx := WithClass(WithClient(t.Context(), "somebody"), c)
		plain := WithClass(t.Context(), c)
		do := func(ctx context.Context) func() {
			return func() {
				if err := d.Do(ctx, Job{Label: "x"}, func(*Queue) error { return nil }); err != nil {
					t.Fatal(err)
				}
			}
		}
		if with, without := testing.AllocsPerRun(100, do(ctx)), testing.AllocsPerRun(100, do(plain)); with > without {
			t.Errorf("%v: %v allocations with a client, %v without", c, with, without)
		}
	}
}

func BenchmarkDoForClient(b *testing.B) {
	for _, limit := range []time.Duration{0, time.Minute} {
		for _, c := range byUrgency {
			b.Run(fmt.Sprintf("%v/limit %v", c, limit), func(b *testing.B) {
				cfg := Config{LongestRun: [3]time.Duration{Interactive: limit, Batch: limit}}
				d, err := Open(&fakeDriver{}, cfg)
				if err != nil {
					b.Fatal(err)
				}
				defer d.Close()
				ctx := WithClass(WithClient(b.Context(), "somebody"), c)
				b.ReportAllocs()
				for b.Loop() {
					if err := d.Do(ctx, Job{Label: "x"}, func(*Queue) error { return nil }); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
