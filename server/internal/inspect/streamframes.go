// InspectionService: StreamFrames.

package inspect

import (
	"context"
	"time"

	"github.com/polyscan/polyscan/polygon"
	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/auth"
	"github.com/polyscan/polyscan/server/internal/budget"
	"github.com/polyscan/polyscan/server/internal/events"
	"github.com/polyscan/polyscan/server/internal/framestream"
	"github.com/polyscan/polyscan/server/internal/wire"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// HandleStreamFrames is the handler of a call.
func (s *Service) HandleStreamFrames(stream grpc.ServerStream) error {
	return s.Streams.Serve(stream, &frameStream{service: s, ctx: stream.Context()})
}

// frameStream is StreamFrames.
type frameStream struct {
	service *Service
	ctx     context.Context
	what    *wire.Inspection // nil before the open message
	own     bool             // the set is of this stream alone
	bytes   int64            // that it takes, with its message
	seen    *events.Stream   // what others see of it
	past    *polygon.Parts   // for limits over the last frames; nil where there are none
	last    *lastFrame       // for correlations with the frame before; nil where there are none
}

func (*frameStream) NewRequest() framestream.Request { return &pb.StreamFramesRequest{} }

func (*frameStream) Opens(req framestream.Request) bool {
	return req.(*pb.StreamFramesRequest).GetOpen() != nil
}

func (f *frameStream) Open(req framestream.Request) error {
	logNames(f.ctx, req.(*pb.StreamFramesRequest).GetOpen().GetName(), "")
	if req.(*pb.StreamFramesRequest).GetPose() != nil {
		return apierr.Refuse("pose", req.(*pb.StreamFramesRequest).GetPose(),
			"is of a frame: that of all frames is open.pose")
	}
	what, err := f.service.inspection(f.ctx, req.(*pb.StreamFramesRequest).GetOpen(), "open")
	if err != nil {
		return err
	}
	if err := f.service.haveFrames(f.ctx, what); err != nil { // rather than for each frame
		return err
	}
	f.own, what.Keep = !what.Keep, true
	if at := (place{what.Pose, "open.pose"}); at.pose != nil { // which may be wrong, and is kept for the frames
		if _, err := f.service.posed(f.ctx, what, *at.pose, at); err != nil {
			return err
		}
	}
	if f.own {
		f.bytes = 2*what.Set.Bytes() + wire.StructBytes(&pb.RegionSet{Regions: what.Regions})
		f.service.Memory.Count(budget.Requests, f.bytes)
	}
	f.what, f.past = what, what.Set.NewParts()
	what.Reductions.Output.Later = f.past != nil
	if what.LooksBack() {
		f.last = &lastFrame{who: auth.FromContext(f.ctx)}
	}
	if n := what.Flat.Bytes(); n > 0 && !what.Paths.StoredFlat {
		f.bytes += n
		f.service.Memory.Count(budget.Requests, n)
	}
	if n := f.past.Bytes(); n > 0 {
		f.bytes += n
		f.service.Memory.Count(budget.Requests, n)
	}
	f.seen = f.service.Events.Open(
		events.SourceOf(f.ctx, pb.StreamMethod_STREAM_METHOD_STREAM_FRAMES, what, f.service.Host.Backend()))
	return nil
}

func (f *frameStream) Answer(ctx context.Context, sequence uint64, req framestream.Request, in *framecodec.Message,
	before <-chan struct{}) framestream.Answer {
	judged := false
	var judge func(*polygon.Result)
	if f.past != nil || f.last != nil {
		// One after the other, from the start: a frame that waits holds nothing that the one before may wait for.
		select {
		case <-before:
		case <-ctx.Done():
			return framestream.Answer{Err: context.Cause(ctx)}
		}
	}
	if f.past != nil {
		judge = func(res *polygon.Result) { f.past.Judge(sequence, res); judged = true }
	}
	at := place{f.what.Pose, "open.pose"}
	own, err := wire.PoseOf(req.(*pb.StreamFramesRequest).GetPose(), "pose", f.what.Locator != nil)
	if own != nil {
		at = place{own, "pose"}
	}
	var res *wire.Response
	var numbers *polygon.Result
	var picture *events.Picture
	var release func()
	if err == nil {
		res, numbers, picture, release, err = f.service.reduceFrame(ctx, f.what, at, req.GetFrame(), in, before, f.seen,
			sequence, judge, f.last)
	}
	if judge != nil && !judged {
		judge(nil)
	}
	return framestream.Answer{Response: res, Numbers: numbers, Picture: picture, Release: release, Err: err}
}

// Answered implements framestream.Watched.
func (f *frameStream) Answered(sequence uint64, frame *pb.Frame, a framestream.Answer, took time.Duration) {
	var result *pb.FrameResult
	if a.Response != nil {
		result = a.Response.Message.(*pb.FrameResult)
	}
	f.seen.Frame(sequence, frame, a.Numbers, result.GetLocation(), a.Err, took, a.Picture)
}

func (*frameStream) Response(sequence uint64, a framestream.Answer, st *spb.Status) proto.Message {
	m := &pb.StreamFramesResponse{Sequence: sequence, Outcome: &pb.StreamFramesResponse_Error{Error: st}}
	if st == nil {
		m.Outcome = &pb.StreamFramesResponse_Result{Result: a.Response.Message.(*pb.FrameResult)}
	}
	return m
}

func (f *frameStream) Close() {
	f.service.Memory.Count(budget.Requests, -f.bytes)
	f.seen.Close(nil)
	if f.last != nil {
		f.last.close(f.service.Frames.Residents)
	}
	if f.own && f.what != nil {
		f.service.Forget(f.what.Set)
	}
}
