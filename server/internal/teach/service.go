// TeachService.

package teach

import (
	"context"
	"fmt"
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
	Recipes         Recipes
	Bounds          polygon.Bounds // of sets of regions
	MaxMessageBytes int64
	IdleTimeout     time.Duration // how long a client may send nothing
}

// Recipes finds recipes, and checks those that aren't stored.
type Recipes interface {
	wire.Recipes
	// Compile checks a recipe that a request has at path, and returns its set and its flat field.
	Compile(ctx context.Context, m *pb.Recipe, path string) (*polygon.Set, *kernels.FlatField, error)
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
	recipe *pb.Recipe         // that they are of; nil where they came without one
	flat   *kernels.FlatField // of that
	paths  wire.Paths
}

// with is the set with other regions in the places of its own.
func (r *regions) with(list []*pb.Region) *pb.RegionSet {
	return &pb.RegionSet{Regions: list, Scale: r.from.GetScale(), DrawnOn: r.from.GetDrawnOn()}
}

// opening is what both methods begin with.
type opening interface {
	GetRegionSet() *pb.RegionSet
	GetRecipe() *pb.RecipeRef
	GetDraft() *pb.Recipe
}

// opened resolves the regions of a call, which keeps what it needs of them in mem.
func (s *Service) opened(ctx context.Context, open opening, mem *memory) (*regions, error) {
	r, err := s.resolved(ctx, open, mem)
	if err == nil && r.from.GetLocate() != nil && r.paths.Stored == "" {
		err = apierr.Refuse(r.paths.Set+".locate", "a section", "%s", unlocated)
	}
	return r, err
}

const unlocated = "locates its parts, and frames of Teach and Try aren't located: leave the section out, and take " +
	"frames of parts that lie where the regions were drawn"

func (s *Service) resolved(ctx context.Context, open opening, mem *memory) (r *regions, err error) {
	if ref := open.GetRecipe(); ref != nil {
		return s.stored(ref, "open.recipe")
	}
	if m := open.GetDraft(); m != nil {
		r = &regions{from: m.GetRegionSet(), paths: wire.Paths{Set: "open.draft.region_set",
			Reductions: "open.draft.reductions", Frame: "frame"}}
		if r.set, r.flat, err = s.Recipes.Compile(ctx, m, "open.draft"); err != nil {
			return nil, err
		}
		if err := mem.keep(r.flat.Bytes()); err != nil {
			return nil, err
		}
		r.recipe = &pb.Recipe{Name: m.GetName(), Description: m.GetDescription(), Reductions: m.GetReductions(),
			Frames: m.GetFrames(), FlatField: wire.FlatFieldRef(r.flat)}
		return r, nil
	}
	r = &regions{from: open.GetRegionSet(), paths: wire.Paths{Set: "open.region_set", Frame: "frame"}}
	err = s.Frames.Work.Do(ctx, wire.SetWork(r.from), wire.SmallSet, func(pause func() error) (err error) {
		r.set, err = wire.NewSet(ctx, r.from, r.paths, s.Bounds, pause)
		return err
	})
	return r, err
}

// stored is what a recipe has that field refers to. One that locates is refused.
func (s *Service) stored(ref *pb.RecipeRef, field string) (r *regions, err error) {
	r = &regions{paths: wire.Paths{Set: "open.region_set", Frame: "frame"}}
	if r.recipe, r.set, err = s.Recipes.Recipe(ref.GetName(), ref.GetVersion()); err != nil {
		return nil, err
	}
	r.from = r.recipe.GetRegionSet()
	r.paths.Stored, r.paths.Ref, r.paths.StoredReductions, r.paths.StoredFlat = wire.RecipeID(r.recipe), field, true, true
	if r.from.GetLocate() != nil {
		return nil, apierr.Refuse(field, r.paths.Stored, "%s", unlocated)
	}
	r.flat, err = s.Recipes.FlatField(r.recipe.GetFlatField(), field)
	return r, err
}

// refuse is what is wrong with a region, or with a field of it.
func (r *regions) refuse(i int, field string, value any, format string, args ...any) error {
	path := fmt.Sprintf("%s.regions[%d]%s", r.paths.Set, i, field)
	return apierr.Refuse(path, value, format, args...)
}

// size is the layout that all frames of a call have.
type size struct {
	width, height int
	format        kernels.PixelFormat
}

func sizeOf(f *frames.Frame) size {
	return size{f.Width, f.Height, f.Format}
}

// same refuses a frame that isn't like the first one.
func (z size) same(f *frames.Frame) error {
	n := sizeOf(f)
	if n.format.Order = z.format.Order; n != z { // RGB8 and BGR8 have the same samples
		return apierr.Refuse("frame.layout", nil, "%dx%d %v, the first frame has %dx%d %v", n.width, n.height, f.Format,
			z.width, z.height, z.format)
	}
	return nil
}
