// InspectionService: Reduce and Rasterize.

package inspect

import (
	"context"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/polygon"
	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/budget"
	"github.com/polyscan/polyscan/server/internal/device"
	"github.com/polyscan/polyscan/server/internal/events"
	"github.com/polyscan/polyscan/server/internal/frames"
	"github.com/polyscan/polyscan/server/internal/framestream"
	"github.com/polyscan/polyscan/server/internal/locate"
	"github.com/polyscan/polyscan/server/internal/observe"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// Host is what the service needs of the server.
type Host interface {
	// Acquire returns a lease of the device.
	Acquire() (device.Lease, error)
	// Backend is the name of what computes.
	Backend() string
	// Status is what a client gets for an error.
	Status(ctx context.Context, err error) *status.Status
}

// Config is what the service works with. All of it must be set but Sets.
type Config struct {
	Host            Host
	Frames          *frames.Reader
	Streams         *framestream.Streams
	Memory          *budget.Budget // of the host, for what is decoded and for answers
	Metrics         *observe.Metrics
	Recipes         wire.Recipes
	Events          *events.Bus
	Sets            *wire.RegionSets // that come again
	Bounds          polygon.Bounds   // of sets of regions
	MaxMessageBytes int64
	PreparedBytes   int64 // of the device, for prepared regions
}

// Service answers the calls of InspectionService. Its methods take messages whose frames are still in the
// transport's buffers; see Desc.
type Service struct {
	pb.UnimplementedInspectionServiceServer
	Config
	Prepared *preparedCache
	moved    posedCache
}

func New(cfg Config) *Service {
	return &Service{Config: cfg, Prepared: newPreparedCache(cfg.PreparedBytes), moved: newPosedCache()}
}

// Forget lets go of what was made of a set.
func (s *Service) Forget(set *polygon.Set) {
	s.Prepared.drop(set)
	s.moved.forget(set)
}

// Detach lets go of everything on the device.
func (s *Service) Detach() { s.Prepared.clear() }

// Close lets go of everything, and keeps nothing from now on.
func (s *Service) Close() {
	s.Prepared.close()
	s.moved.cache.Remove(func(*polygon.Set) bool { return true })
}

// Desc is the generated description of the service with handlers that don't copy frames.
func Desc() *grpc.ServiceDesc {
	return wire.WithHandlers(pb.InspectionService_ServiceDesc, map[string]grpc.MethodHandler{
		"Reduce":    wire.FrameHandler(pb.InspectionService_Reduce_FullMethodName, (*Service).HandleReduce),
		"Rasterize": wire.PlainHandler(pb.InspectionService_Rasterize_FullMethodName, (*Service).HandleRasterize),
	}, map[string]grpc.StreamHandler{
		"StreamFrames": func(srv any, stream grpc.ServerStream) error {
			return srv.(*Service).HandleStreamFrames(stream)
		},
	})
}

// inspection resolves and checks an inspection, which lies at path in the request, at a place of the pool where it has
// many vertices.
func (s *Service) inspection(ctx context.Context, m *pb.Inspection, path string) (what *wire.Inspection, err error) {
	ctx = kernels.WithClass(ctx, wire.ClassOf(m.GetWorkClass()))
	refused := s.Frames.Work.Do(ctx, s.Sets.Work(m.GetRegionSet()), wire.SmallSet, func(pause func() error) error {
		what, err = wire.NewInspection(ctx, m, path, "frame", s.Recipes, s.Sets, s.Bounds, pause)
		if err == nil && what.Pose == nil { // or they are judged where it takes them
			err = what.Paths.Translate(what.Set.CheckLimits(&what.Reductions))
		}
		return err
	})
	return what, refused
}

func (s *Service) HandleReduce(ctx context.Context, req *pb.ReduceRequest, in *framecodec.Message) (*wire.Response,
	error) {
	arrived := time.Now()
	logNames(ctx, req.GetInspection().GetName(), req.GetFrame().GetPartId())
	what, err := s.inspection(ctx, req.GetInspection(), "inspection")
	if err != nil {
		return nil, err
	}
	seen := s.Events.Call(ctx, pb.StreamMethod_STREAM_METHOD_REDUCE, what, s.Host.Backend())
	res, numbers, picture, release, err := s.reduceFrame(ctx, what, place{what.Pose, "inspection.pose"}, req.GetFrame(),
		in, nil, seen, 0, nil, nil)
	if err != nil {
		if seen != nil { // or the status is made later
			err = s.Host.Status(ctx, err).Err()
		}
		s.Events.Reduced(seen, what.Name, req.GetFrame(), nil, nil, err, time.Since(arrived), nil)
		return nil, err
	}
	result := res.Message.(*pb.FrameResult)
	s.Events.Reduced(seen, what.Name, req.GetFrame(), numbers, result.GetLocation(), nil, time.Since(arrived), picture)
	res.Message = &pb.ReduceResponse{Result: result}
	res.Release = release
	return res, nil
}

// logNames adds to the log of a call who asks, and for which part.
func logNames(ctx context.Context, name, part string) {
	for _, f := range []logging.Fields{{"name", name}, {"part", part}} {
		if f[1] != "" {
			logging.AddFields(ctx, f)
		}
	}
}

// place is the pose of a frame's part, nil for none, and where it is in the request.
type place struct {
	pose *polygon.Pose
	path string
}

// reduceFrame does the work on one frame, whose payload is in's, and frees the payload as soon as it can. The response
// holds a FrameResult; release is to be called when it has been marshalled. A result of a stream is not marshalled
// before those that it follows, so it takes no memory before they have theirs: before is closed then. It is nil for a
// frame alone. Those who watch seen may get a small picture of the frame, under its number; picture is all of it, where
// the keeper of the history wants that. judge, where it isn't nil, completes the result. last, where it isn't nil, has
// the frame before, and then this one.
func (s *Service) reduceFrame(
	ctx context.Context, what *wire.Inspection, at place, m *pb.Frame, in *framecodec.Message, before <-chan struct{},
	seen *events.Stream, number uint64, judge func(*polygon.Result), last *lastFrame,
) (_ *wire.Response, numbers *polygon.Result, picture *events.Picture, release func(), err error) {
	ctx = kernels.WithClass(ctx, what.Class)
	dev, err := s.Host.Acquire()
	if err != nil {
		return nil, nil, nil, nil, err
	}
	defer dev.End()
	share := int64(0)
	f, err := s.Frames.ReadFor(ctx, m, in.Pieces(nil), what.Paths.Frame, func(f kernels.Picture) (int64, error) {
		n, err := what.Share(f, s.MaxMessageBytes)
		share = n
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
		return nil, nil, nil, nil, err
	}
	defer f.Release()
	ctx = kernels.WithMade(ctx, f.Answer.Add)
	var res *polygon.Result
	var loc *locate.Location
	if err = what.CheckSize(f.Width, f.Height); err == nil {
		res, loc, err = s.compared(ctx, dev, what, at, m, f, last)
	}
	if err == nil && judge != nil {
		judge(res)
	}
	if err == nil && loc != nil && !loc.Found {
		notFound(res, loc)
	}
	var sketch *events.Sketch
	if len(f.Data) > 0 && err == nil {
		if sketch = seen.Sketch(f.Width, f.Height, f.Format); sketch != nil {
			sketch.Draw(0, f.Picture)
		}
	}
	if err == nil {
		picture = seen.Copy(f.Picture, pb.Verdict(res.Verdict))
	}
	in.Free()
	if err != nil {
		f.Answer.Release()
		return nil, nil, nil, nil, err
	}
	f.Answer.FillAll()
	start := time.Now()
	s.Metrics.Reduced(res, what.Set.Len(), f.Width*f.Height)
	f.Data = nil
	var result *pb.FrameResult
	if err := s.Frames.Work.Do(ctx, int(share), wire.LargeMessage, func(func() error) error {
		result = wire.FrameResult(f.ID, f.Picture, res, what.Reductions.Output.Fields, f.Decode)
		return nil
	}); err != nil {
		picture.Release()
		f.Answer.Release()
		res.Release()
		return nil, nil, nil, nil, err
	}
	result.PartId, result.Location = m.GetPartId(), wire.LocationMessage(loc)
	sketch.Done(number, result.GetPartId(), result.GetVerdict(), res)
	return &wire.Response{Message: result, Start: start, Ctx: ctx, Size: share, Share: f.Answer}, res, picture,
		func() { f.Answer.Release(); res.Release() }, nil
}

// HandleRasterize draws the pixels of regions.
func (s *Service) HandleRasterize(ctx context.Context, req *pb.RasterizeRequest) (*wire.Response, error) {
	p := wire.Paths{Set: "region_set"}
	var set *polygon.Set
	var err error
	regions := req.GetRegionSet()
	switch r := req.GetRegions().(type) {
	case *pb.RasterizeRequest_RegionSet:
		err = s.Frames.Work.Do(ctx, wire.SetWork(r.RegionSet), wire.SmallSet, func(pause func() error) (err error) {
			set, err = wire.NewSet(ctx, r.RegionSet, p, s.Bounds, pause)
			return err
		})
	case *pb.RasterizeRequest_Recipe:
		var stored *pb.Recipe
		if stored, set, err = s.Recipes.Recipe(r.Recipe.GetName(), r.Recipe.GetVersion()); err == nil {
			p.Stored, p.Ref, regions = wire.RecipeID(stored), "recipe", stored.GetRegionSet()
		}
	default:
		err = apierr.Refuse("regions", nil, "one of region_set and recipe must be given")
	}
	if err == nil && set.HasLimits() {
		err = wire.CheckDrawnOn(regions.GetDrawnOn(), int(req.GetWidth()), int(req.GetHeight()), "width")
	}
	if err != nil {
		return nil, err
	}
	if err := s.Frames.CheckPixels(req.GetWidth(), req.GetHeight(), "height"); err != nil {
		return nil, err
	}
	pixels := wire.Pixels(req.GetWidth(), req.GetHeight())
	mode, bytes := polygon.RasterMask, 2*pixels
	made := int64(0) // beside a mask, while an image is made of that
	switch req.GetMode() {
	case pb.RasterMode_RASTER_MODE_UNSPECIFIED, pb.RasterMode_RASTER_MODE_MASK:
		bytes = pixels
	case pb.RasterMode_RASTER_MODE_LABELS:
		mode = polygon.RasterLabels
	case pb.RasterMode_RASTER_MODE_WINDING:
		made = bytes + 4*pixels
	case pb.RasterMode_RASTER_MODE_DISTANCE:
		made = bytes + 12*int64(req.GetWidth())
	}
	if limit := s.MaxMessageBytes; bytes > limit {
		return nil, apierr.Refuse("height", req.GetHeight(),
			"makes an image of %d bytes with a width of %d: the limit is %d", bytes, req.GetWidth(), limit)
	}
	share := bytes
	if req.GetEncoding() == pb.Encoding_ENCODING_PNG {
		if share *= 2; bytes > pixels {
			share += bytes // samples of 16 bits the other way round
		}
	}
	share = max(share, pixels+made)
	taken, err := s.Memory.Take(ctx, budget.Results, share)
	if err != nil {
		return nil, err
	}
	res, err := s.rasterizeSet(ctx, req, set, mode, made, p, taken)
	if err != nil {
		taken.Release()
		return nil, err
	}
	return res, nil
}

func (s *Service) rasterizeSet(ctx context.Context, req *pb.RasterizeRequest, set *polygon.Set,
	mode polygon.RasterMode, made int64, p wire.Paths, share *budget.Share) (*wire.Response, error) {
	dev, err := s.Host.Acquire()
	if err != nil {
		return nil, err
	}
	defer dev.End()
	r, err := polygon.Rasterize(kernels.WithMade(ctx, share.Add), dev.Device, set, int(req.GetWidth()),
		int(req.GetHeight()), mode, polygon.Method(req.GetMethod()))
	if err != nil {
		return nil, p.Translate(err)
	}
	s.Metrics.Stage("queue", r.Queue)
	s.Metrics.Stage("compute", r.Compute)
	if made > 0 {
		share.Add(made)
		if err := s.Frames.Work.Do(ctx, 1, 0, func(pause func() error) error {
			if req.GetMode() == pb.RasterMode_RASTER_MODE_WINDING {
				return r.Windings(set, pause)
			}
			return r.Distances(pause)
		}); err != nil {
			return nil, err
		}
		share.Fill(int64(len(r.Bytes())))
	}
	res := &wire.Response{Start: time.Now(), Share: share, Release: share.Release}
	m := &pb.RasterizeResponse{Counts: r.Counts, Backend: r.Backend}
	m.Image = &pb.Frame{
		Layout:   wire.LayoutOf(r.Picture),
		Encoding: pb.Encoding_ENCODING_RAW,
	}
	pix := r.Bytes()
	if req.GetEncoding() == pb.Encoding_ENCODING_PNG {
		m.Image.Encoding = pb.Encoding_ENCODING_PNG
		if pix, err = s.Frames.PNGIn(ctx, r.Image(), share, int64(len(pix))); err != nil {
			return nil, err
		}
	}
	// The pixels go out from where they are.
	out := framecodec.New(m)
	out.SetPayload(mem.BufferSlice{mem.SliceBuffer(pix)})
	res.Message = out
	return res, nil
}
