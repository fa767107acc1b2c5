// Package monitor answers the calls of MonitorService: it lets clients watch what package events publishes.
package monitor

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/auth"
	"github.com/polyscan/polyscan/server/internal/budget"
	"github.com/polyscan/polyscan/server/internal/events"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// Host is what the service needs of the server.
type Host interface {
	// Validate checks a message by the rules in the schemas, a large one at a place of the pool of host work.
	Validate(ctx context.Context, m any) error
	// Draining is closed when the server shuts down.
	Draining() <-chan struct{}
	// DeviceState is what the device is now.
	DeviceState() *pb.DeviceState
	// HistoryState is how the history keeps up; nil where there is none.
	HistoryState() *pb.HistoryState
}

// Recipes lists recipes.
type Recipes interface {
	ListRecipes(context.Context, *pb.ListRecipesRequest) (*pb.ListRecipesResponse, error)
}

// Config is what the service works with. All of it must be set.
type Config struct {
	Host      Host
	Events    *events.Bus
	Recipes   Recipes
	Memory    *budget.Budget // of the host
	DrainTime time.Duration  // how long streams may go on when the server shuts down, which is watched
}

// Service answers the calls of MonitorService.
type Service struct {
	pb.UnimplementedMonitorServiceServer
	Config
	share *budget.Budget // of Memory, what watchers may have
}

func New(cfg Config) *Service { return &Service{Config: cfg, share: budget.New(cfg.Memory.Cap / 4)} }

// memory takes memory for a watcher; it doesn't wait.
func (s *Service) memory(req *pb.WatchRequest) (release func(), err error) {
	bytes := int64(queueBytes)
	if n := req.GetNumbers(); n == pb.RegionNumbers_REGION_NUMBERS_FAILED || n == pb.RegionNumbers_REGION_NUMBERS_ALL {
		bytes += numberBytes
	}
	if p := req.GetPreview(); p != nil {
		bytes += 8 * int64(max(p.GetMaxPixels(), defaultPreviewPixels)) // as a sketch, an image and a file
	}
	first, ok := s.share.Try(budget.Watchers, bytes)
	if ok {
		if second, ok := s.Memory.Try(budget.Watchers, bytes); ok {
			return func() { first(); second() }, nil
		}
		first()
	}
	return nil, apierr.Quota(apierr.ReasonTooManyWatchers, "watchers", fmt.Sprintf(
		"there is no room for another one, of %d bytes: all may take %d", bytes, s.share.Cap))
}

// The queue of a watcher, and what it takes of the host's memory.
const (
	queueEvents = 1024
	queueBytes  = 1 << 20
	// numberBytes is for watchers that want numbers: an event that is larger than the queue, and one that is being sent.
	numberBytes = 2 * events.ResultBytes
)

const (
	defaultHeartbeat = time.Second
	minHeartbeat     = 10 * time.Millisecond
	maxHeartbeat     = time.Minute

	defaultPreviewPixels = 1 << 16
)

// kindsOf are the kinds of events of a request's kinds.
var kindsOf = map[pb.WatchKind]events.Kind{
	pb.WatchKind_WATCH_KIND_STREAM: events.StreamKind, pb.WatchKind_WATCH_KIND_VERDICT: events.VerdictKind,
	pb.WatchKind_WATCH_KIND_SCAN: events.ScanKind, pb.WatchKind_WATCH_KIND_RECIPE: events.RecipeKind,
	pb.WatchKind_WATCH_KIND_DEVICE: events.DeviceKind, pb.WatchKind_WATCH_KIND_PREVIEW: events.PreviewKind,
	pb.WatchKind_WATCH_KIND_CALL: events.CallKind, pb.WatchKind_WATCH_KIND_HISTORY: events.HistoryKind,
}

func filterOf(req *pb.WatchRequest) events.Filter {
	f := events.Filter{
		Names: req.GetNames(), Recipes: req.GetRecipes(), Numbers: req.GetNumbers(), Rate: req.GetVerdictRate(),
		Events: queueEvents, Bytes: queueBytes,
	}
	for _, k := range req.GetKinds() {
		f.Kinds[kindsOf[k]] = true
	}
	if len(req.GetKinds()) == 0 {
		for k := range f.Kinds {
			f.Kinds[k] = true
		}
	}
	if p := req.GetPreview(); p != nil {
		rate, pixels := p.GetRate(), int(p.GetMaxPixels())
		if rate == 0 {
			rate = 1
		}
		if pixels == 0 {
			pixels = defaultPreviewPixels
		}
		f.Preview = &events.Preview{Every: time.Duration(float64(time.Second) / rate), Pixels: pixels,
			PNG: p.GetEncoding() == pb.Encoding_ENCODING_PNG, NoPlaces: p.GetNoPlaces()}
	}
	return f
}

// Watch implements pb.MonitorServiceServer.
func (s *Service) Watch(req *pb.WatchRequest, stream pb.MonitorService_WatchServer) error {
	if err := s.Host.Validate(stream.Context(), req); err != nil {
		return err
	}
	if err := wire.CheckNames("names", req.GetNames()); err != nil { // or the watcher would wait for ever
		return err
	}
	beat := defaultHeartbeat
	if h := req.GetHeartbeat(); h != nil {
		if beat = h.AsDuration(); h.CheckValid() != nil || beat < minHeartbeat || beat > maxHeartbeat {
			return apierr.Refuse("heartbeat", beat, "must be %v to %v", minHeartbeat, maxHeartbeat)
		}
	}
	filter := filterOf(req)
	filter.Owner = auth.FromContext(stream.Context()).Sees
	if filter.Kinds[events.PreviewKind] && filter.Preview == nil && len(req.GetKinds()) > 0 {
		return apierr.Refuse("preview", nil, "must be given where kinds has WATCH_KIND_PREVIEW")
	}
	filter.Kinds[events.PreviewKind] = filter.Preview != nil
	release, err := s.memory(req)
	if err != nil {
		return err
	}
	defer release()
	var since *uint64
	other := false
	if r := req.GetResume(); r != nil {
		if other = r.GetServerId() != s.Events.ID(); !other {
			since = &r.Sequence
		}
	}
	sub, state := s.Events.Subscribe(filter, since)
	defer sub.End()
	w := &watch{Service: s, stream: stream, sub: sub, filter: &filter, sequence: state.Sequence}
	if since != nil {
		w.sequence = min(*since, state.Sequence)
	}
	started, err := s.started(stream.Context(), &filter, state)
	if err != nil {
		return err
	}
	started.Heartbeat = durationpb.New(beat)
	m := w.message(time.Now())
	m.Event = &pb.WatchResponse_Started{Started: started}
	if err := stream.Send(m); err != nil {
		return err
	}
	if other || state.Unknown > 0 {
		m := w.message(time.Now())
		m.Event = &pb.WatchResponse_Lost{Lost: &pb.LostEvents{Unknown: state.Unknown, OtherServer: other}}
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	return w.run(beat)
}

// started is the first message.
func (s *Service) started(ctx context.Context, f *events.Filter, state events.State) (*pb.WatchStarted, error) {
	m := &pb.WatchStarted{ServerId: s.Events.ID(), Streams: state.Streams, Device: s.Host.DeviceState(),
		Sequence: state.Sequence, History: s.Host.HistoryState()}
	req := &pb.ListRecipesRequest{PageSize: 1000}
	for {
		page, err := s.Recipes.ListRecipes(ctx, req)
		if err != nil {
			return nil, err
		}
		for _, r := range page.GetRecipes() {
			if f.Recipe(r.GetName()) {
				m.Recipes = append(m.Recipes, r)
			}
		}
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return m, nil
		}
	}
}

// watch is one call.
type watch struct {
	*Service
	stream   pb.MonitorService_WatchServer
	sub      *events.Subscription
	filter   *events.Filter
	sequence uint64 // of the last event that was sent, or considered
}

func (w *watch) message(at time.Time) *pb.WatchResponse {
	number, thinned := w.sub.Progress()
	return &pb.WatchResponse{Number: number, Sequence: w.sequence, At: timestamppb.New(at), Thinned: thinned}
}

// run sends events and heartbeats until the call ends.
func (w *watch) run(beat time.Duration) error {
	var items []events.Item
	timer := time.NewTimer(beat)
	defer timer.Stop()
	draining := w.Host.Draining()
	var tick <-chan time.Time // while the server drains
	var deadline time.Time
	idle := false
	for {
		select {
		case <-w.sub.Ready():
			var lost [events.Kinds]uint64
			var any bool
			items, lost, any = w.sub.Take(items)
			if any {
				if err := w.lost(lost); err != nil {
					return err
				}
			}
			for _, i := range items {
				if err := w.send(i); err != nil {
					return err
				}
			}
			clear(items)
			w.sub.Sent()
			if any || len(items) > 0 { // otherwise nothing has told the client that the server is there
				timer.Reset(beat)
			}
		case now := <-timer.C:
			m := w.message(now)
			m.Event = &pb.WatchResponse_Heartbeat{Heartbeat: &pb.Heartbeat{Published: w.Events.Published()}}
			if err := w.stream.Send(m); err != nil {
				return err
			}
			timer.Reset(beat)
		case <-draining: // the last verdicts are still to come
			draining = nil
			ticker := time.NewTicker(drainCheck)
			defer ticker.Stop()
			tick, deadline = ticker.C, time.Now().Add(2*w.DrainTime+time.Second)
		case now := <-tick:
			if now.After(deadline) || idle && len(w.sub.Ready()) == 0 {
				return apierr.ErrShuttingDown
			}
			idle = w.Events.Idle() // and by the next tick all of it is here
		case <-w.sub.Over():
			return apierr.ErrShuttingDown
		case <-w.stream.Context().Done():
			return context.Cause(w.stream.Context())
		}
	}
}

// drainCheck is how often a server that shuts down is asked whether its streams have ended.
const drainCheck = 20 * time.Millisecond

func (w *watch) lost(lost [events.Kinds]uint64) error {
	kinds := map[string]uint64{}
	for k, n := range lost {
		if n > 0 {
			kinds[events.Kind(k).String()] = n
		}
	}
	m := w.message(time.Now())
	m.Event = &pb.WatchResponse_Lost{Lost: &pb.LostEvents{Kinds: kinds}}
	return w.stream.Send(m)
}

// send sends an event: what is this watcher's own, and the rest, which is the same for others and encoded once.
func (w *watch) send(i events.Item) error {
	if i.Preview == nil { // those take no place among the others
		w.sequence = i.Sequence
	}
	body, err := i.Body(w.filter.Numbers, func() ([]byte, error) { return proto.Marshal(w.body(i)) })
	if err != nil {
		return err
	}
	return w.stream.SendMsg(wire.Encoded{mem.SliceBuffer(head(i.Number, w.sequence, i.Thinned)), mem.SliceBuffer(body)})
}

// head is a WatchResponse of these fields alone, encoded; that of the others is its continuation.
func head(number, sequence, thinned uint64) []byte {
	b := make([]byte, 0, 3*(1+binary.MaxVarintLen64))
	for _, f := range [...]struct {
		of protowire.Number
		is uint64
	}{{1, number}, {2, sequence}, {4, thinned}} {
		if f.is != 0 {
			b = protowire.AppendVarint(protowire.AppendTag(b, f.of, protowire.VarintType), f.is)
		}
	}
	return b
}

// body is an event without what differs from watcher to watcher.
func (w *watch) body(i events.Item) *pb.WatchResponse {
	m := &pb.WatchResponse{At: timestamppb.New(i.At)}
	switch {
	case i.Opened != nil:
		m.Event = &pb.WatchResponse_Opened{Opened: i.Opened}
	case i.Closed != nil:
		m.Event = &pb.WatchResponse_Closed{Closed: i.Closed}
	case i.Verdict != nil:
		m.Event = &pb.WatchResponse_Verdict{Verdict: w.verdict(i.Stream, i.Verdict)}
	case i.Scan != nil:
		m.Event = &pb.WatchResponse_Scan{Scan: &pb.StreamEvent{StreamId: i.Stream.ID, Name: i.Stream.Name,
			Event: &pb.StreamEvent_Scan{Scan: i.Scan}}}
	case i.Late != nil:
		m.Event = &pb.WatchResponse_Scan{Scan: &pb.StreamEvent{StreamId: i.Stream.ID, Name: i.Stream.Name,
			Event: &pb.StreamEvent_Late{Late: i.Late}}}
	case i.Recipe != nil:
		m.Event = &pb.WatchResponse_Recipe{Recipe: i.Recipe}
	case i.Device != nil:
		m.Event = &pb.WatchResponse_Device{Device: i.Device}
	case i.Preview != nil:
		m.Event = &pb.WatchResponse_Preview{Preview: i.Preview}
	case i.Call != nil:
		m.Event = &pb.WatchResponse_Call{Call: i.Call}
	case i.History != nil:
		m.Event = &pb.WatchResponse_History{History: i.History}
	}
	return m
}

// verdict is one with the numbers that this watcher wants.
func (w *watch) verdict(s *events.Stream, v *events.Verdict) *pb.WatchVerdict {
	m := &pb.WatchVerdict{
		StreamId: s.ID, Method: s.Method, Name: s.Name, PartId: v.PartID, Recipe: s.Recipe, RecipeVersion: s.Version,
		ResultNumber: v.Number, PartNumber: v.Part.GetPartNumber(), FirstLine: v.Part.GetFirstLine(), FrameId: v.FrameID,
		Verdict: v.Verdict, Incomplete: v.Incomplete, MissingLines: v.Part.GetMissingLines(), Late: v.Late,
		Latency: durationpb.New(v.Latency), Queue: durationpb.New(v.Queue), Compute: durationpb.New(v.Compute),
		CapturedAt: v.Part.GetCapturedAt(), Regions: uint32(s.Count), FailedRegions: uint32(v.Failed),
		Error: v.Error, Backend: s.Backend, Pose: v.Pose, Location: v.Location,
	}
	switch w.filter.Numbers {
	case pb.RegionNumbers_REGION_NUMBERS_ALL:
		m.Results, m.ResultsOmitted = v.Results(), v.Omitted
	case pb.RegionNumbers_REGION_NUMBERS_FAILED:
		m.ResultsOmitted = v.Omitted && v.Failed > 0
		for _, r := range v.Results() {
			if r.GetVerdict() == pb.Verdict_VERDICT_FAIL {
				m.Results = append(m.Results, r)
			}
		}
	}
	return m
}
