package main

import (
	"image"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestOutsideTheFrame: a region that the frame doesn't hold is no PASS, and the table, JSON and the exit code say so.
func TestOutsideTheFrame(t *testing.T) {
	const limit = `"limits":["count of pixels above 200 <= 5"]`
	in := write(t, "in.json", `[{"name":"in","rings":[[[2,2],[6,2],[6,6],[2,6]]]}]`)
	out := write(t, "out.json", `[{"name":"out","rings":[[[9002,2],[9006,2],[9006,6],[9002,6]]],`+limit+`}]`)
	half := write(t, "half.json", `[{"name":"half","rings":[[[-2,2],[2,2],[2,6],[-2,6]]],"limits":["max < 255"]}]`)
	allowed := write(t, "allowed.json",
		`[{"name":"half","rings":[[[-2,2],[2,2],[2,6],[-2,6]]],"limits":["max < 255","coverage >= 0.5"]}]`)
	frame := frames + "board.png"
	if got := succeed(t, "reduce", frame, "-r", in); strings.Contains(got, "INSIDE") {
		t.Errorf("in:\n%s", got)
	}
	for _, c := range []struct {
		file   string
		code   int
		column string
		reason string
	}{
		{out, exitReject, " 0 % ", "outside the frame: all of the region's pixels"},
		{half, exitReject, " 50.0 % ", "outside the frame: 50 % of the region's pixels"},
		{allowed, exitOK, " 50.0 % ", ""},
	} {
		got, stderr, code := polyscan(t, "reduce", frame, "-r", c.file, "--fail-on-reject")
		if code != c.code || !strings.Contains(got, "INSIDE") || !strings.Contains(got, c.column) ||
			!strings.Contains(got, c.reason) || stderr != "" {
			t.Errorf("exit %d, %s\n%s", code, stderr, got)
		}
		got, _, code = polyscan(t, "reduce", frame, "-r", c.file, "--fail-on-reject", "--json")
		if code != c.code || !strings.Contains(got, c.reason) || strings.Contains(got, `"coverage":1,`) {
			t.Errorf("exit %d\n%s", code, got)
		}
	}
}

// smallPicture is a file of 96x64 pixels, of which fill and background make others in no time.
func smallPicture(t *testing.T) string {
	t.Helper()
	im := image.NewGray(image.Rect(0, 0, 96, 64))
	for i := range im.Pix {
		im.Pix[i] = byte(i%96 + i/96*2)
	}
	name := filepath.Join(t.TempDir(), "small.png")
	writePNG(t, name, im)
	return name
}

// TestNoPixels: regions that hold no pixel of the frame, and pictures without a hole, are errors wherever pixels are
// what they are for, and nothing is written.
func TestNoPixels(t *testing.T) {
	const away = `{"name":"out","rings":[[[9002,2],[9006,2],[9006,6],[9002,6]]]}`
	const in = `{"name":"in","rings":[[[2,2],[6,2],[6,6],[2,6]]]}`
	const void = `{"name":"void","rings":[[[9,2],[9,2],[9,6]]]}`
	out, all := write(t, "out.json", `[`+away+`,`+in+`,`+void+`]`), write(t, "all.json", `[`+away+`]`)
	above := write(t, "above.json", `[`+in+`,`+away+`,{"name":"up","rings":[[[2,-9],[6,-9],[6,-1]]]}]`)
	thin, recipes := write(t, "thin.json", `[`+void+`]`), t.TempDir()
	if _, stderr, code := polyscan(t, "recipe", "put", "r", "-r", out, "--recipes", recipes); code != exitOK {
		t.Fatal(stderr)
	}
	frame, png := smallPicture(t), filepath.Join(t.TempDir(), "x.png")
	black := filepath.Join(t.TempDir(), "black.png")
	writePNG(t, black, image.NewGray(image.Rect(0, 0, 96, 64)))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"mask", frame, "-r", out}, out + `: region "out" and 1 more hold no pixel of 96x64`},
		{[]string{"mask", "--size", "10x10", "-r", all}, all + `: region "out" holds no pixel of 10x10`},
		{[]string{"mask", "--size", "10x10", "--recipe", "r", "--recipes", recipes, "--labels"},
			`recipe r: regions[0] and 1 more hold no pixel of 10x10`},
		{[]string{"fill", frame, "-r", all}, all + `: region "out" lies outside the picture of 96x64`},
		{[]string{"background", frame, "-r", above}, above + `: region "out" and 1 more lie outside the picture of 96x64`},
		{[]string{"fill", frame, "-r", thin}, thin + ": no region holds a pixel of the picture: there is nothing to fill"},
		{[]string{"background", frame, "-r", thin}, thin +
			": no region holds a pixel of the picture: there is nothing to fill"},
		{[]string{"fill", frame, "--mask", black}, "--mask: it is black: there is nothing to fill"},
		{[]string{"fill", frame}, frame +
			": the picture is opaque and there are no --regions and no --mask: there is nothing to fill"},
	} {
		stdout, stderr, code := polyscan(t, append(c.args, "-o", png)...)
		if code != exitUsage || stdout != "" || stderr != "polyscan: "+c.want+"\n" {
			t.Errorf("%v: exit %d, %q, %q", c.args, code, stdout, stderr)
		}
		if _, err := os.Stat(png); err == nil {
			t.Fatalf("%v: there is a picture", c.args)
		}
	}
	beside, wrote := write(t, "beside.json", `[`+in+`,`+void+`]`), filepath.Join(t.TempDir(), "y.png")
	warning := "warning: " + beside + `: region "void" holds no pixel of 96x64`
	for _, command := range []string{"fill", "background"} {
		shape := write(t, "shape.json", `[`+in+`,{"name":"s","shape":"rect(9.6,2.6,9.9,2.9)"}]`)
		if _, stderr, _ := polyscan(t, command, frame, "-r", shape, "-o", wrote); !strings.Contains(stderr,
			shape+`: region "s" holds no pixel of 96x64`) {
			t.Errorf("%s of a shape: %q", command, stderr)
		}
		args := []string{command, frame, "-r", beside, "-o"}
		if _, stderr, code := polyscan(t, append(args, wrote)...); code != exitOK || !strings.Contains(stderr, warning) {
			t.Errorf("%s: exit %d, %q", command, code, stderr)
		}
		if _, stderr, code := polyscan(t, append(args, png, "--strict")...); code != exitUsage {
			t.Errorf("%s --strict: exit %d, %q", command, code, stderr)
		}
		if _, err := os.Stat(png); err == nil {
			t.Fatalf("%s --strict: there is a picture", command)
		}
	}
	whole := write(t, "whole.json", `[{"name":"all","rings":[[[0,0],[96,0],[96,64],[0,64]]]}]`)
	if _, stderr, code := polyscan(t, "fill", frame, "-r", whole, "-o", png); code != exitUsage ||
		!strings.HasPrefix(stderr, "polyscan: "+whole+": all pixels: must leave out") {
		t.Errorf("exit %d, %q", code, stderr)
	}
}

// TestPartlyOutside: mask, fill and background say how much of a region lies outside the picture, by counting pixels,
// and refuse one of which nothing is left inside, though its bounds are.
func TestPartlyOutside(t *testing.T) {
	frame, png := smallPicture(t), filepath.Join(t.TempDir(), "x.png")
	square := `{"name":"s \"q\"","rings":[[[-6,2],[4,2],[4,6],[-6,6]]]}`
	mask := `{"name":"m","mask":[[63,1,3],[64,0,6]]}`
	shape := `{"name":"d","shape":"rect(-2,10,6,12)"}`
	corner := `{"name":"corner","rings":[[[-20,-3],[-3,-20],[2,-20],[-20,2]]]}` // its bounds reach in, it doesn't
	for _, c := range []struct{ regions, want string }{
		{square, `60 % of region "s \"q\"" lie outside the picture of 96x64`},
		{mask, `75 % of region "m" lie outside the picture of 96x64`},
		{shape, `25 % of region "d" lie outside the picture of 96x64`},
		{square + `,` + mask, `75 % of region "m" lie outside the picture of 96x64 and 1 more lie there in part`},
	} {
		file := write(t, "r.json", `[`+c.regions+`]`)
		for _, command := range []string{"mask", "fill", "background"} {
			_, stderr, code := polyscan(t, command, frame, "-r", file, "-o", png)
			if code != exitOK || stderr != "polyscan: warning: "+file+": "+c.want+"\n" {
				t.Errorf("%s: exit %d, %q, want %q", command, code, stderr, c.want)
			}
			if _, stderr, code := polyscan(t, command, frame, "-r", file, "-o", png, "--strict"); code != exitUsage {
				t.Errorf("%s --strict: exit %d, %q", command, code, stderr)
			}
		}
	}
	file := write(t, "r.json", `[`+corner+`,{"name":"in","rings":[[[2,2],[6,2],[6,6],[2,6]]]}]`)
	for _, command := range []string{"mask", "fill", "background"} {
		_, stderr, code := polyscan(t, command, frame, "-r", file, "-o", png)
		if code != exitUsage || !strings.Contains(stderr, `region "corner" `) {
			t.Errorf("%s: exit %d, %q", command, code, stderr)
		}
	}
}

// TestHiddenLabels: a region that others cover is said, as the labels don't have it.
func TestHiddenLabels(t *testing.T) {
	square := func(name string) string { return `{"name":"` + name + `","rings":[[[2,2],[6,2],[6,6],[2,6]]]}` }
	file := write(t, "r.json", `[`+square("a")+`,`+square("b")+`,`+square("c")+`,{"name":"d","mask":[[3,3,5]]}]`)
	png, recipes := filepath.Join(t.TempDir(), "x.png"), t.TempDir()
	succeed(t, "mask", "--size", "9x9", "-r", file, "-o", png)
	_, stderr, code := polyscan(t, "mask", "--size", "9x9", "-r", file, "-o", png, "--labels")
	want := `no pixel has the label of region "a", nor those of 1 more: regions behind them hold all of their pixels`
	if code != exitOK || stderr != "polyscan: warning: "+file+": "+want+"\n" {
		t.Errorf("exit %d, %q", code, stderr)
	}
	polyscan(t, "recipe", "put", "r", "-r", file, "--recipes", recipes)
	_, stderr, code = polyscan(t, "mask", "--size", "9x9", "--recipe", "r", "--recipes", recipes, "-o", png, "--labels")
	if code != exitOK || stderr != "polyscan: warning: recipe r: "+want+"\n" {
		t.Errorf("exit %d, %q", code, stderr)
	}
}

// TestNotInPixels: regions that can't be in pixels are warned of, and are an error where they are judged or written.
func TestNotInPixels(t *testing.T) {
	geo := func(name, properties string) string {
		return write(t, name, `{"type":"Feature","properties":{`+properties+`},"geometry":{"type":"Polygon","coordinates":`+
			`[[[0.1,0.1],[0.9,0.1],[0.9,0.9],[0.1,0.1]]]}}`)
	}
	plain, limited := geo("plain.geojson", `"name":"a"`), geo("limited.geojson", `"name":"a","limits":"mean < 300"`)
	const want = "all its coordinates are from 0 to 1, as shares of an image's sides are, and polyscan needs pixels"
	board, dir := frames+"board.png", t.TempDir()
	if _, stderr, code := polyscan(t, "reduce", board, "-r", plain); code != exitOK ||
		!strings.Contains(stderr, "warning: "+plain+": "+want) {
		t.Errorf("exit %d, %s", code, stderr)
	}
	for _, args := range [][]string{
		{"reduce", board, "-r", limited},
		{"reduce", board, "-r", plain, "--limit", "a: mean < 90"},
		{"reduce", board, "-r", plain, "--fail-on-reject"},
		{"stream", frames + "conveyor", "-r", limited},
		{"blobs", board, "-r", plain, "--find", ">= 9", "--limit", "a: blobs < 3"},
		{"try", board, "-r", limited},
		{"teach", board, "-r", plain, "-o", filepath.Join(dir, "taught.json")},
		{"recipe", "put", "r", "-r", plain, "--recipes", dir},
		{"regions", plain},
	} {
		file := plain
		if slices.Contains(args, limited) {
			file = limited
		}
		stdout, stderr, code := polyscan(t, args...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, "polyscan: "+file+": "+want) ||
			strings.Count(stderr, want) != 1 {
			t.Errorf("%q: exit %d, %s\n%s", args, code, stderr, stdout)
		}
	}
}
