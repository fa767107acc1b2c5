// What rooms need of the server.

package wire

import (
	"context"

	"github.com/polyscan/polyscan/server/internal/device"
)

// StreamHost is what rooms with streams need of the server.
type StreamHost interface {
	// Validate checks a message by the rules in the schemas, a large one at a place of the pool of host work.
	Validate(ctx context.Context, m any) error
	// Go runs f in a goroutine that the server waits for when it ends.
	Go(f func())
	// Draining is closed when the server shuts down.
	Draining() <-chan struct{}
	// Panicked makes an error of a panic.
	Panicked(ctx context.Context, p any) error
}

// Host is what rooms with streams that compute need of the server.
type Host interface {
	StreamHost
	// Acquire returns a lease of the device.
	Acquire() (device.Lease, error)
}
