package regionfile

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// vertices compares coordinates to what rounding leaves.
func vertices(t testing.TB, got, want [][][2]float64) {
	t.Helper()
	if problem := verticesDiffer(got, want); problem != "" {
		t.Error(problem)
	}
}

func verticesDiffer(got, want [][][2]float64) string {
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 1e-9 })
	return cmp.Diff(want, got, near)
}

func TestVerticesCompareFails(t *testing.T) {
	a := rings(ring(0, 0, 1, 0, 1, 1))
	if verticesDiffer(a, a) != "" {
		t.Error("equal rings differ")
	}
	for _, b := range [][][][2]float64{rings(ring(0, 0, 1, 0, 1, 1.00001)), rings(ring(0, 0, 1, 0)), rings(a[0], a[0]),
		rings(ring(1, 0, 1, 1, 0, 0))} {
		if verticesDiffer(a, b) == "" {
			t.Errorf("%v counts as %v", b, a)
		}
	}
}

func TestInkscape(t *testing.T) {
	f, err := Load("testdata/inkscape.svg", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if problem := broken(f); problem != "" {
		t.Fatal(problem)
	}
	if len(f.Regions) != 4 {
		t.Fatalf("%d regions", len(f.Regions))
	}
	circle := f.Regions[3]
	f.Regions = f.Regions[:3]
	want := &File{
		Format: FormatSVG, Name: "Board & parts", Description: "drawn by hand", ImageWidth: 400, ImageHeight: 200,
		Regions: []Region{
			{Name: "U7", Fill: FillEvenOdd,
				Rings: rings(ring(20, 40, 40, 40, 40, 60, 20, 60), ring(24, 44, 24, 56, 36, 56, 36, 44))},
			{Name: "turned triangle", Fill: FillNonZero, Rings: rings(ring(16, 44, 16, 56, 8, 56))},
			{Name: "r1", Fill: FillNonZero, Rings: rings(ring(80, 50, 120, 50, 120, 70, 80, 70))},
		},
		Warnings: []string{`line 19: <g>: skipped with all that is in it, display is none`,
			`line 22: <line>: skipped, only shapes give regions`,
			`line 23: <path>: skipped, it has no area`},
	}
	if d := cmp.Diff(want, f); d != "" {
		t.Error(d)
	}
	if circle.Name != "region-3" || len(circle.Rings) != 1 {
		t.Errorf("the circle is %q with %d rings", circle.Name, len(circle.Rings))
	}
	for _, p := range circle.Rings[0] {
		if r := math.Hypot(p[0]-300, p[1]-100); math.Abs(r-40) > 1e-9 {
			t.Errorf("the vertex %v is %v from the centre, want 40", p, r)
		}
	}
}

func TestIllustrator(t *testing.T) {
	f, err := Load("testdata/illustrator.svg", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if problem := broken(f); problem != "" {
		t.Fatal(problem)
	}
	if len(f.Regions) != 2 || f.Regions[0].Name != "Knopf" || f.Regions[1].Name != "Oval" || f.ImageWidth != 64 ||
		f.ImageHeight != 48 || len(f.Warnings) > 0 {
		t.Fatalf("got %+v", f)
	}
	// The viewBox's corner (-10, -10) is at (0, 0).
	vertices(t, f.Regions[0].Rings[:1], rings(ring(11.5, 10.5, 7, 17.25, 18, 18)))
	for _, p := range f.Regions[0].Rings[1] {
		if r := math.Hypot(p[0]-35, p[1]-10); math.Abs(r-5) > 1e-9 {
			t.Errorf("the arc's vertex %v is %v from its centre, want 5", p, r)
		}
	}
	for _, p := range f.Regions[1].Rings[0] {
		if r := math.Hypot((p[0]-22)/8, (p[1]-32)/4); math.Abs(r-1) > 1e-9 {
			t.Errorf("the ellipse's vertex %v is at %v of its radius", p, r)
		}
	}
}

func svg(attributes, body string) string {
	return `<svg xmlns="http://www.w3.org/2000/svg" xmlns:inkscape="http://www.inkscape.org/namespaces/inkscape" ` +
		attributes + `>` + body + `</svg>`
}

const square = `<path d="M0 0H3V3H0Z"/>`

func TestShapes(t *testing.T) {
	sq, three := ring(0, 0, 1, 0, 1, 1, 0, 1), ring(0, 0, 3, 0, 3, 3, 0, 3)
	for _, c := range []struct {
		name, body string
		want       [][][2]float64
	}{
		{"path", square, rings(three)},
		{"open path", `<path d="M0 0H1V1H0"/>`, rings(sq)},
		{"path closed by hand", `<path d="M0 0H1V1H0L0 0Z"/>`, rings(sq)},
		{"repeated vertices", `<path d="M0 0L0 0H1L1 0V1V1H0Z"/>`, rings(sq)},
		{"two subpaths", `<path d="M0 0H1V1H0Zm2 2h1v1h-1"/>`, rings(sq, ring(2, 2, 3, 2, 3, 3, 2, 3))},
		{"subpath after close", `<path d="M0 0H1V1H0Zh-1v1"/>`, rings(sq, ring(0, 0, -1, 0, -1, 1))},
		{"moves only between", `<path d="M9 9M5e9 5M0 0H1V1H0ZM3 3"/>`, rings(sq)},
		{"polygon", `<polygon points="0,0 1,0 1,1 0,1"/>`, rings(sq)},
		{"polygon closed by hand", `<polygon points="0,0 1,0 1,1 0,1 0,0"/>`, rings(sq)},
		{"polyline", `<polyline points="0 0 1 0 1 1 0 1"/>`, rings(sq)},
		{"rect", `<rect width="1" height="1px"/>`, rings(sq)},
		{"rect with one zero radius", `<rect width="1" height="1" rx="0" ry="5"/>`, rings(sq)},
		{"rect with auto radii", `<rect width="1" height="1" rx="auto" ry="auto"/>`, rings(sq)},
		{"prefix", `<s:rect xmlns:s="http://www.w3.org/2000/svg" width="1" height="1"/>`, rings(sq)},
		{"undeclared prefix", `<svg:rect width="1" height="1"/>`, rings(sq)},
		{"link", `<a href="x"><rect width="1" height="1"/></a>`, rings(sq)},
		{"zero rounding line arc", `<path d="M0 0H1A0 5 0 0 0 1 1H0A1 1 0 0 0 0 1Z"/>`, rings(sq)},
		{"transform", `<rect transform="translate(1,2)" width="1" height="1"/>`, rings(ring(1, 2, 2, 2, 2, 3, 1, 3))},
		{"nested transforms",
			`<g transform="scale(2)"><g transform="translate(1,2)"><rect transform="scale(1,-1)" width="1" height="1"/></g></g>`,
			rings(ring(2, 4, 4, 4, 4, 2, 2, 2))},
		{"nested svg", `<svg x="3" y="4"><rect width="1" height="1"/></svg>`, rings(ring(3, 4, 4, 4, 4, 5, 3, 5))},
		{"nested viewBox",
			`<svg x="3" y="4" width="20" height="40" viewBox="0 0 2 2" preserveAspectRatio="xMinYMax"><rect width="1" height="1"/></svg>`,
			rings(ring(3, 24, 13, 24, 13, 34, 3, 34))},
		{"transform on svg", `<svg x="3" transform="scale(2)"><rect width="1" height="1"/></svg>`,
			rings(ring(6, 0, 8, 0, 8, 2, 6, 2))},
		{"switch", `<switch><foreignObject><p xmlns="http://www.w3.org/1999/xhtml">x</p></foreignObject><g>` +
			square + `</g></switch>`, rings(three)},
		{"CDATA and comments", `<!-- <rect width="5" height="5"/> --><style><![CDATA[ .a { fill: red } ]]></style>` +
			square, rings(three)},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := mustParse(t, svg("", c.body), Options{})
			if len(f.Regions) != 1 {
				t.Fatalf("%d regions", len(f.Regions))
			}
			vertices(t, f.Regions[0].Rings, c.want)
		})
	}
}

// Rounded corners: the vertices lie on the quarter ellipses or on the straight parts, and the box is met.
func TestRoundedRect(t *testing.T) {
	for _, c := range []struct {
		attributes string
		rx, ry     float64
	}{
		{`rx="5" ry="10"`, 5, 10},
		{`rx="5"`, 5, 5},
		{`ry="7"`, 7, 7},
		{`rx="auto" ry="7"`, 7, 7},
		{`rx="500" ry="10"`, 50, 10},
		{`rx="500"`, 50, 30},
	} {
		f := mustParse(t, svg("", `<rect x="10" y="20" width="100" height="60" `+c.attributes+`/>`), Options{})
		r := f.Regions[0].Rings[0]
		low, high := [2]float64{math.Inf(1), math.Inf(1)}, [2]float64{math.Inf(-1), math.Inf(-1)}
		for _, p := range r {
			for k := range 2 {
				low[k], high[k] = min(low[k], p[k]), max(high[k], p[k])
			}
			// Relative to the middle; beyond the straight part, on the corner's ellipse.
			x, y := math.Abs(p[0]-60)-(50-c.rx), math.Abs(p[1]-50)-(30-c.ry)
			if d := math.Hypot(max(x, 0)/c.rx, max(y, 0)/c.ry); math.Abs(d-1) > 1e-9 {
				t.Errorf("%s: the vertex %v is at %v of the corner's radius", c.attributes, p, d)
			}
		}
		if math.Abs(low[0]-10)+math.Abs(low[1]-20)+math.Abs(high[0]-110)+math.Abs(high[1]-80) > 1e-9 {
			t.Errorf("%s: spans %v to %v", c.attributes, low, high)
		}
		want := 100*60 - (4-math.Pi)*c.rx*c.ry
		if area := signedArea2(r) / 2; area > want || area < want-DefaultTolerance*2*(c.rx+c.ry)*4 {
			t.Errorf("%s: the area is %v, want a little less than %v", c.attributes, area, want)
		}
	}
}

func TestFillRules(t *testing.T) {
	rect := func(a string) string { return `<rect width="1" height="1" ` + a + `/>` }
	for _, c := range []struct{ attributes, body, want string }{
		{"", rect(""), FillNonZero},
		{"", rect(`fill-rule="evenodd"`), FillEvenOdd},
		{"", rect(`style="stroke:red; fill-rule : evenodd !important;"`), FillEvenOdd},
		{"", rect(`fill-rule="evenodd" style="fill-rule:nonzero"`), FillNonZero},
		{"", `<g fill-rule="evenodd">` + rect("") + `</g>`, FillEvenOdd},
		{"", `<g fill-rule="evenodd">` + rect(`fill-rule="nonzero"`) + `</g>`, FillNonZero},
		{"", `<g fill-rule="evenodd"><g fill-rule="inherit">` + rect("") + `</g></g>`, FillEvenOdd},
		{"", `<g fill-rule="evenodd"></g>` + rect(""), FillNonZero},
		{`fill-rule="evenodd"`, rect(""), FillEvenOdd},
		{`style="fill-rule:evenodd"`, `<svg>` + rect("") + `</svg>`, FillEvenOdd},
		{"", rect(`clip-rule="evenodd"`), FillNonZero},
	} {
		if f := mustParse(t, svg(c.attributes, c.body), Options{}); f.Regions[0].Fill != c.want {
			t.Errorf("%s %s: fill %q, want %q", c.attributes, c.body, f.Regions[0].Fill, c.want)
		}
	}
}

func TestSVGNames(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{`<rect id="i" inkscape:label="l" width="1" height="1"><title>t</title></rect>`, "l"},
		{`<rect id="i" width="1" height="1"><desc>d</desc><title> a  b` + "\n" +
			`c </title><title>second</title></rect>`, "a b c"},
		{`<rect id="i" width="1" height="1"><title> </title></rect>`, "i"},
		{`<rect id="i" width="1" height="1"/>`, "i"},
		{`<rect width="1" height="1"/>`, "region-0"},
		{`<g inkscape:label="layer" id="g"><title>g</title><rect width="1" height="1"/></g>`, "region-0"},
		{`<rect id="a&amp;&#x201c;b" width="1" height="1"/>`, "a&“b"},
		{`<rect id="i" label="other" width="1" height="1"/>`, "i"},
	} {
		if f := mustParse(t, svg("", c.body), Options{}); f.Regions[0].Name != c.want {
			t.Errorf("%s: name %q, want %q", c.body, f.Regions[0].Name, c.want)
		}
	}
	f := mustParse(t, svg("",
		`<title>doc</title><g><title>group</title></g><defs><rect><title>x</title></rect></defs>`+
			`<title>later</title><desc>what</desc>`+square),
		Options{})
	if f.Name != "doc" || f.Description != "what" || f.Regions[0].Name != "region-0" {
		t.Errorf("name %q, description %q, region %q", f.Name, f.Description, f.Regions[0].Name)
	}
}

func TestNotDrawn(t *testing.T) {
	for _, body := range []string{
		`<defs>` + square + `<g>` + square + `</g></defs>`,
		`<symbol id="s">` + square + `</symbol>`,
		`<clipPath id="c">` + square + `</clipPath>`,
		`<mask>` + square + `</mask>`,
		`<marker>` + square + `</marker>`,
		`<pattern>` + square + `</pattern>`,
		`<g display="none">` + square + `</g>`,
		`<g style="display:none">` + square + `</g>`,
		`<path d="M0 0H1V1" display="none"/>`,
		`<path d="q" display="none"/>`,
		`<svg display="none">` + square + `</svg>`,
		`<path d="M0 0H1V1" visibility="hidden"/>`,
		`<g visibility="collapse">` + square + `</g>`,
		`<x:thing xmlns:x="http://example.org/">` + square + `</x:thing>`,
		`<metadata>` + square + `</metadata>`,
		`<image width="50%" height="5mm"/>`,
		`<g display="none"><text>hidden</text><use href="#x"/></g>`,
		`<text visibility="hidden">x</text>`,
		`<path d="M5 5"/>`,
	} {
		f := mustParse(t, svg("", body+`<rect id="seen" width="3" height="3"/>`), Options{})
		// What an editor would show once its layer is switched on is missed by somebody.
		warnings := 0
		if strings.Contains(body, "none") || strings.Contains(body, "visibility") && !strings.HasPrefix(body, "<text") ||
			strings.HasPrefix(body, `<path d="M5`) {
			warnings = 1
		}
		if len(f.Regions) != 1 || f.Regions[0].Name != "seen" || len(f.Warnings) != warnings {
			t.Errorf("%s: regions %v, warnings %q", body, f.Regions, f.Warnings)
		}
	}
	f := mustParse(t, svg("",
		`<g visibility="hidden"><rect id="a" width="1" height="1"/><rect id="b" visibility="visible" width="1" height="1"/></g>`), Options{})
	if len(f.Regions) != 1 || f.Regions[0].Name != "b" {
		t.Errorf("visible inside of hidden: %v", f.Regions)
	}
}

func TestSVGWarnings(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{`<use id="u" href="#a"/>`, `line 1: <use id="u">: skipped, only shapes give regions: unlink the clone`},
		{`<text>hi</text>`, `line 1: <text>: skipped, only shapes give regions`},
		{`<line x2="5"/>`, `line 1: <line>: skipped, only shapes give regions`},
		{`<flowRoot>` + square + `</flowRoot>`,
			`line 1: <flowRoot>: skipped, not an element that this program knows`},
		{`<path id="p" d="M0 0L5 5"/>`, `line 1: <path id="p">: skipped, it has no area`},
		{`<path/>`, `line 1: <path>: skipped, it has no area`},
		{`<polygon points="0,0 1,1"/>`, `line 1: <polygon>: skipped, it has no area`},
		{`<rect width="5"/>`, `line 1: <rect>: skipped, it has no area`},
		{`<circle/>`, `line 1: <circle>: skipped, it has no area`},
		{`<ellipse rx="auto" ry="0"/>`, `line 1: <ellipse>: skipped, it has no area`},
		{`<circle r="5" transform="scale(0)"/>`, `line 1: <circle>: skipped, it has no area`},
		{`<path d="M0 0H1V1ZM5 5H6M7 7V8Z"/>`, `line 1: <path>: skipped 2 of its subpaths, they have no area`},
		{`<path clip-path="url(#c)" d="M0 0H1V1Z"/>`,
			`line 1: <path>: its clip-path is ignored, the region is the whole shape`},
		{`<g style="mask: url(#m)"/>`, `line 1: <g>: its mask is ignored, the region is the whole shape`},
		{`<style> .a { fill-rule : evenodd } </style>`,
			`line 1: <style>: style sheets are not applied, and this one sets fill-rule`},
		{`<style>.a{fill:red;display:none}</style>`,
			`line 1: <style>: style sheets are not applied, and this one sets display`},
		{`<style>rect{x:5}</style>`, `line 1: <style>: style sheets are not applied, and this one sets x`},
		{`<style>.max{fill:red;stroke-width:5}.r:hover{stroke:blue}</style>`, ``},
		{`<path clip-path="none" mask="none" d="M0 0H1V1Z"/>`, ``},
		{`<path clip-path="url(#c)" d="M0 0H1V1Z"/><clipPath id="c"><rect width="9" height="5" fill="white"/></clipPath>`,
			`line 1: <path>: its clip-path is ignored, the region is the whole shape`},
		{`<ellipse rx="5" ry="auto"/>`, ``},
	} {
		f := mustParse(t, svg("", c.body+square), Options{})
		want := []string{c.want}
		if c.want == "" {
			want = nil
		}
		if !slices.Equal(f.Warnings, want) {
			t.Errorf("%s: warnings %q, want %q", c.body, f.Warnings, want)
		}
	}
}

// TestWholeClip: the clip path that design programs put around all that they export changes nothing.
func TestWholeClip(t *testing.T) {
	for clip, want := range map[string]int{
		`<rect width="9" height="5" fill="white"/>`: 0, `<rect width="8" height="5" fill="white"/>`: 1,
		`<rect width="9" height="5" x="1"/>`: 1, `<path d="M0 0H9V5H0Z"/>`: 1,
	} {
		body := `<g clip-path="url(#c)">` + square + `</g><defs><clipPath id="c">` + clip + `</clipPath></defs>`
		f := mustParse(t, svg(`width="9" height="5" viewBox="0 0 9 5"`, body), Options{})
		if len(f.Lost) != want || len(f.Warnings) != want {
			t.Errorf("%s: %q", clip, f.Warnings)
		}
	}
}

func TestViewBox(t *testing.T) {
	for _, c := range []struct {
		attributes string
		opts       Options
		want       [2]float64 // where (1, 1) and
		far        [2]float64 // (2, 3) are
		w, h       int
	}{
		{``, Options{}, [2]float64{1, 1}, [2]float64{2, 3}, 0, 0},
		{`width="40" height="30px"`, Options{}, [2]float64{1, 1}, [2]float64{2, 3}, 40, 30},
		{`width="40.5" height="30"`, Options{}, [2]float64{1, 1}, [2]float64{2, 3}, 0, 0},
		{`viewBox="0 0 40 30"`, Options{}, [2]float64{1, 1}, [2]float64{2, 3}, 40, 30},
		{`viewBox="-5,-6,40,30" width="100%" height="100%"`, Options{}, [2]float64{6, 7}, [2]float64{7, 9}, 40, 30},
		{`viewBox="0 0 40 30" width="80" height="60"`, Options{}, [2]float64{2, 2}, [2]float64{4, 6}, 80, 60},
		{`viewBox="0 0 40 30" width="80"`, Options{}, [2]float64{2, 2}, [2]float64{4, 6}, 80, 60},
		{`viewBox="0 0 40 30" height="15" width="auto"`, Options{}, [2]float64{0.5, 0.5}, [2]float64{1, 1.5}, 20, 15},
		{`viewBox="10 0 40 30" width="80" height="60"`, Options{}, [2]float64{-18, 2}, [2]float64{-16, 6}, 80, 60},
		{`viewBox="0 0 40 30" width="80" height="80"`, Options{}, [2]float64{2, 12}, [2]float64{4, 16}, 80, 80},
		{`viewBox="0 0 40 30" width="80" height="80" preserveAspectRatio="xMinYMin"`, Options{}, [2]float64{2, 2},
			[2]float64{4, 6}, 80, 80},
		{`viewBox="0 0 40 30" width="80" height="80" preserveAspectRatio="xMaxYMax meet"`, Options{}, [2]float64{2, 22},
			[2]float64{4, 26}, 80, 80},
		{`viewBox="0 0 40 40" width="80" height="120" preserveAspectRatio="xMaxYMid slice"`, Options{},
			[2]float64{-37, 3}, [2]float64{-34, 9}, 80, 120},
		{`viewBox="0 0 40 40" width="80" height="120" preserveAspectRatio="none"`, Options{}, [2]float64{2, 3},
			[2]float64{4, 9}, 80, 120},
		{`viewBox="0 0 40 40" width="80" height="120" preserveAspectRatio="defer none"`, Options{}, [2]float64{2, 3},
			[2]float64{4, 9}, 80, 120},
		{`viewBox="0 0 40 30" width="80" height="60"`, Options{IgnoreViewBox: true}, [2]float64{1, 1}, [2]float64{2, 3},
			0, 0},
		{`viewBox="broken" width="80mm" height="60mm"`, Options{IgnoreViewBox: true}, [2]float64{1, 1},
			[2]float64{2, 3}, 0, 0},
		{`viewBox="0 0 40 30" width="80" height="60" transform="translate(5)"`, Options{}, [2]float64{7, 2},
			[2]float64{9, 6}, 80, 60},
	} {
		f := mustParse(t, svg(c.attributes, `<rect x="1" y="1" width="1" height="2"/>`), c.opts)
		p := rings(ring(c.want[0], c.want[1], c.far[0], c.want[1], c.far[0], c.far[1], c.want[0], c.far[1]))
		if d := verticesDiffer(f.Regions[0].Rings, p); d != "" {
			t.Errorf("%s: %s", c.attributes, d)
		}
		if f.ImageWidth != c.w || f.ImageHeight != c.h {
			t.Errorf("%s: %d×%d, want %d×%d", c.attributes, f.ImageWidth, f.ImageHeight, c.w, c.h)
		}
	}
	// The tolerance is one of pixels: a curve scaled up gets more vertices.
	count := func(attributes string) int {
		return len(mustParse(t, svg(attributes, `<circle r="10"/>`), Options{}).Regions[0].Rings[0])
	}
	small, large := count(`viewBox="0 0 40 40"`), count(`viewBox="0 0 40 40" width="4000" height="4000"`)
	if large < 9*small || large > 11*small {
		t.Errorf("%d vertices, and %d at a hundred times the size: want ten times as many", small, large)
	}
}

func TestEncodings(t *testing.T) {
	f := mustParse(t, "<?xml version='1.0' encoding='ISO-8859-1'?><svg><rect id='M\xfcller' width='1' height='1'/></svg>",
		Options{})
	if f.Regions[0].Name != "Müller" {
		t.Errorf("name %q", f.Regions[0].Name)
	}
	f = mustParse(t, "<?xml version='1.0' encoding='windows-1252'?><svg><rect id='\x80' width='1' height='1'/></svg>",
		Options{})
	if f.Regions[0].Name != "€" {
		t.Errorf("name %q", f.Regions[0].Name)
	}
	f = mustParse(t, "<?xml version='1.0' encoding='ISO-8859-15'?><svg><rect id='\xa4' width='1' height='1'/></svg>",
		Options{})
	if f.Regions[0].Name != "€" {
		t.Errorf("name %q", f.Regions[0].Name)
	}
	f = mustParse(t, "<?xml version='1.0' encoding='us-ascii'?><svg><rect id='a' width='1' height='1'/></svg>",
		Options{})
	if f.Regions[0].Name != "a" {
		t.Errorf("name %q", f.Regions[0].Name)
	}
}

func TestSVGErrors(t *testing.T) {
	one := func(body string) string { return svg("", "\n"+body+square) }
	long := strings.Repeat("a", 3000)
	testBad(t, []badFile{
		{"path data", one(`<path id="a" d="M0 0 L 10 10 20 q"/>`), Options{},
			`line 2: <path id="a">: path data at offset 16: expected number, found "q"`, ErrSyntax},
		{"path out of range", one(`<path d="M0 0 L 10 10 5e6 1"/>`), Options{},
			`line 2: <path>: path data at offset 13: the point (5e+06, 1) in pixels is out of range, magnitudes must be below 4194304`, ErrInvalid},
		{"control point out of range", one(`<path d="M0 0 Q 9e9 10 5 1"/>`), Options{},
			`line 2: <path>: path data at offset 7: the control point (9e+09, 10) in pixels is out of range, magnitudes must be below 4194304`,
			ErrInvalid},
		{"cubic out of range", one(`<path d="M0 0 C 1 1 1 -9e9 5 1"/>`), Options{},
			`line 2: <path>: path data at offset 7: the control point (1, -9e+09) in pixels is out of range, magnitudes must be below 4194304`,
			ErrInvalid},
		{"arc out of range", one(`<path d="M0 0A1e308 1e308 0 1 1 1 1"/>`), Options{},
			`line 2: <path>: path data at offset 5: more than 8388608 vertices in the file, the limit, when curves are flattened to 0.0625 px`,
			ErrLimit},
		{"points", one(`<polygon points="0,0 1,1 2"/>`), Options{},
			`line 2: <polygon>: points at offset 9: expected number, found the end`, ErrSyntax},
		{"points out of range", one(`<polygon points="0,0 1,1 2,-5e6"/>`), Options{},
			`line 2: <polygon>: points: the point (2, -5e+06) in pixels is out of range, magnitudes must be below 4194304`,
			ErrInvalid},
		{"transform", one(`<g id="g" transform="turn(5)">` + square + `</g>`), Options{},
			`line 2: <g id="g">: transform at offset 0: "turn" with 1 number is not a transform`, ErrSyntax},
		{"transform out of range", one(`<path transform="scale(1e9)" d="M1 1H2V2Z"/>`), Options{},
			`line 2: <path>: path data at offset 5: the point (1e+09, 1e+09) in pixels is out of range, magnitudes must be below 4194304`,
			ErrInvalid},
		{"transforms overflow",
			one(`<g transform="scale(1e200)"><rect transform="scale(1e200)" width="1" height="1"/></g>`), Options{},
			`line 2: <rect>: the point (NaN, NaN) in pixels is out of range, magnitudes must be below 4194304`,
			ErrInvalid},
		{"ellipse overflow", one(`<g transform="scale(1e200)"><circle transform="scale(1e200)" r="1"/></g>`), Options{},
			`line 2: <circle>: its radii or its place are out of range`, ErrInvalid},
		{"fill rule", one(`<rect fill-rule="odd"/>`), Options{},
			`line 2: <rect>: fill-rule is "odd", expected "nonzero" or "evenodd"`, ErrInvalid},
		{"unit", one(`<rect width="10mm"/>`), Options{},
			`line 2: <rect>: width is "10mm", the unit "mm" is not supported, only px`, ErrUnsupported},
		{"unit em", one(`<rect rx="1em"/>`), Options{},
			`line 2: <rect>: rx is "1em", the unit "em" is not supported, only px`, ErrUnsupported},
		{"unit of ry", one(`<rect ry="1pt"/>`), Options{},
			`line 2: <rect>: ry is "1pt", the unit "pt" is not supported, only px`, ErrUnsupported},
		{"percentage", one(`<circle id="c" cx="50%" r="5"/>`), Options{},
			`line 2: <circle id="c">: cx is "50%", percentages are not supported, only px`, ErrUnsupported},
		{"no length", one(`<ellipse rx="big" ry="5"/>`), Options{}, `line 2: <ellipse>: rx is "big", expected a length`,
			ErrSyntax},
		{"infinite length", one(`<ellipse rx="1e999" ry="5"/>`), Options{},
			`line 2: <ellipse>: rx is "1e999", expected a length`, ErrInvalid},
		{"negative width", one(`<rect width="-1" height="5"/>`), Options{},
			`line 2: <rect>: width -1, height 5, rx 0 and ry 0 must not be negative`, ErrInvalid},
		{"negative radius", one(`<circle r="-1"/>`), Options{}, `line 2: <circle>: r is -1, it must not be negative`,
			ErrInvalid},
		{"style transform", one(`<rect style="transform: rotate(5deg)"/>`), Options{},
			`line 2: <rect>: transform: "rotate(5deg)" is not supported, use the transform attribute`, ErrUnsupported},
		{"transform-origin", one(`<g transform-origin="5 5"/>`), Options{},
			`line 2: <g>: transform-origin: "5 5" is not supported, use the transform attribute`, ErrUnsupported},
		{"style geometry", one(`<rect style="fill:red;width:5px" height="5"/>`), Options{},
			`line 2: <rect>: width: "5px" in a style is not supported, use the attribute`, ErrUnsupported},
		{"root in mm", svg(`width="210mm" height="297mm" viewBox="0 0 210 297"`, square), Options{},
			`line 1: <svg>: width is "210mm", the unit "mm" is not supported, only px; set the drawing's unit to px, ` +
				`or have its size and viewBox ignored`,
			ErrUnsupported},
		{"root in percent", svg(`width="50%"`, square), Options{},
			`line 1: <svg>: width is "50%", percentages are not supported, only px; set the drawing's unit to px, or ` +
				`have its size and viewBox ignored`,
			ErrUnsupported},
		{"root without size", svg(`width="0" height="5"`, square), Options{},
			`line 1: <svg>: width is 0, it must be positive`, ErrInvalid},
		{"viewBox of three", svg(`viewBox="0 0 5"`, square), Options{},
			`line 1: <svg>: viewBox at offset 5: expected number, found the end`, ErrSyntax},
		{"viewBox of five", svg(`viewBox="0 0 5 5 5"`, square), Options{},
			`line 1: <svg>: viewBox at offset 8: expected the end, found "5"`, ErrSyntax},
		{"viewBox empty", svg(`viewBox="0 0 0 5"`, square), Options{},
			`line 1: <svg>: viewBox: its width and height are 0 and 5, they must be positive`, ErrInvalid},
		{"viewBox tiny", svg(`viewBox="0 0 1e-300 1e-300" width="1e300" height="1"  preserveAspectRatio="none"`,
			square), Options{}, `line 1: <svg>: its size or viewBox is out of range`, ErrInvalid},
		{"aspect ratio", svg(`viewBox="0 0 5 5" preserveAspectRatio="middle"`, square), Options{},
			`line 1: <svg>: preserveAspectRatio is "middle", expected for example "xMidYMid meet"`, ErrInvalid},
		{"aspect ratio words", svg(`viewBox="0 0 5 5" preserveAspectRatio="xMidYMid fit"`, square), Options{},
			`line 1: <svg>: preserveAspectRatio is "xMidYMid fit", expected for example "xMidYMid meet"`, ErrInvalid},
		{"aspect ratio letters", svg(`viewBox="0 0 5 5" preserveAspectRatio="xMidYmid"`, square), Options{},
			`line 1: <svg>: preserveAspectRatio is "xMidYmid", expected for example "xMidYMid meet"`, ErrInvalid},
		{"nested viewBox", one(`<svg viewBox="0 0 5 5"/>`), Options{},
			`line 2: <svg>: a nested <svg> with a viewBox needs width and height`, ErrUnsupported},
		{"nested x", one(`<svg x="5%"/>`), Options{},
			`line 2: <svg>: x is "5%", percentages are not supported, only px`, ErrUnsupported},
		{"attribute twice", one(`<path id="p" d="M0 0" d="M1 1"/>`), Options{},
			`line 2: <path id="p">: malformed XML: the attribute d occurs twice`, ErrSyntax},
		{"not XML", `<svg><path d="M0 0"></svg>`, Options{}, `line 1: malformed XML: element <path> closed by </svg>`,
			ErrSyntax},
		{"no quotes", "<svg>\n<path d=M0></svg>", Options{},
			`line 2: malformed XML: unquoted or missing attribute value in element`, ErrSyntax},
		{"truncated in a tag", "<svg>\n<path d='M0 0", Options{},
			`line 2: malformed XML: the file ends inside of <svg>, it may be truncated`, ErrSyntax},
		{"truncated between tags", "<svg>\n<g>\n", Options{},
			`line 3: malformed XML: the file ends inside of <g>, it may be truncated`, ErrSyntax},
		{"truncated before the root", "<?xml version='1.0'?>\n<sv", Options{},
			`line 2: malformed XML: the file ends in the middle of it, it may be truncated`, ErrSyntax},
		{"no element", "<!-- nothing -->", Options{},
			`XML without any element; accepted are polyscan JSON, LabelMe, COCO, GeoJSON, SVG and PNG masks`, ErrUnknownFormat},
		{"other XML", "<?xml version='1.0'?>\n<annotation/>", Options{},
			`line 2: XML with the root element <annotation>, not <svg>; accepted are polyscan JSON, LabelMe, COCO, GeoJSON, SVG and PNG masks`,
			ErrUnknownFormat},
		{"other name space", "<svg xmlns='http://example.org/'/>", Options{},
			`line 1: <svg> in the name space "http://example.org/", not in "http://www.w3.org/2000/svg"`,
			ErrUnknownFormat},
		{"long name", one("<" + long + "\xff/>"), Options{}, `line 2: malformed XML: invalid XML name: ` + long[:182] +
			`…`, ErrSyntax},
		{"long root", "<" + long + "/>", Options{}, `line 1: XML with the root element <` + long[:64] +
			`…>, not <svg>; accepted are polyscan JSON, LabelMe, COCO, GeoJSON, SVG and PNG masks`, ErrUnknownFormat},
		{"long second root", "<svg/><" + long + "/>", Options{}, `line 1: malformed XML: a second root element <` +
			long[:64] + `…>`, ErrSyntax},
		{"truncated in a long element", "<svg><" + long + ">", Options{},
			`line 1: malformed XML: the file ends inside of <` + long[:64] + `…>, it may be truncated`, ErrSyntax},
		{"long attribute twice", one(`<path ` + long + `="" ` + long + `=""/>`), Options{},
			`line 2: <path>: malformed XML: the attribute ` + long[:64] + `… occurs twice`, ErrSyntax},
		{"two roots", "<svg>" + square + "</svg>\n<svg/>", Options{},
			`line 2: malformed XML: a second root element <svg>`, ErrSyntax},
		{"encoding", "<?xml version='1.0' encoding='Shift_JIS'?><svg/>", Options{},
			`line 1: malformed XML: encoding "Shift_JIS": save the file as UTF-8`, ErrSyntax},
		{"unknown entity", "<svg id='&x;'/>", Options{}, `line 1: malformed XML: invalid character entity &x;`,
			ErrSyntax},
		{"entity in entity", "<!DOCTYPE svg [<!ENTITY a 'b'><!ENTITY c '&a;&a;'>]>\n<svg id='&a;' class='&c;'/>",
			Options{}, `line 2: malformed XML: invalid character entity &c;`, ErrSyntax},
		{"long entities", "<!DOCTYPE svg [<!ENTITY a '" + strings.Repeat("x", 2000) + "'>]><svg id='" +
			strings.Repeat("&a;", 1000) + "'/>", Options{},
			`line 1: the entities of the document type declaration expand to more than 1048576 bytes, the limit`,
			ErrLimit},
		{"nesting", "<svg>" + strings.Repeat("<g>", 300), Options{},
			`line 1: elements nested more than 256 deep, the limit`, ErrLimit},
		{"no regions", svg("", `<text>x</text><line/>`), Options{},
			`no regions in this SVG file (line 1: <text>: skipped, only shapes give regions; 1 more like it)`,
			ErrNoRegions},
		{"regions", one(square), Options{MaxRegions: 1},
			`line 2: <path>: more than 1 regions in the file, the limit`, ErrLimit},
		{"vertices", svg("", `<circle r="99"/>`), Options{MaxVertices: 50},
			`line 1: <circle>: more than 50 vertices in the file, the limit, when curves are flattened to 0.0625 px`,
			ErrLimit},
		{"vertices of a polygon", svg("", `<polygon points="0,0 1,0 1,1 0,1"/>`), Options{MaxVertices: 3},
			`line 1: <polygon>: points: more than 3 vertices in the file, the limit`, ErrLimit},
	})
}

// Vertices that fall away (closing ones, those of lines) don't count against the limit in the end.
func TestSVGVertexLimit(t *testing.T) {
	f := mustParse(t, svg("", `<path d="M0 0L5 5"/><path d="M0 0H1V1H0L0 0Z"/><path d="M0 0H1V1H0Z"/>`),
		Options{MaxVertices: 9})
	if len(f.Regions) != 2 {
		t.Errorf("%d regions", len(f.Regions))
	}
	if _, err := Parse("", []byte(svg("", square+square)), Options{MaxVertices: 7}); !errors.Is(err, ErrLimit) {
		t.Errorf("got %v", err)
	}
}

// Many declarations of entities, at the limit and beyond.
func TestEntityLimit(t *testing.T) {
	doc := func(n int) string {
		var b strings.Builder
		b.WriteString("<!DOCTYPE svg [")
		for i := range n {
			b.WriteString("<!ENTITY e" + strings.Repeat("x", i) + " 'v'>")
		}
		return b.String() + "]><svg>" + square + "</svg>"
	}
	mustParse(t, doc(64), Options{})
	_, err := Parse("f", []byte(doc(65)), Options{})
	if want := "f: line 1: more than 64 entities in the document type declaration, the limit"; err == nil ||
		err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
