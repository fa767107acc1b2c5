package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rivo/uniseg"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server"
)

// liveOutput is a writer that a test waits on.
type liveOutput struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *liveOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *liveOutput) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// await waits until the output has a text.
func (o *liveOutput) await(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !strings.Contains(o.String(), text); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %q in\n%s", text, o)
		}
	}
}

// watching runs polyscan watch beside the test; wait returns its exit code.
func watching(t *testing.T, args ...string) (out, stderr *liveOutput, wait func() int) {
	t.Helper()
	out, stderr = &liveOutput{}, &liveOutput{}
	ctx, cancel := context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() { code <- run(ctx, append([]string{"watch"}, args...), strings.NewReader(""), out, stderr) }()
	t.Cleanup(cancel)
	return out, stderr, func() int {
		t.Helper()
		select {
		case c := <-code:
			return c
		case <-time.After(30 * time.Second):
			t.Fatalf("watch goes on:\n%s%s", out, stderr)
			return 0
		}
	}
}

func TestWatch(t *testing.T) {
	addr := startServer(t, server.Config{})
	table, _, wait := watching(t, "--addr", addr, "--name", "camera-*", "--count", "13")
	pictures := filepath.Join(t.TempDir(), "pictures")
	lines, _, waitJSON := watching(t, "--addr", addr, "--json", "--numbers", "all", "--kind", "verdict",
		"--previews", pictures, "--preview-rate", "60", "--count", "14", "--heartbeat", "50ms")
	table.await(t, "TIME")
	lines.await(t, "heartbeat")
	succeed(t, "reduce", frames+"metal.png", "-r", frames+"metal.regions.json", "--addr", addr, "--name", "desk", "--part",
		"M 1")
	succeed(t, "stream", frames+"conveyor", "-r", frames+"conveyor/regions.json", "--addr", addr, "--name", "camera-3",
		"--part-ids", "--quiet")
	got := succeed(t, "reduce", frames+"conveyor/frame_007.png", "-r", frames+"conveyor/regions.json", "--addr", addr,
		"--name", "camera-4", "--part", "B-2041-17", "--json")
	if !strings.Contains(got, `"part":"B-2041-17"`) {
		t.Errorf("no part in the JSON: %.300s", got[max(0, len(got)-300):])
	}
	if code := wait(); code != exitOK {
		t.Errorf("exit %d", code)
	}
	if code := waitJSON(); code != exitOK {
		t.Errorf("exit %d", code)
	}
	if strings.Contains(table.String(), "desk") {
		t.Errorf("the filter lets others through:\n%s", table)
	}
	for line := range strings.Lines(table.String()) {
		if w := uniseg.StringWidth(strings.TrimSuffix(line, "\n")); w > 80 {
			t.Errorf("%d columns: %s", w, line)
		}
	}
	for _, want := range []string{`(?m)^TIME {6}NAME {10}PART {12}VERDICT {3}LATENCY  WHAT$`,
		`(?m)^\d\d:\d\d:\d\d  camera-3 {22}open {15}10 regions$`,
		`(?m)^\d\d:\d\d:\d\d  camera-3 {6}frame_007 {7}FAIL +\S+ .?s  bracket hole 3$`,
		`(?m)^\d\d:\d\d:\d\d  camera-4 {6}B-2041-17 {7}FAIL  `} {
		if !regexp.MustCompile(want).MatchString(table.String()) {
			t.Errorf("no %s in\n%s", want, table)
		}
	}
	verdicts, regions := 0, 0
	for line := range strings.Lines(lines.String()) {
		var m struct {
			Verdict *struct {
				PartID  string `json:"part_id"`
				Results []any
			}
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if m.Verdict != nil {
			verdicts++
			regions += len(m.Verdict.Results)
		}
	}
	if verdicts != 14 || regions < 50 {
		t.Errorf("%d verdicts with %d regions", verdicts, regions)
	}
	if files, err := os.ReadDir(pictures); err != nil || len(files) == 0 {
		t.Errorf("%v, %v", files, err)
	}
}

func TestWatchUsage(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"", "--addr: say which server to watch"},
		{"--addr x --count=-1", "--count -1: must not be negative"},
		{"--addr x --count 0", "--count 0: must be more than 0"},
		{"--addr x --preview-rate 2", "--preview-rate has no effect without --previews"},
		{"--addr x --previews p --preview-rate 99", "--preview-rate 99: must be above 0, and 60 at most"},
		{"--addr x --rate=-1", "--rate -1: must not be negative"},
		{"--addr x --heartbeat 0s", "--heartbeat 0s: must be more than 0"},
		{"--addr x --kind scan --count 1", "--count counts verdicts, and --kind leaves them out"},
		{"--addr x --kind part", "--kind"},
	} {
		_, stderr, code := polyscan(t, append([]string{"watch"}, strings.Fields(tt.args)...)...)
		if code != exitUsage || !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: exit %d, %s", tt.args, code, stderr)
		}
	}
	addr := startServer(t, server.Config{})
	_, stderr, code := polyscan(t, "watch", "--addr", addr, "--heartbeat", "1ms")
	if code != exitUsage || !strings.Contains(stderr, "heartbeat = 1ms: must be 10ms to 1m0s") {
		t.Errorf("exit %d, %s", code, stderr)
	}
	for _, name := range []string{"a*b", "*a", "-a", "a ", "a**"} { // which would be waited for without an end
		_, stderr, code := polyscan(t, "watch", "--addr", addr, "--name="+name, "--timeout", "10s")
		if code != exitUsage || !strings.Contains(stderr, `--name "`+name+`": must be at most 64 letters`) {
			t.Errorf("--name %q: exit %d, %s", name, code, stderr)
		}
	}
	_, stderr, code = polyscan(t, "watch", "--addr", closedPort(t))
	if code != exitServer {
		t.Errorf("no server: exit %d, %s", code, stderr)
	}
	for _, args := range []string{"--name -x", "--part \x01"} {
		flag, value, _ := strings.Cut(args, " ")
		_, stderr, code := polyscan(t, "reduce", frames+"metal.png", "-r", frames+"metal.regions.json", flag+"="+value)
		if code != exitUsage || !strings.Contains(stderr, flag) || !strings.Contains(stderr, "letters") {
			t.Errorf("%q: exit %d, %s", args, code, stderr)
		}
	}
}

// TestWatchTimeout: a server that answers is not one that can't be reached, however few verdicts come within --timeout.
func TestWatchTimeout(t *testing.T) {
	t.Parallel()
	addr := startServer(t, server.Config{})
	_, stderr, wait := watching(t, "--addr", addr, "--count", "3", "--timeout", "3s", "--name", "camera *")
	succeed(t, "reduce", frames+"metal.png", "-r", frames+"metal.regions.json", "--addr", addr, "--name", "camera 1")
	if code := wait(); code != exitReject ||
		!strings.HasSuffix(stderr.String(), " of 3 verdicts within 3s (--timeout)\n") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if stdout, stderr, code := polyscan(t, "watch", "--addr", addr, "--timeout", "1s"); code != exitOK || stderr != "" {
		t.Errorf("without --count: exit %d, %s%s", code, stdout, stderr)
	}
	if _, stderr, code := polyscan(t, "watch", "--addr", addr, "--timeout", "1ns", "--count", "3"); code != exitServer ||
		!strings.Contains(stderr, "no answer within 1ns (--timeout)") {
		t.Errorf("no answer: exit %d, %s", code, stderr)
	}
}

// Calls without a verdict are printed with what became of them; what the history lost is printed, and no more than
// that.
func TestWatchCallsAndHistory(t *testing.T) {
	addr := startServer(t, server.Config{})
	all, _, _ := watching(t, "--addr", addr, "--kind", "call")
	all.await(t, "TIME")
	succeed(t, "lowpoly", frames+"metal.png", "--points", "50", "-o", filepath.Join(t.TempDir(), "out.png"), "--addr",
		addr)
	all.await(t, "LowPolyService")
	if text := all.String(); !strings.Contains(text, "Convert") || !strings.Contains(text, " call ") ||
		strings.Contains(text, "HISTORY") {
		t.Errorf("%s", text)
	}
	for want, h := range map[string]*polyscanv1.HistoryState{
		"HISTORY can't be written: fu": {Failure: "full", LostParts: 1},
		"HISTORY is written; lost 2 p": {LostParts: 2, LostPictures: 1},
		"HISTORY is written again; lo": {},
	} {
		var out bytes.Buffer
		w := &watchPrinter{env: &env{stdout: &out}}
		if err := w.print(&polyscanv1.WatchResponse{Event: &polyscanv1.WatchResponse_History{History: h}}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestWatchOfNobody: a misspelt name or recipe would watch nothing without a word.
func TestWatchOfNobody(t *testing.T) {
	addr := startServer(t, server.Config{MemoryBytes: 64 << 20, RecipeDir: t.TempDir()})
	succeed(t, "recipe", "put", "board", "-r", frames+"board.regions.json", "--addr", addr)
	_, stderr, code := polyscan(t, "watch", "--name", "nobody", "--recipe", "bord", "--recipe", "board", "--timeout", "1s",
		"--addr", addr)
	if want := "polyscan: warning: --recipe bord: the server has no recipe of this name: did you mean \"board\"?\n" +
		"polyscan: warning: --name nobody: no stream of this name is open now; what comes is shown\n"; code != exitOK ||
		stderr != want {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
