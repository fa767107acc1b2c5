package server

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/clients"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// A recipe's blobs and limits on them hold wherever it is used: for frames, as rows and as columns, in streams, and
// where it is tried. Line-scans refuse them.
func TestBlobsOfRecipes(t *testing.T) {
	s := start(t, Config{})
	c := clients.New(s.connectCleanly(t))
	pixels := make([]byte, 40*30)
	for i := range pixels {
		if x, y := i%40, i/40; x >= 5 && x < 15 && y >= 4 && y < 7 || x == 20 && y == 9 || x == 21 && y == 10 {
			pixels[i] = 200
		}
	}
	frame := rawFrame(40, 30, gray8, pixels)
	recipe := &pb.Recipe{Name: "spots", RegionSet: &pb.RegionSet{Scale: &pb.Scale{X: 0.5},
		Regions: []*pb.Region{rect("a", 1, 1, 30, 20, "blobs(area > 12) == 0", "max blob.length <= 6 mm")}}}
	if _, err := c.PutRecipe(t.Context(), recipe, nil); err == nil ||
		!strings.Contains(err.Error(), "reductions.blobs") {
		t.Errorf("limits on blobs that nothing describes: %v", err)
	}
	recipe.Reductions = &pb.Reductions{Blobs: &pb.BlobSpec{Lower: proto.Float64(100), Contours: true,
		Steps: []*pb.Morph{{Kind: pb.MorphKind_MORPH_KIND_CLOSE, Width: 3, Height: 1}}}}
	if _, err := c.PutRecipe(t.Context(), recipe, nil); err != nil {
		t.Fatal(err)
	}
	in := clients.UseRecipe("spots", 0)
	check := func(what string, r *pb.RegionResult) {
		t.Helper()
		b := r.GetBlobs()
		if b.GetFound() != 2 || b.GetKept() != 2 || b.GetArea() != 32 || b.GetAreaMm2() != 8 || b.GetTooMany() ||
			r.GetLimits()[0].GetValue() != 1 || r.GetLimits()[1].GetValue() != 5 ||
			r.GetLimits()[1].GetVerdict() != pb.Verdict_VERDICT_PASS || r.GetVerdict() != pb.Verdict_VERDICT_FAIL {
			t.Errorf("%s: %v", what, r)
		}
	}
	res, err := c.Reduce(t.Context(), in, frame)
	if err != nil {
		t.Fatal(err)
	}
	rows := res.Regions[0]
	check("rows", rows)
	bar, pair := rows.Blobs.Blobs[0], rows.Blobs.Blobs[1]
	if bar.GetArea() != 30 || bar.GetLengthMm() != 5 || bar.GetBreadthMm() != 1.5 || bar.GetCentroidMm().GetX() != 5 ||
		len(bar.GetContour()) != 1 || pair.GetArea() != 2 || pair.GetFirst().GetX() != 20 {
		t.Errorf("blobs: %v", rows.Blobs.Blobs)
	}
	in.Result = &pb.ResultOptions{Form: pb.ResultForm_RESULT_FORM_COLUMNS}
	if res, err = c.Reduce(t.Context(), in, frame); err != nil {
		t.Fatal(err)
	}
	columns, err := clients.ColumnsOf(in, res)
	if err != nil {
		t.Fatal(err)
	}
	check("columns", columns.Row(0))
	in.Result = nil
	for a, err := range c.StreamFrames(t.Context(), in, func(yield func(*pb.Frame, error) bool) {
		yield(frame, nil)
	}, clients.StreamOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Result.GetRegions()[0]; !proto.Equal(got, rows) {
			t.Errorf("a stream says %v, Reduce %v", got, rows)
		}
	}
	draft := &pb.Recipe{Name: "draft", RegionSet: recipe.RegionSet, Reductions: recipe.Reductions}
	bad := sequence([]clients.Labeled{{Frame: frame, Label: pb.FrameLabel_FRAME_LABEL_BAD}})
	for _, open := range []*pb.TryOpen{
		{Regions: &pb.TryOpen_Recipe{Recipe: &pb.RecipeRef{Name: "spots"}}}, {Regions: &pb.TryOpen_Draft{Draft: draft}},
	} {
		tried, err := c.Try(t.Context(), open, bad)
		if err != nil {
			t.Fatal(err)
		}
		if tried.Tally.BadFailed != 1 {
			t.Errorf("tried: %v", tried)
		}
	}
	taught, err := c.Teach(t.Context(), &pb.TeachOpen{Regions: &pb.TeachOpen_Draft{Draft: draft}},
		sequence([]clients.Labeled{{Frame: frame}, {Frame: frame}}))
	if err != nil || taught.Tally.GoodFailed != 2 || !proto.Equal(taught.Recipe.Reductions, draft.Reductions) {
		t.Errorf("taught: %v, %v", taught, err)
	}
	for field, spoil := range map[string]func(*pb.Recipe){
		"open.draft.reductions.blobs.lower":          func(r *pb.Recipe) { r.Reductions.Blobs = &pb.BlobSpec{} },
		"open.draft.region_set.regions[0].limits[0]": func(r *pb.Recipe) { r.Reductions = nil },
		`open.draft.frames["golden"]`:                func(r *pb.Recipe) { r.Frames = map[string]string{"golden": "x"} },
		"open.draft.flat_field.sha256":               func(r *pb.Recipe) { r.FlatField = &pb.FlatField{Sha256: "00"} },
		"open.draft.name":                            func(r *pb.Recipe) { r.Name = "" },
	} {
		spoiled := proto.Clone(draft).(*pb.Recipe)
		spoil(spoiled)
		_, err := c.Try(t.Context(), &pb.TryOpen{Regions: &pb.TryOpen_Draft{Draft: spoiled}}, bad)
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v, want an error of %s", err, field)
		}
	}
	// Without blobs of its own a request has none, and the limits nothing to be about.
	in.Reductions = &pb.Reductions{}
	if _, err = c.Reduce(t.Context(), in, frame); err == nil || !strings.Contains(err.Error(), "limits[0]") {
		t.Errorf("a request without blobs: %v", err)
	}
	// Nor may it have others than the recipe, in its name; how many come back is its own.
	in.Reductions = &pb.Reductions{Blobs: proto.Clone(recipe.Reductions.Blobs).(*pb.BlobSpec)}
	in.Reductions.Blobs.MaxBlobs, in.Reductions.Blobs.Contours = 1, false
	if _, err = c.Reduce(t.Context(), in, frame); err != nil {
		t.Error(err)
	}
	in.Reductions.Blobs.Lower = proto.Float64(101)
	_, err = c.Reduce(t.Context(), in, frame)
	wantRefused(t, err, "inspection.reductions.blobs", "must be those of the recipe")
	// Bad ones are named.
	in = inspecting(rect("a", 1, 1, 30, 20))
	for field, spec := range map[string]*pb.BlobSpec{
		"reductions.blobs.lower": {},
		"reductions.blobs.steps[0].width": {Lower: proto.Float64(3),
			Steps: []*pb.Morph{{Kind: 1, Width: 4, Height: 3}}},
		"reductions.blobs.channel":  {Lower: proto.Float64(3), Channel: pb.Channel_CHANNEL_RED},
		"reductions.blobs.min_area": {Lower: proto.Float64(3), MinArea: 1 << 30},
	} {
		in.Reductions = &pb.Reductions{Blobs: spec}
		if _, err = c.Reduce(t.Context(), in, frame); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// What messages and package polygon call the same is the same.
func TestBlobEnumsAgree(t *testing.T) {
	for threshold, name := range pb.BlobThreshold_name {
		for order, by := range pb.BlobOrder_name {
			got := wire.ReductionsOf(&pb.Reductions{Blobs: &pb.BlobSpec{Threshold: pb.BlobThreshold(threshold),
				Order: pb.BlobOrder(order)}}).Blobs
			if want := strings.TrimPrefix(name, "BLOB_THRESHOLD_"); threshold != 0 && got.Threshold.String() != want {
				t.Errorf("%s becomes %v", want, got.Threshold)
			}
			if want := strings.TrimPrefix(by, "BLOB_ORDER_"); (want == "AREA") != (got.Order != 0) {
				t.Errorf("%s becomes %v", want, got.Order)
			}
		}
	}
	for kind, name := range pb.MorphKind_name {
		if kind == 0 {
			continue
		}
		got := wire.ReductionsOf(&pb.Reductions{Blobs: &pb.BlobSpec{Steps: []*pb.Morph{{Kind: pb.MorphKind(kind)}}}}).Blobs.Steps[0].Kind
		if want := strings.TrimPrefix(name, "MORPH_KIND_"); got.String() != want {
			t.Errorf("%s becomes %v", want, got)
		}
	}
}
