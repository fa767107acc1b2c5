// budget: a bound on host memory that calls share.

package server

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// budget hands out shares of a number of bytes. Those who want more than there is wait, in order.
type budget struct {
	sem *semaphore.Weighted
	cap int64
}

func newBudget(bytes int64) *budget { return &budget{semaphore.NewWeighted(bytes), bytes} }

// smallShare is what isn't worth counting: every call takes that much.
const smallShare = 1 << 20

// take waits for n bytes until ctx ends. release gives them back, and must be called once. Who wants more than the
// whole gets the whole, alone.
func (b *budget) take(ctx context.Context, n int64) (release func(), err error) {
	if n <= smallShare {
		return func() {}, nil
	}
	n = min(n, b.cap)
	if err := b.sem.Acquire(ctx, n); err != nil {
		return nil, context.Cause(ctx)
	}
	return func() { b.sem.Release(n) }, nil
}

// takeBoth takes two shares at once, that are given back apart: who waited for the second while holding the first could
// wait for another who does the same.
func (b *budget) takeBoth(ctx context.Context, n, m int64) (releaseN, releaseM func(), err error) {
	if m <= smallShare { // as one alone
		m = 0
	}
	if n+m <= smallShare {
		return func() {}, func() {}, nil
	}
	all := min(n+m, b.cap)
	if err := b.sem.Acquire(ctx, all); err != nil {
		return nil, nil, context.Cause(ctx)
	}
	m = min(m, all)
	return func() { b.sem.Release(all - m) }, func() { b.sem.Release(m) }, nil
}

// try is take without waiting, for calls that hold some already.
func (b *budget) try(n int64) (release func(), ok bool) {
	if !b.sem.TryAcquire(n) {
		return nil, false
	}
	return func() { b.sem.Release(n) }, true
}
