// What is wrong with the input of a call.

package polygon

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/polyscan/polyscan/kernels"
)

type path = kernels.Path

// newInvalid collects what is wrong with the input of a call of this package.
func newInvalid() *kernels.InvalidError { return &kernels.InvalidError{Domain: "polygon"} }

// invalid returns an error with one violation.
func invalid(path path, value any, format string, args ...any) error {
	return kernels.Invalid("polygon", path, value, format, args...)
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
