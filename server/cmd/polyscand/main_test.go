package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// asDaemon makes the test's own binary run the command instead of tests.
const asDaemon = "POLYSCAND_TEST_RUN_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asDaemon) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// output is written by the command and read by the test.
type output struct {
	mu sync.Mutex
	b  strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// process is a running command.
type process struct {
	stdout, stderr output
	signals        chan os.Signal
	exit           chan int
}

// patience is how long tests wait for what must come: long, for machines with other work.
const patience = time.Minute

func startDaemon(t *testing.T, args ...string) *process {
	t.Helper()
	d := &process{signals: make(chan os.Signal, 4), exit: make(chan int, 1)}
	go func() { d.exit <- run(append([]string{"--memory", "64MiB"}, args...), &d.stdout, &d.stderr, d.signals) }()
	for deadline := time.Now().Add(patience); !strings.Contains(d.stdout.String()+d.stderr.String(), "ready; "); {
		select {
		case code := <-d.exit:
			t.Fatalf("exit code %d before it was ready: %s", code, d.stderr.String())
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("not ready: %s", d.stdout.String())
		}
	}
	return d
}

func (d *process) wait(t *testing.T) int {
	t.Helper()
	select {
	case code := <-d.exit:
		return code
	case <-time.After(patience):
		t.Fatal("it does not end")
		return -1
	}
}

// find returns what the pattern's group matches in what was printed.
func (d *process) find(t *testing.T, pattern string) string {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(d.stdout.String())
	if m == nil {
		t.Fatalf("%q is not in %q", pattern, d.stdout.String())
	}
	return m[1]
}

func dial(t *testing.T, target string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	res, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

func TestServesAndStops(t *testing.T) {
	sock := filepath.Join(t.TempDir(), "s")
	// A socket that a server left behind.
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: sock, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()

	d := startDaemon(t, "--listen", "127.0.0.1:0", "--listen", "unix:"+sock, "--http", "127.0.0.1:0")
	for _, target := range []string{d.find(t, `listening on (127\S+)`), "unix:" + sock} {
		conn := dial(t, target)
		res, err := pb.NewDeviceServiceClient(conn).GetDevice(t.Context(), &pb.GetDeviceRequest{})
		if err != nil || res.Backend != "cpu" || res.Memory.ReservedBytes != 64<<20 {
			t.Errorf("%s: %v, %v", target, res, err)
		}
		h, err := healthpb.NewHealthClient(conn).Check(t.Context(),
			&healthpb.HealthCheckRequest{Service: "polyscan.v1.InspectionService"})
		if err != nil || h.Status != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("%s: health %v, %v", target, h, err)
		}
	}
	web := strings.TrimSuffix(d.find(t, `metrics on (\S+)`), "/metrics")
	for path, want := range map[string]string{"/metrics": "polyscan_build_info", "/healthz": "ok", "/readyz": "ready",
		"/": "polyscan"} {
		if code, body := get(t, web+path); code != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %q", path, code, body)
		}
	}
	if code, _ := get(t, web+"/nothing"); code != 404 {
		t.Errorf("/nothing: %d", code)
	}
	d.signals <- syscall.SIGHUP // reads nothing again here, and must not stop it
	d.signals <- syscall.SIGTERM
	if code := d.wait(t); code != exitOK {
		t.Errorf("exit code %d: %s", code, d.stderr.String())
	}
	if !strings.Contains(d.stderr.String(), "shutting down") {
		t.Errorf("log %q", d.stderr.String())
	}
	if _, err := os.Stat(sock); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

// hang starts a call whose request never comes.
func hang(t *testing.T, d *process) {
	t.Helper()
	conn := dial(t, d.find(t, `listening on (\S+)`))
	_, err := conn.NewStream(context.Background(), &grpc.StreamDesc{ClientStreams: true},
		pb.InspectionService_Reduce_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	// A connection starts calls in order: once this one is answered the other has begun.
	if _, err := pb.NewDeviceServiceClient(conn).GetDevice(t.Context(), &pb.GetDeviceRequest{}); err != nil {
		t.Fatal(err)
	}
}

func TestSecondSignalForces(t *testing.T) {
	d := startDaemon(t, "--listen", "127.0.0.1:0", "--shutdown-timeout", "1h")
	hang(t, d)
	d.signals <- syscall.SIGTERM
	select {
	case code := <-d.exit:
		t.Fatalf("exit code %d while a call is in flight", code)
	case <-time.After(100 * time.Millisecond):
	}
	d.signals <- syscall.SIGINT
	if code := d.wait(t); code != exitFailed || !strings.Contains(d.stderr.String(), "cancelled") {
		t.Errorf("exit code %d: %s", code, d.stderr.String())
	}
}

func TestShutdownTimeout(t *testing.T) {
	d := startDaemon(t, "--listen", "127.0.0.1:0", "--shutdown-timeout", "50ms")
	hang(t, d)
	d.signals <- syscall.SIGTERM
	if code := d.wait(t); code != exitFailed || !strings.Contains(d.stderr.String(), "longer than 50ms") {
		t.Errorf("exit code %d: %s", code, d.stderr.String())
	}
}

func TestRefuses(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	shut := filepath.Join(dir, "shut")
	if err := os.Mkdir(shut, 0o500); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // who may write there all the same
		shut = "/proc/none"
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--nonsense", exitUsage, "nonsense"},
		{"argument", exitUsage, "argument"},
		{"--shutdown-timeout -5s", exitUsage, `--shutdown-timeout: "-5s" looks like a flag: write --shutdown-timeout=-5s`},
		{"--history-age x", exitUsage, `--history-age: "x" is no time: want one such as 30s or 1m30s`},
		{"--frame-idle 48h --listen 127.0.0.1:0", exitUsage, "--frame-idle = 48h0m0s: must be 0s to 24h0m0s, max-frame-idle"},
		{"--memory lots", exitUsage, `"lots" is not a size`},
		{"--log-level loud", exitUsage, "loud"},
		{"--threads many", exitUsage, "threads"},
		{"--device gpu", exitUsage, `"gpu"`},
		{"--listen 127.0.0.1:0 --device cuda", exitUsage, "cuda"}, // in no build that tests run in, or no GPU
		{"--listen 127.0.0.1:0 --device cpu --ordinal 7", exitUsage, "--ordinal has no effect with --device cpu"},
		{"--threads=-1", exitUsage, "--threads = -1: must be"},
		{"--memory 5", exitUsage, "--memory = 5: must be at least 1MiB"},
		{"--device cpu --memory 100TiB", exitUsage, "memory = 100TiB: more than this machine gives"},
		{"--max-pixels 999999999999", exitUsage, "--max-pixels = 999999999999: must be"},
		{"--listen nowhere", exitUsage, `"nowhere" is not an address`},
		{"--listen unix:", exitUsage, "the path is missing"},
		{"--listen unix:" + file, exitUsage, "is not a socket"},
		{"--listen " + busy.Addr().String(), exitFailed, "in use"},
		{"--listen unix:" + dir + "/none/s", exitUsage, "no such file or directory"},
		{"--listen unix:" + dir + strings.Repeat("x", 200), exitUsage, "invalid argument"},
		{"--listen unix:" + file + "/s", exitUsage, "not a directory"},
		{"--listen 203.0.113.1:0", exitFailed, "cannot assign"}, // which the machine may get yet
		{"--listen 127.0.0.1:0 --shm-socket " + dir + "/none/s", exitUsage, "--shm-socket"},
		{"--listen unix:" + shut + "/s", exitUsage, "--listen"},
		{"--listen 127.0.0.1:0 --recipes " + shut + "/r", exitUsage, "recipes"},
		{"--listen 127.0.0.1:0 --http " + busy.Addr().String(), exitFailed, "--http"},
		{"--listen 127.0.0.1:0 --token-file " + dir + "/none", exitUsage, "token file: " + dir +
			"/none: no such file or directory"},
		{"--config " + dir + "/none", exitUsage, "--config: " + dir + "/none: no such file or directory"},
		{"--listen 127.0.0.1:0 --tls-cert " + file, exitUsage, "--tls-cert has no effect without --tls-key"},
		{"--listen 127.0.0.1:0 --tls-cert " + file + " --tls-key " + file, exitUsage, "TLS"},
		{"--listen 127.0.0.1:0 --tls-cert " + dir + "/none --tls-key " + file, exitUsage, "TLS: " + dir +
			"/none: no such file"},
		{"--listen 127.0.0.1:0 --recipes " + file, exitUsage, "recipes"},
	} {
		var stdout, stderr output
		code := run(strings.Fields(c.args), &stdout, &stderr, nil)
		if code != c.code || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%s: exit code %d, want %d; %q lacks %q", c.args, code, c.code, stderr.String(), c.want)
		}
		for _, internal := range []string{"server:", "kernels:", "drivers:", "Config.", "short flag", "EOL", ": open /", ": mkdir /", "bind:"} {
			if strings.Contains(stderr.String(), internal) {
				t.Errorf("%s: %q in %s", c.args, internal, stderr.String())
			}
		}
		if lines := strings.Count(stderr.String(), "\n"); lines > 2 {
			t.Errorf("%s: %d lines: %s", c.args, lines, stderr.String())
		}
		if stdout.String() != "" {
			t.Errorf("%s: printed %q", c.args, stdout.String())
		}
		// Form of logs goes for errors as well, however it is asked for.
		config := filepath.Join(dir, "config.yaml")
		if err := os.WriteFile(config, []byte("log-format: json\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range []string{c.args + " --log-format json", "--log-format=json " + c.args,
			"--config " + config + " " + c.args} {
			var stdout, stderr output
			code := run(strings.Fields(args), &stdout, &stderr, nil)
			var line struct{ Level, Msg string }
			if err := json.Unmarshal([]byte(stderr.String()), &line); err != nil || code != c.code ||
				line.Level != "ERROR" || !strings.Contains(line.Msg, c.want) || stdout.String() != "" {
				t.Errorf("%s: exit code %d, %q, %q, want one line of JSON: %v", args, code, stdout.String(),
					stderr.String(), err)
			}
		}
	}
}

// One that is alive is not taken over.
func TestSocketInUse(t *testing.T) {
	sock := filepath.Join(t.TempDir(), "s")
	d := startDaemon(t, "--listen", "unix:"+sock)
	var stdout, stderr output
	if code := run([]string{"--listen", "unix:" + sock}, &stdout, &stderr, nil); code != exitFailed ||
		!strings.Contains(stderr.String(), "another server") {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
	d.signals <- syscall.SIGINT
	if code := d.wait(t); code != exitOK {
		t.Errorf("exit code %d: %s", code, d.stderr.String())
	}
}

func TestHelpAndVersion(t *testing.T) {
	for args, want := range map[string]string{"--help": "Examples", "--version": "devices: "} {
		var stdout, stderr output
		if code := run([]string{args}, &stdout, &stderr, nil); code != exitOK ||
			!strings.Contains(stdout.String(), want) || stderr.String() != "" {
			t.Errorf("%s: exit code %d, %q, %q", args, code, stdout.String(), stderr.String())
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("POLYSCAN_LISTEN", "127.0.0.1:0")
	t.Setenv("POLYSCAN_MAX_MESSAGE", "1MB")
	d := startDaemon(t)
	res, err := pb.NewDeviceServiceClient(dial(t, d.find(t, `listening on (127\S+)`))).GetDevice(t.Context(),
		&pb.GetDeviceRequest{})
	if err != nil || res.Limits.MaxMessageBytes != 1_000_000 {
		t.Errorf("%v, %v", res, err)
	}
	d.signals <- syscall.SIGTERM
	d.wait(t)
}

// What can't be printed is an error of whoever asked for it.
func TestFullOutput(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("no /dev/full")
	} else if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, args := range []string{"--version", "-v", "--help", "--print-config"} {
		var stderr output
		if code := run([]string{args}, full, &stderr, nil); code != exitUsage ||
			stderr.String() != "polyscand: standard output: no space left on device\n" {
			t.Errorf("%s: exit code %d, %q", args, code, stderr.String())
		}
	}
}

// With --log-format json each line of output is a JSON object, from the first to the last.
func TestJSONAlone(t *testing.T) {
	d := startDaemon(t, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log-format", "json")
	d.signals <- syscall.SIGTERM
	if code := d.wait(t); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	var all string
	for line := range strings.Lines(d.stdout.String() + d.stderr.String()) {
		var log struct{ Msg string }
		if err := json.Unmarshal([]byte(line), &log); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		all += log.Msg + "\n"
	}
	for _, want := range []string{"listening on 127.0.0.1:", "metrics on http://", "ready; cpu", "shutting down"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not said in\n%s", want, all)
		}
	}
}

// What is allowed and seldom meant is said when the server starts.
func TestWarnings(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, mode os.FileMode) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte("secret\n"), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		return name
	}
	open, closed := write("open", 0o644), write("closed", 0o640)
	const anyone, clear, readable = "anyone who reaches this address", "in the clear", "is open to all users"
	for args, want := range map[string][]string{
		"--listen 127.0.0.1:0":                                            nil,
		"--listen unix:" + filepath.Join(dir, "s"):                        nil,
		"--listen :0":                                                     {anyone},
		"--listen 0.0.0.0:0 --listen 127.0.0.1:0":                         {anyone},
		"--listen :0 --token-file " + closed:                              {clear},
		"--listen 127.0.0.1:0 --token-file " + open:                       {clear, readable},
		"--listen 127.0.0.1:0 --http :0 --log-level debug":                nil,
		"--listen 127.0.0.1:0 --http :0 --console":                        {anyone}, // which takes calls
		"--listen :0 --http :0 --console":                                 {anyone, anyone},
		"--listen 127.0.0.1:0 --http 127.0.0.1:0":                         nil,
		"--listen 127.0.0.1:0 --http :0 --console --token-file " + closed: {clear},
	} {
		d := startDaemon(t, strings.Fields(args)...)
		d.signals <- syscall.SIGTERM
		d.wait(t)
		for _, text := range []string{anyone, clear, readable} {
			if n := strings.Count(d.stderr.String(), text); n != strings.Count(strings.Join(want, "\n"), text) {
				t.Errorf("%s: %q is said %d times in\n%s", args, text, n, d.stderr.String())
			}
		}
	}
}
