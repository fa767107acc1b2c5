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
