package source

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFolder: files are frames in capitals or not, others are said, and no two files are one part.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	put := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	l := &Link{log: slog.New(slog.NewTextHandler(&out, nil))}
	put("a.PNG")
	put("b.webp")
	s, err := l.Add(Config{Folder: dir})
	if err != nil || len(s.files) != 1 || !strings.Contains(out.String(), "1 file or folder skipped, such as b.webp") {
		t.Errorf("%v, %s", err, out.String())
	}
	put("a.jpg")
	if _, err := l.Add(Config{Folder: dir}); err == nil || !strings.Contains(err.Error(), `are both part "a"`) {
		t.Error(err)
	}
}
