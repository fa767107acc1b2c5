package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
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
type served struct {
	grpc, http string
	process    *exec.Cmd
	ended      chan struct{}
}

// serve starts a server with ports of its own, until the test ends. tokens is the token file, "" for none.
func serve(t *testing.T, tokens string, more ...string) *served {
	t.Helper()
	args := append([]string{"--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--console", "--recipes", t.TempDir(),
		"--threads", "2", "--log-format", "json"}, more...)
	if tokens != "" {
		file := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(file, []byte(tokens), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--token-file", file)
	}
	cmd := exec.Command(filepath.Join(programs, "polyscand"), args...)
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &served{process: cmd, ended: make(chan struct{})}
	ready := make(chan struct{})
	var log bytes.Buffer
	go func() {
		defer close(s.ended)
		dec := json.NewDecoder(io.TeeReader(out, &log))
		for told := false; ; {
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
			if s.grpc != "" && s.http != "" && !told {
				close(ready)
				told = true
			}
		}
	}()
	t.Cleanup(func() {
		s.stop()
		if t.Failed() {
			t.Logf("server:\n%s", log.String())
		}
	})
	select {
	case <-ready:
	case <-s.ended:
		t.Fatalf("the server ended:\n%s", log.String())
	case <-time.After(patience):
		t.Fatal("the server is not ready")
	}
	return s
}

// stop asks the server to end, and returns when it has; what it had to write is written.
func (s *served) stop() {
	s.process.Process.Signal(syscall.SIGTERM)
	<-s.ended
	s.process.Wait()
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

// tab is one of a browser, in front of a server.
type tab struct {
	t     *testing.T
	ctx   context.Context
	base  string
	grpc  string          // the address for calls
	asked func() []string // the addresses that the page asked
	// patience is how long something may take.
	patience time.Duration
}

// tab starts a browser that knows nothing yet.
func (s *served) tab(t *testing.T) *tab {
	t.Helper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("force-prefers-reduced-motion", true),
		chromedp.WindowSize(1600, 1000), chromedp.UserDataDir(t.TempDir()))
	if program := os.Getenv("POLYSCAN_CHROMIUM"); program != "" {
		options = append(options, chromedp.ExecPath(program))
	}
	allocated, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(allocated)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx, base: s.http, grpc: s.grpc, patience: patience}
	var mu sync.Mutex
	asked := map[string]bool{}
	b.asked = func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Collect(maps.Keys(asked))
	}
	// The first call must not have a deadline: the browser would end with it.
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			mu.Lock()
			asked[e.Request.URL] = true
			mu.Unlock()
		case *runtime.EventExceptionThrown:
			t.Errorf("the page throws: %s %v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.ConsoleAPICalledTypeError {
				t.Errorf("the page says: %s", e.Args[0].Value)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	b.run(command(network.Enable, network.EnableParams{}), command(runtime.Enable, cdp.Empty{}))
	return b
}

// open is a browser in front of a server of its own. tokens is the token file, "" for none.
func open(t *testing.T, tokens string) *tab {
	t.Helper()
	return serve(t, tokens).tab(t)
}

// step is what a browser does, without an answer.
type step = chromedp.Action[chromedp.Void]

// command is one of the protocol.
func command[P any](c cdp.Command[P, cdp.Empty], params P) step {
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, c, params)
		return chromedp.Void{}, err
	}
}

// run does something in the browser, within patience.
func (b *tab) run(steps ...step) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatal(b.said(err))
	}
}

// said is an error with what the page shows.
func (b *tab) said(err error) error {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	text, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`document.body ? document.body.innerText.slice(0, 2000) : ""`))
	b.shot("failed")
	return fmt.Errorf("%w; the page says: %s", err, text)
}

func (b *tab) goTo(path string) {
	b.t.Helper()
	b.run(chromedp.Navigate(b.base + path))
}

// eval is what an expression gives, once it is there.
func eval[T any](b *tab, js string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, b.patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatal(b.said(fmt.Errorf("%w: %s", err, js[:min(300, len(js))])))
	}
	return v
}

// do runs a script for what it does.
func (b *tab) do(js string) {
	b.t.Helper()
	eval[bool](b, "void ("+js+"), true")
}

// await waits until an expression is true. chromedp.Poll would need a policy that lets the page compile it.
func (b *tab) await(js string) {
	b.t.Helper()
	eval[bool](b, fmt.Sprintf(`new Promise(r => { const f = () => (%s) ? r(true) : setTimeout(f, 10); f(); })`, js))
}

// has waits for text of an element.
func (b *tab) has(selector, text string) {
	b.t.Helper()
	b.await(fmt.Sprintf(`[...document.querySelectorAll(%q)].some(e => e.textContent.includes(%q))`, selector, text))
}

func (b *tab) login(token string) {
	b.t.Helper()
	b.await(`document.activeElement?.id === "token" && !document.querySelector("form button").disabled`)
	b.do(`document.getElementById("token").value = ""`)
	b.run(chromedp.SendKeys("#token", token+kb.Enter))
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

// until does something again and again until it says that it is done.
func (b *tab) until(what string, f func() bool) {
	b.t.Helper()
	for end := time.Now().Add(patience); !f(); {
		if time.Now().After(end) {
			b.t.Fatal(b.said(fmt.Errorf("%s: not in %v", what, patience)))
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
	button := fmt.Sprintf(`[...document.querySelectorAll("button")].find(
		(b) => b.textContent === %q && !b.disabled && b.checkVisibility())`, name)
	b.await(button)
	b.do(button + `.scrollIntoView({block: "center"})`)
	id := eval[string](b, button+`.id ||= "pressed-"+Math.random().toString(36).slice(2)`)
	b.run(chromedp.Click(chromedp.CSS("#" + id)))
}

// fill replaces the text of an input, and leaves it.
func (b *tab) fill(selector, text string) {
	b.t.Helper()
	b.await(fmt.Sprintf(`document.querySelector(%q)`, selector))
	// In one go: the page may draw the field anew between two steps.
	b.do(fmt.Sprintf(`(field => { field.focus(); field.select(); })(document.querySelector(%q))`, selector))
	b.run(chromedp.KeyEvent(text), chromedp.KeyEvent(kb.Tab))
}

func (b *tab) files(selector string, names ...string) {
	b.t.Helper()
	b.run(chromedp.SetUploadFiles(chromedp.CSS(selector), names))
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

func (b *tab) modified(key string, m kb.Modifier) {
	b.t.Helper()
	b.run(chromedp.KeyEvent(key, chromedp.KeyModifiers(m)))
}

// tabTo presses Tab until an expression is true; backTo goes the other way.
func (b *tab) tabTo(js string)  { b.t.Helper(); b.step(js, 0) }
func (b *tab) backTo(js string) { b.t.Helper(); b.step(js, kb.ModifierShift) }

func (b *tab) step(js string, m kb.Modifier) {
	b.t.Helper()
	for range 120 {
		b.modified(kb.Tab, m)
		if eval[bool](b, js) {
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
	b.do(`window.scrollTo(0, 0)`) // the navigation stays at the top of the window
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o666); err != nil {
		b.t.Fatal(err)
	}
}

// look sets the window's width and the colour scheme.
func (b *tab) look(width int64, scheme string) {
	b.t.Helper()
	b.run(command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: 1080, DeviceScaleFactor: 1}), command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))
	eval[bool](b, `new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(true))))`)
}

// axeAll looks at the page in light and dark, on a screen and on a tablet.
func (b *tab) axeAll(what string) {
	b.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1920, 820} {
			b.look(width, scheme)
			name := fmt.Sprintf("%s-%s-%d", what, scheme, width)
			b.axe(name)
			b.shot(name)
		}
	}
}

// axe reports what is wrong for people who use a screen reader or a keyboard, or see little contrast.
func (b *tab) axe(what string) {
	b.t.Helper()
	script, err := os.ReadFile(filepath.Join(root, "server/console/node_modules/axe-core/axe.min.js"))
	if err != nil {
		b.t.Fatal(err) // server/console/build.sh installs it
	}
	eval[bool](b, string(script)+"; true")
	type violation struct {
		ID     string `json:"id"`
		Help   string `json:"help"`
		Target string `json:"target"`
	}
	for _, v := range eval[[]violation](b, `axe.run().then(r => r.violations.flatMap(v => v.nodes.map(n => ({id: v.id,
		help: v.help + ": " + (n.any[0]?.message ?? ""), target: n.target.join(" ") + " " + n.html.slice(0, 200)}))))`) {
		b.t.Errorf("%s: %s: %s at %s", what, v.ID, v.Help, v.Target)
	}
}
