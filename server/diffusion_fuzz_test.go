package server

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/polyscan/polyscan/proto/framecodec"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// Whatever a request has, its answer is a picture of that size or a canonical error, and takes no memory for good.
func FuzzSolve(f *testing.F) {
	for _, m := range []*pb.SolveRequest{
		{Drawing: drawing(6, &pb.ColorStop{Red: 200, Green: 10})},
		{Drawing: drawing(6, &pb.ColorStop{Red: 200}, &pb.ColorStop{At: 1, Blue: 9}), Edges: make([]byte, 108),
			Encoding: pb.Encoding_ENCODING_PNG},
		{Drawing: &pb.Drawing{Width: 3, Height: 2, Pixels: []*pb.GivenPixel{{X: 1, Red: 4}}},
			Options: &pb.DiffusionOptions{Method: 3, MaxCycles: 2}},
		{Frame: fourPixels()},
	} {
		if len(m.GetDrawing().GetCurves()) > 0 {
			m.Drawing.Curves[0].Blur = []*pb.BlurStop{{Sigma: 3}}
		}
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	s := start(f, fuzzConfig)
	srv, interceptor := s.diffusion, chain(s.unaryInterceptors())
	info := &grpc.UnaryServerInfo{Server: srv, FullMethod: pb.DiffusionService_Solve_FullMethodName}
	f.Fuzz(func(t *testing.T, wire []byte) {
		req := &pb.SolveRequest{}
		if proto.Unmarshal(wire, req) != nil {
			return
		}
		if d := req.GetDrawing(); uint64(d.GetWidth())*uint64(d.GetHeight()) > 1<<16 && d.GetWidth() <= 1<<20 &&
			d.GetHeight() <= 1<<20 {
			return // large, which only takes long
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		res, err := interceptor(ctx, req, info,
			func(ctx context.Context, req any) (any, error) {
				return whole[pb.SolveResponse](srv.HandleSolve(ctx, req.(*pb.SolveRequest), framecodec.New(req.(*pb.SolveRequest))))
			})
		switch {
		case err != nil:
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				t.Errorf("it took 20 seconds: %v", err)
			}
			wantCanonical(t, err)
		default:
			p := res.(*pb.SolveResponse).GetPicture()
			if n := 3 * int(p.GetLayout().GetWidth()) * int(p.GetLayout().GetHeight()); p.GetEncoding() == pb.Encoding_ENCODING_RAW &&
				len(p.GetData()) != n {
				t.Errorf("%d bytes of pixels, want %d", len(p.GetData()), n)
			}
		}
		if s.taken() > 1<<20 {
			t.Errorf("memory of the device in use: %v", s.dev.Memory())
		}
	})
}
