package server

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/budget"
)

func shiftBy(dx, dy float64) *pb.Pose { return &pb.Pose{Dx: dx, Dy: dy} }

// posedFrame is a ramp of 24 by 16 pixels.
func posedFrame() *pb.Frame {
	data := make([]byte, 24*16)
	for i := range data {
		data[i] = byte(i%24*9 + i/24)
	}
	return rawFrame(24, 16, gray8, data)
}

// posedRegions are at a place, or x and y from it.
func posedRegions(x, y float64) *pb.Inspection {
	return inspecting(rect("a", 2+x, 3+y, 9+x, 7+y), rect("b", 4+x, 1+y, 6.5+x, 12+y))
}

// wantMoved checks that a result is that of regions drawn elsewhere.
func (ts *testServer) wantMoved(t *testing.T, got *pb.FrameResult, in *pb.Inspection, affine ...float64) {
	t.Helper()
	want, err := ts.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: in, Frame: posedFrame()})
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(&pb.FrameResult{Regions: got.GetRegions()}, &pb.FrameResult{Regions: want.Result.GetRegions()}) {
		t.Errorf("%v\nwant %v", got, want.Result)
	}
	if !proto.Equal(got.GetPose(), &pb.Pose{Affine: affine}) || want.Result.GetPose() != nil {
		t.Errorf("pose %v, want %v", got.GetPose(), affine)
	}
}

// TestPose: regions of a request and of a recipe are moved with the pose, in calls and in streams, and the result says
// with which.
func TestPose(t *testing.T) {
	ts := start(t, Config{})
	in := posedRegions(0, 0)
	if _, err := ts.recipe.PutRecipe(t.Context(), &pb.PutRecipeRequest{Recipe: &pb.Recipe{Name: "board",
		RegionSet: in.GetRegionSet()}}); err != nil {
		t.Fatal(err)
	}
	recipe := func() *pb.Inspection {
		return &pb.Inspection{Regions: &pb.Inspection_Recipe{Recipe: &pb.RecipeRef{Name: "board"}}}
	}
	at := posedRegions
	for _, in := range []*pb.Inspection{at(0, 0), recipe()} {
		in.Pose = shiftBy(3.25, 2)
		for range 3 {
			res, err := ts.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: in, Frame: posedFrame()})
			if err != nil {
				t.Fatal(err)
			}
			ts.wantMoved(t, res.Result, at(3.25, 2), 1, 0, 3.25, 0, 1, 2)
		}
		st := ts.open(t, in)
		frame := func(pose *pb.Pose) *pb.StreamFramesResponse {
			st.request(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Frame{Frame: posedFrame()}, Pose: pose})
			return st.recv()
		}
		ts.wantMoved(t, frame(nil).GetResult(), at(3.25, 2), 1, 0, 3.25, 0, 1, 2)
		ts.wantMoved(t, frame(shiftBy(-1, 0.5)).GetResult(), at(-1, 0.5), 1, 0, -1, 0, 1, 0.5)
		if bad := frame(&pb.Pose{Scale: 9}).GetError(); bad.GetCode() != int32(codes.InvalidArgument) ||
			!strings.Contains(bad.GetMessage(), "pose") || !strings.Contains(bad.GetMessage(), "9 times") {
			t.Errorf("a pose out of bounds: %v", bad)
		}
		ts.wantMoved(t, frame(&pb.Pose{Affine: []float64{1, 0, 1, 0, 1, 1}}).GetResult(), at(1, 1), 1, 0, 1, 0, 1, 1)
		st.end(nil)
	}

	// A new pose each frame leaves one set behind, prepared only where it came again; and none when the recipe goes.
	in = recipe()
	for i := range 40 {
		in.Pose = shiftBy(float64(i/2), 0.25)
		if _, err := ts.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: in, Frame: posedFrame()}); err != nil {
			t.Fatal(err)
		}
	}
	if n := ts.inspector.Prepared.Stats().Entries; n > 1 {
		t.Errorf("%d sets are prepared, of one recipe with a pose", n)
	}
	if n := ts.inspector.Memory.Used(budget.RegionSets); n == 0 || n > 4096 {
		t.Errorf("moved sets take %d bytes", n)
	}
	ts.remove(t, "board", 0)
	if n, used := ts.inspector.Prepared.Stats().Entries, ts.inspector.Memory.Used(budget.RegionSets); n != 0 || used != 0 {
		t.Errorf("%d sets are prepared and %d bytes are held when the recipe is gone", n, used)
	}
}

// TestPoseOfParts: the parts of a line-scan have the pose of their session.
func TestPoseOfParts(t *testing.T) {
	ts := start(t, Config{})
	b := newBelt(1, 32, 40)
	in := scanRegions()
	in.Pose = &pb.Pose{Dx: 1.5, Dy: 0.75}
	c := ts.scan(t, scanOpen(in, 32, 20, 40, 40))
	c.strip(b.strip(0, 0, 20), b.strip(1, 20, 40))
	parts := c.finish().parts
	if len(parts) != 1 || !proto.Equal(parts[0].GetPose(), &pb.Pose{Affine: []float64{1, 0, 1.5, 0, 1, 0.75}}) {
		t.Fatalf("%v", parts)
	}
	ts.wantPart(t, parts[0], in, b, 40)
	in.Pose = &pb.Pose{Rotation: math.Inf(1)}
	bad := scanOver(t, ts.conn)
	bad.request(openRequest(scanOpen(in, 32, 20, 40, 40)))
	if _, err := bad.Recv(); err == nil {
		t.Error("an infinite rotation is taken")
	} else {
		wantCanonical(t, err)
	}
}

// TestPoseErrors: errors name the field of the request.
func TestPoseErrors(t *testing.T) {
	ts := start(t, Config{})
	for _, c := range []struct {
		pose *pb.Pose
		want string
	}{
		{&pb.Pose{Affine: []float64{1, 2}}, "inspection.pose.affine = 2 numbers: must be a, b, c, d, e and f"},
		{&pb.Pose{Affine: []float64{1, 0, math.NaN(), 0, 1, 0}}, "inspection.pose.affine[2] = NaN: must be a finite number"},
		{&pb.Pose{Affine: []float64{1, 0, 0, 0, 1, 0}, Dx: 1}, "a pose has one of them"},
		{&pb.Pose{Scale: -1}, "inspection.pose.scale = -1: must not be negative"},
		{&pb.Pose{Scale: 0.1}, "inspection.pose = 0.1 times along x: lengths must be scaled by 0.25 to 4"},
		{&pb.Pose{About: &pb.Point{Y: math.NaN()}}, "inspection.pose.about.y = NaN"},
		{&pb.Pose{Dx: 1 << 22}, "inspection.pose = (4.194306e+06, 3): is where vertex 0 of region \"a\" comes to"},
		{&pb.Pose{Affine: make([]float64, 7)}, "inspection.pose.affine"},
	} {
		in := posedRegions(0, 0)
		in.Pose = c.pose
		_, err := ts.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: in, Frame: posedFrame()})
		if err == nil {
			t.Errorf("%v: no error", c.pose)
			continue
		}
		wantCanonical(t, err)
		if d := detailsOf(t, err); !strings.Contains(d.status.Message(), c.want) {
			t.Errorf("%v: %q lacks %q", c.pose, d.status.Message(), c.want)
		}
	}
	// A limit that can't fail where the pose takes its region is none, in a call, in a stream and in a line-scan.
	small := inspecting(rect("U1", 0, 0, 148, 148, "r.count of pixels above 0 <= 2000", "count == 1369"))
	small.Pose = &pb.Pose{Scale: 0.25, About: &pb.Point{X: 74, Y: 74}}
	rgb := rawFrame(148, 148, rgb8, make([]byte, 3*148*148))
	const cantFail = "region_set.regions[0].limits[0] = \"r.count of pixels above 0 <= 2000\": with the pose, can't fail: " +
		"count of pixels above 0 is 0 to 1369"
	if _, err := ts.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: small, Frame: rgb}); err == nil ||
		!strings.Contains(err.Error(), cantFail) || strings.Contains(err.Error(), "limits[1]") {
		t.Errorf("%v, want %q", err, cantFail)
	}
	posed := ts.open(t, inspecting(small.GetRegionSet().GetRegions()[0]))
	posed.request(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Frame{Frame: rgb}, Pose: small.GetPose()})
	if m := posed.recv().GetError().GetMessage(); !strings.Contains(m, cantFail) {
		t.Errorf("%q, want %q", m, cantFail)
	}
	posed.end(nil)
	c := scanOver(t, ts.conn)
	c.request(openRequest(scanOpen(small, 148, 20, 148, 148)))
	if _, err := c.Recv(); err == nil || !strings.Contains(err.Error(), cantFail) {
		t.Errorf("%v, want %q", err, cantFail)
	}
	st := ts.open(t, nil)
	st.request(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Open{Open: posedRegions(0, 0)}, Pose: shiftBy(1, 1)})
	st.end(func(d details) {
		if d.status.Code() != codes.InvalidArgument || !strings.Contains(d.status.Message(), "open.pose") {
			t.Errorf("a pose beside open: %v", d.status)
		}
	})
	// What is outside of the frame doesn't pass.
	in := posedRegions(0, 0)
	in.GetRegionSet().Regions[0].Limits = []string{"mean < 250"}
	in.Pose = shiftBy(30, 0)
	res, err := ts.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: in, Frame: posedFrame()})
	if err != nil {
		t.Fatal(err)
	}
	if l := res.Result.Regions[0].Limits[0]; l.Verdict != pb.Verdict_VERDICT_FAIL ||
		!strings.Contains(l.Reason, "outside the frame") || res.Result.Verdict != pb.Verdict_VERDICT_FAIL {
		t.Errorf("%v", res.Result)
	}
}

// TestPoseLetsFail: a limit that can't fail where its region is drawn can where a pose takes it, in a call, in a stream
// and in a line-scan, for any frame and for those of few levels. Without the pose it is refused, and so is a stream whose
// pose leaves it no room.
func TestPoseLetsFail(t *testing.T) {
	ts := start(t, Config{})
	large, small := &pb.Pose{Scale: 2, About: &pb.Point{X: 20, Y: 20}}, &pb.Pose{Scale: 0.5, About: &pb.Point{X: 20, Y: 20}}
	frame := rawFrame(60, 60, gray8, bytes.Repeat([]byte{200}, 60*60))
	for limit, why := range map[string]string{
		"count of pixels above 0 <= 400": "can't fail: count of pixels above 0 is 0 to 400",
		"sum <= 102000":                  "can't fail: sum is 0 to 102000 on GRAY8",
		"plane.x <= 23":                  "can't fail: plane.x is ",
	} {
		in := func(pose *pb.Pose) *pb.Inspection {
			in := inspecting(rect("r", 10, 10, 30, 30, limit))
			in.Pose = pose
			return in
		}
		if limit == "plane.x <= 23" { // a region that shrinks may have steeper planes
			large, small = small, large
		}
		refused := func(of string, err error) {
			t.Helper()
			if err == nil || !strings.Contains(err.Error(), why[:20]) {
				t.Errorf("%s, %s: %v", limit, of, err)
			}
		}
		if res := ts.reduced(t, in(large), frame); res.GetVerdict() == pb.Verdict_VERDICT_UNSPECIFIED {
			t.Errorf("%s: %v", limit, res)
		}
		st := ts.open(t, in(large))
		st.send(frame)
		if m := st.recv(); m.GetResult() == nil {
			t.Errorf("%s, a stream: %v", limit, m)
		}
		st.end(nil)
		for _, pose := range []*pb.Pose{nil, small} {
			_, err := ts.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: in(pose), Frame: frame})
			refused("drawn or small", err)
		}
		c := scanOver(t, ts.conn)
		c.request(openRequest(scanOpen(in(large), 60, 20, 60, 60)))
		if m, err := c.Recv(); err != nil || m.GetOpened() == nil {
			t.Errorf("%s, a line-scan: %v, %v", limit, m, err)
		}
		c = scanOver(t, ts.conn)
		c.request(openRequest(scanOpen(in(nil), 60, 20, 60, 60)))
		_, err := c.Recv()
		refused("a line-scan as drawn", err)
		if limit == "plane.x <= 23" {
			large, small = small, large
		}
	}
	st := ts.open(t, func() *pb.Inspection {
		in := inspecting(rect("r", 10, 10, 30, 30, "count of pixels above 0 <= 300"))
		in.Pose = small
		return in
	}())
	st.end(func(d details) {
		if !strings.Contains(d.status.Message(), "with the pose, can't fail: count of pixels above 0 is 0 to 100") {
			t.Errorf("%s", d.status.Message())
		}
	})
}
