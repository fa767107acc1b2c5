package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	channelzpb "google.golang.org/grpc/channelz/grpc_channelz_v1"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/hostwork"
)

func (ts *testServer) healthOf(t testing.TB, service string) healthpb.HealthCheckResponse_ServingStatus {
	t.Helper()
	res, err := healthpb.NewHealthClient(ts.conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
	if err != nil {
		t.Fatal(err)
	}
	return res.Status
}

func httpGet(t testing.TB, h http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w.Code, w.Body.String()
}

// A call in flight is finished, a new one refused, and readiness says so meanwhile.
func TestShutdownFinishes(t *testing.T) {
	h := newHooked()
	s := start(t, Config{Driver: h})
	handler := s.Handler()
	if code, _ := httpGet(t, handler, "/readyz"); code != 200 {
		t.Errorf("/readyz: %d", code)
	}
	watch, err := healthpb.NewHealthClient(s.conn).Watch(t.Context(),
		&healthpb.HealthCheckRequest{Service: "polyscan.v1.InspectionService"})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := watch.Recv(); err != nil || r.Status != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("%v, %v", r, err)
	}
	entered, leave := make(chan struct{}), make(chan struct{})
	h.set(func() error { close(entered); <-leave; return nil })
	call := make(chan error, 1)
	go func() {
		_, err := s.inspection.Reduce(context.Background(),
			&pb.ReduceRequest{Inspection: inspecting(rect("r", 0, 0, 2, 1)), Frame: smallFrame(1)})
		call <- err
	}()
	<-entered
	shutdown := make(chan error, 1)
	go func() { shutdown <- s.Shutdown(context.Background()) }()
	if r, err := watch.Recv(); err != nil || r.Status != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("%v, %v", r, err)
	}
	if code, body := httpGet(t, handler, "/readyz"); code != 503 || !strings.Contains(body, "shutting down") {
		t.Errorf("/readyz: %d %q", code, body)
	}
	if code, _ := httpGet(t, handler, "/healthz"); code != 200 {
		t.Errorf("/healthz: %d", code)
	}
	select {
	case err := <-shutdown:
		t.Fatalf("Shutdown returned with a call in flight: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(leave)
	if err := <-call; err != nil {
		t.Errorf("the call in flight: %v", err)
	}
	if _, err := watch.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the watch ends with %v", err)
	}
	if err := <-shutdown; err != nil {
		t.Error(err)
	}
}

// A stream that is idle doesn't hold the server up: it is told.
func TestShutdownEndsStreams(t *testing.T) {
	h := newHooked()
	s := start(t, Config{Driver: h})
	unopened := s.open(t, nil)
	idle := s.open(t, inspecting(rect("r", 0, 0, 2, 1)))
	idle.send(smallFrame(1))
	idle.recv()
	busy := s.open(t, inspecting(rect("r", 0, 0, 2, 1)))
	entered, leave := make(chan struct{}), make(chan struct{})
	h.set(func() error { close(entered); <-leave; return nil })
	busy.send(smallFrame(1))
	<-entered
	shutdown := make(chan error, 1)
	go func() { shutdown <- s.Shutdown(context.Background()) }()
	for name, st := range map[string]*testStream{"idle": idle, "unopened": unopened} {
		_, err := st.Recv()
		if d := detailsOf(t, err); d.status.Code() != codes.Unavailable || d.info.Reason != apierr.ReasonShuttingDown ||
			d.retry == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	close(leave)
	if r := busy.recv(); r.GetResult() == nil {
		t.Errorf("the frame in work: %v", r)
	}
	if _, err := busy.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("%v", err)
	}
	if err := <-shutdown; err != nil {
		t.Error(err)
	}
}

// With no time left, calls are cancelled, and nothing of them stays.
func TestShutdownForced(t *testing.T) {
	h := newHooked()
	s := start(t, Config{Driver: h})
	entered, leave := make(chan struct{}), make(chan struct{})
	h.set(func() error { close(entered); <-leave; return nil })
	call := make(chan error, 1)
	go func() {
		_, err := s.inspection.Reduce(context.Background(),
			&pb.ReduceRequest{Inspection: inspecting(rect("r", 0, 0, 2, 1)), Frame: smallFrame(1)})
		call <- err
	}()
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	shutdown := make(chan error, 1)
	go func() { shutdown <- s.Shutdown(ctx) }()
	if err := <-call; status.Code(err) != codes.Unavailable {
		t.Errorf("the call: %v", err)
	}
	close(leave) // the device can't stop before
	err := <-shutdown
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if again := s.Shutdown(t.Context()); again == nil || again.Error() != err.Error() {
		t.Errorf("a second Shutdown: %v, want %v", again, err)
	}
	s.closed = nil // for the test's own end
}

func TestServeAfterShutdown(t *testing.T) {
	s := start(t, Config{})
	s.stop(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(l); err != nil {
		t.Errorf("%v", err)
	}
	if _, err := l.Accept(); err == nil {
		t.Error("the listener is still open")
	}
}

func TestServices(t *testing.T) {
	s := start(t, Config{})
	for _, service := range []string{"", "polyscan.v1.InspectionService", "polyscan.v1.RecipeService",
		"polyscan.v1.DeviceService"} {
		if st := s.healthOf(t, service); st != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("%q: %v", service, st)
		}
	}
	if _, err := healthpb.NewHealthClient(s.conn).Check(t.Context(),
		&healthpb.HealthCheckRequest{Service: "nothing"}); status.Code(err) != codes.NotFound {
		t.Errorf("%v", err)
	}
	if _, err := channelzpb.NewChannelzClient(s.conn).GetServers(t.Context(),
		&channelzpb.GetServersRequest{}); err != nil {
		t.Error(err)
	}
	// Reflection knows our services in spite of handlers of our own.
	stream, err := reflectionpb.NewServerReflectionClient(s.conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(r *reflectionpb.ServerReflectionRequest) *reflectionpb.ServerReflectionResponse {
		t.Helper()
		if err := stream.Send(r); err != nil {
			t.Fatal(err)
		}
		res, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	list := ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}).String()
	for _, want := range []string{"polyscan.v1.InspectionService", "polyscan.v1.RecipeService",
		"grpc.health.v1.Health"} {
		if !strings.Contains(list, want) {
			t.Errorf("reflection lists %s, without %s", list, want)
		}
	}
	symbol := &reflectionpb.ServerReflectionRequest_FileContainingSymbol{
		FileContainingSymbol: "polyscan.v1.InspectionService.Reduce",
	}
	file := ask(&reflectionpb.ServerReflectionRequest{MessageRequest: symbol})
	if file.GetFileDescriptorResponse() == nil {
		t.Errorf("%v", file)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != io.EOF {
		t.Error(err)
	}
	// Unknown methods, ours and others'.
	err = s.conn.Invoke(t.Context(), "/polyscan.v1.InspectionService/Nothing", &pb.GetDeviceRequest{},
		&pb.GetDeviceResponse{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("%v", err)
	}

	bare := start(t, Config{NoReflection: true, NoChannelz: true})
	if _, err := channelzpb.NewChannelzClient(bare.conn).GetServers(t.Context(),
		&channelzpb.GetServersRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("channelz that was left out: %v", err)
	}
	for name := range bare.grpc.GetServiceInfo() {
		if strings.Contains(name, "reflection") {
			t.Errorf("%s was left out", name)
		}
	}
}

func TestHandler(t *testing.T) {
	s := start(t, Config{Version: "v9.8.7<b>"})
	h := s.Handler()
	for path, want := range map[string]string{
		"/metrics": "polyscan_stage_seconds_bucket", "/healthz": "ok", "/readyz": "ready", "/": "v9.8.7&lt;b&gt;",
	} {
		if code, body := httpGet(t, h, path); code != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d, lacks %q", path, code, want)
		}
	}
	for _, path := range []string{"/x", "/metrics/x"} {
		if code, _ := httpGet(t, h, path); code != 404 {
			t.Errorf("%s: %d", path, code)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", "/healthz", nil))
	if w.Code != 405 {
		t.Errorf("POST: %d", w.Code)
	}
}

// However many scrapes nobody reads, few answers are held for them, and others get one: it is no older than they are,
// as long as not too many are held.
func TestUnreadScrapes(t *testing.T) {
	var made atomic.Int64
	h := newScrapes(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Encoding", r.Header.Get("Accept-Encoding"))
		fmt.Fprint(w, made.Add(1))
	}), hostwork.New(1), nil)
	get := func() (int64, string) {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.Header.Set("Accept-Encoding", "gzip")
		h.ServeHTTP(w, r)
		n, err := strconv.ParseInt(w.Body.String(), 10, 64)
		if err != nil || w.Code != http.StatusOK {
			t.Errorf("%d %q", w.Code, w.Body)
		}
		return n, w.Header().Get("X-Encoding")
	}
	for range 3 {
		before := made.Load()
		if n, encoding := get(); n != before+1 || encoding != "gzip" {
			t.Errorf("answer %d, encoded as %q, after %d", n, encoding, before)
		}
	}
	const scrapes = 200
	read := make(chan struct{})
	codes := make(chan int, scrapes)
	var waiting atomic.Int64
	before := made.Load()
	for range scrapes {
		go func() {
			w := &unreadScrape{ResponseRecorder: httptest.NewRecorder(), waiting: &waiting, read: read}
			h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
			codes <- w.Code
		}()
	}
	for deadline := time.Now().Add(10 * time.Second); waiting.Load() < scrapes; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d got an answer", waiting.Load(), scrapes)
		}
	}
	if n := made.Load() - before; n > maxScrapes+1 {
		t.Errorf("%d answers are held", n)
	}
	get()
	close(read)
	for range scrapes {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("a scrape that is read late: %d", code)
		}
	}
	before = made.Load()
	if n, _ := get(); n != before+1 {
		t.Errorf("after all: answer %d of %d", n, before)
	}
}

// A panic in what makes an answer is counted and logged, and costs that answer and nothing else: the next one is made, at
// the place that the first one had.
func TestPanickingScrape(t *testing.T) {
	s, err := New(Config{Threads: 1, MemoryBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown(t.Context())
	broken := true
	h := newScrapes(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		fmt.Fprint(w, "half")
		if broken {
			panic("no numbers")
		}
	}), hostwork.New(1), s.panicked)
	for i, want := range []int{http.StatusServiceUnavailable, http.StatusServiceUnavailable, http.StatusOK} {
		broken = want != http.StatusOK
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		body := w.Body.String()
		if w.Code != want || broken && (!strings.HasPrefix(body, "no metrics: ") || strings.Contains(body, "no numbers") ||
			strings.Contains(body, "half") || w.Header().Get("Content-Encoding") != "") {
			t.Errorf("answer %d: %d, %q, %v", i, w.Code, body, w.Header())
		}
	}
	if n := testutil.ToFloat64(s.metrics.Panics); n != 2 {
		t.Errorf("%v panics are counted", n)
	}
}

// unreadScrape is where the answer of a scrape waits for who reads it; that of a refused one doesn't.
type unreadScrape struct {
	*httptest.ResponseRecorder
	waiting *atomic.Int64
	read    chan struct{}
}

func (w *unreadScrape) Write(b []byte) (int, error) {
	if w.Code == http.StatusOK {
		w.waiting.Add(1)
		<-w.read
		w.waiting.Add(-1)
	}
	return w.ResponseRecorder.Write(b)
}

// A registry that the embedding program brings gets the metrics, and loses them with the server.
func TestRegisterer(t *testing.T) {
	reg := prometheus.NewRegistry()
	for range 2 {
		s := start(t, Config{Registerer: reg})
		if metric(t, s, "polyscan_build_info") != 1 {
			t.Error("no metrics")
		}
		if _, err := New(Config{Registerer: reg, MemoryBytes: 1 << 20}); err == nil {
			t.Error("two servers in one registry: no error")
		}
		s.stop(t)
		if metric(t, s, "polyscan_build_info") != 0 {
			t.Error("metrics of a server that is gone")
		}
	}
}

func TestRefusesConfig(t *testing.T) {
	for want, cfg := range map[string]Config{
		"Threads":         {Threads: -1},
		"MaxMessageBytes": {MaxMessageBytes: 1 << 31},
		"MaxFramePixels":  {MaxFramePixels: 1 << 30},
		"StreamDepth":     {StreamDepth: 1000},
		"MaxRegions":      {MaxRegions: -1},
		`"gpu"`:           {Device: "gpu"},
		"device 7":        {Device: "cpu", Ordinal: 7},
		"no such file":    {TokenFile: "no/such/file"},
	} {
		s, err := New(cfg)
		if err == nil {
			s.Shutdown(t.Context())
			t.Errorf("%s: no error", want)
		} else if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q lacks %q, or has more than one line", err, want)
		}
	}
}

// Watches of services that aren't there, or were down before, are no exception.
func TestShutdownEndsWatches(t *testing.T) {
	s := start(t, Config{})
	s.health.SetServingStatus("down", healthpb.HealthCheckResponse_NOT_SERVING)
	var watches []healthpb.Health_WatchClient
	for _, service := range []string{"", "down", "unknown"} {
		w, err := healthpb.NewHealthClient(s.conn).Watch(t.Context(), &healthpb.HealthCheckRequest{Service: service})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Recv(); err != nil {
			t.Fatal(err)
		}
		watches = append(watches, w)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	for _, w := range watches {
		var err error
		for err == nil {
			_, err = w.Recv()
		}
		if status.Code(err) != codes.Unavailable {
			t.Errorf("%v", err)
		}
	}
}
