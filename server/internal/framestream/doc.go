// Package framestream runs streams of frames that are answered in order: it receives, bounds what is held, computes the
// answers side by side and sends them. What is done with a frame is a room's, by [Method].
package framestream
