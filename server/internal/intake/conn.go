package intake

import (
	"bytes"
	"encoding/binary"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/polyscan/polyscan/internal/steady"
	"github.com/polyscan/polyscan/server/internal/budget"
	"github.com/polyscan/polyscan/server/internal/network"
)

// Conn is a guarded connection: it sees all bytes, in both directions.
type Conn struct {
	net.Conn
	g       *Guard
	network string // where it comes from
	same    *int   // connections from there; guarded by g.mu

	mu       sync.Mutex
	in, out  frames
	pad      int // bytes at the end of the DATA frame that is being read; -1: not known yet
	preface  int // bytes of it that have come
	block    bytes.Buffer
	headers  *hpack.Decoder
	path     string // of the block that is being decoded
	messages map[uint32]*message
	promised int64  // of its messages
	owed     int    // calls that the server has ended and the client has not
	window   int64  // that the server gives
	update   []byte // of it, on its way
	tokens   float64
	last     time.Time // that tokens were counted
	urgent   int       // of its messages
	bulk     bool      // the last read brought much
	closed   bool
	answers  map[*answer]struct{} // that its client has not taken
	taken    time.Time            // when it last took some of one

	buffer   []byte // that is read into
	from, to int    // of it, what nobody has taken yet
	there    int64  // of connectionBytes; guarded by mu

	idle atomic.Int64 // since when it has had no call, ns; 0 while it has one
}

// message is the message that comes on a stream, or the next one.
type message struct {
	limit  int64
	urgent bool
	window int64 // of the stream
	prefix [5]byte
	have   int   // bytes of the prefix
	left   int64 // bytes of the message that have not come
	frames int   // that it has taken
	size   int64
	since  time.Time // it has been coming since
	refuse bool      // the stream's messages don't count any more
	ended  bool      // the client has half-closed

	answered bool // the server has sent something: a reset is no waste
}

// frames finds the frames in a stream of bytes.
type frames struct {
	header [9]byte
	have   int // bytes of the header
	left   int // bytes of the payload
}

func (f *frames) kind() http2.FrameType { return http2.FrameType(f.header[3]) }
func (f *frames) flag(b http2.Flags) bool {
	return http2.Flags(f.header[4])&b != 0
}
func (f *frames) stream() uint32 { return binary.BigEndian.Uint32(f.header[5:]) & (1<<31 - 1) }

// take reads on: a header, which is complete where begun says so, or bytes of a payload. rest is what follows.
func (f *frames) take(b []byte) (begun bool, payload, rest []byte) {
	if f.left > 0 {
		n := min(f.left, len(b))
		f.left -= n
		return false, b[:n], b[n:]
	}
	if f.have == len(f.header) {
		f.have = 0
	}
	n := copy(f.header[f.have:], b)
	f.have += n
	if f.have < len(f.header) {
		return false, nil, b[n:]
	}
	f.left = int(f.header[0])<<16 | int(f.header[1])<<8 | int(f.header[2])
	return true, nil, b[n:]
}

// What a client may do that takes work and brings nothing, such as resetting calls: so many a second, and so many more
// at once. Clients that hedge or that lose interest cancel some 200 calls a second over a connection.
const (
	controlRate  = 250
	controlBurst = 500
)

// Whoever has done more than patience of that is read slowly, so that a burst of thousands of calls over several
// connections leaves others their turns: so many bytes, which are a dozen calls, in so long.
const (
	patience  = 100
	slowBytes = 2 << 10
	slowPause = 10 * time.Millisecond
)

// A connection that brings much, and no strips, is read behind strips, for so long at most at each read: its messages
// are work for the host before anything knows their class.
const (
	bulkBytes = 16 << 10
	bulkPause = time.Millisecond
)

// Messages may come in so many frames of any length, and beyond that in those that hold so many bytes on average. The
// library takes some 100 bytes beside each.
const (
	anyFrames  = 1000
	frameBytes = 1 << 10
)

// neverCalled is how much longer than it is there a connection counts as idle that has had no call: it gives way before
// those of clients that have called.
const neverCalled = time.Hour

// mostHeaders is how long the headers of a call may be, compressed; the library has a limit for what they become.
const mostHeaders = 128 << 10

func (g *Guard) guard(conn net.Conn) *Conn {
	c := &Conn{Conn: conn, g: g, messages: map[uint32]*message{}, window: g.cfg.ConnectionWindow,
		tokens: controlBurst, last: time.Now(), answers: map[*answer]struct{}{}, buffer: make([]byte, smallRead)}
	const tableSize = 4096 // that of HTTP/2, which the server doesn't change
	c.headers = hpack.NewDecoder(tableSize, func(f hpack.HeaderField) {
		if f.Name == ":path" {
			c.path = f.Value
		}
	})
	c.idle.Store(steady.Now() - int64(neverCalled))
	c.takes(quietBytes)
	c.network = network.Of(conn.RemoteAddr().String())
	g.mu.Lock()
	g.conns[c] = struct{}{}
	c.same = g.crowd.Join(c.network)
	g.mu.Unlock()
	return c
}

// A connection is read into a small buffer until a read has filled that, and into a large one from then on: clients
// that make no calls, or small ones, take little. Large reads spare system calls, as BenchmarkReduce shows.
const (
	smallRead = 4 << 10
	largeRead = 128 << 10
)

// Read implements net.Conn. The library has no buffer of its own.
func (c *Conn) Read(b []byte) (int, error) {
	if c.from == c.to {
		if c.to == smallRead && len(c.buffer) == smallRead {
			c.buffer = make([]byte, largeRead)
			c.takes(largeRead)
		}
		n, err := c.read(c.buffer)
		if n == 0 {
			return 0, err
		}
		c.from, c.to = 0, n // an error comes again
	}
	n := copy(b, c.buffer[c.from:c.to])
	c.from += n
	return n, nil
}

// takes counts n bytes of what is reserved for a connection as there, until it is closed.
func (c *Conn) takes(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.there += n
		c.g.cfg.Memory.Count(budget.Connections, n)
		c.g.cfg.Memory.Count(budget.Reserved, -n)
	}
}

func (c *Conn) read(b []byte) (int, error) {
	c.mu.Lock()
	slow, bulk := controlBurst-c.tokens > patience, c.bulk && c.urgent == 0
	c.mu.Unlock()
	if slow {
		b = b[:min(len(b), slowBytes)]
		time.Sleep(slowPause)
	}
	if bulk && c.g.cfg.Calm != nil {
		c.g.cfg.Calm(bulkPause)
	}
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.bulk = n >= bulkBytes
		if reason, text := c.received(b[:n]); reason != "" {
			c.abuse(reason, text)
			return 0, errClosed
		}
	}
	return n, err
}

// Write implements net.Conn.
func (c *Conn) Write(b []byte) (int, error) {
	c.sent(b)
	return c.Conn.Write(b)
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.mu.Lock()
	var answers map[*answer]struct{}
	first := !c.closed
	if first {
		c.closed = true
		c.g.cfg.Memory.Count(budget.Connections, -c.there)
		c.g.cfg.Memory.Count(budget.Reserved, c.there)
		c.g.count(-c.promised)
		c.promised, c.messages = 0, nil
		answers, c.answers = c.answers, nil
	}
	c.mu.Unlock()
	c.g.mu.Lock()
	c.g.forget(c)
	c.g.mu.Unlock()
	err := c.Conn.Close()
	if first {
		c.g.leave()
	}
	for a := range answers {
		c.lost(a)
	}
	return err
}

// abuse closes the connection.
func (c *Conn) abuse(reason, text string) {
	c.g.closed.WithLabelValues(reason).Inc()
	if unlogged, ok := c.g.mayLog(time.Now()); ok {
		c.g.cfg.Log.Warn("connection closed: "+text, "peer", c.RemoteAddr().String(), "reason", reason,
			"connections_not_logged", unlogged)
	}
	c.Close()
}

// slow says that a message of the connection has been coming for too long. Where the server takes no more, the time
// does not count.
func (c *Conn) slow(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	const stalled = 16 << 10 // a client may wait for a window of a whole frame
	for _, m := range c.messages {
		if m.have == 0 || m.refuse {
			continue
		}
		if m.window < stalled || c.window < stalled {
			m.since = now
		}
		if now.Sub(m.since) > messageTime+time.Duration(m.size>>20)*time.Second {
			return true
		}
	}
	return false
}

// received looks at bytes from the client, and changes the lengths of messages that must not come. reason says why the
// connection must be closed.
func (c *Conn) received(b []byte) (reason, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return "", ""
	}
	n := min(len(http2.ClientPreface)-c.preface, len(b))
	c.preface += n
	for b = b[n:]; len(b) > 0; {
		begun, payload, rest := c.in.take(b)
		b = rest
		if begun {
			reason, text = c.begin()
		} else if payload != nil {
			reason, text = c.payload(payload)
		}
		if reason == "" && c.in.have == len(c.in.header) && c.in.left == 0 {
			reason, text = c.end()
		}
		if reason != "" {
			return reason, text
		}
	}
	return "", ""
}

// begin looks at the header of a frame.
func (c *Conn) begin() (reason, text string) {
	f := &c.in
	switch f.kind() {
	case http2.FrameData:
		c.window -= int64(f.left)
		c.pad = 0
		if f.flag(http2.FlagDataPadded) {
			c.pad = -1
		}
		if m := c.messages[f.stream()]; m != nil {
			m.window -= int64(f.left)
			m.frames++
		}
		if f.left == 0 && !f.flag(http2.FlagDataEndStream) {
			return c.control()
		}
	case http2.FrameHeaders:
		c.block.Reset()
	case http2.FrameContinuation:
	case http2.FrameRSTStream:
		m := c.messages[f.stream()]
		c.forget(f.stream())
		switch {
		case m == nil && c.owed > 0: // of a call that the server has ended
			c.owed--
		case m == nil || !m.answered:
			return c.control()
		}
	case http2.FrameSettings:
		if !f.flag(http2.FlagSettingsAck) {
			return c.control()
		}
	case http2.FrameWindowUpdate, http2.FramePing: // for what it reads; the library bounds pings without reason
	default:
		return c.control()
	}
	return "", ""
}

// control counts what brings nothing.
func (c *Conn) control() (reason, text string) {
	now := time.Now()
	c.tokens = min(controlBurst, c.tokens+controlRate*now.Sub(c.last).Seconds()) - 1
	c.last = now
	if c.tokens < 0 {
		return "floods", "it was flooded with resets, settings or empty frames"
	}
	return "", ""
}

func (c *Conn) payload(p []byte) (reason, text string) {
	switch c.in.kind() {
	case http2.FrameHeaders, http2.FrameContinuation:
		if c.block.Len()+len(p) > mostHeaders {
			return "malformed", "its headers are too long"
		}
		c.block.Write(p)
	case http2.FrameData:
		if c.pad < 0 {
			c.pad, p = int(p[0]), p[1:]
		}
		// What is left of the frame may be padding, and so may the end of p.
		data := p[:max(len(p)-max(c.pad-c.in.left, 0), 0)]
		if m := c.messages[c.in.stream()]; m != nil {
			return c.data(m, data)
		}
	}
	return "", ""
}

// data follows the messages of a stream.
func (c *Conn) data(m *message, b []byte) (reason, text string) {
	for len(b) > 0 && !m.refuse && !m.ended {
		if m.have < len(m.prefix) {
			n := copy(m.prefix[m.have:], b)
			at := b[:n]
			m.have += n
			b = b[n:]
			if m.have < len(m.prefix) {
				m.since, m.size = time.Now(), 0
				return "", ""
			}
			m.size, m.since, m.frames = int64(binary.BigEndian.Uint32(m.prefix[1:])), time.Now(), 1
			if why := c.g.admit(c, m, m.size); why != "" {
				c.g.refused.WithLabelValues(why).Inc()
				if len(at) < 4 {
					return "malformed", "the length of a message that must be refused came in pieces"
				}
				length := uint32(noRoom)
				if why == "method" {
					length = tooLong
				}
				binary.BigEndian.PutUint32(at[len(at)-4:], length)
				m.refuse = true
				return "", ""
			}
			if m.refuse {
				return "", ""
			}
			m.left = m.size
			c.comes(m)
		}
		n := min(m.left, int64(len(b)))
		m.left -= n
		b = b[n:]
		c.promised -= n
		c.g.count(-n)
		if m.left == 0 {
			c.comes(m)
			m.have = 0
		}
	}
	if m.frames > anyFrames && m.have > 0 && int64(m.frames-anyFrames)*frameBytes > m.size-m.left {
		return "crumbs", "a message came in tiny frames"
	}
	return "", ""
}

// comes tells of a message that begins or ends.
func (c *Conn) comes(m *message) {
	if m.urgent && m.size >= bulkBytes && c.g.cfg.Comes != nil {
		c.g.cfg.Comes(m.left == 0)
	}
}

// end is called when a frame is complete.
func (c *Conn) end() (reason, text string) {
	f := &c.in
	f.have = 0
	switch f.kind() {
	case http2.FrameData:
		if m := c.messages[f.stream()]; m != nil && f.flag(http2.FlagDataEndStream) {
			c.promised -= m.left
			c.g.count(-m.left)
			m.left, m.have, m.ended = 0, 0, true
		}
	case http2.FrameHeaders, http2.FrameContinuation:
		if f.kind() == http2.FrameHeaders {
			c.strip()
		}
		if !f.flag(http2.FlagHeadersEndHeaders) {
			return "", ""
		}
		c.path = ""
		if _, err := c.headers.Write(c.block.Bytes()); err != nil || c.headers.Close() != nil {
			return "malformed", "its headers can't be read"
		}
		if c.path != "" && c.messages[f.stream()] == nil {
			m := &message{limit: c.g.limitOf(c.path), window: c.g.cfg.StreamWindow,
				urgent: c.g.cfg.Urgent != "" && strings.HasPrefix(c.path, c.g.cfg.Urgent)}
			if m.urgent {
				c.urgent++
			}
			c.messages[f.stream()] = m
			c.idle.Store(0)
		}
	}
	return "", ""
}

// strip takes padding and priority from a HEADERS frame.
func (c *Conn) strip() {
	const padLength, priority = 1, 5
	pad := 0
	if c.in.flag(http2.FlagHeadersPadded) && c.block.Len() >= padLength {
		pad = int(c.block.Next(padLength)[0])
	}
	if c.in.flag(http2.FlagHeadersPriority) {
		c.block.Next(priority)
	}
	c.block.Truncate(max(c.block.Len()-pad, 0))
}

// forget lets go of a stream.
func (c *Conn) forget(stream uint32) {
	if m := c.messages[stream]; m != nil {
		c.promised -= m.left
		c.g.count(-m.left)
		if m.urgent {
			c.urgent--
		}
		delete(c.messages, stream)
		if len(c.messages) == 0 {
			c.idle.Store(steady.Now())
		}
	}
}

// sent looks at bytes from the server: the ends of streams, and windows.
func (c *Conn) sent(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(b) > 0 && !c.closed {
		begun, payload, rest := c.out.take(b)
		b = rest
		f := &c.out
		if begun && f.kind() == http2.FrameData && len(c.answers) > 0 {
			c.taken = time.Now() // windows were open for it
		}
		switch {
		case begun && f.kind() == http2.FrameRSTStream,
			begun && f.kind() == http2.FrameHeaders && f.flag(http2.FlagHeadersEndStream),
			begun && f.kind() == http2.FrameData && f.flag(http2.FlagDataEndStream):
			if m := c.messages[f.stream()]; m != nil && !m.ended {
				c.owed++ // a reset, or the rest
			}
			c.forget(f.stream())
		case begun && f.kind() == http2.FrameHeaders:
			if m := c.messages[f.stream()]; m != nil {
				m.answered = true
			}
		case begun && f.kind() == http2.FrameWindowUpdate:
			c.update = c.update[:0]
		case payload != nil && f.kind() == http2.FrameWindowUpdate:
			if c.update = append(c.update, payload...); len(c.update) < 4 {
				continue
			}
			n := int64(binary.BigEndian.Uint32(c.update))
			if f.stream() == 0 {
				c.window += n
			} else if m := c.messages[f.stream()]; m != nil {
				m.window += n
			}
		}
	}
}
