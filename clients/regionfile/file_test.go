package regionfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/polyscan/polyscan/internal/race"
)

const triangle = `[[[0,0],[4,0],[4,4]]]`

func TestUnknownContent(t *testing.T) {
	const acc = "; accepted are polyscan JSON, LabelMe, COCO, GeoJSON, SVG and PNG masks"
	long := strings.Repeat("wörter ", 2000)
	testBad(t, []badFile{
		{"empty", "", Options{}, "the file is empty" + acc, ErrUnknownFormat},
		{"only BOM", "\uFEFF", Options{}, "the file is empty" + acc, ErrUnknownFormat},
		{"only space", " \n\t ", Options{}, "the file has nothing but white space" + acc, ErrUnknownFormat},
		{"PNG", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", Options{}, "no whole PNG: it ends early", ErrSyntax},
		{"JPEG", "\xff\xd8\xff\xe0\x00\x10JFIF", Options{}, "the file looks like a JPEG image" + acc, ErrUnknownFormat},
		{"TIFF", "II*\x00\x08\x00", Options{}, "the file looks like a TIFF image" + acc, ErrUnknownFormat},
		{"BMP", "BM\x36\x10\x00\x00\x00\x00\x00\x00\x36\x00\x00\x00\x28", Options{}, "the file looks like a BMP image" +
			acc, ErrUnknownFormat},
		{"PDF", "%PDF-1.7\n", Options{}, "the file looks like a PDF document" + acc, ErrUnknownFormat},
		{"ZIP", "PK\x03\x04\x14\x00", Options{}, "the file looks like a ZIP archive" + acc, ErrUnknownFormat},
		{"gzip", "\x1f\x8b\x08", Options{},
			"the file looks like gzip-compressed data (perhaps .svgz); decompress it first" + acc, ErrUnknownFormat},
		{"CSV", "name,x,y\na,1,2\n", Options{},
			`the file looks like a table with columns (CSV), starting with "name,x,y"` + acc, ErrUnknownFormat},
		{"CSV with semicolons", "name;x;y\r\na;1;2\r\n", Options{},
			`the file looks like a table with columns (CSV), starting with "name;x;y"` + acc, ErrUnknownFormat},
		{"WKT", "POLYGON ((0 0, 1 1))", Options{}, "the file looks like well-known text (WKT)" + acc, ErrUnknownFormat},
		{"text", "Hello\nworld", Options{}, `the file looks like text, starting with "Hello"` + acc, ErrUnknownFormat},
		{"long text", long, Options{}, `the file looks like text, starting with "` + string([]rune(long)[:64]) + `…"` +
			acc, ErrUnknownFormat},
		{"binary", "abc\x00\x01", Options{}, "the file looks like binary data (byte 0x00 in its first line)" + acc,
			ErrUnknownFormat},
		{"not UTF-8", "caf\xe9 noir", Options{}, "the file looks like binary data (byte 0xe9 in its first line)" + acc,
			ErrUnknownFormat},
		{"JSON string", `"regions"`, Options{}, `the file looks like text, starting with "\"regions\""` + acc,
			ErrUnknownFormat},
		{"UTF-16 LE", "\xff\xfe[\x00]\x00", Options{}, "the file is UTF-16 text; save it as UTF-8", ErrUnknownFormat},
		{"UTF-16 BE", "\xfe\xff\x00[\x00]", Options{}, "the file is UTF-16 text; save it as UTF-8", ErrUnknownFormat},
		{"UTF-16 without mark", "<\x00s\x00v\x00g\x00", Options{}, "the file is UTF-16 text; save it as UTF-8",
			ErrUnknownFormat},
		{"UTF-16 BE without mark", "\x00{\x00\"\x00", Options{}, "the file is UTF-16 text; save it as UTF-8",
			ErrUnknownFormat},
		{"UTF-32", "\xff\xfe\x00\x00[\x00\x00\x00", Options{}, "the file is UTF-32 text; save it as UTF-8",
			ErrUnknownFormat},
		{"UTF-32 without mark", "[\x00\x00\x00]\x00\x00\x00", Options{}, "the file is UTF-32 text; save it as UTF-8",
			ErrUnknownFormat},
		{"other JSON", `{"version": 1, "boxes": []}`, Options{},
			`a JSON object of an unknown kind, with the keys "version", "boxes"` + acc, ErrUnknownFormat},
		{"JSON without keys", `{}`, Options{}, `a JSON object of an unknown kind, without members` + acc,
			ErrUnknownFormat},
		{"JSON with many keys", `{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1}`, Options{},
			`a JSON object of an unknown kind, with the keys "a", "b", "c", "d", "e", "f", "g", "h" and more` + acc,
			ErrUnknownFormat},
		{"HTML", "<!DOCTYPE html><html><body></body></html>", Options{},
			"line 1: XML with the root element <html>, not <svg>" + acc, ErrUnknownFormat},
		{"too large", `[{"rings":` + triangle + `}]`, Options{MaxBytes: 10},
			"33 bytes, the limit for a region file is 10", ErrLimit},
		{"empty array", "[]", Options{}, "no regions in this polyscan regions file", ErrNoRegions},
	})
}

func TestOptionsOutOfRange(t *testing.T) {
	good := `[{"rings":` + triangle + `}]`
	testBad(t, []badFile{
		{"small tolerance", good, Options{Tolerance: 1e-4},
			"options: Tolerance is 0.0001, it must be from 0.0009765625 to 16 px", ErrOptions},
		{"large tolerance", good, Options{Tolerance: 17},
			"options: Tolerance is 17, it must be from 0.0009765625 to 16 px", ErrOptions},
		{"negative tolerance", good, Options{Tolerance: -1},
			"options: Tolerance is -1, it must be from 0.0009765625 to 16 px", ErrOptions},
		{"NaN tolerance", good, Options{Tolerance: math.NaN()},
			"options: Tolerance is NaN, it must be from 0.0009765625 to 16 px", ErrOptions},
		{"negative bytes", good, Options{MaxBytes: -1},
			"options: MaxBytes -1, MaxRegions 100000 and MaxVertices 8388608 must not be negative", ErrOptions},
		{"negative regions", good, Options{MaxRegions: -2},
			"options: MaxBytes 268435456, MaxRegions -2 and MaxVertices 8388608 must not be negative", ErrOptions},
		{"negative vertices", good, Options{MaxVertices: -3},
			"options: MaxBytes 268435456, MaxRegions 100000 and MaxVertices -3 must not be negative", ErrOptions},
	})
}

func TestByteOrderMarkAndSpace(t *testing.T) {
	for name, content := range map[string]string{
		"JSON": "\uFEFF \n[{\"rings\":" + triangle + "}]\n\n",
		"SVG":  "\uFEFF\n<svg xmlns='http://www.w3.org/2000/svg'><path d='M0 0 4 0 4 4'/></svg>",
	} {
		f := mustParse(t, content, Options{})
		if len(f.Regions) != 1 || !slices.Equal(f.Regions[0].Rings[0], ring(0, 0, 4, 0, 4, 4)) {
			t.Errorf("%s: got %v", name, f.Regions)
		}
	}
}

func TestLimits(t *testing.T) {
	two := `[{"rings":` + triangle + `},{"name":"b","rings":` + triangle + `}]`
	mustParse(t, two, Options{MaxRegions: 2, MaxVertices: 6, MaxBytes: int64(len(two))})
	testBad(t, []badFile{
		{"regions", two, Options{MaxRegions: 1}, `regions[1] "b": more than 1 regions in the file, the limit`,
			ErrLimit},
		{"vertices", two, Options{MaxVertices: 5},
			`regions[1] "b": rings[0]: vertex 2: more than 5 vertices in the file, the limit`, ErrLimit},
		{"bytes", two, Options{MaxBytes: int64(len(two)) - 1},
			fmt.Sprintf("%d bytes, the limit for a region file is %d", len(two), len(two)-1), ErrLimit},
	})
	many := func(n int) string { return strings.TrimSuffix(strings.Repeat(`"",`, n), ",") }
	testBad(t, []badFile{{"strings", `{"regions":[{"rings":` + triangle + `,"limits":[` + many(maxStrings/2) +
		`]}],"reductions":[` + many(maxStrings/2+1) + `]}`,
		Options{}, `regions[0]: limits: more than 1000000 limits and reductions in the file`, ErrLimit}})
	// The default limit on regions, one beyond.
	var b strings.Builder
	b.WriteString("[")
	for i := range defaultMaxRegions + 1 {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString(`{"rings":` + triangle + `}`)
	}
	b.WriteString("]")
	testBad(t, []badFile{{"default", b.String(), Options{},
		`regions[100000]: more than 100000 regions in the file, the limit`, ErrLimit}})
}

// Files that are small but deep, repetitive or boastful must end soon, one way or the other.
func TestBombs(t *testing.T) {
	race.Skip(t)
	nest := func(open, middle, end string, n int) string {
		return strings.Repeat(open, n) + middle + strings.Repeat(end, n)
	}
	const n = 200_000
	for name, content := range map[string]string{
		"arrays":         nest("[", "", "]", n),
		"open arrays":    nest("[", "", "", n),
		"objects":        nest(`{"regions":`, "[]", "}", n),
		"ignored arrays": `[{"x":` + nest("[", "", "]", 9000) + `,"rings":` + triangle + `}]`,
		"collections":    nest(`{"type":"GeometryCollection","geometries":[`, "", "]}", 4000),
		"collections to skip": `{"type":"Feature","geometry":` +
			nest(`{"type":"GeometryCollection","geometries":[`, "", "]}", 4000) + "}",
		"quotes":      `[{"name":"` + strings.Repeat(`\"`, n) + `","rings":` + triangle + `}]`,
		"backslashes": `[{"name":"` + strings.Repeat(`\\`, n) + `","rings":` + triangle + `}]`,
		"digits":      `[{"rings":[[[` + strings.Repeat("1", n) + `,0],[1,1],[0,1]]]}]`,
		"tiny digits": `[{"rings":[[[0.` + strings.Repeat("1", n) + `,0],[1,1],[0,1]]]}]`,
		"same names": `[` + strings.Repeat(`{"name":"a","rings":`+triangle+`},`, 20_000) +
			`{"name":"a#7","rings":` + triangle + `}]`,
		"elements":           `<svg>` + nest("<g>", "", "</g>", n) + `</svg>`,
		"open elements":      nest("<svg>", "", "", n),
		"attributes":         `<svg><path d="M0 0 1 1 0 1" ` + manyAttributes(n) + `/></svg>`,
		"groups":             `<svg>` + strings.Repeat("<g></g>", n) + `</svg>`,
		"transforms":         `<svg><path d="M0 0 1 1 0 1" transform="` + strings.Repeat("scale(2)", n) + `"/></svg>`,
		"neutral transforms": `<svg><path d="M0 0 1 1 0 1" transform="` + strings.Repeat("scale(1)", n) + `"/></svg>`,
		"billion laughs":     laughs(),
		"entity in attribute": `<!DOCTYPE svg [<!ENTITY a "` + strings.Repeat("x", 1000) + `">]><svg><path id="` +
			strings.Repeat("&a;", n) + `" d="M0 0 1 1 0 1"/></svg>`,
		"many entities":    `<!DOCTYPE svg [` + strings.Repeat(`<!ENTITY a "x">`, n) + `]><svg/>`,
		"comments":         strings.Repeat("<!-- x -->", n) + "<svg/>",
		"styles":           `<svg><path style="` + strings.Repeat("fill:red;", n) + `" d="M0 0 1 1 0 1"/></svg>`,
		"flat curves":      `<svg><path d="M0 0` + strings.Repeat("c1 1 2 2 3 3", n) + `"/></svg>`,
		"huge curves":      `<svg><path d="M0 0` + strings.Repeat("C4e6 4e6 -4e6 -4e6 0 0", 300) + `"/></svg>`,
		"huge arcs":        `<svg><path d="M0 0A1e300 1e300 0 1 1 10 10"/></svg>`,
		"masks of air":     `{"annotations":[{"segmentation":{"size":[4194303,4194303],"counts":[17592177655809]}}]}`,
		"masks of one run": `{"annotations":[{"segmentation":{"size":[4194303,4194303],"counts":[1,17592177655807,1]}}]}`,
		"many wide masks": `{"annotations":[` +
			strings.TrimSuffix(strings.Repeat(`{"segmentation":{"size":[4194303,4194303],"counts":[1,17592177655807,1]}},`,
				20_000), ",") + `]}`,
		"zero runs": `{"annotations":[{"segmentation":{"size":[1,1],"counts":[` + strings.Repeat("0,", n) +
			`1]}}]}`,
		"zero runs compressed": `{"annotations":[{"segmentation":{"size":[1,1],"counts":"` + strings.Repeat("0", n) +
			`1"}}]}`,
		"other images": `{"annotations":[` +
			strings.TrimSuffix(strings.Repeat(`{"image_id":1},{"image_id":2},`, n/2), ",") + `]}`,
		"warnings": `{"shapes":[` + strings.TrimSuffix(strings.Repeat(`{"shape_type":"line"},`, n), ",") +
			`]}`,
		"many limits": `[{"rings":` + triangle + `,"limits":[` +
			strings.TrimSuffix(strings.Repeat(`"",`, n), ",") + `]}]`,
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Parse("f", []byte(content), Options{})
			if err == nil {
				if problem := broken(f); problem != "" {
					t.Error(problem)
				}
				return
			}
			if problem := badMessage(err, "f"); problem != "" {
				t.Error(problem)
			}
		})
	}
}

func manyAttributes(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "a%d='' ", i)
	}
	return b.String()
}

func laughs() string {
	var b strings.Builder
	b.WriteString(`<!DOCTYPE svg [<!ENTITY e0 "ha">`)
	for i := 1; i < 30; i++ {
		fmt.Fprintf(&b, `<!ENTITY e%d "&e%d;&e%d;">`, i, i-1, i-1)
	}
	b.WriteString(`]><svg id="&e29;"/>`)
	return b.String()
}

func TestNames(t *testing.T) {
	f := mustParse(t, `[{"name":"a","rings":`+triangle+`},{"rings":`+triangle+`},{"name":"a","rings":`+triangle+
		`},{"name":"a#2","rings":`+triangle+`},
		{"name":"a","rings":`+triangle+`},{"name":"","rings":`+triangle+`},{"name":"region-6","rings":`+triangle+
		`},{"name":null,"rings":`+triangle+`},
		{"name":"region-1","rings":`+triangle+`},{"name":"a#2","rings":`+triangle+`}]`, Options{})
	var got []string
	for _, r := range f.Regions {
		got = append(got, r.Name)
	}
	want := []string{"a", "region-1", "a#3", "a#2", "a#4", "region-5", "region-6", "region-7", "region-1#2", "a#2#2"}
	if !slices.Equal(got, want) {
		t.Errorf("names\n got %q\nwant %q", got, want)
	}
	wantWarnings := []string{
		`regions[2]: the name "a" is taken, the region is called "a#3"`,
		`regions[4]: the name "a" is taken, the region is called "a#4"`,
		`regions[8]: the name "region-1" is taken, the region is called "region-1#2"`,
		`regions[9]: the name "a#2" is taken, the region is called "a#2#2"`,
	}
	if !slices.Equal(f.Warnings, wantWarnings) {
		t.Errorf("warnings\n got %q\nwant %q", f.Warnings, wantWarnings)
	}
}

// Whatever the names are: they come out unique, and a first use keeps its name.
func TestNamesUnique(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", "a#2", "a#3", "a#2#2", "region-0", "region-1",
			"region-1#2", "b"}), 1, 12).Draw(t, "names")
		b := &builder{file: &File{Format: FormatSVG}}
		for _, n := range names {
			b.file.Regions = append(b.file.Regions, Region{Name: n})
		}
		b.uniqueNames()
		seen, given := map[string]bool{}, map[string]bool{}
		for i, r := range b.file.Regions {
			if r.Name == "" || seen[r.Name] {
				t.Fatalf("names %q became %v", names, b.file.Regions)
			}
			seen[r.Name] = true
			want := names[i]
			if want == "" {
				want = fmt.Sprintf("region-%d", i)
			}
			if !given[want] && r.Name != want {
				t.Fatalf("the first %q became %q", want, r.Name)
			}
			given[want] = true
		}
	})
}

func TestWarningsAreCapped(t *testing.T) {
	line := `{"label":"l","shape_type":"line","points":[]},`
	f := mustParse(t, `{"shapes":[`+strings.Repeat(line, maxWarnings+25)+`{"label":"x","points":`+
		triangle[1:len(triangle)-1]+`}]}`, Options{})
	if len(f.Warnings) != maxWarnings || f.Warnings[maxWarnings-1] != "and 26 more warnings" {
		t.Errorf("%d warnings, the last is %q", len(f.Warnings), f.Warnings[len(f.Warnings)-1])
	}
	f = mustParse(t, `{"shapes":[`+strings.Repeat(line, maxWarnings)+`{"label":"x","points":`+
		triangle[1:len(triangle)-1]+`}]}`, Options{})
	if len(f.Warnings) != maxWarnings || strings.Contains(f.Warnings[maxWarnings-1], "more warnings") {
		t.Errorf("%d warnings, the last is %q", len(f.Warnings), f.Warnings[len(f.Warnings)-1])
	}
}

func TestRingsDontShareRoom(t *testing.T) {
	f := mustParse(t, `[{"rings":[[[0,0],[4,0],[4,4]],[[1,1],[2,1],[2,2]]]}]`, Options{})
	a, b := f.Regions[0].Rings[0], f.Regions[0].Rings[1]
	_ = append(a, [2]float64{99, 99})
	if b[0] != [2]float64{1, 1} {
		t.Error("appending to a ring changed the next one")
	}
}

func TestInputIsLeftAlone(t *testing.T) {
	for _, name := range fixtures(t) {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		before := bytes.Clone(data)
		f, err := Parse(name, data, Options{Image: imageOf(name)})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(data, before) {
			t.Errorf("%s: Parse changed its input", name)
		}
		names := make([]string, len(f.Regions))
		for i, r := range f.Regions {
			names[i] = strings.Clone(r.Name)
		}
		for i := range data {
			data[i] = '!'
		}
		for i, r := range f.Regions {
			if r.Name != names[i] {
				t.Errorf("%s: a name refers to the input", name)
			}
		}
	}
}

func fixtures(t testing.TB) []string {
	t.Helper()
	names, err := filepath.Glob("testdata/*[gn]") // .json, .geojson, .svg
	if err != nil || len(names) < 7 {
		t.Fatalf("found only %d fixtures: %v", len(names), err)
	}
	return names
}

// imageOf picks an image for the fixture that has two.
func imageOf(name string) string {
	if strings.Contains(filepath.Base(name), "coco") {
		return "1"
	}
	return ""
}

func TestLoad(t *testing.T) {
	f, err := Load("testdata/regions.json", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if f.Format != FormatRegions || len(f.Regions) != 3 {
		t.Errorf("got %v with %d regions", f.Format, len(f.Regions))
	}

	dir := t.TempDir()
	missing := filepath.Join(dir, "missing.json")
	_, err = Load(missing, Options{})
	if !errors.Is(err, fs.ErrNotExist) || err.Error() != missing+": no such file or directory" {
		t.Errorf("missing file: %v", err)
	}
	_, err = Load(dir, Options{})
	if !errors.Is(err, ErrUnknownFormat) || err.Error() != dir+": is a directory, not a region file" {
		t.Errorf("directory: %v", err)
	}
	_, err = Load("testdata/regions.json", Options{MaxBytes: 20})
	if !errors.Is(err, ErrLimit) || !strings.HasPrefix(err.Error(), "testdata/regions.json: ") ||
		!strings.HasSuffix(err.Error(), " bytes, the limit for a region file is 20") {
		t.Errorf("large file: %v", err)
	}
	_, err = Load("testdata/regions.json", Options{Tolerance: -1})
	if !errors.Is(err, ErrOptions) {
		t.Errorf("bad options: %v", err)
	}
	// A name that could break a terminal is shown escaped.
	odd := filepath.Join(dir, "a\n\x1b[31mb.json")
	_, err = Load(odd, Options{})
	if err == nil || badMessage(err, dir) != "error that doesn't begin with the file: "+err.Error() ||
		!strings.Contains(err.Error(), `a\n\x1b[31mb.json`) {
		t.Errorf("odd name: %v", err)
	}
}

// A pipe has no size to check beforehand; the limit holds for what comes through.
func TestLoadFromPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	go func() {
		defer w.Close()
		for range 64 {
			if _, err := w.WriteString(strings.Repeat(" ", 1<<10)); err != nil {
				return
			}
		}
	}()
	path := fmt.Sprintf("/dev/fd/%d", r.Fd())
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no /dev/fd here: %v", err)
	}
	if _, err = Load(path, Options{MaxBytes: 1000}); !errors.Is(err, ErrLimit) {
		t.Errorf("got %v, want the limit", err)
	}
}

func TestFormatString(t *testing.T) {
	for f, want := range map[Format]string{
		FormatRegions: "polyscan regions", FormatRecipe: "polyscan recipe", FormatLabelMe: "LabelMe",
		FormatCOCO:    "COCO",
		FormatGeoJSON: "GeoJSON", FormatSVG: "SVG", 0: "Format(0)", 99: "Format(99)",
	} {
		if got := f.String(); got != want {
			t.Errorf("Format %d is %q, want %q", uint8(f), got, want)
		}
	}
}
