package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The board as a colour camera sends it has the verdicts of the board, whichever way its colours are interpolated, as a
// file and as raw bytes; and the overlay is drawn on its colours.
func TestBayerBoard(t *testing.T) {
	verdicts := func(args ...string) string {
		t.Helper()
		r := succeed(t, append([]string{"reduce", "--json", "-r", "../../testdata/board.regions.json"}, args...)...)
		var report struct {
			PixelFormat string `json:"pixel_format"`
			Regions     []struct{ Name, Verdict string }
		}
		if err := json.Unmarshal([]byte(r), &report); err != nil || report.PixelFormat != "rgb8" {
			t.Fatalf("%v: %v, %q", args, err, report.PixelFormat)
		}
		var out []string
		for _, r := range report.Regions {
			out = append(out, r.Name+" "+r.Verdict)
		}
		return strings.Join(out, "\n")
	}
	const bayer = "../../testdata/board.bayer.png"
	want := verdicts("../../testdata/board.png")
	overlay := filepath.Join(t.TempDir(), "overlay.png")
	for _, args := range [][]string{{"--overlay", overlay}, {"--demosaic", "malvar"}} {
		if got := verdicts(append([]string{bayer, "--format", "bayer_rg8"}, args...)...); got != want {
			t.Errorf("%v: %s, want %s", args, got, want)
		}
	}
	f := &frame{name: overlay}
	var err error
	if f.data, err = os.ReadFile(overlay); err != nil {
		t.Fatal(err)
	}
	im, err := f.decode()
	if err != nil {
		t.Fatal(err)
	}
	r, g, b, _ := im.At(30, 30).RGBA() // the solder mask
	if g <= r || g <= b {
		t.Errorf("the overlay's pixel is %d %d %d", r>>8, g>>8, b>>8)
	}
	file := &frame{name: bayer}
	if file.data, err = os.ReadFile(bayer); err != nil {
		t.Fatal(err)
	}
	gray, err := file.decode()
	if err != nil {
		t.Fatal(err)
	}
	raw := filepath.Join(t.TempDir(), "board.raw")
	pixels := make([]byte, 0, 960*640)
	for y := range 640 {
		for x := range 960 {
			v, _, _, _ := gray.At(x, y).RGBA()
			pixels = append(pixels, byte(v>>8))
		}
	}
	if err := os.WriteFile(raw, pixels, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := verdicts(raw, "--raw", "960x640:bayer_rg8"); got != want {
		t.Errorf("raw: %s, want %s", got, want)
	}
}
