package main

// The README: what it says to type works, and the program that it shows is the one that the tests run.

import (
	"bytes"
	"image"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/polygon"
)

const top = "../.."

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The two commands that a newcomer is given, to the letter.
const (
	firstCommand  = "go run ./clients/polyscan reduce testdata/board.png --regions testdata/board.regions.json --overlay overlay.png"
	secondCommand = "go test ./..."
)

func TestReadmeCommands(t *testing.T) {
	text := readme(t)
	for _, c := range []string{firstCommand, secondCommand} {
		if !strings.Contains(text, "\n    "+c+"\n") {
			t.Errorf("the README doesn't give the command %s", c)
		}
	}
	// The first one, with the picture going elsewhere.
	out := filepath.Join(t.TempDir(), "overlay.png")
	args := strings.Fields(strings.TrimPrefix(strings.Replace(firstCommand, "overlay.png", out, 1),
		"go run ./clients/polyscan "))
	t.Chdir(top)
	stdout := succeed(t, args...)
	if n := strings.Count(stdout, "\n"); n < 72 || !strings.Contains(stdout, "FAIL (2 of 72 regions with limits)") {
		t.Errorf("%d lines:\n%s", n, stdout)
	}
	if b := readPNG(t, out).Bounds(); b.Dx() != 960 || b.Dy() < 640 {
		t.Errorf("the overlay is %v", b)
	}
	for _, word := range []string{"two of them fail", "72 regions"} {
		if !strings.Contains(text, word) {
			t.Errorf("the README no longer says %q, which the command shows", word)
		}
	}
	// All others must parse.
	n := 0
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "    polyscan ") {
			continue
		}
		n++
		if _, stderr, code := polyscan(t, append(strings.Fields(line)[1:], "--help")...); code != 0 {
			t.Errorf("%s: exit %d, %s", strings.TrimSpace(line), code, stderr)
		}
	}
	if n < 8 {
		t.Errorf("%d commands found in the README", n)
	}
}

// TestReadmeRuns: what is to be typed in the folder of the repository, and needs no server, works in that order.
func TestReadmeRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("some seconds of work, for a test of nothing but the README")
	}
	text := readme(t)
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "testdata"), os.DirFS(filepath.Join(top, "testdata"))); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	n := 0
	for line := range strings.Lines(text) {
		args := strings.Fields(line)
		if !strings.HasPrefix(line, "    polyscan ") || slices.Contains(args, "--addr") ||
			slices.Contains(args, "bench") || slices.Contains(args, "points.npy") {
			continue
		}
		n++
		if _, stderr, code := polyscan(t, args[1:]...); code != 0 {
			t.Errorf("%s: exit %d, %s", strings.TrimSpace(line), code, stderr)
		}
	}
	if n < 10 {
		t.Errorf("%d commands were run", n)
	}
}

// TestReadmeCurves: the drawing that the README shows is the one in testdata, in either format.
func TestReadmeCurves(t *testing.T) {
	drawing, err := os.ReadFile(frames + "arch.json")
	if err != nil {
		t.Fatal(err)
	}
	if shown := "\n    " + strings.ReplaceAll(strings.TrimSpace(string(drawing)), "\n", "\n    ") +
		"\n"; !strings.Contains(readme(t), shown) {
		t.Errorf("the README doesn't show%s", shown)
	}
	if succeed(t, "diffuse", frames+"arch.xml", "-o", "-") != succeed(t, "diffuse", frames+"arch.json", "-o", "-") {
		t.Error("arch.xml makes another picture than arch.json")
	}
}

// TestReadmeProgram: the Go in the README is the body of Example in package clients, which runs and is compared with
// its output.
func TestReadmeProgram(t *testing.T) {
	example, err := os.ReadFile(filepath.Join(top, "clients/example_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, body, ok := strings.Cut(string(example), "\t// README: begin\n")
	body, _, ok2 := strings.Cut(body, "\t// README: end\n")
	if !ok || !ok2 {
		t.Fatal("the marks are gone from clients/example_test.go")
	}
	var want strings.Builder
	for line := range strings.Lines(body) {
		want.WriteString(strings.TrimPrefix(line, "\t"))
	}
	_, got, ok := strings.Cut(readme(t), "```go\n")
	got, _, ok2 = strings.Cut(got, "```\n")
	if !ok || !ok2 || got != want.String() {
		t.Errorf("the README shows\n%s\nbut the example is\n%s", got, want.String())
	}
}

// TestReadmeLimits: the limits that the README gives as examples are limits.
func TestReadmeLimits(t *testing.T) {
	_, text, _ := strings.Cut(readme(t), "    interval = ")
	text, _, _ = strings.Cut(text, "Case and white space")
	found := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(text, -1)
	if len(found) < 4 {
		t.Fatalf("found %q", found)
	}
	for _, m := range found {
		if _, err := polygon.ParseLimit(m[1]); err != nil {
			t.Errorf("%s: %v", m[1], err)
		}
	}
}

var linkOrPicture = regexp.MustCompile(`\]\(([^)#:]+)\)`)

// TestReadmePictures: what the README links to is there, and pictures are what the command draws today (go test -update
// draws them anew).
func TestReadmePictures(t *testing.T) {
	for _, m := range linkOrPicture.FindAllStringSubmatch(readme(t), -1) {
		if _, err := os.Stat(filepath.Join(top, m[1])); err != nil {
			t.Errorf("the README links to %s: %v", m[1], err)
		}
	}
	name := "docs/board.overlay.png"
	if !strings.Contains(readme(t), "]("+name+")") {
		t.Errorf("the README doesn't show %s", name)
	}
	out := filepath.Join(t.TempDir(), "board.png")
	succeed(t, "reduce", frames+"board.png", "-r", frames+"board.regions.json", "--overlay", out, "--overlay-size",
		"720")
	if *update {
		data, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(top, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	committed, drawn := readPNG(t, filepath.Join(top, name)), readPNG(t, out)
	if d := difference(committed, drawn); d > 0.5 {
		t.Errorf("%s differs from what the command draws by %.2f levels a sample", name, d)
	}
	if d := difference(drawn, image.NewGray(drawn.Bounds())); d < 20 {
		t.Errorf("a black picture differs by %.2f only: the comparison sees nothing", d)
	}
	if info, err := os.Stat(filepath.Join(top, name)); err != nil || info.Size() > 600<<10 {
		t.Errorf("%s: %d bytes, %v; too large for a README", name, info.Size(), err)
	}
}

// difference is the mean absolute difference of samples. It isn't zero between machines that fuse multiplications and
// those that don't: an antialiased edge may differ by a level.
func difference(a, b image.Image) float64 {
	if a.Bounds() != b.Bounds() {
		return 255
	}
	sum, n := 0, 0
	for y := a.Bounds().Min.Y; y < a.Bounds().Max.Y; y++ {
		for x := a.Bounds().Min.X; x < a.Bounds().Max.X; x++ {
			p, q := at(a, x, y), at(b, x, y)
			for _, d := range []int{int(p.R) - int(q.R), int(p.G) - int(q.G), int(p.B) - int(q.B)} {
				sum += max(d, -d)
				n++
			}
		}
	}
	return float64(sum) / float64(n)
}

// TestReadmeOpen: nothing is left to be filled in.
func TestReadmeOpen(t *testing.T) {
	for _, word := range []string{"TODO", "TBD", "PERFORMANCE", "XXX"} {
		if bytes.Contains([]byte(readme(t)), []byte(word)) {
			t.Errorf("the README still says %s", word)
		}
	}
}
