package main

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// fakeFrames keeps frames, and reduces none.
type fakeFrames struct {
	polyscanv1.UnimplementedFrameServiceServer
	polyscanv1.UnimplementedInspectionServiceServer
}

func (fakeFrames) PutFrame(context.Context, *polyscanv1.PutFrameRequest) (*polyscanv1.PutFrameResponse, error) {
	return &polyscanv1.PutFrameResponse{Frame: &polyscanv1.ResidentFrame{Name: "kept"}}, nil
}

func (fakeFrames) Reduce(context.Context, *polyscanv1.ReduceRequest) (*polyscanv1.ReduceResponse, error) {
	return nil, status.Error(codes.Internal, "the device computes nothing")
}

// TestBatchErrors: what ends the jobs beside the cameras is told once, however many end for it, with the flag that
// asked for them.
func TestBatchErrors(t *testing.T) {
	_, err := runBatch(t.Context(), &target{addr: serveFake(t, nil)}, 4, 1)
	if err == nil || !strings.HasPrefix(err.Error(), "--batch-load: the server takes no frame for the jobs: ") {
		t.Errorf("%v", err)
	}
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.MaxRecvMsgSize(64 << 20))
	polyscanv1.RegisterFrameServiceServer(s, fakeFrames{})
	polyscanv1.RegisterInspectionServiceServer(s, fakeFrames{})
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	defer func() { s.Stop(); <-done }()
	_, err = runBatch(t.Context(), &target{addr: "unix:" + path}, 4, 1)
	const want = "--batch-load: 4 of 4 jobs ended early: INTERNAL: the device computes nothing"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
}
