// Streams whose clients don't read what the server has for them.

package server

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/intake"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// endUnread ends streams whose clients don't read. A handler can't return while what it sends waits for the client, so
// it runs in a goroutine of its own: what it sends fails once this one has returned, and then it gives back what it
// holds.
func (s *Server) endUnread(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	limit := s.cfg.StreamIdleTimeout
	ctx, forget := s.host.WithRequest(stream.Context())
	timed := &timedStream{ServerStream: stream, ctx: ctx, codec: s.codec, held: s.held(ctx), limit: limit,
		blocked: time.NewTimer(limit)}
	timed.blocked.Stop()
	done := make(chan error, 1)
	s.background.Go(func() {
		defer forget()
		done <- next(srv, timed)
	})
	select {
	case err := <-done:
		return err
	case <-timed.blocked.C:
	}
	s.metrics.StreamTimeouts.WithLabelValues("unread").Inc()
	return apierr.Quota(apierr.ReasonSlowConsumer, "answers", fmt.Sprintf("the client has read none for %v", limit))
}

// timedStream is a stream with a timer that runs while a message waits to be sent.
type timedStream struct {
	grpc.ServerStream
	ctx     context.Context
	codec   wire.Codec
	held    func(int64, func()) func()
	limit   time.Duration
	blocked *time.Timer
}

// Context implements grpc.ServerStream.
func (s *timedStream) Context() context.Context { return s.ctx }

func (s *timedStream) SendMsg(m any) error {
	m, err := s.codec.Ready(heldBy(s.ctx, m, s.held))
	if err != nil {
		return err
	}
	s.blocked.Reset(s.limit)
	defer s.blocked.Stop()
	return s.ServerStream.SendMsg(m)
}

// held watches over the answers of a call that wait for its client, which keep their share of the budget meanwhile.
func (s *Server) held(ctx context.Context) func(bytes int64, end func()) (forgotten func()) {
	return func(bytes int64, end func()) func() { return intake.Await(ctx, s.cfg.StreamIdleTimeout, bytes, end) }
}

// heldBy is an answer that held watches over; what is none of the schemas' messages, such as what line-scan sessions
// have encoded and count themselves, stays as it is.
func heldBy(ctx context.Context, m any, held func(int64, func()) func()) any {
	switch r := m.(type) {
	case *wire.Response:
		r.Held = held
	case proto.Message:
		return &wire.Response{Message: r, Held: held, Ctx: ctx, Size: int64(proto.Size(r))}
	}
	return m
}
