package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// TestDemands: what a run is held to, and what is said where it doesn't keep to it.
func TestDemands(t *testing.T) {
	none, some := 0.0, 0.4
	loose := demands{maxHeldUp: defaultMaxHeldUp}
	slow := outcome{latency: quantiles{Count: 1890, P50: 256, P99: 900},
		counts: counters{Parts: 1890, LateEither: 713, Strips: 7550, HeldUp: 3775}}
	stuck := slow
	stuck.counts.HeldUp = 6757
	for _, c := range []struct {
		name string
		o    outcome
		want demands
		run  string
		why  string
	}{
		{"nothing asked for", slow, loose, runGood, ""},
		{"held up", stuck, loose, runBad,
			"the cameras were held up at 6,757 of 7,550 strips (89.5 %): --max-held-up allows 50 %"},
		{"held up, and allowed", stuck, demands{maxHeldUp: 1}, runGood, ""},
		{"p99", slow, demands{maxP99: 5 * time.Millisecond, maxHeldUp: 1}, runBad,
			"the p99 of the latency is 900 ms: --max-p99 allows 5 ms"},
		{"p99, kept to", slow, demands{maxP99: time.Second, maxHeldUp: 1}, runGood, ""},
		{"p99 of nothing", outcome{counts: counters{Parts: 1}}, demands{maxP99: time.Second, maxHeldUp: 1}, runBad,
			"no latency was measured, and --max-p99 is about it"},
		{"none whole", outcome{counts: counters{Parts: 2, Verdicts: verdictCounts{Incomplete: 2}}, checked: 2}, loose,
			runVoid, "no part came whole"},
		{"none judged", outcome{counts: counters{Parts: 2, Verdicts: verdictCounts{None: 2}}, checked: 2}, loose,
			runVoid, "no region has limits, so that no part has a verdict"},
		{"late", slow, demands{maxLate: &none, maxHeldUp: 1}, runBad,
			"713 of 1,890 parts were late (37.7 %): --max-late allows 0 %"},
		{"late, and allowed", slow, demands{maxLate: &some, maxHeldUp: 1}, runGood, ""},
	} {
		r := &report{}
		r.judge(&load{cameras: 1}, &c.o, c.want)
		if r.Outcome != c.run || strings.Join(r.Reasons, "; ") != c.why {
			t.Errorf("%s: %s, %q", c.name, r.Outcome, r.Reasons)
		}
	}
}

// TestLateByEitherClock: a part that is in time for the server may be late for the camera.
func TestLateByEitherClock(t *testing.T) {
	now := time.Unix(1, 0)
	a := newTally(5*time.Millisecond, now)
	a.part(partOf(time.Millisecond, false), 2*time.Millisecond, false)
	a.part(partOf(time.Millisecond, false), 6*time.Millisecond, false) // the way took long
	a.part(partOf(9*time.Millisecond, true), 10*time.Millisecond, false)
	a.part(partOf(9*time.Millisecond, true), 0, false) // not whole: the camera can't say
	c, _ := a.snapshot()
	if c.Late != 2 || c.LateAtCamera != 2 || c.LateEither != 3 || c.LateSilently != 0 {
		t.Errorf("%+v", c)
	}
}

// TestCapacityRange: searches that end apart make a range, of which the lowest counts, and a wide one a hint.
func TestCapacityRange(t *testing.T) {
	var all *capacityReport
	for _, lines := range []float64{20000, 18000, 24000} {
		all = all.with(&capacityReport{Lines: lines, Most: lines, Bytes: lines, Steps: []capacityStep{{Lines: lines}}})
	}
	if all.Lines != 18000 || all.Bytes != 18000 || all.Most != 24000 || len(all.Steps) != 3 ||
		all.rates() != "18,000 to 24,000" {
		t.Errorf("%+v, %s", all, all.rates())
	}
	if one := (&capacityReport{Lines: 7, Most: 7}).rates(); one != "7" {
		t.Error(one)
	}
}

// TestFindCapacity: --find-capacity searches three times, and reports the lowest and the highest of what it found.
func TestFindCapacity(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	before := capacityStepTime
	capacityStepTime = 250 * time.Millisecond
	defer func() { capacityStepTime = before }()
	file := filepath.Join(t.TempDir(), "capacity.json")
	out, errs, code := conveyor(t, "--width", "64", "--strip-lines", "8", "--part-lines", "16", "--region-count", "1",
		"--line-rate", "20000", "--budget", "10s", "--find-capacity", "--max-held-up", "1", "--json", file)
	var r report
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil || r.Capacity == nil {
		t.Fatalf("exit %d: %v\n%s%s", code, err, out, errs)
	}
	if code == exitVoid && r.Capacity.Lines == 0 {
		t.Skip("this machine keeps up no rate") // which ends the search
	}
	for _, again := range []string{"(2 of 3)", "(3 of 3)"} {
		if !strings.Contains(out, "again, to see how sure that is "+again) {
			t.Errorf("exit %d, no search %s:\n%s", code, again, out)
		}
	}
	var found []float64 // by the searches: a step that isn't kept up follows one that is
	for _, s := range r.Capacity.Steps {
		if s.OK {
			found = append(found, s.Lines)
		}
	}
	if c := r.Capacity; !slices.Contains(found, c.Lines) || !slices.Contains(found, c.Most) || c.Most < c.Lines {
		t.Errorf("%v to %v of the steps %v", c.Lines, c.Most, found)
	}
}

// TestVersionAndHelp: what people try first works.
func TestVersionAndHelp(t *testing.T) {
	out, errs, code := conveyor(t, "--version")
	if code != exitOK || !strings.HasPrefix(out, "conveyor ") || strings.Count(out, "\n") != 1 || errs != "" {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
	for _, c := range [][2]string{{"help", "--help"}, {"help soak", "soak --help"}} {
		got, _, code := conveyor(t, strings.Fields(c[0])...)
		want, _, _ := conveyor(t, strings.Fields(c[1])...)
		if got != want || got == "" || code != exitOK {
			t.Errorf("%s: exit %d\n%s", c[0], code, got)
		}
	}
	out, _, _ = conveyor(t, "play", "--help")
	for _, want := range []string{"--max-held-up=SHARE", "Default: 0.5.", "--line-rate="} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// TestConnectionErrors: a server that isn't there, or wants something else, is told of at once.
func TestConnectionErrors(t *testing.T) {
	start := time.Now()
	for _, c := range []struct {
		addr, want string
		code       int
	}{
		{"127.0.0.1:1", "conveyor: 127.0.0.1:1: no connection: ", exitServer},
		{"unix:" + filepath.Join(t.TempDir(), "none"), "; is the server running there?\n", exitServer},
		{"http://127.0.0.1:1", "no address: want host:port without http://, such as 127.0.0.1:1\n", exitUsage},
	} {
		if _, errs, code := conveyor(t, "--addr", c.addr); code != c.code || !strings.Contains(errs, c.want) ||
			strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d, %q", c.addr, code, errs)
		}
	}
	if took := time.Since(start); took > connectTimeout/2 {
		t.Errorf("it took %v", took)
	}
}

// TestServerGone: a run whose server is killed ends soon after, with the reason on standard error and the code of the
// server; so does a search for the capacity.
func TestServerGone(t *testing.T) {
	t.Parallel()
	for _, more := range [][]string{{"--duration", "1m"}, {"--find-capacity"}} {
		t.Run(more[0], func(t *testing.T) {
			t.Parallel()
			var kill func()
			var once sync.Once
			var killed time.Time
			ready := make(chan struct{})
			addr, stop := startFake(t, func(*polyscanv1.PartResult) bool {
				once.Do(func() {
					<-ready
					killed = time.Now()
					go kill()
				})
				return true
			})
			kill = stop
			close(ready)
			_, errs, code := conveyor(t, append([]string{"--addr", addr, "--width", "256", "--line-rate", "2000", "--quiet",
				"--max-held-up", "1"}, more...)...)
			if took := time.Since(killed); code != exitServer || took > 30*time.Second { // half of what it was to run
				t.Errorf("exit %d after %v", code, took)
			}
			if want := "conveyor: camera 0: the session ended: " + addr + ": no connection: "; !strings.HasPrefix(errs, want) ||
				!strings.HasSuffix(errs, "; is the server running there?\n") || strings.Contains(errs, "desc =") {
				t.Errorf("%q", errs)
			}
		})
	}
}

// TestRefusals: what the server refuses is told in the words of the caller: the file and the region, not a field.
func TestRefusals(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.json")
	if err := os.WriteFile(file, []byte(`[{"name":"a","rings":[[[1,1],[9,1],[9,9]]],"limits":["r.mean < 3"]},
		{"name":"b","rings":[[[1,1],[9,1],[9,9]]],"limits":["g.mean < 3"]}]`), 0o644); err != nil {
		t.Fatal(err)
	}
	_, errs, code := conveyor(t, "--width", "64", "--duration", "1s", "--line-rate", "1000", "--regions", file, "--quiet")
	want := "conveyor: camera 0: " + file +
		`: regions[0] "a": limits[0] = "r.mean < 3": the frame has no red channel (GRAY8) (and 1 more)` + "\n"
	if code != exitUsage || errs != want {
		t.Errorf("exit %d, %q, want %q", code, errs, want)
	}
}

// TestOutputErrors: what can't be written is an error of the arguments, and where that can be known nothing is played.
func TestOutputErrors(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone", "x.json")
	for _, args := range [][]string{{"--json", gone}, {"--plot", strings.TrimSuffix(gone, "json") + "svg"}} {
		if _, errs, code := conveyor(t, args...); code != exitUsage || !strings.Contains(errs, "no such file or directory") {
			t.Errorf("%v: exit %d, %q", args, code, errs)
		}
	}
	for _, args := range [][]string{{"--json", "report.csv"}, {"--plot", "report.json"}} {
		want := "conveyor: " + strings.Join(args, " ") + ": want a name that ends in "
		if _, errs, code := conveyor(t, args...); code != exitUsage || !strings.HasPrefix(errs, want) {
			t.Errorf("%v: exit %d, %q", args, code, errs)
		}
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("no /dev/full")
	} else if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, args := range [][]string{{"--help"}, {"--version"}, small(serveFake(t, nil), "--quiet")} {
		var errs strings.Builder
		if code := run(context.Background(), args, strings.NewReader(""), full, &errs); code != exitUsage ||
			errs.String() != "conveyor: standard output: no space left on device\n" {
			t.Errorf("%v: exit %d, %q", args, code, errs.String())
		}
	}
}

// TestStrictRegions: warnings about regions are shown, and are errors with --strict. Of keys on which a verdict hangs
// they are errors anyway.
func TestStrictRegions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.json")
	for _, x := range []struct {
		key, want string
		refused   bool
	}{
		{"limit", `the key "limit" is ignored; did you mean "limits"?`, true},
		{"nam", `the key "nam" is ignored; did you mean "name"?`, false},
	} {
		text := fmt.Sprintf(`[{"rings":[[[1,1],[9,1],[9,9]]],%q:["mean below 3"]}]`, x.key)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		args := small(serveFake(t, nil), "--regions", file, "--quiet")
		_, errs, code := conveyor(t, args...)
		if !strings.Contains(errs, "warning: "+file) || !strings.Contains(errs, x.want) ||
			(code == exitUsage) != x.refused {
			t.Errorf("%s: exit %d, %q", x.key, code, errs)
		}
		_, errs, code = conveyor(t, append(args, "--strict")...)
		if code != exitUsage || !strings.Contains(errs, x.want) {
			t.Errorf("%s --strict: exit %d, %q", x.key, code, errs)
		}
	}
}

// TestRegionsFileKeys: conveyor asks for what a regions file asks for, in its scale and with its frames, and for what
// it checks itself.
func TestRegionsFileKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.json")
	if err := os.WriteFile(file, []byte(`{"scale": {"mm_per_pixel": [0.5, 0.5]}, "reductions": ["percentiles(99)"],
		"frames": {"golden": "kept"}, "regions": [{"name": "a", "rings": [[[1,1],[9,1],[9,9]]],
		"limits": ["area > 1 mm2"]}]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := (&sceneFlags{Regions: file}).scene(t.Context(), io.Discard, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	in := s.inspection
	r := in.GetReductions()
	if in.GetRegionSet().GetScale().GetX() != 0.5 || in.GetFrames()["golden"] != "kept" ||
		!slices.Equal(r.GetPercentiles(), []float64{99}) || len(r.GetStatistics()) != 9 {
		t.Errorf("%v", in)
	}
}

// TestOutputsReplaceNoRegions: the file of the regions is not written.
func TestOutputsReplaceNoRegions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.json")
	const regions = `[{"name":"a","rings":[[[1,1],[9,1],[9,9]]]}]`
	if err := os.WriteFile(file, []byte(regions), 0o644); err != nil {
		t.Fatal(err)
	}
	_, errs, code := conveyor(t, small(serveFake(t, nil), "--regions", file, "--quiet", "--json", file)...)
	if code != exitUsage || !strings.Contains(errs, "r.json would replace "+file+", which is read") {
		t.Errorf("exit %d, %q", code, errs)
	}
	if left, err := os.ReadFile(file); string(left) != regions {
		t.Errorf("the file is %q: %v", left, err)
	}
}

// partOf is a result whose latency is the server's own account.
func partOf(latency time.Duration, late bool) *polyscanv1.PartResult {
	return &polyscanv1.PartResult{Late: late, Times: &polyscanv1.PartTimes{Latency: durationpb.New(latency)}}
}
