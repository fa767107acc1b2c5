package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestLong(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a_test.go": `package p
import "testing"
func TestAsks(t *testing.T) { if testing.Short() { t.Skip() } }
func TestCalls(t *testing.T) { deep(t) }
func TestTable(t *testing.T) { for range cases { } }
func TestMethod(t *testing.T) { s{}.run() }
func TestQuick(t *testing.T) { t.Log("Short") }
func BenchmarkAsks(b *testing.B) { _ = testing.Short() }
`,
		"b_test.go": `package p
import "testing"
type s struct{}
func deep(t *testing.T) { deeper(t) }
func deeper(t *testing.T) { _ = testing.Short() }
func (s) run() { deep(nil) }
var cases = size(testing.Short())
func size(bool) []int { return nil }
`,
		"c.go": "package p\nfunc TestNone() { Short() }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := long(dir)
	if want := []string{"TestAsks", "TestCalls", "TestMethod", "TestTable"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	if got, err := long(t.TempDir()); err != nil || len(got) > 0 {
		t.Errorf("an empty folder: %v, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "d_test.go"), []byte("package p\nfunc {"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := long(dir); err == nil {
		t.Error("a file that is no Go: no error")
	}
}
