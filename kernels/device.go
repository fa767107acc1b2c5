package kernels

import (
	"context"
	"errors"
	"fmt"
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
	// Streams is how many jobs may run at the same time; 0 means 4.
	Streams int
	// Poison fills memory with 0xA5 before and after its use, so that reads of what was never written, or of what
	// went back, show, and adds a guard behind each block that makes writes beyond its end show: see [ErrOverrun].
	// For tests.
	Poison bool
}

const (
	defaultStreams = 4
	maxStreams     = 256
)

// Device is an opened device with its reserved memory. Its methods may be called from several goroutines.
type Device struct {
	dev    driver.Device
	info   driver.Info
	mem    *memory
	sched  sched
	poison bool

	mu     sync.Mutex
	closed bool
	jobs   sync.WaitGroup
}

// Open opens a device and reserves its memory. Close it after use.
func Open(d driver.Driver, cfg Config) (*Device, error) {
	if cfg.MemoryBytes < 0 {
		return nil, &ArgError{"Open", "Config.MemoryBytes", cfg.MemoryBytes, "must not be negative"}
	}
	if cfg.Streams < 0 || cfg.Streams > maxStreams {
		return nil, &ArgError{"Open", "Config.Streams", cfg.Streams, fmt.Sprintf("must be 0 to %d", maxStreams)}
	}
	if cfg.Streams == 0 {
		cfg.Streams = defaultStreams
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
		return nil, errors.Join(fmt.Errorf("kernels: reserve %d bytes on %s: %w", cfg.MemoryBytes, d.Name(), err), dev.Close())
	}
	k := &Device{
		dev:    dev,
		info:   info,
		mem:    newMemory(mem),
		poison: cfg.Poison,
	}
	k.sched.mem = k.mem
	k.mem.onFree = k.sched.memoryFreed
	if cfg.Poison {
		s, err := dev.NewStream(0)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("kernels: stream on %s: %w", d.Name(), err), k.Close())
		}
		k.mem.poisoner = &poisoner{mem: mem, stream: s}
	}
	for range cfg.Streams {
		s, err := dev.NewStream(0)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("kernels: stream on %s: %w", d.Name(), err), k.Close())
		}
		k.sched.idle = append(k.sched.idle, s)
		k.sched.streams++
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

// Close waits for the jobs that run, refuses those that still wait with [ErrClosed], and frees the device. It returns
// an error that matches [ErrLeak] if kept blocks were not freed. Calls after the first do nothing.
func (d *Device) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	d.mu.Unlock()
	d.sched.shut()
	d.jobs.Wait()
	var errs []error
	for _, s := range d.sched.idle {
		errs = append(errs, s.Close())
	}
	errs = append(errs, d.mem.close(), d.dev.Close())
	return errors.Join(errs...)
}

// Job is what a unit of work declares before it starts.
type Job struct {
	// Label names the work in accounting and errors, such as "reduce".
	Label string
	// Footprint is the most bytes that the job allocates with [Alloc]. Sum sizes with [Bytes]. A job of 0 bytes
	// waits for a stream only.
	Footprint int64
}

// Do runs fn as a job. It waits, until ctx ends, for Footprint bytes and a stream; runs fn, which allocates and
// enqueues; and waits until the stream has drained, whatever fn returned. Then the job's memory goes back. Do returns
// fn's error, or else the first error of an op, or ctx's cause where ctx ended first. A job larger than the
// device's memory is refused at once with a [*CapacityError]; one whose ctx ended while it waited for memory gets an
// error that matches both ctx's cause and [*CapacityError]. A panic in fn goes on to Do's caller after the stream has
// drained and the memory is back. fn must not call Do: a job that holds memory and waits for more can wait forever.
func (d *Device) Do(ctx context.Context, job Job, fn func(*Queue) error) error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return ErrClosed
	}
	d.jobs.Add(1)
	d.mu.Unlock()
	defer d.jobs.Done()

	if job.Footprint < 0 {
		return &ArgError{"Do", "Job.Footprint", job.Footprint, "must not be negative"}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	start := time.Now()
	g, err := d.sched.acquire(ctx, job)
	if err != nil {
		return err
	}
	defer d.sched.release(g)
	return (&Queue{ctx: ctx, dev: d, stream: g.stream, arena: g.arena, waited: time.Since(start)}).run(fn)
}

// run calls fn and drains the stream, whatever fn does: it may panic or exit the goroutine, and its memory goes back
// after this.
func (q *Queue) run(fn func(*Queue) error) (err error) {
	defer func() {
		q.done.Store(true)
		if werr := q.stream.Wait(q.ctx); err == nil {
			err = werr
		}
		if q.scratch != nil {
			heaps.Put(q.scratch)
		}
		if q.dev.poison && q.arena.len > 0 {
			perr := inspect(q.stream, q.dev.mem.mem, q.arena)
			if perr = errors.Join(perr, overwrite(q.stream, q.dev.mem.mem, q.arena)); err == nil {
				err = perr
			}
		}
	}()
	if q.dev.poison && q.arena.len > 0 {
		if err := overwrite(q.stream, q.dev.mem.mem, q.arena); err != nil {
			return err
		}
	}
	return fn(q)
}

// Queue is a job's access to the device. It belongs to the job's function and must not be used after it returns,
// nor from several goroutines at a time.
type Queue struct {
	ctx    context.Context
	dev    *Device
	stream driver.Stream
	arena  block
	// scratch is what Alloc hands out of the arena; nil before the first.
	scratch *heap
	waited  time.Duration
	done    atomic.Bool // set when fn has returned: the stream may be another job's
}

// Device returns the device that runs the job.
func (q *Queue) Device() *Device { return q.dev }

// Waited is the time that the job waited for memory and a stream.
func (q *Queue) Waited() time.Duration { return q.waited }

// Wait blocks until what was enqueued so far is done, so that downloads can be read within the job.
func (q *Queue) Wait() error {
	if q.done.Load() {
		return ErrEnded
	}
	return q.stream.Wait(q.ctx)
}
