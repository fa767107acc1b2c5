//go:build race

package polygon

const raceEnabled = true
