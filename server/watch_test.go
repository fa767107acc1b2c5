package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	_ "image/jpeg"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// watcher is a Watch call whose first message has come.
type watcher struct {
	pb.MonitorService_WatchClient
	t       testing.TB
	started *pb.WatchStarted
	seen    uint64 // sequence of the last message
	cancel  context.CancelFunc
}

func watchOver(t testing.TB, conn grpc.ClientConnInterface, req *pb.WatchRequest) *watcher {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel)
	call, err := pb.NewMonitorServiceClient(conn).Watch(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{MonitorService_WatchClient: call, t: t, cancel: cancel}
	if w.started = w.next().GetStarted(); w.started == nil {
		t.Fatal("the first message is not started")
	}
	return w
}

func (ts *testServer) watch(t testing.TB, req *pb.WatchRequest) *watcher {
	t.Helper()
	return watchOver(t, ts.conn, req)
}

func (w *watcher) next() *pb.WatchResponse {
	w.t.Helper()
	m, err := w.Recv()
	if err != nil {
		w.t.Fatal(err)
	}
	w.seen = m.GetSequence()
	return m
}

// event is the next message that is no heartbeat.
func (w *watcher) event() *pb.WatchResponse {
	w.t.Helper()
	for {
		if m := w.next(); m.GetHeartbeat() == nil {
			return m
		}
	}
}

func (w *watcher) verdict() *pb.WatchVerdict {
	w.t.Helper()
	for {
		if v := w.event().GetVerdict(); v != nil {
			return v
		}
	}
}

func named(in *pb.Inspection, name string) *pb.Inspection {
	in.Name = name
	return in
}

// Watchers see calls, streams and line-scan parts with the names and ids that these carry, and the numbers they asked
// for.
func TestWatch(t *testing.T) {
	s := start(t, Config{})
	w := s.watch(t, &pb.WatchRequest{Numbers: pb.RegionNumbers_REGION_NUMBERS_FAILED})
	if st := w.started; !st.GetDevice().GetAvailable() || st.GetDevice().GetBackend() != "cpu" || st.GetServerId() == "" ||
		len(st.GetStreams()) != 0 || st.GetHeartbeat().AsDuration() != time.Second {
		t.Errorf("started: %v", st)
	}
	dark, bright := bytes.Repeat([]byte{10}, 64), bytes.Repeat([]byte{200}, 64)
	in := named(inspecting(rect("pad", 0, 0, 4, 4, "mean < 100"), rect("all", 0, 0, 8, 8)), "station 7")
	frame := rawFrame(8, 8, gray8, bright)
	frame.PartId, frame.FrameId = "B-2041-17", "f1"

	res, err := pb.NewInspectionServiceClient(s.conn).Reduce(t.Context(), &pb.ReduceRequest{Inspection: in, Frame: frame})
	if err != nil {
		t.Fatal(err)
	}
	if id := res.GetResult().GetPartId(); id != "B-2041-17" {
		t.Errorf("part %q", id)
	}
	v := w.verdict()
	if v.GetName() != "station 7" || v.GetPartId() != "B-2041-17" || v.GetFrameId() != "f1" || v.GetStreamId() != 0 ||
		v.GetMethod() != pb.StreamMethod_STREAM_METHOD_REDUCE || v.GetVerdict() != pb.Verdict_VERDICT_FAIL ||
		v.GetRegions() != 2 || v.GetFailedRegions() != 1 || len(v.GetResults()) != 1 || v.GetBackend() != "cpu" ||
		v.GetLatency().AsDuration() <= 0 {
		t.Errorf("%v", v)
	}
	if !proto.Equal(v.GetResults()[0], res.GetResult().GetRegions()[0]) {
		t.Errorf("%v\nwatched, and the caller got\n%v", v.GetResults()[0], res.GetResult().GetRegions()[0])
	}

	// A frame that can't be used is an event as well.
	frame.Layout.Width = 9
	if _, err := pb.NewInspectionServiceClient(s.conn).Reduce(t.Context(),
		&pb.ReduceRequest{Inspection: in, Frame: frame}); err == nil {
		t.Error("9 x 8 pixels in 64 bytes")
	}
	if v := w.verdict(); v.GetError().GetCode() != int32(codes.InvalidArgument) || v.GetVerdict() != 0 {
		t.Errorf("%v", v)
	}

	waitFor(t, "the log of the call", func() bool {
		return strings.Contains(s.logs.String(), `name="station 7"`) && strings.Contains(s.logs.String(), "part=B-2041-17")
	})

	// A stream of frames.
	if _, err := pb.NewRecipeServiceClient(s.conn).PutRecipe(t.Context(), &pb.PutRecipeRequest{Recipe: &pb.Recipe{
		Name: "board", RegionSet: in.GetRegionSet()}}); err != nil {
		t.Fatal(err)
	}
	if r := w.event().GetRecipe(); r.GetName() != "board" || r.GetVersion() != 1 || r.GetDeleted() {
		t.Errorf("%v", r)
	}
	stream, err := pb.NewInspectionServiceClient(s.conn).StreamFrames(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	recipe := named(&pb.Inspection{Regions: &pb.Inspection_Recipe{Recipe: &pb.RecipeRef{Name: "board"}}}, "camera-3")
	send := func(m *pb.StreamFramesRequest) {
		if err := stream.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	send(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Open{Open: recipe}})
	o := w.event().GetOpened()
	if o.GetStreamId() == 0 || o.GetName() != "camera-3" || o.GetRecipe() != "board" || o.GetRecipeVersion() != 1 ||
		o.GetRegions() != 2 || o.GetMethod() != pb.StreamMethod_STREAM_METHOD_STREAM_FRAMES {
		t.Errorf("%v", o)
	}
	late := s.watch(t, &pb.WatchRequest{Names: []string{"camera-*"},
		Kinds: []pb.WatchKind{pb.WatchKind_WATCH_KIND_VERDICT}})
	if st := late.started; len(st.GetStreams()) != 1 || st.GetStreams()[0].GetStreamId() != o.GetStreamId() ||
		len(st.GetRecipes()) != 1 || st.GetRecipes()[0].GetName() != "board" {
		t.Errorf("%v", st)
	}
	for i, data := range [][]byte{dark, bright, dark[:63]} {
		f := rawFrame(8, 8, gray8, data)
		f.PartId = fmt.Sprintf("P%d", i)
		send(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Frame{Frame: f}})
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	byNumber := map[uint64]*pb.WatchVerdict{}
	for range 3 { // in any order: each comes as soon as it is ready
		v := w.verdict()
		byNumber[v.GetResultNumber()] = v
		late.verdict()
	}
	for i, want := range []pb.Verdict{pb.Verdict_VERDICT_PASS, pb.Verdict_VERDICT_FAIL, 0} {
		v := byNumber[uint64(i)]
		if v.GetVerdict() != want || v.GetPartId() != fmt.Sprintf("P%d", i) || v.GetStreamId() != o.GetStreamId() ||
			v.GetRecipe() != "board" || (v.GetError() != nil) != (i == 2) {
			t.Errorf("frame %d: %v", i, v)
		}
	}
	c := w.event().GetClosed()
	if c.GetStreamId() != o.GetStreamId() || c.GetPassed() != 1 || c.GetFailed() != 1 || c.GetErrors() != 1 {
		t.Errorf("%v", c)
	}
	if n := metric(t, s, "polyscan_named_verdicts_total", "name", "camera-3"); n != 3 {
		t.Errorf("%v verdicts of camera-3", n)
	}
}

// Parts of a line-scan session have the ids of their strips, whichever trigger starts them, and gaps are seen.
func TestWatchScan(t *testing.T) {
	for _, trigger := range []string{"every", "marked"} {
		t.Run(trigger, func(t *testing.T) {
			s := start(t, Config{})
			w := s.watch(t, &pb.WatchRequest{Numbers: pb.RegionNumbers_REGION_NUMBERS_ALL})
			b := newBelt(3, 8, 200)
			open := scanOpen(named(inspecting(rect("r", 0, 0, 8, 10, "mean < 255")), "camera-3"), 8, 20, 10, 10)
			if trigger == "marked" {
				open = marked(open)
			}
			call := s.scan(t, open)
			o := w.event().GetOpened()
			if o.GetName() != "camera-3" || o.GetPartLines() != 10 || o.GetLayout().GetWidth() != 8 {
				t.Errorf("%v", o)
			}
			strip := func(n uint64, from int, ids ...string) *pb.Strip {
				x := b.strip(n, from, from+20)
				x.PartIds = ids
				if trigger == "marked" {
					x.PartStarts = []uint64{uint64(from), uint64(from + 10)}
				}
				return x
			}
			call.strip(strip(0, 0, "A", "B"), strip(1, 20), strip(3, 60, "", "H"), strip(4, 80, "I"))
			got := call.finish()
			ids := map[uint64]string{}
			for _, p := range got.parts {
				if p.GetPartId() != "" {
					ids[p.GetFirstLine()] = p.GetPartId()
				}
			}
			if want := map[uint64]string{0: "A", 10: "B", 70: "H"}; fmt.Sprint(ids) != fmt.Sprint(want) {
				t.Errorf("ids %v, want %v", ids, want)
			}
			gap, bad := false, false
			verdicts := 0
			var c *pb.StreamState
			for c == nil {
				m := w.event()
				c = m.GetClosed()
				switch e := m.GetScan(); {
				case m.GetVerdict() != nil:
					v := m.GetVerdict()
					p := got.parts[verdicts]
					verdicts++
					if v.GetPartId() != p.GetPartId() || v.GetResultNumber() != p.GetResultNumber() ||
						v.GetVerdict() != p.GetVerdict() || v.GetPartNumber() != p.GetPartNumber() ||
						v.GetFirstLine() != p.GetFirstLine() || v.GetName() != "camera-3" ||
						v.GetStreamId() != o.GetStreamId() || len(v.GetResults()) != 1 ||
						!proto.Equal(v.GetResults()[0], p.GetRegions()[0]) || !proto.Equal(v.GetCapturedAt(), p.GetCapturedAt()) {
						t.Errorf("watched %v\nand the client got %v", v, p)
					}
				case e.GetScan().GetKind() == pb.ScanEventKind_SCAN_EVENT_KIND_GAP:
					gap = true
				case e.GetScan().GetKind() == pb.ScanEventKind_SCAN_EVENT_KIND_BAD_STRIP:
					bad = strings.Contains(e.GetScan().GetError().GetMessage(), "strip.part_ids = 1: must be 2")
				}
			}
			if verdicts != len(got.parts) || !gap || !bad || c.GetPassed() == 0 || c.GetGaps() == 0 {
				t.Errorf("%d verdicts of %d, gap %v, bad %v, closed %v", verdicts, len(got.parts), gap, bad, c)
			}
		})
	}
}

// A part that starts in lost lines has its name, and one that has to be whole lacks lines that no region needs: the
// client and those who watch are told the same.
func TestWatchScanLost(t *testing.T) {
	s := start(t, Config{})
	w := s.watch(t, &pb.WatchRequest{})
	b := newBelt(3, 8, 200)
	open := scanOpen(inspecting(rect("r", 0, 0, 8, 4, "mean < 255")), 8, 20, 10, 10)
	open.WholeParts, open.Source = true, "a camera"
	call := s.scan(t, open)
	if o := w.event().GetOpened(); o.GetSource() != "a camera" {
		t.Errorf("%v", o)
	}
	first := b.strip(0, 0, 16)
	first.PartIds = []string{"A", "B"}
	second := b.strip(1, 25, 45)
	second.PartIds, second.LostPartIds = []string{"D", "E"}, []string{"", "another B", "C"}
	bad := b.strip(2, 45, 50)
	bad.LostPartIds = make([]string, 6)
	call.strip(first, second, bad)
	got := call.finish()
	want := []struct {
		id      string
		missing uint64
	}{{"A", 0}, {"B", 4}, {"C", 5}, {"D", 0}, {"E", 5}}
	if len(got.parts) != len(want) {
		t.Fatalf("%v", got.parts)
	}
	for i, p := range got.parts {
		v := w.event().GetVerdict()
		for v == nil {
			v = w.event().GetVerdict()
		}
		whole := want[i].missing == 0
		if p.GetPartId() != want[i].id || p.GetMissingLines() != want[i].missing || p.GetIncomplete() == whole ||
			(p.GetVerdict() == pb.Verdict_VERDICT_PASS) != whole || v.GetPartId() != p.GetPartId() ||
			v.GetVerdict() != p.GetVerdict() || v.GetMissingLines() != p.GetMissingLines() {
			t.Errorf("%v, seen as %v; want %+v", p, v, want[i])
		}
	}
	said := fmt.Sprint(got.events)
	if !strings.Contains(said, "strip.lost_part_ids = 6: must be at most 5") {
		t.Errorf("%v", said)
	}
	call = s.scan(t, marked(scanOpen(inspecting(rect("r", 0, 0, 8, 4)), 8, 20, 10, 10)))
	bad = b.strip(0, 5, 10)
	bad.LostPartIds = []string{"A"}
	call.strip(bad)
	if said := fmt.Sprint(call.finish().events); !strings.Contains(said, "strip.lost_part_ids = 1: must be empty") {
		t.Errorf("%v", said)
	}
}

// Every 10 ms at the least a watcher hears of a server that has nothing to say, with the last sequence.
func TestWatchHeartbeat(t *testing.T) {
	s := start(t, Config{})
	w := s.watch(t, &pb.WatchRequest{Heartbeat: durationpb.New(10 * time.Millisecond)})
	for range 3 {
		if m := w.next(); m.GetHeartbeat() == nil || m.GetSequence() != 0 || m.GetNumber() != 0 {
			t.Errorf("%v", m)
		}
	}
	call, err := pb.NewMonitorServiceClient(s.conn).Watch(t.Context(),
		&pb.WatchRequest{Heartbeat: durationpb.New(9 * time.Millisecond)})
	if err == nil {
		_, err = call.Recv()
	}
	wantRefused(t, err, "heartbeat", "9ms", "10ms to 1m0s")
}

// Heartbeats come where others have much to see and this watcher has nothing.
func TestWatchHeartbeatBesideOthers(t *testing.T) {
	s := start(t, Config{})
	all := s.watch(t, &pb.WatchRequest{})
	other := s.watch(t, &pb.WatchRequest{Names: []string{"gate"}, Heartbeat: durationpb.New(500 * time.Millisecond)})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			_, _ = pb.NewInspectionServiceClient(s.conn).Reduce(ctx, &pb.ReduceRequest{
				Inspection: inspecting(rect("r", 0, 0, 8, 8)), Frame: rawFrame(8, 8, gray8, make([]byte, 64))})
		}
	}()
	all.verdict()
	beats := make(chan *pb.WatchResponse)
	go func() { // or the test's time would be over without a word
		m, _ := other.Recv()
		beats <- m
	}()
	select {
	case m := <-beats:
		if m.GetHeartbeat() == nil {
			t.Errorf("%v, want a heartbeat", m)
		}
	case <-time.After(10 * time.Second):
		t.Error("no heartbeat")
	}
}

func TestWatchRefuses(t *testing.T) {
	s := start(t, Config{HostBytes: 1 << 30})
	for field, req := range map[string]*pb.WatchRequest{
		"recipes[0]":         {Recipes: []string{"no recipe"}},
		"kinds[0]":           {Kinds: []pb.WatchKind{0}},
		"preview.rate":       {Preview: &pb.PreviewOptions{Rate: 61}},
		"preview.max_pixels": {Preview: &pb.PreviewOptions{MaxPixels: 1 << 19}},
		"preview":            {Kinds: []pb.WatchKind{pb.WatchKind_WATCH_KIND_PREVIEW}},
		"verdict_rate":       {VerdictRate: -1},
		"resume.server_id":   {Resume: &pb.WatchResume{}},
	} {
		call, err := pb.NewMonitorServiceClient(s.conn).Watch(t.Context(), req)
		if err == nil {
			_, err = call.Recv()
		}
		wantRefused(t, err, field)
	}
	for _, name := range []string{" x", "x ", "a,b", strings.Repeat("x", 65), "-"} {
		_, err := pb.NewInspectionServiceClient(s.conn).Reduce(t.Context(), &pb.ReduceRequest{
			Inspection: named(inspecting(rect("r", 0, 0, 1, 1)), name), Frame: rawFrame(1, 1, gray8, []byte{1})})
		wantRefused(t, err, "inspection.name", "at most 64 letters")
	}
	f := rawFrame(1, 1, gray8, []byte{1})
	f.PartId = "\x00"
	_, err := pb.NewInspectionServiceClient(s.conn).Reduce(t.Context(), &pb.ReduceRequest{
		Inspection: inspecting(rect("r", 0, 0, 1, 1)), Frame: f})
	wantRefused(t, err, "frame.part_id", "at most 128 letters")
}

// Watchers may have a quarter of the host's memory; one more is refused, until another leaves.
func TestWatchersAreBounded(t *testing.T) {
	s := start(t, Config{HostBytes: 64 << 20, MaxMessageBytes: 1 << 20})
	req := &pb.WatchRequest{Numbers: pb.RegionNumbers_REGION_NUMBERS_ALL} // 5 MiB each
	var all []*watcher
	for range 3 {
		all = append(all, s.watch(t, req))
	}
	refused := func() error {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		call, err := pb.NewMonitorServiceClient(s.conn).Watch(ctx, req)
		if err == nil {
			_, err = call.Recv()
		}
		return err
	}
	if err := refused(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("%v", err)
	}
	if n := metric(t, s, "polyscan_watchers"); n != 3 {
		t.Errorf("%v watchers", n)
	}
	all[0].cancel()
	waitFor(t, "a watcher to leave", func() bool { return metric(t, s, "polyscan_watchers") == 2 })
	waitFor(t, "room", func() bool { return refused() == nil })
}

// A watcher that comes back gets what it missed, once, and is told of another server.
func TestWatchResume(t *testing.T) {
	s := start(t, Config{})
	w := s.watch(t, &pb.WatchRequest{})
	reduce := func(id string) {
		f := rawFrame(1, 1, gray8, []byte{1})
		f.PartId = id
		if _, err := pb.NewInspectionServiceClient(s.conn).Reduce(t.Context(), &pb.ReduceRequest{
			Inspection: inspecting(rect("r", 0, 0, 1, 1)), Frame: f}); err != nil {
			t.Fatal(err)
		}
	}
	reduce("1")
	if v := w.verdict(); v.GetPartId() != "1" {
		t.Errorf("%v", v)
	}
	w.cancel()
	waitFor(t, "it to leave", func() bool { return metric(t, s, "polyscan_watchers") == 0 })
	reduce("2")
	reduce("3")
	resume := &pb.WatchResume{ServerId: w.started.GetServerId(), Sequence: w.seen}
	back := s.watch(t, &pb.WatchRequest{Resume: resume})
	reduce("4")
	for _, id := range []string{"2", "3", "4"} {
		if m := back.event(); m.GetVerdict().GetPartId() != id {
			t.Errorf("%v, want part %s", m, id)
		}
	}
	resume.ServerId = "another"
	stranger := s.watch(t, &pb.WatchRequest{Resume: resume})
	if l := stranger.event().GetLost(); !l.GetOtherServer() {
		t.Errorf("%v", l)
	}
}

// While a watcher reads nothing at all calls go on, and when it reads again it is told what it lost.
func TestWatchStuck(t *testing.T) {
	s := start(t, Config{})
	conn := s.connect(t)
	defer conn.Close()
	w := watchOver(t, conn, &pb.WatchRequest{Numbers: pb.RegionNumbers_REGION_NUMBERS_ALL})
	regions := make([]*pb.Region, 300)
	for i := range regions {
		regions[i] = rect(fmt.Sprintf("r%d", i), 0, 0, 8, 8)
	}
	in := inspecting(regions...)
	const n = 300 // some 70 kB each, more than a window and a queue hold
	for range n {
		if _, err := pb.NewInspectionServiceClient(s.conn).Reduce(t.Context(), &pb.ReduceRequest{
			Inspection: in, Frame: rawFrame(8, 8, gray8, make([]byte, 64))}); err != nil {
			t.Fatal(err)
		}
	}
	var came, lost, next uint64
	for came+lost < n {
		m := w.event()
		switch {
		case m.GetVerdict() != nil:
			came++
			if m.GetNumber() < next {
				t.Errorf("number %d after %d", m.GetNumber(), next)
			}
			next = m.GetNumber() + 1
		case m.GetLost() != nil:
			lost += m.GetLost().GetKinds()["verdict"]
		default:
			t.Fatalf("%v", m)
		}
	}
	if lost == 0 || came == 0 || next != n {
		t.Errorf("%d came, %d lost, the last is number %d", came, lost, next-1)
	}
	if got := metric(t, s, "polyscan_watch_lost_total", "kind", "verdict"); got != float64(lost) {
		t.Errorf("%v lost in the metrics, %d told", got, lost)
	}
}

// Previews show the part, and where its regions are.
func TestWatchPreview(t *testing.T) {
	s := start(t, Config{})
	w := s.watch(t, &pb.WatchRequest{Preview: &pb.PreviewOptions{Rate: 60, MaxPixels: 100}})
	b := belt{40, bytes.Repeat([]byte{200}, 40*400)}
	open := scanOpen(named(inspecting(rect("r", 10, 10, 30, 30, "mean < 100")), "camera-3"), 40, 10, 40, 40)
	call := s.scan(t, open)
	for n := range 12 {
		x := b.strip(uint64(n), 10*n, 10*n+10)
		if n%4 == 0 {
			x.PartIds = []string{fmt.Sprintf("P%d", n/4)}
		}
		call.strip(x)
	}
	var p *pb.Preview
	for p == nil {
		p = w.event().GetPreview()
	}
	im, kind, err := image.Decode(bytes.NewReader(p.GetData()))
	if err != nil {
		t.Fatal(err)
	}
	if im.Bounds().Dx() != 10 || im.Bounds().Dy() != 10 || kind != "jpeg" || p.GetScale() != 4 || p.GetPartId() != "P0" ||
		p.GetName() != "camera-3" || p.GetVerdict() != pb.Verdict_VERDICT_FAIL {
		t.Errorf("%v %v: %v", kind, im.Bounds(), p)
	}
	for y := range 10 {
		for x := range 10 {
			if r, _, _, _ := im.At(x, y).RGBA(); r>>8 < 190 || r>>8 > 210 {
				t.Errorf("pixel %d, %d is %d", x, y, r>>8)
			}
		}
	}
	if xy := p.GetPlaces()[0].GetRings()[0].GetXy(); !slices.Equal(xy, []float32{2.5, 2.5, 7.5, 2.5, 7.5, 7.5, 2.5, 7.5}) {
		t.Errorf("at %v", xy)
	}
	call.finish()

	reduce := &pb.ReduceRequest{Inspection: inspecting(rect("r", 0, 0, 1, 1)),
		Frame: rawFrame(40, 40, gray8, b.data[:1600])}
	for p = nil; p.GetStreamId() != 0 || p == nil; {
		if _, err := pb.NewInspectionServiceClient(s.conn).Reduce(t.Context(), reduce); err != nil {
			t.Fatal(err)
		}
		for {
			m := w.event()
			if p = m.GetPreview(); p != nil || m.GetVerdict().GetMethod() == pb.StreamMethod_STREAM_METHOD_REDUCE {
				break
			}
		}
	}
	if p.GetWidth() != 10 || len(p.GetPlaces()) != 1 {
		t.Errorf("%v", p)
	}
}

// A server that shuts down lets watchers see the last verdicts of its streams first.
func TestWatchDrain(t *testing.T) {
	s := start(t, Config{ScanDrainTime: 200 * time.Millisecond})
	w := s.watch(t, &pb.WatchRequest{})
	b := newBelt(3, 8, 200)
	call := s.scan(t, scanOpen(inspecting(rect("r", 0, 0, 8, 10)), 8, 10, 10, 10))
	go func() {
		for n := range 100 {
			if call.Send(&pb.ScanLinesRequest{Message: &pb.ScanLinesRequest_Strip{Strip: b.strip(uint64(n), 0, 10)}}) != nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	w.verdict()
	go s.stop(t)
	draining, closed := false, false
	for {
		m, err := w.Recv()
		if err != nil {
			if status.Code(err) != codes.Unavailable || !draining || !closed {
				t.Errorf("%v; draining %v, stream closed %v", err, draining, closed)
			}
			return
		}
		draining = draining || m.GetScan().GetScan().GetKind() == pb.ScanEventKind_SCAN_EVENT_KIND_DRAINING
		closed = closed || m.GetClosed() != nil
	}
}

// Each part is seen exactly once, with the numbers that its client got, whatever breaks: the connection of the camera,
// and that of the watcher.
func TestWatchUnderFaults(t *testing.T) {
	s := start(t, Config{})
	const strips, breaks = 600, 60
	b := newBelt(5, 8, 10*strips)
	open := scanOpen(named(inspecting(rect("r", 0, 0, 8, 10, "mean < 128")), "camera-3"), 8, 10, 10, 10)

	rng := rand.New(rand.NewPCG(7, 7))
	seen := map[uint64]*pb.WatchVerdict{}
	over := make(chan error, 1)
	go func() {
		over <- func() error {
			var resume *pb.WatchResume
			for closed := false; !closed; {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				call, err := pb.NewMonitorServiceClient(s.conn).Watch(ctx, &pb.WatchRequest{Resume: resume,
					Numbers: pb.RegionNumbers_REGION_NUMBERS_ALL})
				for n := 0; err == nil && !closed && (resume == nil || n < 40); n++ { // then it breaks
					var m *pb.WatchResponse
					if m, err = call.Recv(); err != nil {
						break
					}
					if st := m.GetStarted(); st != nil && resume == nil {
						resume = &pb.WatchResume{ServerId: st.GetServerId()}
					}
					if m.GetLost() != nil {
						err = fmt.Errorf("lost %v", m.GetLost())
						break
					}
					if m.GetPreview() == nil && m.GetStarted() == nil {
						resume.Sequence = m.GetSequence()
					}
					if v := m.GetVerdict(); v != nil {
						if seen[v.GetResultNumber()] != nil {
							err = fmt.Errorf("result %d is seen twice", v.GetResultNumber())
						}
						seen[v.GetResultNumber()] = v
					}
					closed = m.GetClosed() != nil
				}
				cancel()
				if err != nil {
					return err
				}
			}
			return nil
		}()
	}()
	waitFor(t, "the watcher", func() bool { return metric(t, s, "polyscan_watchers") == 1 })

	got := map[uint64]*pb.PartResult{}
	call := s.scan(t, open)
	token := call.opened.GetSessionToken()
	next := uint64(0)
	for sequence := uint64(0); sequence < strips; {
		until := min(sequence+1+uint64(rng.IntN(2*strips/breaks)), strips)
		for ; sequence < until; sequence++ {
			call.strip(b.strip(sequence, int(sequence)*10, int(sequence)*10+10))
		}
		for want := next + uint64(rng.IntN(5)); next < min(want, sequence); {
			m, err := call.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if p := m.GetPart(); p != nil {
				got[p.GetResultNumber()] = p
				next = p.GetResultNumber() + 1
			}
		}
		if sequence < strips {
			call.cancel()
			call = scanOver(t, s.conn).begin(resumeRequest(token, next))
			sequence = call.opened.GetNextSequence()
		}
	}
	for _, p := range call.finish().parts {
		got[p.GetResultNumber()] = p
	}
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	if len(got) != strips || len(seen) != strips {
		t.Fatalf("%d parts, %d came and %d were seen", strips, len(got), len(seen))
	}
	for n, p := range got {
		v := seen[n]
		if v.GetVerdict() != p.GetVerdict() || v.GetFirstLine() != p.GetFirstLine() || v.GetIncomplete() ||
			!proto.Equal(v.GetResults()[0], p.GetRegions()[0]) {
			t.Errorf("seen %v\nand the client got %v", v, p)
		}
	}
}

// The role view may watch. A tenant sees what is its own, and an admin all.
func TestWatchTenants(t *testing.T) {
	file := writeFile(t, filepath.Join(t.TempDir(), "tokens"),
		"r name=line-4 role=run\nv name=line-4 role=view\no name=office role=view\na name=ops role=admin\n")
	s := start(t, Config{TokenFile: file})
	watch := func(token string) pb.MonitorService_WatchClient {
		call, err := pb.NewMonitorServiceClient(s.conn).Watch(bearer(t.Context(), "Bearer "+token),
			&pb.WatchRequest{Heartbeat: durationpb.New(10 * time.Millisecond)})
		if err != nil {
			t.Fatal(err)
		}
		if m, err := call.Recv(); err != nil || m.GetStarted() == nil {
			t.Fatal(m, err)
		}
		return call
	}
	own, stranger, admin := watch("v"), watch("o"), watch("a")
	if _, err := s.inspection.Reduce(bearer(t.Context(), "Bearer r"), &pb.ReduceRequest{
		Inspection: inspecting(rect("r", 0, 0, 1, 1)), Frame: rawFrame(1, 1, gray8, []byte{1})}); err != nil {
		t.Fatal(err)
	}
	for who, call := range map[string]pb.MonitorService_WatchClient{"own": own, "admin": admin} {
		for m := (*pb.WatchResponse)(nil); m.GetVerdict() == nil; {
			var err error
			if m, err = call.Recv(); err != nil {
				t.Fatal(who, err)
			}
		}
	}
	for published := uint64(0); published == 0; { // and only then the stranger knows that there was something
		m, err := stranger.Recv()
		if err != nil || m.GetHeartbeat() == nil {
			t.Fatal(m, err)
		}
		published = m.GetHeartbeat().GetPublished()
	}
	for range 3 {
		if m, err := stranger.Recv(); err != nil || m.GetHeartbeat() == nil || m.GetNumber() != 0 {
			t.Errorf("another tenant sees %v, %v", m, err)
		}
	}
}

// Calls that compute and have no verdict are shown with what became of them, to their tenant and to admins. Watchers
// that choose names don't get them, and a rate thins out those that went well.
func TestWatchCalls(t *testing.T) {
	file := writeFile(t, filepath.Join(t.TempDir(), "tokens"),
		"r name=line-4 role=run\nv name=line-4 role=view\no name=office role=view\na name=ops role=admin\n")
	s := start(t, Config{TokenFile: file, HistoryDir: t.TempDir()})
	watch := func(token string, req *pb.WatchRequest) *watcher {
		ctx, cancel := context.WithTimeout(bearer(t.Context(), "Bearer "+token), 2*patience)
		t.Cleanup(cancel)
		call, err := pb.NewMonitorServiceClient(s.conn).Watch(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		w := &watcher{MonitorService_WatchClient: call, t: t, cancel: cancel}
		if w.started = w.next().GetStarted(); w.started.GetHistory() == nil {
			t.Fatalf("it starts with %v, want the state of the history", w.started)
		}
		return w
	}
	kinds := func(k ...pb.WatchKind) *pb.WatchRequest {
		return &pb.WatchRequest{Kinds: k, Heartbeat: durationpb.New(10 * time.Millisecond)}
	}
	own, admin := watch("v", kinds(pb.WatchKind_WATCH_KIND_CALL)), watch("a", kinds())
	thin := watch("v", &pb.WatchRequest{Kinds: kinds(pb.WatchKind_WATCH_KIND_CALL).Kinds, VerdictRate: 1e-9})
	others := map[string]*watcher{
		"another tenant": watch("o", kinds()), "names": watch("v", &pb.WatchRequest{Names: []string{"x*", "camera"},
			Heartbeat: durationpb.New(10 * time.Millisecond)}),
		"verdicts": watch("v", kinds(pb.WatchKind_WATCH_KIND_VERDICT)),
	}
	ctx := bearer(t.Context(), "Bearer r")
	frame := rawFrame(8, 8, gray8, make([]byte, 64))
	for range 2 {
		if _, err := pb.NewLowPolyServiceClient(s.conn).Convert(ctx, &pb.ConvertRequest{Frame: frame}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pb.NewDiffusionServiceClient(s.conn).Solve(ctx, &pb.SolveRequest{}); err == nil {
		t.Fatal("nothing is solved")
	}
	if _, err := s.device.GetDevice(ctx, &pb.GetDeviceRequest{}); err != nil { // which computes nothing
		t.Fatal(err)
	}
	if _, err := s.inspection.Rasterize(ctx, &pb.RasterizeRequest{Width: 4, Height: 4,
		Regions: &pb.RasterizeRequest_RegionSet{RegionSet: &pb.RegionSet{Regions: []*pb.Region{rect("r", 0, 0, 1, 1)}}}}); err != nil {
		t.Fatal(err)
	}
	want := []string{pb.LowPolyService_Convert_FullMethodName, pb.LowPolyService_Convert_FullMethodName,
		pb.DiffusionService_Solve_FullMethodName, pb.InspectionService_Rasterize_FullMethodName}
	check := func(who string, w *watcher, want []string) {
		t.Helper()
		for i, method := range want {
			c := w.event().GetCall()
			if c.GetMethod() != method || c.GetLatency().AsDuration() <= 0 ||
				(codes.Code(c.GetError().GetCode()) == codes.InvalidArgument) != (method == pb.DiffusionService_Solve_FullMethodName) {
				t.Errorf("%s, call %d: %v, want %s", who, i, c, method)
			}
		}
	}
	check("own", own, want)
	check("admin", admin, want)
	check("thinned", thin, []string{want[0], want[2]})
	for who, w := range others {
		for published := uint64(0); published < uint64(len(want)); {
			m := w.next()
			if m.GetHeartbeat() == nil {
				t.Fatalf("%s: %v", who, m)
			}
			published = m.GetHeartbeat().GetPublished()
		}
		if m := w.next(); m.GetHeartbeat() == nil || m.GetNumber() != 0 {
			t.Errorf("%s: %v", who, m)
		}
	}
}
