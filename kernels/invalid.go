package kernels

import (
	"fmt"
	"slices"
	"strings"
)

// Path leads to a field of the input of a call. A string is the name of a field, and anything else says which element
// of the field before it: Path{"regions", 3, "rings", 0, "vertices", 5, "x"}.
type Path []any

// String writes the path as "regions[3].rings[0].vertices[5].x".
func (p Path) String() string {
	var b strings.Builder
	for i, e := range p {
		switch name, ok := e.(string); {
		case !ok:
			fmt.Fprintf(&b, "[%v]", e)
		case i > 0:
			b.WriteString("." + name)
		default:
			b.WriteString(name)
		}
	}
	return b.String()
}

// Join returns the path of a field below p. It shares no memory with p.
func (p Path) Join(below ...any) Path { return slices.Concat(p, below) }

// Violation is one thing wrong with the input of a call.
type Violation struct {
	Path Path
	// Value is what was found there, cut to a readable length; empty where nothing was.
	Value string
	// Reason says what it should have been, with the limit. It reads on from the value: "must be finite".
	Reason string
}

// String is one line: path, value and reason.
func (v Violation) String() string {
	if v.Value == "" {
		return v.Path.String() + ": " + v.Reason
	}
	return v.Path.String() + " = " + v.Value + ": " + v.Reason
}

// InvalidError lists what was wrong with the input of a call. Nothing was computed.
type InvalidError struct {
	// Domain is the package that refused it, such as "polygon".
	Domain string
	// Violations in the order of the input, at most [MaxViolations].
	Violations []Violation
	// More counts the violations beyond those listed.
	More int
}

// MaxViolations is how many violations an [InvalidError] lists: a message with a line for each of a million bad
// vertices helps nobody.
const MaxViolations = 32

// Invalid returns an error with one violation. The reason is formatted.
func Invalid(domain string, path Path, value any, format string, args ...any) *InvalidError {
	e := &InvalidError{Domain: domain}
	e.Add(path, value, format, args...)
	return e
}

// Error is one line: the first violation and how many more there are.
func (e *InvalidError) Error() string {
	if len(e.Violations) == 0 {
		return e.Domain + ": invalid input"
	}
	s := e.Domain + ": " + e.Violations[0].String()
	if n := len(e.Violations) - 1 + e.More; n > 0 {
		s += fmt.Sprintf(" (and %d more)", n)
	}
	return s
}

// Add adds a violation: it lists it, or where enough are listed counts it only. The reason is formatted.
func (e *InvalidError) Add(path Path, value any, format string, args ...any) {
	if len(e.Violations) == MaxViolations {
		e.More++
		return
	}
	e.Violations = append(e.Violations, Violation{path, fmt.Sprint(value), fmt.Sprintf(format, args...)})
}

// Include adds the violations of another check, an [*InvalidError] or nil.
func (e *InvalidError) Include(err error) {
	if other, ok := err.(*InvalidError); ok {
		n := min(len(other.Violations), MaxViolations-len(e.Violations))
		e.Violations = append(e.Violations, other.Violations[:n]...)
		e.More += len(other.Violations) - n + other.More
	}
}

// Err returns e, or nil where nothing is wrong.
func (e *InvalidError) Err() error {
	if len(e.Violations) == 0 {
		return nil
	}
	return e
}
