package regionfile

// What the tests share: reading, comparing, and slow obvious answers to check against.

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ring makes a ring of x, y, x, y, ...
func ring(xy ...float64) [][2]float64 {
	var r [][2]float64
	for i := 0; i+1 < len(xy); i += 2 {
		r = append(r, [2]float64{xy[i], xy[i+1]})
	}
	return r
}

func rings(r ...[][2]float64) [][][2]float64 { return r }

// mustParse parses or fails the test.
func mustParse(t testing.TB, content string, o Options) *File {
	t.Helper()
	f, err := Parse("test", []byte(content), o)
	if err != nil {
		t.Fatal(err)
	}
	if problem := broken(f); problem != "" {
		t.Fatal(problem)
	}
	return f
}

// wantRegions compares regions exactly.
func wantRegions(t testing.TB, got, want []Region) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("regions differ (-want +got):\n%s", d)
	}
}

// badFile is a file that must be refused, with exactly this message and this kind.
type badFile struct {
	name    string
	content string
	opts    Options
	want    string
	kind    error
}

func testBad(t *testing.T, cases []badFile) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f, err := Parse("f", []byte(c.content), c.opts)
			if err == nil {
				t.Fatalf("accepted, with regions %v; want the error %q", f.Regions, c.want)
			}
			if f != nil {
				t.Error("a file and an error")
			}
			if problem := badMessage(err, "f"); problem != "" {
				t.Error(problem)
			}
			if want := "f: " + c.want; err.Error() != want {
				t.Errorf("message\n got %s\nwant %s", err, want)
			}
			if !errors.Is(err, c.kind) {
				t.Errorf("%v is not of the kind %q", err, c.kind)
			}
		})
	}
}

// badMessage says what is wrong with an error as such, "" if nothing.
func badMessage(err error, file string) string {
	var e *Error
	switch {
	case !errors.As(err, &e):
		return fmt.Sprintf("error of type %T", err)
	case e.Kind == nil:
		return "error without a kind: " + err.Error()
	case e.Reason == "":
		return "error without a reason: " + err.Error()
	case !strings.HasPrefix(err.Error(), file+": "):
		return "error that doesn't begin with the file: " + err.Error()
	case strings.ContainsAny(err.Error(), "\n\r\x00\x1b\u2028\u0085"):
		return fmt.Sprintf("error of more than one line: %q", err.Error())
	case len(err.Error()) > 2000:
		return fmt.Sprintf("error of %d bytes", len(err.Error()))
	}
	return ""
}

// broken says which promise of File a file breaks, "" if none.
func broken(f *File) string {
	if len(f.Regions) == 0 {
		return "no regions"
	}
	if f.Format < FormatRegions || f.Format > FormatMask {
		return "no format"
	}
	if f.ImageWidth < 0 || f.ImageHeight < 0 {
		return "negative image size"
	}
	if len(f.Warnings) > maxWarnings {
		return "too many warnings"
	}
	for _, w := range f.Warnings {
		if w == "" || len(w) > 1000 || strings.ContainsAny(w, "\n\r\x00\x1b") {
			return fmt.Sprintf("bad warning %q", w)
		}
	}
	names := map[string]bool{}
	for i, r := range f.Regions {
		switch {
		case r.Name == "":
			return fmt.Sprintf("region %d has no name", i)
		case names[r.Name]:
			return fmt.Sprintf("the name %q occurs twice", r.Name)
		case r.Mask != nil && len(r.Rings) > 0:
			return fmt.Sprintf("region %d has rings and a mask", i)
		case r.Mask != nil && brokenMask(r.Mask) != "":
			return fmt.Sprintf("region %d: %s", i, brokenMask(r.Mask))
		case r.Shape != "" && (r.Mask != nil || len(r.Rings) > 0):
			return fmt.Sprintf("region %d has a shape and rings or a mask", i)
		case r.Shape == "" && r.Mask == nil && len(r.Rings) == 0:
			return fmt.Sprintf("region %d has no rings", i)
		case r.Fill != FillDefault && r.Fill != FillNonZero && r.Fill != FillEvenOdd:
			return fmt.Sprintf("region %d has the fill rule %q", i, r.Fill)
		}
		names[r.Name] = true
		for j, g := range r.Rings {
			if len(g) < 3 {
				return fmt.Sprintf("region %d, ring %d has %d vertices", i, j, len(g))
			}
			if cap(g) != len(g) {
				return fmt.Sprintf("region %d, ring %d has room for %d vertices beyond its end", i, j, cap(g)-len(g))
			}
			for _, p := range g {
				if !(math.Abs(p[0]) < coordinateLimit && math.Abs(p[1]) < coordinateLimit) {
					return fmt.Sprintf("region %d, ring %d has the vertex %v", i, j, p)
				}
			}
		}
	}
	return ""
}

// brokenMask says what is wrong with a mask, "" if nothing.
func brokenMask(mask []Run) string {
	if len(mask) == 0 {
		return "a mask without runs"
	}
	for i, u := range mask {
		if min(u[0], u[1]) <= -coordinateLimit || max(u[0], u[2]-1) >= coordinateLimit || u[1] >= u[2] ||
			i > 0 && (u[0] < mask[i-1][0] || u[0] == mask[i-1][0] && u[1] <= mask[i-1][2]) {
			return fmt.Sprintf("the run %v", u)
		}
	}
	return ""
}

// inside says whether a point is inside of rings: it sends a ray to the right and looks at every edge.
func inside(rs [][][2]float64, fill string, x, y float64) bool {
	winding, crossings := 0, 0
	for _, r := range rs {
		for i := range r {
			a, b := r[i], r[(i+1)%len(r)]
			if (a[1] <= y) == (b[1] <= y) {
				continue
			}
			if a[0]+(y-a[1])*(b[0]-a[0])/(b[1]-a[1]) <= x {
				continue
			}
			crossings++
			if b[1] > a[1] {
				winding++
			} else {
				winding--
			}
		}
	}
	if fill == FillEvenOdd {
		return crossings%2 == 1
	}
	return winding != 0
}

// bitmap is a mask, row by row, as obvious as can be.
type bitmap struct {
	w, h int
	set  []bool
}

func newBitmap(w, h int) bitmap { return bitmap{w, h, make([]bool, w*h)} }

func (b bitmap) at(x, y int) bool { return x >= 0 && y >= 0 && x < b.w && y < b.h && b.set[y*b.w+x] }

// pixelsDiffer compares the pixels that rings contain with a mask placed at (x0, y0), one pixel around it included, and
// tells of the first that differs, "" if none does.
func pixelsDiffer(rs [][][2]float64, fill string, want bitmap, x0, y0 int) string {
	for y := -1; y <= want.h; y++ {
		for x := -1; x <= want.w; x++ {
			if got := inside(rs, fill, float64(x0+x)+0.5, float64(y0+y)+0.5); got != want.at(x, y) {
				return fmt.Sprintf("pixel (%d, %d) is %v, want %v", x, y, got, want.at(x, y))
			}
		}
	}
	return ""
}

// farFrom returns the largest distance from any of the points to a closed ring.
func farFrom(points, r [][2]float64) float64 {
	worst := 0.0
	for _, p := range points {
		near := math.Inf(1)
		for i := range r {
			near = min(near, toSegment(p, r[i], r[(i+1)%len(r)]))
		}
		worst = max(worst, near)
	}
	return worst
}

func toSegment(p, a, b [2]float64) float64 {
	dx, dy := b[0]-a[0], b[1]-a[1]
	t := 0.0
	if l := dx*dx + dy*dy; l > 0 {
		t = min(1, max(0, ((p[0]-a[0])*dx+(p[1]-a[1])*dy)/l))
	}
	return math.Hypot(p[0]-a[0]-t*dx, p[1]-a[1]-t*dy)
}

// along returns many points on the edges of a closed ring.
func along(r [][2]float64, perEdge int) [][2]float64 {
	var out [][2]float64
	for i := range r {
		a, b := r[i], r[(i+1)%len(r)]
		for k := range perEdge {
			t := float64(k) / float64(perEdge)
			out = append(out, [2]float64{a[0] + t*(b[0]-a[0]), a[1] + t*(b[1]-a[1])})
		}
	}
	return out
}

// The checkers above must be able to fail.
func TestCheckersFail(t *testing.T) {
	square := ring(0, 0, 2, 0, 2, 2, 0, 2)
	full := newBitmap(2, 2)
	for i := range full.set {
		full.set[i] = true
	}
	if d := pixelsDiffer(rings(square), FillNonZero, full, 0, 0); d != "" {
		t.Errorf("equal masks differ: %s", d)
	}
	if pixelsDiffer(rings(square), FillNonZero, full, 1, 0) == "" {
		t.Error("a shifted mask went unnoticed")
	}
	full.set[3] = false
	if pixelsDiffer(rings(square), FillNonZero, full, 0, 0) == "" {
		t.Error("a clear pixel went unnoticed")
	}
	if pixelsDiffer(rings(ring(0, 0, 3, 0, 3, 2, 0, 2)), FillNonZero, full, 0, 0) == "" {
		t.Error("a pixel beside the mask went unnoticed")
	}
	if !inside(rings(square, square), FillNonZero, 1, 1) || inside(rings(square, square), FillEvenOdd, 1, 1) {
		t.Error("the fill rules are confused")
	}
	if got := farFrom(ring(1, 1, 2, 5), square); got != 3 {
		t.Errorf("distance to the square is %v, want 3", got)
	}
	if got := farFrom(along(ring(0, 0, 2, 0, 2, 4, 0, 4), 8), square); got != 2 {
		t.Errorf("distance of the longer rectangle is %v, want 2", got)
	}

	good := func() *File {
		return &File{Format: FormatRegions,
			Regions: []Region{{Name: "a", Rings: rings(square)}, {Name: "b", Rings: rings(square)}}}
	}
	if p := broken(good()); p != "" {
		t.Errorf("a good file is broken: %s", p)
	}
	for what, spoil := range map[string]func(*File){
		"no regions":        func(f *File) { f.Regions = nil },
		"no format":         func(f *File) { f.Format = 0 },
		"negative size":     func(f *File) { f.ImageHeight = -1 },
		"repeated name":     func(f *File) { f.Regions[1].Name = "a" },
		"missing name":      func(f *File) { f.Regions[1].Name = "" },
		"no rings":          func(f *File) { f.Regions[1].Rings = nil },
		"a shape, too":      func(f *File) { f.Regions[1].Shape = "circle(1, 2, 3)" },
		"a mask, too":       func(f *File) { f.Regions[1].Mask = []Run{{0, 0, 1}} },
		"a mask of no run":  func(f *File) { f.Regions[1].Rings, f.Regions[1].Mask = nil, []Run{} },
		"an empty run":      func(f *File) { f.Regions[1].Rings, f.Regions[1].Mask = nil, []Run{{0, 1, 1}} },
		"runs that touch":   func(f *File) { f.Regions[1].Rings, f.Regions[1].Mask = nil, []Run{{0, 0, 1}, {0, 1, 2}} },
		"short ring":        func(f *File) { f.Regions[1].Rings = rings(square[:2:2]) },
		"room behind ring":  func(f *File) { f.Regions[1].Rings = rings(square[:3]) },
		"infinite vertex":   func(f *File) { f.Regions[1].Rings = rings(ring(0, 0, 1, 1, math.Inf(1), 0)[:3:3]) },
		"NaN vertex":        func(f *File) { f.Regions[1].Rings = rings(ring(0, 0, 1, 1, 0, math.NaN())[:3:3]) },
		"unknown fill":      func(f *File) { f.Regions[0].Fill = "odd" },
		"two-line warning":  func(f *File) { f.Warnings = []string{"a\nb"} },
		"too many warnings": func(f *File) { f.Warnings = make([]string, maxWarnings+1) },
	} {
		f := good()
		f.Regions[1].Rings = rings(ring(0, 0, 1, 0, 1, 1))
		spoil(f)
		if broken(f) == "" {
			t.Errorf("a file with %s counts as good", what)
		}
	}

	if p := badMessage(fail(ErrInvalid, "x").withFile("f"), "f"); p != "" {
		t.Errorf("a good message is bad: %s", p)
	}
	for _, e := range []error{
		errors.New("f: x"),
		&Error{File: "f", Reason: "x"},
		&Error{File: "f", Kind: ErrInvalid},
		&Error{File: "g", Kind: ErrInvalid, Reason: "x"},
		&Error{File: "f", Kind: ErrInvalid, Reason: strings.Repeat("x", 3000)},
	} {
		if badMessage(e, "f") == "" {
			t.Errorf("%#v counts as a good message", e)
		}
	}
}

func (e *Error) withFile(name string) *Error {
	e.File = name
	return e
}
