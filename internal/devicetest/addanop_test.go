package devicetest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The Go code of docs/add-an-op.md, put into the tree without touching it, passes its conformance case on the CPU.
func TestAddAnOp(t *testing.T) {
	if testing.Short() || raceDetector {
		t.Skip("it compiles the packages again")
	}
	out, err := withPage(t, func(page string) string { return page })
	if err != nil || !strings.Contains(out, "--- PASS: TestCPU/threads=2/gradient_sum") {
		t.Errorf("%v\n%s", err, out)
	}
	// A wrong backend, and one without the op, are found.
	for name, broken := range map[string]func(string) string{
		"a wrong sum": func(p string) string { return strings.Replace(p, "uint64(edges[i])", "uint64(edges[i]+1)", 1) },
		"no line in the table": func(p string) string {
			return strings.Replace(p, "	handle((*device).gradientSum, nil)", "", 1)
		},
	} {
		if out, err := withPage(t, broken); err == nil || !strings.Contains(out, "--- FAIL: TestCPU/threads=2/gradient_sum") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

var goBlock = regexp.MustCompile("(?s)```go\n// ([\\w/.]+)\n(.*?)```")

// withPage runs the case with the code of a changed page. A block for a file that there is goes behind the last line
// that begins alike.
func withPage(t *testing.T, change func(string) string) (string, error) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/add-an-op.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	blocks := goBlock.FindAllStringSubmatch(change(string(page)), -1)
	if len(blocks) != 7 {
		t.Fatalf("the page has %d blocks of Go", len(blocks))
	}
	for _, b := range blocks {
		name, text := filepath.Join(root, b[1]), b[2]
		if old, err := os.ReadFile(name); err == nil && strings.TrimSpace(text) != "" {
			text = insert(t, b[1], string(old), text)
		} else if err == nil {
			text = string(old)
		}
		to := filepath.Join(dir, strings.ReplaceAll(b[1], "/", "_"))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[name] = to
	}
	list, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(at, list, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "test", "-short", "-v", "-vet=off", "-overlay", at, "-run",
		"^TestCPU$/^threads=2$/^gradient_sum$", "./internal/devicetest")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// insert puts a line behind the last one that begins alike: up to its first parenthesis or quote.
func insert(t *testing.T, name, old, line string) string {
	t.Helper()
	start := "\n" + line[:strings.IndexAny(line, `("`)+1]
	at := strings.LastIndex(old, start)
	if at < 0 {
		t.Fatalf("%s has no line like %q", name, line)
	}
	end := at + 1 + strings.Index(old[at+1:], "\n") + 1
	return old[:end] + line + old[end:]
}
