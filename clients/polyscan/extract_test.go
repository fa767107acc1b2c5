package main

import (
	"image"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A picture goes there and back: what extract says of it is what diffuse makes.
func TestExtract(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	const w, h = 90, 70
	im := image.NewNRGBA(image.Rect(0, 0, w, h))
	for i := range w * h {
		x, y := i%w, i/w
		c := color.NRGBA{uint8(40 + x), uint8(200 - y), uint8(90 + (x+y)/4), 255}
		if math.Hypot(float64(x-40), float64(y-33)) < 20 {
			c = color.NRGBA{230, uint8(60 + y), 30, 255}
		}
		im.SetNRGBA(x, y, c)
	}
	writePNG(t, in("in.png"), im)
	stdout := succeed(t, "extract", in("in.png"), "-o", in("c.json"), "--preview", in("preview.png"), "--psnr", "33",
		"--levels", "3")
	m := regexp.MustCompile(`: (\d+) curves?, (\d+) pixels? besides, ([\d.]+) dB; (\d+) bytes, (\d+) compressed: ` +
		`1/([\d.]+) of the pixels and 1/[\d.]+ of a PNG, after \d+ solves by cpu\n$`).FindStringSubmatch(stdout)
	if m == nil {
		t.Fatalf("it says %q", stdout)
	}
	curves, _ := strconv.Atoi(m[1])
	psnr, _ := strconv.ParseFloat(m[3], 64)
	ratio, _ := strconv.ParseFloat(m[6], 64)
	file, err := os.ReadFile(in("c.json"))
	if err != nil {
		t.Fatal(err)
	}
	if curves < 1 || curves > 6 || psnr < 33 || ratio < 5 || m[4] != strconv.Itoa(len(file)) {
		t.Errorf("it says %q of %d bytes", stdout, len(file))
	}
	stdout = succeed(t, "diffuse", in("c.json"), "-o", in("out.png"), "--compare", in("in.png"))
	if !strings.Contains(stdout, " pixels given, "+m[3]+" dB, ") {
		t.Errorf("diffuse says %q, extract said %s dB", stdout, m[3])
	}
	preview, again := readPNG(t, in("preview.png")), readPNG(t, in("out.png"))
	for i := range w * h {
		if a, b := color.NRGBAModel.Convert(preview.At(i%w, i/w)),
			color.NRGBAModel.Convert(again.At(i%w, i/w)); a != b {
			t.Fatalf("pixel %d of the preview is %v, and later %v", i, a, b)
		}
	}
	succeed(t, "extract", in("in.png"), "-o", in("c.json.gz"), "--psnr", "33", "--levels", "3")
	packed, err := os.ReadFile(in("c.json.gz"))
	if err != nil || strconv.Itoa(len(packed)) != m[5] {
		t.Errorf("%d bytes, it says %s: %v", len(packed), m[5], err)
	}
	if succeed(t, "diffuse", in("c.json.gz"), "-o", in("out.png"), "--compare", in("in.png")) == "" {
		t.Error("it says nothing")
	}
	if got := succeed(t, "extract", in("in.png"), "-o", "-", "--psnr", "33", "--levels", "3"); got != string(file) {
		t.Error("to standard output it is another file")
	}
	for says, args := range map[string][]string{
		"--threshold -1: must be 0.1 to 1000": {"--threshold=-1"},
		"--psnr 101: must be 0 to 100":        {"--psnr", "101"},
		"--psnr -1: must be 0 to 100":         {"--psnr=-1"},
		"--length 1: must be 2 to 1048576":    {"--length", "1"},
		"--length -3: must be 2 to 1048576":   {"--length=-3"},
		"--max-pixels 101: must be 0 to 100":  {"--max-pixels", "101"},
		"--preview -: standard output":        {"--preview", "-"},
	} {
		_, stderr, code := polyscan(t, append([]string{"extract", in("in.png"), "-o", in("c.json")}, args...)...)
		if code != exitUsage || !strings.Contains(stderr, says) {
			t.Errorf("%v: exit %d, %q", args, code, stderr)
		}
	}
	writePNG(t, in("small.png"), image.NewGray(image.Rect(0, 0, 3, 3)))
	if _, stderr, code := polyscan(t, "diffuse", in("c.json"), "-o", in("out.png"), "--compare",
		in("small.png")); code != exitUsage || !strings.Contains(stderr, "is 3x3; the picture will be 90x70") {
		t.Errorf("exit %d, %q", code, stderr)
	}
}
