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
		{`[]`, "locate"}, {`{}`, `"fiducials" must hold at least 1`}, {`{"fiducials":[],"fiducial":1}`, `unknown field "fiducial"`},
		{`{"fiducials":[{"at":[1,2]}]}`, `fiducials[0]: one of the keys "window"`},
		{`{"fiducials":[{"window":"circle(1,2,3)","rings":[],"at":[1,2]}]}`, `fiducials[0]: one of the keys "window"`},
		{`{"fiducials":[{"window":"circle(1,2,3)","at":[1,2,3]}]}`, `fiducials[0]: the key "at" must be a place`},
		{`{"fiducials":[{"window":"circle(1,2,3)","at":[4194304,2]}]}`, `its magnitude below 4194304 px`},
		{`{"fiducials":[{"rings":[[[1,2],[3]]],"at":[1,2]}]}`, "rings[0][1]"},
		{`{"fiducials":[{"window":"circle(1,2,3)","at":[1,2],"min_area":-1}]}`, "min_area"},
		{`{"fiducials":[{"window":"` + strings.Repeat("x", maxLocate) + `","at":[1,2]}]}`, "the limit is 1048576"},
	} {
		if _, err := Parse("", []byte(file(c.locate)), Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.80s: %v, want %q", c.locate, err, c.want)
		}
	}
}
