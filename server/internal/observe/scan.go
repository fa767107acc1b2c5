// Metrics of line-scan sessions.

package observe

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// Scan are what line-scan sessions count.
type Scan struct {
	Sessions   prometheus.Gauge
	strips     prometheus.Counter
	lines      prometheus.Counter
	stripTime  prometheus.Histogram
	partTime   prometheus.Histogram
	parts      *prometheus.CounterVec // by verdict
	incomplete prometheus.Counter
	late       prometheus.Counter
	events     *prometheus.CounterVec // by kind
}

func newScanMetrics() *Scan {
	name := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "polyscan", Subsystem: "scan", Name: name, Help: help}
	}
	counter := func(n, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts(name(n, help)))
	}
	counters := func(n, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts(name(n, help)), []string{label})
	}
	histogram := func(n, help string) prometheus.Histogram {
		return prometheus.NewHistogram(timeHistogram("scan_"+n, help))
	}
	m := &Scan{
		Sessions: prometheus.NewGauge(prometheus.GaugeOpts(name("sessions",
			"Line-scan sessions, those between two connections included."))),
		strips:    counter("strips_total", "Strips processed."),
		lines:     counter("lines_total", "Lines of strips processed."),
		stripTime: histogram("strip_latency_seconds", "From the arrival of a strip to the end of its work."),
		partTime: histogram("part_latency_seconds",
			"From the arrival of the last line that a part needs to its result on the way back."),
		parts: counters("parts_total", "Parts, by verdict: pass, fail, none (no limits), error.",
			"verdict"),
		incomplete: counter("parts_incomplete_total", "Parts that lack lines."),
		late:       counter("parts_late_total", "Results that took longer than the session's latency budget."),
		events:     counters("events_total", "Events reported to clients, by kind.", "kind"),
	}
	for _, v := range []string{"pass", "fail", "none", "error"} {
		m.parts.WithLabelValues(v)
	}
	for k := range pb.ScanEventKind_name {
		if k != 0 {
			m.events.WithLabelValues(eventName(pb.ScanEventKind(k)))
		}
	}
	return m
}

// eventName is the kind as a label, such as "out_of_order".
func eventName(k pb.ScanEventKind) string {
	return strings.ToLower(strings.TrimPrefix(k.String(), "SCAN_EVENT_KIND_"))
}

func (m *Scan) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.Sessions, m.strips, m.lines, m.stripTime, m.partTime, m.parts, m.incomplete, m.late,
		m.events}
}

// Strip counts one that has been processed.
func (m *Scan) Strip(lines int, latency time.Duration) {
	m.strips.Inc()
	m.lines.Add(float64(lines))
	m.stripTime.Observe(latency.Seconds())
}

// Part counts one that is done.
func (m *Scan) Part(p *pb.PartResult) {
	verdict := "none"
	switch {
	case p.GetError() != nil:
		verdict = "error"
	case p.GetVerdict() == pb.Verdict_VERDICT_PASS:
		verdict = "pass"
	case p.GetVerdict() == pb.Verdict_VERDICT_FAIL:
		verdict = "fail"
	}
	m.parts.WithLabelValues(verdict).Inc()
	if p.GetIncomplete() {
		m.incomplete.Inc()
	}
}

// Sent counts a result that goes out for the first time.
func (m *Scan) Sent(latency time.Duration, late bool) {
	m.partTime.Observe(latency.Seconds())
	if late {
		m.late.Inc()
	}
}

func (m *Scan) Event(k pb.ScanEventKind) { m.events.WithLabelValues(eventName(k)).Inc() }
