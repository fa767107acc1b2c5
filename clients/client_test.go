package clients

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

func TestRecipesPages(t *testing.T) {
	calls := 0
	c := dial(t, &fake{list: func(req *polyscanv1.ListRecipesRequest) (*polyscanv1.ListRecipesResponse, error) {
		calls++
		if req.GetNamePrefix() == "broken" && req.GetPageToken() != "" {
			return nil, status.Error(codes.Internal, "lost")
		}
		if !req.GetAllVersions() {
			return nil, status.Error(codes.InvalidArgument, "expected all versions")
		}
		page := 0
		if req.GetPageToken() != "" {
			fmt.Sscan(req.GetPageToken(), &page)
		}
		res := &polyscanv1.ListRecipesResponse{}
		for i := range 3 {
			res.Recipes = append(res.Recipes,
				&polyscanv1.RecipeSummary{Name: fmt.Sprintf("%s%d", req.GetNamePrefix(), 3*page+i)})
		}
		if page < 2 {
			res.NextPageToken = fmt.Sprint(page + 1)
		}
		return res, nil
	}})
	var names []string
	for r, err := range c.Recipes(t.Context(), "r", true) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, r.GetName())
	}
	if want := strings.Fields("r0 r1 r2 r3 r4 r5 r6 r7 r8"); !slices.Equal(names, want) || calls != 3 {
		t.Errorf("%q in %d calls, want %q in 3", names, calls, want)
	}
	calls = 0
	for range c.Recipes(t.Context(), "r", true) {
		break
	}
	if calls != 1 {
		t.Errorf("%d calls for one recipe, want 1", calls)
	}
	n := 0
	var last error
	for _, err := range c.Recipes(t.Context(), "broken", true) {
		if last = err; err == nil {
			n++
		}
	}
	var e *Error
	if n != 3 || !errors.As(last, &e) || e.Code != codes.Internal {
		t.Errorf("%d recipes, then %v", n, last)
	}
}

func TestParseRecipeRef(t *testing.T) {
	for in, version := range map[string]uint64{"board": 0, "board@12": 12} {
		ref, err := ParseRecipeRef(in)
		if err != nil || ref.GetName() != "board" || ref.GetVersion() != version {
			t.Errorf("ParseRecipeRef(%q) = %v, %v", in, ref, err)
		}
	}
	for _, bad := range []string{"", "@1", "a@", "a@0", "a@-1", "a@1@2", "a@x", "a@18446744073709551616"} {
		if ref, err := ParseRecipeRef(bad); err == nil {
			t.Errorf("ParseRecipeRef(%q) = %v, want an error", bad, ref)
		}
	}
}

func TestInspections(t *testing.T) {
	in := UseRegions(Polygon("a", 1, 2, 3, 4, 5, 6), Polygon("b", 0, 0, 1, 0, 1, 1))
	set := in.GetRegionSet().GetRegions()
	if len(set) != 2 || set[0].GetName() != "a" ||
		!slices.Equal(set[0].GetRings()[0].GetXy(), []float64{1, 2, 3, 4, 5, 6}) {
		t.Errorf("inspection %v", in)
	}
	if r := MaskImage("m", Resident("f")); r.GetName() != "m" || r.GetMask().GetImage().GetFrame().GetResident() != "f" {
		t.Errorf("region %v", r)
	}
	if r := UseRecipe("a", 3).GetRecipe(); r.GetName() != "a" || r.GetVersion() != 3 {
		t.Errorf("recipe %v", r)
	}
	all := AllStatistics().GetStatistics()
	if len(all) != len(polyscanv1.Statistic_name)-1 || slices.Contains(all, 0) {
		t.Errorf("AllStatistics has %d of the protocol's %d", len(all), len(polyscanv1.Statistic_name)-1)
	}
}
