package opcua

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/gopcua/opcua/ua"
	"github.com/gopcua/opcua/uacp"
)

// A conn is one client's connection: hello, then one secure channel for as long as it lasts. Its goroutine reads and
// handles one message after another; answers may be written by others too.
type conn struct {
	srv    *Server
	net    net.Conn
	in     *bufio.Reader
	opened time.Time
	url    string // that the client asked for

	// What the client takes.
	sendChunk, sendMessage, sendChunks uint32

	channel *channel

	// owned by srv.mu
	active bool // a session was activated here

	writeMu sync.Mutex
}

// statusError is an error that the client is told as a transport error before the connection is closed.
type statusError struct {
	status ua.StatusCode
	why    string
}

func (e *statusError) Error() string { return e.why }

func refuse(status ua.StatusCode, format string, a ...any) error {
	return &statusError{status, fmt.Sprintf(format, a...)}
}

// serve reads until the connection ends, and says why it did.
func (c *conn) serve() error {
	defer c.net.Close()
	err := c.run()
	var s *statusError
	if errors.As(err, &s) {
		c.writeError(s.status, s.why)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (c *conn) run() error {
	if err := c.hello(); err != nil {
		return err
	}
	for {
		kind, id, body, err := c.message()
		if err != nil {
			return err
		}
		if kind == "CLO" {
			return nil
		}
		if err := c.srv.handle(c, id, body); err != nil {
			return err
		}
	}
}

// chunk reads the next one, whole, with its header. begun is when the message that it belongs to began, or zero.
func (c *conn) chunk(begun time.Time) ([]byte, error) {
	idle := c.idleUntil()
	if !begun.IsZero() {
		idle = begun.Add(messageTimeout)
	}
	c.net.SetReadDeadline(idle)
	head, err := c.in.Peek(8)
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, refuse(ua.StatusBadTimeout, "nothing came for too long")
		}
		return nil, err
	}
	if begun.IsZero() {
		c.net.SetReadDeadline(time.Now().Add(messageTimeout))
	}
	size := binary.LittleEndian.Uint32(head[4:])
	limit := uint32(maxChunk)
	kind := string(head[:3])
	switch {
	case kind == "HEL":
		limit = maxHello
	case kind != "OPN" && kind != "MSG" && kind != "CLO":
		return nil, refuse(ua.StatusBadTCPMessageTypeInvalid, "a message of type %q", kind)
	}
	if size < 8 || size > limit {
		return nil, refuse(ua.StatusBadTCPMessageTooLarge, "a %s chunk of %d bytes, at most %d", kind, size, limit)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(c.in, b); err != nil {
		return nil, err
	}
	return b, nil
}

// idleUntil is how long to wait for the next message.
func (c *conn) idleUntil() time.Time {
	if c.channel == nil {
		return c.opened.Add(helloTimeout)
	}
	t := c.channel.expires()
	if !c.srv.isActive(c) {
		if s := c.opened.Add(sessionTimeout); s.Before(t) {
			t = s
		}
	}
	return t
}

func (c *conn) hello() error {
	b, err := c.chunk(time.Time{})
	if err != nil {
		return err
	}
	if string(b[:4]) != "HELF" {
		return refuse(ua.StatusBadTCPMessageTypeInvalid, "the first message is %q, want a hello", b[:4])
	}
	h := new(uacp.Hello)
	if _, err := h.Decode(b[8:]); err != nil {
		return refuse(ua.StatusBadTCPInternalError, "hello: %v", err)
	}
	if h.ReceiveBufSize < 8192 || h.SendBufSize < 8192 {
		return refuse(ua.StatusBadConnectionRejected, "hello: buffers of %d and %d bytes, want at least 8192",
			h.ReceiveBufSize, h.SendBufSize)
	}
	c.url = h.EndpointURL
	c.sendChunk, c.sendMessage, c.sendChunks = min(h.ReceiveBufSize, maxChunk), h.MaxMessageSize, h.MaxChunkCount
	ack := &uacp.Acknowledge{ReceiveBufSize: min(h.SendBufSize, maxChunk), SendBufSize: c.sendChunk,
		MaxMessageSize: maxMessage, MaxChunkCount: maxChunks}
	body, err := ack.Encode()
	if err != nil {
		return err
	}
	return c.write(frame("ACKF", body))
}

// frame puts a header before a body that has no channel.
func frame(kind string, body []byte) []byte {
	b := make([]byte, 8, 8+len(body))
	copy(b, kind)
	binary.LittleEndian.PutUint32(b[4:], uint32(8+len(body)))
	return append(b, body...)
}

// message reads the chunks of one message and returns its body, or handles what concerns the channel alone.
func (c *conn) message() (kind string, id uint32, body []byte, err error) {
	var begun time.Time
	for chunks := 1; ; chunks++ {
		b, err := c.chunk(begun)
		if err != nil {
			return "", 0, nil, err
		}
		if begun.IsZero() {
			begun = time.Now()
		}
		kind = string(b[:3])
		if len(b) < 12 || kind == "HEL" {
			return "", 0, nil, refuse(ua.StatusBadTCPMessageTypeInvalid,
				"a %s message of %d bytes in an open connection", kind, len(b))
		}
		if kind == "OPN" {
			if chunks > 1 || b[3] != 'F' {
				return "", 0, nil, refuse(ua.StatusBadTCPMessageTypeInvalid, "a channel is opened in the midst of a message")
			}
			if err := c.open(b); err != nil {
				return "", 0, nil, err
			}
			chunks, begun = 0, time.Time{}
			continue
		}
		if c.channel == nil {
			return "", 0, nil, refuse(ua.StatusBadTCPSecureChannelUnknown, "a %s message before a channel is open", kind)
		}
		request, part, err := c.channel.receive(b)
		if err != nil {
			return "", 0, nil, err
		}
		if chunks > 1 && request != id {
			return "", 0, nil, refuse(ua.StatusBadTCPMessageTypeInvalid, "a chunk of request %d among those of %d", request, id)
		}
		id = request
		switch b[3] {
		case 'A': // the client gave the message up
			chunks, begun, body = 0, time.Time{}, nil
			continue
		case 'C', 'F':
		default:
			return "", 0, nil, refuse(ua.StatusBadTCPMessageTypeInvalid, "a chunk of type %q", b[3])
		}
		if len(body)+len(part) > maxMessage || chunks > maxChunks {
			return "", 0, nil, refuse(ua.StatusBadTCPMessageTooLarge, "a message of more than %d bytes or %d chunks",
				maxMessage, maxChunks)
		}
		body = append(body, part...)
		if b[3] == 'F' {
			return kind, id, body, nil
		}
	}
}

// write sends bytes of whole chunks. Its caller holds writeMu where chunks of others could come between.
func (c *conn) write(b []byte) error {
	c.net.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := c.net.Write(b)
	if err != nil {
		c.net.Close() // a chunk that was sent in part makes the rest unreadable
	}
	return err
}

func (c *conn) writeError(status ua.StatusCode, why string) {
	if len(why) > 200 {
		why = why[:200]
	}
	if body, err := (&uacp.Error{ErrorCode: uint32(status), Reason: why}).Encode(); err == nil {
		c.writeMu.Lock()
		defer c.writeMu.Unlock()
		_ = c.write(frame("ERRF", body)) // the connection is given up anyhow
	}
}

// send encodes a response and writes it. One that the client would not take becomes a fault that says so.
func (c *conn) send(id uint32, r ua.Response) error {
	b, err := encode(r)
	if err == nil && (len(b) > maxResponse || c.sendMessage != 0 && len(b) > int(c.sendMessage)) {
		err = ua.StatusBadResponseTooLarge
	}
	if err == nil {
		err = c.sendBody(id, b)
	}
	if !errors.Is(err, ua.StatusBadResponseTooLarge) && !errors.Is(err, errEncoding) {
		return err
	}
	c.srv.log.Warn("opcua: a response was not sent", "type", fmt.Sprintf("%T", r), "error", err)
	status := ua.StatusBadResponseTooLarge
	if errors.Is(err, errEncoding) {
		status = ua.StatusBadEncodingError
	}
	fault := &ua.ServiceFault{ResponseHeader: responseHeader(r.Header().RequestHandle, status)}
	if b, err = encode(fault); err != nil {
		return err
	}
	return c.sendBody(id, b)
}

func (c *conn) sendBody(id uint32, b []byte) error {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	out, err := c.channel.seal(id, b, c.sendChunk, c.sendChunks)
	if err != nil {
		return err
	}
	return c.write(out)
}

var errEncoding = errors.New("opcua: encoding")

// encode returns a service message with its type id. What package ua can't encode is a mistake of this package, which
// costs the client an answer and the gateway nothing.
func encode(r any) (b []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %T: %v", errEncoding, r, p)
		}
	}()
	buf := ua.NewBuffer(nil)
	buf.WriteStruct(ua.NewFourByteExpandedNodeID(0, ua.ServiceTypeID(r)))
	buf.WriteStruct(r)
	if buf.Error() != nil {
		return nil, fmt.Errorf("%w: %T: %w", errEncoding, r, buf.Error())
	}
	return buf.Bytes(), nil
}
