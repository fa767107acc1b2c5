//go:build cuda

// Streams: a goroutine each, on a thread of its own with the context current, that hands ops to a CUDA stream in the
// order in which they were enqueued.

package cuda

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/polyscan/polyscan/kernels/driver"
)

// How long a thread looks again and again before it goes to sleep. Waking a sleeping thread takes 5 to 50 µs, as much as
// many ops do; so each wait begins with a spin that covers the short ones, and long ones burn no more than that.
const (
	spinGPU   = 200 * time.Microsecond // for the GPU: then the driver blocks until an interrupt
	spinQueue = 20 * time.Microsecond  // of the worker for the next op
	spinWait  = 60 * time.Microsecond  // of Wait for the worker
)

// spinning is off where threads have to share few cores: whoever spins then keeps the one that it waits for from running.
var spinning = runtime.NumCPU() >= 4

// task is an op with its arguments bound, or a call of Wait.
type task struct {
	name   string
	run    func() error
	always bool // runs after an op that failed, too
	wait   *waiter
}

// waiter is a call of Wait.
type waiter struct {
	over atomic.Bool // set with done, for spinning
	done chan struct{}
	err  error
	cut  bool // under mu: ctx ended before the stream had drained
}

// stream implements driver.Stream.
type stream struct {
	dev      *device
	priority int
	stop     atomic.Bool // running ops return early; they look at it between copies
	queued   atomic.Int32

	mu      sync.Mutex
	changed *sync.Cond // queue or closed changed
	queue   []task
	fresh   bool // something was enqueued since the last Wait
	closed  bool
	err     error         // of the first op that failed since the last Wait
	done    chan struct{} // closed when the goroutine has returned
	freed   error         // what went wrong when it ended

	// Of the goroutine.
	cu        cu.Stream
	drained   cu.Event
	ring      ring
	head      []byte // what MaskPrepare writes of a set
	last      string // the op that was enqueued last
	dirty     bool   // the GPU was given something since it was waited for
	capturing bool
}

func (d *device) NewStream(priority int) (driver.Stream, error) {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil, errors.New("cuda: device is closed")
	}
	d.streams++
	d.mu.Unlock()
	s := &stream{dev: d, priority: priority, done: make(chan struct{})}
	s.changed = sync.NewCond(&s.mu)
	ready := make(chan error)
	go s.loop(ready)
	if err := <-ready; err != nil {
		<-s.done
		s.left()
		return nil, fmt.Errorf("cuda: stream: %w", err)
	}
	return s, nil
}

func (s *stream) left() {
	s.dev.mu.Lock()
	s.dev.streams--
	s.dev.mu.Unlock()
}

// loop is the goroutine. Its thread ends with it, so that no other goroutine finds the context current.
func (s *stream) loop(ready chan<- error) {
	defer close(s.done)
	runtime.LockOSThread()
	if err := s.open(); err != nil {
		s.free()
		ready <- err
		return
	}
	ready <- nil
	for {
		t, ok := s.next()
		if !ok {
			break
		}
		if t.wait != nil {
			s.answer(t.wait)
			continue
		}
		s.mu.Lock()
		skip := s.err != nil && !t.always
		s.mu.Unlock()
		if skip {
			continue
		}
		err := s.dev.alive()
		if err == nil || t.always {
			s.last = t.name
			err = guard(t.name, t.run)
		}
		s.fail(t.name, err)
	}
	// Nobody may be left waiting, and what the GPU still has must be over before its memory goes back.
	s.mu.Lock()
	left := s.queue
	s.queue = nil
	s.mu.Unlock()
	for _, t := range left {
		if t.wait != nil {
			s.fail("Wait", errClosed)
			s.answer(t.wait)
		}
	}
	if err := s.drain(true); err != nil {
		s.freed = err
	}
	if err := s.free(); s.freed == nil {
		s.freed = err
	}
}

// fail notes the first error.
func (s *stream) fail(name string, err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = fmt.Errorf("cuda: %s: %w", name, err)
	}
}

// open makes what the goroutine works with.
func (s *stream) open() error {
	if err := s.dev.alive(); err != nil {
		return err
	}
	if err := cu.SetCurrentContext(s.dev.ctx); err != nil {
		return s.dev.check("cuCtxSetCurrent", err)
	}
	var err error
	// To CUDA the lowest number is the highest priority. What is beyond its range is clamped.
	if s.cu, err = cu.MakeStreamWithPriority(min(max(-s.priority, s.dev.most), s.dev.least), cu.NonBlocking); err != nil {
		s.cu = cu.Stream{}
		return s.dev.check("cuStreamCreateWithPriority", err)
	}
	if s.drained, err = cu.MakeEvent(cu.BlockingSyncEvent | cu.DisableTiming); err != nil {
		s.drained = cu.Event{}
		return s.dev.check("cuEventCreate", err)
	}
	return s.ring.open(s)
}

// free gives back what open made. In a lost context it can't, and what is there goes with the context.
func (s *stream) free() error {
	err := s.ring.close()
	if s.drained != (cu.Event{}) {
		if e := failed("cuEventDestroy", cu.DestroyEvent(&s.drained)); err == nil {
			err = e
		}
	}
	if s.cu != (cu.Stream{}) {
		if e := failed("cuStreamDestroy", s.cu.Destroy()); err == nil {
			err = e
		}
	}
	if s.dev.lost.Load() != nil {
		return nil
	}
	return err
}

// next waits for the next task. ok is false when the stream is closed.
func (s *stream) next() (t task, ok bool) {
	if spinning && s.queued.Load() == 0 {
		for start := time.Now(); s.queued.Load() == 0 && time.Since(start) < spinQueue; {
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) == 0 && !s.closed {
		s.changed.Wait()
	}
	if s.closed {
		return task{}, false
	}
	t = s.queue[0]
	s.queue[0] = task{}
	if s.queue = s.queue[1:]; len(s.queue) == 0 {
		s.queue = nil
	}
	s.queued.Store(int32(len(s.queue)))
	return t, true
}

// guard turns a panic into an error: a bug in one op must not end the server.
func guard(name string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in %s: %v\n%s", name, p, debug.Stack())
		}
	}()
	return f()
}

func (s *stream) enqueue(name string, run func() error) error {
	return s.put(task{name: name, run: run})
}

func (s *stream) put(t task) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	s.queue = append(s.queue, t)
	s.queued.Store(int32(len(s.queue)))
	s.fresh = t.wait == nil
	s.changed.Signal()
	return nil
}

// await waits for an event: awake first, then asleep.
func (s *stream) await(e cu.Event) error {
	for start := time.Now(); ; {
		err := e.Query()
		if err == nil {
			return nil
		}
		if codeOf(err) != codeNotReady {
			return s.dev.check("cuEventQuery", err)
		}
		if time.Since(start) > spinGPU {
			return s.dev.check("cuEventSynchronize", e.Synchronize())
		}
	}
}

// drain waits until the GPU has done all it was given. Then it hands on what was downloaded, or drops it. The GPU of a
// lost device does nothing any more.
func (s *stream) drain(drop bool) error {
	var err error
	if s.dirty {
		err = s.dev.alive()
		if err == nil {
			if err = s.dev.check("cuEventRecord", s.drained.Record(s.cu)); err == nil {
				err = s.await(s.drained)
			}
		}
		s.dirty = false
	}
	s.ring.finish(drop || err != nil)
	return err
}

// answer ends a Wait: the worker has handed everything before it to the GPU.
func (s *stream) answer(w *waiter) {
	s.mu.Lock()
	bad := s.err != nil || w.cut
	s.mu.Unlock()
	if err := s.drain(bad); err != nil {
		s.fail("Wait after "+s.last, err)
	}
	s.mu.Lock()
	w.err, s.err = s.err, nil
	w.over.Store(true) // under mu, so that ctx's end comes before or after
	s.stop.Store(s.closed)
	s.mu.Unlock()
	close(w.done)
}

func (s *stream) Wait(ctx context.Context) error {
	s.mu.Lock()
	idle := !s.fresh
	s.mu.Unlock()
	if idle {
		return nil
	}
	w := &waiter{done: make(chan struct{})}
	cut := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if w.over.Load() {
			return
		}
		w.cut = true
		s.stop.Store(true)
		// Drop what has not begun, but for what ends a capture and for this call.
		keep := s.queue[:0]
		for _, t := range s.queue {
			if t.wait != nil || t.always {
				keep = append(keep, t)
			}
		}
		clear(s.queue[len(keep):])
		s.queue = keep
		s.queued.Store(int32(len(keep)))
	}
	if ctx.Err() != nil {
		cut()
	} else {
		defer context.AfterFunc(ctx, cut)()
	}
	if err := s.put(task{name: "Wait", wait: w}); err != nil {
		return err
	}
	if spinning {
		for start := time.Now(); !w.over.Load() && time.Since(start) < spinWait; {
		}
	}
	<-w.done
	if w.cut { // nobody writes it any more
		return context.Cause(ctx)
	}
	return w.err
}

func (s *stream) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		<-s.done
		return nil
	}
	s.closed = true
	s.stop.Store(true)
	s.queued.Store(1) // whoever spins stops
	s.changed.Signal()
	s.mu.Unlock()
	<-s.done
	s.left()
	if s.freed != nil && !errors.Is(s.freed, driver.ErrDeviceLost) {
		return fmt.Errorf("cuda: stream: %w", s.freed)
	}
	return nil
}

// launch enqueues a kernel. params is a struct of layout.go, of which the kernel takes so many bytes.
func (s *stream) launch(k kernel, gx, gy, threads, shared int, params unsafe.Pointer, bytes uintptr) error {
	if gx == 0 || gy == 0 {
		return nil
	}
	s.dirty = true
	return s.dev.checkCode(kernelNames[k].name, launch(s.dev.kernels[k], gx, gy, threads, shared, s.cu, params, bytes))
}
