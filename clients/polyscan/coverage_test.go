package main

import (
	"image"
	"os"
	"path/filepath"
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
	frame, png := frames+"board.png", filepath.Join(t.TempDir(), "x.png")
	black := filepath.Join(t.TempDir(), "black.png")
	writePNG(t, black, image.NewGray(image.Rect(0, 0, 960, 640)))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"mask", frame, "-r", out}, out + `: region "out" and 1 more hold no pixel of 960x640`},
		{[]string{"mask", "--size", "10x10", "-r", all}, all + `: region "out" holds no pixel of 10x10`},
		{[]string{"mask", "--size", "10x10", "--recipe", "r", "--recipes", recipes, "--labels"},
			`recipe r: regions[0] and 1 more hold no pixel of 10x10`},
		{[]string{"fill", frame, "-r", all}, all + `: region "out" lies outside the picture of 960x640`},
		{[]string{"background", frame, "-r", above}, above + `: region "out" and 1 more lie outside the picture of 960x640`},
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
	whole := write(t, "whole.json", `[{"name":"all","rings":[[[0,0],[960,0],[960,640],[0,640]]]}]`)
	if _, stderr, code := polyscan(t, "fill", frame, "-r", whole, "-o", png); code != exitUsage ||
		!strings.HasPrefix(stderr, "polyscan: "+whole+": all pixels: must leave out") {
		t.Errorf("exit %d, %q", code, stderr)
	}
}
