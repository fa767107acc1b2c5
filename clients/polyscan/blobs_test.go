package main

import (
	"encoding/json"
	"image"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBlobs: the command's table, JSON, CSV, picture and verdict.
func TestBlobs(t *testing.T) {
	dir := t.TempDir()
	frame, regions := filepath.Join(dir, "f.png"), filepath.Join(dir, "r.json")
	img := image.NewGray(image.Rect(0, 0, 40, 20))
	for i := range img.Pix {
		img.Pix[i] = 20
		if x, y := i%40, i/40; x >= 5 && x < 15 && y >= 4 && y < 7 || x == 30 && y >= 10 && y < 14 {
			img.Pix[i] = 220
		}
	}
	writePNG(t, frame, img)
	if err := os.WriteFile(regions, []byte(`{"regions": [{"name": "left", "rings": [[[0,0],[20,0],[20,20],[0,20]]]},
		{"name": "right", "rings": [[[20,0],[40,0],[40,20],[20,20]]]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	out := succeed(t, "blobs", frame, "--find", ">= 128")
	if !strings.Contains(out, "frame") || !strings.Contains(out, "10.00,5.50") || !strings.Contains(out, "30") {
		t.Errorf("the table:\n%s", out)
	}
	picture := filepath.Join(dir, "o.png")
	out = succeed(t, "blobs", frame, "-r", regions, "--find", ">= 128, min area 5", "--scale", "0.5", "--overlay",
		picture, "--json", "--limit", "left: max blob.length <= 4 mm", "--limit", "right: blobs == 0")
	var report struct {
		Verdict string
		Regions []struct {
			Blobs  blobsReport
			Limits []limitReport
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	left, right := report.Regions[0], report.Regions[1]
	if b := left.Blobs; report.Verdict != "FAIL" || b.Found != 1 || len(b.Blobs) != 1 || b.Blobs[0].Area != 30 ||
		*b.Blobs[0].LengthMM != 5 || *b.Blobs[0].AreaMM2 != 7.5 || len(b.Blobs[0].Contour) != 1 ||
		*left.Limits[0].Reason != "max blob.length: 5 mm is above 4 mm" {
		t.Errorf("left: %+v", left)
	}
	if b := right.Blobs; b.Found != 1 || b.Kept != 0 || *right.Limits[0].Verdict != "PASS" {
		t.Errorf("right: %+v", right)
	}
	if info, err := os.Stat(picture); err != nil || info.Size() < 1000 {
		t.Errorf("the picture: %v", err)
	}
	lines := strings.Split(strings.TrimSpace(succeed(t, "blobs", frame, "-r", regions, "--find", ">= 128", "--csv")),
		"\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "region,index,blob,x,y,area,length") ||
		!strings.HasPrefix(lines[1], "left,0,1,10.00,5.50,30,10.00,3.00") ||
		!strings.HasPrefix(lines[2], "right,1,1,30.50,12.00,4") {
		t.Errorf("CSV:\n%s", strings.Join(lines, "\n"))
	}
	if out := succeed(t, "reduce", frame, "-r", regions, "--blobs", ">= 128"); !strings.Contains(out, "BLOBS") {
		t.Errorf("reduce:\n%s", out)
	}
}

// TestBlobsOutside: no blob in a region that reaches outside the frame isn't the same as none in one that is inside, and
// why a frame fails is said where its rows can't.
func TestBlobsOutside(t *testing.T) {
	metal := frames + "metal.png" // 1024x512
	regions := write(t, "out.json", `[{"name":"edge","rings":[[[1000,100],[1600,100],[1600,140],[1000,140]]]},
		{"name":"far","rings":[[[2000,0],[2009,0],[2009,9]]]},{"name":"in","rings":[[[9,9],[19,9],[19,19]]]}]`)
	args := []string{"blobs", metal, "-r", regions, "--find", ">= 250"}
	out := succeed(t, args...)
	for _, want := range []string{"REGION  INSIDE  BLOBS", "edge     4.0 %", "far        0 %", "in              "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	warning := regions + `: 0 % of region "far" lie inside ` + metal + `, and 1 more reach outside it`
	if _, stderr, code := polyscan(t, append(args, "--csv")...); code != exitOK ||
		!strings.HasSuffix(stderr, warning+"\n") {
		t.Errorf("--csv: exit %d: %s", code, stderr)
	}
	if out, stderr, code := polyscan(t, append(args, "--csv", "--strict")...); code != exitUsage || out != "" ||
		!strings.HasSuffix(stderr, warning+" (--strict)\n") {
		t.Errorf("--csv --strict: exit %d: %s%s", code, out, stderr)
	}
	lost := write(t, "lost.json", `{"locate":{"fiducials":[{"name":"F1","window":"rect(4,4,24,24)","at":[12,12],
		"kind":"circle","min_area":20}]},"regions":[{"name":"a","rings":[[[9,9],[19,9],[19,19]]],"limits":["blobs < 9"]}]}`)
	_, stderr, code := polyscan(t, "blobs", metal, "-r", lost, "--find", ">= 250", "--csv", "--fail-on-reject")
	if code != exitReject || !strings.Contains(stderr, metal+": FAIL: the part was not found: fiducial") {
		t.Errorf("a part that is not found: exit %d: %s", code, stderr)
	}
	out, stderr, code = polyscan(t, "blobs", metal, "--find", ">= 250", "--limit", "frame: blobs > 99999", "--fail-on-reject")
	if code != exitReject || !strings.Contains(out, "FAILED") || stderr != "" {
		t.Errorf("a limit that fails: exit %d: %s%s", code, out, stderr)
	}
}
