// RecipeService.

package recipes

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/auth"
	"github.com/polyscan/polyscan/server/internal/budget"
	"github.com/polyscan/polyscan/server/internal/events"
	"github.com/polyscan/polyscan/server/internal/hostwork"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// Host is what the service needs of the server.
type Host interface {
	// Validate checks a message by the rules in the schemas, a large one at a place of the pool of host work.
	Validate(ctx context.Context, m any) error
	// Forget lets go of what was prepared of a set that is used no more.
	Forget(set *polygon.Set)
}

// Service answers the calls of RecipeService.
type Service struct {
	pb.UnimplementedRecipeServiceServer
	host    Host
	bounds  polygon.Bounds // of sets of regions
	work    *hostwork.Pool // where recipes of many vertices are compiled
	events  *events.Bus
	auditor Auditor // nil: nobody keeps who changes what
	recipes *store
}

// Config bounds what is stored.
type Config struct {
	Dir        string // "" keeps recipes in memory
	MaxRecipes int    // versions
	MaxBytes   int64  // of memory, of all together
	Memory     *budget.Budget
	Bounds     polygon.Bounds
	Work       *hostwork.Pool // where recipes of many vertices are compiled
	Events     *events.Bus
	Auditor    Auditor // nil: nobody keeps who changes what
	Log        *slog.Logger
	// Hold counts a stored version for the tenant that has it, until release.
	Hold func(tenant string) (release func())
}

// Open reads what is stored.
func Open(h Host, cfg Config) (*Service, error) {
	s := &Service{host: h, bounds: cfg.Bounds, work: cfg.Work, events: cfg.Events, auditor: cfg.Auditor}
	var err error
	s.recipes, err = newStore(cfg.Dir, cfg.MaxRecipes, cfg.MaxBytes, cfg.Memory, s.loadRecipe, cfg.Hold,
		func(r *apierr.RecipeUnusable) {
			cfg.Log.Error("a stored recipe can't be used: put a new version of it, or delete this one", "recipe", r.Name,
				"version", r.Version, "file", filepath.Join(cfg.Dir, versionFile(r.Name, r.Version)), "reason", r.Reason)
		})
	return s, err
}

// Recipe returns a version and its set; 0 is the latest. The message must not be changed.
func (s *Service) Recipe(name string, version uint64) (*pb.Recipe, *polygon.Set, error) {
	return s.recipes.Recipe(name, version)
}

// FlatField is the field that a message at path has, or stands for; nil for none.
func (s *Service) FlatField(m *pb.FlatField, path string) (*kernels.FlatField, error) {
	return s.recipes.FlatField(m, path)
}

// Close lets another server use the directory.
func (s *Service) Close() { s.recipes.close() }

// Bytes is about how much memory they take.
func (s *Service) Bytes() int64 {
	_, _, bytes := s.recipes.size()
	return bytes
}

// Count is the number of versions stored, and how many of them this server refuses.
func (s *Service) Count() (stored, unusable int) {
	stored, unusable, _ = s.recipes.size()
	return stored, unusable
}

// compileRecipe checks all of a recipe that can be checked without a frame. path is where it lies in the request. It
// calls pause as [wire.NewSet] does.
func (s *Service) compileRecipe(ctx context.Context, m *pb.Recipe, path string, pause func() error) (*polygon.Set,
	error) {
	p := wire.Paths{Set: path + "region_set", Reductions: path + "reductions"}
	set, err := wire.NewSet(ctx, m.GetRegionSet(), p, s.bounds, pause)
	if err != nil {
		return nil, err
	}
	r := wire.ReductionsOf(m.GetReductions())
	if err := r.Validate(); err != nil {
		return nil, p.Translate(err)
	}
	return set, p.Translate(set.CheckLimits(&r))
}

// Compile checks all of a recipe that a request has at path, at a place of the pool where its regions have many
// vertices, and returns its set and its flat field.
func (s *Service) Compile(ctx context.Context, m *pb.Recipe, path string) (set *polygon.Set, flat *kernels.FlatField,
	err error) {
	err = s.work.Do(ctx, wire.SetWork(m.GetRegionSet()), wire.SmallSet, func(pause func() error) (err error) {
		if set, err = s.compileRecipe(ctx, m, path+".", pause); err != nil {
			return err
		}
		if flat, err = s.recipes.FlatField(m.GetFlatField(), path+".flat_field"); err != nil {
			return err
		}
		if d := m.GetRegionSet().GetDrawnOn(); flat != nil && d != nil && set.HasLimits() &&
			(flat.Width != int(d.GetWidth()) || flat.Height != 1 && flat.Height != int(d.GetHeight())) {
			return apierr.Refuse(path+".flat_field", fmt.Sprintf("%dx%d", flat.Width, flat.Height),
				"corrects no frame of %dx%d pixels, on which the regions with limits were drawn: want that width, and 1 row or "+
					"that height", d.GetWidth(), d.GetHeight())
		}
		return wire.CheckFrames(m.GetFrames(), wire.FramesOf(set, wire.ReductionsOf(m.GetReductions()),
			m.GetFrames()), path+".frames")
	})
	return set, flat, err
}

func (s *Service) PutRecipe(ctx context.Context, req *pb.PutRecipeRequest) (*pb.PutRecipeResponse, error) {
	in := req.GetRecipe()
	if v := in.GetVersion(); v != 0 {
		return nil, apierr.Refuse("recipe.version", v, "is set by the server: leave it out, and use expected_version to say "+
			"which version you have seen")
	}
	set, flat, err := s.Compile(ctx, in, "recipe")
	if err != nil {
		return nil, err
	}
	m := &pb.Recipe{
		Name:        in.GetName(),
		Description: in.GetDescription(),
		RegionSet:   in.GetRegionSet(),
		Reductions:  in.GetReductions(),
		Frames:      in.GetFrames(),
		FlatField:   wire.FlatFieldRef(flat),
		CreatedAt:   timestamppb.New(time.Now()),
	}
	audit := &pb.AuditEntry{Action: pb.AuditAction_AUDIT_ACTION_PUT_RECIPE, Recipe: m.GetName()}
	do := func(f func() error) error {
		return s.work.Do(ctx, wire.SetWork(in.GetRegionSet()), wire.SmallSet, func(func() error) error { return f() })
	}
	compare := func(before *pb.Recipe) {
		audit.VersionBefore, audit.Changes = before.GetVersion(), differences(before, m)
	}
	err = s.recipes.put(auth.FromContext(ctx), m, set, flat, in.GetFlatField(), req.ExpectedVersion, do, compare, func() {
		audit.Version = m.GetVersion()
		s.audit(ctx, audit, m.GetTenant())
	})
	if err != nil {
		return nil, err
	}
	s.events.RecipeChanged(m.GetName(), m.GetVersion(), false)
	return &pb.PutRecipeResponse{Recipe: &pb.Recipe{
		Name: m.GetName(), Version: m.GetVersion(), Description: m.GetDescription(), Reductions: m.GetReductions(),
		CreatedAt: m.GetCreatedAt(), Tenant: m.GetTenant(),
	}}, nil
}

func (s *Service) GetRecipe(_ context.Context, req *pb.GetRecipeRequest) (*pb.GetRecipeResponse, error) {
	r, err := s.recipes.get(req.GetRecipe().GetName(), req.GetRecipe().GetVersion())
	if err != nil {
		return nil, err
	}
	return &pb.GetRecipeResponse{Recipe: r.msg}, nil
}

func (s *Service) ListRecipes(_ context.Context, req *pb.ListRecipesRequest) (*pb.ListRecipesResponse, error) {
	size := wire.PageSize(req.GetPageSize())
	var name string
	var version uint64
	if t := req.GetPageToken(); t != "" {
		var err error
		if name, version, err = parsePageToken(req); err != nil {
			return nil, err
		}
	}
	page, more := s.recipes.list(req.GetNamePrefix(), req.GetAllVersions(), name, version, size)
	res := &pb.ListRecipesResponse{Recipes: make([]*pb.RecipeSummary, len(page))}
	for i, r := range page {
		m := &pb.RecipeSummary{
			Name:        r.msg.GetName(),
			Version:     r.msg.GetVersion(),
			Description: r.msg.GetDescription(),
			RegionCount: uint32(len(r.msg.GetRegionSet().GetRegions())),
			CreatedAt:   r.msg.GetCreatedAt(),
			Tenant:      r.msg.GetTenant(),
		}
		if r.unusable != nil {
			m.Description = "can't be used: " + r.unusable.Reason
		} else {
			m.VertexCount = uint64(r.set.Vertices())
		}
		res.Recipes[i] = m
	}
	if more {
		last := page[len(page)-1].msg
		res.NextPageToken = pageToken(req, last.GetName(), last.GetVersion())
	}
	return res, nil
}

// pageToken names the last recipe of a page, and the query that it belongs to.
func pageToken(req *pb.ListRecipesRequest, name string, version uint64) string {
	text := strings.Join([]string{"1", strconv.FormatBool(req.GetAllVersions()), req.GetNamePrefix(), name,
		strconv.FormatUint(version, 10)}, "\n")
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

func parsePageToken(req *pb.ListRecipesRequest) (name string, version uint64, err error) {
	const field = "page_token"
	token := req.GetPageToken()
	text, err := base64.RawURLEncoding.DecodeString(token)
	parts := strings.Split(string(text), "\n")
	if err != nil || len(parts) != 5 || parts[0] != "1" {
		return "", 0, apierr.Refuse(field, strconv.Quote(token), "is no page token of this server")
	}
	version, err = strconv.ParseUint(parts[4], 10, 64)
	if err != nil || pageToken(req, parts[3], version) != token {
		return "", 0, apierr.Refuse(field, strconv.Quote(token),
			"belongs to a query with all_versions = %s and name_prefix = %q", parts[1], parts[2])
	}
	return parts[3], version, nil
}

func (s *Service) DeleteRecipe(ctx context.Context, req *pb.DeleteRecipeRequest) (*pb.DeleteRecipeResponse, error) {
	gone, err := s.recipes.delete(auth.FromContext(ctx), req.GetRecipe().GetName(), req.GetRecipe().GetVersion())
	if err != nil {
		return nil, err
	}
	last := gone[len(gone)-1].msg
	s.audit(ctx, &pb.AuditEntry{
		Action: pb.AuditAction_AUDIT_ACTION_DELETE_RECIPE, Recipe: last.GetName(),
		Version:       req.GetRecipe().GetVersion(),
		VersionBefore: last.GetVersion(), Changes: []string{fmt.Sprintf("%d of its versions deleted", len(gone))},
	}, last.GetTenant())
	s.events.RecipeChanged(req.GetRecipe().GetName(), req.GetRecipe().GetVersion(), true)
	for _, r := range gone {
		if r.set != nil {
			s.host.Forget(r.set)
		}
	}
	return &pb.DeleteRecipeResponse{Deleted: uint32(len(gone))}, nil
}

// loadRecipe checks a recipe that was read from a file.
func (s *Service) loadRecipe(m *pb.Recipe) (*polygon.Set, error) {
	if err := s.host.Validate(context.Background(), m); err != nil {
		return nil, err
	}
	return s.compileRecipe(context.Background(), m, "", nil)
}
