package framecodec

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// plain is what every result is compared with.
var plain = encoding.GetCodecV2("proto")

// countingPool hands out buffers that mem counts references to, whatever their size, and overwrites what comes back,
// so that reading it afterwards shows.
type countingPool struct {
	mu    sync.Mutex
	out   map[*byte]bool
	gets  int
	twice int
}

func newCountingPool() *countingPool { return &countingPool{out: map[*byte]bool{}} }

func (p *countingPool) Get(n int) *[]byte {
	b := make([]byte, n, max(n, 1040))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gets++
	p.out[&b[:1][0]] = true
	return &b
}

func (p *countingPool) Put(b *[]byte) {
	s := (*b)[:cap(*b)]
	for i := range s {
		s[i] = 0xDB
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.out[&s[0]] {
		p.twice++
	}
	delete(p.out, &s[0])
}

// state is the number of buffers handed out, of those not back, and of those that came back twice.
func (p *countingPool) state() (gets, out, twice int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gets, len(p.out), p.twice
}

// cut makes buffers of wire, with lengths from cuts in turn, empty ones among them.
func cut(wire, cuts []byte, pool mem.BufferPool) mem.BufferSlice {
	var out mem.BufferSlice
	for i := 0; len(wire) > 0; i++ {
		n := len(wire)
		if len(cuts) > 0 {
			n = min(n, int(cuts[i%len(cuts)]))
			if n == 0 && i >= 4*len(cuts) {
				n = 1
			}
		}
		buf := pool.Get(n)
		copy(*buf, wire[:n])
		out = append(out, mem.NewBuffer(buf, pool))
		wire = wire[n:]
	}
	return out
}

// whole returns m's message with the payload in its field.
func whole(m *Message) proto.Message {
	c := proto.Clone(m.Message)
	path := pathOf(c.ProtoReflect().Descriptor())
	if !m.apart {
		return c
	}
	cur := c.ProtoReflect()
	for _, fd := range path[:len(path)-1] {
		cur = cur.Mutable(fd).Message()
	}
	data := []byte{}
	for _, p := range m.Pieces(nil) {
		data = append(data, p...)
	}
	cur.Set(path[len(path)-1], protoreflect.ValueOfBytes(data))
	return c
}

var messages = []proto.Message{
	&pb.ReduceRequest{}, &pb.StreamFramesRequest{}, &pb.ScanLinesRequest{}, &pb.RasterizeResponse{}, &pb.Frame{},
	&pb.RecipeRef{},
	&pb.PutFrameRequest{}, &pb.UploadFrameRequest{},
}

// checkUnmarshal unmarshals wire with both codecs and fails where they differ. It returns whether the payload stayed
// apart.
func checkUnmarshal(t *testing.T, wire, cuts []byte, empty proto.Message) (apart bool) {
	t.Helper()
	want := proto.Clone(empty)
	wantErr := plain.Unmarshal(mem.BufferSlice{mem.SliceBuffer(wire)}, want)

	pool := newCountingPool()
	data := cut(wire, cuts, pool)
	m := New(proto.Clone(empty))
	err := Codec().Unmarshal(data, m)
	data.Free()
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%T %x: error %v, the default codec has %v", empty, wire, err, wantErr)
	}
	if err == nil {
		if got := whole(m); !proto.Equal(got, want) {
			t.Fatalf("%T %x:\n%v, the default codec has\n%v", empty, wire, got, want)
		}
		n := 0
		for _, p := range m.Pieces(nil) {
			if len(p) == 0 {
				t.Errorf("%T %x: an empty piece", empty, wire)
			}
			n += len(p)
		}
		if n != m.Len() {
			t.Errorf("%T %x: pieces of %d bytes, Len = %d", empty, wire, n, m.Len())
		}
		out, err := Codec().Marshal(m)
		if err != nil {
			t.Fatalf("%T %x: marshal again: %v", empty, wire, err)
		}
		back := proto.Clone(empty)
		if err := plain.Unmarshal(out, back); err != nil || !proto.Equal(back, want) {
			t.Fatalf("%T %x: written again and read by the default codec:\n%v (%v), want\n%v", empty, wire, back, err,
				want)
		}
		out.Free()
	}
	apart = m.apart
	m.Free()
	m.Free()
	if _, left, twice := pool.state(); left != 0 || twice != 0 {
		t.Fatalf("%T %x: %d buffers not freed, %d freed twice", empty, wire, left, twice)
	}
	return apart
}

func frame(id string, data []byte) *pb.Frame {
	return &pb.Frame{
		Layout:   &pb.FrameLayout{Width: 7, Height: 3, PixelFormat: pb.PixelFormat_PIXEL_FORMAT_GRAY8, Stride: 9},
		Encoding: pb.Encoding_ENCODING_RAW,
		FrameId:  id,
		Source:   &pb.Frame_Data{Data: data},
	}
}

func strip(data []byte) *pb.ScanLinesRequest {
	return &pb.ScanLinesRequest{Message: &pb.ScanLinesRequest_Strip{Strip: &pb.Strip{
		Sequence: 7, FirstLine: 1 << 40, PartStarts: []uint64{1<<40 + 1}, NextResult: 3, Frame: frame("", data),
	}}}
}

func inspection() *pb.Inspection {
	return &pb.Inspection{
		Regions: &pb.Inspection_RegionSet{RegionSet: &pb.RegionSet{Regions: []*pb.Region{
			{Name: "a", Rings: []*pb.Ring{{Xy: []float64{1, 2, 3, 4, 5.5, 6}}}, Limits: []string{"mean < 3"}},
		}}},
		Reductions: &pb.Reductions{Statistics: []pb.Statistic{pb.Statistic_STATISTIC_MEAN}},
	}
}

func random(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

func mustMarshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What encoders write must take the fast path, however it is cut.
func TestUnmarshalKeepsPayloadApart(t *testing.T) {
	for _, n := range []int{0, 1, 31, 32, 33, 127, 128, 129, 1000, 16384, 50000} {
		for _, cuts := range [][]byte{nil, {1}, {2, 0, 3}, {255}, {7, 200, 0, 0, 1}} {
			if n > 1000 && len(cuts) > 0 && cuts[0] < 7 {
				continue // a pool of small pieces takes long, and shows nothing new
			}
			for _, m := range []proto.Message{
				&pb.ReduceRequest{Inspection: inspection(), Frame: frame("id", random(n))},
				&pb.ReduceRequest{Frame: &pb.Frame{Source: &pb.Frame_Data{Data: random(n)}}},
				&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Frame{Frame: frame("", random(n))}},
				strip(random(n)),
				&pb.RasterizeResponse{Counts: []uint64{1, 1 << 60}, Backend: "cpu", Image: frame("x", random(n))},
				&pb.PutFrameRequest{Frame: frame("p", random(n)), IdleTimeout: durationpb.New(1e9)},
				&pb.UploadFrameRequest{Frame: &pb.Frame{Source: &pb.Frame_Data{Data: random(n)}}},
				frame("f", random(n)),
			} {
				empty := m.ProtoReflect().New().Interface()
				if !checkUnmarshal(t, mustMarshal(t, m), cuts, empty) {
					t.Errorf("%T with %d bytes, cut %v: went through the default codec", m, n, cuts)
				}
			}
		}
	}
}

// Wires that mean something else than they seem to must not take it.
func TestUnmarshalFallsBack(t *testing.T) {
	tag := func(b []byte, n protowire.Number, typ protowire.Type) []byte { return protowire.AppendTag(b, n, typ) }
	field := func(b []byte, n protowire.Number, v []byte) []byte {
		return protowire.AppendBytes(tag(b, n, protowire.BytesType), v)
	}
	data := func(v string) []byte { return field(nil, 15, []byte(v)) }
	const reduceFrame, streamOpen, streamFrame = 2, 1, 2
	const scanResume, scanStrip, stripFrame = 2, 3, 15
	req, str, scan := &pb.ReduceRequest{}, &pb.StreamFramesRequest{}, &pb.ScanLinesRequest{}
	group := func(b []byte) []byte {
		return tag(tag(b, 99, protowire.StartGroupType), 99, protowire.EndGroupType)
	}
	for _, c := range []struct {
		name  string
		wire  []byte
		empty proto.Message
		apart bool
	}{
		{"no frame", field(nil, 1, nil), req, false},
		{"frame without data", field(nil, reduceFrame, field(nil, 3, []byte("id"))), req, false},
		{"data twice", field(nil, reduceFrame, append(data("abc"), data("de")...)), req, false},
		{"two frames merge", field(field(nil, reduceFrame, data("abc")), reduceFrame, field(nil, 3, []byte("id"))), req,
			false},
		{"frame, then open", field(field(nil, streamFrame, data("abc")), streamOpen, nil), str, false},
		{"open, then frame", field(field(nil, streamOpen, nil), streamFrame, data("abc")), str, false},
		{"data, then resident", field(nil, reduceFrame, append(data("abc"), field(nil, 17, []byte("name"))...)), req,
			false},
		{"resident, then data", field(nil, reduceFrame, append(field(nil, 17, []byte("name")), data("abc")...)), req,
			false},
		{"strip, then resume", field(field(nil, scanStrip, field(nil, stripFrame, data("abc"))), scanResume, nil), scan,
			false},
		{"two strips merge", field(field(nil, scanStrip, field(nil, stripFrame, data("abc"))), scanStrip,
			field(nil, stripFrame, nil)), scan, false},
		{"strip with its frame twice",
			field(nil, scanStrip, field(field(nil, stripFrame, data("abc")), stripFrame, data("de"))), scan, false},
		{"strip in shared memory", field(nil, scanStrip, field(nil, stripFrame, field(nil, 16, []byte{8, 1}))), scan,
			false},
		{"data, then shared memory",
			field(nil, scanStrip, field(nil, stripFrame, field(data("abc"), 16, []byte{8, 1}))), scan, false},
		{"group beside", group(field(nil, reduceFrame, data("abc"))), req, false},
		{"group inside", field(nil, reduceFrame, group(data("abc"))), req, false},
		{"data as varint", field(nil, reduceFrame,
			append(protowire.AppendVarint(tag(nil, 15, protowire.VarintType), 7), data("abc")...)), req, false},
		{"data longer than its frame", append(field(nil, reduceFrame, []byte{0x7a, 9, 1}), make([]byte, 20)...), req,
			false},
		{"cut off", field(nil, reduceFrame, data("abc"))[:6], req, false},
		{"field number 0", append(field(nil, reduceFrame, data("abc")), 2, 0), req, false},
		{"varint of eleven bytes", append(field(nil, reduceFrame, data("abc")), 8, 255, 255, 255, 255, 255, 255, 255,
			255, 255, 255, 1), req, false},
		{"varint beyond 64 bits", append(field(nil, reduceFrame, data("abc")), 8, 255, 255, 255, 255, 255, 255, 255,
			255, 255, 2), req, false},
		{"invalid UTF-8", field(nil, reduceFrame, append(field(nil, 3, []byte{0xff}), data("abc")...)), req, false},

		{"strip with its frame first", field(nil, scanStrip, append(field(nil, stripFrame, data("abc")), 8, 7)), scan,
			true},
		{"unknown fields around",
			field(field(field(nil, 77, []byte("x")), reduceFrame,
				field(append(field(nil, 99, []byte("y")), data("abc")...), 98, nil)), 78, []byte("z")), req, true},
		{"data first", field(field(nil, reduceFrame, append(data("abc"), field(nil, 3, []byte("id"))...)), 1, nil), req,
			true},
		{"lengths that take more bytes than needed",
			[]byte{reduceFrame<<3 | 2, 0x87, 0, 15<<3 | 2, 0x83, 0x80, 0, 'a', 'b', 'c'}, req, true},
		{"tags that take more bytes than needed", []byte{0x92, 0, 6, 15<<3 | 2, 0x83, 0, 'a', 'b', 'c'}, req, true},
		{"fixed fields beside", append(append(tag(nil, 50, protowire.Fixed64Type), make([]byte, 8)...),
			append(append(tag(nil, 51, protowire.Fixed32Type), 0, 0, 0, 0),
				field(nil, reduceFrame, data("abc"))...)...), req, true},
	} {
		for _, cuts := range [][]byte{nil, {1}, {3, 0, 2}} {
			if got := checkUnmarshal(t, c.wire, cuts, c.empty); got != c.apart {
				t.Errorf("%s, cut %v: payload apart = %v, want %v", c.name, cuts, got, c.apart)
			}
		}
	}
}

func TestMarshalIsTheDefaultWire(t *testing.T) {
	unknown := &pb.ReduceRequest{Frame: frame("u", random(10))}
	unknown.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 5))
	unknown.Frame.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 1001, protowire.VarintType),
		6))
	for _, m := range []proto.Message{
		&pb.ReduceRequest{},
		&pb.ReduceRequest{Frame: &pb.Frame{FrameId: "no data"}},
		&pb.ReduceRequest{Frame: frame("empty", []byte{})},
		&pb.ReduceRequest{Inspection: inspection(), Frame: frame("id", random(100000))},
		&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Open{Open: inspection()}},
		&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Frame{Frame: frame("", random(127))}},
		&pb.ScanLinesRequest{Message: &pb.ScanLinesRequest_Open{Open: &pb.ScanOpen{Inspection: inspection(),
			PartLines: 4}}},
		&pb.ScanLinesRequest{Message: &pb.ScanLinesRequest_Resume{Resume: &pb.ScanResume{SessionToken: random(32)}}},
		strip(random(1000)),
		&pb.RasterizeResponse{Counts: []uint64{5}, Backend: "cpu", Image: frame("", random(128))},
		&pb.RecipeRef{Name: "n"},
		unknown,
	} {
		want := mustMarshal(t, m)
		for _, v := range []any{m, New(m)} {
			out, err := Codec().Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			back := m.ProtoReflect().New().Interface()
			if err := proto.Unmarshal(out.Materialize(), back); err != nil || !proto.Equal(back, m) {
				t.Errorf("%T: read back as %v (%v), want %v", v, back, err, m)
			}
			if out.Len() != len(want) {
				t.Errorf("%T of %T: %d bytes, the default codec writes %d", v, m, out.Len(), len(want))
			}
			out.Free()
		}
	}
	if _, err := Codec().Marshal(New(&pb.ReduceRequest{Frame: frame("\xff", random(10))})); err == nil {
		t.Error("invalid UTF-8 beside a payload: no error")
	}
	if _, err := Codec().Marshal(42); err == nil {
		t.Error("not a message: no error")
	}
	if err := Codec().Unmarshal(nil, 42); err == nil {
		t.Error("not a message: no error")
	}
}

// A payload set in pieces goes out from where it is, with references of the transport's own.
func TestSetPayload(t *testing.T) {
	released := 0
	a, b, small := random(5000), random(3000), random(10)
	m := New(&pb.ReduceRequest{Inspection: inspection(), Frame: &pb.Frame{FrameId: "id"}})
	count := func() { released++ }
	m.SetPayload(mem.BufferSlice{NewBuffer(a, count), NewBuffer(nil, nil), NewBuffer(b, count),
		NewBuffer(small, count)})
	if released != 1 {
		t.Errorf("a small buffer is copied and released at once: %d releases", released)
	}
	out, err := Codec().Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if &out[1].ReadOnlyData()[0] != &a[0] || &out[2].ReadOnlyData()[0] != &b[0] {
		t.Error("the payload was copied")
	}
	m.Free()
	if released != 1 {
		t.Errorf("%d releases while the transport holds the buffers", released)
	}
	var back pb.ReduceRequest
	if err := proto.Unmarshal(out.Materialize(), &back); err != nil {
		t.Fatal(err)
	}
	if want := slices.Concat(a, b, small); !bytes.Equal(back.GetFrame().GetData(), want) || back.Frame.FrameId != "id" {
		t.Error("the payload differs")
	}
	out.Free()
	if released != 3 {
		t.Errorf("%d releases, want 3", released)
	}

	// No frame yet, and a field that SetPayload overrides.
	for _, req := range []*pb.ReduceRequest{{}, {Frame: frame("", []byte("old"))}} {
		m := New(req)
		m.SetPayload(mem.BufferSlice{mem.SliceBuffer("new")})
		out, err := Codec().Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var back pb.ReduceRequest
		if err := proto.Unmarshal(out.Materialize(), &back); err != nil || string(back.GetFrame().GetData()) != "new" {
			t.Errorf("got %v, %v", &back, err)
		}
	}
}

// Receiving twice into the same Message frees the first payload, as gRPC does where a unary call has two requests.
func TestUnmarshalTwice(t *testing.T) {
	pool := newCountingPool()
	m := New(&pb.ReduceRequest{})
	for range 2 {
		data := cut(mustMarshal(t, &pb.ReduceRequest{Frame: frame("", random(300))}), []byte{100}, pool)
		if err := Codec().Unmarshal(data, m); err != nil {
			t.Fatal(err)
		}
		data.Free()
	}
	bad := cut([]byte{0xff, 0xff}, nil, pool)
	if err := Codec().Unmarshal(bad, m); err == nil {
		t.Fatal("malformed: no error")
	}
	bad.Free()
	if m.Len() != 0 {
		t.Errorf("Len = %d after an error", m.Len())
	}
	m.Free()
	if gets, left, twice := pool.state(); gets == 0 || left != 0 || twice != 0 {
		t.Errorf("%d buffers, %d not freed, %d freed twice", gets, left, twice)
	}
}

// echo answers a ReduceRequest with what it received, in the frame ID of the result, and keeps the payload a while.
func echo(received func(m *Message)) *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: "test.Echo",
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Unary",
			Handler: func(_ any, _ context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				m := New(&pb.ReduceRequest{})
				defer m.Free()
				if err := dec(m); err != nil {
					return nil, err
				}
				received(m)
				return &pb.ReduceResponse{Result: &pb.FrameResult{FrameId: fmt.Sprint(m.Len())}}, nil
			}}},
		Streams: []grpc.StreamDesc{{StreamName: "Stream", ClientStreams: true, ServerStreams: true,
			Handler: func(_ any, s grpc.ServerStream) error {
				for i := range 3 {
					m := New(&pb.StreamFramesRequest{})
					if err := s.RecvMsg(m); err != nil {
						return err
					}
					received(m)
					m.Free()
					if err := s.SendMsg(&pb.StreamFramesResponse{Sequence: uint64(i)}); err != nil {
						return err
					}
				}
				return nil
			}}},
	}
}

// Both sides, each with and without the codec, over the real transport; every buffer of the server's pool comes back
// exactly once.
func TestOverTransport(t *testing.T) {
	payload := random(300_000)
	for _, c := range []struct{ server, client bool }{{true, true}, {true, false}, {false, true}} {
		t.Run(fmt.Sprintf("server=%v,client=%v", c.server, c.client), func(t *testing.T) {
			pool := newCountingPool()
			so := []grpc.ServerOption{experimental.BufferPool(pool)}
			if c.server {
				so = append(so, grpc.ForceServerCodecV2(Codec()))
			}
			var co []grpc.CallOption
			if c.client {
				co = append(co, grpc.ForceCodecV2(Codec()))
			}
			apart := 0
			srv := grpc.NewServer(so...)
			srv.RegisterService(echo(func(m *Message) {
				if got := slices.Concat(m.Pieces(nil)...); !bytes.Equal(got, payload) {
					t.Error("the payload differs")
				}
				if m.apart {
					apart++
				}
			}), nil)
			l := bufconn.Listen(1 << 20)
			done := make(chan error)
			go func() { done <- srv.Serve(l) }()
			conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn,
					error) {
					return l.DialContext(ctx)
				}))
			if err != nil {
				t.Fatal(err)
			}
			ctx := t.Context()
			wrap := func(m proto.Message) any {
				if !c.client {
					return m
				}
				return New(m)
			}
			for range 3 {
				var out pb.ReduceResponse
				req := &pb.ReduceRequest{Inspection: inspection(), Frame: frame("", payload)}
				if err := conn.Invoke(ctx, "/test.Echo/Unary", wrap(req), &out, co...); err != nil {
					t.Fatal(err)
				}
				if out.Result.FrameId != "300000" {
					t.Errorf("received %s bytes", out.Result.FrameId)
				}
			}
			s, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
				"/test.Echo/Stream", co...)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if err := s.SendMsg(wrap(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Frame{Frame: frame("",
					payload)}})); err != nil {
					t.Fatal(err)
				}
				if err := s.RecvMsg(&pb.StreamFramesResponse{}); err != nil {
					t.Fatal(err)
				}
			}
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
			srv.GracefulStop()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			gets, left, twice := pool.state()
			if gets < 6*300_000/16384 || left != 0 || twice != 0 {
				t.Errorf("%d buffers, %d not freed, %d freed twice", gets, left, twice)
			}
			if want := map[bool]int{true: 6}[c.server]; apart != want {
				t.Errorf("%d payloads stayed in the transport's buffers, want %d", apart, want)
			}
		})
	}
}

func FuzzCodec(f *testing.F) {
	for i, m := range []proto.Message{
		&pb.ReduceRequest{Inspection: inspection(), Frame: frame("id", []byte("0123456789"))},
		&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Frame{Frame: frame("", []byte("01234"))}},
		&pb.RasterizeResponse{Counts: []uint64{9}, Image: frame("", []byte("0"))},
		frame("f", []byte("xyz")),
		&pb.RecipeRef{Name: "n", Version: 3},
	} {
		f.Add(mustMarshal(f, m), []byte{3, 0, 1}, byte(i))
	}
	f.Add([]byte{0x12, 2, 0x7a, 0, 0x12, 2, 0x7a, 0}, []byte{1}, byte(0))
	f.Add([]byte{0x12, 3, 0x7a, 1, 'x', 0x0a, 0}, []byte{}, byte(1))
	f.Fuzz(func(t *testing.T, wire, cuts []byte, which byte) {
		checkUnmarshal(t, wire, cuts, messages[int(which)%len(messages)])
	})
}

func BenchmarkUnmarshal(b *testing.B) {
	payload := random(5 << 20)
	wire := mustMarshal(b, &pb.ReduceRequest{Inspection: inspection(), Frame: frame("id", payload)})
	var data mem.BufferSlice // as HTTP/2 cuts it
	for len(wire) > 0 {
		n := min(len(wire), 16384)
		data = append(data, mem.SliceBuffer(wire[:n]))
		wire = wire[n:]
	}
	for name, codec := range map[string]encoding.CodecV2{"frame": Codec(), "default": plain} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(payload)))
			b.ReportAllocs()
			for b.Loop() {
				var v any = &pb.ReduceRequest{}
				if name == "frame" {
					v = New(&pb.ReduceRequest{})
				}
				if err := codec.Unmarshal(data, v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkMarshal(b *testing.B) {
	req := &pb.ReduceRequest{Inspection: inspection(), Frame: frame("id", random(5<<20))}
	for name, v := range map[string]any{"frame": New(req), "default": req} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(5 << 20)
			b.ReportAllocs()
			for b.Loop() {
				out, err := Codec().Marshal(v)
				if err != nil {
					b.Fatal(err)
				}
				out.Free()
			}
		})
	}
}
