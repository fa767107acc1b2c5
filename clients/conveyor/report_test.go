package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/polyscan/polyscan/clients"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

var update = flag.Bool("update", false, "write the golden files of reports anew")

// sample is a report with something in every place.
func sample(t *testing.T) *report {
	t.Helper()
	s := synthetic{width: 640, partLines: 200, regions: 3, seed: 1}
	b, err := s.belt()
	if err != nil {
		t.Fatal(err)
	}
	l := &load{
		scene: &scene{belt: b, stripLines: 50, partLines: 200, every: 200, regions: s.inspection(),
			budget: 5 * time.Millisecond},
		cameras: 2, profile: profile{rate: 1000}, verify: true, seed: 1, batch: 4,
		faults: []fault{{faultKill, 0.001, defaultStall}, {faultStall, 0.01, time.Second}},
	}
	start := time.Unix(1700000000, 0)
	a := newTally(l.scene.budget, start)
	for i := range 1000 {
		d := time.Duration(1000+i*3) * time.Microsecond
		p := &polyscanv1.PartResult{Verdict: polyscanv1.Verdict_VERDICT_PASS, Times: &polyscanv1.PartTimes{
			Queue: durationpb.New(d / 8), Compute: durationpb.New(d / 4), Send: durationpb.New(d / 16),
			Latency: durationpb.New(d / 2),
		}}
		switch {
		case i%100 == 7:
			p.Verdict = polyscanv1.Verdict_VERDICT_FAIL
		case i%250 == 9:
			p.Verdict, p.Incomplete = polyscanv1.Verdict_VERDICT_UNSPECIFIED, true
		case i == 999:
			d, p.Late = 30*time.Millisecond, true
			p.Times.Latency = durationpb.New(d)
		}
		a.setPhase(phase(i / 500))
		a.part(p, d, i%50 == 0)
		a.strip(50, 50*640, i%300 == 0, time.Duration(50+i/10)*time.Microsecond)
		if i%250 == 249 {
			a.mark(start.Add(time.Duration(i/250+1) * 10 * time.Second))
		}
	}
	a.event(&polyscanv1.ScanEvent{Kind: polyscanv1.ScanEventKind_SCAN_EVENT_KIND_OUT_OF_ORDER})
	a.event(&polyscanv1.ScanEvent{Kind: polyscanv1.ScanEventKind_SCAN_EVENT_KIND_GAP})
	a.event(&polyscanv1.ScanEvent{Kind: polyscanv1.ScanEventKind_SCAN_EVENT_KIND_GAP})
	a.fault(faultKill)
	a.fault(faultStall)
	a.reconnected(&clients.Reconnected{Outage: 12345 * time.Microsecond, Attempts: 2, Resent: 3})
	a.repeated(2)
	o := &outcome{
		elapsed: 40 * time.Second, calm: a.calm.quantiles(), slips: a.slips.quantiles(), spectrum: a.all.spectrum(),
		history: a.history,
		checked: 1000, partial: 4, wrong: 2, lost: 1,
		problems: []string{"camera 1: part at line 400: region \"cell\x1b[2J 2\": sum is 3: want 4",
			"camera 0: part 7 at line 1400: no result"},
		batch:    &batchReport{Jobs: 4, Done: 100, Refused: 1, Rate: 5},
		memory:   &memoryReport{Start: 100 << 20, End: 103 << 20, Peak: 110 << 20, Growth: 3 << 20},
		warnings: []string{"the clock stood still"},
	}
	o.counts, o.latency = a.snapshot()
	for i := range o.phases {
		o.phases[i] = a.phases[i].quantiles()
	}
	for i := range o.stages {
		o.stages[i] = a.stages[i].quantiles()
	}
	r := newReport(l, o, demands{minRate: 1100, maxHeldUp: defaultMaxHeldUp})
	r.Version, r.Started = "v0", start.UTC().Format(time.RFC3339)
	r.Server = serverInfo{"localhost:7465", "cpu", "a processor"}
	r.Setup.Transport = "tcp"
	r.Capacity = &capacityReport{Lines: 1250, Most: 1300, Bytes: 1.6e6,
		Steps: []capacityStep{{1250, 1249, 3.9, 0, 12, true}}}
	return r
}

func TestReportGolden(t *testing.T) {
	r := sample(t)
	var text bytes.Buffer
	if err := r.write(&env{}, &text); err != nil {
		t.Fatal(err)
	}
	data, err := r.json()
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string][]byte{"report.txt": text.Bytes(), "report.json": data} {
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs (go test -update writes it anew):\n%s", path, got)
		}
	}
	if strings.Contains(text.String(), "\x1b") {
		t.Error("names out of a report command the terminal")
	}
}

// TestDisplay: a line a second where nothing can be drawn over, and a block of constant height where it can.
func TestDisplay(t *testing.T) {
	g := progress{counts: counters{Lines: 1000, Bytes: 4096000, Parts: 10, Verdicts: verdictCounts{Pass: 9, Fail: 1}},
		queued: 3, room: 61}
	p := point{LineRate: 20000, P50: 0.5, P99: 1.25, Max: 3}
	var out bytes.Buffer
	d := &display{e: &env{stdout: &out}}
	for i := 1; i <= 8; i++ {
		g.elapsed = time.Duration(i) * 250 * time.Millisecond
		d.show(p, g)
	}
	d.clear()
	const line = "  20,000 lines/s  81.9 MB/s  p50 0.50 p99 1.25 max 3 ms  late 0  pass 9 fail 1  queued 3\n"
	if want := "   1.0s" + line + "   2.0s" + line; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}

	out.Reset()
	d = &display{e: &env{stdout: &out, live: true}}
	for i := 1; i <= 3; i++ {
		g.elapsed = time.Duration(i) * 250 * time.Millisecond
		if i == 3 {
			g.counts.Faults = map[string]int64{"kill": 1}
		}
		d.show(p, g)
	}
	d.clear()
	screen := emulate(out.String())
	if len(screen) != 0 {
		t.Errorf("left on the screen: %q", screen)
	}
	if !strings.Contains(out.String(), "queue     3 strips on the way, room for 61") ||
		!strings.Contains(out.String(), "faults    1 kill") {
		t.Errorf("%q", out.String())
	}
	if s := spark([]float64{0, 1, 2, 8}); s != "▁▂▃█" {
		t.Error(s)
	}
}

// emulate is what is on the screen after the few sequences that the display uses.
func emulate(s string) []string {
	var lines []string
	row := 0
	for len(s) > 0 {
		switch {
		case strings.HasPrefix(s, "\x1b[2K"):
			s = s[4:]
			if row < len(lines) {
				lines[row] = ""
			}
		case strings.HasPrefix(s, "\x1b[J"):
			s = s[3:]
			lines = lines[:row]
		case strings.HasPrefix(s, "\x1b["):
			n, rest := 0, s[2:]
			for rest[0] >= '0' && rest[0] <= '9' {
				n, rest = 10*n+int(rest[0]-'0'), rest[1:]
			}
			if rest[0] == 'A' {
				row -= n
			}
			s = rest[1:]
		default:
			text, rest, _ := strings.Cut(s, "\n")
			for len(lines) <= row {
				lines = append(lines, "")
			}
			lines[row] += text
			row++
			s = rest
		}
	}
	return lines
}
