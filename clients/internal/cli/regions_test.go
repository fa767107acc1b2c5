package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/clients"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// TestRefusedKeys: what the server refuses is told by the keys of the regions file, and not by the protocol's fields.
func TestRefusedKeys(t *testing.T) {
	flags := map[string]string{"every_lines": "--every", "layout.width": "the width", "name": "--name"}
	for _, c := range []struct{ field, says, source, want string }{
		{"open.inspection.reductions.blobs.strong_upper", " = <= 60: leaves out no blob", "a.json",
			"a.json: reductions: blobs: strong <= 60: leaves out no blob"},
		{"open.inspection.reductions.blobs.lower", " = >= 300: takes no pixel", "a.json",
			"a.json: reductions: blobs >= 300: takes no pixel"},
		{"open.inspection.reductions.cooccurrence.levels", " = 1: must be 2 to 256", "a.json",
			"a.json: reductions: texture: levels 1: must be 2 to 256"},
		{"open.inspection.flat_field.sha256", ` = "00": is that of no field`, "a.json",
			`a.json: flat_field = "sha256:00": is that of no field`},
		{"open.inspection.region_set.regions[0].limits[1]", ` = "mean < 999": can't fail`, "a.json",
			`a.json: regions[0] "pad": limits[1] = "mean < 999": can't fail`},
		{"open.inspection.region_set.regions[0].limits[1]", ` = "mean < 999": can't fail`, "--limit",
			`--limit "mean < 999": can't fail`},
		{"open.inspection.region_set.scale.x", " = 1e+300: must be", "a.json", "a.json: scale.x = 1e+300: must be"},
		{"open.inspection.frames", ` = "golden": is no frame`, "a.json", `a.json: frames: "golden": is no frame`},
		{"open.inspection.frames", ` = "golden": is no frame`, "--limit", `--limit: frames: "golden": is no frame`},
		{"open.every_lines", " = 9: must be 8", "a.json", "--every 9: must be 8"},
		{"open.layout.width", " = 9: must be 8", "a.json", "the width = 9: must be 8"},
		{"open.inspection.name", ` = "?": must be letters`, "a.json", `--name "?": must be letters`},
	} {
		e := &clients.Error{Message: c.field + c.says, Violations: []clients.FieldViolation{
			{Field: c.field, Description: c.says}}}
		if text := (Session{c.source, []*polyscanv1.Region{{Name: "pad"}}, flags}).Refused(e); text != c.want {
			t.Errorf("%s, want %s", text, c.want)
		}
		// Of several the message says how many, and which the first one is.
		e.Message += " (and 1 more)"
		e.Violations = append(e.Violations, clients.FieldViolation{Field: "open.inspection.x", Description: "wrong"})
		if text := (Session{c.source, []*polyscanv1.Region{{Name: "pad"}}, flags}).Refused(e); text != c.want+" (and 1 more)" {
			t.Errorf("%s, want %s (and 1 more)", text, c.want)
		}
		e.Message = "the request is refused"
		why := c.says[strings.LastIndex(c.says, ": "):]
		if text := (Session{c.source, nil, flags}).Refused(e); strings.Contains(text, "open.") ||
			!strings.Contains(text, why) || !strings.HasSuffix(text, " (and 1 more)") {
			t.Errorf("%s of %s", text, c.field)
		}
	}
}

// TestLimitless: a region that lost its limits is told from those that others' limits, shapes or references speak of.
func TestLimitless(t *testing.T) {
	for _, c := range []struct{ regions, want string }{
		{`{"name":"b"}`, `region "b" has no limits, and others have: `},
		{`{"name":"b","limits":null},{"name":"c","limits":[]}`, `2 regions, such as "b", have no limits`},
		{`{"name":"b","limits":["min > 3"]}`, ""},
		{`{"name":"b"},{"name":"c","limits":["mean - \"b\".mean < 3"]}`, ""},
		{`{"name":"b 1"},{"name":"c","limits":["all of \"b*\".mean < 3"]}`, ""},
		{`{"name":"b 1"},{"name":"c","limits":["all of \"b*2\".mean < 3"]}`, `region "b 1"`},
		{`{"name":"b"},{"name":"c","limits":["ks < 0.3"],"reference":{"region":"b"}}`, ""},
	} {
		file := filepath.Join(t.TempDir(), "r.json")
		text := strings.ReplaceAll(`[{"name":"a","limits":["mean < 90"]},`+c.regions+`]`, `{"name"`,
			`{"rings":[[[0,0],[9,0],[9,9]]],"name"`)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		said := ""
		_, err := LoadInspection(file, false, func(text string) { said += text })
		if err != nil || (c.want == "") != (said == "") || !strings.Contains(said, c.want) {
			t.Errorf("%s: %q, %v, want %q", c.regions, said, err, c.want)
		}
		if _, err := LoadInspection(file, true, nil); (err != nil) != (c.want != "") {
			t.Errorf("%s: --strict: %v", c.regions, err)
		}
	}
}

// TestNotInPixels: limits of regions that can't be in pixels would be of other places, so that such a file is refused.
func TestNotInPixels(t *testing.T) {
	const crs = `,"crs":{"type":"name","properties":{"name":"EPSG:4326"}}`
	for _, c := range []struct{ crs, ring, want string }{
		{"", `[[0,0],[9,0],[9,9],[0,0]]`, ""},
		{crs, `[[0,0],[9,0],[9,9],[0,0]]`, `the reference system "EPSG:4326" (crs), and polyscan needs pixels`},
		{"", `[[0,0],[1,0],[1,0.5],[0,0]]`, "from 0 to 1, as shares of an image's sides are, and polyscan needs pixels"},
	} {
		file := filepath.Join(t.TempDir(), "r.geojson")
		text := `{"type":"Feature"` + c.crs + `,"properties":{"limits":"mean < 9"},"geometry":{"type":"Polygon","coordinates":[` +
			c.ring + `]}}`
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := LoadInspection(file, false, func(text string) { t.Errorf("%s is a warning and an error", text) })
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), file+": ") ||
			!strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %s: %v, want %q", c.crs, c.ring, err, c.want)
		}
	}
}
