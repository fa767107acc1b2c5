// Package shorttest makes -short the default for the tests of every package that imports it for its side effect, so
// that "go test ./..." is quick enough to be run all day. "go test -short=false ./..." runs every case; CI does both.
package shorttest

import (
	"os"
	"slices"
	"strings"
)

func init() { os.Args = withDefault(os.Args) }

// withDefault returns the arguments of a test binary with -test.short added, unless they say something about it.
func withDefault(args []string) []string {
	said := func(arg string) bool { return strings.HasPrefix(strings.TrimLeft(arg, "-"), "test.short") }
	if slices.ContainsFunc(args, said) {
		return args
	}
	return slices.Insert(slices.Clone(args), 1, "-test.short=true")
}
