// FrameService.

package residents

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"strconv"
	"time"

	"google.golang.org/grpc"

	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/auth"
	"github.com/polyscan/polyscan/server/internal/device"
	"github.com/polyscan/polyscan/server/internal/frames"
	"github.com/polyscan/polyscan/server/internal/observe"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// Service answers the calls of FrameService. Those that bring pixels take messages whose frames are still in the
// transport's buffers; see Desc.
type Service struct {
	pb.UnimplementedFrameServiceServer
	host      wire.Host
	residents *Store
	frames    *frames.Reader
	metrics   *observe.Metrics
}

func New(h wire.Host, st *Store, r *frames.Reader, m *observe.Metrics) *Service {
	return &Service{host: h, residents: st, frames: r, metrics: m}
}

// Desc is the generated description of the service with handlers that don't copy frames.
func Desc() *grpc.ServiceDesc {
	return wire.WithHandlers(pb.FrameService_ServiceDesc, map[string]grpc.MethodHandler{
		"PutFrame": wire.FrameHandler(pb.FrameService_PutFrame_FullMethodName, (*Service).HandlePutFrame),
	}, map[string]grpc.StreamHandler{
		"UploadFrame": func(srv any, stream grpc.ServerStream) error { return srv.(*Service).HandleUploadFrame(stream) },
	})
}

// HandlePutFrame keeps one frame, whose payload is in's.
func (s *Service) HandlePutFrame(ctx context.Context, req *pb.PutFrameRequest,
	in *framecodec.Message) (*pb.PutFrameResponse, error) {
	if _, ok := req.GetFrame().GetSource().(*pb.Frame_Resident); ok {
		return nil, apierr.Refuse("frame.resident", nil, "is kept already")
	}
	idle, err := s.residents.idleTimeout(req.GetIdleTimeout(), "idle_timeout")
	if err != nil {
		return nil, err
	}
	dev, err := s.host.Acquire()
	if err != nil {
		return nil, err
	}
	defer dev.End()
	f, err := s.frames.Read(ctx, req.GetFrame(), in.Pieces(nil), "frame")
	if err != nil {
		return nil, err
	}
	defer f.Release()
	p := wire.Paths{Frame: "frame"}
	if err := f.Check("frame"); err != nil {
		return nil, p.Translate(err)
	}
	u, err := s.residents.begin(auth.FromContext(ctx), dev.Device, f.Picture, f.ID, idle)
	if err != nil {
		return nil, p.Translate(err)
	}
	if err := u.write(ctx, f.Data); err != nil {
		u.Abort()
		return nil, err
	}
	kept, err := s.keep(ctx, u)
	if err != nil {
		return nil, err
	}
	return &pb.PutFrameResponse{Frame: kept}, nil
}

// keep ends an upload whose pixels have come. A frame that nobody will learn the name of isn't kept.
func (s *Service) keep(ctx context.Context, u *upload) (*pb.ResidentFrame, error) {
	err := u.Complete(ctx)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		u.Abort()
		return nil, err
	}
	return u.Keep(), nil
}

// uploaded is what a stream of pieces comes to.
type uploaded struct {
	u   *upload // nil with err
	err error
}

// HandleUploadFrame is the handler. Another goroutine receives, because only that way can the stream end while the
// client is silent.
func (s *Service) HandleUploadFrame(stream grpc.ServerStream) error {
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	dev, err := s.host.Acquire()
	if err != nil {
		return err
	}
	stall := time.AfterFunc(s.residents.limits.Stall, func() { cancel(apierr.ErrStalled) })
	defer stall.Stop()
	done := make(chan uploaded, 1)
	s.host.Go(func() {
		u, err := s.receiveUpload(ctx, dev, stream, stall)
		done <- uploaded{u, err}
	})
	select {
	case r := <-done:
		stall.Stop()
		defer dev.End()
		if r.err != nil {
			return r.err
		}
		kept, err := s.keep(ctx, r.u)
		if err != nil {
			return err
		}
		if err := stream.SendMsg(&pb.UploadFrameResponse{Frame: kept}); err != nil {
			_ = s.residents.Release(auth.FromContext(ctx), kept.GetName()) // nobody has learnt the name
			return err
		}
		return nil
	case <-s.host.Draining():
		err = apierr.ErrShuttingDown
	case <-dev.Lost():
		err = device.ErrLost
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	cancel(err)
	s.host.Go(func() { // the receiver notices that the handler has left
		if r := <-done; r.u != nil {
			r.u.Abort()
		}
		dev.End()
	})
	return err
}

// receiveUpload receives a frame in pieces, each of which is on the device before the next is asked for.
func (s *Service) receiveUpload(ctx context.Context, dev device.Lease, stream grpc.ServerStream,
	stall *time.Timer) (u *upload, err error) {
	defer func() {
		if p := recover(); p != nil { // nobody else would: this is a goroutine of its own
			err = s.host.Panicked(ctx, p)
		}
		if err != nil && u != nil {
			u.Abort()
			u = nil
		}
	}()
	for {
		req := &pb.UploadFrameRequest{}
		in := framecodec.New(req)
		err := wire.ReceiveMessage(stream, in)
		if errors.Is(err, io.EOF) {
			in.Free()
			if u == nil {
				err = apierr.Refuse("frame", nil, "must come in the first message, but the stream ended without one")
			} else {
				err = nil
			}
			return u, err
		}
		pixels := in.Len() > 0
		if pixels {
			stall.Stop() // the client waits for the device now
		}
		if err == nil {
			u, err = s.receivePiece(ctx, dev, u, req, in)
		}
		if pixels {
			stall.Reset(s.residents.limits.Stall)
		}
		in.Free()
		if err != nil {
			return u, err
		}
	}
}

// receivePiece does what is to be done with one message. The first one, for which u is nil, begins the upload.
func (s *Service) receivePiece(ctx context.Context, dev device.Lease, u *upload, req *pb.UploadFrameRequest,
	in *framecodec.Message) (*upload, error) {
	if err := s.host.Validate(ctx, in); err != nil {
		return u, err
	}
	m := req.GetFrame()
	switch m.GetSource().(type) {
	case nil, *pb.Frame_Data:
	default:
		return u, apierr.Refuse("frame.source", nil, "must be data: pixels come in pieces")
	}
	if e := m.GetEncoding(); e != pb.Encoding_ENCODING_UNSPECIFIED && e != pb.Encoding_ENCODING_RAW {
		return u, apierr.Refuse("frame.encoding", frames.EncodingName(e), "must be RAW: PutFrame takes image files")
	}
	if u == nil {
		idle, err := s.residents.idleTimeout(req.GetIdleTimeout(), "idle_timeout")
		if err != nil {
			return nil, err
		}
		f, err := s.frames.Raw(m.GetLayout(), nil, "frame")
		if err != nil {
			return nil, err
		}
		if u, err = s.residents.begin(auth.FromContext(ctx), dev.Device, f, m.GetFrameId(), idle); err != nil {
			return nil, wire.Paths{Frame: "frame"}.Translate(err)
		}
		s.metrics.Frames.WithLabelValues("raw").Inc()
	} else {
		switch {
		case m.GetLayout() != nil:
			return u, apierr.Refuse("frame.layout", nil, "came a second time")
		case m.GetFrameId() != "":
			return u, apierr.Refuse("frame.frame_id", strconv.Quote(m.GetFrameId()), "belongs in the first message")
		case req.GetIdleTimeout() != nil:
			return u, apierr.Refuse("idle_timeout", req.GetIdleTimeout().AsDuration(), "belongs in the first message")
		}
	}
	return u, u.write(ctx, in.Pieces(nil))
}

// GetFrame implements pb.FrameServiceServer.
func (s *Service) GetFrame(ctx context.Context, req *pb.GetFrameRequest) (*pb.GetFrameResponse, error) {
	f, err := s.residents.get(auth.FromContext(ctx), req.GetName(), req.GetTouch())
	if err != nil {
		return nil, err
	}
	return &pb.GetFrameResponse{Frame: f}, nil
}

// ListFrames implements pb.FrameServiceServer.
func (s *Service) ListFrames(ctx context.Context, req *pb.ListFramesRequest) (*pb.ListFramesResponse, error) {
	// The token is the last name of a page. A frame that has gone since is no error.
	after, err := base64.RawURLEncoding.DecodeString(req.GetPageToken())
	if err != nil {
		return nil, apierr.Refuse("page_token", strconv.Quote(req.GetPageToken()), "is no page token of this server")
	}
	page, more := s.residents.list(auth.FromContext(ctx), string(after), wire.PageSize(req.GetPageSize()))
	res := &pb.ListFramesResponse{Frames: page}
	if more {
		res.NextPageToken = base64.RawURLEncoding.EncodeToString([]byte(page[len(page)-1].GetName()))
	}
	return res, nil
}

// ReleaseFrame implements pb.FrameServiceServer.
func (s *Service) ReleaseFrame(ctx context.Context, req *pb.ReleaseFrameRequest) (*pb.ReleaseFrameResponse, error) {
	if err := s.residents.Release(auth.FromContext(ctx), req.GetName()); err != nil {
		return nil, err
	}
	return &pb.ReleaseFrameResponse{}, nil
}
