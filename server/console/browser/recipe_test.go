package browser

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// editor is the page Recipe in a browser.
type editor struct{ *tab }

func (s *served) editor(t *testing.T, query string) editor {
	e := editor{s.tab(t)}
	e.goTo("/recipe" + query)
	e.await(`document.querySelector(".editor svg")`)
	return e
}

// keepSaved keeps what the page saves in the page.
func (e editor) keepSaved() {
	e.t.Helper()
	// The page's policy lets nobody fetch a blob.
	e.do(`window.saved = {}, window.blobs = {}, (make => {
		URL.createObjectURL = b => { const url = make(b); blobs[url] = b; return url; };
		HTMLAnchorElement.prototype.click = function() { saved[this.download] = blobs[this.href]; };
	})(URL.createObjectURL.bind(URL))`)
}

// saved presses a button and returns the file that it saves.
func (e editor) saved(button, name string) []byte {
	e.t.Helper()
	e.do(fmt.Sprintf(`delete saved[%q]`, name))
	e.press(button)
	e.await(fmt.Sprintf(`saved[%q]`, name))
	text := eval[string](e.tab, fmt.Sprintf(`new Promise(r => {
		const f = new FileReader(); f.onload = () => r(f.result.split(",")[1]); f.readAsDataURL(saved[%q]); })`, name))
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		e.t.Fatal(err)
	}
	return data
}

// frame opens a frame, and waits until it is shown.
func (e editor) frame(file string) {
	e.t.Helper()
	e.do(`document.querySelector(".framecard .help").textContent = ""`) // it may be of the same file
	e.files("#frame", file)
	e.await(fmt.Sprintf(`document.querySelector(".framecard .help").textContent.includes(%q)`, filepath.Base(file)))
}

// at is where a pixel of the frame is in the window, once the page rests: it draws a frame that it shows a moment
// later.
func (e editor) at(x, y float64) (float64, float64) {
	e.t.Helper()
	p := eval[[2]float64](e.tab, fmt.Sprintf(`new Promise(done => {
		const s = document.querySelector(".editor svg");
		let was = "";
		const look = () => {
			const r = s.getBoundingClientRect(), v = s.viewBox.baseVal;
			const is = [r.left + (%v - v.x) * r.width / v.width, r.top + (%v - v.y) * r.height / v.height];
			if (String(is) === was) return done(is);
			was = String(is);
			requestAnimationFrame(() => requestAnimationFrame(look));
		};
		look(); })`, x, y))
	return p[0], p[1]
}

func (e editor) click(x, y float64) {
	e.t.Helper()
	px, py := e.at(x, y)
	e.run(chromedp.MouseClickXY(px, py))
}

// drag moves the mouse from one pixel of the frame to another, in steps.
func (e editor) drag(x0, y0, x1, y1 float64) {
	e.t.Helper()
	ax, ay := e.at(x0, y0)
	bx, by := e.at(x1, y1)
	e.mouseDrag(ax, ay, bx, by)
}

func (p *tab) mouseDrag(ax, ay, bx, by float64) {
	p.t.Helper()
	actions := []step{mouse(chromedp.MousePressed, ax, ay)}
	const steps = 8
	for i := 1; i <= steps; i++ {
		k := float64(i) / steps
		actions = append(actions, mouse(chromedp.MouseMoved, ax+k*(bx-ax), ay+k*(by-ay)))
	}
	p.run(append(actions, mouse(chromedp.MouseReleased, bx, by))...)
}

// follows drags a vertex in steps, each of which waits for its numbers. It returns how long they took, sorted.
func (e editor) follows(x0, y0, x1, y1 float64) (took []float64) {
	e.t.Helper()
	ax, ay := e.at(x0, y0)
	bx, by := e.at(x1, y1)
	e.do(`document.querySelector(".editor svg").addEventListener("pointermove", () => (window.movedAt = performance.now()))`)
	e.run(mouse(chromedp.MousePressed, ax, ay))
	const steps = 9
	for i := 1; i <= steps; i++ {
		k := float64(i) / steps
		e.do(`performance.clearMarks(), window.movedAt = Infinity`)
		e.run(mouse(chromedp.MouseMoved, ax+k*(bx-ax), ay+k*(by-ay)))
		numbers := `performance.getEntriesByName("numbers").find(m => m.startTime > movedAt)`
		e.await(numbers)
		took = append(took, eval[float64](e.tab, numbers+`.startTime - movedAt`))
	}
	e.run(mouse(chromedp.MouseReleased, bx, by))
	slices.Sort(took)
	return took
}

func mouse(kind input.DispatchMouseEventType, x, y float64) step {
	return chromedp.MouseEvent(kind, x, y, func(p *input.DispatchMouseEventParams) {
		p.Button, p.Buttons = input.MouseButtonLeft, 1
		if kind != chromedp.MouseMoved {
			p.ClickCount = 1
		}
	})
}

// rings are those of the region that is chosen, from what the page draws.
func (e editor) path() string {
	e.t.Helper()
	e.await(`document.querySelector(".editor .outline.on")`) // the list may tell of the region before it is drawn
	return eval[string](e.tab, `document.querySelector(".editor .outline.on").getAttribute("d")`)
}

// verdict waits until the frame has one.
func (e editor) verdict(want string) {
	e.t.Helper()
	e.await(fmt.Sprintf(`document.querySelector(".framecard .verdict").dataset.mark === %q`, want))
}

// number is one of the chosen region's numbers.
func (e editor) number(name string) string {
	e.t.Helper()
	return eval[string](e.tab, fmt.Sprintf(`[...document.querySelectorAll(".region .numbers div")].find(
		(d) => d.querySelector("dt").textContent === %q)?.querySelector("dd").textContent ?? ""`, name))
}

func (e editor) save(name, want string) {
	e.t.Helper()
	if name != "" {
		e.fill("#recipe-name", name)
	}
	e.press("Save")
	e.await(fmt.Sprintf(`document.querySelector(".message").textContent.includes(%q)`, want))
}

// reduced is what the command line makes of a frame.
type reduced struct {
	Verdict string `json:"verdict"`
	Regions []struct {
		Name     string `json:"name"`
		Verdict  string `json:"verdict"`
		Channels []struct {
			Count  float64 `json:"count"`
			Mean   float64 `json:"mean"`
			Stddev float64 `json:"stddev"`
			Min    float64 `json:"min"`
			Max    float64 `json:"max"`
		} `json:"channels"`
	} `json:"regions"`
}

func (s *served) reduce(t *testing.T, frame, recipe string) (r reduced) {
	t.Helper()
	out := s.polyscan(t, "reduce", frame, "--recipe", recipe, "--addr", s.grpc, "--json")
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r
}

// A polygon is drawn with the mouse on the shipped board and gets a limit; the command line gets the same verdict and
// numbers for the recipe that was saved. Dragging a vertex changes both.
func TestRecipeByMouse(t *testing.T) {
	s := serve(t, "")
	board := testdata("board.png")
	e := s.editor(t, "")
	e.frame(board)
	e.press("Polygon")
	for _, p := range [][2]float64{{400, 272}, {544, 272}, {544, 416}, {400, 416}} {
		e.click(p[0], p[1])
	}
	e.click(400, 272) // closes it
	e.await(`document.querySelectorAll(".list .regions button").length === 1`)
	e.await(`document.querySelector(".region .numbers dd")`)
	e.fill(".region .field input", "chip")
	e.press("Add a limit")
	e.await(`document.querySelectorAll(".limitrow").length === 1`)
	e.fill(".limitrow input", "mean in [20, 110]")
	e.verdict("pass")
	e.shot("recipe-drawn")
	e.save("chip", "version 1")
	e.compare(s, board, "chip@1", "PASS")

	// A vertex goes where the mouse takes it, and numbers follow while it moves.
	before := e.path()
	count := e.number("pixels")
	e.do(`performance.clearMarks()`)
	e.follows(544, 416, 620, 480)
	e.await(fmt.Sprintf(`document.querySelector(".editor .outline.on").getAttribute("d") !== %q`, before))
	e.awaitChange(func() string { return e.number("pixels") }, count)

	// The end of a limit is dragged on the histogram until the frame fails.
	box := eval[struct{ X, Y, W, H, Low, High float64 }](e.tab, `(() => {
		const drawn = document.querySelector(".ends .histogram");
		drawn.scrollIntoView({block: "center"});
		const r = drawn.getBoundingClientRect();
		return {X: r.left, Y: r.top, W: r.width, H: r.height}; })()`)
	// The lines are where the axis has 20 and 110; the axis reaches a quarter beyond the widest of pixels and limits.
	high := eval[string](e.tab, `document.querySelectorAll(".ends .fields input")[1].value`)
	if high != "110" {
		t.Fatalf("the upper end is %q", high)
	}
	x := e.limitLine(box.X, box.Y, box.W)
	e.mouseDrag(x, box.Y+box.H/3, box.X+box.W*0.02, box.Y+box.H/3)
	e.verdict("fail")
	e.shot("recipe-limit-dragged")
	e.save("", "version 2")
	e.compare(s, board, "chip@2", "FAIL")

	// Back to the first version, which is saved as the third.
	e.do(`(() => { const v = [...document.querySelectorAll(".save select")][1]; v.value = "1"; })()`)
	e.press("Open")
	e.await(fmt.Sprintf(`document.querySelector(".editor .outline.on").getAttribute("d") === %q`, before))
	e.save("", "version 3")
	e.compare(s, board, "chip", "PASS")
	e.axe("recipe")
}

// limitLine is where the upper line of the limit is: what the page draws in the colour of failures, farthest to the
// right.
func (e editor) limitLine(left, top, width float64) float64 {
	e.t.Helper()
	x := eval[float64](e.tab, `(() => { const c = document.querySelector(".ends .histogram"), g = c.getContext("2d");
		const d = g.getImageData(0, Math.round(c.height * 0.38), c.width, 1).data; let at = -1;
		for (let i = 0; i < c.width; i++) if (d[4*i] > 120 && d[4*i+1] < 110 && d[4*i+2] < 60 && d[4*i+3] > 200) at = i;
		return at / c.width; })()`)
	if x <= 0 {
		e.t.Fatal("no line of the limit is drawn")
	}
	return left + x*width - 4
}

// compare holds what the page shows of the only region to what the command line says of a recipe.
func (e editor) compare(s *served, frame, recipe, verdict string) {
	e.t.Helper()
	r := s.reduce(e.t, frame, recipe)
	if r.Verdict != verdict || len(r.Regions) != 1 || r.Regions[0].Name != "chip" {
		e.t.Fatalf("%s: %+v, want %s", recipe, r, verdict)
	}
	format := func(f func(i int) float64) string {
		var parts []string
		for i := range r.Regions[0].Channels {
			parts = append(parts, short(f(i)))
		}
		return strings.Join(parts, " · ")
	}
	c := r.Regions[0].Channels
	want := map[string]string{
		"pixels": short(c[0].Count), "mean": format(func(i int) float64 { return c[i].Mean }),
		"std. deviation": format(func(i int) float64 { return c[i].Stddev }),
		"min":            format(func(i int) float64 { return c[i].Min }), "max": format(func(i int) float64 { return c[i].Max }),
	}
	for name, w := range want {
		if got := e.awaitValue(func() string { return e.number(name) }, w); got != w {
			e.t.Errorf("%s: the page says %s %q, the command line %q", recipe, name, got, w)
		}
	}
}

// short is a number as the page writes it.
func short(v float64) string {
	switch {
	case v == math.Trunc(v):
		text := fmt.Sprintf("%.0f", v)
		for i := len(text) - 3; i > 0; i -= 3 {
			text = text[:i] + "," + text[i:]
		}
		return text
	case v >= 1000:
		return fmt.Sprintf("%.0f", v)
	case v >= 100:
		return fmt.Sprintf("%.1f", v)
	case v >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.4f", v)
}

// On a frame of 4 megapixels numbers follow a vertex within 50 ms, and Try tells large files by their names.
func TestRecipeFourMegapixels(t *testing.T) {
	const side = 2048
	frame := &image.Gray{Pix: make([]byte, side*side), Stride: side, Rect: image.Rect(0, 0, side, side)}
	rand.NewChaCha8([32]byte{}).Read(frame.Pix) // which no PNG makes smaller
	var data bytes.Buffer
	if err := png.Encode(&data, frame); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "noise.png")
	if err := os.WriteFile(file, data.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	e := serve(t, "").editor(t, "")
	e.frame(file)
	e.press("Rectangle")
	e.drag(100, 100, 1900, 1900)
	e.await(`document.querySelector(".region .numbers dd")`)
	e.press("Add a limit")
	e.verdict("pass")
	took := e.follows(1900, 1900, 2000, 1800)
	t.Logf("numbers of 3 megapixels came after %.1f ms (median), %.1f to %.1f", took[len(took)/2], took[0], took[len(took)-1])
	if took[len(took)/2] > 50 {
		t.Error("that is more than 50 ms")
	}
	e.files("#good", file)
	e.press("Try")
	e.await(`document.querySelector("#tried")`)
	if name := eval[string](e.tab, `document.querySelector("#tried tbody th").textContent`); name != "noise.png" {
		t.Errorf("the frame that was tried is called %q", name)
	}
}

// Somebody else saves meanwhile: both versions are shown with their differences, and the user decides.
func TestRecipeConflict(t *testing.T) {
	s := serve(t, "")
	mine := filepath.Join(t.TempDir(), "mine.json")
	region := `[{"name":"pad","rings":[[[10,10],[40,10],[40,40],[10,40]]],"limits":["mean < %d"]}]`
	put := func(n int, more ...string) {
		t.Helper()
		if err := os.WriteFile(mine, fmt.Appendf(nil, region, n), 0o666); err != nil {
			t.Fatal(err)
		}
		s.polyscan(t, append([]string{"recipe", "put", "pads", "-r", mine, "--addr", s.grpc}, more...)...)
	}
	put(200)
	e := s.editor(t, "?recipe=pads")
	e.frame(testdata("board.png"))
	e.await(`document.querySelectorAll(".limitrow").length === 1`)
	put(150, "--blobs", ">= 90", "--texture", "1,0")
	e.fill(".limitrow input", "mean < 99")
	e.press("Save")
	e.await(`!document.querySelector(".conflict").hidden`)
	text := eval[string](e.tab, `document.querySelector(".conflict").textContent`)
	for _, words := range []string{"version 2", "mean < 200", "mean < 99", "mean < 150", ">= 90",
		"What is asked for beside blobs is another"} {
		if !strings.Contains(text, words) {
			t.Errorf("%q lacks %q", text, words)
		}
	}
	e.shot("recipe-conflict")
	e.axe("conflict")
	e.press("Save mine as the next version")
	e.await(`document.querySelector(".message").textContent.includes("version 3")`)
	if out := s.polyscan(t, "recipe", "get", "pads", "--addr", s.grpc); !strings.Contains(string(out), "mean < 99") {
		t.Errorf("%s", out)
	}
	put(120)
	e.fill(".limitrow input", "mean < 98")
	e.press("Save")
	e.await(`!document.querySelector(".conflict").hidden`)
	e.press("Open theirs")
	e.await(`document.querySelector(".limitrow input").value === "mean < 120"`)
}

// On a tablet a finger draws; two zoom and move, and undo what the first began.
func TestRecipeByFingers(t *testing.T) {
	e := serve(t, "").editor(t, "")
	e.look(768, "dark")
	e.frame(testdata("metal.png"))
	touch := func(kind input.DispatchTouchEventType, points ...[2]float64) {
		t.Helper()
		at := []*input.TouchPoint{}
		for i, p := range points {
			at = append(at, &input.TouchPoint{X: p[0], Y: p[1], ID: new(float64(i))})
		}
		e.run(command(input.DispatchTouchEvent, input.DispatchTouchEventParams{Type: kind, TouchPoints: at}))
	}
	start, move, end := input.DispatchTouchEventTypeTouchStart, input.DispatchTouchEventTypeTouchMove, input.DispatchTouchEventTypeTouchEnd
	draw := func(x0, y0, x1, y1 float64) {
		t.Helper()
		ax, ay := e.at(x0, y0)
		bx, by := e.at(x1, y1)
		touch(start, [2]float64{ax, ay})
		touch(move, [2]float64{bx, by})
		touch(end)
	}
	e.press("Rectangle")
	e.do(`document.querySelector(".editor").scrollIntoView({block: "center"})`)
	draw(200, 100, 300, 200)
	e.await(`document.querySelectorAll(".list .regions button").length === 1`)

	e.press("Polygon")
	e.do(`document.querySelector(".editor").scrollIntoView({block: "center"})`)
	view := `(v => [v.x, v.y, v.width].map(n => Math.round(n)).join(" "))(document.querySelector(".editor svg").viewBox.baseVal)`
	before := eval[string](e.tab, view)
	wide := eval[float64](e.tab, `document.querySelector(".editor svg").viewBox.baseVal.width`)
	x, y := e.at(500, 250)
	touch(start, [2]float64{x - 50, y})
	touch(start, [2]float64{x - 50, y}, [2]float64{x + 50, y})
	touch(move, [2]float64{x - 100, y}, [2]float64{x + 100, y})
	touch(move, [2]float64{x - 80, y + 20}, [2]float64{x + 120, y + 20})
	touch(end, [2]float64{x - 80, y + 20})
	touch(end)
	e.awaitChange(func() string { return eval[string](e.tab, view) }, before)
	e.await(fmt.Sprintf(`Math.abs(document.querySelector(".editor svg").viewBox.baseVal.width - %v) < 2`, wide/2))
	if nx, ny := e.at(500, 250); math.Abs(nx-x-20) > 2 || math.Abs(ny-y-20) > 2 {
		t.Errorf("what was between the fingers at %.0f, %.0f is at %.0f, %.0f, want it with them", x, y, nx, ny)
	}
	if n := eval[int](e.tab, `document.querySelectorAll(".editor .draft").length`); n != 0 {
		t.Error("the first of two fingers placed a point")
	}
	e.press("Circle")
	e.do(`document.querySelector(".editor").scrollIntoView({block: "center"})`)
	draw(500, 250, 520, 250)
	e.await(`document.querySelectorAll(".list .regions button").length === 2`)
	e.shot("recipe-fingers")
}

// All of a recipe is made without a mouse.
func TestRecipeByKeyboard(t *testing.T) {
	s := serve(t, "")
	e := s.editor(t, "")
	e.frame(testdata("metal.png")) // the dialogue of the system has its own keys
	e.tabTo(`document.activeElement.matches(".editor svg")`)
	e.keys("p")
	e.keys(kb.Enter) // in the middle
	e.arrows(kb.ArrowRight, 9)
	e.keys(kb.Enter)
	e.arrows(kb.ArrowDown, 9)
	e.keys(kb.Enter, kb.Enter)
	e.await(`document.querySelectorAll(".list .regions button").length === 1`)
	if got, want := e.path(), "M512 256L521 256L521 265Z"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	e.keys(".", kb.ArrowLeft) // its first vertex
	e.await(`document.querySelector(".editor .outline.on").getAttribute("d") === "M511 256L521 256L521 265Z"`)
	e.modified("z", kb.ModifierCtrl)
	e.await(`document.querySelector(".editor .outline.on").getAttribute("d") === "M512 256L521 256L521 265Z"`)
	e.keys("r", kb.Enter)
	e.arrows(kb.ArrowLeft, 3)
	e.keys(kb.Enter)
	e.keys(kb.Escape)
	e.keys("c", kb.Enter)
	e.arrows(kb.ArrowRight, 5)
	e.keys(kb.Enter)
	e.await(`document.querySelectorAll(".list .regions button").length >= 2`)
	e.tabTo(`document.activeElement.matches(".region .field input")`)
	e.modified("a", kb.ModifierCtrl)
	e.keys("spot", kb.Enter)
	e.tabTo(`document.activeElement.textContent === "Add a limit"`)
	e.keys(kb.Enter)
	e.await(`document.querySelectorAll(".limitrow").length === 1`)
	e.shot("recipe-keyboard")
	e.backTo(`document.activeElement.id === "recipe-name"`)
	e.keys("by-keys")
	e.tabTo(`document.activeElement.textContent === "Save"`)
	e.keys(kb.Enter)
	e.await(`document.querySelector(".message").textContent.includes("version 1")`)
	out := s.polyscan(t, "recipe", "get", "by-keys", "--addr", s.grpc)
	if !strings.Contains(string(out), `"name":"spot"`) || !strings.Contains(string(out), "mean in [") {
		t.Errorf("%s", out)
	}
}

// Somebody who has a browser and a folder of frames gets from nothing to a recipe that tells good from bad.
func TestRecipeFromNothing(t *testing.T) {
	s := serve(t, "")
	frames, err := filepath.Glob(testdata("conveyor/frame_*.png"))
	if err != nil || len(frames) != 12 {
		t.Fatalf("%d frames: %v", len(frames), err)
	}
	bad := testdata("conveyor/frame_007.png")
	good := slices.DeleteFunc(slices.Clone(frames), func(f string) bool { return f == bad })
	e := s.editor(t, "")
	begun := time.Now()
	e.files("#good", good...) // the first is shown
	e.files("#bad", bad)
	e.await(`document.querySelector(".framecard .help").textContent.includes("frame_000.png")`)
	// A ring on the belt, and a circle around each hole of the bracket that is under the gate.
	e.press("Rectangle")
	e.drag(264, 254, 376, 262)
	for _, hole := range [][2]float64{{276, 290}, {276, 342}, {364, 290}} {
		e.press("Circle")
		e.drag(hole[0], hole[1], hole[0]+4, hole[1])
	}
	e.await(`document.querySelectorAll(".list .regions button").length === 4`)
	e.press("Teach")
	e.await(`document.querySelector("#taught")`)
	tally := eval[string](e.tab, `document.querySelector(".outcome .headline").textContent`)
	if tally != "11 of 11 good pass, 1 of 1 bad fail" {
		t.Fatalf("taught: %s", tally)
	}
	e.shot("recipe-taught")
	e.axe("taught")
	e.press("Take these limits")
	e.press("Try")
	e.await(`document.querySelector("#tried")`)
	tally = eval[string](e.tab, `document.querySelector(".outcome .headline").textContent`)
	if tally != "11 of 11 good pass, 1 of 1 bad fail" {
		t.Errorf("tried: %s", tally)
	}
	// What fails is listed first, and its name opens it.
	if first := eval[string](e.tab, `document.querySelector("#tried tbody tr").textContent`); !strings.HasPrefix(first,
		"frame_007.pngbadFAIL") {
		t.Errorf("the first frame of those that were tried: %s", first)
	}
	e.press("frame_007.png")
	e.await(`document.querySelector(".framecard .help").textContent.includes("frame_007.png")`)
	e.verdict("fail")
	e.save("belt", "version 1")
	if d := time.Since(begun); d > 5*time.Minute {
		t.Errorf("it took %v", d)
	}
	for _, f := range frames {
		want := "PASS"
		if f == bad {
			want = "FAIL"
		}
		if got := s.reduce(t, f, "belt").Verdict; got != want {
			t.Errorf("%s: %s, want %s", filepath.Base(f), got, want)
		}
	}
	e.shot("recipe-tried")
}
