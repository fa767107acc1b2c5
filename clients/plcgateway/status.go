package main

// The page of a gateway, for people at the line: stations, their bits, the last results, the holder of each. The
// gateway serves it itself. The console's page can't: it asks no host but its server, which knows nothing of gateways;
// and a gateway has several servers, of which the one that is lost is the one to be told of.

import (
	"embed"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/polyscan/polyscan/clients/plcgateway/internal/station"
	"github.com/polyscan/polyscan/internal/command"
)

//go:embed page
var page embed.FS

// lastResults is how many the page shows of each station.
const lastResults = 10

// recent are the last answers of a station, the latest first.
type recent struct {
	mu      sync.Mutex
	answers []station.Answer
}

// add takes an answer, also one that it has and whose later steps are known by now.
func (r *recent) add(a *station.Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.IndexFunc(r.answers, func(o station.Answer) bool { return o.Sequence == a.Sequence }); i >= 0 {
		r.answers[i] = *a
		return
	}
	i := slices.IndexFunc(r.answers, func(o station.Answer) bool { return int32(a.Sequence-o.Sequence) > 0 })
	if i < 0 {
		i = len(r.answers)
	}
	r.answers = slices.Insert(r.answers, i, *a)
	r.answers = r.answers[:min(len(r.answers), lastResults)]
}

// status is what the page shows.
type status struct {
	Version  string          `json:"version"`
	At       time.Time       `json:"at"`
	Links    []linkStatus    `json:"links"` // servers, and the MQTT broker
	Stations []stationStatus `json:"stations"`
}

type linkStatus struct {
	Name string `json:"name"`
	Up   bool   `json:"up"`
}

type stationStatus struct {
	Name      string         `json:"name"`
	Server    string         `json:"server"`
	State     string         `json:"state"`
	Missing   string         `json:"missing"` // why it is not ready; empty: it is
	Holder    string         `json:"holder"`
	HeldSince *time.Time     `json:"held_since,omitempty"`
	Recipe    string         `json:"recipe"`
	Version   uint64         `json:"version"`
	Slot      uint16         `json:"slot"`
	Waiting   int            `json:"waiting"`
	Running   int            `json:"running"`
	Heartbeat uint16         `json:"heartbeat"`
	Bits      []bitStatus    `json:"bits"`
	Counters  []countStatus  `json:"counters"`
	Results   []resultStatus `json:"results"`
}

type bitStatus struct {
	Name string `json:"name"`
	On   bool   `json:"on"`
}

type countStatus struct {
	Name  string `json:"name"`
	Value uint32 `json:"value"`
}

type resultStatus struct {
	Trigger   uint32       `json:"trigger"`
	Sequence  uint32       `json:"sequence"`
	Part      string       `json:"part"`
	Verdict   string       `json:"verdict"`
	Reason    string       `json:"reason"`
	LatencyUS int64        `json:"latency_us"`
	Answered  time.Time    `json:"answered"`
	Acked     *time.Time   `json:"acked,omitempty"`
	Steps     []stepStatus `json:"steps"`
}

type stepStatus struct {
	Name string    `json:"name"`
	At   time.Time `json:"at"`
}

// known is a time, or nothing where there is none.
func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// status looks at all stations.
func (g *gateway) status() status {
	s := status{Version: command.Build(), At: time.Now()}
	for _, name := range slices.Sorted(maps.Keys(g.links)) {
		s.Links = append(s.Links, linkStatus{name, g.links[name].Up()})
	}
	if g.mqtt != nil {
		s.Links = append(s.Links, linkStatus{"MQTT broker", g.mqtt.Status().Connected})
	}
	for i := range g.cfg.Stations {
		s.Stations = append(s.Stations, g.stationStatus(&g.cfg.Stations[i]))
	}
	return s
}

func (g *gateway) stationStatus(cfg *stationConfig) stationStatus {
	snap := g.stations[cfg.Name].Snapshot()
	s := stationStatus{
		Name: cfg.Name, Server: cfg.Server, State: snap.State.String(), Holder: snap.Holder, Recipe: snap.Recipe.Name,
		Version: snap.Recipe.Version, Slot: snap.Recipe.Slot, Waiting: snap.Waiting, Running: snap.Running,
		Heartbeat: snap.Heartbeat, Results: []resultStatus{},
	}
	if snap.Holder != "" {
		s.HeldSince = known(snap.HeldSince)
	}
	if snap.Missing != station.NoError {
		s.Missing = snap.Missing.String()
	}
	for i, name := range station.BitNames {
		s.Bits = append(s.Bits, bitStatus{name, snap.Bits&(1<<i) != 0})
	}
	n := snap.Counters
	s.Counters = []countStatus{
		{"accepted", n.Accepted}, {"passed", n.Pass}, {"failed", n.Fail}, {"rejected", n.Reject}, {"missed", n.Missed},
		{"overruns", n.Overruns}, {"repeated", n.Repeated}, {"dropped", n.Dropped},
	}
	r := g.recent[cfg.Name]
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.answers {
		result := resultStatus{
			Trigger: a.TriggerID, Sequence: a.Sequence, Part: a.PartID, Verdict: a.Verdict.String(), Reason: a.Reason.String(),
			LatencyUS: a.Latency.Microseconds(), Answered: a.Steps.Answered, Acked: known(a.Steps.Acked),
		}
		for _, step := range a.Steps.All() {
			if !step.At.IsZero() {
				result.Steps = append(result.Steps, stepStatus{step.Name, step.At})
			}
		}
		s.Results = append(s.Results, result)
	}
	return s
}

// servePage adds the page to the gateway's HTTP port. It asks nobody but that.
func (g *gateway) servePage(mux *http.ServeMux) {
	headers := func(w http.ResponseWriter) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "+
			"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
	}
	for path, name := range map[string]string{
		"/{$}": "page/page.html", "/page.css": "page/page.css", "/page.js": "page/page.js",
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			headers(w)
			http.ServeFileFS(w, r, page, name)
		})
	}
	mux.HandleFunc("GET /status.json", func(w http.ResponseWriter, _ *http.Request) {
		headers(w)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(g.status()) // who asked may be gone
	})
}
