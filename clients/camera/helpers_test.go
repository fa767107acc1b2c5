package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/camera/internal/gvsp"
	"github.com/polyscan/polyscan/clients/camera/internal/simulator"
	_ "github.com/polyscan/polyscan/internal/shorttest"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server"
)

// Tests here wait for cameras, servers and timers, so that more run at a time than there are processors.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	m.Run()
}

// inspector is a server that can be killed and started again at its address.
type inspector struct {
	t      *testing.T
	addr   string
	shared string
	s      *server.Server
	done   chan error
}

func startInspector(t *testing.T, shared bool) *inspector {
	t.Helper()
	i := &inspector{t: t, addr: "127.0.0.1:0"}
	if shared {
		i.shared = filepath.Join(t.TempDir(), "memory")
	}
	i.start()
	t.Cleanup(i.stop)
	return i
}

func (i *inspector) start() {
	i.t.Helper()
	cfg := server.Config{Device: "cpu", Threads: 1, MemoryBytes: 256 << 20}
	if i.shared != "" {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: i.shared, Net: "unix"})
		if err != nil {
			i.t.Fatal(err)
		}
		cfg.SharedMemoryListener, cfg.SharedMemoryBytes = l, 256<<20
	}
	s, err := server.New(cfg)
	if err != nil {
		i.t.Fatal(err)
	}
	l, err := net.Listen("tcp", i.addr)
	if err != nil {
		i.t.Fatal(err)
	}
	i.addr = l.Addr().String()
	i.s, i.done = s, make(chan error, 1)
	go func() { i.done <- s.Serve(l) }()
}

// stop ends it at once, as a crash would.
func (i *inspector) stop() {
	if i.s == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = i.s.Shutdown(ctx) // says that calls were cut off
	<-i.done
	i.s = nil
}

// watchVerdicts are those that a watcher of the server sees, from now on.
func watchVerdicts(t *testing.T, addr string) <-chan *polyscanv1.WatchVerdict {
	t.Helper()
	client, err := clients.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	out, started, ended := make(chan *polyscanv1.WatchVerdict, 1000), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer close(out)
		for u, err := range client.Watch(ctx, &polyscanv1.WatchRequest{}, clients.WatchOptions{}) {
			switch {
			case err != nil || u.Lost != nil:
				return
			case u.Message.GetStarted() != nil:
				close(started)
			case u.Message.GetVerdict() != nil:
				out <- u.Message.GetVerdict()
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		client.Close()
	})
	<-started
	return out
}

// regionsFile is a region in the middle, in which spots that drawn makes are too bright.
func regionsFile(t *testing.T, width, height int) string {
	t.Helper()
	x, y, u, v := width*2/5, height*2/5, width*3/5, height*3/5
	name := filepath.Join(t.TempDir(), "regions.json")
	text := fmt.Sprintf(`[{"name": "middle", "rings": [[[%d, %d], [%d, %d], [%d, %d], [%d, %d]]], "limits": ["mean in [90, 140]"]},
		{"name": "all", "rings": [[[0, 0], [%d, 0], [%d, %d], [0,
			%d]]]}]`, x, y, u, y, u, v, x, v, width, width, height, height)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func simulate(t *testing.T, change func(*simulator.Config)) *simulator.Camera {
	t.Helper()
	cfg := simulator.Config{
		Addr: netip.MustParseAddrPort("127.0.0.1:0"), Serial: "T1", Width: 160, Height: 120, Format: gvsp.Mono8,
		Rate: 200,
	}
	change(&cfg)
	if cfg.Draw == nil {
		cfg.Draw = drawn{cfg.Width, cfg.Height, 5, cfg.Format}.draw
	}
	c, err := simulator.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// screen is what a command writes; tests wait for what is in it.
type screen struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func newScreen() *screen { return &screen{changed: make(chan struct{}, 1)} }

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return s.text.Write(b)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// await waits until what was written is as it should be.
func (s *screen) await(t *testing.T, what string, ok func(text string) bool) {
	t.Helper()
	timeout := time.After(time.Minute)
	for !ok(s.String()) {
		select {
		case <-s.changed:
		case <-timeout:
			t.Fatalf("%s: not seen in\n%s", what, s.String())
		}
	}
}

// running is a command that was started.
type running struct {
	out, err *screen
	cancel   context.CancelFunc
	code     chan int
}

func start(t *testing.T, args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{newScreen(), newScreen(), cancel, make(chan int, 1)}
	go func() { r.code <- run(ctx, args, strings.NewReader(""), r.out, r.err) }()
	t.Cleanup(func() {
		cancel()
		r.code <- <-r.code // it has ended
	})
	return r
}

// wait returns the exit code.
func (r *running) wait() int {
	code := <-r.code
	r.code <- code
	return code
}

// rows are the parts that --json printed.
func (r *running) rows(t *testing.T) (rows []row) {
	t.Helper()
	for line := range strings.Lines(r.out.String()) {
		if !strings.HasSuffix(line, "\n") {
			break
		}
		var x row
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		rows = append(rows, x)
	}
	return rows
}

func get(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func lines(text string) int { return strings.Count(text, "\n") }

// checkRows holds parts of the drawn picture to what each of them has to be: all numbers in order, each with the
// verdict
// of its block where it is whole.
func checkRows(t *testing.T, rows []row) (incomplete, missing int) {
	t.Helper()
	for i, r := range rows {
		if r.Number != uint64(i) {
			t.Fatalf("row %d is part %d: %+v", i, r.Number, r)
		}
		switch r.Verdict {
		case "PASS", "FAIL":
			if r.LatencyMS <= 0 || r.LatencyMS > 1e6 { // of a clock that was set
				t.Fatalf("%+v", r)
			}
			want := "PASS"
			if (r.Block-1)%5 == 4 {
				want = "FAIL"
			}
			if r.Verdict != want || r.MissingLines != 0 || (r.Why == "") != (want == "PASS") {
				t.Fatalf("%+v, want %s", r, want)
			}
		case verdictIncomplete:
			incomplete++
			if r.MissingLines == 0 || r.Why == "" {
				t.Fatalf("%+v", r)
			}
		case verdictMissing:
			missing++
			if r.Why == "" {
				t.Fatalf("%+v", r)
			}
		default:
			t.Fatalf("%+v", r)
		}
	}
	return incomplete, missing
}
