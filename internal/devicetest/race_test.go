//go:build race

package devicetest

const raceDetector = true
