package main

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/diffusion"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
)

func writePNG(t *testing.T, name string, im image.Image) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := png.Encode(f, im); err != nil {
		t.Fatal(err)
	}
}

// Two columns are given: what comes is the ramp between them, by every solver.
func TestDiffuse(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.png"), filepath.Join(dir, "out.png")
	given := image.NewNRGBA(image.Rect(0, 0, 31, 9))
	for y := range 9 {
		given.SetNRGBA(0, y, color.NRGBA{R: 250, G: 10, A: 255})
		given.SetNRGBA(30, y, color.NRGBA{R: 100, G: 10, B: 60, A: 255})
		given.SetNRGBA(15, y, color.NRGBA{R: 77, G: 77, B: 77, A: 254}) // not given
	}
	writePNG(t, in, given)
	for _, solver := range []string{"multigrid", "naive", "pyramid-cautious", "pyramid-greedy", "variable-stencil"} {
		stdout := succeed(t, "diffuse", in, "-o", out, "--solver", solver, "--accuracy", "0.1")
		if !strings.HasPrefix(stdout, out+": 6.5 % of 31x9 pixels given, ") || !strings.HasSuffix(stdout, " by cpu\n") {
			t.Errorf("%s says %q", solver, stdout)
		}
		im := readPNG(t, out)
		for x := range 31 {
			got := color.NRGBAModel.Convert(im.At(x, 4)).(color.NRGBA)
			if r, b := 250-5*x, 2*x; abs(int(got.R)-r) > 1 || got.G != 10 || abs(int(got.B)-b) > 1 || got.A != 255 {
				t.Errorf("%s: column %d is %v, want %d and %d", solver, x, got, r, b)
			}
		}
	}
	// To a threshold nothing is known of the error, unless it is measured.
	for _, c := range []struct{ args, says string }{
		{"--threshold paper", "1 cycle to the threshold, error not known, in "},
		{"--threshold 0.0001", " cycles to the threshold, error not known, in "},
		{"--threshold 0.0001 --measure-error", " cycles to the threshold, error at most 0."},
	} {
		args := append([]string{"diffuse", in, "-o", out, "--solver", "pyramid-greedy"}, strings.Fields(c.args)...)
		if stdout := succeed(t, args...); !strings.Contains(stdout, c.says) {
			t.Errorf("%s: says %q", c.args, stdout)
		}
	}
	succeed(t, "diffuse", in, "-o", out, "--solver", "variable-stencil", "--accuracy", "0.1")
	file, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if again := succeed(t, "diffuse", in, "-o", "-", "--solver", "variable-stencil", "--accuracy", "0.1",
		"--threads", "1"); again != string(file) {
		t.Error("to standard output, on one thread, it is another file")
	}
}

// Pictures on the way are written as they come, and the last one is that of the output.
func TestDiffuseProgress(t *testing.T) {
	dir := t.TempDir()
	// which is made
	in, out, way := filepath.Join(dir, "in.png"), filepath.Join(dir, "out.png"), filepath.Join(dir, "way")
	given := image.NewNRGBA(image.Rect(0, 0, 60, 40))
	given.SetNRGBA(5, 5, color.NRGBA{R: 255, A: 255})
	given.SetNRGBA(50, 30, color.NRGBA{B: 255, A: 255})
	writePNG(t, in, given)
	stdout := succeed(t, "diffuse", in, "-o", out, "--progress", way)
	want, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(way)
	if err != nil || len(files) < 1 ||
		!strings.Contains(stdout, fmt.Sprintf(", %s in %s, ", plural(len(files), "picture", "pictures"), way)) {
		t.Fatalf("%d files, %v; it says %q", len(files), err, stdout)
	}
	for i, f := range files {
		name := filepath.Join(way, f.Name())
		if f.Name() != fmt.Sprintf("%04d.png", i+1) || readPNG(t, name).Bounds() != given.Bounds() {
			t.Errorf("file %d is %s", i+1, f.Name())
		}
		if got, err := os.ReadFile(name); i == len(files)-1 && !bytes.Equal(got, want) {
			t.Errorf("%s, the last, is not %s: %v", name, out, err)
		}
	}
	if alone := succeed(t, "diffuse", in, "-o", "-"); alone != string(want) {
		t.Error("without pictures on the way it is another one")
	}
	// One that can't be written ends the command.
	for i := range 200 {
		name := filepath.Join(way, fmt.Sprintf("%04d.png", i+1))
		if err := errors.Join(os.RemoveAll(name), os.Mkdir(name, 0o777)); err != nil {
			t.Fatal(err)
		}
	}
	if _, stderr, code := polyscan(t, "diffuse", in, "-o", out, "--progress", way); code != exitUsage ||
		!strings.Contains(stderr, "0001.png: it is a folder") {
		t.Errorf("a folder is in the way: exit %d, %q", code, stderr)
	}
	if err := os.Chmod(way, 0o555); err != nil {
		t.Fatal(err)
	}
	if f, err := os.Create(filepath.Join(way, "x")); err == nil { // as root may
		f.Close()
		return
	}
	if _, stderr, code := polyscan(t, "diffuse", in, "-o", out, "--progress", way); code != exitUsage ||
		!strings.Contains(stderr, way+": no file can be made there: permission denied") {
		t.Errorf("a folder that can't be written to: exit %d, %q", code, stderr)
	}
}

// Curves in either format make the same picture; on each side of one without blur are the colours of that side.
func TestDiffuseCurves(t *testing.T) {
	dir := t.TempDir()
	in := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	out := filepath.Join(dir, "out.png")
	fromJSON := in("a.json", `{"version": 1, "width": 40, "height": 30, "curves": [
		{"points": [[20, -1], [20, 10], [20, 20], [20, 31]], "left": [[0, 250, 20, 0]], "right": [[0, 0, 0, 100], [1, 0, 200, 100]]}]}`)
	fromXML := in("a.xml", `<!DOCTYPE CurveSetXML>
		<curve_set image_width="40" image_height="30" nb_curves="1"><curve>
		<control_points_set><control_point x="-1" y="20"/><control_point x="10" y="20"/>
		<control_point x="20" y="20"/><control_point x="31" y="20"/></control_points_set>
		<left_colors_set><left_color R="0" G="20" B="250" globalID="0"/></left_colors_set>
		<right_colors_set><right_color R="100" G="0" B="0" globalID="0"/><right_color R="100" G="200" B="0" globalID="10"/></right_colors_set>
		</curve></curve_set>`)
	stdout := succeed(t, "diffuse", fromJSON, "-o", out)
	if !strings.HasPrefix(stdout, out+": 5 % of 40x30 pixels given, ") {
		t.Errorf("it says %q", stdout)
	}
	apart := in("apart.json",
		`{"version": 1, "width": 40, "height": 30, "curves": [{"points": [[-1, 10], [10, 10], [20, 10], [41, 10]], "barrier": true}],
		"pixels": [[3, 3, 9, 9, 9]]}`)
	if stdout := succeed(t, "diffuse", apart, "-o", filepath.Join(dir, "apart.png")); !strings.Contains(stdout,
		": 0.083 % of 40x30 pixels given, 67 % out of their reach, ") {
		t.Errorf("behind a barrier: it says %q", stdout)
	}
	all := in("all.json", `{"version": 1, "width": 1, "height": 1, "curves": [], "pixels": [[0, 0, 9, 9, 9]]}`)
	if stdout := succeed(t, "diffuse", all, "-o", filepath.Join(dir, "all.png")); !strings.Contains(stdout,
		": 100 % of 1x1 pixels given, 1 cycle") {
		t.Errorf("where all is given: it says %q", stdout)
	}
	im := readPNG(t, out)
	for y := range 30 {
		for x := range 40 {
			c := color.NRGBAModel.Convert(im.At(x, y)).(color.NRGBA)
			if x >= 20 && c != (color.NRGBA{250, 20, 0, 255}) || x < 20 &&
				(c.R != 0 || c.B != 100 || x == 19 && abs(int(c.G)-200*(2*y+3)/64) > 1) {
				t.Fatalf("(%d, %d) is %v", x, y, c)
			}
		}
	}
	file, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if other := succeed(t, "diffuse", fromXML, "-o", "-"); other != string(file) {
		t.Error("the XML makes another picture")
	}
	for says, text := range map[string]string{
		"bad.json: line 1 column 14: version: 3: this reads version 1": `{"version": 3}`,
		"bad.json: curves[0].xy: lie outside of the canvas of 9x9": `{"version": 1, "width": 9, "height": 9, "curves": [
			{"points": [[20, 1], [20, 10], [20, 20], [20, 31]], "left": [[0, 250, 20, 0]]}]}`,
	} {
		_, stderr, code := polyscan(t, "diffuse", in("bad.json", text), "-o", out)
		if code != exitUsage {
			t.Errorf("%s: exit %d", says, code)
		}
		head, tail, _ := strings.Cut(says, "xy: ")
		if !strings.Contains(stderr, head) || !strings.Contains(stderr, tail) {
			t.Errorf("%s: %q", says, stderr)
		}
	}
}

func abs(x int) int { return max(x, -x) }

// A hole in a ramp is filled with the ramp, and nothing else changes; a gray picture stays one.
func TestFill(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	const w, h = 60, 40
	gray, colour, mask := image.NewGray(image.Rect(0, 0, w, h)), image.NewNRGBA(image.Rect(0, 0, w, h)),
		image.NewGray(image.Rect(0, 0, w, h))
	inside := func(x, y int) bool { return x >= 20 && x < 35 && y >= 10 && y < 30 }
	for y := range h {
		for x := range w {
			gray.SetGray(x, y, color.Gray{Y: uint8(4 * x)})
			colour.SetNRGBA(x, y, color.NRGBA{uint8(4 * x), uint8(6 * y), 99, 255})
			if inside(x, y) {
				mask.SetGray(x, y, color.Gray{Y: 1})
				gray.SetGray(x, y, color.Gray{})
				colour.SetNRGBA(x, y, color.NRGBA{})
			}
		}
	}
	writePNG(t, in("gray.png"), gray)
	writePNG(t, in("colour.png"), colour)
	writePNG(t, in("mask.png"), mask)
	square := `{"version": 1, "regions": [{"name": "hole", "rings": [[[20, 10], [35, 10], [35, 30], [20, 30]]]}]}`
	if err := os.WriteFile(in("hole.json"), []byte(square), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, holes := range [][]string{{"--mask", in("mask.png")}, {"--regions", in("hole.json")}, {}} {
		if len(holes) == 0 { // the hole is transparent: in a picture with colours only
			succeed(t, "fill", in("colour.png"), "-o", in("clear.png"))
			if !samePixels(readPNG(t, in("clear.png")), readPNG(t, in("out.png"))) {
				t.Error("what is transparent is filled in another way")
			}
			continue
		}
		stdout := succeed(t, append([]string{"fill", in("gray.png"), "-o", in("out.png")}, holes...)...)
		if !strings.HasPrefix(stdout, in("out.png")+": 300 pixels filled, ") {
			t.Errorf("%v: it says %q", holes, stdout)
		}
		filled, ok := readPNG(t, in("out.png")).(*image.Gray)
		if !ok {
			t.Fatalf("%v: a gray picture became another kind", holes)
		}
		for y := range h {
			for x := range w {
				if got := int(filled.GrayAt(x, y).Y); abs(got-4*x) > 1 || !inside(x, y) && got != 4*x {
					t.Fatalf("%v: (%d, %d) is %d, want %d", holes, x, y, got, 4*x)
				}
			}
		}
		succeed(t, append([]string{"fill", in("colour.png"), "-o", in("out.png")}, holes...)...)
		im := readPNG(t, in("out.png"))
		for y := range h {
			for x := range w {
				c := color.NRGBAModel.Convert(im.At(x, y)).(color.NRGBA)
				if abs(int(c.R)-4*x) > 1 || abs(int(c.G)-6*y) > 1 || c.B != 99 || c.A != 255 {
					t.Fatalf("%v: (%d, %d) is %v", holes, x, y, c)
				}
			}
		}
	}
}

func samePixels(a, b image.Image) bool {
	if a.Bounds() != b.Bounds() {
		return false
	}
	for y := range a.Bounds().Dy() {
		for x := range a.Bounds().Dx() {
			if color.NRGBAModel.Convert(a.At(x, y)) != color.NRGBAModel.Convert(b.At(x, y)) {
				return false
			}
		}
	}
	return true
}

// What lies on a ramp is the residual, and the ramp the background.
func TestBackground(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	const w, h = 40, 30
	picture, mask := image.NewNRGBA(image.Rect(0, 0, w, h)), image.NewGray(image.Rect(0, 0, w, h))
	inside := func(x, y int) bool { return x >= 12 && x < 22 && y >= 10 && y < 20 }
	for y := range h {
		for x := range w {
			c := color.NRGBA{uint8(50 + 2*x), uint8(90 + y), 250, 255}
			if inside(x, y) {
				c.R, c.G, c.B = c.R+70, c.G-80, 0
				mask.SetGray(x, y, color.Gray{Y: 255})
			}
			picture.SetNRGBA(x, y, c)
		}
	}
	writePNG(t, in("in.png"), picture)
	writePNG(t, in("mask.png"), mask)
	args := []string{"background", in("in.png"), "--mask", in("mask.png"), "-o", in("out.png")}
	stdout := succeed(t, append(args, "--residual", in("r.png"))...)
	if !strings.HasPrefix(stdout, in("out.png")+": 100 pixels estimated, ") {
		t.Errorf("it says %q", stdout)
	}
	background, residual := readPNG(t, in("out.png")), readPNG(t, in("r.png"))
	for y := range h {
		for x := range w {
			c, r := color.NRGBAModel.Convert(background.At(x, y)).(color.NRGBA),
				color.NRGBAModel.Convert(residual.At(x, y)).(color.NRGBA)
			if abs(int(c.R)-50-2*x) > 1 || abs(int(c.G)-90-y) > 1 || c.B != 250 {
				t.Fatalf("the background of (%d, %d) is %v", x, y, c)
			}
			want := color.NRGBA{128, 128, 128, 255}
			if inside(x, y) {
				want = color.NRGBA{198, 48, 0, 255}
			}
			if abs(int(r.R)-int(want.R)) > 1 || abs(int(r.G)-int(want.G)) > 1 || r.B != want.B || !inside(x, y) &&
				r != want {
				t.Fatalf("the residual of (%d, %d) is %v, want %v", x, y, r, want)
			}
		}
	}
	file, err := os.ReadFile(in("r.png"))
	if err != nil {
		t.Fatal(err)
	}
	if out := succeed(t, append(args, "--residual", "-")...); out != string(file) {
		t.Error("to standard output it is another file")
	}
	if same := succeed(t, "background", in("in.png"), "--mask", in("mask.png"), "-o", "-"); same != succeed(t, "fill",
		in("in.png"), "--mask", in("mask.png"), "-o", "-") {
		t.Error("the background is not what fill makes")
	}
}

func TestDiffuseAndFillRefuse(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out.png")
	board, regions := frames+"metal.png", frames+"metal.regions.json"
	small, clear := filepath.Join(dir, "small.png"), filepath.Join(dir, "clear.png")
	writePNG(t, small, image.NewGray(image.Rect(0, 0, 3, 3)))
	writePNG(t, clear, image.NewNRGBA(image.Rect(0, 0, 3, 3)))
	white := image.NewGray(image.Rect(0, 0, 3, 3))
	for i := range white.Pix {
		white.Pix[i] = 255
	}
	whole := filepath.Join(dir, "whole.png")
	writePNG(t, whole, white)
	dim := image.NewGray16(white.Rect)
	for i := range dim.Pix {
		dim.Pix[i] = 1 // 257 of 65535, everywhere
	}
	faint := filepath.Join(dir, "faint.png")
	writePNG(t, faint, dim)
	for _, x := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"fill", small, "-o", out, "--mask", faint}, exitUsage, "--mask all pixels: must leave out"},
		{[]string{"diffuse", small}, exitUsage, "--output"},
		{[]string{"diffuse", small, "-o", out, "--accuracy", "0"}, exitUsage, "--accuracy 0: must be more than 0"},
		{[]string{"diffuse", small, "-o", out, "--accuracy=-1"}, exitUsage, "--accuracy -1: must be more than 0"},
		{[]string{"diffuse", small, "-o", out, "--accuracy", "NaN"}, exitUsage,
			`--accuracy: "NaN" is no number in plain digits`},
		{[]string{"fill", board, "-o", out, "--regions", regions, "--accuracy", "0"}, exitUsage,
			"--accuracy 0: must be more than 0"},
		{[]string{"diffuse", small, "-o", out, "--max-cycles", "0"}, exitUsage, "--max-cycles 0: must be 1 to 100000"},
		{[]string{"diffuse", small, "-o", out, "--threshold", "1"}, exitUsage,
			"--threshold 1: is for naive, pyramid-cautious and pyramid-greedy, not for multigrid"},
		{[]string{"diffuse", small, "-o", out, "--solver", "naive", "--threshold", "-1"}, exitUsage, "--threshold"},
		{[]string{"diffuse", small, "-o", out, "--solver", "naive", "--threshold", "warren"}, exitUsage,
			"--threshold warren: must be a number of levels above 0, or paper"},
		{[]string{"diffuse", small, "-o", out, "--measure-error"}, exitUsage,
			"--measure-error has no effect without --threshold"},
		{[]string{"diffuse", small, "-o", out, "--solver", "best"}, exitUsage, "--solver"},
		{[]string{"diffuse", clear, "-o", out}, 0, "at least one must be given"},
		{[]string{"diffuse", clear, "-o", out, "--progress", dir}, exitUsage,
			"clear.png: no pixel of alpha 255: at least one must be given"},
		{[]string{"diffuse", clear, "-o", out, "--progress", filepath.Join(dir, "made")}, exitUsage,
			"clear.png: no pixel of alpha 255: at least one must be given"},
		{[]string{"diffuse", small, "-o", out, "--progress", filepath.Join(dir, "none", "none")}, exitUsage,
			"none: no such file or directory"},
		{[]string{"diffuse", small, "-o", out, "--progress", small}, exitUsage, "small.png: is no folder"},
		{[]string{"diffuse", small, "-o", filepath.Join(dir, "none", "x.png")}, 0, "none"},
		{[]string{"diffuse", write(t, "x.png", "no image"), "-o", out}, exitUsage,
			"x.png: neither curves in JSON or XML nor a PNG, JPEG, TIFF or BMP image\n"},
		{[]string{"fill", write(t, "x.png", "no image"), "-o", out}, exitUsage,
			"x.png: no PNG, JPEG, TIFF or BMP image\n"},
		{[]string{"diffuse", write(t, "x.json", `{"version": 1, "width": 9, "height": 9, "curves": [
			{"points": [[10, 1], [11, 2], [12, 3], [13, 4]], "left": [[0, 1, 2, 3]]}]}`), "-o", out}, exitUsage,
			"x.json: curves[0].points = between (10, 1) and (13, 4): lie outside"},
		{[]string{"fill", board, "-o", out, "--mask", small, "--regions", regions}, exitUsage,
			"give one of --regions and --mask"},
		{[]string{"fill", "-", "-o", out, "--mask", "-"}, exitUsage, "standard input holds one of them"},
		{[]string{"fill", board, "-o", out, "--mask", small}, 0, "small.png: is 3x3; the picture is"},
		{[]string{"fill", small, "-o", out, "--mask", whole}, exitUsage,
			"--mask all pixels: must leave out at least one"},
		{[]string{"fill", clear, "-o", out}, 0, "must leave out at least one"},
		{[]string{"background", small, "-o", "-", "--mask", whole, "--residual", "-"}, exitUsage,
			"--output and --residual are both -"},
		{[]string{"background", small, "-o", out, "--mask", whole, "--residual", out}, exitUsage,
			"out.png: a file holds one of them"},
		{[]string{"extract", small, "-o", out}, exitUsage, "out.png: want a file name that ends in .json or .json.gz"},
		{[]string{"extract", small, "-o", out + ".json", "--psnr", "NaN"}, exitUsage,
			`--psnr: "NaN" is no number in plain digits`},
		{[]string{"extract", small, "-o", out + ".json", "--threshold", "0"}, exitUsage,
			"--threshold 0: must be more than 0"},
		{[]string{"background", small, "-o", out, "--mask", whole, "--residual", filepath.Join(dir, "none", "r.png")},
			0, "none"},
		{[]string{"fill", small, "-o", out, "--mask", filepath.Join(dir, "none.png")}, 0, "none.png"},
	} {
		_, stderr, code := polyscan(t, x.args...)
		if code == 0 || x.code != 0 && code != x.code || !strings.Contains(stderr, x.says) ||
			strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: exit %d, %q, want one line with %q", x.args, code, stderr, x.says)
		}
		if _, err := os.Stat(out); err == nil {
			t.Fatalf("%v: a file was written", x.args)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "made")); err == nil {
		t.Error("a folder for pictures was made, and left though there were none")
	}
	// What stops before it has converged is written, with a warning.
	constraints := image.NewNRGBA(image.Rect(0, 0, 100, 80))
	constraints.SetNRGBA(3, 3, color.NRGBA{R: 255, A: 255})
	constraints.SetNRGBA(90, 70, color.NRGBA{B: 255, A: 255})
	writePNG(t, clear, constraints)
	_, stderr, code := polyscan(t, "diffuse", clear, "-o", out, "--max-cycles", "1")
	if code != exitOK || !strings.Contains(stderr, "stopped after 1 cycle with an estimated error of ") {
		t.Errorf("one cycle: exit %d, %q", code, stderr)
	}
	readPNG(t, out)
}

// What the command reserves for a pixel is enough for a drawing with blur, whatever the method.
func TestSolveMemory(t *testing.T) {
	dev, err := kernels.Open(cpu.New(cpu.Options{}), kernels.Config{MemoryBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	for _, x := range []struct {
		barrier bool
		share   int64
	}{{false, solveMemory}, {true, barrierMemory}} {
		curve := diffusion.Curve{
			Points: []diffusion.Point{{X: 1, Y: 1}, {X: 100, Y: 500}, {X: 900, Y: 100}, {X: 1000, Y: 1000}},
			Left:   []diffusion.Stop{{Values: []float32{1, 0, 0}}},
			Right:  []diffusion.Stop{{Values: []float32{0, 0, 1}}},
			Blur:   []diffusion.BlurStop{{Sigma: 3}}, Barrier: x.barrier,
		}
		for name, method := range solvers {
			if x.barrier && method == diffusion.VariableStencil {
				continue
			}
			d := &diffusion.Drawing{Width: 2048, Height: 1024, Channels: 3, Curves: []diffusion.Curve{curve}}
			_, err := diffusion.SolveDrawing(t.Context(), dev, d, &diffusion.Options{Method: method})
			var full *kernels.CapacityError
			if !errors.As(err, &full) {
				t.Fatalf("%s, barrier %v: %v", name, x.barrier, err)
			}
			t.Logf("%s, barrier %v: %d bytes a pixel of %d", name, x.barrier, full.Needed/int64(d.Width*d.Height),
				x.share)
			if reserved := x.share * int64(d.Width*d.Height); full.Needed > reserved {
				t.Errorf("%s, barrier %v: %d bytes are needed, and %d reserved", name, x.barrier, full.Needed, reserved)
			}
		}
	}
}
