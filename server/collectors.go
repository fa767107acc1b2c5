// The metrics that a server registers: what its rooms count, and what is there now, read when it is asked for.

package server

import (
	"cmp"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/server/internal/auth"
	"github.com/polyscan/polyscan/server/internal/budget"
	"github.com/polyscan/polyscan/server/internal/observe"
	"github.com/polyscan/polyscan/server/internal/residents"
)

// stateCollector reads the state of a server.
type stateCollector struct{ s *Server }

// state is read at one time, so that what adds up does so in the metrics.
type state struct {
	available bool
	reopened  uint64
	memory    kernels.MemoryStats
	ofHost    int64 // bytes of the host's memory that the device's has pages of
	jobs      kernels.SchedStats
	prepared  kernels.CacheStats
	setups    kernels.CacheStats
	frames    residents.Stats
	recipes   int
	unusable  int // of the recipes
	host      *budget.Budget

	sessionBytes, historyBytes int64
	tenants                    map[string]*auth.Usage // by label
}

// stateMetric is a metric of the state. collect calls emit for each series, with the values of its labels.
type stateMetric struct {
	desc    *prometheus.Desc
	typ     prometheus.ValueType
	collect func(st *state, emit func(v float64, labels ...string))
}

// maxLabels bounds the series of a metric whose label is made elsewhere: the largest have their own, the rest is
// "other".
const maxLabels = 32

var stateMetrics = func() (all []stateMetric) {
	add := func(typ prometheus.ValueType, name, help string, labels []string,
		collect func(*state, func(float64, ...string))) {
		all = append(all, stateMetric{prometheus.NewDesc("polyscan_"+name, help, labels, nil), typ, collect})
	}
	gauge := func(name, help string, v func(*state) float64) {
		add(prometheus.GaugeValue, name, help, nil, func(st *state, emit func(float64, ...string)) { emit(v(st)) })
	}
	counter := func(name, help string, v func(*state) float64) {
		add(prometheus.CounterValue, name, help, nil, func(st *state, emit func(float64, ...string)) { emit(v(st)) })
	}
	gauges := func(name, help, label string, collect func(*state, func(float64, ...string))) {
		add(prometheus.GaugeValue, name, help, []string{label}, collect)
	}

	gauge("device_available", "1 while the device computes, 0 while it is lost.", func(st *state) float64 {
		if st.available {
			return 1
		}
		return 0
	})
	counter("device_reopened_total",
		"Times that a lost device was opened again. What the device counts begins at 0 then.",
		func(st *state) float64 { return float64(st.reopened) })
	gauges("device_jobs_waiting", "Jobs that wait for memory or a stream of the device.", "class",
		func(st *state, emit func(float64, ...string)) {
			for c, class := range observe.ClassNames {
				emit(float64(st.jobs[c].Waiting), class)
			}
		})
	gauges("device_jobs_running", "Jobs that have begun and not ended.", "class",
		func(st *state, emit func(float64, ...string)) {
			for c, class := range observe.ClassNames {
				emit(float64(st.jobs[c].Running), class)
			}
		})

	gauges("device_memory_bytes",
		"Memory of the device: reserved, used, high_water (most used at once), evictable (used, and goes when it "+
			"is needed), largest_free, host (what the system of the host has pages for; 0 where the device has memory of "+
			"its own).", "kind",
		func(st *state, emit func(float64, ...string)) {
			emit(float64(st.memory.Reserved), "reserved")
			emit(float64(st.memory.Used), "used")
			emit(float64(st.memory.HighWater), "high_water")
			emit(float64(st.memory.Evictable), "evictable")
			emit(float64(st.memory.Largest), "largest_free")
			emit(float64(st.ofHost), "host")
		})
	gauges("device_memory_used_bytes", "Memory of the device in use, by purpose; adds up to what is used.", "label",
		func(st *state, emit func(float64, ...string)) {
			for label, n := range capped(st.memory.ByLabel, maxLabels) {
				emit(float64(n), label)
			}
		})
	gauges("device_memory_tenant_bytes",
		"Memory of the device in use, by kind of owner: scratch of jobs, session, resident; adds up to what is used.",
		"tenant",
		func(st *state, emit func(float64, ...string)) {
			emit(float64(st.memory.ByTenant.Scratch), "scratch")
			emit(float64(st.memory.ByTenant.Session), "session")
			emit(float64(st.memory.ByTenant.Resident), "resident")
		})
	gauge("device_memory_fragmentation_ratio",
		"Part of the free memory of the device that is outside of its largest free block.",
		func(st *state) float64 { return st.memory.Fragmentation })
	gauge("device_memory_waiting", "Jobs in the queue that need memory of the device.",
		func(st *state) float64 { return float64(st.memory.Waiting) })
	counter("device_memory_refused_total", "Requests for memory of the device that were refused.",
		func(st *state) float64 { return float64(st.memory.Refused) })
	counter("device_memory_evictions_total",
		"Frames, prepared regions and pictures of canvases on the device that made room for others.",
		func(st *state) float64 { return float64(st.memory.Evictions) })

	gauge("prepared_regions_bytes", "Memory of the device that holds prepared regions of recipes and streams.",
		func(st *state) float64 { return float64(st.prepared.Bytes) })
	counter("prepared_regions_hits_total", "Frames that found their regions prepared.",
		func(st *state) float64 { return float64(st.prepared.Hits) })
	counter("prepared_regions_misses_total", "Frames whose regions had to be prepared.",
		func(st *state) float64 { return float64(st.prepared.Misses) })
	counter("prepared_regions_evictions_total", "Prepared regions that made room for others.",
		func(st *state) float64 { return float64(st.prepared.Evictions) })

	gauge("diffusion_setups_bytes",
		"Memory of the device that holds set-ups of diffusion for constraints that come again, which goes when it "+
			"is needed.", func(st *state) float64 { return float64(st.setups.Bytes) })
	counter("diffusion_setups_hits_total", "Solves that found a set-up for their constraints.",
		func(st *state) float64 { return float64(st.setups.Hits) })
	counter("diffusion_setups_misses_total",
		"Solves that found none. Canvases look for none: they have one of their own.",
		func(st *state) float64 { return float64(st.setups.Misses) })
	counter("diffusion_setups_evictions_total", "Set-ups that made room for others.",
		func(st *state) float64 { return float64(st.setups.Evictions) })

	gauges("host_memory_bytes", "Host memory that connections make the server hold. Of what --host-memory bounds: decoding "+
		"(image files), results (from when they are sized to when they are written), uploads (of points), canvases, "+
		"watchers, http (messages of calls over HTTP), http_expected and expected (of messages that have begun to come "+
		"and are not here yet), received (messages), requests (messages that were read, and what they are compiled to), "+
		"region_sets (that came again with requests, and are kept), recipes, connections, reserved "+
		"(pictures, results and buffers of connections that are not made yet), unwritten (buffers of shapes, as far as "+
		"nobody has written to them). Beside that idle (buffers of messages that wait for the next one), closed (answers "+
		"of connections that were closed) and garbage (what calls gave back), until they are collected. Of what has "+
		"bounds of its own: sessions (line-scan: regions, results that wait or may be asked for again), copies (of "+
		"resident frames), history (what waits to be written).", "kind",
		func(st *state, emit func(float64, ...string)) {
			for k, name := range budget.Kinds {
				emit(float64(st.host.Used(budget.Kind(k))), name)
			}
			emit(float64(st.host.Heap.Garbage()), "garbage")
			emit(float64(st.sessionBytes), "sessions")
			emit(float64(st.frames.Copies), "copies")
			emit(float64(st.historyBytes), "history")
		})
	gauge("heap_live_bytes", "Host memory in use at the last collection of garbage.",
		func(st *state) float64 { return float64(st.host.Heap.Live()) })
	add(prometheus.CounterValue, "heap_shed_total", "Work that was refused since the heap was nearly full.",
		[]string{"class"}, func(st *state, emit func(float64, ...string)) {
			for c, class := range observe.ClassNames {
				emit(float64(st.host.Heap.Shed(kernels.Class(c))), class)
			}
		})

	gauge("resident_frames", "Frames that are kept on the device, those being uploaded included.",
		func(st *state) float64 { return float64(st.frames.Count) })
	gauges("resident_frames_bytes", "Memory of the frames that are kept: device, and host (their copies).", "memory",
		func(st *state, emit func(float64, ...string)) {
			emit(float64(st.frames.Bytes), "device")
			emit(float64(st.frames.Copies), "host")
		})
	counter("resident_frames_kept_total", "Frames that were uploaded to be kept.",
		func(st *state) float64 { return float64(st.frames.Kept) })
	add(prometheus.CounterValue, "resident_frames_gone_total",
		"Frames that are kept no more, by reason: released, expired, evicted, lost (with the device).",
		[]string{"reason"},
		func(st *state, emit func(float64, ...string)) {
			for why := residents.GoneReleased; int(why) < len(residents.GoneReasons); why++ {
				emit(float64(st.frames.Went[why]), residents.GoneReasons[why].Name)
			}
		})
	tenants := func(typ prometheus.ValueType, name, help string, of func(*auth.Usage) auth.Amounts) {
		add(typ, name, help, []string{"tenant", "resource"}, func(st *state, emit func(float64, ...string)) {
			for label, u := range st.tenants {
				for what, n := range of(u) {
					if n >= 0 {
						emit(float64(n), label, auth.Resource(what).String())
					}
				}
			}
		})
	}
	tenants(prometheus.GaugeValue, "tenant_used",
		"What tenants hold: sessions, frames, frame-bytes, leases, lease-bytes, streams. Those to whom the token file "+
			"gives no name are one.", func(u *auth.Usage) auth.Amounts { return u.Used })
	tenants(prometheus.GaugeValue, "tenant_limit", "What tenants may hold, where the token file says.",
		func(u *auth.Usage) auth.Amounts { return u.Limits })
	tenants(prometheus.CounterValue, "tenant_refused_total", "How often tenants were refused more of something.",
		func(u *auth.Usage) auth.Amounts { return u.Refused })
	add(prometheus.CounterValue, "tenant_calls_total", "Calls of tenants that were admitted.", []string{"tenant"},
		func(st *state, emit func(float64, ...string)) {
			for label, u := range st.tenants {
				emit(float64(u.Calls), label)
			}
		})
	gauge("recipes_stored", "Versions of recipes that are stored.",
		func(st *state) float64 { return float64(st.recipes) })
	gauge("recipes_unusable", "Versions of recipes that are stored and that this server refuses.",
		func(st *state) float64 { return float64(st.unusable) })
	return all
}()

// unnamedTenants is the label of all tenants to whom the token file gives no name.
const unnamedTenants = "(unnamed)"

// tenantLabels is what tenants hold, by label: names are those of the file, so there are as many series as that has.
func (s *Server) tenantLabels() map[string]*auth.Usage {
	all := map[string]*auth.Usage{}
	if s.tenants == nil {
		return all
	}
	for _, u := range s.tenants.Usage("") {
		switch sum := all[unnamedTenants]; {
		case u.Named:
			all[u.Tenant] = &u
		case sum != nil:
			sum.Add(u)
		default:
			sum = &auth.Usage{}
			sum.Add(u)
			all[unnamedTenants] = sum
		}
	}
	return all
}

// capped is sums by label with at most n labels: those with the largest sums, and "other".
func capped(sums map[string]int64, n int) map[string]int64 {
	if len(sums) <= n {
		return sums
	}
	labels := slices.SortedFunc(maps.Keys(sums), func(a, b string) int {
		return cmp.Or(cmp.Compare(sums[b], sums[a]), cmp.Compare(a, b))
	})
	out := make(map[string]int64, n)
	for i, label := range labels {
		to := label
		if i >= n-1 {
			to = "other"
		}
		out[to] += sums[label]
	}
	return out
}

// Describe implements prometheus.Collector.
func (c stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range stateMetrics {
		ch <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c stateCollector) Collect(ch chan<- prometheus.Metric) {
	dev := c.s.dev.Current()
	st := &state{
		available: c.s.dev.Available(), reopened: c.s.dev.Regained(),
		memory: dev.Memory(), ofHost: dev.HostBytes(), jobs: dev.Sched(),
		prepared: c.s.inspector.Prepared.Stats(), setups: dev.Memos(), frames: c.s.residents.Totals(),
		tenants: c.s.tenantLabels(),
		host:    c.s.host, sessionBytes: c.s.lineScan.Bytes(),
		historyBytes: c.s.history.Waiting(),
	}
	st.recipes, st.unusable = c.s.recipes.Count()
	for _, m := range stateMetrics {
		m.collect(st, func(v float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(m.desc, m.typ, v, labels...)
		})
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
	s.collectors = append(append(s.metrics.Collectors(), s.intake.Collectors()...), stateCollector{s}, s.shared, build)
	s.collectors = append(s.collectors, s.webMetrics.Collectors()...)
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
