package browser

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// describe fills a field of the form of blobs.
func (e editor) describe(label, value string) {
	e.t.Helper()
	e.do(fmt.Sprintf(`(() => {
		const l = [...document.querySelectorAll(".blobform label")].find((l) => l.querySelector("span").textContent === %q);
		const f = l.querySelector("input, select");
		f.value = %q; f.dispatchEvent(new Event("change", {bubbles: true}));
	})()`, label, value))
}

// said is what the form makes of it, as text.
func (e editor) said() string {
	e.t.Helper()
	return eval[string](e.tab, `document.querySelector(".blobform .help").textContent`)
}

// found is what the page says of the chosen region's blobs.
func (e editor) found(want string) {
	e.t.Helper()
	if got := e.awaitValue(func() string { return e.number("blobs") }, want); got != want {
		e.t.Errorf("blobs: %q, want %q", got, want)
	}
}

// Blobs are described in the form, judged by limits, tried before they are saved, and mean the same to the command
// line, as a recipe and as a file; a file that has some brings them back.
func TestRecipeBlobs(t *testing.T) {
	s := serve(t, "")
	metal := testdata("metal.png")
	e := s.editor(t, "")
	e.keepSaved()
	e.frame(metal)
	e.press("Rectangle")
	e.drag(215, 305, 335, 425)
	e.await(`document.querySelectorAll(".list .regions button").length === 1`)
	e.fill(".region .field input", "pits")
	e.do(`document.querySelector(".blobform details").open = true`)
	e.describe("To", "60")
	e.await(`document.querySelector(".blobform .help").textContent === "<= 60"`)
	e.describe("Least area (px)", "12")
	e.until("numbers of blobs, which move what is below them", func() bool {
		return strings.HasPrefix(e.number("blobs"), "10 of")
	})
	e.press("Add a step")
	e.await(`document.querySelectorAll(".blobform .steps select").length === 2`)
	e.do(`(() => { const s = document.querySelectorAll(".blobform .steps select"); s[0].value = "4";
		s[0].dispatchEvent(new Event("change", {bubbles: true})); })()`)
	e.do(`(() => { const s = document.querySelectorAll(".blobform .steps select"); s[1].value = "1";
		s[1].dispatchEvent(new Event("change", {bubbles: true})); })()`)
	e.describe("One pixel at least from", "5")
	e.describe("to", "50")
	const text = "<= 60, strong 5 to 50, close 3x3, min area 12"
	if got := e.awaitValue(e.said, text); got != text {
		t.Fatalf("the form says %q", got)
	}
	// blobs is what the command line says of the same.
	blobs := func(args ...string) string {
		var r struct {
			Regions []struct {
				Blobs struct {
					Found int `json:"found"`
					Kept  int `json:"kept"`
				} `json:"blobs"`
			} `json:"regions"`
		}
		out := s.polyscan(t, append([]string{"reduce", metal, "--addr", s.grpc, "--json"}, args...)...)
		if err := json.Unmarshal(out, &r); err != nil || len(r.Regions) != 1 {
			t.Fatalf("%v: %s", err, out)
		}
		b := r.Regions[0].Blobs
		return fmt.Sprintf("%d of %d found", b.Kept, b.Found)
	}
	regions := e.exported("polyscan", "regions.json")
	want := blobs("-r", regions, "--strict")
	if strings.HasPrefix(want, "0 ") {
		t.Fatalf("the command line: %s", want)
	}
	e.found(want)

	e.do(`document.querySelector(".region .add select").value = "blobs"`)
	e.press("Add a limit")
	e.verdict("fail")
	e.shot("recipe-blobform")
	e.axe("form of blobs")
	// Tried before it is saved.
	e.files("#good", metal)
	e.press("Try")
	e.await(`document.querySelector("#tried tbody tr")`)
	if got := eval[string](e.tab, `document.querySelector("#tried tbody").textContent`); !strings.Contains(got, "pits") {
		t.Errorf("tried: %q", got)
	}
	e.save("pits", "version 1")
	if got := blobs("--recipe", "pits"); got != want {
		t.Errorf("by the recipe that was saved %s, by the form %s", got, want)
	}
	// Without blobs nothing can be said about the limit: no verdict stays. Undo brings them back.
	e.describe("To", "")
	e.await(`document.querySelector(".message.error")?.textContent.startsWith('pits = "blobs <= 0"')`)
	e.verdict("waiting")
	e.press("Undo")
	e.found(want)
	e.save("", "version 2")
	// Opened again, and from a file.
	e.goTo("/recipe?recipe=pits")
	e.await(`document.querySelectorAll(".list .regions button").length === 1`)
	if got := e.awaitValue(e.said, text); got != text {
		t.Errorf("opened: %q", got)
	}
	e.describe("To", "61")
	e.files("#import", regions)
	if got := e.awaitValue(e.said, text); got != text {
		t.Errorf("imported: %q", got)
	}
	e.files("#import", written(t, "unread.json",
		`{"reductions": ["blobs(below 60)"], "regions": [{"name": "a", "rings": [[[0, 0], [9, 0], [9, 9]]]}]}`))
	e.await(`document.querySelector(".message.error")?.textContent.includes("below 60")`)
}
