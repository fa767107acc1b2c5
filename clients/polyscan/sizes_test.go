package main

import (
	"strings"
	"testing"
)

// Limits whose file could say on which size of frames they hold, and doesn't, are told; a part that is searched for is
// refused in a frame of another size, as limits are.
func TestSizeOfFrames(t *testing.T) {
	const flags = `"points":[[1,1],[9,1],[9,9]],"flags":{"mean >= 1":true}`
	const sized = "it doesn't say the width and height of the image that its regions were drawn on"
	for _, c := range []struct{ text, limit, want string }{
		{`{"shapes":[{"label":"a",` + flags + `}]}`, "a: max < 250", sized},
		{`{"imageWidth":0,"imageHeight":0,"shapes":[{"label":"a",` + flags + `}]}`, "a: max < 250", sized},
		{`{"images":[{"id":1,"width":0,"height":0}],"annotations":[{"id":1,"image_id":1,"segmentation":[[1,1,9,1,9,9]],` +
			`"attributes":{"limits":"mean >= 1"}}]}`, "region#1: max < 250", sized},
		{`<svg xmlns="http://www.w3.org/2000/svg" width="960"><rect id="a" width="9" height="9"/></svg>`, "a: max < 250", sized},
		{`{"drawn_on":{"name":"board.png"},"regions":[{"name":"a","rings":[[[1,1],[9,1],[9,9]]]}]}`, "a: max < 250", sized},
		{`[{"name":"a","rings":[[[1,1],[9,1],[9,9]]]}]`, "a: max < 250", ""},
		{`{"imageWidth":960,"imageHeight":640,"shapes":[{"label":"a",` + flags + `}]}`, "a: max < 250", ""},
	} {
		out, stderr, code := polyscan(t, "reduce", frames+"board.png", "-r", write(t, "r.txt", c.text), "--limit", c.limit)
		if code != exitOK || strings.Contains(stderr, sized) != (c.want != "") || c.want == "" && stderr != "" {
			t.Errorf("%s: exit %d, %s\n%s", c.text, code, stderr, out)
		}
	}
	located := write(t, "located.json", `{"drawn_on":{"width":10,"height":10},"regions":[{"name":"a","rings":[[[1,1],[9,1],`+
		`[9,9]]]}],"locate":{"fiducials":[{"name":"F1","window":"rect(0, 0, 10, 10)","at":[5,5],"kind":"circle"}]}}`)
	_, stderr, code := polyscan(t, "reduce", frames+"board.png", "-r", located, "--fail-on-reject")
	if code != exitUsage || !strings.Contains(stderr, "drawn on 10x10") {
		t.Errorf("exit %d, %s", code, stderr)
	}
}

// A region of a shape that comes to no pixel can't be written as a mask.
func TestPixelsOfNone(t *testing.T) {
	file := write(t, "r.json", `[{"name":"a","rings":[[[1,1],[9,1],[9,9]]]},{"name":"none","shape":"\"a\" - \"a\""}]`)
	_, stderr, code := polyscan(t, "regions", file, "--pixels")
	if code != exitUsage || !strings.Contains(stderr, `region "none" comes to no pixel`) {
		t.Errorf("exit %d, %s", code, stderr)
	}
}
