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
	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/device"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// convertFrames is ConvertFrames. Frames are converted one after another, each where the work on the one before is done
// up to its encoding; only then do they take memory, so that a later frame never holds what an earlier one waits for.
type convertFrames struct {
	*lowPolyServer
	what *pb.ConvertRequest // without a frame, and options
	opt  lowpoly.Options

	pictures chan *lowpoly.Result // that were sent

	mu       sync.Mutex // held during a conversion
	previous []byte     // the points before the first frame, until that is converted
	video    *lowpoly.Video
	dev      device.Lease  // with video
	ended    chan struct{} // closed when that video is
	idle     *time.Timer   // runs between two frames, with video
	used     time.Time     // when the last frame was done with
}

// ConvertFrames implements pb.LowPolyServiceServer, for callers inside the process.
func (s *lowPolyServer) ConvertFrames(stream grpc.BidiStreamingServer[pb.ConvertFramesRequest,
	pb.ConvertFramesResponse]) error {
	return s.convertFrames(stream)
}

func (s *lowPolyServer) convertFrames(stream grpc.ServerStream) error {
	return s.streamFrames(stream,
		&convertFrames{lowPolyServer: s, pictures: make(chan *lowpoly.Result, s.cfg.StreamDepth)})
}

func (*convertFrames) newRequest() frameRequest { return &pb.ConvertFramesRequest{} }

func (*convertFrames) opens(req frameRequest) bool {
	return req.(*pb.ConvertFramesRequest).GetOpen() != nil
}

func (v *convertFrames) open(req frameRequest) error {
	o := req.(*pb.ConvertFramesRequest).GetOpen()
	v.what = &pb.ConvertRequest{
		WorkClass: o.GetWorkClass(), Encoding: o.GetEncoding(),
		Mesh: o.GetMesh(), Svg: o.GetSvg(), NoPicture: o.GetNoPicture(),
	}
	var err error
	if v.opt, err = v.convertOptions(o.GetOptions(), "open."); err != nil {
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

func (v *convertFrames) answer(ctx context.Context, req frameRequest, in *framecodec.Message,
	before <-chan struct{}) answer {
	f, p, err := v.convert(ctx, req.GetFrame(), in, before)
	if err != nil {
		return answer{err: convertError(err, "open.")}
	}
	res := &wire.Response{Start: time.Now()}
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
func (v *convertFrames) convert(ctx context.Context, m *pb.Frame, in *framecodec.Message,
	before <-chan struct{}) (*frame, *lowpoly.Result, error) {
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
	f, err := v.newFrameFor(ctx, m, in.Pieces(nil), "frame", func(f kernels.Picture) (int64, error) {
		return v.convertShare(v.what, f, &v.opt, v.previous, "open.")
	})
	if err != nil {
		return nil, nil, err
	}
	defer f.release()
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
		f.answer()
		if len(v.previous) > 0 { // whose copy holds no memory of the budget from here on
			v.video.Close()
			v.video = nil
		}
		return nil, nil, err
	}
	v.previous = nil
	v.metrics.Stage("queue", p.Queue)
	v.metrics.Stage("compute", p.Compute)
	return f, p, nil
}

// begin makes sure that there is a lease of the device for the video, until rest is called at least. When the device is
// lost the video ends, since it can't be opened again while anything is kept on it; and when no frame comes for a
// while, since it keeps memory. mu is held.
func (v *convertFrames) begin() error {
	if v.ended != nil {
		v.idle.Stop()
		return nil
	}
	dev, err := v.Server.dev.Acquire()
	if err != nil {
		return err
	}
	limit := v.cfg.StreamIdleTimeout
	ended, idle := make(chan struct{}), time.NewTimer(limit)
	idle.Stop()
	v.dev, v.ended, v.idle = dev, ended, idle
	v.background.Go(func() {
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
func (v *convertFrames) leave(ended chan struct{}, dev device.Lease, limit time.Duration) bool {
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
		v.metrics.StreamTimeouts.WithLabelValues("idle").Inc()
	}
	v.finish()
	return true
}

// rest begins the time between two frames. mu is held.
func (v *convertFrames) rest() {
	v.used = time.Now()
	v.idle.Reset(v.cfg.StreamIdleTimeout)
}

// finish ends the video. mu is held.
func (v *convertFrames) finish() {
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
