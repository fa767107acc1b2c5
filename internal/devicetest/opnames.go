// The ops that there are, by the source of package driver: what nobody has listed can't be forgotten.

package devicetest

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
)

var operandsMethod = regexp.MustCompile(`(?m)^func \(\w+ \*(\w+)\) Operands\(`)

// OpNames returns the names of all ops of package driver, in alphabetical order.
func OpNames(t T) []string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	files, err := filepath.Glob(filepath.Join(filepath.Dir(here), "../../kernels/driver/*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no source of package driver: %v", err)
	}
	var names []string
	for _, f := range files {
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatalf("%v", err)
		}
		for _, m := range operandsMethod.FindAllSubmatch(src, -1) {
			names = append(names, string(m[1]))
		}
	}
	slices.Sort(names)
	return names
}
