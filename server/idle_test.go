package server

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/clients"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// quietStream is a stream whose client says what is in say, and nothing more. Where heard is nil it reads nothing.
type quietStream struct {
	grpc.ServerStream
	ctx   context.Context
	codec wire.Codec
	say   chan proto.Message
	heard chan []byte
}

func (s *quietStream) Context() context.Context     { return s.ctx }
func (s *quietStream) SetHeader(metadata.MD) error  { return nil }
func (s *quietStream) SendHeader(metadata.MD) error { return nil }
func (s *quietStream) SetTrailer(metadata.MD)       {}

func (s *quietStream) RecvMsg(v any) error {
	select {
	case m, ok := <-s.say:
		if !ok {
			return io.EOF
		}
		b, err := proto.Marshal(m)
		if err != nil {
			return err
		}
		return s.codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, v)
	case <-s.ctx.Done():
		return status.FromContextError(s.ctx.Err()).Err()
	}
}

func (s *quietStream) SendMsg(v any) error {
	b, err := s.codec.Marshal(v)
	if err != nil {
		return err
	}
	defer b.Free()
	if s.heard == nil {
		<-s.ctx.Done()
		return status.FromContextError(s.ctx.Err()).Err()
	}
	s.heard <- b.Materialize()
	return nil
}

func (ts *testServer) quiet(ctx context.Context, say ...proto.Message) *quietStream {
	s := &quietStream{ctx: ctx, codec: ts.codec, say: make(chan proto.Message, 10)}
	for _, m := range say {
		s.say <- m
	}
	return s
}

// A canvas whose client says nothing more is closed, and leaves nothing.
func TestEditIdle(t *testing.T) {
	ts := start(t, Config{StreamIdleTimeout: time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream := ts.quiet(ctx, &pb.EditRequest{Message: &pb.EditRequest_Open{Open: canvasOf(wall("a", 10, 200, 50))}})
	stream.heard = make(chan []byte, 10)
	err := ts.diffusion.HandleEdit(stream)
	if d := detailsOf(t, apierr.StatusOf(ctx, ts.log, err).Err()); d.status.Code() != codes.Aborted ||
		d.info.GetReason() != apierr.ReasonStreamIdle || !strings.Contains(err.Error(), "nothing came for 1ms") {
		t.Errorf("%v", err)
	}
	m := &pb.EditResponse{}
	if err := proto.Unmarshal(<-stream.heard, m); err != nil || m.GetResult() == nil {
		t.Errorf("before that: %v, %v", m, err)
	}
	cancel()
	ts.background.Wait()
	wantEditFree(t, ts)
	if ts.dev.Leases() != 0 || metric(t, ts, "polyscan_stream_timeouts_total", "reason", "idle") != 1 {
		t.Errorf("%d leases of the device, %v timeouts", ts.dev.Leases(),
			metric(t, ts, "polyscan_stream_timeouts_total", "reason", "idle"))
	}
}

// What a video keeps goes back when no frame comes for a while. The call stays, and the next frame is one that begins
// anew.
func TestConvertFramesIdle(t *testing.T) {
	ts := start(t, Config{StreamIdleTimeout: time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream := ts.quiet(ctx,
		&pb.ConvertFramesRequest{Message: &pb.ConvertFramesRequest_Open{Open: &pb.ConvertFramesOpen{}}})
	stream.heard = make(chan []byte, 10)
	ended := make(chan error, 1)
	go func() { ended <- ts.lowPoly.HandleConvertFrames(stream) }()
	leases := func() int {
		return ts.dev.Leases()
	}
	for i, f := range film(3, 60, 40, 6) {
		want, err := clients.New(ts.conn).Convert(t.Context(), &pb.ConvertRequest{Frame: f})
		if err != nil {
			t.Fatal(err)
		}
		stream.say <- &pb.ConvertFramesRequest{Message: &pb.ConvertFramesRequest_Frame{Frame: f}}
		m := &pb.ConvertFramesResponse{}
		if err := proto.Unmarshal(<-stream.heard, m); err != nil ||
			!bytes.Equal(m.GetResult().GetPicture().GetData(), want.GetPicture().GetData()) {
			t.Errorf("frame %d is not converted by itself: %v", i, m.GetError())
		}
		waitFor(t, "the video to go", func() bool { return leases() == 0 })
		if used := ts.dev.Memory().Used; used != 0 {
			t.Errorf("%d bytes of the device are in use", used)
		}
	}
	if n := metric(t, ts, "polyscan_stream_timeouts_total", "reason", "idle"); n != 3 {
		t.Errorf("%v timeouts", n)
	}
	close(stream.say)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	ts.background.Wait()
	wantEditFree(t, ts)
}

// Clients that don't read are cut off, whatever they called, and what was held for them comes back.
func TestUnreadStreams(t *testing.T) {
	drawing := canvasOf(wall("a", 10, 200, 50))
	frame := film(1, 640, 480, 1)[0]
	for name, x := range map[string]struct {
		say  []proto.Message
		call func(*Server, grpc.ServerStream) error
	}{
		"Edit": {
			[]proto.Message{&pb.EditRequest{Message: &pb.EditRequest_Open{Open: drawing}}},
			func(s *Server, stream grpc.ServerStream) error { return s.diffusion.HandleEdit(stream) },
		},
		"SolveProgressively": {
			[]proto.Message{&pb.SolveProgressivelyRequest{Request: drawing}},
			func(s *Server, stream grpc.ServerStream) error {
				return s.diffusion.HandleSolveProgressively(stream)
			},
		},
		"Triangulate": {
			[]proto.Message{&pb.TriangulateRequest{Points: make([]byte, 8*100_000)}},
			func(s *Server, stream grpc.ServerStream) error {
				return s.lowPoly.Triangulate(&grpc.GenericServerStream[pb.TriangulateRequest,
					pb.TriangulateResponse]{ServerStream: stream})
			},
		},
		"ConvertFrames": {
			[]proto.Message{
				&pb.ConvertFramesRequest{Message: &pb.ConvertFramesRequest_Open{Open: &pb.ConvertFramesOpen{Encoding: pb.Encoding_ENCODING_PNG}}},
				&pb.ConvertFramesRequest{Message: &pb.ConvertFramesRequest_Frame{Frame: frame}},
				&pb.ConvertFramesRequest{Message: &pb.ConvertFramesRequest_Frame{Frame: frame}},
			},
			func(s *Server, stream grpc.ServerStream) error {
				return s.lowPoly.HandleConvertFrames(stream)
			},
		},
		"StreamFrames": {
			[]proto.Message{
				&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Open{Open: inspecting(rect("r", 0, 0, 2, 1))}},
				&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Frame{Frame: frame}},
			},
			func(s *Server, stream grpc.ServerStream) error {
				return s.inspector.HandleStreamFrames(stream)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ts := start(t, Config{StreamIdleTimeout: 20 * time.Millisecond})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stream := ts.quiet(ctx, x.say...)
			if name == "Triangulate" {
				close(stream.say)
			}
			err := ts.callStream("/polyscan.v1/"+name, stream,
				func(ss grpc.ServerStream) error { return x.call(ts.Server, ss) })
			if d := detailsOf(t, err); d.status.Code() != codes.ResourceExhausted ||
				d.info.GetReason() != apierr.ReasonSlowConsumer || d.quota == nil {
				t.Errorf("%v", err)
			}
			cancel() // as the transport does when the handler has returned
			ts.background.Wait()
			wantEditFree(t, ts)
			if n := metric(t, ts, "polyscan_stream_timeouts_total", "reason", "unread"); n != 1 || ts.dev.Leases() != 0 {
				t.Errorf("%v timeouts, %d leases of the device", n, ts.dev.Leases())
			}
		})
	}
}
