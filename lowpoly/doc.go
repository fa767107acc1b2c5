// Package lowpoly makes triangles of points.
//
// It checks its input, declares what the work takes to the device's memory manager, and leaves computing to the ops of
// package kernels. Results are exact and the same on every backend.
package lowpoly
