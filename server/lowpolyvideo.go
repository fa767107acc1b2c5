// LowPolyService: ConvertFrames.

package server

import (
	"context"
	"sync"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/lowpoly"
	"github.com/polyscan/polyscan/polygon"
	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// convertFrames is ConvertFrames. Frames are converted one after another, each where the work on the one before is done up to
// its encoding; only then do they take memory, so that a later frame never holds what an earlier one waits for.
type convertFrames struct {
	*lowPolyServer
	what *pb.ConvertRequest // without a frame
	opt  lowpoly.Options

	pictures chan *lowpoly.Picture // that were sent

	mu    sync.Mutex // held during a conversion
	video *lowpoly.Video
	dev   lease         // with video
	ended chan struct{} // closed when that video is
}

// ConvertFrames implements pb.LowPolyServiceServer, for callers inside the process.
func (s *lowPolyServer) ConvertFrames(stream grpc.BidiStreamingServer[pb.ConvertFramesRequest, pb.ConvertFramesResponse]) error {
	return s.convertFrames(stream)
}

func (s *lowPolyServer) convertFrames(stream grpc.ServerStream) error {
	return s.streamFrames(stream, &convertFrames{lowPolyServer: s, pictures: make(chan *lowpoly.Picture, s.cfg.StreamDepth)})
}

func (*convertFrames) newRequest() frameRequest { return &pb.ConvertFramesRequest{} }

func (*convertFrames) opens(req frameRequest) bool {
	return req.(*pb.ConvertFramesRequest).GetOpen() != nil
}

func (v *convertFrames) open(req frameRequest) error {
	o := req.(*pb.ConvertFramesRequest).GetOpen()
	v.what = &pb.ConvertRequest{
		WorkClass: o.GetWorkClass(), Options: o.GetOptions(), Encoding: o.GetEncoding(),
		Mesh: o.GetMesh(), Svg: o.GetSvg(), NoPicture: o.GetNoPicture(),
	}
	var err error
	if v.opt, err = v.convertOptions(o.GetOptions(), "open."); err != nil {
		return err
	}
	if o := o.GetOptions(); o == nil || o.Strength == nil {
		v.opt.Strength = lowpoly.DefaultStrength
	}
	if o := o.GetOptions(); o == nil || o.Hold == nil {
		v.opt.Hold = lowpoly.DefaultHold
	}
	return nil
}

func (v *convertFrames) answer(ctx context.Context, req frameRequest, in *framecodec.Message, before <-chan struct{}) answer {
	f, p, err := v.convert(ctx, req.GetFrame(), in, before)
	if err != nil {
		return answer{err: convertError(err, "open.")}
	}
	res := &response{start: time.Now()}
	m, pixels, err := convertResponse(v.what, f, p)
	if err != nil {
		f.answer()
		return answer{err: err}
	}
	again := func() {
		select {
		case v.pictures <- p:
		default:
		}
	}
	out := framecodec.New(&pb.ConvertFramesResponse{Outcome: &pb.ConvertFramesResponse_Result{Result: m}})
	if pixels != nil && m.Picture.Encoding == pb.Encoding_ENCODING_RAW {
		out.SetPayload(mem.BufferSlice{framecodec.NewBuffer(pixels, again)})
	} else {
		again()
		if pixels != nil {
			out.SetPayload(mem.BufferSlice{mem.SliceBuffer(pixels)})
		}
	}
	res.Message = out
	return answer{res: res, release: f.answer}
}

// convert converts a frame when it is its turn. The frame holds memory for the answer.
func (v *convertFrames) convert(ctx context.Context, m *pb.Frame, in *framecodec.Message, before <-chan struct{}) (*frame, *lowpoly.Picture, error) {
	select {
	case <-before:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.begin(); err != nil {
		return nil, nil, err
	}
	f, err := v.newFrameFor(ctx, m, in.Pieces(nil), "frame", func(f polygon.Frame) (int64, error) {
		return v.convertShare(v.what, f, &v.opt, "open.")
	})
	if err != nil {
		return nil, nil, err
	}
	defer f.release()
	var p *lowpoly.Picture
	select {
	case p = <-v.pictures:
	default:
		p = &lowpoly.Picture{}
	}
	if err := v.video.Convert(kernels.WithClass(ctx, classOf(v.what.GetWorkClass())), imageOf(f), p); err != nil {
		f.answer()
		return nil, nil, err
	}
	v.metrics.stage("queue", p.Queue)
	v.metrics.stage("compute", p.Compute)
	return f, p, nil
}

// begin makes sure that there is a video on the device. When that is lost the video ends, since the device can't be opened again
// while anything is kept on it.
func (v *convertFrames) begin() error {
	if v.video != nil {
		return nil
	}
	dev, err := v.Server.dev.acquire()
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	v.dev, v.ended, v.video = dev, ended, lowpoly.NewVideo(dev.Device, v.opt)
	v.background.Go(func() {
		select {
		case <-dev.Lost():
			v.mu.Lock()
			defer v.mu.Unlock()
			if v.ended == ended {
				v.finish()
			}
		case <-ended:
		}
	})
	return nil
}

// finish ends the video. mu is held.
func (v *convertFrames) finish() {
	if v.video != nil {
		v.video.Close()
		v.dev.end()
		close(v.ended)
		v.video, v.ended = nil, nil
	}
}

func (*convertFrames) response(sequence uint64, a answer, st *spb.Status) proto.Message {
	if st != nil {
		return &pb.ConvertFramesResponse{Sequence: sequence, Outcome: &pb.ConvertFramesResponse_Error{Error: st}}
	}
	out := a.res.Message.(*framecodec.Message)
	out.Message.(*pb.ConvertFramesResponse).Sequence = sequence
	return out
}

func (v *convertFrames) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.finish()
}
