package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/clients/internal/reductions"
)

// The table has a row for each region, channel and pair; the JSON report has the same numbers, and
// limits see them, those of a golden frame too.
func TestCorrelations(t *testing.T) {
	args := []string{"reduce", frames + "metal.png", "-r", frames + "metal.regions.json"}
	out := succeed(t, append(args, "--correlate", "autocorrelation(8,0)", "--correlate", "radial(2)")...)
	at := strings.Index(out, "\nCORRELATION ")
	if at < 0 {
		t.Fatalf("no table of correlations:\n%s", out)
	}
	for _, pair := range []string{"autocorrelation(8,0)", "radial(0)", "radial(1)", "radial(2)"} {
		if !strings.Contains(out[at:], " "+pair+" ") {
			t.Errorf("no row for %s:\n%s", pair, out[at:])
		}
	}

	var report struct {
		Regions []struct {
			Name     string
			Channels []struct {
				Variance     float64
				Correlations []correlationReport
			}
			Limits []limitReport
		}
	}
	if err := json.Unmarshal([]byte(succeed(t, append(args, "--json", "--golden",
		another(t, frames+"metal.png"), "--correlate",
		"channels",
		"--correlate", `ncc of "golden"`, "--correlate", "autocorrelation(3,-1)", "--limit",
		`*: ncc of "golden" at (0,0) >= 1`,
		"--limit", "*: autocorrelation(3,-1) > -1")...)), &report); err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Regions {
		for _, c := range r.Channels {
			if len(c.Correlations) != 3 || c.Correlations[0].Of != "correlation(gray)" ||
				c.Correlations[1].Of != `ncc of "golden" at (0,0)` || c.Correlations[2].Of != "autocorrelation(3,-1)" {
				t.Fatalf("%s: correlations %+v", r.Name, c.Correlations)
			}
			if v := c.Correlations[0].Covariance; v == nil || *v != c.Variance || *c.Correlations[1].Correlation != 1 {
				t.Errorf("%s: the covariance with itself is %v, the variance %v", r.Name, v, c.Variance)
			}
			n := len(r.Limits) - 2
			if l := r.Limits[n]; l.Value == nil || *l.Value != 1 || *l.Verdict != "PASS" {
				t.Errorf("%s: with itself %+v", r.Name, l)
			}
			if l := r.Limits[n+1]; l.Value == nil || *l.Value != *c.Correlations[2].Correlation {
				t.Errorf("%s: the limit measures %v", r.Name, l.Value)
			}
		}
	}
	picture := filepath.Join(t.TempDir(), "correlogram.png")
	succeed(t, append(args, "--correlate", "radial(8)", "--correlate", "autocorrelation(4,0)", "--plot", picture)...)
	out = succeed(t, "stream", frames+"conveyor", "-r", frames+"conveyor/regions.json", "--golden", "good="+
		another(t, frames+"conveyor/frame_001.png"),
		"--limit", `*: ncc of "good" > -1`, "--limit", "*: ncc of the frame before > -1", "-q")
	if !strings.Contains(out, "10 PASS, 2 FAIL") { // one has a defect, and the first has none before it
		t.Errorf("of a stream with a defect:\n%s", out)
	}
}

// A recipe keeps what its correlations are of, and the frames that they speak of.
func TestCorrelationRecipes(t *testing.T) {
	for _, text := range []string{"autocorrelation(8,0)", "radial(32)", `ncc of "golden" at (-1,2)`,
		"ncc of the frame before at (0,0)", "channels", "correlation(green)"} {
		r, err := reductions.Parse([]string{"mean", text})
		if err != nil {
			t.Fatal(err)
		}
		if got := reductions.Format(r); len(got) != 2 || got[1] != text {
			t.Errorf("%s comes back as %q", text, got)
		}
	}
	for _, text := range []string{"autocorrelation(8)", "radial(33)", "ncc of golden", "channel",
		"r.autocorrelation(1,0)"} {
		if _, err := reductions.Parse([]string{text}); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
	folder := t.TempDir()
	succeed(t, "recipe", "put", "metal", "-r", frames+"metal.regions.json", "--recipes", folder, "--correlate",
		"radial(3)",
		"--golden", "golden=SOMEFRAME", "--limit", `*: ncc of "golden" > 0`)
	out := succeed(t, "recipe", "get", "metal", "--recipes", folder)
	if !strings.Contains(out, `"frames": {"golden":"SOMEFRAME"}`) {
		t.Errorf("the recipe's frames are not there:\n%.400s", out)
	}
	if _, stderr, code := polyscan(t, "reduce", frames+"metal.png", "--recipe", "metal", "--recipes",
		folder); code != exitUsage ||
		!strings.Contains(stderr, `the recipe compares with the frame "golden": "SOMEFRAME" is no resident frame`) {
		t.Errorf("without the recipe's frame: exit %d: %s", code, stderr)
	}
	out = succeed(t, "reduce", frames+"metal.png", "--recipe", "metal", "--recipes", folder, "--golden",
		another(t, frames+"metal.png"))
	if !strings.Contains(out, "\nCORRELATION ") {
		t.Errorf("the recipe's correlations are not there:\n%s", out)
	}
}

// another is a copy of a file: a frame to compare with isn't the judged one itself.
func another(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, filepath.Base(path), string(data))
}

// TestGoldenIsAnother: the judged file given as the frame to compare with agrees with itself, whatever it shows.
func TestGoldenIsAnother(t *testing.T) {
	metal := frames + "metal.png"
	for _, c := range [][]string{{"reduce", metal, "-r", frames + "metal.regions.json", "--golden", metal},
		{"stream", frames + "conveyor", "-r", frames + "conveyor/regions.json", "--golden", "golden=" + frames +
			"conveyor/../conveyor/frame_003.png"}} {
		args := append(c, "--limit", `*: ncc of "golden" > 0.2`)
		if _, stderr, code := polyscan(t, args...); code != exitOK || strings.Count(stderr, "\n") != 1 ||
			!strings.Contains(stderr, " itself: whatever compares the two passes") {
			t.Errorf("%q: exit %d: %s", args, code, stderr)
		}
		if _, stderr, code := polyscan(t, append(args, "--strict")...); code != exitUsage ||
			!strings.Contains(stderr, "passes (--strict)") {
			t.Errorf("%q --strict: exit %d: %s", args, code, stderr)
		}
	}
}
