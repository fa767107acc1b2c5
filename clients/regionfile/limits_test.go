package regionfile

import (
	"slices"
	"strings"
	"testing"
)

// Limits come from LabelMe's flags and COCO's attributes; what is something else there stays that.
func TestForeignLimits(t *testing.T) {
	shape := func(flags string) string {
		return `{"shapes":[{"label":"U7","group_id":1,"points":[[0,0],[9,0],[9,9]],"flags":` + flags + `},
			{"label":"U7","group_id":1,"points":[[2,0],[3,0],[3,1]],"flags":{"max < 9":true,"min > 1":true}}]}`
	}
	annotation := func(attributes string) string {
		return `{"annotations":[{"id":1,"segmentation":[[0,0,9,0,9,9]],"attributes":` + attributes + `}]}`
	}
	feature := func(properties string) string {
		return `{"type":"Feature","properties":` + properties + `,"geometry":{"type":"GeometryCollection","geometries":[` +
			`{"type":"Polygon","coordinates":[[[0,0],[9,0],[9,9],[0,0]]]},` +
			`{"type":"Polygon","coordinates":[[[20,0],[29,0],[29,9],[20,0]]]}]}}`
	}
	for _, c := range []struct {
		name, file string
		want       []string
		err        string
	}{
		{"flags", shape(`{"mean in [90, 140]":true,"max < 9":true,"min > 0":false,"occluded":true}`),
			[]string{"mean in [90, 140]", "max < 9", "min > 1"}, ""},
		{"no flags", shape(`null`), []string{"max < 9", "min > 1"}, ""},
		{"flags that are none", shape(`[]`), nil, "flags"},
		{"attributes", annotation(`{"occluded":false,"limits":" mean in [90, 140]; p99 < 200;"}`),
			[]string{"mean in [90, 140]", "p99 < 200"}, ""},
		{"a list", annotation(`{"limits":["mean < 3"]}`), []string{"mean < 3"}, ""},
		{"none", annotation(`{"limits":null}`), nil, ""},
		{"no attributes", annotation(`null`), nil, ""},
		{"no limits", annotation(`{"limits":7}`), nil, "attributes: limits"},
		{"twice", annotation(`{"limits":"a","limits":"b"}`), nil, `the key "limits" occurs twice`},
		{"pairs", annotation(`[{"name":"limits","value":"mean < 3"}]`), nil,
			"attributes: expected an object, as it names limits"},
		{"something else", annotation(`["occluded"]`), nil, ""},
		{"a flag that is not set so", shape(`{"mean < 3":"true"}`), nil,
			`flags: the flag "mean < 3": expected true or false`},
		{"a flag as a list", shape(`{"limits":["mean < 3"]}`), nil, `each limit is a flag of its own`},
		{"an unusual sign", shape(`{"mean ≤ 3":true}`), []string{"mean ≤ 3", "max < 9", "min > 1"}, ""},
		{"a flag in words", shape(`{"mean below 20":true}`), nil, `flags: the flag "mean below 20" begins with the quantity mean ` +
			`and is no limit: want a comparison, such as "mean < 90"`},
		{"a channel in words", shape(`{"r.p99 under 3":true}`), nil, `the flag "r.p99 under 3" begins with the quantity r.p99`},
		{"pixels in words", shape(`{"Count of pixels below 40: few":true}`), nil, `begins with the quantity Count`},
		{"a colon", shape(`{"max: 200":true}`), nil, `begins with the quantity max and`},
		{"a channel and a space", shape(`{"red mean below 1":true}`), nil, `begins with the quantity red.mean`},
		{"a space, and no limit", shape(`{"red part":true,"a min":true}`), []string{"max < 9", "min > 1"}, ""},
		{"semicolons", annotation(`{"limits":";;"}`), nil, `attributes: limits: no limit in ";;"`},
		{"no limits at all", feature(`{"limits":[]}`), nil, ""},
		{"words that aren't set", shape(`{"mean below 20":false}`), []string{"max < 9", "min > 1"}, ""},
		{"other words", shape(`{"a mean scratch":true,"meant for U8":true,"red":true,"value":true,"":true}`),
			[]string{"max < 9", "min > 1"}, ""},
		{"properties", feature(`{"name":"a","limits":"mean < 3; max < 9"}`), []string{"mean < 3", "max < 9"}, ""},
		{"a list of properties", feature(`{"limits":["mean < 3"]}`), []string{"mean < 3"}, ""},
		{"no properties", feature(`null`), nil, ""},
		{"wrong properties", feature(`{"limits":{}}`), nil, "the feature: properties: limits: "},
	} {
		f, err := Parse("", []byte(c.file), Options{})
		switch {
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: %v", c.name, err)
		case c.err == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case err == nil && (!slices.Equal(f.Regions[0].Limits, c.want) || len(f.Warnings) != 0):
			t.Errorf("%s: %q, want %q; %q", c.name, f.Regions[0].Limits, c.want, f.Warnings)
		}
	}
}

// TestMisplacedLimits: limits where nobody reads them are an error in every format. A file that was read without them
// would give no verdict.
func TestMisplacedLimits(t *testing.T) {
	const limits = `"limits":["mean < 3"]`
	const polygon = `"type":"Polygon","coordinates":[[[0,0],[9,0],[9,9],[0,0]]]`
	const shape = `{"shapes":[{"label":"U7","points":[[0,0],[9,0],[9,9]]`
	const annotation = `{"annotations":[{"id":1,"image_id":1,"category_id":1,"segmentation":[[0,0,9,0,9,9]]`
	for _, c := range []struct{ file, where string }{
		{`{"regions":[{"name":"a","rings":` + triangle + `}],` + limits + `}`, ""},
		{`[{"name":"a","rings":` + triangle + `,"children":[{"name":"b","rings":` + triangle + `,` + limits + `}]}]`,
			`regions[0] "a": children: `},
		{`[{"name":"a","meta":{"x":[{` + limits + `}]},"rings":` + triangle + `}]`, `regions[0] "a": meta: `},
		{`{"regions":[{"name":"a","rings":` + triangle + `}],"groups":{"pads":{"limits" : []}}}`, `groups: `},
		{`[{"name":"a","rings":` + triangle + `,"requirements":["mean \u003c 3"]}]`, `regions[0] "a": requirements: "mean < 3": `},
		{`[{"name":"a","rings":` + triangle + `,"limit":"p99 < 200; mean < 3"}]`, `regions[0] "a": limit: "p99 < 200; mean < 3": `},
		{`[{"name":"a","rings":` + triangle + `,"mean":["> 7","< 90"]}]`, `regions[0] "a": mean: "> 7": `},
		{`[{"name":"a","rings":` + triangle + `,"x":{"y":[1,{"r.mean":"in [9, 90]"}]}}]`, `regions[0] "a": x: "in [9, 90]": `},
		{`{"regions":[{"name":"a","rings":` + triangle + `}],"rules":["\"a\".mean - \"b\".mean < 3"]}`, `rules: `},
		{`{"regions":[{"name":"a","rings":` + triangle + `}],"scale":{"mm_per_pixel":1,"tolerances":["area > 3 mm2"]}}`,
			`scale: tolerances: "area > 3 mm2": `},
		{`[{"name":"a","rings":` + triangle + `,"flags":{"mean < 3":true}}]`, `regions[0] "a": flags: "mean < 3": `},
		{shape + `,"description":"mean in [90, 140]"}]}`, `shapes[0] "U7": description: `},
		{shape + `}],"other":{"limits":["mean < 3"]}}`, `other: `},
		{shape + `,"attributes":{"spec":"mean < 3"}}]}`, `shapes[0] "U7": attributes: `},
		{annotation + `,"attributes":{"criteria":"mean < 3"}}]}`, `annotations[0] (id 1): attributes: criteria: `},
		{annotation + `,"rules":["mean < 3"]}]}`, `annotations[0] (id 1): rules: `},
		{`{"type":"Feature","properties":{"spec":"mean < 3"},"geometry":{` + polygon + `}}`, "the feature: properties: spec: "},
		{`<svg xmlns="http://www.w3.org/2000/svg"><rect data-rules="mean &lt; 3" width="9" height="9"/></svg>`,
			`line 1: <rect>: `},
		{shape + `,` + limits + `}]}`, `shapes[0] "U7": `},
		{shape + `}],` + limits + `}`, ""},
		{shape + `,"attributes":{` + limits + `}}]}`, `shapes[0] "U7": attributes: `},
		{shape + `}],"flags":{"mean < 3":true}}`, "flags: "},
		{annotation + `,` + limits + `}]}`, "annotations[0] (id 1): "},
		{annotation + `}],"images":[{"id":1,` + limits + `}]}`, "images[0]: "},
		{annotation + `}],"categories":[{"id":1,"name":"pad",` + limits + `}]}`, "categories[0]: "},
		{annotation + `}],` + limits + `}`, ""},
		{`{` + polygon + `,` + limits + `}`, ""},
		{`{"type":"Feature","geometry":{` + polygon + `},` + limits + `}`, ""},
		{`{"type":"Feature","geometry":{` + polygon + `,` + limits + `}}`, "the feature: "},
		{`{"type":"FeatureCollection","features":[{"type":"Feature","geometry":{` + polygon + `}}],` + limits + `}`, ""},
		{`{"type":"FeatureCollection","features":[{"type":"Feature",` + limits + `,"geometry":{` + polygon + `}}]}`,
			"features[0]: "},
		{`{"type":"GeometryCollection","geometries":[{` + polygon + `,` + limits + `}]}`, "geometries[0]: "},
		{`<svg xmlns="http://www.w3.org/2000/svg"><rect id="a" width="9" height="9" data-limits="mean &lt; 3"/></svg>`,
			`line 1: <rect id="a">: `},
		{`<svg xmlns="http://www.w3.org/2000/svg" limits="mean &lt; 3"><rect width="9" height="9"/></svg>`,
			"line 1: <svg>: "},
		// What is another format's, or read elsewhere.
		{`{"type":"FeatureCollection","properties":{"limits":"mean > 150"},"features":[{"type":"Feature","geometry":{` +
			polygon + `}}]}`, "properties: "},
		{`{"type":"FeatureCollection","description":"mean > 150","features":[]}`, `description: "mean > 150": `},
		{annotation + `}],"properties":{"limits":"mean > 150"}}`, "properties: "},
		{annotation + `}],"flags":{"mean > 150":true}}`, `flags: "mean > 150": `},
		{annotation + `}],"info":{"mean":"> 150"}}`, `info: "> 150": `},
		{annotation + `,"attributes":"mean > 150"}]}`, `annotations[0] (id 1): attributes: "mean > 150": `},
		{annotation + `,"attributes":{"mean > 150":true}}]}`, `annotations[0] (id 1): attributes: mean > 150: `},
		{annotation + `,"mean > 150":true}]}`, `annotations[0] (id 1): mean > 150: `},
		{shape + `}],"properties":{"limits":"mean > 150"}}`, "properties: "},
		{shape + `}],"flags":"mean > 150"}`, `flags: "mean > 150": `},
		{shape + `}],"flags":["mean > 150"]}`, `flags: "mean > 150": `},
		{shape + `,"attributes":{"mean > 150":true}}]}`, `shapes[0] "U7": attributes: `},
		{shape + `,"attributes":"mean > 150"}]}`, `shapes[0] "U7": attributes: `},
		{shape + `,"flags":{"mean":"> 150"}}]}`, `shapes[0] "U7": flags: mean: "> 150": `},
		{`{"description":"mean < 3","regions":[{"name":"a","rings":` + triangle + `}]}`, `description: "mean < 3": `},
		{`<svg xmlns="http://www.w3.org/2000/svg"><rect width="9" height="9"><title>mean &lt; 3</title></rect></svg>`,
			`line 1: <title>: "mean < 3": `},
		{`<svg xmlns="http://www.w3.org/2000/svg"><rect width="9" height="9"><desc>mean &lt; 3</desc></rect></svg>`,
			`line 1: <desc>: "mean < 3": `},
	} {
		_, err := Parse("", []byte(c.file), Options{})
		if err == nil || !strings.HasPrefix(err.Error(), c.where) ||
			!strings.Contains(err.Error(), "limits are not read here") {
			t.Errorf("%s:\n%v, want %q", c.file, err, c.where)
		}
	}
	// Notes and data may hold signs of comparison, and whole limits in a sentence or a name.
	for _, note := range []string{`"mean < 90 was too tight"`, `"version >= 3"`, `"a=b<c"`, `"see (7, 9]"`, `"` +
		strings.Repeat("<", 2*maxNote) + `"`, `["mean", "<", 90]`} {
		f, err := Parse("", []byte(`[{"name":"mean < 3","note":`+note+`,"rings":`+triangle+`}]`), Options{})
		if err != nil || len(f.Warnings) > 0 {
			t.Errorf("%s: %v, %v", note, f, err)
		}
	}
	// Other flags of an image are somebody else's.
	if f, err := Parse("", []byte(shape+`}],"flags":{"good":true,"mean < 3":false}}`), Options{}); err != nil ||
		len(f.Warnings) > 0 {
		t.Errorf("%v, %v", f, err)
	}
}
