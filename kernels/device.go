package kernels

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Config says how much of a device to use. The zero value is fine.
type Config struct {
	// Ordinal of the device, from 0.
	Ordinal int
	// MemoryBytes to reserve; 0 means 80 % of what is free on a GPU and 1 GiB on the CPU.
	MemoryBytes int64
	// Streams is how many interactive jobs may run at the same time; 0 means 4. For a moment two more may, of clients
	// that have had less of the device than others. So it is with BatchStreams.
	Streams int
	// LineScanStreams is how many line-scan jobs may run at the same time, beside those; 0 means 4. With one for each
	// line-scan session no strip ever waits for a stream.
	LineScanStreams int
	// BatchStreams is how many batch jobs may run at the same time, beside those; 0 means 2.
	BatchStreams int
	// MaxWaiting bounds the queue; 0 means 256. Beyond it the batch job that would be served last is refused, with an
	// [*OverloadError], or, where no batch job waits, the last interactive one. Line-scan jobs count, but are never
	// refused.
	MaxWaiting int
	// LongestRun is how long a job of a class may have the device, pauses not counted; 0 means as long as it takes. Then
	// its context ends with a [*RunError].
	LongestRun [3]time.Duration
	// MemoBytes is the memory that may keep what jobs have computed for others (see [Queue.NewMemo]), while nothing
	// else needs it; 0 means a half of MemoryBytes, and a negative number none.
	MemoBytes int64
	// HostPlace, unless nil, gives a place on the host's processors to what takes long there, see [Queue.OnHost]. It waits
	// for one until ctx ends, whose class and client it may look at; leave is called once.
	HostPlace func(ctx context.Context) (leave func(), err error)
	// Observe, unless nil, is called at the end of each [Device.Do], on its goroutine and before it returns.
	Observe func(JobEvent)
	// Poison fills memory with 0xA5 before and after its use, so that reads of what was never written, or of what
	// went back, show, and adds a guard behind each block that makes writes beyond its end show: see [ErrOverrun].
	// For tests.
	Poison bool
}

const (
	defaultStreams         = 4
	defaultLineScanStreams = 4
	defaultBatchStreams    = 2
	maxStreams             = 256
	defaultMaxWaiting      = 256
)

// Device is an opened device with its reserved memory. Its methods may be called from several goroutines.
type Device struct {
	dev     driver.Device
	info    driver.Info
	mem     *memory
	memos   *memos
	sched   sched
	poison  bool
	lost    chan struct{}
	lose    sync.Once
	observe func(JobEvent)
	longest [numClasses]time.Duration
	place   func(context.Context) (leave func(), err error)

	mu     sync.Mutex
	closed bool
	jobs   sync.WaitGroup
}

// Open opens a device and reserves its memory. Close it after use.
func Open(d driver.Driver, cfg Config) (*Device, error) {
	if cfg.MemoryBytes < 0 {
		return nil, refuse("Open", "Config.MemoryBytes", cfg.MemoryBytes, "must not be negative")
	}
	if cfg.MaxWaiting < 0 {
		return nil, refuse("Open", "Config.MaxWaiting", cfg.MaxWaiting, "must not be negative")
	}
	if cfg.MaxWaiting == 0 {
		cfg.MaxWaiting = defaultMaxWaiting
	}
	for c, d := range cfg.LongestRun {
		if d < 0 {
			return nil, refuse("Open", fmt.Sprintf("Config.LongestRun[%v]", Class(c)), d, "must not be negative")
		}
	}
	var streams [numClasses]int
	for c, f := range [numClasses]struct {
		field  string
		n, std int
	}{
		LineScan:    {"Config.LineScanStreams", cfg.LineScanStreams, defaultLineScanStreams},
		Interactive: {"Config.Streams", cfg.Streams, defaultStreams},
		Batch:       {"Config.BatchStreams", cfg.BatchStreams, defaultBatchStreams},
	} {
		if f.n < 0 || f.n > maxStreams {
			return nil, refuse("Open", f.field, f.n, fmt.Sprintf("must be 0 to %d", maxStreams))
		}
		if streams[c] = f.n; f.n == 0 {
			streams[c] = f.std
		}
	}
	dev, err := d.Open(cfg.Ordinal)
	if err != nil {
		return nil, fmt.Errorf("kernels: open %s device %d: %w", d.Name(), cfg.Ordinal, err)
	}
	info := dev.Info()
	if cfg.MemoryBytes == 0 {
		cfg.MemoryBytes = info.MemoryBytes
	}
	mem, err := dev.Alloc(roundUp(cfg.MemoryBytes))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("kernels: reserve %d bytes on %s: %w", cfg.MemoryBytes, d.Name(), err),
			dev.Close())
	}
	k := &Device{
		dev:     dev,
		info:    info,
		mem:     newMemory(mem),
		poison:  cfg.Poison,
		lost:    make(chan struct{}),
		observe: cfg.Observe,
		longest: cfg.LongestRun,
		place:   cfg.HostPlace,
	}
	k.memos = newMemos(cfg.MemoBytes, k.mem.stats.Reserved)
	k.sched.mem = k.mem
	k.sched.maxWaiting = cfg.MaxWaiting
	k.sched.jobs, k.sched.chunks = costs{}, costs{}
	k.sched.classes[LineScan].shares.off = true
	k.mem.onFree = k.sched.memoryFreed
	if cfg.Poison {
		s, err := dev.NewStream(0)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("kernels: stream on %s: %w", d.Name(), err), k.Close())
		}
		k.mem.poisoner = &poisoner{mem: mem, stream: s}
	}
	for _, c := range byUrgency {
		q := &k.sched.classes[c]
		q.streams = streams[c]
		spares := spareStreams
		if q.shares.off {
			spares = 0
		}
		for range q.streams + spares {
			s, err := dev.NewStream(c.urgency())
			if err != nil {
				return nil, errors.Join(fmt.Errorf("kernels: stream on %s: %w", d.Name(), err), k.Close())
			}
			q.idle = append(q.idle, s)
		}
	}
	return k, nil
}

// Info describes the device. Its MemoryBytes is what was reserved.
func (d *Device) Info() driver.Info {
	i := d.info
	i.MemoryBytes = d.mem.stats.Reserved
	return i
}

// Memory returns the state of the memory now.
func (d *Device) Memory() MemoryStats {
	s := d.mem.snapshot()
	d.sched.mu.Lock()
	defer d.sched.mu.Unlock()
	s.Waiting = d.sched.forMemory()
	return s
}

// HostBytes is how many bytes of the host's memory the device's memory takes now; 0 where the device has memory of its
// own. It asks the system, which takes about a millisecond for a gigabyte.
func (d *Device) HostBytes() int64 {
	if on, ok := d.mem.mem.(interface{ HostBytes() int64 }); ok {
		return on.HostBytes()
	}
	return 0
}

// Close waits for the jobs that run, refuses those that still wait with [ErrClosed], and frees the device. It returns
// an error that matches [ErrLeak] if kept blocks were not freed or residents are held. Calls after the first do
// nothing.
func (d *Device) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	d.mu.Unlock()
	d.sched.shut(ErrClosed, false)
	d.jobs.Wait()
	var errs []error
	for c := range d.sched.classes {
		for _, s := range d.sched.classes[c].idle {
			errs = append(errs, s.Close())
		}
	}
	errs = append(errs, d.mem.close(), d.dev.Close())
	return errors.Join(errs...)
}

// Lost returns a channel that is closed when an op has reported [driver.ErrDeviceLost]. Jobs are refused with that from
// then on, and those that wait as well. The device is to be closed, and another one opened.
func (d *Device) Lost() <-chan struct{} { return d.lost }

// Job is what a unit of work declares before it starts.
type Job struct {
	// Label names the work in accounting, estimates and errors, such as "reduce".
	Label string
	// Footprint is the most bytes that the job allocates with [Alloc]. Sum sizes with [Bytes]. A job of 0 bytes
	// waits for a stream only.
	Footprint int64
	// Held is the bytes of the device, of residents and of what was kept, that the caller has in its hands until the
	// job has ended (see [Held]). A job for which the device has too little beside them is refused: it would wait for
	// its own caller. So is one for which there is no room while no job runs that has memory to give back: its caller
	// may hold what others wait for. Where there is room for it but not for one ahead, it goes first; but after a
	// second of that such jobs are refused for a tenth of one.
	Held int64
	// Units is what the job's time grows with, such as pixels: jobs of a label are taken to need a fixed time and one
	// for each unit, both measured.
	Units int64
	// Timing, where it isn't nil, says how long the job waited and ran, once it has ended.
	Timing *Timing
}

// Do runs fn as a job. It waits, until ctx ends, for Footprint bytes and a stream; runs fn, which allocates and
// enqueues; and waits until the stream has drained, whatever fn returned. Then the job's memory goes back.
//
// Class, client and deadline are ctx's: see [WithClass], [WithClient] and [WithDeadline]. Jobs wait by class, and in a
// class the clients share the device's time: those go first whose clients have had less of it, by 2 ms or more. Among
// others the earliest deadline goes first, and then the first to arrive; jobs without a deadline are ordered as if they
// were due 10 s after they came. Line-scan jobs know no clients.
// Each class has streams of its own ([Config]), which have the class's priority on the device. A job that holds little
// memory of its own, and works on what was kept, waits for nobody's memory: that is what line-scan jobs should be.
//
// Do returns fn's error, or else the first error of an op, or ctx's cause where ctx ended first. Refused before fn is
// called are
//   - a job that is larger than the device's memory, with what the caller holds, with a [*CapacityError];
//   - a job that can't make its deadline, by what its label took before and what is ahead of it, with a
//     [*DeadlineError], but never a line-scan job;
//   - a job for which the queue has no room, with an [*OverloadError], but never a line-scan job;
//   - a job whose ctx ended while it waited, with ctx's cause, and where it waited for memory an error that also
//     matches [*CapacityError];
//   - all jobs after the device was lost, with an error that matches [driver.ErrDeviceLost].
//
// A job that has had the device for Config.LongestRun of its class ends as if its ctx had, with a [*RunError] for the
// cause.
//
// A panic in fn goes on to Do's caller after the stream has drained and the memory is back. fn must not call Do: a job
// that holds memory and waits for more can wait forever.
func (d *Device) Do(ctx context.Context, job Job, fn func(*Queue) error) (err error) {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return ErrClosed
	}
	d.jobs.Add(1)
	d.mu.Unlock()
	defer d.jobs.Done()

	if job.Footprint < 0 {
		return refuse("Do", "Job.Footprint", job.Footprint, "must not be negative")
	}
	if job.Held < 0 {
		return refuse("Do", "Job.Held", job.Held, "must not be negative")
	}
	if job.Units < 0 {
		return refuse("Do", "Job.Units", job.Units, "must not be negative")
	}
	plan := scheduleOf(ctx)
	if plan.class >= numClasses {
		return refuse("Do", "the context's class", uint8(plan.class), "is no class")
	}
	q := &Queue{ctx: ctx, dev: d, ticket: ticket{
		job: job, class: plan.class, deadline: deadlineOf(ctx, plan), client: plan.client, arrived: time.Now(),
	}}
	if d.observe != nil {
		defer func() { d.observe(q.event(time.Now(), err)) }()
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := d.sched.acquire(ctx, &q.ticket); err != nil {
		return err
	}
	err = ErrEnded // for where fn panics
	defer func() {
		if errors.Is(err, driver.ErrDeviceLost) {
			d.lose.Do(func() {
				d.sched.shut(fmt.Errorf("kernels: the device is of no use since: %w", err), true)
				close(d.lost)
			})
		}
		d.sched.release(&q.ticket, err, time.Now())
	}()
	if limit := d.longest[q.class]; limit > 0 {
		defer q.limitRun(limit)()
	}
	err = q.run(fn)
	if job.Timing != nil {
		*job.Timing = Timing{d.Info().Backend, q.waited(), time.Since(q.began)}
	}
	return err
}

// limitRun ends the job's context when the job has had the device for so long. stop ends the watching.
func (q *Queue) limitRun(limit time.Duration) (stop func()) {
	ctx, cancel := context.WithCancelCause(q.ctx)
	q.ctx = ctx
	s := &q.dev.sched
	s.mu.Lock() // so that the timer, which may be early, sees itself
	defer s.mu.Unlock()
	var timer *time.Timer
	timer = time.AfterFunc(limit, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if left := limit - q.ran(time.Now()); left > 0 { // it has paused
			timer.Reset(left)
			return
		}
		cancel(&RunError{q.job.Label, q.class, limit})
	})
	return func() {
		timer.Stop()
		cancel(nil)
	}
}

// event is what came of the job.
func (t *ticket) event(now time.Time, err error) JobEvent {
	e := JobEvent{Label: t.job.Label, Class: t.class, Units: t.job.Units, Waited: now.Sub(t.arrived), Err: err}
	if t.begun() {
		e.Waited, e.Ran = t.began.Sub(t.arrived), t.ran(now)
		e.Paused = now.Sub(t.began) - e.Ran
	}
	if !t.deadline.IsZero() {
		e.Late = max(now.Sub(t.deadline), 0)
	}
	return e
}

// run calls fn and drains the stream, whatever fn does: it may panic or exit the goroutine, and its memory goes back
// after this.
func (q *Queue) run(fn func(*Queue) error) (err error) {
	// Backends may copy on this goroutine, from host memory that another process can take away: a panic, and not the
	// end.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		q.done.Store(true)
		if q.stream != nil { // it may have been lost in Yield
			if werr := q.stream.Wait(q.ctx); err == nil {
				err = werr
			}
		}
		if q.scratch != nil {
			heaps.Put(q.scratch)
		}
		if q.stream != nil {
			if perr := q.buryArena(); err == nil {
				err = perr
			}
		}
		q.forgetMemos()
	}()
	if err := q.poisonArena(); err != nil {
		return err
	}
	return fn(q)
}

// Queue is a job's access to the device. It belongs to the job's function and must not be used after it returns,
// nor from several goroutines at a time.
type Queue struct {
	ctx context.Context
	dev *Device
	ticket
	// scratch is what Alloc hands out of the arena; nil before the first.
	scratch *heap
	padded  []block     // what Alloc handed out with padding behind it; only with Config.Poison
	done    atomic.Bool // set when fn has returned: the stream may be another job's
	chunk   chunk
	memos   []*Memo // that stay until the job ends, those that were recalled included
	// operands has those of the op that Run checks, here so that they are not allocated for each.
	operands [8]driver.Operand
}

// waited is the time that the job waited for memory and a stream.
func (q *Queue) waited() time.Duration { return q.began.Sub(q.arrived) }

// Wait blocks until what was enqueued so far is done, so that downloads can be read within the job.
func (q *Queue) Wait() error {
	if q.done.Load() {
		return ErrEnded
	}
	return q.stream.Wait(q.ctx)
}

// chunkTime is how long a job should keep others waiting at most.
const chunkTime = time.Millisecond

// firstChunk is the units of a chunk when nothing has been measured.
const firstChunk = 1 << 20

// chunk is work between two calls of Yield.
type chunk struct {
	label string // empty: it is not measured
	units int64
	began time.Time
}

// Chunk begins a chunk of long work, which [Queue.Yield] ends: it returns how many units of it take about a
// millisecond, by what chunks of the same label took before, at least 1 and at most left. Units are what the time grows
// with, such as pixels. Line-scan jobs, which nobody is to go before, get all that is left. left must not be 0.
func (q *Queue) Chunk(label string, left int64) int64 {
	if q.class == LineScan {
		return left
	}
	q.chunk = chunk{label, q.dev.sched.chunkUnits(label, left), time.Now()}
	return q.chunk.units
}

// SetChunkUnits says how many units the chunk has, where that is not what [Queue.Chunk] returned.
func (q *Queue) SetChunkUnits(units int64) { q.chunk.units = units }

// Yield waits for what was enqueued so far, as Wait does, and then lets other jobs go first. Long work is to call it
// about every millisecond of the device's time.
//   - It pauses while jobs of more urgent classes are there that came before the call, 10 ms at most. Those that wait
//     for memory don't count.
//   - It pauses, 10 ms at most, while jobs of its class run whose clients have had less of the device.
//   - Where a job of the same class waits for no more than a stream, and is due earlier or this one has had its stream
//     for 2 ms, or its client has had less of the device, it gets this one's, and Yield waits for another. Line-scan
//     keeps its streams.
//
// The job keeps its memory. Yield returns ctx's cause when ctx has ended, or the first error of an op; after that the
// queue is of no more use.
func (q *Queue) Yield() error {
	if err := q.Wait(); err != nil {
		return err
	}
	ctx := q.ctx
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if q.class == LineScan {
		return nil
	}
	if q.dev.poison {
		ctx = context.WithoutCancel(ctx) // so that there is a stream in the end, to overwrite the memory with
	}
	err := q.dev.sched.yield(ctx, &q.ticket, q.chunk)
	q.chunk = chunk{}
	if err != nil {
		q.done.Store(true)
	}
	return err
}
