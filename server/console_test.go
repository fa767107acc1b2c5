package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/budget"
)

// browser is a client of HTTP with cookies, and what it knows of its session.
type browser struct {
	*http.Client
	base string
	csrf string
}

// serveHTTP serves a server's HTTP side until the test ends.
func (ts *testServer) serveHTTP(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := ts.HTTPServer()
	done := make(chan error, 1)
	go func() { done <- h.Serve(HTTPListener(l, h)) }()
	t.Cleanup(func() {
		h.Close()
		<-done
	})
	return "http://" + l.Addr().String()
}

func newBrowser(t testing.TB, base string) *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &browser{Client: &http.Client{Jar: jar, Transport: tr, Timeout: patience}, base: base}
}

// post sends JSON, and returns the status and the answer. Headers are pairs.
func (b *browser) post(t testing.TB, path, body string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequest("POST", b.base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if b.csrf != "" {
		req.Header.Set("Polyscan-Csrf", b.csrf)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		} else if header[i+1] == "" {
			req.Header.Del(header[i])
		} else {
			req.Header.Set(header[i], header[i+1])
		}
	}
	res, err := b.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func (b *browser) login(t testing.TB, token string) (int, string) {
	t.Helper()
	code, text := b.post(t, "/console/login", fmt.Sprintf(`{"token":%q}`, token))
	var s struct{ CSRF string }
	json.Unmarshal([]byte(text), &s)
	b.csrf = s.CSRF
	return code, text
}

const (
	getDevice = "/polyscan.v1.DeviceService/GetDevice"
	putRecipe = "/polyscan.v1.RecipeService/PutRecipe"
	reduce    = "/polyscan.v1.InspectionService/Reduce"
)

// Every protocol gives what gRPC gives: numbers, errors with their details, and deadlines.
func TestCallsOverHTTP(t *testing.T) {
	s := start(t, Config{Console: true})
	b := newBrowser(t, s.serveHTTP(t))
	req := &pb.ReduceRequest{Inspection: inspecting(rect("r", 0, 0, 2, 1)), Frame: smallFrame(1)}
	want, err := s.inspection.Reduce(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := protojson.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	code, text := b.post(t, reduce, string(asJSON))
	got := &pb.ReduceResponse{}
	if err := protojson.Unmarshal([]byte(text), got); code != 200 || err != nil {
		t.Fatalf("%d %s: %v", code, text, err)
	}
	want.Result.Times, got.Result.Times = nil, nil
	if !proto.Equal(want, got) {
		t.Errorf("over HTTP %v, over gRPC %v", got, want)
	}
	raw, _ := proto.Marshal(req)
	code, text = b.post(t, reduce, string(raw), "Content-Type", "application/proto")
	if err := proto.Unmarshal([]byte(text), got); code != 200 || err != nil || got.Result.Regions[0].Count != 2 {
		t.Errorf("Connect: %d %q: %v", code, text, err)
	}
	code, text = b.post(t, getDevice, "{}", "Content-Type", "Application/JSON; charset=UTF-8")
	if code != 200 || !strings.Contains(text, `"backend"`) {
		t.Errorf("in capitals: %d %s", code, text)
	}
	framed := append([]byte{0, 0, 0, 0, byte(len(raw))}, raw...)
	code, text = b.post(t, reduce, string(framed), "Content-Type", "application/grpc-web+proto")
	if code != 200 || !strings.Contains(strings.ToLower(text), "grpc-status: 0") {
		t.Errorf("gRPC-Web: %d %q", code, text)
	}

	code, text = b.post(t, "/polyscan.v1.RecipeService/GetRecipe", `{"recipe":{"name":"nope"}}`)
	if code != 404 || !strings.Contains(text, `"not_found"`) || !strings.Contains(text, "UNKNOWN_RECIPE") {
		t.Errorf("an unknown recipe: %d %s", code, text)
	}
	for what, body := range map[string]string{"an unknown field": `{"nothing":1}`, "no end": `{"nothing":`, "no object": `7`} {
		code, text = b.post(t, getDevice, body)
		if code != 400 || !strings.Contains(text, `"invalid_argument"`) || strings.Contains(text, "proto:") ||
			!strings.Contains(text, "JSON, line 1, column ") || body[0] == '{' && !strings.Contains(text, "nothing") {
			t.Errorf("%s: %d %s", what, code, text)
		}
	}
	for name, c := range map[string]struct {
		body   string
		header []string
		code   int
		word   string
	}{
		"compressed": {"x", []string{"Content-Encoding", "gzip"}, 501, "Content-Encoding"},
		"gRPC":       {"x", []string{"Content-Type", "application/grpc"}, 415, "Content-Type"},
		"a text":     {"x", []string{"Content-Type", "text/plain"}, 415, "must be application/json"},
		"curl's own": {"{}", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415,
			`Content-Type = \"application/x-www-form-urlencoded\": must be application/json`},
		"XML":   {"{}", []string{"Content-Type", "application/connect+xml"}, 415, "must be application/json"},
		"empty": {"", nil, 400, "the body is empty: must be a JSON object, such as {}"},
		"no timeout": {"{}", []string{"Connect-Timeout-Ms", "abc"}, 400,
			`Connect-Timeout-Ms = \"abc\": must be milliseconds, a whole number of at most 10 digits`},
		"negative timeout": {"{}", []string{"Connect-Timeout-Ms", "-1"}, 400, `Connect-Timeout-Ms = \"-1\": must be`},
		"gRPC's timeout":   {"{}", []string{"Grpc-Timeout", "5"}, 400, `Grpc-Timeout = \"5\": must be at most 8 digits`},
		"another host":     {"{}", []string{"Host", "evil.example"}, 403, "evil.example"},
		"no service":       {"{}", nil, 501, `"code":"unimplemented"`},
	} {
		path := getDevice
		if name == "no service" {
			path = "/polyscan.v1.NoService/Nothing"
		}
		code, text := b.post(t, path, c.body, c.header...)
		if code != c.code || !strings.Contains(text, c.word) {
			t.Errorf("%s: %d %s", name, code, text)
		}
	}
	// Health asks for nothing, and metrics are what they were.
	if code, text := httpGet(t, s.Handler(), "/healthz"); code != 200 || text != "ok\n" {
		t.Errorf("/healthz: %d %s", code, text)
	}
	if got := metric(t, s, "polyscan_http_calls_total", "protocol", "grpc-web"); got != 1 {
		t.Errorf("%v calls by gRPC-Web", got)
	}
}

// TestUnknownMethod: a misspelt method or service is told in the protocol of the call, with the nearest one.
func TestUnknownMethod(t *testing.T) {
	s := start(t, Config{Console: true})
	const service = "/polyscan.v1.DeviceService/"
	for _, c := range []struct{ path, want string }{
		{service + "GetDevise", `"` + service + `GetDevise": no method is called so: did you mean GetDevice?`},
		{service + "getdevice", "did you mean GetDevice?"},
		{service, "no method is called so: there is GetDevice"},
		{service + "GetDevice/x", "no method is called so"},
		{"/polyscan.v1.DeviceServise/GetDevice", "no service is called so: did you mean polyscan.v1.DeviceService?"},
		{"/DeviceService/GetDevice", "no service is called so: did you mean polyscan.v1.DeviceService?"},
		{"/nothing", "no service is called so: there is "},
		{"/" + strings.Repeat("x", 300), strings.Repeat("x", 199) + `": no service is called so`},
	} {
		for kind, wantCode := range map[string]int{"application/json": 501, "application/proto": 501,
			"application/connect+json": 200, "application/connect+proto": 200, "application/grpc-web": 200,
			"application/grpc-web+proto": 200, "application/grpc-web+json; charset=utf-8": 200} {
			r := httptest.NewRequest("POST", "http://localhost"+c.path, strings.NewReader("{}"))
			r.Header.Set("Content-Type", kind)
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, r)
			body, code, text := w.Body.Bytes(), "", ""
			var e struct{ Code, Message string }
			var end struct {
				Error *struct{ Code, Message string }
			}
			end.Error = &e
			var err error
			switch {
			case strings.HasPrefix(kind, "application/grpc-web"):
				code = map[string]string{"12": "unimplemented"}[w.Header().Get("Grpc-Status")]
				text, err = url.PathUnescape(w.Header().Get("Grpc-Message"))
				kind, _, _ = strings.Cut(kind, ";")
			case strings.HasPrefix(kind, "application/connect+"):
				if len(body) < 5 || body[0] != 2 || int(binary.BigEndian.Uint32(body[1:])) != len(body)-5 {
					t.Fatalf("%s: %q", c.path, body)
				}
				err = json.Unmarshal(body[5:], &end)
			default:
				err, kind = json.Unmarshal(body, &e), "application/json"
			}
			if code == "" {
				code, text = e.Code, e.Message
			}
			if err != nil || w.Code != wantCode || code != "unimplemented" || !strings.Contains(text, c.want) ||
				w.Header().Get("Content-Type") != kind {
				t.Errorf("%s, %s: %d %s %q: %q, %v; want %q", c.path, kind, w.Code, code, text, body, err, c.want)
			}
		}
	}
}

// TestCalledOtherwise: a method that is called by another way than its own is told so, in JSON.
func TestCalledOtherwise(t *testing.T) {
	s := start(t, Config{Console: true})
	const unary, stream = "/polyscan.v1.DeviceService/GetDevice", "/polyscan.v1.InspectionService/StreamFrames"
	for _, c := range []struct {
		method, path, kind, timeout string
		code                        int
		want                        string
	}{
		{"GET", unary, "", "", 405, "GET: calls are sent by POST"},
		{"PUT", stream, "application/json", "", 405, "PUT: calls are sent by POST"},
		{"GET", "/polyscan.v1.DeviceService/Nothing", "", "", 404, ""},
		{"POST", stream, "application/json", "", 501, "StreamFrames is a stream: must be application/connect+json"},
		{"POST", stream, "application/proto", "", 501, "StreamFrames is a stream"},
		{"POST", unary, "application/connect+json", "", 200, "GetDevice is no stream: must be application/json"},
		{"POST", unary, "application/json", "0", 504, `Connect-Timeout-Ms = \"0\": the time for the call is over`},
	} {
		r := httptest.NewRequest(c.method, "http://localhost"+c.path, strings.NewReader("{}"))
		r.Header.Set("Content-Type", c.kind)
		if c.timeout != "" {
			r.Header.Set("Connect-Timeout-Ms", c.timeout)
		}
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		text := w.Body.String()
		if w.Code != c.code || !strings.Contains(text, c.want) || c.code == 405 && w.Header().Get("Allow") != "POST" ||
			c.code > 404 && !strings.Contains(text, `{"code":"`) || strings.Contains(text, "takes no calls") {
			t.Errorf("%s %s, %s: %d %q", c.method, c.path, c.kind, w.Code, text)
		}
	}
}

// TestBadEnvelopes: bodies that hold no whole messages are the client's mistake, in words that say what is expected, and
// not one of the server, or a server that takes no calls.
func TestBadEnvelopes(t *testing.T) {
	s := start(t, Config{Console: true})
	for _, c := range []struct{ body, status, want string }{
		{"garbage", "3", "request: a message begins with the byte 103: must be 0, as no message is compressed"},
		{"\x01\x00\x00\x00\x00", "3", "request: a message begins with the byte 1: must be 0"},
		{"\x00\x00\x00\x00\x02\x08", "3", "request: the body ends within a message"},
		{"\x00\x00\x00", "3", "request: the body ends within a message"},
		{"\x00\xff\xff\xff\xff\x08", "8", "request: a message of 4294967295 bytes: the limit is "},
		{"\x00\x00\x00\x00\x03abc", "3", "request: the message can't be read: cannot parse invalid wire-format data"},
		{"", "3", "the body is empty: must be a JSON object, such as {}, or a message"},
	} {
		for _, method := range []string{"DeviceService/GetDevice", "MonitorService/Watch", "InspectionService/Reduce"} {
			kinds := []string{"application/grpc-web", "application/grpc-web+proto"}
			if method == "MonitorService/Watch" {
				kinds = append(kinds, "application/connect+proto")
			}
			for _, kind := range kinds {
				r := httptest.NewRequest("POST", "http://localhost/polyscan.v1."+method, strings.NewReader(c.body))
				r.Header.Set("Content-Type", kind)
				w := httptest.NewRecorder()
				s.Handler().ServeHTTP(w, r)
				text, err := url.PathUnescape(w.Header().Get("Grpc-Message"))
				code := w.Header().Get("Grpc-Status")
				if kind == "application/connect+proto" {
					text, code = w.Body.String(), map[bool]string{true: "8", false: "3"}[strings.Contains(w.Body.String(), "exhausted")]
				}
				if err != nil || code != c.status || !strings.Contains(text, c.want) {
					t.Errorf("%s, %s, %q: %s %q, %v; want %q", method, kind, c.body, code, text, err, c.want)
				}
			}
		}
	}
	// Messages that come byte by byte are what they are.
	r := httptest.NewRequest("POST", "http://localhost/polyscan.v1.DeviceService/GetDevice",
		iotest.OneByteReader(strings.NewReader("\x00\x00\x00\x00\x02\x08\x01")))
	r.Header.Set("Content-Type", "application/grpc-web")
	w := httptest.NewRecorder()
	if s.Handler().ServeHTTP(w, r); w.Header().Get("Grpc-Status") > "0" || w.Body.Len() == 0 {
		t.Errorf("%v %q", w.Header(), w.Body)
	}
}

// A text that turns out to be none after its call has ended changes nothing any more: the process goes on.
func TestBadJSONAfterItsCall(t *testing.T) {
	s := start(t, Config{Console: true})
	b := newBrowser(t, s.serveHTTP(t))
	turn, err := s.work.Enter(t.Context()) // so that the text waits to be read
	if err != nil {
		t.Fatal(err)
	}
	leave := []func(){turn.Leave}
	for range runtime.GOMAXPROCS(0) - 2 {
		more, err := s.work.Enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		leave = append(leave, more.Leave)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", b.base+reduce,
		strings.NewReader(`{"inspection":`+strings.Repeat(" ", 100_000)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	done := make(chan error, 1)
	go func() {
		res, err := b.Do(req)
		if err == nil {
			res.Body.Close()
		}
		done <- err
	}()
	for deadline := time.Now().Add(patience); s.work.Waiting() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the text does not wait")
		}
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("a call that was cancelled has an answer")
	}
	time.Sleep(100 * time.Millisecond) // a handler that doesn't wait for its text has returned
	for _, f := range leave {
		f()
	}
	if code, text := b.post(t, getDevice, "{}"); code != 200 {
		t.Errorf("afterwards: %d %s", code, text)
	}
}

// A text of many small parts takes far more memory as a message than on the wire: that counts before it is read, and
// comes back.
func TestPartsOfJSON(t *testing.T) {
	s := start(t, Config{Console: true, MaxMessageBytes: 4 << 20, HostBytes: 16 << 20})
	b := newBrowser(t, s.serveHTTP(t))
	text := func(regions int) string {
		return `{"inspection":{"regionSet":{"regions":[` + strings.Repeat("{},", regions-1) + `{}]}}}`
	}
	if code, text := b.post(t, reduce, text(500_000)); code != 429 || !strings.Contains(text, "parts of this request") {
		t.Errorf("half a million regions: %d %.200s", code, text)
	}
	if code, text := b.post(t, reduce, text(50_000)); code != 400 {
		t.Errorf("fewer: %d %.200s", code, text)
	}
	if n := metric(t, s, "polyscan_host_memory_bytes", "kind", "http"); n != 0 {
		t.Errorf("%v bytes are left", n)
	}
}

// A message that its method doesn't take, one for which there is no room, and a body that doesn't come are refused.
func TestHTTPBodies(t *testing.T) {
	s := start(t, Config{Console: true, MaxMessageBytes: 8 << 20, HostBytes: 16 << 20})
	b := newBrowser(t, s.serveHTTP(t))
	// The limit of the method is that of the intake, whatever the protocol.
	code, text := b.post(t, getDevice, string(make([]byte, 64<<10)), "Content-Type", "application/proto")
	if code != 429 || !strings.Contains(text, "resource_exhausted") {
		t.Errorf("64 KiB for GetDevice: %d %s", code, text)
	}
	code, text = b.post(t, reduce, string(make([]byte, 9<<20)), "Content-Type", "application/proto")
	if code != 429 || !strings.Contains(text, "8388608") {
		t.Errorf("9 MiB: %d %s", code, text)
	}
	code, text = b.post(t, reduce, string(make([]byte, 7<<20)), "Content-Type", "application/proto")
	if code != 429 || !strings.Contains(text, "host memory") {
		t.Errorf("more than there is memory for: %d %s", code, text)
	}
	// Without a length a body may have 1 MiB.
	req, _ := http.NewRequest("POST", b.base+reduce, io.MultiReader(bytes.NewReader(make([]byte, 2<<20))))
	req.Header.Set("Content-Type", "application/proto")
	res, err := b.Do(req)
	if err == nil {
		if res.StatusCode == 200 {
			t.Error("2 MiB in chunks are taken")
		}
		res.Body.Close()
	}
	if n := s.host.Used(budget.HTTP) + s.host.Used(budget.HTTPExpected); n != 0 {
		t.Errorf("%d bytes are held", n)
	}
}

// A call takes a connection inside once its first message is whole, whatever its protocol: those that come slowly take
// none. And it gets its answer then.
func TestSlowBodies(t *testing.T) {
	s := start(t, Config{Console: true})
	base := s.serveHTTP(t)
	ask := &pb.ReduceRequest{Inspection: inspecting(rect("a", 0, 0, 2, 1)), Frame: rawFrame(2, 1, gray8, []byte{1, 2})}
	text, err := protojson.Marshal(ask)
	if err != nil {
		t.Fatal(err)
	}
	wire, err := proto.Marshal(ask)
	if err != nil {
		t.Fatal(err)
	}
	prefixed := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(wire))), wire...)
	type call struct {
		kind string
		rest []byte
		net.Conn
	}
	var calls []call
	for kind, body := range map[string][]byte{
		"application/json": text, "application/proto": wire, "application/grpc-web+proto": prefixed,
	} {
		for range 3 {
			conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			half := len(body) / 2
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s",
				reduce, kind, len(body), body[:half])
			calls = append(calls, call{kind, body[half:], conn})
		}
	}
	began := func() (n float64) {
		for _, label := range []string{"json", "connect", "grpc-web"} {
			n += testutil.ToFloat64(s.webMetrics.Calls.WithLabelValues(label))
		}
		return n
	}
	for deadline := time.Now().Add(patience); began() < float64(len(calls)); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%v of %d calls have begun", began(), len(calls))
		}
	}
	for i, c := range calls {
		if _, err := c.Write(c.rest); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%s: %v", c.kind, err)
		}
		answer, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK || len(answer) == 0 {
			t.Errorf("%s: HTTP %d, %d bytes, %v", c.kind, res.StatusCode, len(answer), err)
		}
		// Those that have ended give theirs back, and those to come have none yet.
		for deadline := time.Now().Add(patience); s.host.Used(budget.Connections) > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d bytes of connections while %d calls wait for their messages", s.host.Used(budget.Connections),
					len(calls)-i-1)
			}
		}
	}
}

// A client without a token may do nothing; a login makes a session, which needs its cookie and what its page sends
// beside it; the role holds; and it ends with the logout and with the token.
func TestConsoleSessions(t *testing.T) {
	file := writeFile(t, filepath.Join(t.TempDir(), "tokens"), "alpha name=lead role=view\nbeta name=boss role=admin\n")
	s := start(t, Config{Console: true, TokenFile: file})
	base := s.serveHTTP(t)
	b := newBrowser(t, base)
	if code, text := b.post(t, getDevice, "{}"); code != 401 {
		t.Errorf("without a token: %d %s", code, text)
	}
	if code, _ := b.post(t, getDevice, "{}", "Authorization", "Bearer alpha"); code != 200 {
		t.Errorf("with a token of its own: %d", code)
	}
	if code, text := b.login(t, "gamma"); code != 401 || !strings.Contains(text, "not one of this server's") {
		t.Errorf("a wrong token: %d %s", code, text)
	}
	code, text := b.login(t, "alpha")
	if code != 200 || !strings.Contains(text, `"role":"view"`) || !strings.Contains(text, `"tenant":"lead"`) {
		t.Fatalf("login: %d %s", code, text)
	}
	if code, text := b.post(t, getDevice, "{}"); code != 200 || !strings.Contains(text, `"role":"view"`) {
		t.Errorf("in a session: %d %s", code, text)
	}
	if code, text := b.post(t, putRecipe, `{"recipe":{"name":"r","regionSet":{}}}`); code != 403 || !strings.Contains(text, "teach") {
		t.Errorf("beyond the role: %d %s", code, text)
	}
	for name, header := range map[string][]string{
		"no csrf":       {"Polyscan-Csrf", ""},
		"wrong csrf":    {"Polyscan-Csrf", "x" + b.csrf},
		"other origin":  {"Origin", "http://evil.example"},
		"other port":    {"Origin", "http://127.0.0.1:1"},
		"another site":  {"Sec-Fetch-Site", "cross-site"},
		"the same site": {"Sec-Fetch-Site", "same-site"},
	} {
		if code, text := b.post(t, getDevice, "{}", header...); code != 403 {
			t.Errorf("%s: %d %s", name, code, text)
		}
	}
	if code, _ := b.post(t, getDevice, "{}", "Origin", base, "Sec-Fetch-Site", "same-origin"); code != 200 {
		t.Errorf("the page's own origin: %d", code)
	}
	// What somebody else's page reads, it can't.
	res, err := b.Get(base + "/console/session")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	for name, want := range map[string]string{"Access-Control-Allow-Origin": "", "Cross-Origin-Resource-Policy": "same-origin",
		"Cache-Control": "no-store"} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if code, _ := b.post(t, "/console/logout", "", "Polyscan-Csrf", "wrong"); code != 403 {
		t.Errorf("a logout by somebody else: %d", code)
	}
	if code, _ := b.post(t, "/console/logout", ""); code != 200 {
		t.Errorf("logout: %d", code)
	}
	if code, _ := b.post(t, getDevice, "{}"); code != 401 {
		t.Errorf("after the logout: %d", code)
	}
	// A token that is taken back ends its sessions and their streams.
	b.login(t, "beta")
	watch := b.dial(t, "/socket/polyscan.v1.MonitorService/Watch")
	send(t, watch, &pb.WatchRequest{})
	halfClose(t, watch)
	receiveMessage(t, watch, &pb.WatchResponse{})
	writeFile(t, file, "alpha name=lead role=view\n")
	s.Reload()
	if end := endOf(t, watch); end != "unauthenticated" {
		t.Errorf("a watch of a token that was taken back ends with %q", end)
	}
	if code, _ := b.post(t, getDevice, "{}"); code != 401 {
		t.Errorf("a token that was taken back: %d", code)
	}
	if got := metric(t, s, "polyscan_http_logins_total", "result", "ok"); got != 2 {
		t.Errorf("%v logins", got)
	}
}

// Logins that fail are slowed, those of the right token as well as of the wrong one, and calls are not.
func TestLoginsAreSlowed(t *testing.T) {
	file := writeFile(t, filepath.Join(t.TempDir(), "tokens"), "alpha\n")
	s := start(t, Config{Console: true, TokenFile: file})
	b := newBrowser(t, s.serveHTTP(t))
	slowed := 0
	for range 20 {
		switch code, text := b.login(t, "wrong"); code {
		case 401:
		case 429:
			slowed++
		default:
			t.Fatalf("%d %s", code, text)
		}
	}
	if slowed < 10 {
		t.Errorf("%d of 20 logins were slowed", slowed)
	}
	if code, _ := b.login(t, "alpha"); code != 429 {
		t.Errorf("the right token after that: %d", code)
	}
	if code, _ := b.post(t, getDevice, "{}", "Authorization", "Bearer alpha"); code != 200 {
		t.Errorf("a call: %d", code)
	}
}

// The page runs no script that isn't a file of the server, and asks nobody else for anything.
func TestConsolePage(t *testing.T) {
	s := start(t, Config{Console: true})
	h := s.Handler()
	for _, path := range []string{"/", "/live", "/device"} {
		code, text := httpGet(t, h, "http://localhost"+path)
		if code != 200 || !strings.Contains(text, "/main.js") || strings.Contains(text, "<script>") || strings.Contains(text, "style=") {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	if code, _ := httpGet(t, h, "http://localhost/nothing.js"); code != 404 {
		t.Errorf("no file: %d", code)
	}
	off := start(t, Config{})
	if code, text := httpGet(t, off.Handler(), "http://localhost/"); code != 200 || strings.Contains(text, "main.js") {
		t.Errorf("off: %d %s", code, text)
	}
	if code, _ := httpGet(t, off.Handler(), "http://localhost"+getDevice); code != 404 {
		t.Errorf("a call where they are off: %d", code)
	}
}

// dial opens a socket.
func (b *browser) dial(t testing.TB, path string, header ...string) *websocket.Conn {
	t.Helper()
	c, _, err := b.tryDial(t, path, header...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (b *browser) tryDial(t testing.TB, path string, header ...string) (*websocket.Conn, *http.Response, error) {
	o := &websocket.DialOptions{HTTPClient: b.Client, Subprotocols: []string{"polyscan"}, HTTPHeader: http.Header{}}
	if b.csrf != "" {
		o.Subprotocols = append(o.Subprotocols, "csrf."+b.csrf)
	}
	for i := 0; i < len(header); i += 2 {
		o.HTTPHeader.Set(header[i], header[i+1])
	}
	c, res, err := websocket.Dial(t.Context(), b.base+path, o)
	if err == nil {
		c.SetReadLimit(64 << 20)
		t.Cleanup(func() { c.CloseNow() })
	}
	return c, res, err
}

func send(t testing.TB, c *websocket.Conn, m proto.Message) {
	t.Helper()
	raw, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Write(t.Context(), websocket.MessageBinary, raw); err != nil {
		t.Fatal(err)
	}
}

func halfClose(t testing.TB, c *websocket.Conn) {
	t.Helper()
	if err := c.Write(t.Context(), websocket.MessageText, []byte("end")); err != nil {
		t.Fatal(err)
	}
}

func receiveMessage(t testing.TB, c *websocket.Conn, m proto.Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	kind, raw, err := c.Read(ctx)
	if err != nil || kind != websocket.MessageBinary {
		t.Fatalf("%v %s: %v", kind, raw, err)
	}
	if err := proto.Unmarshal(raw, m); err != nil {
		t.Fatal(err)
	}
}

// endOf reads to the end of a call, and returns its code.
func endOf(t testing.TB, c *websocket.Conn) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		kind, raw, err := c.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if kind == websocket.MessageText {
			var end struct{ Code string }
			if err := json.Unmarshal(raw, &end); err != nil {
				t.Fatal(err)
			}
			return end.Code
		}
	}
}

// A stream in both directions goes over a socket as over gRPC, to its end; other origins get none.
func TestSockets(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Console: true})
	b := newBrowser(t, s.serveHTTP(t))
	const path = "/socket/polyscan.v1.InspectionService/StreamFrames"
	if _, res, err := b.tryDial(t, path, "Origin", "http://evil.example"); err == nil || res == nil || res.StatusCode != 403 {
		t.Errorf("another origin: %v, %v", res, err)
	}
	c := b.dial(t, path, "Origin", b.base)
	send(t, c, &pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Open{Open: inspecting(rect("a", 0, 0, 2, 1))}})
	for i := range uint64(3) {
		send(t, c, &pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Frame{Frame: smallFrame(byte(i))}})
		m := &pb.StreamFramesResponse{}
		receiveMessage(t, c, m)
		if m.GetSequence() != i || m.GetResult().GetRegions()[0].GetCount() != 2 {
			t.Errorf("frame %d: %v", i, m)
		}
	}
	halfClose(t, c)
	if end := endOf(t, c); end != "ok" {
		t.Errorf("it ends with %q", end)
	}
	// A message that is none ends the call, with the code that gRPC gives.
	c = b.dial(t, path)
	c.Write(t.Context(), websocket.MessageBinary, []byte{0xff, 0xff})
	if end := endOf(t, c); end == "ok" {
		t.Error("nonsense is taken")
	}
	// One that is too long ends the connection.
	c = b.dial(t, path)
	c.Write(t.Context(), websocket.MessageBinary, make([]byte, 5<<20))
	if _, _, err := c.Read(t.Context()); err == nil {
		t.Error("5 MiB are taken")
	}
	// Whoever goes ends their call.
	c = b.dial(t, "/socket/polyscan.v1.MonitorService/Watch")
	send(t, c, &pb.WatchRequest{})
	halfClose(t, c)
	receiveMessage(t, c, &pb.WatchResponse{})
	c.CloseNow()
	waitFor(t, "watchers to go", func() bool { return metric(t, s, "polyscan_watchers") == 0 })
	waitFor(t, "sockets to close", func() bool { return metric(t, s, "polyscan_http_sockets") == 0 })
}

// A stream of answers comes as they are made.
func TestStreamOverConnect(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Console: true})
	b := newBrowser(t, s.serveHTTP(t))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "POST", b.base+"/polyscan.v1.MonitorService/Watch", strings.NewReader("\x00\x00\x00\x00\x02{}"))
	req.Header.Set("Content-Type", "application/connect+json")
	res, err := b.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	in := bufio.NewReader(res.Body)
	var prefix [5]byte
	for i := range 3 {
		if _, err := io.ReadFull(in, prefix[:]); err != nil {
			t.Fatal(err)
		}
		m := make([]byte, int(prefix[3])<<8|int(prefix[4]))
		io.ReadFull(in, m)
		if want := []string{"started", "heartbeat", "heartbeat"}[i]; !bytes.Contains(m, []byte(want)) {
			t.Errorf("message %d: %s", i, m)
		}
	}
	cancel()
	waitFor(t, "the watcher to go", func() bool { return metric(t, s, "polyscan_watchers") == 0 })
}

// With certificates calls need TLS, and health and metrics don't.
func TestConsoleTLS(t *testing.T) {
	dir := t.TempDir()
	ca := newAuthority(t)
	cert, key := ca.issue(t, dir, 1)
	s := start(t, Config{Console: true, TLS: TLS{CertFile: cert, KeyFile: key},
		TokenFile: writeFile(t, filepath.Join(dir, "tokens"), "alpha\n")}, ca.dial())
	plain := s.serveHTTP(t)
	b := newBrowser(t, plain)
	if code, text := b.post(t, getDevice, "{}", "Authorization", "Bearer alpha"); code != 403 || !strings.Contains(text, "https") {
		t.Errorf("in the clear: %d %s", code, text)
	}
	health, err := b.Get(plain + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	health.Body.Close()
	if health.StatusCode != 200 {
		t.Errorf("/healthz in the clear: %d", health.StatusCode)
	}
	secure := newBrowser(t, "https"+strings.TrimPrefix(plain, "http"))
	if code, text := secure.login(t, "alpha"); code != 200 {
		t.Fatalf("login: %d %s", code, text)
	}
	if code, _ := secure.post(t, getDevice, "{}"); code != 200 {
		t.Errorf("in a session: %d", code)
	}
	res, err := secure.Post(secure.base+"/console/login", "application/json", strings.NewReader(`{"token":"alpha"}`))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	c := res.Cookies()[0]
	if !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || !strings.HasPrefix(c.Name, "__Host-") || res.ProtoMajor != 2 {
		t.Errorf("%v over HTTP/%d", c, res.ProtoMajor)
	}
}

// Calls in flight over HTTP are finished when the server shuts down, and those after it get UNAVAILABLE.
func TestShutdownOverHTTP(t *testing.T) {
	h := newHooked()
	s := start(t, Config{Driver: h, Console: true})
	b := newBrowser(t, s.serveHTTP(t))
	entered, leave := make(chan struct{}), make(chan struct{})
	h.set(func() error { close(entered); <-leave; return nil })
	raw, _ := proto.Marshal(&pb.ReduceRequest{Inspection: inspecting(rect("r", 0, 0, 2, 1)), Frame: smallFrame(1)})
	call := make(chan int, 1)
	go func() {
		code, _ := b.post(t, reduce, string(raw), "Content-Type", "application/proto")
		call <- code
	}()
	<-entered
	shutdown := make(chan error, 1)
	go func() { shutdown <- s.Shutdown(context.Background()) }()
	<-s.draining
	close(leave)
	if code := <-call; code != 200 {
		t.Errorf("the call in flight: %d", code)
	}
	if err := <-shutdown; err != nil {
		t.Error(err)
	}
	if code, text := b.post(t, getDevice, "{}"); code != 503 || !strings.Contains(text, codeName(codes.Unavailable)) {
		t.Errorf("after it: %d %s", code, text)
	}
}

// A socket on which nobody has said anything is no call in flight: it is told, and a server that shuts down doesn't
// wait for it.
func TestShutdownEndsSilentSockets(t *testing.T) {
	s := start(t, Config{Console: true})
	b := newBrowser(t, s.serveHTTP(t))
	var silent []*websocket.Conn
	for _, path := range []string{"MonitorService/Watch", "DiffusionService/Edit", "InspectionService/StreamFrames"} {
		for range 4 {
			silent = append(silent, b.dial(t, "/socket/polyscan.v1."+path))
		}
	}
	spoken := b.dial(t, "/socket/polyscan.v1.MonitorService/Watch")
	send(t, spoken, &pb.WatchRequest{})
	halfClose(t, spoken)
	receiveMessage(t, spoken, &pb.WatchResponse{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	for _, c := range silent {
		if kind, text, err := c.Read(ctx); err != nil || kind != websocket.MessageText ||
			!strings.Contains(string(text), codeName(codes.Unavailable)) {
			t.Errorf("%v %s, %v", kind, text, err)
		}
	}
}

func codeName(c codes.Code) string { return strings.ToLower(c.String()) }
