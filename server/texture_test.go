package server

import (
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/clients"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
)

// A recipe's textures and levels hold wherever it is used: for frames, in streams, and where it is tried.
func TestTexturesOfRecipes(t *testing.T) {
	s := start(t, Config{})
	c := clients.New(s.connectCleanly(t))
	pixels := randomBytes(40 * 30)
	recipe := &pb.Recipe{Name: "weave",
		RegionSet:  &pb.RegionSet{Regions: []*pb.Region{rect("a", 1, 1, 30, 20, "contrast(1,0) < 1")}},
		Reductions: &pb.Reductions{Cooccurrence: &pb.CooccurrenceSpec{Levels: 2, Offsets: []*pb.PixelOffset{{Dx: 1}, {Dy: 3}}}}}
	if _, err := c.PutRecipe(t.Context(), recipe, nil); err != nil {
		t.Fatal(err)
	}
	in := clients.UseRecipe("weave", 0)
	res, err := c.Reduce(t.Context(), in, rawFrame(40, 30, gray8, pixels))
	if err != nil {
		t.Fatal(err)
	}
	textures := res.Regions[0].Channels[0].GetTextures()
	if len(textures) != 2 || textures[0].GetLevels() != 2 || textures[1].GetOffset().GetDy() != 3 || textures[0].GetCounts() != nil {
		t.Fatalf("textures %v", textures)
	}
	// With two levels a contrast is the share of pairs that differ, below 1; with 64 it is in the hundreds.
	limit := res.Regions[0].Limits[0]
	if limit.Verdict != pb.Verdict_VERDICT_PASS || limit.GetValue() != textures[0].GetContrast() {
		t.Errorf("the limit says %v, the contrast is %v", limit, textures[0].GetContrast())
	}
	in.Reductions = &pb.Reductions{Statistics: []pb.Statistic{pb.Statistic_STATISTIC_COUNT}}
	_, err = c.Reduce(t.Context(), in, rawFrame(40, 30, gray8, pixels))
	wantRefused(t, err, "inspection.reductions.cooccurrence.levels", "must be 2: the recipe's limits")
	in.Reductions.Cooccurrence = &pb.CooccurrenceSpec{Levels: 2}
	res, err = c.Reduce(t.Context(), in, rawFrame(40, 30, gray8, pixels))
	if err != nil || res.Regions[0].Limits[0].GetValue() != limit.GetValue() {
		t.Errorf("at as many levels: %v, %v", res, err)
	}
	tried, err := c.Try(t.Context(), &pb.TryOpen{Regions: &pb.TryOpen_Recipe{Recipe: &pb.RecipeRef{Name: "weave"}}},
		func(yield func(clients.Labeled, error) bool) {
			yield(clients.Labeled{Frame: rawFrame(40, 30, gray8, pixels), Label: pb.FrameLabel_FRAME_LABEL_GOOD}, nil)
		})
	if err != nil {
		t.Fatal(err)
	}
	if tried.Tally.GoodPassed != 1 {
		t.Errorf("tried: %v", tried)
	}
	in.Reductions = nil
	answers := 0
	for a, err := range c.StreamFrames(t.Context(), in, func(yield func(*pb.Frame, error) bool) {
		yield(rawFrame(40, 30, gray8, pixels), nil)
	}, clients.StreamOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		answers++
		got := a.Result.GetRegions()[0].GetChannels()[0].GetTextures()
		if !slices.EqualFunc(got, textures, func(a, b *pb.Texture) bool { return proto.Equal(a, b) }) {
			t.Errorf("a stream says %v, Reduce %v", got, textures)
		}
	}
	if answers != 1 {
		t.Errorf("%d answers of the stream", answers)
	}
}

// A result whose matrices no message can carry is refused before anything is computed.
func TestTexturesTooLarge(t *testing.T) {
	s := start(t, Config{})
	c := clients.New(s.connectCleanly(t))
	var regions []*pb.Region
	for range 1000 {
		regions = append(regions, rect("a", 0, 0, 8, 8))
	}
	in := inspecting(regions...)
	in.Reductions = &pb.Reductions{Cooccurrence: &pb.CooccurrenceSpec{Levels: 128, Counts: true}}
	_, err := c.Reduce(t.Context(), in, rawFrame(8, 8, gray8, randomBytes(64)))
	if d := detailsOf(t, err); d.status.Code() != codes.ResourceExhausted || d.info.GetReason() != apierr.ReasonResultTooLarge {
		t.Errorf("a thousand regions with four matrices of 128 levels: %v", err)
	}
	in.Reductions.Cooccurrence = &pb.CooccurrenceSpec{Levels: 1}
	_, err = c.Reduce(t.Context(), in, rawFrame(8, 8, gray8, randomBytes(64)))
	wantRefused(t, err, "inspection.reductions.cooccurrence.levels", "2 to 256")
	in.Reductions.Cooccurrence = &pb.CooccurrenceSpec{Offsets: []*pb.PixelOffset{{}}}
	_, err = c.Reduce(t.Context(), in, rawFrame(8, 8, gray8, randomBytes(64)))
	wantRefused(t, err, "inspection.reductions.cooccurrence.offsets[0]", "a pixel and itself")
}
