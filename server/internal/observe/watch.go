// Metrics of what is published and watched, and of verdicts by the names of those who asked for them.

package observe

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// WatchKinds are the label kind, by events.Kind.
var WatchKinds = [...]string{"stream", "verdict", "scan", "recipe", "device", "preview", "call", "history"}

// Watch are what watchers, and those whom they watch, count.
type Watch struct {
	Panics     prometheus.Counter // of the server
	Watchers   prometheus.Gauge
	QueueBytes prometheus.Gauge
	published  [len(WatchKinds)]prometheus.Counter
	lost       [len(WatchKinds)]prometheus.Counter
	verdicts   *prometheus.CounterVec // by name and verdict
	late       *prometheus.CounterVec // by name
	all        []prometheus.Collector

	mu    sync.RWMutex
	names map[string]*Named
}

// mostNames bounds the series of names: the first ones have their own, the rest is "other".
const mostNames = 64

func newWatchMetrics() *Watch {
	gauge := func(n, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "polyscan", Name: n, Help: help})
	}
	counters := func(n, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "polyscan", Name: n, Help: help}, labels)
	}
	published := counters("watch_events_total", "Events that watchers can see, by kind, watched or not.", "kind")
	lost := counters("watch_lost_total", "Events that watchers lost because they read too slowly, by kind.", "kind")
	m := &Watch{
		Watchers:   gauge("watchers", "Watch calls, and others inside the server that look on."),
		QueueBytes: gauge("watch_queue_bytes", "Host memory of events that wait for watchers, about."),
		verdicts: counters("named_verdicts_total",
			"Verdicts of frames and parts whose caller gave a name, by name (the first 64, then \"other\") and verdict: "+
				"pass, fail, none, error.", "name", "verdict"),
		late: counters("named_late_total", "Line-scan results that were late, by name.", "name"),

		names: map[string]*Named{},
	}
	m.all = []prometheus.Collector{m.Watchers, m.QueueBytes, published, lost, m.verdicts, m.late}
	for i, k := range WatchKinds {
		m.published[i], m.lost[i] = published.WithLabelValues(k), lost.WithLabelValues(k)
	}
	m.add("", "other")
	return m
}

// Published counts an event.
func (m *Watch) Published(kind int) { m.published[kind].Inc() }

// Lost counts events that a watcher lost.
func (m *Watch) Lost(kind int, n uint64) { m.lost[kind].Add(float64(n)) }

// Verdicts of names.
const (
	NamedPass = iota
	NamedFail
	NamedNone
	NamedError
)

// Named counts the verdicts of one name; nil counts nothing.
type Named struct {
	verdicts [4]prometheus.Counter
	late     prometheus.Counter
}

// Named is what counts for a name; nil for "".
func (m *Watch) Named(name string) *Named {
	if name == "" {
		return nil
	}
	m.mu.RLock()
	n := m.names[name]
	if n == nil && len(m.names) > mostNames {
		n = m.names[""] // of all others
	}
	m.mu.RUnlock()
	if n != nil {
		return n
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if n = m.names[name]; n == nil {
		if len(m.names) > mostNames {
			return m.names[""]
		}
		n = m.add(name, name)
	}
	return n
}

func (m *Watch) add(key, label string) *Named {
	n := &Named{late: m.late.WithLabelValues(label)}
	for i, v := range []string{"pass", "fail", "none", "error"} {
		n.verdicts[i] = m.verdicts.WithLabelValues(label, v)
	}
	m.names[key] = n
	return n
}

// Verdict counts one.
func (n *Named) Verdict(v int) {
	if n != nil {
		n.verdicts[v].Inc()
	}
}

// Late counts a result that was late.
func (n *Named) Late() {
	if n != nil {
		n.late.Inc()
	}
}
