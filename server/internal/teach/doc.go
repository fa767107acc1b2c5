// Package teach learns limits from frames of good parts, and tries recipes on frames: TeachService. It keeps nothing,
// and needs of each frame only the numbers that limits are about.
package teach
