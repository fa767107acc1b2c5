// TeachService.

package teach

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/budget"
	"github.com/polyscan/polyscan/server/internal/frames"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// Config is what the service works with. All of it must be set.
type Config struct {
	Host            wire.Host
	Frames          *frames.Reader
	Memory          *budget.Budget // of the host, for what is kept of frames, and for answers
	Recipes         wire.Recipes
	Bounds          polygon.Bounds // of sets of regions
	MaxMessageBytes int64
	IdleTimeout     time.Duration // how long a client may send nothing
}

// Service answers the calls of TeachService.
type Service struct {
	pb.UnimplementedTeachServiceServer
	Config
}

func New(cfg Config) *Service { return &Service{Config: cfg} }

// Desc is the generated description of the service with handlers that don't copy frames.
func Desc() *grpc.ServiceDesc {
	return wire.WithHandlers(pb.TeachService_ServiceDesc, nil, map[string]grpc.StreamHandler{
		"Teach": func(srv any, stream grpc.ServerStream) error { return srv.(*Service).HandleTeach(stream) },
		"Try":   func(srv any, stream grpc.ServerStream) error { return srv.(*Service).HandleTry(stream) },
	})
}

// regions are what a call looks at.
type regions struct {
	from   *pb.RegionSet
	set    *polygon.Set
	recipe *pb.Recipe         // that they come from; nil where they came with the call
	flat   *kernels.FlatField // of that
	paths  wire.Paths
}

// with is the set with other regions in the places of its own.
func (r *regions) with(list []*pb.Region) *pb.RegionSet {
	return &pb.RegionSet{Regions: list, Scale: r.from.GetScale(), DrawnOn: r.from.GetDrawnOn()}
}

// regionsOf resolves the regions of a call, at a place of the pool where they have many vertices. field is where ref
// lies in the request.
func (s *Service) regionsOf(ctx context.Context, set *pb.RegionSet, ref *pb.RecipeRef, field string) (*regions, error) {
	r := &regions{from: set, paths: wire.Paths{Set: "open.region_set", Frame: "frame"}}
	if ref == nil {
		err := s.Frames.Work.Do(ctx, wire.SetWork(set), wire.SmallSet, func(pause func() error) (err error) {
			r.set, err = wire.NewSet(ctx, set, r.paths, s.Bounds, pause)
			return err
		})
		return r, err
	}
	var err error
	if r.recipe, r.set, err = s.Recipes.Recipe(ref.GetName(), ref.GetVersion()); err != nil {
		return nil, err
	}
	r.from = r.recipe.GetRegionSet()
	r.paths.Stored, r.paths.Ref, r.paths.StoredFlat = wire.RecipeID(r.recipe), field, true
	r.flat, err = s.Recipes.FlatField(r.recipe.GetFlatField(), field)
	return r, err
}

// size is the layout that all frames of a call have.
type size struct {
	width, height, channels, levels int
}

func sizeOf(f *frames.Frame) size {
	return size{f.Width, f.Height, int(f.Format.Channels), f.Format.Levels()}
}

// same refuses a frame that isn't like the first one.
func (z size) same(f *frames.Frame) error {
	if n := sizeOf(f); n != z {
		return apierr.Refuse("frame.layout", nil,
			"%dx%d pixels of %d channels and %d levels; the first frame has %dx%d of %d and %d", n.width, n.height, n.channels,
			n.levels, z.width, z.height, z.channels, z.levels)
	}
	return nil
}
