package regionfile

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/polyscan/polyscan/internal/race"
)

func TestRegions(t *testing.T) {
	f, err := Load("testdata/regions.json", Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := &File{
		Format: FormatRegions,
		Regions: []Region{
			{Name: "U7", Fill: FillEvenOdd, Limits: []string{"mean in [90, 140]", "p99 < 200"},
				Rings: rings(ring(10, 10, 90, 10, 90, 60, 10, 60), ring(30, 20, 30, 40, 60, 40, 60, 20))},
			{Name: "region-1", Rings: rings(ring(100.5, 10.25, 150, 12, 120, 60.00390625))},
			{Name: "C12", Rings: rings(ring(0, 0, 10, 0, 10, 10, -0.25, 10))},
		},
	}
	if d := cmp.Diff(want, f); d != "" {
		t.Error(d)
	}
}

func TestRecipe(t *testing.T) {
	f, err := Load("testdata/recipe.json", Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := &File{
		Format: FormatRecipe, Name: "power-stage", Description: "Solder joints of the power stage",
		Regions: []Region{
			{Name: "J1", Fill: FillNonZero, Limits: []string{"count of pixels below 40 <= 25"},
				Rings: rings(ring(8, 8, 24, 8, 24, 24, 8, 24))},
			{Name: "J2", Fill: FillEvenOdd, Rings: rings(ring(40, 8, 56, 8, 48, 24))},
		},
		Reductions: []string{"mean", "percentiles(99)", "histogram"},
	}
	if d := cmp.Diff(want, f); d != "" {
		t.Error(d)
	}
}

func TestRegionsErrors(t *testing.T) {
	ok := `{"name":"a","rings":` + triangle + `}`
	testBad(t, []badFile{
		{"two vertices", `[` + ok + `,` + ok + `,` + ok + `,{"name":"U7","rings":[[[0,0],[1,1]]]}]`, Options{},
			`regions[3] "U7": rings[0]: 2 vertices, a ring needs at least 3`, ErrInvalid},
		{"one vertex", `[{"rings":[[[0,0],[1,0],[1,1]],[[1,1]]]}]`, Options{},
			`regions[0]: rings[1]: 1 vertex, a ring needs at least 3`, ErrInvalid},
		{"empty ring", `[{"rings":[[]]}]`, Options{}, `regions[0]: rings[0]: 0 vertices, a ring needs at least 3`,
			ErrInvalid},
		{"no rings", `[{"rings":[],"name":"b"}]`, Options{},
			`regions[0] "b": rings: no rings, a region needs at least 1`, ErrInvalid},
		{"rings missing", `[{"name":"b","ring":[]}]`, Options{}, `regions[0] "b": the key "rings" is missing`,
			ErrInvalid},
		{"rings twice", `[{"rings":` + triangle + `,"rings":` + triangle + `}]`, Options{},
			`regions[0]: the key "rings" occurs twice`, ErrInvalid},
		{"not an object", `[[[0,0],[1,1],[1,0]]]`, Options{}, `regions[0]: expected an object, found an array`,
			ErrInvalid},
		{"number as region", `[1]`, Options{}, `regions[0]: expected an object, found a number`, ErrInvalid},
		{"null as region", `[null]`, Options{}, `regions[0]: expected an object, found null`, ErrInvalid},
		{"rings no array", `[{"rings":{}}]`, Options{}, `regions[0]: rings: expected an array, found an object`,
			ErrInvalid},
		{"rings null", `[{"rings":null}]`, Options{}, `regions[0]: rings: expected an array, found null`, ErrInvalid},
		{"ring no array", `[{"rings":["a"]}]`, Options{}, `regions[0]: rings[0]: expected an array, found a string`,
			ErrInvalid},
		{"a level missing", `[{"rings":[[0,0],[1,1],[1,0]]}]`, Options{},
			`regions[0]: rings[0]: vertex 0: expected [x, y], found a number`, ErrInvalid},
		{"a level too many", `[{"rings":[[[[0,0],[1,1],[1,0]]]]}]`, Options{},
			`regions[0]: rings[0]: vertex 0: x: expected a number, found an array`, ErrInvalid},
		{"one number", `[{"rings":[[[0,0],[1],[1,0]]]}]`, Options{},
			`regions[0]: rings[0]: vertex 1: 1 number, expected [x, y]`, ErrInvalid},
		{"no number", `[{"rings":[[[0,0],[],[1,0]]]}]`, Options{},
			`regions[0]: rings[0]: vertex 1: 0 numbers, expected [x, y]`, ErrInvalid},
		{"three numbers", `[{"rings":[[[0,0,0],[1,1],[1,0]]]}]`, Options{},
			`regions[0]: rings[0]: vertex 0: 3 numbers, expected [x, y]`, ErrInvalid},
		{"string coordinate", `[{"rings":[[[0,"1"],[1,1],[1,0]]]}]`, Options{},
			`regions[0]: rings[0]: vertex 0: y: expected a number, found a string`, ErrInvalid},
		{"null coordinate", `[{"rings":[[[0,null],[1,1],[1,0]]]}]`, Options{},
			`regions[0]: rings[0]: vertex 0: y: expected a number, found null`, ErrInvalid},
		{"true coordinate", `[{"rings":[[[true,0],[1,1],[1,0]]]}]`, Options{},
			`regions[0]: rings[0]: vertex 0: x: expected a number, found true`, ErrInvalid},
		{"beyond float64", `[{"rings":[[[0,0],[1e400,1],[1,0]]]}]`, Options{},
			`regions[0]: rings[0]: vertex 1: x: the number 1e400 is out of range`, ErrInvalid},
		{"2^22", `[{"rings":[[[0,0],[1,4194304],[1,0]]]}]`, Options{},
			`regions[0]: rings[0]: vertex 1: y is 4.194304e+06, its magnitude must be below 4194304 px`, ErrInvalid},
		{"-2^22", `[{"rings":[[[0,0],[-4194304,1],[1,0]]]}]`, Options{},
			`regions[0]: rings[0]: vertex 1: x is -4.194304e+06, its magnitude must be below 4194304 px`, ErrInvalid},
		{"name a number", `[{"name":7,"rings":` + triangle + `}]`, Options{},
			`regions[0] "7": name: expected a string, found a number`, ErrInvalid},
		{"name twice", `[{"name":"a","name":"b","rings":` + triangle + `}]`, Options{},
			`regions[0] "b": the key "name" occurs twice`, ErrInvalid},
		{"fill unknown", `[{"fill":"winding","rings":` + triangle + `}]`, Options{},
			`regions[0]: fill: unknown fill rule "winding", expected "nonzero" or "evenodd"`, ErrInvalid},
		{"fill dashes", `[{"fill":"-","rings":` + triangle + `}]`, Options{},
			`regions[0]: fill: unknown fill rule "-", expected "nonzero" or "evenodd"`, ErrInvalid},
		{"fill a number", `[{"fill":1,"rings":` + triangle + `}]`, Options{},
			`regions[0]: fill: expected a string, found a number`, ErrInvalid},
		{"fill twice", `[{"fill":"","fill":"","rings":` + triangle + `}]`, Options{},
			`regions[0]: the key "fill" occurs twice`, ErrInvalid},
		{"limits a string", `[{"limits":"mean > 1","rings":` + triangle + `}]`, Options{},
			`regions[0]: limits: expected an array, found a string`, ErrInvalid},
		{"limit a number", `[{"limits":["a",2],"rings":` + triangle + `}]`, Options{},
			`regions[0]: limits[1]: expected a string, found a number`, ErrInvalid},
		{"limits twice", `[{"limits":[],"limits":[],"rings":` + triangle + `}]`, Options{},
			`regions[0]: the key "limits" occurs twice`, ErrInvalid},
		{"name with newline", `[{"name":"a\nb\u001b[0m","rings":[]}]`, Options{},
			`regions[0] "a\nb\x1b[0m": rings: no rings, a region needs at least 1`, ErrInvalid},
		{"recipe without array", `{"regions":{}}`, Options{}, `regions: expected an array, found an object`,
			ErrInvalid},
		{"recipe with null", `{"regions":null}`, Options{}, `regions: expected an array, found null`, ErrInvalid},
		{"recipe empty", `{"regions":[]}`, Options{}, `no regions in this polyscan recipe file`, ErrNoRegions},
		{"recipe name", `{"regions":[` + ok + `],"name":[]}`, Options{}, `name: expected a string, found an array`,
			ErrInvalid},
		{"recipe description", `{"regions":[` + ok + `],"description":true}`, Options{},
			`description: expected a string, found true`, ErrInvalid},
		{"recipe fill", `{"regions":[` + ok + `],"fill":"x"}`, Options{},
			`fill: unknown fill rule "x", expected "nonzero" or "evenodd"`, ErrInvalid},
		{"recipe reductions", `{"regions":[` + ok + `],"reductions":[false]}`, Options{},
			`reductions[0]: expected a string, found false`, ErrInvalid},
		{"recipe region", `{"regions":[` + ok + `,{"name":"x"}]}`, Options{},
			`regions[1] "x": the key "rings" is missing`, ErrInvalid},
		{"regions twice", `{"regions":[],"regions":[]}`, Options{}, `the key "regions" occurs twice`, ErrInvalid},
	})
}

// coordinates that a file may have: any float64 of the range, among them tiny ones and multiples of 1/256.
func coordinateGen() *rapid.Generator[float64] {
	const largest = coordinateLimit - 1.0/256
	return rapid.OneOf(
		rapid.Float64Range(-largest, largest),
		rapid.Map(rapid.IntRange(-1<<20, 1<<20), func(i int) float64 { return float64(i) / 256 }),
		rapid.SampledFrom([]float64{0, math.Copysign(0, -1), largest, -largest, 5e-324, 1e-7, 0.1}),
	)
}

func ringGen() *rapid.Generator[[][2]float64] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) [2]float64 {
		return [2]float64{coordinateGen().Draw(t, "x"), coordinateGen().Draw(t, "y")}
	}), 3, 9)
}

// What is written in polyscan's own format reads back equal, bit for bit.
func TestRegionsRoundTrip(t *testing.T) {
	region := rapid.Custom(func(t *rapid.T) Region {
		return Region{
			Name:   rapid.StringN(1, 8, -1).Draw(t, "name"),
			Rings:  rapid.SliceOfN(ringGen(), 1, 4).Draw(t, "rings"),
			Fill:   rapid.SampledFrom([]string{FillDefault, FillNonZero, FillEvenOdd}).Draw(t, "fill"),
			Limits: rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "limits"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfNDistinct(region, 1, 5, func(r Region) string { return r.Name }).Draw(t, "regions")
		doc, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Parse("", doc, Options{})
		if err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		for i := range want {
			if len(want[i].Limits) == 0 {
				want[i].Limits = nil
			}
		}
		if d := cmp.Diff(want, f.Regions); d != "" {
			t.Fatalf("%s\n%s", d, doc)
		}
		for i := range want {
			for j := range want[i].Rings {
				for k, p := range want[i].Rings[j] {
					got := f.Regions[i].Rings[j][k]
					if math.Float64bits(got[0]) != math.Float64bits(p[0]) ||
						math.Float64bits(got[1]) != math.Float64bits(p[1]) {
						t.Fatalf("region %d, ring %d, vertex %d is %v, want %v", i, j, k, got, p)
					}
				}
			}
		}
	})
}

// sharedData returns the folder of real data that tests use where it is present.
func sharedData() string {
	if dir := os.Getenv("POLYSCAN_SHARED"); dir != "" {
		return filepath.Join(dir, "data")
	}
	return filepath.Join("..", "..", "..", "shared", "data")
}

// Real regions: the numbers of countries, states, glyphs and contours are known.
func TestSharedPolygons(t *testing.T) {
	race.Skip(t)
	dir := filepath.Join(sharedData(), "polygons")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("the shared polygons are not here: %v", err)
	}
	for name, want := range map[string]struct{ regions, vertices int }{
		"world110m_4096x2048.json":        {177, 10298},
		"countries50m_fit.json":           {10, 11588},
		"us_states_albers_4096x2562.json": {51, 9147},
		"glyphs_shared.json":              {20, 2805},
		"defect_contours.json":            {23, 7993},
	} {
		path := filepath.Join(dir, name)
		f, err := Load(path, Options{})
		if err != nil {
			t.Error(err)
			continue
		}
		if problem := broken(f); problem != "" {
			t.Errorf("%s: %s", name, problem)
		}
		vertices := 0
		for _, r := range f.Regions {
			for _, g := range r.Rings {
				vertices += len(g)
			}
		}
		if len(f.Regions) != want.regions || vertices != want.vertices || len(f.Warnings) > 0 {
			t.Errorf("%s: %d regions of %d vertices with warnings %q, want %d of %d and none", name, len(f.Regions),
				vertices, f.Warnings, want.regions, want.vertices)
		}
		// The same, read by the standard library into the obvious struct.
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var plain []Region
		if err := json.Unmarshal(data, &plain); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(plain, f.Regions); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestScale(t *testing.T) {
	const rest = `"regions": [{"name": "a", "rings": [[[0, 0], [4, 0], [4, 4]]]}]}`
	for text, want := range map[string]*Scale{
		``:                                 nil,
		`"scale": null,`:                   nil,
		`"scale": {"mm_per_pixel": 0.05},`: {MMPerPixel: [2]float64{0.05, 0.05}},
		`"scale": {"origin": [12, -4.5], "mm_per_pixel": [0.05, 0.04]},`: {[2]float64{0.05, 0.04}, [2]float64{12, -4.5}},
	} {
		f, err := Parse("a.json", []byte(`{`+text+rest), Options{})
		if err != nil || !reflect.DeepEqual(f.Scale, want) || len(f.Warnings) > 0 {
			t.Errorf("%s: %+v, %v", text, f, err)
			continue
		}
		if want == nil {
			continue
		}
		again, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if f, err = Parse("a.json", []byte(`{"scale": `+string(again)+`, `+rest), Options{}); err != nil ||
			!reflect.DeepEqual(f.Scale, want) {
			t.Errorf("%s: %+v, %v", again, f, err)
		}
	}
	for text, want := range map[string]string{
		`7`:                                      `scale: expected an object, found a number`,
		`{}`:                                     `scale: the key "mm_per_pixel" is missing`,
		`{"mm_per_pixel": 0}`:                    `scale: mm_per_pixel: 0 mm per pixel, it must be above 0`,
		`{"mm_per_pixel": [1, -1]}`:              `-1 mm per pixel`,
		`{"mm_per_pixel": [1]}`:                  `want 2 numbers, found 1`,
		`{"mm_per_pixel": [1, 2, 3]}`:            `want 2 numbers, found 3`,
		`{"mm_per_pixel": "1"}`:                  `expected an array, found a string`,
		`{"mm_per_pixel": 1, "mm_per_pixel": 1}`: `twice`,
		`{"mm_per_pixel": 1, "origin": 3}`:       `scale: origin: expected an array, found a number`,
		`{"mm_per_pixel": 1, "origin": [0, "zero"]}`: `scale: origin[1]: expected a number`,
	} {
		if _, err := Parse("a.json", []byte(`{"scale": `+text+`, `+rest), Options{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	f, err := Parse("a.json", []byte(`{"scale": {"mm_per_pixel": 1, "orgin": [1, 2]}, "scales": 1, `+rest), Options{})
	if err != nil || len(f.Warnings) != 2 || !strings.Contains(strings.Join(f.Warnings, " "), `did you mean "origin"?`) {
		t.Errorf("%v, %v", f, err)
	}
}

func TestReference(t *testing.T) {
	ring := `"rings": [[[0, 0], [4, 0], [4, 4]]]`
	f, err := Parse("a.json", []byte(`[{"name": "a", `+ring+`, "reference": {"region": "b"}}, {"name": "b", "reference": null, `+ring+`},
		{"reference": {"counts": [[1, 0, 7], [4]]}, `+ring+`}]`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []*Reference{{Region: "b"}, nil, {Counts: [][]uint32{{1, 0, 7}, {4}}}}
	for i, r := range f.Regions {
		if !reflect.DeepEqual(r.Reference, want[i]) {
			t.Errorf("region %d: %+v, want %+v", i, r.Reference, want[i])
		}
	}
	const form = `expected {"region": NAME} or {"counts": [[...], ...]} of whole numbers from 0, found `
	for bad, says := range map[string]string{`7`: "reference: " + form + "a number", `"b"`: "reference: " + form + "a string",
		`{"regoin": "b"}`: "reference: " + form + `the key "regoin"`, `{"Region": "b"}`: "reference: " + form + `the key "Region"`,
		`{"region": "a", "region": "b"}`: `reference: the key "region" occurs twice`,
		`{"region": 7}`:                  "reference: region: " + form + "a number",
		`{"counts": [[-1]]}`:             "reference: counts: " + form + "a number -1",
		`{"counts": [[1.5]]}`:            "reference: counts: " + form + "a number 1.5",
		`{"counts": [1]}`:                "reference: counts: " + form + "a number"} {
		if _, err := Parse("a.json", []byte(`[{`+ring+`, "reference": `+bad+`}]`), Options{}); err == nil ||
			!strings.HasSuffix(err.Error(), says) {
			t.Errorf("%s: %v, want %s", bad, err, says)
		}
	}
}
