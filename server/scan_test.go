package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/polyscan/polyscan/internal/devicetest"
	testseed "github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/budget"
)

// belt is what passes under a camera of 8-bit gray.
type belt struct {
	width int
	data  []byte
}

func newBelt(seed uint64, width, lines int) belt {
	b := belt{width, make([]byte, width*lines)}
	rng := rand.New(rand.NewPCG(seed, 0))
	for i := range b.data {
		b.data[i] = byte(rng.Uint32())
	}
	return b
}

// lines are rows [from, to).
func (b belt) lines(from, to int) []byte { return b.data[from*b.width : to*b.width] }

// strip is lines [from, to) under a sequence number.
func (b belt) strip(sequence uint64, from, to int) *pb.Strip {
	return &pb.Strip{
		Sequence: sequence, FirstLine: uint64(from), CapturedAt: timestamppb.New(time.Unix(int64(sequence), 0)),
		Frame: &pb.Frame{Layout: &pb.FrameLayout{Height: uint32(to - from)},
			Source: &pb.Frame_Data{Data: b.lines(from, to)}},
	}
}

// scanOpen is a session of gray lines.
func scanOpen(in *pb.Inspection, width, stripLines, partLines, every int) *pb.ScanOpen {
	return &pb.ScanOpen{
		Inspection: in, Layout: &pb.FrameLayout{Width: uint32(width), Height: uint32(stripLines), PixelFormat: gray8},
		PartLines: uint32(partLines), Trigger: &pb.ScanOpen_EveryLines{EveryLines: uint32(every)},
		LatencyBudget: durationpb.New(time.Hour),
	}
}

func marked(o *pb.ScanOpen) *pb.ScanOpen {
	o.Trigger = &pb.ScanOpen_Marked{Marked: &pb.MarkedTrigger{}}
	return o
}

// scanCall is a call of ScanLines.
type scanCall struct {
	pb.LineScanService_ScanLinesClient
	t      testing.TB
	cancel context.CancelFunc
	opened *pb.ScanOpened
}

// scanOver makes a call, whose first message is not sent.
func scanOver(t testing.TB, conn grpc.ClientConnInterface) *scanCall {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	stream, err := pb.NewLineScanServiceClient(conn).ScanLines(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return &scanCall{LineScanService_ScanLinesClient: stream, t: t, cancel: cancel}
}

func openRequest(o *pb.ScanOpen) *pb.ScanLinesRequest {
	return &pb.ScanLinesRequest{Message: &pb.ScanLinesRequest_Open{Open: o}}
}

func resumeRequest(token []byte, next uint64) *pb.ScanLinesRequest {
	return &pb.ScanLinesRequest{Message: &pb.ScanLinesRequest_Resume{Resume: &pb.ScanResume{SessionToken: token,
		NextResult: next}}}
}

func (c *scanCall) request(r *pb.ScanLinesRequest) {
	c.t.Helper()
	if err := c.Send(r); err != nil && !errors.Is(err, io.EOF) { // EOF: Recv has the error
		c.t.Fatal(err)
	}
}

// begin sends the first message and waits for the answer.
func (c *scanCall) begin(r *pb.ScanLinesRequest) *scanCall {
	c.t.Helper()
	c.request(r)
	m, err := c.Recv()
	if err != nil {
		c.t.Fatal(err)
	}
	if c.opened = m.GetOpened(); c.opened == nil {
		c.t.Fatalf("the first message is %v", m)
	}
	return c
}

func (ts *testServer) scan(t testing.TB, o *pb.ScanOpen) *scanCall {
	t.Helper()
	return scanOver(t, ts.conn).begin(openRequest(o))
}

func (c *scanCall) strip(s ...*pb.Strip) {
	c.t.Helper()
	for _, s := range s {
		c.request(&pb.ScanLinesRequest{Message: &pb.ScanLinesRequest_Strip{Strip: s}})
	}
}

// scanned is what came back.
type scanned struct {
	parts  []*pb.PartResult
	events []*pb.ScanEvent
	ack    *pb.ScanAck // the last
}

func (s *scanned) add(m *pb.ScanLinesResponse) {
	switch m := m.GetMessage().(type) {
	case *pb.ScanLinesResponse_Part:
		s.parts = append(s.parts, m.Part)
	case *pb.ScanLinesResponse_Event:
		s.events = append(s.events, m.Event)
	case *pb.ScanLinesResponse_Ack:
		s.ack = m.Ack
	}
}

// until receives until ok, and returns all of it.
func (c *scanCall) until(ok func(*scanned) bool) *scanned {
	c.t.Helper()
	s := &scanned{}
	for !ok(s) {
		m, err := c.Recv()
		if err != nil {
			c.t.Fatalf("%v, after %d parts and events %v", err, len(s.parts), s.events)
		}
		s.add(m)
	}
	return s
}

// acked waits for strips before n to be done with.
func (c *scanCall) acked(n uint64) *scanned {
	c.t.Helper()
	return c.until(func(s *scanned) bool { return s.ack.GetNextSequence() >= n })
}

// finish half-closes and receives the rest.
func (c *scanCall) finish() *scanned {
	c.t.Helper()
	s, err := c.rest(true)
	if err != nil {
		c.t.Fatalf("the call ended with %v", err)
	}
	return s
}

// rest receives until the end, and returns the error where it isn't io.EOF.
func (c *scanCall) rest(halfClose bool) (*scanned, error) {
	c.t.Helper()
	if halfClose {
		if err := c.CloseSend(); err != nil {
			c.t.Fatal(err)
		}
	}
	s := &scanned{}
	for {
		m, err := c.Recv()
		if errors.Is(err, io.EOF) {
			return s, nil
		}
		if err != nil {
			return s, err
		}
		s.add(m)
	}
}

// describe is events in short, such as "GAP strips 1-3 lines 10-30".
func describe(events ...*pb.ScanEvent) string {
	var b strings.Builder
	for i, e := range events {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s strips %d-%d lines %d-%d", strings.TrimPrefix(e.GetKind().String(), "SCAN_EVENT_KIND_"),
			e.GetFirstSequence(), e.GetEndSequence(), e.GetFirstLine(), e.GetEndLine())
		if e.GetUsed() {
			b.WriteString(" used")
		}
	}
	return b.String()
}

func wantEvents(t testing.TB, s *scanned, want string) {
	t.Helper()
	if got := describe(s.events...); got != want {
		t.Errorf("events %q, want %q", got, want)
	}
}

// idle waits until no session is left, and checks that nothing is held.
func (ts *testServer) idle(t testing.TB) {
	t.Helper()
	waitFor(t, "the sessions to end", func() bool {
		return metric(t, ts, "polyscan_scan_sessions") == 0 && ts.dev.Memory().Used == 0
	})
}

// scanRegions overlap, and the last one reaches from the first line of a part of 40 to the last.
func scanRegions() *pb.Inspection {
	in := inspecting(rect("a", 2, 3, 20, 9, "count > 10"), rect("b", 5, 7, 30, 31, "mean in [100, 150]"),
		rect("c", 0, 0, 3, 40))
	in.GetRegionSet().Scale = &pb.Scale{X: 0.05, Y: 0.021}
	in.Reductions = &pb.Reductions{Statistics: []pb.Statistic{
		pb.Statistic_STATISTIC_SUM, pb.Statistic_STATISTIC_MIN, pb.Statistic_STATISTIC_MAX,
		pb.Statistic_STATISTIC_MEDIAN, pb.Statistic_STATISTIC_CENTROID,
	}}
	return in
}

// wantPart compares a part with Reduce over its lines.
func (ts *testServer) wantPart(t testing.TB, p *pb.PartResult, in *pb.Inspection, b belt, lines int) {
	t.Helper()
	from := int(p.GetFirstLine())
	r, err := ts.inspection.Reduce(t.Context(),
		&pb.ReduceRequest{Inspection: in, Frame: rawFrame(b.width, lines, gray8, b.lines(from, from+lines))})
	if err != nil {
		t.Fatal(err)
	}
	want := &pb.PartResult{Regions: r.GetResult().GetRegions(), Verdict: r.GetResult().GetVerdict()}
	if got := (&pb.PartResult{Regions: p.GetRegions(), Verdict: p.GetVerdict()}); p.GetIncomplete() ||
		p.GetError() != nil || !proto.Equal(got, want) {
		t.Errorf("part at %d:\n%v, want\n%v", from, p, want)
	}
}

func TestScanLines(t *testing.T) {
	s := start(t, Config{})
	b := newBelt(1, 32, 400)
	in := scanRegions()
	for _, c := range []struct {
		name             string
		every            int
		starts           []uint64
		parts            []uint64 // first lines of complete parts
		incomplete, open int      // parts that come with the half-close
	}{
		{"apart", 50, nil, []uint64{0, 50, 100, 150, 200, 250, 300, 350}, 0, 0},
		{"overlapping", 25, nil, []uint64{0, 25, 50, 75, 100, 125, 150, 175, 200, 225, 250, 275, 300, 325, 350}, 1, 0},
		{"marked", 0, []uint64{3, 9, 41, 42, 300, 371}, []uint64{3, 9, 41, 42, 300}, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			open := scanOpen(in, 32, 16, 40, c.every)
			if c.every == 0 {
				marked(open)
			}
			call := s.scan(t, open)
			if o := call.opened; len(o.GetSessionToken()) != 32 || o.GetNextSequence() != 0 || o.GetNextLine() != 0 ||
				o.GetCreditLine() < 64 ||
				o.GetResumeWindow().AsDuration() != standard.ScanResumeWindow || o.GetBackend() != s.dev.Info().Backend {
				t.Errorf("opened: %v", o)
			}
			got := &scanned{}
			for n, from := uint64(0), 0; from < 400; n++ {
				to := min(from+1+int(n*7%16), 400)
				strip := b.strip(n, from, to)
				for _, at := range c.starts {
					if at >= uint64(from) && at < uint64(to) {
						strip.PartStarts = append(strip.PartStarts, at)
					}
				}
				call.strip(strip)
				step := call.acked(n + 1)
				got.parts, got.events = append(got.parts, step.parts...), append(got.events, step.events...)
				if step.ack.GetCreditLine() != uint64(to)+call.opened.GetCreditLine() {
					t.Errorf("strip %d to %d: %v", n, to, step.ack)
				}
				for _, p := range step.parts {
					// The moment its last line is in, and not later: region c needs all 40.
					if end := int(p.GetFirstLine()) + 40; end <= from || end > to || p.GetStripSequence() != n ||
						p.GetCapturedAt().GetSeconds() != int64(n) {
						t.Errorf("part at %d came with strip %d of lines %d to %d: %v", p.GetFirstLine(), n, from, to,
							p)
					}
				}
				from = to
			}
			for i, p := range got.parts {
				if i >= len(c.parts) || p.GetFirstLine() != c.parts[i] || p.GetResultNumber() != uint64(i) ||
					p.GetPartNumber() != uint64(i) || p.GetLate() {
					t.Errorf("part %d: %v", i, p)
				}
				tm := p.GetTimes()
				if sum := tm.GetQueue().AsDuration() + tm.GetCompute().AsDuration() +
					tm.GetSend().AsDuration(); tm.GetCompute().AsDuration() <= 0 ||
					sum > tm.GetLatency().AsDuration() {
					t.Errorf("part %d: times %v", i, tm)
				}
				s.wantPart(t, p, in, b, 40)
			}
			if len(got.parts) != len(c.parts) {
				t.Errorf("%d parts, want %d", len(got.parts), len(c.parts))
			}
			wantEvents(t, got, "")
			rest := call.finish()
			if len(rest.parts) != c.incomplete {
				t.Errorf("%d parts with the end: %v", len(rest.parts), rest.parts)
			}
			for _, p := range rest.parts {
				if missing := p.GetFirstLine() + 40 - 400; !p.GetIncomplete() || p.GetMissingLines() != missing ||
					p.GetRegions()[2].GetCount() != 3*(40-missing) {
					t.Errorf("incomplete: %v", p)
				}
			}
		})
	}
	s.idle(t)
}

// Verdicts of incomplete parts: nothing passes that nobody has seen, neither a region that lacks lines nor the part.
func TestScanIncompleteVerdict(t *testing.T) {
	s := start(t, Config{})
	b := newBelt(1, 8, 40)
	const few = "count of pixels above 200 <= 47"
	const half, all = "10 of the region's 20 lines did not come", "6 of the region's 6 lines did not come"
	for name, c := range map[string]struct {
		regions []*pb.Region
		want    pb.Verdict
		reasons []string // of the regions' first limits; "-" for no limit
	}{
		"half of a region": {[]*pb.Region{rect("r", 0, 0, 8, 20, few)}, pb.Verdict_VERDICT_FAIL, []string{half}},
		"no line of it":    {[]*pb.Region{rect("r", 0, 12, 8, 18, "count <= 5")}, pb.Verdict_VERDICT_FAIL, []string{all}},
		"and coverage":     {[]*pb.Region{rect("r", 0, 12, 8, 18, "coverage == 1")}, pb.Verdict_VERDICT_FAIL, []string{all}},
		"a limit that fails": {[]*pb.Region{rect("r", 0, 0, 8, 20, "count > 80")}, pb.Verdict_VERDICT_FAIL,
			[]string{"count 80 is not above 80; " + half}},
		"another region": {[]*pb.Region{rect("r", 0, 12, 8, 18, few), rect("s", 0, 2, 8, 4, "count == 16")},
			pb.Verdict_VERDICT_FAIL, []string{all, ""}},
		"a region without limits": {[]*pb.Region{rect("r", 0, 12, 8, 18), rect("s", 0, 2, 8, 4, "count == 16")},
			pb.Verdict_VERDICT_FAIL, []string{"-", ""}},
		"no limits": {[]*pb.Region{rect("r", 0, 0, 8, 20)}, pb.Verdict_VERDICT_UNSPECIFIED, []string{"-"}},
	} {
		call := s.scan(t, scanOpen(inspecting(c.regions...), 8, 16, 20, 20))
		call.strip(b.strip(0, 0, 10))
		got := call.finish()
		if len(got.parts) != 1 || got.parts[0].GetVerdict() != c.want || !got.parts[0].GetIncomplete() {
			t.Errorf("%s: %v", name, got.parts)
			continue
		}
		for i, want := range c.reasons {
			r := got.parts[0].GetRegions()[i]
			verdict := pb.Verdict_VERDICT_UNSPECIFIED
			reason := "-"
			if len(r.GetLimits()) > 0 {
				reason = r.GetLimits()[0].GetReason()
				if verdict = pb.Verdict_VERDICT_PASS; want != "" {
					verdict = pb.Verdict_VERDICT_FAIL
				}
			}
			if reason != want || r.GetVerdict() != verdict {
				t.Errorf("%s: region %d is %v because %q: want %v, %q", name, i, r.GetVerdict(), reason, verdict, want)
			}
		}
	}
}

// Parts that a gap ends make room for those behind it.
func TestScanGapMakesRoom(t *testing.T) {
	s := start(t, Config{ScanParts: 5})
	b := newBelt(1, 8, 100)
	call := s.scan(t, scanOpen(inspecting(rect("r", 0, 0, 8, 10)), 8, 5, 10, 3))
	call.strip(b.strip(0, 0, 5), b.strip(1, 5, 10), b.strip(2, 10, 15), b.strip(3, 40, 45), b.strip(4, 45, 50))
	got := call.finish()
	wantEvents(t, got, "GAP strips 3-3 lines 15-40")
	for _, p := range got.parts {
		first := int(p.GetFirstLine())
		lines := max(0, 15-first) + max(0, min(first+10, 50)-max(first, 40))
		if n := p.GetRegions()[0].GetCount(); n != uint64(8*min(lines, 10)) {
			t.Errorf("part at %d: %d pixels", first, n)
		}
	}
	if len(got.parts) != 11 { // from 0 to 12, and from 33 to 48
		t.Errorf("%d parts", len(got.parts))
	}
}

// Samples above the significant bits: the part has an error, and the next one doesn't.
func TestScanPartError(t *testing.T) {
	s := start(t, Config{})
	open := scanOpen(inspecting(rect("r", 0, 0, 2, 2)), 2, 4, 2, 2)
	open.Layout.PixelFormat, open.Layout.SignificantBits = pb.PixelFormat_PIXEL_FORMAT_GRAY16LE, 10
	call := s.scan(t, open)
	call.strip(&pb.Strip{Frame: &pb.Frame{Source: &pb.Frame_Data{Data: []byte{1, 0, 2, 0, 3, 0, 4, 4, 5, 0, 6, 0, 7, 0,
		8, 0}}}})
	got := call.finish()
	if len(got.parts) != 2 || got.parts[1].GetError() != nil ||
		got.parts[1].GetRegions()[0].GetChannels()[0].GetSum() != 26 {
		t.Fatalf("%v", got.parts)
	}
	wantRefused(t, status.ErrorProto(got.parts[0].GetError()), "strip.frame.data", "1028", "pixel (1, 1)", "10 bits")
}

func TestScanEvents(t *testing.T) {
	s := start(t, Config{ScanParts: 5})
	b := newBelt(2, 8, 1000)
	in := inspecting(rect("r", 0, 0, 8, 10))
	strip := func(n int) *pb.Strip { return b.strip(uint64(n), 5*n, 5*n+5) }
	change := func(n int, f func(*pb.Strip)) *pb.Strip {
		x := strip(n)
		f(x)
		return x
	}
	for _, c := range []struct {
		name    string
		reorder uint32
		marked  bool
		strips  []*pb.Strip
		events  string
		missing string // lines of each part
	}{
		{"all there", 0, false, []*pb.Strip{strip(0), strip(1)}, "", "0"},
		{"gap", 0, false, []*pb.Strip{strip(0), strip(2), strip(3)}, "GAP strips 1-2 lines 5-10", "5 0"},
		{"gap of lines", 0, false, []*pb.Strip{strip(0), b.strip(1, 8, 13), b.strip(2, 13, 18)},
			"GAP strips 1-1 lines 5-8", "3 2"},
		{"gap of a part", 0, false, []*pb.Strip{strip(0), strip(1), strip(4), strip(5)}, "GAP strips 2-4 lines 10-20",
			"0 0"},
		{"gap that is no part's", 0, false, []*pb.Strip{strip(0), strip(1), b.strip(2, 900, 905), b.strip(3, 905, 910)},
			"GAP strips 2-2 lines 10-900", "0 0"},
		{"duplicate", 0, false, []*pb.Strip{strip(0), strip(0), strip(1), strip(0)},
			"DUPLICATE strips 0-1 lines 0-5; DUPLICATE strips 0-1 lines 0-5", "0"},
		{"duplicate that waits", 3, false, []*pb.Strip{strip(0), strip(2), strip(2), strip(1), strip(3)},
			"DUPLICATE strips 2-3 lines 10-15; OUT_OF_ORDER strips 1-2 lines 5-10 used", "0 0"},
		{"out of order", 1, false, []*pb.Strip{strip(1), strip(0), strip(2), strip(3)},
			"OUT_OF_ORDER strips 0-1 lines 0-5 used", "0 0"},
		{"out of order, marked", 2, true, []*pb.Strip{
			strip(1), change(0, func(x *pb.Strip) {
				x.PartStarts = []uint64{1}
			}), change(2, func(x *pb.Strip) { x.PartStarts = []uint64{10, 14} })},
			"OUT_OF_ORDER strips 0-1 lines 0-5 used", "0 5 9"},
		{"too late", 1, false, []*pb.Strip{strip(1), strip(2), strip(0), strip(3), strip(0)},
			"GAP strips 0-1 lines 0-5; OUT_OF_ORDER strips 0-1 lines 0-5; DUPLICATE strips 0-1 lines 0-5", "5 0"},
		{"given up at the end", 5, false, []*pb.Strip{strip(0), strip(2), strip(3)}, "GAP strips 1-2 lines 5-10",
			"5 0"},
		{"too few bytes", 0, false, []*pb.Strip{strip(0), change(1, func(x *pb.Strip) {
			x.Frame.Source = &pb.Frame_Data{Data: make([]byte, 39)}
		}), strip(2)},
			"BAD_STRIP strips 1-2 lines 5-5; GAP strips 2-2 lines 5-10", "5 5"},
		{"a strip over the last one", 0, false, []*pb.Strip{strip(0), b.strip(1, 3, 8), strip(2)},
			"BAD_STRIP strips 1-2 lines 3-8; GAP strips 2-2 lines 5-10", "5 5"},
		{"part starts without a mark", 0, false, []*pb.Strip{change(0, func(x *pb.Strip) {
			x.PartStarts = []uint64{0}
		})}, "BAD_STRIP strips 0-1 lines 0-0", ""},
		{"part starts elsewhere", 0, true, []*pb.Strip{change(0, func(x *pb.Strip) {
			x.PartStarts = []uint64{5}
		})}, "BAD_STRIP strips 0-1 lines 0-0", ""},
		{"part starts that descend", 0, true, []*pb.Strip{change(0, func(x *pb.Strip) {
			x.PartStarts = []uint64{3, 3}
		})}, "BAD_STRIP strips 0-1 lines 0-0", ""},
		{"another width", 0, false, []*pb.Strip{change(0, func(x *pb.Strip) {
			x.Frame.Layout.Width = 9
		})}, "BAD_STRIP strips 0-1 lines 0-0", ""},
		{"another stride", 2, false, []*pb.Strip{strip(0), change(2, func(x *pb.Strip) {
			x.Frame.Layout.Stride, x.Frame.Source = 1<<20, &pb.Frame_Data{Data: make([]byte, 4<<20+8)}
		})}, "GAP strips 1-2 lines 5-5; BAD_STRIP strips 2-3 lines 10-10", "5"},
		{"too many lines", 0, false, []*pb.Strip{change(0, func(x *pb.Strip) {
			x.Frame.Layout.Height = 17
		})}, "BAD_STRIP strips 0-1 lines 0-0", ""},
		{"a file", 0, false, []*pb.Strip{change(0, func(x *pb.Strip) {
			x.Frame.Encoding = pb.Encoding_ENCODING_PNG
		})}, "BAD_STRIP strips 0-1 lines 0-0", ""},
		{"a resident frame", 0, false, []*pb.Strip{change(0, func(x *pb.Strip) {
			x.Frame.Source = &pb.Frame_Resident{Resident: "x"}
		})}, "BAD_STRIP strips 0-1 lines 0-0", ""},
		{"no frame", 0, false, []*pb.Strip{change(0, func(x *pb.Strip) {
			x.Frame = nil
		})}, "BAD_STRIP strips 0-1 lines 0-0", ""},
		{"beyond all lines", 0, false, []*pb.Strip{change(0, func(x *pb.Strip) {
			x.FirstLine = 1 << 63
		})}, "BAD_STRIP strips 0-1 lines 9223372036854775808-9223372036854775808", ""},
		{"too many parts", 0, true, []*pb.Strip{
			change(0, func(x *pb.Strip) {
				x.PartStarts = []uint64{0, 1, 2}
			}), change(1, func(x *pb.Strip) { x.PartStarts = []uint64{5, 6, 7} }), strip(2), strip(3)},
			"BAD_STRIP strips 1-2 lines 5-10 used", "0 0 0 0 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			open := scanOpen(in, 8, 16, 10, 10)
			if c.marked {
				marked(open)
			}
			open.ReorderStrips = c.reorder
			call := s.scan(t, open)
			call.strip(c.strips...)
			got := call.finish()
			wantEvents(t, got, c.events)
			missing := ""
			for _, p := range got.parts {
				missing += fmt.Sprint(" ", p.GetMissingLines())
				if p.GetRegions()[0].GetCount() != 8*(10-p.GetMissingLines()) {
					t.Errorf("%v", p)
				}
			}
			if missing = strings.TrimSpace(missing); missing != c.missing {
				t.Errorf("parts lack %q lines, want %q", missing, c.missing)
			}
			for _, e := range got.events {
				if bad := e.GetKind() == pb.ScanEventKind_SCAN_EVENT_KIND_BAD_STRIP; bad != (e.GetError() != nil) {
					t.Errorf("%v", e)
				} else if bad && !strings.Contains(e.GetError().GetMessage(), "strip") && !e.GetUsed() {
					t.Errorf("%v", e)
				}
			}
		})
	}
	s.idle(t)
}

func TestScanRefuses(t *testing.T) {
	s := start(t, Config{ScanSessions: 1, ScanParts: 4})
	in := inspecting(rect("r", 0, 0, 8, 10))
	good := func() *pb.ScanOpen { return scanOpen(in, 8, 16, 10, 10) }
	refused := func(name string, r *pb.ScanLinesRequest, check func(error)) {
		t.Helper()
		c := scanOver(t, s.conn)
		c.request(r)
		if m, err := c.Recv(); err == nil {
			t.Errorf("%s: %v", name, m)
		} else {
			check(err)
		}
	}
	change := func(f func(*pb.ScanOpen)) *pb.ScanLinesRequest {
		o := good()
		f(o)
		return openRequest(o)
	}
	for _, c := range []struct {
		name  string
		r     *pb.ScanLinesRequest
		field string
		words []string
	}{
		{"no inspection", change(func(o *pb.ScanOpen) { o.Inspection = nil }), "open.inspection", nil},
		{"no layout", change(func(o *pb.ScanOpen) { o.Layout = nil }), "open.layout", nil},
		{"no trigger", change(func(o *pb.ScanOpen) { o.Trigger = nil }), "open.trigger", nil},
		{"no format", change(func(o *pb.ScanOpen) { o.Layout.PixelFormat = 0 }), "open.layout.pixel_format", nil},
		{"no width", change(func(o *pb.ScanOpen) { o.Layout.Width = 0 }), "open.layout.width", nil},
		{"no height", change(func(o *pb.ScanOpen) { o.Layout.Height = 0 }), "open.layout.height", nil},
		{"a short stride", change(func(o *pb.ScanOpen) {
			o.Layout.Stride = 7
		}), "open.layout.stride", []string{"8 bytes"}},
		{"parts too large", change(func(o *pb.ScanOpen) {
			o.Layout.Width, o.PartLines = 1<<20, 1<<20
		}), "open.part_lines", []string{"pixels"}},
		{"overlap", change(func(o *pb.ScanOpen) {
			o.Trigger = &pb.ScanOpen_EveryLines{EveryLines: 5}
		}), "open.every_lines", []string{"5", "limit is 4"}},
		{"class", change(func(o *pb.ScanOpen) {
			o.Inspection = proto.Clone(in).(*pb.Inspection)
			o.Inspection.WorkClass = 2
		}), "open.inspection.work_class", nil},
		{"textures", change(func(o *pb.ScanOpen) {
			o.Inspection = proto.Clone(in).(*pb.Inspection)
			o.Inspection.Reductions = &pb.Reductions{Cooccurrence: &pb.CooccurrenceSpec{}}
		}), "open.inspection.reductions.cooccurrence", []string{"line-scans"}},
		{"a limit on a texture", change(func(o *pb.ScanOpen) {
			o.Inspection = inspecting(rect("a", 1, 1, 5, 5, "contrast(1,0) < 5"))
		}), "open.inspection.region_set.regions[0].limits[0]", []string{"line-scans"}},
		{"strips that wait", change(func(o *pb.ScanOpen) {
			o.Layout.Width, o.Layout.Height, o.ReorderStrips = 1<<14, 1<<13, 5
		}), "open.reorder_strips", []string{"9 strips of 134217728 bytes"}},
		{"no budget", change(func(o *pb.ScanOpen) { o.LatencyBudget = durationpb.New(0) }), "open.latency_budget", nil},
		{"a limit on another channel", change(func(o *pb.ScanOpen) {
			o.Inspection = inspecting(rect("r", 0, 0, 1, 1, "red.mean < 3"))
		}), "open.inspection.region_set.regions[0].limits[0]", nil},
		{"regions of a wider line", change(func(o *pb.ScanOpen) {
			o.Inspection = inspecting(rect("r", 0, 0, 1, 1, "mean < 3"))
			o.Inspection.GetRegionSet().DrawnOn = &pb.FrameSize{Width: 9, Height: 16}
		}), "open.layout.width", []string{"8", "must be 9", "9x16"}},
		{"regions of a taller frame", change(func(o *pb.ScanOpen) {
			o.Inspection, o.WholeParts = inspecting(rect("r", 0, 0, 1, 1, "mean < 3")), true
			o.Inspection.GetRegionSet().DrawnOn = &pb.FrameSize{Width: 8, Height: 16}
		}), "open.part_lines", []string{"must be 16", "8x16"}},
		{"bad regions", change(func(o *pb.ScanOpen) {
			o.Inspection = inspecting(rect("r", 0, 0, 1, 1, "mean <"))
		}), "open.inspection.region_set.regions[0].limits[0]", nil},
		{"a short token", resumeRequest([]byte("x"), 0), "resume.session_token", nil},
	} {
		refused(c.name, c.r, func(err error) { wantRefused(t, err, c.field, c.words...) })
	}
	reason := func(code codes.Code, reason string) func(error) {
		return func(err error) {
			t.Helper()
			if d := detailsOf(t, err); d.status.Code() != code || d.info.GetReason() != reason {
				t.Errorf("%v, want %v for %s", err, code, reason)
			}
		}
	}
	refused("strip first",
		&pb.ScanLinesRequest{Message: &pb.ScanLinesRequest_Strip{Strip: &pb.Strip{Frame: &pb.Frame{}}}},
		reason(codes.FailedPrecondition, apierr.ReasonFrameOutOfOrder))
	refused("unknown session", resumeRequest(make([]byte, 32), 0), reason(codes.NotFound, apierr.ReasonUnknownSession))
	c := scanOver(t, s.conn)
	_, err := c.rest(true)
	reason(codes.FailedPrecondition, apierr.ReasonFrameOutOfOrder)(err)

	one := s.scan(t, good())
	refused("a second session", openRequest(good()), reason(codes.ResourceExhausted, apierr.ReasonTooManySessions))
	refused("a future result", resumeRequest(one.opened.GetSessionToken(), 1), func(err error) {
		wantRefused(t, err, "resume.next_result", "0 results")
	})
	two := scanOver(t, s.conn).begin(resumeRequest(one.opened.GetSessionToken(), 0))
	two.request(openRequest(good()))
	_, err = two.rest(false)
	reason(codes.FailedPrecondition, apierr.ReasonSecondOpen)(err)
	scanOver(t, s.conn).begin(resumeRequest(one.opened.GetSessionToken(), 0)).finish()
	refused("a session that has ended", resumeRequest(one.opened.GetSessionToken(), 0),
		reason(codes.NotFound, apierr.ReasonUnknownSession))
	s.idle(t)

	// No room on the device: typed, and nothing stays.
	small := start(t, Config{MemoryBytes: 1 << 20})
	o := good()
	o.Inspection = proto.Clone(in).(*pb.Inspection)
	o.Inspection.Reductions = &pb.Reductions{Statistics: []pb.Statistic{pb.Statistic_STATISTIC_MEDIAN}}
	o.Layout.PixelFormat, o.Trigger = pb.PixelFormat_PIXEL_FORMAT_GRAY16LE, &pb.ScanOpen_EveryLines{EveryLines: 2}
	c = scanOver(t, small.conn)
	c.request(openRequest(o))
	_, err = c.Recv()
	reason(codes.ResourceExhausted, apierr.ReasonNoRoom)(err)
	small.idle(t)
}

// A connection that breaks costs nothing: the results are those of one that doesn't, each exactly once by number.
func TestScanResume(t *testing.T) {
	s := start(t, Config{})
	const lines, step = 600, 15
	b := newBelt(3, 32, lines)
	in := scanRegions()
	whole := s.scan(t, scanOpen(in, 32, 16, 40, 30))
	for n := range lines / step {
		whole.strip(b.strip(uint64(n), n*step, n*step+step))
		whole.acked(uint64(n + 1))
	}
	for seed := range 8 {
		rng := testseed.New(t, uint64(seed), 1)
		call := s.scan(t, scanOpen(in, 32, 16, 40, 30))
		token := call.opened.GetSessionToken()
		var parts []*pb.PartResult
		keep := func(got *scanned) {
			for _, p := range got.parts {
				switch n := int(p.GetResultNumber()); {
				case n < len(parts):
					if !proto.Equal(p, parts[n]) {
						t.Errorf("result %d came again as\n%v, was\n%v", n, p, parts[n])
					}
				case n == len(parts):
					parts = append(parts, p)
				default:
					t.Fatalf("result %d came after %d", n, len(parts))
				}
			}
			wantEvents(t, got, "")
		}
		next, confirmed := 0, 0
		for next < lines/step {
			for range 1 + rng.IntN(6) {
				if next < lines/step {
					strip := b.strip(uint64(next), next*step, next*step+step)
					confirmed = max(confirmed, len(parts)-1)
					strip.NextResult = uint64(confirmed)
					call.strip(strip)
					next++
				}
			}
			if rng.IntN(2) == 0 {
				keep(call.acked(uint64(max(0, next-rng.IntN(3)))))
			}
			if rng.IntN(2) == 0 {
				call.cancel()
				for { // what had come already
					m, err := call.Recv()
					if err != nil {
						break
					}
					if p := m.GetPart(); p != nil && rng.IntN(4) != 0 && int(p.GetResultNumber()) == len(parts) {
						parts = append(parts, p)
					}
				}
				confirmed = max(confirmed, len(parts)-rng.IntN(2))
				call = scanOver(t, s.conn).begin(resumeRequest(token, uint64(confirmed)))
				if n := int(call.opened.GetNextSequence()); n > next || call.opened.GetNextLine() != uint64(n*step) {
					t.Fatalf("opened %v after %d strips", call.opened, next)
				} else {
					next = n
				}
			}
		}
		keep(call.finish())
		if len(parts) != 20 {
			t.Errorf("seed %d: %d parts", seed, len(parts))
		}
		for i, p := range parts {
			if p.GetPartNumber() != uint64(i) {
				t.Errorf("part %d is %v", i, p)
			}
			if !p.GetIncomplete() {
				s.wantPart(t, p, in, b, 40)
			} else if i != 19 {
				t.Errorf("part %d lacks %d lines", i, p.GetMissingLines())
			}
		}
	}
	whole.cancel()
}

func TestScanTakeover(t *testing.T) {
	s := start(t, Config{})
	b := newBelt(4, 8, 100)
	first := s.scan(t, scanOpen(inspecting(rect("r", 0, 0, 8, 10)), 8, 16, 10, 10))
	first.strip(b.strip(0, 0, 10))
	first.acked(1)
	second := scanOver(t, s.conn).begin(resumeRequest(first.opened.GetSessionToken(), 0))
	_, err := first.rest(false)
	if d := detailsOf(t, err); d.status.Code() != codes.Aborted || d.info.GetReason() != apierr.ReasonTakenOver {
		t.Errorf("the older call ended with %v", err)
	}
	if o := second.opened; o.GetNextSequence() != 1 || o.GetNextLine() != 10 {
		t.Errorf("%v", o)
	}
	second.strip(b.strip(1, 10, 20))
	got := second.finish()
	if len(got.parts) != 2 || got.parts[0].GetResultNumber() != 0 || got.parts[1].GetPartNumber() != 1 {
		t.Errorf("%v", got.parts)
	}
	wantEvents(t, got, "")
	s.idle(t)
}

// A session ends when nobody resumes it in time.
func TestScanResumeWindow(t *testing.T) {
	s := start(t, Config{ScanResumeWindow: 20 * time.Millisecond})
	call := s.scan(t, scanOpen(inspecting(rect("r", 0, 0, 8, 10)), 8, 16, 10, 10))
	call.cancel()
	s.idle(t)
	again := scanOver(t, s.conn)
	again.request(resumeRequest(call.opened.GetSessionToken(), 0))
	if _, err := again.Recv(); status.Code(err) != codes.NotFound {
		t.Errorf("%v", err)
	}
}

// Results that were sent, and not confirmed, are kept up to a bound.
func TestScanResultsGone(t *testing.T) {
	s := start(t, Config{ScanUnreadBytes: 20_000})
	b := newBelt(5, 8, 1000)
	call := s.scan(t, scanOpen(inspecting(rect("r", 0, 0, 8, 10)), 8, 16, 10, 10))
	for n := range 100 {
		call.strip(b.strip(uint64(n), 10*n, 10*n+10))
		call.acked(uint64(n + 1))
	}
	call.cancel()
	again := scanOver(t, s.conn)
	again.request(resumeRequest(call.opened.GetSessionToken(), 0))
	_, err := again.Recv()
	if d := detailsOf(t, err); d.status.Code() != codes.OutOfRange || d.info.GetReason() != apierr.ReasonResultsGone {
		t.Errorf("%v", err)
	}
	if got := scanOver(t, s.conn).begin(resumeRequest(call.opened.GetSessionToken(),
		98)).finish(); len(got.parts) != 2 || got.parts[0].GetResultNumber() != 98 {
		t.Errorf("%v", got.parts)
	}
}

// More lines than there is credit for end the call; a gap in the count of lines is no reason.
func TestScanCredit(t *testing.T) {
	h := newHooked()
	s := start(t, Config{Driver: h, ScanCreditBytes: 1})
	b := newBelt(6, 8, 1000)
	open := scanOpen(inspecting(rect("r", 0, 0, 8, 10)), 8, 10, 10, 10)
	call := s.scan(t, open)
	if call.opened.GetCreditLine() != 40 {
		t.Errorf("%v", call.opened)
	}
	jump := &pb.Strip{Sequence: 0, FirstLine: 1 << 40, Frame: &pb.Frame{Source: &pb.Frame_Data{Data: b.lines(0, 10)}}}
	call.strip(jump)
	if got := call.acked(1); got.ack.GetCreditLine() != 1<<40+50 {
		t.Errorf("%v", got.ack)
	}
	entered, leave := make(chan struct{}), make(chan struct{})
	var once sync.Once
	h.set(func() error { once.Do(func() { close(entered) }); <-leave; return nil })
	for n := uint64(1); n < 7; n++ {
		if n == 2 {
			<-entered
		}
		call.strip(&pb.Strip{Sequence: n, FirstLine: 1<<40 + n*10,
			Frame: &pb.Frame{Source: &pb.Frame_Data{Data: b.lines(0, 10)}}})
	}
	_, err := call.rest(false)
	close(leave)
	if d := detailsOf(t, err); d.status.Code() != codes.ResourceExhausted || d.info.GetReason() != apierr.ReasonCredit {
		t.Errorf("%v", err)
	}
	again := scanOver(t, s.conn).begin(resumeRequest(call.opened.GetSessionToken(), 0))
	if again.opened.GetNextSequence() != 2 {
		t.Errorf("%v: the strip in work was not finished", again.opened)
	}
	again.finish()
}

// Strips that count no lines, because they can't be used, pile up no more than others.
func TestScanManyStrips(t *testing.T) {
	h := newHooked()
	s := start(t, Config{Driver: h, ScanUnreadBytes: 64 << 20})
	const most = 4096 // strips under way
	b := newBelt(6, 8, 10)
	call := s.scan(t, scanOpen(inspecting(rect("r", 0, 0, 8, 10)), 8, 10, 10, 10))
	leave := make(chan struct{})
	h.set(func() error { <-leave; return nil })
	ended := make(chan error, 1)
	go func() { // events are read
		_, err := call.rest(false)
		ended <- err
	}()
	call.strip(b.strip(0, 0, 10))
	for n := uint64(1); n < most+10; n++ {
		call.request(&pb.ScanLinesRequest{Message: &pb.ScanLinesRequest_Strip{Strip: &pb.Strip{Sequence: n,
			Frame: &pb.Frame{}}}})
	}
	if err := call.CloseSend(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the strips to arrive", func() bool {
		return metric(t, s, "polyscan_scan_events_total") >= most-1
	})
	close(leave)
	err := <-ended
	if d := detailsOf(t, err); d.status.Code() != codes.ResourceExhausted || d.info.GetReason() != apierr.ReasonCredit ||
		!strings.Contains(d.status.Message(), "4096") {
		t.Errorf("%v", err)
	}
	if n := metric(t, s, "polyscan_scan_events_total"); n > most+2 { // one more of them was in work, perhaps
		t.Errorf("%v events", n)
	}
}

// The log has the client's name of the camera.
func TestScanLog(t *testing.T) {
	s := start(t, Config{})
	open := scanOpen(inspecting(rect("r", 0, 0, 8, 10)), 8, 10, 10, 10)
	open.CameraId = "gate 7"
	call := s.scan(t, open)
	call.strip(newBelt(1, 8, 10).strip(0, 0, 10))
	call.finish()
	s.idle(t)
	for _, words := range []string{`"line-scan session begins" camera="gate 7" width=8 part_lines=10`,
		`"line-scan session ends" camera="gate 7" strips=1 lines=10 results=1`} {
		if !strings.Contains(s.logs.String(), words) {
			t.Errorf("no %s in\n%s", words, s.logs)
		}
	}
}

// Late results say so, and are there.
func TestScanLate(t *testing.T) {
	h := newHooked()
	s := start(t, Config{Driver: h})
	b := newBelt(6, 8, 100)
	open := scanOpen(inspecting(rect("r", 0, 0, 8, 10)), 8, 10, 10, 10)
	open.LatencyBudget = durationpb.New(10 * time.Millisecond)
	call := s.scan(t, open)
	h.set(func() error { time.Sleep(11 * time.Millisecond); return nil })
	call.strip(b.strip(0, 0, 10))
	got := call.finish()
	if len(got.parts) != 1 || !got.parts[0].GetLate() ||
		got.parts[0].GetTimes().GetLatency().AsDuration() < 11*time.Millisecond ||
		got.parts[0].GetTimes().GetCompute().AsDuration() < 11*time.Millisecond || got.parts[0].GetIncomplete() {
		t.Errorf("%v", got.parts)
	}
	if metric(t, s, "polyscan_scan_parts_late_total") != 1 || metric(t, s, "polyscan_scan_part_latency_seconds") != 1 ||
		metric(t, s, "polyscan_scan_strips_total") != 1 {
		t.Error("it was not counted")
	}
}

// A server that shuts down tells, takes strips until the client half-closes or its time is over, and finishes what has
// come.
func TestScanDrain(t *testing.T) {
	for _, polite := range []bool{true, false} {
		drain := patience // which ends with the client's half
		if !polite {
			drain = time.Second
		}
		s := start(t, Config{ScanDrainTime: drain})
		b := newBelt(7, 8, 100)
		open := scanOpen(inspecting(rect("r", 0, 0, 8, 10)), 8, 10, 10, 10)
		idle := s.scan(t, open) // between two connections
		idle.cancel()
		waiting := scanOver(t, s.conn) // has said nothing yet
		call := s.scan(t, open)
		call.strip(b.strip(0, 0, 10))
		call.acked(1)
		down := make(chan error)
		go func() { down <- s.Shutdown(context.Background()) }()
		call.until(func(got *scanned) bool {
			return len(got.events) == 1 && got.events[0].GetKind() == pb.ScanEventKind_SCAN_EVENT_KIND_DRAINING
		})
		call.strip(b.strip(1, 10, 20), b.strip(2, 20, 25))
		call.acked(3)
		got, err := call.rest(polite)
		if len(got.parts) != 1 || got.parts[0].GetMissingLines() != 5 {
			t.Errorf("polite %v: %v", polite, got.parts)
		}
		if polite && err != nil || !polite && status.Code(err) != codes.Unavailable {
			t.Errorf("polite %v: the call ended with %v", polite, err)
		}
		if _, err := waiting.rest(false); status.Code(err) != codes.Unavailable {
			t.Errorf("polite %v: the call without a session ended with %v", polite, err)
		}
		if err := <-down; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	}
}

// A client that doesn't read is told, and cut off, before it costs much; what it has not read is there when it comes
// back.
func TestScanSlowConsumer(t *testing.T) {
	s := start(t, Config{ScanUnreadBytes: 100_000}, frameCodec())
	in := inspecting()
	for range 100 {
		in.GetRegionSet().Regions = append(in.GetRegionSet().Regions, rect("region", 0, 0, 8, 10))
	}
	b := newBelt(8, 8, 10)
	// Windows that don't grow.
	conn := s.connectCleanly(t, frameCodec(), grpc.WithInitialWindowSize(64<<10),
		grpc.WithInitialConnWindowSize(64<<10))
	call := scanOver(t, conn).begin(openRequest(scanOpen(in, 8, 10, 10, 10)))
	// Results of 10 KB each, beyond what fits the windows of the connection. Strips that come later are dropped.
	for n := uint64(0); n < 200; n++ {
		call.strip(&pb.Strip{Sequence: n, FirstLine: 10 * n,
			Frame: &pb.Frame{Source: &pb.Frame_Data{Data: b.lines(0, 10)}}})
	}
	waitFor(t, "the client to be cut off", func() bool { return s.lineScan.CutOff(call.opened.GetSessionToken()) })
	got, err := call.rest(false)
	if d := detailsOf(t, err); d.status.Code() != codes.ResourceExhausted ||
		d.info.GetReason() != apierr.ReasonSlowConsumer {
		t.Errorf("the call ended with %v", err)
	}
	next := got.parts[len(got.parts)-1].GetResultNumber() + 1
	again := scanOver(t, s.conn).begin(resumeRequest(call.opened.GetSessionToken(), next))
	n := again.opened.GetNextSequence()
	again.strip(&pb.Strip{Sequence: n, FirstLine: 10 * n,
		Frame: &pb.Frame{Source: &pb.Frame_Data{Data: b.lines(0, 10)}}})
	back := again.finish()
	if len(back.parts) == 0 || back.parts[0].GetResultNumber() != next ||
		back.parts[len(back.parts)-1].GetPartNumber() != n {
		t.Errorf("after result %d and strip %d: %v", next, n, back.parts)
	}
	told := false
	for _, e := range append(got.events, back.events...) {
		told = told || e.GetKind() == pb.ScanEventKind_SCAN_EVENT_KIND_SLOW_CONSUMER
	}
	if !told {
		t.Error("the client was not told")
	}
}

// 64 streams that send and never read.
func TestScanNeverRead(t *testing.T) {
	s := start(t, Config{MemoryBytes: 512 << 20}, frameCodec())
	n := 64
	if testing.Short() {
		n = 16
	}
	const width, height = 4096, 16
	in := inspecting()
	for i := range 50 {
		in.GetRegionSet().Regions = append(in.GetRegionSet().Regions,
			rect("region", float64(80*i), 1, float64(80*i+80), 15))
	}
	data := make([]byte, width*height)
	collect()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	var wg sync.WaitGroup
	var sent atomic.Int64
	var calls []*scanCall
	for range n {
		conn := s.connectCleanly(t, frameCodec())
		call := scanOver(t, conn)
		calls = append(calls, call)
		wg.Go(func() {
			call.request(openRequest(scanOpen(in, width, height, height, height)))
			for k := uint64(0); k < 150; k++ {
				m := framecodec.New(&pb.ScanLinesRequest{Message: &pb.ScanLinesRequest_Strip{Strip: &pb.Strip{
					Sequence: k, FirstLine: height * k, Frame: &pb.Frame{Source: &pb.Frame_Data{Data: data}},
				}}})
				if call.SendMsg(m) != nil {
					return
				}
				sent.Add(1)
			}
		})
	}
	// Until each has sent all, or waits because nobody takes its strips any more.
	for last, stable := int64(-1), 0; stable < 5; {
		time.Sleep(100 * time.Millisecond)
		if now := sent.Load(); now == last {
			stable++
		} else {
			last, stable = now, 0
		}
	}
	// The pool lets go of a buffer that waits for a message after two collections, and in a goroutine of its own.
	waitFor(t, "buffers that wait to go", func() bool { collect(); return s.host.Used(budget.Idle) == 0 })
	collect()
	var after runtime.MemStats
	runtime.ReadMemStats(&after)
	held := int64(after.HeapAlloc) - int64(before.HeapAlloc) - int64(n)*2<<20 // bufconn's buffers, both ways
	t.Logf("%d streams: %d strips sent, %d KiB held by clients and server", n, sent.Load(), held>>10)
	if held > int64(n)<<20 {
		t.Errorf("%d bytes held", held)
	}
	for _, c := range calls {
		c.cancel()
	}
	wg.Wait()
}

// collect frees what is not used, that of pools too.
func collect() {
	for range 3 {
		runtime.GC()
	}
}

// A device that is lost and opened again: parts that had begun lack lines, later ones don't.
func TestScanDeviceLost(t *testing.T) {
	faulty := devicetest.Fault(cpu.New(cpu.Options{Threads: 2}), devicetest.Failure{})
	s := start(t, Config{Driver: faulty})
	b := newBelt(9, 8, 1000)
	call := s.scan(t, scanOpen(inspecting(rect("r", 0, 0, 8, 20)), 8, 10, 20, 20))
	call.strip(b.strip(0, 0, 10))
	call.acked(1)
	faulty.Arm(devicetest.Failure{N: 2, Err: kernels.ErrDeviceLost})
	call.strip(b.strip(1, 10, 15))
	got := call.until(func(got *scanned) bool { return len(got.events) == 2 && got.ack != nil })
	wantEvents(t, got, "BAD_STRIP strips 1-2 lines 10-15; DEVICE_LOST strips 0-0 lines 0-0")
	if c := codes.Code(got.events[0].GetError().GetCode()); c != codes.Unavailable {
		t.Errorf("%v", got.events[0])
	}
	faulty.Arm(devicetest.Failure{})
	call.strip(b.strip(2, 15, 20), b.strip(3, 20, 30), b.strip(4, 30, 40))
	got = call.finish()
	if len(got.parts) != 2 || got.parts[0].GetMissingLines() != 15 || got.parts[0].GetRegions()[0].GetCount() != 40 ||
		got.parts[1].GetIncomplete() {
		t.Errorf("%v", got.parts)
	}
	s.idle(t)
}

// A device that is lost when the last parts are finished: they lack the lines that were there, and the call ends well.
func TestScanDeviceLostAtTheEnd(t *testing.T) {
	faulty := devicetest.Fault(cpu.New(cpu.Options{Threads: 2}), devicetest.Failure{})
	s := start(t, Config{Driver: faulty})
	b := newBelt(9, 8, 1000)
	call := s.scan(t, scanOpen(inspecting(rect("r", 0, 0, 8, 20)), 8, 10, 20, 20))
	call.strip(b.strip(0, 0, 10))
	call.acked(1)
	faulty.Arm(devicetest.Failure{N: 1, Err: kernels.ErrDeviceLost})
	if err := call.CloseSend(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the loss", func() bool { _, fired := faulty.Fired(); return fired })
	faulty.Arm(devicetest.Failure{})
	got, err := call.rest(false)
	if err != nil {
		t.Fatal(err)
	}
	wantEvents(t, got, "DEVICE_LOST strips 0-0 lines 0-0")
	if len(got.parts) != 1 || got.parts[0].GetMissingLines() != 20 {
		t.Errorf("%v", got.parts)
	}
	s.idle(t)
}

// Failures that are no loss of the device cost the lines of a strip, and the next strips work.
func TestScanFaults(t *testing.T) {
	broken := errors.New("the device smells of smoke")
	faulty := devicetest.Fault(cpu.New(cpu.Options{Threads: 2}), devicetest.Failure{})
	s := start(t, Config{Driver: faulty})
	b := newBelt(10, 8, 1000)
	for n := 1; ; n++ {
		call := s.scan(t, scanOpen(inspecting(rect("r", 0, 0, 8, 20)), 8, 10, 20, 20))
		faulty.Arm(devicetest.Failure{N: n, Err: broken, InWait: n%2 == 0})
		for k := range 4 {
			call.strip(b.strip(uint64(k), 10*k, 10*k+10))
		}
		got := call.acked(4)
		_, fired := faulty.Fired()
		faulty.Arm(devicetest.Failure{})
		for k := 4; k < 6; k++ {
			call.strip(b.strip(uint64(k), 10*k, 10*k+10))
		}
		rest := call.finish()
		parts := append(got.parts, rest.parts...)
		if len(parts) != 3 || parts[2].GetIncomplete() {
			t.Errorf("failure %d: %v", n, parts)
		}
		for _, p := range parts {
			if p.GetRegions()[0].GetCount() != 8*(20-p.GetMissingLines()) {
				t.Errorf("failure %d: %v", n, p)
			}
		}
		if fired != (len(got.events)+len(rest.events) == 1) {
			t.Errorf("failure %d: events %s", n, describe(append(got.events, rest.events...)...))
		}
		if !fired {
			if n < 10 {
				t.Errorf("%d events", n)
			}
			break
		}
	}
	s.idle(t)
}

// Thousands of calls that begin, break, resume, take over and fail in any order leave nothing behind.
func TestScanChaos(t *testing.T) {
	broken := errors.New("the device smells of smoke")
	faulty := devicetest.Fault(cpu.New(cpu.Options{Threads: 2}), devicetest.Failure{})
	s := start(t, Config{Driver: faulty, ScanResumeWindow: 5 * time.Millisecond, ScanSessions: 20}, frameCodec())
	calls := 10_000
	if testing.Short() {
		calls = 1000
	}
	b := newBelt(11, 8, 200)
	in := inspecting(rect("r", 0, 0, 8, 20), rect("q", 3, 4, 9, 15))
	var wg sync.WaitGroup
	var tokens sync.Map
	for g := range 8 {
		wg.Go(func() {
			rng := testseed.New(t, uint64(g), 12)
			for range calls / 8 {
				ctx, cancel := context.WithCancel(context.Background())
				stream, err := pb.NewLineScanServiceClient(s.conn).ScanLines(ctx)
				if err != nil {
					t.Error(err)
					cancel()
					return
				}
				first := openRequest(scanOpen(in, 8, 10, 20, 7+rng.IntN(30)))
				if token, ok := tokens.Load(rng.IntN(8)); ok && rng.IntN(3) == 0 {
					first = resumeRequest(token.([]byte), 0)
				}
				stream.Send(first)
				if rng.IntN(8) == 0 {
					cancel()
					continue
				}
				if rng.IntN(4) == 0 {
					faulty.Arm(devicetest.Failure{N: 1 + rng.IntN(20), Err: broken, InWait: rng.IntN(2) == 0})
				}
				if m, err := stream.Recv(); err == nil {
					tokens.Store(g, m.GetOpened().GetSessionToken())
					n := m.GetOpened().GetNextSequence()
					sent := false
					for k := range uint64(rng.IntN(6)) {
						sent = true
						from := int((n + k) % 20 * 10)
						x := b.strip(n+k, from, from+10)
						x.FirstLine = (n + k) * 10
						if rng.IntN(10) == 0 {
							x.Sequence += uint64(rng.IntN(3))
						}
						stream.Send(&pb.ScanLinesRequest{Message: &pb.ScanLinesRequest_Strip{Strip: x}})
					}
					switch rng.IntN(3) {
					case 0:
						stream.CloseSend()
						for err == nil {
							_, err = stream.Recv()
						}
					case 1:
						if sent {
							stream.Recv()
						}
					}
				}
				cancel()
			}
		})
	}
	wg.Wait()
	faulty.Arm(devicetest.Failure{})
	s.idle(t)
	waitFor(t, "the calls to end", func() bool { return metric(t, s, "polyscan_requests_in_flight") == 0 })
	if n := metric(t, s, "polyscan_panics_total"); n != 0 {
		t.Errorf("%v panics: %s", n, s.logs)
	}
}
