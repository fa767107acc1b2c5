// Paths: from the fields that packages polygon, lowpoly and diffusion name to those of requests.

package wire

import (
	"errors"
	"slices"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/server/internal/apierr"
)

// Paths says where the parts of a call are in its request message.
type Paths struct {
	Root       string // the message with width, height, mode and method, with a dot behind it; or ""
	Set        string // the RegionSet, such as "inspection.region_set"
	Reductions string // such as "inspection.reductions"
	Frame      string // the Frame, such as "frame"
	Pose       string // the Pose, such as "inspection.pose"

	// Stored is the recipe that the regions come from, such as "board@3", and ref its field. Violations of what is
	// stored are put on ref, because the request has no other field for them.
	Stored, Ref string
	// StoredReductions says that the reductions come from the recipe, too.
	StoredReductions bool
	// StoredFlat says that the flat field does.
	StoredFlat bool
}

// FieldError turns an *InvalidError into a *FieldError and leaves other errors alone. field says what a violation is in
// terms of the request.
func FieldError(err error, field func(kernels.Violation) (path, value, reason string)) error {
	var invalid *kernels.InvalidError
	if !errors.As(err, &invalid) {
		return err
	}
	return apierr.Fields(invalid, field)
}

// Root is the outermost field of a violation, and empty for one of the call as a whole.
func Root(v kernels.Violation) any {
	if len(v.Path) == 0 {
		return ""
	}
	return v.Path[0]
}

// SameField is for requests whose fields have the names of the violations.
func SameField(v kernels.Violation) (path, value, reason string) {
	return v.Path.String(), v.Value, v.Reason
}

// Translate is [FieldError] for errors of package polygon.
func (p Paths) Translate(err error) error { return FieldError(err, p.Violation) }

// Violation is the path, the value and the reason of a violation, as the request has them.
func (p Paths) Violation(v kernels.Violation) (path, value, reason string) {
	path, inRecipe := p.Root+v.Path.String(), false
	switch Root(v) {
	case "regions", "scale", "locate":
		path, inRecipe = kernels.Path{p.Set}.Join(FlatPath(v.Path)...).String(), p.Stored != ""
	case "reductions":
		path, inRecipe = kernels.Path{p.Reductions}.Join(v.Path[1:]...).String(), p.StoredReductions
	case "flat_field":
		inRecipe = p.StoredFlat
	case "pose":
		path = kernels.Path{p.Pose}.Join(v.Path[1:]...).String()
	case "frame":
		path = FramePath(p.Frame, v.Path[1:])
	}
	if inRecipe {
		return p.Ref, p.Stored, v.String()
	}
	return path, v.Value, v.Reason
}

// FramePath is where the field of a picture is in the Frame or FrameLayout at root.
func FramePath(root string, field kernels.Path) string {
	at := kernels.Path{root}
	if len(field) > 0 {
		switch field[0] {
		case "width", "height", "stride":
			at = at.Join("layout")
		case "format":
			at, field = at.Join("layout"), kernels.Path{"pixel_format"}
		}
	}
	return at.Join(field...).String()
}

// FlatPath replaces {"vertices", 5, "x"} and {"points", 5, "x"} by {"xy", 10}, because the protocol has coordinates in
// one list, and for the same reason {"mask", 5} by {"mask", "runs", 15}.
func FlatPath(p kernels.Path) kernels.Path {
	if i := slices.Index(p, any("mask")); i >= 0 && i+1 < len(p) {
		run, _ := p[i+1].(int)
		return p[:i].Join("mask", "runs", 3*run)
	}
	i := slices.IndexFunc(p, func(e any) bool { return e == "vertices" || e == "points" })
	if i < 0 {
		return p
	}
	flat := p[:i].Join("xy")
	if i+2 < len(p) {
		vertex, _ := p[i+1].(int)
		k := 2 * vertex
		if p[i+2] == "y" {
			k++
		}
		flat = append(flat, k)
	}
	return flat
}
