package source

// The link to a server, and the sources over it.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/internal/cli"
	"github.com/polyscan/polyscan/clients/plcgateway/internal/station"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// The pace of the watch. Triggers have to be rejected 200 ms after the server was last heard; four heartbeats may be
// missed or delayed until then, as a busy machine does.
const (
	heartbeat = 40 * time.Millisecond
	silence   = 180 * time.Millisecond
	// again is the time from the end of a watch, such as for a wrong token, to the next attempt.
	again = time.Second
	// forever is how long a lost server is tried anew.
	forever = 1 << 62
	// recheck bounds how long recipes are looked for when a server is back.
	recheck = 2 * time.Second
)

// Link is a server and the stations that it serves.
type Link struct {
	name    string
	client  *clients.Client
	log     *slog.Logger
	sources []*Source
	up      atomic.Bool
	server  string         // the id of the process that was heard last
	checks  sync.WaitGroup // of recipes, beside the watch
}

// Dial makes a link; Run connects it.
func Dial(name, addr string, log *slog.Logger, opts ...clients.Option) (*Link, error) {
	// A server that was started anew is to be found at once, not after a growing pause.
	pace := grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond},
		MinConnectTimeout: time.Second,
	}
	c, err := clients.Dial(addr, append(opts, clients.WithDialOptions(grpc.WithConnectParams(pace)))...)
	if err != nil {
		return nil, err
	}
	return &Link{name: name, client: c, log: log.With("server", name)}, nil
}

// Close closes the connection of a link that was not run.
func (l *Link) Close() error { return l.client.Close() }

// Up says whether the server is heard.
func (l *Link) Up() bool { return l.up.Load() }

// Config says where a station's verdicts are from: exactly one of Parts, Resident and Folder is set.
type Config struct {
	// Parts is the name of a stream, as its client gave it, whose parts others send.
	Parts string
	// Resident is the name of a frame that the server keeps.
	Resident string
	// Folder has image files that are inspected one after the other, in the order of their names, again and again. The id
	// of a part is the name of its file without the extension.
	Folder string
	Values []Value
}

// Source is a station's source.
type Source struct {
	cfg     Config
	link    *Link
	station *station.Station
	parts   *parts // of line-scan parts

	mu    sync.Mutex
	files []string
	next  int
	first map[station.Recipe]string // the size and format of the first frame that a recipe judged
}

// Add makes a source over the link. Attach it to its station before Run.
func (l *Link) Add(cfg Config) (*Source, error) {
	s := &Source{cfg: cfg, link: l, first: map[station.Recipe]string{}}
	switch {
	case cfg.Parts != "":
		s.parts = newParts()
	case cfg.Folder != "":
		names, err := cli.Frames(cfg.Folder, cli.Pictures, func(text string) { l.log.Warn(text) })
		if err == nil {
			err = cli.CheckPartIDs(names)
		}
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if !station.ValidPartID(cli.PartID(name)) {
				return nil, fmt.Errorf("%s: %q can't be the id of a part", cfg.Folder, cli.PartID(name))
			}
			s.files = append(s.files, filepath.Join(cfg.Folder, name))
		}
	case cfg.Resident == "":
		return nil, errors.New("no source: want parts, resident or folder")
	}
	l.sources = append(l.sources, s)
	return s, nil
}

// Attach says whose source it is.
func (s *Source) Attach(st *station.Station) { s.station = st }

// Run watches the server until ctx ends, and closes the connection.
func (l *Link) Run(ctx context.Context) {
	defer l.client.Close()
	defer l.checks.Wait()
	req := &polyscanv1.WatchRequest{
		Kinds:     []polyscanv1.WatchKind{polyscanv1.WatchKind_WATCH_KIND_DEVICE},
		Heartbeat: durationpb.New(heartbeat),
		Numbers:   polyscanv1.RegionNumbers_REGION_NUMBERS_FAILED,
	}
	for _, s := range l.sources {
		if s.parts == nil {
			continue
		}
		if req.Kinds[0] = polyscanv1.WatchKind_WATCH_KIND_VERDICT; !slices.Contains(req.Names, s.cfg.Parts) {
			req.Names = append(req.Names, s.cfg.Parts)
		}
		if len(s.cfg.Values) > 0 {
			req.Numbers = polyscanv1.RegionNumbers_REGION_NUMBERS_ALL
		}
	}
	for ctx.Err() == nil {
		for u, err := range l.client.Watch(ctx, req, clients.WatchOptions{Silence: silence, Outage: forever}) {
			switch {
			case err != nil:
				l.lost(ctx, err)
			case u.Lost != nil:
				l.lost(ctx, u.Lost)
			default:
				l.message(ctx, u.Message)
			}
		}
		for _, s := range l.sources { // the next watch begins without what happened in between
			s.gap()
		}
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
}

func (l *Link) lost(ctx context.Context, err error) {
	was := l.up.Swap(false)
	for _, s := range l.sources {
		s.station.Link(false)
	}
	if was && ctx.Err() == nil { // or it is the gateway that goes
		l.log.Warn("server lost: parts are rejected until it is back", "error", err)
	} else if e := clients.AsError(err); e != nil && e.Code != codes.Unavailable && e.Code != codes.Canceled {
		l.log.Error("server can't be watched", "error", err)
	}
}

func (l *Link) message(ctx context.Context, m *polyscanv1.WatchResponse) {
	switch {
	case m.GetStarted() != nil:
		// Behind a silence the server is the one that it was, and so are its recipes. One that was deleted meanwhile judges
		// nothing, as verdicts name theirs, so that it can be looked for beside what goes on.
		same := m.GetStarted().GetServerId() == l.server
		l.server = m.GetStarted().GetServerId()
		for _, s := range l.sources {
			l.checks.Go(func() { s.recheck(ctx) })
		}
		if !same {
			l.checks.Wait()
		}
		for _, s := range l.sources {
			s.station.Link(true)
		}
		if !l.up.Swap(true) {
			l.log.Info("server found")
		}
	case m.GetLost() != nil:
		n := m.GetLost().GetUnknown() + m.GetLost().GetKinds()["verdict"]
		if n > 0 || m.GetLost().GetOtherServer() {
			l.log.Warn("verdicts lost", "verdicts", n, "other_server", m.GetLost().GetOtherServer())
			for _, s := range l.sources {
				s.gap()
			}
		}
	case m.GetVerdict() != nil:
		v := m.GetVerdict()
		for _, s := range l.sources {
			if s.parts != nil && s.cfg.Parts == v.GetName() {
				s.parts.verdict(s.judge(v, m))
			}
		}
	}
}

func (s *Source) gap() {
	if s.parts != nil {
		s.parts.gap()
	}
}

// recheck looks for the recipes that are prepared on a server that may be another one now, and prepares the initial one
// where none is.
func (s *Source) recheck(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, recheck)
	defer cancel()
	var slots sync.WaitGroup
	for slot, r := range s.station.Prepared() {
		slots.Go(func() {
			if _, err := s.Prepare(ctx, r); errors.Is(err, station.UnknownRecipe) {
				s.link.log.Warn("the server has a prepared recipe no more", "station", s.station.Config().Name, "recipe", r.Name,
					"version", r.Version)
				s.station.Forget(slot)
			}
		})
	}
	slots.Wait()
	if len(s.station.Prepared()) == 0 {
		s.station.Start(func(r station.CommandResult) {
			if r.Code != station.NoError {
				s.link.log.Error("the initial recipe can't be prepared", "station", s.station.Config().Name,
					"recipe", r.Recipe.Name, "error", r.Code.String())
			}
		})
	}
}

// judge turns what the server shows into an outcome.
func (s *Source) judge(v *polyscanv1.WatchVerdict, m *polyscanv1.WatchResponse) judged {
	o := station.Outcome{
		PartID: v.GetPartId(), Recipe: v.GetRecipe(), RecipeVersion: v.GetRecipeVersion(),
		FailedRegions: int(v.GetFailedRegions()), Values: valuesOf(s.cfg.Values, v.GetResults()),
		Steps: station.Steps{Received: time.Now(), Judged: m.GetAt().AsTime()},
	}
	if v.GetStreamId() != 0 {
		o.Origin = fmt.Sprintf("%s, stream %d, part %d from line %d", v.GetName(), v.GetStreamId(), v.GetPartNumber(), v.GetFirstLine())
	}
	o.FirstFailed, _ = firstFailed(v.GetResults())
	o.Steps.LastLine = o.Steps.Judged.Add(-v.GetLatency().AsDuration())
	if v.GetCapturedAt() != nil {
		o.Steps.Exposed = v.GetCapturedAt().AsTime()
	}
	switch {
	case v.GetError() != nil:
		o.Reason, o.Detail = station.ReasonNoVerdict, v.GetError().GetMessage()
	case v.GetIncomplete():
		o.Reason, o.Detail = station.ReasonIncomplete, fmt.Sprintf("%d lines missing", v.GetMissingLines())
	case v.GetLate():
		o.Reason, o.Detail = station.ReasonLate, fmt.Sprintf("the server took %v", v.GetLatency().AsDuration())
	default:
		o.Reason, o.Detail = reasonOf(v.GetVerdict()), cli.NotFound(v.GetLocation())
	}
	return judged{v.GetStreamId(), v.GetResultNumber(), o}
}

func reasonOf(v polyscanv1.Verdict) station.Reason {
	switch v {
	case polyscanv1.Verdict_VERDICT_PASS:
		return station.ReasonPass
	case polyscanv1.Verdict_VERDICT_FAIL:
		return station.ReasonFail
	}
	return station.ReasonNoVerdict // nothing was judged
}

// Prepare finds a recipe on the server.
func (s *Source) Prepare(ctx context.Context, r station.Recipe) (uint64, error) {
	stored, err := s.link.client.GetRecipe(ctx, r.Name, r.Version)
	if e := clients.AsError(err); e != nil {
		switch e.Code {
		case codes.NotFound:
			return 0, station.UnknownRecipe
		case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
			return 0, station.NoServer
		}
		s.link.log.Error("a recipe can't be read", "recipe", r.Name, "version", r.Version, "error", err)
	}
	if err != nil {
		return 0, err
	}
	for _, v := range s.cfg.Values {
		if !slices.ContainsFunc(stored.GetRegionSet().GetRegions(), func(r *polyscanv1.Region) bool { return r.GetName() == v.region }) {
			s.link.log.Warn("a value has no region in the recipe, and will be NaN", "station", s.station.Config().Name,
				"value", v.text, "recipe", stored.GetName(), "version", stored.GetVersion())
		}
	}
	return stored.GetVersion(), nil
}

// Unprepare does nothing: the server keeps recipes by itself.
func (s *Source) Unprepare(station.Recipe) {}

// Reset forgets the order of parts.
func (s *Source) Reset() {
	if s.parts != nil {
		s.parts.reset()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = 0
}

// Skipped counts a trigger that is not inspected.
func (s *Source) Skipped(id uint32, accepted bool) {
	if s.parts != nil {
		s.parts.skipped(id, accepted)
	}
}

// Inspect begins a job.
func (s *Source) Inspect(j *station.Job) {
	if s.parts != nil {
		s.parts.inspect(j)
		return
	}
	go func() { j.Answer(s.reduce(j)) }()
}

// reduce inspects a frame.
func (s *Source) reduce(j *station.Job) (o station.Outcome) {
	frame, id, err := s.frame(j.PartID)
	if err != nil {
		return station.Outcome{Reason: station.ReasonOtherPart, Detail: err.Error()}
	}
	frame.PartId = id
	in := clients.UseRecipe(j.Recipe.Name, j.Recipe.Version)
	in.Name = s.station.Config().Name
	sent := time.Now()
	res, err := s.link.client.Reduce(j.Context(), in, frame)
	if err != nil {
		o = station.Outcome{Reason: station.ReasonNoVerdict, Detail: err.Error()}
		if e := clients.AsError(err); e != nil && e.Code == codes.Unavailable {
			o.Reason = station.ReasonServerLost
		} else if e != nil && e.Code == codes.NotFound {
			o.Reason = station.ReasonNoRecipe
		}
		return o
	}
	o = station.Outcome{
		Reason: reasonOf(res.GetVerdict()), PartID: res.GetPartId(), Recipe: j.Recipe.Name, RecipeVersion: j.Recipe.Version,
		Values: valuesOf(s.cfg.Values, res.GetRegions()), Steps: station.Steps{LastLine: sent, Received: time.Now()},
	}
	o.FirstFailed, o.FailedRegions = firstFailed(res.GetRegions())
	o.Detail = cli.NotFound(res.GetLocation())
	if text := s.other(j.Recipe, res.GetLayout()); text != "" {
		o.Reason, o.Detail = station.ReasonNoVerdict, text
	}
	return o
}

// other says that a frame is of another size or format than the first that the recipe judged: its regions, drawn for
// that one, look at other pixels of this.
func (s *Source) other(r station.Recipe, l *polyscanv1.FrameLayout) string {
	r.Slot = 0
	is := fmt.Sprintf("%dx%d %s", l.GetWidth(), l.GetHeight(),
		strings.TrimPrefix(l.GetPixelFormat().String(), "PIXEL_FORMAT_"))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first[r] == "" {
		s.first[r] = is
	}
	if s.first[r] == is {
		return ""
	}
	return fmt.Sprintf("the picture is %s, and the first one that recipe %s@%d judged was %s", is, r.Name, r.Version,
		s.first[r])
}

// frame is the one that a trigger asks for, and the id of its part.
func (s *Source) frame(part string) (*polyscanv1.Frame, string, error) {
	if s.cfg.Resident != "" {
		return clients.Resident(s.cfg.Resident), part, nil
	}
	s.mu.Lock()
	i := s.next
	if part != "" {
		i = slices.IndexFunc(s.files, func(f string) bool { return cli.PartID(f) == part })
	} else {
		s.next = (s.next + 1) % len(s.files)
	}
	s.mu.Unlock()
	if i < 0 {
		return nil, "", fmt.Errorf("no file %s in %s", part, s.cfg.Folder)
	}
	data, err := os.ReadFile(s.files[i])
	if err != nil {
		return nil, "", err
	}
	return clients.Encoded(data), cli.PartID(s.files[i]), nil
}
