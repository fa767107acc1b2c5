// LowPolyService.

package server

import (
	"errors"
	"io"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
	"github.com/polyscan/polyscan/lowpoly"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

type lowPolyServer struct {
	pb.UnimplementedLowPolyServiceServer
	*Server
}

const (
	pointBytes    = 8
	triangleBytes = 12
	// pointShare is the host memory that a point takes: itself, and the two triangles that come of it.
	pointShare = pointBytes + 2*triangleBytes
	// trianglesInPiece is how many triangles an answer carries.
	trianglesInPiece = 1 << 16
)

// classOf is the class of a call's jobs.
func classOf(c pb.WorkClass) kernels.Class {
	if c == pb.WorkClass_WORK_CLASS_BATCH {
		return kernels.Batch
	}
	return kernels.Interactive
}

// Triangulate implements pb.LowPolyServiceServer.
func (s *lowPolyServer) Triangulate(stream grpc.BidiStreamingServer[pb.TriangulateRequest, pb.TriangulateResponse]) error {
	ctx := stream.Context()
	var (
		points []driver.Point
		class  kernels.Class
		share  int // points that host memory was taken for
	)
	for first := true; ; first = false {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := s.validate(req); err != nil {
			return err
		}
		switch {
		case first:
			class = classOf(req.GetWorkClass())
		case req.GetWorkClass() != pb.WorkClass_WORK_CLASS_UNSPECIFIED:
			return refuse("work_class", req.GetWorkClass(), "belongs in the first message")
		}
		b := req.GetPoints()
		if len(b)%pointBytes != 0 {
			return refuse("points", len(b), "must be a multiple of %d bytes", pointBytes)
		}
		n := len(points) + len(b)/pointBytes
		if n > s.cfg.MaxPoints {
			return refuse("points", n, "are more than the server's limit of %d", s.cfg.MaxPoints)
		}
		for n > share {
			// Twice as many at a time, and without waiting: calls that wait for more while they hold some could wait for each
			// other.
			more := max(share, 1<<16)
			release, ok := s.host.try(int64(more) * pointShare)
			if !ok {
				return &quotaError{reasonHostMemory, "host memory", "other calls have what these points and their triangles take"}
			}
			defer release()
			share += more
		}
		points = appendPoints(slices.Grow(points, n-len(points)), b)
	}
	dev, err := s.dev.acquire()
	if err != nil {
		return err
	}
	res, err := lowpoly.Triangulate(kernels.WithClass(ctx, class), dev.Device, points)
	dev.end()
	var invalid *lowpoly.InvalidError
	if errors.As(err, &invalid) {
		return refuse(invalid.Field, invalid.Value, "%s", invalid.Problem)
	}
	if err != nil {
		return err
	}
	err = stream.Send(&pb.TriangulateResponse{Message: &pb.TriangulateResponse_Summary{Summary: &pb.TriangulateSummary{
		Points: uint64(len(points)), Triangles: uint64(len(res.Triangles)), Backend: res.Backend,
		Queue: durationpb.New(res.Queue), Compute: durationpb.New(res.Compute),
	}}})
	for piece := range slices.Chunk(res.Triangles, trianglesInPiece) {
		if err != nil {
			break
		}
		b := appendTriangles(make([]byte, 0, len(piece)*triangleBytes), piece)
		err = stream.Send(&pb.TriangulateResponse{Message: &pb.TriangulateResponse_Triangles{Triangles: b}})
	}
	return err
}
