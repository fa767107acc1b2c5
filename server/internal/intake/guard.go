// Package intake bounds what connections can make the server hold before any handler sees it.
//
// The library receives a message whole before it asks anybody, and gives windows back whatever is read. So a guard
// looks at the HTTP/2 frames on their way to it, and refuses a message by its length, before it comes: where its method
// takes no message so long, or where those that are here or under way leave no room for it. A connection whose client
// does what no client needs to do, such as resetting thousands of calls or sending messages in crumbs, is closed, as
// proxies do. The guard knows frames, lengths and methods; it does not look into messages.
package intake

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/polyscan/polyscan/internal/steady"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/budget"
	"github.com/polyscan/polyscan/server/internal/network"
)

// Config says what a guard allows.
type Config struct {
	// Memory is where messages count that are here or under way, of all connections. While its heap has no room for
	// interactive work, large messages find none.
	Memory *budget.Budget
	// MaxMessage is the longest that any method takes; at most what messages may have of Memory. One connection may have
	// that under way, or half of what all may.
	MaxMessage int64
	// Limits are those of methods, by the start of their names, such as "/grpc.health.v1.Health/".
	Limits map[string]int64
	// Urgent methods, by the start of their names.
	Urgent string
	// Calm waits until no urgent work is to be done, for a time at most; nil: there is none.
	Calm func(time.Duration)
	// Comes is called when an urgent message of much data begins to come, and when it is whole; nil: for nobody.
	Comes func(whole bool)
	// StreamWindow and ConnectionWindow are those that the server gives.
	StreamWindow, ConnectionWindow int64
	Log                            *slog.Logger
}

// Guard watches connections. Make one with [New], and end it with Close.
type Guard struct {
	cfg     Config
	refused *prometheus.CounterVec
	closed  *prometheus.CounterVec
	stop    chan struct{}
	done    sync.WaitGroup

	mu       sync.Mutex
	conns    map[*Conn]struct{}
	crowd    network.Crowd // of conns
	entered  int64         // connections that count, those in a handshake included
	lines    float64       // of the log that are left
	counted  time.Time     // that lines were counted
	unlogged int           // connections that were closed without a line

	unread     atomic.Int64 // bytes of answers that nobody else has counted, of all connections
	collecting atomic.Bool  // a collection is due: see collect
}

// New makes a guard.
func New(cfg Config) *Guard {
	counters := func(name, help string, reasons ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "polyscan", Name: name, Help: help},
			[]string{"reason"})
		for _, r := range reasons {
			v.WithLabelValues(r)
		}
		return v
	}
	g := &Guard{cfg: cfg, stop: make(chan struct{}), conns: map[*Conn]struct{}{}, crowd: network.Crowd{},
		refused: counters("messages_refused_total",
			"Messages refused by their length, before they came, by reason: method (it takes none so long), "+
				"room (of all connections), "+
				"connection (it has so much under way).",
			"method", "room", "connection"),
		closed: counters("connections_closed_total",
			"Connections that the server closed for what their clients did, by reason: crumbs (messages in tiny frames), "+
				"floods (resets, settings, empty frames), slow (messages that did not come), "+
				"unread (answers that were not read), malformed, "+
				"room (there were too many).",
			"crumbs", "floods", "slow", "unread", "malformed", "room"),
	}
	g.done.Go(g.watch)
	return g
}

// Closed connections are logged so often a second, and so many more at once: clients that come again and again must not
// fill a disk. The metric counts them all.
const (
	logRate  = 1
	logBurst = 20
)

// mayLog says whether a connection that is closed gets a line of the log, and how many before it got none.
func (g *Guard) mayLog(now time.Time) (unlogged int, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lines = min(logBurst, g.lines+logRate*now.Sub(g.counted).Seconds())
	g.counted = now
	if g.lines < 1 {
		g.unlogged++
		return 0, false
	}
	g.lines--
	unlogged, g.unlogged = g.unlogged, 0
	return unlogged, true
}

// Close ends the watching of connections, not the connections.
func (g *Guard) Close() {
	close(g.stop)
	g.done.Wait()
}

// Collectors are its metrics.
func (g *Guard) Collectors() []prometheus.Collector {
	return []prometheus.Collector{g.refused, g.closed}
}

// count counts bytes that have begun to come and are not here yet.
func (g *Guard) count(n int64) { g.cfg.Memory.Count(budget.Expected, n) }

// admit says why a message of n bytes must not come; "" where it may. It counts as promised then.
func (g *Guard) admit(c *Conn, m *message, n int64) (reason string) {
	if n > m.limit {
		return "method"
	}
	if n > g.cfg.MaxMessage { // the library refuses it, and says how long it is
		m.refuse = true
		return ""
	}
	switch {
	case c.promised+n > max(g.cfg.MaxMessage, g.cfg.Memory.Messages/2):
		return "connection"
	case n > budget.SmallShare && !m.urgent && g.cfg.Memory.Heap.Admit(kernels.Interactive) != nil:
		return "room"
	case m.urgent && c.promised == 0 && n <= budget.SmallShare && g.cfg.Memory.AdmitStrip(budget.Expected, n):
	case !g.cfg.Memory.Admit(budget.Expected, n, m.urgent):
		return "room"
	}
	c.promised += n
	return ""
}

// The lengths that a refused message is given on its way to the library, which refuses it for them: far more than any
// limit, and no length that a client's message has, since those are less than MaxMessage or refused. The client gets
// the library's words, with such a length in them, because its RecvMsg ends the call itself before anybody else sees
// the error; logs and metrics have what [Guard.Translate] makes of it.
const (
	tooLong = 1<<32 - 1
	noRoom  = 1<<32 - 2
)

// Translate is what logs and metrics get for an error of the library about a refused message. It leaves other errors
// alone.
func (g *Guard) Translate(method string, err error) error {
	s, ok := status.FromError(err)
	if !ok || s.Code() != codes.ResourceExhausted {
		return err
	}
	switch m := s.Message(); {
	case strings.Contains(m, fmt.Sprint(tooLong)):
		return apierr.Quota(apierr.ReasonRequestTooLarge, "request",
			fmt.Sprintf("it is longer than this method takes: the limit is %d bytes", g.limitOf(method)))
	case strings.Contains(m, fmt.Sprint(noRoom)):
		return apierr.Quota(apierr.ReasonHostMemory, "host memory",
			fmt.Sprintf("requests under way leave no room for this one: all of them may take %d bytes", g.cfg.Memory.Messages))
	}
	return err
}

func (g *Guard) limitOf(method string) int64 {
	for prefix, n := range g.cfg.Limits {
		if strings.HasPrefix(method, prefix) {
			return n
		}
	}
	return 1 << 32
}

// Credentials guard the connections of others.
func (g *Guard) Credentials(c credentials.TransportCredentials) credentials.TransportCredentials {
	return guarded{c, g}
}

type guarded struct {
	credentials.TransportCredentials
	g *Guard
}

func (c guarded) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if !c.g.enter() {
		c.g.closed.WithLabelValues("room").Inc()
		return nil, nil, errNoRoom
	}
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		c.g.leave()
		return nil, nil, err
	}
	guard := c.g.guard(conn)
	return guard, authInfo{info, guard}, nil
}

// connectionBytes is what a connection takes at most: its buffers, and what the library knows of it; quietBytes is what
// one takes that has not brought much. All may take a quarter of the memory, and there may always be so many.
const (
	connectionBytes  = 256 << 10
	quietBytes       = 24 << 10
	leastConnections = 256
)

var errNoRoom = errors.New("intake: there is no room for another connection")

// recently is how long after a call a connection doesn't give way: its client may be about to make the next one.
const recently = time.Minute

// enter makes room for a connection. Where there is none, one gives way that has been without a call for long: of the
// network with the most connections the one that has been for longest, so that a burst pushes out its own before those
// of others that have not called yet. Where none has been for long, there is no room.
func (g *Guard) enter() bool {
	g.mu.Lock()
	if g.entered < max(leastConnections, g.cfg.Memory.Cap/4/connectionBytes) {
		g.entered++
		g.mu.Unlock()
		g.cfg.Memory.Count(budget.Reserved, connectionBytes)
		return true
	}
	var out *Conn
	var outSince int64
	long := steady.Now() - int64(recently)
	for c := range g.conns {
		if at := c.idle.Load(); at != 0 && at <= long &&
			(out == nil || *c.same > *out.same || *c.same == *out.same && at < outSince) {
			out, outSince = c, at
		}
	}
	if out != nil { // its place is the newcomer's
		g.forget(out)
		g.entered++
		g.cfg.Memory.Count(budget.Reserved, connectionBytes)
	}
	g.mu.Unlock()
	if out == nil {
		return false
	}
	out.abuse("room", "others have come, and it had no call")
	return true
}

// forget takes a connection out of those that can give way. It may be called again; mu is held.
func (g *Guard) forget(c *Conn) {
	if _, ok := g.conns[c]; ok {
		delete(g.conns, c)
		g.crowd.Leave(c.network)
	}
}

// leave gives back what enter took.
func (g *Guard) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.entered--
	g.cfg.Memory.Count(budget.Reserved, -connectionBytes)
}

func (c guarded) Clone() credentials.TransportCredentials {
	return guarded{c.TransportCredentials.Clone(), c.g}
}

// authInfo is how a call finds its connection.
type authInfo struct {
	credentials.AuthInfo
	conn *Conn
}

// Unwrap is what the handshake found out about the client.
func (i authInfo) Unwrap() credentials.AuthInfo { return i.AuthInfo }

// A message must come within that time, and a second more for each megabyte, as far as the server takes it.
const messageTime = 30 * time.Second

// watch closes connections whose messages don't come, and whose clients read none.
func (g *Guard) watch() {
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for {
		select {
		case <-g.stop:
			return
		case now := <-ticks.C:
			g.mu.Lock()
			var slow, unread []*Conn
			for c := range g.conns {
				if c.slow(now) {
					slow = append(slow, c)
				} else if c.overdue(now) {
					unread = append(unread, c)
				}
			}
			g.mu.Unlock()
			for _, c := range slow {
				c.abuse("slow", "a message did not come")
			}
			for _, c := range unread {
				c.abuse("unread", "an answer was not read")
			}
		}
	}
}

// errClosed is why reading ends on a connection that the guard has closed.
var errClosed = errors.New("intake: the connection was closed")
