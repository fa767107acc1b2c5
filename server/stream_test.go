package server

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
)

// testStream is a StreamFrames call.
type testStream struct {
	pb.InspectionService_StreamFramesClient
	t      testing.TB
	cancel context.CancelFunc
}

// open starts a call and sends its open message.
func (ts *testServer) open(t testing.TB, in *pb.Inspection) *testStream {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	stream, err := ts.inspection.StreamFrames(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s := &testStream{stream, t, cancel}
	if in != nil {
		s.request(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Open{Open: in}})
	}
	return s
}

func (s *testStream) request(r *pb.StreamFramesRequest) {
	s.t.Helper()
	if err := s.Send(r); err != nil && !errors.Is(err, io.EOF) { // EOF: Recv has the error
		s.t.Fatal(err)
	}
}

func (s *testStream) send(f *pb.Frame) {
	s.t.Helper()
	s.request(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Frame{Frame: f}})
}

func (s *testStream) recv() *pb.StreamFramesResponse {
	s.t.Helper()
	r, err := s.Recv()
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// end closes the sending side and expects the end: io.EOF, or a status that check looks at.
func (s *testStream) end(check func(details)) {
	s.t.Helper()
	if err := s.CloseSend(); err != nil {
		s.t.Fatal(err)
	}
	_, err := s.Recv()
	switch {
	case check == nil && err != io.EOF:
		s.t.Errorf("end: %v", err)
	case check != nil && err == io.EOF:
		s.t.Error("the stream ended well")
	case check != nil:
		check(detailsOf(s.t, err))
	}
}

func smallFrame(v byte) *pb.Frame { return rawFrame(2, 1, gray8, []byte{v, v}) }

func TestStreamProtocol(t *testing.T) {
	s := start(t, Config{})
	wantCode := func(code codes.Code, reason string, words ...string) func(details) {
		return func(d details) {
			t.Helper()
			if d.status.Code() != code || d.info == nil || d.info.Reason != reason {
				t.Errorf("%v, want %v for %s", d.status, code, reason)
			}
			for _, w := range words {
				if !strings.Contains(d.status.Message(), w) {
					t.Errorf("%q lacks %q", d.status.Message(), w)
				}
			}
		}
	}
	in := inspecting(rect("r", 0, 0, 2, 1))
	t.Run("no frames", func(t *testing.T) { s.open(t, in).end(nil) })
	t.Run("nothing", func(t *testing.T) {
		s.open(t, nil).end(wantCode(codes.FailedPrecondition, apierr.ReasonFrameOutOfOrder, "open"))
	})
	t.Run("frame first", func(t *testing.T) {
		st := s.open(t, nil)
		st.send(smallFrame(1))
		st.end(wantCode(codes.FailedPrecondition, apierr.ReasonFrameOutOfOrder, "before open"))
	})
	t.Run("second open", func(t *testing.T) {
		st := s.open(t, in)
		st.send(smallFrame(1))
		st.request(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Open{Open: in}})
		if r := st.recv(); r.GetResult() == nil { // what came before is answered
			t.Errorf("%v", r)
		}
		st.end(wantCode(codes.FailedPrecondition, apierr.ReasonSecondOpen))
	})
	t.Run("empty message first", func(t *testing.T) {
		st := s.open(t, nil)
		st.request(&pb.StreamFramesRequest{})
		st.end(func(d details) { wantRefused(t, d.status.Err(), "message") })
	})
	t.Run("empty message later", func(t *testing.T) {
		st := s.open(t, in)
		st.request(&pb.StreamFramesRequest{})
		st.end(func(d details) { wantRefused(t, d.status.Err(), "message") })
	})
	t.Run("bad open", func(t *testing.T) {
		s.open(t, inspecting(&pb.Region{Rings: []*pb.Ring{{Xy: []float64{1, 2, 3, 4}}}})).end(func(d details) {
			wantRefused(t, d.status.Err(), "open.region_set.regions[0].rings[0]", "2 vertices")
		})
	})
	t.Run("open that breaks a rule", func(t *testing.T) {
		bad := inspecting(rect("r", 0, 0, 2, 1))
		bad.Method = 99
		s.open(t, bad).end(func(d details) { wantRefused(t, d.status.Err(), "open.method", "99") })
	})
	t.Run("unknown recipe", func(t *testing.T) {
		s.open(t, &pb.Inspection{Regions: &pb.Inspection_Recipe{Recipe: &pb.RecipeRef{Name: "none",
			Version: 3}}}).end(func(d details) {
			if d.status.Code() != codes.NotFound || d.res.GetResourceName() != "none@3" {
				t.Errorf("%v", d.status)
			}
		})
	})
	t.Run("frame that breaks a rule", func(t *testing.T) {
		st := s.open(t, in)
		bad := smallFrame(1)
		bad.FrameId = strings.Repeat("x", 300)
		st.send(bad)
		st.send(smallFrame(2))
		wantRefused(t, status.ErrorProto(st.recv().GetError()), "frame.frame_id", "256")
		if r := st.recv(); r.GetResult().GetRegions()[0].GetChannels()[0].GetSum() != 4 {
			t.Errorf("%v", r)
		}
		st.end(nil)
	})
	t.Run("limit on a channel that one frame lacks", func(t *testing.T) {
		st := s.open(t, inspecting(rect("r", 0, 0, 1, 1, "b.mean < 3")))
		st.send(smallFrame(1))
		st.send(rawFrame(1, 1, rgb8, []byte{9, 9, 2}))
		wantRefused(t, status.ErrorProto(st.recv().GetError()), "open.region_set.regions[0].limits[0]", "blue")
		if r := st.recv(); r.GetResult().GetVerdict() != pb.Verdict_VERDICT_PASS {
			t.Errorf("%v", r)
		}
		st.end(nil)
	})
	t.Run("message too large", func(t *testing.T) {
		s := start(t, Config{MaxMessageBytes: 64 << 10})
		st := s.open(t, in)
		st.send(rawFrame(100_000, 1, gray8, make([]byte, 100_000)))
		_, err := st.Recv()
		if status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%v", err)
		}
	})
	if n := s.inspector.Prepared.Stats(); n.Entries != 0 || n.Bytes != 0 {
		t.Errorf("regions of streams are still prepared: %+v", n)
	}
}

// Frames of several sizes in turn: the regions are prepared once for each.
func TestStreamSizes(t *testing.T) {
	s := start(t, Config{}, frameCodec())
	st := s.open(t, inspecting(rect("r", 0, 0, 100, 100)))
	const n = 30
	for i := range n {
		w := 10 + i%3
		st.send(rawFrame(w, 5, gray8, make([]byte, w*5)))
		if r := st.recv(); r.GetResult().GetRegions()[0].GetCount() != uint64(w*5) {
			t.Errorf("frame %d: %v", i, r)
		}
	}
	if p := s.inspector.Prepared.Stats(); p.Misses != 3 || p.Hits != n-3 || p.Entries != 3 {
		t.Errorf("%+v", p)
	}
	st.end(nil)
	waitFor(t, "the prepared regions to go", func() bool { return s.dev.Memory().Used == 0 })
}

// Answers come in the order of frames, whichever is done first.
func TestStreamOrder(t *testing.T) {
	h := newHooked()
	s := start(t, Config{Driver: h})
	var n atomic.Int32
	second := make(chan struct{})
	h.set(func() error {
		switch n.Add(1) {
		case 1:
			<-second
			time.Sleep(20 * time.Millisecond)
		case 2:
			close(second)
		}
		return nil
	})
	st := s.open(t, inspecting(rect("r", 0, 0, 2, 1)))
	for i := range 3 {
		st.send(smallFrame(byte(i)))
	}
	for i := range 3 {
		if r := st.recv(); r.Sequence != uint64(i) ||
			r.GetResult().GetRegions()[0].GetChannels()[0].GetSum() != uint64(2*i) {
			t.Errorf("answer %d: %v", i, r)
		}
	}
	st.end(nil)
}

// Clients that never read are stopped by flow control, and the server holds a few frames of each.
func TestStreamBackPressure(t *testing.T) {
	s := start(t, Config{}, frameCodec())
	const streams, frameBytes, window = 64, 1 << 20, 3
	n := streams
	if testing.Short() {
		n = 16
	}
	// Answers that fill the transport: 256 regions with histograms take a megabyte or so.
	in := inspecting()
	for range 256 {
		in.GetRegionSet().Regions = append(in.GetRegionSet().Regions, rect("r", 0, 0, 1, 1))
	}
	in.Reductions = &pb.Reductions{Statistics: []pb.Statistic{pb.Statistic_STATISTIC_HISTOGRAM}}
	data := make([]byte, frameBytes)
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	var sent atomic.Int64
	for range n {
		conn := s.connectCleanly(t, frameCodec())
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		stream, err := pb.NewInspectionServiceClient(conn).StreamFrames(ctx)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if stream.Send(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Open{Open: in}}) != nil {
				return
			}
			f := framecodec.New(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Frame{Frame: rawFrame(1024,
				frameBytes/1024, gray8, data)}})
			for stream.SendMsg(f) == nil {
				sent.Add(1)
			}
		}()
	}
	// Until nothing moves any more.
	last := int64(-1)
	for stable := 0; stable < 5; {
		time.Sleep(100 * time.Millisecond)
		if now := sent.Load(); now == last {
			stable++
		} else {
			last, stable = now, 0
		}
	}
	runtime.GC()
	var after runtime.MemStats
	runtime.ReadMemStats(&after)
	held := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d streams: %d frames sent, %d MiB held by clients and server", n, last, held>>20)
	// For each stream: the frames that the server holds, their answers, what is in flight (bufconn's buffer of 1 MiB
	// both ways, windows), and as much again for the client's side.
	if limit := int64(n) * (window + 5) * frameBytes * 2; held > limit {
		t.Errorf("%d bytes held, want at most %d", held, limit)
	}
	if last > int64(n)*40 {
		t.Errorf("%d frames of %d streams were taken although nobody reads the answers", last, n)
	}
}

// A client that goes away in the middle leaves nothing behind; goleak looks for the rest.
func TestStreamCancel(t *testing.T) {
	s := start(t, Config{}, frameCodec())
	for i := range 20 {
		st := s.open(t, inspecting(rect("r", 0, 0, 500, 500)))
		for range i % 5 {
			st.send(rawFrame(500, 500, gray8, make([]byte, 250_000)))
		}
		if i%2 == 0 && i%5 > 0 {
			st.recv()
		}
		st.cancel()
	}
	waitFor(t, "the streams to end", func() bool {
		return metric(t, s, "polyscan_requests_in_flight") == 0 &&
			metric(t, s, "polyscan_stream_frames_in_work") == 0 && s.dev.Memory().Used == 0
	})
}

// A client that goes away while a frame is being computed.
func TestStreamCancelInWork(t *testing.T) {
	h := newHooked()
	s := start(t, Config{Driver: h})
	entered, leave := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	h.set(func() error {
		if once.CompareAndSwap(false, true) {
			close(entered)
		}
		<-leave
		return nil
	})
	st := s.open(t, inspecting(rect("r", 0, 0, 2, 1)))
	st.send(smallFrame(1))
	st.send(smallFrame(2))
	<-entered
	st.cancel()
	if _, err := st.Recv(); status.Code(err) != codes.Canceled {
		t.Errorf("%v", err)
	}
	close(leave)
	waitFor(t, "the stream to end", func() bool {
		return metric(t, s, "polyscan_requests_in_flight") == 0 && s.dev.Memory().Used == 0
	})
}

func TestStreamRecipe(t *testing.T) {
	s := start(t, Config{})
	s.put(t, "strip", rect("r", 0, 0, 2, 1, "mean < 5"))
	st := s.open(t, &pb.Inspection{Regions: &pb.Inspection_Recipe{Recipe: &pb.RecipeRef{Name: "strip"}}})
	st.send(smallFrame(4))
	if r := st.recv(); r.GetResult().GetVerdict() != pb.Verdict_VERDICT_PASS {
		t.Errorf("%v", r)
	}
	// A stream keeps the recipe that it was opened with.
	s.put(t, "strip", rect("r", 0, 0, 2, 1, "mean < 1"))
	if _, err := s.recipe.DeleteRecipe(t.Context(),
		&pb.DeleteRecipeRequest{Recipe: &pb.RecipeRef{Name: "strip"}}); err != nil {
		t.Fatal(err)
	}
	st.send(smallFrame(4))
	if r := st.recv(); r.GetResult().GetVerdict() != pb.Verdict_VERDICT_PASS {
		t.Errorf("%v", r)
	}
	st.end(nil)
}

// A client that always has another frame doesn't keep the server from ending: what has come is answered, and no more is
// taken.
func TestShutdownEndsEndlessStream(t *testing.T) {
	h := newHooked()
	s := start(t, Config{Driver: h, StreamDepth: 8, Streams: 1})
	st := s.open(t, inspecting(rect("r", 0, 0, 2, 1)))
	entered, leave := make(chan struct{}, 1<<10), make(chan struct{})
	h.set(func() error {
		entered <- struct{}{}
		<-leave
		time.Sleep(time.Millisecond) // so that the next frame is there when this one is done
		return nil
	})
	var sending sync.WaitGroup
	defer sending.Wait()
	defer st.cancel()
	sending.Go(func() {
		for st.Send(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Frame{Frame: smallFrame(1)}}) == nil {
		}
	})
	<-entered
	shutdown := make(chan error, 1)
	go func() { shutdown <- s.Shutdown(context.Background()) }()
	<-s.draining
	close(leave)
	answers := 0
	for {
		r, err := st.Recv()
		if err != nil {
			if status.Code(err) != codes.Unavailable {
				t.Errorf("the end: %v", err)
			}
			break
		}
		if answers++; r.GetResult() == nil || answers > 100 {
			t.Fatalf("answer %d: %v", answers, r)
		}
	}
	if answers < 1 || answers > 10 { // as many as the server holds, and those that were just coming
		t.Errorf("%d answers after the shutdown began", answers)
	}
	if err := <-shutdown; err != nil {
		t.Error(err)
	}
}
