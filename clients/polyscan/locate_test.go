package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// TestLocateBoard: the board that was shifted by 7.3 px, turned by 1.2 degrees and shaded by 30 % is found where it
// lies, and has the verdicts of the straight one: from a file, by a recipe, in a stream, and by a recipe that went
// through a file.
func TestLocateBoard(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	const data = "../../testdata/"
	recipe, moved, field := data+"moved/board.recipe.json", data+"moved/board.png", in("light.flat")
	succeed(t, "flat", data+"moved/white.png", "--level", "200", "-o", field)
	var truth struct {
		Pose     []float64
		Rotation float64
	}
	text, err := os.ReadFile(data + "moved/truth.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &truth); err != nil {
		t.Fatal(err)
	}
	var found locationReport
	out := succeed(t, "locate", moved, "-r", recipe, "--flat", field, "--json", "--overlay", in("o.png"))
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		t.Fatal(err)
	}
	if !found.Found || math.Abs(*found.Rotation-truth.Rotation) > 0.02 || len(found.Marks) != 3 {
		t.Errorf("%s", out)
	}
	for _, at := range [][2]float64{{480, 320}, {116, 40}, {840, 600}} {
		to := func(p []float64) (x, y float64) {
			return p[0]*at[0] + p[1]*at[1] + p[2], p[3]*at[0] + p[4]*at[1] + p[5]
		}
		x, y := to(found.Pose)
		if wx, wy := to(truth.Pose); math.Hypot(x-wx, y-wy) > 0.05 {
			t.Errorf("(%v, %v) comes to (%.3f, %.3f), want (%.3f, %.3f)", at[0], at[1], x, y, wx, wy)
		}
	}
	if st, err := os.Stat(in("o.png")); err != nil || st.Size() == 0 {
		t.Error(err)
	}
	for _, want := range []string{"FIDUCIAL", "F1  ", "FOUND: turned by 1."} {
		if out := succeed(t, "locate", moved, "-r", recipe, "--flat", field); !strings.Contains(out, want) {
			t.Errorf("%q lacks %q", out, want)
		}
	}

	verdicts := regexp.MustCompile(`"name":"([^"]*)","channels".*?"verdict":"?(PASS|FAIL|null)`)
	of := func(args ...string) (list string) {
		t.Helper()
		for _, m := range verdicts.FindAllStringSubmatch(succeed(t, append(args, "--json", "--stats", "mean")...), -1) {
			list += m[1] + " " + m[2] + "; "
		}
		return list
	}
	straight := of("reduce", data+"board.png", "-r", data+"board.regions.json")
	if !strings.Contains(straight, "R7 FAIL") || strings.Count(straight, "PASS") < 60 {
		t.Fatalf("%s", straight)
	}
	recipes := in("recipes")
	succeed(t, "recipe", "put", "board", "-r", recipe, "--flat", field, "--recipes", recipes)
	kept := succeed(t, "recipe", "get", "board", "--recipes", recipes)
	again := write(t, "board.json", kept)
	if !strings.Contains(kept, `"rect(88, 12, 144, 68)"`) {
		t.Errorf("%s", kept)
	}
	succeed(t, "recipe", "put", "again", "-r", again, "--recipes", recipes)
	if converted := succeed(t, "regions", recipe); !strings.Contains(converted, `"locate"`) {
		t.Errorf("%s", converted)
	}
	for _, args := range [][]string{
		{"reduce", data + "board.png", "-r", recipe},
		{"reduce", moved, "-r", recipe, "--flat", field},
		{"reduce", moved, "--recipe", "board", "--recipes", recipes},
		{"reduce", moved, "--recipe", "again", "--recipes", recipes},
	} {
		if got := of(args...); got != straight {
			t.Errorf("%v:\n%s\nwant\n%s", args, got, straight)
		}
	}
	if got := of("reduce", moved, "-r", data+"board.regions.json", "--flat", field); got == straight {
		t.Error("the moved board passes where it isn't located")
	}

	// Where a mark isn't there, nothing passes.
	blank := write(t, "blank.json", strings.Replace(kept, "rect(88, 12, 144, 68)", "rect(420, 300, 500, 380)", 1))
	for _, args := range [][]string{{"locate", moved}, {"reduce", moved, "--fail-on-reject"}} {
		out, _, code := polyscan(t, append(args, "-r", blank, "--flat", field)...)
		if code != exitReject || !strings.Contains(out, `NOT FOUND: fiducial "F1"`) {
			t.Errorf("%v: exit %d: %s", args, code, out)
		}
	}
	for old, want := range map[string]string{
		`"kind":"circle"`:     "want one of circle, square, cross",
		`"name":"F2"`:         `fiducials[1]: the key "nmae" is not known here; did you mean "name"?`,
		`"at":[115.93,39.91]`: `fiducials[0] "F1": at: 1 number, expected [x, y]`,
	} {
		text, err := os.ReadFile(recipe)
		if err != nil {
			t.Fatal(err)
		}
		change := map[string]string{`"kind":"circle"`: `"kind":"disc"`, `"name":"F2"`: `"nmae":"F2"`,
			`"at":[115.93,39.91]`: `"at":[115.93]`}[old]
		bad := write(t, "bad.json", strings.Replace(string(text), old, change, 1))
		if _, errs, code := polyscan(t, "locate", moved, "-r", bad); code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d: %q lacks %q", change, code, errs, want)
		}
	}
	if _, errs, code := polyscan(t, "locate", moved, "-r", data+"board.regions.json"); code != exitUsage ||
		!strings.Contains(errs, "has no locate section") {
		t.Errorf("exit %d: %s", code, errs)
	}

	// A pose of the call goes before, and says so; what draws regions as they were drawn says that, too.
	out, _, _ = polyscan(t, "reduce", data+"board.png", "-r", data+"board.regions.json", "--pose", "1,1", "--stats", "mean")
	const unsearched = "\nnot searched for: --pose says where the part lies\n"
	if strings.Contains(out, "not searched") {
		t.Errorf("%s", out)
	}
	for _, args := range [][]string{{"reduce", moved}, {"blobs", moved, "--find", ">= 250, channel r"},
		{"stream", data + "moved", "--quiet"}} {
		for _, of := range [][]string{{"-r", recipe}, {"--recipe", "board", "--recipes", recipes}} {
			args := append(append(args, of...), "--pose", "1,1")
			if out, errs, _ := polyscan(t, args...); !strings.HasSuffix(out, unsearched) {
				t.Errorf("%v: %s, %s", args, out, errs)
			}
		}
	}
	const asDrawn = "it has a locate section, but no part is searched for here: the regions are where they were drawn"
	for _, args := range [][]string{{"mask", moved}, {"fill", moved}, {"background", moved}} {
		args = append(args, "-r", recipe, "-o", in("out.png"))
		if _, errs, code := polyscan(t, args...); code != exitOK || !strings.Contains(errs, asDrawn) {
			t.Errorf("%v: exit %d: %s", args, code, errs)
		}
		if _, errs, code := polyscan(t, append(args, "--strict")...); code != exitUsage ||
			!strings.Contains(errs, asDrawn+" (--strict)") {
			t.Errorf("%v: exit %d: %s", args, code, errs)
		}
	}
	_, errs, _ := polyscan(t, "mask", moved, "--recipe", "board", "--recipes", recipes, "-o", in("out.png"))
	if !strings.Contains(errs, asDrawn) {
		t.Errorf("%s", errs)
	}
	help := succeed(t, "locate", "--help")
	for _, name := range regexp.MustCompile(`testdata/[\w./]+`).FindAllString(help, -1) {
		if _, err := os.Stat("../../" + name); err != nil {
			t.Error(err)
		}
	}
}

// TestLocateWithoutLimits: regions that are located and have no limits can fail a part, by its not being found, and
// every way to see it says why.
func TestLocateWithoutLimits(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	const data = "../../testdata/moved/"
	text, err := os.ReadFile(data + "board.recipe.json")
	if err != nil {
		t.Fatal(err)
	}
	var whole map[string]any
	if err := json.Unmarshal(text, &whole); err != nil {
		t.Fatal(err)
	}
	for _, g := range whole["regions"].([]any) {
		delete(g.(map[string]any), "limits")
	}
	if text, err = json.Marshal(whole); err != nil {
		t.Fatal(err)
	}
	measures := string(text)
	file, field, recipes, frames := write(t, "measures.json", measures), in("light.flat"), in("recipes"), in("frames")
	lost := write(t, "lost.json", strings.Replace(measures, "rect(88, 12, 144, 68)", "rect(420, 300, 500, 380)", 1))
	succeed(t, "flat", data+"white.png", "--level", "200", "-o", field)
	board, err := os.ReadFile(data + "board.png")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(frames, 0o777), os.WriteFile(filepath.Join(frames, "board.png"), board, 0o666)); err != nil {
		t.Fatal(err)
	}
	_, errs, code := polyscan(t, "recipe", "put", "measures", "-r", file, "--recipes", recipes)
	const noVerdict = "no region has limits: a part that is not found is FAIL, and one that is found has no verdict"
	if code != exitOK || !strings.Contains(errs, noVerdict) {
		t.Errorf("exit %d: %s", code, errs)
	}
	const notFound = `the part was not found: fiducial "F1": `
	for _, c := range []struct {
		args string
		code int
		want []string
	}{
		{"reduce BOARD -r FILE", exitOK, []string{"\nno limits\nFOUND: "}},
		{"reduce BOARD --recipe measures --recipes RECIPES", exitOK, []string{"\nno limits\nFOUND: "}},
		{"stream FRAMES -r FILE", exitOK, []string{"1 no limits\n"}},
		{"reduce BOARD -r LOST", exitReject, []string{"\nFAIL (no limits)\nNOT FOUND: fiducial \"F1\": "}},
		{"stream FRAMES -r LOST --csv CSV", exitReject, []string{"FAIL board.png  " + notFound}},
		{"stream FRAMES -r LOST --json", exitReject,
			[]string{`"rejected":[{"sequence":0,"frame":"board.png","regions":[],"not_found":"fiducial \"F1\": `}},
		{"reduce BOARD -r FILE --pose 1,1", exitUsage, []string{"has limits, and with --pose no part is searched for"}},
	} {
		args := strings.NewReplacer("BOARD", data+"board.png", "FRAMES", frames, "FILE", file, "LOST", lost, "CSV", in("o.csv"),
			"RECIPES", recipes).Replace(c.args)
		out, errs, code := polyscan(t, append(strings.Fields(args), "--flat", field, "--fail-on-reject")...)
		for _, want := range c.want {
			if code != c.code || !strings.Contains(out+errs, want) {
				t.Errorf("%s: exit %d: %s%s lacks %q", c.args, code, out, errs, want)
			}
		}
	}
	rows, err := os.ReadFile(in("o.csv"))
	if lines := strings.Count(string(rows), "\n"); err != nil || strings.Count(string(rows), "the part was not found") != lines-1 {
		t.Errorf("%v: %s", err, rows)
	}
}

// TestWhereText: lines of watch and rows of the history's table say where a part lay, or why it was not found.
func TestWhereText(t *testing.T) {
	lost := &polyscanv1.Location{Reason: `fiducial "B": no bright circle`}
	at := &polyscanv1.Pose{Affine: []float64{0, -1, 7.3, 1, 0, -4}}
	for want, v := range map[string]*polyscanv1.WatchVerdict{
		`FAIL      0.00 µs  the part was not found: fiducial "B": no bright circle`: {Location: lost,
			Verdict: polyscanv1.Verdict_VERDICT_FAIL},
		"PASS      0.00 µs  at 7.30,-4.00 turned 90.00°": {Pose: at, Verdict: polyscanv1.Verdict_VERDICT_PASS},
	} {
		var out bytes.Buffer
		w := &watchPrinter{env: &env{stdout: &out}, headed: true}
		if err := w.verdict("12:00:00", v); err != nil || !strings.HasSuffix(out.String(), want+"\n") {
			t.Errorf("%v: %q, want %q", err, out.String(), want)
		}
	}
	row := partCells(&env{}, &polyscanv1.HistoryPart{Pose: at, Reason: "late"})
	if why := row[len(row)-1].text; why != "late, at 7.30,-4.00 turned 90.00°" {
		t.Errorf("%q", why)
	}
}
