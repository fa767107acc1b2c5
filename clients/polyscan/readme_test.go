package main

// The README: what it says to type works, and the program that it shows is the one that the tests run.

import (
	"image"
	"os"
	"path/filepath"
	"regexp"
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
	const fill = "polyscan fill testdata/board.png -r testdata/board.regions.json -o filled.png" // a picture that is smooth
	for _, c := range []string{firstCommand, secondCommand, fill} {
		if !strings.Contains(text, "\n"+c+"\n") {
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
}

// TestReadmeSize: the README is a page. What is more belongs into docs.
func TestReadmeSize(t *testing.T) {
	text := readme(t)
	if lines, words := strings.Count(text, "\n"), len(strings.Fields(text)); lines > 150 || words > 1300 {
		t.Errorf("the README has %d lines and %d words, at most 150 and 1300", lines, words)
	}
}

// page is the text of a page below docs.
func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDocsCurves: the drawing that the page about diffusion shows is the one in testdata, in either format.
func TestDocsCurves(t *testing.T) {
	drawing, err := os.ReadFile(frames + "arch.json")
	if err != nil {
		t.Fatal(err)
	}
	if shown := "```json\n" + string(drawing) + "```\n"; !strings.Contains(page(t, "diffusion.md"), shown) {
		t.Errorf("the page doesn't show\n%s", shown)
	}
	if succeed(t, "diffuse", frames+"arch.xml", "-o", "-") != succeed(t, "diffuse", frames+"arch.json", "-o", "-") {
		t.Error("arch.xml makes another picture than arch.json")
	}
}

// TestReadmePrograms: the Go in the README is the body of examples in package clients, which run and are compared with
// their output.
func TestReadmePrograms(t *testing.T) {
	example, err := os.ReadFile(filepath.Join(top, "clients/example_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for rest := string(example); ; {
		_, body, ok := strings.Cut(rest, "\t// README: begin\n")
		if !ok {
			break
		}
		if body, rest, ok = strings.Cut(body, "\t// README: end\n"); !ok {
			t.Fatal("clients/example_test.go: a mark is missing")
		}
		n++
		shown := strings.TrimPrefix(strings.ReplaceAll("\n"+body, "\n\t", "\n"), "\n")
		if !strings.Contains(readme(t), "```go\n"+shown+"```\n") {
			t.Errorf("the README doesn't show\n%s", shown)
		}
	}
	if shown := strings.Count(readme(t), "```go\n"); n != 2 || shown != n {
		t.Errorf("%d examples, %d programs in the README", n, shown)
	}
}

// TestDocsLimits: the limits that are given as examples are limits.
func TestDocsLimits(t *testing.T) {
	_, text, _ := strings.Cut(page(t, "regions.md"), "\nExamples: ")
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

// TestReadmePicture: the picture is what the command draws today (go test -update draws it anew).
func TestReadmePicture(t *testing.T) {
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

// TestDocsOpen: nothing is left to be filled in.
func TestDocsOpen(t *testing.T) {
	for name, text := range pages(t) {
		for _, word := range []string{"TODO", "TBD", "XXX"} {
			if strings.Contains(text, word) {
				t.Errorf("%s still says %s", name, word)
			}
		}
	}
}
