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

	"github.com/polyscan/polyscan/kernels/driver"
)

var (
	errAborted = errors.New("cpu: op stopped")
	errClosed  = errors.New("cpu: stream is closed")
)

// task is an op with its arguments bound.
type task struct {
	name string
	run  func(stop *stopFlag) error
}

// stopFlag tells running ops to return early.
type stopFlag struct{ atomic.Bool }

// pace is kept by whoever works on an op for long. It counts work and, each fifth of a millisecond, lets other
// goroutines run (the one that a deadline wakes may otherwise wait 10 ms for a processor) and looks at the flag.
type pace struct {
	stop *stopFlag
	left int // ns
}

const paceNs = 200_000

// spend says that work of about so many nanoseconds was done or is about to be. It returns true when to stop.
func (p *pace) spend(ns int) bool {
	if p.left -= ns; p.left > 0 {
		return false
	}
	p.left = paceNs
	runtime.Gosched()
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
	closed  bool
	err     error         // of the first op that failed since the last Wait
	done    chan struct{} // closed when the goroutine has returned
}

func (d *device) NewStream(int) (driver.Stream, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errors.New("cpu: device is closed")
	}
	d.streams++
	s := &stream{dev: d, done: make(chan struct{})}
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
			s.changed.Broadcast()
			continue
		}
		s.running = true
		s.mu.Unlock()
		err := guard(t.name, func() error { return t.run(&s.stop) })
		s.mu.Lock()
		s.running = false
		if err != nil && s.err == nil {
			s.err = fmt.Errorf("cpu: %s: %w", t.name, err)
		}
		s.changed.Broadcast()
	}
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

func (s *stream) enqueue(name string, run func(*stopFlag) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	s.queue = append(s.queue, task{name, run})
	s.changed.Broadcast()
	return nil
}

func (s *stream) Wait(ctx context.Context) error {
	var cut, over bool // under mu: ctx ended before the stream had drained; this call has returned
	quit := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !over && (s.running || len(s.queue) > 0) {
			cut = true
			s.stop.Store(true)
			s.queue = nil
			s.changed.Broadcast()
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
	s.queue = nil
	s.stop.Store(true)
	s.changed.Broadcast()
	s.mu.Unlock()
	<-s.done
	s.dev.mu.Lock()
	s.dev.streams--
	s.dev.mu.Unlock()
	return nil
}

func (s *stream) Upload(dst driver.Slice, src [][]byte) error {
	return s.enqueue("Upload", func(stop *stopFlag) error {
		to, err := view(dst, "Dst")
		if err != nil {
			return err
		}
		return s.dev.gather(to, src, "Upload", stop)
	})
}

func (s *stream) Download(dst []byte, src driver.Slice) error {
	return s.enqueue("Download", func(stop *stopFlag) error {
		from, err := view(src, "Src")
		if err != nil {
			return err
		}
		return s.dev.gather(dst, [][]byte{from}, "Download", stop)
	})
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

func (s *stream) Fill(dst driver.Slice, value byte) error {
	return s.enqueue("Fill", func(stop *stopFlag) error {
		to, err := view(dst, "Dst")
		if err != nil {
			return err
		}
		p := pace{stop: stop, left: paceNs}
		for len(to) > 0 {
			n := min(len(to), copyStep)
			fill(to[:n], value)
			if to = to[n:]; p.spend(n / 16) {
				return errAborted
			}
		}
		return nil
	})
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
