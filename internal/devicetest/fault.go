// Fault: the driver that fails when it is told to.

package devicetest

import (
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Failure says which event fails, and how.
type Failure struct {
	N      int   // the n-th from 1 on: an Open, Alloc, NewStream, copy, fill or launch; 0 for none
	Err    error // what it fails with
	InWait bool  // copies and launches fail as enqueued work does: Wait returns the error. Others fail at once
}

// Faulty is a driver of which one event fails. Its methods may be called from several goroutines.
type Faulty struct {
	wrapped
	mu    sync.Mutex
	f     Failure
	seen  int
	fired *Event
}

// Fault returns d with a failure. The events before and after it go through.
func Fault(d driver.Driver, f Failure) *Faulty {
	x := &Faulty{f: f}
	x.wrapped.Driver, x.wrapped.hooks = d, faultHooks{x}
	return x
}

// Arm sets another failure and counts events from 1 again.
func (x *Faulty) Arm(f Failure) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.f, x.seen, x.fired = f, 0, nil
}

// Fired returns the event that failed. ok is false where none has.
func (x *Faulty) Fired() (e Event, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.fired == nil {
		return Event{}, false
	}
	return *x.fired, true
}

// Failure returns what is set.
func (x *Faulty) Failure() Failure {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.f
}

type faultHooks struct{ x *Faulty }

func (h faultHooks) before(e Event) (atOnce, inWait error) {
	x := h.x
	x.mu.Lock()
	defer x.mu.Unlock()
	x.seen++
	if x.seen != x.f.N {
		return nil, nil
	}
	x.fired = &e
	err := fmt.Errorf("%v, event %d: %w", e, x.seen, x.f.Err)
	if x.f.InWait {
		return nil, err
	}
	return err, nil
}

func (faultHooks) after(Event, driver.Stream, time.Time, error) error { return nil }

// Faults yields drivers that fail event 1, 2, 3 and so on, each with every one of errs, at once and in Wait, until a
// driver comes back whose failure has not fired: then the work has been done without one.
//
//	for f := range devicetest.Faults(d, driver.ErrOutOfMemory, driver.ErrDeviceLost) {
//		err := work(f)
//		if _, fired := f.Fired(); fired != (err != nil) { ... }
//	}
func Faults(d driver.Driver, errs ...error) iter.Seq[*Faulty] {
	return func(yield func(*Faulty) bool) {
		for _, err := range errs {
			for _, inWait := range []bool{false, true} {
				for n := 1; ; n++ {
					x := Fault(d, Failure{N: n, Err: err, InWait: inWait})
					if !yield(x) {
						return
					}
					if _, fired := x.Fired(); !fired {
						break
					}
				}
			}
		}
	}
}
