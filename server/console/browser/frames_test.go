package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp/kb"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// counts are how many pixels of a frame each region of a file has, by the command line.
func (s *served) counts(t *testing.T, frame, regions string) map[string]float64 {
	t.Helper()
	var r reduced
	out := s.polyscan(t, "reduce", frame, "--regions", regions, "--addr", s.grpc, "--json")
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	n := map[string]float64{}
	for _, g := range r.Regions {
		n[g.Name] = g.Channels[0].Count
	}
	return n
}

// exported is the file that the page exports in a format.
func (e editor) exported(format, name string) string {
	e.t.Helper()
	e.do(fmt.Sprintf(`document.getElementById("format").value = %q`, format))
	file := filepath.Join(e.t.TempDir(), filepath.Base(name))
	if err := os.WriteFile(file, e.saved("Export regions", name), 0o666); err != nil {
		e.t.Fatal(err)
	}
	return file
}

// regions imports a file, and waits until it has so many regions.
func (e editor) regions(file string, n int) {
	e.t.Helper()
	e.files("#import", file)
	e.await(fmt.Sprintf(`document.querySelectorAll(".list .regions button").length === %d`, n))
}

func written(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return file
}

const (
	plain = `{"name":"chip","rings":[[[400,272],[544.5,272],[544,416.25],[400,416]]],"limits":["mean in [20, 110]","max < 250"]}`
	pair  = `{"name":"pair","rings":[[[10,10],[60,10],[60,60],[10,60]],[[40,40],[90,40],[90,90],[40,90]]],"limits":["mean < 200"]}`
	holes = `{"name":"ring <1>","rings":[[[200,20],[300,20],[300,120],[200,120]],[[220,40],[220,100],[280,100],[280,40]]]}`
	star  = `{"name":"star","rings":[[[600,100],[660,290],[500,170],[700,170],[540,290]]],"fill":"evenodd"}`
	twice = `{"name":"twice","rings":[[[100,200],[160,200],[160,260],[100,260]],[[130,230],[190,230],[190,290],[130,290]]],"fill":"evenodd"}`
)

// Regions are exported in each format that the command line reads, which finds the same pixels and limits in them, and
// so does the page where it reads the format. What a format can't hold is said.
func TestRecipeExports(t *testing.T) {
	s := serve(t, "")
	board := testdata("board.png")
	e := s.editor(t, "")
	e.keepSaved()
	e.frame(board)
	limits := func(file string) map[string]int {
		t.Helper()
		var f struct {
			Regions []struct {
				Name   string
				Limits []string
			}
		}
		out := s.polyscan(t, "regions", file, "--strict")
		if err := json.Unmarshal(out, &f); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		n := map[string]int{}
		for _, g := range f.Regions {
			n[g.Name] = len(g.Limits)
		}
		return n
	}
	for _, c := range []struct{ regions, format, file string }{
		{plain + "," + pair, "polyscan", "regions.json"},
		{plain + "," + pair, "labelme", "regions.labelme.json"},
		{plain + "," + pair, "coco", "regions.coco.json"},
		{plain + "," + pair + "," + holes + "," + star + "," + twice, "geojson", "regions.geojson"},
		{plain + "," + pair + "," + holes + "," + star + "," + twice, "svg", "regions.svg"},
	} {
		from := written(t, "from.json", "["+c.regions+"]")
		want, wantLimits := s.counts(t, board, from), limits(from)
		e.regions(from, len(want))
		file := e.exported(c.format, c.file)
		switch c.format {
		case "coco": // whose regions have numbers
			want = map[string]float64{"chip#1": want["chip"], "pair#2": want["pair"]}
			wantLimits = map[string]int{"chip#1": wantLimits["chip"], "pair#2": wantLimits["pair"]}
		case "svg": // which has no limits, as the page says
			wantLimits = map[string]int{"chip": 0, "pair": 0, "ring <1>": 0, "star": 0, "twice": 0}
			e.has(".message", "SVG has no limits")
		}
		if got := s.counts(t, board, file); !maps.Equal(got, want) {
			t.Errorf("%s: pixels %v, want %v", c.format, got, want)
		}
		if got := limits(file); !maps.Equal(got, wantLimits) {
			t.Errorf("%s: limits %v, want %v", c.format, got, wantLimits)
		}
		if c.format == "svg" {
			continue
		}
		e.regions(written(t, "one.json", "["+star+"]"), 1)
		e.regions(file, len(want))
		if got := s.counts(t, board, e.exported("polyscan", "regions.json")); !maps.Equal(got, want) {
			t.Errorf("%s, read again: pixels %v, want %v", c.format, got, want)
		}
	}
	e.regions(written(t, "holes.json", "["+holes+"]"), 1)
	for _, format := range []string{"labelme", "coco"} {
		e.do(fmt.Sprintf(`document.getElementById("format").value = %q`, format))
		e.press("Export regions")
		e.has(".message.error", "has no holes, and ring <1> has some")
	}
}

// What is drawn is cut out of a region whose edges it crosses, by keys and exactly: of one whose rings cross
// themselves, by each fill rule.
func TestRecipeCutOut(t *testing.T) {
	s := serve(t, "")
	board := testdata("board.png")
	e := s.editor(t, "")
	e.keepSaved()
	e.frame(board)
	// The cross is in the middle of the frame, at (480, 320).
	xy := [][2]float64{{500, 210}, {563, 404}, {398, 284}, {602, 284}, {437, 404}}
	points, _ := json.Marshal(xy)
	for _, fill := range []string{"nonzero", "evenodd"} {
		want := 0
		for y := range 640 {
			for x := range 960 {
				px, py, winding := float64(x)+0.5, float64(y)+0.5, 0
				for i, a := range xy {
					b := xy[(i+1)%len(xy)]
					if at := a[0] + (py-a[1])/(b[1]-a[1])*(b[0]-a[0]); (a[1] <= py) != (b[1] <= py) && at > px {
						if a[1] <= py {
							winding++
						} else {
							winding--
						}
					}
				}
				in := winding != 0
				if fill == "evenodd" {
					in = winding%2 != 0
				}
				if in && !(x >= 480 && x < 580 && y >= 320 && y < 420) {
					want++
				}
			}
		}
		e.regions(written(t, "a.json", `[{"name":"a","rings":[[[0,0],[9,0],[9,9]]]},{"name":"b","rings":[[[0,0],[9,0],[9,9]]]}]`), 2)
		e.regions(written(t, "star.json", fmt.Sprintf(`[{"name":"star","rings":[%s],"fill":%q}]`, points, fill)), 1)
		e.do(`(s => { s.value = "cut"; s.dispatchEvent(new Event("change")); })([...document.querySelectorAll(".toolbar select")][0])`)
		e.frame(board) // the cross is in the middle again
		e.do(`document.querySelector(".editor svg").focus()`)
		before := e.path()
		e.keys("r", kb.Enter)
		for range 10 {
			e.modified(kb.ArrowRight, kb.ModifierShift)
			e.modified(kb.ArrowDown, kb.ModifierShift)
		}
		e.keys(kb.Enter)
		e.await(fmt.Sprintf(`document.querySelector(".editor .outline.on").getAttribute("d") !== %q`, before))
		if got := s.counts(t, board, e.exported("polyscan", "regions.json"))["star"]; got != float64(want) {
			t.Errorf("%s: %v pixels, want %d", fill, got, want)
		}
	}
	// Cut by the same again, nothing changes, and the page says so.
	e.frame(board)
	e.do(`document.querySelector(".editor svg").focus()`)
	e.keys("r", kb.Enter)
	for range 5 {
		e.modified(kb.ArrowRight, kb.ModifierShift)
		e.modified(kb.ArrowDown, kb.ModifierShift)
	}
	e.keys(kb.Enter)
	e.has("[role=status]", "covers nothing of it")
	e.axe("cut out")
}

// A part that the history keeps is drawn on, as is the newest picture of a stream whose frames are larger than pictures
// are; kept parts are tried.
func TestRecipeFromLine(t *testing.T) {
	s := serve(t, "", "--history", t.TempDir(), "--history-good", "1")
	e := s.editor(t, "")
	c := e.camera("camera-3", "")
	for i := range 4 {
		c.frame(fmt.Sprintf("A-%d", i), 100+byte(i))
	}
	c.frame("B-0", 30)
	line := `document.querySelector("details.line")`
	open := func() {
		t.Helper()
		e.do(line + `.open = false`)
		e.do(line + `.open = true`)
	}
	// The history is written behind the verdicts.
	e.until("parts are listed", func() bool {
		open()
		return eval[bool](e.tab, `new Promise(r => setTimeout(() => r(
			document.querySelectorAll("details.line select")[0].options.length === 5), 50))`)
	})
	part := eval[string](e.tab, `(() => { const s = document.querySelectorAll("details.line select")[0];
		const o = [...s.options].find(o => o.text.includes("A-2")); s.value = o.value; return o.text; })()`)
	if want := "camera-3, A-2, PASS"; len(part) < len(want) || part[len(part)-len(want):] != want {
		t.Errorf("the part is listed as %q", part)
	}
	e.press("Open the part")
	e.has(".framecard .help", "A-2, 64 × 48 pixels")
	e.press("Rectangle")
	e.drag(8, 12, 24, 36)
	e.await(`document.querySelectorAll(".list .regions button").length === 1`)
	if got := e.awaitValue(func() string { return e.number("min") }, "102"); got != "102" {
		t.Errorf("min of A-2: %s", got)
	}
	e.fill("#newest", "5")
	e.press("Add a limit")
	e.fill(".limitrow input", "mean > 90")
	e.press("Try")
	e.await(`document.querySelector("#tried")`)
	if got, want := eval[string](e.tab, `document.querySelector(".outcome .headline").textContent`),
		"4 of 4 good pass, 1 of 1 bad fail"; got != want {
		t.Errorf("tried: %s, want %s", got, want)
	}
	e.axeAll("recipe-line")

	// A stream of frames of 1024 x 768, whose pictures have every second pixel.
	large := e.camera("camera-4", "")
	const w, h = 1024, 768
	send := func() {
		if err := large.Send(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Frame{Frame: &pb.Frame{PartId: "L-0",
			Layout: &pb.FrameLayout{Width: w, Height: h, PixelFormat: pb.PixelFormat_PIXEL_FORMAT_GRAY8},
			Source: &pb.Frame_Data{Data: make([]byte, w*h)}}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := large.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	send()
	e.until("the stream is listed", func() bool {
		open()
		return eval[bool](e.tab, `new Promise(r => setTimeout(() => { const s = document.querySelectorAll("details.line select")[1];
			const o = [...s.options].find(o => o.text === "camera-4"); if (o) s.value = o.value; r(!!o); }, 50))`)
	})
	e.press("Next picture")
	e.until("a picture is shown", func() bool {
		send()
		return eval[bool](e.tab, `new Promise(r => setTimeout(() => r(
			document.querySelector(".framecard .help").textContent.includes("L-0, a picture of the stream, every 2nd pixel")), 50))`)
	})
	e.press("Rectangle")
	e.drag(900, 600, 1000, 700)
	e.await(`document.querySelectorAll(".list .regions button").length === 2`)
	e.await(`document.querySelector(".editor .outline.on").getBBox().x > 500`)
	box := eval[[]float64](e.tab, `(b => [b.x, b.y, b.x + b.width, b.y + b.height])(document.querySelector(".editor .outline.on").getBBox())`)
	for i, want := range []float64{900, 600, 1000, 700} {
		if box[i] < want-3 || box[i] > want+3 {
			t.Errorf("the rectangle is at %v", box)
		}
	}
	if got := e.awaitValue(func() string { return e.number("pixels") }, ""); got != "" {
		t.Errorf("a picture has numbers: %s pixels", got)
	}
}

// A frame of 16384 x 16384 pixels, which is shown smaller, has all of its pixels where it is seen closely; so has one
// of a line of 10,240 pixels. Numbers are those of all pixels.
func TestRecipeLargeFrame(t *testing.T) {
	s := serve(t, "")
	e := s.editor(t, "")
	e.patience = 4 * patience // the browser decodes 256 megapixels several times
	for i, c := range []struct{ w, h, x, y int }{{16384, 16384, 15000, 12000}, {10240, 300, 9000, 100}} {
		// Every other pixel of a square is bright, and smaller pictures have the mean.
		m := image.NewGray(image.Rect(0, 0, c.w, c.h))
		for y := range 100 {
			for x := range 100 {
				m.Pix[(c.y+y)*m.Stride+c.x+x] = uint8(50 + (x+y)%2*100)
			}
		}
		var b bytes.Buffer
		if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&b, m); err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("large-%d.png", i)
		e.frame(written(t, name, b.String()))
		e.press("Rectangle")
		e.drag(float64(c.x-60), float64(c.y-60), float64(c.x+160), float64(c.y+160))
		e.await(fmt.Sprintf(`document.querySelectorAll(".list .regions button").length === %d`, i+1))
		for number, want := range map[string]string{"min": "0", "max": "150"} {
			if got := e.awaitValue(func() string { return e.number(number) }, want); got != want {
				t.Errorf("%s: %s %q, want %s", name, number, got, want)
			}
		}
		// The wheel zooms in on the square, until a pixel is several pixels of the screen.
		for range 40 {
			if eval[float64](e.tab, `document.querySelector(".editor svg").viewBox.baseVal.width`) < 200 {
				break
			}
			px, py := e.at(float64(c.x+50), float64(c.y+50))
			e.do(fmt.Sprintf(`document.querySelector(".editor svg").dispatchEvent(new WheelEvent("wheel",
				{deltaY: -240, clientX: %v, clientY: %v, bubbles: true, cancelable: true}))`, px, py))
			eval[bool](e.tab, `new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(true))))`)
		}
		for dx := range 2 {
			want := float64(50 + dx*100)
			value := fmt.Sprintf(`(() => { const c = document.querySelector(".editor canvas"), v = document.querySelector(
				".editor svg").viewBox.baseVal, k = c.width / v.width; return c.getContext("2d").getImageData(
				Math.floor((%d.5 - v.x) * k), Math.floor((%d.5 - v.y) * k), 1, 1).data[0]; })()`, c.x+50+dx, c.y+50)
			e.await(fmt.Sprintf(`Math.abs(%s - %v) <= 2`, value, want))
		}
	}
}
