package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// patience is how long something may take that must come; no test waits for it where all is well.
const patience = 40 * time.Second

// root is the repository's.
var root = filepath.Join("..", "..", "..")

func testdata(name string) string {
	p, err := filepath.Abs(filepath.Join(root, "testdata", name))
	if err != nil {
		panic(err)
	}
	return p
}

var programs string // where they are built

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "polyscan-browser-")
	if built := os.Getenv("POLYSCAN_PROGRAMS"); built != "" {
		programs = built
	} else if err == nil {
		programs = dir
		build := exec.Command("go", "build", "-o", dir+"/", "./clients/polyscan", "./server/cmd/polyscand")
		build.Dir = root
		build.Stdout, build.Stderr = os.Stdout, os.Stderr
		err = build.Run()
	}
	code := 1
	if err == nil {
		code = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// served is a server that runs.
type served struct{ grpc, http string }

// serve starts a server with ports of its own, until the test ends.
func serve(t *testing.T) *served {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command(filepath.Join(programs, "polyscand"), "--listen", "localhost:0", "--http", "localhost:0", "--console",
		"--recipes", dir, "--threads", "2", "--log-format", "json")
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &served{}
	ready := make(chan struct{})
	var log bytes.Buffer
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		dec := json.NewDecoder(io.TeeReader(out, &log))
		for {
			var line map[string]any
			if dec.Decode(&line) != nil {
				return
			}
			msg, _ := line["msg"].(string)
			if a, ok := strings.CutPrefix(msg, "listening on "); ok {
				s.grpc = a
			}
			if a, ok := strings.CutPrefix(msg, "console on "); ok {
				s.http = strings.TrimSuffix(a, "/")
			}
			if s.grpc != "" && s.http != "" && ready != nil {
				close(ready)
				ready = nil
			}
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		cmd.Wait()
		if t.Failed() {
			t.Logf("server:\n%s", log.String())
		}
	})
	wait := ready
	select {
	case <-wait:
	case <-ended:
		t.Fatalf("the server ended:\n%s", log.String())
	case <-time.After(patience):
		t.Fatal("the server is not ready")
	}
	return s
}

func (s *served) polyscan(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(filepath.Join(programs, "polyscan"), args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("polyscan %v: %v: %s", args, err, stderr.String())
	}
	return out
}

// tab is one of a browser.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string
}

func (s *served) tab(t *testing.T) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.NoSandbox, chromedp.WindowSize(1600, 1000), chromedp.Flag("force-prefers-reduced-motion", true),
		chromedp.Flag("disable-dev-shm-usage", true))
	alloc, cancelAlloc := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancelAlloc)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(cancel)
	b := &tab{t, ctx, s.http}
	chromedp.ListenTarget(ctx, func(ev any) {
		switch ev := ev.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("the page threw: %s", ev.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			if ev.Type == runtime.APITypeError {
				t.Errorf("the page said: %s", ev.Args[0].Value)
			}
		}
	})
	return b
}

func (b *tab) run(actions ...chromedp.Action) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *tab) open(path string) {
	b.t.Helper()
	// The first call must not have a deadline: the browser would end with it.
	if err := chromedp.Run(b.ctx, chromedp.Navigate(b.base+path)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *tab) eval(js string, to any) {
	b.t.Helper()
	if to == nil {
		var ignored any
		b.run(chromedp.Evaluate("void ("+js+")", &ignored, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p }))
		return
	}
	b.run(chromedp.Evaluate(js, to))
}

// await waits until an expression is true.
func (b *tab) await(js string) {
	b.t.Helper()
	var ok bool
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	err := chromedp.Run(ctx, chromedp.Poll("Boolean("+js+")", &ok, chromedp.WithPollingInterval(10*time.Millisecond),
		chromedp.WithPollingTimeout(patience-time.Second)))
	if err != nil {
		b.shot("failed")
		var message string
		b.eval(`document.querySelector(".message")?.textContent ?? ""`, &message)
		b.t.Fatalf("%s: %v; the page says %q", js, err, message)
	}
}

// awaitValue waits until f returns what is wanted, and returns the last that it did.
func (b *tab) awaitValue(f func() string, want string) (got string) {
	b.t.Helper()
	for end := time.Now().Add(patience / 4); ; {
		if got = f(); got == want || time.Now().After(end) {
			return got
		}
	}
}

func (b *tab) awaitChange(f func() string, from string) {
	b.t.Helper()
	for end := time.Now().Add(patience); f() == from; {
		if time.Now().After(end) {
			b.t.Fatalf("it is still %q", from)
		}
	}
}

// press clicks the button of a name, as a user who sees it.
func (b *tab) press(name string) {
	b.t.Helper()
	button := fmt.Sprintf(`[...document.querySelectorAll("button")]`+
		`.find((b) => b.textContent === %q && !b.disabled && b.checkVisibility())`, name)
	b.await(button)
	b.eval(button+`.scrollIntoView({block: "center"})`, nil)
	b.run(chromedp.Evaluate(button+".id ||= 'pressed-'+Math.random().toString(36).slice(2)", new(string)))
	var id string
	b.eval(button+".id", &id)
	b.run(chromedp.Click("#"+id, chromedp.ByQuery))
}

// fill replaces the text of an input, and leaves it.
func (b *tab) fill(selector, text string) {
	b.t.Helper()
	b.run(chromedp.Focus(selector, chromedp.ByQuery))
	b.eval(fmt.Sprintf(`document.querySelector(%q).select()`, selector), nil)
	b.run(chromedp.KeyEvent(text), chromedp.KeyEvent(kb.Tab))
}

func (b *tab) files(selector string, names ...string) {
	b.t.Helper()
	b.run(chromedp.SetUploadFiles(selector, names, chromedp.ByQuery))
}

func (b *tab) keys(keys ...string) {
	b.t.Helper()
	for _, k := range keys {
		b.run(chromedp.KeyEvent(k))
	}
}

func (b *tab) arrows(key string, n int) {
	b.t.Helper()
	for range n {
		b.keys(key)
	}
}

func (b *tab) modified(key string, m input.Modifier) {
	b.t.Helper()
	b.run(chromedp.KeyEvent(key, chromedp.KeyModifiers(m)))
}

// tabTo presses Tab until an expression is true; backTo goes the other way.
func (b *tab) tabTo(js string)  { b.t.Helper(); b.step(js, 0) }
func (b *tab) backTo(js string) { b.t.Helper(); b.step(js, input.ModifierShift) }

func (b *tab) step(js string, m input.Modifier) {
	b.t.Helper()
	for range 120 {
		b.modified(kb.Tab, m)
		var ok bool
		if b.eval(js, &ok); ok {
			return
		}
	}
	b.t.Fatalf("Tab never gets to %s", js)
}

// shot writes a picture of the page to the folder in POLYSCAN_SHOTS.
func (b *tab) shot(name string) {
	b.t.Helper()
	dir := os.Getenv("POLYSCAN_SHOTS")
	if dir == "" {
		return
	}
	var png []byte
	b.run(chromedp.FullScreenshot(&png, 100))
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o666); err != nil {
		b.t.Fatal(err)
	}
}

// axe reports what is wrong for people who use a screen reader or a keyboard, or see little contrast.
func (b *tab) axe(what string) {
	b.t.Helper()
	script, err := os.ReadFile(filepath.Join(root, "server/console/node_modules/axe-core/axe.min.js"))
	if err != nil {
		b.t.Fatal(err)
	}
	var found []struct{ ID, Help, Target string }
	b.run(chromedp.Evaluate(string(script), new(any)), chromedp.Evaluate(`axe.run().then((r) => r.violations.flatMap((v) =>
		v.nodes.map((n) => ({ID: v.id, Help: v.help + ": " + (n.any[0]?.message ?? ""), Target: n.target.join(" ")}))))`, &found,
		func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	for _, v := range found {
		b.t.Errorf("%s: %s: %s at %s", what, v.ID, v.Help, v.Target)
	}
}
