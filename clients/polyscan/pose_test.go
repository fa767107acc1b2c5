package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPose: --pose moves regions, shapes among them, and the overlay shows them where they were moved to.
func TestPose(t *testing.T) {
	t.Parallel()
	drawn := write(t, "drawn.json", `[{"name":"a","rings":[[[40,50],[90,50],[90,80],[40,80]]]},
		{"name":"b","shape":"circle(200.5, 100.5, 20) - \"a\""}]`)
	moved := write(t, "moved.json", `[{"name":"a","rings":[[[47.25,46],[97.25,46],[97.25,76],[47.25,76]]]},
		{"name":"b","shape":"circle(207.75, 96.5, 20) - \"a\""}]`)
	at := func(regions string, more ...string) (r struct {
		Pose    []float64
		Regions []struct {
			Count    uint64
			Bounds   []int
			Channels []struct{ Sum uint64 }
		}
	}, picture string) {
		t.Helper()
		picture = filepath.Join(t.TempDir(), "overlay.png")
		out := succeed(t, append([]string{"reduce", frames + "board.png", "-r", regions, "--json", "--overlay", picture},
			more...)...)
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(picture)
		if err != nil {
			t.Fatal(err)
		}
		return r, string(data)
	}
	want, picture := at(moved)
	for _, pose := range []string{"7.25,-4", "7.25,-4,0", "7.25,-4,0,1@3,4", "1,0,7.25,0,1,-4"} {
		got, same := at(drawn, "--pose", pose)
		if !slices.Equal(got.Pose, []float64{1, 0, 7.25, 0, 1, -4}) || want.Pose != nil {
			t.Errorf("--pose %s: %v", pose, got.Pose)
		}
		for i := range want.Regions {
			if a, b := got.Regions[i], want.Regions[i]; a.Count != b.Count || !slices.Equal(a.Bounds, b.Bounds) ||
				a.Channels[0] != b.Channels[0] {
				t.Errorf("--pose %s: %+v, want %+v", pose, a, b)
			}
		}
		if same != picture {
			t.Errorf("--pose %s: another overlay", pose)
		}
	}
	for _, c := range []struct{ pose, want string }{
		{"7", "want a shift"}, {"1,2,3,4,5", "want a shift"}, {"1,2@3,4", "want a shift"}, {"a,b", "want a shift"},
		{"1,2,3@4", "want a shift"}, {"1,2,3,-1", "the scale -1 must be above 0"}, {"1,2,3,9", "9 times along x"},
		{"1,2,NaN", "want a shift"},
	} {
		_, errs, code := polyscan(t, "reduce", frames+"board.png", "-r", drawn, "--pose", c.pose)
		if code != exitUsage {
			t.Errorf("--pose %s: exit %d", c.pose, code)
		}
		if !strings.Contains(errs, c.want) {
			t.Errorf("--pose %s: %q lacks %q", c.pose, errs, c.want)
		}
	}
	succeed(t, "blobs", frames+"board.png", "-r", drawn, "--find", ">= 200, channel g", "--pose", "1,2", "--overlay",
		filepath.Join(t.TempDir(), "p.png"))
	out := succeed(t, "stream", frames+"conveyor", "-r", frames+"conveyor/regions.json", "--pose", "0.5,0", "--json", "-q")
	if !strings.Contains(out, `"complete":true`) {
		t.Error(out)
	}
}
