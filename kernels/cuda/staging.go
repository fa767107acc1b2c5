//go:build cuda

// Staging: the ring of page-locked memory that copies of a stream go through, so that the GPU copies by itself while
// the host gathers the next piece or hands on the last.

package cuda

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/polyscan/polyscan/kernels/driver"
)

const (
	// slotBytes is how much is copied in one go: 19 µs on a PCIe 5 link, several times what it costs to start a copy.
	slotBytes = 1 << 20
	// slotCount makes 8 MiB a stream: while the GPU copies some slots, the host fills others.
	slotCount = 8

	// shareBytes is from where on a copy of host memory is shared among copiers: one core copies some 10 GB/s, a fifth
	// of what the link takes, and starting goroutines costs some microseconds.
	shareBytes = 256 << 10
	maxCopiers = 6
)

// ring is the staging memory of a stream. Only its worker uses it.
type ring struct {
	s     *stream
	slots [slotCount]slot
	cur   int
}

type slot struct {
	host []byte
	used int
	done cu.Event // recorded behind the copies of the slot, when the ring moved on
	busy bool     // done was recorded, and not waited for
	out  []copyOut
}

// copyOut is what a download does when the GPU has copied.
type copyOut struct{ dst, src []byte }

func (r *ring) open(s *stream) error {
	r.s = s
	for i := range r.slots {
		sl := &r.slots[i]
		b, code := hostAlloc(slotBytes)
		if err := s.dev.checkCode("cuMemHostAlloc", code); err != nil {
			return err
		}
		sl.host = b
		var err error
		if sl.done, err = cu.MakeEvent(cu.BlockingSyncEvent | cu.DisableTiming); err != nil {
			sl.done = cu.Event{}
			return s.dev.check("cuEventCreate", err)
		}
	}
	return nil
}

// close frees the ring, whose stream has drained. What can't be freed goes with the context.
func (r *ring) close() error {
	var first error
	for i := range r.slots {
		sl := &r.slots[i]
		if sl.done != (cu.Event{}) {
			if err := failed("cuEventDestroy", cu.DestroyEvent(&sl.done)); err != nil && first == nil {
				first = err
			}
		}
		if sl.host != nil {
			if err := failedCode("cuMemFreeHost", hostFree(sl.host)); err != nil && first == nil {
				first = err
			}
			sl.host = nil
		}
	}
	return first
}

// take returns n bytes, at most slotBytes, and their slot. It waits where the GPU is still busy with them. They have to
// be handed to the GPU before the next take.
func (r *ring) take(n int) ([]byte, *slot, error) {
	sl := &r.slots[r.cur]
	if n > slotBytes-sl.used {
		next := &r.slots[(r.cur+1)%slotCount]
		if r.s.capturing {
			// What is captured runs again: its staging memory must stay as it is, and a capture can't be waited for.
			if next.used > 0 {
				return nil, nil, fmt.Errorf("copies of more than %d bytes can't be captured", slotBytes*slotCount)
			}
		} else {
			if sl.used > 0 {
				if err := r.s.dev.check("cuEventRecord", sl.done.Record(r.s.cu)); err != nil {
					return nil, nil, err
				}
				sl.busy = true
			}
			if err := r.retire(next); err != nil {
				return nil, nil, err
			}
		}
		r.cur = (r.cur + 1) % slotCount
		sl = next
	}
	b := sl.host[sl.used : sl.used+n : sl.used+n]
	sl.used = min(int(alignUp(int64(sl.used+n))), slotBytes)
	return b, sl, nil
}

// retire waits for a slot and makes it free.
func (r *ring) retire(sl *slot) error {
	if sl.busy {
		if err := r.s.await(sl.done); err != nil {
			return err
		}
		sl.busy = false
	}
	sl.handOn()
	sl.used = 0
	return nil
}

// handOn copies what was downloaded to where it was asked for.
func (sl *slot) handOn() {
	for _, c := range sl.out {
		copyHost(c.dst, c.src)
	}
	clear(sl.out)
	sl.out = sl.out[:0]
}

// finish makes all slots free, of a stream that has drained. Downloads are handed on, oldest first, or dropped.
func (r *ring) finish(drop bool) {
	for i := range r.slots {
		sl := &r.slots[(r.cur+1+i)%slotCount]
		if drop {
			clear(sl.out)
			sl.out = sl.out[:0]
		}
		sl.handOn()
		sl.busy = false
		sl.used = 0
	}
	r.cur = 0
}

// copiers is how many goroutines share a large copy.
var copiers = min(maxCopiers, max(1, runtime.NumCPU()/2))

// copyHost copies host memory, large pieces by several goroutines.
func copyHost(dst, src []byte) {
	if len(src) < shareBytes || copiers == 1 {
		copy(dst, src)
		return
	}
	var wg sync.WaitGroup
	each := (len(src)/copiers + 63) &^ 63
	for from := each; from < len(src); from += each {
		to := min(from+each, len(src))
		wg.Go(func() { copy(dst[from:to], src[from:to]) })
	}
	copy(dst, src[:each])
	wg.Wait()
}

// gather reads the concatenation of pieces.
type gather struct {
	pieces [][]byte
	at     int // bytes of the first piece that were read
}

// next fills b.
func (g *gather) next(b []byte) {
	for len(b) > 0 {
		n := min(len(b), len(g.pieces[0])-g.at)
		copyHost(b[:n], g.pieces[0][g.at:g.at+n])
		b = b[n:]
		if g.at += n; g.at == len(g.pieces[0]) {
			g.pieces, g.at = g.pieces[1:], 0
		}
	}
}

// send uploads n bytes of g to an address. Where stop is not nil it is looked at between slots.
func (s *stream) send(to uint64, g *gather, n int64, stop func() bool) error {
	for n > 0 {
		if stop != nil && stop() {
			return errAborted
		}
		// What is left of the current slot takes a small copy, and a new one the pieces of a large copy.
		b, _, err := s.ring.take(int(min(n, slotBytes)))
		if err != nil {
			return err
		}
		g.next(b)
		if err := s.copyIn(to, b); err != nil {
			return err
		}
		to += uint64(len(b))
		n -= int64(len(b))
	}
	return nil
}

// copyIn enqueues a copy from page-locked memory.
func (s *stream) copyIn(to uint64, b []byte) error {
	s.dirty, s.kernelLast = true, false
	return s.dev.check("cuMemcpyHtoDAsync",
		cu.MemcpyHtoDAsync(cu.DevicePtr(to), unsafe.Pointer(unsafe.SliceData(b)), int64(len(b)), s.cu))
}

// copyOut enqueues a copy to page-locked memory.
func (s *stream) copyOut(b []byte, from uint64) error {
	s.dirty, s.kernelLast = true, false
	return s.dev.check("cuMemcpyDtoHAsync",
		cu.MemcpyDtoHAsync(unsafe.Pointer(unsafe.SliceData(b)), cu.DevicePtr(from), int64(len(b)), s.cu))
}

func (s *stream) Upload(dst driver.Slice, src [][]byte) error {
	var staged int64
	for _, p := range src {
		if !s.dev.isPinned(p) {
			staged += int64(len(p))
		}
	}
	return s.enqueue(staged, task{name: "Upload", call: func() error {
		to, err := s.dev.span(dst, "Dst")
		if err != nil {
			return err
		}
		var n int64
		for _, p := range src {
			n += int64(len(p))
		}
		if n != to.n {
			return fmt.Errorf("%d bytes for a destination of %d", n, to.n)
		}
		to.overwritten()
		// Runs of pieces that are not page-locked are gathered together.
		at := to.at()
		for i := 0; i < len(src); {
			if len(src[i]) == 0 {
				i++
				continue
			}
			if s.dev.isPinned(src[i]) {
				if s.stop.Load() {
					return errAborted
				}
				if err := s.copyIn(at, src[i]); err != nil {
					return err
				}
				at += uint64(len(src[i]))
				i++
				continue
			}
			run, n := i, int64(0)
			for ; i < len(src) && (len(src[i]) == 0 || !s.dev.isPinned(src[i])); i++ {
				n += int64(len(src[i]))
			}
			if err := s.send(at, &gather{pieces: src[run:i]}, n, s.stop.Load); err != nil {
				return err
			}
			at += uint64(n)
		}
		return nil
	}})
}

func (s *stream) Download(dst []byte, src driver.Slice) error {
	// A copy that fits the ring only has to be started.
	return s.enqueue(int64(len(dst)), task{name: "Download", call: func() error {
		from, err := s.dev.span(src, "Src")
		if err != nil {
			return err
		}
		if from.n != int64(len(dst)) {
			return fmt.Errorf("%d bytes for a destination of %d", from.n, len(dst))
		}
		if len(dst) == 0 {
			return nil
		}
		if s.capturing {
			return fmt.Errorf("a download can't be captured: %w", driver.ErrNotSupported)
		}
		if s.dev.isPinned(dst) {
			return s.copyOut(dst, from.at())
		}
		at, rest := from.at(), dst
		for len(rest) > 0 {
			if s.stop.Load() {
				return errAborted
			}
			b, sl, err := s.ring.take(min(len(rest), slotBytes))
			if err != nil {
				return err
			}
			if err := s.copyOut(b, at); err != nil {
				return err
			}
			sl.out = append(sl.out, copyOut{rest[:len(b)], b})
			rest = rest[len(b):]
			at += uint64(len(b))
		}
		return nil
	}})
}

func (s *stream) fillOp(op *driver.Fill) error {
	if op.Dst.Len == 0 {
		return nil
	}
	return s.fill(at(op.Dst), op.Value, op.Dst.Len)
}

func (s *stream) fill(at uint64, value byte, n int64) error {
	s.dirty, s.kernelLast = true, false
	return s.dev.check("cuMemsetD8Async", cu.MemsetD8Async(cu.DevicePtr(at), value, n, s.cu))
}

// fetch reads device memory in pieces of at most slotBytes, and waits for each: for what is rarely needed. The pieces
// start at multiples of slotBytes from at, and are aligned to 256 bytes.
func (s *stream) fetch(at uint64, n int64, use func([]byte) error) error {
	if s.capturing {
		return fmt.Errorf("reading back can't be captured: %w", driver.ErrNotSupported)
	}
	if err := s.drain(false); err != nil {
		return err
	}
	for n > 0 {
		b, _, err := s.ring.take(int(min(n, slotBytes)))
		if err != nil {
			return err
		}
		if err := s.copyOut(b, at); err != nil {
			return err
		}
		if err := s.drain(false); err != nil {
			return err
		}
		if err := use(b); err != nil {
			return err
		}
		at += uint64(len(b))
		n -= int64(len(b))
	}
	return nil
}
