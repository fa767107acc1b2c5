package cli

import (
	"testing"

	"github.com/polyscan/polyscan/clients"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// TestRefusedKeys: what the server refuses is told by the keys of the regions file, and not by the protocol's fields.
func TestRefusedKeys(t *testing.T) {
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
	} {
		e := &clients.Error{Message: c.field + c.says, Violations: []clients.FieldViolation{
			{Field: c.field, Description: c.says}}}
		if text := Refused(e, c.source, []*polyscanv1.Region{{Name: "pad"}}); text != c.want {
			t.Errorf("%s, want %s", text, c.want)
		}
	}
}
