// Package opcua serves stations over OPC UA as the vision systems of OPC 40100-1 (Machine Vision).
//
// Encoding and algorithms are github.com/gopcua/opcua's (packages ua and uapolicy). The server is this package's own:
// that module's server has neither method calls nor events, checks no certificate, renews no security token, and can be
// filled up by a client that does not finish its messages; its decoder allocates what a length field says. So the
// layers here are, from the wire up:
//
//	transport.go     connections, hello, chunks
//	channel.go       secure channels: policies, tokens, sequence numbers
//	guard.go         what a message may hold, before it is decoded
//	security.go      certificates, trust, users
//	server.go        the services' dispatch, discovery, sessions
//	space.go         nodes, from the table nodes.json and from code
//	view.go          browse; attribute.go: read and write; method.go: call
//	subscription.go  subscriptions, monitored items, filters of events
//	vision.go        a station as a VisionSystem
//
// # What a client can take
//
// Every count that a client can drive up has a bound, limits.go: connections, sessions, subscriptions, monitored items,
// waiting notifications, waiting publish requests, continuation points, the size of messages, and the time that each of
// them may take. A connection that is beyond is refused, and one without a session makes room for a newer one, so that
// half-open connections keep no PLC out. A client that does not read is cut off after writeTimeout; what it would have
// read is dropped with its connection, and never delays a station.
package opcua
