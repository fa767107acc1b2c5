package regionfile

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestLabelMe(t *testing.T) {
	f, err := Load("testdata/labelme.json", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if problem := broken(f); problem != "" {
		t.Fatal(problem)
	}
	circle := f.Regions[2].Rings
	f.Regions[2].Rings = nil
	want := &File{
		Format: FormatLabelMe, Image: `..\frames\board.png`, ImageWidth: 64, ImageHeight: 48,
		Regions: []Region{
			{Name: "board", Rings: rings(ring(2, 3, 60.5, 3, 60.5, 40, 2, 40))},
			{Name: "chip", Rings: rings(ring(10, 12, 30, 12, 30, 30, 10, 30))},
			{Name: "hole"},
			// The first of the group was drawn counterclockwise and is turned.
			{Name: "pad", Fill: FillNonZero, Rings: rings(ring(3, 1, 3, 3, 1, 3, 1, 1), ring(2, 2, 6, 2, 6, 5, 2, 5))},
			{Name: "chip#2", Rings: rings(ring(4, 4, 8, 4, 8, 8))},
		},
		Renamed:  map[string]string{"chip#2": "chip"},
		Warnings: []string{`shapes[4] "scale": skipped the shape of type "line": it has no area`},
	}
	if d := cmp.Diff(want, f); d != "" {
		t.Error(d)
	}
	// The circle: centre (50, 20), radius 5, vertices on it, chords within the tolerance.
	if len(circle) != 1 {
		t.Fatalf("the circle has %d rings", len(circle))
	}
	for _, p := range circle[0] {
		if r := math.Hypot(p[0]-50, p[1]-20); math.Abs(r-5) > 1e-9 {
			t.Errorf("the vertex %v is %v from the centre, want 5", p, r)
		}
	}
	for _, p := range along(circle[0], 2) {
		if r := math.Hypot(p[0]-50, p[1]-20); r < 5-DefaultTolerance-1e-9 {
			t.Errorf("the point %v of a chord is %v from the centre, want at least %v", p, r, 5-DefaultTolerance)
		}
	}
}

func shapes(s string) string { return `{"shapes":[` + s + `]}` }

func TestLabelMeShapes(t *testing.T) {
	points := `"points":[[0,0],[4,0],[4,4]]`
	for _, c := range []struct {
		name, content string
		regions       int
		warnings      []string
	}{
		{"null type", shapes(`{"label":"a","shape_type":null,` + points + `}`), 1, nil},
		{"oriented rectangle",
			shapes(`{"label":"a","shape_type":"oriented_rectangle","points":[[0,0],[4,1],[3,5],[-1,4]]}`), 1, nil},
		{"groups of two labels",
			shapes(`{"label":"a","group_id":1,` + points + `},{"label":"b","group_id":1,` + points + `}`), 2, nil},
		{"two groups", shapes(`{"label":"a","group_id":1,` + points + `},{"label":"a","group_id":2,` + points + `}`), 2,
			nil},
		{"null size", `{"imageWidth":null,"imageHeight":null,"imagePath":null,` +
			shapes(`{"label":"a",` + points + `}`)[1:], 1, nil},
		{"no label", shapes(`{` + points + `}`), 1, nil},
		{"skipped types", shapes(`{"label":"a",` + points +
			`},{"label":"b","shape_type":"linestrip"},{"label":"c","shape_type":"point"},{"label":"d","shape_type":"cuboid"}`),
			1, []string{
				`shapes[1] "b": skipped the shape of type "linestrip": it has no area`,
				`shapes[2] "c": skipped the shape of type "point": it has no area`,
				`shapes[3] "d": skipped the shape of type "cuboid": not a type that this program knows`,
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := mustParse(t, c.content, Options{})
			if len(f.Regions) != c.regions || !slices.Equal(f.Warnings, c.warnings) {
				t.Errorf("%d regions and warnings %q", len(f.Regions), f.Warnings)
			}
		})
	}
}

func TestLabelMeErrors(t *testing.T) {
	tiny := pngOf(t, newBitmap(2, 2))
	testBad(t, []badFile{
		{"shapes no array", `{"shapes":{}}`, Options{}, `shapes: expected an array, found an object`, ErrInvalid},
		{"no shapes", `{"shapes":[]}`, Options{}, `no regions in this LabelMe file`, ErrNoRegions},
		{"only lines", shapes(`{"label":"a","shape_type":"line"},{"label":"b","shape_type":"line"}`), Options{},
			`no regions in this LabelMe file (shapes[0] "a": skipped the shape of type "line": it has no area; 1 more like it)`,
			ErrNoRegions},
		{"shape no object", shapes(`5`), Options{}, `shapes[0]: expected an object, found a number`, ErrInvalid},
		{"label no string", shapes(`{"label":5,"points":[]}`), Options{},
			`shapes[0] "5": label: expected a string, found a number`, ErrInvalid},
		{"no points", shapes(`{"label":"a"}`), Options{}, `shapes[0] "a": the key "points" is missing`, ErrInvalid},
		{"points twice", shapes(`{"label":"a","points":[],"points":[]}`), Options{},
			`shapes[0] "a": the key "points" occurs twice`, ErrInvalid},
		{"two points", shapes(`{"label":"a","points":[[0,0],[1,1]]}`), Options{},
			`shapes[0] "a": points: 2 vertices, a ring needs at least 3`, ErrInvalid},
		{"bad point", shapes(`{"label":"a","points":[[0,0],[1,1],[1]]}`), Options{},
			`shapes[0] "a": points: vertex 2: 1 number, expected [x, y]`, ErrInvalid},
		{"rectangle of four", shapes(`{"label":"a","shape_type":"rectangle","points":[[0,0],[1,1],[1,2],[2,2]]}`),
			Options{}, `shapes[0] "a": points: 4 points, a rectangle has 2 (opposite corners)`, ErrInvalid},
		{"circle of one", shapes(`{"label":"a","shape_type":"circle","points":[[0,0]]}`), Options{},
			`shapes[0] "a": points: 1 points, a circle has 2 (centre and a point on it)`, ErrInvalid},
		{"circle of no size", shapes(`{"label":"a","shape_type":"circle","points":[[7,5],[7,5]]}`), Options{},
			`shapes[0] "a": points: the circle's two points are equal, its radius is 0`, ErrInvalid},
		{"circle too large", shapes(`{"label":"a","shape_type":"circle","points":[[4e6,0],[0,0]]}`), Options{},
			`shapes[0] "a": the point (8e+06, 0) in pixels is out of range, magnitudes must be below 4194304`,
			ErrInvalid},
		{"group", shapes(`{"label":"a","group_id":[1],"points":[]}`), Options{},
			`shapes[0] "a": group_id: expected a string or a number, found an array`, ErrInvalid},
		{"type", shapes(`{"label":"a","shape_type":1,"points":[]}`), Options{},
			`shapes[0] "a": shape_type: expected a string, found a number`, ErrInvalid},
		{"width", `{"imageWidth":-5,"shapes":[]}`, Options{},
			`imageWidth: -5 is not a number of pixels, it must be whole, not negative and below 4194304`, ErrInvalid},
		{"height", `{"imageHeight":4.5,"shapes":[]}`, Options{},
			`imageHeight: 4.5 is not a number of pixels, it must be whole, not negative and below 4194304`, ErrInvalid},
		{"path", `{"imagePath":4,"shapes":[]}`, Options{}, `imagePath: expected a string, found a number`, ErrInvalid},
		{"no mask", shapes(`{"label":"a","shape_type":"mask","points":[[0,0],[1,1]]}`), Options{},
			`shapes[0] "a": a shape of type "mask" needs a base64-encoded PNG in the key "mask"`, ErrInvalid},
		{"mask of three points", shapes(`{"label":"a","shape_type":"mask","points":[[0,0],[1,1],[2,2]]}`), Options{},
			`shapes[0] "a": points: 3 points, a mask has 2 (its first and its last pixel)`, ErrInvalid},
		{"mask not base64", shapes(`{"label":"a","shape_type":"mask","points":[[0,0],[1,1]],"mask":"#"}`), Options{},
			`shapes[0] "a": mask: illegal base64 data at input byte 0`, ErrSyntax},
		{"mask no PNG", shapes(`{"label":"a","shape_type":"mask","points":[[0,0],[1,1]],"mask":"AAAA"}`), Options{},
			`shapes[0] "a": mask: no whole PNG: it ends early`, ErrSyntax},
		{"mask truncated", shapes(`{"label":"a","shape_type":"mask","points":[[0,0],[1,1]],"mask":"` +
			base64.StdEncoding.EncodeToString(tiny[:len(tiny)-16]) + `"}`), Options{},
			`shapes[0] "a": mask: no whole PNG: it ends early`, ErrSyntax},
		{"mask of another size", shapes(`{"label":"a","shape_type":"mask","points":[[0,0],[2,1]],"mask":"` +
			base64.StdEncoding.EncodeToString(tiny) + `"}`), Options{},
			`shapes[0] "a": mask: the PNG has 2×2 pixels, the points span 3×2`, ErrInvalid},
		{"mask out of range", shapes(`{"label":"a","shape_type":"mask","points":[[4194303,0],[4194303.5,1]],"mask":"` +
			base64.StdEncoding.EncodeToString(tiny) + `"}`), Options{},
			`shapes[0] "a": mask: the PNG of 2×2 pixels at (4.194303e+06, 0) reaches beyond 4194304 px`, ErrInvalid},
		{"mask clear", shapes(`{"label":"a","shape_type":"mask","points":[[0,0],[1,1]],"mask":"` +
			base64.StdEncoding.EncodeToString(tiny) + `"}`), Options{},
			`no regions in this LabelMe file (shapes[0] "a": skipped the mask: all its pixels are zero)`, ErrNoRegions},
		{"mask too large", shapes(`{"label":"a","shape_type":"mask","points":[[0,0],[100000.5,1]],"mask":"` +
			base64.StdEncoding.EncodeToString(bigPNG(tiny)) + `"}`), Options{},
			`shapes[0] "a": mask: more than 268435456 pixels in the file's masks, the limit`, ErrLimit},
		{"vertices", shapes(`{"label":"a","shape_type":"circle","points":[[50,50],[0,50]]}`), Options{MaxVertices: 10},
			`shapes[0] "a": more than 10 vertices in the file, the limit, when curves are flattened to 0.0625 px`,
			ErrLimit},
	})
}

// bigPNG makes the header of a PNG claim 100,000 × 100,000 pixels.
func bigPNG(small []byte) []byte {
	out := slices.Clone(small)
	binary.BigEndian.PutUint32(out[16:], 100_000)
	binary.BigEndian.PutUint32(out[20:], 100_000)
	binary.BigEndian.PutUint32(out[29:], crc32.ChecksumIEEE(out[12:29]))
	return out
}

func pngOf(t testing.TB, b bitmap) []byte {
	t.Helper()
	img := image.NewGray(image.Rect(0, 0, b.w, b.h))
	for y := range b.h {
		for x := range b.w {
			if b.at(x, y) {
				img.SetGray(x, y, color.Gray{Y: 255})
			}
		}
	}
	return encoded(t, img)
}

func encoded(t testing.TB, img image.Image) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := png.Encode(&buf, img); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// bitmapGen is any small mask.
func bitmapGen() *rapid.Generator[bitmap] {
	return rapid.Custom(func(t *rapid.T) bitmap {
		w, h := rapid.IntRange(1, 9).Draw(t, "w"), rapid.IntRange(1, 9).Draw(t, "h")
		return bitmap{w, h, rapid.SliceOfN(rapid.Bool(), w*h, w*h).Draw(t, "pixels")}
	})
}

func TestLabelMeMask(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		mask := bitmapGen().Draw(rt, "mask")
		if !slices.Contains(mask.set, true) {
			mask.set[0] = true
		}
		x0, y0 := rapid.IntRange(-5, 50).Draw(rt, "x0"), rapid.IntRange(-5, 50).Draw(rt, "y0")
		data := base64.StdEncoding.EncodeToString(pngOf(t, mask))
		doc := shapes(fmt.Sprintf(`{"label":"m","shape_type":"mask","points":[[%d,%d],[%d,%d]],"mask":"%s"}`, x0, y0,
			x0+mask.w-1, y0+mask.h-1, data))
		f, err := Parse("", []byte(doc), Options{})
		if err != nil {
			rt.Fatal(err)
		}
		if problem := broken(f); problem != "" {
			rt.Fatal(problem)
		}
		if d := cmp.Diff(runsOf(mask, x0, y0), f.Regions[0].Mask); d != "" {
			rt.Fatal(d)
		}
		for _, fill := range []string{FillNonZero, FillEvenOdd} {
			if d := pixelsDiffer(f.Regions[0].Outlines(), fill, mask, x0, y0); d != "" {
				rt.Fatalf("outlines, %s: %s", fill, d)
			}
		}
	})
}

// Masks come as gray, one bit, palette or colour; any value but zero is set, for palettes any index but zero.
func TestLabelMeMaskKinds(t *testing.T) {
	palette := image.NewPaletted(image.Rect(0, 0, 2, 1), color.Palette{color.White, color.Black})
	palette.SetColorIndex(1, 0, 1)
	gray16 := image.NewGray16(image.Rect(0, 0, 2, 1))
	gray16.SetGray16(1, 0, color.Gray16{Y: 1})
	rgba := image.NewNRGBA(image.Rect(0, 0, 2, 1))
	rgba.SetNRGBA(0, 0, color.NRGBA{0, 0, 0, 255})
	rgba.SetNRGBA(1, 0, color.NRGBA{0, 1, 0, 255})
	gray := image.NewGray(image.Rect(0, 0, 2, 1))
	gray.SetGray(1, 0, color.Gray{Y: 1})
	for name, img := range map[string]image.Image{"palette": palette, "gray16": gray16, "colour": rgba, "gray": gray} {
		doc := shapes(`{"label":"m","shape_type":"mask","points":[[0.25,0.75],[9,9]],"mask":"` +
			base64.StdEncoding.EncodeToString(encoded(t, img)) + `"}`)
		f := mustParse(t, doc, Options{})
		// The fractional first point rounds to pixel (0, 1); the second then doesn't matter.
		if d := cmp.Diff([]Run{{1, 1, 2}}, f.Regions[0].Mask); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// Shapes of a group are united, whichever way each was drawn, and holes of masks stay holes.
func TestLabelMeGroupIsUnion(t *testing.T) {
	donut := newBitmap(5, 5)
	for i := range donut.set {
		donut.set[i] = i != 12
	}
	mask := `{"label":"g","group_id":"x","shape_type":"mask","points":[[0,0],[4,4]],"mask":"` +
		base64.StdEncoding.EncodeToString(pngOf(t, donut)) + `"}`
	left := `{"label":"g","group_id":"x","points":[[4,1],[8,1],[8,4],[4,4]]}`
	right := `{"label":"g","group_id":"x","points":[[6,2],[6,6],[9,6],[9,2]]}`
	for _, order := range [][]string{{mask, left, right}, {left, mask, right}, {right, left, mask}} {
		f := mustParse(t, shapes(strings.Join(order, ",")), Options{})
		if len(f.Regions) != 1 || f.Regions[0].Fill != FillNonZero {
			t.Fatalf("got %v", f.Regions)
		}
		want := newBitmap(10, 7)
		for y := range want.h {
			for x := range want.w {
				want.set[y*want.w+x] = donut.at(x, y) || x >= 4 && x < 8 && y >= 1 && y < 4 || x >= 6 && x < 9 &&
					y >= 2 && y < 6
			}
		}
		if d := pixelsDiffer(f.Regions[0].Rings, FillNonZero, want, 0, 0); d != "" {
			t.Error(d)
		}
	}
	// Two masks are one.
	other := newBitmap(7, 2)
	for i := range other.set {
		other.set[i] = i%3 > 0
	}
	both := `,{"label":"g","group_id":"x","shape_type":"mask","points":[[3,1],[9,2]],"mask":"` +
		base64.StdEncoding.EncodeToString(pngOf(t, other)) + `"}`
	want := newBitmap(10, 5)
	for y := range want.h {
		for x := range want.w {
			want.set[y*want.w+x] = donut.at(x, y) || other.at(x-3, y-1)
		}
	}
	f := mustParse(t, shapes(mask+both), Options{})
	wantRegions(t, f.Regions, []Region{{Name: "g", Mask: runsOf(want, 0, 0)}})
}
