// FrameService.

package server

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/device"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// frameServer implements pb.FrameServiceServer for callers inside the process. Over a connection, frameDesc leads to
// the methods below, which take messages whose frames are still in the transport's buffers.
type frameServer struct {
	pb.UnimplementedFrameServiceServer
	*Server
}

// frameDesc is the generated description of the service with handlers that don't copy frames.
func frameDesc() *grpc.ServiceDesc {
	return wire.WithHandlers(pb.FrameService_ServiceDesc, map[string]grpc.MethodHandler{
		"PutFrame": wire.FrameHandler(pb.FrameService_PutFrame_FullMethodName, (*frameServer).putFrame),
	}, map[string]grpc.StreamHandler{
		"UploadFrame": func(srv any, stream grpc.ServerStream) error { return srv.(*frameServer).uploadFrame(stream) },
	})
}

// PutFrame implements pb.FrameServiceServer.
func (s *frameServer) PutFrame(ctx context.Context, req *pb.PutFrameRequest) (*pb.PutFrameResponse, error) {
	return s.putFrame(ctx, req, framecodec.New(req))
}

// putFrame keeps one frame, whose payload is in's.
func (s *frameServer) putFrame(ctx context.Context, req *pb.PutFrameRequest,
	in *framecodec.Message) (*pb.PutFrameResponse, error) {
	if _, ok := req.GetFrame().GetSource().(*pb.Frame_Resident); ok {
		return nil, apierr.Refuse("frame.resident", nil, "is kept already")
	}
	idle, err := s.idleTimeout(req.GetIdleTimeout(), "idle_timeout")
	if err != nil {
		return nil, err
	}
	dev, err := s.dev.Acquire()
	if err != nil {
		return nil, err
	}
	defer dev.End()
	f, err := s.newFrame(ctx, req.GetFrame(), in.Pieces(nil), "frame")
	if err != nil {
		return nil, err
	}
	defer f.release()
	p := wire.Paths{Frame: "frame"}
	if err := f.Check("frame"); err != nil {
		return nil, p.Translate(err)
	}
	u, err := s.frames.begin(dev.Device, f.Picture, f.id, idle)
	if err != nil {
		return nil, p.Translate(err)
	}
	if err := u.write(ctx, f.Data); err != nil {
		u.abort()
		return nil, err
	}
	kept, err := s.keep(ctx, u)
	if err != nil {
		return nil, err
	}
	return &pb.PutFrameResponse{Frame: kept}, nil
}

// keep ends an upload whose pixels have come. A frame that nobody will learn the name of isn't kept.
func (s *frameServer) keep(ctx context.Context, u *upload) (*pb.ResidentFrame, error) {
	err := u.complete(ctx)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		u.abort()
		return nil, err
	}
	return u.keep(), nil
}

// idleTimeout is the one asked for, or the default.
func (s *Server) idleTimeout(d *durationpb.Duration, field string) (time.Duration, error) {
	if d == nil {
		return s.frames.limits.idle, nil
	}
	if err := d.CheckValid(); err != nil {
		return 0, apierr.Refuse(field, nil, "is no duration")
	}
	t := d.AsDuration()
	if most := s.frames.limits.maxIdle; t <= 0 || t > most {
		return 0, apierr.Refuse(field, t, "must be more than 0s and at most %v", most)
	}
	return t, nil
}

// UploadFrame implements pb.FrameServiceServer.
func (s *frameServer) UploadFrame(stream grpc.ClientStreamingServer[pb.UploadFrameRequest,
	pb.UploadFrameResponse]) error {
	return s.uploadFrame(stream)
}

// uploaded is what a stream of pieces comes to.
type uploaded struct {
	u   *upload // nil with err
	err error
}

// uploadFrame is the handler. Another goroutine receives, because only that way can the stream end while the client is
// silent.
func (s *frameServer) uploadFrame(stream grpc.ServerStream) error {
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	dev, err := s.dev.Acquire()
	if err != nil {
		return err
	}
	stall := time.AfterFunc(s.frames.limits.stall, func() { cancel(apierr.ErrStalled) })
	defer stall.Stop()
	done := make(chan uploaded, 1)
	s.background.Add(1)
	go func() {
		defer s.background.Done()
		u, err := s.receiveUpload(ctx, dev, stream, stall)
		done <- uploaded{u, err}
	}()
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
			_ = s.frames.release(kept.GetName()) // nobody has learnt the name
			return err
		}
		return nil
	case <-s.draining:
		err = apierr.ErrShuttingDown
	case <-dev.Lost():
		err = device.ErrLost
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	cancel(err)
	s.background.Go(func() { // the receiver notices that the handler has left
		if r := <-done; r.u != nil {
			r.u.abort()
		}
		dev.End()
	})
	return err
}

// receiveUpload receives a frame in pieces, each of which is on the device before the next is asked for.
func (s *frameServer) receiveUpload(ctx context.Context, dev device.Lease, stream grpc.ServerStream,
	stall *time.Timer) (u *upload, err error) {
	defer func() {
		if p := recover(); p != nil { // nobody else would: this is a goroutine of its own
			err = s.panicked(ctx, p)
		}
		if err != nil && u != nil {
			u.abort()
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
			stall.Reset(s.frames.limits.stall)
		}
		in.Free()
		if err != nil {
			return u, err
		}
	}
}

// receivePiece does what is to be done with one message. The first one, for which u is nil, begins the upload.
func (s *frameServer) receivePiece(ctx context.Context, dev device.Lease, u *upload, req *pb.UploadFrameRequest,
	in *framecodec.Message) (*upload, error) {
	if err := s.validate(in); err != nil {
		return u, err
	}
	m := req.GetFrame()
	switch m.GetSource().(type) {
	case nil, *pb.Frame_Data:
	default:
		return u, apierr.Refuse("frame.source", nil, "must be data: pixels come in pieces")
	}
	if e := m.GetEncoding(); e != pb.Encoding_ENCODING_UNSPECIFIED && e != pb.Encoding_ENCODING_RAW {
		return u, apierr.Refuse("frame.encoding", encodingName(e), "must be RAW: PutFrame takes image files")
	}
	if u == nil {
		idle, err := s.idleTimeout(req.GetIdleTimeout(), "idle_timeout")
		if err != nil {
			return nil, err
		}
		f, err := s.rawFrame(m.GetLayout(), nil, "frame")
		if err != nil {
			return nil, err
		}
		if u, err = s.frames.begin(dev.Device, f, m.GetFrameId(), idle); err != nil {
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
func (s *frameServer) GetFrame(_ context.Context, req *pb.GetFrameRequest) (*pb.GetFrameResponse, error) {
	f, err := s.frames.get(req.GetName(), req.GetTouch())
	if err != nil {
		return nil, err
	}
	return &pb.GetFrameResponse{Frame: f}, nil
}

// ListFrames implements pb.FrameServiceServer.
func (s *frameServer) ListFrames(_ context.Context, req *pb.ListFramesRequest) (*pb.ListFramesResponse, error) {
	size := int(req.GetPageSize())
	if size == 0 {
		size = defaultPageSize
	}
	// The token is the last name of a page. A frame that has gone since is no error.
	after, err := base64.RawURLEncoding.DecodeString(req.GetPageToken())
	if err != nil {
		return nil, apierr.Refuse("page_token", strconv.Quote(req.GetPageToken()), "is no page token of this server")
	}
	page, more := s.frames.list(string(after), min(size, maxPageSize))
	res := &pb.ListFramesResponse{Frames: page}
	if more {
		res.NextPageToken = base64.RawURLEncoding.EncodeToString([]byte(page[len(page)-1].GetName()))
	}
	return res, nil
}

// ReleaseFrame implements pb.FrameServiceServer.
func (s *frameServer) ReleaseFrame(_ context.Context, req *pb.ReleaseFrameRequest) (*pb.ReleaseFrameResponse, error) {
	if err := s.frames.release(req.GetName()); err != nil {
		return nil, err
	}
	return &pb.ReleaseFrameResponse{}, nil
}

// residentFrame is the frame that m names. The caller holds a lease of the device until it has released the frame.
func (s *Server) residentFrame(m *pb.Frame, path string) (*frame, error) {
	switch {
	case m.GetLayout() != nil:
		return nil, apierr.Refuse(path+".layout", nil, "must not be given with resident: the frame has one")
	case m.GetEncoding() != pb.Encoding_ENCODING_UNSPECIFIED:
		return nil, apierr.Refuse(path+".encoding", encodingName(m.GetEncoding()), "must not be given with resident")
	}
	f, id, release, err := s.frames.use(m.GetResident())
	if err != nil {
		return nil, err
	}
	if m.GetFrameId() != "" {
		id = m.GetFrameId()
	}
	s.metrics.Frames.WithLabelValues("resident").Inc()
	return &frame{Picture: f, id: id, release: release}, nil
}
