package main

import (
	"strings"
	"testing"
)

// TestOutsideTheFrame: a region that the frame doesn't hold is no PASS, and the table, JSON and the exit code say so.
func TestOutsideTheFrame(t *testing.T) {
	const limit = `"limits":["count of pixels above 200 <= 5"]`
	in := write(t, "in.json", `[{"name":"in","rings":[[[2,2],[6,2],[6,6],[2,6]]]}]`)
	out := write(t, "out.json", `[{"name":"out","rings":[[[9002,2],[9006,2],[9006,6],[9002,6]]],`+limit+`}]`)
	half := write(t, "half.json", `[{"name":"half","rings":[[[-2,2],[2,2],[2,6],[-2,6]]],"limits":["max <= 255"]}]`)
	allowed := write(t, "allowed.json",
		`[{"name":"half","rings":[[[-2,2],[2,2],[2,6],[-2,6]]],"limits":["max <= 255","coverage >= 0.5"]}]`)
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
