package attack

// The daemon as a process, seen through the operating system.

import (
	"bufio"
	"bytes"
	"cmp"
	"debug/buildinfo"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Every server has little memory, so that attacks can be small in the same ratio and this machine survives.
const (
	deviceMemory = 128 << 20
	hostMemory   = 128 << 20
	maxMessage   = 32 << 20

	memoryBound = deviceMemory + hostMemory + 300e6 // of the resident set, beside what a driver takes
	memoryGuard = 3 * memoryBound                   // a server beyond it is killed
	racedGuard  = 15 * memoryBound                  // likewise, of one that was built with -race
)

// idleServer is the resident set of a server on the CPU to which nobody has sent anything.
const idleServer = 50e6

// backend is what servers compute on.
func backend() string { return cmp.Or(os.Getenv("ATTACK_DEVICE"), "cpu") }

// process is a running polyscand.
type process struct {
	t       testing.TB
	cmd     *exec.Cmd
	addr    string // of gRPC
	web     string // of HTTP, host:port
	log     buffer
	peak    atomic.Int64 // of the resident set, bytes
	killed  atomic.Bool  // by the guard on memory
	raced   bool         // it was built with -race, whose shadow of the memory has no bound here
	bound   int64        // of the resident set
	stopped chan struct{}
}

// buffer is a log that is written and read at the same time.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

var built struct {
	sync.Once
	dir string
	err error
}

// daemon builds polyscand, once, or takes the one that POLYSCAND names: so the suite can be one file that runs on a
// machine with a GPU and without Go, beside a daemon of that backend. ATTACK_DEVICE is where that computes.
func daemon() (string, error) {
	if name := os.Getenv("POLYSCAND"); name != "" {
		return name, nil
	}
	built.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "polyscan-attack"); built.err != nil {
			return
		}
		out, err := exec.Command("go", "build", "-o", built.dir, "../cmd/polyscand").CombinedOutput()
		if err != nil {
			built.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	return filepath.Join(built.dir, "polyscand"), built.err
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// start runs a server with little memory until the test ends.
func start(t testing.TB, args ...string) *process {
	t.Helper()
	return startIn(t, nil, args...)
}

// startIn is start with more of an environment.
func startIn(t testing.TB, env []string, args ...string) *process {
	t.Helper()
	name, err := daemon()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, stopped: make(chan struct{})}
	built, err := buildinfo.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	p.raced = slices.Contains(built.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
	p.cmd = exec.Command(name, append([]string{"--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
		"--device", backend(),
		"--memory", fmt.Sprint(deviceMemory), "--host-memory", fmt.Sprint(hostMemory),
		"--max-message", fmt.Sprint(maxMessage)}, args...)...)
	p.cmd.Stderr = &p.log
	p.cmd.Env = append(os.Environ(), env...)
	// The server dies with the test, whatever becomes of that.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		p.cmd.Wait()
		<-p.stopped
		if t.Failed() {
			lines := strings.Split(p.log.String(), "\n")
			t.Logf("the end of the server's log:\n%s", strings.Join(lines[max(0, len(lines)-4):], "\n"))
		}
	})
	ready := false
	for lines := bufio.NewScanner(out); !ready && lines.Scan(); {
		line := lines.Text()
		if _, at, ok := strings.Cut(line, "listening on "); ok {
			p.addr = at
		}
		if _, at, ok := strings.Cut(line, "metrics on http://"); ok {
			p.web, _, _ = strings.Cut(at, "/")
		}
		ready = strings.Contains(line, ": ready")
	}
	p.bound = memoryBound
	if onHost := int64(idleServer); backend() != "cpu" {
		p.bound += max(p.resident()-onHost, 0) // the driver's own, before anybody has sent anything
	}
	go p.guard(out)
	if !ready {
		t.Fatalf("the server did not start: %s", p.log.String())
	}
	return p
}

// guard watches the resident set until the server ends, and kills it where it endangers the machine.
func (p *process) guard(out io.Reader) {
	defer close(p.stopped)
	for {
		n := p.resident()
		if n == 0 {
			io.Copy(io.Discard, out)
			return
		}
		p.peak.Store(max(p.peak.Load(), n))
		if n > memoryGuard && !p.raced || n > racedGuard {
			p.killed.Store(true)
			p.cmd.Process.Kill()
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// resident is the resident set in bytes; 0 once the process has ended.
func (p *process) resident() int64 {
	return p.residents()["VmRSS"]
}

// residents is the resident set and its parts as the system names them, in bytes: RssAnon (the heap, stacks, the memory
// of a device that is the host's), RssFile (of the program) and RssShmem (what clients have leased).
func (p *process) residents() map[string]int64 {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	parts := map[string]int64{}
	for line := range strings.Lines(string(data)) {
		if name, rest, ok := strings.Cut(line, ":"); ok && (name == "VmRSS" || strings.HasPrefix(name, "Rss")) {
			kb, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			parts[name] = kb << 10
		}
	}
	return parts
}

// cpu is the time that all threads of the process have run.
func (p *process) cpu() time.Duration {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	_, rest, ok := strings.Cut(string(data), ") ")
	if !ok {
		return 0
	}
	const user, system = 11, 12 // fields behind the name; in ticks of 10 ms
	f := strings.Fields(rest)
	u, _ := strconv.ParseInt(f[user], 10, 64)
	s, _ := strconv.ParseInt(f[system], 10, 64)
	return time.Duration(u+s) * 10 * time.Millisecond
}

// machine is the time that the processors have given that this program may use, in all, and what of it went to this
// program, its attackers and p.
type machine struct{ all, ours time.Duration }

// sinceBoot reads it. Time that the machine's own host took away counts as given to others.
func (p *process) sinceBoot(t testing.TB) (m machine) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	var mine unix.CPUSet
	if err := unix.SchedGetaffinity(0, &mine); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line) // cpu3 user nice system idle iowait irq softirq steal ...
		of, err := strconv.Atoi(strings.TrimPrefix(f[0], "cpu"))
		if err != nil || !mine.IsSet(of) {
			continue
		}
		for i := 1; i < min(len(f), 9); i++ {
			if i == 4 || i == 5 {
				continue
			}
			n, err := strconv.ParseInt(f[i], 10, 64)
			if err != nil {
				t.Fatalf("/proc/stat: %v", err)
			}
			m.all += time.Duration(n) * 10 * time.Millisecond
		}
	}
	m.ours = p.cpu()
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} { // attackers that have ended
		var own syscall.Rusage
		if err := syscall.Getrusage(who, &own); err != nil {
			t.Fatal(err)
		}
		m.ours += time.Duration(own.Utime.Nano() + own.Stime.Nano())
	}
	return m
}

// others is the share of all processors that others had since before, in a time of d.
func (m machine) others(before machine, d time.Duration) float64 {
	return float64(m.all-before.all-(m.ours-before.ours)) / (float64(d) * float64(runtime.NumCPU()))
}

// client is a well-behaved connection.
func (p *process) client(t testing.TB) *grpc.ClientConn {
	t.Helper()
	cc, err := grpc.NewClient(p.addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return cc
}

// account is what the metrics say at one time of the resident set, in bytes: how large it is, and what they explain of
// it at least and at most. The latter differ by what was allocated since the last collection, of which nothing says
// whether it is garbage or counted already, and by buffers that nobody has written: the system has memory behind them
// where the runtime had other things there before.
type account struct{ resident, least, most float64 }

// notHere says that a series is of host memory that is taken and not there yet, or not for sure.
func notHere(series string) bool {
	return strings.Contains(series, "expected") || strings.Contains(series, "reserved") ||
		strings.Contains(series, "unwritten")
}

// accountOf adds up the ledger of host memory, what is leased of it, the device's memory where that is the host's, and
// what the runtime holds of the heap that is not in use.
func accountOf(m map[string]float64) account {
	sum, unwritten := m[`polyscan_device_memory_bytes{kind="host"}`], m[`polyscan_host_memory_bytes{kind="unwritten"}`]
	for series, v := range m {
		if strings.HasPrefix(series, "polyscan_host_memory_bytes{") && !notHere(series) ||
			series == `polyscan_shared_memory_bytes{kind="leased"}` {
			sum += v
		}
	}
	held := m["go_memstats_heap_inuse_bytes"] + m["go_memstats_heap_idle_bytes"] - m["go_memstats_heap_released_bytes"]
	live := m["polyscan_heap_live_bytes"]
	since := max(m["go_memstats_heap_alloc_bytes"]-live, 0)
	return account{m["process_resident_memory_bytes"], sum + max(held-live-since, 0),
		sum + unwritten + max(held-live, 0)}
}

// off is the part of the resident set that lacks in what the metrics explain, beside what was there before; negative
// where they tell of more than there is.
func (a account) off(before account) float64 {
	rest := a.resident - (before.resident - before.most)
	switch {
	case rest > a.most:
		return (rest - a.most) / a.resident
	case rest < a.least:
		return (rest - a.least) / a.resident
	}
	return 0
}

// samples are all series of the metrics, as the page writes them; nil where the server doesn't answer.
func (p *process) samples() map[string]float64 {
	res, err := (&http.Client{Timeout: 5 * time.Second}).Get("http://" + p.web + "/metrics")
	if err != nil {
		return nil
	}
	defer res.Body.Close()
	m := map[string]float64{}
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		at := strings.LastIndexByte(lines.Text(), ' ')
		if v, err := strconv.ParseFloat(lines.Text()[at+1:], 64); err == nil && at > 0 {
			m[lines.Text()[:at]] = v
		}
	}
	return m
}

// metric is the sum of a metric over its labels; -1 where the server doesn't answer.
func (p *process) metric(t testing.TB, name string) float64 {
	t.Helper()
	res, err := (&http.Client{Timeout: 5 * time.Second}).Get("http://" + p.web + "/metrics")
	if err != nil {
		return -1
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return -1
	}
	sum, found := 0.0, false
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		rest, ok := strings.CutPrefix(lines.Text(), name)
		if !ok || rest == "" || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		v, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			t.Fatalf("metric %s: %v", name, err)
		}
		sum, found = sum+v, true
	}
	if !found {
		t.Fatalf("the server has no metric %s", name)
	}
	return sum
}
