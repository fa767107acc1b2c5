package residents

import (
	"slices"
	"testing"
)

func TestHead(t *testing.T) {
	pieces := [][]byte{[]byte("ab"), []byte("c"), []byte("def")}
	for n := range 8 {
		got := head(pieces, n)
		if text := string(slices.Concat(got...)); text != "abcdef"[:min(n, 6)] {
			t.Errorf("%d bytes: %q", n, text)
		}
		if slices.ContainsFunc(got, func(p []byte) bool { return len(p) == 0 }) {
			t.Errorf("%d bytes: an empty piece", n)
		}
	}
	if text := string(slices.Concat(pieces...)); text != "abcdef" {
		t.Errorf("changed to %q", text)
	}
}
