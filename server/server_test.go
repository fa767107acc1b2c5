package server

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// logBuffer is a log that tests read.
type logBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logBuffer) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// testServer is a server with a client over an in-memory connection.
type testServer struct {
	*Server
	conn       *grpc.ClientConn
	inspection pb.InspectionServiceClient
	recipe     pb.RecipeServiceClient
	device     pb.DeviceServiceClient
	logs       *logBuffer

	dial  func() (net.Conn, error)
	serve chan error
}

// taken is the memory of the device in use, without set-ups that wait for constraints that come again.
func (ts *testServer) taken() int64 {
	dev := ts.dev.Current()
	return dev.Memory().Used - dev.Memos().Bytes
}

// start starts a server, which the test's end shuts down.
func start(t testing.TB, cfg Config, opts ...grpc.DialOption) *testServer {
	t.Helper()
	log := &logBuffer{}
	if cfg.Logger == nil {
		cfg.Logger = log.logger()
	}
	if cfg.MemoryBytes == 0 {
		cfg.MemoryBytes = 256 << 20
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l := bufconn.Listen(1 << 20)
	ts := &testServer{Server: s, logs: log, serve: make(chan error, 1)}
	ts.dial = func() (net.Conn, error) { return l.Dial() }
	go func() { ts.serve <- s.Serve(l) }()
	ts.conn = ts.connect(t, opts...)
	ts.inspection = pb.NewInspectionServiceClient(ts.conn)
	ts.recipe = pb.NewRecipeServiceClient(ts.conn)
	ts.device = pb.NewDeviceServiceClient(ts.conn)
	t.Cleanup(func() {
		ts.conn.Close()
		ts.stop(t)
	})
	return ts
}

// connect makes another connection.
func (ts *testServer) connect(t testing.TB, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///test", append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return ts.dial() }),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30), grpc.MaxCallSendMsgSize(1<<30)),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// patience is how long tests wait for what must come: long, for machines with other work.
const patience = 30 * time.Second

// stop shuts the server down, and fails the test where that takes long or leaves something behind.
func (ts *testServer) stop(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := ts.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	select {
	case err := <-ts.serve:
		if err != nil {
			t.Errorf("Serve: %v", err)
		}
		ts.serve <- nil
	case <-time.After(patience):
		t.Error("Serve did not return")
	}
}

// frameCodec makes a client send frames without copying.
func frameCodec() grpc.DialOption {
	return grpc.WithDefaultCallOptions(grpc.ForceCodecV2(framecodec.Codec()))
}

// rawFrame is a frame of raw pixels.
func rawFrame(width, height int, format pb.PixelFormat, data []byte) *pb.Frame {
	return &pb.Frame{
		Layout: &pb.FrameLayout{Width: uint32(width), Height: uint32(height), PixelFormat: format},
		Source: &pb.Frame_Data{Data: data},
	}
}

// fileFrame is an image file.
func fileFrame(data []byte) *pb.Frame {
	return &pb.Frame{Encoding: pb.Encoding_ENCODING_AUTO, Source: &pb.Frame_Data{Data: data}}
}

// rect is a region of whole pixels.
func rect(name string, x0, y0, x1, y1 float64, limits ...string) *pb.Region {
	return &pb.Region{Name: name, Rings: []*pb.Ring{{Xy: []float64{x0, y0, x1, y0, x1, y1, x0, y1}}}, Limits: limits}
}

func inspecting(regions ...*pb.Region) *pb.Inspection {
	return &pb.Inspection{Regions: &pb.Inspection_RegionSet{RegionSet: &pb.RegionSet{Regions: regions}}}
}

const gray8 = pb.PixelFormat_PIXEL_FORMAT_GRAY8

// details are what a status says beside its code and message.
type details struct {
	status *status.Status
	bad    *errdetails.BadRequest
	quota  *errdetails.QuotaFailure
	retry  *errdetails.RetryInfo
	info   *errdetails.ErrorInfo
	res    *errdetails.ResourceInfo
}

func detailsOf(t testing.TB, err error) details {
	t.Helper()
	s, ok := status.FromError(err)
	if !ok {
		t.Fatalf("%v (%T) is no status", err, err)
	}
	d := details{status: s}
	for _, x := range s.Details() {
		switch x := x.(type) {
		case *errdetails.BadRequest:
			d.bad = x
		case *errdetails.QuotaFailure:
			d.quota = x
		case *errdetails.RetryInfo:
			d.retry = x
		case *errdetails.ErrorInfo:
			d.info = x
		case *errdetails.ResourceInfo:
			d.res = x
		default:
			t.Errorf("%v: detail %T", err, x)
		}
	}
	return d
}

// wantRefused checks that err refuses a field, says the words in one line, and has all details.
func wantRefused(t testing.TB, err error, field string, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %s refused", field)
		return
	}
	d := detailsOf(t, err)
	if c := d.status.Code(); c != codes.InvalidArgument {
		t.Errorf("%v: code %v, want InvalidArgument", err, c)
		return
	}
	if d.info == nil || d.info.Reason != apierr.ReasonInvalidField || d.info.Domain != "polyscan" {
		t.Errorf("%v: ErrorInfo %v", err, d.info)
	}
	if d.bad == nil {
		t.Errorf("%v: no BadRequest", err)
		return
	}
	msg := d.status.Message()
	if strings.Contains(msg, "\n") {
		t.Errorf("%q has more than one line", msg)
	}
	for _, w := range append([]string{d.bad.FieldViolations[0].Field}, words...) {
		if !strings.Contains(msg, w) {
			t.Errorf("%q lacks %q", msg, w)
		}
	}
	for _, v := range d.bad.FieldViolations {
		if v.Description == "" {
			t.Errorf("%v: %s without a description", err, v.Field)
		}
		if v.Field == field {
			return
		}
	}
	t.Errorf("%v: fields %v, want %s", err, d.bad.FieldViolations, field)
}

// The first call: a picture of nine pixels.
func TestReduceSmallest(t *testing.T) {
	s := start(t, Config{})
	res, err := s.inspection.Reduce(t.Context(), &pb.ReduceRequest{
		Inspection: inspecting(rect("all", 0, 0, 3, 3), rect("none", 5, 5, 6, 6),
			rect("low", 0, 2, 3, 3, "mean in [7, 8]")),
		Frame: rawFrame(3, 3, gray8, []byte{0, 1, 2, 3, 4, 5, 6, 7, 8}),
	})
	if err != nil {
		t.Fatal(err)
	}
	r := res.Result.Regions
	if c := r[0].Channels[0]; r[0].Count != 9 || c.GetSum() != 36 || c.GetMean() != 4 || c.GetMax() != 8 ||
		c.MaxAt.X != 2 || c.MaxAt.Y != 2 {
		t.Errorf("all: %v", r[0])
	}
	if c := r[1].Channels[0]; r[1].Count != 0 || c.Mean != nil || c.GetSum() != 0 || c.Sum == nil {
		t.Errorf("none: %v", r[1])
	}
	if res.Result.Verdict != pb.Verdict_VERDICT_PASS || r[2].Limits[0].GetValue() != 7 {
		t.Errorf("low: %v, verdict %v", r[2], res.Result.Verdict)
	}
	if res.Result.Backend != s.dev.Info().Backend || res.Result.Layout.Stride != 3 {
		t.Errorf("%v", res.Result)
	}
}

func TestStreamSmallest(t *testing.T) {
	s := start(t, Config{}, frameCodec())
	stream, err := s.inspection.StreamFrames(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Open{Open: inspecting(rect("all", 0, 0,
		3, 3))}}); err != nil {
		t.Fatal(err)
	}
	go func() {
		for i := range 20 {
			f := rawFrame(3, 3, gray8, []byte{byte(i), 0, 0, 0, 0, 0, 0, 0, 0})
			if i == 7 {
				f.Layout.Width = 4
			}
			if err := stream.Send(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Frame{Frame: f}}); err != nil {
				t.Error(err)
			}
		}
		if err := stream.CloseSend(); err != nil {
			t.Error(err)
		}
	}()
	for i := range 20 {
		res, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if res.Sequence != uint64(i) {
			t.Errorf("answer %d has sequence %d", i, res.Sequence)
		}
		if i == 7 {
			wantRefused(t, status.ErrorProto(res.GetError()), "frame.data", "9 bytes")
		} else if sum := res.GetResult().GetRegions()[0].Channels[0].GetSum(); sum != uint64(i) {
			t.Errorf("answer %d: sum %d", i, sum)
		}
	}
	if _, err := stream.Recv(); err != io.EOF {
		t.Errorf("after the last answer: %v", err)
	}
}

// whole is the message that a client gets of a response, which gives back what it holds.
func whole[M any, P interface {
	*M
	proto.Message
}](res *wire.Response, err error) (P, error) {
	if err != nil {
		return nil, err
	}
	defer res.Release()
	b, err := framecodec.Codec().Marshal(res.Message)
	if err != nil {
		return nil, err
	}
	m := P(new(M))
	return m, proto.Unmarshal(b.Materialize(), m)
}

// nudge wakes the reader of a channel that has room for one.
func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
