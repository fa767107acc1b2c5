// Package server is the polyscan gRPC server: it takes frames and polygons and hands back exact numbers and verdicts.
//
//	s, err := server.New(server.Config{})
//	...
//	go s.Serve(listener)
//	...
//	err = s.Shutdown(ctx)
//
// [New] opens a device, [Server.Serve] answers calls on a listener (there may be several), [Server.Handler] is the HTTP
// side with metrics and readiness, and [Server.Shutdown] finishes what is in flight. The zero [Config] works.
//
// The package translates between the protocol and package polygon, and does what every call needs around that: field
// validation, limits, authentication, canonical errors with details, metrics, logs, recipes. It prints nothing; what it
// has to say goes to Config.Logger.
//
// # Memory
//
// Frames stay in the transport's pooled buffers until they are on the device, and are freed then. Memory of the device
// is budgeted by package kernels. Host memory that image files and masks take is budgeted here: a file's header says
// what decoding would take, and what exceeds the limit is refused before it is decoded.
package server
