// The HTTP side: metrics, health for supervisors, and a page that says what this is.

package server

import (
	"html/template"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/polyscan/polyscan/server/drivers"
)

// maxScrapes is how many answers to /metrics may be under way: each holds half a megabyte until it is read.
const maxScrapes = 8

// Handler serves /metrics (Prometheus), /healthz (200 while the process runs), /readyz (200 while calls are taken, 503
// when not) and a page at /. It asks for no token: listen where only those can reach it who may see this.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.gatherer, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes,
	}))
	text := func(w http.ResponseWriter, code int, body string) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(code)
		w.Write([]byte(body + "\n"))
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		select {
		case <-s.draining:
			text(w, http.StatusServiceUnavailable, "shutting down")
		default:
			if !s.dev.Available() {
				text(w, http.StatusServiceUnavailable, "the device was lost")
				return
			}
			text(w, http.StatusOK, "ready")
		}
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		i := s.dev.Info()
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		page.Execute(w, map[string]any{
			"Version": s.cfg.Version, "Go": goVersion(), "Device": i.Device, "Backend": i.Backend,
			"Capability": i.Capability,
			"Drivers":    drivers.Names(), "Up": time.Since(s.started).Round(time.Second),
		})
	})
	return mux
}

var page = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>polyscan</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 40em; margin: 3em auto; padding: 0 1em; }
dt { font-weight: 600; } dd { margin: 0 0 .5em; } code { background: #8882; padding: .1em .3em; }
</style>
<h1>polyscan</h1>
<p>Exact statistics of the pixels inside polygons, over gRPC.</p>
<dl>
<dt>Version</dt><dd>{{.Version}}, {{.Go}}, up {{.Up}}</dd>
<dt>Device</dt><dd>{{.Device}} ({{.Backend}}{{with .Capability}}, {{.}}{{end}})</dd>
<dt>Backends of this build</dt><dd>{{range $i, $d := .Drivers}}{{if $i}}, {{end}}{{$d}}{{end}}</dd>
</dl>
<p><a href="metrics">metrics</a> · <a href="healthz">healthz</a> · <a href="readyz">readyz</a></p>
`))
