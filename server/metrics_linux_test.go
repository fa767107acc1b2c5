package server

// On Linux, where a server has all of its metrics, those of shared memory included.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metricsql"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// gathered are the metrics of a server, by name. labels are those of each, with the values that were seen.
type gathered map[string]gatheredMetric

type gatheredMetric struct {
	*dto.MetricFamily
	labels map[string][]string
}

// gatherUsed has a server do something of everything, and returns its metrics with what gathers them.
func gatherUsed(t *testing.T) (gathered, *testServer) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "shared"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := startTenants(t, Config{SharedMemoryListener: l}, "a name=line-4 frames=64")
	s = s.as(t, "a")
	if _, err := s.inspection.Reduce(t.Context(),
		&pb.ReduceRequest{Inspection: inspecting(rect("r", 0, 0, 2, 1, "mean < 5")), Frame: smallFrame(1)}); err != nil {
		t.Fatal(err)
	}
	st := s.open(t, inspecting(rect("r", 0, 0, 2, 1)))
	st.send(&pb.Frame{}) // refused
	st.recv()
	st.send(smallFrame(1))
	st.recv()
	return gather(t, s.gatherer), s
}

func gather(t *testing.T, g prometheus.Gatherer) gathered {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := gathered{}
	for _, f := range families {
		m := gatheredMetric{f, map[string][]string{}}
		for _, series := range f.Metric {
			for _, l := range series.Label {
				if !slices.Contains(m.labels[l.GetName()], l.GetValue()) {
					m.labels[l.GetName()] = append(m.labels[l.GetName()], l.GetValue())
				}
			}
		}
		out[f.GetName()] = m
	}
	return out
}

func (m gatheredMetric) typ() string { return strings.ToLower(m.GetType().String()) }

// sum adds up all series, or those with a label.
func (g gathered) sum(t *testing.T, name string, labels ...string) (v float64) {
	t.Helper()
	if g[name].MetricFamily == nil {
		t.Fatalf("no metric %s", name)
	}
	n := 0
	for _, m := range g[name].Metric {
		match := 0
		for _, l := range m.Label {
			for i := 0; i < len(labels); i += 2 {
				if l.GetName() == labels[i] && l.GetValue() == labels[i+1] {
					match++
				}
			}
		}
		if match < len(labels)/2 {
			continue
		}
		n++
		v += m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	if n == 0 {
		t.Fatalf("no series %s %q", name, labels)
	}
	return v
}

// The document lists each metric as it is, and none that isn't there.
func TestMetricsDocumented(t *testing.T) {
	g, s := gatherUsed(t)
	text, err := os.ReadFile("deploy/README.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	row := regexp.MustCompile("(?m)^\\| `(polyscan_[a-z_]+)` \\| ([a-z]+) \\|([a-z_, ]*)\\| (\\S.*) \\|$")
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		name, typ, labels := m[1], m[2], strings.TrimSpace(m[3])
		documented[name] = true
		f, ok := g[name]
		if !ok {
			t.Errorf("%s is documented and not there", name)
			continue
		}
		if have := strings.Join(slices.Sorted(maps.Keys(f.labels)), ", "); typ != f.typ() || labels != have {
			t.Errorf("%s is a %s with the labels %q; documented are %s and %q", name, f.typ(), have, typ, labels)
		}
	}
	_, page := httpGet(t, s.Handler(), "/metrics")
	for name, f := range g {
		if !strings.HasPrefix(name, "polyscan_") {
			continue
		}
		if !documented[name] {
			t.Errorf("%s is not documented: | `%s` | %s | %s | %s |", name, name, f.typ(),
				strings.Join(slices.Sorted(maps.Keys(f.labels)), ", "), f.GetHelp())
		}
		if !strings.HasSuffix(f.GetHelp(), ".") {
			t.Errorf("%s: the help %q is no sentence", name, f.GetHelp())
		}
		for _, line := range []string{"# HELP " + name + " ", "# TYPE " + name + " " + f.typ() + "\n"} {
			if !strings.Contains(page, line) {
				t.Errorf("/metrics has no line %q", line)
			}
		}
	}
	names := slices.Collect(maps.Keys(documented))
	problems, err := testutil.GatherAndLint(s.gatherer, names...)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// Times are native histograms beside their classic buckets.
func TestNativeHistograms(t *testing.T) {
	g, _ := gatherUsed(t)
	n := 0
	for name, f := range g {
		if !strings.HasPrefix(name, "polyscan_") || f.typ() != "histogram" {
			continue
		}
		for _, m := range f.Metric {
			n++
			if m.GetHistogram().Schema == nil || len(m.GetHistogram().Bucket) == 0 {
				t.Errorf("%s has no native buckets, or no classic ones", name)
			}
		}
	}
	if n < 10 {
		t.Errorf("%d histograms", n)
	}
}

// Memory by label and by tenant adds up to what is used, with regions and frames on the device.
func TestMemoryMetricsAddUp(t *testing.T) {
	g, s := gatherUsed(t)
	used := func() float64 {
		t.Helper()
		g = gather(t, s.gatherer)
		used := g.sum(t, "polyscan_device_memory_bytes", "kind", "used")
		if n := g.sum(t, "polyscan_device_memory_tenant_bytes"); n != used {
			t.Errorf("%v bytes by tenant, %v used", n, used)
		}
		if used > 0 {
			if n := g.sum(t, "polyscan_device_memory_used_bytes"); n != used {
				t.Errorf("%v bytes by label, %v used", n, used)
			}
		}
		return used
	}
	if used() == 0 {
		t.Error("a stream with prepared regions uses no memory")
	}
	// The CPU's memory is the host's, as far as it was written.
	if n := g.sum(t, "polyscan_device_memory_bytes", "kind", "host"); n == 0 || n > 64<<20 {
		t.Errorf("%v bytes of the host are there for the device", n)
	}
	before := g.sum(t, "polyscan_device_memory_tenant_bytes", "tenant", "session")
	k, err := kernels.AllocPersistent[byte](s.dev.Current(), 5000, "kept by a test")
	if err != nil {
		t.Fatal(err)
	}
	used()
	if n := g.sum(t, "polyscan_device_memory_tenant_bytes", "tenant", "session"); n < before+5000 {
		t.Errorf("sessions have %v bytes after 5000 more than %v", n, before)
	}
	if n := g.sum(t, "polyscan_device_memory_used_bytes", "label", "kept by a test"); n < 5000 {
		t.Errorf("the label has %v bytes", n)
	}
	k.Free()
	used()
}

func TestJobMetrics(t *testing.T) {
	g, s := gatherUsed(t)
	if n := g.sum(t, "polyscan_device_jobs_total", "class", "interactive", "outcome", "done"); n < 2 {
		t.Errorf("%v jobs done", n)
	}
	if n, runs := g.sum(t, "polyscan_device_job_wait_seconds"), g.sum(t, "polyscan_device_job_run_seconds"); n < 2 ||
		n != runs {
		t.Errorf("%v waits, %v runs", n, runs)
	}
	late := kernels.JobEvent{Class: kernels.LineScan, Ran: time.Millisecond, Late: time.Millisecond}
	for _, c := range []struct {
		err     error
		outcome string
		missed  bool
	}{
		{nil, "done", true},
		{errors.New("no"), "failed", true},
		{context.Canceled, "canceled", true},
		{fmt.Errorf("%w: %w", context.DeadlineExceeded, &kernels.CapacityError{}), "canceled", true},
		{fmt.Errorf("x: %w", driver.ErrDeviceLost), "lost", false},
		{&kernels.CapacityError{}, "refused_memory", false},
		{&kernels.DeadlineError{}, "refused_deadline", false},
		{&kernels.RunError{}, "too_long", true},
		{fmt.Errorf("x: %w", &kernels.OverloadError{}), "shed", false},
	} {
		labels := []string{"class", "line_scan", "outcome", c.outcome}
		missed := []string{"class", "line_scan"}
		before := gather(t, s.gatherer)
		e := late
		e.Err = c.err
		s.metrics.Jobs.Observe(e)
		after := gather(t, s.gatherer)
		if d := after.sum(t, "polyscan_device_jobs_total", labels...) - before.sum(t, "polyscan_device_jobs_total",
			labels...); d != 1 {
			t.Errorf("%v: %v jobs more are %s", c.err, d, c.outcome)
		}
		if d := after.sum(t, "polyscan_device_jobs_deadline_missed_total", missed...) - before.sum(t,
			"polyscan_device_jobs_deadline_missed_total", missed...); (d == 1) != c.missed {
			t.Errorf("%v: %v deadlines more are missed", c.err, d)
		}
	}
}

func TestCapped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.MapOf(rapid.StringMatching("[a-z]{0,3}|other"), rapid.Int64Range(0, 1<<40)).Draw(t, "sums")
		n := rapid.IntRange(1, 10).Draw(t, "n")
		out := capped(in, n)
		if len(out) > n {
			t.Errorf("%d labels, at most %d", len(out), n)
		}
		var a, b int64
		for label, v := range in {
			a += v
			if w, ok := out[label]; ok && label != "other" && w != v {
				t.Errorf("%s: %d, want %d", label, w, v)
			}
		}
		for _, v := range out {
			b += v
		}
		if a != b {
			t.Errorf("they add up to %d, want %d", b, a)
		}
	})
}

// check says what of a PromQL expression doesn't fit the metrics: names, labels, and values of labels.
func (g gathered) check(expr string) (problems []string) {
	for v, by := range map[string]string{"$__rate_interval": "1m", "$__range": "1h", "$interval": "1m"} {
		expr = strings.ReplaceAll(expr, v, by)
	}
	e, err := metricsql.Parse(expr)
	if err != nil {
		return []string{err.Error()}
	}
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	outside := []string{"instance", "job"} // Prometheus adds them
	selectors := 0
	metricsql.VisitAll(e, func(e metricsql.Expr) {
		switch e := e.(type) {
		case *metricsql.MetricExpr:
			selectors++
			name, m := g.selected(e)
			if name == "up" { // Prometheus's own
				return
			}
			if m.MetricFamily == nil {
				bad("no metric %q", name)
				return
			}
			for _, f := range e.LabelFilterss[0][1:] {
				if slices.Contains(outside, f.Label) {
					continue
				}
				values, ok := m.labels[f.Label]
				if !ok {
					bad("%s has no label %q", name, f.Label)
				} else if !slices.ContainsFunc(values, func(v string) bool { return matches(f, v) }) {
					bad("%s has no series with %s; there are %q", name, f.AppendString(nil), values)
				}
			}
		case *metricsql.FuncExpr:
			if !metricsql.IsRollupFunc(e.Name) {
				return
			}
			// MetricsQL would take a range of its own choice.
			if r, ok := e.Args[metricsql.GetRollupArgIdx(e)].(*metricsql.RollupExpr); !ok || r.Window == nil {
				bad("%s wants a range", e.AppendString(nil))
			}
		case *metricsql.AggrFuncExpr:
			have := slices.Clone(outside)
			for _, arg := range e.Args {
				metricsql.VisitAll(arg, func(e metricsql.Expr) {
					if e, ok := e.(*metricsql.MetricExpr); ok {
						name, m := g.selected(e)
						have = slices.AppendSeq(have, maps.Keys(m.labels))
						if strings.HasSuffix(name, "_bucket") {
							have = append(have, "le")
						}
					}
				})
			}
			for _, l := range e.Modifier.Args {
				if !slices.Contains(have, l) {
					bad("nothing in %s has the label %q", e.AppendString(nil), l)
				}
			}
		}
	})
	if selectors == 0 {
		bad("it asks for no metric")
	}
	return problems
}

// selected is the metric of a selector, and the name by which it is asked for.
func (g gathered) selected(e *metricsql.MetricExpr) (string, gatheredMetric) {
	if len(e.LabelFilterss) != 1 || len(e.LabelFilterss[0]) == 0 || e.LabelFilterss[0][0].Label != "__name__" {
		return string(e.AppendString(nil)), gatheredMetric{}
	}
	name := e.LabelFilterss[0][0].Value
	return name, g.of(name)
}

// matches applies a filter to a value of its label.
func matches(f metricsql.LabelFilter, value string) bool {
	if !f.IsRegexp {
		return (f.Value == value) != f.IsNegative
	}
	re, err := metricsql.CompileRegexpAnchored(f.Value)
	return err == nil && re.MatchString(value) != f.IsNegative
}

// of finds a metric, also by the names that classic histograms have in Prometheus.
func (g gathered) of(name string) gatheredMetric {
	if m, ok := g[name]; ok {
		return m
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, suffix); ok && g[base].typ() == "histogram" {
			return g[base]
		}
	}
	return gatheredMetric{}
}

func TestCheckExpr(t *testing.T) {
	g, _ := gatherUsed(t)
	for _, c := range []struct{ expr, want string }{
		{"polyscan_no_such_total", `no metric "polyscan_no_such_total"`},
		{"rate(polyscan_frames_total_bucket[1m])", "no metric"},
		{`polyscan_device_jobs_running{klass="batch"}`, `no label "klass"`},
		{`polyscan_device_jobs_running{class="bulk"}`, "no series with class"},
		{`polyscan_device_jobs_running{class=~"bulk|x"}`, "no series with class"},
		{"sum by (klass) (polyscan_device_jobs_running)", `the label "klass"`},
		{"sum by (le) (polyscan_device_jobs_running)", `the label "le"`},
		{"rate(polyscan_frames_total)", "wants a range"},
		{"sum(", "unexpected"},
		{`polyscan_device_jobs_running{class="batch" or class="x"}`, "no metric"},
		{"1 + 1", "no metric"},
	} {
		if p := strings.Join(g.check(c.expr), "\n"); !strings.Contains(p, c.want) {
			t.Errorf("%s: %q, want %q", c.expr, p, c.want)
		}
	}
	for _, expr := range []string{
		`sum by (class, instance) (polyscan_device_jobs_running{class=~"batch|line_scan",instance="$instance"})`,
		"histogram_quantile(0.99, sum by (le, class) (rate(polyscan_device_job_wait_seconds_bucket[$__rate_interval])))",
		"histogram_quantile(0.99, sum(rate(polyscan_device_job_wait_seconds[$__rate_interval])))",
	} {
		if p := g.check(expr); p != nil {
			t.Errorf("%s: %q", expr, p)
		}
	}
}

// Each query of the dashboard is about metrics that are there, and each panel has its place.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("deploy/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	type place struct{ X, Y, W, H int }
	var board struct {
		UID, Title    string
		SchemaVersion int
		Templating    struct {
			List []struct{ Name, Type, Query string }
		}
		Panels []struct {
			ID          int
			Type, Title string
			GridPos     place
			Targets     []struct{ Expr, RefID, LegendFormat string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	if board.UID == "" || board.Title == "" || board.SchemaVersion < 36 || len(board.Templating.List) == 0 {
		t.Errorf("it lacks a uid, a title, a schema version or its variables: %+v", board)
	}
	g, _ := gatherUsed(t)
	ids, queries := map[int]bool{}, 0
	for i, p := range board.Panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("panel %q: its id %d is another's, or it has no title", p.Title, p.ID)
		}
		ids[p.ID] = true
		at := p.GridPos
		if at.W < 1 || at.H < 1 || at.X < 0 || at.X+at.W > 24 {
			t.Errorf("panel %q is at %+v", p.Title, at)
		}
		for _, q := range board.Panels[:i] {
			o := q.GridPos
			if at.X < o.X+o.W && o.X < at.X+at.W && at.Y < o.Y+o.H && o.Y < at.Y+at.H {
				t.Errorf("panel %q lies over panel %q", p.Title, q.Title)
			}
		}
		if (p.Type == "row") != (len(p.Targets) == 0) {
			t.Errorf("panel %q: %d queries", p.Title, len(p.Targets))
		}
		for _, q := range p.Targets {
			queries++
			for _, problem := range g.check(q.Expr) {
				t.Errorf("panel %q, query %s: %s: %s", p.Title, q.RefID, q.Expr, problem)
			}
		}
	}
	if queries < 20 {
		t.Errorf("%d queries", queries)
	}
}

// So is each alert.
func TestAlerts(t *testing.T) {
	text, err := os.ReadFile("deploy/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr         string
				For                 string
				Labels, Annotations map[string]string
			}
		}
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&rules); err != nil {
		t.Fatal(err)
	}
	g, _ := gatherUsed(t)
	names := map[string]bool{}
	for _, group := range rules.Groups {
		for _, r := range group.Rules {
			if names[r.Alert] || r.Labels["severity"] == "" || r.Annotations["summary"] == "" ||
				r.Annotations["description"] == "" {
				t.Errorf("%s: its name is another's, or it lacks a severity, a summary or a description", r.Alert)
			}
			names[r.Alert] = true
			if _, err := time.ParseDuration(r.For); err != nil {
				t.Errorf("%s: %v", r.Alert, err)
			}
			for _, problem := range g.check(r.Expr) {
				t.Errorf("%s: %s", r.Alert, problem)
			}
		}
	}
	if len(names) < 8 {
		t.Errorf("%d alerts", len(names))
	}
}
