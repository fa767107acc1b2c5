// gen_test.go checks that the committed files are what the generator makes, and that the examples still show what the
// README of the folder says they show.

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"image"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	_ "github.com/polyscan/polyscan/internal/shorttest"
)

// testdata is the folder with the committed files.
const testdata = ".."

func decode(t *testing.T, name string) image.Image {
	t.Helper()
	f, err := os.Open(filepath.Join(testdata, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := png.Decode(f)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return img
}

func parse(t *testing.T, name string) []region {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(testdata, name))
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	var rs []region
	if err := d.Decode(&rs); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return rs
}

// examples are the committed regions files, the frames that they belong to, and the regions that fail in each frame.
// All other regions pass.
var examples = []struct {
	regions string
	frames  []string
	fails   map[string][]string
}{
	{"board.regions.json", []string{"board.png"}, map[string][]string{"board.png": {"R7", "U1 gaps south"}}},
	{"plank.regions.json", []string{"plank.png"},
		map[string][]string{"plank.png": {"knot 2 dead", "end check", "resin pocket"}}},
	{"metal.regions.json", []string{"metal.png"},
		map[string][]string{"metal.png": {"scratch 1", "scratch 2", "pitted patch"}}},
	{"metal16.regions.json", []string{"metal16.png"}, map[string][]string{"metal16.png": {"seam 3"}}},
	{"conveyor/regions.json", conveyorNames(), map[string][]string{"conveyor/frame_007.png": {"bracket hole 3"}}},
}

func conveyorNames() (names []string) {
	for f := range conveyorFrames {
		names = append(names, fmt.Sprintf("conveyor/frame_%03d.png", f))
	}
	return names
}

func TestVerdicts(t *testing.T) {
	for _, e := range examples {
		rs := parse(t, e.regions)
		for _, name := range e.frames {
			f, err := unpack(decode(t, name))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for _, r := range rs {
				ch := f.levels(r)
				failed := false
				for _, limit := range r.Limits {
					ok, saw, margin, err := judge(limit, ch)
					if err != nil {
						t.Errorf("%s: %s: %v", e.regions, r.Name, err)
						continue
					}
					t.Logf("%s: %-20s n=%-6d %-40s %-5v margin %.2f saw%s", name, r.Name, len(ch[0]), limit, ok, margin,
						saw)
					if margin < 0.03 {
						t.Errorf("%s: %s: %s hangs on %.3f: choose a limit that leaves room", name, r.Name, limit,
							margin)
					}
					failed = failed || !ok
				}
				if want := slices.Contains(e.fails[name], r.Name); failed != want {
					t.Errorf("%s: %s fails: %v, want %v", name, r.Name, failed, want)
				}
			}
		}
		for frame, fails := range e.fails {
			for _, name := range fails {
				if !slices.ContainsFunc(rs, func(r region) bool { return r.Name == name }) {
					t.Errorf("%s: no region %q to fail in %s", e.regions, name, frame)
				}
			}
		}
	}
}

func TestRegionFiles(t *testing.T) {
	for _, e := range examples {
		b := decode(t, e.frames[0]).Bounds()
		names := map[string]bool{}
		rs := parse(t, e.regions)
		if len(rs) < 5 {
			t.Errorf("%s: %d regions, want at least 5", e.regions, len(rs))
		}
		for _, r := range rs {
			if r.Name == "" || names[r.Name] {
				t.Errorf("%s: name %q is empty or not unique", e.regions, r.Name)
			}
			names[r.Name] = true
			if r.Fill != "" && r.Fill != "nonzero" && r.Fill != "evenodd" {
				t.Errorf("%s: %s: fill %q", e.regions, r.Name, r.Fill)
			}
			if len(r.Rings) == 0 || len(r.Limits) == 0 {
				t.Errorf("%s: %s: %d rings, %d limits", e.regions, r.Name, len(r.Rings), len(r.Limits))
			}
			for k, ring := range r.Rings {
				if len(ring) < 3 {
					t.Errorf("%s: %s: ring %d has %d vertices", e.regions, r.Name, k, len(ring))
				}
				for i, v := range ring {
					for axis, size := range []int{b.Dx(), b.Dy()} {
						c := v[axis]
						if math.IsNaN(c) || math.IsInf(c, 0) || c < -8 || c > float64(size+8) {
							t.Errorf("%s: %s: ring %d vertex %d is %v, outside of the frame %v", e.regions, r.Name, k,
								i, v, b)
						}
						if c*8 != math.Trunc(c*8) {
							t.Errorf("%s: %s: ring %d vertex %d is %v, not on the grid of 1/8 px", e.regions, r.Name, k,
								i, v)
						}
					}
				}
			}
		}
	}
	// The folder must show what the reductions have to cope with.
	metal := parse(t, "metal.regions.json")
	if !slices.ContainsFunc(metal, func(r region) bool { return r.Fill == "evenodd" && len(r.Rings) == 3 }) {
		t.Error("metal.regions.json: no even-odd region of three rings")
	}
	for _, r := range metal {
		if r.Name == "star (non-zero)" && winding(r.Rings, 690, 330) != 2 && winding(r.Rings, 690, 330) != -2 {
			t.Errorf("%s: winds %d times around its middle, want twice", r.Name, winding(r.Rings, 690, 330))
		}
	}
}

func TestFormats(t *testing.T) {
	for name, want := range map[string]struct {
		w, h  int
		model any
	}{
		"board.bayer.png": {960, 640, &image.Gray{}},
		"moved/board.png": {960, 640, &image.RGBA{}}, "moved/white.png": {960, 640, &image.RGBA{}},
		"board.png": {960, 640, &image.RGBA{}}, "plank.png": {1200, 360, &image.RGBA{}},
		"metal.png":      {1024, 512, &image.Gray{}},
		"flat/metal.png": {1024, 512, &image.Gray{}}, "flat/white.png": {1024, 512, &image.Gray{}},
		"flat/dark.png": {1024, 512, &image.Gray{}},
		"metal16.png":   {512, 256, &image.Gray16{}}, "conveyor/frame_000.png": {640, 400, &image.Gray{}},
	} {
		m := decode(t, name)
		if got := m.Bounds().Size(); got != image.Pt(want.w, want.h) ||
			fmt.Sprintf("%T", m) != fmt.Sprintf("%T", want.model) {
			t.Errorf("%s: %T of %v, want %T of %dx%d", name, m, got, want.model, want.w, want.h)
		}
	}
	f, err := unpack(decode(t, "metal16.png"))
	if err != nil {
		t.Fatal(err)
	}
	if top := slices.Max(f.ch[0]); top > metal16Max || top <= 1023 {
		t.Errorf("metal16.png: brightest level %d, want more than 10 and at most 12 significant bits", top)
	}
}

// made runs the generators once for all tests.
var made = sync.OnceValue(func() (out []set) {
	for _, f := range sets {
		out = append(out, f())
	}
	return out
})

// differ says where two pictures differ first, or nothing.
func differ(a, b image.Image) string {
	f, err := unpack(a)
	g, err2 := unpack(b)
	if err != nil || err2 != nil {
		return fmt.Sprint(err, err2)
	}
	if f.w != g.w || f.h != g.h || len(f.ch) != len(g.ch) {
		return fmt.Sprintf("%dx%d of %d channels against %dx%d of %d", f.w, f.h, len(f.ch), g.w, g.h, len(g.ch))
	}
	for k := range f.ch {
		for i := range f.ch[k] {
			if f.ch[k][i] != g.ch[k][i] {
				return fmt.Sprintf("channel %d at (%d, %d): %d against %d", k, i%f.w, i/f.w, f.ch[k][i], g.ch[k][i])
			}
		}
	}
	return ""
}

func TestRegenerate(t *testing.T) {
	if testing.Short() {
		t.Skip("makes every picture again, which takes seconds")
	}
	listed := map[string]bool{}
	for _, s := range made() {
		for _, p := range s.pictures {
			listed[p.path] = true
			// PNG bytes may change with the Go release; pixels may not.
			if d := differ(p.img, decode(t, p.path)); d != "" {
				t.Errorf("%s is not what the generator makes: %s", p.path, d)
			}
		}
		listed[s.path] = true
		want, err := encode(s.regions)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range append(s.texts, text{s.path, want}) {
			got, err := os.ReadFile(filepath.Join(testdata, f.path))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, f.data) {
				t.Errorf("%s is not what the generator makes", f.path)
			}
		}
	}
	for _, e := range examples {
		for _, name := range append(e.frames, e.regions) {
			if !listed[name] {
				t.Errorf("%s is not made by the generator", name)
			}
			delete(listed, name)
		}
	}
	for _, name := range []string{"board.bayer.png", "moved/board.png", "moved/white.png", "flat/metal.png", "flat/white.png",
		"flat/dark.png"} {
		delete(listed, name) // they are of a part under another camera, whose regions pass only behind a correction
	}
	for name := range listed {
		t.Errorf("%s is made but belongs to no example", name)
	}
}

func TestDifferSees(t *testing.T) {
	a, b := image.NewGray16(image.Rect(0, 0, 3, 2)), image.NewGray16(image.Rect(0, 0, 3, 2))
	if d := differ(a, b); d != "" {
		t.Errorf("equal pictures differ: %s", d)
	}
	b.Pix[2*3*2-1] = 1 // the last level of the last row
	if d := differ(a, b); d != "channel 0 at (2, 1): 0 against 1" {
		t.Errorf("one level changed: %q", d)
	}
	if differ(a, image.NewGray(a.Rect)) != "" {
		t.Error("pictures of the same levels differ by depth alone")
	}
	if differ(a, image.NewGray16(image.Rect(0, 0, 2, 3))) == "" || differ(a, image.NewNRGBA(a.Rect)) == "" {
		t.Error("pictures of other sizes or channels count as equal")
	}
}

// TestIntegersOnly reads the generator's source: outside of the conversion of literals and of JSON, no floating-point
// operation may touch a value, as compilers may fuse them differently on another architecture.
func TestIntegersOnly(t *testing.T) {
	sources := map[string]string{}
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if strings.HasSuffix(n, "_test.go") {
			continue
		}
		b, err := os.ReadFile(n)
		if err != nil {
			t.Fatal(err)
		}
		sources[n] = string(b)
	}
	if len(sources) < 8 {
		t.Fatalf("found %d sources", len(sources))
	}
	for _, at := range floatOps(t, sources, "q", "vertex") {
		t.Errorf("%s: floating-point arithmetic", at)
	}
	probe := map[string]string{"probe.go": "package main\n" +
		"func q(v float64) float64 { return v * 2 }\n" +
		"func f(v float64) float64 {\n\tw := v + 1\n\tw *= v\n\treturn -w\n}\n"}
	if got := floatOps(t, probe, "q"); !slices.Equal(got, []string{"probe.go:4", "probe.go:5", "probe.go:6"}) {
		t.Errorf("probe: found %v", got)
	}
}

// floatOps lists where sources compute with floats outside of the named functions.
func floatOps(t *testing.T, sources map[string]string, allowed ...string) (at []string) {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	for n, src := range sources {
		f, err := parser.ParseFile(fset, n, src, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	// Imports stay unresolved: only this package's own arithmetic matters, so type errors are expected.
	conf := types.Config{Error: func(error) {}, Importer: noImports{}}
	_, _ = conf.Check("main", fset, files, info)
	isFloat := func(e ast.Expr) bool {
		tv := info.Types[e]
		if tv.Type == nil || tv.Value != nil { // constants are exact
			return false
		}
		b, ok := tv.Type.Underlying().(*types.Basic)
		return ok && b.Info()&types.IsFloat != 0
	}
	for _, f := range files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && slices.Contains(allowed, fn.Name.Name) {
				continue
			}
			ast.Inspect(d, func(n ast.Node) bool {
				found := false
				switch n := n.(type) {
				case *ast.BinaryExpr:
					found = isFloat(n)
				case *ast.UnaryExpr:
					found = isFloat(n)
				case *ast.AssignStmt:
					found = n.Tok != token.ASSIGN && n.Tok != token.DEFINE && isFloat(n.Lhs[0])
				}
				if found {
					p := fset.Position(n.Pos())
					at = append(at, fmt.Sprintf("%s:%d", p.Filename, p.Line))
				}
				return true
			})
		}
	}
	slices.Sort(at)
	return at
}

type noImports struct{}

func (noImports) Import(path string) (*types.Package, error) {
	return nil, fmt.Errorf("%s: not resolved", path)
}

// TestNoise pins the generator's randomness: a changed hash changes every picture.
func TestNoise(t *testing.T) {
	if h, n, f := hash(1, 2, -3), noise(5, q(1.25), q(-2.5)), fbm(5, q(1.25), q(-2.5), 3); h != 0x53ed4e06 ||
		n != 4176 || f != 23116 {
		t.Errorf("hash %#x, noise %d, fbm %d; want 0x53ed4e06, 4176, 23116", h, n, f)
	}
	for x := -3 * one; x < 3*one; x += 977 {
		if v := noise(5, x, x/2); abs(v) > one {
			t.Fatalf("noise at %d is %d", x, v)
		}
		if d := abs(noise(5, x+1, x/2) - noise(5, x, x/2)); d > 16 {
			t.Fatalf("noise jumps by %d at %d", d, x)
		}
		// The polynomial and its rounding against the library's sine.
		if d := math.Abs(float64(sin(x))/65536 - math.Sin(float64(x)/65536*2*math.Pi)); d > 1e-4 {
			t.Fatalf("sin of %d is off by %g", x, d)
		}
	}
	for _, v := range []int64{0, 1, 2, 3, 4, 1<<31 - 1, 1 << 52, 1<<60 - 1, (1<<31 - 1) * (1<<31 - 1),
		(1<<31-1)*(1<<31-1) - 1} {
		if r := isqrt(v); r*r > v || (r+1)*(r+1) <= v {
			t.Errorf("isqrt(%d) = %d", v, r)
		}
	}
}
