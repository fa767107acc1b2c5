// Streams and calls: what came of them, for those who look on.

package events

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/auth"
	"github.com/polyscan/polyscan/server/internal/observe"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// Source is who asks, and what for.
type Source struct {
	Method    pb.StreamMethod
	Name      string // of a camera or station
	Owner     string // the tenant whose call it is
	Recipe    string // "" where regions came with the call
	Version   uint64
	Regions   []*pb.Region // as they were given, for their places in previews; nil where they are too many
	Count     int          // of regions
	Layout    *pb.FrameLayout
	PartLines uint32
	Backend   string
	From      string // what its lines come from, for people
}

// SourceOf is the source of an inspection that the caller of ctx asks for.
func SourceOf(ctx context.Context, method pb.StreamMethod, in *wire.Inspection, backend string) Source {
	return Source{
		Method: method, Name: in.Name, Owner: auth.FromContext(ctx).Tenant, Recipe: in.Recipe,
		Version: in.Version, Regions: shapes(in.Regions),
		Count: in.Set.Len(), Backend: backend,
	}
}

// Stream counts what came of a stream, and tells those who look on. One that is not among those that are open is a call
// of one frame. A nil Stream does nothing.
type Stream struct {
	Source
	ID uint64 // 0 for a call

	bus    *Bus
	named  *observe.Named
	opened time.Time

	outcomes               [4]atomic.Uint64 // by observe.NamedPass and so on
	late, incomplete, gaps atomic.Uint64
}

// Open begins a stream, which Close must end.
func (b *Bus) Open(src Source) *Stream {
	if b == nil {
		return nil
	}
	s := b.stream(src)
	s.opened = time.Now()
	b.mu.Lock()
	b.ids++
	s.ID = b.ids
	b.streams[s.ID] = s
	watched := b.watched()
	if watched {
		b.put(&Event{Kind: StreamKind, Stream: s, Opened: s.State(), At: s.opened})
	}
	b.mu.Unlock()
	if watched {
		signal(b.wake)
	} else {
		b.skip(StreamKind)
	}
	return s
}

// Call is a stream of one frame, which nobody sees before its verdict; nil where nobody looks on and nobody keeps it.
func (b *Bus) Call(ctx context.Context, method pb.StreamMethod, in *wire.Inspection, backend string) *Stream {
	if !b.heeded() {
		return nil
	}
	return b.stream(SourceOf(ctx, method, in, backend))
}

func (b *Bus) stream(src Source) *Stream {
	return &Stream{Source: src, bus: b, named: b.metrics.Named(src.Name)}
}

// Close ends a stream; status is nil where nothing went wrong.
func (s *Stream) Close(status *spb.Status) {
	if s == nil {
		return
	}
	b := s.bus
	b.mu.Lock()
	delete(b.streams, s.ID)
	watched := b.watched()
	if watched {
		st := s.State()
		st.Error = status
		b.put(&Event{Kind: StreamKind, Stream: s, Closed: st})
	}
	b.mu.Unlock()
	if watched {
		signal(b.wake)
	} else {
		b.skip(StreamKind)
	}
}

// State is the stream with its counts.
func (s *Stream) State() *pb.StreamState {
	return &pb.StreamState{
		StreamId: s.ID, Method: s.Method, Name: s.Name, Recipe: s.Recipe, RecipeVersion: s.Version,
		Regions: uint32(s.Count), OpenedAt: timestamppb.New(s.opened), Layout: s.Layout, PartLines: s.PartLines,
		Passed: s.outcomes[observe.NamedPass].Load(), Failed: s.outcomes[observe.NamedFail].Load(),
		Unjudged: s.outcomes[observe.NamedNone].Load(), Errors: s.outcomes[observe.NamedError].Load(),
		Late: s.late.Load(), Incomplete: s.incomplete.Load(), Gaps: s.gaps.Load(), Source: s.From,
	}
}

// Verdict is what one part or frame came to.
type Verdict struct {
	Number     uint64         // of the frame in its stream, or of the result in its session
	Part       *pb.PartResult // of a line-scan part, without its numbers
	FrameID    string
	PartID     string
	Verdict    pb.Verdict
	Incomplete bool
	Late       bool
	Latency    time.Duration
	Queue      time.Duration
	Compute    time.Duration
	Failed     int  // regions
	Omitted    bool // their numbers were too large
	Error      *spb.Status
	Pose       *pb.Pose     // with which the regions were moved
	Location   *pb.Location // where the part was searched for; without its fiducials

	result *polygon.Result // as far as its numbers are wanted
}

// Results are the numbers of regions, of those that somebody wanted when the verdict was published.
func (v *Verdict) Results() []*pb.RegionResult {
	if v.result == nil {
		return nil
	}
	return wire.RegionResults(v.result, 0)
}

// Bytes is about what the verdict takes in memory beside itself, without its numbers.
func (v *Verdict) Bytes() int64 {
	n := int64(len(v.PartID) + len(v.FrameID) + len(v.Error.GetMessage()) + len(v.Location.GetReason()))
	if v.Pose != nil || v.Location != nil {
		n += 600 // two poses, and the location
	}
	return n
}

// eventful says that a verdict comes whatever the rate that a watcher chose.
func (v *Verdict) eventful() bool {
	return v.Verdict == pb.Verdict_VERDICT_FAIL || v.Incomplete || v.Late || v.Error != nil
}

// Part tells of a line-scan part, of the frame that it began in, and of its numbers where there are any. They are not
// to change any more.
func (s *Stream) Part(m *pb.PartResult, frameID string, r *polygon.Result, latency time.Duration, late bool) {
	if s == nil {
		return
	}
	s.count(m.GetVerdict(), m.GetError() != nil, m.GetIncomplete(), late)
	if !s.bus.heeded() {
		s.bus.skip(VerdictKind)
		return
	}
	s.verdict(&Verdict{
		Number: m.GetResultNumber(), PartID: m.GetPartId(), FrameID: frameID, Verdict: m.GetVerdict(),
		Incomplete: m.GetIncomplete(),
		Late:       late, Latency: latency, Queue: m.GetTimes().GetQueue().AsDuration(),
		Compute: m.GetTimes().GetCompute().AsDuration(), Error: m.GetError(),
		Part: &pb.PartResult{PartNumber: m.GetPartNumber(), FirstLine: m.GetFirstLine(),
			MissingLines: m.GetMissingLines(), CapturedAt: m.GetCapturedAt()},
	}, r, nil)
}

// Reduced tells of the frame of a call: of its result, or of what was wrong with it, as a status. call is of
// [Bus.Call]. p is the frame's picture where the keeper wanted one.
func (b *Bus) Reduced(call *Stream, name string, f *pb.Frame, r *polygon.Result, l *pb.Location, err error,
	latency time.Duration, p *Picture) {
	if call != nil {
		call.Frame(0, f, r, l, err, latency, p)
	} else if b != nil {
		b.metrics.Named(name).Verdict(outcome(verdictOf(r), err != nil))
		b.skip(VerdictKind)
	}
}

// Frame tells of a frame: of its result and where its part was found, or of what was wrong with it, as a status. Neither
// is to change any more. p is the frame's picture where the keeper wanted one.
func (s *Stream) Frame(number uint64, f *pb.Frame, r *polygon.Result, l *pb.Location, err error, latency time.Duration,
	p *Picture) {
	if s == nil {
		p.Release()
		return
	}
	s.count(verdictOf(r), err != nil, false, false)
	if !s.bus.heeded() {
		s.bus.skip(VerdictKind)
		return
	}
	v := &Verdict{Number: number, FrameID: f.GetFrameId(), PartID: f.GetPartId(), Verdict: verdictOf(r),
		Latency: latency, Error: status.Convert(err).Proto()}
	if r != nil {
		v.Queue, v.Compute = r.Queue, r.Compute
	}
	if l != nil {
		v.Location = proto.CloneOf(l)
		v.Location.Fiducials = nil
	}
	s.verdict(v, r, p)
}

func verdictOf(r *polygon.Result) pb.Verdict {
	if r == nil {
		return pb.Verdict_VERDICT_UNSPECIFIED
	}
	return pb.Verdict(r.Verdict)
}

func (s *Stream) count(v pb.Verdict, failed, incomplete, late bool) {
	what := outcome(v, failed)
	s.outcomes[what].Add(1)
	s.named.Verdict(what)
	if incomplete {
		s.incomplete.Add(1)
	}
	if late {
		s.late.Add(1)
		s.named.Late()
	}
}

func outcome(v pb.Verdict, failed bool) int {
	switch {
	case failed:
		return observe.NamedError
	case v == pb.Verdict_VERDICT_PASS:
		return observe.NamedPass
	case v == pb.Verdict_VERDICT_FAIL:
		return observe.NamedFail
	}
	return observe.NamedNone
}

// verdict hands v on: to the keeper with all numbers, and to those who look on with those that are wanted.
func (s *Stream) verdict(v *Verdict, r *polygon.Result, p *Picture) {
	at := time.Now()
	if r != nil {
		v.Pose = wire.PoseMessage(r.Pose)
	}
	if s.bus.keeper != nil {
		// What is lent goes back when the answer has been sent.
		if r != nil && r.Columns != nil && r.Columns.Histogram != nil {
			r = r.AsRows()
		}
		s.bus.keeper.Verdict(s, v, at, r, p)
	}
	if !s.bus.watched() {
		s.bus.skip(VerdictKind)
		return
	}
	bytes := v.Bytes()
	if r != nil {
		r = r.AsRows()
		for i := range r.Regions {
			if r.Regions[i].Verdict == polygon.Fail {
				v.Failed++
			}
		}
		var numbers int64
		switch s.bus.wants.Load() {
		case allNumbers:
			v.result, numbers = r, resultBytes(r)
		case failedOnly:
			v.result, numbers = failedOf(r, v.Failed)
		}
		if numbers > ResultBytes {
			v.result, v.Omitted, numbers = nil, true, 0
		}
		bytes += numbers
	}
	s.bus.publish(&Event{Kind: VerdictKind, Stream: s, Verdict: v, At: at, size: bytes})
}

// ResultBytes is what the numbers of one verdict may take in memory.
const ResultBytes = 2 << 20

// failedOf are the regions that failed. The regions of a result share their memory, so they are copied.
func failedOf(r *polygon.Result, n int) (_ *polygon.Result, bytes int64) {
	if n == 0 {
		return nil, 0
	}
	out := &polygon.Result{Regions: make([]polygon.RegionResult, 0, n)}
	for i := range r.Regions {
		if r.Regions[i].Verdict == polygon.Fail {
			out.Regions = append(out.Regions, r.Regions[i])
		}
	}
	if bytes = resultBytes(out); bytes > ResultBytes {
		return nil, bytes
	}
	for i := range out.Regions {
		g := &out.Regions[i]
		g.Limits, g.Channels = slices.Clone(g.Limits), slices.Clone(g.Channels)
		for k := range g.Channels {
			c := &g.Channels[k]
			c.Percentiles = slices.Clone(c.Percentiles)
			if c.Histogram != nil {
				h := *c.Histogram
				h.Counts = slices.Clone(h.Counts)
				c.Histogram = &h
			}
		}
	}
	return out, bytes
}

// resultBytes is about what results take in memory, with the messages that are made of them.
func resultBytes(r *polygon.Result) int64 {
	const region, channel, limit, percentile = 700, 700, 300, 80
	n := int64(0)
	for i := range r.Regions {
		g := &r.Regions[i]
		n += region + int64(len(g.Name)) + limit*int64(len(g.Limits))
		for k := range g.Channels {
			c := &g.Channels[k]
			n += channel + percentile*int64(len(c.Percentiles))
			if c.Histogram != nil {
				n += 8 * int64(len(c.Histogram.Counts))
			}
		}
	}
	return n
}

// Event tells of an event of a line-scan session.
func (s *Stream) Event(e *pb.ScanEvent) {
	if s == nil {
		return
	}
	if e.GetKind() == pb.ScanEventKind_SCAN_EVENT_KIND_GAP {
		s.gaps.Add(1)
	}
	if !s.bus.watched() {
		s.bus.skip(ScanKind)
		return
	}
	s.bus.publish(&Event{Kind: ScanKind, Stream: s, Scan: e})
}

// Late tells of a result that was in time when it was ready, and late when it was sent.
func (s *Stream) Late(number uint64, latency time.Duration) {
	if s == nil {
		return
	}
	s.late.Add(1)
	s.named.Late()
	if s.bus.keeper != nil {
		s.bus.keeper.Late(s, number)
	}
	if !s.bus.watched() {
		s.bus.skip(ScanKind)
		return
	}
	s.bus.publish(&Event{Kind: ScanKind, Stream: s,
		Late: &pb.LatePart{ResultNumber: number, Latency: durationpb.New(latency)}})
}
