// Trace: the driver that remembers what it was asked for.

package devicetest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Record is an event and what became of it.
//
// Bytes is the size asked for by Alloc, moved by Upload and Download, or of all slices of an op.
type Record struct {
	Event
	Start time.Time
	// Took is how long the call took: until the op was enqueued, or, for a [Tracer] that waits, until it was done.
	Took time.Duration
	Err  error
}

// Tracer is a driver that records events. Its methods may be called from several goroutines.
type Tracer struct {
	wrapped
	wait    bool
	mu      sync.Mutex
	records []Record
}

// Trace returns d with a record of what happens. With wait, each op is waited for, so that Record.Took is its own time;
// its error then comes at once. Waits of the tracer's own are not recorded.
func Trace(d driver.Driver, wait bool) *Tracer {
	x := &Tracer{wait: wait}
	x.wrapped.Driver, x.wrapped.hooks = d, traceHooks{x}
	return x
}

// Records returns the events so far, in the order in which they were called, or only those of the given ops.
func (x *Tracer) Records(ops ...string) []Record {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(x.records), func(r Record) bool {
		return len(ops) > 0 && !slices.Contains(ops, r.Op)
	})
}

// Reset forgets the events so far.
func (x *Tracer) Reset() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.records = nil
}

type traceHooks struct{ x *Tracer }

func (traceHooks) before(Event) (atOnce, inWait error) { return nil, nil }

func (h traceHooks) after(e Event, s driver.Stream, start time.Time, err error) error {
	x := h.x
	if x.wait && s != nil && e.Op != "Wait" && err == nil {
		err = s.Wait(context.Background())
	}
	r := Record{Event: e, Start: start, Took: time.Since(start), Err: err}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.records = append(x.records, r)
	return err
}
