// The ops that there are, by the source of package driver: what nobody has listed can't be forgotten.

package devicetest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// Repository returns the root of the repository: it looks for go.mod from the working directory upwards, so that it is
// found by a compiled test, too, which runs in a copy of the repository on another machine.
func Repository(t interface {
	Helper()
	Fatalf(format string, args ...any)
}) string {
	t.Helper()
	root, err := repository()
	if err != nil {
		t.Fatalf("%v", err)
	}
	return root
}

func repository() (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := here; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod in %s or above", here)
		}
	}
}

var operandsMethod = regexp.MustCompile(`(?m)^func \(\w+ \*(\w+)\) operands\(`)

// OpNames returns the names of all ops of package driver, in alphabetical order.
func OpNames(t T) []string {
	t.Helper()
	folder := filepath.Join(Repository(t), "kernels", "driver")
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no source of package driver: %v", folder, err)
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

// EveryOp fails unless a backend's table, keyed by the names of ops, has each op of package driver and no other.
func EveryOp[V any](t T, table map[string]V) {
	t.Helper()
	have := slices.Sorted(maps.Keys(table))
	if names := OpNames(t); !slices.Equal(have, names) {
		t.Errorf("the table has %v, package driver %v", have, names)
	}
}
