package web

//lint:file-ignore SA1019 http.Transport pools connections by address; each request has one of its own here, handed over.

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/test/bufconn"

	"github.com/polyscan/polyscan/server/internal/budget"
)

// Inside is a listener for connections that never leave the process. The gRPC server serves it beside those of the
// network.
type Inside struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// NewInside makes one.
func NewInside() *Inside { return &Inside{conns: make(chan net.Conn), closed: make(chan struct{})} }

// Accept implements net.Listener.
func (l *Inside) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *Inside) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *Inside) Addr() net.Addr { return insideAddr("inside") }

type insideAddr string

func (insideAddr) Network() string  { return "inside" }
func (a insideAddr) String() string { return string(a) }

// insideConn is the server's end of a connection for a client of HTTP.
type insideConn struct {
	net.Conn
	remote insideAddr           // of the client
	tls    *tls.ConnectionState // of the client's connection; nil without TLS
}

func (c *insideConn) RemoteAddr() net.Addr { return c.remote }

// pair makes both ends of a connection. They have buffers, because both ends begin by sending.
func pair() (client, server net.Conn) {
	l := bufconn.Listen(pairBuffer)
	defer l.Close()
	accepted := make(chan net.Conn)
	go func() {
		c, _ := l.Accept()
		accepted <- c
	}()
	client, _ = l.Dial() // neither fails before the listener is closed
	return client, <-accepted
}

const pairBuffer = 64 << 10 // in each direction

func (l *Inside) dial(ctx context.Context, remote string, state *tls.ConnectionState) (net.Conn, error) {
	client, server := pair()
	select {
	case l.conns <- &insideConn{server, insideAddr(remote), state}:
		return client, nil
	case <-l.closed:
		client.Close()
		server.Close()
		return nil, net.ErrClosed
	case <-ctx.Done():
		client.Close()
		server.Close()
		return nil, context.Cause(ctx)
	}
}

// Credentials are those of other connections, but for the ones of an Inside: their handshake was that of the client's
// own connection, if it had one.
func Credentials(c credentials.TransportCredentials) credentials.TransportCredentials {
	return insideCredentials{c}
}

type insideCredentials struct {
	credentials.TransportCredentials
}

func (c insideCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	in, ok := raw.(*insideConn)
	switch {
	case !ok:
		return c.TransportCredentials.ServerHandshake(raw)
	case in.tls == nil:
		return in, plain{}, nil
	}
	return in, credentials.TLSInfo{State: *in.tls,
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}, nil
}

func (c insideCredentials) Clone() credentials.TransportCredentials {
	return insideCredentials{c.TransportCredentials.Clone()}
}

// plain says that nothing is known of a client.
type plain struct{ credentials.CommonAuthInfo }

// AuthType implements credentials.AuthInfo.
func (plain) AuthType() string { return "insecure" }

// transport sends each request over an inside connection of its own.
type transport struct {
	inside *Inside
	h2     http2.Transport
	memory *budget.Budget
}

func newTransport(inside *Inside, memory *budget.Budget) *transport {
	return &transport{inside: inside, h2: http2.Transport{AllowHTTP: true}, memory: memory}
}

// clientKey is where the context of a request says whose it is.
type clientKey struct{}

type client struct {
	addr string
	tls  *tls.ConnectionState
}

// RoundTrip implements http.RoundTripper. A connection takes half a megabyte, so there is one once the first message
// is here.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	since := time.Now()
	body, err := firstMessage(r)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body = body
	shorten(r.Header, time.Since(since))
	who, _ := r.Context().Value(clientKey{}).(client)
	conn, err := t.inside.dial(r.Context(), who.addr, who.tls)
	if err != nil {
		return nil, err
	}
	c, err := t.h2.NewClientConn(conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	res, err := c.RoundTrip(r)
	if err != nil {
		c.Close()
		return nil, err
	}
	res.Body = &messages{ReadCloser: res.Body, conn: c, memory: t.memory}
	return res, nil
}

// awaited is how much of a message is waited for. It is held twice then, for a moment.
const awaited = 64 << 10

// firstMessage waits for the first message of a request, or for the beginning of a long one, and returns a body that
// begins with it.
func firstMessage(r *http.Request) (io.ReadCloser, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return r.Body, nil
	}
	if g, ok := r.Context().Value(gateKey{}).(*gate); ok { // a call that is cancelled waits for no client
		stop := context.AfterFunc(r.Context(), func() { g.control.SetReadDeadline(time.Unix(1, 0)) })
		defer stop()
	}
	b, want := make([]byte, 0, 512), prefixBytes
	for len(b) < want {
		n, err := r.Body.Read(b[len(b):min(cap(b), want)])
		if b = b[:len(b)+n]; err == io.EOF {
			return body{bytes.NewReader(b), r.Body}, nil
		} else if err != nil {
			return nil, err
		}
		if len(b) == want && want == prefixBytes {
			want += int(min(binary.BigEndian.Uint32(b[1:]), awaited))
			b = slices.Grow(b, want-len(b))
		}
	}
	return body{io.MultiReader(bytes.NewReader(b), r.Body), r.Body}, nil
}

// body reads from one and closes another.
type body struct {
	io.Reader
	io.Closer
}

// shorten takes a time from what a call may take, which the gRPC server counts from when it begins. A call may take
// that long and a millisecond; one of hours or days isn't worth it.
func shorten(h http.Header, by time.Duration) {
	v := h.Get("Grpc-Timeout")
	unit := map[string]time.Duration{"M": time.Minute, "S": time.Second, "m": time.Millisecond, "u": time.Microsecond,
		"n": time.Nanosecond}[v[max(len(v)-1, 0):]]
	const most = 1e8 // in eight digits
	n, err := strconv.ParseInt(v[:max(len(v)-1, 0)], 10, 64)
	left := (time.Duration(n)*unit - by + time.Millisecond).Truncate(time.Millisecond)
	if err == nil && unit > 0 && n >= 0 && n < most && left < most*time.Millisecond {
		h.Set("Grpc-Timeout", fmt.Sprintf("%dm", max(left, time.Millisecond)/time.Millisecond))
	}
}

// messages are those of an answer. Each is counted while it may be in memory, until the next one begins: whoever makes
// JSON of it holds it whole.
type messages struct {
	io.ReadCloser
	conn    io.Closer
	memory  *budget.Budget
	prefix  [prefixBytes]byte
	have    int // bytes of the prefix
	left    int // bytes of the message that have not come
	release func()
}

var errNoRoom = errors.New("web: there is no host memory for the answer")

// Read implements io.Reader.
func (m *messages) Read(b []byte) (int, error) {
	n, err := m.ReadCloser.Read(b)
	for rest := b[:n]; len(rest) > 0; {
		if m.left > 0 {
			k := min(m.left, len(rest))
			m.left -= k
			rest = rest[k:]
			continue
		}
		k := copy(m.prefix[m.have:], rest)
		m.have += k
		rest = rest[k:]
		if m.have < len(m.prefix) {
			continue
		}
		m.have = 0
		m.left = int(binary.BigEndian.Uint32(m.prefix[1:]))
		if !m.count(m.left) {
			return 0, errNoRoom
		}
	}
	return n, err
}

func (m *messages) count(n int) (ok bool) {
	if m.release != nil {
		m.release()
		m.release = nil
	}
	if n > budget.SmallShare {
		m.release, ok = m.memory.Try(budget.HTTP, copies*int64(n))
		return ok
	}
	return true
}

// Close implements io.Closer. It ends the connection.
func (m *messages) Close() error {
	m.count(0)
	m.ReadCloser.Close()
	return m.conn.Close()
}
