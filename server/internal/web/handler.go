package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/vanguard"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/auth"
	"github.com/polyscan/polyscan/server/internal/budget"
	"github.com/polyscan/polyscan/server/internal/hostwork"
)

// Config is what a handler works with.
type Config struct {
	Inside   *Inside
	Draining <-chan struct{}             // closed when the server shuts down
	Services map[string]grpc.ServiceInfo // that are called, by their full names
	Tenants  *auth.Tenants               // nil: nobody is asked who they are
	TLS      bool                        // the server has certificates: calls and logins in the clear are refused
	Memory   *budget.Budget
	Work     *hostwork.Pool // where large texts are read and written
	// MaxMessage is the longest message that any method takes.
	MaxMessage int64
	Metrics    *Metrics
	Files      fs.FS // of the console
	Version    string
	Log        *slog.Logger
}

// Limits of requests.
const (
	mostCalls   = 64 // at a time
	mostSockets = 64 // at a time
	// A body that doesn't say how long it is may have that much: a stream of small messages.
	unsized = 1 << 20
	// A body must come within that time, and a second more for each megabyte; an answer that is not read for as long
	// as the second is given up.
	bodyTime  = 30 * time.Second
	writeTime = 10 * time.Second
	// Of a message there are a text, a message and its bytes at a time.
	copies = 3
)

// noCalls is the answer of a server that shuts down.
const noCalls = "the server takes no calls"

// Handler answers all that package web serves.
type Handler struct {
	Config
	mux       *http.ServeMux
	calls     http.Handler
	transport *transport
	sessions  sessions
	slow      slowness
	busy      chan struct{} // calls
	sockets   chan struct{}
	messages  *rate.Limiter // of sockets
	files     *files
}

// New makes a handler.
func New(cfg Config) (*Handler, error) {
	h := &Handler{
		Config:    cfg,
		transport: newTransport(cfg.Inside, cfg.Memory),
		sessions:  sessions{byKey: map[sessionKey]*session{}},
		slow:      slowness{until: map[string]time.Time{}},
		busy:      make(chan struct{}, mostCalls),
		sockets:   make(chan struct{}, mostSockets),
		messages:  rate.NewLimiter(rate.Limit(runtime.NumCPU()*messagesPerProcessor), 32),
	}
	cfg.Metrics.sessions = h.sessions.count
	var err error
	if h.files, err = newFiles(cfg.Files); err != nil {
		return nil, err
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "inside" },
		Transport:     h.transport,
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			st, ok := status.FromError(err)
			switch {
			case ok: // an error of the body
			case errors.Is(err, context.DeadlineExceeded):
				st = status.New(codes.DeadlineExceeded, "the time that the caller gave the call is over")
			default:
				st = status.New(codes.Unavailable, noCalls)
			}
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set("Grpc-Status", fmt.Sprint(uint32(st.Code())))
			w.Header().Set("Grpc-Message", st.Message())
		},
	}
	var services []*vanguard.Service
	for name := range cfg.Services {
		services = append(services, vanguard.NewService(name, through(proxy)))
	}
	if h.calls, err = vanguard.NewTranscoder(services, vanguard.WithDefaultServiceOptions(
		vanguard.WithTargetProtocols(vanguard.ProtocolGRPC), vanguard.WithTargetCodecs(vanguard.CodecProto),
		vanguard.WithNoTargetCompression(), vanguard.WithMaxMessageBufferBytes(uint32(cfg.MaxMessage)),
	), vanguard.WithCodec(h.strictJSON)); err != nil {
		return nil, fmt.Errorf("web: %w", err)
	}
	h.mux = http.NewServeMux()
	for name := range cfg.Services {
		h.mux.HandleFunc("GET /socket/"+name+"/{method}", h.socket)
	}
	h.mux.HandleFunc("GET /console/session", h.session)
	h.mux.HandleFunc("POST /console/login", h.login)
	h.mux.HandleFunc("POST /console/logout", h.logout)
	h.mux.HandleFunc("POST /", h.call)
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if h.methodOf(r.URL.Path) == nil {
			h.files.ServeHTTP(w, r)
			return
		}
		cfg.Metrics.Refused.WithLabelValues("method").Inc()
		w.Header().Set("Allow", http.MethodPost)
		writeJSON(w, http.StatusMethodNotAllowed, connectError{connect.CodeUnimplemented.String(),
			fmt.Sprintf("%s: calls are sent by POST, with a body such as {}", r.Method), nil})
	})
	return h, nil
}

// strictJSON refuses fields that a message doesn't have, which would be mistakes that nobody notices.
func (h *Handler) strictJSON(types vanguard.TypeResolver) vanguard.Codec {
	c := vanguard.NewJSONCodec(types)
	c.UnmarshalOptions.DiscardUnknown = false
	return jsonCodec{c, h}
}

// jsonCodec is a codec that says whose mistake it is where it can't read a message: the transcoder would take it for
// one of the server. It reads and writes large messages at a place of the pool of host work.
type jsonCodec struct {
	*vanguard.JSONCodec
	h *Handler
}

// largeJSON is read or written in 1 ms.
const largeJSON = 32 << 10

// objectBytes is what an object of JSON becomes, in memory.
const objectBytes = 160

func (c jsonCodec) Unmarshal(data []byte, m proto.Message) error {
	if n := int64(bytes.Count(data, []byte("{"))) * objectBytes; n > budget.SmallShare {
		release, ok := c.h.Memory.Try(budget.HTTP, n)
		if !ok {
			return connect.NewError(connect.CodeResourceExhausted, fmt.Errorf(
				"host memory: calls under way leave no room for the %d bytes that the parts of this request take", n))
		}
		defer release()
	}
	err := c.do(len(data), func() error {
		if at, n := longNumber(data); n > longestNumber {
			return fmt.Errorf("a number at byte %d has %d characters: the limit is %d", at, n, longestNumber)
		}
		err := c.JSONCodec.Unmarshal(data, m)
		if err == nil {
			return nil
		}
		text := apierr.JSONWords(err)
		if len(text) > longestError { // it has what can't be read in it, as long as that is
			text = strings.ToValidUTF8(text[:longestError], "") + "..."
		}
		return errors.New(text)
	})
	if err != nil {
		return connect.NewError(connect.CodeInvalidArgument, err)
	}
	return nil
}

const (
	// longestNumber is how many characters a number of JSON may have: no type has more than 770 digits that matter, and
	// a long one is read at once, however many others wait.
	longestNumber = 1000
	longestError  = 2000 // bytes
)

// longNumber finds the first number of a text that is longer than longestNumber, or says that there is none.
func longNumber(text []byte) (at, n int) {
	for i := 0; i < len(text); {
		switch b := text[i]; {
		case b == '"':
			i = endOfString(text, i)
		case b == '-' || b >= '0' && b <= '9':
			from := i
			for i++; i < len(text) && strings.IndexByte("+-.0123456789Ee", text[i]) >= 0; i++ {
			}
			if i-from > longestNumber {
				return from, i - from
			}
		default:
			i++
		}
	}
	return 0, 0
}

// endOfString is where a string ends that begins at i: behind its last quotation mark, or at the end of the text.
func endOfString(text []byte, i int) int {
	for i++; ; i++ {
		n := bytes.IndexByte(text[i:], '"')
		if n < 0 {
			return len(text)
		}
		i += n
		escapes := 0
		for text[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
}

// MarshalAppend implements vanguard.Codec.
func (c jsonCodec) MarshalAppend(base []byte, m proto.Message) (out []byte, err error) {
	err = c.do(proto.Size(m), func() error { out, err = c.JSONCodec.MarshalAppend(base, m); return err })
	return out, err
}

// do runs f at a place that all calls over HTTP share as one client: nothing says whose the text is.
func (c jsonCodec) do(size int, f func() error) error {
	ctx := kernels.WithClient(context.Background(), "json")
	return c.h.Work.Do(ctx, size, largeJSON, func(func() error) error { return f() })
}

// Pages are the addresses of the console's pages, which are all one file.
var Pages = []string{"live", "recipe", "history", "studio", "device"}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cache-Control", "no-store")
	if h.TLS && r.TLS == nil {
		if r.Method == http.MethodGet && r.URL.Path == "/" {
			http.Redirect(w, r, "https://"+r.Host+"/", http.StatusTemporaryRedirect)
			return
		}
		h.refuse(w, "tls", codes.PermissionDenied, "this server has a certificate: use https, not http")
		return
	}
	if h.Tenants == nil && !localName(r) {
		// A name that leads here and belongs to somebody else makes their page one of this origin.
		h.refuse(w, "host", codes.PermissionDenied, fmt.Sprintf(
			"host: %q is no name of this machine: use its address, or give the server tokens", r.Host))
		return
	}
	if err := origins.Check(r); err != nil {
		h.refuse(w, "origin", codes.PermissionDenied, "the page of another origin may call nothing here")
		return
	}
	h.mux.ServeHTTP(w, r)
}

// origins refuses what the pages of other origins send. What they ask for with GET they can't read, and changes
// nothing.
var origins = http.NewCrossOriginProtection()

// localName says whether a request names this machine by what no one else can make lead to it.
func localName(r *http.Request) bool {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	name, err := os.Hostname()
	name = strings.ToLower(name)
	return err == nil && (host == name || host == name+".local")
}

// refuse answers what is no call, or will not be one, with an error as Connect has it.
func (h *Handler) refuse(w http.ResponseWriter, reason string, code codes.Code, text string) {
	h.Metrics.Refused.WithLabelValues(reason).Inc()
	writeError(w, code, text)
}

// credentials finds out by whose token a request calls. s is their session, where they have one; ok is false where the
// request was refused, which is answered then.
func (h *Handler) credentials(w http.ResponseWriter, r *http.Request, csrf string) (s *session, ok bool) {
	if r.Header.Get("Authorization") != "" || h.Tenants == nil {
		return nil, true
	}
	if s = h.sessions.of(r, time.Now()); s == nil {
		return nil, true // the certificate counts, or nothing
	}
	if !s.owns(csrf) {
		h.refuse(w, "csrf", codes.PermissionDenied, csrfHeader+": must be what /console/session says")
		return nil, false
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	return s, true
}

// timeouts are the headers that say how long a caller waits, as Connect and gRPC have them.
var timeouts = map[string]struct {
	pattern *regexp.Regexp
	words   string
}{
	"Connect-Timeout-Ms": {regexp.MustCompile(`^[0-9]{1,10}$`), "milliseconds, a whole number of at most 10 digits"},
	"Grpc-Timeout":       {regexp.MustCompile(`^[0-9]{1,8}[HMSmun]$`), "at most 8 digits and one of H, M, S, m, u and n"},
}

// calledIn are the types of content that calls come in.
var calledIn = regexp.MustCompile(`^application/(json|proto|connect\+(json|proto)|grpc-web(\+(json|proto))?)$`)

// call answers a call.
func (h *Handler) call(w http.ResponseWriter, r *http.Request) {
	s, ok := h.credentials(w, r, r.Header.Get(csrfHeader))
	if !ok {
		return
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || !calledIn.MatchString(kind) { // the transcoder would look for a method of REST
		h.Metrics.Refused.WithLabelValues("body").Inc()
		text := fmt.Sprintf("Content-Type = %q: must be application/json, or another of Connect and gRPC-Web",
			r.Header.Get("Content-Type"))
		writeJSON(w, http.StatusUnsupportedMediaType, connectError{connect.CodeUnimplemented.String(), text, nil})
		return
	}
	if text := h.noMethod(r.URL.Path); text != "" {
		h.answer(w, "method", kind, codes.Unimplemented, text)
		return
	}
	if m := h.methodOf(r.URL.Path); (m.IsClientStream || m.IsServerStream) && isUnary(kind) {
		h.answer(w, "method", kind, codes.Unimplemented, fmt.Sprintf(
			"Content-Type = %q: %s is a stream: must be application/connect+json, or another of Connect's streams and gRPC-Web",
			kind, m.Name))
		return
	} else if !m.IsClientStream && !m.IsServerStream && strings.HasPrefix(kind, "application/connect+") {
		h.answer(w, "method", kind, codes.Unimplemented, fmt.Sprintf(
			"Content-Type = %q: %s is no stream: must be application/json, or another of Connect and gRPC-Web", kind, m.Name))
		return
	}
	for _, name := range []string{"Content-Encoding", "Connect-Content-Encoding", "Grpc-Encoding"} {
		if v := r.Header.Get(name); v != "" && v != "identity" {
			h.refuse(w, "body", codes.Unimplemented, fmt.Sprintf("%s = %q: messages are not compressed here", name, v))
			return
		}
	}
	for name, want := range timeouts {
		if v := r.Header.Get(name); v != "" && !want.pattern.MatchString(v) {
			h.refuse(w, "body", codes.InvalidArgument, fmt.Sprintf("%s = %q: must be %s", name, v, want.words))
			return
		}
		if v := r.Header.Get(name); v != "" && strings.Trim(v, "0HMSmun") == "" {
			h.answer(w, "body", kind, codes.DeadlineExceeded, fmt.Sprintf("%s = %q: the time for the call is over", name, v))
			return
		}
	}
	if r.ContentLength == 0 && kind != "application/proto" { // which an empty message is
		h.answer(w, "body", kind, codes.InvalidArgument, "the body is empty: must be a JSON object, such as {}, or a message "+
			"of Connect or gRPC-Web")
		return
	}
	select {
	case h.busy <- struct{}{}:
		defer func() { <-h.busy }()
	default:
		h.refuse(w, "busy", codes.ResourceExhausted, fmt.Sprintf("calls over HTTP: %d of %d are under way", mostCalls, mostCalls))
		return
	}
	size := r.ContentLength
	limit := h.MaxMessage
	if kind == "application/json" {
		limit += limit / 2 // bytes are base64
	}
	switch {
	case size > limit:
		h.refuse(w, "body", codes.ResourceExhausted, fmt.Sprintf("request: %d bytes: the limit is %d", size, limit))
		return
	case size < 0:
		size = unsized
	}
	come := &coming{memory: h.Memory}
	if size > budget.SmallShare {
		release, ok := h.Memory.Try(budget.HTTPExpected, copies*size)
		if !ok {
			h.refuse(w, "room", codes.ResourceExhausted, fmt.Sprintf(
				"host memory: calls under way leave no room for a request of %d bytes", size))
			return
		}
		defer release()
		come.room = copies * size
	}
	defer come.end()
	ctx, cancel := context.WithCancel(context.WithValue(r.Context(), clientKey{}, client{r.RemoteAddr, r.TLS}))
	defer cancel()
	if s != nil {
		defer h.sessions.hold(s)()
		defer context.AfterFunc(s.ctx, cancel)()
	}
	h.Metrics.Calls.WithLabelValues(protocolOf(kind)).Inc()
	r = r.WithContext(ctx)
	if isUnary(kind) {
		r.Header.Set("Connect-Protocol-Version", "1") // which curl need not know of
	}
	r.Header.Set("Content-Type", kind) // the transcoder tells capitals apart
	r.Header.Del("Cookie")
	r.Header.Del("Accept-Encoding")
	r.Header.Del(csrfHeader)
	timed := &timedWriter{ResponseWriter: w, control: http.NewResponseController(w)}
	timed.control.SetReadDeadline(time.Now().Add(bodyTime + time.Duration(size>>20)*time.Second))
	timed.control.SetWriteDeadline(time.Time{}) // until there is an answer
	g := newGate(timed.control)
	r = r.WithContext(context.WithValue(ctx, gateKey{}, g))
	r.Body = &timedBody{ReadCloser: http.MaxBytesReader(w, r.Body, size), control: timed.control, gate: g, come: come}
	if r.ContentLength == 0 {
		timed.control.SetReadDeadline(time.Time{})
	}
	if !isUnary(kind) {
		r.Body = &envelopes{ReadCloser: r.Body, limit: h.MaxMessage}
	}
	if kind == "application/json" && come.room == 0 {
		r.ContentLength = -1 // the transcoder makes room for all of a text at once, which nobody has counted
	}
	h.calls.ServeHTTP(timed, r)
}

// isUnary says that a body is one message, without anything around it: that of a unary call of Connect.
func isUnary(kind string) bool { return kind == "application/json" || kind == "application/proto" }

func protocolOf(kind string) string {
	switch {
	case strings.HasPrefix(kind, "application/grpc-web"):
		return "grpc-web"
	case kind == "application/json":
		return "json"
	}
	return "connect"
}

// timedBody ends the time of a body once it is there: what comes after it is waited for without an end.
type timedBody struct {
	io.ReadCloser
	control *http.ResponseController
	gate    *gate
	come    *coming
}

// Read implements io.Reader.
func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.gate.waiting(func() (int, error) { return b.ReadCloser.Read(p) })
	b.come.read(int64(n), err == io.EOF)
	if err == io.EOF {
		b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// coming counts a body as it comes, so that the ledger tells what is here from what may come. The transcoder makes room
// for a large text at once; a small one has taken none before, and counts with what it was copied from when that grew.
type coming struct {
	memory *budget.Budget
	room   int64 // 0: none
	here   atomic.Int64
}

// read counts n bytes more. Once the text is whole it becomes messages.
func (c *coming) read(n int64, whole bool) {
	switch {
	case c.room == 0:
		n *= 2
	case whole:
		n = c.room - c.here.Load()
	case c.here.Load() == 0:
		n = c.room / copies
	default:
		n = 0
	}
	if c.room > 0 {
		c.memory.Count(budget.HTTPExpected, -n)
	}
	c.memory.Count(budget.HTTP, n)
	c.here.Add(n)
}

// end is called when nobody reads any more.
func (c *coming) end() {
	n := c.here.Swap(0)
	c.memory.Count(budget.HTTP, -n)
	if c.room > 0 {
		c.memory.Count(budget.HTTPExpected, n)
	}
}

// timedWriter gives up where nobody reads.
type timedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (w *timedWriter) Write(b []byte) (int, error) {
	w.control.SetWriteDeadline(time.Now().Add(writeTime))
	return w.ResponseWriter.Write(b)
}

// Flush implements http.Flusher.
func (w *timedWriter) Flush() {
	w.control.SetWriteDeadline(time.Now().Add(writeTime))
	w.control.Flush()
}

// Unwrap is for http.ResponseController.
func (w *timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// identify says who calls by a token, or where that is "" by the certificate of the connection.
func (h *Handler) identify(r *http.Request, token string) (auth.Caller, error) {
	if h.Tenants == nil {
		return auth.Anonymous, nil
	}
	ctx := r.Context()
	if token != "" {
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("authorization", "Bearer "+token))
	}
	if r.TLS != nil {
		_, info, _ := insideCredentials{}.ServerHandshake(&insideConn{tls: r.TLS})
		ctx = peer.NewContext(ctx, &peer.Peer{AuthInfo: info})
	}
	return h.Tenants.Identify(ctx)
}

// sessionInfo is what the page learns about its user.
type sessionInfo struct {
	// Login is "needed", "token" (there is a session), "certificate" or "none" (nobody is asked who they are).
	Login   string `json:"login"`
	Tenant  string `json:"tenant"`
	Role    string `json:"role"`
	CSRF    string `json:"csrf"`
	Version string `json:"version"`
}

// session says who the caller is.
func (h *Handler) session(w http.ResponseWriter, r *http.Request) {
	info := sessionInfo{Login: "needed", Version: h.Version}
	s := h.sessions.of(r, time.Now())
	token := ""
	if s != nil {
		token = s.token
	}
	who, err := h.identify(r, token)
	switch {
	case err != nil && s != nil: // the token was taken back
		h.sessions.forget(r)
		setCookie(w, r, "")
	case err != nil:
	case h.Tenants == nil:
		info.Login = "none"
	case s != nil:
		info.Login, info.CSRF = "token", s.csrf
	default:
		info.Login = "certificate"
	}
	if err == nil {
		info.Tenant, info.Role = who.Tenant, who.Role.String()
	}
	writeJSON(w, http.StatusOK, info)
}

// login begins a session.
func (h *Handler) login(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Token string `json:"token"`
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	const most = 4 << 10
	if kind != "application/json" || json.NewDecoder(http.MaxBytesReader(w, r.Body, most)).Decode(&in) != nil || in.Token == "" {
		h.refuse(w, "body", codes.InvalidArgument, `a login is JSON, as {"token": "..."}`)
		return
	}
	network := networkOf(r)
	if d := h.slow.wait(network, time.Now()); d > 0 {
		h.Metrics.Logins.WithLabelValues("slowed").Inc()
		w.Header().Set("Retry-After", fmt.Sprint(int(d/time.Second)+1))
		writeError(w, codes.ResourceExhausted, fmt.Sprintf("too many logins that failed: try again in %d s", int(d/time.Second)+1))
		return
	}
	who, err := h.identify(r, in.Token)
	if err != nil {
		h.Metrics.Logins.WithLabelValues("refused").Inc()
		h.Log.Warn("login refused", "peer", r.RemoteAddr)
		s := status.Convert(err)
		writeError(w, s.Code(), s.Message())
		return
	}
	h.slow.forgive(network)
	h.Metrics.Logins.WithLabelValues("ok").Inc()
	h.sessions.forget(r) // a login makes a new session, never another use of an old one
	info := sessionInfo{Login: "none", Tenant: who.Tenant, Role: who.Role.String(), Version: h.Version}
	if h.Tenants != nil {
		cookie, s := h.sessions.begin(in.Token, time.Now())
		setCookie(w, r, cookie)
		info.Login, info.CSRF = "token", s.csrf
	}
	h.Log.Info("login", "tenant", who.Tenant, "role", who.Role.String(), "peer", r.RemoteAddr)
	writeJSON(w, http.StatusOK, info)
}

// logout ends the session of a request, and the calls that it made.
func (h *Handler) logout(w http.ResponseWriter, r *http.Request) {
	if s := h.sessions.of(r, time.Now()); s != nil && !s.owns(r.Header.Get(csrfHeader)) {
		h.refuse(w, "csrf", codes.PermissionDenied, csrfHeader+": must be what /console/session says")
		return
	}
	h.sessions.forget(r)
	setCookie(w, r, "")
	writeJSON(w, http.StatusOK, struct{}{})
}
