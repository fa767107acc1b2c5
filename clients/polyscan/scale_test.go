package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// A plate of 4 by 2 pixels of 0.1 by 0.25 mm, by a file, by a flag and by a recipe.
func TestScale(t *testing.T) {
	raw := write(t, "frame.raw", strings.Repeat("\x07", 32))
	const region = `[{"name":"plate","rings":[[[2,1],[6,1],[6,3],[2,3]]],"limits":["area == 0.2 mm2","max.x < 0.04 mm"]}]`
	regions := write(t, "regions.json", region)
	recipe := write(t, "recipe.json", `{"name":"plate","scale":{"mm_per_pixel":[0.1,0.25],"origin":[2,1]},"regions":`+
		region+`}`)
	folder := t.TempDir()
	put := succeed(t, "recipe", "put", "-r", regions, "plate", "--scale", "0.1,0.25@2,1", "--recipes", folder)
	if put != "plate@1: 1 region\n" {
		t.Error(put)
	}
	got := succeed(t, "recipe", "get", "plate", "--recipes", folder)
	if !strings.Contains(got, `"scale": {"mm_per_pixel":[0.1,0.25],"origin":[2,1]},`) {
		t.Error(got)
	}
	again := write(t, "again.json", got)
	converted := write(t, "converted.json", succeed(t, "regions", regions, "--scale", "0.1,0.25@2,1"))
	for _, args := range [][]string{
		{"-r", regions, "--scale", "0.1,0.25@2,1"}, {"-r", recipe}, {"-r", again}, {"-r", converted},
		{"--recipe", "plate", "--recipes", folder},
	} {
		args = append([]string{"reduce", raw, "--raw", "8x4:gray8"}, args...)
		var report frameReport
		if err := json.Unmarshal([]byte(succeed(t, append(args, "--json", "--stats", "max")...)), &report); err != nil {
			t.Fatal(err)
		}
		r := report.Regions[0]
		if r.AreaMM2 == nil || *r.AreaMM2 != 0.2 || *r.CountMM2 != 0.2 || *r.BoundsMM != [4]float64{0, 0, 0.4, 0.5} ||
			*r.Channels[0].MaxAtMM != [2]float64{0.05, 0.125} || *r.Limits[1].Value != 0.05 {
			t.Errorf("%v: %+v", args, r)
		}
		table := succeed(t, args...)
		for _, want := range []string{"MM2", "0.2 ", "max.x 0.05 mm is above 0.04 mm"} {
			if !strings.Contains(table, want) {
				t.Errorf("%v: no %q in\n%s", args, want, table)
			}
		}
	}
	// A flag that says something else than the file wins, and says so.
	base := []string{"reduce", raw, "--raw", "8x4:gray8", "--json", "-r", recipe, "--scale"}
	const won = `recipe.json: --scale 0.2 takes the place of the file's own scale, 0.1,0.25@2,1`
	if out, stderr, code := polyscan(t, append(base, "0.2")...); code != exitOK || !strings.Contains(stderr, won) ||
		!strings.Contains(out, `"area_mm2":0.32`) {
		t.Errorf("another scale: %d, %s, %s", code, stderr, out)
	}
	if _, stderr, code := polyscan(t, append(base, "0.2", "--strict")...); code != exitUsage ||
		!strings.Contains(stderr, won) {
		t.Errorf("another scale, strictly: %d, %s", code, stderr)
	}
	if _, stderr, code := polyscan(t, append(base, "0.1,0.25@2,1")...); code != exitOK || stderr != "" {
		t.Errorf("the same scale: %d, %s", code, stderr)
	}
	refused := func(want string, args ...string) {
		t.Helper()
		if _, stderr, code := polyscan(t, args...); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%v: %d, %s, want %q", args, code, stderr, want)
		}
	}
	for flag, want := range map[string]string{
		"0":           `--scale "0": want millimetres per pixel, such as 0.05 or 0.05,0.04@12,40`,
		"a":           "want millimetres per pixel",
		"1,2,3":       "want millimetres per pixel",
		"0.1@3":       "want a place in pixels behind @",
		"0.1@3,x":     "want a place in pixels behind @",
		"1e300":       "must be 1e-09 to 1e+09 mm per pixel",
		"1e-10":       "--scale 1e-10: must be 1e-09 to 1e+09 mm per pixel",
		"0.1@nan,0":   "want a place in pixels behind @",
		"0.1@1e300,0": "--scale 1e+300: must be less than",
		"0.1@1e9,":    "want a place in pixels behind @",
	} {
		refused(want, "reduce", raw, "--raw", "8x4:gray8", "-r", regions, "--scale", flag)
		refused(want, "regions", regions, "--scale", flag)
	}
	refused("the regions have no scale, and mm needs one", "reduce", raw, "--raw", "8x4:gray8", "-r", regions)
	refused("a recipe has the scale that it was put with", "reduce", raw, "--raw", "8x4:gray8", "--recipe", "plate",
		"--recipes", folder, "--scale", "1")
}

// TestShapesInMillimetres: a shape in mm has the pixels of the same one in pixels, wherever it comes from.
func TestShapesInMillimetres(t *testing.T) {
	t.Parallel()
	board := frames + "board.png"
	regions := []string{"-r", frames + "board.regions.json", "--scale", "0.05@20,10"}
	px, mm := `spot: "U1" and circle(420, 292, 10)`, `spot: "U1" and circle(20 mm, 14.1 mm, 0.5 mm)`
	want := succeed(t, append([]string{"regions", "--pixels", "--shape", px}, regions[1:]...)...)
	got := succeed(t, append([]string{"regions", "--pixels", "--shape", mm}, regions[1:]...)...)
	if got != want || !strings.Contains(got, `"mask"`) {
		t.Error("regions --pixels finds other pixels of a shape in mm")
	}
	folder := t.TempDir()
	succeed(t, append([]string{"recipe", "put", "board", "--shape", mm, "--limit", "spot: mean < 250",
		"--recipes", folder}, regions...)...)
	limit := []string{"--limit", "spot: count in [309, 321]", "--json"}
	report := succeed(t, append(append([]string{"reduce", board, "--shape", mm, "--overlay", t.TempDir() + "/o.png"},
		limit...), regions...)...)
	if !strings.Contains(report, `"spot"`) {
		t.Error(report)
	}
	if out := succeed(t, "mask", board, "--recipe", "board", "--recipes", folder, "-o", folder+"/m.png"); out == "" {
		t.Error("no mask")
	}
	_, stderr, code := polyscan(t, "reduce", board, "-r", frames+"board.regions.json", "--shape", mm)
	if code != exitUsage || !strings.Contains(stderr, "column 20: the regions have no scale, and mm needs one") {
		t.Errorf("without a scale: %d, %s", code, stderr)
	}
}
