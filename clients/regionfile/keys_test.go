package regionfile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestStrangeKeys: a key that is almost one of the format's gives a warning that names both, whether it is in the first
// region or the last; keys that are nobody's are a matter of whoever wrote them.
func TestStrangeKeys(t *testing.T) {
	region := func(more string) string {
		return `{"name":"a` + more[:1] + `","rings":` + triangle + `,` + more[1:] + `}`
	}
	for _, c := range []struct {
		name, file string
		want       []string
	}{
		{"close", `[` + region(`1"limit":["mean below 3"]`) + `]`,
			[]string{`regions[0] "a1": the key "limit" is ignored; did you mean "limits"?`}},
		{"capitals", `[` + region(`1"Limits":["mean below 3"]`) + `]`,
			[]string{`regions[0] "a1": the key "Limits" is ignored; did you mean "limits"?`}},
		{"swapped", `[` + region(`1"x":0`) + `,` + region(`2"lmiits":[]`) + `,` + region(`3"lmiits":[],"fil":""`) + `]`,
			[]string{`regions[1] "a2" and 1 more: the key "lmiits" is ignored; did you mean "limits"?`,
				`regions[2] "a3": the key "fil" is ignored; did you mean "fill"?`}},
		{"beside the right one", `[` + region(`1"limits":[],"limit":["mean below 3"]`) + `]`,
			[]string{`regions[0] "a1": the key "limit" is ignored; did you mean "limits"?`}},
		{"recipe", `{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0,"regions":[` + region(`1"x":0`) +
			`],"reduction":["mean"],"limit":["mean below 3"],"rules":3}`,
			[]string{`recipe: the key "reduction" is ignored; did you mean "reductions"?`,
				`recipe: the key "limit" is ignored; limits are texts under "limits", such as ["max < 100"]`,
				`recipe: the key "rules" is ignored; limits are texts under "limits", such as ["max < 100"]`}},
		{"far", `[` + region(`1"colour":"red","id":7,"node":1,"title":"x","full":1`) + `]`,
			[]string{`regions[0] "a1": the key "full" is ignored; did you mean "fill"?`}},
		{"of the protocol", `[` + region(`1"fill_rule":"evenodd"`) + `,` + region(`2"holes":[]`) + `]`,
			[]string{`regions[0] "a1": the key "fill_rule" is ignored; did you mean "fill"?`,
				`regions[1] "a2": the key "holes" is ignored; did you mean "rings"?`}},
		{"of inspectors", `[` + region(`1"Requirements":{"mean":[90,140]}`) + `,` + region(`2"spec":"S-17"`) + `]`,
			[]string{`regions[0] "a1": the key "Requirements" is ignored; did you mean "limits"?`,
				`regions[1] "a2": the key "spec" is ignored; did you mean "limits"?`}},
		{"of programs", `[` + region(`1"max":{"<":100},"area":7`) + `,` + region(`2"max_value":1`) + `,` +
			region(`3"lower":1,"upper":2`) + `,` + region(`4"checks":[{"quantity":"max","op":"<","value":100}]`) + `]`,
			[]string{`regions[0] "a1": the key "max" is ignored; limits are texts under "limits", such as ["max < 100"]`,
				`regions[1] "a2": the key "max_value" is ignored; limits are texts under "limits", such as ["max < 100"]`,
				`regions[2] "a3": the key "lower" is ignored; limits are texts under "limits", such as ["max < 100"]`,
				`regions[2] "a3": the key "upper" is ignored; limits are texts under "limits", such as ["max < 100"]`,
				`regions[3] "a4": the key "checks" is ignored; did you mean "limits"?`}},
		{"nested", `[` + region(`1"children":[{"name":"b","rings":`+triangle+`}],"note":"\"limits\": \"rings\":"`) + `]`,
			[]string{`regions[0] "a1": the key "children" is ignored, and so are the regions in it`}},
		{"Latin 1", "[\n" + region("1\"note\":\"\xe4\"") + `]`,
			[]string{"line 2: the text is not UTF-8; what isn't becomes \uFFFD"}},
		{"COCO", `{"annotations":[{"id":1,"segmentation":[[0,0,9,0,9,9]],"attributes":{"Limits":"mean below 3","x":1}}]}`,
			[]string{`annotations[0] "region#1": attributes: the key "Limits" is ignored; did you mean "limits"?`}},
		{"GeoJSON", `{"type":"Feature","properties":{"name":"n","limit":"mean below 3"},
			"geometry":{"type":"Polygon","coordinates":[[[0,0],[9,0],[9,9],[0,0]]]}}`,
			[]string{`the feature "n": properties: the key "limit" is ignored; did you mean "limits"?`}},
	} {
		f, err := Parse("", []byte(c.file), Options{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if !slices.Equal(f.Warnings, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", c.name, f.Warnings, c.want)
		}
	}
}

// TestMisspelt: every key on which a verdict hangs is told from names and from others' keys.
func TestMisspelt(t *testing.T) {
	region := `{"name":"a","rings":` + triangle + `,"nam":"b","refrence":{},"colour":1}`
	f, err := Parse("", []byte(`{"descriptoin":"x","reductons":["mean"],"regions":[`+region+`],"scal":1}`), Options{})
	if want := []string{"reductions", "scale", "reference"}; err != nil || !slices.Equal(f.Misspelt, want) {
		t.Errorf("%q, %v; want %q", f.Misspelt, err, want)
	}
	if len(f.Warnings) != 5 {
		t.Errorf("%q", f.Warnings)
	}
}

// TestMisspeltOfOthers: every format has its misspelt keys found, and every one on which a verdict hangs is told.
func TestMisspeltOfOthers(t *testing.T) {
	coco := func(image, annotation string) string {
		return `{"images":[{"id":1,"file_name":"x.png"` + image + `}],"annotations":[{"id":7,"image_id":1,` + annotation + `}]}`
	}
	labelMe := func(file, shape string) string {
		return `{"version":"5","imageData":null,"flags":{},"shapes":[{"label":"a","points":[[1,1],[9,1],[9,9]],` +
			`"group_id":null,"description":""` + shape + `}]` + file + `}`
	}
	own := func(file, region string) string {
		return `{"regions":[{"name":"a","rings":` + triangle + region + `}]` + file + `}`
	}
	const box = `"bbox":[1,1,8,8]`
	const feature = `{"type":"Feature","properties":{"id":3},"geometry":{"type":"Polygon",` +
		`"coordinates":[[[0,0],[9,0],[9,9],[0,0]]]%s}%s}`
	svg := func(more string) string {
		return `<svg xmlns="http://www.w3.org/2000/svg"><rect width="9" height="9"/>` + more + `</svg>`
	}
	for _, c := range []struct{ file, warning, misspelt string }{
		{coco("", box+`,"area":3,"iscrowd":0`), "", ""},
		{coco("", box+`,"segmentaton":[]`), `annotations[0]: the key "segmentaton" is ignored; did you mean "segmentation"?`,
			"segmentation"},
		{coco("", box+`,"segmentations":[]`), "did you mean", "segmentation"},
		{coco("", box+`,"Segmentation":[]`), "did you mean", "segmentation"},
		{coco("", box+`,"polygon":[]`), "did you mean", "segmentation"},
		{coco("", box+`,"imageid":1`), `did you mean "image_id"?`, "image_id"},
		{coco("", box+`,"iscrwd":1`), `did you mean "iscrowd"?`, ""}, // nothing hangs on it
		{coco("", box+`,"uid":1,"i":2`), "", ""},
		{coco(`,"widht":9,"hieght":9`, box), `images[0]: the key "widht" is ignored`, "width height"},
		{labelMe("", ""), "", ""},
		{labelMe(`,"imageWidht":9`, ""), `the file: the key "imageWidht" is ignored; did you mean "imageWidth"?`, "imageWidth"},
		{labelMe(`,"image_width":9,"image_height":9`, ""), `did you mean "imageWidth"?`, "imageWidth imageHeight"},
		{labelMe("", `,"shape_typ":"circle"`), `shapes[0] "a": the key "shape_typ" is ignored`, "shape_type"},
		{fmt.Sprintf(feature, "", `,"propertis":{}`), `the feature: the key "propertis" is ignored`, "properties"},
		{fmt.Sprintf(feature, `,"coordinate":[]`, ``), `the feature "3": geometry: the key "coordinate"`, "coordinates"},
		{own("", `,"scale":{"mm_per_pixel":1}`),
			`regions[0] "a": the key "scale" is ignored; it belongs beside the regions`, "scale"},
		{own("", `,"reductions":["mean"],"frames":{},"drawn_on":{}`), "beside the regions", "reductions frames drawn_on"},
		{own(`,"shape":"circle(1, 2, 3)"`, ""), `recipe: the key "shape" is ignored; it belongs into a region`, "shape"},
		{own(`,"scale":{"mm_per_pixel":1,"unit":"um"}`, ""), `scale: the key "unit" is ignored; a scale is in millimetres`, "unit"},
		{own(`,"blobs":{},"texture":1,"stats":[],"units":"mm"`, ""), `did you mean "reductions"?`,
			"reductions reductions reductions scale"},
		// Keys about where the part lies, at other places than they are read.
		{labelMe(`,"locate":{},"fiducials":[],"max_residual":1,"pose":[]`, `,"locate":{},"fiducial":true`),
			`the file: the key "fiducials" is ignored; parts are found by the section "locate" of polyscan's own format`,
			"locate fiducials max_residual pose fiducial"},
		{labelMe("", `,"flags":{"locate":"yes","Fiducials":1,"pose":"left"}`),
			`shapes[0] "a": flags: the key "locate" is ignored; it is read in polyscan's own format alone`, "locate Fiducials"},
		{coco(`,"locate":{},"fiducials":[]`, box+`,"locate":{},"attributes":{"localize":1,"fiducial":"F1","pose":"left"}`),
			`annotations[0] "region#7": attributes: the key "fiducial" is ignored; parts are found by the section "locate"`,
			"locate fiducials localize fiducial"},
		{`{"locate":{},"max_distortion_percent":1,` + coco("", box)[1:], `the file: the key "locate" is ignored`,
			"locate max_distortion_percent"},
		{fmt.Sprintf(strings.Replace(feature, `{"id":3}`, `{"id":3,"locate":{},"fiducials":[]}`, 1), `,"locate":1`, `,"pose":[]`),
			`properties: the key "fiducials" is ignored; parts are found by the section "locate"`, "pose locate fiducials"},
		{`{"type":"FeatureCollection","locate":{},"fiducials":[],"properties":{"max_residual":1},"features":[` +
			fmt.Sprintf(feature, "", "") + `]}`, `the collection: the key "locate" is ignored`, "locate fiducials max_residual"},
		{own(`,"fiducials":[],"max_residual":1,"max_distortion_percent":1,"pose":[1,2],"location":{},`+
			`"localise":{},"fiducial":{},"marks":[],"locating":{},"alignment":1,"Locate":{}`, ""),
			`recipe: the key "fiducials" is ignored; parts are found by the section "locate" beside the regions`,
			"fiducials max_residual max_distortion_percent pose location localise fiducial marks locating alignment " +
				"locate"},
		{own("", `,"pose":[1,2],"fiducials":[],"locate":{}`), `regions[0] "a": the key "pose" is ignored; parts are found by`,
			"pose fiducials locate"},
		{own(`,"model":"X3","window":1,"note":"","type":""`, `,"location":"top left","marks":3,"notes":"","position":1`), "", ""},
		// Limits in the form of other programs, and numbers that are none.
		{coco("", box+`,"attributes":{"spec":{"mean":{"min":90,"max":140}}}`),
			`annotations[0] "region#7": attributes: the key "spec" is ignored; limits are texts under "limits"`, "limits"},
		{coco("", box+`,"attributes":{"limit":{"mean":{"min":90}}}`), `the key "limit" is ignored; did you mean "limits"?`,
			"limits"},
		{coco("", box+`,"tolerances":[{"quantity":"mean","lsl":90}]`), `annotations[0]: the key "tolerances"`, "limits"},
		{fmt.Sprintf(feature, `,"rules":[{"max":9}]`, ""), `geometry: the key "rules"`, "limits"},
		{`{"type":"Feature","properties":{"QC_Limits":{"p99":[0,9]},"grayLimits":[{"lower":1}],"mean":90,"stats":{"mean":3},` +
			`"tolerance":0.5,"check":{"by":"x"},"spec":["a"],"range":[1,2],"max":{"value":3}},"geometry":` +
			`{"type":"Polygon","coordinates":[[[0,0],[9,0],[9,9],[0,0]]]}}`, `the feature: properties: the key "QC_Limits"`,
			"limits limits limits limits limits"},
		{labelMe("", `,"flags":{"tolerance":{"mean":{"upper":9}}},"attributes":{"mean":3,"thresholds":{"min":{"gray":4}}}`),
			`shapes[0] "a": flags: the key "tolerance" is ignored; limits are`, "limits limits"},
		// Keys of polyscan's own format, which others don't have.
		{labelMe(`,"scale":{"mm_per_pixel":1},"flat_field":"x","reductions":["mean"],"frames":{},"fill":"evenodd"`, ""),
			`the file: the key "scale" is ignored; it is read in polyscan's own format alone`,
			"scale flat_field reductions frames fill"},
		{labelMe(`,"drawnOn":{"width":9,"height":9}`, `,"reference":{"region":"b"}`),
			`shapes[0] "a": the key "reference" is ignored`,
			"drawnOn reference"},
		{labelMe("", `,"flags":{"scale":true,"drawn_on":{"width":9}},"attributes":{"flat_field":"x","shape":"round","fill":"red"}`),
			`shapes[0] "a": flags: the key "drawn_on" is ignored; it is read in polyscan's`, "drawn_on flat_field"},
		{coco(`,"scale":1`, box+`,"drawn_on":{}`), `images[0]: the key "scale" is ignored; it is read in`, "scale drawn_on"},
		{coco("", box+`,"attributes":{"scale":0.05,"Reductions":"mean","occluded":false}`),
			`annotations[0] "region#7": attributes: the key "scale" is ignored; it is read`, "scale Reductions"},
		{labelMe(`,"annotations":[]`, ""), `the key "annotations" is ignored; a file has regions of one format`,
			"annotations"},
		{fmt.Sprintf(feature, `,"scale":1`, `,"frames":{}`), `the feature "3": geometry: the key "scale"`, "frames scale"},
		{`{"type":"FeatureCollection","properties":{"scale":2},"drawn_on":{},"features":[` + fmt.Sprintf(feature, "", "") +
			`]}`,
			`the collection: properties: the key "scale" is ignored`, "drawn_on scale"},
		{`{"type":"Feature","properties":{"flat-field":"x","fill":"#fff","Shape":"round","scale":null},"geometry":` +
			`{"type":"Polygon","coordinates":[[[0,0],[9,0],[9,9],[0,0]]]}}`, `the feature: properties: the key "flat-field"`,
			"flat-field scale"},
		{own(`,"flat":"x","size":[9,9],"image_size":1,"imageSize":2,"width":9,"imageHeight":9,"origin":[1,1]`, ""),
			`recipe: the key "flat" is ignored; did you mean "flat_field"?`,
			"flat_field drawn_on drawn_on drawn_on drawn_on drawn_on scale"},
		{own(`,"shapes":[],"DrawnOn":{}`, `,"drawnOn":{}`), `regions[0] "a": the key "drawnOn" is ignored; it belongs beside`,
			"shapes drawn_on drawnOn"},
		{svg(`<g flat_field="x" fill="red"/>`), `line 1: <g>: the key "flat_field" is ignored`, "flat_field"},
		{svg(`<rect widht="5" height="5"/>`), `line 1: <rect>: the key "widht" is ignored; did you mean "width"?`, "width"},
		{svg(`<rect Width="5" height="5"/>`), `did you mean "width"?`, "width"},
		{svg(`<polgon points="1 1 9 1 9 9"/>`), `did you mean "polygon"?`, "polygon"},
		{svg(`<path class="a" stroke-width="3" d="M0 0H9V9Z" clip-rule="evenodd" pathLength="3"/>`), "", ""},
	} {
		f, err := Parse("", []byte(c.file), Options{})
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
		} else if all := strings.Join(f.Warnings, "\n"); strings.Join(f.Misspelt, " ") != c.misspelt ||
			!strings.Contains(all, c.warning) || c.warning == "" && strings.Contains(all, "mean") {
			t.Errorf("%s: %q, %q; want %q and %q", c.file, f.Warnings, f.Misspelt, c.warning, c.misspelt)
		}
	}
	for _, file := range []string{labelMe(`,"imageWidth":9`, ""), coco(`,"width":9`, box), coco(`,"width":0,"height":9`, box)} {
		if _, err := Parse("", []byte(file), Options{}); err == nil || !strings.Contains(err.Error(), "width and height must both") {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestLimitsOfAnotherForm: what a limit is of another program is told in every format, and what somebody measured or
// noted isn't.
func TestLimitsOfAnotherForm(t *testing.T) {
	files := map[string]string{
		"region": `[{"name":"a","rings":` + triangle + `,%s}]`,
		"recipe": `{"regions":[{"name":"a","rings":` + triangle + `}],%s}`,
		"GeoJSON": `{"type":"Feature","properties":{%s},"geometry":` +
			`{"type":"Polygon","coordinates":[[[0,0],[9,0],[9,9],[0,0]]]}}`,
		"COCO": `{"images":[{"id":1,"file_name":"x.png","width":9,"height":9}],"annotations":[{"id":7,"image_id":1,` +
			`"segmentation":[[1,1,9,1,9,9]],"attributes":{%s}}]}`,
		"COCO beside": `{"images":[{"id":1,"file_name":"x.png","width":9,"height":9}],"annotations":[{"id":7,"image_id":1,` +
			`"segmentation":[[1,1,9,1,9,9]],%s}]}`,
		"LabelMe": `{"imageWidth":9,"imageHeight":9,"shapes":[{"label":"a","points":[[1,1],[9,1],[9,9]],"flags":{%s}}]}`,
		"LabelMe beside": `{"imageWidth":9,"imageHeight":9,"shapes":[{"label":"a","points":[[1,1],[9,1],[9,9]],` +
			`"flags":{},%s}]}`,
	}
	limits := []string{`"mean_min":80`, `"mean":{"min":80}`, `"mean":[80,120]`, `"mean":"80-120"`, `"lsl":80`,
		`"limit_low":80`, `"threshold":80`, `"tolerance":5`, `"minMean":90`, `"meanMin":"80"`, `"lowerLimit":3`,
		`"maxMean":90`, `"mean.max":90`, `"expected":{"mean":90}`, `"max_defects":3`, `"maxDefects":"3"`,
		`"note":"mean below 90"`, `"note":"p99 80-120"`, `"meanLSL":80`}
	notes := []string{`"min_zoom":3`, `"xMax":3`, `"checked":true`, `"place":"area 3"`, `"model":"X3"`, `"value":3`}
	for name, file := range files {
		for _, key := range limits {
			f, err := Parse("", fmt.Appendf(nil, file, key), Options{})
			// Flags that begin with a quantity are an error, and so are notes that are limits.
			if err == nil && (!slices.Equal(f.Misspelt, []string{"limits"}) || len(f.Warnings) != 1) ||
				err != nil && !(strings.HasPrefix(name, "LabelMe") && strings.Contains(err.Error(), "begins with the quantity")) {
				t.Errorf("%s: %s: %v, %+v", name, key, err, f)
			}
		}
		for _, key := range notes {
			if f, err := Parse("", fmt.Appendf(nil, file, key), Options{}); err != nil || len(f.Misspelt) > 0 {
				t.Errorf("%s: %s: %v, %+v", name, key, err, f)
			}
		}
	}
	for _, name := range []string{"GeoJSON", "COCO"} { // what somebody measured
		f, err := Parse("", fmt.Appendf(nil, files[name], `"mean":90,"min":"3.5","max":200,"count":12,"mode":"manual"`), Options{})
		if err != nil || len(f.Misspelt) > 0 {
			t.Errorf("%s: %v, %+v", name, err, f)
		}
		f, err = Parse("", fmt.Appendf(nil, files[name], `"limits":" "`), Options{})
		if err != nil || len(f.Misspelt) > 0 || len(f.Warnings) != 1 || !strings.Contains(f.Warnings[0], "its text is empty") {
			t.Errorf("%s: %v, %+v", name, err, f)
		}
	}
	described := fmt.Appendf(nil, files["LabelMe beside"], `"description":"Mean between 80 and 120"`)
	if f, err := Parse("", described, Options{}); err != nil || !slices.Equal(f.Misspelt, []string{"limits"}) {
		t.Errorf("a description: %v, %+v", err, f)
	}
	for key, near := range map[string]string{`"hole":[[1,1]]`: "rings", `"polygons":[[[1,1]]]`: "rings", `"exclude":"b"`: "shape",
		`"subtract":["b"]`: "shape", `"invert":true`: "shape", `"transform":"rotate(3)"`: "shape", `"offset":[1,2]`: "shape",
		`"position":{"x":3}`: "shape", `"rotation":90`: "shape", `"unit":"mm"`: "scale", `"golden":"g.png"`: "frames",
		`"invert":false`: "", `"rotation":0`: "", `"position":"left"`: ""} {
		for _, name := range []string{"region", "recipe"} {
			f, err := Parse("", fmt.Appendf(nil, files[name], key), Options{})
			if err != nil || strings.Join(f.Misspelt, " ") != near {
				t.Errorf("%s: %s: %v, %+v", name, key, err, f)
			}
		}
	}
}

// TestUnlikeDrawn: what an SVG draws at another place or of another shape than is read is told apart from warnings.
func TestUnlikeDrawn(t *testing.T) {
	for _, c := range []struct{ inside, want string }{
		{``, ""},
		{`<style>#z{transform:translate(9px)}</style>`, "line 1: <style>"},
		{`<style>path { fill-rule: evenodd }</style>`, "line 1: <style>"},
		{`<style>path{clip-path:url(#c)}</style>`, "line 1: <style>"},
		{`<style>path{fill:red}</style>`, ""},
		{`<style>@import url("a.css");</style>`, "line 1: <style>"},
		{`<circle clip-path="url(#c)" r="3"/>`, "line 1: <circle>"},
		{`<circle mask="url(#c)" r="3"/>`, "line 1: <circle>"},
		{`<circle mask="none" r="3"/>`, ""},
		{`<use id="u" href="#a"/>`, `line 1: <use id="u">`},
	} {
		f, err := Parse("", []byte(`<svg xmlns="http://www.w3.org/2000/svg"><rect width="9" height="9"/>`+c.inside+`</svg>`), Options{})
		if err != nil || strings.Join(f.Lost, ", ") != c.want || len(f.Warnings) != len(f.Lost) {
			t.Errorf("%s: %v, %+v; want %q", c.inside, err, f, c.want)
		}
	}
	const linked = `<?xml-stylesheet href="a.css"?><svg xmlns="http://www.w3.org/2000/svg"><rect width="9" height="9"/></svg>`
	if f, err := Parse("", []byte(linked), Options{}); err != nil || len(f.Lost) != 1 {
		t.Errorf("%v, %+v", err, f)
	}
}

// TestImageOfOne: the image that somebody asked for is not looked for in silence where a file holds one image.
func TestImageOfOne(t *testing.T) {
	labelMe := `{"shapes":[{"label":"U7","points":[[0,0],[9,0],[9,9]]}],"imagePath":"..\\line\\board.png"}`
	own := `[{"name":"a","rings":` + triangle + `}]`
	const refusal = `f: the image "plank.png" is not in it: this is a file%s, and only COCO files hold the regions of ` +
		`several images`
	for _, c := range []struct{ file, image, of string }{
		{labelMe, "plank.png", ` of "..\\line\\board.png" in the format LabelMe`},
		{labelMe, "board.png", ""},
		{labelMe, "", ""},
		{own, "plank.png", " in the format polyscan regions"},
	} {
		_, err := Parse("f", []byte(c.file), Options{Image: c.image})
		if c.of == "" && err != nil || c.of != "" && (err == nil || err.Error() != fmt.Sprintf(refusal, c.of)) {
			t.Errorf("%s with image %q: %v", c.file, c.image, err)
		}
	}
}

// TestLost: what is skipped although it has limits is told, in every format that has such things, with a warning.
func TestLost(t *testing.T) {
	const polygon = `{"label":"b","points":[[1,1],[9,1],[9,9]],"flags":{"mean > 1":true}}`
	const points = `"points":[[1,1],[5,5]],"flags":{"mean < 50":true}`
	const feature = `{"type":"FeatureCollection","features":[{"type":"Feature","properties":{"name":"a",` +
		`"limits":"mean < 50"},"geometry":%s},{"type":"Feature","properties":{"limits":"mean > 1"},"geometry":` +
		`{"type":"Polygon","coordinates":[[[1,1],[9,1],[9,9],[1,1]]]}}]}`
	for _, c := range []struct{ text, want string }{
		{`{"shapes":[{"label":"a","shape_type":"line",` + points + `},` + polygon + `]}`, `shapes[0] "a"`},
		{`{"shapes":[` + polygon + `,{"label":"a","shape_type":"point",` + points + `}]}`, `shapes[1] "a"`},
		{`{"shapes":[{"label":"a","shape_type":"polygn",` + points + `},` + polygon + `]}`, `shapes[0] "a"`},
		{`{"shapes":[{"label":"a","shape_type":"line","points":[],"flags":{"mean < 50":false}},` + polygon + `]}`, ""},
		{fmt.Sprintf(feature, `null`), `features[0] "a"`},
		{fmt.Sprintf(feature, `{"type":"LineString","coordinates":[[1,1],[5,5]]}`), `features[0] "a"`},
		{fmt.Sprintf(feature, `{"type":"Polygon","coordinates":[]}`), `features[0] "a"`},
		{fmt.Sprintf(feature, `{"type":"GeometryCollection","geometries":[]}`), `features[0] "a"`},
		{fmt.Sprintf(feature, `{"type":"GeometryCollection","geometries":[{"type":"Point","coordinates":[1,1]},`+
			`{"type":"Polygon","coordinates":[[[1,1],[9,1],[9,9],[1,1]]]}]}`), ""}, // the polygon has them
		{annotations(`{"id":17,"segmentation":{"size":[2,2],"counts":[4]},"attributes":{"limits":"mean < 50"}},{` +
			somePolygon + `}`), `annotations[0] "region#17"`},
		{`{"images":[{"id":1,"file_name":"x.png"}],"annotations":[{"id":17,"image_id":9,"attributes":{"limits":"mean < 50"},` +
			somePolygon + `},{"image_id":1,` + somePolygon + `}]}`, `annotations[0] "region#17"`},
		{`{"images":[{"id":1,"file_name":"x.png"}],"annotations":[{"id":17,"image_id":9,` + somePolygon +
			`},{"image_id":1,` + somePolygon + `}]}`, ""},
	} {
		f, err := Parse("", []byte(c.text), Options{ImageHint: "x.png"})
		if err != nil || strings.Join(f.Lost, ", ") != c.want || len(f.Warnings) != 1 {
			t.Errorf("%s: %v, %+v; want %q", c.text, err, f, c.want)
		}
	}
}
