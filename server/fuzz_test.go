package server

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
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
	MemoryBytes: 64 << 20, MaxFramePixels: 1 << 18, MaxMessageBytes: 1 << 20,
	Bounds: polygon.Bounds{MaxRegions: 100, MaxVertices: 10_000, MaxRegionVertices: 1000},
}

// fuzzSeeds are requests of all kinds.
func fuzzSeeds(t testing.TB) []*pb.ReduceRequest {
	all := pictures(9, 5)
	full := inspect(rect("a", 1, 1, 4, 4, "mean in [0, 200]", "p99 < 250"), star("s", 12, 4, 4, 3))
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
		{Inspection: inspect(rect("a", 0, 0, 3, 3)), Frame: rawFrame(3, 3, gray8, []byte("012345678"))},
		{Inspection: full, Frame: rawFrame(3, 2, rgb8, []byte("012345678012345678"))},
		{Inspection: full, Frame: gray16Frame},
		{Inspection: full, Frame: fileFrame(encodePicture(t, "png", all["nrgba"]))},
		{Inspection: full, Frame: fileFrame(encodePicture(t, "jpeg", all["opaque"]))},
		{Inspection: full, Frame: fileFrame(encodePicture(t, "bmp", all["gray"]))},
		{Inspection: &pb.Inspection{Regions: &pb.Inspection_Recipe{Recipe: &pb.RecipeRef{Name: "board"}}}, Frame: rawFrame(1, 1, gray8, []byte("0"))},
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

// FuzzReduceRequest takes bytes through codec, interceptors and handler, as the transport would.
func FuzzReduceRequest(f *testing.F) {
	for _, m := range fuzzSeeds(f) {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, uint16(0))
		f.Add(b, uint16(5))
	}
	s := start(f, fuzzConfig)
	if _, err := s.recipe.PutRecipe(f.Context(), &pb.PutRecipeRequest{Recipe: &pb.Recipe{Name: "board", RegionSet: inspect(rect("r", 0, 0, 1, 1)).GetRegionSet()}}); err != nil {
		f.Fatal(err)
	}
	srv, codec, interceptor := &inspectionServer{Server: s.Server}, newServerCodec(s.Server), chain(s.unaryInterceptors())
	f.Fuzz(func(t *testing.T, wire []byte, cut uint16) {
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
		res, err := handleReduce(srv, ctx, dec, interceptor)
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
		if m := s.dev.Memory(); m.Used != s.prepared.stats().bytes && m.Used > s.prepared.stats().bytes+1<<20 {
			t.Errorf("memory of the device in use: %v", m)
		}
	})
}

// memoryStream is a stream whose messages are bytes.
type memoryStream struct {
	grpc.ServerStream
	ctx   context.Context
	codec serverCodec
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
	srv := &inspectionServer{Server: s.Server}
	interceptors := s.streamInterceptors()
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		stream := &memoryStream{ctx: ctx, codec: newServerCodec(s.Server), in: [][]byte{a, b, c}}
		next := func(_ any, ss grpc.ServerStream) error { return srv.streamFrames(ss) }
		for k := len(interceptors) - 1; k >= 0; k-- {
			inner, ic := next, interceptors[k]
			next = func(srv any, ss grpc.ServerStream) error {
				return ic(srv, ss, &grpc.StreamServerInfo{FullMethod: pb.InspectionService_StreamFrames_FullMethodName}, inner)
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
