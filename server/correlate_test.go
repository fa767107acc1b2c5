package server

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/clients"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// A recipe's golden frame and correlations hold wherever it is used: for frames, in streams, and where it is tried. A
// frame that is gone is an error, and no verdict.
func TestCorrelationsOfRecipes(t *testing.T) {
	s := start(t, Config{})
	c := clients.New(s.connectCleanly(t))
	pixels := randomBytes(40 * 30)
	golden, err := c.PutFrame(t.Context(), rawFrame(40, 30, gray8, pixels), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	recipe := &pb.Recipe{Name: "print", Frames: map[string]string{"golden": golden.GetName()},
		RegionSet: &pb.RegionSet{Regions: []*pb.Region{rect("a", 1, 1, 30, 20, `ncc of "golden" at (0,0) >= 0.95`,
			"autocorrelation(1,0) < 0.5")}},
		Reductions: &pb.Reductions{Correlations: []*pb.CorrelationTerm{
			{Kind: pb.CorrelationKind_CORRELATION_KIND_LAG, Offset: &pb.PixelOffset{Dx: 1}},
			{Kind: pb.CorrelationKind_CORRELATION_KIND_FRAME, Frame: "golden"},
			{Kind: pb.CorrelationKind_CORRELATION_KIND_RADIAL, Radius: 2},
			{Kind: pb.CorrelationKind_CORRELATION_KIND_CHANNEL},
		}}}
	if _, err := c.PutRecipe(t.Context(), recipe, nil); err != nil {
		t.Fatal(err)
	}
	in := clients.UseRecipe("print", 0)
	res, err := c.Reduce(t.Context(), in, rawFrame(40, 30, gray8, pixels))
	if err != nil {
		t.Fatal(err)
	}
	found := res.Regions[0].Channels[0].GetCorrelations()
	if len(found) != 6 || found[0].GetPairs() != 28*19 || found[1].GetCorrelation() != 1 ||
		found[1].GetOf().GetFrame() != "golden" || found[4].GetOf().GetRadius() != 2 ||
		found[5].GetOf().GetWith() != pb.Channel_CHANNEL_GRAY {
		t.Fatalf("correlations %v", found)
	}
	for i, l := range res.Regions[0].Limits {
		if l.Verdict != pb.Verdict_VERDICT_PASS || l.GetValue() != found[1-i].GetCorrelation() {
			t.Errorf("the limit says %v", l)
		}
	}
	other := slices.Clone(pixels)
	slices.Reverse(other)
	if res, err = c.Reduce(t.Context(), in, rawFrame(40, 30, gray8, other)); err != nil {
		t.Fatal(err)
	}
	if l := res.Regions[0].Limits[0]; l.Verdict != pb.Verdict_VERDICT_FAIL || l.GetValue() > 0.5 {
		t.Errorf("of another picture: %v", l)
	}
	tried, err := c.Try(t.Context(), &pb.TryOpen{Regions: &pb.TryOpen_Recipe{Recipe: &pb.RecipeRef{Name: "print"}}},
		func(yield func(clients.Labeled, error) bool) {
			yield(clients.Labeled{Frame: rawFrame(40, 30, gray8, pixels), Label: pb.FrameLabel_FRAME_LABEL_GOOD}, nil)
		})
	if err != nil || tried.Tally.GoodPassed != 1 {
		t.Fatalf("tried: %v, %v", tried, err)
	}
	for a, err := range c.StreamFrames(t.Context(), in, func(yield func(*pb.Frame, error) bool) {
		yield(rawFrame(40, 30, gray8, pixels), nil)
	}, clients.StreamOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		got := a.Result.GetRegions()[0].GetChannels()[0].GetCorrelations()
		if !slices.EqualFunc(got, found, func(a, b *pb.Correlation) bool { return proto.Equal(a, b) }) {
			t.Errorf("a stream says %v, Reduce %v", got, found)
		}
	}
	_, err = c.Reduce(t.Context(), in, rawFrame(40, 29, gray8, pixels[:40*29]))
	wantRefused(t, err, "inspection.frames", "has 40x30 pixels of GRAY8, the frame 40x29 of GRAY8")
	if err := c.ReleaseFrame(t.Context(), golden.GetName()); err != nil {
		t.Fatal(err)
	}
	res, err = c.Reduce(t.Context(), in, rawFrame(40, 30, gray8, pixels))
	wantRefused(t, err, `inspection.frames["golden"]`, "is no resident frame")
	if res != nil {
		t.Errorf("a verdict without the golden frame: %v", res)
	}
	// The request's own name of a frame goes before the recipe's.
	again, err := c.PutFrame(t.Context(), rawFrame(40, 30, gray8, other), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	in.Frames = map[string]string{"golden": again.GetName()}
	if res, err = c.Reduce(t.Context(), in, rawFrame(40, 30, gray8, other)); err != nil ||
		res.Verdict != pb.Verdict_VERDICT_PASS {
		t.Errorf("by the request's frame: %v, %v", res, err)
	}
}

// In a stream the frame before is the one before, for frames that come with pixels and for resident ones; the first has
// none, and its limits fail. Nothing stays on the device.
func TestFrameBefore(t *testing.T) {
	s := start(t, Config{})
	c := clients.New(s.connectCleanly(t))
	a, b := randomBytes(40*30), randomBytes(40*30)
	slices.Reverse(b)
	kept, err := c.PutFrame(t.Context(), rawFrame(40, 30, gray8, b), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	in := inspecting(rect("a", 1, 1, 30, 20, "ncc of the frame before >= 0.95"))
	frames := []*pb.Frame{rawFrame(40, 30, gray8, a), rawFrame(40, 30, gray8, a), rawFrame(40, 30, gray8, b),
		clients.Resident(kept.GetName()), clients.Resident(kept.GetName()), rawFrame(40, 30, gray8, b),
		rawFrame(40, 30, gray8, a)}
	want := []bool{false, true, false, true, true, true, false}
	n := 0
	for answer, err := range c.StreamFrames(t.Context(), in, func(yield func(*pb.Frame, error) bool) {
		for _, f := range frames {
			if !yield(f, nil) {
				return
			}
		}
	}, clients.StreamOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		l := answer.Result.GetRegions()[0].GetLimits()[0]
		if pass := l.GetVerdict() == pb.Verdict_VERDICT_PASS; pass != want[n] || pass && l.GetValue() != 1 ||
			n == 0 && !strings.Contains(l.GetReason(), "no frame before") {
			t.Errorf("frame %d: %v", n, l)
		}
		n++
	}
	if n != len(want) {
		t.Errorf("%d answers", n)
	}
	var left []string
	for f, err := range c.Frames(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, f.GetName())
	}
	if !slices.Equal(left, []string{kept.GetName()}) {
		t.Errorf("%q are left, of the client's own %q", left, kept.GetName())
	}
	// A frame alone has none before it.
	res, err := c.Reduce(t.Context(), in, rawFrame(40, 30, gray8, a))
	if err != nil || res.GetVerdict() != pb.Verdict_VERDICT_FAIL {
		t.Errorf("a frame alone: %v, %v", res, err)
	}
}

// Line-scans refuse correlations by name, and bad terms are named.
func TestBadCorrelations(t *testing.T) {
	s := start(t, Config{})
	c := clients.New(s.connectCleanly(t))
	in := inspecting(rect("a", 0, 0, 8, 8))
	for _, bad := range []struct {
		term *pb.CorrelationTerm
		path string
	}{
		{&pb.CorrelationTerm{}, "inspection.reductions.correlations[0].kind"},
		{&pb.CorrelationTerm{Kind: pb.CorrelationKind_CORRELATION_KIND_RADIAL, Radius: 33},
			"inspection.reductions.correlations[0].radius"},
		{&pb.CorrelationTerm{Kind: pb.CorrelationKind_CORRELATION_KIND_CHANNEL, With: pb.Channel_CHANNEL_RED},
			"inspection.reductions.correlations"},
	} {
		in.Reductions = &pb.Reductions{Correlations: []*pb.CorrelationTerm{bad.term}}
		_, err := c.Reduce(t.Context(), in, rawFrame(8, 8, gray8, randomBytes(64)))
		if d := detailsOf(t, err); d.status.Code() != codes.InvalidArgument ||
			!strings.Contains(err.Error(), bad.path) {
			t.Errorf("%v: %v", bad.term, err)
		}
	}
}

// A frame to compare with that nothing speaks of is refused, of a request and of a recipe: the limit that was meant is
// missing. And a stream whose limits can't be measured ends at once, not with an error for each frame.
func TestWhatCanNotBeMeasured(t *testing.T) {
	s := start(t, Config{})
	c := clients.New(s.connectCleanly(t))
	frame := rawFrame(8, 8, gray8, randomBytes(64))
	kept, err := c.PutFrame(t.Context(), frame, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	const unused = "is spoken of by no limit and no correlation"
	in := inspecting(rect("a", 0, 0, 8, 8, `ncc of "gold" >= 0.9`))
	in.Frames = map[string]string{"gold": kept.GetName(), "golden": kept.GetName()}
	_, err = c.Reduce(t.Context(), in, frame)
	wantRefused(t, err, `inspection.frames["golden"]`, unused)
	_, err = c.PutRecipe(t.Context(), &pb.Recipe{Name: "r", RegionSet: in.GetRegionSet(), Frames: in.Frames}, nil)
	wantRefused(t, err, `recipe.frames["golden"]`, unused)

	gone := inspecting(rect("a", 0, 0, 8, 8, `ncc of "gone" >= 0.9`))
	blobs := inspecting(rect("a", 0, 0, 8, 8, "blobs == 0"))
	for path, in := range map[string]*pb.Inspection{`open.frames["golden"]`: in, `open.frames["gone"]`: gone,
		"open.region_set.regions[0].limits[0]": blobs} {
		answers := 0
		for _, err = range c.StreamFrames(t.Context(), in, func(yield func(*pb.Frame, error) bool) {
			for range 2 {
				if !yield(frame, nil) {
					return
				}
			}
		}, clients.StreamOptions{}) {
			if err == nil {
				answers++
			}
		}
		if wantRefused(t, err, path, ""); answers > 0 {
			t.Errorf("%s: %d answers", path, answers)
		}
	}
}
