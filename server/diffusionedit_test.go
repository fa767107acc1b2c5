package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/budget"
)

func diffusionClient(ts *testServer) pb.DiffusionServiceClient {
	return pb.NewDiffusionServiceClient(ts.conn)
}

// wall is a curve from top to bottom of a canvas of 40x30, with a colour on each side.
func wall(id string, x, left, right float64) *pb.Curve {
	return &pb.Curve{
		Id: id, Xy: []float64{x, -1, x, 10, x, 20, x, 31},
		Left: []*pb.ColorStop{{Red: float32(left)}}, Right: []*pb.ColorStop{{Red: float32(right), Blue: 100}},
	}
}

func canvasOf(curves ...*pb.Curve) *pb.SolveRequest {
	return &pb.SolveRequest{Drawing: &pb.Drawing{Width: 40, Height: 30, Curves: curves}}
}

// editCall is a call of Edit.
type editCall struct {
	t *testing.T
	grpc.BidiStreamingClient[pb.EditRequest, pb.EditResponse]
}

func openCanvas(t *testing.T, ts *testServer, open *pb.SolveRequest) editCall {
	t.Helper()
	stream, err := diffusionClient(ts).Edit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := editCall{t, stream}
	c.send(&pb.EditRequest{Message: &pb.EditRequest_Open{Open: open}})
	return c
}

func (c editCall) send(m *pb.EditRequest) {
	c.t.Helper()
	if err := c.Send(m); err != nil {
		c.t.Fatal(err)
	}
}

// after receives until something comes that has so many edits.
func (c editCall) after(edits uint64) *pb.EditResponse {
	c.t.Helper()
	for {
		m, err := c.Recv()
		if err != nil {
			c.t.Fatal(err)
		}
		if m.GetEdits() >= edits {
			return m
		}
	}
}

// same compares a picture with what Solve makes of a drawing: it began elsewhere, so it may be off by a level.
func (c editCall) same(ts *testServer, what string, got *pb.EditResponse, want *pb.SolveRequest) {
	c.t.Helper()
	res, err := clients.New(ts.conn).Solve(c.t.Context(), want)
	if err != nil {
		c.t.Fatal(err)
	}
	a, b := got.GetResult().GetPicture().GetData(), res.GetPicture().GetData()
	if len(a) != len(b) || len(a) == 0 {
		c.t.Fatalf("%s: %d bytes, want %d: %v", what, len(a), len(b), got)
	}
	for i := range a {
		if d := int(a[i]) - int(b[i]); d < -1 || d > 1 {
			c.t.Fatalf("%s: byte %d is %d, want %d", what, i, a[i], b[i])
		}
	}
	if r := got.GetResult(); r.GetGivenPixels() != res.GetGivenPixels() || !r.GetConverged() ||
		r.GetBackend() != res.GetBackend() {
		c.t.Errorf("%s: %v", what, r)
	}
}

// After each change the picture is that of everything on the canvas; colours alone need no set-up.
func TestEdit(t *testing.T) {
	ts := start(t, Config{})
	c := openCanvas(t, ts, canvasOf(wall("a", 10, 200, 50)))
	a, b := wall("a", 10, 200, 50), wall("b", 30, 0, 255)
	c.same(ts, "open", c.after(0), canvasOf(a))

	put := func(curve *pb.Curve) *pb.EditRequest {
		return &pb.EditRequest{Message: &pb.EditRequest_PutCurve{PutCurve: curve}}
	}
	c.send(put(b))
	got := c.after(1)
	c.same(ts, "another curve", got, canvasOf(a, b))
	if got.GetSetupKept() {
		t.Error("another curve needed no set-up")
	}
	a = wall("a", 10, 10, 90)
	c.send(&pb.EditRequest{Message: &pb.EditRequest_RecolorCurve{RecolorCurve: &pb.RecolorCurve{Id: "a", Left: a.Left,
		Right: a.Right}}})
	got = c.after(2)
	c.same(ts, "other colours", got, canvasOf(a, b))
	if !got.GetSetupKept() {
		t.Error("other colours needed a set-up")
	}
	b = wall("b", 24, 0, 255)
	c.send(&pb.EditRequest{Message: &pb.EditRequest_MoveCurve{MoveCurve: &pb.MoveCurve{Id: "b", Dx: -6}}})
	c.same(ts, "moved", c.after(3), canvasOf(a, b))
	want := canvasOf(a, b)
	want.Drawing.Pixels = []*pb.GivenPixel{{X: 3, Y: 4, Green: 255}, {X: 35, Y: 20, Blue: 7}}
	c.send(&pb.EditRequest{Message: &pb.EditRequest_PutPixels{PutPixels: &pb.GivenPixels{Pixels: want.Drawing.Pixels}}})
	c.same(ts, "pixels", c.after(4), want)
	want.Drawing.Pixels = want.Drawing.Pixels[1:]
	c.send(&pb.EditRequest{Message: &pb.EditRequest_RemovePixels{RemovePixels: &pb.PixelPlaces{Xy: []uint32{3, 4}}}})
	c.same(ts, "a pixel less", c.after(5), want)
	c.send(&pb.EditRequest{Message: &pb.EditRequest_RemoveCurve{RemoveCurve: "a"}})
	want.Drawing.Curves = want.Drawing.Curves[1:]
	c.same(ts, "a curve less", c.after(6), want)
	c.send(&pb.EditRequest{Message: &pb.EditRequest_MovePixels{MovePixels: &pb.MovePixels{Xy: []uint32{35, 20}, Dx: -30,
		Dy: 2}}})
	want.Drawing.Pixels = []*pb.GivenPixel{{X: 5, Y: 22, Blue: 7}}
	c.same(ts, "a pixel moved", c.after(7), want)
	edges := func(x uint32, closed uint32) *pb.EditRequest {
		r := &pb.PutEdges{}
		for y := range uint32(29) {
			r.Pixels = append(r.Pixels, &pb.PixelEdges{X: x, Y: y, Edges: closed})
			want.Edges[y*40+x] = byte(closed)
		}
		return &pb.EditRequest{Message: &pb.EditRequest_PutEdges{PutEdges: r}}
	}
	want.Edges = make([]byte, 40*30)
	c.send(edges(8, 2))
	c.same(ts, "edges", c.after(8), want)
	c.send(edges(8, 0))
	want.Edges = nil
	c.same(ts, "no edges", c.after(9), want)

	// The last picture comes before the end.
	b = wall("b", 12, 1, 2)
	c.send(put(b))
	want.Drawing.Curves[0] = b
	if err := c.CloseSend(); err != nil {
		t.Fatal(err)
	}
	c.same(ts, "the last", c.after(10), want)
	if _, err := c.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last: %v", err)
	}
	ts.idleHost(t)
}

// A canvas is coarse while its client wants it so, and exact again from where that left it.
func TestEditAccuracy(t *testing.T) {
	ts := start(t, Config{})
	c := openCanvas(t, ts, canvasOf(wall("a", 10, 200, 50), wall("b", 30, 0, 255)))
	c.after(0)
	accuracy := func(tolerance float32, cycles uint32) {
		t.Helper()
		c.send(&pb.EditRequest{Message: &pb.EditRequest_SetAccuracy{SetAccuracy: &pb.SetAccuracy{Tolerance: tolerance,
			MaxCycles: cycles}}})
	}
	accuracy(1e-3, 1)
	c.after(1)
	a, b := wall("a", 14, 10, 250), wall("b", 30, 0, 255)
	c.send(&pb.EditRequest{Message: &pb.EditRequest_PutCurve{PutCurve: a}})
	coarse := c.after(2).GetResult()
	if coarse.GetCycles() != 1 || coarse.GetConverged() || !(coarse.GetEstimate() > 1e-3) {
		t.Errorf("of one cycle: %v", coarse)
	}
	for i, refused := range []*pb.SetAccuracy{{Tolerance: -1}, {Tolerance: float32(math.NaN())}, {MaxCycles: 1e6}} {
		c.send(&pb.EditRequest{Message: &pb.EditRequest_SetAccuracy{SetAccuracy: refused}})
		if st := status.FromProto(c.after(uint64(3 + i)).GetError()); st.Code() != codes.InvalidArgument ||
			!strings.Contains(st.Message(), "set_accuracy.") {
			t.Errorf("%v: %v", refused, st)
		}
	}
	accuracy(0, 0)
	exact := c.after(6)
	c.same(ts, "exact", exact, canvasOf(a, b))
	if !exact.GetSetupKept() {
		t.Error("to be more exact took a new set-up")
	}
}

// idleHost checks that all host memory comes back, which may be after the client has its answer.
func (ts *testServer) idleHost(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	share, err := ts.host.Take(ctx, budget.Results, ts.host.Cap)
	if err != nil {
		t.Error("host memory does not come back")
		return
	}
	share.Release()
}

// Pixels of a frame change as all others do; files come back where they are asked for.
func TestEditFrame(t *testing.T) {
	ts := start(t, Config{})
	open := &pb.SolveRequest{Frame: fourPixels(), Encoding: pb.Encoding_ENCODING_PNG}
	clear(open.Frame.GetData()[4:12])
	c := openCanvas(t, ts, open)
	first := c.after(0).GetResult()
	if !bytes.HasPrefix(first.GetPicture().GetData(), []byte("\x89PNG")) || first.GetGivenPixels() != 2 {
		t.Errorf("open: %v", first)
	}
	c.send(&pb.EditRequest{Message: &pb.EditRequest_PutPixels{PutPixels: &pb.GivenPixels{Pixels: []*pb.GivenPixel{{X: 1}}}}})
	if got := c.after(1).GetResult(); got.GetGivenPixels() != 3 ||
		bytes.Equal(got.GetPicture().GetData(), first.GetPicture().GetData()) {
		t.Errorf("with a pixel: %v", got)
	}
	c.send(&pb.EditRequest{Message: &pb.EditRequest_RemovePixels{RemovePixels: &pb.PixelPlaces{Xy: []uint32{1, 0}}}})
	if got := c.after(2).GetResult(); !bytes.Equal(got.GetPicture().GetData(), first.GetPicture().GetData()) {
		t.Errorf("without it: %v", got)
	}
	whole := fourPixels()
	clear(whole.GetData()[4:12])
	c.send(&pb.EditRequest{Message: &pb.EditRequest_MovePixels{MovePixels: &pb.MovePixels{Xy: []uint32{0, 0}, Dx: 1}}})
	copy(whole.GetData()[4:8], whole.GetData()[:4])
	clear(whole.GetData()[:4])
	c.same(ts, "a pixel of the frame moved", c.after(3),
		&pb.SolveRequest{Frame: whole, Encoding: pb.Encoding_ENCODING_PNG})
	c.send(&pb.EditRequest{Message: &pb.EditRequest_RemovePixels{RemovePixels: &pb.PixelPlaces{Xy: []uint32{1, 0}}}})
	clear(whole.GetData()[4:8])
	c.same(ts, "a pixel of the frame less", c.after(4),
		&pb.SolveRequest{Frame: whole, Encoding: pb.Encoding_ENCODING_PNG})
}

// What a method doesn't solve is refused when it is put on a canvas, which stays open.
func TestEditMethod(t *testing.T) {
	ts := start(t, Config{})
	barrier := wall("b", 10, 1, 2)
	barrier.Barrier = true
	edges := func(e uint32) *pb.EditRequest {
		return &pb.EditRequest{Message: &pb.EditRequest_PutEdges{PutEdges: &pb.PutEdges{Pixels: []*pb.PixelEdges{{X: 2,
			Y: 3, Edges: e}}}}}
	}
	putBarrier := &pb.EditRequest{Message: &pb.EditRequest_PutCurve{PutCurve: barrier}}
	for _, x := range []struct {
		method pb.DiffusionMethod
		edit   *pb.EditRequest
		says   string // nothing where the change is made
	}{
		{pb.DiffusionMethod_DIFFUSION_METHOD_VARIABLE_STENCIL, putBarrier,
			"put_curve.barrier = true: VARIABLE_STENCIL looks across"},
		{pb.DiffusionMethod_DIFFUSION_METHOD_VARIABLE_STENCIL, edges(2),
			"put_edges.pixels[0].edges = 2: VARIABLE_STENCIL looks across"},
		{pb.DiffusionMethod_DIFFUSION_METHOD_VARIABLE_STENCIL, edges(8),
			"put_edges.pixels[0].edges = 8: VARIABLE_STENCIL looks across"},
		{pb.DiffusionMethod_DIFFUSION_METHOD_MULTIGRID, edges(32),
			"put_edges.pixels[0].edges = 32: MULTIGRID needs edges"},
		{pb.DiffusionMethod_DIFFUSION_METHOD_MULTIGRID, putBarrier, ""},
		{pb.DiffusionMethod_DIFFUSION_METHOD_MULTIGRID, edges(6), ""},
		{pb.DiffusionMethod_DIFFUSION_METHOD_NAIVE, edges(6 + 8 + 64), ""},
	} {
		open := canvasOf(wall("a", 10, 200, 50))
		open.Options = &pb.DiffusionOptions{Method: x.method, MaxCycles: 2}
		c := openCanvas(t, ts, open)
		c.send(x.edit)
		if m := c.after(1); x.says == "" && m.GetResult() == nil || x.says != "" &&
			!strings.Contains(m.GetError().GetMessage(), x.says) {
			t.Errorf("%v, %v: %v, want %q", x.method, x.edit, m, x.says)
		}
		c.send(&pb.EditRequest{Message: &pb.EditRequest_MoveCurve{MoveCurve: &pb.MoveCurve{Id: "a", Dx: 1}}})
		if m := c.after(2); m.GetResult() == nil {
			t.Errorf("%v, after %v: %v", x.method, x.edit, m)
		}
	}
}

// A change that can't be made changes nothing, and the stream goes on.
func TestEditRefuses(t *testing.T) {
	ts := start(t, Config{MaxPoints: 40})
	c := openCanvas(t, ts, canvasOf(wall("a", 10, 200, 50)))
	first := c.after(0)
	bad := wall("b", 10, 1, 2)
	bad.Xy = bad.Xy[:5]
	nan := wall("b", 10, 1, 2)
	nan.Left[0].At = -1
	long := wall("b", 10, 1, 2)
	long.Left = slices.Repeat(long.Left, 40)
	bright := &pb.RecolorCurve{Id: "a", Left: []*pb.ColorStop{{Red: 2e12}}}
	edits := uint64(0)
	for _, x := range []struct {
		says string
		edit *pb.EditRequest
	}{
		{"put_curve.xy", &pb.EditRequest{Message: &pb.EditRequest_PutCurve{PutCurve: bad}}},
		{"put_curve.left[0].at", &pb.EditRequest{Message: &pb.EditRequest_PutCurve{PutCurve: nan}}},
		{"put_curve = 45 points and stops: make more than 40 on the canvas",
			&pb.EditRequest{Message: &pb.EditRequest_PutCurve{PutCurve: long}}},
		{"move_curve.id", &pb.EditRequest{Message: &pb.EditRequest_MoveCurve{MoveCurve: &pb.MoveCurve{Id: "z"}}}},
		{"move_curve.xy", &pb.EditRequest{Message: &pb.EditRequest_MoveCurve{MoveCurve: &pb.MoveCurve{Id: "a",
			Dx: 1e9}}}},
		{"recolor_curve = no stops: must have",
			&pb.EditRequest{Message: &pb.EditRequest_RecolorCurve{RecolorCurve: &pb.RecolorCurve{Id: "a"}}}},
		{"recolor_curve.left[0].red = 2e+12: must be",
			&pb.EditRequest{Message: &pb.EditRequest_RecolorCurve{RecolorCurve: bright}}},
		{"put_curve.right[0].blue = -Inf: must be",
			&pb.EditRequest{Message: &pb.EditRequest_PutCurve{PutCurve: &pb.Curve{Right: []*pb.ColorStop{{Blue: float32(math.Inf(-1))}}}}}},
		{"remove_curve = ", &pb.EditRequest{Message: &pb.EditRequest_RemoveCurve{RemoveCurve: "z"}}},
		{"put_pixels.pixels[1]",
			&pb.EditRequest{Message: &pb.EditRequest_PutPixels{PutPixels: &pb.GivenPixels{Pixels: []*pb.GivenPixel{{},
				{X: 40}}}}}},
		{"remove_pixels.xy[0]",
			&pb.EditRequest{Message: &pb.EditRequest_RemovePixels{RemovePixels: &pb.PixelPlaces{Xy: []uint32{1, 1}}}}},
		{"remove_pixels.xy",
			&pb.EditRequest{Message: &pb.EditRequest_RemovePixels{RemovePixels: &pb.PixelPlaces{Xy: []uint32{1}}}}},
		{"put_pixels.pixels = 41 pixels: are more than",
			&pb.EditRequest{Message: &pb.EditRequest_PutPixels{PutPixels: &pb.GivenPixels{Pixels: slices.Repeat([]*pb.GivenPixel{{}}, 41)}}}},
		{"remove_pixels.xy[0]",
			&pb.EditRequest{Message: &pb.EditRequest_RemovePixels{RemovePixels: &pb.PixelPlaces{Xy: []uint32{40, 1}}}}},
		{"move_pixels.xy = 1 numbers: must be pairs",
			&pb.EditRequest{Message: &pb.EditRequest_MovePixels{MovePixels: &pb.MovePixels{Xy: []uint32{1}}}}},
		{"move_pixels.xy[0] = [1 1]: is no pixel",
			&pb.EditRequest{Message: &pb.EditRequest_MovePixels{MovePixels: &pb.MovePixels{Xy: []uint32{1, 1},
				Dx: 1}}}},
		{"put_edges.pixels[1] = [0 30]: is outside",
			&pb.EditRequest{Message: &pb.EditRequest_PutEdges{PutEdges: &pb.PutEdges{Pixels: []*pb.PixelEdges{{},
				{Y: 30}}}}}},
		{"put_edges.pixels[0].edges = 258: is no sum",
			&pb.EditRequest{Message: &pb.EditRequest_PutEdges{PutEdges: &pb.PutEdges{Pixels: []*pb.PixelEdges{{Edges: 258}}}}}},
		{"put_edges.pixels[0].edges = 1: is no sum",
			&pb.EditRequest{Message: &pb.EditRequest_PutEdges{PutEdges: &pb.PutEdges{Pixels: []*pb.PixelEdges{{Edges: 1}}}}}},
		{"put_edges.pixels[0].edges = 130: is no sum",
			&pb.EditRequest{Message: &pb.EditRequest_PutEdges{PutEdges: &pb.PutEdges{Pixels: []*pb.PixelEdges{{Edges: 130}}}}}},
		{`remove_curve = "a\nb": is no curve`,
			&pb.EditRequest{Message: &pb.EditRequest_RemoveCurve{RemoveCurve: "a\nb"}}},
		{"put_curve.id = 65 bytes: must be at most 64",
			&pb.EditRequest{Message: &pb.EditRequest_PutCurve{PutCurve: wall(strings.Repeat("n", 65), 1, 2, 3)}}},
		{"recolor_curve.id = 65 bytes: must be at most 64",
			&pb.EditRequest{Message: &pb.EditRequest_RecolorCurve{RecolorCurve: &pb.RecolorCurve{Id: strings.Repeat("n",
				65)}}}},
		{"remove_curve = 1000000 bytes: must be at most 64",
			&pb.EditRequest{Message: &pb.EditRequest_RemoveCurve{RemoveCurve: strings.Repeat("n", 1e6)}}},
		{"message", &pb.EditRequest{}},
	} {
		edits++
		c.send(x.edit)
		m := c.after(edits)
		if e := m.GetError(); e.GetCode() != int32(codes.InvalidArgument) || !strings.Contains(e.GetMessage(), x.says) {
			t.Errorf("%v, want an error with %q", m, x.says)
		}
	}
	pixel := &pb.EditRequest{Message: &pb.EditRequest_PutPixels{PutPixels: &pb.GivenPixels{Pixels: []*pb.GivenPixel{{X: 39,
		Y: 29}}}}}
	away := &pb.EditRequest{Message: &pb.EditRequest_MovePixels{MovePixels: &pb.MovePixels{Xy: []uint32{39, 29},
		Dx: 1}}}
	far := &pb.EditRequest{Message: &pb.EditRequest_MovePixels{MovePixels: &pb.MovePixels{Xy: []uint32{39, 29},
		Dy: math.MinInt32}}}
	back := &pb.EditRequest{Message: &pb.EditRequest_RemovePixels{RemovePixels: &pb.PixelPlaces{Xy: []uint32{39, 29}}}}
	for _, x := range []struct {
		says string
		edit *pb.EditRequest
	}{{"", pixel}, {"move_pixels.xy[0] = [39 29]: is moved to [40 29], outside of the canvas of 40x30", away},
		{"is moved to [39 -2147483619]", far}, {"", back}} {
		edits++
		c.send(x.edit)
		if m := c.after(edits); x.says == "" && m.GetResult() == nil ||
			!strings.Contains(m.GetError().GetMessage(), x.says) {
			t.Errorf("%v: %v, want %q", x.edit, m, x.says)
		}
	}
	// Nothing at all is an error as well, and mends.
	c.send(&pb.EditRequest{Message: &pb.EditRequest_RemoveCurve{RemoveCurve: "a"}})
	edits++
	if m := c.after(edits); !strings.Contains(m.GetError().GetMessage(), "fix no pixel") {
		t.Errorf("nothing on the canvas: %v", m)
	}
	c.send(&pb.EditRequest{Message: &pb.EditRequest_PutCurve{PutCurve: wall("a", 10, 200, 50)}})
	edits++
	if m := c.after(edits); offByMore(m.GetResult().GetPicture().GetData(), first.GetResult().GetPicture().GetData(),
		1) {
		t.Error("what is on the canvas is not what was before")
	}

	for says, open := range map[string]*pb.SolveRequest{
		"open.drawing":              {Drawing: &pb.Drawing{}},
		"open.frame":                {},
		"open.drawing.curves[0].id": canvasOf(wall(strings.Repeat("n", 65), 1, 2, 3)),
		"open.drawing.curves[1].id": canvasOf(wall("a", 1, 2, 3), wall("a", 4, 5, 6)),
		"open.drawing.curves[0].xy": canvasOf(bad),
		"open.options.tolerance": {Options: &pb.DiffusionOptions{Tolerance: -1},
			Drawing: &pb.Drawing{Width: 9, Height: 9}},
		"open.drawing.pixels[0]": {Drawing: &pb.Drawing{Width: 9, Height: 9, Pixels: []*pb.GivenPixel{{X: 9}}}},
		"open.edges[4] = 0x80": {Drawing: &pb.Drawing{Width: 3, Height: 3},
			Edges: []byte{0, 0, 0, 0, 128, 0, 0, 0, 0}},
		"open.options.method": {Drawing: &pb.Drawing{Width: 3, Height: 1, Pixels: []*pb.GivenPixel{{}}},
			Edges: []byte{8, 0, 0}},
		"open.edges = 3: must be 81": {Drawing: &pb.Drawing{Width: 9, Height: 9}, Edges: make([]byte, 3)},
		"open.frame.resident":        {Frame: &pb.Frame{Source: &pb.Frame_Resident{Resident: "x"}}},
		"open.frame.layout.pixel_format": {Frame: &pb.Frame{Layout: &pb.FrameLayout{Width: 1, Height: 1,
			PixelFormat: pb.PixelFormat_PIXEL_FORMAT_GRAY8}, Source: &pb.Frame_Data{Data: []byte{1}}}},
	} {
		if _, err := openCanvas(t, ts, open).Recv(); status.Code(err) != codes.InvalidArgument ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	second := openCanvas(t, ts, canvasOf())
	second.send(&pb.EditRequest{Message: &pb.EditRequest_Open{Open: canvasOf()}})
	for {
		if _, err := second.Recv(); err != nil {
			if status.Code(err) != codes.FailedPrecondition {
				t.Errorf("a second open: %v", err)
			}
			break
		}
	}
	early, err := diffusionClient(ts).Edit(t.Context())
	if err == nil {
		err = early.Send(&pb.EditRequest{Message: &pb.EditRequest_RemoveCurve{RemoveCurve: "a"}})
	}
	if err == nil {
		_, err = early.Recv()
	}
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a change before open: %v", err)
	}
}

func offByMore(a, b []byte, most int) bool {
	if len(a) != len(b) || len(a) == 0 {
		return true
	}
	for i := range a {
		if d := int(a[i]) - int(b[i]); d > most || d < -most {
			return true
		}
	}
	return false
}

// Many changes at once: the last picture has all of them, and those on the way are left out where they are too slow;
// clients that go away leave nothing.
func TestEditMany(t *testing.T) {
	ts := start(t, Config{})
	c := openCanvas(t, ts, &pb.SolveRequest{Drawing: &pb.Drawing{Width: 300, Height: 200}})
	const n = 200
	var last *pb.Curve
	go func() {
		for i := range n {
			last = wall("w", float64(20+i), float64(i), 9)
			last.Xy[7] = 201
			if c.Send(&pb.EditRequest{Message: &pb.EditRequest_PutCurve{PutCurve: last}}) != nil {
				return
			}
		}
		_ = c.CloseSend() // a stream that failed shows below
	}()
	var got *pb.EditResponse
	pictures := 0
	for {
		m, err := c.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if m.GetEdits() < got.GetEdits() {
			t.Errorf("edits went from %d to %d", got.GetEdits(), m.GetEdits())
		}
		if m.GetResult() != nil {
			pictures++
		}
		got = m
	}
	if got.GetEdits() != n || pictures < 1 || pictures > n+1 {
		t.Fatalf("the last picture has %d edits; %d pictures", got.GetEdits(), pictures)
	}
	c.same(ts, "the last", got,
		&pb.SolveRequest{Drawing: &pb.Drawing{Width: 300, Height: 200, Curves: []*pb.Curve{last}}})

	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		gone, err := diffusionClient(ts).Edit(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := gone.Send(&pb.EditRequest{Message: &pb.EditRequest_Open{Open: canvasOf(wall("a", 4, 5,
			6))}}); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
	ts.idleHost(t)
}

// Pictures come on the way to the last one, which is that of Solve.
func TestSolveProgressively(t *testing.T) {
	ts := start(t, Config{})
	req := &pb.SolveRequest{Drawing: &pb.Drawing{Width: 200, Height: 150,
		Curves: []*pb.Curve{wall("a", 60, 200, 50), wall("b", 160, 10, 90)}}}
	want, err := clients.New(ts.conn).Solve(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := diffusionClient(ts).SolveProgressively(t.Context(), &pb.SolveProgressivelyRequest{Request: req})
	if err != nil {
		t.Fatal(err)
	}
	cycles, last := uint32(0), false
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		r := m.GetResult()
		if last || r.GetCycles() <= cycles || len(r.GetPicture().GetData()) != 3*200*150 {
			t.Errorf("after %d cycles: %d, %d bytes", cycles, r.GetCycles(), len(r.GetPicture().GetData()))
		}
		cycles, last = r.GetCycles(), m.GetLast()
		if last && !bytes.Equal(r.GetPicture().GetData(), want.GetPicture().GetData()) {
			t.Error("the last picture is not that of Solve")
		}
	}
	if !last {
		t.Error("no picture was the last")
	}
	for says, req := range map[string]*pb.SolveProgressivelyRequest{
		"request":         {},
		"request.drawing": {Request: &pb.SolveRequest{Drawing: &pb.Drawing{}}},
		"request.options.tolerance": {Request: &pb.SolveRequest{Drawing: req.Drawing,
			Options: &pb.DiffusionOptions{Tolerance: -1}}},
		"request.drawing.curves": {Request: &pb.SolveRequest{Drawing: &pb.Drawing{Width: 4, Height: 4}}},
	} {
		stream, err := diffusionClient(ts).SolveProgressively(t.Context(), req)
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	// Clients that go away after the first picture, or don't read.
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := diffusionClient(ts).SolveProgressively(ctx, &pb.SolveProgressivelyRequest{Request: req})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
	ts.idleHost(t)
}

// unread is a stream whose client takes nothing.
type unread struct {
	editStream
	entered chan struct{} // holds one when something is to be sent
}

func (s *unread) SendMsg(any) error {
	nudge(s.entered)
	<-s.ctx.Done()
	return status.FromContextError(s.ctx.Err()).Err()
}

// A client that doesn't read doesn't keep a lost device from being opened again.
func TestDiffusionStreamsLost(t *testing.T) {
	faulty := devicetest.Fault(cpu.New(cpu.Options{Threads: 2}), devicetest.Failure{})
	ts := start(t, Config{Driver: faulty})
	ts.dev.RetryAtOnce()
	drawing := canvasOf(wall("a", 10, 200, 50))
	srv := ts.diffusion
	losses := uint64(0)
	for name, x := range map[string]struct {
		first  proto.Message
		call   func(grpc.ServerStream) error
		leases int // while it sends the last picture
	}{
		"Edit":               {&pb.EditRequest{Message: &pb.EditRequest_Open{Open: drawing}}, srv.HandleEdit, 1},
		"SolveProgressively": {&pb.SolveProgressivelyRequest{Request: drawing}, srv.HandleSolveProgressively, 0},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			wire, err := proto.Marshal(x.first)
			if err != nil {
				t.Fatal(err)
			}
			stream := &unread{editStream{memoryStream: memoryStream{ctx: ctx, codec: ts.codec,
				in: [][]byte{wire}}}, make(chan struct{}, 1)}
			ended := make(chan error, 1)
			go func() { ended <- x.call(stream) }()
			<-stream.entered
			waitFor(t, "the stream to have made its pictures", func() bool { // or one of its jobs is the one that fails
				return ts.dev.Leases() == x.leases
			})
			faulty.Arm(devicetest.Failure{N: 1, Err: driver.ErrDeviceLost})
			if _, err := diffusionClient(ts).Solve(t.Context(), drawing); status.Code(err) != codes.Unavailable {
				t.Errorf("the call that lost the device: %v", err)
			}
			faulty.Arm(devicetest.Failure{})
			losses++
			waitFor(t, "the device to be back", func() bool { return ts.dev.Regained() == losses })
			if _, err := diffusionClient(ts).Solve(t.Context(), drawing); err != nil {
				t.Errorf("on the new device: %v", err)
			}
			cancel()
			if err := <-ended; err == nil {
				t.Error("the call ended well")
			}
			ts.background.Wait()
			wantEditFree(t, ts)
		})
	}
}

// A client that always has another change doesn't keep the server from ending.
func TestEditShutdown(t *testing.T) {
	ts := start(t, Config{})
	c := openCanvas(t, ts, canvasOf(wall("a", 10, 200, 50)))
	c.after(0)
	go func() {
		for i := 0; ; i++ {
			w := wall("a", 10, float64(i%200), 0)
			if c.Send(&pb.EditRequest{Message: &pb.EditRequest_RecolorCurve{RecolorCurve: &pb.RecolorCurve{Id: "a",
				Left: w.Left, Right: w.Right}}}) != nil {
				return
			}
		}
	}()
	c.after(5)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- ts.Shutdown(ctx) }()
	var err error
	for err == nil {
		_, err = c.Recv()
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("the canvas: %v", err)
	}
	if err := <-done; err != nil {
		t.Errorf("shutdown: %v", err)
	}
}

// What is on a canvas counts as host memory, where it is much; what there is none for is refused, and the canvas stays
// as it is.
func TestEditHostMemory(t *testing.T) {
	ts := start(t, Config{HostBytes: 5 << 20, MaxMessageBytes: 4 << 20})
	c := openCanvas(t, ts, &pb.SolveRequest{Drawing: &pb.Drawing{Width: 200, Height: 200, Curves: []*pb.Curve{{
		Id: "a", Xy: []float64{0, 0, 50, 60, 100, 60, 200, 0}, Left: []*pb.ColorStop{{Red: 200}},
	}}}})
	c.after(0)
	put := func(stops int) *pb.EditRequest {
		curve := wall("b", 20, 0, 0)
		curve.Left = slices.Repeat(curve.Left, stops)
		return &pb.EditRequest{Message: &pb.EditRequest_PutCurve{PutCurve: curve}}
	}
	c.send(put(30_000))
	if m := c.after(1); m.GetResult() == nil {
		t.Errorf("a canvas that there is memory for: %v", m)
	}
	c.send(put(40_000))
	if m := c.after(2); m.GetError().GetCode() != int32(codes.ResourceExhausted) ||
		!strings.Contains(m.GetError().GetMessage(), "host memory") {
		t.Errorf("a canvas that there is no memory for: %v", m)
	}
	c.send(put(1))
	if m := c.after(3); m.GetResult() == nil {
		t.Errorf("after that: %v", m)
	}
	if err := c.CloseSend(); err != nil {
		t.Fatal(err)
	}
	for err := error(nil); err == nil; {
		_, err = c.Recv()
	}
	ts.background.Wait()
	ts.idleHost(t)
}

// Canvases that stay open leave some host memory for calls, and others that find no room are refused, not kept waiting.
func TestEditHostMemoryShared(t *testing.T) {
	ts := start(t, Config{HostBytes: 4 << 20, MaxMessageBytes: 4 << 20})
	large := func(h uint32) *pb.SolveRequest {
		return &pb.SolveRequest{Drawing: &pb.Drawing{Width: 200, Height: h, Pixels: []*pb.GivenPixel{{Green: 9}}}}
	}
	first := openCanvas(t, ts, large(400)) // all that canvases may have, and a little more
	first.after(0)
	if _, err := openCanvas(t, ts, large(200)).Recv(); status.Code(err) != codes.ResourceExhausted ||
		!strings.Contains(err.Error(), "canvases may have 3145728 bytes") {
		t.Errorf("a second canvas: %v", err)
	}
	openCanvas(t, ts, large(1)).after(0) // which hardly takes any
	if _, err := clients.New(ts.conn).Solve(t.Context(), large(180)); err != nil {
		t.Errorf("a call: %v", err)
	}
	first.send(&pb.EditRequest{Message: &pb.EditRequest_PutPixels{PutPixels: &pb.GivenPixels{Pixels: []*pb.GivenPixel{{X: 7}}}}})
	if got := first.after(1); got.GetResult().GetGivenPixels() != 2 {
		t.Errorf("the first canvas, after that: %v", got)
	}
	if err := first.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Recv(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	waitFor(t, "room for a second canvas", func() bool {
		_, err := openCanvas(t, ts, large(200)).Recv()
		return err == nil
	})
}

// Very many curves take as long to find as few.
func TestEditManyCurves(t *testing.T) {
	ts := start(t, Config{})
	open := &pb.SolveRequest{Drawing: &pb.Drawing{Width: 200, Height: 200}}
	for i := range 20_000 {
		x, y := float64(i%200), float64(i/200)
		open.Drawing.Curves = append(open.Drawing.Curves,
			&pb.Curve{Id: fmt.Sprint(i), Xy: []float64{x, y, x, y, x + 1, y, x + 1, y},
				Left: []*pb.ColorStop{{Red: 9}}})
	}
	c := openCanvas(t, ts, open)
	c.after(0)
	for i, id := range []string{"7", "19999", "8"} {
		c.send(&pb.EditRequest{Message: &pb.EditRequest_RemoveCurve{RemoveCurve: id}})
		c.send(&pb.EditRequest{Message: &pb.EditRequest_MoveCurve{MoveCurve: &pb.MoveCurve{Id: fmt.Sprint(10_000 + i),
			Dx: 1}}})
	}
	if m := c.after(6); m.GetResult() == nil {
		t.Errorf("%v", m)
	}
	if err := c.CloseSend(); err != nil {
		t.Fatal(err)
	}
	for err := error(nil); err == nil; {
		_, err = c.Recv()
	}
}

// A call whose client has not even opened a canvas doesn't keep the server from ending.
func TestEditShutdownUnopened(t *testing.T) {
	ts := start(t, Config{})
	stream, err := diffusionClient(ts).Edit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the call", func() bool { return metric(t, ts, "polyscan_requests_in_flight") == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- ts.Shutdown(ctx) }()
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the call: %v", err)
	}
	if err := <-done; err != nil {
		t.Errorf("shutdown: %v", err)
	}
}
