// Metrics of the jobs on the device, as they end.

package observe

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/polyscan/polyscan/kernels"
)

// ClassNames are the label class, by kernels.Class.
var ClassNames = [...]string{kernels.Interactive: "interactive", kernels.LineScan: "line_scan", kernels.Batch: "batch"}

// outcomes are the label of that name.
var outcomes = []string{"done", "failed", "canceled", "too_long", "lost", "refused_memory", "refused_deadline", "shed"}

// Jobs are what the scheduler reports.
type Jobs struct {
	jobs, missed *prometheus.CounterVec
	wait, run    *prometheus.HistogramVec

	waits, runs [len(ClassNames)]prometheus.Observer // looking them up by label takes longer
}

func newJobMetrics() *Jobs {
	name := func(n, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "polyscan", Subsystem: "device", Name: n, Help: help}
	}
	m := &Jobs{
		jobs: prometheus.NewCounterVec(prometheus.CounterOpts(name("jobs_total",
			"Jobs of the device by outcome: done, failed, canceled (their call ended first), too_long (ended by the "+
				"limit of their class), lost (with the device); refused_memory (larger than it), refused_deadline "+
				"(they would have missed it) and shed (too many waited), which were not begun.")),
			[]string{"class", "outcome"}),
		missed: prometheus.NewCounterVec(prometheus.CounterOpts(name("jobs_deadline_missed_total",
			"Jobs of the device that ended after their deadline; not those that were refused or shed.")),
			[]string{"class"}),
		wait: prometheus.NewHistogramVec(timeHistogram("device_job_wait_seconds",
			"Time that jobs waited for memory and a stream of the device, of those that began."), []string{"class"}),
		run: prometheus.NewHistogramVec(timeHistogram("device_job_run_seconds",
			"Time that jobs had the device, without pauses for more urgent ones."), []string{"class"}),
	}
	for c, class := range ClassNames {
		m.waits[c], m.runs[c] = m.wait.WithLabelValues(class), m.run.WithLabelValues(class)
		m.missed.WithLabelValues(class)
		for _, o := range outcomes {
			m.jobs.WithLabelValues(class, o)
		}
	}
	return m
}

func (m *Jobs) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.jobs, m.missed, m.wait, m.run}
}

// Observe counts a job that has ended. It is called by many goroutines.
func (m *Jobs) Observe(e kernels.JobEvent) {
	class, outcome := ClassNames[e.Class], outcomeOf(e.Err)
	m.jobs.WithLabelValues(class, outcome).Inc()
	if e.Late > 0 && (outcome == "done" || outcome == "failed" || outcome == "canceled" ||
		outcome == "too_long") {
		m.missed.WithLabelValues(class).Inc()
	}
	if e.Ran > 0 {
		m.waits[e.Class].Observe(e.Waited.Seconds())
		m.runs[e.Class].Observe(e.Ran.Seconds())
	}
}

// outcomeOf is the label for a job that ended with an error, or nil.
func outcomeOf(err error) string {
	var (
		capacity *kernels.CapacityError
		deadline *kernels.DeadlineError
		overload *kernels.OverloadError
		long     *kernels.RunError
	)
	switch {
	case err == nil:
		return "done"
	case errors.As(err, &long):
		return "too_long"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "canceled" // where it waited for memory that is in the error as well
	case errors.As(err, &capacity):
		return "refused_memory"
	case errors.As(err, &deadline):
		return "refused_deadline"
	case errors.As(err, &overload):
		return "shed"
	case errors.Is(err, kernels.ErrDeviceLost):
		return "lost"
	}
	return "failed"
}
