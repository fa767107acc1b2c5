// Paths: from the fields that package polygon names to those of requests.

package wire

import (
	"errors"
	"strconv"
	"strings"

	"github.com/polyscan/polyscan/polygon"
	"github.com/polyscan/polyscan/server/internal/apierr"
)

// Paths says where the parts of a call are in its request message.
type Paths struct {
	Root       string // the message with width, height, mode and method, with a dot behind it; or ""
	Set        string // the RegionSet, such as "inspection.region_set"
	Reductions string // such as "inspection.reductions"
	Frame      string // the Frame, such as "frame"

	// Stored is the recipe that the regions come from, such as "board@3", and ref its field. Violations of what is
	// stored are put on ref, because the request has no other field for them.
	Stored, Ref string
	// StoredReductions says that the reductions come from the recipe, too.
	StoredReductions bool
}

// Translate turns an *InvalidError into a *FieldError and leaves other errors alone.
func (p Paths) Translate(err error) error {
	var invalid *polygon.InvalidError
	if !errors.As(err, &invalid) {
		return err
	}
	e := &apierr.FieldError{More: invalid.More}
	for _, v := range invalid.Violations {
		e.Add(p.violation(v))
	}
	return e
}

// violation is the path, the value and the reason of a violation, as the request has them.
func (p Paths) violation(v polygon.Violation) (path, value, reason string) {
	head := v.Path
	if i := strings.IndexAny(head, ".["); i >= 0 {
		head = head[:i]
	}
	rest := v.Path[len(head):]
	switch head {
	case "regions":
		if p.Stored != "" {
			return p.inRecipe(v)
		}
		return p.Set + ".regions" + vertexPath(rest), v.Value, v.Reason
	case "reductions":
		if p.StoredReductions {
			return p.inRecipe(v)
		}
		return p.Reductions + rest, v.Value, v.Reason
	case "frame":
		return p.Frame + FramePath(rest), v.Value, v.Reason
	}
	return p.Root + v.Path, v.Value, v.Reason
}

func (p Paths) inRecipe(v polygon.Violation) (path, value, reason string) {
	text := v.Path
	if v.Value != "" {
		text += " = " + v.Value
	}
	return p.Ref, p.Stored, text + ": " + v.Reason
}

// FramePath maps the fields of polygon.Frame to those of Frame and FrameLayout.
func FramePath(rest string) string {
	switch rest {
	case ".width", ".height", ".stride":
		return ".layout" + rest
	case ".format":
		return ".layout.pixel_format"
	}
	return rest
}

// vertexPath maps "[3].rings[0].vertices[5].x" to "[3].rings[0].xy[10]", because the protocol has coordinates in one
// list.
func vertexPath(rest string) string {
	before, after, ok := strings.Cut(rest, ".vertices[")
	if !ok {
		return rest
	}
	digits, axis, ok := strings.Cut(after, "].")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil {
		return rest
	}
	n *= 2
	if axis == "y" {
		n++
	}
	return before + ".xy[" + strconv.Itoa(n) + "]"
}
