package devicetest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/internal/race"
)

// The Go code of docs/add-an-op.md, put into the tree without touching it, passes its conformance case on the CPU, and
// the case finds the mistake of the page.
func TestAddAnOp(t *testing.T) {
	if testing.Short() || race.Enabled {
		t.Skip("it compiles the packages again")
	}
	out, err := withPage(t, func(page string) string { return page })
	if err != nil || !strings.Contains(out, "--- PASS: TestCPU/threads=2/gradient_sum") ||
		!strings.Contains(out, "--- PASS: TestSuiteFindsMistakes/gradient_sum/nothing_is_added_up") {
		t.Errorf("%v\n%s", err, out)
	}
	// A wrong backend, one without the op, and a case that nothing is tried on are found.
	for _, c := range []struct{ name, old, new, says string }{
		{"a wrong sum", "uint64(edges[i])", "uint64(edges[i]+1)", "--- FAIL: TestCPU/threads=2/gradient_sum"},
		{"no line in the table", "	handle((*device).gradientSum, nil)", "", "--- FAIL: TestCPU/threads=2/gradient_sum"},
		{"no mistake", `part: "gradient sum"`, `part: "edges"`, `no mistake is tried on the part "gradient sum"`},
	} {
		change := func(page string) string { return strings.Replace(page, c.old, c.new, 1) }
		if out, err := withPage(t, change); err == nil || !strings.Contains(out, c.says) {
			t.Errorf("%s: %v\n%s", c.name, err, out)
		}
	}
}

// The CUDA code of the page compiles: the kernel, and the launch against the ABI that is made of its declaration.
func TestAddAnOpCUDA(t *testing.T) {
	if testing.Short() || race.Enabled {
		t.Skip("it compiles the packages again")
	}
	for _, tool := range []string{"nvcc", "c++"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s here (kernels/cu/install-nvcc.sh)", tool)
		}
	}
	root, page := readPage(t)
	src := t.TempDir()
	if err := os.CopyFS(src, os.DirFS(filepath.Join(root, "kernels/cu"))); err != nil {
		t.Fatal(err)
	}
	for _, b := range regexp.MustCompile("(?s)```cuda\n// kernels/cu/([\\w/.]+)\n(.*?)```").FindAllStringSubmatch(page,
		-1) {
		if err := os.WriteFile(filepath.Join(src, b[1]), []byte(b[2]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := func(args ...string) (string, error) {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=1")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	run := func(args ...string) {
		t.Helper()
		if out, err := command(args...); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	out := t.TempDir()
	abi := filepath.Join(out, "abi.go")
	run("nvcc", "-std=c++14", "-cubin", "-arch=sm_61", "-o", filepath.Join(out, "cubin"),
		filepath.Join(src, "gradientsum.cu"))
	run("go", "run", "-C", "tools", "./kernelabi", filepath.Join(src, "abi"), filepath.Join(root, "kernels/driver"), abi)
	vet := func(page string) []string {
		at := writeOverlay(t, root, page, map[string]string{filepath.Join(root, "kernels/cuda/abi.go"): abi})
		return []string{"go", "vet", "-tags", "cuda", "-overlay", at, "./kernels/cuda"}
	}
	run(vet(page)...)
	wrong := strings.Replace(page, "Pixels: uint64(pixels)", "Pixels: pixels", 1)
	if out, err := command(vet(wrong)...); err == nil || !strings.Contains(out, "gradientsum.go") {
		t.Errorf("a parameter of another type: %v\n%s", err, out)
	}
}

// goBlock is the code of a file. One for a file that there is goes in front of the first line that begins alike.
var goBlock = regexp.MustCompile("(?s)```go\n// ([\\w/.]+)\n(.*?)```")

// withPage runs the case, and its mistake, with the code of a changed page.
func withPage(t *testing.T, change func(string) string) (string, error) {
	t.Helper()
	root, page := readPage(t)
	at := writeOverlay(t, root, change(page), map[string]string{})
	cmd := exec.Command("go", "test", "-short", "-v", "-vet=off", "-overlay", at, "-run",
		"^TestCPU$/^threads=2$/^gradient_sum$|^TestSuiteFindsMistakes$/^gradient_sum$", "./internal/devicetest")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// readPage returns the folder of the tree, and the page.
func readPage(t *testing.T) (root, page string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs/add-an-op.md"))
	if err != nil {
		t.Fatal(err)
	}
	return root, string(text)
}

// writeOverlay writes what "go -overlay" reads: the Go code of the page, and other files in place of those of the tree.
func writeOverlay(t *testing.T, root, page string, replace map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{replace}
	blocks := goBlock.FindAllStringSubmatch(page, -1)
	if len(blocks) != 10 {
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
	return at
}

// insert puts lines in front of the first one that begins alike: up to its first parenthesis or quote.
func insert(t *testing.T, name, old, lines string) string {
	t.Helper()
	at := strings.Index(old, "\n"+lines[:strings.IndexAny(lines, `("`)+1])
	if at < 0 {
		t.Fatalf("%s has no line that begins as %q", name, lines)
	}
	return old[:at+1] + lines + old[at+1:]
}
