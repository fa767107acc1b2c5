// What each call goes through, from the outside in: authentication (before the request is read), metrics, logs, errors
// to statuses, recovery from panics, validation.

package server

import (
	"context"
	"log/slog"
	"path"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"github.com/polyscan/polyscan/kernels"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/auth"
	"github.com/polyscan/polyscan/server/internal/wire"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
)

func (s *Server) unaryInterceptors() []grpc.UnaryServerInterceptor {
	return []grpc.UnaryServerInterceptor{
		s.metrics.GRPC.UnaryServerInterceptor(),
		func(ctx context.Context, req any, i *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			g := s.metrics.InFlight.WithLabelValues(i.FullMethod)
			g.Inc()
			defer g.Dec()
			return next(ctx, req)
		},
		logging.UnaryServerInterceptor(s.logCall(), loggingOptions...),
		func(ctx context.Context, req any, i *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if !shown(i.FullMethod) {
				return next(ctx, req)
			}
			start := time.Now()
			res, err := next(ctx, req)
			s.events.Called(auth.FromContext(ctx).Tenant, i.FullMethod, time.Since(start), err)
			return res, err
		},
		func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			res, err := next(ctx, req)
			if revoked := auth.Revoked(ctx); err != nil && revoked != nil {
				err = revoked
			}
			if err != nil {
				return nil, apierr.StatusOf(ctx, s.log, err).Err()
			}
			return res, nil
		},
		recovery.UnaryServerInterceptor(recovery.WithRecoveryHandlerContext(s.panicked)),
		func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if err := s.validate(ctx, req); err != nil {
				return nil, err
			}
			return next(ctx, req)
		},
	}
}

// shown says that those who look on see a unary call: one that computes, and of which there is no verdict.
func shown(method string) bool {
	service := path.Dir(method)[1:]
	return service == pb.LowPolyService_ServiceDesc.ServiceName || service == pb.DiffusionService_ServiceDesc.ServiceName ||
		method == pb.InspectionService_Rasterize_FullMethodName
}

// validate checks a request by the rules in the schemas, and makes runs of the images that its regions have for masks.
func (s *Server) validate(ctx context.Context, req any) error {
	if err := s.checkRules(ctx, req); err != nil {
		return err
	}
	return s.masks.Replace(ctx, req)
}

// checkRules checks a request by the rules in the schemas, at a place of the pool where it is not small.
func (s *Server) checkRules(ctx context.Context, req any) error {
	if class, _ := kernels.ClassOf(ctx); class == kernels.LineScan {
		return s.validator.Validate(req)
	}
	size := 0
	if m, ok := req.(proto.Message); ok {
		size = proto.Size(m)
	}
	return s.work.Do(ctx, size, wire.Burst, func(func() error) error { return s.validator.Validate(req) })
}

// streamInterceptors validate nothing: streams do that themselves, because not each bad message ends them.
func (s *Server) streamInterceptors() []grpc.StreamServerInterceptor {
	return []grpc.StreamServerInterceptor{
		s.admit,
		s.metrics.GRPC.StreamServerInterceptor(),
		func(srv any, stream grpc.ServerStream, i *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			g := s.metrics.InFlight.WithLabelValues(i.FullMethod)
			g.Inc()
			defer g.Dec()
			return next(srv, stream)
		},
		logging.StreamServerInterceptor(s.logCall(), loggingOptions...),
		func(srv any, stream grpc.ServerStream, i *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			ctx := stream.Context()
			err, _ := ctx.Value(refusedKey{}).(error)
			if err == nil {
				err = s.untilRevoked(ctx, func() error { return next(srv, stream) })
				err = s.intake.Translate(i.FullMethod, err)
			}
			if err != nil {
				return apierr.StatusOf(ctx, s.log, err).Err()
			}
			return nil
		},
		s.endUnread,
		// in the goroutine of the handler
		recovery.StreamServerInterceptor(recovery.WithRecoveryHandlerContext(s.panicked)),
	}
}

// authenticate finds out who makes a call, and refuses it where they may not. The context says who it is, and ends when
// that is taken back; done is for the end of the call.
func (s *Server) authenticate(ctx context.Context, method string) (_ context.Context, done func(), err error) {
	if s.tenants == nil {
		return forClient(auth.NewContext(ctx, auth.Anonymous)), func() {}, nil
	}
	ctx, done, err = s.tenants.Admit(ctx, method)
	return forClient(ctx), done, err
}

// forClient names the client of a call, by whom time is shared: its tenant, or else its connection. What is kept for
// next time is for calls of the same tenant.
func forClient(ctx context.Context) context.Context {
	name := auth.FromContext(ctx).Tenant
	ctx = kernels.WithOwner(ctx, name)
	if p, ok := peer.FromContext(ctx); ok && name == "" && p.Addr != nil {
		name = p.Addr.String()
	}
	return kernels.WithClient(ctx, name)
}

// refusedKey is where the context of a stream says why it was not admitted.
type refusedKey struct{}

// admit authenticates streams before all others look at them, so that logs say whose they are, and leaves it to those
// to end what is refused.
func (s *Server) admit(srv any, stream grpc.ServerStream, i *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	ctx, done, err := s.authenticate(stream.Context(), i.FullMethod)
	defer done()
	if err == nil && !countedOtherwise[i.FullMethod] {
		var release func()
		if release, err = auth.FromContext(ctx).Take(auth.Streams, 1); err == nil {
			defer release()
		}
	}
	if err != nil {
		ctx = context.WithValue(ctx, refusedKey{}, err)
	}
	return next(srv, admitted{stream, ctx})
}

// countedOtherwise are streams that don't count as such: their tenants have quotas of sessions and leases, and a camera
// that comes back must find room while the server still waits for its last connection.
var countedOtherwise = map[string]bool{
	pb.LineScanService_ScanLines_FullMethodName: true,
	pb.SharedMemoryService_Lease_FullMethodName: true,
}

// admitted is a stream with the context of its caller.
type admitted struct {
	grpc.ServerStream
	ctx context.Context
}

func (a admitted) Context() context.Context { return a.ctx }

// RecvMsg refuses a message that can't be read, which the library would take for a mistake of the server.
func (a admitted) RecvMsg(m any) error {
	if in, ok := m.(proto.Message); ok {
		return wire.ReceiveMessage(a, in)
	}
	return a.ServerStream.RecvMsg(m)
}

// untilRevoked runs the handler of a stream. It returns before that does when ctx says that the token was taken back:
// the stream ends then, and with it whatever the handler waits for.
func (s *Server) untilRevoked(ctx context.Context, handle func() error) error {
	if s.tenants == nil {
		return handle()
	}
	done := make(chan error, 1)
	s.background.Go(func() { done <- handle() })
	select {
	case err := <-done:
		if revoked := auth.Revoked(ctx); err != nil && revoked != nil {
			return revoked
		}
		return err
	case <-ctx.Done():
	}
	if revoked := auth.Revoked(ctx); revoked != nil {
		return revoked
	}
	return <-done
}

// registrar registers services whose unary calls are authenticated before their request is read, so that nobody without
// a token can make the server hold a frame. Interceptors would come too late: they run when the request is there.
type registrar struct {
	*grpc.Server
	s *Server
}

// RegisterService implements grpc.ServiceRegistrar.
func (r registrar) RegisterService(d *grpc.ServiceDesc, impl any) {
	c := *d
	c.Methods = slices.Clone(d.Methods)
	for i := range c.Methods {
		next := c.Methods[i].Handler
		method := "/" + c.ServiceName + "/" + c.Methods[i].MethodName
		c.Methods[i].Handler = func(srv any, ctx context.Context, dec func(any) error,
			interceptor grpc.UnaryServerInterceptor) (any, error) {
			ctx, done, err := r.s.authenticate(ctx, method)
			defer done()
			if err != nil {
				// Through the interceptors, so that it is counted and logged.
				info := &grpc.UnaryServerInfo{Server: srv, FullMethod: method}
				return interceptor(ctx, nil, info, func(context.Context, any) (any, error) { return nil, err })
			}
			ctx, forget := r.s.host.WithRequest(ctx)
			defer forget()
			// A request that is refused for what it would take in memory goes the same way.
			var refused error
			res, err := next(srv, ctx, func(v any) error {
				g := &wire.Guarded{V: v, Ctx: ctx}
				if err := dec(g); err != nil {
					if refused = r.s.intake.Translate(method, err); refused == err {
						refused = nil
					}
					return err
				}
				refused = g.Err
				return g.Err
			}, interceptor)
			if refused != nil {
				info := &grpc.UnaryServerInfo{Server: srv, FullMethod: method}
				return interceptor(ctx, nil, info, func(context.Context, any) (any, error) { return nil, refused })
			}
			if err != nil {
				return nil, err
			}
			return r.s.codec.Ready(heldBy(ctx, res, r.s.held(ctx)))
		}
	}
	r.Server.RegisterService(&c, impl)
}

// panicked turns a panic into an error, and keeps what is known of it.
func (s *Server) panicked(ctx context.Context, p any) error {
	s.metrics.Panics.Inc()
	return apierr.Internal(ctx, s.log, "panic", "panic", p, "stack", string(debug.Stack())).Err()
}

var loggingOptions = []logging.Option{
	logging.WithLogOnEvents(logging.FinishCall),
	logging.WithLevels(logLevel),
	logging.WithDisableLoggingFields(logging.ComponentFieldKey, logging.SystemTag[0]),
}

// logLevel keeps calls that went well, and what clients did wrong, out of logs that nobody would read otherwise.
func logLevel(c codes.Code) logging.Level {
	switch c {
	case codes.OK:
		return logging.LevelDebug
	case codes.Canceled, codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.Unauthenticated,
		codes.Aborted,
		codes.FailedPrecondition, codes.OutOfRange, codes.DeadlineExceeded, codes.Unimplemented:
		return logging.LevelInfo
	case codes.ResourceExhausted, codes.PermissionDenied, codes.Unavailable:
		return logging.LevelWarn
	}
	return logging.LevelError
}

// logCall logs calls, so many a second: what clients did wrong must not fill a disk. What is left out is counted, and
// the next line that is logged says so. Metrics have them all.
func (s *Server) logCall() logging.Logger {
	const rate, burst = 20, 200 // lines
	var mu sync.Mutex
	left, last, dropped := float64(burst), time.Now(), 0
	return logging.LoggerFunc(func(ctx context.Context, level logging.Level, msg string, fields ...any) {
		if !s.log.Enabled(ctx, slog.Level(level)) {
			return
		}
		mu.Lock()
		now := time.Now()
		left = min(burst, left+rate*now.Sub(last).Seconds())
		last = now
		if left < 1 {
			dropped++
			mu.Unlock()
			return
		}
		left--
		more := dropped
		dropped = 0
		mu.Unlock()
		if more > 0 {
			fields = append(fields, "calls_not_logged", more)
		}
		s.log.Log(ctx, slog.Level(level), msg, fields...)
	})
}
