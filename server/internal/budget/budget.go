// Package budget bounds host memory that calls share. It counts bytes and knows nothing of what they are for.
package budget

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// Budget hands out shares of a number of bytes. Those who want more than there is wait, in order.
type Budget struct {
	Sem *semaphore.Weighted
	Cap int64
}

func New(bytes int64) *Budget { return &Budget{semaphore.NewWeighted(bytes), bytes} }

// SmallShare is what isn't worth counting: every call takes that much.
const SmallShare = 1 << 20

// Take waits for n bytes until ctx ends. release gives them back, and must be called once. Who wants more than the
// whole gets the whole, alone.
func (b *Budget) Take(ctx context.Context, n int64) (release func(), err error) {
	if n <= SmallShare {
		return func() {}, nil
	}
	n = min(n, b.Cap)
	if err := b.Sem.Acquire(ctx, n); err != nil {
		return nil, context.Cause(ctx)
	}
	return func() { b.Sem.Release(n) }, nil
}

// TakeBoth takes two shares at once, that are given back apart: who waited for the second while holding the first could
// wait for another who does the same.
func (b *Budget) TakeBoth(ctx context.Context, n, m int64) (releaseN, releaseM func(), err error) {
	if m <= SmallShare { // as one alone
		m = 0
	}
	if n+m <= SmallShare {
		return func() {}, func() {}, nil
	}
	all := min(n+m, b.Cap)
	if err := b.Sem.Acquire(ctx, all); err != nil {
		return nil, nil, context.Cause(ctx)
	}
	m = min(m, all)
	return func() { b.Sem.Release(all - m) }, func() { b.Sem.Release(m) }, nil
}

// Try is take without waiting, for calls that hold some already.
func (b *Budget) Try(n int64) (release func(), ok bool) {
	if !b.Sem.TryAcquire(n) {
		return nil, false
	}
	return func() { b.Sem.Release(n) }, true
}
