// LowPolyService.

package mesh

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/lowpoly"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/budget"
	"github.com/polyscan/polyscan/server/internal/frames"
	"github.com/polyscan/polyscan/server/internal/framestream"
	"github.com/polyscan/polyscan/server/internal/observe"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// Config is what the service works with. All of it must be set.
type Config struct {
	Host            wire.Host
	Frames          *frames.Reader
	Streams         *framestream.Streams
	Memory          *budget.Budget // of the host, for what is decoded and for answers
	Metrics         *observe.Metrics
	MaxPoints       int
	MaxMessageBytes int64
	UploadStall     time.Duration // how long a call may bring no points
	IdleTimeout     time.Duration // how long a video keeps memory while no frame comes
}

// Service answers the calls of LowPolyService.
type Service struct {
	pb.UnimplementedLowPolyServiceServer
	Config
}

func New(cfg Config) *Service { return &Service{Config: cfg} }

const (
	pointBytes    = 8
	triangleBytes = 12
	// pointShare is the host memory that a point takes: itself, and the two triangles that come of it.
	pointShare = pointBytes + 2*triangleBytes
	// trianglesInPiece is how many triangles an answer carries.
	trianglesInPiece = 1 << 16
)

func routeOf(r pb.TriangulateRoute) lowpoly.Route {
	if r == pb.TriangulateRoute_TRIANGULATE_ROUTE_VORONOI {
		return lowpoly.RouteVoronoi
	}
	return lowpoly.RouteDirect
}

// Triangulate implements pb.LowPolyServiceServer.
func (s *Service) Triangulate(stream grpc.BidiStreamingServer[pb.TriangulateRequest,
	pb.TriangulateResponse]) error {
	ctx := stream.Context()
	stalled := make(chan struct{}, 1)
	stall := time.AfterFunc(s.UploadStall, func() { stalled <- struct{}{} })
	defer stall.Stop()
	come := make(chan points, 1)
	// so that the call can end while its client is silent
	s.Host.Go(func() { come <- s.receivePoints(stream, stall) })
	var err error
	select {
	case p := <-come:
		stall.Stop()
		defer p.release()
		if p.err != nil {
			return p.err
		}
		return s.triangulate(ctx, stream, p)
	case <-s.Host.Draining():
		err = apierr.ErrShuttingDown
	case <-stalled:
		err = apierr.ErrStalled
	}
	s.Host.Go(func() { // the receiver notices that the handler has left
		p := <-come
		p.release()
	})
	return err
}

// points are those of a call of Triangulate, with the host memory that is taken for them.
type points struct {
	list     []lowpoly.Point
	class    kernels.Class
	route    lowpoly.Route
	share    int // points that memory was taken for
	releases []func()
	err      error
}

func (p *points) release() {
	for _, f := range p.releases {
		f()
	}
}

// receivePoints receives points until the client half-closes. Each piece puts the stall off.
func (s *Service) receivePoints(stream grpc.BidiStreamingServer[pb.TriangulateRequest, pb.TriangulateResponse],
	stall *time.Timer) (p points) {
	defer func() {
		if r := recover(); r != nil { // nobody else would: this is a goroutine of its own
			p.err = s.Host.Panicked(stream.Context(), r)
		}
	}()
	for first := true; ; first = false {
		req := &pb.TriangulateRequest{}
		err := wire.ReceiveMessage(stream, req)
		if errors.Is(err, io.EOF) {
			return p
		}
		if err == nil {
			err = s.addPoints(stream.Context(), &p, req, first)
		}
		if err != nil {
			p.err = err
			return p
		}
		if len(req.GetPoints()) > 0 {
			stall.Reset(s.UploadStall)
		}
	}
}

// addPoints adds a piece.
func (s *Service) addPoints(ctx context.Context, p *points, req *pb.TriangulateRequest, first bool) error {
	if err := s.Host.Validate(ctx, req); err != nil {
		return err
	}
	switch {
	case first:
		p.class = wire.ClassOf(req.GetWorkClass())
		p.route = routeOf(req.GetRoute())
	case req.GetWorkClass() != pb.WorkClass_WORK_CLASS_UNSPECIFIED:
		return apierr.Refuse("work_class", req.GetWorkClass(), "belongs in the first message")
	case req.GetRoute() != pb.TriangulateRoute_TRIANGULATE_ROUTE_UNSPECIFIED:
		return apierr.Refuse("route", req.GetRoute(), "belongs in the first message")
	}
	b := req.GetPoints()
	if len(b)%pointBytes != 0 {
		return apierr.Refuse("points", len(b), "must be a multiple of %d bytes", pointBytes)
	}
	n := len(p.list) + len(b)/pointBytes
	if n > s.MaxPoints {
		return apierr.Refuse("points", n, "are more than the server's limit of %d", s.MaxPoints)
	}
	for n > p.share {
		// Twice as many at a time, and without waiting: calls that wait for more while they hold some could wait for
		// each other.
		more := max(p.share, 1<<16)
		release, ok := s.Memory.Try(budget.Uploads, int64(more)*pointShare)
		if !ok {
			return apierr.Quota(apierr.ReasonHostMemory, "host memory",
				"other calls have what these points and their triangles take")
		}
		p.releases = append(p.releases, release)
		p.share += more
	}
	p.list = appendPoints(slices.Grow(p.list, n-len(p.list)), b)
	return nil
}

// triangulate computes and sends the answer.
func (s *Service) triangulate(ctx context.Context,
	stream grpc.BidiStreamingServer[pb.TriangulateRequest, pb.TriangulateResponse], p points) error {
	dev, err := s.Host.Acquire()
	if err != nil {
		return err
	}
	res, err := lowpoly.Triangulate(kernels.WithClass(ctx, p.class), dev.Device, p.list, p.route)
	dev.End()
	if err != nil {
		return wire.FieldError(err, wire.SameField)
	}
	summary := &pb.TriangulateSummary{
		Points: uint64(len(p.list)), Triangles: uint64(len(res.Triangles)), Backend: res.Backend,
		Queue: durationpb.New(res.Queue), Compute: durationpb.New(res.Compute),
	}
	if d := res.Steps; d != nil {
		summary.Steps = &pb.VoronoiSteps{
			Islands: uint64(d.Islands), BorderEdges: uint64(d.Border), HullEdges: uint64(d.Hull),
			Flips: uint64(d.Flips), Rounds: uint64(d.Rounds), Direct: d.Direct,
		}
	}
	err = stream.Send(&pb.TriangulateResponse{Message: &pb.TriangulateResponse_Summary{Summary: summary}})
	for piece := range slices.Chunk(res.Triangles, trianglesInPiece) {
		if err != nil {
			break
		}
		b := appendTriangles(make([]byte, 0, len(piece)*triangleBytes), piece)
		err = stream.Send(&pb.TriangulateResponse{Message: &pb.TriangulateResponse_Triangles{Triangles: b}})
	}
	return err
}
