package main

// Runs against the real server, as another process.

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	_ "github.com/polyscan/polyscan/internal/shorttest"
)

// playJSON runs the command and returns its report.
func playJSON(t *testing.T, want int, args ...string) *report {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.json")
	out, errs, code := conveyor(t, append(args, "--json", path, "--quiet", "--max-held-up", "1")...) // however busy this machine is
	if code != want {
		t.Fatalf("%v: exit %d, want %d:\n%s%s", args, code, want, out, errs)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r := &report{}
	if err := json.Unmarshal(data, r); err != nil {
		t.Fatal(err)
	}
	return r
}

func transports() []string {
	if runtime.GOOS == "linux" {
		return []string{"tcp", "unix", "shm"}
	}
	return []string{"tcp", "unix"}
}

func TestPlay(t *testing.T) {
	t.Parallel()
	scene := []string{"--width", "512", "--strip-lines", "32", "--part-lines", "100", "--region-count", "9",
		"--defects", "0.3", "--line-rate", "20000",
		"--duration", "0", "--repeat", "30", "--cameras", "2", "--verify"}
	for _, transport := range transports() {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			r := playJSON(t, exitOK, append(slices.Clone(scene), "--transport", transport)...)
			if c := r.Counts; c.Parts != 60 || c.Verdicts.Fail == 0 || c.Verdicts.Pass == 0 ||
				c.Verdicts.Incomplete != 0 || len(c.Events) != 0 ||
				r.Check.Checked != 60 || r.Server.Backend == "" {
				t.Errorf("%+v %+v", c, r.Check)
			}
		})
	}
	t.Run("marked", func(t *testing.T) {
		t.Parallel()
		r := playJSON(t, exitOK, append(slices.Clone(scene), "--trigger", "marked", "--gap", "25")...)
		if c := r.Counts; c.Parts != 60 || r.Check.Checked != 60 {
			t.Errorf("%+v %+v", c, r.Check)
		}
	})
	t.Run("overlapping", func(t *testing.T) {
		t.Parallel()
		// A window every 40 lines that is 100 lines high: several parts are open at a time, and the last ones stay
		// incomplete.
		r := playJSON(t, exitOK, append(slices.Clone(scene), "--every", "40")...)
		if c := r.Counts; c.Parts != 150 || c.Verdicts.Incomplete == 0 ||
			r.Check.Partial != int(c.Verdicts.Incomplete) || r.Check.Checked != 150 {
			t.Errorf("%+v %+v", c, r.Check)
		}
	})
	t.Run("frames", func(t *testing.T) {
		t.Parallel()
		const dir = "../../testdata/conveyor"
		r := playJSON(t, exitOK, dir, "--regions", dir+"/regions.json", "--line-rate", "20000", "--duration", "0",
			"--verify")
		if c := r.Counts; c.Parts != 12 || c.Verdicts.Pass != 11 || c.Verdicts.Fail != 1 || r.Check.Checked != 12 {
			t.Errorf("%+v %+v", c, r.Check)
		}
	})
}

// TestFaults: whatever goes wrong on the way, every part comes back, with the numbers of the lines that did.
func TestFaults(t *testing.T) {
	t.Parallel()
	kinds := []struct {
		fault     string
		event     string
		transport string
	}{
		{"duplicate:0.05", "DUPLICATE", "tcp"}, {"reorder:0.05", "OUT_OF_ORDER", "tcp"}, {"drop:0.03", "GAP", "unix"},
		{"kill:0.02", "", "tcp"}, {"stall:0.01:20ms", "", "unix"},
	}
	if slices.Contains(transports(), "shm") {
		kinds = append(kinds, kinds[0], kinds[1], kinds[3]) // also where strips stay in place
		for i := range 3 {
			kinds[len(kinds)-1-i].transport = "shm"
		}
	}
	for _, tt := range kinds {
		t.Run(tt.fault+" "+tt.transport, func(t *testing.T) {
			t.Parallel()
			r := playJSON(t, exitOK, "--width", "512", "--strip-lines", "32", "--part-lines", "128", "--region-count",
				"9", "--line-rate", "40000",
				"--duration", "0", "--repeat", "100", "--verify", "--fault", tt.fault, "--transport", tt.transport)
			c := r.Counts
			if len(c.Faults) != 1 || r.Check.Checked != int(c.Parts) || c.Parts < 99 {
				t.Errorf("%+v %+v", c, r.Check)
			}
			if tt.event != "" && c.Events[tt.event] == 0 {
				t.Errorf("no %s in %v", tt.event, c.Events)
			}
			if tt.fault[0] == 'k' && c.Reconnects == 0 {
				t.Error("no connection broke")
			}
			if tt.fault[0] == 'd' && tt.event == "GAP" && (c.Verdicts.Incomplete == 0 || r.Check.Partial == 0) {
				t.Error("no part was incomplete")
			}
		})
	}
}

// TestSoak is the short form of conveyor soak: a capacity, a share of it, all faults, and every part checked. What a
// slow machine makes of it is void, and a void run isn't a pass.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 20 s")
	}
	path := filepath.Join(t.TempDir(), "soak.json")
	args := []string{"soak", "--width", "1024", "--strip-lines", "64", "--part-lines", "256", "--region-count", "20",
		"--cameras", "2", "--line-rate", "20000",
		"--step", "400ms", "--duration", "12s", "--min-rate", "200", "--max-rss-growth", "64", "--json", path,
		"--quiet"}
	for _, f := range []string{"duplicate:0.01", "reorder:0.01", "drop:0.01", "stall:0.002:20ms", "kill:0.002"} {
		args = append(args, "--fault", f)
	}
	out, errs, code := conveyor(t, args...)
	switch code {
	case exitOK:
		t.Logf("\n%s", out)
	case exitVoid:
		t.Fatalf("void: the run proves nothing\n%s", out)
	default:
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
}

// TestReportOfDroppedParts: the report doesn't say that every part came back where some were dropped.
func TestReportOfDroppedParts(t *testing.T) {
	t.Parallel()
	out, errs, code := conveyor(t, "--width", "256", "--strip-lines", "64", "--part-lines", "32", "--region-count", "4",
		"--line-rate", "40000", "--repeat", "40", "--duration", "0", "--fault", "drop:0.3", "--quiet", "--max-held-up", "1")
	var dropped int
	line := regexp.MustCompile(`dropped +(\d+) of 40 parts played have no result: the fault dropped their lines`)
	if m := line.FindStringSubmatch(out); m != nil {
		dropped, _ = strconv.Atoi(m[1])
	}
	if code != exitOK || dropped == 0 || !strings.Contains(out, fmt.Sprintf("parts       %d: ", 40-dropped)) ||
		!strings.Contains(out, "only that every part that was not dropped came back") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}
