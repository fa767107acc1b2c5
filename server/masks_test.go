package server

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// masked is a region of y, x0, x1, ...
func masked(name string, runs ...int32) *pb.Region {
	return &pb.Region{Name: name, Mask: &pb.Mask{Runs: runs}}
}

// TestMasks: a mask is reduced as the pixels that it says, in a call, by a recipe that a restart keeps, and by strips.
func TestMasks(t *testing.T) {
	dir := t.TempDir()
	s := start(t, Config{RecipeDir: dir})
	in := inspecting(rect("a", 2, 3, 20, 9), masked("m", -1, 0, 9, 4, -3, 2, 4, 5, 9, 39, 31, 40), masked("none"))
	in.GetRegionSet().Regions[1].Limits = []string{"count == 7", "coverage > 0.2"}
	b := newBelt(3, 32, 200)
	req := &pb.ReduceRequest{Inspection: in, Frame: rawFrame(32, 40, gray8, b.lines(0, 40))}
	res, err := s.inspection.Reduce(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	var sum uint64
	for _, at := range [][2]int{{0, 4}, {1, 4}, {5, 4}, {6, 4}, {7, 4}, {8, 4}, {31, 39}} {
		sum += uint64(b.lines(at[1], at[1]+1)[at[0]])
	}
	m := res.GetResult().GetRegions()[1]
	if m.GetCount() != 7 || m.GetChannels()[0].GetSum() != sum || m.GetArea() != 27 || m.GetCoverage() != 7./27 ||
		m.GetVerdict() != pb.Verdict_VERDICT_PASS ||
		!proto.Equal(m.GetBounds(), &pb.PixelRect{X0: 0, Y0: 4, X1: 32, Y1: 40}) {
		t.Errorf("the mask sums to %d: %v", sum, m)
	}
	if n := res.GetResult().GetRegions()[2]; n.GetCount() != 0 || n.GetCoverage() != 1 {
		t.Errorf("the empty mask: %v", n)
	}

	put, err := s.recipe.PutRecipe(t.Context(), &pb.PutRecipeRequest{
		Recipe: &pb.Recipe{Name: "m", RegionSet: in.GetRegionSet()}})
	if err != nil || put.GetRecipe().GetVersion() != 1 {
		t.Fatalf("%v, %v", put, err)
	}
	s.stop(t)
	s = start(t, Config{RecipeDir: dir})
	got, err := s.recipe.GetRecipe(t.Context(), &pb.GetRecipeRequest{Recipe: &pb.RecipeRef{Name: "m"}})
	if err != nil || !proto.Equal(got.GetRecipe().GetRegionSet(), in.GetRegionSet()) {
		t.Errorf("%v, %v", got, err)
	}
	req.Inspection = &pb.Inspection{Regions: &pb.Inspection_Recipe{Recipe: &pb.RecipeRef{Name: "m"}}}
	for range 2 { // prepared, then from what is prepared
		again, err := s.inspection.Reduce(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if want := res.GetResult().GetRegions(); !proto.Equal(&pb.PartResult{Regions: again.GetResult().GetRegions()},
			&pb.PartResult{Regions: want}) {
			t.Errorf("by the recipe %v, want %v", again, want)
		}
	}

	call := s.scan(t, scanOpen(in, 32, 16, 40, 33))
	for n := range uint64(20) {
		call.strip(b.strip(n, int(n)*10, int(n)*10+10))
	}
	parts := call.finish().parts
	if len(parts) < 4 {
		t.Fatalf("%d parts", len(parts))
	}
	for _, p := range parts {
		if !p.GetIncomplete() {
			s.wantPart(t, p, in, b, 40)
		}
	}
}

func TestRefusesMasks(t *testing.T) {
	s := start(t, Config{MaxVertices: 12, MaxRegionVertices: 6})
	many := make([]int32, 0, 21)
	for y := range int32(7) {
		many = append(many, y, 0, 1)
	}
	both := rect("both", 0, 0, 1, 1)
	both.Mask = &pb.Mask{Runs: []int32{0, 0, 1}}
	const at = "inspection.region_set.regions[1]"
	for _, c := range []struct {
		region *pb.Region
		field  string
		words  []string
	}{
		{masked("m", 1, 2), at + ".mask.runs", []string{"2 numbers", "threes"}},
		{masked("m", 1, 2, 3, 1, 3, 4), at + ".mask.runs[3]", []string{"row 1, columns [3, 4)", "not touch"}},
		{masked("m", 1, 2, 2), at + ".mask.runs[0]", []string{"must hold a pixel"}},
		{masked("m", 1<<22, 2, 3), at + ".mask.runs[0]", []string{"4194304"}},
		{masked("m", many...), at + ".mask", []string{"7 runs", "6 vertices in a region"}},
		{both, at + ".mask", []string{"1 runs", "1 rings"}},
	} {
		_, err := s.inspection.Reduce(t.Context(),
			&pb.ReduceRequest{Inspection: inspecting(rect("r", 0, 0, 1, 1), c.region), Frame: smallFrame(1)})
		wantRefused(t, err, c.field, c.words...)
	}
	_, err := s.inspection.Reduce(t.Context(), &pb.ReduceRequest{
		Inspection: inspecting(masked("a", many[:18]...), masked("b", many[:18]...), masked("c", many[:3]...)),
		Frame:      smallFrame(1)})
	wantRefused(t, err, "inspection.region_set.regions", "13 vertices", "12")
}

// TestShapes: a region that is made of others is reduced as the pixels that it comes to, in a call and by a recipe,
// which keeps what it says; its memory counts for the request.
func TestShapes(t *testing.T) {
	dir := t.TempDir()
	s := start(t, Config{RecipeDir: dir})
	made := &pb.Region{Name: "band", Shape: `band of "U7" inwards 2 px - circle(4, 3, 5)`, Limits: []string{"count > 9"}}
	in := inspecting(made, rect("U7", 4, 3, 26, 20))
	b := newBelt(4, 32, 100)
	req := &pb.ReduceRequest{Inspection: in, Frame: rawFrame(32, 40, gray8, b.lines(0, 40))}
	res, err := s.inspection.Reduce(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	set, err := polygon.NewSet([]polygon.Region{{Shape: made.Shape}, {Name: "U7",
		Rings: []polygon.Ring{{{X: 4, Y: 3}, {X: 26, Y: 3}, {X: 26, Y: 20}, {X: 4, Y: 20}}}}}, polygon.Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	flat := masked("band")
	flat.Limits = made.Limits
	for _, u := range set.Pixels(0) {
		flat.Mask.Runs = append(flat.Mask.Runs, u.Y, u.X0, u.X1)
	}
	same, err := s.inspection.Reduce(t.Context(),
		&pb.ReduceRequest{Inspection: inspecting(flat, rect("U7", 4, 3, 26, 20)), Frame: req.Frame})
	if err != nil {
		t.Fatal(err)
	}
	want := same.GetResult().GetRegions()
	if got := res.GetResult().GetRegions(); got[0].GetCount() < 9 || got[0].GetVerdict() != pb.Verdict_VERDICT_PASS ||
		!proto.Equal(&pb.PartResult{Regions: got}, &pb.PartResult{Regions: want}) {
		t.Errorf("%v, want %v", got, want)
	}
	if _, err := s.recipe.PutRecipe(t.Context(), &pb.PutRecipeRequest{Recipe: &pb.Recipe{Name: "m",
		RegionSet: in.GetRegionSet()}}); err != nil {
		t.Fatal(err)
	}
	s.stop(t)
	s = start(t, Config{RecipeDir: dir})
	got, err := s.recipe.GetRecipe(t.Context(), &pb.GetRecipeRequest{Recipe: &pb.RecipeRef{Name: "m"}})
	if err != nil || !proto.Equal(got.GetRecipe().GetRegionSet(), in.GetRegionSet()) {
		t.Errorf("%v, %v", got, err)
	}
	req.Inspection = &pb.Inspection{Regions: &pb.Inspection_Recipe{Recipe: &pb.RecipeRef{Name: "m"}}}
	again, err := s.inspection.Reduce(t.Context(), req)
	if err != nil || !proto.Equal(&pb.PartResult{Regions: again.GetResult().GetRegions()}, &pb.PartResult{Regions: want}) {
		t.Errorf("by the recipe %v, %v, want %v", again, err, want)
	}
	for shape, words := range map[string][]string{
		`band of "U8" inwards 2`: {`column 9: no region is called "U8"`},
		`circle(1, 2`:            {"column 12", "the end"},
	} {
		_, err := s.inspection.Reduce(t.Context(), &pb.ReduceRequest{
			Inspection: inspecting(rect("U7", 0, 0, 1, 1), &pb.Region{Shape: shape}), Frame: smallFrame(1)})
		wantRefused(t, err, "inspection.region_set.regions[1].shape", words...)
	}
}

// A call that is cancelled while its mask is drawn ends there, and leaves nothing on the device or the host.
func TestRasterizeCancelled(t *testing.T) {
	h := newHooked()
	trace := devicetest.Trace(h, false)
	ts := start(t, Config{Driver: trace})
	req := &pb.RasterizeRequest{Width: 300, Height: 200,
		Regions: &pb.RasterizeRequest_RegionSet{RegionSet: inspecting(rect("a", 2, 3, 290, 190)).GetRegionSet()}}
	for mode := pb.RasterMode_RASTER_MODE_MASK; mode <= pb.RasterMode_RASTER_MODE_DISTANCE; mode++ {
		for _, op := range []string{"MaskPrepare", "MaskRaster"} {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			h.on(op, func() error { cancel(); return nil })
			trace.Reset()
			req.Mode = mode
			if res, err := ts.inspector.HandleRasterize(ctx, req); !errors.Is(err, context.Canceled) || res != nil {
				t.Errorf("%v, cancelled at %s: %v, %v", mode, op, res, err)
			}
			if len(trace.Records(op)) != 1 {
				t.Errorf("%v, cancelled at %s: %v", mode, op, trace.Records())
			}
			if ts.taken() != 0 {
				t.Errorf("%v, cancelled at %s: memory of the device in use: %v", mode, op, ts.dev.Memory().ByLabel)
			}
			ts.idleHost(t)
		}
	}
	h.on("", nil)
	if res, err := ts.inspection.Rasterize(t.Context(), req); err != nil || res.GetCounts()[0] != 288*187 {
		t.Errorf("after that: %v, %v", res.GetCounts(), err)
	}
}
