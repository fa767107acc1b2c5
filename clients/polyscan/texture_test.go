package main

import (
	"encoding/json"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/clients/internal/reductions"
)

// The table has a row for each region, channel and offset, at 80 columns; the JSON report has the counts where they are
// asked for, and limits see the same numbers.
func TestTextures(t *testing.T) {
	args := []string{"reduce", frames + "metal.png", "-r", frames + "metal.regions.json"}
	out := succeed(t, append(args, "--texture", "neighbours")...)
	at := strings.Index(out, "\nTEXTURE ")
	if at < 0 {
		t.Fatalf("no table of textures:\n%s", out)
	}
	for _, pair := range []string{"1,0", "1,1", "0,1", "-1,1"} {
		if !strings.Contains(out[at:], " "+pair+" ") {
			t.Errorf("no row for the pair %s:\n%s", pair, out[at:])
		}
	}

	var report struct {
		Regions []struct {
			Name     string
			Channels []struct{ Textures []textureReport }
			Limits   []limitReport
		}
	}
	decode := func(more ...string) {
		t.Helper()
		report.Regions = nil
		if err := json.Unmarshal([]byte(succeed(t, append(append(args, "--json"), more...)...)), &report); err != nil {
			t.Fatal(err)
		}
	}
	decode("--texture", "1,0", "--texture", "0,2", "--texture-levels", "16", "--texture-counts", "--limit",
		"*: contrast(1,0) > 0",
		"--limit", "*: correlation(0,2) in [-0.999, 0.999]")
	for _, r := range report.Regions {
		for _, c := range r.Channels {
			if len(c.Textures) != 2 || c.Textures[0].Offset != [2]int32{1, 0} || c.Textures[1].Offset != [2]int32{0, 2} {
				t.Fatalf("%s: textures %+v", r.Name, c.Textures)
			}
			for _, v := range c.Textures {
				if v.Levels != 16 || len(v.Counts) != 16 {
					t.Fatalf("%s: %d levels, %d rows of counts", r.Name, v.Levels, len(v.Counts))
				}
				pairs, contrast := uint64(0), 0.0
				for i, row := range v.Counts {
					for j, n := range row {
						pairs += uint64(n)
						contrast += float64(n) * float64((i-j)*(i-j))
					}
				}
				if pairs != v.Pairs || v.Contrast == nil || math.Abs(contrast/float64(pairs)-*v.Contrast) > 1e-9 {
					t.Errorf("%s: %d pairs of %d, contrast %v", r.Name, pairs, v.Pairs, v.Contrast)
				}
			}
			n := len(r.Limits) - 2
			if l := r.Limits[n]; l.Value == nil || *l.Value != *c.Textures[0].Contrast {
				t.Errorf("%s: the limit measures %v, not %v", r.Name, l.Value, *c.Textures[0].Contrast)
			}
			if l := r.Limits[n+1]; l.Value == nil || *l.Value != *c.Textures[1].Correlation {
				t.Errorf("%s: the limit measures %v, not %v", r.Name, l.Value, *c.Textures[1].Correlation)
			}
		}
	}
	decode()
	if report.Regions[0].Channels[0].Textures != nil {
		t.Error("textures that nobody asked for")
	}
	// Flags about numbers must not move a file's limits to other levels.
	file := write(t, "levels.json", `{"reductions": ["mean", "texture(1,0; 16 levels)"], "regions": [{"name": "a",
		"rings": [[[100, 100], [300, 100], [300, 300], [100, 300]]], "limits": ["contrast(1,0) > 0.1"]}]}`)
	image := "../../testdata/metal.png"
	for _, more := range [][]string{{"--stats", "mean"}, {"--percentiles", "5, 50"}, {"--texture", "1,0"}} {
		_, stderr, code := polyscan(t, append([]string{"reduce", image, "-r", file, "--fail-on-reject"}, more...)...)
		if code != exitUsage || !strings.Contains(stderr, "textures of 16 levels") {
			t.Errorf("%v: exit %d, %s", more, code, stderr)
		}
	}
	// Nor to another matrix.
	board := "../../testdata/board.png"
	matrix := write(t, "matrix.json", `{"reductions": ["color_matrix(1,0,0,0,1,0,0,0,1)"], "regions": [{"name": "a",
		"rings": [[[10, 10], [90, 10], [90, 90]]], "limits": ["matrix.x.mean < 30"]}]}`)
	for _, more := range [][]string{{"--stats", "mean"}, {"--color-matrix", "0.3,0,0,0,1,0,0,0,1"}} {
		for _, args := range [][]string{{"reduce", board}, {"recipe", "put", "r", "--recipes", t.TempDir()}} {
			_, stderr, code := polyscan(t, slices.Concat(args, []string{"-r", matrix}, more)...)
			if code != exitUsage || !strings.Contains(stderr, matrix+": its limits are about colours by its own matrix") {
				t.Errorf("%q, %v: exit %d, %s", args, more, code, stderr)
			}
		}
	}
	if _, stderr, code := polyscan(t, "reduce", board, "-r", matrix, "--fail-on-reject", "--color-matrix",
		"1,0,0,0,1,0,0,0,1"); code != exitReject {
		t.Errorf("by the same matrix: exit %d, %s", code, stderr)
	}
	// Nor to other blobs; how many are told of is no matter.
	dark := write(t, "blobs.json", `{"reductions": ["blobs(<= 60, min area 12)"], "regions": [{"name": "a",
		"rings": [[[100, 100], [500, 100], [500, 500], [100, 500]]], "limits": ["blobs == 0"]}]}`)
	for _, args := range [][]string{{"reduce", image, "--blobs"}, {"stream", "../../testdata/conveyor", "--blobs"}, {"blobs", image, "--find"},
		{"recipe", "put", "r", "--recipes", t.TempDir(), "--blobs"}} {
		_, stderr, code := polyscan(t, slices.Concat(args, []string{"<= 60, min area 200", "-r", dark})...)
		if code != exitUsage || !strings.Contains(stderr, dark+": its limits are about its own blobs (<= 60, min area 12)") {
			t.Errorf("%q: exit %d, %s", args, code, stderr)
		}
	}
	for _, args := range [][]string{{"reduce", "--blobs"}, {"blobs", "--find"}} {
		_, stderr, code := polyscan(t, args[0], image, args[1], "<= 60, min area 12, most 3", "-r", dark, "--fail-on-reject")
		if code != exitReject {
			t.Errorf("%q, the same blobs: exit %d, %s", args, code, stderr)
		}
	}
	same := []string{"reduce", image, "-r", file, "--fail-on-reject", "--texture", "1,0", "--texture-levels", "16"}
	if _, stderr, code := polyscan(t, same...); code != exitReject {
		t.Errorf("at as many levels: exit %d, %s", code, stderr)
	}
	recipes := filepath.Join(t.TempDir(), "recipes")
	succeed(t, "recipe", "put", "levels", "-r", file, "--recipes", recipes)
	put := []string{"recipe", "put", "mean", "-r", file, "--stats", "mean", "--recipes", recipes}
	if _, stderr, code := polyscan(t, put...); code != exitUsage {
		t.Errorf("recipe put: exit %d, %s", code, stderr)
	}
	of := []string{"--recipe", "levels", "--recipes", recipes, "--fail-on-reject"}
	if _, stderr, code := polyscan(t, append([]string{"reduce", image, "--stats", "mean"}, of...)...); code != exitUsage ||
		!strings.Contains(stderr, "must be 16") {
		t.Errorf("a recipe: exit %d, %s", code, stderr)
	}
	if _, stderr, code := polyscan(t, append([]string{"blobs", image, "--find", "<= 60"}, of...)...); code != exitReject {
		t.Errorf("blobs of a recipe: exit %d, %s", code, stderr)
	}
	picture := filepath.Join(t.TempDir(), "pairs.png")
	succeed(t, append(args, "--texture", "1,0", "--plot", picture)...)
}

// A recipe keeps what its textures are of.
func TestTextureRecipes(t *testing.T) {
	for _, text := range []string{"texture", "texture(1,0; 0,1; 32 levels; counts)", "texture(-3,2)",
		"texture(8 levels)"} {
		r, err := reductions.Parse([]string{"mean", text})
		if err != nil {
			t.Fatal(err)
		}
		if got := reductions.Format(r); len(got) != 2 || got[1] != text {
			t.Errorf("%s comes back as %q", text, got)
		}
	}
	for _, text := range []string{"texture(", "texture()", "texture(1)", "texture(1 levels)", "texture(257 levels)",
		"textures"} {
		if _, err := reductions.Parse([]string{text}); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
	folder := t.TempDir()
	succeed(t, "recipe", "put", "metal", "-r", frames+"metal.regions.json", "--recipes", folder, "--texture", "1,0",
		"--texture-levels", "8")
	out := succeed(t, "reduce", frames+"metal.png", "--recipe", "metal", "--recipes", folder)
	if !strings.Contains(out, "\nTEXTURE ") {
		t.Errorf("the recipe's textures are not there:\n%s", out)
	}
}
