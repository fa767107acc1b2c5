//go:build cuda

// Streams: CUDA streams that ops are enqueued on by the goroutine that calls them, or by a worker where they keep the
// host busy for long.

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

const (
	// spinGPU is how long a thread asks for an event again and again before it sleeps until an interrupt: waking it
	// takes 10 to 50 µs, as much as many ops do.
	spinGPU = 200 * time.Microsecond
	// inlineBytes is how much an op may copy on the host for the goroutine that calls it to do so: half a ring, some
	// 300 µs. More goes to the worker, where it can be stopped.
	inlineBytes = slotCount / 2 * slotBytes
	faultBytes  = 8
)

// task is a copy, or an op and what does it.
type task struct {
	name string
	call func() error // nil for an op
	op   driver.Op
	run  func(*stream, driver.Op) error
}

// stream implements driver.Stream.
//
// Most ops take a few microseconds to hand to the GPU, and a goroutine that has to be woken for that some 100: so the
// goroutine that calls an op runs it, on whatever thread it is, with the context made current. Large copies go to the
// worker, a goroutine on a thread of its own, and so does all that is enqueued behind one until it has been handed
// over. What is below "of whoever runs" is the worker's while it has tasks, and else of the goroutine that the stream
// belongs to.
type stream struct {
	dev      *device
	priority int
	stop     atomic.Bool  // running ops return early; they look at it between copies
	pending  atomic.Int32 // tasks that the worker was given and has not ended; it goes up by the stream's owner only

	mu      sync.Mutex
	changed *sync.Cond // queue or closed changed, or pending came to 0
	queue   []task
	closed  bool
	err     error         // of the first op that failed since the last Wait
	done    chan struct{} // closed when the worker has returned
	freed   error         // what went wrong when it ended

	// Of whoever runs.
	cu         cu.Stream
	drained    cu.Event
	ring       ring
	cycles     cycleGraphs
	faults     []byte            // page-locked: where kernels report a fault, 8 bytes
	head       []byte            // what MaskPrepare writes of a set
	sums       cu.DevicePtr      // of the blocks of Fingerprint
	last       string            // the op that was enqueued last
	operands   [8]driver.Operand // of the op that runs
	fresh      bool              // something was enqueued since the last Wait
	dirty      bool              // the GPU was given something since it was waited for
	kernelLast bool              // and a kernel was the last of that
	capturing  bool
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

// loop is the worker. Its thread ends with it, so that no other goroutine finds the context current.
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
		if err := s.dev.alive(); err != nil {
			s.fail(t.name, err)
		} else {
			s.perform(t)
		}
		s.ended(1)
	}
	s.pending.Store(0) // what has not begun never will
	// What the GPU still has must be over before its memory goes back.
	if err := s.drain(true); err != nil {
		s.freed = err
	}
	if err := s.free(); s.freed == nil {
		s.freed = err
	}
}

// perform runs a task with the context current, unless one before it failed.
func (s *stream) perform(t task) {
	if s.failedBefore() {
		return
	}
	s.last = t.name
	s.fail(t.name, guard(t.name, func() error { return s.do(&t) }))
}

// do looks at the slices of an op, and does it.
func (s *stream) do(t *task) error {
	if t.call != nil {
		return t.call()
	}
	for _, o := range driver.Operands(t.op, s.operands[:0]) {
		p, err := s.dev.span(*o.Slice, o.Field)
		if err != nil {
			return err
		}
		if o.Access&driver.Write != 0 {
			p.overwritten()
		}
	}
	return t.run(s, t.op)
}

func (s *stream) failedBefore() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil
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
	if s.cu, err = cu.MakeStreamWithPriority(min(max(-s.priority, s.dev.most), s.dev.least),
		cu.NonBlocking); err != nil {
		s.cu = cu.Stream{}
		return s.dev.check("cuStreamCreateWithPriority", err)
	}
	if s.drained, err = cu.MakeEvent(cu.BlockingSyncEvent | cu.DisableTiming); err != nil {
		s.drained = cu.Event{}
		return s.dev.check("cuEventCreate", err)
	}
	if err := s.ring.open(s); err != nil {
		return err
	}
	b, code := hostAlloc(faultBytes)
	if err := s.dev.checkCode("cuMemHostAlloc", code); err != nil {
		return err
	}
	s.faults = b
	*s.fault() = 0
	return s.openSums()
}

// fault is where kernels report what they find wrong, and faultAt its address for them.
func (s *stream) fault() *fault   { return (*fault)(unsafe.Pointer(unsafe.SliceData(s.faults))) }
func (s *stream) faultAt() uint64 { return uint64(uintptr(unsafe.Pointer(s.fault()))) }

// failFaulty notes the fault that kernels reported, if they did, of a stream that has drained.
func (s *stream) failFaulty() (found bool) {
	f := *s.fault()
	if f == 0 {
		return false
	}
	*s.fault() = 0
	s.fail(f.op(), f)
	return true
}

// free gives back what open made. In a lost context it can't, and what is there goes with the context.
func (s *stream) free() error {
	s.cycles.close()
	err := s.ring.close()
	if s.faults != nil {
		if e := failedCode("cuMemFreeHost", hostFree(s.faults)); err == nil {
			err = e
		}
		s.faults = nil
	}
	if s.sums != 0 {
		if e := failed("cuMemFree", cu.MemFree(s.sums)); err == nil {
			err = e
		}
		s.sums = 0
	}
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
	return t, true
}

// ended counts tasks that are over.
func (s *stream) ended(n int) {
	if s.pending.Add(int32(-n)) == 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed.Broadcast()
	}
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

// enqueue runs a task, or hands it to the worker where it copies too many bytes on the host, or the worker has not
// ended what it was given before.
func (s *stream) enqueue(hostBytes int64, t task) error {
	if s.isClosed() {
		return errClosed
	}
	s.fresh = true
	if s.pending.Load() == 0 && (hostBytes <= inlineBytes || s.capturing) {
		err := s.dev.do(func() error {
			s.perform(t)
			return nil
		})
		s.fail(t.name, err)
		return nil
	}
	s.pending.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, t)
	s.changed.Broadcast()
	return nil
}

// await waits for an event: awake first, then asleep.
func (s *stream) await(e cu.Event) error {
	return s.dev.checkCode("cuEventSynchronize", awaitEvent(e, spinGPU))
}

// drain waits until the GPU has done all it was given. Then it hands on what was downloaded, or drops it, which it also
// does where a kernel reported a fault: what was enqueued behind that ran all the same, on whatever was there. The GPU
// of a lost device does nothing any more.
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
		if err == nil && s.failFaulty() {
			drop = true
		}
	}
	s.ring.finish(drop || err != nil)
	if err == nil {
		s.cycles.drained()
	}
	return err
}

// abandon forgets what was enqueued on a device that was lost.
func (s *stream) abandon() {
	s.dirty = false
	s.ring.finish(true)
}

// settle waits until the worker has ended what it was given. When ctx ends first it drops what has not begun.
func (s *stream) settle(ctx context.Context) {
	if s.pending.Load() == 0 {
		return
	}
	over := false // under mu
	cut := func() {
		s.mu.Lock()
		n := 0
		if !over {
			s.stop.Store(true)
			n = len(s.queue)
			s.queue = nil
		}
		s.mu.Unlock()
		if n > 0 {
			s.ended(n)
		}
	}
	if ctx.Err() != nil {
		cut()
	} else {
		defer context.AfterFunc(ctx, cut)()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.pending.Load() != 0 {
		s.changed.Wait()
	}
	over = true
	s.stop.Store(false)
}

func (s *stream) Wait(ctx context.Context) error {
	if s.isClosed() {
		return errClosed
	}
	if !s.fresh {
		return nil
	}
	s.fresh = false
	s.settle(ctx)
	err := s.dev.do(func() error { return s.drain(ctx.Err() != nil || s.failedBefore()) })
	if err != nil {
		s.abandon()
		s.fail("Wait after "+s.last, err)
	}
	s.mu.Lock()
	err, s.err = s.err, nil
	s.mu.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (s *stream) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
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
	s.changed.Broadcast()
	s.mu.Unlock()
	<-s.done
	s.left()
	if s.freed != nil && !errors.Is(s.freed, driver.ErrDeviceLost) {
		return fmt.Errorf("cuda: stream: %w", s.freed)
	}
	return nil
}

// launch enqueues a kernel. params is a struct of abi.go, of so many bytes.
func (s *stream) launch(k kernel, gx, gy, threads, shared int, params unsafe.Pointer, bytes uintptr) error {
	if gx == 0 || gy == 0 {
		return nil
	}
	if s.cycles.recording {
		s.cycles.add(k, gx, gy, threads, shared, params, bytes)
		return nil
	}
	early := s.kernelLast && s.dev.early
	s.dirty, s.kernelLast = true, true
	name := &kernelNames[k]
	return s.dev.checkCode(name.name,
		launch(s.dev.kernels[k], gx, gy, threads, shared, s.cu, early, k.together(), params, bytes))
}

// launch enqueues the kernel on a grid of gx*gy blocks of so many threads, with so many bytes of dynamic shared memory.
func (k kernelFor[P]) launch(s *stream, gx, gy, threads, shared int, params *P) error {
	return s.launch(kernel(k), gx, gy, threads, shared, unsafe.Pointer(params), unsafe.Sizeof(*params))
}
