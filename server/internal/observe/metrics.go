// Package observe holds what the server counts, for Prometheus. server/deploy/README.md lists all of it.
//
// Rooms count through it; what is there at a time (memory, frames, recipes) is read from the rooms by package server.
package observe

import (
	"time"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/polyscan/polyscan/polygon"
)

// Metrics are what the server counts. The grpc_server_* family (calls by method and code, their latency, messages of
// streams) is go-grpc-middleware's.
type Metrics struct {
	GRPC *grpcprom.ServerMetrics

	InFlight       *prometheus.GaugeVec // by method
	FramesInFlight prometheus.Gauge     // of streams
	stages         *prometheus.HistogramVec
	Bytes          *prometheus.CounterVec // by direction
	Frames         *prometheus.CounterVec // by encoding
	pixels         prometheus.Counter
	regions        prometheus.Counter
	verdicts       *prometheus.CounterVec
	FrameErrors    *prometheus.CounterVec // of streams, by code
	StreamTimeouts *prometheus.CounterVec // by reason
	DecodeRefused  *prometheus.CounterVec // by reason
	Panics         prometheus.Counter
	Scan           *Scan
	Jobs           *Jobs
	Watch          *Watch
	History        *History

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

func New() *Metrics {
	const ns = "polyscan"
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: ns, Name: name, Help: help})
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Name: name, Help: help}, labels)
	}
	m := &Metrics{
		GRPC: grpcprom.NewServerMetrics(grpcprom.WithServerHandlingTimeHistogram(grpcprom.WithHistogramBuckets(latencyBuckets))),
		InFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: ns, Name: "requests_in_flight", Help: "Calls that have begun and not ended, by method.",
		}, []string{"method"}),
		FramesInFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: ns, Name: "stream_frames_in_work",
			Help: "Frames of StreamFrames and ConvertFrames calls that are being decoded or computed.",
		}),
		stages: prometheus.NewHistogramVec(timeHistogram("stage_seconds",
			"Time of frames by stage: decode (image files), queue (for device memory and a stream), compute (copy "+
				"to the device, pixels, statistics), encode (the response)."),
			[]string{"stage"}),
		Bytes: counters("message_bytes_total", "Bytes of messages, by direction: received or sent.",
			"direction"),
		Frames:   counters("frames_total", "Frames accepted, by encoding.", "encoding"),
		pixels:   counter("frame_pixels_total", "Pixels of frames reduced."),
		regions:  counter("regions_total", "Regions reduced, those of each frame anew."),
		verdicts: counters("verdicts_total", "Verdicts of frames with limits: pass or fail.", "verdict"),
		FrameErrors: counters("stream_frame_errors_total",
			"Frames of StreamFrames and ConvertFrames calls that were refused, by code.", "code"),
		StreamTimeouts: counters("stream_timeouts_total",
			"Streams whose clients were waited for too long, by reason: idle (no change of a canvas, which was "+
				"closed, or no frame of a video, which begins anew), unread (an answer, and the call was ended).",
			"reason"),
		DecodeRefused: counters("decode_refused_total",
			"Image files refused, by reason: kind, header, pixels, layout, bytes, content.", "reason"),
		Panics:    counter("panics_total", "Panics of the server, each of which ended a call, or work for one. Each is a bug."),
		Jobs:      newJobMetrics(),
		Scan:      newScanMetrics(),
		Watch:     newWatchMetrics(),
		History:   newHistory(),
		observers: map[string]prometheus.Observer{},
	}
	m.Watch.Panics, m.History.Panics = m.Panics, m.Panics
	for _, s := range stageNames {
		m.observers[s] = m.stages.WithLabelValues(s)
	}
	// Series that exist from the start can be alerted on.
	for _, v := range []string{"received", "sent"} {
		m.Bytes.WithLabelValues(v)
	}
	for _, v := range []string{"pass", "fail"} {
		m.verdicts.WithLabelValues(v)
	}
	for _, v := range []string{"idle", "unread"} {
		m.StreamTimeouts.WithLabelValues(v)
	}
	for _, v := range []string{"kind", "header", "pixels", "layout", "bytes", "content"} {
		m.DecodeRefused.WithLabelValues(v)
	}
	return m
}

func (m *Metrics) Collectors() []prometheus.Collector {
	return append(append(append(append(m.Jobs.collectors(), m.Scan.collectors()...), m.Watch.all...), m.History.all...),
		m.GRPC, m.InFlight, m.FramesInFlight, m.stages, m.Bytes, m.Frames, m.pixels, m.regions, m.verdicts,
		m.FrameErrors, m.StreamTimeouts,
		m.DecodeRefused, m.Panics,
	)
}

func (m *Metrics) Stage(name string, d time.Duration) { m.observers[name].Observe(d.Seconds()) }

// Reduced counts a result.
func (m *Metrics) Reduced(r *polygon.Result, regions, pixels int) {
	m.Stage("queue", r.Queue)
	m.Stage("compute", r.Compute)
	m.pixels.Add(float64(pixels))
	m.regions.Add(float64(regions))
	switch r.Verdict {
	case polygon.Pass:
		m.verdicts.WithLabelValues("pass").Inc()
	case polygon.Fail:
		m.verdicts.WithLabelValues("fail").Inc()
	}
}
