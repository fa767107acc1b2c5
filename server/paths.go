// Paths: from the fields that package polygon names to those of requests.

package server

import (
	"errors"
	"strconv"
	"strings"

	"github.com/polyscan/polyscan/polygon"
)

// paths says where the parts of a call are in its request message.
type paths struct {
	root       string // the message with width, height, mode and method, with a dot behind it; or ""
	set        string // the RegionSet, such as "inspection.region_set"
	reductions string // such as "inspection.reductions"
	frame      string // the Frame, such as "frame"

	// stored is the recipe that the regions come from, such as "board@3", and ref its field. Violations of what is
	// stored are put on ref, because the request has no other field for them.
	stored, ref string
	// storedReductions says that the reductions come from the recipe, too.
	storedReductions bool
}

// translate turns an *InvalidError into a *fieldError and leaves other errors alone.
func (p paths) translate(err error) error {
	var invalid *polygon.InvalidError
	if !errors.As(err, &invalid) {
		return err
	}
	e := &fieldError{more: invalid.More}
	for _, v := range invalid.Violations {
		e.violations = append(e.violations, p.violation(v))
	}
	return e
}

func (p paths) violation(v polygon.Violation) violation {
	head := v.Path
	if i := strings.IndexAny(head, ".["); i >= 0 {
		head = head[:i]
	}
	rest := v.Path[len(head):]
	switch head {
	case "regions":
		if p.stored != "" {
			return p.inRecipe(v)
		}
		return violation{p.set + ".regions" + vertexPath(rest), v.Value, v.Reason}
	case "reductions":
		if p.storedReductions {
			return p.inRecipe(v)
		}
		return violation{p.reductions + rest, v.Value, v.Reason}
	case "frame":
		return violation{p.frame + framePath(rest), v.Value, v.Reason}
	}
	return violation{p.root + v.Path, v.Value, v.Reason}
}

func (p paths) inRecipe(v polygon.Violation) violation {
	text := v.Path
	if v.Value != "" {
		text += " = " + v.Value
	}
	return violation{p.ref, p.stored, text + ": " + v.Reason}
}

// framePath maps the fields of polygon.Frame to those of Frame and FrameLayout.
func framePath(rest string) string {
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
