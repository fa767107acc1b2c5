package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/polyscan/polyscan/internal/seed"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/inspect"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// wantCanonical checks that an error is one that clients can act on: never INTERNAL or UNKNOWN, one line, and with the
// details of its code.
func wantCanonical(t *testing.T, err error) {
	t.Helper()
	d := detailsOf(t, err)
	if strings.ContainsAny(d.status.Message(), "\n\r") || d.status.Message() == "" {
		t.Errorf("message %q", d.status.Message())
	}
	switch c := d.status.Code(); c {
	case codes.InvalidArgument:
		if d.bad == nil || len(d.bad.FieldViolations) == 0 {
			t.Fatalf("%v without fields", err)
		}
		for _, v := range d.bad.FieldViolations {
			if v.Field == "" || v.Description == "" {
				t.Errorf("%v: violation %v", err, v)
			}
		}
	case codes.ResourceExhausted:
		if d.quota == nil {
			t.Errorf("%v without a quota", err)
		}
	case codes.NotFound, codes.FailedPrecondition, codes.DeadlineExceeded, codes.Canceled:
	default:
		t.Errorf("%v: code %v", err, c)
	}
}

var fuzzConfig = Config{
	Logger:      slog.New(slog.DiscardHandler),
	MemoryBytes: 64 << 20, MaxFramePixels: 1 << 18, MaxMessageBytes: 1 << 20,
	MaxRegions: 100, MaxVertices: 10_000, MaxRegionVertices: 1000,
}

// fuzzSeeds are requests of all kinds.
func fuzzSeeds(t testing.TB) []*pb.ReduceRequest {
	all := pictures(9, 5)
	full := inspecting(rect("a", 1, 1, 4, 4, "mean in [0, 200]", "p99 < 250"), star("s", 12, 4, 4, 3))
	full.GetRegionSet().Regions[0].FillRule = pb.FillRule_FILL_RULE_EVEN_ODD
	full.Method = pb.MaskMethod_MASK_METHOD_TILED
	full.Reductions = &pb.Reductions{
		Statistics:  []pb.Statistic{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14},
		Percentiles: []float64{0, 50, 99.9, 100}, PercentileMethod: pb.PercentileMethod_PERCENTILE_METHOD_LINEAR,
		Histogram: &pb.HistogramSpec{Bins: 7, Lower: 1, Upper: 99.5},
	}
	gray16Frame := rawFrame(5, 4, gray16, make([]byte, 2*5*4))
	gray16Frame.Layout.SignificantBits = 12
	return []*pb.ReduceRequest{
		{},
		{Inspection: inspecting(rect("a", 0, 0, 3, 3)), Frame: rawFrame(3, 3, gray8, []byte("012345678"))},
		{Inspection: full, Frame: rawFrame(3, 2, rgb8, []byte("012345678012345678"))},
		{Inspection: full, Frame: gray16Frame},
		{Inspection: full, Frame: fileFrame(encodePicture(t, "png", all["nrgba"]))},
		{Inspection: full, Frame: fileFrame(encodePicture(t, "jpeg", all["opaque"]))},
		{Inspection: full, Frame: fileFrame(encodePicture(t, "bmp", all["gray"]))},
		{Inspection: &pb.Inspection{Regions: &pb.Inspection_Recipe{Recipe: &pb.RecipeRef{Name: "board"}}},
			Frame: rawFrame(1, 1, gray8, []byte("0"))},
	}
}

// chain makes one interceptor of several.
func chain(all []grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, i *grpc.UnaryServerInfo, last grpc.UnaryHandler) (any, error) {
		next := last
		for k := len(all) - 1; k >= 0; k-- {
			inner, ic := next, all[k]
			next = func(ctx context.Context, req any) (any, error) { return ic(ctx, req, i, inner) }
		}
		return next(ctx, req)
	}
}

// handlerOf is the handler of a method, as it is registered.
func handlerOf(d *grpc.ServiceDesc, method string) grpc.MethodHandler {
	i := slices.IndexFunc(d.Methods, func(m grpc.MethodDesc) bool { return m.MethodName == method })
	return d.Methods[i].Handler
}

// decisions makes messages of bytes. Bytes that were mutated are hardly ever protobuf; decisions that were mutated
// always make a message, and most of them reach the reduction.
type decisions []byte

func (d *decisions) next() byte {
	if len(*d) == 0 {
		return 0
	}
	b := (*d)[0]
	*d = (*d)[1:]
	return b
}

// rare are the fields that most requests do without: each has conditions of its own, which few random values meet, and
// a request that has all of them hardly ever comes to a result.
var rare = map[protoreflect.Name]bool{
	"frames": true, "correlations": true, "blobs": true, "cooccurrence": true, "covered": true,
	"mask": true, "image": true, "reference": true, "demosaic": true, "pose": true, "locate": true,
}

// fill sets fields of a message.
func (d *decisions) fill(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		switch {
		case d.next()%16 == 15: // leave it out
		case rare[fd.Name()] && d.next()%8 != 7:
		case fd.ContainingOneof() != nil && m.WhichOneof(fd.ContainingOneof()) != nil && d.next()%4 != 0:
		case fd.IsMap():
			entries := m.Mutable(fd).Map()
			for range 1 + d.next()%4 {
				k := d.scalar(fd.MapKey()).MapKey()
				if fd.MapValue().Message() == nil {
					entries.Set(k, d.scalar(fd.MapValue()))
				} else {
					d.fill(entries.Mutable(k).Message())
				}
			}
		case fd.IsList():
			list := m.Mutable(fd).List()
			n := 1 + d.next()%4
			if fd.Name() == "xy" && d.next()%32 != 31 {
				n = 4 + 2*n
			}
			for range n {
				if fd.Message() != nil {
					v := list.NewElement()
					d.fill(v.Message())
					list.Append(v)
				} else {
					list.Append(d.scalar(fd))
				}
			}
		case fd.Message() != nil:
			d.fill(m.Mutable(fd).Message())
		default:
			m.Set(fd, d.scalar(fd))
		}
	}
}

// scalar is a good value mostly, and one in sixteen is anything.
func (d *decisions) scalar(fd protoreflect.FieldDescriptor) protoreflect.Value {
	b := d.next()
	bad := d.next()%16 == 15
	switch fd.Kind() {
	case protoreflect.EnumKind:
		n := protoreflect.EnumNumber(fd.Enum().Values().Len())
		v := protoreflect.EnumNumber(b) % n
		if fd.IsList() {
			v = max(v, 1)
		}
		if bad {
			v = protoreflect.EnumNumber(b)
		}
		return protoreflect.ValueOfEnum(v)
	case protoreflect.Uint32Kind:
		if fd.Name() == "significant_bits" && !bad {
			return protoreflect.ValueOfUint32(0)
		}
		return protoreflect.ValueOfUint32(uint32(b) % 33)
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(b%2 == 1)
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		if bad {
			return protoreflect.ValueOfInt32(math.MinInt32 + int32(b))
		}
		return protoreflect.ValueOfInt32(int32(b) - 8)
	case protoreflect.Fixed32Kind:
		if bad {
			return protoreflect.ValueOfUint32(math.MaxUint32 - uint32(b))
		}
		return protoreflect.ValueOfUint32(uint32(b))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(b) % 2)
	case protoreflect.DoubleKind:
		special := []float64{math.NaN(), math.Inf(1), -1e300, 1 << 22, 1<<22 - 1, math.Copysign(0, -1), 1e-300, 101}
		switch {
		case bad:
			return protoreflect.ValueOfFloat64(special[b%8])
		case fd.Name() == "lower":
			return protoreflect.ValueOfFloat64(0)
		}
		return protoreflect.ValueOfFloat64(float64(b) / 8)
	case protoreflect.StringKind:
		all := []string{"", "board", "nonsense", "\n", "a b"}
		if !bad {
			all = map[protoreflect.Name][]string{
				"name":   {"board"},
				"limits": {"mean in [0, 200]", "p99 < 3", "max <= 9", "count of pixels below 4 <= 2", "count > 0"},
			}[fd.Name()]
		}
		if len(all) == 0 {
			return protoreflect.ValueOfString("id")
		}
		return protoreflect.ValueOfString(all[int(b)%len(all)])
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(bytes.Repeat([]byte{b, d.next()}, int(d.next())))
	}
	panic(fd.Kind())
}

// request makes a request whose raw pixels mostly have the length that they should.
func (d *decisions) request() *pb.ReduceRequest {
	m := &pb.ReduceRequest{}
	d.fill(m.ProtoReflect())
	if in := m.GetInspection(); in != nil && d.next()%32 > 0 { // a field of some other frame, and another size
		in.FlatField = nil
		if set := in.GetRegionSet(); set != nil {
			set.DrawnOn = nil
		}
	}
	if p := m.GetInspection().GetPose(); p != nil && d.next()%4 != 3 {
		p.Affine, p.Scale = nil, 1+p.Scale/32
	}
	if r := m.GetInspection().GetReductions(); r != nil {
		switch n := d.next() % 16; { // most frames have no colours
		case n < 14:
			r.Colors, r.ColorMatrix = nil, nil
		case n < 15 && len(r.ColorMatrix) > 0:
			r.ColorMatrix = slices.Repeat(r.ColorMatrix[:1], 9)
		}
	}
	d.lengthen(m.GetFrame())
	for _, r := range m.GetInspection().GetRegionSet().GetRegions() {
		if image := r.GetMask().GetImage(); image != nil && d.next()%8 != 7 {
			r.Rings, r.Shape, r.Mask.Runs = nil, "", nil
			d.lengthen(image.GetFrame())
		}
	}
	return m
}

// lengthen gives raw pixels the length that they should have, mostly.
func (d *decisions) lengthen(f *pb.Frame) {
	l := f.GetLayout()
	if l == nil || d.next()%8 == 7 {
		return
	}
	f.Encoding %= 2
	l.PixelFormat = l.PixelFormat%5 + 1
	if l.PixelFormat != gray16 || l.SignificantBits%2 != 0 {
		l.SignificantBits = 0
	}
	row := l.Width * uint32(pixelBytes[l.PixelFormat])
	if l.Stride > 0 {
		l.Stride += row
	}
	f.Source = &pb.Frame_Data{Data: bytes.Repeat([]byte{d.next(), d.next(), d.next()},
		int(max(row, l.Stride)*l.Height+2)/3)[:max(row, l.Stride)*l.Height]}
}

// FuzzReduceRequest takes bytes through codec, interceptors and handler, as the transport would.
func FuzzReduceRequest(f *testing.F) {
	for _, m := range fuzzSeeds(f) {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, uint16(0), false)
		f.Add(b, uint16(5), true)
	}
	for range 20 {
		f.Add(randomBytes(400), uint16(100), true)
	}
	s := start(f, fuzzConfig)
	if _, err := s.recipe.PutRecipe(f.Context(),
		&pb.PutRecipeRequest{Recipe: &pb.Recipe{Name: "board",
			RegionSet: inspecting(rect("r", 0, 0, 1, 1)).GetRegionSet()}}); err != nil {
		f.Fatal(err)
	}
	srv, codec, interceptor := s.inspector, s.codec,
		chain(s.unaryInterceptors())
	f.Fuzz(func(t *testing.T, wire []byte, cut uint16, decide bool) {
		if decide {
			var err error
			d := decisions(wire)
			if wire, err = proto.Marshal(d.request()); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var data mem.BufferSlice
		for _, p := range cutUp(wire, int(cut)+1) {
			data = append(data, mem.SliceBuffer(p))
		}
		errWire := errors.New("not protobuf")
		dec := func(v any) error {
			if err := codec.Unmarshal(data, v); err != nil {
				return errWire
			}
			return nil
		}
		res, err := handlerOf(inspect.Desc(), "Reduce")(srv, ctx, dec, interceptor)
		switch {
		case errors.Is(err, errWire):
		case err != nil:
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				t.Errorf("it took 20 seconds: %v", err)
			}
			wantCanonical(t, err)
		default:
			out, err := codec.Marshal(res)
			if err != nil {
				t.Fatal(err)
			}
			out.Free()
		}
		if used := s.taken(); used != s.inspector.Prepared.Stats().Bytes && used > s.inspector.Prepared.Stats().Bytes+
			1<<20 {
			t.Errorf("memory of the device in use: %v", s.dev.Memory())
		}
	})
}

// memoryStream is a stream whose messages are bytes.
type memoryStream struct {
	grpc.ServerStream
	ctx   context.Context
	codec wire.Codec
	in    [][]byte
	out   []*pb.StreamFramesResponse
}

func (s *memoryStream) Context() context.Context     { return s.ctx }
func (s *memoryStream) SetHeader(metadata.MD) error  { return nil }
func (s *memoryStream) SendHeader(metadata.MD) error { return nil }
func (s *memoryStream) SetTrailer(metadata.MD)       {}
func (s *memoryStream) RecvMsg(v any) error {
	if len(s.in) == 0 {
		return io.EOF
	}
	b := s.in[0]
	s.in = s.in[1:]
	if err := s.codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, v); err != nil {
		return status.Error(codes.Internal, "not protobuf") // as gRPC has it
	}
	return nil
}

func (s *memoryStream) SendMsg(v any) error {
	b, err := s.codec.Marshal(v)
	if err != nil {
		return err
	}
	m := &pb.StreamFramesResponse{}
	if err := proto.Unmarshal(b.Materialize(), m); err != nil {
		return err
	}
	s.out = append(s.out, m)
	return nil
}

// FuzzStreamFrames takes three messages through a stream.
func FuzzStreamFrames(f *testing.F) {
	message := func(m *pb.StreamFramesRequest) []byte {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	for _, m := range fuzzSeeds(f) {
		open := message(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Open{Open: m.Inspection}})
		frame := message(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Frame{Frame: m.Frame}})
		f.Add(open, frame, frame)
		f.Add(open, frame, open)
		f.Add(frame, open, []byte{})
	}
	s := start(f, fuzzConfig)
	srv := s.inspector
	interceptors := s.streamInterceptors()
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		stream := &memoryStream{ctx: ctx, codec: s.codec, in: [][]byte{a, b, c}}
		next := func(_ any, ss grpc.ServerStream) error { return srv.HandleStreamFrames(ss) }
		for k := len(interceptors) - 1; k >= 0; k-- {
			inner, ic := next, interceptors[k]
			next = func(srv any, ss grpc.ServerStream) error {
				return ic(srv, ss, &grpc.StreamServerInfo{FullMethod: pb.InspectionService_StreamFrames_FullMethodName},
					inner)
			}
		}
		if err := next(srv, stream); err != nil && status.Convert(err).Message() != "not protobuf" {
			wantCanonical(t, err)
		}
		for i, m := range stream.out {
			if m.Sequence != uint64(i) {
				t.Errorf("answer %d has sequence %d", i, m.Sequence)
			}
			if e := m.GetError(); e != nil {
				wantCanonical(t, status.ErrorProto(e))
			} else if m.GetResult() == nil {
				t.Errorf("answer %d is neither a result nor an error", i)
			}
		}
	})
}

// Thousands of requests that decisions make, and a look at whether they get anywhere.
func TestRandomRequests(t *testing.T) {
	s := start(t, fuzzConfig)
	s.put(t, "board", rect("r", 0, 0, 1, 1))
	srv, codec, interceptor := s.inspector, s.codec,
		chain(s.unaryInterceptors())
	n := 20_000
	if testing.Short() {
		n = 2000
	}
	outcomes := map[string]int{}
	rng := seed.New(t, 1, 42)
	for range n {
		d := decisions(bytesOf(rng, 100+rng.IntN(1500)))
		wire, err := proto.Marshal(d.request())
		if err != nil {
			t.Fatal(err)
		}
		res, err := handlerOf(inspect.Desc(), "Reduce")(srv, t.Context(), func(v any) error {
			return codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(wire)}, v)
		}, interceptor)
		if err != nil {
			wantCanonical(t, err)
			field := ""
			if d := detailsOf(t, err); d.bad != nil {
				field = d.bad.FieldViolations[0].Field
			}
			outcomes[strings.Trim(regexp.MustCompile(`[0-9]+`).ReplaceAllString(field, "i")+" "+
				status.Code(err).String(), " ")]++
			continue
		}
		outcomes["OK"]++
		out, err := codec.Marshal(res)
		if err != nil {
			t.Fatal(err)
		}
		out.Free()
	}
	t.Log(outcomes)
	if outcomes["OK"] < n/50 || len(outcomes) < 15 {
		t.Errorf("of %d requests %d came to a result, in %d different outcomes: %v", n, outcomes["OK"], len(outcomes),
			outcomes)
	}
	if used := s.taken(); used != s.inspector.Prepared.Stats().Bytes && used > 1<<20 {
		t.Errorf("%v", s.dev.Memory())
	}
}
