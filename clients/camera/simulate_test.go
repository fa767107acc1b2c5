package main

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/clients/camera/internal/gvsp"
)

func writePNG(t *testing.T, name string, img image.Image) {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Pictures lie behind each other on a belt that begins anew, in a camera's order of bytes.
func TestBelt(t *testing.T) {
	dir := t.TempDir()
	var said []string
	warn := func(text string) { said = append(said, text) }
	if err := os.WriteFile(filepath.Join(dir, "c.dat"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"a.png", "b.PNG"} {
		m := image.NewGray16(image.Rect(0, 0, 2, 3))
		for y := range 3 {
			for x := range 2 {
				m.SetGray16(x, y, color.Gray16{Y: uint16(0x1000*i + 0x100*y + x)})
			}
		}
		writePNG(t, filepath.Join(dir, name), m)
	}
	b, err := loadBelt(dir, warn)
	if err != nil || b.format != gvsp.Mono16 || b.width != 2 || b.height != 3 || len(b.lines) != 24 {
		t.Fatalf("%+v, %v", b, err)
	}
	if len(said) != 1 || !strings.Contains(said[0], "skipped, such as c.dat: frames end in .png, .jpg, .jpeg") {
		t.Errorf("%q", said)
	}
	got := make([]byte, 16) // four lines: the second block begins in the second picture
	b.draw(1, got)
	want := []byte{0, 0x11, 1, 0x11, 0, 0x12, 1, 0x12, 0, 0, 1, 0, 0, 1, 1, 1}
	if !bytes.Equal(got, want) {
		t.Errorf("% x, want % x", got, want)
	}
	writePNG(t, filepath.Join(dir, "c.png"), image.NewGray(image.Rect(0, 0, 2, 3)))
	if _, err := loadBelt(dir, warn); err == nil || !strings.Contains(err.Error(),
		"c.png: 2 x 3 Mono8: those before it are 2 x 3 Mono16") {
		t.Errorf("%v", err)
	}
	colour := image.NewNRGBA(image.Rect(0, 0, 1, 1))
	colour.SetNRGBA(0, 0, color.NRGBA{1, 2, 3, 255})
	writePNG(t, filepath.Join(dir, "d.png"), colour)
	if b, err := loadBelt(filepath.Join(dir, "d.png"), warn); err != nil || b.format != gvsp.RGB8 || !bytes.Equal(b.lines,
		[]byte{1, 2, 3}) {
		t.Errorf("%+v, %v", b, err)
	}
}

// The command is a camera until it is interrupted, and says what it did.
func TestSimulate(t *testing.T) {
	r := start(t, "simulate", "--listen", "127.0.0.1:0", "--width", "64", "--lines")
	r.out.await(t, "its address", func(s string) bool { return strings.Contains(s, "camera SIM001 at 127.0.0.1:") })
	addr := strings.TrimSuffix(strings.Fields(r.out.String())[3], ":")
	f := start(t, "features", addr, "Height", "DeviceScanType")
	if code := f.wait(); code != exitOK || !strings.Contains(f.out.String(), "Linescan") ||
		!strings.Contains(f.out.String(), "64") {
		t.Errorf("%d: %s%s", code, f.out, f.err)
	}
	r.cancel()
	if code := r.wait(); code != exitOK || !strings.Contains(r.out.String(), "0 blocks of 0 packets") {
		t.Errorf("%d: %s%s", code, r.out, r.err)
	}
}
