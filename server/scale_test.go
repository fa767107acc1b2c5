package server

// Regions with a scale: areas and places in mm on all ways to the server, and refusals that point at what is wrong.

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/clients"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

func TestScale(t *testing.T) {
	s := start(t, Config{})
	in := scanRegions()
	in.Reductions = nil
	set := in.GetRegionSet()
	set.Scale = &pb.Scale{X: 0.1, Y: 0.25, Origin: &pb.Point{X: 2, Y: 3}}
	set.Regions[0].Limits = []string{"area == 2.7 mm2", "width < 1.8 mm"}
	in.Reductions = &pb.Reductions{Statistics: []pb.Statistic{pb.Statistic_STATISTIC_MIN, pb.Statistic_STATISTIC_MAX,
		pb.Statistic_STATISTIC_CENTROID}}
	b := newBelt(7, 48, 40)
	frame := rawFrame(48, 40, gray8, b.lines(0, 40))
	res, err := s.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: in, Frame: frame})
	if err != nil {
		t.Fatal(err)
	}
	r := res.GetResult().GetRegions()[0]
	c := r.GetChannels()[0]
	at := func(p *pb.PixelPosition) *pb.Point {
		return &pb.Point{X: (float64(p.GetX()) - 1.5) / 10, Y: (float64(p.GetY()) - 2.5) / 4}
	}
	if r.GetAreaMm2() != 2.7 || r.GetCountMm2() != 2.7 ||
		!proto.Equal(r.GetBoundsMm(), &pb.MillimetreRect{X1: 1.8, Y1: 1.5}) ||
		!proto.Equal(r.GetCentroidMm(), &pb.Point{X: 0.9, Y: 0.75}) || !proto.Equal(c.GetMinAtMm(), at(c.GetMinAt())) ||
		!proto.Equal(c.GetMaxAtMm(), at(c.GetMaxAt())) || c.WeightedCentroidMm == nil {
		t.Errorf("%v", r)
	}
	if l := r.GetLimits(); l[0].GetVerdict() != pb.Verdict_VERDICT_PASS || l[1].GetValue() != 1.8 ||
		l[1].GetReason() != "width 1.8 mm is not below 1.8 mm" {
		t.Errorf("%v", l)
	}
	// Without fields nothing of them comes.
	in.Result = &pb.ResultOptions{Fields: []pb.RegionField{pb.RegionField_REGION_FIELD_NAME}}
	few, err := s.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: in, Frame: frame})
	if r := few.GetResult().GetRegions()[0]; err != nil || r.AreaMm2 != nil || r.CountMm2 != nil || r.BoundsMm != nil ||
		r.CentroidMm != nil {
		t.Errorf("%v, %v", r, err)
	}
	in.Result = nil

	// By a stream and a recipe it is the same, as in [TestScanLines] by a line-scan, and what is learned keeps the scale.
	stream := s.open(t, in)
	stream.send(frame)
	if got := stream.recv().GetResult().GetRegions(); !proto.Equal(got[0], r) {
		t.Errorf("stream: %v", got[0])
	}
	if _, err := s.recipe.PutRecipe(t.Context(), &pb.PutRecipeRequest{Recipe: &pb.Recipe{Name: "scaled", RegionSet: set,
		Reductions: in.Reductions}}); err != nil {
		t.Fatal(err)
	}
	client := clients.New(s.conn)
	named := clients.UseRecipe("scaled", 0)
	got, err := client.Reduce(t.Context(), named, frame)
	if err != nil || !proto.Equal(got.GetRegions()[0], r) {
		t.Errorf("recipe: %v, %v", got, err)
	}
	stored, err := client.GetRecipe(t.Context(), "scaled", 0)
	if err != nil || !proto.Equal(stored.GetRegionSet().GetScale(), set.Scale) {
		t.Errorf("%v, %v", stored.GetRegionSet().GetScale(), err)
	}
	learned, err := client.Teach(t.Context(), &pb.TeachOpen{
		Regions: &pb.TeachOpen_Recipe{Recipe: &pb.RecipeRef{Name: "scaled"}}}, sequence([]clients.Labeled{{Frame: frame}, {Frame: frame}}))
	if err != nil || !proto.Equal(learned.GetRecipe().GetRegionSet().GetScale(), set.Scale) ||
		!slices.Contains(learned.GetRecipe().GetRegionSet().GetRegions()[0].GetLimits(), "area == 2.7 mm2") {
		t.Errorf("%v, %v", learned.GetRecipe(), err)
	}

	// Refusals.
	set.Scale.Y = -1
	_, err = s.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: in, Frame: frame})
	d := detailsOf(t, err)
	if d.status.Code() != codes.InvalidArgument || d.bad.GetFieldViolations()[0].GetField() != "inspection.region_set.scale.y" {
		t.Errorf("%v", err)
	}
	set.Scale = nil
	_, err = s.recipe.PutRecipe(t.Context(), &pb.PutRecipeRequest{Recipe: &pb.Recipe{Name: "bare", RegionSet: set}})
	d = detailsOf(t, err)
	if v := d.bad.GetFieldViolations(); len(v) != 2 || v[0].GetField() != "recipe.region_set.regions[0].limits[0]" ||
		!strings.Contains(v[0].GetDescription(), "column 13: the regions have no scale, and mm needs one") {
		t.Errorf("%v", err)
	}
}
