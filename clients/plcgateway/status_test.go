package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/clients/plcgateway/internal/station"
)

func get(t *testing.T, url string) (*http.Response, string) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

// testPage looks at the page of a gateway whose station has answered 13 triggers, the last of them 50, for a PLC on
// this machine. With POLYSCAN_CHROMIUM it is looked at by that browser, as stage plc of .ci/run does.
func testPage(t *testing.T, web string) {
	_, text := get(t, web+"/status.json")
	var s status
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		t.Fatal(err)
	}
	if len(s.Links) != 1 || s.Links[0].Name != "hall" || len(s.Stations) != 1 {
		t.Fatalf("%s", text)
	}
	desk := s.Stations[0]
	if desk.Name != "desk" || desk.Server != "hall" || desk.Holder != "modbus 127.0.0.1" || desk.HeldSince == nil ||
		desk.Recipe != "line" || desk.Version != 1 || desk.Slot != 1 || len(desk.Bits) != len(station.BitNames) ||
		desk.Bits[0] != (bitStatus{"online", true}) || desk.Counters[0] != (countStatus{"accepted", 13}) {
		t.Errorf("%+v", desk)
	}
	if len(desk.Results) != lastResults {
		t.Fatalf("%d results", len(desk.Results))
	}
	for i, want := range []uint32{50, 12, 11, 10, 9, 8, 7, 6, 5, 4} {
		if r := desk.Results[i]; r.Trigger != want || r.Acked == nil || len(r.Steps) < 4 || r.Part == "" &&
			r.Verdict != "REJECT" {
			t.Errorf("result %d: %+v, want trigger %d, acknowledged", i, r, want)
		}
	}
	res, html := get(t, web+"/")
	if policy := res.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") ||
		res.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("headers %v", res.Header)
	}
	script, code := get(t, web+"/page.js")
	if kind := script.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/javascript") {
		t.Errorf("page.js is %s", kind)
	}
	if _, css := get(t, web+"/page.css"); regexp.MustCompile(`https?://`).MatchString(html + code + css) {
		t.Error("the page names another host")
	}
	for _, path := range []string{"/page.go", "/page/", "/status", "/nobody"} {
		if res, _ := get(t, web+path); res.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, res.Status)
		}
	}
	browser := os.Getenv("POLYSCAN_CHROMIUM")
	if browser == "" {
		return
	}
	out, err := exec.Command(browser, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir="+t.TempDir(),
		"--virtual-time-budget=3000", "--dump-dom", web+"/").Output()
	if err != nil {
		t.Fatal(err)
	}
	dom := regexp.MustCompile(`\s+`).ReplaceAllString(string(out), " ")
	for _, want := range []string{
		`<section class="card" id="station-desk">`, `modbus 127.0.0.1 since`, `line@1, slot 1`, `>online 1</li>`, `<td>50</td>`,
		fmt.Sprintf(`<dt>accepted</dt><dd>%d</dd>`, 13),
	} {
		if !strings.Contains(dom, want) {
			t.Errorf("in the browser there is no %s:\n%s", want, dom)
		}
	}
	if n := strings.Count(dom, "<tr title"); n != lastResults {
		t.Errorf("in the browser there are %d results", n)
	}
}

func TestRecent(t *testing.T) {
	var r recent
	add := func(sequence uint32, verdict station.Verdict) {
		r.add(&station.Answer{Sequence: sequence, Verdict: verdict})
	}
	for _, n := range []uint32{1, 3, 2, 4, 5, 6, 7, 8, 9, 10, 12, 11} { // answers are decided in any order
		add(n, station.Pass)
	}
	add(7, station.Fail)
	for i, a := range r.answers {
		if want := uint32(12 - i); a.Sequence != want || (a.Verdict == station.Fail) != (want == 7) {
			t.Errorf("%d: number %d, %v", i, a.Sequence, a.Verdict)
		}
	}
	if len(r.answers) != lastResults {
		t.Errorf("%d answers", len(r.answers))
	}
}
