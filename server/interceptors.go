// What each call goes through, from the outside in: authentication (before the request is read), metrics, logs, errors
// to statuses, recovery from panics, validation.

package server

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"
	"unsafe"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/polygon"
	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

func (s *Server) unaryInterceptors() []grpc.UnaryServerInterceptor {
	return []grpc.UnaryServerInterceptor{
		s.metrics.grpc.UnaryServerInterceptor(),
		func(ctx context.Context, req any, i *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			g := s.metrics.inFlight.WithLabelValues(i.FullMethod)
			g.Inc()
			defer g.Dec()
			return next(ctx, req)
		},
		logging.UnaryServerInterceptor(s.logCall(), loggingOptions...),
		func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			res, err := next(ctx, req)
			if err != nil {
				return nil, statusOf(ctx, s.log, err).Err()
			}
			return res, nil
		},
		recovery.UnaryServerInterceptor(recovery.WithRecoveryHandlerContext(s.panicked)),
		func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if err := s.validate(req); err != nil {
				return nil, err
			}
			return next(ctx, req)
		},
	}
}

// streamInterceptors validate nothing: streams do that themselves, because not each bad message ends them.
func (s *Server) streamInterceptors() []grpc.StreamServerInterceptor {
	return []grpc.StreamServerInterceptor{
		s.metrics.grpc.StreamServerInterceptor(),
		func(srv any, stream grpc.ServerStream, i *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			g := s.metrics.inFlight.WithLabelValues(i.FullMethod)
			g.Inc()
			defer g.Dec()
			return next(srv, stream)
		},
		logging.StreamServerInterceptor(s.logCall(), loggingOptions...),
		func(srv any, stream grpc.ServerStream, i *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			err := s.authenticate(stream.Context(), i.FullMethod)
			if err == nil {
				err = next(srv, stream)
			}
			if err != nil {
				return statusOf(stream.Context(), s.log, err).Err()
			}
			return nil
		},
		s.endUnread,
		// in the goroutine of the handler
		recovery.StreamServerInterceptor(recovery.WithRecoveryHandlerContext(s.panicked)),
	}
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
		c.Methods[i].Handler = func(srv any, ctx context.Context, dec func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			if err := r.s.authenticate(ctx, method); err != nil {
				// Through the interceptors, so that it is counted and logged.
				info := &grpc.UnaryServerInfo{Server: srv, FullMethod: method}
				return interceptor(ctx, nil, info, func(context.Context, any) (any, error) { return nil, err })
			}
			// A request that is refused for what it would take in memory goes the same way.
			var refused error
			res, err := next(srv, ctx, func(v any) error {
				g := &guarded{v: v}
				if err := dec(g); err != nil {
					return err
				}
				refused = g.err
				return g.err
			}, interceptor)
			if refused != nil {
				info := &grpc.UnaryServerInfo{Server: srv, FullMethod: method}
				return interceptor(ctx, nil, info, func(context.Context, any) (any, error) { return nil, refused })
			}
			return res, err
		}
	}
	r.Server.RegisterService(&c, impl)
}

// panicked turns a panic into an error, and keeps what is known of it.
func (s *Server) panicked(ctx context.Context, p any) error {
	s.metrics.panics.Inc()
	return internal(ctx, s.log, "panic", "panic", p, "stack", string(debug.Stack())).Err()
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

func (s *Server) logCall() logging.Logger {
	return logging.LoggerFunc(func(ctx context.Context, level logging.Level, msg string, fields ...any) {
		s.log.Log(ctx, slog.Level(level), msg, fields...)
	})
}

// serverCodec is the frame codec with a counter of bytes and a stopwatch.
type serverCodec struct {
	encoding.CodecV2
	received, sent prometheus.Counter
	s              *Server
}

func newServerCodec(s *Server) serverCodec {
	return serverCodec{
		CodecV2:  framecodec.Codec(),
		received: s.metrics.bytes.WithLabelValues("received"),
		sent:     s.metrics.bytes.WithLabelValues("sent"),
		s:        s,
	}
}

// Marshal implements encoding.CodecV2.
func (c serverCodec) Marshal(v any) (mem.BufferSlice, error) {
	if e, ok := v.(encoded); ok {
		out := mem.BufferSlice(e)
		c.sent.Add(float64(out.Len()))
		return out, nil
	}
	r, ours := v.(*response)
	if ours {
		v = r.Message
	}
	out, err := c.CodecV2.Marshal(v)
	if ours {
		if r.release != nil {
			r.release()
		}
		c.s.metrics.stage("encode", time.Since(r.start))
	}
	if err == nil {
		c.sent.Add(float64(out.Len()))
	}
	return out, err
}

// Unmarshal implements encoding.CodecV2. It runs before any interceptor, so it takes care of its own panics.
func (c serverCodec) Unmarshal(data mem.BufferSlice, v any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = c.s.panicked(context.Background(), p)
		}
	}()
	n := data.Len()
	c.received.Add(float64(n))
	g, ok := v.(*guarded)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	if m, ok := g.v.(proto.Message); ok && n > smallMessage {
		if limit := c.s.overheadLimit; framecodec.Overhead(data, m, limit) > limit {
			g.err = &quotaError{reasonRequestTooLarge, "request", fmt.Sprintf(
				"its parts, such as regions and rings, or curves and pixels, would take more than %d bytes of memory, which is what the most regions and vertices take that are allowed", limit)}
			return nil
		}
	}
	if err := c.CodecV2.Unmarshal(data, g.v); err != nil {
		g.err = refuse("request", nil, "the message can't be read: %v", err)
	}
	return nil
}

// guarded is a request on its way into v. The codec puts into err what is wrong with it: an error that it returned
// itself would reach the client as one of the server.
type guarded struct {
	v   any
	err error
}

// smallMessage is how large a message is whose structs are not worth a look.
const smallMessage = 1 << 20

// overheadOf is what the structs of the largest request take that keeps to the bounds.
func overheadOf(b polygon.Bounds) int64 {
	const (
		limit   = polygon.MaxLimits * int64(unsafe.Sizeof(""))
		pointer = int64(unsafe.Sizeof(uintptr(0)))
	)
	return int64(b.MaxRegions)*(int64(unsafe.Sizeof(pb.Region{}))+pointer+limit) +
		int64(b.MaxVertices/3+1)*(int64(unsafe.Sizeof(pb.Ring{}))+pointer) + smallMessage
}
