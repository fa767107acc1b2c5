// DiffusionService.

package diffuse

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/polyscan/polyscan/diffusion"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/polygon"
	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/budget"
	"github.com/polyscan/polyscan/server/internal/device"
	"github.com/polyscan/polyscan/server/internal/frames"
	"github.com/polyscan/polyscan/server/internal/observe"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// Host is what the service needs of the server.
type Host interface {
	wire.Host
	// Status is what a client gets for an error.
	Status(ctx context.Context, err error) *status.Status
	// Place makes room on a device for a picture that is to be kept there for the caller of ctx, for so long without use;
	// field is where idle lies in the request.
	Place(ctx context.Context, dev *kernels.Device, f kernels.Picture, id string, idle *durationpb.Duration,
		field string) (KeptPicture, error)
}

// KeptPicture is a picture that is to stay on the device. It ends with Keep or Abort.
type KeptPicture interface {
	// Buffer is where its pixels go. Filled says that they are there.
	Buffer() kernels.Buffer[byte]
	Filled()
	// Complete checks that all is there, and makes a copy in host memory where there is to be one.
	Complete(ctx context.Context) error
	Keep() *pb.ResidentFrame
	Abort()
}

// Config is what the service works with. All of it must be set.
type Config struct {
	Host            Host
	Frames          *frames.Reader
	Memory          *budget.Budget // of the host, for what is decoded, drawings and answers
	Canvases        *budget.Budget // of the host, what open canvases may have of it
	Metrics         *observe.Metrics
	Recipes         wire.Recipes
	Bounds          polygon.Bounds // of sets of regions
	MaxPoints       int            // of a drawing
	MaxMessageBytes int64
	IdleTimeout     time.Duration // how long the client of a canvas may say nothing
}

// Service answers the calls of DiffusionService. Its methods take messages whose frames are still in the
// transport's buffers; see Desc.
type Service struct {
	pb.UnimplementedDiffusionServiceServer
	Config
}

func New(cfg Config) *Service {
	return &Service{Config: cfg}
}

// Desc is the generated description of the service with a handler that doesn't copy frames.
func Desc() *grpc.ServiceDesc {
	return wire.WithHandlers(pb.DiffusionService_ServiceDesc, map[string]grpc.MethodHandler{
		"Solve":      wire.FrameHandler(pb.DiffusionService_Solve_FullMethodName, (*Service).HandleSolve),
		"FillHoles":  wire.FrameHandler(pb.DiffusionService_FillHoles_FullMethodName, (*Service).HandleFillHoles),
		"Background": wire.FrameHandler(pb.DiffusionService_Background_FullMethodName, (*Service).HandleBackground),
		"Extract":    wire.FrameHandler(pb.DiffusionService_Extract_FullMethodName, (*Service).HandleExtract),
	}, map[string]grpc.StreamHandler{
		"SolveProgressively": func(srv any, stream grpc.ServerStream) error {
			return srv.(*Service).HandleSolveProgressively(stream)
		},
		"Edit": func(srv any, stream grpc.ServerStream) error { return srv.(*Service).HandleEdit(stream) },
	})
}

// solveChannels are those of the colours that are solved for.
const solveChannels = 3

// The host memory that a pixel takes, in bytes: its flags and what is given, the picture, and a file of it; and about
// what a point, a stop or a pixel of a drawing takes.
const (
	givenPixelShare   = 1 + 4*solveChannels
	solvePixelShare   = givenPixelShare + solveChannels + 2*4
	drawingPointShare = 128
)

func (s *Service) HandleSolve(ctx context.Context, req *pb.SolveRequest, in *framecodec.Message) (*wire.Response,
	error) {
	v, err := s.newSolving(ctx, req, in, solvePixelShare, nil)
	if err != nil {
		return nil, err
	}
	defer v.dev.End()
	sol, err := diffusion.Render(v.ctx, v.dev.Device, v.drawing, v.target, v.opts)
	var out *framecodec.Message
	if err == nil {
		var m *pb.SolveResponse
		var pixels []byte
		if m, pixels, err = v.response(sol, v.target.Pixels.Host); err == nil {
			out = framecodec.New(m)
			out.SetPayload(mem.BufferSlice{mem.SliceBuffer(pixels)})
		}
	}
	if err != nil {
		v.share.Release()
		return nil, solveError(req, err)
	}
	return &wire.Response{Message: out, Start: time.Now(), Share: v.share, Release: v.share.Release}, nil
}

// solving is a request that was read, with memory for the answer.
type solving struct {
	service  *Service
	ctx      context.Context // with the class of the request
	dev      device.Lease
	id       string // of the frame
	decode   time.Duration
	encoding pb.Encoding
	drawing  *diffusion.Drawing
	target   *diffusion.Target
	opts     *diffusion.Options
	share    *budget.Share // for the answer
	beside   int64         // what callers make of it themselves
}

// newSolving reads a request. It takes pixelShare bytes of host memory for each pixel, and for the drawing, unless
// admit, which may be nil, returns an error for so many. The caller ends the lease of the device, and releases the
// memory.
func (s *Service) newSolving(
	ctx context.Context, req *pb.SolveRequest, in *framecodec.Message, pixelShare int64, admit func(bytes int64) error,
) (_ *solving, err error) {
	if name := req.GetFrame().GetResident(); name != "" {
		return nil, apierr.Refuse("frame.resident", name, "must be no resident frame: pixels come with the request")
	}
	v := &solving{service: s, ctx: kernels.WithClass(ctx, wire.ClassOf(req.GetWorkClass())),
		encoding: req.GetEncoding()}
	if v.dev, err = s.Host.Acquire(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			v.dev.End()
		}
	}()
	f, err := s.solveFrame(ctx, req, in, pixelShare, admit)
	if err != nil {
		return nil, err
	}
	defer f.Release()
	v.share = f.Answer
	v.drawing = drawingOf(req, f)
	in.Free()
	v.opts = optionsOf(req.GetOptions())
	v.id, v.decode = f.ID, f.Decode
	v.target = &diffusion.Target{Format: kernels.RGB8,
		Pixels: diffusion.Pixels{Host: make([]byte, solveChannels*f.Width*f.Height)}}
	v.beside = (pixelShare - solvePixelShare) * int64(f.Width) * int64(f.Height)
	v.share.Fill(v.made())
	return v, nil
}

// made is how much there is of the share but for files, in bytes.
func (v *solving) made() int64 {
	return int64(len(v.drawing.Flags)+4*len(v.drawing.Values)+len(v.target.Pixels.Host)) + v.beside
}

// response is the message of a solution, without its payload, which follows: pixels, or a file of them.
func (v *solving) response(sol *diffusion.Solution, pixels []byte) (*pb.SolveResponse, []byte, error) {
	v.service.Metrics.Stage("queue", sol.Queue)
	v.service.Metrics.Stage("compute", sol.Compute)
	p := kernels.Picture{Width: v.drawing.Width, Height: v.drawing.Height, Format: kernels.RGB8, Data: [][]byte{pixels}}
	m := &pb.SolveResponse{
		Backend: sol.Backend, Decode: durationpb.New(v.decode), Queue: durationpb.New(sol.Queue),
		Compute: durationpb.New(sol.Compute),
		Cycles:  uint32(sol.Cycles), Converged: sol.Converged, Estimate: 255 * sol.Estimate,
		Residual: 255 * sol.Residual,
		Stopped:  pb.DiffusionStop(sol.Stopped), ErrorUnknown: sol.ErrorUnknown,
		GlobalDifference: 255 * float64(sol.Difference),
		GivenPixels:      uint64(sol.FixedPixels), VoidPixels: uint64(sol.VoidPixels), SetupKept: sol.SetupKept,
		Picture: &pb.Frame{
			FrameId: v.id, Encoding: pb.Encoding_ENCODING_RAW,
			Layout: wire.LayoutOf(p),
		},
	}
	if v.encoding != pb.Encoding_ENCODING_PNG {
		return m, pixels, nil
	}
	m.Picture.Encoding = pb.Encoding_ENCODING_PNG
	file, err := v.service.Frames.PNGIn(v.ctx, p.Image(), v.share, v.made())
	return m, file, err
}

// optionsOf translates options.
func optionsOf(o *pb.DiffusionOptions) *diffusion.Options {
	opts := &diffusion.Options{Tolerance: o.GetTolerance() / 255, MaxCycles: int(o.GetMaxCycles()),
		Threshold: o.GetThreshold() / 255, MeasureError: o.GetMeasureError()}
	if m := o.GetMethod(); m != pb.DiffusionMethod_DIFFUSION_METHOD_UNSPECIFIED {
		opts.Method = diffusion.Method(m - pb.DiffusionMethod_DIFFUSION_METHOD_MULTIGRID)
	}
	if o != nil && o.Threshold != nil && opts.Threshold == 0 {
		opts.Threshold = diffusion.WarrenThreshold
	}
	return opts
}

// solveFrame reads the frame of a request, if it has one, and takes memory for it, the drawing and the answer at once.
func (s *Service) solveFrame(
	ctx context.Context, req *pb.SolveRequest, in *framecodec.Message, pixelShare int64, admit func(bytes int64) error,
) (*frames.Frame, error) {
	d := req.GetDrawing()
	share := func(f kernels.Picture) (int64, error) {
		if err := s.checkCanvas("drawing", f.Width, f.Height); err != nil {
			return 0, err
		}
		if n := f.Width * f.Height; len(req.GetEdges()) != 0 && len(req.GetEdges()) != n {
			return 0, apierr.Refuse("edges", len(req.GetEdges()), "must be %d bytes, one for each pixel, or none", n)
		}
		points, err := s.checkDrawing(d, f.Width, f.Height)
		if err != nil {
			return 0, apierr.Under("drawing", err)
		}
		n := pixelShare*int64(f.Width)*int64(f.Height) + drawingPointShare*int64(points)
		if admit != nil {
			err = admit(n)
		}
		return n, err
	}
	switch {
	case req.GetFrame() != nil:
		f, err := s.Frames.ReadFor(ctx, req.GetFrame(), in.Pieces(nil), "frame", func(f kernels.Picture) (int64, error) {
			if err := checkSolvable(f, d); err != nil {
				return 0, err
			}
			return share(f)
		})
		if err != nil {
			return nil, err
		}
		if err := checkPieces(f.Picture); err != nil {
			f.Release()
			f.Answer.Release()
			return nil, err
		}
		return f, nil
	case d != nil:
		f := kernels.Picture{Width: int(d.GetWidth()), Height: int(d.GetHeight())}
		return s.Frames.WithAnswer(ctx, &frames.Frame{Picture: f, Release: func() {}}, share)
	}
	return nil, apierr.Refuse("frame", nil, "or a drawing must be there")
}

// checkSolvable checks a frame, which may not be decoded yet, and the drawing over it.
func checkSolvable(f kernels.Picture, d *pb.Drawing) error {
	size := [2]int{f.Width, f.Height}
	switch {
	case f.Format != kernels.RGBA8:
		return apierr.Refuse("frame.layout.pixel_format", f.Format, "must be RGBA8: alpha says which pixels are given")
	case f.Width < 1 || f.Height < 1:
		return apierr.Refuse("frame.layout", size, "has no pixels")
	case d != nil && [2]int{int(d.GetWidth()), int(d.GetHeight())} != size:
		return apierr.Refuse("drawing", [2]int{int(d.GetWidth()), int(d.GetHeight())}, "must be %d x %d, the size of the frame",
			f.Width, f.Height)
	}
	return nil
}

// checkPieces checks that a frame has as many bytes as its layout says, since they are read without package polygon.
func checkPieces(f kernels.Picture) error {
	row, stride, have := 4*f.Width, f.Stride, 0
	if stride == 0 {
		stride = row
	}
	for _, p := range f.Data {
		have += len(p)
	}
	switch need := stride*(f.Height-1) + row; {
	case stride < row:
		return apierr.Refuse("frame.layout.stride", stride, "is less than a row of %d bytes", row)
	case have < need || have > stride*f.Height:
		return apierr.Refuse("frame.data", have, "must be %d bytes for %d x %d pixels, %d bytes from row to row",
			stride*f.Height, f.Width, f.Height, stride)
	}
	return nil
}

// checkCanvas checks the size of a picture to come, which field has.
func (s *Service) checkCanvas(field string, width, height int) error {
	if err := kernels.CheckSize(width, height, field); err != nil {
		return wire.FieldError(err, wire.SameField)
	}
	n := int64(width) * int64(height)
	if limit := s.MaxMessageBytes; solveChannels*n > limit {
		return apierr.Refuse(field, [2]int{width, height}, "makes a picture of %d bytes: the limit is %d",
			solveChannels*n, limit)
	}
	return nil
}

// optionField is where an option is in a request, and its value there; "" for other fields.
func optionField(o *pb.DiffusionOptions, v kernels.Violation) (path, value string) {
	switch name := v.Path.String(); name {
	case "threshold": // which is in levels there
		return "options.threshold", fmt.Sprint(o.GetThreshold())
	case "tolerance", "method", "max cycles", "measure error":
		return "options." + strings.ReplaceAll(name, " ", "_"), v.Value
	}
	return "", v.Value
}

// noEdges says what is wrong with the closed edges of a pixel.
const noEdges = "is no sum of 2, 4, 8, 16, 32 and 64"

// solveError turns an *InvalidError into a *FieldError and leaves other errors alone.
func solveError(req *pb.SolveRequest, err error) error {
	return wire.FieldError(err, func(v kernels.Violation) (path, value, reason string) {
		if path, value := optionField(req.GetOptions(), v); path != "" {
			return path, value, v.Reason
		}
		switch p := v.Path; {
		case p[0] == "curves" && len(p) == 1 && req.GetDrawing() == nil:
			return "frame.data", "no pixel of alpha 255", "at least one must be given"
		case p[0] == "curves":
			return "drawing." + curvePath(p).String(), v.Value, v.Reason
		case p[0] == "flags" && len(p) == 2:
			return kernels.Path{"edges", p[1]}.String(), v.Value, noEdges
		}
		return "frame", v.Value, v.Reason
	})
}

// curvePath is where a message has the field of a drawing.
func curvePath(p kernels.Path) kernels.Path {
	p = wire.FlatPath(p)
	if i := slices.Index(p, any("values")); i >= 0 && i+1 < len(p) {
		p = p[:i].Join([]string{"red", "green", "blue"}[p[i+1].(int)])
	}
	return p
}
