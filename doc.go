// Package polyscan is the root of a gRPC server for industrial inspection. It
// holds no code; what to import lies below:
//
//	clients          dial a server, send frames, stream
//	polygon          regions and masked reductions
//	lowpoly          pictures of triangles, triangulations, Voronoi diagrams
//	diffusion        images from constraints
//	kernels          device, queue, buffers, memory, deadlines
//	kernels/driver   what a backend implements
//	kernels/cpu      the backend that every build has
//	kernels/cuda     the CUDA backend, under the build tag cuda
//	server           the service itself, for embedding it
//	proto            the wire protocol
//
// The commands are clients/polyscan and server/cmd/polyscand. Which of these
// may import which is fixed by the rules in layout_test.go.
package polyscan
