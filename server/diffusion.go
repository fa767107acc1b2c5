// DiffusionService.

package server

import (
	"context"
	"errors"
	"image"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/polyscan/polyscan/diffusion"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
	"github.com/polyscan/polyscan/polygon"
	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// diffusionServer implements pb.DiffusionServiceServer for callers inside the process. Over a connection, diffusionDesc leads to
// solve, which takes messages whose frames are still in the transport's buffers.
type diffusionServer struct {
	pb.UnimplementedDiffusionServiceServer
	*Server
}

// diffusionDesc is the generated description of the service with a handler that doesn't copy frames.
func diffusionDesc() *grpc.ServiceDesc {
	return withHandlers(pb.DiffusionService_ServiceDesc, map[string]grpc.MethodHandler{
		"Solve": frameHandler(pb.DiffusionService_Solve_FullMethodName, (*diffusionServer).solve),
	}, nil)
}

// Solve implements pb.DiffusionServiceServer, for callers inside the process.
func (s *diffusionServer) Solve(ctx context.Context, req *pb.SolveRequest) (*pb.SolveResponse, error) {
	res, err := s.solve(ctx, req, framecodec.New(req))
	if err != nil {
		return nil, err
	}
	res.release()
	out := res.Message.(*framecodec.Message)
	m := out.Message.(*pb.SolveResponse)
	m.Picture.Source = &pb.Frame_Data{Data: slices.Concat(out.Pieces(nil)...)}
	return m, nil
}

// solveChannels are those of the colours that are solved for.
const solveChannels = 3

// solvePixelShare is the host memory that a pixel takes, in bytes: its flags, what is given and what comes out, and the picture twice.
const solvePixelShare = 1 + 2*4*solveChannels + 2*4

func (s *diffusionServer) solve(ctx context.Context, req *pb.SolveRequest, in *framecodec.Message) (*response, error) {
	if name := req.GetFrame().GetResident(); name != "" {
		return nil, refuse("frame.resident", name, "must be no resident frame: pixels come with the request")
	}
	dev, err := s.dev.acquire()
	if err != nil {
		return nil, err
	}
	defer dev.end()
	f, err := s.newFrame(ctx, req.GetFrame(), in.Pieces(nil), "frame")
	if err != nil {
		return nil, err
	}
	defer f.release()
	if err := s.checkSolvable(f.Frame); err != nil {
		return nil, err
	}
	release, err := s.host.take(ctx, solvePixelShare*int64(f.Width)*int64(f.Height))
	if err != nil {
		return nil, err
	}
	p := problemOf(f.Frame)
	in.Free()
	o := req.GetOptions()
	if m := o.GetMethod(); m != pb.DiffusionMethod_DIFFUSION_METHOD_UNSPECIFIED {
		p.Method = diffusion.Method(m - pb.DiffusionMethod_DIFFUSION_METHOD_MULTIGRID)
	}
	opts := &diffusion.Options{Tolerance: o.GetTolerance() / 255, MaxCycles: int(o.GetMaxCycles())}
	sol, err := diffusion.Solve(kernels.WithClass(ctx, classOf(req.GetWorkClass())), dev.Device, p, opts)
	if err != nil {
		release()
		return nil, solveError(err)
	}
	s.metrics.stage("queue", sol.Queue)
	s.metrics.stage("compute", sol.Compute)
	res := &response{start: time.Now(), release: release}
	m := &pb.SolveResponse{
		Backend: sol.Backend, Decode: durationpb.New(f.decode), Queue: durationpb.New(sol.Queue), Compute: durationpb.New(sol.Compute),
		Cycles: uint32(sol.Cycles), Converged: sol.Converged, Estimate: 255 * sol.Estimate, Residual: 255 * sol.Residual,
		GivenPixels: uint64(sol.FixedPixels),
		Picture: &pb.Frame{
			FrameId: f.id, Encoding: pb.Encoding_ENCODING_RAW,
			Layout: layoutOf(polygon.Frame{Width: f.Width, Height: f.Height, Format: driver.RGB8}),
		},
	}
	var pixels []byte
	if req.GetEncoding() == pb.Encoding_ENCODING_PNG {
		m.Picture.Encoding = pb.Encoding_ENCODING_PNG
		im := &image.NRGBA{Pix: solvedPixels(sol.Values, 4), Stride: 4 * f.Width, Rect: image.Rect(0, 0, f.Width, f.Height)}
		if pixels, err = pngFile(im); err != nil {
			release()
			return nil, err
		}
	} else {
		pixels = solvedPixels(sol.Values, 3)
	}
	out := framecodec.New(m)
	out.SetPayload(mem.BufferSlice{mem.SliceBuffer(pixels)})
	res.Message = out
	return res, nil
}

// checkSolvable checks a frame whose pixels are not read yet.
func (s *Server) checkSolvable(f polygon.Frame) error {
	if f.Format != driver.RGBA8 {
		return refuse("frame.layout.pixel_format", f.Format, "must be RGBA8: alpha says which pixels are given")
	}
	size := [2]int{f.Width, f.Height}
	if f.Width < 1 || f.Height < 1 {
		return refuse("frame.layout", size, "has no pixels")
	}
	row, stride, have := 4*f.Width, f.Stride, 0
	if stride == 0 {
		stride = row
	}
	for _, p := range f.Data {
		have += len(p)
	}
	switch need := stride*(f.Height-1) + row; {
	case stride < row:
		return refuse("frame.layout.stride", stride, "is less than a row of %d bytes", row)
	case have < need || have > stride*f.Height:
		return refuse("frame.data", have, "must be %d bytes for %d x %d pixels, %d bytes from row to row", stride*f.Height, f.Width, f.Height, stride)
	}
	if limit := s.cfg.MaxMessageBytes; int64(solveChannels)*int64(f.Width)*int64(f.Height) > limit {
		return refuse("frame", size, "makes a picture of %d bytes: the limit is %d", solveChannels*f.Width*f.Height, limit)
	}
	return nil
}

// problemOf reads a frame, each byte once.
func problemOf(f polygon.Frame) *diffusion.Problem {
	n := f.Width * f.Height
	p := &diffusion.Problem{
		Constraints: diffusion.Constraints{Width: f.Width, Height: f.Height, Flags: make([]uint8, n)},
		Channels:    solveChannels, Values: make([]float32, solveChannels*n),
	}
	stride := f.Stride
	if stride == 0 {
		stride = 4 * f.Width
	}
	at := 0
	for _, piece := range f.Data {
		for _, b := range piece {
			if column := at % stride; column < 4*f.Width {
				i := at/stride*f.Width + column/4
				if c := column % 4; c < solveChannels {
					p.Values[c*n+i] = float32(b) / 255
				} else if b == 255 {
					p.Flags[i] = diffusion.Fixed
				}
			}
			at++
		}
	}
	return p
}

// solvedPixels rounds planes of values to pixels of 3 or, with alpha, 4 bytes.
func solvedPixels(values []float32, size int) []byte {
	n := len(values) / solveChannels
	out := make([]byte, size*n)
	for i := range n {
		for c := range solveChannels {
			out[size*i+c] = uint8(min(max(255*values[c*n+i]+0.5, 0), 255))
		}
		if size == 4 {
			out[size*i+3] = 255
		}
	}
	return out
}

// solveError turns an *InvalidError into a *fieldError and leaves other errors alone.
func solveError(err error) error {
	var invalid *diffusion.InvalidError
	if !errors.As(err, &invalid) {
		return err
	}
	switch invalid.Field {
	case "tolerance", "method":
		return refuse("options."+invalid.Field, invalid.Value, "%s", invalid.Problem)
	case "flags":
		return refuse("frame.data", "no pixel of alpha 255", "at least one must be given")
	}
	return refuse("frame", invalid.Value, "%s", invalid.Problem)
}
