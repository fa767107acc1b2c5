// Package race tells tests whether the race detector watches them: it makes loops over pixels many times slower, and
// finds nothing in code that starts no goroutine.
// Package race knows whether the race detector watches, for tests.
package race

import "testing"

// Skip ends a test that starts no goroutine of ours, and is slow, where the race detector watches it.
func Skip(t testing.TB) {
	t.Helper()
	if Enabled {
		t.Skip("the race detector has nothing to find here")
	}
}
