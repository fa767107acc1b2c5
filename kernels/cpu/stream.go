// Streams: a goroutine each, that runs ops in the order in which they were enqueued.

package cpu

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/polyscan/polyscan/kernels/driver"
)

var (
	errAborted = errors.New("cpu: op stopped")
	errClosed  = errors.New("cpu: stream is closed")
)

// task is a copy, or an op and what does it.
type task struct {
	name string
	call func(stop *stopFlag) error // nil for an op
	op   driver.Op
	run  func(*device, driver.Op, *stopFlag) error
}

func (t *task) do(d *device, stop *stopFlag) error {
	if t.call != nil {
		return t.call(stop)
	}
	return t.run(d, t.op, stop)
}

// stopFlag is what ops are told while they run: to return early, and how urgent they are. The zero value is for ops of
// the lowest priority.
type stopFlag struct {
	atomic.Bool
	level int
	turns *turns // nil: nobody goes before
}

// pace is kept by whoever works on an op for long. It counts work and, each tenth of a millisecond, lets other
// goroutines run (the one that a deadline wakes may otherwise wait 10 ms for a processor), and all ops of higher
// priority, and looks at the flag.
type pace struct {
	stop *stopFlag
	left int       // ns, of those that spend is told
	last time.Time // when left was set
	size int       // to what
}

// paceNs is how long a piece of work is to take between two looks. Memory that others use as well, and slow processors,
// can make the nanoseconds that spend is told ten times too few, so they are measured against the clock.
const paceNs = 100_000

func newPace(stop *stopFlag) pace { return pace{stop: stop, left: paceNs / 8} }

// spend says that work of about so many nanoseconds was done or is about to be. It returns true when to stop.
func (p *pace) spend(ns int) bool {
	p.left -= ns
	return p.left <= 0 && p.look() // in two functions, so that this one is inlined
}

func (p *pace) look() bool {
	if p.last.IsZero() {
		p.size = paceNs
	} else if took := int(time.Since(p.last)); took > 0 {
		p.size = min(max(p.size*paceNs/took, p.size/4, paceNs/32), 2*p.size, paceNs)
	}
	p.left = p.size
	runtime.Gosched()
	if p.stop.turns != nil {
		p.stop.turns.wait(p.stop)
	}
	p.last = time.Now()
	return p.stop.Load()
}

// stream implements driver.Stream.
type stream struct {
	dev  *device
	stop stopFlag

	mu      sync.Mutex
	changed *sync.Cond // queue, running or closed changed
	queue   []task
	running bool
	busy    bool // as turns knows it
	closed  bool
	err     error         // of the first op that failed since the last Wait
	done    chan struct{} // closed when the goroutine has returned
}

// NewStream implements driver.Device. There are priorities from 0 to 2; others count as the nearest one.
func (d *device) NewStream(priority int) (driver.Stream, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errors.New("cpu: device is closed")
	}
	d.streams++
	s := &stream{dev: d, done: make(chan struct{})}
	s.stop.level, s.stop.turns = min(max(priority, 0), priorities-1), &d.turns
	s.changed = sync.NewCond(&s.mu)
	go s.loop()
	return s, nil
}

func (s *stream) loop() {
	defer close(s.done)
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		for len(s.queue) == 0 && !s.closed {
			s.changed.Wait()
		}
		if s.closed {
			return
		}
		t := s.queue[0]
		s.queue[0] = task{}
		if s.queue = s.queue[1:]; len(s.queue) == 0 {
			s.queue = nil
		}
		if s.err != nil {
			s.progress()
			continue
		}
		s.running = true
		s.mu.Unlock()
		s.dev.turns.enter(&s.stop)
		err := guard(t.name, func() error { return t.do(s.dev, &s.stop) })
		s.dev.turns.leave(&s.stop)
		s.mu.Lock()
		s.running = false
		if err != nil && s.err == nil {
			s.err = fmt.Errorf("cpu: %s: %w", t.name, err)
		}
		s.progress()
	}
}

// progress tells everyone who waits for a change. s.mu is held. Who waits for the stream comes last: whoever is woken
// last runs first.
func (s *stream) progress() {
	if busy := s.running || len(s.queue) > 0; busy != s.busy {
		s.busy = busy
		if busy {
			s.dev.turns.begin(s.stop.level)
		} else {
			s.dev.turns.end(s.stop.level)
		}
	}
	s.changed.Broadcast()
}

// guard turns a panic into an error: a bug in one op must not end the server. Nor must host memory that is shared with
// another process, which can take its pages away.
func guard(name string, f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in %s: %v (%s)", name, p, panicSite())
		}
	}()
	return f()
}

// panicSite says where the panic that is being recovered from happened.
func panicSite() string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	panicked := false
	for {
		f, more := frames.Next()
		inRuntime := strings.HasPrefix(f.Function, "runtime.")
		if panicked && !inRuntime {
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
		panicked = panicked || inRuntime
		if !more {
			return "unknown place"
		}
	}
}

func (s *stream) enqueue(t task) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	s.queue = append(s.queue, t)
	s.progress()
	return nil
}

// halt drops what has not begun and stops what has. s.mu is held.
func (s *stream) halt() {
	s.stop.Store(true)
	s.queue = nil
	s.progress()
	s.dev.turns.wake()
}

func (s *stream) Wait(ctx context.Context) error {
	var cut, over bool // under mu: ctx ended before the stream had drained; this call has returned
	quit := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !over && (s.running || len(s.queue) > 0) {
			cut = true
			s.halt()
		}
	})
	defer quit()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.running || len(s.queue) > 0 {
		s.changed.Wait()
	}
	over = true
	err := s.err
	s.err = nil
	s.stop.Store(s.closed)
	if cut {
		return context.Cause(ctx)
	}
	return err
}

func (s *stream) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.halt()
	s.mu.Unlock()
	<-s.done
	s.dev.mu.Lock()
	s.dev.streams--
	s.dev.mu.Unlock()
	return nil
}

func (s *stream) Upload(dst driver.Slice, src [][]byte) error {
	return s.enqueue(task{name: "Upload", call: func(stop *stopFlag) error {
		return s.dev.gather(view(dst), src, "Upload", stop)
	}})
}

func (s *stream) Download(dst []byte, src driver.Slice) error {
	return s.enqueue(task{name: "Download", call: func(stop *stopFlag) error {
		return s.dev.gather(dst, [][]byte{view(src)}, "Download", stop)
	}})
}

const (
	// copyStep is how many bytes are copied at a time. The runtime copies more than some hundred KiB past the caches,
	// from which the next op would then have to fetch them again.
	copyStep = 128 << 10
	// copyBlock is how many bytes of a copy a thread takes at a time.
	copyBlock = 1 << 20
)

// gather copies the concatenation of src to dst.
func (d *device) gather(dst []byte, src [][]byte, name string, stop *stopFlag) error {
	ends := make([]int, len(src)) // where each piece ends in dst
	n := 0
	for i, p := range src {
		n += len(p)
		ends[i] = n
	}
	if n != len(dst) {
		return fmt.Errorf("%d bytes for a destination of %d", n, len(dst))
	}
	var next atomic.Int64
	return d.share(name, min(d.threads, n/copyBlock), stop, func(s *scratch) error {
		for {
			from := int(next.Add(1)-1) * copyBlock
			if from >= n {
				return nil
			}
			to := min(from+copyBlock, n)
			for i := sort.SearchInts(ends, from+1); from < to; {
				p := src[i][len(src[i])-(ends[i]-from):]
				k := copy(dst[from:min(to, from+copyStep)], p)
				if from += k; from == ends[i] {
					i++
				}
				if s.pace.spend(10 + k/16) {
					return errAborted
				}
			}
		}
	})
}

func (d *device) fill(op *driver.Fill, stop *stopFlag) error {
	p := newPace(stop)
	for to := view(op.Dst); len(to) > 0; {
		n := min(len(to), copyStep)
		fill(to[:n], op.Value)
		if to = to[n:]; p.spend(n / 16) {
			return errAborted
		}
	}
	return nil
}

// fill sets each byte of b.
func fill(b []byte, v byte) {
	if v == 0 {
		clear(b)
		return
	}
	n := min(len(b), 64)
	for i := range b[:n] {
		b[i] = v
	}
	repeat(b, n)
}

// fill16 sets each 16-bit sample of b, little endian.
func fill16(b []byte, v uint16) {
	n := min(len(b)&^1, 64)
	for i := 0; i < n; i += 2 {
		binary.LittleEndian.PutUint16(b[i:], v)
	}
	repeat(b, n)
}

// repeat fills b with its first n bytes. Doubling copies run at the speed of memory, which a loop over bytes does not.
func repeat(b []byte, n int) {
	for n < len(b) {
		n += copy(b[n:], b[:min(n, 1<<14)])
	}
}
