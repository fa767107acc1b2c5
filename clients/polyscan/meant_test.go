package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/clients/internal/reductions"

	"google.golang.org/protobuf/proto"
)

// TestSaysWhatIsMissing: what was asked for and can't be done, or was given and is of no use, is an error before
// anything is computed, one for the whole call, in the words of the command line.
func TestSaysWhatIsMissing(t *testing.T) {
	misspelt := write(t, "misspelt.json", `[{"name":"a","rings":[[[1,1],[9,1],[9,9]]],"limit":["max below 9"]}]`)
	with := func(more, ofRegion string) []string {
		return []string{"-r", write(t, "keys.json", `{"name":"r","regions":[{"name":"a","rings":[[[1,1],[9,1],[9,9]]],`+
			`"limits":["max < 9"]`+ofRegion+`}]`+more+`}`)}
	}
	lost := []string{"-r", write(t, "lost.json", `{"shapes":[{"label":"a","shape_type":"line","points":[[1,1],[5,5]],`+
		`"flags":{"mean < 50":true}},{"label":"b","points":[[1,1],[9,1],[9,9]],"flags":{"mean > 1":true}}]}`)}
	const skipped = `lost.json: shapes[0] "a" is skipped or not read as it is drawn, so that limits on it would be of nothing`
	board, metal, belt, dir := frames+"board.png", frames+"metal.png", frames+"conveyor", t.TempDir()
	inBoard, inMetal := []string{"-r", frames + "board.regions.json"}, []string{"-r", frames + "metal.regions.json"}
	inBelt := []string{"-r", belt + "/regions.json"}
	recipes := []string{"--recipes", filepath.Join(dir, "recipes")}
	const compared = `*: ncc of "golden" > 0.9`
	for _, c := range []struct {
		args []string
		more []string
		want string
	}{
		{[]string{"reduce", board, "--golden", board}, inBoard,
			`--golden "golden": is spoken of by no limit and no correlation`},
		{[]string{"stream", belt, "--golden", "gold=" + metal, "--limit", compared}, inBelt,
			`--golden "gold": is spoken of by no limit and no correlation`},
		{append([]string{"recipe", "put", "r", "--golden", "gold=FRAME"}, recipes...), inMetal,
			`--golden "gold": is spoken of by no limit and no correlation`},
		{[]string{"reduce", metal}, []string{"-r", write(t, "frames.json", `{"frames":{"golden":"x"},"regions":[{"name":"a",
			"rings":[[[0,0],[9,0],[9,9]]]}]}`)}, `frames.json: frames: "golden": is spoken of by no limit and no correlation`},
		{[]string{"reduce", metal, "--limit", compared}, inMetal,
			`--golden: a limit or a correlation compares with "golden", and there is no frame of that name`},
		{[]string{"stream", belt, "--limit", compared}, inBelt,
			`--golden: a limit or a correlation compares with "golden", and there is no frame of that name`},
		{[]string{"reduce", metal, "--limit", compared, "--golden", board}, inMetal,
			`--golden "golden": has 960x640 pixels of rgb8, the frame 1024x512 of gray8: they must be alike`},
		{[]string{"reduce", board, "--blobs", ">= 9"}, inBoard,
			"--blobs: channel gray: the frame (rgb8) has no such channel of its own: want channel red or green or blue"},
		{[]string{"blobs", board, "--find", ">= 9, channel a"}, nil,
			"--find: channel alpha: the frame (rgb8) has no such channel of its own: want channel red or green or blue"},
		{[]string{"reduce", metal, "--limit", "*: blobs <= 3"}, inMetal,
			`"blobs <= 3": is about blobs, and --blobs does not say what they are`},
		{[]string{"stream", belt, "--limit", "*: blobs <= 3"}, inBelt,
			`"blobs <= 3": is about blobs, and --blobs does not say what they are (and 9 more)`},
		{[]string{"reduce", metal, "--correlate", "radial(99)"}, inMetal,
			`polyscan: --correlate: "radial(99)": column 8: radial(99) has a distance that is not 0 to 32`},
		{[]string{"blobs", metal, "--find", "opne 3x3"}, inMetal,
			`--find: "opne 3x3": opne is no part of it: did you mean open?`},
		{[]string{"blobs", metal, "--find", ">= 9, steps 3x3"}, inMetal, `--find: "steps 3x3": want a range such as`},
		{[]string{"reduce", metal, "--format", "bayer_xx8"}, inMetal, "polyscan: --format bayer_xx8: want gray8,"},
		{[]string{"reduce", metal, "--shape", `a: "a"+rect(1,1,5,5)`}, nil, `column 1: "a" is made of itself` + "\n"},
		{[]string{"diffuse", board, "-o", filepath.Join(dir, "f.png")}, nil,
			"board.png: the picture is opaque: all pixels are given, and there is nothing to diffuse"},
		{append([]string{"recipe", "put", "r", "-r", misspelt}, recipes...), nil,
			`misspelt.json: a key is ignored that looks like "limits", misspelt or at another place: correct it`},
		{append([]string{"recipe", "put", "--strict", "--golden", "g=NEW"}, recipes...), with(`,"frames":{"g":"OLD"}`, ""),
			"keys.json: --golden g=NEW takes the place of the file's own frame, OLD (--strict)"},
		{append([]string{"recipe", "put", "--golden", "g=A", "--golden", "g=B"}, recipes...), with("", ""),
			"--golden g=B: each frame needs a name of its own"},
		{append([]string{"recipe", "put"}, recipes...), with(`,"reductons":["mean"]`, ""), `looks like "reductions"`},
		{[]string{"reduce", metal, "--fail-on-reject"}, with("", `,"refrence":{"region":"a"}`), `looks like "reference"`},
		{[]string{"stream", belt, "--fail-on-reject"}, with(`,"scal":0.1`, ""), `looks like "scale"`},
		{[]string{"try", "--good", metal, "--fail-on-error"}, with("", `,"fil":"evenodd"`), `looks like "fill"`},
		{append([]string{"recipe", "put", "r"}, recipes...), lost, skipped},
		{[]string{"regions", misspelt}, nil, `misspelt.json: a key is ignored that looks like "limits"`},
		{[]string{"regions", lost[1]}, nil, skipped},
		{[]string{"reduce", metal, "--fail-on-reject"}, lost, skipped},
		{[]string{"stream", belt, "--fail-on-reject"}, lost, skipped},
		{[]string{"try", "--good", metal, "--fail-on-error"}, lost, skipped},
		{[]string{"reduce", metal}, with(`,"reductions":["mean","p99"]`, ""),
			`keys.json: reductions[1]: "p99" is none of the statistics: did you mean "percentiles(99)"?`},
		{[]string{"reduce", metal}, with(`,"reductions":["blobs(<= 60)","blobs(>= 200)"]`, ""),
			`reductions[1]: "blobs(>= 200)" comes a second time, first as "blobs(<= 60)": write one of them`},
		{[]string{"reduce", metal}, with(`,"reductions":["texture(1,0)","mean","Texture"]`, ""),
			`reductions[2]: "Texture" comes a second time`},
		{[]string{"recipe", "put", "r"}, with(`,"reductions":["percentiles(1)","percentiles(99)"]`, ""),
			`reductions[1]: "percentiles(99)" comes a second time`},
		{[]string{"stream", belt, "--stats", "mean"}, with(`,"reductions":["histgram(8)"]`, ""),
			`keys.json: reductions[0]: "histgram(8)" is none of the statistics: did you mean "histogram"?`},
		{[]string{"mask", metal, "-o", filepath.Join(dir, "f.png")}, with(`,"reductions":[""]`, ""),
			`keys.json: reductions[0]: "" is none of the statistics: want count, sum,`},
		{append([]string{"recipe", "put"}, recipes...), with(`,"reductions":["radial(99)"]`, ""),
			`keys.json: reductions[0]: "radial(99)": column 8: radial(99) has a distance that is not 0 to 32`},
	} {
		stdout, stderr, code := polyscan(t, append(c.args, c.more...)...)
		if code != exitUsage || !strings.Contains(stderr, c.want) || stdout != "" ||
			strings.Count(stderr, "\n") != 1+strings.Count(stderr, "warning:") {
			t.Errorf("%q: exit %d\n%s%s", c.args, code, stdout, stderr)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "f.png")); err == nil {
		t.Error("diffuse has written a picture")
	}
}

// TestLimitOfEveryNamesake: --limit by a name holds for all regions that have it in a file of any format, and by the
// name that one of them is given, for that one.
func TestLimitOfEveryNamesake(t *testing.T) {
	const shape = `{"label":"a","points":[[1,1],[9,1],[9,9]]}`
	const feature = `{"type":"Feature","properties":{"name":"a"},"geometry":{"type":"Polygon","coordinates":` +
		`[[[1,1],[9,1],[9,9],[1,1]]]}}`
	const own = `{"name":"a","rings":[[[1,1],[9,1],[9,9]]]}`
	for _, text := range []string{
		`{"shapes":[` + shape + `,` + shape + `]}`,
		`{"type":"FeatureCollection","features":[` + feature + `,` + feature + `]}`,
		`<svg xmlns="http://www.w3.org/2000/svg"><rect id="a" width="9" height="9"/>` +
			`<rect id="a" width="5" height="5"/></svg>`,
		`[` + own + `,` + own + `]`,
		`{"regions":[` + own + `,` + own + `]}`,
	} {
		file := write(t, "twice", text)
		for name, want := range map[string]int{"a": 2, "?": 2, "a#2": 1, "*": 2} {
			got, stderr, code := polyscan(t, "regions", file, "--limit", name+": mean < 80")
			if n := strings.Count(got, `"mean < 80"`); code != exitOK || n != want || !strings.Contains(got, `"a#2"`) {
				t.Errorf("--limit %q of %s: exit %d, %d limits, want %d\n%s", name, text, code, n, want, stderr)
			}
		}
	}
	file := write(t, "twice.json", `{"imageWidth":1024,"imageHeight":512,"shapes":[`+
		`{"label":"a","points":[[10,10],[110,10],[110,60],[10,60]]},`+
		`{"label":"a","points":[[200,10],[300,10],[300,60],[200,60]]}]}`)
	_, stderr, code := polyscan(t, "reduce", frames+"metal.png", "-r", file, "--strict", "--fail-on-reject",
		"--limit", "a: mean < 80")
	if code != exitReject {
		t.Errorf("exit %d, %s", code, stderr)
	}
}

// TestReadingMakesNoFolder: a misspelt folder of recipes is an error of those that read it, and is not made.
func TestReadingMakesNoFolder(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	for _, args := range [][]string{{"recipe", "list"}, {"recipe", "get", "r"},
		{"reduce", frames + "board.png", "--recipe", "r"}} {
		_, stderr, code := polyscan(t, append(args, "--recipes", gone)...)
		if code != exitUsage || !strings.Contains(stderr, gone+": no such file or directory") {
			t.Errorf("%q: exit %d: %s", args, code, stderr)
		}
	}
	if _, err := os.Stat(gone); err == nil {
		t.Error("the folder was made")
	}
}

// TestReductionsComeBack: what a recipe asks for is all in the file that recipe get and teach write, and reads back.
func TestReductionsComeBack(t *testing.T) {
	for _, o := range []reductionFlags{
		{Stats: []string{"all", "covered_histogram"}, Bins: 8, Range: "3,250", Percentiles: []float64{0.1, 99},
			PercentileMethod: "linear", Texture: []string{"1,0", "-1,1"}, TextureLevels: 9, TextureCounts: true,
			Blobs: ">= 9, min area 3", Correlate: []string{"radial(3)", "channels"}, Color: []string{"lab", "gray"},
			ColorMatrix: "1,0,0,0,0.5,0,0,0,-2"},
		{Color: []string{"hsv"}}, {ColorMatrix: "1,2,3,4,5,6,7,8,9"}, {Stats: []string{"covered"}},
		{PercentileMethod: "linear", Stats: []string{"percentiles"}},
	} {
		want, err := o.message(nil)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(want.Colors)
		text := reductions.Format(want)
		got, err := reductions.Parse(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if slices.Sort(got.Colors); !proto.Equal(got, want) {
			t.Errorf("%q:\n got %v\nwant %v", text, got, want)
		}
	}
	for text, want := range map[string]string{"color(gry)": "want color(gray,", "color": "want color(gray,",
		"color_matrix(1, 2)": "of nine numbers", "colr(gray)": `did you mean "color"?`, "color(gray": "want color(gray,"} {
		if _, err := reductions.Parse([]string{"mean", text}); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "reductions[1]: ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestErrorsNameTheirSource: an error of a flag names the flag, and one of the regions file the file.
func TestErrorsNameTheirSource(t *testing.T) {
	board, metal, dir := frames+"board.png", frames+"metal.png", t.TempDir()
	file := func(name, limit, reduction string) string {
		return write(t, name, `{"name":"r","regions":[{"name":"pad1","rings":[[[1,1],[90,1],[90,90]]],"limits":["`+limit+
			`"]},{"name":"pad2","rings":[[[1,1],[9,1],[9,9]]]}],"reductions":["`+reduction+`"]}`)
	}
	plain, never := file("plain.json", "mean < 200", "mean"), file("never.json", "mean < 999", "mean")
	blobs, texture := file("b.json", "mean < 9", "blobs(>= 9)"), file("t.json", "mean < 9", "texture(9000,0)")
	strong := file("s.json", "mean < 9", "blobs(<= 60, strong <= 60.5)")
	flat := write(t, "f.json", `{"name":"r","regions":[{"rings":[[[1,1],[90,1],[90,90]]]}],"flat_field":"sha256:`+
		strings.Repeat("0", 64)+`"}`)
	recipes := []string{"recipe", "put", "--recipes", filepath.Join(dir, "recipes"), "-r"}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"reduce", metal, "-r", never}, `never.json: regions[0] "pad1": limits[0] = "mean < 999": can't fail`},
		{[]string{"reduce", metal, "-r", plain, "--limit", "pad1: mean < 999"},
			`polyscan: --limit pad1: "mean < 999": can't`},
		{[]string{"reduce", metal, "-r", never, "--limit", "pad1: mean < 1"}, `never.json: regions[0] "pad1": limits[0] = `},
		{[]string{"reduce", metal, "-r", plain, "--limit", "pad2: mean <"}, `polyscan: --limit pad2: "mean <": column 7`},
		{[]string{"reduce", metal, "-r", plain, "--limit", "pad2*: count <= 90"},
			`polyscan: --limit pad2*: of "pad2": "count <= 90": can't fail`},
		{append(recipes, plain, "--limit", "pad1: mean >= 0"), `polyscan: --limit pad1: "mean >= 0": can't fail`},
		{append(recipes, texture), `t.json: reductions: texture: offsets[0].dx 9000: must be`},
		{[]string{"regions", plain, "--limit", "pad1: mean <"}, `polyscan: --limit pad1: "mean <": column 7`},
		{[]string{"regions", plain, "--limit", "pad1: mean >= 0"}, `polyscan: --limit pad1: "mean >= 0": can't fail`},
		{[]string{"regions", plain, "--limit", "pad2: count <= 90"}, `polyscan: --limit pad2: "count <= 90": can't fail`},
		{[]string{"regions", plain, "--limit", "pad1: ks < 0.1"}, `"ks < 0.1": the region has no reference`},
		{[]string{"regions", plain, "--limit", `pad1: mean - "pad1".mean < 1`}, `.mean < 1": can't fail`},
		{[]string{"regions", file("idle.json", "stddev >= 0", "mean")}, `idle.json: regions[0] "pad1": limits[0] = "stddev`},
		{[]string{"teach", metal, "-r", plain, "--limit", "pad1: max < 999"},
			`polyscan: --limit pad1: "max < 999": can't fail`},
		{[]string{"reduce", metal, "-r", texture}, `t.json: reductions: texture: offsets[0].dx 9000: must be`},
		{[]string{"reduce", metal, "-r", plain, "--texture", "9000,0"}, "polyscan: --texture 9000: must be"},
		{[]string{"reduce", board, "-r", blobs}, "b.json: reductions: blobs: channel gray: the frame (RGB8) has no such"},
		{append(recipes, strong),
			"s.json: reductions: blobs: strong <= 60.5: leaves out no blob: a pixel that is <= 60 is also <= 60.5"},
		{append(recipes, strong, "--blobs", "0 to 9, strong <= 9"), "polyscan: --blobs: strong <= 9: leaves out no blob"},
		{append(recipes, flat), `f.json: flat_field = "sha256:` + strings.Repeat("0",
			64) + `": is that of no field that a stored recipe`},
		{[]string{"reduce", board, "-r", texture, "--blobs", ">= 9"}, "polyscan: --blobs: channel gray: the frame (rgb8)"},
		{[]string{"reduce", metal, "-r", plain, "--color", "hsv"},
			"polyscan: --color hsv: needs a frame with red, green and blue; this one is gray8"},
		{[]string{"reduce", metal, "-r", plain, "--scale", "1e300"}, "polyscan: --scale 1e+300: must be 1e-09 to"},
		{[]string{"reduce", metal, "-r", plain, "--shape", "s: disc(1,2"}, `polyscan: --shape s: "disc(1,2": column`},
		{[]string{"mask", metal, "-r", plain, "--shape", "s: disc(1,2", "-o", filepath.Join(dir, "m.png")},
			`polyscan: --shape s: "disc(1,2": column`},
		{[]string{"regions", plain, "--shape", "s: disc(1,2", "--pixels"}, `polyscan: --shape s: "disc(1,2": column`},
	} {
		if _, stderr, code := polyscan(t, c.args...); code != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit %d, %s, want %s", c.args, code, stderr, c.want)
		}
	}
	// One for all regions can fail in some of them, numbers of gray16 frames reach further, and a scale may come with
	// frames.
	for _, limit := range []string{"pad1: mean < 999", "pad1: area <= 3 mm2"} {
		succeed(t, "regions", plain, "--limit", limit)
	}
	const some = `--limit "pad*: count <= 90": in region "pad2" it can't fail: count is 0 to 64, ~, and is left out`
	for _, args := range [][]string{{"regions", plain}, {"reduce", metal, "-r", plain}} {
		out, stderr, code := polyscan(t, append(args, "--limit", "pad*: count <= 90")...)
		if code != exitOK || !like(stderr, "polyscan: warning: "+plain+": "+some+"\n~") {
			t.Errorf("%q: exit %d: %s", args, code, stderr)
		}
		if pad2 := out[strings.LastIndex(out, "pad2"):]; args[0] == "regions" && strings.Contains(pad2, "count <= 90") ||
			args[0] == "reduce" && !strings.Contains(out, "(1 of 1 region with limits)") {
			t.Errorf("%q:\n%s", args, out)
		}
		_, stderr, code = polyscan(t, append(args, "--strict", "--limit", "pad*: count <= 90")...)
		if code != exitUsage || !like(stderr, "polyscan: "+plain+": "+some+" (--strict)\n") {
			t.Errorf("%q --strict: exit %d: %s", args, code, stderr)
		}
	}
}

// TestSaysWhoIsNotJudged: limits of flags beside regions without, of files or of flags, are no less a warning than those
// of the file.
func TestSaysWhoIsNotJudged(t *testing.T) {
	bare := write(t, "bare.json", `[{"name":"a","rings":[[[1,1],[90,1],[90,90]]]},
		{"name":"far","rings":[[[1,1],[9,1],[9,9]]]}]`)
	one := write(t, "one.json", `[{"name":"a","rings":[[[1,1],[90,1],[90,90]]],"limits":["mean > 3"]}]`)
	for _, args := range [][]string{{"-r", bare, "--limit", "a: mean > 3"}, {"-r", one, "--shape", "far: circle(9,9,5)"}} {
		want := args[1] + `: region "far" has no limits, and others have: nothing that it shows can fail a part`
		for _, command := range [][]string{{"reduce", frames + "metal.png"}, {"blobs", frames + "metal.png", "--find", "<= 60"},
			{"stream", frames + "conveyor"}, {"recipe", "put", "far", "--recipes", t.TempDir()}} {
			_, stderr, code := polyscan(t, append(append(command, "--strict"), args...)...)
			if code != exitUsage || stderr != "polyscan: "+want+" (--strict)\n" {
				t.Errorf("%q: exit %d: %s", command, code, stderr)
			}
		}
	}
}

// TestRecipesThatAreMeant: an unknown recipe comes with the name that is near, and refusals of put with its flags.
func TestRecipesThatAreMeant(t *testing.T) {
	recipes := []string{"--recipes", t.TempDir()}
	regions := frames + "board.regions.json"
	succeed(t, append([]string{"recipe", "put", "board", "-r", regions}, recipes...)...)
	for want, args := range map[string][]string{
		`recipe "bord": not stored: did you mean "board"?`:               {"recipe", "get", "bord"},
		`recipe "boarb": not stored: did you mean "board"?`:              {"recipe", "delete", "boarb", "--all"},
		`recipe "boad": not stored: did you mean "board"?`:               {"reduce", frames + "board.png", "--recipe", "boad"},
		`PREFIX boardx: no recipe is called so: did you mean "board"?`:   {"recipe", "list", "boardx"},
		`recipe "board": --expect 5: the latest is 1`:                    {"recipe", "put", "board", "-r", regions, "--expect", "5"},
		`annotations for 2 images, pick one by name or id: "a.png" (id `: {"recipe", "put", "c", "-r", coco(t)},
	} {
		if _, stderr, code := polyscan(t, append(args, recipes...)...); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit %d: %s", args, code, stderr)
		}
	}
	if out, _, code := polyscan(t, append([]string{"recipe", "put", "c", "-r", coco(t), "--image", "b.png"},
		recipes...)...); code != exitOK || out != "c@1: 1 region\n" {
		t.Errorf("--image: exit %d: %s", code, out)
	}
	if out := succeed(t, append([]string{"recipe", "list", "boardx", "--json"}, recipes...)...); out != "[]\n" {
		t.Errorf("a list for programs: %s", out)
	}
}

func coco(t *testing.T) string {
	return write(t, "coco.json", `{"images":[{"id":1,"file_name":"a.png","width":64,"height":64},
		{"id":2,"file_name":"b.png","width":64,"height":64}],"categories":[{"id":1,"name":"a"}],"annotations":[
		{"id":1,"image_id":1,"category_id":1,"segmentation":[[26,26,38,26,38,38,26,38]]},
		{"id":2,"image_id":2,"category_id":1,"segmentation":[[26,26,38,26,38,38,26,38]]}]}`)
}
