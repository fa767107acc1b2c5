package attack

// A raw HTTP/2 client: it sends what no library would.

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
)

// wire is a connection. It reads and counts whatever comes, and gives windows back only where refund is set.
type wire struct {
	conn   net.Conn
	fr     *http2.Framer
	refund bool

	write   sync.Mutex // held to write frames, in order of their stream ids
	headers bytes.Buffer
	encoder *hpack.Encoder
	next    uint32

	mu      sync.Mutex
	changed *sync.Cond
	window  int64 // that the server gives us
	initial int64 // of a stream
	frame   int   // largest that it takes
	streams map[uint32]*call
	err     error
}

// call is a stream on a wire.
type call struct {
	w      *wire
	id     uint32
	window int64
	done   bool // the server has ended it
	code   codes.Code
	text   string
	got    int // bytes of messages
}

// ignored is a window that is large enough for any case.
const ignored = 1<<31 - 1

// dial opens a connection with the window that each stream gets, and one for all streams that never ends.
func dial(t testing.TB, addr string, streamWindow uint32) *wire {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{conn: conn, fr: http2.NewFramer(conn, conn), next: 1, window: 65535, initial: 65535, frame: 16384,
		streams: map[uint32]*call{}, refund: streamWindow > 0}
	w.changed = sync.NewCond(&w.mu)
	w.encoder = hpack.NewEncoder(&w.headers)
	t.Cleanup(w.close)
	conn.Write([]byte(http2.ClientPreface))
	w.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: streamWindow})
	w.fr.WriteWindowUpdate(0, ignored-65535)
	go w.read()
	return w
}

func (w *wire) close() { w.conn.Close() }

// lock holds w.mu for f and wakes those who wait for what f changed.
func (w *wire) lock(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	w.changed.Broadcast()
}

func (w *wire) read() {
	decoder := hpack.NewDecoder(4096, nil)
	for {
		f, err := w.fr.ReadFrame()
		if err != nil {
			w.lock(func() { w.err = err })
			return
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if f.IsAck() {
				continue
			}
			w.lock(func() {
				if v, ok := f.Value(http2.SettingInitialWindowSize); ok {
					for _, c := range w.streams {
						c.window += int64(v) - w.initial
					}
					w.initial = int64(v)
				}
				if v, ok := f.Value(http2.SettingMaxFrameSize); ok {
					w.frame = int(v)
				}
			})
			w.write.Lock()
			w.fr.WriteSettingsAck()
			w.write.Unlock()
		case *http2.WindowUpdateFrame:
			w.lock(func() {
				if c := w.streams[f.StreamID]; c != nil {
					c.window += int64(f.Increment)
				} else if f.StreamID == 0 {
					w.window += int64(f.Increment)
				}
			})
		case *http2.PingFrame:
			if !f.IsAck() {
				w.write.Lock()
				w.fr.WritePing(true, f.Data)
				w.write.Unlock()
			}
		case *http2.DataFrame:
			w.lock(func() {
				if c := w.streams[f.StreamID]; c != nil {
					c.got += len(f.Data())
					c.done = c.done || f.StreamEnded()
				}
			})
			if n := uint32(len(f.Data())); n > 0 && w.refund {
				w.write.Lock()
				w.fr.WriteWindowUpdate(0, n)
				w.fr.WriteWindowUpdate(f.StreamID, n)
				w.write.Unlock()
			}
		case *http2.HeadersFrame:
			fields, _ := decoder.DecodeFull(f.HeaderBlockFragment())
			w.lock(func() {
				c := w.streams[f.StreamID]
				if c == nil {
					return
				}
				for _, h := range fields {
					switch h.Name {
					case "grpc-status":
						n, _ := strconv.Atoi(h.Value)
						c.code = codes.Code(n)
					case "grpc-message":
						c.text = h.Value
					}
				}
				c.done = c.done || f.StreamEnded()
			})
		case *http2.RSTStreamFrame:
			w.lock(func() {
				if c := w.streams[f.StreamID]; c != nil && !c.done {
					c.done, c.code, c.text = true, codes.Canceled, "reset: "+f.ErrCode.String()
				}
			})
		}
	}
}

// call begins a call. extra are headers, name and value in turn.
func (w *wire) call(method string, extra ...string) *call {
	w.write.Lock()
	defer w.write.Unlock()
	w.headers.Reset()
	fields := append([]string{":method", "POST", ":scheme", "http", ":path", method, ":authority", "attack",
		"content-type", "application/grpc", "te", "trailers"}, extra...)
	for i := 0; i < len(fields); i += 2 {
		w.encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	c := &call{w: w, id: w.next, code: codes.Unknown}
	w.next += 2
	w.lock(func() { c.window = w.initial; w.streams[c.id] = c })
	w.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: c.id, BlockFragment: w.headers.Bytes(), EndHeaders: true})
	return c
}

var errEnded = errors.New("the server has ended the call")

// data sends bytes in frames of chunk bytes at most (0: as large as the server takes), as its windows allow.
func (c *call) data(ctx context.Context, b []byte, chunk int, end bool) error {
	w := c.w
	stop := context.AfterFunc(ctx, func() { w.lock(func() {}) })
	defer stop()
	if chunk == 0 {
		w.lock(func() { chunk = w.frame })
	}
	for first := true; first || len(b) > 0; first = false {
		want := min(int64(len(b)), 64<<10)
		w.mu.Lock()
		for w.err == nil && !c.done && ctx.Err() == nil && len(b) > 0 && min(w.window, c.window) < 1 {
			w.changed.Wait()
		}
		n := max(min(want, w.window, c.window), 0)
		err := w.err
		if c.done {
			err = errEnded
		}
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			w.window -= n
			c.window -= n
		}
		w.mu.Unlock()
		if err != nil {
			return err
		}
		if err := c.frames(b[:n], chunk, end && int(n) == len(b)); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// frames writes DATA frames in one system call.
func (c *call) frames(b []byte, chunk int, end bool) error {
	var out []byte
	for first := true; first || len(b) > 0; first = false {
		n := min(chunk, len(b))
		var flags http2.Flags
		if end && n == len(b) {
			flags = http2.FlagDataEndStream
		}
		out = append(out, byte(n>>16), byte(n>>8), byte(n), byte(http2.FrameData), byte(flags))
		out = binary.BigEndian.AppendUint32(out, c.id)
		out = append(out, b[:n]...)
		b = b[n:]
	}
	c.w.write.Lock()
	defer c.w.write.Unlock()
	_, err := c.w.conn.Write(out)
	return err
}

// message is the prefix of a gRPC message of n bytes.
func prefix(n int) []byte { return binary.BigEndian.AppendUint32([]byte{0}, uint32(n)) }

// send sends a whole message and half-closes.
func (c *call) send(ctx context.Context, m []byte) error {
	return c.data(ctx, append(prefix(len(m)), m...), 0, true)
}

// reset cancels the call.
func (c *call) reset() {
	c.w.write.Lock()
	defer c.w.write.Unlock()
	c.w.fr.WriteRSTStream(c.id, http2.ErrCodeCancel)
}

// wait waits for the call's end.
func (c *call) wait(ctx context.Context) (codes.Code, error) {
	w := c.w
	stop := context.AfterFunc(ctx, func() { w.lock(func() {}) })
	defer stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	for !c.done && w.err == nil && ctx.Err() == nil {
		w.changed.Wait()
	}
	if !c.done {
		return codes.Unknown, fmt.Errorf("the call has no end: %w", errors.Join(w.err, ctx.Err()))
	}
	return c.code, nil
}
