package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/clients"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
)

const (
	goodPart = pb.FrameLabel_FRAME_LABEL_GOOD
	badPart  = pb.FrameLabel_FRAME_LABEL_BAD
)

// sequence yields frames one after the other.
func sequence(labeled []clients.Labeled) func(func(clients.Labeled, error) bool) {
	return func(yield func(clients.Labeled, error) bool) {
		for _, l := range labeled {
			if !yield(l, nil) {
				return
			}
		}
	}
}

func teaching(regions ...*pb.Region) *pb.TeachOpen {
	return &pb.TeachOpen{Regions: &pb.TeachOpen_RegionSet{RegionSet: &pb.RegionSet{Regions: regions}}}
}

func trying(regions ...*pb.Region) *pb.TryOpen {
	return &pb.TryOpen{Regions: &pb.TryOpen_RegionSet{RegionSet: &pb.RegionSet{Regions: regions}}}
}

// The limits that are taught are those of what the pixels come to, computed here from the bytes; good frames pass them,
// and a bad frame doesn't.
func TestTeach(t *testing.T) {
	s := start(t, Config{})
	client := clients.New(s.conn)
	rng := rand.New(rand.NewPCG(3, 4))
	regions := []*pb.Region{rect("left", 0, 0, 4, 8, "count == 32", "mean >= 250"), rect("right", 4, 0, 8, 8)}
	open := teaching(regions...)
	open.Quantities = []string{"mean", "count of pixels above 200"}
	open.Margin = &pb.Margin{Kind: &pb.Margin_Quantile{Quantile: &pb.QuantileMargin{SharePercent: 50}}}
	var labeled []clients.Labeled
	least, greatest := [2]float64{math.Inf(1), math.Inf(1)}, [2]float64{}
	for i := range 30 {
		pixels := make([]byte, 64)
		var sum [2]float64
		for k := range pixels {
			pixels[k] = byte(80 + rng.IntN(60))
			sum[k%8/4] += float64(pixels[k])
		}
		for r := range sum {
			least[r], greatest[r] = min(least[r], sum[r]/32), max(greatest[r], sum[r]/32)
		}
		f := rawFrame(8, 8, gray8, pixels)
		f.FrameId = fmt.Sprintf("good %d", i)
		labeled = append(labeled, clients.Labeled{Frame: f, Label: pb.FrameLabel(i % 2)}) // unspecified is good, too
	}
	flaw := rawFrame(8, 8, gray8, bytes.Repeat([]byte{110}, 64))
	flaw.GetData()[3], flaw.PartId = 255, "B-1"
	labeled = append(labeled, clients.Labeled{Frame: flaw, Label: badPart},
		clients.Labeled{Frame: rawFrame(8, 8, gray8, bytes.Repeat([]byte{110}, 64)), Label: badPart})
	res, err := client.Teach(t.Context(), open, sequence(labeled))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(res.GetLimits()); n != 4 {
		t.Fatalf("%d limits", n)
	}
	for r := range regions {
		l := res.GetLimits()[2*r]
		if l.GetRegion() != uint32(r) || l.GetRegionName() != regions[r].GetName() || l.GetQuantity() != "mean" ||
			l.GetLeast() != least[r] || l.GetGreatest() != greatest[r] {
			t.Errorf("%v, want %v to %v", l, least[r], greatest[r])
		}
		var lo, hi float64
		if _, err := fmt.Sscanf(l.GetExpression(), "mean in [%g, %g]", &lo, &hi); err != nil {
			t.Fatalf("%q: %v", l.GetExpression(), err)
		}
		width := greatest[r] - least[r]
		wlo, whi := least[r]-width/2, greatest[r]+width/2
		if lo > wlo || lo < wlo-width/10 || hi < whi || hi > whi+width/10 {
			t.Errorf("%q, want %v to %v", l.GetExpression(), wlo, whi)
		}
	}
	if l := res.GetLimits()[1]; l.GetExpression() != "count of pixels above 200 <= 0" || l.GetBadRejected() != 1 ||
		l.GetGoodRejected() != 0 {
		t.Errorf("%v", l)
	}
	// What the region has stays, except limits on what is taught.
	want := []string{"count == 32", res.GetLimits()[0].GetExpression(), "count of pixels above 200 <= 0"}
	if got := res.GetRecipe().GetRegionSet().GetRegions()[0]; strings.Join(got.GetLimits(), "\n") != strings.Join(want,
		"\n") ||
		!proto.Equal(got.GetRings()[0], regions[0].GetRings()[0]) {
		t.Errorf("%v, want %q", got, want)
	}
	if want := (&pb.Tally{GoodPassed: 30, BadFailed: 1, BadPassed: 1}); !proto.Equal(res.GetTally(), want) {
		t.Errorf("%v, want %v", res.GetTally(), want)
	}
	f := res.GetFrames()[30]
	if f.GetPartId() != "B-1" || f.GetVerdict() != pb.Verdict_VERDICT_FAIL || f.GetFailedRegions() != 1 ||
		f.GetFailed()[0].GetRegionName() != "left" || !strings.Contains(f.GetFailed()[0].GetReason(),
		"above 200: 1 is above 0") {
		t.Errorf("%v", f)
	}
	if text := strings.Join(res.GetWarnings(), "\n"); !strings.Contains(text, "2 of 4 numbers are the same") ||
		!strings.Contains(text, "1 of 2 bad frames would pass, such as ") || strings.Contains(text, "few") {
		t.Errorf("%q", res.GetWarnings())
	}
	// A limit that the regions had, which good frames fail, is told with the first of these.
	failing := proto.Clone(open).(*pb.TeachOpen)
	had := failing.GetRegionSet().GetRegions()[0]
	had.Limits = append(had.GetLimits(), "min > 254")
	taught, err := client.Teach(t.Context(), failing, sequence(labeled))
	if text := strings.Join(taught.GetWarnings(), "\n"); err != nil ||
		!strings.Contains(text, `30 of 30 good frames would fail, such as "good 0", in region "left": min`) {
		t.Errorf("%v: %q", err, text)
	}
	if res.GetBackend() != "cpu" {
		t.Errorf("%q", res.GetBackend())
	}

	// The same again is the same; and tried, the recipe judges as Teach said, and as Reduce does.
	again, err := client.Teach(t.Context(), open, sequence(labeled))
	if err != nil || !proto.Equal(again, res) {
		t.Errorf("%v: %v, then %v", err, res, again)
	}
	stored := s.put(t, "before", rect("all", 0, 0, 8, 8, "max < 255"))
	try := trying(res.GetRecipe().GetRegionSet().GetRegions()...)
	try.Beside = &pb.RecipeRef{Name: "before", Version: stored.GetVersion()}
	tried, err := client.Try(t.Context(), try, sequence(labeled))
	if err != nil {
		t.Fatal(err)
	}
	beside := &pb.Tally{GoodPassed: 15, OtherPassed: 15, BadFailed: 1, BadPassed: 1}
	if !proto.Equal(tried.GetTally(), beside) || !proto.Equal(tried.GetBeside(), beside) {
		t.Errorf("%v, beside %v", tried.GetTally(), tried.GetBeside())
	}
	for i, f := range tried.GetFrames() {
		r, err := client.Reduce(t.Context(), inspecting(res.GetRecipe().GetRegionSet().GetRegions()...), labeled[i].Frame)
		if err != nil || r.GetVerdict() != f.GetVerdict() || f.GetVerdict() != res.GetFrames()[i].GetVerdict() ||
			f.GetIndex() != uint32(i) {
			t.Errorf("%d: %v, tried %v, reduced %v", i, err, f, r.GetVerdict())
		}
	}
	if n := s.host.Used(0) + s.host.Used(1); n != 0 {
		t.Errorf("%d bytes of the budget are out", n)
	}
}

// Channels of colour frames get limits of their own; frames that the server keeps, and recipes, are taken, too.
func TestTeachColour(t *testing.T) {
	s := start(t, Config{})
	client := clients.New(s.conn)
	s.put(t, "tile", rect("tile", 0, 0, 2, 1))
	var labeled []clients.Labeled
	for i := range byte(3) {
		f := s.frameClient().put(t, rawFrame(2, 1, pb.PixelFormat_PIXEL_FORMAT_RGB8,
			[]byte{10 + i, 20, 30, 10 + i, 20, 40}))
		labeled = append(labeled, clients.Labeled{Frame: clients.Resident(f.GetName())})
	}
	open := &pb.TeachOpen{Regions: &pb.TeachOpen_Recipe{Recipe: &pb.RecipeRef{Name: "tile"}},
		Quantities: []string{"b.max", "min"}}
	res, err := client.Teach(t.Context(), open, sequence(labeled))
	if err != nil {
		t.Fatal(err)
	}
	want := "b.max in [39, 41]\nr.min in [7, 15]\ng.min in [19, 21]\nb.min in [29, 31]"
	if got := strings.Join(res.GetRecipe().GetRegionSet().GetRegions()[0].GetLimits(), "\n"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if r := res.GetRecipe(); r.GetName() != "tile" || r.GetVersion() != 0 {
		t.Errorf("%v", r)
	}
	if all, err := client.GetRecipe(t.Context(), "tile", 0); err != nil || all.GetVersion() != 1 {
		t.Errorf("%v, %v: something was stored", all, err)
	}
}

func TestTeachRefuses(t *testing.T) {
	s := start(t, Config{})
	client := clients.New(s.conn)
	gray := func(v ...byte) clients.Labeled { return clients.Labeled{Frame: rawFrame(2, 1, gray8, v)} }
	two := []clients.Labeled{gray(1, 2), gray(3, 4)}
	tile := rect("tile", 0, 0, 2, 1)
	with := func(change func(*pb.TeachOpen)) *pb.TeachOpen {
		o := teaching(proto.CloneOf(tile))
		change(o)
		return o
	}
	for _, tc := range []struct {
		name, field, words string
		open               *pb.TeachOpen
		frames             []clients.Labeled
	}{
		{"no region", "open.region_set.regions", "at least 1", teaching(), two},
		{"none good", "frame", "too few", teaching(tile), []clients.Labeled{{Frame: gray(1, 2).Frame, Label: badPart}}},
		{"one good", "frame", "1 good", teaching(tile), two[:1]},
		{"no quantity", "open.quantities[0]", `found "meen"`,
			with(func(o *pb.TeachOpen) { o.Quantities = []string{"meen"} }), two},
		{"a condition", "open.quantities[0]", "end of the quantity",
			with(func(o *pb.TeachOpen) { o.Quantities = []string{"mean < 3"} }), two},
		{"of the region", "open.quantities[1]", "limits are not learned of it",
			with(func(o *pb.TeachOpen) { o.Quantities = []string{"mean", "area"} }), two},
		{"twice", "open.quantities[1]", "already",
			with(func(o *pb.TeachOpen) { o.Quantities = []string{"mean", "Mean"} }), two},
		{"margin", "open.margin.sigma", "", with(func(o *pb.TeachOpen) {
			o.Margin = &pb.Margin{Kind: &pb.Margin_Sigma{Sigma: -1}}
		}), two},
		{"no margin", "open.margin.kind", "", with(func(o *pb.TeachOpen) { o.Margin = &pb.Margin{} }), two},
		{"another size", "frame.layout", "frame 1 of the call",
			teaching(tile), []clients.Labeled{gray(1, 2), {Frame: rawFrame(1, 2, gray8, []byte{1, 2})}}},
		{"outside", "open.region_set.regions[0]", "outside the frame", teaching(rect("wide", 0, 0, 3, 1)), two},
		{"nowhere", "open.region_set.regions[0]", "no pixel", teaching(rect("far", 5, 0, 6, 1)), two},
		{"no channel", "open.quantities[0]", `= "r.mean": the frame has no red channel (GRAY8)`,
			with(func(o *pb.TeachOpen) { o.Quantities = []string{"r.mean"} }), two},
		{"no pixels", "frame.data", "frame 0 of the call", teaching(tile), []clients.Labeled{gray()}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			res, err := client.Teach(t.Context(), tc.open, sequence(tc.frames))
			var e *clients.Error
			if !errors.As(err, &e) {
				t.Fatalf("%v, %v", res, err)
			}
			wantRefused(t, e.GRPCStatus().Err(), tc.field)
			if !strings.Contains(e.Error(), tc.words) {
				t.Errorf("%v lacks %q", e, tc.words)
			}
		})
	}
	// A region that may reach outside is measured where it is inside.
	open := teaching(rect("wide", 0, 0, 3, 1, "coverage >= 0.5"))
	if res, err := client.Teach(t.Context(), open, sequence(two)); err != nil || res.GetTally().GetGoodPassed() != 2 {
		t.Errorf("%v, %v", res, err)
	}
	if _, err := client.Try(t.Context(), trying(tile), sequence(two)); err == nil ||
		!strings.Contains(err.Error(), "no region has limits") {
		t.Errorf("tried without limits: %v", err)
	}
	limited := rect("tile", 0, 0, 2, 1, "mean < 9")
	if _, err := client.Try(t.Context(), trying(limited), sequence(nil)); err == nil ||
		!strings.Contains(err.Error(), "at least one") {
		t.Errorf("tried without frames: %v", err)
	}
	missing := trying(limited)
	missing.Beside = &pb.RecipeRef{Name: "missing"}
	_, err := client.Try(t.Context(), missing, sequence(two))
	if e := clients.AsError(err); e == nil || e.Code != codes.NotFound {
		t.Errorf("beside what isn't stored: %v", err)
	}
}

// Messages out of order, silence and a shutdown end a call, and nothing stays taken.
func TestTeachProtocol(t *testing.T) {
	s := start(t, Config{StreamIdleTimeout: 50 * time.Millisecond})
	tile := rect("tile", 0, 0, 2, 1)
	opened := &pb.TeachRequest{Message: &pb.TeachRequest_Open{Open: teaching(tile)}}
	frame := &pb.TeachRequest{Message: &pb.TeachRequest_Frame{Frame: rawFrame(2, 1, gray8, []byte{1, 2})}}
	call := func(end bool, say ...*pb.TeachRequest) error {
		stream, err := pb.NewTeachServiceClient(s.conn).Teach(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range say {
			if err := stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
		}
		if end {
			_, err = stream.CloseAndRecv()
		} else {
			err = stream.RecvMsg(&pb.TeachResponse{})
		}
		return err
	}
	for _, tc := range []struct {
		name   string
		end    bool
		say    []*pb.TeachRequest
		code   codes.Code
		reason string
	}{
		{"nothing", true, nil, codes.FailedPrecondition, apierr.ReasonFrameOutOfOrder},
		{"frame first", true, []*pb.TeachRequest{frame}, codes.FailedPrecondition, apierr.ReasonFrameOutOfOrder},
		{"second open", true, []*pb.TeachRequest{opened, frame, opened}, codes.FailedPrecondition, apierr.ReasonSecondOpen},
		{"empty", true, []*pb.TeachRequest{opened, {}}, codes.InvalidArgument, apierr.ReasonInvalidField},
		{"silence", false, []*pb.TeachRequest{opened, frame}, codes.Aborted, apierr.ReasonStreamIdle},
		{"silence at once", false, nil, codes.Aborted, apierr.ReasonStreamIdle},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if d := detailsOf(t, call(tc.end, tc.say...)); d.status.Code() != tc.code || d.info.GetReason() != tc.reason {
				t.Errorf("%v, want %v for %s", d.status, tc.code, tc.reason)
			}
		})
	}
	quiet := start(t, Config{})
	stream, err := pb.NewTeachServiceClient(quiet.conn).Teach(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(opened); err != nil {
		t.Fatal(err)
	}
	quiet.stop(t) // which a client that says nothing doesn't hold up
	if _, err := stream.CloseAndRecv(); err == nil {
		t.Error("a call outlived its server")
	}
}

// FuzzTeach sends an open message that the fuzzer makes up, and two frames.
func FuzzTeach(f *testing.F) {
	for _, o := range []*pb.TeachOpen{
		teaching(rect("a", 0, 0, 2, 1)), teaching(rect("a", -1, 0, 2, 1, "coverage >= 0.1", "mean < 3")),
		{Regions: &pb.TeachOpen_Recipe{Recipe: &pb.RecipeRef{Name: "x"}}},
	} {
		o.Quantities = []string{"p50", "count of pixels in [1, 3)"}
		b, err := proto.Marshal(o)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, []byte{1, 2, 3, 4})
	}
	s := start(f, Config{})
	client := clients.New(s.conn)
	f.Fuzz(func(t *testing.T, data, pixels []byte) {
		open := &pb.TeachOpen{}
		if proto.Unmarshal(data, open) != nil || len(pixels) < 4 {
			return
		}
		labeled := []clients.Labeled{{Frame: rawFrame(2, 1, gray8, pixels[:2])}, {Frame: rawFrame(2, 1, gray8, pixels[2:4])}}
		res, err := client.Teach(t.Context(), open, sequence(labeled))
		if e := clients.AsError(err); err != nil {
			if e == nil || e.Code == codes.Internal || e.Code == codes.Unknown || e.Code == codes.Unavailable {
				t.Fatalf("%v: %v", open, err)
			}
			return
		}
		// What was taught can be used.
		reduced, err := client.Reduce(t.Context(), inspecting(res.GetRecipe().GetRegionSet().GetRegions()...),
			labeled[0].Frame)
		if err != nil {
			t.Fatalf("%v: %v", res, err)
		}
		if v := res.GetFrames()[0].GetVerdict(); v != reduced.GetVerdict() &&
			reduced.GetVerdict() != pb.Verdict_VERDICT_UNSPECIFIED {
			t.Fatalf("%v, and reduced %v", res, reduced)
		}
	})
}
