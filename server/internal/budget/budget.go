// Package budget bounds host memory that calls share. It counts bytes by kind, and knows of calls only their class: when
// the heap is nearly full, batch work gets none any more, then interactive work.
package budget

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/polyscan/polyscan/kernels"
)

// Kind says what bytes are for, in metrics.
type Kind uint8

const (
	Decoding Kind = iota // of image files, and drawings
	Results              // from when they are sized to when they are written
	Uploads              // of points
	Canvases
	Watchers
	HTTP // messages of calls over HTTP

	numKinds
)

// Kinds are the names of kinds.
var Kinds = [numKinds]string{"decoding", "results", "uploads", "canvases", "watchers", "http"}

// Budget hands out shares of a number of bytes. Those who want more than there is wait, in order.
type Budget struct {
	Sem  *semaphore.Weighted
	Cap  int64
	Heap *Heap // nil: nobody looks at it

	used [numKinds]atomic.Int64
}

func New(bytes int64) *Budget { return &Budget{Sem: semaphore.NewWeighted(bytes), Cap: bytes} }

// Used is how much is out for a kind.
func (b *Budget) Used(k Kind) int64 { return b.used[k].Load() }

// SmallShare is what isn't worth counting: every call takes that much.
const SmallShare = 1 << 20

// count counts bytes that were acquired, and returns what gives them back.
func (b *Budget) count(k Kind, n int64) (release func()) {
	b.used[k].Add(n)
	return func() {
		b.used[k].Add(-n)
		b.Sem.Release(n)
	}
}

// Take waits for n bytes until ctx ends. release gives them back, and must be called once. Who wants more than the
// whole gets the whole, alone. The error is a [*FullError] where the heap has no room for the class of ctx.
func (b *Budget) Take(ctx context.Context, k Kind, n int64) (release func(), err error) {
	if n <= SmallShare {
		return func() {}, nil
	}
	if err := b.acquire(ctx, min(n, b.Cap)); err != nil {
		return nil, err
	}
	return b.count(k, min(n, b.Cap)), nil
}

func (b *Budget) acquire(ctx context.Context, n int64) error {
	class, _ := kernels.ClassOf(ctx)
	if err := b.Heap.Admit(class); err != nil {
		return err
	}
	if err := b.Sem.Acquire(ctx, n); err != nil {
		return context.Cause(ctx)
	}
	return nil
}

// TakeBoth takes shares for decoding and for the result at once, that are given back apart: who waited for the second
// while holding the first could wait for another who does the same.
func (b *Budget) TakeBoth(ctx context.Context, decoding, result int64) (releaseN, releaseM func(), err error) {
	if result <= SmallShare { // as one alone
		result = 0
	}
	if decoding+result <= SmallShare {
		return func() {}, func() {}, nil
	}
	all := min(decoding+result, b.Cap)
	if err := b.acquire(ctx, all); err != nil {
		return nil, nil, err
	}
	result = min(result, all)
	return b.count(Decoding, all-result), b.count(Results, result), nil
}

// Try is take without waiting, for calls that hold some already.
func (b *Budget) Try(k Kind, n int64) (release func(), ok bool) {
	if !b.Sem.TryAcquire(n) {
		return nil, false
	}
	return b.count(k, n), true
}
