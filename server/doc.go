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
// The package prints nothing; what it has to say goes to Config.Logger.
//
// # Rooms
//
// This package holds what is of the whole server: settings, what every call goes through (interceptors.go), HTTP,
// health, and what becomes of a lost device (deviceloss.go). Each service of the protocol is answered by a room under
// server/internal:
//
//	inspect       InspectionService: reductions, rasterised regions, streams of frames; prepared regions
//	scan          LineScanService: sessions of line-scan cameras
//	residents     FrameService: frames that stay on the device
//	recipes       RecipeService: named and versioned recipes, in memory and in a directory
//	mesh          LowPolyService: pictures and videos as triangles, triangulations, Voronoi diagrams
//	diffuse       DiffusionService: drawings, canvases, filled holes, backgrounds
//	sharedmemory  SharedMemoryService: memory that clients on the same host lease
//
// Rooms don't know each other or this package. What several of them need is at the bottom:
//
//	apierr       errors that clients get, and the one table of their codes
//	budget       host memory that calls share
//	device       leases of the device, which may be lost and opened again
//	observe      what the server counts
//	wire         the codec, handlers that don't copy frames, the schemas' rules, conversion that services share
//	frames       the frames of requests: raw, in shared memory, resident, or files to be decoded
//	framestream  streams of frames that are answered in order
//
// A room declares the interface of what it needs of the server; host.go has all of it. A test of the repository keeps
// these rules.
//
// # The way of a Reduce
//
// The registrar (interceptors.go) admits the call by its token, before its request is read. wire.Codec leaves the
// frame's pixels in the transport's pooled buffers, and refuses messages whose structs would take too much memory. The
// interceptors count, log, turn errors into statuses by apierr's table, and check the schemas' rules. inspect resolves
// the regions, of the request or of a recipe, and takes a lease of the device. frames.Reader finds the pixels, or takes
// host memory of the budget for both the decoded file and the answer, in one go, and decodes. The reduction itself is
// package polygon's, with regions that are prepared where they come again; the pixels are freed as soon as they are on
// the device. The result goes out as a wire.Response: the codec marshals it, gives its memory back, and stops the
// clock.
//
// # The way of a strip
//
// A call of ScanLines has a goroutine that receives, one that sends, and a session, which outlives the call, with a
// worker of its own. Receiving checks a strip and puts it into the session's order, a type without I/O, locks or time:
// it knows what is in turn, what waits for a missing strip, what was lost, and how many lines are under way. The worker
// takes strips out in order and hands them to polygon.Scanner on the device; a part is done the moment its last line is
// in. Results, events and acknowledgements go through the session's outbox, which is bounded and from which a client
// resumes. Nothing on the way waits for the client.
//
// # Seams
//
// Whatever is to hold for all calls has one place: admission is the registrar's and the interceptors'; host memory is
// taken from package budget, and most of it by frames.Reader; goroutines that outlive their handler run through
// host.Go; results reach the transport through wire.Codec, as wire.Response.
//
// # Memory
//
// Frames stay in the transport's pooled buffers until they are on the device, and are freed then. Memory of the device
// is budgeted by package kernels. Host memory that image files and masks take is budgeted here: a file's header says
// what decoding would take, and what exceeds the limit is refused before it is decoded.
package server
