// Package cuda is the backend for NVIDIA GPUs. It exists in builds with the tag cuda only; without the tag the package is
// empty, and nothing but server/drivers may import it, because the binding that it stands on ends the process on a machine
// without a GPU.
package cuda
