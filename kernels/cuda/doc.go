// Package cuda is the backend for NVIDIA GPUs, of compute capability 6.1 and later. Its driver exists in builds with
// the tag cuda only, and nothing but server/drivers may import it, because the binding that it stands on ends the
// process on a machine without a GPU. Without the tag there is only what host and device agree on (layout.go,
// prepared.go), so that every build checks it.
//
// [Driver] opens devices. A device has a CUDA context of its own, so that one that was lost can be closed and opened
// again. A stream is a CUDA stream and a worker, a goroutine on an OS thread of its own. Ops enqueue copies and kernels
// on the goroutine that calls them, or on the worker where they keep the host busy, and Wait waits for the GPU. Copies
// go through page-locked memory that belongs to the stream, unless the host memory is page-locked itself
// (RegisterHost). Nothing is allocated on the device or page-locked by an op, but what CUDA itself has for a graph:
// cycles that a solver repeats become one, so that each is one launch (cyclegraph.go). Streams tell how long the GPU
// takes (driver.Timer).
//
// All results are integers and do not depend on how the work was spread over the GPU.
//
// Kernels are in kernels/cu; what they compute, move and cost is said there. The fatbins made from them
// (kernels/cu/build.sh) are committed and embedded: building needs cgo, the CUDA headers (11.4 to 12) and a libcuda,
// running needs NVIDIA's driver, and neither needs nvcc.
package cuda
