package web

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/server/internal/budget"
)

// Sockets carry calls whose messages go both ways at a time, which browsers can't have otherwise, and those that stay
// open: a browser opens six connections to a host and far more sockets. A socket is GET /socket/SERVICE/METHOD with the
// subprotocol "polyscan"; "csrf.X" beside it is what calls have in a header. Each binary message is one of the call,
// which begins with the first; no method may speak before. A text message from the client, whatever it says,
// half-closes; one from the server is the last and says how the call ended, as an error of Connect, with the code "ok"
// where it went well.
const (
	socketProtocol = "polyscan"
	csrfProtocol   = "csrf."
	// The longest message of a client. What is longer goes over a call of its own.
	socketMessage = 4 << 20
	pingInterval  = 20 * time.Second
	// A client's ping is answered at most that often, and until then nothing else that it sends is read.
	answerPings = 100 * time.Millisecond
	// All sockets together pass on so many messages a second for each processor: pages send some dozens, and each is
	// work that a dozen goroutines take part in.
	messagesPerProcessor = 500
)

// errSocketRoom ends a call whose message finds no host memory.
var errSocketRoom = errors.New("web: there is no host memory for the message of a socket")

// socket answers a call over a WebSocket.
func (h *Handler) socket(w http.ResponseWriter, r *http.Request) {
	csrf := ""
	for _, v := range strings.Split(strings.Join(r.Header.Values("Sec-Websocket-Protocol"), ","), ",") {
		if v, ok := strings.CutPrefix(strings.TrimSpace(v), csrfProtocol); ok {
			csrf = v
		}
	}
	s, ok := h.credentials(w, r, csrf)
	if !ok {
		return
	}
	select {
	case h.sockets <- struct{}{}:
		defer func() { <-h.sockets }()
	default:
		h.refuse(w, "busy", codes.ResourceExhausted, fmt.Sprintf("sockets: %d of %d are open", mostSockets, mostSockets))
		return
	}
	// Accept refuses other origins.
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{socketProtocol},
		OnPingReceived: func(context.Context, []byte) bool {
			time.Sleep(answerPings)
			return true
		}})
	if err != nil {
		h.Metrics.Refused.WithLabelValues("socket").Inc()
		return
	}
	defer c.CloseNow()
	c.SetReadLimit(socketMessage)
	h.Metrics.Calls.WithLabelValues("websocket").Inc()
	h.Metrics.Sockets.Inc()
	defer h.Metrics.Sockets.Dec()
	// net/http doesn't end the context of a connection that was taken over.
	ctx, fail := context.WithCancelCause(context.WithValue(context.WithoutCancel(r.Context()), clientKey{},
		client{r.RemoteAddr, r.TLS}))
	cancel := func() { fail(nil) }
	defer cancel()
	if s != nil {
		defer h.sessions.hold(s)()
		defer context.AfterFunc(s.ctx, cancel)()
	}
	end := h.bridge(ctx, fail, c, r)
	text, _ := json.Marshal(errorOf(end))
	last, done := context.WithTimeout(context.Background(), writeTime)
	defer done()
	if c.Write(last, websocket.MessageText, text) == nil {
		c.Close(websocket.StatusNormalClosure, "")
	}
}

// bridge carries messages until the call or the connection ends.
func (h *Handler) bridge(ctx context.Context, fail context.CancelCauseFunc, c *websocket.Conn, r *http.Request) *spb.Status {
	in, out := io.Pipe()
	defer in.Close()
	begun := make(chan struct{})
	go h.receive(ctx, fail, c, out, sync.OnceFunc(func() { close(begun) }))
	go alive(ctx, func() { fail(nil) }, c)
	// The call begins with its first message. A client that opens a socket and then says nothing, as a page does that
	// is left meanwhile, would else have a call that waits for its request, and a server that shuts down waits for calls.
	select {
	case <-begun:
	case <-h.Draining:
		return &spb.Status{Code: int32(codes.Unavailable), Message: noCalls}
	case <-ctx.Done():
		return endedEarly(ctx)
	}
	req := (&http.Request{
		Method: http.MethodPost,
		URL:    &url.URL{Scheme: "http", Host: "inside", Path: strings.TrimPrefix(r.URL.Path, "/socket")},
		Header: http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"},
			"User-Agent": {r.UserAgent()}},
		Body: in, ContentLength: -1,
	}).WithContext(ctx)
	if a := r.Header.Get("Authorization"); a != "" {
		req.Header.Set("Authorization", a)
	}
	res, err := h.transport.RoundTrip(req)
	if context.Cause(ctx) == errSocketRoom {
		return endedEarly(ctx)
	} else if err != nil {
		return &spb.Status{Code: int32(codes.Unavailable), Message: noCalls}
	}
	defer res.Body.Close()
	for {
		m, err := h.message(res.Body)
		if err == io.EOF {
			return statusOf(res)
		} else if err != nil {
			return endedEarly(ctx)
		}
		write, done := context.WithTimeout(ctx, writeTime)
		err = c.Write(write, websocket.MessageBinary, m)
		done()
		if err != nil {
			return &spb.Status{Code: int32(codes.Canceled), Message: "the client reads nothing"}
		}
	}
}

// message reads one.
func (h *Handler) message(r io.Reader) ([]byte, error) {
	var prefix [prefixBytes]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return nil, err
	}
	n := int64(binary.BigEndian.Uint32(prefix[1:]))
	if n > h.MaxMessage {
		return nil, errNoRoom
	}
	m := make([]byte, n) // transport has counted it
	_, err := io.ReadFull(r, m)
	return m, err
}

// endedEarly is how a call ended that did not end by itself.
func endedEarly(ctx context.Context) *spb.Status {
	if err := context.Cause(ctx); err == errSocketRoom {
		return &spb.Status{Code: int32(codes.ResourceExhausted), Message: err.Error()}
	}
	return &spb.Status{Code: int32(codes.Canceled), Message: "the call ended early"}
}

// receive passes on what the client sends, until it ends. It calls begin for each message.
func (h *Handler) receive(ctx context.Context, fail context.CancelCauseFunc, c *websocket.Conn, out *io.PipeWriter,
	begin func()) {
	defer fail(nil)
	for {
		kind, r, err := c.Reader(ctx)
		if err != nil {
			out.CloseWithError(err)
			return
		}
		m, release, err := h.read(r)
		if err != nil {
			fail(err) // before the call ends for it
			out.CloseWithError(err)
			return
		}
		begin()
		time.Sleep(h.messages.Reserve().Delay())
		if kind == websocket.MessageText {
			out.Close()
		} else {
			binary.BigEndian.PutUint32(m[1:], uint32(len(m)-prefixBytes))
			// Where that fails the call has ended, or will say why it takes no more. Reading on finds out when the client
			// goes.
			out.Write(m)
		}
		release()
	}
}

// prefixBytes precede a message of gRPC: a flag, and how long it is.
const prefixBytes = 5

// read reads a message behind the room for its prefix. Until release is called it is counted, with what it was copied
// from when it grew.
func (h *Handler) read(r io.Reader) (m []byte, release func(), err error) {
	m, release = make([]byte, prefixBytes, 4096), func() {}
	for {
		n, err := r.Read(m[len(m):cap(m)])
		if m = m[:len(m)+n]; err == io.EOF {
			return m, release, nil
		} else if err != nil {
			release()
			return nil, nil, err
		}
		if len(m) < cap(m) {
			continue
		}
		release()
		release = func() {}
		if n := 3 * int64(cap(m)); n > budget.SmallShare {
			var ok bool
			if release, ok = h.Memory.Try(budget.HTTP, n); !ok {
				return nil, nil, errSocketRoom
			}
		}
		m = append(make([]byte, 0, 2*cap(m)), m...)
	}
}

// alive ends a call whose client has gone without a word.
func alive(ctx context.Context, cancel context.CancelFunc, c *websocket.Conn) {
	ticks := time.NewTicker(pingInterval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		ping, done := context.WithTimeout(ctx, writeTime)
		err := c.Ping(ping)
		done()
		if err != nil {
			cancel()
			return
		}
	}
}

// statusOf is how a call ended, as gRPC says it.
func statusOf(res *http.Response) *spb.Status {
	h := res.Trailer
	if h.Get("Grpc-Status") == "" {
		h = res.Header // there was nothing else
	}
	if raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(h.Get("Grpc-Status-Details-Bin"), "=")); err == nil && len(raw) > 0 {
		s := &spb.Status{}
		if proto.Unmarshal(raw, s) == nil {
			return s
		}
	}
	code, err := strconv.Atoi(h.Get("Grpc-Status"))
	if err != nil {
		return &spb.Status{Code: int32(codes.Unknown), Message: fmt.Sprintf("the call ended without a status, with HTTP %d", res.StatusCode)}
	}
	text, err := url.PathUnescape(h.Get("Grpc-Message"))
	if err != nil {
		text = h.Get("Grpc-Message")
	}
	return &spb.Status{Code: int32(code), Message: text}
}
