// Ops: what is checked before one reaches the backend.

package kernels

import (
	"context"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Scratch says how many bytes the slice of op needs whose length is the backend's to say: see [driver.Device]. All
// fields but the slices have to be set. It returns an [*ArgError] for a field that Run would refuse, and an error that
// matches [driver.ErrNotSupported] where the backend lacks the op or its method.
func (d *Device) Scratch(op driver.Op) (int64, error) {
	d.mu.Lock()
	closed := d.closed
	d.mu.Unlock()
	if closed {
		return 0, ErrClosed
	}
	if err := driver.Check(op); err != nil {
		return 0, err
	}
	return d.dev.Scratch(op)
}

// Run enqueues an op, which has to stay as it is until the job has ended or [Queue.Wait] has returned. An op with a
// field, a length or a place that it can't have is refused with an [*ArgError]; what only the backend can tell, such as
// what is in the memory, fails in Wait.
func (q *Queue) Run(op driver.Op) error {
	if err := q.alive(); err != nil {
		return err
	}
	if err := driver.Check(op); err != nil {
		return err
	}
	if err := driver.CheckOperands(op, driver.Operands(op, q.operands[:0]), q.dev.mem.mem, q.dev.dev.Scratch); err != nil {
		return err
	}
	return q.stream.Run(op)
}

// alive returns an error where the queue has ended, or its context has.
func (q *Queue) alive() error {
	if q.done.Load() {
		return ErrEnded
	}
	if q.ctx.Err() != nil {
		return context.Cause(q.ctx)
	}
	return nil
}

// check is what Run checks, for a copy.
func (q *Queue) check(op, field string, s driver.Slice) error {
	if err := q.alive(); err != nil {
		return err
	}
	return driver.CheckSlice(op, field, s, q.dev.mem.mem)
}
