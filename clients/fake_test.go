package clients

// A server of scripted answers, to see what the library does with each of them.

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

type fake struct {
	polyscanv1.UnimplementedInspectionServiceServer
	polyscanv1.UnimplementedRecipeServiceServer
	polyscanv1.UnimplementedDeviceServiceServer
	polyscanv1.UnimplementedLowPolyServiceServer
	polyscanv1.UnimplementedDiffusionServiceServer

	reduce func(context.Context, *polyscanv1.ReduceRequest) (*polyscanv1.ReduceResponse, error)
	list   func(*polyscanv1.ListRecipesRequest) (*polyscanv1.ListRecipesResponse, error)

	// answer makes the response to a frame of a stream; an error ends the stream.
	pose     func(*polyscanv1.Pose) // told of those of frames
	answer   func(seq uint64, f *polyscanv1.Frame) (*polyscanv1.StreamFramesResponse, error)
	open     func(*polyscanv1.Inspection) error
	received atomic.Int64  // frames of streams
	hold     chan struct{} // if set, each answer waits for an element

	// convert makes the response to a frame of a video; an error ends the stream.
	convert func(seq uint64, f *polyscanv1.Frame) (*polyscanv1.ConvertFramesResponse, error)
	opened  *polyscanv1.ConvertFramesOpen

	// pictures makes the responses to a request; an error ends the call.
	pictures func(*polyscanv1.SolveRequest, func(*polyscanv1.SolveProgressivelyResponse) error) error
	// edit makes the response to a message of a canvas; an error ends the call.
	edit func(*polyscanv1.EditRequest) (*polyscanv1.EditResponse, error)

	monitor watched
}

func (f *fake) Reduce(ctx context.Context, req *polyscanv1.ReduceRequest) (*polyscanv1.ReduceResponse, error) {
	return f.reduce(ctx, req)
}

func (f *fake) ListRecipes(_ context.Context, req *polyscanv1.ListRecipesRequest) (*polyscanv1.ListRecipesResponse,
	error) {
	return f.list(req)
}

func (f *fake) GetDevice(ctx context.Context, _ *polyscanv1.GetDeviceRequest) (*polyscanv1.GetDeviceResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	auth := md.Get("authorization")
	if len(auth) != 1 {
		return nil, status.Error(codes.Unauthenticated, "no token")
	}
	return &polyscanv1.GetDeviceResponse{DeviceName: auth[0]}, nil
}

func (f *fake) StreamFrames(s polyscanv1.InspectionService_StreamFramesServer) error {
	first, err := s.Recv()
	if err != nil {
		return err
	}
	if f.open != nil {
		if err := f.open(first.GetOpen()); err != nil {
			return err
		}
	}
	queue := make(chan *polyscanv1.Frame, 1024)
	fail := make(chan error, 1)
	go func() {
		defer close(queue)
		for {
			m, err := s.Recv()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					fail <- err
				}
				return
			}
			f.received.Add(1)
			if f.pose != nil {
				f.pose(m.GetPose())
			}
			queue <- m.GetFrame()
		}
	}()
	seq := uint64(0)
	for frame := range queue {
		if f.hold != nil {
			select {
			case <-f.hold:
			case <-s.Context().Done():
				return s.Context().Err()
			}
		}
		res, err := f.answer(seq, frame)
		if err != nil {
			return err
		}
		if err := s.Send(res); err != nil {
			return err
		}
		seq++
	}
	select {
	case err := <-fail:
		return err
	default:
		return nil
	}
}

// plainAnswer counts the bytes of the frame.
func plainAnswer(seq uint64, f *polyscanv1.Frame) (*polyscanv1.StreamFramesResponse, error) {
	sum := uint64(0)
	for _, b := range f.GetData() {
		sum += uint64(b)
	}
	return &polyscanv1.StreamFramesResponse{Sequence: seq, Outcome: &polyscanv1.StreamFramesResponse_Result{
		Result: &polyscanv1.FrameResult{FrameId: f.GetFrameId(), Regions: []*polyscanv1.RegionResult{{Count: sum}}},
	}}, nil
}

// serve starts the fake on a Unix socket, and returns its target.
func serve(t *testing.T, f *fake, opts ...grpc.ServerOption) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(append(opts, grpc.MaxRecvMsgSize(64<<20))...)
	polyscanv1.RegisterInspectionServiceServer(s, f)
	polyscanv1.RegisterRecipeServiceServer(s, f)
	polyscanv1.RegisterDeviceServiceServer(s, f)
	polyscanv1.RegisterLowPolyServiceServer(s, f)
	polyscanv1.RegisterDiffusionServiceServer(s, f)
	polyscanv1.RegisterMonitorServiceServer(s, &f.monitor)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return "unix:" + path
}

// dial makes a client of the fake.
func dial(t *testing.T, f *fake, opts ...Option) *Client {
	t.Helper()
	c, err := Dial(serve(t, f), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}
