package main

// The report at the end of a run: to read, and as JSON.

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/polyscan/polyscan/clients/internal/cli"
)

// report is what --json writes. Latencies are in milliseconds, from the moment a strip was in the camera's memory to
// the arrival of the result that needed its last line.
type report struct {
	Version string      `json:"version"`
	Started string      `json:"started"`
	Server  serverInfo  `json:"server"`
	Setup   setupInfo   `json:"setup"`
	Outcome string      `json:"outcome"` // of the run: good, bad or void; verdicts are of parts
	Reasons []string    `json:"reasons"` // why it isn't good
	Seconds float64     `json:"seconds"`
	Rates   rateInfo    `json:"rates"`
	Counts  counters    `json:"counts"`
	Latency latencyInfo `json:"latency"`

	Outage   float64         `json:"longest_outage_ms"`
	Check    checkInfo       `json:"check"`
	Load     *loadedInfo     `json:"load,omitempty"`
	Memory   *memoryReport   `json:"server_memory,omitempty"`
	Capacity *capacityReport `json:"capacity,omitempty"`
	Warnings []string        `json:"warnings"`
	History  []point         `json:"history"`
	Spectrum []spectrumPoint `json:"spectrum"`

	gone error // of the server, or of the way to it
}

type serverInfo struct {
	Address string `json:"address"`
	Backend string `json:"backend"`
	Device  string `json:"device"`
}

type setupInfo struct {
	Cameras    int      `json:"cameras"`
	Width      int      `json:"width"`
	StripLines int      `json:"strip_lines"`
	PartLines  int      `json:"part_lines"`
	Every      int      `json:"every_lines"` // 0: parts are marked
	Regions    int      `json:"regions"`
	Format     string   `json:"format"`
	Rate       string   `json:"rate"`
	Transport  string   `json:"transport"`
	Budget     float64  `json:"budget_ms"`
	Seed       uint64   `json:"seed"`
	Faults     []string `json:"faults"`
}

type rateInfo struct {
	Lines float64 `json:"lines_per_second"` // of all cameras
	Bytes float64 `json:"bytes_per_second"`
	Parts float64 `json:"parts_per_second"`
	// LeastLines is what --min-rate asks for, of each camera; 0: nothing.
	LeastLines float64 `json:"min_lines_per_second_per_camera"`
}

type latencyInfo struct {
	All   quantiles            `json:"all"`
	Calm  *quantiles           `json:"undisturbed,omitempty"` // with faults
	Stage map[string]quantiles `json:"server_stages"`
	// Pacing is by how much cameras that slept until a strip was due woke up late. It is not in the other figures.
	Pacing quantiles `json:"pacing"`
}

type checkInfo struct {
	Verified bool     `json:"verified"`
	Checked  int      `json:"checked"`
	Partial  int      `json:"incomplete_as_expected"`
	Wrong    int      `json:"problems"`
	Lost     int      `json:"lost_results"`
	Dropped  int      `json:"dropped_parts"` // that have no result, since a fault dropped what begins them, or all of them
	Problems []string `json:"first_problems"`
}

type loadedInfo struct {
	Idle   quantiles   `json:"idle"`
	Loaded quantiles   `json:"loaded"`
	Ratio  float64     `json:"p99_ratio"`
	Batch  batchReport `json:"batch"`
}

// The outcomes of a run. They have other names than the verdicts of its parts.
const (
	runGood = "good"
	runBad  = "bad"
	runVoid = "void"
)

// demands are what a run has to keep to.
type demands struct {
	minRate   float64       // lines a second of each camera; 0: none
	maxP99    time.Duration // of the latency at the camera; 0: none
	maxLate   *float64      // share of parts that are late by either clock; nil: any
	maxHeldUp float64       // share of strips
}

// judge decides what a run was worth. What failed failed, however fast it was; what was too slow, or was not checked,
// proves nothing.
func (r *report) judge(l *load, o *outcome, want demands) {
	var failed, void []string
	share := func(n, of int64) float64 { return float64(n) / float64(max(of, 1)) }
	percent := func(v float64) string { return fmt.Sprintf("%.3g %%", 100*v) }
	if p99 := o.latency.P99; want.maxP99 > 0 && p99 > ms(want.maxP99) {
		failed = append(failed, fmt.Sprintf("the p99 of the latency is %s ms: --max-p99 allows %s ms", short(p99),
			short(ms(want.maxP99))))
	}
	if want.maxP99 > 0 && o.latency.Count == 0 {
		failed = append(failed, "no latency was measured, and --max-p99 is about it")
	}
	if late := share(o.counts.LateEither, o.counts.Parts); want.maxLate != nil && late > *want.maxLate {
		failed = append(failed, fmt.Sprintf("%s of %s were late (%s): --max-late allows %s",
			thousands(o.counts.LateEither), count(int(o.counts.Parts), "part"), percent(late), percent(*want.maxLate)))
	}
	if held := share(o.counts.HeldUp, o.counts.Strips); held > want.maxHeldUp {
		failed = append(failed, fmt.Sprintf("the cameras were held up at %s of %s (%s): --max-held-up allows %s",
			thousands(o.counts.HeldUp), count(int(o.counts.Strips), "strip"), percent(held), percent(want.maxHeldUp)))
	}
	if o.wrong > 0 {
		failed = append(failed, fmt.Sprintf("%s, of which %d lost", count(o.wrong, "wrong or missing result"), o.lost))
	}
	for _, err := range o.failures {
		failed = append(failed, cli.OneLine(err.Error()))
	}
	if n := o.counts.LateSilently; n > 0 {
		failed = append(failed,
			fmt.Sprintf("%s took longer than the budget without being marked late", count(int(n), "result")))
	}
	perCamera := 0.0
	if o.elapsed > 0 {
		perCamera = float64(o.counts.Lines) / o.elapsed.Seconds() / float64(max(l.cameras, 1))
	}
	if want.minRate > 0 && perCamera < want.minRate {
		void = append(void, fmt.Sprintf("%.0f lines/s of each camera: under the minimum rate of %.0f", perCamera,
			want.minRate))
	}
	if o.counts.Parts == 0 {
		void = append(void, "no part was inspected")
	} else if o.counts.Parts == o.counts.Verdicts.Incomplete {
		void = append(void, "no part came whole")
	} else if o.counts.Parts == o.counts.Verdicts.None {
		void = append(void, "no region has limits, so that no part has a verdict")
	} else if l.verify && o.checked == 0 {
		void = append(void, "no result was checked")
	}
	r.Outcome, r.Reasons = runGood, []string{}
	switch {
	case len(failed) > 0:
		r.Outcome, r.Reasons = runBad, append(failed, void...)
	case len(void) > 0:
		r.Outcome, r.Reasons = runVoid, void
	}
}

// newReport puts together what --json says.
func newReport(l *load, o *outcome, want demands) *report {
	s := l.scene
	r := &report{
		Setup: setupInfo{
			Cameras: l.cameras, Width: s.belt.width, StripLines: s.stripLines, PartLines: s.partLines, Every: s.every,
			Regions: len(s.regions),
			Format:  strings.ToLower(strings.TrimPrefix(s.belt.format.String(), "PIXEL_FORMAT_")),
			Rate:    l.profile.String(), Budget: ms(s.budget), Seed: l.seed, Faults: []string{},
		},
		Seconds:  o.elapsed.Seconds(),
		Counts:   o.counts,
		Latency:  latencyInfo{All: o.latency, Pacing: o.slips, Stage: map[string]quantiles{}},
		Outage:   ms(o.counts.Outage),
		Check:    checkInfo{l.verify, o.checked, o.partial, o.wrong, o.lost, o.dropped, append([]string{}, o.problems...)},
		Memory:   o.memory,
		Warnings: append([]string{}, o.warnings...),
		History:  append([]point{}, o.history...),
		Spectrum: append([]spectrumPoint{}, o.spectrum...),
		gone:     o.gone(),
	}
	for _, f := range l.faults {
		r.Setup.Faults = append(r.Setup.Faults, f.String())
	}
	if sec := o.elapsed.Seconds(); sec > 0 {
		r.Rates = rateInfo{float64(o.counts.Lines) / sec, float64(o.counts.Bytes) / sec, float64(o.counts.Parts) / sec,
			want.minRate}
	}
	if len(l.faults) > 0 {
		r.Latency.Calm = &o.calm
	}
	for i, name := range stageNames {
		r.Latency.Stage[name] = o.stages[i]
	}
	if o.batch != nil {
		r.Load = &loadedInfo{Idle: o.phases[phaseIdle], Loaded: o.phases[phaseLoaded], Batch: *o.batch}
		if r.Load.Idle.P99 > 0 {
			r.Load.Ratio = r.Load.Loaded.P99 / r.Load.Idle.P99
		}
	}
	r.judge(l, o, want)
	return r
}

// write prints the report for people.
func (r *report) write(e *env, w io.Writer) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-11s %s\n", name, fmt.Sprintf(format, args...))
	}
	parts := fmt.Sprintf("a part of %d lines every %d", r.Setup.PartLines, r.Setup.Every)
	if r.Setup.Every == 0 {
		parts = fmt.Sprintf("marked parts of %d lines", r.Setup.PartLines)
	}
	line("setup", "%s, %d px %s, strips of %d lines, %s, %s; %s by %s", count(r.Setup.Cameras, "camera"), r.Setup.Width,
		r.Setup.Format,
		r.Setup.StripLines, parts, count(r.Setup.Regions, "region"), r.Setup.Rate, r.Setup.Transport)
	line("server", "%s: %s", r.Server.Address, r.Server.Backend)
	line("played", "%.1f s, %s strips, %s lines: %s lines/s, %.1f MB/s", r.Seconds, thousands(r.Counts.Strips),
		thousands(r.Counts.Lines),
		thousands(int64(math.Round(r.Rates.Lines))), r.Rates.Bytes/1e6)
	v := r.Counts.Verdicts
	line("parts", "%s: %s PASS, %s FAIL, %s without a verdict; %s incomplete", thousands(r.Counts.Parts),
		thousands(v.Pass), thousands(v.Fail), thousands(v.None), thousands(v.Incomplete))
	line("latency", "%s", r.Latency.All)
	if r.Latency.Calm != nil {
		line("  calm", "%s (without the %s soon after a fault)", *r.Latency.Calm, thousands(r.Counts.Disturbed))
	}
	for _, name := range stageNames {
		if q := r.Latency.Stage[name]; q.Count > 0 {
			line("  "+name, "%s", q)
		}
	}
	line("pacing", "late by %s", r.Latency.Pacing)
	line("late", "%s by the server's clock and %s by the camera's, over the budget of %s ms; %s silently",
		count(int(r.Counts.Late), "part"), thousands(r.Counts.LateAtCamera), short(r.Setup.Budget),
		thousands(r.Counts.LateSilently))
	line("held up", "cameras at %s of %s", thousands(r.Counts.HeldUp), count(int(r.Counts.Strips), "strip"))
	if r.Load != nil {
		line("under load", "p99 %s ms idle, %s ms beside %s: %.2f times; %.1f batch frames/s, %s refused",
			short(r.Load.Idle.P99), short(r.Load.Loaded.P99),
			count(r.Load.Batch.Jobs, "batch job"), r.Load.Ratio, r.Load.Batch.Rate, thousands(r.Load.Batch.Refused))
	}
	if len(r.Counts.Faults) > 0 {
		line("faults", "%s", list(r.Counts.Faults))
	}
	if len(r.Counts.Events) > 0 {
		line("events", "%s", list(r.Counts.Events))
	}
	if r.Counts.Reconnects > 0 {
		line("broken", "%s, the longest outage %s ms; %s strips sent again, %s results came twice",
			count(int(r.Counts.Reconnects), "connection"), short(r.Outage),
			thousands(r.Counts.Resent), thousands(r.Counts.Repeated))
	}
	if r.Capacity != nil {
		line("capacity", "%s lines/s of each camera, %.1f MB/s in all", r.Capacity.rates(), r.Capacity.Bytes/1e6)
	}
	if m := r.Memory; m != nil {
		line("memory", "%.1f MiB at first, %.1f MiB at the end, %.1f MiB at most: %+.1f MiB", mib(m.Start), mib(m.End),
			mib(m.Peak), mib(m.Growth))
	}
	if n := int64(r.Check.Dropped); n > 0 {
		line("dropped", "%s of %s played have no result: the fault dropped their lines", thousands(n),
			count(int(r.Counts.Parts+n)+r.Check.Lost, "part"))
	}
	if r.Check.Verified {
		line("checked", "%s against the oracle, %s of them incomplete as they had to be: %s",
			thousands(int64(r.Check.Checked)), thousands(int64(r.Check.Partial)),
			count(r.Check.Wrong, "problem"))
	} else {
		every := map[bool]string{true: "every part", false: "every part that was not dropped"}[r.Check.Dropped == 0]
		line("checked", "only that %s came back (--verify checks the numbers): %s", every, count(r.Check.Wrong, "problem"))
	}
	for _, p := range r.Check.Problems {
		line("", "%s", cli.Printable(p))
	}
	for _, w := range r.Warnings {
		line("warning", "%s", cli.Printable(w))
	}
	style := map[string]cli.Style{runGood: cli.Green, runBad: cli.Red, runVoid: cli.Yellow}[r.Outcome]
	line("run", "%s", e.paint(style, strings.ToUpper(r.Outcome)))
	for _, why := range r.Reasons {
		line("", "%s", cli.Printable(why))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// String is p50, p90, p99 and the maximum.
func (q quantiles) String() string {
	if q.Count == 0 {
		return "none"
	}
	return fmt.Sprintf("p50 %s, p90 %s, p99 %s, max %s ms", short(q.P50), short(q.P90), short(q.P99), short(q.Max))
}

func (r *report) json() ([]byte, error) {
	b, err := json.MarshalIndent(r, "", "  ")
	return append(b, '\n'), err
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func mib(n int64) float64 { return float64(n) / (1 << 20) }

// short writes milliseconds to three digits.
func short(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// thousands writes 1234567 as 1,234,567.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// count is "1 camera", "2 cameras".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return thousands(int64(n)) + " " + what + "s"
}

// list writes counts in the order of their names.
func list(m map[string]int64) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%s %s", thousands(m[k]), strings.ToLower(strings.ReplaceAll(k, "_", " "))))
	}
	return strings.Join(out, ", ")
}
