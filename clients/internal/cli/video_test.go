package cli

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCutAVI: an AVI file is as long as its chunks say, of which long ones have several; others are as they are.
func TestCutAVI(t *testing.T) {
	chunk := func(kind string, says uint32, n int) string {
		return "RIFF" + string(binary.LittleEndian.AppendUint32(nil, says)) + kind + strings.Repeat("x", n-4)
	}
	for data, want := range map[string]string{
		chunk("AVI ", 100, 100): "", chunk("AVI ", 100, 100) + "more": "",
		chunk("AVI ", 101, 101) + "\x00" + chunk("AVIX", 20, 20): "",
		chunk("AVI ", 100, 99):                          "the file is cut: it has 107 bytes, of 108 that it says",
		chunk("AVI ", 100, 100) + chunk("AVIX", 20, 10): "it has 126 bytes, of 136",
		chunk("AVI ", 0, 99):                            "", chunk("AVI ", 1<<32-1, 99): "", // which nobody finished
		chunk("WEBP", 100, 99): "", "RIFF": "", "": "",
	} {
		name := filepath.Join(t.TempDir(), "a.avi")
		if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		err := CutAVI(name)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", data, err, want)
		}
	}
}
