// InspectionService: Reduce and Rasterize.

package inspect

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/polygon"
	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/budget"
	"github.com/polyscan/polyscan/server/internal/device"
	"github.com/polyscan/polyscan/server/internal/frames"
	"github.com/polyscan/polyscan/server/internal/framestream"
	"github.com/polyscan/polyscan/server/internal/observe"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// Host is what the service needs of the server.
type Host interface {
	// Acquire returns a lease of the device.
	Acquire() (device.Lease, error)
}

// Config is what the service works with. All of it must be set.
type Config struct {
	Host            Host
	Frames          *frames.Reader
	Streams         *framestream.Streams
	Memory          *budget.Budget // of the host, for what is decoded and for answers
	Metrics         *observe.Metrics
	Recipes         wire.Recipes
	Bounds          polygon.Bounds // of sets of regions
	MaxMessageBytes int64
	PreparedBytes   int64 // of the device, for prepared regions
}

// Service answers the calls of InspectionService. Its methods take messages whose frames are still in the
// transport's buffers; see Desc.
type Service struct {
	pb.UnimplementedInspectionServiceServer
	Config
	Prepared *preparedCache
}

func New(cfg Config) *Service {
	return &Service{Config: cfg, Prepared: newPreparedCache(cfg.PreparedBytes)}
}

// Forget lets go of what was prepared of a set.
func (s *Service) Forget(set *polygon.Set) { s.Prepared.drop(set) }

// Detach lets go of everything on the device.
func (s *Service) Detach() { s.Prepared.clear() }

// Close lets go of everything, and keeps nothing from now on.
func (s *Service) Close() { s.Prepared.close() }

// Desc is the generated description of the service with handlers that don't copy frames.
func Desc() *grpc.ServiceDesc {
	return wire.WithHandlers(pb.InspectionService_ServiceDesc, map[string]grpc.MethodHandler{
		"Reduce":    wire.FrameHandler(pb.InspectionService_Reduce_FullMethodName, (*Service).HandleReduce),
		"Rasterize": wire.PlainHandler(pb.InspectionService_Rasterize_FullMethodName, (*Service).rasterize),
	}, map[string]grpc.StreamHandler{
		"StreamFrames": func(srv any, stream grpc.ServerStream) error {
			return srv.(*Service).HandleStreamFrames(stream)
		},
	})
}

func (s *Service) HandleReduce(ctx context.Context, req *pb.ReduceRequest, in *framecodec.Message) (*wire.Response,
	error) {
	what, err := wire.NewInspection(req.GetInspection(), "inspection", "frame", s.Recipes, s.Bounds)
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
func (s *Service) reduceFrame(
	ctx context.Context, what *wire.Inspection, m *pb.Frame, in *framecodec.Message, before <-chan struct{},
) (_ *wire.Response, release func(), err error) {
	dev, err := s.Host.Acquire()
	if err != nil {
		return nil, nil, err
	}
	defer dev.End()
	f, err := s.Frames.ReadFor(ctx, m, in.Pieces(nil), what.Paths.Frame, func(f kernels.Picture) (int64, error) {
		n, err := what.Share(f, s.MaxMessageBytes)
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
	defer f.Release()
	res, err := s.run(ctx, dev, what, f.Picture)
	in.Free()
	if err != nil {
		f.Answer()
		return nil, nil, err
	}
	start := time.Now()
	s.Metrics.Reduced(res, f.Width*f.Height)
	f.Data = nil
	return &wire.Response{Message: wire.FrameResult(f.ID, f.Picture, res, f.Decode), Start: start}, f.Answer, nil
}

func (s *Service) rasterize(ctx context.Context, req *pb.RasterizeRequest) (*wire.Response, error) {
	p := wire.Paths{Set: "region_set"}
	var set *polygon.Set
	var err error
	switch r := req.GetRegions().(type) {
	case *pb.RasterizeRequest_RegionSet:
		set, err = wire.NewSet(r.RegionSet, p, s.Bounds)
	case *pb.RasterizeRequest_Recipe:
		var stored *pb.Recipe
		if stored, set, err = s.Recipes.Recipe(r.Recipe.GetName(), r.Recipe.GetVersion()); err == nil {
			p.Stored, p.Ref = wire.RecipeID(stored), "recipe"
		}
	default:
		err = apierr.Refuse("regions", nil, "one of region_set and recipe must be given")
	}
	if err != nil {
		return nil, err
	}
	mode, bytes := polygon.RasterMask, int64(1)
	if req.GetMode() == pb.RasterMode_RASTER_MODE_LABELS {
		mode, bytes = polygon.RasterLabels, 2
	}
	if err := s.Frames.CheckPixels(req.GetWidth(), req.GetHeight(), "height"); err != nil {
		return nil, err
	}
	bytes *= wire.Pixels(req.GetWidth(), req.GetHeight())
	if limit := s.MaxMessageBytes; bytes > limit {
		return nil, apierr.Refuse("height", req.GetHeight(), "makes an image of %d bytes with a width of %d: the limit is %d",
			bytes, req.GetWidth(), limit)
	}
	share := bytes
	if req.GetEncoding() == pb.Encoding_ENCODING_PNG {
		share *= 2
	}
	release, err := s.Memory.Take(ctx, share)
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

func (s *Service) rasterizeSet(ctx context.Context, req *pb.RasterizeRequest, set *polygon.Set,
	mode polygon.RasterMode, p wire.Paths) (*wire.Response, error) {
	dev, err := s.Host.Acquire()
	if err != nil {
		return nil, err
	}
	defer dev.End()
	r, err := polygon.Rasterize(ctx, dev.Device, set, int(req.GetWidth()), int(req.GetHeight()), mode,
		polygon.Method(req.GetMethod()))
	if err != nil {
		return nil, p.Translate(err)
	}
	s.Metrics.Stage("queue", r.Queue)
	s.Metrics.Stage("compute", r.Compute)
	res := &wire.Response{Start: time.Now()}
	m := &pb.RasterizeResponse{Counts: r.Counts, Backend: r.Backend}
	m.Image = &pb.Frame{
		Layout:   wire.LayoutOf(r.Picture),
		Encoding: pb.Encoding_ENCODING_RAW,
	}
	pix := r.Bytes()
	if req.GetEncoding() == pb.Encoding_ENCODING_PNG {
		m.Image.Encoding = pb.Encoding_ENCODING_PNG
		if pix, err = frames.PNG(ctx, r.Image()); err != nil {
			return nil, err
		}
	}
	// The pixels go out from where they are.
	out := framecodec.New(m)
	out.SetPayload(mem.BufferSlice{mem.SliceBuffer(pix)})
	res.Message = out
	return res, nil
}
