// InspectionService: Reduce and Rasterize.

package server

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
	"github.com/polyscan/polyscan/polygon"
	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/budget"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// inspectionServer implements pb.InspectionServiceServer for callers inside the process. Over a connection,
// inspectionDesc leads to the methods below, which take messages whose frames are still in the transport's buffers.
type inspectionServer struct {
	pb.UnimplementedInspectionServiceServer
	*Server
}

// handleReduce is also what tests send bytes to.
var handleReduce = wire.FrameHandler(pb.InspectionService_Reduce_FullMethodName, (*inspectionServer).reduce)

// inspectionDesc is the generated description of the service with handlers that don't copy frames.
func inspectionDesc() *grpc.ServiceDesc {
	return wire.WithHandlers(pb.InspectionService_ServiceDesc, map[string]grpc.MethodHandler{
		"Reduce":    handleReduce,
		"Rasterize": wire.PlainHandler(pb.InspectionService_Rasterize_FullMethodName, (*inspectionServer).rasterize),
	}, map[string]grpc.StreamHandler{
		"StreamFrames": func(srv any, stream grpc.ServerStream) error {
			return srv.(*inspectionServer).inspectFrames(stream)
		},
	})
}

func (s *inspectionServer) reduce(ctx context.Context, req *pb.ReduceRequest, in *framecodec.Message) (*wire.Response,
	error) {
	what, err := wire.NewInspection(req.GetInspection(), "inspection", "frame", s.recipes, s.cfg.bounds())
	if err != nil {
		return nil, err
	}
	res, release, err := s.reduceFrame(ctx, what, req.GetFrame(), in, nil)
	if err != nil {
		return nil, err
	}
	res.Message = &pb.ReduceResponse{Result: res.Message.(*pb.FrameResult)}
	res.Release = release
	return res, nil
}

// reduceFrame does the work on one frame, whose payload is in's, and frees the payload as soon as it can. The response
// holds a FrameResult; release is to be called when it has been marshalled. A result of a stream is not marshalled
// before those that it follows, so it takes no memory before they have theirs: before is closed then. It is nil for a
// frame alone.
func (s *Server) reduceFrame(
	ctx context.Context, what *wire.Inspection, m *pb.Frame, in *framecodec.Message, before <-chan struct{},
) (_ *wire.Response, release func(), err error) {
	dev, err := s.dev.Acquire()
	if err != nil {
		return nil, nil, err
	}
	defer dev.End()
	f, err := s.newFrameFor(ctx, m, in.Pieces(nil), what.Paths.Frame, func(f kernels.Picture) (int64, error) {
		n, err := what.Share(f, s.cfg.MaxMessageBytes)
		if err != nil || n <= budget.SmallShare || before == nil {
			return n, err
		}
		select {
		case <-before:
			return n, nil
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	})
	if err != nil {
		return nil, nil, err
	}
	defer f.release()
	res, err := s.run(ctx, dev, what, f.Picture)
	in.Free()
	if err != nil {
		f.answer()
		return nil, nil, err
	}
	start := time.Now()
	s.metrics.Reduced(res, f.Width*f.Height)
	f.Data = nil
	return &wire.Response{Message: wire.FrameResult(f.id, f.Picture, res, f.decode), Start: start}, f.answer, nil
}

// Reduce implements pb.InspectionServiceServer.
func (s *inspectionServer) Reduce(ctx context.Context, req *pb.ReduceRequest) (*pb.ReduceResponse, error) {
	res, err := s.reduce(ctx, req, framecodec.New(req))
	if err != nil {
		return nil, err
	}
	res.Release()
	return res.Message.(*pb.ReduceResponse), nil
}

func (s *inspectionServer) rasterize(ctx context.Context, req *pb.RasterizeRequest) (*wire.Response, error) {
	p := wire.Paths{Set: "region_set"}
	var set *polygon.Set
	var err error
	switch r := req.GetRegions().(type) {
	case *pb.RasterizeRequest_RegionSet:
		set, err = wire.NewSet(r.RegionSet, p, s.cfg.bounds())
	case *pb.RasterizeRequest_Recipe:
		var stored *pb.Recipe
		if stored, set, err = s.recipes.Recipe(r.Recipe.GetName(), r.Recipe.GetVersion()); err == nil {
			p.Stored, p.Ref = wire.RecipeID(stored), "recipe"
		}
	default:
		err = apierr.Refuse("regions", nil, "one of region_set and recipe must be given")
	}
	if err != nil {
		return nil, err
	}
	mode, bytes := driver.RasterMask, int64(1)
	if req.GetMode() == pb.RasterMode_RASTER_MODE_LABELS {
		mode, bytes = driver.RasterLabels, 2
	}
	if err := s.checkPixels(req.GetWidth(), req.GetHeight(), "height"); err != nil {
		return nil, err
	}
	bytes *= wire.Pixels(req.GetWidth(), req.GetHeight())
	if limit := s.cfg.MaxMessageBytes; bytes > limit {
		return nil, apierr.Refuse("height", req.GetHeight(), "makes an image of %d bytes with a width of %d: the limit is %d",
			bytes, req.GetWidth(), limit)
	}
	share := bytes
	if req.GetEncoding() == pb.Encoding_ENCODING_PNG {
		share *= 2
	}
	release, err := s.host.Take(ctx, share)
	if err != nil {
		return nil, err
	}
	res, err := s.rasterizeSet(ctx, req, set, mode, p)
	if err != nil {
		release()
		return nil, err
	}
	res.Release = release
	return res, nil
}

func (s *inspectionServer) rasterizeSet(ctx context.Context, req *pb.RasterizeRequest, set *polygon.Set,
	mode driver.RasterMode, p wire.Paths) (*wire.Response, error) {
	dev, err := s.dev.Acquire()
	if err != nil {
		return nil, err
	}
	defer dev.End()
	r, err := polygon.Rasterize(ctx, dev.Device, set, int(req.GetWidth()), int(req.GetHeight()), mode,
		driver.Method(req.GetMethod()))
	if err != nil {
		return nil, p.Translate(err)
	}
	s.metrics.Stage("queue", r.Queue)
	s.metrics.Stage("compute", r.Compute)
	res := &wire.Response{Start: time.Now()}
	m := &pb.RasterizeResponse{Counts: r.Counts, Backend: r.Backend}
	m.Image = &pb.Frame{
		Layout:   wire.LayoutOf(r.Picture),
		Encoding: pb.Encoding_ENCODING_RAW,
	}
	pix := r.Bytes()
	if req.GetEncoding() == pb.Encoding_ENCODING_PNG {
		m.Image.Encoding = pb.Encoding_ENCODING_PNG
		if pix, err = pngFile(r.Image()); err != nil {
			return nil, err
		}
	}
	// The pixels go out from where they are.
	out := framecodec.New(m)
	out.SetPayload(mem.BufferSlice{mem.SliceBuffer(pix)})
	res.Message = out
	return res, nil
}

func pngFile(img image.Image) ([]byte, error) {
	var b bytes.Buffer
	e := png.Encoder{CompressionLevel: png.BestSpeed}
	if err := e.Encode(&b, img); err != nil {
		return nil, fmt.Errorf("encode PNG: %w", err)
	}
	return b.Bytes(), nil
}

// Rasterize implements pb.InspectionServiceServer.
func (s *inspectionServer) Rasterize(ctx context.Context, req *pb.RasterizeRequest) (*pb.RasterizeResponse, error) {
	res, err := s.rasterize(ctx, req)
	if err != nil {
		return nil, err
	}
	res.Release()
	out := res.Message.(*framecodec.Message)
	m := out.Message.(*pb.RasterizeResponse)
	m.Image.Source = &pb.Frame_Data{Data: slices.Concat(out.Pieces(nil)...)}
	return m, nil
}

// StreamFrames implements pb.InspectionServiceServer.
func (s *inspectionServer) StreamFrames(stream grpc.BidiStreamingServer[pb.StreamFramesRequest,
	pb.StreamFramesResponse]) error {
	return s.inspectFrames(stream)
}
