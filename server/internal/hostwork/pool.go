// Package hostwork bounds how much of the host's processors computing on the host takes, such as decoding image files.
// The runtime gives all goroutines equal turns of ten milliseconds, and a strip of a line-scan camera would wait for
// the turns of all who decode.
//
// A pool knows the class and the client of work, from its context, and not what is computed: interactive work goes
// before batch work, and in a class clients have equal shares. Line-scan never waits for a place; while there is any,
// others have one place less.
package hostwork

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/polyscan/polyscan/kernels"
)

// Recovered is to be deferred: it makes an error of a panic, where nobody else would, and counts it. A mistake in what
// is done with one client's data must not end the server.
func Recovered(err *error, panics interface{ Inc() }) {
	if p := recover(); p != nil {
		panics.Inc()
		*err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}

// Pool has room for a few at a time. The others wait: by class, then by what their clients have had, then in order.
type Pool struct {
	places  int
	strict  atomic.Int32 // line-scan sessions
	waiters atomic.Int32

	strips atomic.Int32                  // sessions with a strip in work, or a result to be sent
	calm   atomic.Pointer[chan struct{}] // closed when there are none; nil where nobody waits for that
	coming atomic.Int64                  // until when strips are expected that are on their way, in ns from born
	born   time.Time                     // tests have clocks of their own, which package steady has not

	mu      sync.Mutex
	taken   int
	waiting []*share // those of whose work some waits, in no order
	arrival uint64
	shares  map[key]*share
	virtual [2]time.Duration // of each class: what one has had that always has work
}

// key is a client in a class.
type key struct {
	batch  bool
	client string
}

// share is what a client has had, as far as that can matter.
type share struct {
	key
	used    time.Duration
	work    int       // that waits or has a place
	waiting []*waiter // in order; the first of them waits
}

type waiter struct {
	arrival uint64
	over    bool          // it waits no more: it is among the others until it is the first
	ready   chan struct{} // closed with a place
}

// New makes a pool for n at a time.
func New(n int) *Pool { return &Pool{places: n, born: time.Now(), shares: map[key]*share{}} }

// Waiting is how many wait for a place.
func (p *Pool) Waiting() int { return int(p.waiters.Load()) }

// LineScan says that there is line-scan work from now on, until done is called.
func (p *Pool) LineScan() (done func()) {
	p.strict.Add(1)
	return func() {
		p.strict.Add(-1)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.serve()
	}
}

// StripDue says that a line-scan session has a strip in work, or a result to be sent, until StripDone.
func (p *Pool) StripDue() { p.strips.Add(1) }

// StripDone ends what StripDue began.
func (p *Pool) StripDone() {
	if p.strips.Add(-1) > 0 {
		return
	}
	if c := p.calm.Swap(nil); c != nil {
		close(*c)
	}
}

// Calm waits until no line-scan session has a strip in work or a result to be sent, for a time at most. It is for work
// that is done behind verdicts, in pieces of some 50 µs: handing them to watchers, and drawing pictures for them. A
// thread of low priority would not do: the runtime gives each thread that runs a processor of its own, whatever the
// kernel thinks of it, and waits for it where all are to stop.
func (p *Pool) Calm(longest time.Duration) {
	if longest <= 0 || p.strips.Load() == 0 {
		return
	}
	made := make(chan struct{})
	c := &made
	for !p.calm.CompareAndSwap(nil, c) {
		if other := p.calm.Load(); other != nil { // otherwise it was closed at this moment
			c = other
			break
		}
	}
	if p.strips.Load() == 0 { // and StripDone may not have seen it
		return
	}
	over := time.NewTimer(longest)
	defer over.Stop()
	select {
	case <-*c:
	case <-over.C:
	}
}

// A strip that begins to come is expected for stripComing, and one that has come to be in work within stripCame. Half a
// megabyte takes some 0.4 ms, unless the network is slow: then the strip takes little of the processors. Where its work
// takes less, the rest of stripCame is its result's way to the client.
const (
	stripComing = time.Millisecond
	stripCame   = 500 * time.Microsecond
)

// StripComes says that a strip begins to come, or that it is whole and on its way to its session.
func (p *Pool) StripComes(whole bool) {
	soon := stripComing
	if whole {
		soon = stripCame
	}
	p.coming.Store(int64(time.Since(p.born) + soon))
}

// Quiet is Calm that waits for strips on their way, too. Reading half a megabyte takes a third of the time that such a
// strip takes in all, which what is done for watchers would share with it.
func (p *Pool) Quiet(longest time.Duration) {
	for end := time.Now().Add(longest); ; {
		p.Calm(time.Until(end))
		wait := min(time.Duration(p.coming.Load())-time.Since(p.born), time.Until(end))
		if wait <= 0 {
			return
		}
		time.Sleep(wait)
	}
}

// room is how many may work now.
func (p *Pool) room() int {
	if p.strict.Load() > 0 {
		return max(p.places-1, 1)
	}
	return p.places
}

// Turn is a place in a pool. Its methods are for one goroutine.
type Turn struct {
	pool  *Pool // nil: line-scan, which needs none
	ctx   context.Context
	key   key
	share *share
	since time.Time // it has had the place, or was last counted
	look  time.Time // others were let go first
	gone  bool
}

const (
	// turn is how long a place is held while others wait. A switch takes some microseconds.
	turn = 2 * time.Millisecond
	// breath is how often others in the runtime's queues are let go first, such as those who read from connections.
	breath = 200 * time.Microsecond
	// oneStrip is how long work waits for strips before it does another piece.
	oneStrip = time.Millisecond
	// headStart and settling are those of the device's time: see package kernels.
	headStart = 10 * time.Millisecond
	settling  = 2 * headStart
)

// Enter waits for a place until ctx ends. Leave it when the work is done.
func (p *Pool) Enter(ctx context.Context) (*Turn, error) {
	class, client := kernels.ClassOf(ctx)
	t := &Turn{pool: p, ctx: ctx, key: key{class == kernels.Batch, client}, gone: true}
	if class == kernels.LineScan {
		t.pool = nil
	}
	return t, t.enter()
}

// Do is Enter, f and Leave. Work of size below small, in whatever unit, is done at once. f is to call pause as
// [Turn.Yield] is called; pause is nil for small work.
func (p *Pool) Do(ctx context.Context, size, small int, f func(pause func() error) error) error {
	if size < small {
		return f(nil)
	}
	t, err := p.Enter(ctx)
	if err != nil {
		return err
	}
	defer t.Leave()
	return f(t.Yield)
}

// Place is Enter for those who know no turns, such as package kernels: it lets strips go first, and the place is left
// by leave, after a millisecond or so.
func (p *Pool) Place(ctx context.Context) (leave func(), err error) {
	if class, _ := kernels.ClassOf(ctx); class != kernels.LineScan {
		runtime.Gosched()
		p.Calm(oneStrip)
	}
	t, err := p.Enter(ctx)
	if err != nil {
		return nil, err
	}
	return t.Leave, nil
}

func (p *Pool) class(k key) *time.Duration {
	if k.batch {
		return &p.virtual[1]
	}
	return &p.virtual[0]
}

func (t *Turn) enter() error {
	if err := context.Cause(t.ctx); err != nil || t.pool == nil {
		return err
	}
	p := t.pool
	p.mu.Lock()
	s := p.shares[t.key]
	if s == nil {
		s = &share{key: t.key, used: *p.class(t.key) - headStart}
		p.shares[t.key] = s
	}
	// Who had nothing to do is owed nothing for that, but goes first with a bit.
	if s.work++; s.work == 1 {
		s.used = max(s.used, *p.class(t.key)-headStart)
	}
	t.share = s
	p.arrival++
	w := &waiter{arrival: p.arrival, ready: make(chan struct{})}
	if s.waiting = append(s.waiting, w); len(s.waiting) == 1 {
		p.waiting = append(p.waiting, s)
	}
	p.waiters.Add(1)
	p.serve()
	p.mu.Unlock()
	select {
	case <-w.ready:
	case <-t.ctx.Done():
		p.mu.Lock()
		defer p.mu.Unlock()
		if !w.over {
			p.stop(s, w)
		} else {
			p.taken--
			p.serve()
		}
		p.done(s)
		return context.Cause(t.ctx)
	}
	t.gone, t.since = false, time.Now()
	t.look = t.since
	return nil
}

// serve gives places to those who wait, as far as there are any. p.mu is held.
func (p *Pool) serve() {
	for p.taken < p.room() && len(p.waiting) > 0 {
		best := p.waiting[0]
		for _, s := range p.waiting[1:] {
			if s.before(best) {
				best = s
			}
		}
		w := best.waiting[0]
		p.stop(best, w)
		p.taken++
		close(w.ready)
	}
}

// stop ends the waiting of w, which is of s. p.mu is held.
func (p *Pool) stop(s *share, w *waiter) {
	w.over = true
	p.waiters.Add(-1)
	for len(s.waiting) > 0 && s.waiting[0].over {
		s.waiting[0] = nil
		s.waiting = s.waiting[1:]
	}
	if len(s.waiting) == 0 {
		s.waiting = nil
		p.waiting = slices.DeleteFunc(p.waiting, func(o *share) bool { return o == s })
	}
}

func (s *share) before(o *share) bool {
	switch {
	case s.batch != o.batch:
		return o.batch
	case s.used != o.used:
		return s.used < o.used
	}
	return s.waiting[0].arrival < o.waiting[0].arrival
}

// mostShares is how many clients are known, those aside that have work.
const mostShares = 1000

// done counts work that has left. Clients are forgotten that have none, once there is nobody to compare them with or
// there are too many.
func (p *Pool) done(s *share) {
	if s.work--; s.work > 0 || p.taken+len(p.waiting) > 0 && len(p.shares) < mostShares {
		return
	}
	for k, s := range p.shares {
		if s.work == 0 {
			delete(p.shares, k)
		}
	}
}

// Yield lets those go first who wait, once the place has been held for a turn. Work that takes long is to call it at
// least each millisecond. Its error is the context's cause.
func (t *Turn) Yield() error {
	if err := context.Cause(t.ctx); err != nil || t.gone {
		return err
	}
	now := time.Now()
	if now.Sub(t.look) >= breath {
		runtime.Gosched()
		// A strip goes first, one at a time: work that is behind a line that always has one goes on all the same.
		t.pool.Calm(oneStrip)
		t.look = time.Now()
	}
	if now.Sub(t.since) < turn || t.pool.waiters.Load() == 0 && t.pool.strict.Load() == 0 {
		return nil
	}
	t.Leave()
	return t.enter()
}

// advance moves the clock of a class, by what each client has of a time that one has had, and towards those who have
// work. So clients that come and go at once keep nobody out.
func (p *Pool) advance(of key, had time.Duration) {
	n, sum := time.Duration(0), time.Duration(0)
	for k, s := range p.shares {
		if k.batch == of.batch && s.work > 0 {
			n++
			sum += s.used
		}
	}
	v := p.class(of)
	had /= n
	*v += had - time.Duration(float64(min(had, settling))*float64(*v-sum/n)/float64(settling))
}

// Leave gives the place back. It may be called again.
func (t *Turn) Leave() {
	if t.gone {
		return
	}
	t.gone = true
	p := t.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	had := time.Since(t.since)
	t.share.used += had
	p.advance(t.key, had)
	p.taken--
	p.done(t.share)
	p.serve()
}
