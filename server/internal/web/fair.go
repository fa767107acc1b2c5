package web

import (
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/polyscan/polyscan/internal/steady"
	"github.com/polyscan/polyscan/server/internal/network"
)

// What all connections together may bring, of which a processor reads some hundred megabytes a second: so that those
// who send as fast as they can, over however many connections, leave most of it to the frames of a line. Whoever has
// frames without an end sends them to the port of gRPC.
const (
	bytesPerProcessor = 32 << 20 // a second
	longestRead       = 64 << 10
)

// Fair is a listener with at most so many connections at a time. One more takes the place of another: of the address
// with the most connections, the one that has got no answer for longest, whatever it sends. So whoever holds
// connections shuts nobody out, least of all those who ask from elsewhere whether the server is alive. What the
// connections bring is read at a bounded rate.
func Fair(l net.Listener, most int) net.Listener {
	return &fair{Listener: l, most: most, conns: map[*fairConn]struct{}{}, crowd: network.Crowd{},
		pace: rate.NewLimiter(rate.Limit(runtime.NumCPU()*bytesPerProcessor), 1<<20)}
}

type fair struct {
	net.Listener
	most int
	pace *rate.Limiter // of bytes

	mu    sync.Mutex
	conns map[*fairConn]struct{}
	crowd network.Crowd // of conns
}

// fairConn is a connection that knows when an answer has gone over it.
type fairConn struct {
	net.Conn
	of   *fair
	addr string       // its network
	same *int         // connections from there
	last atomic.Int64 // that it got an answer, or came; ns
}

// Accept implements net.Listener.
func (f *fair) Accept() (net.Conn, error) {
	conn, err := f.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &fairConn{Conn: conn, of: f, addr: network.Of(conn.RemoteAddr().String())}
	c.last.Store(steady.Now())
	f.mu.Lock()
	var out *fairConn
	if len(f.conns) >= f.most {
		out = f.idlest()
	}
	f.conns[c] = struct{}{}
	c.same = f.crowd.Join(c.addr)
	f.mu.Unlock()
	if out != nil {
		out.Close()
	}
	return c, nil
}

// idlest is the connection that gives way, which is forgotten. mu is held.
func (f *fair) idlest() (out *fairConn) {
	for c := range f.conns {
		if out == nil || *c.same > *out.same || *c.same == *out.same && c.last.Load() < out.last.Load() {
			out = c
		}
	}
	f.forget(out)
	return out
}

// forget may be called twice for a connection. mu is held.
func (f *fair) forget(c *fairConn) {
	if _, ok := f.conns[c]; !ok {
		return
	}
	delete(f.conns, c)
	f.crowd.Leave(c.addr)
}

func (c *fairConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b[:min(len(b), longestRead)])
	if n > 0 {
		time.Sleep(c.of.pace.ReserveN(time.Now(), n).Delay())
	}
	return n, err
}

func (c *fairConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.last.Store(steady.Now())
	return n, err
}

func (c *fairConn) Close() error {
	c.of.mu.Lock()
	c.of.forget(c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
