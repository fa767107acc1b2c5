// Metrics of the history.

package observe

import "github.com/prometheus/client_golang/prometheus"

// History is what the history counts.
type History struct {
	Panics       prometheus.Counter // of the server
	Parts        prometheus.Counter
	Pictures     prometheus.Counter
	LostParts    prometheus.Counter
	LostPictures prometheus.Counter
	LostAudits   prometheus.Counter
	Damaged      prometheus.Counter
	Failing      prometheus.Gauge
	QueueParts   prometheus.Gauge
	QueueBytes   prometheus.Gauge
	Database     prometheus.Gauge
	PictureBytes prometheus.Gauge
	Batches      prometheus.Histogram
	all          []prometheus.Collector
}

func newHistory() *History {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "polyscan", Name: "history_" + name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "polyscan", Name: "history_" + name, Help: help})
	}
	lost := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "polyscan", Name: "history_lost_total",
		Help: "What the history could not keep, because the disk or the queue was full, by kind: part, picture, audit."},
		[]string{"kind"})
	bytes := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "polyscan", Name: "history_bytes",
		Help: "Bytes of the history on the disk, by kind: database, pictures."}, []string{"kind"})
	m := &History{
		Parts:        counter("parts_total", "Parts that were written to the history."),
		Pictures:     counter("pictures_total", "Pictures of parts that were written to the history."),
		LostParts:    lost.WithLabelValues("part"),
		LostPictures: lost.WithLabelValues("picture"),
		LostAudits:   lost.WithLabelValues("audit"),
		Damaged:      counter("damaged_total", "Databases that were damaged and moved aside."),
		Failing:      gauge("failing", "1 while the history can't be written, which loses evidence."),
		QueueParts:   gauge("queue_parts", "Parts that wait to be written to the history."),
		QueueBytes: gauge("queue_bytes",
			"Memory of what waits to be written to the history, with pixels of parts that are under way."),
		Database:     bytes.WithLabelValues("database"),
		PictureBytes: bytes.WithLabelValues("pictures"),
		Batches: prometheus.NewHistogram(timeHistogram("history_batch_seconds",
			"Time of writing a batch of parts to the history.")),
	}
	m.all = []prometheus.Collector{m.Parts, m.Pictures, lost, m.Damaged, m.Failing, m.QueueParts, m.QueueBytes, bytes,
		m.Batches}
	return m
}
