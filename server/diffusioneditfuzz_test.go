package server

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	testseed "github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/proto/framecodec"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	_ "github.com/polyscan/polyscan/internal/shorttest"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/budget"
)

// editStream is a stream of Edit whose messages are bytes. Some of them come only when all before them are answered.
type editStream struct {
	memoryStream
	patient []bool // for each message

	mu       sync.Mutex
	received int
	got      []*pb.EditResponse
	answered chan struct{} // holds one when something was sent
}

func (s *editStream) RecvMsg(v any) error {
	i := s.received
	s.received++
	if i > 1 && i < len(s.patient) && s.patient[i] {
		for !s.hasAnswered(uint64(i - 1)) {
			select {
			case <-s.answered:
			case <-s.ctx.Done():
				return status.FromContextError(s.ctx.Err()).Err()
			}
		}
	}
	return s.memoryStream.RecvMsg(v)
}

func (s *editStream) hasAnswered(edit uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.got, func(m *pb.EditResponse) bool { return m.GetEdits() >= edit })
}

func (s *editStream) SendMsg(v any) error {
	b, err := s.codec.Marshal(v)
	if err != nil {
		return err
	}
	defer b.Free()
	m := &pb.EditResponse{}
	if err := proto.Unmarshal(b.Materialize(), m); err != nil {
		return err
	}
	s.mu.Lock()
	s.got = append(s.got, m)
	s.mu.Unlock()
	nudge(s.answered)
	return nil
}

// editModel is what a canvas holds after changes, those that were refused left out.
type editModel struct {
	open   *pb.SolveRequest
	curves []*pb.Curve
	pixels map[[2]uint32]*pb.GivenPixel // those of the frame, too
	edges  []byte
}

func (m *editModel) find(id string) int {
	return slices.IndexFunc(m.curves, func(c *pb.Curve) bool { return c.GetId() == id })
}

// possible reports whether a change names what is there; what it gives may be bad all the same.
func (m *editModel) possible(req *pb.EditRequest) bool {
	switch r := req.GetMessage().(type) {
	case *pb.EditRequest_MoveCurve:
		return m.find(r.MoveCurve.GetId()) >= 0
	case *pb.EditRequest_RecolorCurve:
		return m.find(r.RecolorCurve.GetId()) >= 0
	case *pb.EditRequest_RemoveCurve:
		return m.find(r.RemoveCurve) >= 0
	case *pb.EditRequest_PutPixels:
		return !slices.ContainsFunc(r.PutPixels.GetPixels(), func(p *pb.GivenPixel) bool {
			return p.GetX() >= m.open.GetDrawing().GetWidth() || p.GetY() >= m.open.GetDrawing().GetHeight()
		})
	case *pb.EditRequest_RemovePixels:
		return m.given(r.RemovePixels.GetXy(), 0, 0)
	case *pb.EditRequest_MovePixels:
		return m.given(r.MovePixels.GetXy(), r.MovePixels.GetDx(), r.MovePixels.GetDy())
	case *pb.EditRequest_PutEdges:
		return !slices.ContainsFunc(r.PutEdges.GetPixels(), func(p *pb.PixelEdges) bool {
			return p.GetX() >= m.open.GetDrawing().GetWidth() || p.GetY() >= m.open.GetDrawing().GetHeight() ||
				p.GetEdges()&^6 != 0
		})
	case nil:
		return false
	}
	return true
}

// given reports whether all places are of pixels that are given, and those so far from there are on the canvas.
func (m *editModel) given(places []uint32, dx, dy int32) bool {
	for xy := range slices.Chunk(places, 2) {
		if len(xy) != 2 || m.pixels[[2]uint32(xy)] == nil {
			return false
		}
		x, y := int64(xy[0])+int64(dx), int64(xy[1])+int64(dy)
		if x < 0 || y < 0 || x >= int64(m.open.GetDrawing().GetWidth()) || y >= int64(m.open.GetDrawing().GetHeight()) {
			return false
		}
	}
	return true
}

func (m *editModel) apply(req *pb.EditRequest) {
	switch r := req.GetMessage().(type) {
	case *pb.EditRequest_PutCurve:
		if i := m.find(r.PutCurve.GetId()); i >= 0 {
			m.curves[i] = r.PutCurve
		} else {
			m.curves = append(m.curves, r.PutCurve)
		}
	case *pb.EditRequest_MoveCurve:
		i := m.find(r.MoveCurve.GetId())
		c := proto.Clone(m.curves[i]).(*pb.Curve)
		for k := 0; k < len(c.Xy); k += 2 {
			c.Xy[k], c.Xy[k+1] = c.Xy[k]+r.MoveCurve.GetDx(), c.Xy[k+1]+r.MoveCurve.GetDy()
		}
		m.curves[i] = c
	case *pb.EditRequest_RecolorCurve:
		i := m.find(r.RecolorCurve.GetId())
		c := proto.Clone(m.curves[i]).(*pb.Curve)
		c.Left, c.Right, c.Blur = r.RecolorCurve.GetLeft(), r.RecolorCurve.GetRight(), r.RecolorCurve.GetBlur()
		m.curves[i] = c
	case *pb.EditRequest_RemoveCurve:
		i := m.find(r.RemoveCurve)
		m.curves = slices.Delete(m.curves, i, i+1)
	case *pb.EditRequest_PutPixels:
		for _, p := range r.PutPixels.GetPixels() {
			m.pixels[[2]uint32{p.GetX(), p.GetY()}] = p
		}
	case *pb.EditRequest_RemovePixels:
		for xy := range slices.Chunk(r.RemovePixels.GetXy(), 2) {
			delete(m.pixels, [2]uint32(xy))
		}
	case *pb.EditRequest_MovePixels:
		var moved []*pb.GivenPixel
		for xy := range slices.Chunk(r.MovePixels.GetXy(), 2) {
			p := proto.Clone(m.pixels[[2]uint32(xy)]).(*pb.GivenPixel)
			p.X, p.Y = uint32(int32(p.X)+r.MovePixels.GetDx()), uint32(int32(p.Y)+r.MovePixels.GetDy())
			moved = append(moved, p)
		}
		for xy := range slices.Chunk(r.MovePixels.GetXy(), 2) {
			delete(m.pixels, [2]uint32(xy))
		}
		for _, p := range moved {
			m.pixels[[2]uint32{p.GetX(), p.GetY()}] = p
		}
	case *pb.EditRequest_PutEdges:
		for _, p := range r.PutEdges.GetPixels() {
			m.edges[p.GetY()*m.open.GetDrawing().GetWidth()+p.GetX()] = byte(p.GetEdges())
		}
	}
}

// request is Solve's for what is on the canvas.
func (m *editModel) request() *pb.SolveRequest {
	req := proto.Clone(m.open).(*pb.SolveRequest)
	req.Frame, req.Edges = nil, m.edges
	req.Drawing.Curves, req.Drawing.Pixels = m.curves, nil
	for _, p := range m.pixels {
		req.Drawing.Pixels = append(req.Drawing.Pixels, p)
	}
	return req
}

// number is mostly one of 0 to n, and sometimes none that is any good.
func (c choose) number(n float64) float64 {
	if c(60) == 0 {
		return []float64{math.NaN(), math.Inf(-1), 1e300, 1 << 21, -1}[c(5)]
	}
	return n * float64(c(64)) / 63
}

func (c choose) stops() []*pb.ColorStop {
	out := make([]*pb.ColorStop, c(3))
	for i := range out {
		out[i] = &pb.ColorStop{At: float64(i), Red: float32(c.number(255)), Green: float32(c.number(255)),
			Blue: float32(c.number(255))}
	}
	return out
}

func (c choose) curve(w, h uint32) *pb.Curve {
	out := &pb.Curve{Id: string(rune('a' + c(4))), Left: c.stops(), Right: c.stops(), Barrier: c(6) == 0}
	for range 4 + 3*c(2) {
		out.Xy = append(out.Xy, c.number(float64(w)), c.number(float64(h)))
	}
	if c(30) == 0 {
		out.Xy = out.Xy[1:]
	}
	if c(4) == 0 {
		out.Blur = []*pb.BlurStop{{Sigma: float32(c.number(3))}}
	}
	return out
}

func (c choose) edit(w, h uint32) *pb.EditRequest {
	id := string(rune('a' + c(4)))
	place := func(n uint32) uint32 { return uint32(c(int(n) + c(2))) } // past the end now and then
	switch c(17) {
	case 0, 1, 2, 3:
		return &pb.EditRequest{Message: &pb.EditRequest_PutCurve{PutCurve: c.curve(w, h)}}
	case 4, 5:
		return &pb.EditRequest{Message: &pb.EditRequest_MoveCurve{MoveCurve: &pb.MoveCurve{Id: id,
			Dx: c.number(20) - 10, Dy: c.number(20) - 10}}}
	case 6, 7:
		r := &pb.RecolorCurve{Id: id, Left: c.stops(), Right: c.stops()}
		return &pb.EditRequest{Message: &pb.EditRequest_RecolorCurve{RecolorCurve: r}}
	case 8:
		return &pb.EditRequest{Message: &pb.EditRequest_RemoveCurve{RemoveCurve: id}}
	case 9, 10:
		p := &pb.GivenPixels{}
		for range c(4) {
			p.Pixels = append(p.Pixels, &pb.GivenPixel{X: place(min(w, 5)), Y: place(min(h, 5)),
				Red: float32(c.number(255)), Blue: float32(c.number(255))})
		}
		return &pb.EditRequest{Message: &pb.EditRequest_PutPixels{PutPixels: p}}
	case 11, 12:
		p := &pb.PixelPlaces{}
		for range c(3) {
			p.Xy = append(p.Xy, place(min(w, 5)), place(min(h, 5)))
		}
		if c(20) == 0 {
			p.Xy = append(p.Xy, 1)
		}
		return &pb.EditRequest{Message: &pb.EditRequest_RemovePixels{RemovePixels: p}}
	case 13, 14:
		p := &pb.MovePixels{Dx: int32(c(5)) - 2, Dy: int32(c(5)) - 2}
		for range c(4) {
			p.Xy = append(p.Xy, place(min(w, 5)), place(min(h, 5)))
		}
		if c(20) == 0 {
			p.Xy, p.Dx = append(p.Xy, 1), math.MinInt32
		}
		return &pb.EditRequest{Message: &pb.EditRequest_MovePixels{MovePixels: p}}
	case 15:
		p := &pb.PutEdges{}
		for range c(6) {
			e := 2 * uint32(c(4))
			if c(30) == 0 {
				e = []uint32{1, 8, 64, 128, 256, math.MaxUint32}[c(6)]
			}
			p.Pixels = append(p.Pixels, &pb.PixelEdges{X: place(w), Y: place(h), Edges: e})
		}
		return &pb.EditRequest{Message: &pb.EditRequest_PutEdges{PutEdges: p}}
	}
	return &pb.EditRequest{}
}

// checkEditCase sends random changes, and compares what comes of them with Solve. It returns how many were made and
// refused.
func checkEditCase(t *testing.T, s *testServer, c choose) (made, refused int) {
	m := &editModel{pixels: map[[2]uint32]*pb.GivenPixel{}}
	w, h := 1+uint32(c(40)), 1+uint32(c(30))
	m.edges = make([]byte, w*h)
	m.open = &pb.SolveRequest{Options: &pb.DiffusionOptions{Tolerance: 0.05}, Drawing: &pb.Drawing{Width: w, Height: h}}
	if c(4) == 0 {
		m.open.Edges = make([]byte, w*h)
		for range 10 {
			m.open.Edges[c(len(m.open.Edges))] = byte(2 * c(4))
		}
		copy(m.edges, m.open.Edges)
	}
	if c(4) == 0 {
		data := make([]byte, 4*w*h)
		for range 6 {
			p := &pb.GivenPixel{X: uint32(c(int(min(w, 5)))), Y: uint32(c(int(min(h, 5)))), Red: float32(c(256)),
				Green: float32(c(256))}
			copy(data[4*(p.Y*w+p.X):], []byte{byte(p.Red), byte(p.Green), 0, 255})
			m.pixels[[2]uint32{p.X, p.Y}] = p
		}
		m.open.Frame = &pb.Frame{
			Layout: &pb.FrameLayout{Width: w, Height: h, PixelFormat: pb.PixelFormat_PIXEL_FORMAT_RGBA8},
			Source: &pb.Frame_Data{Data: data},
		}
	}
	if c(4) == 0 {
		m.open.Drawing.Pixels = []*pb.GivenPixel{{X: w / 2, Green: 99}}
		m.pixels[[2]uint32{w / 2}] = m.open.Drawing.Pixels[0]
	}
	if c(2) == 0 {
		m.open.Drawing.Curves = []*pb.Curve{{Id: "a", Xy: []float64{0, 0, 1, 1, 2, 1, 3, 0}, Left: c.stops(),
			Right: []*pb.ColorStop{{}}}}
		m.curves = slices.Clone(m.open.Drawing.Curves)
	}
	messages := []*pb.EditRequest{{Message: &pb.EditRequest_Open{Open: m.open}}}
	second := 0 // of another open, which ends the stream
	for range c(12) {
		if c(60) == 0 && second == 0 {
			second = len(messages)
			messages = append(messages, messages[0])
			continue
		}
		messages = append(messages, c.edit(w, h))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stream := &editStream{memoryStream: memoryStream{ctx: ctx, codec: s.codec},
		answered: make(chan struct{}, 1)}
	for _, x := range messages {
		b, err := proto.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		stream.in, stream.patient = append(stream.in, b), append(stream.patient, c(2) == 0)
	}
	err := callEdit(s, stream)
	cancel()
	s.background.Wait()
	wantEditFree(t, s)
	if err != nil {
		wantCanonical(t, err)
		open := status.Code(err) == codes.InvalidArgument && len(stream.got) == 0
		if !open && (second == 0 || status.Code(err) != codes.FailedPrecondition) {
			t.Fatalf("%v: %v", messages, err)
		}
		return 0, 0
	}

	// What was refused, and the last picture or why there is none.
	no := map[uint64]error{}
	var last *pb.EditResponse
	before := uint64(0)
	for _, r := range stream.got {
		e := status.ErrorProto(r.GetError())
		if e == nil || strings.Contains(e.Error(), "fix no pixel") {
			if last = r; r.GetEdits() < before {
				t.Fatalf("%v: edits go from %d to %d", messages, before, r.GetEdits())
			}
			before = r.GetEdits()
		}
		if e != nil {
			wantCanonical(t, e)
			if last != r {
				no[r.GetEdits()] = e
			}
		} else if r.GetResult() == nil {
			t.Fatalf("%v: neither a picture nor an error: %v", messages, r)
		}
	}
	for i, x := range messages[1:] {
		if e := no[uint64(i+1)]; e != nil {
			refused++
			continue
		}
		if !m.possible(x) {
			t.Fatalf("%v: change %d of %d was made, on %v", x, i+1, len(messages)-1, m.request())
		}
		made++
		m.apply(x)
	}
	solve := m.request()
	want, err := whole[pb.SolveResponse](s.diffusion.HandleSolve(t.Context(), solve, framecodec.New(solve)))
	if err != nil || last.GetResult() == nil {
		if err == nil || last.GetResult() != nil || !strings.Contains(err.Error(), "fix no pixel") {
			t.Fatalf("%v: Solve says %v of %v, the canvas %v", messages, err, m.request(), last)
		}
		return made, refused
	}
	got := last.GetResult()
	most := 1
	if slices.ContainsFunc(m.edges, func(e byte) bool {
		return e != 0
	}) || slices.ContainsFunc(m.curves, (*pb.Curve).GetBarrier) {
		most = 2 // the estimate is none that holds always
	}
	if offByMore(got.GetPicture().GetData(), want.GetPicture().GetData(), most) ||
		got.GetGivenPixels() != want.GetGivenPixels() || got.GetVoidPixels() != want.GetVoidPixels() {
		t.Fatalf("%v: the last picture is not that of %v", messages, m.request())
	}
	return made, refused
}

// callEdit calls the handler through the interceptors, as the transport would.
func callEdit(s *testServer, stream grpc.ServerStream) error {
	return s.callStream(pb.DiffusionService_Edit_FullMethodName, stream, s.diffusion.HandleEdit)
}

// callStream calls the handler of a stream through the interceptors.
func (ts *testServer) callStream(method string, stream grpc.ServerStream, handler func(grpc.ServerStream) error) error {
	next := func(_ any, ss grpc.ServerStream) error { return handler(ss) }
	for _, ic := range slices.Backward(ts.streamInterceptors()) {
		inner := next
		next = func(srv any, ss grpc.ServerStream) error {
			return ic(srv, ss, &grpc.StreamServerInfo{FullMethod: method}, inner)
		}
	}
	return next(ts.Server, stream)
}

// wantEditFree checks that nothing of a call is left in the memory of the host and of the device.
func wantEditFree(t *testing.T, s *testServer) {
	t.Helper()
	if release, ok := s.host.Try(budget.Results, s.host.Cap); ok {
		release()
	} else {
		t.Error("host memory is not all back")
	}
	if s.taken() != 0 {
		t.Errorf("memory of the device in use: %v", s.dev.Memory())
	}
}

// The picture of a canvas is that of what is on it, whatever was changed and refused on the way.
func TestEditModel(t *testing.T) {
	s := start(t, fuzzConfig)
	cases := 300
	if testing.Short() {
		cases = 50
	}
	made, refused := 0, 0
	for seed := range cases {
		m, r := checkEditCase(t, s, testseed.New(t, uint64(seed), 33).IntN)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		made, refused = made+m, refused+r
	}
	if made < cases || refused < cases {
		t.Errorf("%d changes were made and %d refused in %d cases", made, refused, cases)
	}
}

func FuzzEdit(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("curves that come, and curves that go"))
	s := start(f, fuzzConfig)
	f.Fuzz(func(t *testing.T, data []byte) {
		checkEditCase(t, s, func(n int) int {
			if len(data) == 0 || n < 1 {
				return max(n-1, 0)
			}
			v := int(data[0]) % n
			data = data[1:]
			return v
		})
	})
}

// FuzzEditWire takes any three messages through a stream.
func FuzzEditWire(f *testing.F) {
	message := func(m *pb.EditRequest) []byte {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	open := message(&pb.EditRequest{Message: &pb.EditRequest_Open{Open: canvasOf(wall("a", 10, 200, 50))}})
	frame := message(&pb.EditRequest{Message: &pb.EditRequest_Open{Open: &pb.SolveRequest{Frame: fourPixels()}}})
	put := message(&pb.EditRequest{Message: &pb.EditRequest_PutCurve{PutCurve: wall("b", 20, 1, 2)}})
	f.Add(open, put, message(&pb.EditRequest{Message: &pb.EditRequest_MoveCurve{MoveCurve: &pb.MoveCurve{Id: "a",
		Dx: 3}}}))
	f.Add(frame, put,
		message(&pb.EditRequest{Message: &pb.EditRequest_PutPixels{PutPixels: &pb.GivenPixels{Pixels: []*pb.GivenPixel{{X: 1}}}}}))
	f.Add(frame, message(&pb.EditRequest{Message: &pb.EditRequest_MovePixels{MovePixels: &pb.MovePixels{Xy: []uint32{0,
		0}, Dx: 1}}}),
		message(&pb.EditRequest{Message: &pb.EditRequest_PutEdges{PutEdges: &pb.PutEdges{Pixels: []*pb.PixelEdges{{X: 1,
			Edges: 2}}}}}))
	f.Add(open, open, put)
	f.Add(put, open, []byte{})
	s := start(f, fuzzConfig)
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		for _, wire := range [][]byte{a, b, c} {
			m := &pb.EditRequest{}
			d := m.GetOpen().GetDrawing()
			if proto.Unmarshal(wire, m) == nil {
				d = m.GetOpen().GetDrawing()
			}
			if uint64(d.GetWidth())*uint64(d.GetHeight()) > 1<<16 && d.GetWidth() <= 1<<20 && d.GetHeight() <= 1<<20 {
				return // large, which only takes long
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		stream := &editStream{memoryStream: memoryStream{ctx: ctx, codec: s.codec,
			in: [][]byte{a, b, c}}, answered: make(chan struct{}, 1)}
		if err := callEdit(s, stream); err != nil && status.Convert(err).Message() != "not protobuf" {
			wantCanonical(t, err)
		}
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Error("it took 20 seconds")
		}
		cancel()
		s.background.Wait()
		wantEditFree(t, s)
		for _, m := range stream.got {
			if e := m.GetError(); e != nil {
				wantCanonical(t, status.ErrorProto(e))
			} else if m.GetResult() == nil {
				t.Errorf("neither a picture nor an error: %v", m)
			}
		}
	})
}
