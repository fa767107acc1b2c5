package wire

import (
	"errors"
	"testing"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/server/internal/apierr"
)

// Fields of the domains become fields of a request, whatever their paths are made of.
func TestTranslate(t *testing.T) {
	p := Paths{Root: "call.", Set: "call.set", Reductions: "call.reductions", Frame: "frame"}
	for _, c := range []struct {
		path kernels.Path
		want string
	}{
		{kernels.Path{"regions", 3, "rings", 0, "vertices", 5, "y"}, "call.set.regions[3].rings[0].xy[11]"},
		{kernels.Path{"regions", 3, "rings", 0, "vertices"}, "call.set.regions[3].rings[0].xy"},
		{kernels.Path{"regions", 0, "rings", 0, "vertices", "last", "x"}, "call.set.regions[0].rings[0].xy[0]"},
		{kernels.Path{"regions", 3, "mask", 5}, "call.set.regions[3].mask.runs[15]"},
		{kernels.Path{"regions", 3, "mask"}, "call.set.regions[3].mask"},
		{kernels.Path{"reductions", "percentiles", 2}, "call.reductions.percentiles[2]"},
		{kernels.Path{"frame", "format"}, "frame.layout.pixel_format"},
		{kernels.Path{"frame"}, "frame"},
		{kernels.Path{"method"}, "call.method"},
		{nil, "call."},
	} {
		var got *apierr.FieldError
		err := p.Translate(kernels.Invalid("polygon", c.path, 7, "must be less"))
		if !errors.As(err, &got) || got.Violations[0].Path != c.want {
			t.Errorf("%v: %v, want %s", c.path, err, c.want)
		}
	}
}
