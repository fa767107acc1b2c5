package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server"
)

// These tests drive a real browser: POLYSCAN_CHROMIUM names its program, and without it they skip. CI's stage console
// installs it. What they measure they log, and hold to the promises of docs/console.md.

// patience is how long they wait for what must come.
const patience = 30 * time.Second

// page is a browser's tab in front of a server.
type page struct {
	context.Context
	base  string
	conn  *grpc.ClientConn
	hosts func() []string // that the browser asked
}

// open starts a server and a browser. tokens is the token file, "" for none.
func open(t *testing.T, tokens string, flags ...chromedp.ExecAllocatorOption) *page {
	t.Helper()
	program := os.Getenv("POLYSCAN_CHROMIUM")
	if program == "" {
		t.Skip("POLYSCAN_CHROMIUM is not set")
	}
	cfg := server.Config{Console: true, MemoryBytes: 256 << 20, Device: "cpu"}
	if tokens != "" {
		cfg.TokenFile = filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(cfg.TokenFile, []byte(tokens), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	calls, web := listen(), listen()
	h := s.HTTPServer()
	var serving sync.WaitGroup
	serving.Go(func() { s.Serve(calls) })
	serving.Go(func() { h.Serve(server.HTTPListener(web, h)) })
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		h.Close()
		serving.Wait()
	})
	conn, err := grpc.NewClient(calls.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })

	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(program), chromedp.NoSandbox,
		chromedp.DisableGPU, chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.WindowSize(1920, 1080), chromedp.UserDataDir(t.TempDir()))
	allocated, stop := chromedp.NewExecAllocator(t.Context(), append(options, flags...)...)
	t.Cleanup(stop)
	tab, closeTab := chromedp.NewContext(allocated)
	t.Cleanup(closeTab)
	p := &page{Context: tab, base: "http://" + web.Addr().String(), conn: conn}
	var mu sync.Mutex
	asked := map[string]bool{}
	p.hosts = func() (all []string) {
		mu.Lock()
		defer mu.Unlock()
		for u := range asked {
			all = append(all, u)
		}
		return all
	}
	p.run(t) // starts the browser
	if err := chromedp.Listen(tab, func(event any) {
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			mu.Lock()
			asked[e.Request.URL] = true
			mu.Unlock()
		case *runtime.EventExceptionThrown:
			t.Errorf("the page throws: %s %v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
		}
	}); err != nil {
		t.Fatal(err)
	}
	p.run(t, command(network.Enable, network.EnableParams{}), command(runtime.Enable, cdp.Empty{}))
	return p
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
func (p *page) run(t *testing.T, steps ...step) {
	t.Helper()
	ctx, cancel := context.WithTimeout(p.Context, patience)
	defer cancel()
	if len(steps) == 0 {
		ctx = p.Context // the browser ends with the context that starts it
	}
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.fail(t, err)
	}
}

func (p *page) fail(t *testing.T, err error) {
	t.Helper()
	said, _ := chromedp.Run(p.Context, chromedp.Evaluate[string](`document.body ? document.body.innerText.slice(0, 2000) : ""`))
	t.Fatalf("%v; the page says: %s", err, said)
}

// eval is what an expression gives, once it is there.
func eval[T any](t *testing.T, p *page, expression string) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(p.Context, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.fail(t, fmt.Errorf("%w, waiting for %s", err, expression[:min(300, len(expression))]))
	}
	return v
}

// until waits for an expression to be true. chromedp.Poll would need a policy that lets it compile.
func (p *page) until(t *testing.T, expression string) {
	t.Helper()
	eval[bool](t, p, fmt.Sprintf(`new Promise(r => { const f = () => (%s) ? r(true) : setTimeout(f, 10); f(); })`, expression))
}

func (p *page) goTo(t *testing.T, path string) {
	t.Helper()
	p.run(t, chromedp.Navigate(p.base+path))
}

// has waits for text of an element.
func (p *page) has(t *testing.T, selector, text string) {
	t.Helper()
	p.until(t, fmt.Sprintf(`[...document.querySelectorAll(%q)].some(e => e.textContent.includes(%q))`, selector, text))
}

func (p *page) login(t *testing.T, token string) {
	t.Helper()
	p.until(t, `document.activeElement?.id === "token" && !document.querySelector("form button").disabled`)
	eval[bool](t, p, `document.getElementById("token").value = "", true`)
	p.run(t, chromedp.SendKeys("#token", token+kb.Enter))
}

// camera is a stream of frames of two values, with a region whose mean must be in [90, 140].
type camera struct {
	pb.InspectionService_StreamFramesClient
	n int
}

func (p *page) camera(t *testing.T, name, token string) *camera {
	t.Helper()
	ctx := t.Context()
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	s, err := pb.NewInspectionServiceClient(p.conn).StreamFrames(ctx)
	if err != nil {
		t.Fatal(err)
	}
	rect := func(name string, x float64) *pb.Region {
		return &pb.Region{Name: name, Rings: []*pb.Ring{{Xy: []float64{x, 8, x + 24, 8, x + 24, 40, x, 40}}},
			Limits: []string{"mean in [90, 140]"}}
	}
	if err := s.Send(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Open{Open: &pb.Inspection{Name: name,
		Regions: &pb.Inspection_RegionSet{RegionSet: &pb.RegionSet{Regions: []*pb.Region{rect("left pad", 4), rect("right pad", 36)}}},
	}}}); err != nil {
		t.Fatal(err)
	}
	return &camera{s, 0}
}

// frame sends a part, and returns when its verdict came.
func (c *camera) frame(t *testing.T, part string, value byte) time.Time {
	t.Helper()
	const w, h = 64, 48
	data := make([]byte, w*h)
	for i := range data {
		data[i] = value + byte(i%7)
	}
	if err := c.Send(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Frame{Frame: &pb.Frame{PartId: part,
		Layout: &pb.FrameLayout{Width: w, Height: h, PixelFormat: pb.PixelFormat_PIXEL_FORMAT_GRAY8},
		Source: &pb.Frame_Data{Data: data}}}}); err != nil {
		t.Fatal(err)
	}
	r, err := c.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if r.GetResult() == nil {
		t.Fatal(r)
	}
	c.n++
	return time.Now()
}

// feed sends parts until the page has text: a page that has just begun to look on sees those after that.
func (p *page) feed(t *testing.T, c *camera, part string, value byte, selector, text string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		c.frame(t, part, value)
		if eval[bool](t, p, fmt.Sprintf(`[...document.querySelectorAll(%q)].some(e => e.textContent.includes(%q))`, selector, text)) {
			return
		}
		if time.Now().After(deadline) {
			p.fail(t, fmt.Errorf("%s doesn't come to have %q", selector, text))
		}
	}
}

const tokens = "viewtoken name=lead role=view\nruntoken name=lead role=run\nadmintoken name=boss role=admin\n"

func TestBrowserLogin(t *testing.T) {
	p := open(t, tokens)
	p.goTo(t, "/")
	p.login(t, "wrong")
	p.has(t, "[role=alert]", "not one of this server's")
	if s := eval[string](t, p, `(async () => (await fetch("/polyscan.v1.DeviceService/GetDevice",
		{method: "POST", headers: {"Content-Type": "application/json"}, body: "{}"})).status.toString())()`); s != "401" {
		t.Errorf("a call without a session: %s", s)
	}
	p.login(t, "viewtoken")
	p.has(t, ".who", "lead, view")
	if c := eval[string](t, p, `document.cookie`); c != "" {
		t.Errorf("scripts see the cookie: %q", c)
	}
	p.goTo(t, "/device") // the session outlives the page
	p.has(t, "h2", "Queues")
	p.run(t, chromedp.Click(`//button[text()="Log out"]`))
	p.until(t, `document.getElementById("token")`)
	for _, u := range p.hosts() {
		if !strings.HasPrefix(u, p.base+"/") && !strings.HasPrefix(u, strings.Replace(p.base, "http", "ws", 1)+"/") &&
			!strings.HasPrefix(u, "blob:") {
			t.Errorf("the page asked %s", u)
		}
	}
}

// A reject is on the page within 200 ms of its verdict, with its picture and its numbers.
func TestBrowserRejectIsLive(t *testing.T) {
	p := open(t, tokens)
	p.goTo(t, "/")
	p.login(t, "viewtoken")
	p.has(t, ".empty", "Nothing runs yet")
	c := p.camera(t, "camera-3", "runtoken")
	c.frame(t, "A-0", 110)
	p.has(t, ".tile .name", "camera-3")
	p.has(t, ".detail h2", "camera-3")
	// The page's clock is this machine's.
	eval[bool](t, p, `(() => { window.seen = {}; new MutationObserver(() => { requestAnimationFrame(() => {
		for (const b of document.querySelectorAll(".film button")) window.seen[b.dataset.part] ??= Date.now(); });
		}).observe(document.body, {subtree: true, childList: true}); return true; })()`)
	p.feed(t, c, "A", 100, ".detail .regions", "left pad")
	var took []time.Duration
	for i := range 9 {
		part := fmt.Sprintf("B-%d", i)
		at := c.frame(t, part, 30)
		p.until(t, fmt.Sprintf(`window.seen[%q] > 0`, part))
		seen := time.UnixMilli(int64(eval[float64](t, p, fmt.Sprintf(`window.seen[%q]`, part))))
		took = append(took, seen.Sub(at))
	}
	slices.Sort(took)
	t.Logf("a reject is on the page after %v (median), %v (most of %d)", took[len(took)/2], took[len(took)-1], len(took))
	if took[len(took)/2] > 200*time.Millisecond {
		t.Error("that is more than 200 ms")
	}
	p.has(t, ".film .why", "left pad, right pad")
	p.has(t, ".tile .verdict", "FAIL")
	p.has(t, ".detail .values h3", "left pad, mean")
	p.until(t, `[...document.querySelectorAll(".film canvas")].some(c => !c.hidden && c.width > 1)`)
	p.until(t, `document.querySelector(".stage canvas").width > 1`)
	// Another tenant's streams are not shown.
	p.run(t, chromedp.Click(`//button[text()="Log out"]`))
	p.login(t, "viewtoken")
	c.frame(t, "A-99", 100)
	p.has(t, ".tile .name", "camera-3")
}

// The first paint that shows something, from a browser that knows nothing yet.
func TestBrowserFirstPaint(t *testing.T) {
	var times []float64
	for range 3 {
		p := open(t, "")
		p.goTo(t, "/")
		p.has(t, ".empty", "Nothing runs yet")
		p.until(t, `performance.getEntriesByType("paint").length > 0`)
		v := eval[map[string]float64](t, p, `(() => ({
			paint: performance.getEntriesByType("paint").find(e => e.name === "first-contentful-paint")?.startTime ?? 0,
			bytes: performance.getEntriesByType("resource").reduce((n, e) => n + e.transferSize, 0) }))()`)
		t.Logf("first paint with content after %.0f ms, %.0f bytes", v["paint"], v["bytes"])
		times = append(times, v["paint"])
	}
	if least := slices.Min(times); least > 1000 {
		t.Errorf("%.0f ms: more than a second", least)
	}
}

// All of it can be done with the keyboard.
func TestBrowserKeyboard(t *testing.T) {
	p := open(t, "")
	p.goTo(t, "/")
	c := p.camera(t, "camera-3", "")
	d := p.camera(t, "camera-4", "")
	p.has(t, ".tile .name", "camera-4")
	p.feed(t, c, "A", 100, ".tile", "camera-3")
	// reach presses Tab until the focus is where the expression says.
	reach := func(what string) {
		t.Helper()
		for range 60 {
			p.run(t, chromedp.KeyEvent(kb.Tab))
			if eval[bool](t, p, fmt.Sprintf(`(e => %s)(document.activeElement)`, what)) {
				if !eval[bool](t, p, `document.activeElement.matches(":focus-visible")`) {
					t.Errorf("%s: the focus is not visible", what)
				}
				return
			}
		}
		t.Fatalf("Tab doesn't reach %s", what)
	}
	reach(`e.className === "skip"`)
	reach(`e.matches(".tile") && e.textContent.includes("camera-4")`)
	p.run(t, chromedp.KeyEvent(kb.Enter))
	p.has(t, ".detail h2", "camera-4")
	p.feed(t, d, "C", 30, ".regions", "right pad")
	reach(`e.matches(".regions button") && e.textContent.includes("right pad")`)
	p.run(t, chromedp.KeyEvent(" "))
	p.has(t, ".region h3", "right pad")
	reach(`e.matches(".film button")`)
	eval[bool](t, p, `document.activeElement.blur(), window.scrollTo(0, 0), true`)
	reach(`e.getAttribute("href") === "/device"`)
	p.run(t, chromedp.KeyEvent(kb.Enter))
	p.has(t, "h2", "Queues")
}

// axe finds nothing on any page, in light and dark, on a screen and on a tablet.
func TestBrowserAxe(t *testing.T) {
	p := open(t, tokens)
	axe, err := os.ReadFile("node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Skip("node_modules/axe-core is not there: run build.sh")
	}
	check := func(name string) {
		t.Helper()
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{1920, 820} {
				p.run(t, command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 1080,
					DeviceScaleFactor: 1}), command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
					Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))
				eval[bool](t, p, string(axe)+"; true")
				found := eval[string](t, p, `new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r))).then(() => axe.run()).then(r =>
					JSON.stringify(r.violations.map(v => ({id: v.id, help: v.help,
					nodes: v.nodes.slice(0, 4).map(n => n.html.slice(0, 200) + " " + (n.any[0]?.message ?? ""))}))))`)
				var violations []struct {
					ID, Help string
					Nodes    []string
				}
				if err := json.Unmarshal([]byte(found), &violations); err != nil {
					t.Fatal(err)
				}
				for _, v := range violations {
					t.Errorf("%s, %s, %d wide: %s: %s: %s", name, scheme, width, v.ID, v.Help, strings.Join(v.Nodes, "\n\t"))
				}
			}
		}
		if dir := os.Getenv("POLYSCAN_SHOTS"); dir != "" {
			png, err := chromedp.Run(p.Context, chromedp.FullScreenshot(100))
			if err != nil {
				t.Fatal(err)
			}
			os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644)
		}
	}
	p.goTo(t, "/")
	p.until(t, `document.getElementById("token")`)
	check("login")
	p.login(t, "runtoken")
	p.has(t, ".empty", "Nothing runs yet")
	check("nothing")
	c := p.camera(t, "camera-3", "runtoken")
	p.feed(t, c, "A", 100, ".detail h2", "camera-3")
	p.feed(t, c, "B", 30, ".film .part", "B")
	check("live")
	for _, name := range eval[[]string](t, p, `[...document.querySelectorAll("nav a")].map(a => a.getAttribute("href").slice(1))`) {
		if name == "live" {
			continue
		}
		p.goTo(t, "/"+name)
		p.until(t, `document.querySelector(".page") && !document.body.textContent.includes("Loading")`)
		check(name)
	}
}

// The page runs no script but its files, and asks nobody else; the page of another origin can neither read nor call.
func TestBrowserOrigins(t *testing.T) {
	p := open(t, tokens)
	var asked sync.Map
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.URL.Path, true)
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>another</title>")
	}))
	defer other.Close()
	p.goTo(t, "/")
	p.login(t, "admintoken")
	p.has(t, ".who", "boss")
	got := eval[map[string]string](t, p, fmt.Sprintf(`(async () => {
		const out = {};
		const s = document.createElement("script"); s.textContent = "window.inline = 1"; document.head.append(s);
		out.inline = String(window.inline);
		try { out.eval = String((0, eval)("1")); } catch (e) { out.eval = "refused"; }
		try { await fetch(%[1]q + "/data"); out.fetch = "read"; } catch { out.fetch = "refused"; }
		out.image = await new Promise(r => { const i = new Image();
			i.onload = () => r("loaded"); i.onerror = () => r("refused"); i.src = %[1]q + "/x.png"; });
		out.frame = String(window.parent === window);
		return out; })()`, other.URL))
	for what, want := range map[string]string{"inline": "undefined", "fetch": "refused", "image": "refused"} {
		if got[what] != want {
			t.Errorf("%s: %q, want %q", what, got[what], want)
		}
	}
	for _, path := range []string{"/data", "/x.png"} {
		if _, ok := asked.Load(path); ok {
			t.Errorf("another host was asked for %s", path)
		}
	}
	// The same browser, with its cookie, on another origin of the same site: the worst case for SameSite.
	p.run(t, chromedp.Navigate(other.URL+"/"))
	got = eval[map[string]string](t, p, fmt.Sprintf(`(async () => {
		const base = %q, out = {};
		const send = type => fetch(base + "/polyscan.v1.RecipeService/DeleteRecipe",
			{method: "POST", credentials: "include", headers: {"Content-Type": type}, body: "{}"}).then(r => r.text());
		const tries = {
			read: () => fetch(base + "/console/session", {credentials: "include"}).then(r => r.text()),
			call: () => send("application/json"),
			form: () => send("text/plain"),
			logout: () => fetch(base + "/console/logout", {method: "POST", credentials: "include"}).then(r => r.text()),
		};
		for (const [k, f] of Object.entries(tries)) out[k] = await f().catch(() => "refused");
		await fetch(base + "/console/logout", {method: "POST", mode: "no-cors", credentials: "include"}).catch(() => {});
		out.socket = await new Promise(r => {
			const s = new WebSocket(base.replace("http", "ws") + "/socket/polyscan.v1.MonitorService/Watch", ["polyscan"]);
			s.onopen = () => r("open"); s.onerror = () => r("refused"); });
		out.frame = await new Promise(r => { const f = document.createElement("iframe"); f.src = base + "/"; f.onload = () => {
			try { r(f.contentDocument ? "empty" : "refused"); } catch { r("refused"); } }; document.body.append(f); });
		return out; })()`, p.base))
	for what, v := range got {
		if v != "refused" {
			t.Errorf("from another origin, %s: %q", what, v)
		}
	}
	if len(got) != 6 {
		t.Errorf("%v", got)
	}
	p.goTo(t, "/") // still logged in: nothing of that logged out
	p.has(t, ".who", "boss")
}
