package regionfile

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestLocate(t *testing.T) {
	file := func(locate string) string {
		return `{"name": "b", "locate": ` + locate + `, "regions": [{"name": "a", "rings": [[[0, 0], [9, 0], [9, 9]]]}]}`
	}
	text := `{"model":"similarity","max_residual":0.5,"fiducials":[{"name":"F","window":"rect(1, 2, 30, 40)","at":[9.5,20],` +
		`"kind":"cross","dark":true,"threshold":90,"min_area":20,"max_area":99,"channel":"g"},` +
		`{"rings":[[[50,2],[80,2],[80,40]]],"at":[70,9]}]}`
	f, err := Parse("", []byte(file(text)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Locate.Fiducials) != 2 || f.Locate.Fiducials[0].Threshold != 90 || len(f.Warnings) != 0 {
		t.Errorf("%+v, %v", f.Locate, f.Warnings)
	}
	again, err := json.Marshal(f.Locate)
	if err != nil {
		t.Fatal(err)
	}
	if string(again) != text {
		t.Errorf("%s", again)
	}
	if g, err := Parse("", []byte(file(string(again))), Options{}); err != nil || !reflect.DeepEqual(f.Locate, g.Locate) {
		t.Errorf("%v, %v", g, err)
	}
	if f, err = Parse("", []byte(file("null")), Options{}); err != nil || f.Locate != nil {
		t.Errorf("null: %v, %v", f, err)
	}
	for _, c := range []struct{ locate, want string }{
		{`[]`, "locate"}, {`{}`, `"fiducials" must hold at least 1`},
		{`{"fiducials":[],"fiducial":1}`, `the key "fiducial" is not known here; did you mean "fiducials"?`},
		{`{"fiducials":[{"at":[1,2]}]}`, `fiducials[0]: one of the keys "window"`},
		{`{"fiducials":[{"window":"circle(1,2,3)","rings":[],"at":[1,2]}]}`,
			`fiducials[0]: the keys "window" and "rings" are both there`},
		{`{"fiducials":[{"window":"circle(1,2,3)","at":[1,2,3]}]}`, `fiducials[0]: at: 3 numbers, expected [x, y]`},
		{`{"fiducials":[{"window":"circle(1,2,3)","at":[4194304,2]}]}`, `its magnitude must be below 4194304 px`},
		{`{"fiducials":[{"rings":[[[1,2],[3]]],"at":[1,2]}]}`, "fiducials[0]: rings[0]: vertex 1: 1 number, expected [x, y]"},
		{`{"fiducials":[{"window":"circle(1,2,3)","at":[1,2],"min_area":-1}]}`, "min_area"},
		{`{"fiducials":[{"window":"` + strings.Repeat("x", maxLocate) + `","at":[1,2]}]}`, "the limit is 1048576"},
	} {
		if _, err := Parse("", []byte(file(c.locate)), Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.80s: %v, want %q", c.locate, err, c.want)
		}
	}
}

// TestLocateValues: a 0 that would mean the default, what is of another type, and keys that come twice or are nobody's
// are told with their places.
func TestLocateValues(t *testing.T) {
	const mark = `"name":"F","window":"circle(1,2,3)","at":[1,2]`
	inFile := func(locate string) string {
		return `{"locate": {` + locate + `}, "regions": [{"name": "a", "rings": [[[0, 0], [9, 0], [9, 9]]]}]}`
	}
	of := func(more string) string { return inFile(more + `"fiducials":[{` + mark + `}]`) }
	ofMark := func(more string) string {
		return inFile(`"fiducials":[{"window":"circle(1,2,3)","at":[1,2]},{` + mark + more + `}]`)
	}
	const at = `locate: fiducials[1] "F": `
	for _, c := range []struct{ file, want string }{
		{of(`"max_residual":0,`), "locate: max_residual: 0, it must be above 0; leave it out for the default, 1"},
		{of(`"max_residual":-1,`), "locate: max_residual: -1, it must be above 0; leave it out for the default, 1"},
		{of(`"max_residual":"1",`), "locate: max_residual: expected a number, found a string"},
		{of(`"max_distortion_percent":0.0,`),
			"locate: max_distortion_percent: 0, it must be above 0; leave it out for the default, 0.75"},
		{of(`"model":1,`), "locate: model: expected a string, found a number"},
		{of(`"max_residual":1,"max_residual":900,`), `locate: the key "max_residual" occurs twice`},
		{of(`"Max_residual":1,`), `locate: the key "Max_residual" is not known here; did you mean "max_residual"?`},
		{of(`"where":1,`), `locate: the key "where" is not known here; want one of model, max_residual, ` +
			`max_distortion_percent, fiducials`},
		{inFile(`"fiducials":[null]`), "locate: fiducials[0]: expected an object, found null"},
		{inFile(`"fiducials":[{"window":"circle(1,2,3)"}]`), `locate: fiducials[0]: the key "at" is missing`},
		{inFile(`"fiducials":[{"window":"","at":[1,2]}]`), "locate: fiducials[0]: window: it is empty"},
		{inFile(`"fiducials":[{"window":7,"at":[1,2]}]`), "locate: fiducials[0]: window: expected a string, found a number"},
		{inFile(`"fiducials":[{"window":"circle(1,2,3)","at":"1,2"}]`),
			"locate: fiducials[0]: at: expected [x, y], found a string"},
		{ofMark(`,"threshold":0`), at + "threshold: 0, it must be above 0; leave it out for that of the window's histogram"},
		{ofMark(`,"threshold":120.5`), at + "threshold: 120.5, it must be a whole number from 1 to 65535"},
		{ofMark(`,"threshold":-5`), at + "threshold: -5, it must be above 0"},
		{ofMark(`,"min_area":0`), at + "min_area: 0, it must be above 0; leave it out for the default, 16"},
		{ofMark(`,"max_area":0`), at + "max_area: 0, it must be above 0; leave it out for as many as there are"},
		{ofMark(`,"max_area":1e10`), at + "max_area: 1e+10, it must be a whole number from 1 to 536870912"},
		{ofMark(`,"dark":"yes"`), at + "dark: expected true or false, found a string"},
		{ofMark(`,"kind":3`), at + "kind: expected a string, found a number"},
		{ofMark(`,"treshold":9`), at + `the key "treshold" is not known here; did you mean "threshold"?`},
		{ofMark(`,"at":[8,9]`), at + `the key "at" occurs twice`},
		{inFile(`"fiducials":[{` + mark + `},{"window":"circle(1,2,3)","at":[1,2]},{` + mark + `}]`),
			`locate: fiducials[2] "F": name: "F", fiducials[0] has the same name`},
		{inFile(`"fiducials":[{"name":"2","window":"circle(1,2,3)","at":[1,2]},{"window":"circle(1,2,3)","at":[1,2]}]`),
			`locate: fiducials[1]: name: "2", fiducials[0] has the same name`},
		{ofMark(`,"limits":["mean > 1"]`), at + `the key "limits" is not known here`},
	} {
		if _, err := Parse("", []byte(c.file), Options{}); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s:\n got %v\nwant %s", c.file, err, c.want)
		}
	}
	f, err := Parse("", []byte(ofMark(`,"min_area":1e2,"max_area":null,"dark":null,"kind":null`)), Options{})
	if err != nil || f.Locate.Fiducials[1].MinArea != 100 {
		t.Errorf("%+v, %v", f, err)
	}
}
