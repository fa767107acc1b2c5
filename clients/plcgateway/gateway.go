package main

// The gateway as a process: links, stations, protocols, metrics, the log.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/polyscan/polyscan/clients/plcgateway/internal/modbus"
	"github.com/polyscan/polyscan/clients/plcgateway/internal/mqtt"
	"github.com/polyscan/polyscan/clients/plcgateway/internal/opcua"
	"github.com/polyscan/polyscan/clients/plcgateway/internal/source"
	"github.com/polyscan/polyscan/clients/plcgateway/internal/station"
)

// gateway is what runs.
type gateway struct {
	cfg      *config
	log      *slog.Logger
	links    map[string]*source.Link
	stations map[string]*station.Station
	modbus   *modbus.Server
	mqtt     *mqtt.Client
	opcua    *opcua.Server
	latency  *prometheus.HistogramVec
	recent   map[string]*recent // answers, by station
}

// serve runs a gateway until ctx ends.
func serve(ctx context.Context, cfg *config, stdout, stderr io.Writer) (err error) {
	g := &gateway{
		cfg: cfg, log: newLogger(stderr, cfg), links: map[string]*source.Link{}, stations: map[string]*station.Station{},
		recent: map[string]*recent{},
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "plcgateway_answer_seconds", Help: "From a trigger to its answer.",
			Buckets: []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 5},
		}, []string{"station"}),
	}
	say := func(format string, args ...any) { fmt.Fprintf(stdout, "plcgateway: "+format+"\n", args...) }
	if cfg.LogFormat == "json" {
		say = func(format string, args ...any) { g.log.Info(fmt.Sprintf(format, args...), "command", "plcgateway") }
	}
	var running sync.WaitGroup
	ctx, cancel := context.WithCancelCause(ctx)
	defer running.Wait()
	defer cancel(nil)

	if err := g.build(); err != nil {
		return err
	}
	for _, st := range g.stations {
		// What a station has told before it ended is still logged.
		sub := st.Subscribe(logged)
		running.Go(func() { g.follow(st, sub) })
		defer st.Close()
	}
	for _, l := range g.links {
		running.Go(func() { l.Run(ctx) })
	}
	if g.modbus != nil {
		l, err := net.Listen("tcp", cfg.Modbus.Listen)
		if err != nil {
			return fmt.Errorf("modbus: %w", err)
		}
		say("Modbus TCP on %s", l.Addr())
		running.Go(func() {
			if err := g.modbus.Serve(l); err != nil {
				cancel(err)
			}
		})
		defer g.modbus.Close()
		defer l.Close()
	}
	if g.mqtt != nil {
		say("MQTT at %s", strings.Join(cfg.MQTT.Brokers, ", "))
		mqttCtx, stop := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			g.mqtt.Run(mqttCtx)
		}()
		// The broker hears of the end while the stations are still there.
		defer func() {
			stop()
			<-done
		}()
	}
	if g.opcua != nil {
		l, err := net.Listen("tcp", cfg.OPCUA.Listen)
		if err != nil {
			return fmt.Errorf("opcua: %w", err)
		}
		say("OPC UA on opc.tcp://%s", l.Addr())
		for i := range cfg.Stations {
			if cfg.Stations[i].OPCUA {
				running.Go(g.opcua.AddStation(g.stations[cfg.Stations[i].Name]))
			}
		}
		running.Go(func() {
			if err := g.opcua.Serve(ctx, l); err != nil {
				cancel(err)
			}
		})
	}
	if cfg.HTTP != "" {
		l, err := net.Listen("tcp", cfg.HTTP)
		if err != nil {
			return fmt.Errorf("http: %w", err)
		}
		web := &http.Server{
			Handler: g.handler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second,
			WriteTimeout: 10 * time.Second, MaxHeaderBytes: 1 << 16,
			ErrorLog: slog.NewLogLogger(g.log.Handler(), slog.LevelWarn),
		}
		say("metrics on http://%s/metrics", l.Addr())
		say("page on http://%s/", l.Addr())
		running.Go(func() {
			if err := web.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				cancel(err)
			}
		})
		defer web.Close()
	}
	say("ready; %d stations", len(g.stations))
	g.supervise(ctx)
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func newLogger(w io.Writer, cfg *config) *slog.Logger {
	o := &slog.HandlerOptions{Level: cfg.level()}
	if cfg.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// build makes links, stations and units; nothing runs yet.
func (g *gateway) build() error {
	for name, s := range g.cfg.Servers {
		l, err := source.Dial(name, s.Addr, g.log, s.options()...)
		if err != nil {
			return usage("server %s: %v", name, err)
		}
		g.links[name] = l
	}
	var onMQTT []*station.Station
	for i := range g.cfg.Stations {
		s := &g.cfg.Stations[i]
		src, err := g.links[s.Server].Add(source.Config{Parts: s.Parts, Resident: s.Resident, Folder: s.Folder, Values: s.values()})
		if err != nil {
			return usage("station %s: %v", s.Name, err)
		}
		st, err := station.New(station.Config{
			Name: s.Name, Deadline: s.Deadline, HeartbeatTimeout: s.Heartbeat, Slots: s.slots(), Initial: s.Prepare, Values: s.Values,
		}, src)
		if err != nil {
			return usage("%v", err)
		}
		src.Attach(st)
		g.stations[s.Name], g.recent[s.Name] = st, &recent{}
		if s.MQTT {
			onMQTT = append(onMQTT, st)
		}
		if s.Modbus == nil {
			continue
		}
		if g.modbus == nil {
			g.modbus = modbus.NewServer()
		}
		order := g.cfg.Modbus.WordOrder
		if s.Modbus.WordOrder != "" {
			order = s.Modbus.WordOrder
		}
		if err := g.modbus.Add(s.Modbus.Unit, st, order); err != nil {
			return usage("station %s: %v", s.Name, err)
		}
	}
	if g.cfg.OPCUA != nil {
		var err error
		if g.opcua, err = g.cfg.OPCUA.server(g.log); err != nil {
			return usage("opcua: %v", err)
		}
	}
	if g.cfg.MQTT != nil {
		var err error
		if g.mqtt, err = g.cfg.MQTT.client(onMQTT, g.log); err != nil {
			return usage("mqtt: %v", err)
		}
	}
	return nil
}

// supervise tells systemd that the gateway lives, until ctx ends.
func (g *gateway) supervise(ctx context.Context) {
	tell := func(state string) {
		if _, err := daemon.SdNotify(false, state); err != nil {
			g.log.Warn("systemd can't be told", "error", err)
		}
	}
	tell(daemon.SdNotifyReady)
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil || every == 0 {
		<-ctx.Done()
	} else {
		t := time.NewTicker(every / 2)
		defer t.Stop()
		for ctx.Err() == nil {
			select {
			case <-t.C:
				for _, st := range g.stations {
					st.Snapshot() // a station that is stuck keeps systemd from hearing of the gateway
				}
				tell(daemon.SdNotifyWatchdog)
			case <-ctx.Done():
			}
		}
	}
	tell(daemon.SdNotifyStopping)
	g.log.Info("shutting down")
}

// logged is how many events of a station may wait for the log.
const logged = 4096

// follow logs what happens to a station: a line for each part with its timeline as soon as its answer is presented, so
// that what a PLC acted on is in the log of a gateway that is killed, another line with the end of it, and commands.
func (g *gateway) follow(st *station.Station, sub *station.Subscription) {
	log := g.log.With("station", st.Config().Name)
	state, holder := station.State(0), ""
	for e := range sub.C {
		if e.Lost > 0 {
			log.Warn("events not logged", "events", e.Lost)
		}
		switch e.Kind {
		case station.Answered:
			g.latency.WithLabelValues(st.Config().Name).Observe(e.Answer.Latency.Seconds())
			g.recent[st.Config().Name].add(&e.Answer)
		case station.Presented:
			if e.Answer.Steps.Acked.IsZero() { // or else it was logged before, and its trigger came again
				log.Info(msgPart, answerArgs(&e.Answer)...)
			}
		case station.Acknowledged:
			g.recent[st.Config().Name].add(&e.Answer)
			if e.Answer.Steps.Presented.IsZero() { // dropped before its turn came
				log.Info(msgPart, answerArgs(&e.Answer)...)
			}
			log.Info(endOf(&e.Answer), endArgs(&e.Answer)...)
		case station.CommandDone:
			level := slog.LevelInfo
			if e.Command.Code != station.NoError {
				level = slog.LevelWarn
			}
			log.Log(context.Background(), level, "command", "command", e.Command.Command.String(), "result", e.Command.Code.String(),
				"recipe", e.Command.Recipe.Name, "version", e.Command.Recipe.Version)
		case station.Changed:
			if s := st.Snapshot(); s.State != state && s.State != station.SingleExecution || s.Holder != holder {
				if state != station.SingleExecution || s.Holder != holder || s.State != station.Ready {
					log.Info("state", "state", s.State.String(), "holder", s.Holder, "missing", s.Missing.String())
				}
				state, holder = s.State, s.Holder
			}
		}
	}
}

// The messages of the log about parts: its answer is presented, and how that ended.
const (
	msgPart         = "part"
	msgAcknowledged = "acknowledged"
	msgDropped      = "dropped"
)

// answerArgs is an answer for the log: what it is, and when each step was. The first times are by the camera's and the
// server's clocks. plcgateway timeline reads them.
func answerArgs(a *station.Answer) []any {
	args := append(nameArgs(a),
		"verdict", a.Verdict.String(), "reason", a.Reason.String(), "recipe", a.Recipe.Name, "version", a.Recipe.Version,
		"failed_regions", a.FailedRegions, "latency", a.Latency)
	if a.Origin != "" {
		args = append(args, "origin", a.Origin)
	}
	if a.Detail != "" {
		args = append(args, "detail", a.Detail)
	}
	return append(args, stepArgs(a.Steps)...)
}

// nameArgs say which answer a line of the log is about.
func nameArgs(a *station.Answer) []any {
	return []any{"trigger", a.TriggerID, "part", a.PartID, "sequence", a.Sequence}
}

// endArgs are the steps that came behind the line with the answer.
func endArgs(a *station.Answer) []any {
	return append(nameArgs(a), stepArgs(station.Steps{Read: a.Steps.Read, Acked: a.Steps.Acked})...)
}

func endOf(a *station.Answer) string {
	if a.Steps.Acked.IsZero() {
		return msgDropped
	}
	return msgAcknowledged
}

func stepArgs(s station.Steps) (args []any) {
	for _, step := range s.All() {
		if !step.At.IsZero() {
			args = append(args, step.Name, step.At.UTC().Format(time.RFC3339Nano))
		}
	}
	return args
}

// handler serves the page, metrics and health.
func (g *gateway) handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(g, g.latency)
	mux := http.NewServeMux()
	g.servePage(mux)
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		var down []string
		for name, l := range g.links {
			if !l.Up() {
				down = append(down, name)
			}
		}
		var lost []string
		if len(down) > 0 {
			lost = append(lost, "server lost: "+strings.Join(down, ", "))
		}
		if g.mqtt != nil && !g.mqtt.Status().Connected {
			lost = append(lost, "MQTT broker lost")
		}
		if len(lost) > 0 {
			http.Error(w, strings.Join(lost, "; "), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("plcgateway_"+name, help, labels, nil)
}

var (
	descServer   = desc("server_up", "1 while the server is heard.", "server")
	descReady    = desc("station_ready", "1 while a trigger would be inspected.", "station")
	descState    = desc("station_state", "State of OPC 40100-1, by its number in the map.", "station")
	descHeld     = desc("station_held", "1 while a PLC holds the station.", "station")
	descWaiting  = desc("station_waiting", "Answers that are not acknowledged.", "station")
	descAnswers  = desc("answers_total", "Answers by their verdict.", "station", "verdict")
	descTriggers = desc("triggers_total", "Triggers: accepted, repeated, or missed (refused).", "station", "outcome")
	descOverruns = desc("overruns_total", "Triggers for which the queue was full.", "station")
	descDropped  = desc("dropped_total", "Answers that went unacknowledged.", "station")
	descConns    = desc("modbus_connections", "Open Modbus connections.")
	descRequests = desc("modbus_requests_total", "Modbus requests, by what became of them.", "outcome")
	descBroker   = desc("mqtt_connected", "1 while the MQTT broker is there.")
	descBrokers  = desc("mqtt_connections_total", "Connections to an MQTT broker that stood.")
	descUAConns  = desc("opcua_connections", "Open OPC UA connections.")
	descUAUsers  = desc("opcua_sessions", "OPC UA sessions.")
	descUARefuse = desc("opcua_logins_refused_total", "Refused OPC UA logins.")
	descEvicted  = desc("modbus_dropped_connections_total", "Modbus connections that were dropped for another one.")
)

// Describe implements prometheus.Collector.
func (g *gateway) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(g, ch) }

// Collect implements prometheus.Collector.
func (g *gateway) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	truth := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	for name, l := range g.links {
		gauge(descServer, truth(l.Up()), name)
	}
	for name, st := range g.stations {
		s := st.Snapshot()
		gauge(descReady, truth(s.Missing == station.NoError), name)
		gauge(descState, float64(s.State), name)
		gauge(descHeld, truth(s.Holder != ""), name)
		gauge(descWaiting, float64(s.Waiting), name)
		n := s.Counters
		counter(descAnswers, float64(n.Pass), name, "pass")
		counter(descAnswers, float64(n.Fail), name, "fail")
		counter(descAnswers, float64(n.Reject), name, "reject")
		counter(descTriggers, float64(n.Accepted), name, "accepted")
		counter(descTriggers, float64(n.Repeated), name, "repeated")
		counter(descTriggers, float64(n.Missed), name, "missed")
		counter(descOverruns, float64(n.Overruns), name)
		counter(descDropped, float64(n.Dropped), name)
	}
	if g.mqtt != nil {
		s := g.mqtt.Status()
		gauge(descBroker, truth(s.Connected))
		counter(descBrokers, float64(s.Connections))
	}
	if g.opcua != nil {
		n := g.opcua.Stats()
		gauge(descUAConns, float64(n.Connections))
		gauge(descUAUsers, float64(n.Sessions))
		counter(descUARefuse, float64(n.Refused))
	}
	if g.modbus != nil {
		n := g.modbus.Stats()
		gauge(descConns, float64(n.Connections))
		counter(descRequests, float64(n.Requests-n.Exceptions), "answered")
		counter(descRequests, float64(n.Exceptions), "exception")
		counter(descRequests, float64(n.Malformed), "malformed")
		counter(descEvicted, float64(n.Dropped))
	}
}
