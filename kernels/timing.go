package kernels

import "time"

// Timing says where a result was computed, and how long that took.
type Timing struct {
	// Backend that computed it, such as "cpu" or "cuda".
	Backend string
	// Queue is how long the call waited for memory and a stream of the device, and Compute how long the work took from
	// there, copying included.
	Queue, Compute time.Duration
}
