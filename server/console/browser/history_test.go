package browser

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// searched opens the page History, and returns once it has so many parts: the history is written after the verdicts.
func (b *tab) searched(query string, parts int) {
	b.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		b.goTo("/history" + query)
		b.await(`document.querySelector(".counts dd") && document.querySelector(".parts tbody")`)
		b.await(`document.querySelector(".parts tbody tr") || !document.querySelector(".parts .empty").hidden`)
		got := eval[string](b, `document.querySelector(".counts dd").textContent`)
		if got == fmt.Sprint(parts) {
			b.await(fmt.Sprintf(`document.querySelectorAll(".parts tbody tr").length === %d`, parts))
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatal(b.said(fmt.Errorf("%s parts, want %d", got, parts)))
		}
	}
}

// rows are those of the table, each as its part, verdict and reason.
func (b *tab) rows() []string {
	b.t.Helper()
	return eval[[]string](b, `[...document.querySelectorAll(".parts tbody tr")].map(r => r.children[2].textContent + ": " +
		r.dataset.mark + ": " + r.children[4].textContent)`)
}

// bars are those of the Pareto diagram.
func (b *tab) bars() string {
	b.t.Helper()
	b.await(`document.querySelector(".pareto .bars")`)
	return strings.Join(eval[[]string](b, `[...document.querySelectorAll(".pareto .bars button")].map(r =>
		r.querySelector(".name").textContent + " " + r.querySelector(".number").textContent)`), ", ")
}

// pair waits for the pictures of a reject and of a good part beside it.
func (b *tab) pair(bad string) {
	b.t.Helper()
	b.await(`document.querySelectorAll(".pair figure").length === 2 &&
		[...document.querySelectorAll(".pair figure")].every(f => f.querySelectorAll("img").length === 2 &&
		[...f.querySelectorAll("img")].every(i => i.complete && i.naturalWidth > 0))`)
	captions := eval[[]string](b, `[...document.querySelectorAll(".pair figcaption")].map(c => c.textContent)`)
	if !strings.Contains(captions[0], ": "+bad+" ") || !strings.Contains(captions[0], "block of "+bad) ||
		!strings.Contains(captions[1], "A-") {
		b.t.Errorf("the pictures are of %q", captions)
	}
}

// crossAt is where the cross of a value that failed is in the chart, as a share of its width. Rows with more of its
// colour have a limit.
func (b *tab) crossAt() float64 {
	b.t.Helper()
	return eval[float64](b, `(() => {
		const c = document.querySelector(".chart .plot canvas"), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
		let at = 0;
		for (let y = 0; y < c.height; y++) {
			const xs = [];
			for (let x = 0; x < c.width; x++) {
				const i = 4 * (y * c.width + x);
				if (d[i] > 140 && d[i] < 190 && d[i + 1] < 80 && d[i + 2] < 40 && d[i + 3] > 200) xs.push(x);
			}
			if (xs.length && xs.length < 20) at = Math.max(at, xs.at(-1) / c.width);
		}
		return at; })()`)
}

// Rejects are found with their reasons and pictures, counted by region, and charted; a server that starts again on the
// same folder still has them.
func TestBrowserHistory(t *testing.T) {
	folder := t.TempDir()
	history := []string{"--history", folder, "--history-good", "1"}
	s := serve(t, tokens, history...)
	b := s.tab(t)
	c := b.camera("camera-3", "runtoken")
	const good = 24
	for i := range good {
		c.frame(fmt.Sprintf("A-%d", i), 100+byte(i%9))
	}
	c.halves("B-0", 30, 100)
	c.halves("B-1", 30, 30)
	c.halves("B-2", 160, 100)
	b.goTo("/")
	b.login("viewtoken")
	b.has(".who", "lead, view")
	b.searched("", good+3)
	if got, want := b.bars(), "left pad 3  (75 %), right pad 1  (100 %)"; got != want {
		t.Errorf("Pareto: %s, want %s", got, want)
	}
	b.searched("?verdict=fail", 3)
	want := []string{"B-2: fail: left pad", "B-1: fail: left pad, right pad", "B-0: fail: left pad"}
	if got := b.rows(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	b.pair("B-2") // the last reject is shown without being asked for

	// As somebody does it who has a part in the hand.
	b.searched("", good+3)
	b.fill("#f-part", "B-1")
	b.press("Show")
	b.await(`document.querySelectorAll(".parts tbody tr").length === 1`)
	if got := b.rows(); !slices.Equal(got, want[1:2]) {
		t.Errorf("%q, want %q", got, want[1:2])
	}
	b.pair("B-1")
	b.has(".reasons", "left pad mean in [90, 140]")
	b.press("left pad")
	b.has(".chart h2", "left pad, mean")
	b.await(`document.querySelector(".chart .plot canvas")?.width > 1`)
	if at := b.crossAt(); at < 0.9 {
		t.Errorf("the only value of a chart is at %.0f %% of its width, want the right end", 100*at)
	}

	// Of a time that the user says.
	b.goTo("/history")
	b.await(`document.querySelector("#f-span")`)
	b.do(`(s => { s.value = s.options[s.options.length - 1].value; s.dispatchEvent(new Event("change")); })(` +
		`document.querySelector("#f-span"))`)
	for _, c := range []struct{ from, to, parts string }{
		{"2020-01-01T00:00", "2020-01-02T00:00", "0"},
		{"2020-01-01T00:00", "2190-01-01T00:00", fmt.Sprint(good + 3)},
	} {
		b.do(fmt.Sprintf(`document.querySelector("#f-from").value = %q, document.querySelector("#f-to").value = %q`, c.from, c.to))
		b.press("Show")
		counted := func() string { return eval[string](b, `document.querySelector(".counts dd")?.textContent ?? ""`) }
		if got := b.awaitValue(counted, c.parts); got != c.parts {
			t.Errorf("from %s to %s: %s parts, want %s", c.from, c.to, got, c.parts)
		}
	}
	b.goTo(eval[string](b, `location.pathname + location.search`)) // the address has the time
	b.await(`document.querySelector("#f-to")?.value === "2190-01-01T00:00" && document.querySelector("#f-to").checkVisibility()`)

	// The numbers of a region against its limits: the rejects stand out.
	b.searched("", good+3)
	b.run(chromedp.Click(chromedp.CSS(".pareto .bars button")))
	b.has(".chart h2", "left pad, mean")
	b.await(`document.querySelector(".chart .plot canvas")?.width > 1`)
	facts := eval[map[string]string](b, `Object.fromEntries([...document.querySelectorAll(".chart .facts div")].map(d =>
		[d.querySelector("dt").textContent, d.querySelector("dd").textContent]))`)
	if facts["Values"] != fmt.Sprint(good+3) || facts["Outside of them"] != "3" || facts["Cpk"] == "–" {
		t.Errorf("%v", facts)
	}
	// Means and ranges of subgroups, by the keyboard.
	b.await(`document.querySelectorAll(".chart .plot canvas").length === 2`)
	b.has(".chart h3", "From one value to the next")
	b.fill("#subgroup", "9")
	b.has(".chart h3", "Means of subgroups")
	b.has(".chart h3", "Ranges of subgroups")
	b.has(".chart .facts div", "Ranges outside of theirs3")
	b.await(`document.querySelectorAll(".chart .plot canvas").length === 2`)
	b.axeAll("history-parts")
	for _, width := range []int64{768, 820, 1024} { // a tablet shows all columns
		b.look(width, "light")
		if wide := eval[int](b, `(() => { const s = document.querySelector(".parts .scroll");
			return s.scrollWidth - s.clientWidth + document.documentElement.scrollWidth - innerWidth; })()`); wide > 0 {
			t.Errorf("at a width of %d the parts are %d px too wide", width, wide)
		}
		if !eval[bool](b, `[...document.querySelectorAll(".parts .link span")].every(s => s.getClientRects().length === 1)`) {
			t.Errorf("at a width of %d a time breaks within the day or the hour", width)
		}
		b.shot(fmt.Sprintf("history-parts-%d", width))
	}
	if eval[bool](b, `!!document.querySelector(".pair a")`) {
		t.Error("who may only look on is led to the page Recipe")
	}

	// Live has the rejects of before, with their pictures, and those that come stand before them.
	b.goTo("/live")
	c.frame("A-99", 100)
	film := func() string {
		return eval[string](b, `[...document.querySelectorAll(".film button")].map(e => e.dataset.part).join(" ")`)
	}
	if got := b.awaitValue(film, "B-2 B-1 B-0"); got != "B-2 B-1 B-0" {
		t.Errorf("Live shows the rejects %q", got)
	}
	b.await(`[...document.querySelectorAll(".film canvas")].every(c => !c.hidden && c.width > 1)`)
	b.has(".film .why", "left pad, right pad")
	b.run(chromedp.Click(chromedp.CSS(".film button")))
	b.await(`!document.querySelector(".stage canvas").hidden`)
	b.has(".picture .of", "FAIL B-2")
	b.axe("rejects of before")
	b.shot("live-rejects-before")
	c.halves("B-3", 30, 100)
	if got := b.awaitValue(film, "B-3 B-2 B-1 B-0"); got != "B-3 B-2 B-1 B-0" {
		t.Errorf("Live shows the rejects %q", got)
	}
	b.searched("", good+5)

	bars := b.bars()
	c.CloseSend()
	for _, err := c.Recv(); err == nil; _, err = c.Recv() { // a server that ends waits for its streams
	}
	s.stop()
	again := serve(t, tokens, history...).tab(t)
	again.goTo("/")
	again.login("admintoken")
	again.has(".who", "boss, admin")
	again.searched("", good+5)
	if got := again.bars(); got != bars {
		t.Errorf("after the restart, Pareto: %s, want %s", got, bars)
	}
	again.searched("?part=B-1", 1)
	if got := again.rows(); !slices.Equal(got, want[1:2]) {
		t.Errorf("after the restart: %q, want %q", got, want[1:2])
	}
	again.pair("B-1")
	// The frame of a reject, as it was inspected, is drawn on.
	again.run(chromedp.Click(chromedp.CSS(".pair a")))
	e := editor{again}
	e.await(`document.querySelector(".framecard .help")?.textContent.includes("B-1, 64")`)
	e.press("Rectangle")
	e.drag(4, 8, 28, 40)
	e.await(`document.querySelectorAll(".list .regions button").length === 1`)
	for name, want := range map[string]string{"min": "30", "max": "36"} {
		if got := e.awaitValue(func() string { return e.number(name) }, want); got != want {
			t.Errorf("%s of B-1: %q, want %s", name, got, want)
		}
	}
}
