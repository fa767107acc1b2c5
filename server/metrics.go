// Metrics, for Prometheus.

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
	decodeRefused  *prometheus.CounterVec // by reason
	panics         prometheus.Counter

	observers map[string]prometheus.Observer // of stages; looking them up by label takes longer
}

// latencyBuckets reach from 50 µs, a small frame's, to 10 s.
var latencyBuckets = []float64{
	50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 2.5, 10,
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
			Namespace: ns, Name: "stream_frames_in_work", Help: "Frames of StreamFrames calls that are being decoded or computed.",
		}),
		stages: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: ns, Name: "stage_seconds", Buckets: latencyBuckets,
			Help: "Time of frames by stage: decode (image files), queue (for device memory and a stream), compute (copy to the device, pixels, statistics), encode (the response).",
		}, []string{"stage"}),
		bytes:         counters("message_bytes_total", "Bytes of messages, by direction: received or sent.", "direction"),
		frames:        counters("frames_total", "Frames accepted, by encoding.", "encoding"),
		pixels:        counter("frame_pixels_total", "Pixels of frames reduced."),
		regions:       counter("regions_total", "Regions reduced, those of each frame anew."),
		verdicts:      counters("verdicts_total", "Verdicts of frames with limits: pass or fail.", "verdict"),
		frameErrors:   counters("stream_frame_errors_total", "Frames of StreamFrames calls that were refused, by code.", "code"),
		decodeRefused: counters("decode_refused_total", "Image files refused, by reason: kind, header, pixels, layout, bytes, content.", "reason"),
		panics:        counter("panics_total", "Calls that ended in a panic of the server. Each is a bug."),
		observers:     map[string]prometheus.Observer{},
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
	for _, v := range []string{"kind", "header", "pixels", "layout", "bytes", "content"} {
		m.decodeRefused.WithLabelValues(v)
	}
	return m
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		m.grpc, m.inFlight, m.framesInFlight, m.stages, m.bytes, m.frames, m.pixels, m.regions, m.verdicts, m.frameErrors,
		m.decodeRefused, m.panics,
	}
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

// stateCollector reads what others count: the device's memory, prepared regions, recipes.
type stateCollector struct {
	dev      *deviceKeeper
	prepared *preparedCache
	recipes  *recipeStore

	memory, byLabel, waiting, refused                     *prometheus.Desc
	preparedBytes, hits, misses, evictions, recipesStored *prometheus.Desc
}

func newStateCollector(dev *deviceKeeper, prepared *preparedCache, recipes *recipeStore) *stateCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("polyscan_"+name, help, labels, nil)
	}
	return &stateCollector{
		dev: dev, prepared: prepared, recipes: recipes,
		memory:        desc("device_memory_bytes", "Memory of the device: reserved, used, high_water (most used at once), largest_free.", "kind"),
		byLabel:       desc("device_memory_used_bytes", "Memory of the device in use, by purpose.", "label"),
		waiting:       desc("device_memory_waiting", "Jobs that wait for memory of the device."),
		refused:       desc("device_memory_refused_total", "Requests for memory of the device that were refused."),
		preparedBytes: desc("prepared_regions_bytes", "Memory of the device that holds prepared regions of recipes and streams."),
		hits:          desc("prepared_regions_hits_total", "Frames that found their regions prepared."),
		misses:        desc("prepared_regions_misses_total", "Frames whose regions had to be prepared."),
		evictions:     desc("prepared_regions_evictions_total", "Prepared regions that made room for others."),
		recipesStored: desc("recipes_stored", "Versions of recipes that are stored."),
	}
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.memory, c.byLabel, c.waiting, c.refused, c.preparedBytes, c.hits, c.misses, c.evictions, c.recipesStored} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v)
	}
	m := c.dev.Memory()
	gauge(c.memory, float64(m.Reserved), "reserved")
	gauge(c.memory, float64(m.Used), "used")
	gauge(c.memory, float64(m.HighWater), "high_water")
	gauge(c.memory, float64(m.Largest), "largest_free")
	for label, n := range m.ByLabel {
		gauge(c.byLabel, float64(n), label)
	}
	gauge(c.waiting, float64(m.Waiting))
	counter(c.refused, float64(m.Refused))
	p := c.prepared.stats()
	gauge(c.preparedBytes, float64(p.bytes))
	counter(c.hits, float64(p.hits))
	counter(c.misses, float64(p.misses))
	counter(c.evictions, float64(p.evictions))
	n, _ := c.recipes.size()
	gauge(c.recipesStored, float64(n))
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
		ConstLabels: prometheus.Labels{"version": s.cfg.Version, "go_version": goVersion(), "backend": i.Backend, "device": i.Device},
	})
	build.Set(1)
	s.collectors = append(s.metrics.collectors(), newStateCollector(s.dev, s.prepared, s.recipes), s.shared, build)
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
