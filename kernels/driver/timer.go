package driver

import (
	"context"
	"time"
)

// Timer is implemented by the streams of devices that have a clock of their own: it tells how long the device takes for
// ops, without the host's part in them, and runs what ops are compared with. Find it with a type assertion on a
// [Stream].
type Timer interface {
	Stream

	// TimeDevice returns repeats times, each the device's time for what enqueue puts on the stream, divided by copies.
	// It calls enqueue copies times, with 0 <= i < copies, which may vary the memory by i so that caches don't serve
	// it; the device then does all of that one behind the other, once to warm up and repeats times by its clock. With
	// several copies the device's pauses between two ops are counted and those between two repeats are not.
	//
	// Which ops can be timed is the backend's: on CUDA all but Download. The stream has drained when TimeDevice
	// returns. It returns an error of enqueue or of the ops, as Wait does.
	TimeDevice(ctx context.Context, copies, repeats int, enqueue func(i int) error) ([]time.Duration, error)

	// Copy copies src to dst within the device's memory. They are equally long and don't overlap.
	Copy(dst, src Slice) error

	// Launch has the device do nothing: what handing something to it costs.
	Launch() error
}
