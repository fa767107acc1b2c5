package main

// One run: cameras against a server, for a while.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/polyscan/polyscan/clients"
)

// load is what to run.
type load struct {
	target   *target
	scene    *scene
	cameras  int
	profile  profile
	duration time.Duration // 0: until the belt ends or ctx does
	faults   []fault
	seed     uint64
	shared   bool
	buffer   int // strips that each camera holds; 0: the library's default
	verify   bool
	batch    int // jobs beside the cameras in the second half
	pid      int // whose memory to watch, or
	metrics  string
	barrier  io.Writer // gets the id of each part that has passed; nil: nobody is told

	clock clock
	// watch is called every so often with how it goes, for people; nil for no one.
	watch func(point, progress)
	// interval of the history.
	interval time.Duration
}

// progress is the state of all cameras together.
type progress struct {
	counts    counters
	latency   quantiles
	queued    int64 // strips that the cameras hold
	room      int64 // and that they could hold besides
	credit    int64 // lines that may be sent
	elapsed   time.Duration
	remaining time.Duration // 0: unknown
}

// outcome is what a run came to.
type outcome struct {
	counts   counters
	elapsed  time.Duration
	latency  quantiles
	calm     quantiles
	slips    quantiles
	phases   [phases]quantiles
	stages   [4]quantiles
	spectrum []spectrumPoint
	history  []point
	checked  int
	partial  int
	wrong    int
	lost     int
	dropped  int // parts
	problems []string
	failures []error // of cameras: sessions that ended
	batch    *batchReport
	memory   *memoryReport
	warnings []string
}

// gone is the first failure of a server that doesn't answer any more.
func (o *outcome) gone() error {
	for _, err := range o.failures {
		e := clients.AsError(err)
		if errors.Is(err, clients.ErrStalled) || e != nil && e.Code == codes.Unavailable {
			return err
		}
	}
	return nil
}

// spectrumPoint is a percentile, of a plot.
type spectrumPoint struct {
	Percentile float64 `json:"percentile"`
	Latency    float64 `json:"ms"`
}

// run plays and waits for the end. Its error is of what could not be begun; what went wrong later is in the outcome.
func (l *load) run(ctx context.Context) (*outcome, error) {
	// The oracle is shared: what it remembers holds for all cameras.
	var shared *oracle
	if l.verify {
		var err error
		if shared, err = newOracle(l.scene.belt, l.scene.partLines, l.scene.regions); err != nil {
			return nil, usage("--verify: %v", err)
		}
		shared.prepare()
	}
	start := l.clock.Now()
	t := newTally(l.scene.budget, start)
	cams := make([]*camera, l.cameras)
	for i := range cams {
		cams[i] = &camera{
			id: i, scene: l.scene, load: l, tally: t,
			plan:    faultPlan{l.faults, l.seed, uint64(i)},
			pacer:   &pacer{clock: l.clock, profile: l.profile, lines: l.scene.stripLines},
			checker: newChecker(shared, uint64(l.scene.every), l.scene.partLines),
		}
		cams[i].checker.camera = i
	}

	interrupted := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// An interrupt stops the cameras, and their last results still come.
	session, endSessions := context.WithCancel(context.WithoutCancel(ctx))
	defer endSessions()

	out := &outcome{}
	var beside sync.WaitGroup
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	memory := &memoryWatch{}
	if l.pid != 0 || l.metrics != "" {
		beside.Go(func() { memory.run(watching, l.warmUp(), l.pid, l.metrics) })
	}
	beside.Go(func() { l.report(watching, t, cams, start) })
	var batchErr error
	if l.batch > 0 {
		beside.Go(func() {
			select {
			case <-time.After(l.duration / 2):
			case <-watching.Done():
				return
			}
			t.setPhase(phaseLoaded)
			out.batch, batchErr = runBatch(watching, l.target, l.batch, l.seed)
		})
	}

	errs := make([]error, len(cams))
	var playing sync.WaitGroup
	for i, c := range cams {
		playing.Go(func() { errs[i] = c.run(session, ctx, l.duration) })
	}
	playing.Wait()
	out.elapsed = l.clock.Now().Sub(start)
	if interrupted.Err() != nil && out.elapsed < l.duration {
		out.warnings = append(out.warnings, fmt.Sprintf("the run was interrupted after %v of %v",
			out.elapsed.Round(100*time.Millisecond), l.duration))
	}
	if l.pid != 0 || l.metrics != "" {
		memory.sample(context.WithoutCancel(ctx), l.pid, l.metrics)
		if memory.err != nil {
			out.warnings = append(out.warnings, fmt.Sprintf("the server's memory: %v", memory.err))
		} else {
			out.memory = &memory.report
		}
	}
	stopWatching()
	beside.Wait()
	t.mark(l.clock.Now())

	for i, c := range cams {
		if errs[i] != nil {
			out.failures = append(out.failures, errs[i])
		}
		c.mu.Lock()
		out.lost += c.checker.finish()
		out.dropped += c.checker.dropped
		out.checked += c.checker.checked
		out.partial += c.checker.partial
		out.wrong += c.checker.wrong
		for _, p := range c.checker.problems {
			if len(out.problems) < maxProblems {
				out.problems = append(out.problems, fmt.Sprintf("camera %d: %s", i, p))
			}
		}
		c.mu.Unlock()
	}
	if batchErr != nil {
		out.failures = append(out.failures, batchErr)
	}
	out.counts, out.latency = t.snapshot()
	out.calm, out.slips = t.calm.quantiles(), t.slips.quantiles()
	for i := range out.phases {
		out.phases[i] = t.phases[i].quantiles()
	}
	for i := range out.stages {
		out.stages[i] = t.stages[i].quantiles()
	}
	out.history = t.history
	out.spectrum = t.all.spectrum()
	if out.counts.Strips == 0 && len(out.failures) > 0 {
		return nil, errors.Join(out.failures...)
	}
	return out, nil
}

// warmUp is how long the server's memory may grow without being watched.
func (l *load) warmUp() time.Duration {
	if l.duration == 0 {
		return 10 * time.Second
	}
	return min(l.duration/10, time.Minute)
}

// report marks the history, and tells whoever watches.
func (l *load) report(ctx context.Context, t *tally, cams []*camera, start time.Time) {
	tick := time.NewTicker(l.interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := l.clock.Now()
		p := t.mark(now)
		if l.watch == nil {
			continue
		}
		var g progress
		g.counts, g.latency = t.snapshot()
		g.elapsed = now.Sub(start)
		if l.duration > 0 {
			g.remaining = max(l.duration-g.elapsed, 0)
		}
		for _, c := range cams {
			c.mu.Lock()
			s := c.scan
			c.mu.Unlock()
			if s == nil {
				continue
			}
			st := s.Stats()
			g.queued += int64(st.Handed - st.Acked)
			g.room += int64(st.Room)
			g.credit += max(st.Credit, 0)
		}
		l.watch(p, g)
	}
}

// spectrum is the percentiles of a plot: the closer to the end, the closer to each other.
func (l latencies) spectrum() []spectrumPoint {
	if l.h.TotalCount() == 0 {
		return nil
	}
	var out []spectrumPoint
	for _, b := range l.h.CumulativeDistribution() {
		if b.Count > 0 {
			out = append(out, spectrumPoint{b.Quantile, float64(b.ValueAt) / 1e3})
		}
	}
	return out
}
