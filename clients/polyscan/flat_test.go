package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A frame under an uneven light fails where the straight one passes, and has its verdicts once it is corrected: by a
// file, in a stream, by a recipe, and by a recipe that went through a file.
func TestFlat(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	const data = "../../testdata/"
	regions, shaded := data+"metal.regions.json", data+"flat/metal.png"
	out := succeed(t, "flat", data+"flat/white.png", "--dark", data+"flat/dark.png", "--level", "200", "-o", in("f.flat"))
	if !strings.HasSuffix(out, "1024x512 gray8 of 1 bright frame and 1 dark one, gains 1.000 to 1.667\n") {
		t.Error(out)
	}
	failed := func(args ...string) (names string) {
		for line := range strings.Lines(succeed(t, args...)) {
			if strings.HasSuffix(line, " FAIL\n") {
				names += line[:14]
			}
		}
		return names
	}
	straight, uneven := failed("reduce", data+"metal.png", "-r", regions), failed("reduce", shaded, "-r", regions)
	if straight == "" || straight == uneven {
		t.Errorf("of the straight frame %q fails, of the uneven one %q", straight, uneven)
	}
	recipes := in("recipes")
	succeed(t, "recipe", "put", "metal", "-r", regions, "--flat", in("f.flat"), "--recipes", recipes)
	text := succeed(t, "recipe", "get", "metal", "--recipes", recipes)
	if err := os.WriteFile(in("metal.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	succeed(t, "recipe", "put", "again", "-r", in("metal.json"), "--recipes", recipes)
	for _, args := range [][]string{{"-r", regions, "--flat", in("f.flat")}, {"--recipe", "metal", "--recipes", recipes},
		{"--recipe", "again", "--recipes", recipes}, {"--recipe", "metal", "--recipes", recipes, "--flat", in("f.flat")}} {
		if got := failed(append([]string{"reduce", shaded}, args...)...); got != straight {
			t.Errorf("%v: %q fails, of the straight frame %q", args, got, straight)
		}
	}
	// What teach makes of a recipe corrects as that does, and blobs corrects as reduce does.
	var tables []string
	for _, of := range [][]string{{"--recipe", "metal", "--recipes", recipes}, {"-r", regions, "--flat", in("f.flat")}} {
		taught, _, code := polyscan(t, append([]string{"teach", shaded, data + "metal.png", "--quantity", "mean", "-o", "-"},
			of...)...)
		if code != exitOK || !strings.Contains(taught, `"flat_field": "sha256:`) {
			t.Errorf("teach makes %s", taught)
		}
		_, limits, _ := strings.Cut(taught, `"regions"`)
		tables = append(tables, limits)
	}
	if tables[0] != tables[1] {
		t.Errorf("of a recipe teach makes\n%sof the same as files\n%s", tables[0], tables[1])
	}
	if _, stderr, code := polyscan(t, "blobs", shaded, "-r", in("metal.json"), "--find", ">= 9"); code != exitUsage ||
		!strings.Contains(stderr, "flat_field") {
		t.Errorf("blobs by a flat field that the server lacks: exit %d, %s", code, stderr)
	}
	damaged, err := os.ReadFile(in("f.flat"))
	if err != nil {
		t.Fatal(err)
	}
	damaged[len(damaged)/2] ^= 1
	if err := os.WriteFile(in("flipped.flat"), damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	damaged[len(damaged)/2] ^= 1
	if err := os.WriteFile(in("two.flat"), append(slices.Clip(damaged), damaged...), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ says, args string }{
		{"is not that of the field", "reduce " + shaded + " -r " + regions + " --flat " + in("flipped.flat")},
		{in("flipped.flat") + ": --flat: the file is damaged: its hash ", "reduce " + shaded + " -r " + regions + " --flat " +
			in("flipped.flat")},
		{in("two.flat") + ": --flat: this is more than one flat field", "reduce " + shaded + " -r " + regions + " --flat " +
			in("two.flat")},
		{"level 0.3: must be 1 to 255", "flat " + data + "flat/white.png --level 0.3 -o " + in("h.flat")},
		{"--level 0: must be 1 to the largest sample", "flat " + data + "flat/white.png --level 0 -o " + in("h.flat")},
		{"to 63 or more, a quarter of their range", "flat " + data + "flat/white.png --level 2 -o " + in("h.flat")},
		{"above dark ones in channel 0, where samples are rounded by", "flat " + data + "flat/dark.png -o " + in("h.flat")},
		{"must be 1 to 255", "flat " + shaded + " --level 256 -o " + in("h.flat")},
		{"no flat field that polyscan flat wrote", "reduce " + shaded + " -r " + regions + " --flat " + shaded},
		{"--flat 1024x512 of gray8: must be of gray16le", "reduce " + data + "metal16.png -r " + data +
			"metal16.regions.json --flat " + in("f.flat")},
		{"are one file", "flat " + shaded + " --dark " + shaded + " -o " + in("g.flat")},
		{"would replace", "flat " + in("f.flat") + " --raw 2x2:gray8 -o " + in("f.flat")},
		{"what the recipe of --recipe has", "try " + shaded + " --recipe x --flat " + in("f.flat")},
		{"is that of no field", "teach " + shaded + " " + data + "metal.png -r " + in("metal.json")},
	} {
		if _, stderr, code := polyscan(t, strings.Fields(c.args)...); code != exitUsage || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: exit %d, %s, want %q", c.args, code, stderr, c.says)
		}
	}
}
