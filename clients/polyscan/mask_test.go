package main

import (
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/clients/regionfile"
)

// TestMaskCounts: a pixel that several regions hold is one pixel.
func TestMaskCounts(t *testing.T) {
	square := `"rings":[[[0,0],[4,0],[4,4],[0,4]]]`
	twice := write(t, "twice.json", `[{"name":"a",`+square+`},{"name":"b",`+square+`}]`)
	once := write(t, "once.json", `[{"name":"a",`+square+`}]`)
	out := filepath.Join(t.TempDir(), "m.png")
	for _, labels := range []string{"", "--labels"} {
		for file, want := range map[string]string{
			twice: ": 7x5, 16 pixels in 2 regions (32 where each region counts its own), by cpu\n",
			once:  ": 7x5, 16 pixels in 1 region, by cpu\n",
		} {
			args := slices.DeleteFunc([]string{"mask", "--size", "7x5", "-r", file, "-o", out, labels},
				func(s string) bool { return s == "" })
			got, stderr, code := polyscan(t, args...) // "b" lies over "a", and hides its label
			if code != exitOK || got != out+want || (stderr != "") != (file == twice && labels != "") {
				t.Errorf("%v: %q, %s", args, got, stderr)
			}
		}
	}
}

// TestMaskPalette: labels with a palette are the labels, in colours that differ.
func TestMaskPalette(t *testing.T) {
	out := filepath.Join(t.TempDir(), "m.png")
	succeed(t, "mask", frames+"board.png", "-r", frames+"board.regions.json", "--labels", "-o", out)
	want := readPNG(t, out).(*image.Gray16)
	succeed(t, "mask", frames+"board.png", "-r", frames+"board.regions.json", "--labels", "--palette", "-o", out)
	got, ok := readPNG(t, out).(*image.Paletted)
	if !ok {
		t.Fatalf("%T", readPNG(t, out))
	}
	for y := range want.Rect.Dy() {
		for x := range want.Rect.Dx() {
			if uint16(got.ColorIndexAt(x, y)) != want.Gray16At(x, y).Y {
				t.Fatalf("(%d, %d): %d, want %d", x, y, got.ColorIndexAt(x, y), want.Gray16At(x, y).Y)
			}
		}
	}
	seen := map[color.NRGBA]int{}
	for i, c := range labelPalette() {
		n := color.NRGBAModel.Convert(c).(color.NRGBA)
		if other, twice := seen[n]; twice {
			t.Errorf("labels %d and %d are both %v", other, i, n)
		}
		if bright := max(n.R, n.G, n.B); i > 0 && bright < 100 {
			t.Errorf("label %d is %v, which nobody sees", i, n)
		}
		seen[n] = i
	}
	if len(seen) != maxPalette+1 {
		t.Errorf("%d colours", len(seen))
	}
	many := write(t, "many.json", "["+strings.Repeat(`{"rings":[[[0,0],[4,0],[4,4]]]},`, maxPalette)+
		`{"rings":[[[0,0],[4,0],[4,4]]]}]`)
	if _, stderr, code := polyscan(t, "mask", "--size", "7x5", "-r", many, "--labels", "--palette", "-o",
		out); code != exitUsage ||
		stderr != "polyscan: --palette: it has colours for 255 regions, and there are 256\n" {
		t.Errorf("exit %d, %s", code, stderr)
	}
}

// TestMaskFields: winding numbers and distances are written as they come, and in colours with a palette.
func TestMaskFields(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "f.png")
	file := write(t, "f.json", `[{"name":"a","rings":[[[10,10],[40,10],[40,30],[10,30]],[[30,30],[30,20],[20,20],[20,30]]]},
		{"name":"b","rings":[[[0,0],[0,5],[5,5],[5,0]]]}]`)
	at := func(x, y int) int { return int(readPNG(t, out).(*image.Gray16).Gray16At(x, y).Y) - 32768 }
	run := func(flags ...string) string {
		return succeed(t, append([]string{"mask", "--size", "60x50", "-r", file, "-o", out}, flags...)...)
	}
	if got := run("--winding"); got != out+": 60x50, winding numbers of -1 to 1, of 2 regions, by cpu\n" {
		t.Error(got)
	}
	if at(11, 11) != 1 || at(25, 25) != 0 || at(3, 3) != -1 || at(50, 40) != 0 {
		t.Errorf("%d, %d, %d, %d", at(11, 11), at(25, 25), at(3, 3), at(50, 40))
	}
	run("--winding", "--palette")
	if p := readPNG(t, out).(*image.Paletted); p.ColorIndexAt(11, 11) != 1 || p.ColorIndexAt(3, 3) != 255 ||
		p.ColorIndexAt(50, 40) != 0 {
		t.Errorf("%d, %d, %d", p.ColorIndexAt(11, 11), p.ColorIndexAt(3, 3), p.ColorIndexAt(50, 40))
	}
	if got := run("--distance"); got != out+": 60x50, distances of -28.3 to 6.0 px, of 2 regions, by cpu\n" {
		t.Error(got)
	}
	if at(10, 10) != 32 || at(25, 22) != -3*32 || at(59, 29) != -20*32 {
		t.Errorf("%d, %d, %d", at(10, 10), at(25, 22), at(59, 29))
	}
	run("--distance", "--palette")
	if p := readPNG(t, out).(*image.Paletted); p.ColorIndexAt(11, 11) != 128 || p.ColorIndexAt(45, 15) != 127 ||
		p.ColorIndexAt(59, 29) != 125 {
		t.Errorf("%d, %d, %d", p.ColorIndexAt(11, 11), p.ColorIndexAt(45, 15), p.ColorIndexAt(59, 29))
	}
	around := strings.Repeat("[0,0],[9,0],[9,9],[0,9],", 128)
	many := write(t, "many.json", `[{"rings":[[`+strings.TrimSuffix(around, ",")+`]]}]`)
	if _, stderr, code := polyscan(t, "mask", "--size", "20x20", "-r", many, "--winding", "--palette", "-o", out); code !=
		exitUsage || stderr != "polyscan: --palette: it has colours for winding numbers of -127 to 127, and there is 128\n" {
		t.Errorf("exit %d, %s", code, stderr)
	}
	if _, stderr, code := polyscan(t, "mask", "--size", "20x20", "-r", many, "--winding", "--distance", "-o", out); code !=
		exitUsage || !strings.Contains(stderr, "--winding and --distance: give one of them") {
		t.Errorf("exit %d, %s", code, stderr)
	}
}

// TestExtractGray: a gray picture is compared with gray files, and its preview is one.
func TestExtractGray(t *testing.T) {
	dir := t.TempDir()
	in, out, preview := filepath.Join(dir, "in.png"), filepath.Join(dir, "c.json"), filepath.Join(dir, "again.png")
	gray, colour := image.NewGray(image.Rect(0, 0, 64, 48)), image.NewNRGBA(image.Rect(0, 0, 64, 48))
	for i := range gray.Pix {
		x, y := i%64, i/64
		v := uint8(60 + 2*x)
		if x > 20 && x < 40 && y > 10 && y < 30 {
			v = 20
		}
		gray.SetGray(x, y, color.Gray{Y: v})
		colour.SetNRGBA(x, y, color.NRGBA{R: v, G: v, B: v, A: 255})
	}
	said := map[string]bool{}
	for _, im := range []image.Image{gray, colour} { // which is as gray
		writePNG(t, in, im)
		stdout := succeed(t, "extract", in, "-o", out, "--preview", preview, "--psnr", "20")
		said[strings.Split(stdout, " after ")[0]] = true
		if _, ok := readPNG(t, preview).(*image.Gray); !ok {
			t.Errorf("the preview of %T is %T", im, readPNG(t, preview))
		}
	}
	if len(said) != 1 {
		t.Errorf("they are compared with different sizes: %v", said)
	}
	_, stderr, code := polyscan(t, "extract", in, "-o", out, "--psnr", "90", "--max-pixels", "1")
	if code != exitOK || !strings.Contains(stderr, "and not to the 90 of --psnr: --max-pixels 1 allows no more pixels") {
		t.Errorf("exit %d, %s", code, stderr)
	}
}

// TestMaskRegions: labels that mask draws are regions again, with the pixels that they were drawn of, also once they
// are polyscan's own file.
func TestMaskRegions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	labels, own, overlay := filepath.Join(dir, "labels.png"), filepath.Join(dir, "own.json"),
		filepath.Join(dir, "o.png")
	from := frames + "metal.regions.json"
	succeed(t, "mask", frames+"metal.png", "-r", from, "--labels", "-o", labels)
	img := readPNG(t, labels).(*image.Gray16)
	want := map[uint16]uint64{}
	for y := range img.Rect.Dy() {
		for x := range img.Rect.Dx() {
			want[img.Gray16At(x, y).Y]++
		}
	}
	succeed(t, "regions", labels, "--strict", "-o", own)
	var reports [2]struct {
		Regions []struct {
			Name  string
			Count uint64
		}
	}
	for i, file := range []string{labels, own} {
		text := succeed(t, "reduce", frames+"metal.png", "-r", file, "--strict", "--json", "--overlay", overlay)
		if err := json.Unmarshal([]byte(text), &reports[i]); err != nil {
			t.Fatal(err)
		}
		if len(reports[i].Regions) != len(want)-1 || len(want) < 3 {
			t.Errorf("%s: %d regions of %d labels", file, len(reports[i].Regions), len(want)-1)
		}
		for _, r := range reports[i].Regions {
			var label uint16
			if _, err := fmt.Sscanf(r.Name, "label-%d", &label); err != nil || r.Count != want[label] {
				t.Errorf("%s: %q has %d pixels, want %d", file, r.Name, r.Count, want[label])
			}
		}
	}
	// Regions that a recipe keeps are drawn, and come back, as they were put.
	recipes := filepath.Join(dir, "recipes")
	succeed(t, "recipe", "put", "labels", "-r", own, "--limit", "*: mean < 250", "--recipes", recipes)
	again := filepath.Join(dir, "again.json")
	succeed(t, "recipe", "get", "labels", "--recipes", recipes, "-o", again)
	a, err := regionfile.Load(own, regionfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := regionfile.Load(again, regionfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range a.Regions {
		if !slices.Equal(a.Regions[i].Mask, b.Regions[i].Mask) || len(a.Regions[i].Mask) == 0 {
			t.Errorf("%s came back with other pixels", a.Regions[i].Name)
		}
	}
}

// TestShapes: --shape adds regions that are made of others, which are the same pixels as what --pixels writes of them.
func TestShapes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kept, flat := filepath.Join(dir, "kept.json"), filepath.Join(dir, "flat.json")
	shapes := []string{"--shape", `rim: band of "U1" inwards 4 px`, "--shape", `rest: "U1" - "rim"`, "--shape",
		"dot: circle(470, 344, 9.5)"}
	counts := func(args ...string) map[string]uint64 {
		var report struct {
			Regions []struct {
				Name  string
				Count uint64
			}
		}
		text := succeed(t, append([]string{"reduce", frames + "board.png", "--json"}, args...)...)
		if err := json.Unmarshal([]byte(text), &report); err != nil {
			t.Fatal(err)
		}
		out := map[string]uint64{}
		for _, r := range report.Regions {
			out[r.Name] = r.Count
		}
		return out
	}
	want := counts(append([]string{"-r", frames + "board.regions.json", "--limit", "rim: mean < 250", "--limit",
		"rest: mean < 250", "--limit", "dot: mean < 250", "--overlay",
		filepath.Join(dir, "o.png")}, shapes...)...)
	if want["rim"] == 0 || want["rest"] == 0 || want["rim"]+want["rest"] != want["U1"] || want["dot"] != 276 {
		t.Errorf("%d + %d of %d, and a dot of %d", want["rim"], want["rest"], want["U1"], want["dot"])
	}
	succeed(t, append([]string{"regions", frames + "board.regions.json", "-o", kept, "--limit", "rest: mean < 250", "--limit",
		"dot: mean < 250", "--limit", "rim: mean < 250"}, shapes...)...)
	succeed(t, "regions", kept, "--pixels", "-o", flat)
	for _, file := range []string{kept, flat} {
		if got := counts("-r", file, "--strict"); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", file, got, want)
		}
	}
	f, err := regionfile.Load(flat, regionfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range f.Regions[len(f.Regions)-3:] {
		if g.Shape != "" || len(g.Mask) == 0 {
			t.Errorf("%s has the shape %q and %d runs", g.Name, g.Shape, len(g.Mask))
		}
	}
	recipes := filepath.Join(dir, "recipes")
	succeed(t, append([]string{"recipe", "put", "b", "-r", frames + "board.regions.json", "--recipes", recipes, "--limit",
		"rest: mean < 250", "--limit", "dot: mean < 250"},
		shapes...)...)
	if got := counts("--recipe", "b", "--recipes", recipes); !maps.Equal(got, want) {
		t.Errorf("by the recipe: %v, want %v", got, want)
	}
	// Without a file, shapes are all there is; what says how a file is read has nothing to say then.
	shape := []string{"--shape", "dot: circle(470, 344, 9.5)"}
	alone := append([]string{"--limit", "dot: count == 276"}, shape...)
	if got := counts(append(alone, "--fail-on-reject")...); len(got) != 1 || got["dot"] != want["dot"] {
		t.Errorf("shapes alone: %v", got)
	}
	succeed(t, append([]string{"recipe", "put", "dot", "--recipes", recipes}, alone...)...)
	succeed(t, append([]string{"mask", "--size", "600x400", "-o", filepath.Join(dir, "m.png")}, shape...)...)
	succeed(t, append([]string{"fill", frames + "board.png", "-o", filepath.Join(dir, "f.png")}, shape...)...)
	for _, flags := range [][]string{{"--image", "x"}, {"--tolerance", "1"}, {"--ignore-viewbox"},
		{"--fill", "evenodd"}} {
		for _, to := range [][]string{alone, {"--recipe", "b", "--recipes", recipes}} {
			args := append(append([]string{"reduce", frames + "board.png"}, to...), flags...)
			if _, stderr, code := polyscan(t, args...); code != exitUsage ||
				!strings.Contains(stderr, flags[0]+" has no effect without --regions") {
				t.Errorf("%q: exit %d, %s", args, code, stderr)
			}
		}
	}
	for text, words := range map[string]string{
		"rim":                            "want NAME: SHAPE",
		": circle(1, 2, 3)":              "want NAME: SHAPE",
		"U1: circle(1, 2, 3)":            "there is a region of that name already",
		`rim: band of "U0" inwards 4 px`: `column 9: no region is called \"U0\"`,
	} {
		if _, stderr, code := polyscan(t, "reduce", frames+"board.png", "-r", frames+"board.regions.json", "--shape",
			text); code != exitUsage || !strings.Contains(stderr, words) &&
			!strings.Contains(stderr, strings.ReplaceAll(words, `\`, "")) {
			t.Errorf("%s: exit %d, %s", text, code, stderr)
		}
	}
}

// TestMaskSaysWhatIsCapped: numbers that an image can't hold aren't written as others without a word, and a picture's
// file isn't taken for raw pixels.
func TestMaskSaysWhatIsCapped(t *testing.T) {
	all := write(t, "all.json", `[{"name":"all","rings":[[[-2000,-2000],[2000,-2000],[2000,2000],[-2000,2000]]]}]`)
	ring := `,[[4,4],[60,4],[60,60],[4,60]]`
	many := write(t, "many.json", `[{"name":"a","rings":[`+strings.Repeat(ring, 33_000)[1:]+`]}]`)
	out := filepath.Join(t.TempDir(), "m.png")
	for _, c := range [][]string{{all, "--distance", "distances of 1024 px and more are written as 1024 px"},
		{many, "--winding", "winding numbers are written as -32768 to 32767"}} {
		args := []string{"mask", "--size", "64x64", "-r", c[0], c[1], "-o", out}
		if _, stderr, code := polyscan(t, args...); code != exitOK || !strings.Contains(stderr, c[2]) {
			t.Errorf("%q: exit %d: %s", args, code, stderr)
		}
	}
	_, stderr, code := polyscan(t, "mask", frames+"board.png", "--raw", "32x32:gray8", "-r", all, "-o", out)
	if code != exitUsage || !strings.Contains(stderr, "it looks like a PNG file, which needs no --raw") {
		t.Errorf("--raw: exit %d: %s", code, stderr)
	}
}
