// Package cpu is the backend that every build has: the ops of kernels/driver on the processor's own cores, in Go with
// assembly for amd64.
//
// [New] makes a driver. A stream is a goroutine that runs ops in order; an op splits its work over the device's
// worker threads. All results are integers and do not depend on the number of threads, the instruction set or the
// moment at which work was split.
//
// Each routine in assembly has a twin in Go of the same name with the suffix Go. The build tag purego, other
// architectures and processors without AVX2 use the twins; tests hold the two against each other.
package cpu
