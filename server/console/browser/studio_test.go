package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// studio is the page Studio in a browser.
type studio struct{ editor }

// studio opens a tab of the page. What it saves stays in the page, as saved.
func (s *served) studio(t *testing.T, name string) studio {
	e := studio{editor{s.tab(t)}}
	e.goTo("/studio?tab=" + name)
	e.await(`document.querySelector(".panel:not([hidden]) .editor svg")`)
	e.keepSaved()
	return e
}

// picture is what "Save PNG" saves.
func (e studio) picture(name string) *image.NRGBA {
	e.t.Helper()
	return decoded(e.t, e.saved("Save PNG", name))
}

func decoded(t *testing.T, data []byte) *image.NRGBA {
	t.Helper()
	m, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	out := image.NewNRGBA(m.Bounds())
	draw.Draw(out, out.Rect, m, image.Point{}, draw.Src)
	return out
}

// farthest is the largest difference of two pictures, and how many pixels differ.
func farthest(a, b *image.NRGBA) (levels, pixels int) {
	if a.Rect != b.Rect {
		return 256, len(a.Pix) / 4
	}
	for i := 0; i < len(a.Pix); i += 4 {
		most := 0
		for k := range 4 {
			d := int(a.Pix[i+k]) - int(b.Pix[i+k])
			most = max(most, d, -d)
		}
		levels = max(levels, most)
		if most > 0 {
			pixels++
		}
	}
	return levels, pixels
}

// pictures is how many have come, of all tabs' kinds.
func (e studio) pictures(mark string) int {
	e.t.Helper()
	return eval[int](e.tab, fmt.Sprintf(`performance.getEntriesByName(%q).length`, mark))
}

// settled waits until there are more pictures than that, and the last is that of the drawing.
func (e studio) settled(more int) {
	e.t.Helper()
	e.await(fmt.Sprintf(`performance.getEntriesByName("picture").length > %d`, more))
	e.await(`!document.querySelector(".panel:not([hidden])").hasAttribute("data-busy")`)
}

// diffused is what the command line makes of a drawing.
func (e studio) diffused(s *served, drawing []byte) *image.NRGBA {
	e.t.Helper()
	dir := e.t.TempDir()
	in, out := filepath.Join(dir, "drawing.json"), filepath.Join(dir, "picture.png")
	if err := os.WriteFile(in, drawing, 0o666); err != nil {
		e.t.Fatal(err)
	}
	s.polyscan(e.t, "diffuse", in, "-o", out, "--addr", s.grpc, "--accuracy", "0.05")
	data, err := os.ReadFile(out)
	if err != nil {
		e.t.Fatal(err)
	}
	return decoded(e.t, data)
}

// like compares the page's picture with the command line's, which is more exact.
func (e studio) like(s *served, what string) (drawing []byte, picture *image.NRGBA) {
	e.t.Helper()
	drawing, picture = e.saved("Save the drawing", "drawing.json"), e.picture("picture.png")
	if levels, pixels := farthest(picture, e.diffused(s, drawing)); levels > 1 {
		e.t.Errorf("%s: %d pixels differ from the command line's, by %d levels at most", what, pixels, levels)
	}
	return drawing, picture
}

// follow moves the pointer that holds something there and back for 3 s, as fast as the browser draws, and logs how the
// picture follows.
func (e studio) follow(what string, ax, ay, bx, by float64) {
	e.t.Helper()
	e.do(`performance.clearMarks("picture")`)
	eval[bool](e.tab, fmt.Sprintf(`new Promise(done => {
		const svg = document.querySelector(".editor svg"), begun = performance.now();
		const step = () => {
			const now = performance.now() - begun, k = 0.5 - 0.5 * Math.cos(now / 300);
			svg.dispatchEvent(new PointerEvent("pointermove", {pointerId: 1, clientX: %v + k * %v, clientY: %v + k * %v,
				bubbles: true}));
			if (now < 3000) requestAnimationFrame(step); else done(true);
		};
		step();
	})`, ax, bx-ax, ay, by-ay))
	f := eval[struct{ Count, Drafts, Small, Rate, Took, Solve float64 }](e.tab, `(() => {
		const all = performance.getEntriesByName("picture"), middle = f => {
			const v = all.map(f).sort((a, b) => a - b); return v[v.length >> 1] ?? 0; };
		return {Count: all.length, Drafts: all.filter(m => m.detail.cycles === 1).length, Small: all.filter(m => m.detail.width < 512).length,
			Rate: 1000 * (all.length - 1) / (all.at(-1).startTime - all[0].startTime),
			Took: middle(m => m.detail.took), Solve: middle(m => m.detail.solve)};
	})()`)
	if f.Count < 2 {
		e.t.Errorf("%s: %v pictures in 3 s", what, f.Count)
	}
	if f.Drafts == 0 {
		e.t.Errorf("%s: none of %v pictures was made in one cycle", what, f.Count)
	}
	load, _ := os.ReadFile("/proc/loadavg")
	e.t.Logf("a handle dragged, %s, server with 2 threads: %.1f pictures a second, %v of %v with sides below 512; "+
		"medians: %.1f ms from change to picture, of which %.1f ms are the solver's; load %s", what, f.Rate, f.Small, f.Count, f.Took, f.Solve,
		bytes.TrimSpace(load))
}

// A curve of the shipped drawing is dragged at 512 x 512: the picture follows, and is the one of the drawing that is
// saved.
func TestStudioCurve(t *testing.T) {
	s := serve(t, "")
	e := s.studio(t, "curves")
	text, err := os.ReadFile(testdata("arch.json"))
	if err != nil {
		t.Fatal(err)
	}
	square := filepath.Join(t.TempDir(), "square.json")
	if err := os.WriteFile(square, bytes.Replace(text, []byte(`"width": 640, "height": 480`),
		[]byte(`"width": 512, "height": 512`), 1), 0o666); err != nil {
		t.Fatal(err)
	}
	n := e.pictures("picture")
	e.files("#drawing", square)
	e.settled(n)
	e.shot("studio-curves")
	was, before := e.like(s, "opened")

	ax, ay := e.at(200, 20)
	bx, by := e.at(260, 120)
	e.run(mouse(chromedp.MousePressed, ax, ay))
	e.follow("512 x 512 with blur", ax, ay, bx, by)
	e.run(mouse(chromedp.MouseMoved, bx, by), mouse(chromedp.MouseReleased, bx, by))
	e.settled(0)
	drawing, after := e.like(s, "dragged")
	if levels, pixels := farthest(before, after); levels < 20 || pixels < 1000 {
		t.Errorf("the picture changed in %d pixels by %d levels at most", pixels, levels)
	}
	type file struct {
		Curves []struct{ Points [][2]float64 }
	}
	var old, now file
	if json.Unmarshal(was, &old) != nil || json.Unmarshal(drawing, &now) != nil {
		t.Fatalf("%s", drawing)
	}
	if p := now.Curves[0].Points[1]; p[0] < 255 || p[0] > 265 || p[1] < 115 || p[1] > 125 {
		t.Errorf("the handle is at %v", p)
	}
	if now.Curves[0].Points[0] != old.Curves[0].Points[0] {
		t.Errorf("the first point moved to %v", now.Curves[0].Points[0])
	}
	// The comparison finds a picture of another drawing.
	if levels, _ := farthest(after, e.diffused(s, was)); levels < 20 {
		t.Errorf("the pictures of two drawings differ by %d levels", levels)
	}
	// Drawings without blur have a channel less to solve, and nothing to do after it.
	e.do(`document.querySelectorAll(".stops")[2].querySelector("button.icon").click()`)
	e.settled(0)
	e.do(`document.querySelectorAll(".stops")[2].querySelector("button.icon").click()`)
	e.settled(0)
	e.run(mouse(chromedp.MousePressed, bx, by))
	e.follow("512 x 512 without blur", bx, by, ax, ay)
	e.run(mouse(chromedp.MouseMoved, bx, by), mouse(chromedp.MouseReleased, bx, by))
	e.settled(0)
	e.like(s, "without blur")
	for eval[bool](e.tab, `[...document.querySelectorAll("button")].some(
		b => b.textContent === "Undo" && !b.disabled)`) {
		e.press("Undo")
		e.settled(0)
	}
	if again, back := e.like(s, "undone"); !bytes.Equal(again, was) {
		t.Errorf("undone: %s", again)
	} else if levels, _ := farthest(back, before); levels > 1 {
		t.Errorf("undone: %d levels", levels)
	}
}

// While pictures of a large canvas come at half its sides the server makes no others: from the first of them on, one
// socket sends. Nothing rests on the way, though the machine is slow.
func TestStudioLargeCanvas(t *testing.T) {
	s := serve(t, "")
	e := s.studio(t, "curves")
	text, err := os.ReadFile(testdata("arch.json"))
	if err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(t.TempDir(), "large.json")
	if err := os.WriteFile(large, bytes.Replace(text, []byte(`"width": 640, "height": 480`),
		[]byte(`"width": 1600, "height": 1600`), 1), 0o666); err != nil {
		t.Fatal(err)
	}
	n := e.pictures("picture")
	e.files("#drawing", large)
	e.settled(n)
	e.do(`(() => {
		window.senders = [];
		const send = WebSocket.prototype.send, timeout = window.setTimeout;
		WebSocket.prototype.send = function (data) { senders.push(this); return send.call(this, data); };
		window.setTimeout = (f, time) => timeout(f, time === 150 ? 1500 : time);
	})()`)
	ax, ay := e.at(200, 20)
	bx, by := e.at(260, 120)
	e.run(mouse(chromedp.MousePressed, ax, ay))
	e.follow("1600 x 1600 with blur", ax, ay, bx, by)
	last := eval[string](e.tab, `(() => {
		const all = [...new Set(senders)];
		return senders.map(s => all.indexOf(s)).join("");
	})()`)
	e.run(mouse(chromedp.MouseReleased, bx, by))
	if small := strings.IndexByte(last, '1'); small < 0 || strings.Contains(last[small:], "0") {
		t.Errorf("sockets send in the order %s", last)
	}
	e.settled(0)
	e.like(s, "dragged")
}

// A curve is drawn, coloured, blurred, made a barrier and removed without a mouse.
func TestStudioByKeyboard(t *testing.T) {
	s := serve(t, "")
	e := s.studio(t, "curves")
	e.tabTo(`document.activeElement.matches(".editor svg")`)
	e.keys("d", kb.Enter)
	for range 10 {
		e.modified(kb.ArrowRight, kb.ModifierShift)
	}
	e.keys(kb.Enter)
	for range 12 {
		e.modified(kb.ArrowDown, kb.ModifierShift)
	}
	e.keys(kb.Enter, kb.Enter)
	e.await(`document.querySelectorAll("select[size] option").length === 1`)
	e.settled(0)
	var d struct {
		Curves []struct {
			Points            [][2]float64
			Left, Right, Blur [][]float64
			Barrier           bool
		}
	}
	read := func(what string) {
		t.Helper()
		text, _ := e.like(s, what)
		d.Curves = nil
		if err := json.Unmarshal(text, &d); err != nil || len(d.Curves) != 1 {
			t.Fatalf("%v: %s", err, text)
		}
	}
	read("drawn")
	if p := d.Curves[0].Points; len(p) != 7 || p[0] != [2]float64{256, 256} || p[3] != [2]float64{356, 256} ||
		p[6] != [2]float64{356, 376} {
		t.Errorf("points %v", p)
	}
	change := func(what string, keys ...string) {
		t.Helper()
		n := e.pictures("picture")
		e.do(`document.querySelector(".editor svg").focus()`) // the tests of tabs are elsewhere
		e.keys(keys...)
		e.settled(n)
		read(what)
	}
	change("a point", ".", kb.ArrowLeft)
	if p := d.Curves[0].Points[0]; p != [2]float64{255, 256} {
		t.Errorf("the first point is at %v", p)
	}
	change("a stop", "l")
	if n := len(d.Curves[0].Left); n != 2 {
		t.Errorf("%d stops left", n)
	}
	change("a blur", "b")
	if b := d.Curves[0].Blur; len(b) != 1 || b[0][1] != 4 {
		t.Errorf("blur %v", b)
	}
	n := e.pictures("picture")
	e.tabTo(`document.activeElement.matches(".curve .check input")`)
	e.keys(" ")
	e.settled(n)
	e.tabTo(`document.activeElement.getAttribute("aria-label") === "Right 1: place along the curve"`)
	e.keys(kb.ArrowUp)
	e.tabTo(`document.activeElement.textContent === "Add a colour right"`)
	n = e.pictures("picture")
	e.keys(kb.Enter)
	e.settled(n)
	read("in the panel")
	if c := d.Curves[0]; !c.Barrier || len(c.Right) != 2 {
		t.Errorf("%+v", c)
	}
	e.axeAll("studio-curves")
	e.do(`document.querySelector(".editor svg").focus()`)
	e.keys(kb.Escape, kb.Delete)
	e.await(`document.querySelectorAll("select[size] option").length === 0`)
	e.modified("z", kb.ModifierCtrl)
	e.await(`document.querySelectorAll("select[size] option").length === 1`)
	e.saved("Save the drawing", "drawing.json")
	// The tabs themselves.
	e.do(`document.getElementById("tab-curves").focus()`)
	e.keys(kb.ArrowRight)
	e.await(`document.activeElement.id === "tab-lowpoly" && !document.getElementById("panel-lowpoly").hidden`)
	e.keys(kb.ArrowRight)
	e.await(`document.activeElement.id === "tab-fill" && !document.getElementById("panel-fill").hidden`)
}

// A slider moves: picture and numbers are those of the command line.
func TestStudioLowPoly(t *testing.T) {
	s := serve(t, "")
	e := s.studio(t, "lowpoly")
	e.files("#lowpoly-frame", testdata("plank.png"))
	fact := func(name string) string {
		t.Helper()
		return eval[string](e.tab, fmt.Sprintf(`[...document.querySelectorAll(
			".panel:not([hidden]) .numbers div")].find(
			d => d.querySelector("dt").textContent === %q)?.querySelector("dd").textContent ?? ""`, name))
	}
	e.await(`performance.getEntriesByName("lowpoly").length === 1`)
	before := e.picture("plank.png")
	e.do(`document.getElementById("vertices").focus()`)
	e.keys(kb.Home)
	e.arrows(kb.ArrowRight, 112) // the picture need not follow each step
	const n = 353                // 4 exp(112/25)
	e.await(fmt.Sprintf(`performance.getEntriesByName("lowpoly").at(-1).detail.vertices === %d`, n))
	if got := e.awaitValue(func() string { return fact("Vertices") }, fmt.Sprint(n)); got != fmt.Sprint(n) {
		t.Errorf("%s vertices", got)
	}
	if got := fact("Difference (RMS, levels)"); got == "" || got == "–" || got == "0" {
		t.Errorf("difference %q", got)
	}
	after := e.picture("plank.png")
	out := filepath.Join(t.TempDir(), "out.png")
	s.polyscan(t, "lowpoly", testdata("plank.png"), "-o", out, "--points", fmt.Sprint(n), "--addr", s.grpc)
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if levels, pixels := farthest(after, decoded(t, data)); levels > 0 {
		t.Errorf("%d pixels differ from the command line's, by %d levels at most", pixels, levels)
	}
	if _, pixels := farthest(after, before); pixels < 1000 {
		t.Errorf("the slider changed %d pixels", pixels)
	}
	if svg := e.saved("Save SVG", "plank.svg"); !strings.Contains(string(svg[:min(300, len(svg))]), "<svg") {
		t.Errorf("%.100s", svg)
	}
	e.axeAll("studio-lowpoly")
	for i, stage := range []string{"edges", "points", "voronoi", "wireframe"} {
		k := e.pictures("lowpoly")
		e.do(fmt.Sprintf(`document.querySelector("input[name=stage][value='%d']").click()`, i+2))
		e.await(fmt.Sprintf(`performance.getEntriesByName("lowpoly").length > %d`, k))
		s.polyscan(t, "lowpoly", testdata("plank.png"), "-o", out, "--points", fmt.Sprint(n), "--addr", s.grpc,
			"--stage", stage)
		if data, err = os.ReadFile(out); err != nil {
			t.Fatal(err)
		}
		if levels, pixels := farthest(e.picture("plank.png"), decoded(t, data)); levels > 0 {
			t.Errorf("%s: %d pixels differ from the command line's, by %d levels at most", stage, pixels, levels)
		}
	}
}

// A hole drawn with the mouse is filled; what is outside stays as it is, and the difference is there and nowhere else.
func TestStudioFill(t *testing.T) {
	s := serve(t, "")
	e := s.studio(t, "fill")
	// A ramp, which is its own diffusion, with a spot.
	const side = 96
	spot := image.Rect(40, 30, 60, 50)
	m := image.NewGray(image.Rect(0, 0, side, side))
	for y := range side {
		for x := range side {
			v := uint8(2 * x)
			if image.Pt(x, y).In(spot) {
				v = 255
			}
			m.SetGray(x, y, color.Gray{Y: v})
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ramp.png")
	if err := os.WriteFile(file, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	e.files("#fill-frame", file)
	e.await(`performance.getEntriesByName("filled").length === 1`)
	hole := image.Rect(36, 26, 64, 54)
	e.press("Rectangle")
	e.drag(float64(hole.Min.X), float64(hole.Min.Y), float64(hole.Max.X), float64(hole.Max.Y))
	e.await(`document.querySelectorAll(".editor .outline").length === 1`)
	show := func(what string) *image.NRGBA {
		t.Helper()
		e.do(fmt.Sprintf(`document.querySelector("input[name=show][value=%s]").click()`, what))
		e.await(fmt.Sprintf(`(d => d.what === %q && d.revision > 0)(
			performance.getEntriesByName("filled").at(-1).detail)`, what))
		return e.picture("ramp.png")
	}
	// The rectangle is drawn by the mouse, within a pixel.
	for what, want := range map[string]func(x, y int) (v, tolerance int){
		"filled":     func(x, _ int) (int, int) { return 2 * x, 1 },
		"background": func(x, _ int) (int, int) { return 2 * x, 1 },
		"residual": func(x, y int) (int, int) {
			if image.Pt(x, y).In(spot) {
				return min(255, 128+255-2*x), 1
			}
			return 128, 1
		},
	} {
		got := show(what)
		if got.Rect != m.Rect {
			t.Fatalf("%s: %v", what, got.Rect)
		}
		for y := range side {
			for x := range side {
				v, tolerance := want(x, y)
				if d := int(got.NRGBAAt(x, y).R) - v; d > tolerance || d < -tolerance {
					t.Fatalf("%s: %d at (%d, %d), want %d", what, v+d, x, y, v)
				}
			}
		}
		e.shot("studio-" + what)
	}
	e.axeAll("studio-fill")
}

// Who may only look on gets no tools, and the server refuses what a script asks for.
func TestStudioRoles(t *testing.T) {
	const run, view = "run-token-0123456789", "view-token-0123456789"
	b := open(t, run+" name=line role=run\n"+view+" name=office role=view\n")
	b.goTo("/studio")
	b.login(view)
	b.has(".page.studio", "may look on, and not compute")
	if eval[bool](b, `!!document.querySelector(".editor, [role=tab]")`) {
		t.Error("the role view has tools")
	}
	b.axe("studio-view")
	b.press("Log out")
	b.login(run)
	b.await(`document.querySelector(".panel:not([hidden]) .editor svg")`)
}

// A curve is drawn with the mouse over a picture, from which it takes its colours, and its blur is dragged by the
// mouse, also where a point of the curve is.
func TestStudioDrawOver(t *testing.T) {
	s := serve(t, "")
	e := s.studio(t, "curves")
	m := image.NewNRGBA(image.Rect(0, 0, 240, 160))
	for i := range m.Pix {
		m.Pix[i] = [2][4]uint8{{200, 40, 30, 255}, {20, 60, 180, 255}}[i/4%240/120][i%4]
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "halves.png")
	if err := os.WriteFile(file, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	e.files("#template", file)
	e.await(`!document.getElementById("template-opacity").disabled`)
	e.press("Draw")
	n := e.pictures("picture")
	e.drag(120, 12, 120, 148)
	e.await(`document.querySelectorAll("select[size] option").length === 1`)
	e.settled(n)
	drawing, picture := e.like(s, "drawn by the mouse")
	var d struct {
		Curves []struct {
			Points            [][2]float64
			Left, Right, Blur [][]float64
		}
	}
	if err := json.Unmarshal(drawing, &d); err != nil || len(d.Curves) != 1 {
		t.Fatalf("%v: %s", err, drawing)
	}
	c := d.Curves[0]
	if p, q := c.Points[0], c.Points[len(c.Points)-1]; p[0] < 118 || p[0] > 122 || p[1] > 16 || q[1] < 144 {
		t.Errorf("it goes from %v to %v", p, q)
	}
	// Left of a curve that goes down is the right half.
	for _, stop := range c.Left {
		if stop[1] != 20 || stop[2] != 60 || stop[3] != 180 {
			t.Errorf("left %v", stop)
		}
	}
	for _, stop := range c.Right {
		if stop[1] != 200 || stop[2] != 40 || stop[3] != 30 {
			t.Errorf("right %v", stop)
		}
	}
	for _, x := range []int{40, 200} {
		if got, want := picture.NRGBAAt(x, 80), m.NRGBAAt(x, 80); int(got.R)-int(want.R) > 60 || int(want.R)-int(got.R) > 60 {
			t.Errorf("%v at (%d, 80), want about %v", got, x, want)
		}
	}
	// The first blur is at the curve's first point.
	n = e.pictures("picture")
	e.press("Add a blur")
	e.settled(n)
	e.do(`document.querySelector(".editor").scrollIntoView({block: "center"})`)
	at := eval[[4]float64](e.tab, `(() => { const r = document.querySelector(".editor .stop.blur").getBoundingClientRect(),
		s = document.querySelector(".editor svg"), q = s.getBoundingClientRect(), v = s.viewBox.baseVal;
		const x = r.left + r.width / 2, y = r.top + r.height / 2; return [x, y, x, y + 60 * q.height / v.height]; })()`)
	n = e.pictures("picture")
	e.mouseDrag(at[0], at[1], at[2], at[3])
	e.settled(n)
	drawing, _ = e.like(s, "blur dragged")
	d.Curves = nil
	if err := json.Unmarshal(drawing, &d); err != nil {
		t.Fatal(err)
	}
	if blur := d.Curves[0].Blur; len(blur) != 1 || blur[0][0] < 0.2 {
		t.Errorf("blur %v", blur)
	}
	if p := d.Curves[0].Points[0]; p != c.Points[0] {
		t.Errorf("the first point moved from %v to %v", c.Points[0], p)
	}
	e.axeAll("studio-draw-over")
}

// The server finds the curves of a picture: they are drawn, and can be dragged, undone and saved as others can, and the
// command line finds the same ones. A search is stopped, and what it was told wrongly is said.
func TestStudioExtract(t *testing.T) {
	s := serve(t, "")
	e := s.studio(t, "curves")
	e.await(`document.querySelector("section[aria-label='Curves of a picture'] button").disabled`)
	e.files("#template", testdata("metal.png"))
	e.await(`!document.getElementById("template-opacity").disabled`)
	n := e.pictures("picture")
	e.press("Find its curves")
	e.await(`document.querySelectorAll("select[size] option").length > 0`)
	e.settled(n)
	drawing, picture := e.like(s, "extracted")
	type file struct {
		Curves []struct {
			Points      [][2]float64
			Left, Right [][]float64
		}
		Pixels [][]float64
	}
	var got, want, moved, undone file
	parse := func(data []byte, into *file) {
		t.Helper()
		if err := json.Unmarshal(data, into); err != nil {
			t.Fatal(err)
		}
	}
	parse(drawing, &got)
	out := filepath.Join(t.TempDir(), "metal.json")
	s.polyscan(t, "extract", testdata("metal.png"), "-o", out, "--addr", s.grpc)
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	parse(data, &want)
	if len(got.Curves) == 0 || !reflect.DeepEqual(got.Curves, want.Curves) || len(got.Pixels) != len(want.Pixels) {
		t.Errorf("%d curves and %d pixels, the command line has %d and %d", len(got.Curves), len(got.Pixels),
			len(want.Curves), len(want.Pixels))
	}
	e.has(".right", fmt.Sprintf("%d curve", len(want.Curves)))

	// The first curve is chosen, and moved by the keys.
	n = e.pictures("picture")
	e.do(`document.querySelector(".editor svg").focus()`)
	for range 3 {
		e.keys(kb.ArrowRight)
	}
	e.settled(n)
	drawing, after := e.like(s, "moved")
	parse(drawing, &moved)
	if got.Curves[0].Points[0][0]+3 != moved.Curves[0].Points[0][0] {
		t.Errorf("the first point is at %v, and was at %v", moved.Curves[0].Points[0], got.Curves[0].Points[0])
	}
	if levels, _ := farthest(picture, after); levels < 4 {
		t.Errorf("the picture changed by %d levels", levels)
	}
	for range 4 { // three moves, and the search
		e.press("Undo")
	}
	e.await(`document.querySelectorAll("select[size] option").length === 0`)
	n = e.pictures("picture")
	e.press("Redo")
	e.settled(n)
	drawing, _ = e.like(s, "done again")
	parse(drawing, &undone)
	if !reflect.DeepEqual(undone, got) {
		t.Error("done again it is another drawing")
	}
	e.axeAll("studio-extract")

	e.do(`document.getElementById("extract-threshold").value = "5000"`)
	e.press("Find its curves")
	e.has(".message.error", "options.threshold = 5000: must be 0.1 to 1000")
}

// A search for curves that takes long is stopped by who began it.
func TestStudioExtractStopped(t *testing.T) {
	s := serve(t, "")
	e := s.studio(t, "curves")
	m := image.NewNRGBA(image.Rect(0, 0, 1500, 1500))
	for i := range m.Pix {
		m.Pix[i] = uint8(i * i >> 9)
		if i%4 == 3 {
			m.Pix[i] = 255
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	e.files("#template", written(t, "noise.png", b.String()))
	e.await(`!document.getElementById("template-opacity").disabled`)
	e.do(`document.getElementById("extract-threshold").value = "0.1", document.getElementById("extract-pixels").value = "100"`)
	e.press("Find its curves")
	e.await(`document.querySelector("[data-extracting]")`)
	e.press("Stop")
	e.await(`!document.querySelector("[data-extracting]")`)
	e.has("[role=status]", "Stopped. The drawing is as it was.")
	if n := eval[int](e.tab, `document.querySelectorAll("select[size] option").length`); n != 0 {
		t.Errorf("%d curves", n)
	}
}

// A part that was kept is opened in each tab that takes frames.
func TestStudioFromLine(t *testing.T) {
	s := serve(t, "", "--history", t.TempDir(), "--history-good", "1")
	e := s.studio(t, "lowpoly")
	c := e.camera("camera-3", "")
	c.frame("A-0", 100)
	for _, name := range []string{"lowpoly", "fill", "curves"} {
		e.press(map[string]string{"lowpoly": "Low-poly", "fill": "Fill and background", "curves": "Curves"}[name])
		line := fmt.Sprintf(`document.querySelector("#panel-%s details.line")`, name)
		e.await(line)
		e.until("the part is listed", func() bool { // the history is written behind the verdicts
			// A frame is drawn between the two: Chromium hides what is in one that is closed and opened within a frame.
			return eval[bool](e.tab, `new Promise(r => {
				const line = `+line+`;
				line.open = false;
				requestAnimationFrame(() => requestAnimationFrame(() => {
					line.open = true;
					setTimeout(() => r(line.querySelector("select").options.length === 1), 50);
				}));
			})`)
		})
		e.press("Open the part")
		switch name {
		case "curves":
			e.await(`!document.getElementById("template-opacity").disabled`)
		default:
			e.has("#panel-"+name+" .framecard .help", "A-0, 64 × 48 pixels")
		}
	}
}

// While a curve of a large canvas is dragged, smaller pictures follow it; where it is let go, the whole one comes.
func TestStudioSmallPictures(t *testing.T) {
	s := serve(t, "")
	e := s.studio(t, "curves")
	text, err := os.ReadFile(testdata("arch.json"))
	if err != nil {
		t.Fatal(err)
	}
	const side = 1024 // which no two threads solve in 50 ms
	text = bytes.Replace(text, []byte(`"width": 640, "height": 480`), fmt.Appendf(nil, `"width": %d, "height": %d`, side, side), 1)
	n := e.pictures("picture")
	e.files("#drawing", written(t, "large.json", string(text)))
	e.settled(n)
	ax, ay := e.at(200, 20)
	bx, by := e.at(400, 300)
	e.run(mouse(chromedp.MousePressed, ax, ay))
	move := fmt.Sprintf(`(k => document.querySelector(".editor svg").dispatchEvent(new PointerEvent("pointermove",
		{pointerId: 1, clientX: %v + k * %v, clientY: %v + k * %v, bubbles: true})))(0.5 - 0.5 * Math.cos(performance.now() / 300))`,
		ax, bx-ax, ay, by-ay)
	e.await(`(` + move + `, performance.getEntriesByName("picture").some(m => m.detail.width === 512))`)
	e.run(mouse(chromedp.MouseMoved, bx, by), mouse(chromedp.MouseReleased, bx, by))
	e.settled(0)
	if w := eval[int](e.tab, `performance.getEntriesByName("picture").at(-1).detail.width`); w != side {
		t.Errorf("the last picture is %d pixels wide", w)
	}
	if m := e.picture("picture.png"); m.Rect.Dx() != side {
		t.Errorf("what is saved is %d pixels wide", m.Rect.Dx())
	}
}
