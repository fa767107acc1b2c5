package main

// What is told of a stream: a row for each part, a live line, the summary and metrics.

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/polyscan/polyscan/clients/camera/internal/gvsp"
	"github.com/polyscan/polyscan/clients/internal/cli"
)

// verdicts in the order of reports.
var verdicts = []string{"PASS", "FAIL", verdictNone, verdictLate, verdictIncomplete, verdictMissing}

// tally counts what parts came to.
type tally struct {
	s     *stream
	e     *env
	start time.Time
	tty   bool // stderr is a terminal that can be written over
	// prefix is before what is said of one stream among several; "" of one alone.
	prefix string

	mu      sync.Mutex
	name    string // "" before the source was found
	counts  map[string]uint64
	parts   uint64
	late    uint64
	latency [4096]time.Duration // of the last parts
	timed   uint64
	drawn   bool // the live line stands on the screen; s.say is held
	headed  bool // the table has its head; s.say is held
	seconds *prometheus.HistogramVec
}

func newSeconds() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "camera_verdict_seconds", Help: "From a part's last packet to its result.",
		Buckets: []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1},
	}, []string{"camera"})
}

func newTally(s *stream, e *env, seconds *prometheus.HistogramVec) *tally {
	return &tally{s: s, e: e, start: time.Now(), tty: cli.IsTerminal(e.stderr), counts: map[string]uint64{},
		seconds: seconds}
}

// begin says that the source was found.
func (t *tally) begin(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.name == "" {
		t.start = time.Now()
	}
	t.name = name
}

// tableHead is above the rows.
var tableHead = fmt.Sprintf("%-20s  %-10s  %8s  %8s  %s", "PART", "VERDICT", "MS", "BLOCK", "WHY")

// row is a part as JSON.
type row struct {
	Part         string  `json:"part"`
	Number       uint64  `json:"number"`
	Verdict      string  `json:"verdict"`
	LatencyMS    float64 `json:"latency_ms"` // 0: no result
	Block        uint64  `json:"block"`      // id of the camera's block with its first line
	MissingLines int     `json:"missing_lines"`
	Late         bool    `json:"late"`
	Resent       int     `json:"resent,omitempty"` // packets of blocks that begin it that came again
	// What the camera said of the block with its first line, such as counters.
	Data map[string]string `json:"data,omitempty"`
	Why  string            `json:"why,omitempty"`
}

// lateTime is the latency above which a part is marked as late where no --budget was given, as the server has it.
const lateTime = 5 * time.Millisecond

// add takes an outcome. It returns false when enough have come.
func (t *tally) add(o outcome) bool {
	t.mu.Lock()
	if c := t.s.Count; c > 0 && t.parts >= c { // those that were on their way
		t.mu.Unlock()
		return false
	}
	late := o.result.GetLate() || o.latency > lateTime
	if b := t.s.Budget; b != nil {
		late = o.result.GetLate() || o.latency > *b
	}
	if b := t.s.Budget; b != nil && late {
		took := max(o.latency, o.result.GetTimes().GetLatency().AsDuration())
		why := fmt.Sprintf("late: it took %v, --budget allows %v", took.Round(time.Microsecond), *b)
		if o.reason != "" {
			why = o.reason + "; " + why
		}
		if o.reason = why; o.verdict == "PASS" {
			o.verdict = verdictLate
		}
	}
	t.parts++
	t.counts[o.verdict]++
	if late {
		t.late++
	}
	if o.latency > 0 {
		t.latency[t.timed%uint64(len(t.latency))] = o.latency
		t.timed++
		t.seconds.WithLabelValues(t.name).Observe(o.latency.Seconds())
	}
	more := t.s.Count == 0 || t.parts < t.s.Count
	t.mu.Unlock()
	if t.s.Quiet {
		return more
	}
	r := row{Part: o.id, Number: o.number, Verdict: o.verdict, Block: o.block, MissingLines: o.lost,
		LatencyMS: float64(o.latency.Microseconds()) / 1000, Late: late, Resent: o.resent, Why: o.reason}
	for _, d := range o.data {
		if r.Data == nil {
			r.Data = map[string]string{}
		}
		r.Data[d.Name] = d.Value
	}
	t.s.say.Lock()
	defer t.s.say.Unlock()
	t.clearLine()
	if t.s.JSON {
		_ = json.NewEncoder(t.e.stdout).Encode(r) // cli.WithOutput knows of errors
		return more
	}
	if !t.headed {
		t.headed = true
		fmt.Fprintln(t.e.stdout, tableHead)
	}
	why := r.Why
	if r.MissingLines > 0 {
		why = strings.TrimSuffix(fmt.Sprintf("%d of %d lines did not come: %s", r.MissingLines, t.s.lay.partLines, why),
			": ")
	}
	if late && t.s.Budget == nil {
		why = strings.TrimPrefix(fmt.Sprintf("%s; late: longer than %v", why, lateTime), "; ")
	}
	ms := "-"
	if o.latency > 0 {
		ms = fmt.Sprintf("%.2f", r.LatencyMS)
	}
	line := fmt.Sprintf("%-20s  %-10s  %8s  %8d  %s", r.Part, r.Verdict, ms, r.Block, cli.OneLine(why))
	fmt.Fprintln(t.e.stdout, strings.TrimRight(line, " "))
	return more
}

// full reports whether as many parts have come as were asked for.
func (t *tally) full() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.s.Count > 0 && t.parts >= t.s.Count
}

// clearLine takes the live line off the screen. s.say is held.
func (t *tally) clearLine() {
	if t != nil && t.drawn {
		fmt.Fprint(t.e.stderr, "\r\x1b[2K")
		t.drawn = false
	}
}

// Times between live lines, on a terminal and elsewhere.
const (
	drawEvery = 500 * time.Millisecond
	logEvery  = 10 * time.Second
)

// live shows how it goes until the context ends.
func (t *tally) live(ctx context.Context) (done chan struct{}) {
	done = make(chan struct{})
	every := logEvery
	if t.tty {
		every = drawEvery
	}
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		at := time.Now()
		before, _, _ := t.s.stats()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				t.s.say.Lock()
				t.clearLine()
				t.s.say.Unlock()
				return
			}
			now, _, _ := t.s.stats()
			elapsed := time.Since(at).Seconds()
			blocks := now.Whole + now.Incomplete + now.Lost - before.Whole - before.Incomplete - before.Lost
			text := fmt.Sprintf("%.1f MB/s, %.1f blocks/s, %s; %s; %s",
				float64(now.Bytes-before.Bytes)/elapsed/1e6, float64(blocks)/elapsed, t.verdictText(), t.latencyText(),
				lossText(now))
			before, at = now, time.Now()
			t.s.say.Lock()
			if t.tty {
				t.clearLine()
				fmt.Fprint(t.e.stderr, text)
				t.drawn = true
			} else {
				fmt.Fprintf(t.e.stderr, "camera: %s%s\n", t.prefix, text)
			}
			t.s.say.Unlock()
		}
	}()
	return done
}

func (t *tally) verdictText() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []string
	for _, v := range verdicts {
		if n := t.counts[v]; n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, v))
		}
	}
	if len(out) == 0 {
		return "no parts"
	}
	return strings.Join(out, ", ")
}

// latencyText is of the last parts.
func (t *tally) latencyText() string {
	t.mu.Lock()
	l := slices.Clone(t.latency[:min(t.timed, uint64(len(t.latency)))])
	t.mu.Unlock()
	if len(l) == 0 {
		return "no latency"
	}
	slices.Sort(l)
	at := func(q float64) float64 { return l[int(q*float64(len(l)-1))].Seconds() * 1000 }
	return fmt.Sprintf("last packet to verdict p50 %.2f, p99 %.2f, max %.2f ms", at(0.5), at(0.99), at(1))
}

// happening is something that happened to packets, in words and as a label of metrics.
type happening struct {
	text, label string
	value       uint64
}

func happenings(s gvsp.Stats) []happening {
	return []happening{
		{"packets resent", "resent", s.Resent}, {"packets lost", "lost", s.LostPackets},
		{"lines lost", "lost_lines", s.LostLines}, {"blocks incomplete", "incomplete_blocks", s.Incomplete},
		{"blocks lost", "lost_blocks", s.Lost}, {"requests", "requests", s.Requests},
		{"packets refused", "refused", s.Refused}, {"reordered", "reordered", s.Reordered},
		{"duplicate", "duplicate", s.Duplicate}, {"late", "late", s.Late}, {"malformed", "malformed", s.Malformed},
		{"from elsewhere", "foreign", s.Foreign}, {"jumps of the count", "jumps", s.Jumps},
		{"blocks without room", "no_room", s.NoRoom}, {"dropped by the kernel", "kernel_dropped", s.KernelDropped},
	}
}

func lossText(s gvsp.Stats) string {
	var out []string
	for _, n := range happenings(s) {
		if n.value > 0 {
			out = append(out, fmt.Sprintf("%d %s", n.value, n.text))
		}
	}
	if len(out) == 0 {
		return "no packet lost"
	}
	return strings.Join(out, ", ")
}

// summary says what it all came to. The error is one of a run that wasn't good.
func (t *tally) summary(w io.Writer) error {
	st, _, _ := t.s.stats()
	t.mu.Lock()
	parts, late, none := t.parts, t.late, t.counts[verdictNone]
	bad := t.counts["FAIL"] + t.counts[verdictIncomplete] + t.counts[verdictMissing]
	t.mu.Unlock()
	if !t.s.JSON {
		elapsed := time.Since(t.start).Seconds()
		fmt.Fprintf(w, "\n%d parts in %.1f s: %s, %d late\n", parts, elapsed, t.verdictText(), late)
		fmt.Fprintf(w, "%d packets, %.1f MB/s; %s\n", st.Packets, float64(st.Bytes)/elapsed/1e6, lossText(st))
		fmt.Fprintf(w, "%s\n", t.latencyText())
	}
	if none > 0 {
		fmt.Fprintf(t.e.stderr, "camera: %s%d of %d parts got no verdict: no region has limits\n", t.prefix, none, parts)
	}
	if b := t.s.Budget; b != nil && late > 0 {
		bad += late
		fmt.Fprintf(t.e.stderr, "camera: %s%d of %d parts were late: --budget allows %v\n", t.prefix, late, parts, *b)
	}
	if want := t.s.Count; parts > 0 && parts < want {
		bad++
		fmt.Fprintf(t.e.stderr, "camera: %s%d of %d parts came\n", t.prefix, parts, want)
	}
	switch {
	case parts == 0:
		fmt.Fprintf(t.e.stderr, "camera: %sno part came\n", t.prefix)
		return errVoid
	case bad > 0:
		return errFailed
	case none > 0:
		return errVoid
	}
	return nil
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("camera_"+name, help, append([]string{"camera"}, labels...), nil)
}

var (
	descUp      = desc("up", "1 while the camera is connected.")
	descParts   = desc("parts_total", "Parts by their verdict.", "verdict")
	descBlocks  = desc("blocks_total", "Frames or blocks of lines: whole, incomplete or lost.", "outcome")
	descPackets = desc("packets_total", "Packets that were taken in.")
	descBytes   = desc("bytes_total", "Bytes of these packets.")
	descLoss    = desc("packet_events_total", "Packets, lines and blocks by what happened to them.", "event")
	descEvents  = desc("events_total", "Events that the camera told of.", "event")
	descLinks   = desc("connections_total", "Connections to the camera.")
)

// collector has the metrics of streams.
type collector []*stream

// Describe implements prometheus.Collector: which streams there are isn't known before.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	for _, s := range c {
		s.tally.collect(ch)
	}
	if len(c) > 0 {
		c[0].tally.seconds.Collect(ch) // which they share
	}
}

func (t *tally) collect(ch chan<- prometheus.Metric) {
	t.mu.Lock()
	name := t.name
	t.mu.Unlock()
	if name == "" {
		return
	}
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, append([]string{name}, labels...)...)
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		send(d, prometheus.CounterValue, float64(v), labels...)
	}
	st, connected, links := t.s.stats()
	up := 0.0
	if connected {
		up = 1
	}
	send(descUp, prometheus.GaugeValue, up)
	counter(descLinks, uint64(links))
	t.mu.Lock()
	for _, v := range verdicts {
		counter(descParts, t.counts[v], v)
	}
	t.mu.Unlock()
	counter(descBlocks, st.Whole, "whole")
	counter(descBlocks, st.Incomplete, "incomplete")
	counter(descBlocks, st.Lost, "lost")
	counter(descPackets, st.Packets)
	counter(descBytes, st.Bytes)
	for _, n := range happenings(st) {
		counter(descLoss, n.value, n.label)
	}
	for event, n := range t.s.happened() {
		counter(descEvents, n, event)
	}
}

func handler(streams []*stream) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector(streams))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	return mux
}
