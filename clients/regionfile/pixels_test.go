package regionfile

import (
	"slices"
	"strings"
	"testing"
)

// Coordinates that can't be pixels are told in every format, and pixels are not.
func TestNotPixels(t *testing.T) {
	geo := func(crs, ring string) string {
		return `{"type":"Feature","crs":` + crs + `,"geometry":{"type":"Polygon","coordinates":[` + ring + `]}}`
	}
	named := func(name string) string { return `{"type":"name","properties":{"name":"` + name + `"}}` }
	coco := func(box string) string { return `{"annotations":[{"id":1,"bbox":` + box + `}]}` }
	labelMe := func(points string) string {
		return `{"imageWidth":640,"imageHeight":480,"shapes":[{"label":"a","points":` + points + `}]}`
	}
	const pixels, berlin = `[[0,0],[90,0],[90,70],[0,0]]`, `[[13.376,52.516],[13.379,52.516],[13.379,52.518],[13.376,52.516]]`
	const shares, less = "from 0 to 1", "less than a pixel"
	for _, c := range []struct{ content, want string }{
		{geo(`null`, pixels), ""},
		{geo(named("urn:ogc:def:crs:OGC:1.3:CRS84"), pixels), `system "urn:ogc:def:crs:OGC:1.3:CRS84" (crs)`},
		{geo(named("EPSG:4326"), berlin), `"EPSG:4326"`},
		{geo(named("EPSG:25833"), pixels), `"EPSG:25833"`},
		{geo(`{"type":"EPSG","properties":{"code":4326}}`, pixels), `"4326"`},
		{geo(`{"type":"link","properties":{"href":"http://localhost/4326","type":"proj4"}}`, pixels), `"http://localhost/4326"`},
		{geo(`"EPSG:4326"`, pixels), `"EPSG:4326"`},
		{geo(named("local"), pixels), ""},
		{geo(named("Image pixels"), pixels), ""},
		{geo(named("urn:ogc:def:crs:OGC::ImageCRS"), pixels), ""},
		{geo(`null`, berlin), less},
		{geo(`null`, `[[0.1,0.2],[0.7,0.2],[0.7,0.9],[0.1,0.2]]`), shares},
		{coco(`[0.1,0.2,0.5,0.5]`), shares},
		{coco(`[0,0,1,1]`), shares},
		{coco(`[0,0,1.5,1]`), ""},
		{coco(`[30,40,1,1]`), ""}, // one pixel
		{coco(`[30,40,0.5,0.9]`), less},
		{coco(`[30,40,0.01,9]`), ""},
		{labelMe(`[[0.1,0.2],[0.5,0.2],[0.5,0.4]]`), shares},
		{labelMe(`[[100,0.2],[300,0.2],[300,0.4]]`), ""},
		{`[{"name":"a","rings":[[[0.1,0.1],[0.4,0.1],[0.4,0.4]]]},{"name":"b","rings":[[[0,0],[1,0],[1,1]]]}]`, shares},
		{`[{"name":"a","rings":[[[0.1,0.1],[0.4,0.1],[0.4,0.4]]]},{"name":"b","rings":[[[0,0],[9,0],[9,9]]]}]`, ""},
		{`[{"name":"a","rings":[[[0.1,0.1],[0.4,0.1],[0.4,0.4]]]},{"name":"b","shape":"circle(30, 40, 5)"}]`, ""},
		{`[{"name":"a","mask":[[0,0,1]]}]`, ""},
		{svg(`viewBox="0 0 1 1"`, `<rect x="0.1" y="0.1" width="0.5" height="0.5"/>`), shares},
		{svg(`viewBox="0 0 1 1" width="640" height="480"`, `<rect x="0.1" y="0.1" width="0.5" height="0.5"/>`), ""},
	} {
		f := mustParse(t, c.content, Options{})
		if !strings.Contains(f.NotPixels, c.want) || (f.NotPixels != "") != (c.want != "") {
			t.Errorf("%s: %q, want %q", c.content, f.NotPixels, c.want)
		}
		if f.NotPixels != "" && !(strings.Contains(f.NotPixels, "polyscan needs pixels") &&
			slices.Contains(f.Warnings, f.NotPixels)) {
			t.Errorf("%s: %q, and warnings %q", c.content, f.NotPixels, f.Warnings)
		}
	}
}
