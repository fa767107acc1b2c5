package opcua

import "time"

// What one client, and all of them, can take. Together they bound memory at about 150 MB: 64 connections with a message
// of 1 MiB each, and 32 sessions with 2048 notifications of half a kilobyte, twice, for those that may be asked for
// again.
const (
	maxConnections = 64
	maxSessions    = 32

	maxSubscriptions = 8    // of a session
	maxItems         = 512  // of a session
	maxQueued        = 2048 // notifications that wait in a session's items
	maxItemQueue     = 256  // of one monitored item
	maxRetained      = 16   // messages of a subscription that can be asked for again
	maxPublish       = 32   // publish requests that wait in a session
	maxContinuations = 8    // of browsing, of a session

	maxChunk    = 65536
	maxHello    = 4096 + 32
	maxMessage  = 1 << 20
	maxChunks   = 64
	maxResponse = 4 << 20
	maxArray    = 10000 // elements of an array in a message
	maxDepth    = 12    // structures, variants and extension objects inside one another
	maxNodes    = 1000  // operations of one request

	helloTimeout   = 10 * time.Second // from accepting a connection to an open channel
	sessionTimeout = 30 * time.Second // from accepting a connection to a session on it
	messageTimeout = 10 * time.Second // from the first byte of a message to its last
	writeTimeout   = 5 * time.Second

	minLifetime = 10 * time.Second // of security tokens
	maxLifetime = time.Hour
	minTimeout  = 2 * time.Second // of sessions
	maxTimeout  = time.Hour

	minPublishing  = 10 * time.Millisecond
	maxPublishing  = time.Minute
	maxKeepAlive   = 1000
	maxLifetimes   = 30000
	statusInterval = time.Second // of the server's status and its clock
)
