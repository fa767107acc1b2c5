// Poison: memory is overwritten before and after its use, and has a guard behind it, so that tests see who reads what
// was never written, uses what went back, or writes beyond the end.

package kernels

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/polyscan/polyscan/kernels/driver"
)

// poison fills memory and guards.
const poison = 0xa5

// poisoner looks after kept blocks and residents, whose memory comes and goes outside of jobs. A nil one does nothing.
type poisoner struct {
	mem driver.Mem

	mu       sync.Mutex
	stream   driver.Stream // nil when closed
	overruns []error
}

// prepare overwrites a block that is about to be used.
func (p *poisoner) prepare(b block) error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stream == nil {
		return ErrClosed
	}
	return overwrite(p.stream, p.mem, b)
}

// bury overwrites a block that was used, after a look at its guard: what that shows, close returns. A caller that gives
// memory back gets no error: where the stream fails the block goes back as it is.
func (p *poisoner) bury(b block) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stream == nil {
		return
	}
	if err := inspect(p.stream, p.mem, b); errors.Is(err, ErrOverrun) {
		p.overruns = append(p.overruns, err)
	}
	_ = overwrite(p.stream, p.mem, b)
}

// close returns the overruns.
func (p *poisoner) close() error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	err := errors.Join(append(p.overruns, p.stream.Close())...)
	p.stream = nil
	return err
}

// overwrite fills a block and its guard, and waits.
func overwrite(s driver.Stream, mem driver.Mem, b block) error {
	fill := s.Run(&driver.Fill{Dst: driver.Slice{Mem: mem, Off: b.off, Len: b.len}, Value: poison})
	return errors.Join(fill, s.Wait(context.Background()))
}

// inspect looks at the guard of a block. Its error matches [ErrOverrun] where somebody wrote there.
func inspect(s driver.Stream, mem driver.Mem, b block) error {
	guard := make([]byte, b.len-b.bytes)
	if len(guard) == 0 {
		return nil
	}
	read := s.Download(guard, driver.Slice{Mem: mem, Off: b.off + b.bytes, Len: int64(len(guard))})
	if err := errors.Join(read, s.Wait(context.Background())); err != nil {
		return err
	}
	for i, v := range guard {
		if v != poison {
			return fmt.Errorf("%w: %q of %d bytes: byte %d was written", ErrOverrun, b.label, b.bytes, b.bytes+int64(i))
		}
	}
	return nil
}

// poisonArena overwrites the job's memory before its function runs.
func (q *Queue) poisonArena() error {
	if !q.dev.poison || q.arena.len == 0 {
		return nil
	}
	return overwrite(q.stream, q.dev.mem.mem, q.arena)
}

// buryEnd looks at what lies behind the job's memory, and overwrites that and its last n bytes: a part of them lies
// behind it from then on.
func (q *Queue) buryEnd(n int64) error {
	if !q.dev.poison {
		return nil
	}
	a := q.arena
	at := a.room() - n
	return errors.Join(inspect(q.stream, q.dev.mem.mem, a),
		overwrite(q.stream, q.dev.mem.mem, block{off: a.off + at, len: a.len - at}))
}

// buryArena looks at what lies behind the job's buffers and its memory, which it then overwrites. The stream has
// drained.
func (q *Queue) buryArena() error {
	if !q.dev.poison || q.arena.len == 0 {
		return nil
	}
	var errs []error
	for _, b := range append(q.padded, q.arena) {
		errs = append(errs, inspect(q.stream, q.dev.mem.mem, b))
	}
	return errors.Join(append(errs, overwrite(q.stream, q.dev.mem.mem, q.arena))...)
}
