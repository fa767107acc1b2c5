// Metrics, for Prometheus. server/deploy/README.md lists all of them.

package server

import (
	"time"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/polyscan/polyscan/polygon"
)

// metrics are what the server counts. The grpc_server_* family (calls by method and code, their latency, messages of
// streams) is go-grpc-middleware's.
type metrics struct {
	grpc *grpcprom.ServerMetrics

	inFlight       *prometheus.GaugeVec // by method
	framesInFlight prometheus.Gauge     // of streams
	stages         *prometheus.HistogramVec
	bytes          *prometheus.CounterVec // by direction
	frames         *prometheus.CounterVec // by encoding
	pixels         prometheus.Counter
	regions        prometheus.Counter
	verdicts       *prometheus.CounterVec
	frameErrors    *prometheus.CounterVec // of streams, by code
	streamTimeouts *prometheus.CounterVec // by reason
	decodeRefused  *prometheus.CounterVec // by reason
	panics         prometheus.Counter
	scan           *scanMetrics
	jobs           *jobMetrics

	observers map[string]prometheus.Observer // of stages; looking them up by label takes longer
}

// latencyBuckets reach from 50 µs, a small frame's, to 10 s.
var latencyBuckets = []float64{
	50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 2.5, 10,
}

// timeHistogram is a histogram of seconds: a native one for those who scrape such, beside buckets for those who don't.
func timeHistogram(name, help string) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Namespace: "polyscan", Name: name, Help: help, Buckets: latencyBuckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160,
		NativeHistogramMinResetDuration: time.Hour,
	}
}

var stageNames = []string{"decode", "queue", "compute", "encode"}

func newMetrics() *metrics {
	const ns = "polyscan"
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: ns, Name: name, Help: help})
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Name: name, Help: help}, labels)
	}
	m := &metrics{
		grpc: grpcprom.NewServerMetrics(grpcprom.WithServerHandlingTimeHistogram(grpcprom.WithHistogramBuckets(latencyBuckets))),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: ns, Name: "requests_in_flight", Help: "Calls that have begun and not ended, by method.",
		}, []string{"method"}),
		framesInFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: ns, Name: "stream_frames_in_work",
			Help: "Frames of StreamFrames and ConvertFrames calls that are being decoded or computed.",
		}),
		stages: prometheus.NewHistogramVec(timeHistogram("stage_seconds",
			"Time of frames by stage: decode (image files), queue (for device memory and a stream), compute (copy to the device, pixels, statistics), encode (the response)."),
			[]string{"stage"}),
		bytes: counters("message_bytes_total", "Bytes of messages, by direction: received or sent.",
			"direction"),
		frames:   counters("frames_total", "Frames accepted, by encoding.", "encoding"),
		pixels:   counter("frame_pixels_total", "Pixels of frames reduced."),
		regions:  counter("regions_total", "Regions reduced, those of each frame anew."),
		verdicts: counters("verdicts_total", "Verdicts of frames with limits: pass or fail.", "verdict"),
		frameErrors: counters("stream_frame_errors_total",
			"Frames of StreamFrames and ConvertFrames calls that were refused, by code.", "code"),
		streamTimeouts: counters("stream_timeouts_total",
			"Streams whose clients were waited for too long, by reason: idle (no change of a canvas, which was closed, or no frame of a video, which begins anew), unread (an answer, and the call was ended).", "reason"),
		decodeRefused: counters("decode_refused_total",
			"Image files refused, by reason: kind, header, pixels, layout, bytes, content.", "reason"),
		panics:    counter("panics_total", "Calls that ended in a panic of the server. Each is a bug."),
		jobs:      newJobMetrics(),
		scan:      newScanMetrics(),
		observers: map[string]prometheus.Observer{},
	}
	for _, s := range stageNames {
		m.observers[s] = m.stages.WithLabelValues(s)
	}
	// Series that exist from the start can be alerted on.
	for _, v := range []string{"received", "sent"} {
		m.bytes.WithLabelValues(v)
	}
	for _, v := range []string{"pass", "fail"} {
		m.verdicts.WithLabelValues(v)
	}
	for _, v := range []string{"idle", "unread"} {
		m.streamTimeouts.WithLabelValues(v)
	}
	for _, v := range []string{"kind", "header", "pixels", "layout", "bytes", "content"} {
		m.decodeRefused.WithLabelValues(v)
	}
	return m
}

func (m *metrics) collectors() []prometheus.Collector {
	return append(append(m.jobs.collectors(), m.scan.collectors()...),
		m.grpc, m.inFlight, m.framesInFlight, m.stages, m.bytes, m.frames, m.pixels, m.regions, m.verdicts,
		m.frameErrors, m.streamTimeouts,
		m.decodeRefused, m.panics,
	)
}

func (m *metrics) stage(name string, d time.Duration) { m.observers[name].Observe(d.Seconds()) }

// reduced counts a result.
func (m *metrics) reduced(r *polygon.Result, pixels int) {
	m.stage("queue", r.Queue)
	m.stage("compute", r.Compute)
	m.pixels.Add(float64(pixels))
	m.regions.Add(float64(len(r.Regions)))
	switch r.Verdict {
	case polygon.Pass:
		m.verdicts.WithLabelValues("pass").Inc()
	case polygon.Fail:
		m.verdicts.WithLabelValues("fail").Inc()
	}
}

// register puts everything into the registry that /metrics shows, or into the one that the configuration names.
func (s *Server) register() error {
	reg := s.cfg.Registerer
	if reg == nil {
		own := prometheus.NewRegistry()
		own.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
		reg = own
	}
	s.gatherer = prometheus.DefaultGatherer
	if g, ok := reg.(prometheus.Gatherer); ok {
		s.gatherer = g
	}
	i := s.dev.Info()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "polyscan", Name: "build_info", Help: "1, with what this server is.",
		ConstLabels: prometheus.Labels{"version": s.cfg.Version, "go_version": goVersion(), "backend": i.Backend,
			"device": i.Device},
	})
	build.Set(1)
	s.collectors = append(s.metrics.collectors(), stateCollector{s}, s.shared, build)
	for i, c := range s.collectors {
		if err := reg.Register(c); err != nil {
			for _, c := range s.collectors[:i] {
				reg.Unregister(c)
			}
			return err
		}
	}
	s.unregister = func() {
		for _, c := range s.collectors {
			reg.Unregister(c)
		}
	}
	return nil
}
