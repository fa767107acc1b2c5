package server

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/clients"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// A recipe's profiles hold wherever it is used: for frames, as rows and as columns, in streams, and where it is tried.
func TestProfilesOfRecipes(t *testing.T) {
	s := start(t, Config{})
	c := clients.New(s.connectCleanly(t))
	pixels := randomBytes(40 * 30)
	recipe := &pb.Recipe{Name: "gap",
		RegionSet: &pb.RegionSet{Regions: []*pb.Region{rect("a", 1, 1, 30, 20, "profile(columns by 2).max < 250.5",
			"profile(line (2,3)-(25,19) width 6).range >= 0.5")}},
		Reductions: &pb.Reductions{Profiles: []*pb.ProfileTerm{
			{Kind: pb.ProfileKind_PROFILE_KIND_ROWS},
			{Kind: pb.ProfileKind_PROFILE_KIND_COLUMNS, Bin: 2},
			{Kind: pb.ProfileKind_PROFILE_KIND_RADIUS, Points: []*pb.Point{{X: 12, Y: 9.5}}},
			{Kind: pb.ProfileKind_PROFILE_KIND_LINE, Points: []*pb.Point{{X: 2, Y: 3}, {X: 25, Y: 19}}, Width: 6},
		}}}
	if _, err := c.PutRecipe(t.Context(), recipe, nil); err != nil {
		t.Fatal(err)
	}
	in := clients.UseRecipe("gap", 0)
	res, err := c.Reduce(t.Context(), in, rawFrame(40, 30, gray8, pixels))
	if err != nil {
		t.Fatal(err)
	}
	found := res.Regions[0].Channels[0].GetProfiles()
	if len(found) != 4 || len(found[0].GetCounts()) != 19 || len(found[1].GetSums()) != 15 ||
		found[1].GetPieces()[0].GetSize() != 2 || found[0].GetPieces()[0].GetStart() != 1 {
		t.Fatalf("profiles %v", found)
	}
	for b, n := range found[0].GetCounts() {
		sum := uint64(0)
		for x := 1; x < 30; x++ {
			sum += uint64(pixels[(1+b)*40+x])
		}
		if n != 29 || found[0].GetSums()[b] != sum {
			t.Errorf("row %d: %d pixels that sum to %d, want %d", b, n, found[0].GetSums()[b], sum)
		}
	}
	for k, want := range []*float64{found[1].Max, found[3].Range} {
		if l := res.Regions[0].Limits[k]; l.Verdict != pb.Verdict_VERDICT_PASS || l.GetValue() != *want {
			t.Errorf("the limit says %v, the profile %v", l, *want)
		}
	}
	same := func(what string, got []*pb.Profile) {
		t.Helper()
		if !slices.EqualFunc(got, found, func(a, b *pb.Profile) bool { return proto.Equal(a, b) }) {
			t.Errorf("%s says %v, Reduce %v", what, got, found)
		}
	}
	asked := clients.AsColumns(in)
	res, err = c.Reduce(t.Context(), asked, rawFrame(40, 30, gray8, pixels))
	if err != nil {
		t.Fatal(err)
	}
	columns, err := clients.ColumnsOf(asked, res)
	if err != nil {
		t.Fatal(err)
	}
	same("columns", columns.Profiles(0, 0))
	for a, err := range c.StreamFrames(t.Context(), in, func(yield func(*pb.Frame, error) bool) {
		yield(rawFrame(40, 30, gray8, pixels), nil)
	}, clients.StreamOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		same("a stream", a.Result.GetRegions()[0].GetChannels()[0].GetProfiles())
	}
	tried, err := c.Try(t.Context(), &pb.TryOpen{Regions: &pb.TryOpen_Recipe{Recipe: &pb.RecipeRef{Name: "gap"}}},
		func(yield func(clients.Labeled, error) bool) {
			yield(clients.Labeled{Frame: rawFrame(40, 30, gray8, pixels), Label: pb.FrameLabel_FRAME_LABEL_GOOD}, nil)
		})
	if err != nil || tried.Tally.GoodPassed != 1 {
		t.Errorf("tried: %v, %v", tried, err)
	}
}

// Profiles that can't be are refused by their field, as are those of too many bins, before anything runs.
func TestBadProfiles(t *testing.T) {
	s := start(t, Config{})
	c := clients.New(s.connectCleanly(t))
	term := func(kind pb.ProfileKind, points ...*pb.Point) *pb.ProfileTerm {
		return &pb.ProfileTerm{Kind: kind, Points: points}
	}
	rows := term(pb.ProfileKind_PROFILE_KIND_ROWS)
	for _, c2 := range []struct {
		term       *pb.ProfileTerm
		field, why string
	}{
		{&pb.ProfileTerm{}, "profiles[0].kind", ""},
		{&pb.ProfileTerm{Kind: 1, Bin: 5000}, "profiles[0].bin", "4096"},
		{&pb.ProfileTerm{Kind: 1, Width: 5}, "profiles[0].width", "of a line"},
		{term(pb.ProfileKind_PROFILE_KIND_RADIUS), "profiles[0].points", "must be 1 to 1"},
		{term(pb.ProfileKind_PROFILE_KIND_LINE, &pb.Point{}, &pb.Point{X: 40000}), "profiles[0].points", "longer than 32768"},
	} {
		in := inspecting(rect("a", 0, 0, 8, 8))
		in.Reductions = &pb.Reductions{Profiles: []*pb.ProfileTerm{c2.term}}
		_, err := c.Reduce(t.Context(), in, rawFrame(8, 8, gray8, randomBytes(64)))
		wantRefused(t, err, "inspection.reductions."+c2.field, c2.why)
	}
	var regions []*pb.Region
	for range 100 {
		regions = append(regions, rect("a", 0, 0, 8, 60000))
	}
	in := inspecting(regions...)
	in.Reductions = &pb.Reductions{Profiles: []*pb.ProfileTerm{rows}}
	_, err := c.Reduce(t.Context(), in, rawFrame(8, 60000, gray8, randomBytes(8*60000)))
	wantRefused(t, err, "inspection.reductions.profiles", "6000000 bins for 100 regions of 1 channels")
}
