package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/clients/internal/reductions"
)

// The table has a row for each region, channel and profile; the JSON report has the same numbers and all bins, and limits
// see them.
func TestProfiles(t *testing.T) {
	args := []string{"reduce", frames + "metal.png", "-r", frames + "metal.regions.json"}
	wanted := []string{"rows", "columns by 4", "radius about (200,150)", "line (20,20)-(300,40) width 9 by 2"}
	for _, w := range wanted {
		args = append(args, "--profile", w)
	}
	out := succeed(t, args...)
	at := strings.Index(out, "\nPROFILE ")
	if at < 0 {
		t.Fatalf("no table of profiles:\n%s", out)
	}
	for _, w := range wanted {
		if !strings.Contains(out[at:], " "+w+" ") {
			t.Errorf("no row for %s:\n%s", w, out[at:])
		}
	}
	var report struct {
		Regions []struct {
			Name     string
			Channels []struct {
				Count, Sum uint64
				Profiles   []profileReport
			}
			Limits []limitReport
		}
	}
	if err := json.Unmarshal([]byte(succeed(t, append(args, "--json", "--stats", "count,sum", "--limit",
		"*: profile(rows).max < 255", "--limit", "*: profile(columns by 4).range > 0")...)), &report); err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Regions {
		for _, c := range r.Channels {
			if len(c.Profiles) != len(wanted) {
				t.Fatalf("%s: %d profiles", r.Name, len(c.Profiles))
			}
			for k, f := range c.Profiles {
				var count, sum uint64
				for b := range f.Counts {
					count, sum = count+f.Counts[b], sum+f.Sums[b]
				}
				bins := uint32(0)
				for _, p := range f.Pieces {
					bins += p.Bins
				}
				if f.Of != wanted[k] || int(bins) != len(f.Counts) || k < 3 && (count != c.Count || sum != c.Sum) {
					t.Errorf("%s: %s: %d bins with %d pixels that sum to %d, want %d and %d", r.Name, f.Of, bins, count, sum,
						c.Count, c.Sum)
				}
			}
			n := len(r.Limits) - 2
			if l := r.Limits[n]; l.Value == nil || *l.Value != *c.Profiles[0].Max {
				t.Errorf("%s: the limit measures %v", r.Name, l.Value)
			}
			if l := r.Limits[n+1]; l.Value == nil || *l.Value != *c.Profiles[1].Range {
				t.Errorf("%s: the limit measures %v", r.Name, l.Value)
			}
		}
	}
	succeed(t, append(args, "--plot", filepath.Join(t.TempDir(), "profiles.png"))...)
}

// A recipe and a regions file keep what profiles are of.
func TestProfileRecipes(t *testing.T) {
	for _, text := range []string{"profile(rows)", "profile(columns by 4)", "profile(radius about (-3.5,20) by 2)",
		"profile(line (1,2)-(30,4.25)-(5,6) width 2.5)"} {
		r, err := reductions.Parse([]string{"mean", text})
		if err != nil {
			t.Fatal(err)
		}
		if got := reductions.Format(r); len(got) != 2 || got[1] != text {
			t.Errorf("%s comes back as %q", text, got)
		}
	}
	for _, text := range []string{"profile", "profile(rows", "profile(diagonal)", "profile(rows by 0)", "profile(line (1,2))"} {
		if _, err := reductions.Parse([]string{text}); err == nil || !strings.Contains(err.Error(), "reductions[0]") {
			t.Errorf("%s: %v", text, err)
		}
	}
	folder := t.TempDir()
	succeed(t, "recipe", "put", "metal", "-r", frames+"metal.regions.json", "--recipes", folder, "--profile", "rows by 3")
	out := succeed(t, "reduce", frames+"metal.png", "--recipe", "metal", "--recipes", folder)
	if !strings.Contains(out, "\nPROFILE ") || !strings.Contains(out, " rows by 3 ") {
		t.Errorf("the recipe's profiles are not there:\n%s", out)
	}
	if _, stderr, code := polyscan(t, "reduce", frames+"metal.png", "-r", frames+"metal.regions.json", "--profile",
		"radius (3,4)"); code != exitUsage || !strings.Contains(stderr, `--profile: "radius (3,4)": column 8: expected "about"`) {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
