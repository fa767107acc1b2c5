package regionfile

import (
	"slices"
	"strings"
	"testing"
)

// Limits come from LabelMe's flags and COCO's attributes; what is something else there stays that.
func TestForeignLimits(t *testing.T) {
	shape := func(flags string) string {
		return `{"shapes":[{"label":"U7","group_id":1,"points":[[0,0],[1,0],[1,1]],"flags":` + flags + `},
			{"label":"U7","group_id":1,"points":[[2,0],[3,0],[3,1]],"flags":{"max < 9":true,"min > 1":true}}]}`
	}
	annotation := func(attributes string) string {
		return `{"annotations":[{"id":1,"segmentation":[[0,0,1,0,1,1]],"attributes":` + attributes + `}]}`
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
