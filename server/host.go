// What the rooms see of the server.

package server

import (
	"context"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/auth"
	"github.com/polyscan/polyscan/server/internal/device"
	"github.com/polyscan/polyscan/server/internal/diffuse"
)

// host is the server as its rooms have it. Each room declares an interface with those of the methods that it needs.
type host struct{ s *Server }

// Acquire returns a lease of the device.
func (h host) Acquire() (device.Lease, error) { return h.s.dev.Acquire() }

// WaitForDevice returns a lease of the device once there is one.
func (h host) WaitForDevice(ctx context.Context) (device.Lease, error) { return h.s.dev.Wait(ctx) }

// Backend is the name of what computes.
func (h host) Backend() string { return h.s.dev.Info().Backend }

// Validate checks a message by the rules in the schemas, a large one at a place of the pool of host work.
func (h host) Validate(ctx context.Context, m any) error { return h.s.validate(ctx, m) }

// Go runs f in a goroutine that the server waits for when it ends.
func (h host) Go(f func()) { h.s.background.Go(f) }

// Draining is closed when the server shuts down.
func (h host) Draining() <-chan struct{} { return h.s.draining }

// Panicked makes an error of a panic, and keeps what is known of it.
func (h host) Panicked(ctx context.Context, p any) error { return h.s.panicked(ctx, p) }

// Status is what a client gets for an error.
func (h host) Status(ctx context.Context, err error) *status.Status {
	return apierr.StatusOf(ctx, h.s.log, err)
}

// HistoryState is how the history keeps up; nil where there is none.
func (h host) HistoryState() *pb.HistoryState { return h.s.history.State() }

// DeviceState is what the device is now.
func (h host) DeviceState() *pb.DeviceState {
	i := h.s.dev.Info()
	return &pb.DeviceState{Available: h.s.dev.Available(), Backend: i.Backend, DeviceName: i.Device,
		Losses: h.s.dev.Regained()}
}

// Forget lets go of what was prepared of a set that is used no more.
func (h host) Forget(set *polygon.Set) { h.s.inspector.Forget(set) }

// Place makes room on the device for a picture that is to be kept there for the caller of ctx.
func (h host) Place(ctx context.Context, dev *kernels.Device, f kernels.Picture, id string, idle *durationpb.Duration,
	field string) (diffuse.KeptPicture, error) {
	u, err := h.s.residents.Place(auth.FromContext(ctx), dev, f, id, idle, field)
	if err != nil {
		return nil, err
	}
	return u, nil
}
