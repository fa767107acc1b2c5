// InspectionService: StreamFrames.

package inspect

import (
	"context"

	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/framestream"
	"github.com/polyscan/polyscan/server/internal/wire"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// HandleStreamFrames is the handler of a call.
func (s *Service) HandleStreamFrames(stream grpc.ServerStream) error {
	return s.Streams.Serve(stream, &frameStream{service: s})
}

// frameStream is StreamFrames.
type frameStream struct {
	service *Service
	what    *wire.Inspection // nil before the open message
	own     bool             // the set is of this stream alone
}

func (*frameStream) NewRequest() framestream.Request { return &pb.StreamFramesRequest{} }

func (*frameStream) Opens(req framestream.Request) bool {
	return req.(*pb.StreamFramesRequest).GetOpen() != nil
}

func (f *frameStream) Open(req framestream.Request) error {
	what, err := wire.NewInspection(req.(*pb.StreamFramesRequest).GetOpen(), "open", "frame", f.service.Recipes, f.service.Bounds)
	if err != nil {
		return err
	}
	f.own = !what.Keep
	what.Keep = true
	f.what = what
	return nil
}

func (f *frameStream) Answer(ctx context.Context, req framestream.Request, in *framecodec.Message,
	before <-chan struct{}) framestream.Answer {
	res, release, err := f.service.reduceFrame(ctx, f.what, req.GetFrame(), in, before)
	return framestream.Answer{Response: res, Release: release, Err: err}
}

func (*frameStream) Response(sequence uint64, a framestream.Answer, st *spb.Status) proto.Message {
	m := &pb.StreamFramesResponse{Sequence: sequence, Outcome: &pb.StreamFramesResponse_Error{Error: st}}
	if st == nil {
		m.Outcome = &pb.StreamFramesResponse_Result{Result: a.Response.Message.(*pb.FrameResult)}
	}
	return m
}

func (f *frameStream) Close() {
	if f.own && f.what != nil {
		f.service.Prepared.drop(f.what.Set)
	}
}
