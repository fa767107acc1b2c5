// Package servertest holds what the tests of several rooms share.
package servertest

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/budget"
	"github.com/polyscan/polyscan/server/internal/device"
	"github.com/polyscan/polyscan/server/internal/frames"
	"github.com/polyscan/polyscan/server/internal/hostwork"
	"github.com/polyscan/polyscan/server/internal/observe"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// Host is the server as rooms see it, without one: a device, and what is at the bottom. It never drains.
type Host struct {
	*device.Keeper
	Metrics *observe.Metrics
	Memory  *budget.Budget
	Frames  *frames.Reader // of raw pixels in messages, and files

	validator *wire.Validator
	draining  chan struct{}
	running   sync.WaitGroup
	panics    int // guarded by mu
	mu        sync.Mutex
}

// NewHost opens a device of 256 MiB, until the test ends. Tests have ended all leases by then.
func NewHost(t testing.TB, d kernels.Driver) *Host {
	h := &Host{Metrics: observe.New(), Memory: budget.New(256 << 20), draining: make(chan struct{})}
	var err error
	if h.validator, err = wire.NewValidator(); err != nil {
		t.Fatal(err)
	}
	h.Keeper, err = device.Open(func() (*kernels.Device, error) {
		return kernels.Open(d, kernels.Config{MemoryBytes: 256 << 20})
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.running.Wait()
		if n := h.Leases(); n != 0 {
			t.Errorf("%d leases of the device are out", n)
		}
		if err := h.Keeper.Close(); err != nil {
			t.Error(err)
		}
	})
	h.Frames = &frames.Reader{MaxPixels: 1 << 24, MaxBytes: 256 << 20, Host: h.Memory, Metrics: h.Metrics,
		Work: hostwork.New(1)}
	return h
}

// Validate checks a message by the rules in the schemas.
func (h *Host) Validate(_ context.Context, m any) error { return h.validator.Validate(m) }

// Go runs f in a goroutine that [Host.Wait] waits for.
func (h *Host) Go(f func()) { h.running.Go(f) }

// Wait waits for all goroutines of the room.
func (h *Host) Wait() { h.running.Wait() }

// Backend is the name of what computes.
func (h *Host) Backend() string { return h.Info().Backend }

// Draining is never closed.
func (h *Host) Draining() <-chan struct{} { return h.draining }

// Panicked makes an error of a panic, and counts it.
func (h *Host) Panicked(_ context.Context, p any) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.panics++
	return fmt.Errorf("panic: %v", p)
}

// Panics is how many there were.
func (h *Host) Panics() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.panics
}

// Status is what a client gets for an error.
func (h *Host) Status(ctx context.Context, err error) *status.Status {
	return apierr.StatusOf(ctx, slog.New(slog.DiscardHandler), err)
}

// Stream is a stream whose client says what is in Say, and nothing after it: then it half-closes, or, where Quiet is
// set, waits until the context ends.
type Stream struct {
	grpc.ServerStream
	Ctx   context.Context
	Codec wire.Codec
	Say   []proto.Message
	Quiet bool

	mu  sync.Mutex
	out [][]byte
}

// Codec is the codec of a server.
func (h *Host) Codec() wire.Codec {
	return wire.NewCodec(h.Metrics, 1<<30, h.Frames.Work, nil, h.Panicked)
}

// Context implements grpc.ServerStream.
func (s *Stream) Context() context.Context { return s.Ctx }

// SetHeader implements grpc.ServerStream.
func (s *Stream) SetHeader(metadata.MD) error { return nil }

// SendHeader implements grpc.ServerStream.
func (s *Stream) SendHeader(metadata.MD) error { return nil }

// SetTrailer implements grpc.ServerStream.
func (s *Stream) SetTrailer(metadata.MD) {}

// RecvMsg implements grpc.ServerStream.
func (s *Stream) RecvMsg(v any) error {
	if len(s.Say) == 0 {
		if s.Quiet {
			<-s.Ctx.Done()
			return status.FromContextError(s.Ctx.Err()).Err()
		}
		return io.EOF
	}
	b, err := proto.Marshal(s.Say[0])
	if err != nil {
		return err
	}
	s.Say = s.Say[1:]
	return s.Codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, v)
}

// SendMsg implements grpc.ServerStream.
func (s *Stream) SendMsg(v any) error {
	b, err := s.Codec.Marshal(v)
	if err != nil {
		return err
	}
	defer b.Free()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = append(s.out, b.Materialize())
	return nil
}

// Sent is what the client got, as messages that newMessage makes.
func Sent[M proto.Message](t testing.TB, s *Stream, newMessage func() M) (all []M) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.out {
		m := newMessage()
		if err := proto.Unmarshal(b, m); err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}
