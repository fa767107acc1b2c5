package cli

import (
	"bytes"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFrames: every file of a folder is a frame, said to be skipped, hidden, or of a kind that lies beside frames.
func TestFrames(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.PNG", "a.jpg", "c.Tiff", "d.webp", "e.PNG2", ".f.gif", "g.json", "h.CSV", "._a.jpg", ".j.png"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "i.png"), 0o777); err != nil {
		t.Fatal(err)
	}
	var said []string
	warn := func(text string) { said = append(said, text) }
	names, err := Frames(dir, Pictures, warn)
	if want := []string{"a.jpg", "b.PNG", "c.Tiff"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%q, %v", names, err)
	}
	if len(said) != 1 || !strings.Contains(said[0], ": 3 files or folders skipped, such as d.webp: frames end in .png,") {
		t.Errorf("%q", said)
	}
	if _, err := Frames(t.TempDir(), []string{".raw"}, warn); err == nil ||
		!strings.Contains(err.Error(), "no frames (.raw)") {
		t.Errorf("%v", err)
	}
	// Raw frames may have any name but those of what lies beside frames.
	for _, name := range []string{"b.dat", "c.RAW16", "d.png", "notes.txt/e.dat", "below/x.raw", "g.json", ".h.dat", "._a.bin"} {
		raw := t.TempDir()
		file := filepath.Join(raw, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{filepath.Join(raw, "a.bin"), file} {
			if err := os.WriteFile(name, []byte{1, 2}, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		names, err := Frames(raw, []string{".raw", ".bin"}, warn)
		if taken := name == "g.json" || name == ".h.dat" || name == "._a.bin"; taken != (err == nil && len(names) == 1) ||
			!taken && !strings.HasPrefix(err.Error(), file+": a ") {
			t.Errorf("%s: %q, %v", name, names, err)
		}
	}
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, 2, 2))); err != nil {
		t.Fatal(err)
	}
	for name, head := range map[string]string{"a.webp": "RIFF\x10\x00\x00\x00WEBPVP8 ", "notes.txt": file.String(),
		"a.heic": "\x00\x00\x00\x18ftypheic\x00\x00\x00\x00", "frame": "II*\x00\x08\x00\x00\x00", "b.gif": "GIF89a", "a.pgm": "P5 2 2 255"} {
		other := filepath.Join(dir, name)
		if err := os.WriteFile(other, []byte(head), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Frames(dir, Pictures, warn); err == nil || !strings.HasPrefix(err.Error(), other+": a picture (") {
			t.Errorf("%s: %v", name, err)
		}
		if err := os.Remove(other); err != nil {
			t.Fatal(err)
		}
	}
	odd := filepath.Join(dir, "b\xff.png")
	if err := os.WriteFile(odd, nil, 0o644); err == nil { // not all file systems have such names
		if _, err := Frames(dir, Pictures, warn); err == nil || !strings.Contains(err.Error(), `"b\xff.png" is no UTF-8`) {
			t.Errorf("%v", err)
		}
		if err := os.Remove(odd); err != nil {
			t.Fatal(err)
		}
	}
	// Frames in folders below, and in those that links name, are parts as well; what is hidden isn't looked at.
	below := filepath.Join(dir, "i.png", "deep")
	for _, name := range []string{below, filepath.Join(dir, ".thumbnails"), filepath.Join(dir, "i.png", ".git")} {
		if err := os.Mkdir(name, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(name, ".a.png"), file.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{filepath.Join(dir, ".thumbnails", "a.png"),
		filepath.Join(dir, "i.png", ".git", "a.png")} {
		if err := os.WriteFile(name, file.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Frames(dir, Pictures, warn); err != nil {
		t.Error(err)
	}
	if err := os.Symlink(filepath.Join(dir, ".thumbnails"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	refused := func(name string, kinds []string) {
		t.Helper()
		want := name + ": a frame that would not be read: folders in " + dir + " are left out;"
		if _, err := Frames(dir, kinds, warn); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	refused(filepath.Join(dir, "link", "a.png"), Pictures)
	if err := os.Remove(filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"x.raw", "b"} {
		if err := os.WriteFile(filepath.Join(below, name), file.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	refused(filepath.Join(below, "b"), Pictures)
	if err := os.RemoveAll(below); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "9.png")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Frames(dir, Pictures, warn); err == nil || err.Error() != pipe+": no regular file" {
		t.Errorf("a pipe: %v", err)
	}
	if _, err := Frames(filepath.Join(dir, "gone"), Pictures, warn); err == nil {
		t.Error("a folder that isn't there")
	}
}

func TestCheckPartIDs(t *testing.T) {
	if err := CheckPartIDs([]string{"a.png", "b.png", "a.b.png"}); err != nil {
		t.Error(err)
	}
	err := CheckPartIDs([]string{"a.png", "b.png", "a.jpg"})
	if err == nil || !strings.Contains(err.Error(), `a.png and a.jpg are both part "a"`) {
		t.Error(err)
	}
}
