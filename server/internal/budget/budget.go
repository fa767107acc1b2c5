// Package budget is the ledger of the host memory that connections make the server hold. It counts bytes by kind, and
// knows of calls only their class: when the heap is nearly full, batch work gets none any more, then interactive work.
//
// Messages are counted as they come, and what they become. They never wait: they are admitted where there is room for
// them beside all that is out, and refused else. What calls take afterwards, for pictures and results, waits for its
// share of the whole, and not for messages, because those who wait hold some.
package budget

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

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
	HTTP         // messages of calls over HTTP
	HTTPExpected // of those that have begun to come, what is not here yet
	Expected     // of messages that have begun to come and are not here yet
	Received     // messages in the transport's buffers
	Requests     // messages that were read, and what they are compiled to
	RegionSets   // that come again with requests, and are kept
	Recipes      // that are stored, with what they are compiled to
	Connections
	Reserved  // of decoding, results and connections: what is not made yet
	Unwritten // buffers of shapes, as far as nobody has written to them
	Idle      // buffers of the transport that wait for the next message, which takes them: they are in nobody's way
	Closed    // answers of connections that were closed, until they are collected; likewise

	numKinds
)

// Kinds are the names of kinds.
var Kinds = [numKinds]string{"decoding", "results", "uploads", "canvases", "watchers", "http", "http_expected",
	"expected", "received", "requests", "region_sets", "recipes", "connections",
	"reserved", "unwritten", "idle", "closed"}

// Budget hands out shares of a number of bytes. Those who want more than there is wait, in order.
type Budget struct {
	Sem  *semaphore.Weighted
	Cap  int64
	Heap *Heap // nil: nobody looks at it
	// Messages is what large messages may take of Cap, small ones half as much again, large urgent ones three quarters
	// more, and small urgent ones twice as much.
	Messages int64
	// MaxRecipes is what recipes may take of Cap. Those that were stored before with more than that are beside it:
	// their excess keeps nobody's messages out.
	MaxRecipes int64
	// Filled is told how much there is of a share, and was before; nil but in tests.
	Filled func(k Kind, before, now int64)
	// Waiting is called each second while somebody waits for a share; nil: nobody is told.
	Waiting func()

	used      [numKinds]atomic.Int64
	admitting sync.Mutex
}

// New makes a budget; half of it is for messages, and a quarter for recipes.
func New(bytes int64) *Budget {
	return &Budget{Sem: semaphore.NewWeighted(bytes), Cap: bytes, Messages: bytes / 2, MaxRecipes: bytes / 4}
}

// Out is how much is out for all kinds.
func (b *Budget) Out() (sum int64) {
	for k := range b.used {
		if Kind(k) < Idle {
			sum += b.used[k].Load()
		}
	}
	return sum
}

// Count counts n bytes of messages, which may be negative, whatever is out.
func (b *Budget) Count(k Kind, n int64) { b.used[k].Add(n) }

// Admit counts n bytes of a message, and says whether there was room for them. Small ones find room beside all that is
// out, so that large ones never keep them out, and urgent ones beside all that small ones may take, the small of them
// beside the large.
func (b *Budget) Admit(k Kind, n int64, urgent bool) bool {
	switch {
	case urgent && n <= SmallShare:
		return b.admit(k, n, 2*b.Messages)
	case urgent:
		return b.admit(k, n, b.smallMessages()+b.Messages/4)
	case n <= SmallShare:
		return b.admit(k, n, b.smallMessages())
	}
	return b.admit(k, n, b.Messages)
}

// AdmitStrip is Admit for a small urgent message whose connection waits for no other. What has come counts for it no
// longer, nor what it has become, which others may have let grow: of what is still to come there is always some room
// that no other message takes.
func (b *Budget) AdmitStrip(k Kind, n int64) bool {
	b.admitting.Lock()
	defer b.admitting.Unlock()
	if n+b.used[Expected].Load() > 2*b.Messages {
		return false
	}
	b.used[k].Add(n)
	return true
}

// smallMessages is what large and small messages may take, and what they become.
func (b *Budget) smallMessages() int64 { return b.Messages / 2 * 3 }

// admit is Admit where messages may take so much. Within what is for large ones, all that is out counts. One looks at a
// time: what another one is refused doesn't count for a moment, or a strip would be refused for it.
func (b *Budget) admit(k Kind, n, most int64) bool {
	b.admitting.Lock()
	defer b.admitting.Unlock()
	messages := n + b.used[Expected].Load() + b.used[Received].Load() + b.used[Requests].Load() +
		b.used[Unwritten].Load() + b.used[RegionSets].Load()
	beside := max(b.used[Recipes].Load()-b.MaxRecipes, 0)
	if messages > most || most <= b.Messages && n+b.Out()-beside > max(b.Cap, b.Messages) {
		return false
	}
	b.used[k].Add(n)
	return true
}

// Used is how much is out for a kind.
func (b *Budget) Used(k Kind) int64 { return b.used[k].Load() }

// SmallShare is what isn't worth counting: every call takes that much.
const SmallShare = 1 << 20

// held is what somebody has of a budget: bytes in all, of which some are there and count as kind, and the others as
// reserved.
type held struct {
	of             *Budget
	kind, reserved Kind
	bytes, there   int64
	lived          int64 // of there, what has been there at a collection
	collections    int64 // so many had been when that was looked at
}

// became counts what is had from now on. There may be more than was taken.
func (h *held) became(bytes, there int64) {
	h.of.used[h.kind].Add(there - h.there)
	h.of.used[h.reserved].Add(max(bytes-there, 0) - max(h.bytes-h.there, 0))
	if h.of.Filled != nil {
		h.of.Filled(h.kind, h.there, there)
	}
	heap, gone := h.of.Heap, h.there-there
	if n := heap.collectionsBefore(max(gone, -gone)); n > h.collections {
		h.lived, h.collections = h.there, n
	}
	if gone = min(gone, h.lived); gone > 0 { // the oldest first
		h.lived -= gone
		heap.gone(gone)
	}
	h.bytes, h.there = bytes, there
}

// Share is what a call has taken of a budget before it makes anything: for the worst case, and before it waits for
// files and for the device. It counts as reserved until the call says that it is there. A nil Share is of a call that
// takes little, which nobody counts. Its methods may be called at the same time.
type Share struct {
	mu       sync.Mutex
	held     held
	released bool
}

// Fill says that n bytes are there from now on, those that were made before among them, or no longer there.
func (s *Share) Fill(n int64) { s.do(func(h *held) { h.became(h.bytes, n) }) }

// FillAll is Fill with all that the call took.
func (s *Share) FillAll() { s.do(func(h *held) { h.became(h.bytes, h.bytes) }) }

// Add says that n more bytes of the share are there.
func (s *Share) Add(n int64) { s.do(func(h *held) { h.became(h.bytes, h.there+n) }) }

// Release gives the share back. It may be called again.
func (s *Share) Release() {
	s.do(func(h *held) {
		h.of.Sem.Release(h.bytes)
		h.became(0, 0)
		s.released = true
	})
}

func (s *Share) do(f func(*held)) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.released {
		f(&s.held)
	}
}

// reserve counts bytes that were acquired.
func (b *Budget) reserve(k Kind, n int64) *Share {
	s := &Share{held: held{of: b, kind: k, reserved: Reserved}}
	s.held.became(n, 0)
	return s
}

// Take waits for n bytes until ctx ends. Who wants more than the whole gets the whole, alone. The error is a
// [*FullError] where the heap has no room for the class of ctx.
func (b *Budget) Take(ctx context.Context, k Kind, n int64) (*Share, error) {
	if n <= SmallShare {
		return nil, nil
	}
	if err := b.acquire(ctx, min(n, b.Cap)); err != nil {
		return nil, err
	}
	return b.reserve(k, min(n, b.Cap)), nil
}

func (b *Budget) acquire(ctx context.Context, n int64) error {
	class, _ := kernels.ClassOf(ctx)
	if err := b.Heap.Admit(class); err != nil {
		return err
	}
	if ctx.Err() == nil && b.Sem.TryAcquire(n) {
		return nil
	}
	if b.Waiting != nil {
		defer b.tell()()
	}
	if err := b.Sem.Acquire(ctx, n); err != nil {
		return context.Cause(ctx)
	}
	return nil
}

// tell says each second that somebody waits, until over is called.
func (b *Budget) tell() (over func()) {
	done := make(chan struct{})
	go func() {
		ticks := time.NewTicker(time.Second)
		defer ticks.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticks.C:
				b.Waiting()
			}
		}
	}()
	return func() { close(done) }
}

// TakeBoth takes shares for decoding and for the result at once, that are given back apart: who waited for the second
// while holding the first could wait for another who does the same.
func (b *Budget) TakeBoth(ctx context.Context, decoding, result int64) (ofFile, ofResult *Share, err error) {
	if result <= SmallShare { // as one alone
		result = 0
	}
	if decoding+result <= SmallShare {
		return nil, nil, nil
	}
	all := min(decoding+result, b.Cap)
	if err := b.acquire(ctx, all); err != nil {
		return nil, nil, err
	}
	result = min(result, all)
	return b.reserve(Decoding, all-result), b.reserve(Results, result), nil
}

// Try is take without waiting, for calls that hold some already, and make at once what they take.
func (b *Budget) Try(k Kind, n int64) (release func(), ok bool) {
	if !b.Sem.TryAcquire(n) {
		return nil, false
	}
	b.used[k].Add(n)
	return func() {
		b.used[k].Add(-n)
		b.Sem.Release(n)
	}, true
}
