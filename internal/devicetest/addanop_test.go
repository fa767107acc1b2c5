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

// The Go code of docs/add-an-op.md, put into the tree without touching it, passes its conformance case on the CPU.
func TestAddAnOp(t *testing.T) {
	if testing.Short() || race.Enabled {
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
	for _, b := range regexp.MustCompile("(?s)```cuda\n// kernels/cu/([\\w/.]+)\n(.*?)```").FindAllStringSubmatch(page, -1) {
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

// goBlock is the code of a file. One for a file that there is goes behind the last line that begins alike.
var goBlock = regexp.MustCompile("(?s)```go\n// ([\\w/.]+)\n(.*?)```")

// withPage runs the case with the code of a changed page.
func withPage(t *testing.T, change func(string) string) (string, error) {
	t.Helper()
	root, page := readPage(t)
	at := writeOverlay(t, root, change(page), map[string]string{})
	cmd := exec.Command("go", "test", "-short", "-v", "-vet=off", "-overlay", at, "-run",
		"^TestCPU$/^threads=2$/^gradient_sum$", "./internal/devicetest")
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
	if len(blocks) != 9 {
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
