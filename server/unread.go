// Streams whose clients don't read what the server has for them.

package server

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"

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
	timed := &timedStream{ServerStream: stream, ctx: ctx, held: s.held(ctx), limit: limit, blocked: time.NewTimer(limit)}
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
	held    func(func()) func()
	limit   time.Duration
	blocked *time.Timer
}

// Context implements grpc.ServerStream.
func (s *timedStream) Context() context.Context { return s.ctx }

func (s *timedStream) SendMsg(m any) error {
	if r, ok := m.(*wire.Response); ok {
		r.Held = s.held
	}
	s.blocked.Reset(s.limit)
	defer s.blocked.Stop()
	return s.ServerStream.SendMsg(m)
}

// held watches over the answers of a call that wait for its client, which keep their share of the budget meanwhile.
func (s *Server) held(ctx context.Context) func(end func()) (forgotten func()) {
	return func(end func()) func() { return intake.Await(ctx, s.cfg.StreamIdleTimeout, end) }
}
