// SharedMemoryService.

package sharedmemory

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/wire"
)

func errNoSharedMemory() error {
	return apierr.WithDetails(codes.FailedPrecondition, "shared memory: this server has none",
		apierr.Info(apierr.ReasonNoSharedSocket)).Err()
}

// Host is what the service needs of the server.
type Host interface {
	// Validate checks a message by the rules in the schemas, a large one at a place of the pool of host work.
	Validate(ctx context.Context, m any) error
	// Draining is closed when the server shuts down.
	Draining() <-chan struct{}
}

// Service answers the calls of SharedMemoryService.
type Service struct {
	pb.UnimplementedSharedMemoryServiceServer
	host   Host
	shared *Leases // nil: there is none
}

func New(h Host, m *Leases) *Service {
	return &Service{host: h, shared: m}
}

// Desc is the generated description of the service with a handler that refuses requests as the others do.
func Desc() *grpc.ServiceDesc {
	return wire.WithHandlers(pb.SharedMemoryService_ServiceDesc, nil, map[string]grpc.StreamHandler{
		"Lease": func(srv any, stream grpc.ServerStream) error {
			req := &pb.LeaseRequest{}
			if err := wire.ReceiveMessage(stream, req); err != nil {
				return err
			}
			return srv.(*Service).Lease(req,
				&grpc.GenericServerStream[pb.LeaseRequest, pb.LeaseResponse]{ServerStream: stream})
		},
	})
}

// Lease implements pb.SharedMemoryServiceServer.
func (s *Service) Lease(req *pb.LeaseRequest, stream grpc.ServerStreamingServer[pb.LeaseResponse]) error {
	if err := s.host.Validate(stream.Context(), req); err != nil {
		return err
	}
	m := s.shared
	if m == nil {
		return errNoSharedMemory()
	}
	ctx := stream.Context()
	l, err := m.open(ctx, req.GetBytes())
	if err != nil {
		return err
	}
	keep := false
	defer func() {
		if !keep {
			m.end(l)
		}
	}()
	err = stream.Send(&pb.LeaseResponse{
		LeaseId: l.id, Bytes: uint64(len(l.memory.Data())), SocketPath: m.path, Token: l.token[:],
	})
	if err != nil {
		return err
	}
	late := time.NewTimer(m.fetchTimeout)
	defer late.Stop()
	select {
	case <-l.fetched:
	case <-late.C:
		if m.withdraw(l) {
			return apierr.WithDetails(codes.DeadlineExceeded, fmt.Sprintf(
				"shared memory: nobody came to %s for the descriptor within %v; the client must be on the server's host",
				m.path, m.fetchTimeout),
				apierr.Info(apierr.ReasonLeaseNotFetched)).Err()
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.host.Draining():
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.host.Draining():
		// Frames that have been received are still answered: the memory stays until the server has shut down.
		keep = true
		return apierr.ErrShuttingDown
	}
}
