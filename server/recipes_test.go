package server

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
)

// put stores a recipe of one region.
func (ts *testServer) put(t testing.TB, name string, r *pb.Region) *pb.Recipe {
	t.Helper()
	res, err := ts.recipe.PutRecipe(t.Context(), &pb.PutRecipeRequest{Recipe: recipeOf(name, r)})
	if err != nil {
		t.Fatal(err)
	}
	return res.Recipe
}

func recipeOf(name string, r *pb.Region) *pb.Recipe {
	return &pb.Recipe{Name: name, Description: "of " + name, RegionSet: inspecting(r).GetRegionSet()}
}

func (ts *testServer) remove(t testing.TB, name string, version uint64) uint32 {
	t.Helper()
	res, err := ts.recipe.DeleteRecipe(t.Context(),
		&pb.DeleteRecipeRequest{Recipe: &pb.RecipeRef{Name: name, Version: version}})
	if err != nil {
		t.Fatal(err)
	}
	return res.Deleted
}

// listed is what ListRecipes has, as "name@version", over all pages.
func (ts *testServer) listed(t testing.TB, req *pb.ListRecipesRequest) []string {
	t.Helper()
	out := []string{}
	for {
		res, err := ts.recipe.ListRecipes(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range res.Recipes {
			out = append(out, fmt.Sprintf("%s@%d", r.Name, r.Version))
		}
		if req.PageSize > 0 && len(res.Recipes) > int(req.PageSize) {
			t.Errorf("a page of %d", len(res.Recipes))
		}
		if res.NextPageToken == "" {
			return out
		}
		req.PageToken = res.NextPageToken
	}
}

// Versions, with the recipes in memory and in files.
func TestRecipeVersions(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		t.Run(fmt.Sprintf("dir=%v", dir != ""), func(t *testing.T) {
			s := start(t, Config{RecipeDir: dir})
			region := rect("pad", 1, 1, 3, 3, "mean in [90, 140]")
			first := s.put(t, "board", region)
			if first.Version != 1 || first.RegionSet != nil || time.Since(first.CreatedAt.AsTime()) > time.Minute ||
				first.Description != "of board" {
				t.Errorf("%v", first)
			}
			if second := s.put(t, "board", rect("pad", 0, 0, 9, 9)); second.Version != 2 {
				t.Errorf("%v", second)
			}
			get := func(version uint64) *pb.Recipe {
				t.Helper()
				res, err := s.recipe.GetRecipe(t.Context(),
					&pb.GetRecipeRequest{Recipe: &pb.RecipeRef{Name: "board", Version: version}})
				if err != nil {
					t.Fatal(err)
				}
				return res.Recipe
			}
			if r := get(1); r.Version != 1 || !proto.Equal(r.RegionSet.Regions[0], region) {
				t.Errorf("version 1: %v", r)
			}
			if r := get(0); r.Version != 2 {
				t.Errorf("latest: %v", r)
			}
			if n := s.remove(t, "board", 2); n != 1 {
				t.Errorf("%d deleted", n)
			}
			if r := get(0); r.Version != 1 {
				t.Errorf("latest after 2 went: %v", r)
			}
			if r := s.put(t, "board", region); r.Version != 3 {
				t.Errorf("a number is used again: %v", r)
			}
			if n := s.remove(t, "board", 0); n != 2 {
				t.Errorf("%d deleted", n)
			}
			for _, call := range []func() error{
				func() error {
					_, err := s.recipe.GetRecipe(t.Context(),
						&pb.GetRecipeRequest{Recipe: &pb.RecipeRef{Name: "board"}})
					return err
				},
				func() error {
					_, err := s.recipe.DeleteRecipe(t.Context(),
						&pb.DeleteRecipeRequest{Recipe: &pb.RecipeRef{Name: "board"}})
					return err
				},
			} {
				if d := detailsOf(t, call()); d.status.Code() != codes.NotFound || d.res == nil ||
					d.res.ResourceName != "board" || d.res.ResourceType != "polyscan.v1.Recipe" {
					t.Errorf("%v", d.status)
				}
			}
			if r := s.put(t, "board", region); r.Version != 4 {
				t.Errorf("a number is used again: %v", r)
			}
			_, err := s.recipe.GetRecipe(t.Context(),
				&pb.GetRecipeRequest{Recipe: &pb.RecipeRef{Name: "board", Version: 1}})
			if d := detailsOf(t, err); d.status.Code() != codes.NotFound || d.res.ResourceName != "board@1" {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestExpectedVersion(t *testing.T) {
	s := start(t, Config{})
	put := func(expected uint64) error {
		_, err := s.recipe.PutRecipe(t.Context(),
			&pb.PutRecipeRequest{Recipe: recipeOf("r", rect("", 0, 0, 1, 1)), ExpectedVersion: &expected})
		return err
	}
	conflict := func(err error, expected, latest string) {
		t.Helper()
		d := detailsOf(t, err)
		if d.status.Code() != codes.Aborted || d.info.Reason != apierr.ReasonVersionConflict ||
			d.info.Metadata["expected"] != expected || d.info.Metadata["latest"] != latest {
			t.Errorf("%v", err)
		}
	}
	conflict(put(1), "1", "0")
	if err := put(0); err != nil {
		t.Fatal(err)
	}
	conflict(put(0), "0", "1")
	if err := put(1); err != nil {
		t.Fatal(err)
	}
	conflict(put(1), "1", "2")
	// Of many that expect the same, one succeeds.
	var mu sync.Mutex
	var wg sync.WaitGroup
	ok := 0
	for range 20 {
		wg.Go(func() {
			if put(2) == nil {
				mu.Lock()
				defer mu.Unlock()
				ok++
			}
		})
	}
	wg.Wait()
	if ok != 1 {
		t.Errorf("%d puts expected version 2 and succeeded", ok)
	}
	s.remove(t, "r", 0)
	if err := put(0); err != nil {
		t.Errorf("after all went: %v", err)
	}
}

func TestRefusesRecipes(t *testing.T) {
	s := start(t, Config{MaxRegions: 3, MaxRecipes: 2})
	fine := rect("r", 0, 0, 1, 1)
	for _, c := range []struct {
		name  string
		r     *pb.Recipe
		field string
		words []string
	}{
		{"nothing", nil, "recipe", nil},
		{"no name", recipeOf("", fine), "recipe.name", nil},
		{"name", recipeOf("../up", fine), "recipe.name", []string{`"../up"`}},
		{"no regions", &pb.Recipe{Name: "r"}, "recipe.region_set", nil},
		{"empty set", &pb.Recipe{Name: "r", RegionSet: &pb.RegionSet{}}, "recipe.region_set.regions",
			[]string{"at least 1"}},
		{"four regions", &pb.Recipe{Name: "r", RegionSet: inspecting(fine, fine, fine, fine).GetRegionSet()},
			"recipe.region_set.regions", []string{"4", "3 regions"}},
		{"two points", recipeOf("r", &pb.Region{Rings: []*pb.Ring{{Xy: []float64{1, 2, 3, 4}}}}),
			"recipe.region_set.regions[0].rings[0]", []string{"2 vertices"}},
		{"limit", recipeOf("r", rect("x", 0, 0, 1, 1, "mean near 3")), "recipe.region_set.regions[0].limits[0]",
			[]string{"mean near 3"}},
		{"reductions", &pb.Recipe{Name: "r", RegionSet: inspecting(fine).GetRegionSet(),
			Reductions: &pb.Reductions{Histogram: &pb.HistogramSpec{Lower: 3, Upper: 2}}},
			"recipe.reductions.histogram.upper", []string{"2", "3"}},
		{"description", &pb.Recipe{Name: "r", RegionSet: inspecting(fine).GetRegionSet(),
			Description: strings.Repeat("d", 5000)}, "recipe.description", []string{"4096"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := s.recipe.PutRecipe(t.Context(), &pb.PutRecipeRequest{Recipe: c.r})
			wantRefused(t, err, c.field, c.words...)
		})
	}
	s.put(t, "a", fine)
	s.put(t, "a", fine)
	_, err := s.recipe.PutRecipe(t.Context(), &pb.PutRecipeRequest{Recipe: recipeOf("b", fine)})
	if d := detailsOf(t, err); d.status.Code() != codes.ResourceExhausted || d.info.Reason != apierr.ReasonRecipesFull ||
		d.quota == nil {
		t.Errorf("%v", err)
	}
	s.remove(t, "a", 1)
	s.put(t, "b", fine)

	small := start(t, Config{MaxRecipeBytes: 1000})
	big := recipeOf("a", star("s", 100, 50, 50, 20))
	_, err = small.recipe.PutRecipe(t.Context(), &pb.PutRecipeRequest{Recipe: big})
	if d := detailsOf(t, err); d.status.Code() != codes.ResourceExhausted ||
		!strings.Contains(d.status.Message(), "1000") {
		t.Errorf("%v", err)
	}
}

func TestListRecipes(t *testing.T) {
	s := start(t, Config{})
	for range 3 {
		for _, name := range []string{"board-b", "Board", "board-a", "plank"} {
			s.put(t, name, rect("r", 0, 0, 1, 1))
		}
	}
	s.remove(t, "board-a", 2)
	for _, c := range []struct {
		req  *pb.ListRecipesRequest
		want string
	}{
		{&pb.ListRecipesRequest{}, "Board@3 board-a@3 board-b@3 plank@3"},
		{&pb.ListRecipesRequest{NamePrefix: "board-"}, "board-a@3 board-b@3"},
		{&pb.ListRecipesRequest{NamePrefix: "x"}, ""},
		{&pb.ListRecipesRequest{NamePrefix: "board-", AllVersions: true},
			"board-a@1 board-a@3 board-b@1 board-b@2 board-b@3"},
	} {
		for _, size := range []uint32{0, 1, 2, 3, 4, 1000} {
			c.req.PageSize, c.req.PageToken = size, ""
			if got := s.listed(t, c.req); strings.Join(got, " ") != c.want {
				t.Errorf("%v: %v, want %s", c.req, got, c.want)
			}
		}
	}
	res, err := s.recipe.ListRecipes(t.Context(), &pb.ListRecipesRequest{PageSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	if r := res.Recipes[0]; r.RegionCount != 1 || r.VertexCount != 4 || r.Description != "of Board" ||
		r.CreatedAt == nil {
		t.Errorf("%v", r)
	}
	// A page token is good after what it names has gone, and for its own query only.
	s.remove(t, "Board", 0)
	if got := s.listed(t, &pb.ListRecipesRequest{PageSize: 1, PageToken: res.NextPageToken}); !slices.Equal(got,
		[]string{"board-a@3", "board-b@3", "plank@3"}) {
		t.Errorf("%v", got)
	}
	for _, req := range []*pb.ListRecipesRequest{
		{PageToken: res.NextPageToken, AllVersions: true},
		{PageToken: res.NextPageToken, NamePrefix: "b"},
		{PageToken: "???"},
		{PageToken: base64.RawURLEncoding.EncodeToString([]byte("1\nfalse\n\nname\n-1"))},
		{PageToken: base64.RawURLEncoding.EncodeToString([]byte("2\nfalse\n\nname\n1"))},
		{PageToken: res.NextPageToken[1:]},
	} {
		_, err := s.recipe.ListRecipes(t.Context(), req)
		wantRefused(t, err, "page_token")
	}
	_, err = s.recipe.ListRecipes(t.Context(), &pb.ListRecipesRequest{PageSize: 1001})
	wantRefused(t, err, "page_size", "1001", "1000")
}

// What a recipe says is what happens, and the regions are prepared once.
func TestReduceByRecipe(t *testing.T) {
	s := start(t, Config{})
	_, err := s.recipe.PutRecipe(t.Context(), &pb.PutRecipeRequest{Recipe: &pb.Recipe{
		Name:      "strip",
		RegionSet: inspecting(rect("r", 0, 0, 2, 1, "mean < 5"), rect("q", 1, 0, 2, 1, "r.max < 5")).GetRegionSet(),
		Reductions: &pb.Reductions{Statistics: []pb.Statistic{pb.Statistic_STATISTIC_MEDIAN},
			Percentiles: []float64{5}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	req := &pb.ReduceRequest{
		Inspection: &pb.Inspection{Regions: &pb.Inspection_Recipe{Recipe: &pb.RecipeRef{Name: "strip"}}},
		Frame:      rawFrame(2, 1, rgb8, []byte{1, 2, 3, 3, 2, 1}),
	}
	for range 3 {
		res, err := s.inspection.Reduce(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if c := res.Result.Regions[0].Channels[0]; c.GetMedian() != 2 || c.Mean != nil ||
			res.Result.Verdict != pb.Verdict_VERDICT_PASS {
			t.Errorf("%v", res)
		}
	}
	if p := s.inspector.Prepared.Stats(); p.Misses != 1 || p.Hits != 2 {
		t.Errorf("%+v", p)
	}
	// The call's own reductions go before the recipe's.
	req.Inspection.Reductions = &pb.Reductions{Statistics: []pb.Statistic{pb.Statistic_STATISTIC_SUM}}
	res, err := s.inspection.Reduce(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if c := res.Result.Regions[0].Channels[0]; c.GetSum() != 4 || c.Median != nil {
		t.Errorf("%v", c)
	}
	// What is wrong with the recipe for this frame is said of the recipe.
	req.Frame = smallFrame(1)
	_, err = s.inspection.Reduce(t.Context(), req)
	wantRefused(t, err, "inspection.recipe", "strip@1", "regions[1].limits[0]", "no red channel")

	img, err := s.inspection.Rasterize(t.Context(), &pb.RasterizeRequest{
		Regions: &pb.RasterizeRequest_Recipe{Recipe: &pb.RecipeRef{Name: "strip", Version: 1}}, Width: 3, Height: 1,
	})
	if err != nil || string(img.Image.GetData()) != "\xff\xff\x00" {
		t.Errorf("%v, %v", img, err)
	}
	s.remove(t, "strip", 0)
	if m := s.dev.Memory(); m.Used != 0 {
		t.Errorf("a deleted recipe keeps memory of the device: %v", m)
	}
}

// What is prepared keeps within its bytes, and gives way to frames that need the room.
func TestPreparedEviction(t *testing.T) {
	s := start(t, Config{MemoryBytes: 8 << 20, PreparedBytes: 100 << 10})
	reduce := func(name string, w, h int) {
		t.Helper()
		_, err := s.inspection.Reduce(t.Context(), &pb.ReduceRequest{
			Inspection: &pb.Inspection{Regions: &pb.Inspection_Recipe{Recipe: &pb.RecipeRef{Name: name}}},
			Frame:      rawFrame(w, h, gray8, make([]byte, w*h)),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		name := fmt.Sprintf("r%d", i)
		s.put(t, name, star("s", 60, 500, 500, 450))
		reduce(name, 1000, 1000)
		if p := s.inspector.Prepared.Stats(); p.Bytes > 100<<10 {
			t.Errorf("%+v", p)
		}
	}
	p := s.inspector.Prepared.Stats()
	if p.Evictions == 0 || p.Entries == 0 {
		t.Errorf("%+v", p)
	}
	reduce("r19", 1000, 1000)
	if now := s.inspector.Prepared.Stats(); now.Hits != p.Hits+1 {
		t.Errorf("the one used last was evicted: %+v", now)
	}
	// A frame that takes all but a little.
	_, err := s.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: inspecting(rect("r", 0, 0, 2048, 4060)),
		Frame: rawFrame(2048, 4090, gray8, make([]byte, 2048*4090))})
	if err != nil {
		t.Error(err)
	}
	if now := s.inspector.Prepared.Stats(); now.Entries >= p.Entries || now.Evictions <= p.Evictions {
		t.Errorf("%+v, then %+v", p, now)
	}
	reduce("r19", 1000, 1000)
}

// Many calls at the same time prepare once.
func TestPreparedOnce(t *testing.T) {
	s := start(t, Config{})
	s.put(t, "r", star("s", 60, 500, 500, 450))
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() {
			_, err := s.inspection.Reduce(t.Context(), &pb.ReduceRequest{
				Inspection: &pb.Inspection{Regions: &pb.Inspection_Recipe{Recipe: &pb.RecipeRef{Name: "r"}}},
				Frame:      rawFrame(1000, 10, gray8, make([]byte, 10_000)),
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if p := s.inspector.Prepared.Stats(); p.Misses != 1 || p.Hits != 29 {
		t.Errorf("%+v", p)
	}
}

func TestRecipesSurviveRestart(t *testing.T) {
	dir := t.TempDir()
	s := start(t, Config{RecipeDir: dir})
	region := onGrid(star("Ä", 20, 30, 30, 20))
	region.Limits = []string{"p99.5 <= 200"}
	region.FillRule = pb.FillRule_FILL_RULE_EVEN_ODD
	for _, name := range []string{"a", "A", "a.b-c_d", strings.Repeat("N", 128), "gone"} {
		s.put(t, name, region)
		s.put(t, name, rect("second", 0, 0, 1, 1))
	}
	s.remove(t, "a", 2)
	s.remove(t, "gone", 0)
	all := &pb.ListRecipesRequest{AllVersions: true}
	before := s.listed(t, all)
	one, err := s.recipe.GetRecipe(t.Context(), &pb.GetRecipeRequest{Recipe: &pb.RecipeRef{Name: "A", Version: 1}})
	if err != nil {
		t.Fatal(err)
	}
	// Another server may not use the directory meanwhile.
	if _, err := New(Config{RecipeDir: dir, MemoryBytes: 1 << 20}); err == nil ||
		!strings.Contains(err.Error(), "another server") {
		t.Errorf("%v", err)
	}
	s.stop(t)
	// What a crash may leave.
	if err := os.WriteFile(filepath.Join(dir, ".writing-123"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "README"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}

	s = start(t, Config{RecipeDir: dir})
	all.PageToken = ""
	if after := s.listed(t, all); !slices.Equal(before, after) {
		t.Errorf("before %v, after %v", before, after)
	}
	again, err := s.recipe.GetRecipe(t.Context(), &pb.GetRecipeRequest{Recipe: &pb.RecipeRef{Name: "A", Version: 1}})
	if err != nil || !proto.Equal(one, again) {
		t.Errorf("%v, %v, want %v", again, err, one)
	}
	for name, want := range map[string]uint64{"a": 3, "gone": 3, "A": 3, "new": 1} {
		if r := s.put(t, name, region); r.Version != want {
			t.Errorf("%s: version %d, want %d", name, r.Version, want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, ".writing-123")); !os.IsNotExist(err) {
		t.Errorf("the file of a crash is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "README")); err != nil {
		t.Error(err)
	}
}

// recipeFile is where a version of a recipe is kept, or its last version.
func recipeFile(name, version string) string {
	sum := sha256.Sum256([]byte(name))
	return fmt.Sprintf("%s-%x.%s.json", name, sum[:16], version)
}

func TestDamagedRecipes(t *testing.T) {
	good := func(t *testing.T) (dir, file string) {
		dir = t.TempDir()
		s := start(t, Config{RecipeDir: dir})
		s.put(t, "board", rect("r", 0, 0, 1, 1))
		s.remove(t, "board", s.put(t, "board", rect("r", 0, 0, 1, 1)).Version)
		s.stop(t)
		return dir, recipeFile("board", "1")
	}
	for name, damage := range map[string]func(t *testing.T, dir, file string) (blamed string){
		"cut off": func(t *testing.T, dir, file string) string {
			if err := os.Truncate(filepath.Join(dir, file), 50); err != nil {
				t.Fatal(err)
			}
			return file
		},
		"empty": func(t *testing.T, dir, file string) string {
			if err := os.Truncate(filepath.Join(dir, file), 0); err != nil {
				t.Fatal(err)
			}
			return file
		},
		"renamed": func(t *testing.T, dir, file string) string {
			other := recipeFile("board", "7")
			if err := os.Rename(filepath.Join(dir, file), filepath.Join(dir, other)); err != nil {
				t.Fatal(err)
			}
			return other
		},
		"another name": func(t *testing.T, dir, file string) string { return edit(t, dir, file, "board", "plank") },
		"damaged last version": func(t *testing.T, dir, _ string) string {
			return edit(t, dir, recipeFile("board", "last"), "{", "[")
		},
		"last version of another": func(t *testing.T, dir, _ string) string {
			return edit(t, dir, recipeFile("board", "last"), "board", "plank")
		},
		"stranger": func(t *testing.T, dir, _ string) string {
			if err := os.WriteFile(filepath.Join(dir, "notes.json"), []byte("{}"), 0o600); err != nil {
				t.Fatal(err)
			}
			return "notes.json"
		},
		"directory": func(t *testing.T, dir, _ string) string {
			name := recipeFile("x", "1")
			if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
				t.Fatal(err)
			}
			return name
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, file := good(t)
			blamed := damage(t, dir, file)
			s, err := New(Config{RecipeDir: dir, MemoryBytes: 1 << 20})
			if err == nil {
				s.Shutdown(t.Context())
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), filepath.Join(dir, blamed)) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q does not name %s in one line", err, blamed)
			}
		})
	}
}

// A stored version that the server refuses, as an earlier or a later server took it, doesn't keep it from starting.
// Nobody gets an older version in its place, all are told why, and a new version mends it.
func TestUnusableRecipes(t *testing.T) {
	for name, c := range map[string]struct{ old, new, reason string }{
		"limit":                         {`"mean < 200"`, `"mean < 200 furlongs"`, "furlongs"},
		"geometry":                      {`"xy":`, `"xy": [1, 2], "xy_":`, "xy"},
		"reduction":                     {`"description":`, `"reductions": {"percentiles": [120]}, "description":`, "120"},
		"unknown field":                 {"{", `{"colour": "red", `, "colour"},
		"in the place of a damaged one": {"", `{"name": "board", "version": "2"}`, "region_set"},
		"unknown value":                 {`"limits":`, `"fillRule": "FILL_RULE_ODD", "limits":`, "FILL_RULE_ODD"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := start(t, Config{RecipeDir: dir})
			region := rect("r", 0, 0, 1, 1)
			region.Limits = []string{"mean < 200"}
			s.put(t, "board", region)
			s.put(t, "board", region)
			s.stop(t)
			if c.old != "" {
				edit(t, dir, recipeFile("board", "2"), c.old, c.new)
			} else if err := os.WriteFile(filepath.Join(dir, recipeFile("board", "2")), []byte(c.new), 0o600); err != nil {
				t.Fatal(err)
			}

			s = start(t, Config{RecipeDir: dir})
			if log := s.logs.String(); !strings.Contains(log, c.reason) ||
				!strings.Contains(log, filepath.Join(dir, recipeFile("board", "2"))) {
				t.Errorf("the log does not name the file and %q: %s", c.reason, log)
			}
			metric := func(want int) {
				t.Helper()
				if n := gather(t, s.gatherer).sum(t, "polyscan_recipes_unusable"); n != float64(want) {
					t.Errorf("the metrics count %v unusable recipes, want %d", n, want)
				}
			}
			metric(1)
			refused := func(err error) {
				t.Helper()
				d := detailsOf(t, err)
				if d.status.Code() != codes.FailedPrecondition || d.info.GetReason() != apierr.ReasonRecipeUnusable {
					t.Errorf("%v", err)
				}
				for _, want := range []string{`"board"`, "version 2", c.reason} {
					if !strings.Contains(d.status.Message(), want) || strings.Contains(d.status.Message(), dir) {
						t.Errorf("%q, want %s in it, and not the directory", d.status.Message(), want)
					}
				}
			}
			reduce := func(version uint64) (*pb.ReduceResponse, error) {
				return s.inspection.Reduce(t.Context(), &pb.ReduceRequest{Frame: smallFrame(1), Inspection: &pb.Inspection{
					Regions: &pb.Inspection_Recipe{Recipe: &pb.RecipeRef{Name: "board", Version: version}}}})
			}
			for _, version := range []uint64{0, 2} {
				ref := &pb.RecipeRef{Name: "board", Version: version}
				_, err := reduce(version)
				refused(err)
				_, err = s.recipe.GetRecipe(t.Context(), &pb.GetRecipeRequest{Recipe: ref})
				refused(err)
				_, err = s.inspection.Rasterize(t.Context(), &pb.RasterizeRequest{Width: 4, Height: 4,
					Regions: &pb.RasterizeRequest_Recipe{Recipe: ref}})
				refused(err)
			}
			if _, err := reduce(1); err != nil {
				t.Errorf("the version before: %v", err)
			}
			res, err := s.recipe.ListRecipes(t.Context(), &pb.ListRecipesRequest{})
			if err != nil || len(res.Recipes) != 1 || res.Recipes[0].Version != 2 ||
				!strings.HasPrefix(res.Recipes[0].Description, "can't be used: ") ||
				!strings.Contains(res.Recipes[0].Description, c.reason) {
				t.Errorf("listed: %v, %v", res, err)
			}

			if m := s.put(t, "board", region); m.Version != 3 {
				t.Errorf("version %d is put, want 3", m.Version)
			}
			if _, err := reduce(0); err != nil {
				t.Errorf("the version that was put: %v", err)
			}
			s.remove(t, "board", 2)
			metric(0)
			all := s.listed(t, &pb.ListRecipesRequest{AllVersions: true})
			if !slices.Equal(all, []string{"board@1", "board@3"}) {
				t.Errorf("%v", all)
			}
		})
	}
}

// edit replaces text in a file, once.
func edit(t *testing.T, dir, file, old, new string) string {
	t.Helper()
	path := filepath.Join(dir, file)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := strings.Replace(string(b), old, new, 1)
	if s == string(b) {
		t.Fatalf("%q is not in %s", old, b)
	}
	if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A directory that can't be written to fails the put, and leaves no version behind.
func TestRecipeWriteFails(t *testing.T) {
	dir := t.TempDir()
	s := start(t, Config{RecipeDir: dir})
	s.put(t, "a", rect("r", 0, 0, 1, 1))
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	_, err := s.recipe.PutRecipe(t.Context(), &pb.PutRecipeRequest{Recipe: recipeOf("a", rect("r", 0, 0, 1, 1))})
	if d := detailsOf(t, err); d.status.Code() != codes.Internal || strings.Contains(d.status.Message(), dir) ||
		!strings.Contains(s.logs.String(), dir) {
		t.Errorf("%v", err)
	}
	if got := s.listed(t, &pb.ListRecipesRequest{AllVersions: true}); !slices.Equal(got, []string{"a@1"}) {
		t.Errorf("%v", got)
	}
}

// TestPutRecipeOfVersion: which version a recipe becomes is not for the client to say.
func TestPutRecipeOfVersion(t *testing.T) {
	s := start(t, Config{})
	_, err := s.recipe.PutRecipe(t.Context(), &pb.PutRecipeRequest{Recipe: &pb.Recipe{Name: "m", Version: 7,
		RegionSet: inspecting(rect("a", 0, 0, 1, 1)).GetRegionSet()}})
	wantRefused(t, err, "recipe.version", "7", "set by the server", "expected_version")
}
