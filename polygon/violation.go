// What was wrong with the input, field by field.

package polygon

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Violation is one thing wrong with the input.
type Violation struct {
	// Path of the field, such as "regions[3].rings[0].vertices[5].x", "frame.stride" or "reductions.percentiles[2]".
	Path string
	// Value is what was found there, cut to a readable length.
	Value string
	// Reason says what it should have been, with the limit. It reads on from the value: "must be finite".
	Reason string
}

// String is one line: path, value and reason.
func (v Violation) String() string {
	if v.Value == "" {
		return v.Path + ": " + v.Reason
	}
	return v.Path + " = " + v.Value + ": " + v.Reason
}

// InvalidError lists what was wrong with the input of a call. Nothing was computed.
type InvalidError struct {
	// Violations in the order of the input, at most 32.
	Violations []Violation
	// More counts the violations beyond those listed.
	More int
}

// Error is one line: the first violation and how many more there are.
func (e *InvalidError) Error() string {
	if len(e.Violations) == 0 {
		return "polygon: invalid input"
	}
	s := "polygon: " + e.Violations[0].String()
	if n := len(e.Violations) - 1 + e.More; n > 0 {
		s += fmt.Sprintf(" (and %d more)", n)
	}
	return s
}

// maxViolations is how many violations are listed; a message with a line for each of a million bad vertices helps
// nobody.
const maxViolations = 32

// violations collects them.
type violations struct {
	list []Violation
	more int
}

// full says that only the count matters from now on, so that callers can spare themselves the formatting.
func (v *violations) full() bool {
	if len(v.list) < maxViolations {
		return false
	}
	v.more++
	return true
}

func (v *violations) add(path, value, format string, args ...any) {
	if !v.full() {
		v.list = append(v.list, Violation{path, value, fmt.Sprintf(format, args...)})
	}
}

func (v *violations) err() error {
	if len(v.list) == 0 {
		return nil
	}
	return &InvalidError{v.list, v.more}
}

// number writes a float as briefly as it reads back.
func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// quoted quotes text that came from outside, cut to 64 bytes.
func quoted(s string) string {
	const most = 64
	if len(s) <= most {
		return strconv.Quote(s)
	}
	cut := s[:most]
	for len(cut) > most-utf8.UTFMax && !utf8.ValidString(cut) {
		cut = cut[:len(cut)-1]
	}
	return strings.TrimSuffix(strconv.Quote(cut), `"`) + `…"`
}
