//go:build race

package cpu

// The detector makes loops over bytes many times slower.
func init() { raceDetector = true }
