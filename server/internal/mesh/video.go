// LowPolyService: ConvertFrames.

package mesh

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
	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/device"
	"github.com/polyscan/polyscan/server/internal/frames"
	"github.com/polyscan/polyscan/server/internal/framestream"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// videoStream is ConvertFrames. Frames are converted one after another, each where the work on the one before is done
// up to its encoding; only then do they take memory, so that a later frame never holds what an earlier one waits for.
type videoStream struct {
	service *Service
	what    *pb.ConvertRequest // without a frame, and options
	opt     lowpoly.Options

	pictures chan *lowpoly.Result // that were sent

	mu       sync.Mutex // held during a conversion
	previous []byte     // the points before the first frame, until that is converted
	video    *lowpoly.Video
	dev      device.Lease  // with video
	ended    chan struct{} // closed when that video is
	idle     *time.Timer   // runs between two frames, with video
	used     time.Time     // when the last frame was done with
}

func (s *Service) HandleConvertFrames(stream grpc.ServerStream) error {
	return s.Streams.Serve(stream,
		&videoStream{service: s, pictures: make(chan *lowpoly.Result, s.Streams.Depth)})
}

func (*videoStream) NewRequest() framestream.Request { return &pb.ConvertFramesRequest{} }

func (*videoStream) Opens(req framestream.Request) bool {
	return req.(*pb.ConvertFramesRequest).GetOpen() != nil
}

func (v *videoStream) Open(req framestream.Request) error {
	o := req.(*pb.ConvertFramesRequest).GetOpen()
	v.what = &pb.ConvertRequest{
		WorkClass: o.GetWorkClass(), Encoding: o.GetEncoding(),
		Mesh: o.GetMesh(), Svg: o.GetSvg(), NoPicture: o.GetNoPicture(),
	}
	var err error
	if v.opt, err = v.service.convertOptions(o.GetOptions(), "open."); err != nil {
		return err
	}
	v.previous = o.GetOptions().GetPrevious()
	if o := o.GetOptions(); o == nil || o.Strength == nil {
		v.opt.Strength = lowpoly.DefaultStrength
	}
	if o := o.GetOptions(); o == nil || o.Hold == nil {
		v.opt.Hold = lowpoly.DefaultHold
	}
	return nil
}

func (v *videoStream) Answer(ctx context.Context, _ uint64, req framestream.Request, in *framecodec.Message,
	before <-chan struct{}) framestream.Answer {
	f, p, err := v.convert(ctx, req.GetFrame(), in, before)
	if err != nil {
		return framestream.Answer{Err: convertError(err, "open.")}
	}
	f.Answer.FillAll()
	res := &wire.Response{Start: time.Now(), Share: f.Answer}
	m, pixels, err := v.service.convertResponse(ctx, v.what, f, p)
	if err != nil {
		f.Answer.Release()
		return framestream.Answer{Err: err}
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
	return framestream.Answer{Response: res, Release: f.Answer.Release}
}

// convert converts a frame when it is its turn. The frame holds memory for the answer.
func (v *videoStream) convert(ctx context.Context, m *pb.Frame, in *framecodec.Message,
	before <-chan struct{}) (*frames.Frame, *lowpoly.Result, error) {
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
	defer v.rest()
	f, err := v.service.Frames.ReadFor(ctx, m, in.Pieces(nil), "frame", func(f kernels.Picture) (int64, error) {
		return v.service.convertShare(v.what, f, &v.opt, v.previous, "open.")
	})
	if err != nil {
		return nil, nil, err
	}
	defer f.Release()
	var p *lowpoly.Result
	select {
	case p = <-v.pictures:
	default:
		p = &lowpoly.Result{}
	}
	if v.video == nil {
		opt := v.opt
		opt.Previous = readPoints(v.previous)
		v.video = lowpoly.NewVideo(v.dev.Device, opt)
	}
	if err := v.video.Convert(kernels.WithClass(ctx, wire.ClassOf(v.what.GetWorkClass())), f.Picture, p); err != nil {
		f.Answer.Release()
		if len(v.previous) > 0 { // whose copy holds no memory of the budget from here on
			v.video.Close()
			v.video = nil
		}
		return nil, nil, err
	}
	v.previous = nil
	v.service.Metrics.Stage("queue", p.Queue)
	v.service.Metrics.Stage("compute", p.Compute)
	return f, p, nil
}

// begin makes sure that there is a lease of the device for the video, until rest is called at least. When the device is
// lost the video ends, since it can't be opened again while anything is kept on it; and when no frame comes for a
// while, since it keeps memory. mu is held.
func (v *videoStream) begin() error {
	if v.ended != nil {
		v.idle.Stop()
		return nil
	}
	dev, err := v.service.Host.Acquire()
	if err != nil {
		return err
	}
	limit := v.service.IdleTimeout
	ended, idle := make(chan struct{}), time.NewTimer(limit)
	idle.Stop()
	v.dev, v.ended, v.idle = dev, ended, idle
	v.service.Host.Go(func() {
		for {
			select {
			case <-dev.Lost():
			case <-idle.C:
			case <-ended:
				return
			}
			if v.leave(ended, dev, limit) {
				return
			}
		}
	})
	return nil
}

// leave finishes the video that ended stands for, if its device is lost or no frame has come for so long.
func (v *videoStream) leave(ended chan struct{}, dev device.Lease, limit time.Duration) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ended != ended {
		return true
	}
	select {
	case <-dev.Lost():
	default:
		if time.Since(v.used) < limit { // one has come just now
			return false
		}
		v.service.Metrics.StreamTimeouts.WithLabelValues("idle").Inc()
	}
	v.finish()
	return true
}

// rest begins the time between two frames. mu is held.
func (v *videoStream) rest() {
	v.used = time.Now()
	v.idle.Reset(v.service.IdleTimeout)
}

// finish ends the video. mu is held.
func (v *videoStream) finish() {
	if v.ended == nil {
		return
	}
	if v.video != nil {
		v.video.Close()
		v.video = nil
	}
	for len(v.pictures) > 0 {
		<-v.pictures
	}
	v.idle.Stop()
	v.dev.End()
	close(v.ended)
	v.ended = nil
}

func (*videoStream) Response(sequence uint64, a framestream.Answer, st *spb.Status) proto.Message {
	if st != nil {
		return &pb.ConvertFramesResponse{Sequence: sequence, Outcome: &pb.ConvertFramesResponse_Error{Error: st}}
	}
	out := a.Response.Message.(*framecodec.Message)
	out.Message.(*pb.ConvertFramesResponse).Sequence = sequence
	return out
}

func (v *videoStream) Close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.finish()
}
