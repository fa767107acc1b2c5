// Package hostwork bounds how much of the host's processors computing on the host takes, such as decoding image files.
// The runtime gives all goroutines equal turns of ten milliseconds, and a strip of a line-scan camera would wait for the
// turns of all who decode.
//
// It knows nothing of what is computed. Line-scan never enters a pool.
package hostwork

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"
)

// Pool has room for a few at a time. The others wait in order.
type Pool struct{ room *semaphore.Weighted }

// New makes a pool for n at a time.
func New(n int) *Pool { return &Pool{semaphore.NewWeighted(int64(n))} }

// Turn is a place in a pool.
type Turn struct {
	pool  *Pool
	ctx   context.Context
	since time.Time
	gone  bool
}

// turn is how long a place is held while others wait.
const turn = 5 * time.Millisecond

// Enter waits for a place until ctx ends. Leave it when the work is done.
func (p *Pool) Enter(ctx context.Context) (*Turn, error) {
	t := &Turn{pool: p, ctx: ctx, gone: true}
	return t, t.enter()
}

func (t *Turn) enter() error {
	if err := t.pool.room.Acquire(t.ctx, 1); err != nil {
		return context.Cause(t.ctx)
	}
	t.gone, t.since = false, time.Now()
	return nil
}

// Yield lets those go first who wait, once the place has been held for a turn. Its error is the context's cause.
func (t *Turn) Yield() error {
	if t.gone || time.Since(t.since) < turn {
		return context.Cause(t.ctx)
	}
	t.Leave()
	return t.enter()
}

// Leave gives the place back. It may be called again.
func (t *Turn) Leave() {
	if !t.gone {
		t.gone = true
		t.pool.room.Release(1)
	}
}
