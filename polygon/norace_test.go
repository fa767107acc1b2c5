//go:build !race

package polygon

const raceEnabled = false
