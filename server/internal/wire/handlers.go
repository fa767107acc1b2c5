// Methods whose messages the generated code would receive in another way.

package wire

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/proto/framecodec"
)

// WithHandlers is the generated description of a service with other handlers for some of its methods and streams, by
// name.
func WithHandlers(d grpc.ServiceDesc, methods map[string]grpc.MethodHandler,
	streams map[string]grpc.StreamHandler) *grpc.ServiceDesc {
	d.Methods = slices.Clone(d.Methods)
	for i := range d.Methods {
		if h := methods[d.Methods[i].MethodName]; h != nil {
			d.Methods[i].Handler = h
		}
	}
	d.Streams = slices.Clone(d.Streams)
	for i := range d.Streams {
		if h := streams[d.Streams[i].StreamName]; h != nil {
			d.Streams[i].Handler = h
		}
	}
	return &d
}

// message is a pointer to a generated message.
type message[M any] interface {
	*M
	proto.Message
}

// FrameHandler is the handler of a method whose request carries a frame, which stays in the transport's buffers until
// the method has returned or freed it. S is the service's implementation.
func FrameHandler[S any, Req any, P message[Req], Res any](fullMethod string,
	call func(S, context.Context, P, *framecodec.Message) (Res, error)) grpc.MethodHandler {
	return func(srv any, ctx context.Context, dec func(any) error, interceptor grpc.UnaryServerInterceptor) (any,
		error) {
		req := P(new(Req))
		in := framecodec.New(req)
		defer in.Free() // whatever happens: gRPC may have filled it and return an error
		if err := dec(in); err != nil {
			return nil, err
		}
		info := &grpc.UnaryServerInfo{Server: srv, FullMethod: fullMethod}
		return interceptor(ctx, in, info, func(ctx context.Context, _ any) (any, error) {
			return call(srv.(S), ctx, req, in)
		})
	}
}

// PlainHandler is the handler of a method whose response is not the generated one: it gives memory back when it is
// written.
func PlainHandler[S any, Req any, P message[Req], Res any](fullMethod string,
	call func(S, context.Context, P) (Res, error)) grpc.MethodHandler {
	return func(srv any, ctx context.Context, dec func(any) error, interceptor grpc.UnaryServerInterceptor) (any,
		error) {
		req := P(new(Req))
		if err := dec(req); err != nil {
			return nil, err
		}
		info := &grpc.UnaryServerInfo{Server: srv, FullMethod: fullMethod}
		return interceptor(ctx, req, info, func(ctx context.Context, _ any) (any, error) {
			return call(srv.(S), ctx, req)
		})
	}
}
