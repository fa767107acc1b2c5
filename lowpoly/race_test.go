//go:build race

package lowpoly_test

const raceEnabled = true
