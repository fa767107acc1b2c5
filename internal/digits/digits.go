// Package digits reads the numbers that people write in settings, flags and files, in one way wherever they stand. YAML
// reads 010 as 8, Go's sources 1_0 as 10 and 0x1p3 as 8, and Python's +1 as 1: who wrote one of these may have meant
// another number, so that none of them is one here.
package digits

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
)

var (
	whole = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	float = regexp.MustCompile(`^-?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?$`)
)

// Whole reports whether a text is a whole number in plain digits: decimal ones, with no sign but - and no zeros before
// them.
func Whole(text string) bool { return whole.MatchString(text) }

// Float reads a number in plain digits, which may have a point and an exponent. It is never NaN, nor infinite.
func Float(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(v, 0) || !float.MatchString(text) {
		return 0, fmt.Errorf("%q is no number in plain digits", text)
	}
	return v, nil
}
