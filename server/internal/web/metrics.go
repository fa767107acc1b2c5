package web

import "github.com/prometheus/client_golang/prometheus"

// Metrics are what package web counts.
type Metrics struct {
	Calls    *prometheus.CounterVec // by protocol
	Refused  *prometheus.CounterVec // by reason
	Logins   *prometheus.CounterVec // by result
	Sockets  prometheus.Gauge
	sessions func() int
}

// NewMetrics makes them.
func NewMetrics() *Metrics {
	counters := func(name, help, label string, values ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "polyscan", Name: name, Help: help}, []string{label})
		for _, l := range values {
			v.WithLabelValues(l)
		}
		return v
	}
	return &Metrics{
		Calls: counters("http_calls_total", "Calls that came over HTTP, by protocol: connect, json (of Connect), grpc-web, "+
			"websocket.", "protocol", "connect", "json", "grpc-web", "websocket"),
		Refused: counters("http_refused_total", "Requests over HTTP that were refused before they were calls, by reason: body "+
			"(its length or type), busy (too many at a time), csrf, host, method (that there isn't), origin, room (of host "+
			"memory), socket (no WebSocket, or of another origin), tls (in the clear).",
			"reason", "body", "busy", "csrf", "host", "method", "origin", "room", "socket", "tls"),
		Logins: counters("http_logins_total", "Logins to the console, by result: ok, refused, slowed.",
			"result", "ok", "refused", "slowed"),
		Sockets: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "polyscan", Name: "http_sockets",
			Help: "WebSockets that are open."}),
		sessions: func() int { return 0 },
	}
}

// Collectors are those to register.
func (m *Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.Calls, m.Refused, m.Logins, m.Sockets,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "polyscan", Name: "http_sessions",
			Help: "Sessions of those who have logged in to the console."},
			func() float64 { return float64(m.sessions()) })}
}
