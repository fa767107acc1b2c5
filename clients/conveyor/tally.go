package main

// What a run has seen, as it goes on and at its end.

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/polyscan/polyscan/clients"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// The range of latencies that are told apart, with three digits; what is beyond counts as the end.
const (
	shortestLatency = time.Microsecond
	longestLatency  = time.Minute
	latencyDigits   = 3
)

// latencies is a histogram of durations.
type latencies struct{ h *hdrhistogram.Histogram }

func newLatencies() latencies {
	return latencies{hdrhistogram.New(int64(shortestLatency/time.Microsecond), int64(longestLatency/time.Microsecond),
		latencyDigits)}
}

func (l latencies) record(d time.Duration) {
	// It can't fail: the value is within the range.
	_ = l.h.RecordValue(min(max(d, shortestLatency), longestLatency).Microseconds())
}

// quantiles are what is reported of a histogram, in milliseconds.
type quantiles struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P99   float64 `json:"p99_ms"`
	P999  float64 `json:"p99_9_ms"`
	Max   float64 `json:"max_ms"`
}

func (l latencies) quantiles() quantiles {
	ms := func(us int64) float64 { return float64(us) / 1e3 }
	q := quantiles{Count: l.h.TotalCount()}
	if q.Count > 0 {
		q.P50, q.P90, q.P99 = ms(l.h.ValueAtQuantile(50)), ms(l.h.ValueAtQuantile(90)), ms(l.h.ValueAtQuantile(99))
		q.P999, q.Max = ms(l.h.ValueAtQuantile(99.9)), ms(l.h.Max())
	}
	return q
}

// phase is a part of a run whose latencies are told apart.
type phase int

const (
	phaseIdle phase = iota
	phaseLoaded
	phases
)

// point is a moment of the run's history.
type point struct {
	Seconds  float64 `json:"seconds"`
	LineRate float64 `json:"lines_per_second"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	Max      float64 `json:"max_ms"`
	Late     int64   `json:"late"`
}

// verdictCounts are results by verdict.
type verdictCounts struct {
	Pass       int64 `json:"pass"`
	Fail       int64 `json:"fail"`
	None       int64 `json:"none"`
	Incomplete int64 `json:"incomplete"` // whatever their verdict
}

// counters are everything that is counted.
type counters struct {
	Strips   int64         `json:"strips"`
	Lines    int64         `json:"lines"`
	Bytes    int64         `json:"bytes"`
	HeldUp   int64         `json:"held_up_strips"` // handed over more than a strip's time late
	Parts    int64         `json:"parts"`
	Verdicts verdictCounts `json:"verdicts"`

	Late         int64 `json:"late"`           // by the server's own account
	LateAtCamera int64 `json:"late_at_camera"` // from the strip's being due to the result's arrival
	LateEither   int64 `json:"late_by_either"` // of the two
	LateSilently int64 `json:"late_silently"`  // took longer than the budget, and not marked
	Disturbed    int64 `json:"disturbed"`      // results soon after a fault

	Events     map[string]int64 `json:"events"`
	Faults     map[string]int64 `json:"faults"`
	Reconnects int64            `json:"reconnects"`
	Outage     time.Duration    `json:"-"` // the longest
	Resent     int64            `json:"resent_strips"`
	Repeated   int64            `json:"repeated_results"`
}

// tally collects what all cameras see. Its methods may be called from several goroutines.
type tally struct {
	budget time.Duration

	mu      sync.Mutex
	counts  counters
	all     latencies
	calm    latencies // of results that no fault disturbed
	phase   phase
	phases  [phases]latencies
	stages  [4]latencies // queue, compute, send, latency: the server's own account
	slips   latencies    // of cameras that woke up late by themselves
	last    latencies    // since the last point
	lastAt  time.Time
	lastSum counters
	start   time.Time
	history []point
}

var stageNames = [4]string{"queue", "compute", "send", "server"}

func newTally(budget time.Duration, now time.Time) *tally {
	t := &tally{budget: budget, all: newLatencies(), calm: newLatencies(), last: newLatencies(), slips: newLatencies(),
		lastAt: now, start: now}
	t.counts.Events, t.counts.Faults = map[string]int64{}, map[string]int64{}
	for i := range t.phases {
		t.phases[i] = newLatencies()
	}
	for i := range t.stages {
		t.stages[i] = newLatencies()
	}
	return t
}

func (t *tally) setPhase(p phase) {
	t.mu.Lock()
	t.phase = p
	t.mu.Unlock()
}

// strip counts a strip that was handed over, and by how much its camera's clock had slipped.
func (t *tally) strip(lines, bytes int, heldUp bool, slip time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slip > 0 {
		t.slips.record(slip)
	}
	t.counts.Strips++
	t.counts.Lines += int64(lines)
	t.counts.Bytes += int64(bytes)
	if heldUp {
		t.counts.HeldUp++
	}
}

// part counts a result; latency is 0 where it means nothing.
func (t *tally) part(p *polyscanv1.PartResult, latency time.Duration, disturbed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := &t.counts
	c.Parts++
	switch p.GetVerdict() {
	case polyscanv1.Verdict_VERDICT_PASS:
		c.Verdicts.Pass++
	case polyscanv1.Verdict_VERDICT_FAIL:
		c.Verdicts.Fail++
	default:
		c.Verdicts.None++
	}
	if p.GetIncomplete() {
		c.Verdicts.Incomplete++
	}
	server := p.GetTimes().GetLatency().AsDuration()
	atCamera := latency > t.budget
	if atCamera {
		c.LateAtCamera++
	}
	if p.GetLate() || atCamera {
		c.LateEither++
	}
	if p.GetLate() {
		c.Late++
	} else if server > t.budget {
		c.LateSilently++
	}
	if disturbed {
		c.Disturbed++
	}
	if latency <= 0 {
		return
	}
	t.all.record(latency)
	t.last.record(latency)
	t.phases[t.phase].record(latency)
	if !disturbed {
		t.calm.record(latency)
	}
	times := p.GetTimes()
	for i, d := range []time.Duration{times.GetQueue().AsDuration(), times.GetCompute().AsDuration(),
		times.GetSend().AsDuration(), server} {
		t.stages[i].record(d)
	}
}

func (t *tally) event(e *polyscanv1.ScanEvent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.Events[eventName(e.GetKind())]++
}

func (t *tally) fault(k faultKind) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.Faults[string(k)]++
}

func (t *tally) reconnected(r *clients.Reconnected) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.Reconnects++
	t.counts.Resent += int64(r.Resent)
	t.counts.Outage = max(t.counts.Outage, r.Outage)
}

func (t *tally) repeated(n uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.Repeated += int64(n)
}

// mark ends an interval of the history and returns it.
func (t *tally) mark(now time.Time) point {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := point{Seconds: now.Sub(t.start).Seconds(), Late: t.counts.LateEither - t.lastSum.LateEither}
	if d := now.Sub(t.lastAt).Seconds(); d > 0 {
		p.LineRate = float64(t.counts.Lines-t.lastSum.Lines) / d
	}
	if q := t.last.quantiles(); q.Count > 0 {
		p.P50, p.P99, p.Max = q.P50, q.P99, q.Max
	}
	t.history = append(t.history, p)
	t.last.h.Reset()
	t.lastAt, t.lastSum = now, t.counts
	return p
}

// snapshot returns a copy of the counters, and the quantiles of all latencies.
func (t *tally) snapshot() (counters, quantiles) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts.clone(), t.all.quantiles()
}

func (c counters) clone() counters {
	events, faults := c.Events, c.Faults
	c.Events, c.Faults = map[string]int64{}, map[string]int64{}
	for k, v := range events {
		c.Events[k] = v
	}
	for k, v := range faults {
		c.Faults[k] = v
	}
	return c
}
