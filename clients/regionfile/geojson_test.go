package regionfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestGeoJSON(t *testing.T) {
	f, err := Load("testdata/parts.geojson", Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := &File{
		Format: FormatGeoJSON, Name: "parts",
		Regions: []Region{
			{Name: "plate", Fill: FillEvenOdd,
				Rings: rings(ring(0, 0, 100, 0, 100, 80, 0, 80), ring(20, 20, 40, 20, 40, 40))},
			// The first member was drawn counterclockwise and is turned, the second's hole is turned the other way.
			{Name: "42", Fill: FillNonZero,
				Rings: rings(ring(10, 0, 10, 10, 0, 10, 0, 0), ring(5, 5, 15, 5, 15, 15, 5, 15),
					ring(8, 12, 12, 12, 12, 8, 8, 8))},
			{Name: "bolts", Fill: FillEvenOdd, Rings: rings(ring(1, 1, 2, 1, 2, 2))},
			{Name: "bolts#2", Fill: FillEvenOdd, Rings: rings(ring(5, 1, 6, 1, 6, 2))},
		},
		Renamed: map[string]string{"bolts#2": "bolts"},
		Warnings: []string{
			`features[2] "bolts": skipped the Point: it has no area`,
			`features[3]: skipped: it has no geometry`,
			`1 ring is not closed (the last position must equal the first): closed implicitly`,
		},
	}
	if d := cmp.Diff(want, f); d != "" {
		t.Error(d)
	}
}

const somePosition = `[[0,0],[4,0],[4,4],[0,0]]`

func TestGeoJSONForms(t *testing.T) {
	polygon := `{"type":"Polygon","coordinates":[` + somePosition + `]}`
	tri := ring(0, 0, 4, 0, 4, 4)
	for _, c := range []struct {
		name, content string
		want          []Region
		warnings      []string
	}{
		{"polygon", polygon, []Region{{Name: "region-0", Fill: FillEvenOdd, Rings: rings(tri)}}, nil},
		{"feature", `{"geometry":` + polygon + `,"type":"Feature"}`,
			[]Region{{Name: "region-0", Fill: FillEvenOdd, Rings: rings(tri)}}, nil},
		{"name first", `{"type":"Feature","id":1,"properties":{"id":2,"label":"l","name":"n"},"geometry":` + polygon +
			`}`, []Region{{Name: "n", Fill: FillEvenOdd, Rings: rings(tri)}}, nil},
		{"label next", `{"type":"Feature","id":1,"properties":{"id":2,"label":"l","name":["n"]},"geometry":` + polygon +
			`}`, []Region{{Name: "l", Fill: FillEvenOdd, Rings: rings(tri)}}, nil},
		{"id of the properties",
			`{"type":"Feature","id":1,"properties":{"id":2.50,"label":"","name":true},"geometry":` + polygon + `}`,
			[]Region{{Name: "2.50", Fill: FillEvenOdd, Rings: rings(tri)}}, nil},
		{"id of the feature", `{"type":"Feature","id":"é\"1","properties":{},"geometry":` + polygon + `}`,
			[]Region{{Name: `é"1`, Fill: FillEvenOdd, Rings: rings(tri)}}, nil},
		{"multipolygon of one", `{"type":"MultiPolygon","coordinates":[[[[0,0],[0,4],[4,4],[0,0]]]]}`,
			[]Region{{Name: "region-0", Fill: FillEvenOdd, Rings: rings(ring(0, 0, 0, 4, 4, 4))}}, nil},
		{"multipolygon with an empty member",
			`{"type":"MultiPolygon","coordinates":[[],[[[0,0],[0,4],[4,4],[0,0]]],[]]}`,
			[]Region{{Name: "region-0", Fill: FillEvenOdd, Rings: rings(ring(0, 0, 0, 4, 4, 4))}}, nil},
		{"empty geometries",
			`{"type":"GeometryCollection","geometries":[{"type":"Polygon","coordinates":[]},{"type":"MultiPolygon",` +
				`"coordinates":[]},` + polygon + `]}`,
			[]Region{{Name: "region-0", Fill: FillEvenOdd, Rings: rings(tri)}},
			[]string{`the geometry: skipped: the Polygon is empty`,
				`the geometry: skipped: the MultiPolygon is empty`}},
		{"altitude", `{"type":"Polygon","coordinates":[[[0,0,1],[4,0,1,2],[4,4,-1e9],[0,0,1]]]}`,
			[]Region{{Name: "region-0", Fill: FillEvenOdd, Rings: rings(tri)}}, nil},
		{"degrees", `{"type":"Polygon","coordinates":[[[-10,0],[4,50],[4,4],[-10,0]]]}`,
			[]Region{{Name: "region-0", Fill: FillEvenOdd, Rings: rings(ring(-10, 0, 4, 50, 4, 4))}},
			[]string{`all coordinates lie within ±180 and ±90 and some are negative, as if they were degrees: they are taken as pixels`}},
		{"no degrees", `{"type":"Polygon","coordinates":[[[-10,0],[4,91],[4,4],[-10,0]]]}`,
			[]Region{{Name: "region-0", Fill: FillEvenOdd, Rings: rings(ring(-10, 0, 4, 91, 4, 4))}}, nil},
		{"crs null", `{"type":"Feature","crs":null,"geometry":` + polygon + `}`,
			[]Region{{Name: "region-0", Fill: FillEvenOdd, Rings: rings(tri)}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := mustParse(t, c.content, Options{})
			wantRegions(t, f.Regions, c.want)
			if !slices.Equal(f.Warnings, c.warnings) {
				t.Errorf("warnings %q, want %q", f.Warnings, c.warnings)
			}
		})
	}
}

func TestGeoJSONErrors(t *testing.T) {
	coords := func(s string) string {
		return `{"type":"Feature","properties":{"name":"p"},"geometry":{"type":"Polygon","coordinates":` + s + `}}`
	}
	testBad(t, []badFile{
		{"unknown type", `{"type":"Topology","coordinates":[]}`, Options{},
			`GeoJSON of the unknown type "Topology"; accepted are polyscan JSON, LabelMe, COCO, GeoJSON, SVG and PNG masks`,
			ErrUnknownFormat},
		{"no features", `{"type":"FeatureCollection"}`, Options{}, `the key "features" is missing`, ErrInvalid},
		{"features no array", `{"type":"FeatureCollection","features":{}}`, Options{},
			`features: expected an array, found an object`, ErrInvalid},
		{"features twice", `{"type":"FeatureCollection","features":[],"features":[]}`, Options{},
			`the key "features" occurs twice`, ErrInvalid},
		{"empty collection", `{"type":"FeatureCollection","features":[]}`, Options{}, `no regions in this GeoJSON file`,
			ErrNoRegions},
		{"collection name", `{"type":"FeatureCollection","features":[],"name":1}`, Options{},
			`name: expected a string, found a number`, ErrInvalid},
		{"collection description", `{"type":"FeatureCollection","features":[],"description":1}`, Options{},
			`description: expected a string, found a number`, ErrInvalid},
		{"feature no object", `{"type":"FeatureCollection","features":[[]]}`, Options{},
			`features[0]: expected an object, found an array`, ErrInvalid},
		{"feature twice", `{"type":"FeatureCollection","features":[{"type":"Feature","type":"Feature"}]}`, Options{},
			`features[0]: the key "type" occurs twice`, ErrInvalid},
		{"no feature", `{"type":"FeatureCollection","features":[{"type":"Polygon","coordinates":[]}]}`, Options{},
			`features[0]: expected "type": "Feature"`, ErrInvalid},
		{"only points",
			`{"type":"FeatureCollection","features":[{"type":"Feature","geometry":{"type":"Point","coordinates":[1,2]}}]}`,
			Options{}, `no regions in this GeoJSON file (features[0]: skipped the Point: it has no area)`,
			ErrNoRegions},
		{"a point", `{"type":"Point","coordinates":[1,2]}`, Options{},
			`no regions in this GeoJSON file (the geometry: skipped the Point: it has no area)`, ErrNoRegions},
		{"geometry no object", `{"type":"Feature","properties":{"name":"p"},"geometry":[]}`, Options{},
			`the feature "p": geometry: expected an object, found an array`, ErrInvalid},
		{"geometry without type", `{"type":"Feature","geometry":{}}`, Options{},
			`the feature: the geometry's "type" is missing or not a string`, ErrInvalid},
		{"geometry of unknown type", `{"type":"Feature","geometry":{"type":"Circle"}}`, Options{},
			`the feature: unknown geometry type "Circle"`, ErrInvalid},
		{"geometry type twice", `{"type":"Feature","geometry":{"type":"Polygon","type":"Polygon"}}`, Options{},
			`the feature: the key "type" occurs twice`, ErrInvalid},
		{"no coordinates", `{"type":"Polygon"}`, Options{}, `the key "coordinates" is missing`, ErrInvalid},
		{"coordinates no array", coords(`{}`), Options{},
			`the feature "p": coordinates: expected an array, found an object`, ErrInvalid},
		{"a level missing", coords(somePosition), Options{},
			`the feature "p": coordinates[0]: vertex 0: expected [x, y], found a number`, ErrInvalid},
		{"a level too many", coords(`[[` + somePosition + `]]`), Options{},
			`the feature "p": coordinates[0]: vertex 0: x: expected a number, found an array`, ErrInvalid},
		{"two vertices", coords(`[` + somePosition + `,[[0,0],[1,1],[0,0]]]`), Options{},
			`the feature "p": coordinates[1]: 2 vertices, a ring needs at least 3`, ErrInvalid},
		{"no vertices", coords(`[[]]`), Options{},
			`the feature "p": coordinates[0]: 0 vertices, a ring needs at least 3`, ErrInvalid},
		{"metres", coords(`[[[500000,4649776],[500010,4649776],[500010,4649786],[500000,4649776]]]`), Options{},
			`the feature "p": coordinates[0]: vertex 0: y is 4.649776e+06, its magnitude must be below 4194304 px`,
			ErrInvalid},
		{"altitude a string", coords(`[[[0,0,"a"]]]`), Options{},
			`the feature "p": coordinates[0]: vertex 0: expected a number, found a string`, ErrInvalid},
		{"multipolygon", `{"type":"MultiPolygon","coordinates":[[` + somePosition + `],[[[0,0]]]]}`, Options{},
			`coordinates[1][0]: 1 vertex, a ring needs at least 3`, ErrInvalid},
		{"multipolygon no array", `{"type":"MultiPolygon","coordinates":5}`, Options{},
			`coordinates: expected an array, found a number`, ErrInvalid},
		{"member no array", `{"type":"MultiPolygon","coordinates":[5]}`, Options{},
			`coordinates[0]: expected an array, found a number`, ErrInvalid},
		{"no geometries", `{"type":"GeometryCollection"}`, Options{}, `the key "geometries" is missing`, ErrInvalid},
		{"geometries no array", `{"type":"GeometryCollection","geometries":1}`, Options{},
			`geometries: expected an array, found a number`, ErrInvalid},
		{"geometries of numbers",
			`{"type":"GeometryCollection","geometries":[{"type":"GeometryCollection","geometries":[1]}]}`, Options{},
			`geometries[0]: geometries[0]: expected an object, found a number`, ErrInvalid},
		{"too deep", strings.Repeat(`{"type":"GeometryCollection","geometries":[`, 18) + strings.Repeat("]}", 18),
			Options{},
			strings.TrimSuffix(strings.Repeat("geometries[0]: ", 16), " ") +
				` geometry collections nested more than 16 deep, the limit`, ErrLimit},
		{"regions", `{"type":"GeometryCollection","geometries":[{"type":"Polygon","coordinates":[` + somePosition +
			`]},{"type":"Polygon","coordinates":[` + somePosition + `]}]}`, Options{MaxRegions: 1},
			`geometries[1]: more than 1 regions in the file, the limit`, ErrLimit},
	})
}

// The closing vertex doesn't count against the limit once it is dropped.
func TestGeoJSONVertexLimit(t *testing.T) {
	two := `{"type":"Polygon","coordinates":[` + somePosition + `,` + somePosition + `]}`
	mustParse(t, two, Options{MaxVertices: 7})
	if _, err := Parse("", []byte(two), Options{MaxVertices: 6}); !errors.Is(err, ErrLimit) {
		t.Errorf("got %v", err)
	}
}

// Members of a multipolygon may overlap, touch, or lie in each other's holes, drawn in any direction: a pixel is inside
// if it is inside of one of them, each taken alone under the even-odd rule.
func TestMultiPolygonIsUnion(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(rt, "members")
		var members []string
		var alone [][][][2]float64
		for range n {
			x, y := rapid.IntRange(0, 12).Draw(rt, "x"), rapid.IntRange(0, 12).Draw(rt, "y")
			w, h := rapid.IntRange(3, 10).Draw(rt, "w"), rapid.IntRange(3, 10).Draw(rt, "h")
			polygon := rings(box(float64(x), float64(y), float64(x+w), float64(y+h)))
			if rapid.Bool().Draw(rt, "hole") {
				polygon = append(polygon, box(float64(x+1), float64(y+1), float64(x+w-1), float64(y+h-1)))
			}
			var text []string
			for _, r := range polygon {
				if rapid.Bool().Draw(rt, "turned") {
					slices.Reverse(r)
				}
				text = append(text, strings.ReplaceAll(fmt.Sprint(append(slices.Clone(r), r[0])), " ", ","))
			}
			alone = append(alone, polygon)
			members = append(members, "["+strings.Join(text, ",")+"]")
		}
		f, err := Parse("", []byte(`{"type":"MultiPolygon","coordinates":[`+strings.Join(members, ",")+`]}`), Options{})
		if err != nil {
			rt.Fatal(err)
		}
		want := newBitmap(24, 24)
		for i := range want.set {
			for _, p := range alone {
				want.set[i] = want.set[i] || inside(p, FillEvenOdd, float64(i%24)+0.5, float64(i/24)+0.5)
			}
		}
		if d := pixelsDiffer(f.Regions[0].Rings, f.Regions[0].Fill, want, 0, 0); d != "" {
			rt.Fatal(d)
		}
	})
}
