// Answers that wait for their clients.

package intake

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/peer"

	"github.com/polyscan/polyscan/server/internal/budget"
)

// answer is one that its client has not taken.
type answer struct {
	bytes int64
	since time.Time
	limit time.Duration
	end   func() // gives back what it took of the ledger; nil: it is counted here
}

// Await watches over n bytes that wait for the client of a call to take them: until forgotten is called, or the
// connection closes, which it does when they have waited for so long. end is called when it closes. Where end is nil
// nobody has counted the bytes, and they count as results until then; all of those may take a part of the memory, and
// where they would take more, the connection closes that has the most (see [Guard.hog]).
func Await(ctx context.Context, limit time.Duration, n int64, end func()) (forgotten func()) {
	p, _ := peer.FromContext(ctx)
	if p == nil {
		return func() {}
	}
	info, ok := p.AuthInfo.(authInfo)
	if !ok {
		return func() {}
	}
	return info.conn.await(&answer{bytes: n, since: time.Now(), limit: limit, end: end})
}

func (c *Conn) await(a *answer) (forgotten func()) {
	if a.end == nil {
		c.g.cfg.Memory.Count(budget.Results, a.bytes)
		c.g.unread.Add(a.bytes)
	}
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.answers[a] = struct{}{}
	}
	c.mu.Unlock()
	if closed {
		c.lost(a)
		return func() {}
	}
	c.g.relieve()
	return sync.OnceFunc(func() {
		c.mu.Lock()
		_, waits := c.answers[a]
		delete(c.answers, a)
		c.mu.Unlock()
		if waits && a.end == nil {
			c.ended(a)
		}
	})
}

// ended gives back what an answer took that its client has taken.
func (c *Conn) ended(a *answer) {
	c.g.unread.Add(-a.bytes)
	c.g.cfg.Memory.Count(budget.Results, -a.bytes)
}

// lost gives back what an answer took whose connection is closed. The transport lets go of it some time later, and with
// it of the function that forgets the answer: when that is collected, so is what it was for.
func (c *Conn) lost(a *answer) {
	if a.end != nil {
		a.end()
		return
	}
	c.g.unread.Add(-a.bytes)
	memory := c.g.cfg.Memory
	memory.Count(budget.Results, -a.bytes)
	memory.Count(budget.Closed, a.bytes)
	runtime.AddCleanup(a, func(n int64) { memory.Count(budget.Closed, -n) }, a.bytes)
}

// overdue says that an answer has waited for longer than it may.
func (c *Conn) overdue(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for a := range c.answers {
		if now.Sub(a.since) > a.limit {
			return true
		}
	}
	return false
}

// unread is what a connection has of answers, beside what is counted elsewhere or with it, and for how long its client
// has taken nothing.
func (c *Conn) unread(elsewhere bool, now time.Time) (bytes int64, idle time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	oldest := now
	for a := range c.answers {
		if a.end == nil || elsewhere {
			bytes += a.bytes
		}
		if a.since.Before(oldest) {
			oldest = a.since
		}
	}
	if c.taken.After(oldest) {
		oldest = c.taken
	}
	return bytes, now.Sub(oldest)
}

const (
	// stall is how long a client takes nothing of its answers before its connection gives way to others, and longStall
	// before it does so to those who wait for a share of the ledger: what it has may be large, and its network slow.
	stall     = time.Second
	longStall = 5 * time.Second
	// Answers that nobody has counted before, which are those of up to [budget.SmallShare] and those of calls that take
	// nothing of the ledger, may take a quarter of the memory, beside all else: large ones never keep small ones out.
	smallAnswers = 4
)

// relieve closes connections until answers that are counted here have room.
func (g *Guard) relieve() {
	for room := g.cfg.Memory.Cap / smallAnswers; g.unread.Load() > room; {
		c := g.hog(false, 0)
		if c == nil {
			return
		}
		c.abuse("unread", "its client left too much of answers unread")
		g.collect()
	}
}

// collect has the runtime find the garbage that connections have left which were closed for what they had, once the
// transport has let go of it. Without it that would count as live until the heap has doubled, and work would be refused
// for it.
func (g *Guard) collect() {
	const letGo = 50 * time.Millisecond
	if g.collecting.CompareAndSwap(false, true) {
		time.AfterFunc(letGo, func() {
			g.collecting.Store(false)
			runtime.GC()
		})
	}
}

// MakeRoom closes a connection whose client has taken nothing of its answers for long. It is for whoever has waited for
// a share of the ledger for a while.
func (g *Guard) MakeRoom() {
	if c := g.hog(true, longStall); c != nil {
		c.abuse("unread", "its client read no answer while others waited for the memory")
		g.collect()
	}
}

// hog is the connection that gives way, of those whose clients have taken nothing for so long; nil: there is none. One
// whose client has stalled goes first, then one of the network that has the most, and of this the one with the most: so
// those who don't read shut out nobody who does.
func (g *Guard) hog(elsewhere bool, idle time.Duration) (worst *Conn) {
	type share struct {
		*Conn
		bytes   int64
		stalled bool
	}
	var shares []share
	networks := map[string]int64{}
	g.mu.Lock()
	now := time.Now()
	for c := range g.conns {
		if bytes, had := c.unread(elsewhere, now); bytes > 0 && had >= idle {
			shares = append(shares, share{c, bytes, had > stall})
			networks[c.network] += bytes
		}
	}
	g.mu.Unlock()
	if len(shares) == 0 {
		return nil
	}
	return slices.MaxFunc(shares, func(a, b share) int {
		switch {
		case a.stalled != b.stalled && a.stalled:
			return 1
		case a.stalled != b.stalled:
			return -1
		}
		return cmp.Or(cmp.Compare(networks[a.network], networks[b.network]), cmp.Compare(a.bytes, b.bytes))
	}).Conn
}
