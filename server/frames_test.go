package server

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// frameClient is a client of FrameService.
type frameClient struct{ pb.FrameServiceClient }

func (ts *testServer) frameClient() frameClient {
	return frameClient{pb.NewFrameServiceClient(ts.conn)}
}

func (c frameClient) put(t testing.TB, f *pb.Frame) *pb.ResidentFrame {
	t.Helper()
	res, err := c.PutFrame(t.Context(), &pb.PutFrameRequest{Frame: f})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetFrame()
}

func (c frameClient) release(t testing.TB, name string) {
	t.Helper()
	if _, err := c.ReleaseFrame(t.Context(), &pb.ReleaseFrameRequest{Name: name}); err != nil {
		t.Errorf("release: %v", err)
	}
}

// list returns all frames, page by page.
func (c frameClient) list(t testing.TB) (all []*pb.ResidentFrame) {
	t.Helper()
	for req := (&pb.ListFramesRequest{PageSize: 2}); ; {
		res, err := c.ListFrames(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, res.GetFrames()...)
		if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
			return all
		}
	}
}

// upload sends a frame of raw pixels in pieces, and returns its name.
func (c frameClient) upload(ctx context.Context, f *pb.Frame, piece int) (string, error) {
	stream, err := c.UploadFrame(ctx)
	if err != nil {
		return "", err
	}
	data := f.GetData()
	m := &pb.UploadFrameRequest{Frame: &pb.Frame{Layout: f.GetLayout(), FrameId: f.GetFrameId(), Encoding: pb.Encoding_ENCODING_RAW}}
	for {
		n := min(piece, len(data))
		m.Frame.Source = &pb.Frame_Data{Data: data[:n]}
		if err := stream.Send(m); err != nil {
			if !errors.Is(err, io.EOF) { // else CloseAndRecv has the reason
				return "", err
			}
			break
		}
		if data = data[n:]; len(data) == 0 {
			break
		}
		m = &pb.UploadFrameRequest{Frame: &pb.Frame{}}
	}
	res, err := stream.CloseAndRecv()
	return res.GetFrame().GetName(), err
}

// keptFrame names a frame that is kept.
func keptFrame(name string) *pb.Frame {
	return &pb.Frame{Source: &pb.Frame_Resident{Resident: name}}
}

// noisyFrame has random pixels.
func noisyFrame(w, h int, seed uint64) *pb.Frame {
	rng := rand.New(rand.NewPCG(seed, 0))
	data := make([]byte, w*h)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	return rawFrame(w, h, gray8, data)
}
