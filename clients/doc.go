// Package clients is the Go client of polyscan: it dials a server, sends frames and polygons, and hands back exact
// numbers and verdicts.
//
//	c, err := clients.Dial("localhost:7465")
//	...
//	chip := clients.Polygon("U7", 100, 100, 180, 100, 180, 160)
//	res, err := c.Reduce(ctx, clients.UseRegions(chip), clients.Encoded(file))
//
// It is a thin layer over the generated stubs of package polyscanv1, whose messages it takes and returns: [Client] adds
// dial options that fit large frames, a codec that sends pixels without copying them, streams with a bounded number of
// frames in flight, line-scan sessions that outlive their connections, canvases that are solved as they change, and
// [Error], which says in fields what a status says in details.
//
// # Ownership of pixels
//
// The bytes of a frame are sent from where they are. They must not change while a call that was given them is running.
// Once [Client.Reduce] has returned without an error, or the stream has answered the frame, they are the caller's
// again. After an error the transport may go on reading them for a moment: don't write to them, let the garbage
// collector have them.
//
// A [Client] may be used from several goroutines.
package clients
