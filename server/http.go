// The HTTP side: metrics, health for supervisors, calls and the console, or a page that says what this is.

package server

import (
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/polyscan/polyscan/server/console"
	"github.com/polyscan/polyscan/server/drivers"
	"github.com/polyscan/polyscan/server/internal/web"
)

// maxHTTPConnections is far more than those who watch a server need.
const maxHTTPConnections = 128

// HTTPServer is a server of [Server.Handler] with limits and time-outs that keep whoever connects from harming others.
// It is to be given connections by [HTTPListener], and to be closed after Shutdown.
func (s *Server) HTTPServer() *http.Server {
	h := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 1 << 16,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	if s.certs != nil {
		h.TLSConfig = s.certs.config("h2", "http/1.1")
	}
	return h
}

// HTTPListener takes the connections of l for a server of [Server.HTTPServer], 128 at a time: TLS where a client begins
// it and the server has certificates, plain HTTP else, which is all that metrics and health need.
func HTTPListener(l net.Listener, h *http.Server) net.Listener {
	l = web.Fair(l, maxHTTPConnections)
	if h.TLSConfig == nil {
		return l
	}
	return web.Listen(l, h.TLSConfig)
}

// newWeb makes what answers calls over HTTP, and serves the connections by which it calls.
func (s *Server) newWeb() (err error) {
	s.inside = web.NewInside()
	s.web, err = web.New(web.Config{
		Inside: s.inside, Draining: s.draining, Services: s.grpc.GetServiceInfo(), Tenants: s.tenants,
		TLS: s.certs != nil, Memory: s.host, Work: s.work, MaxMessage: s.cfg.MaxMessageBytes, Metrics: s.webMetrics,
		Files: console.Files(), Version: s.cfg.Version, Log: s.log,
	})
	if err == nil {
		s.background.Go(func() { s.grpc.Serve(s.inside) })
	}
	return err
}

// Handler serves /metrics (Prometheus), /healthz (200 while the process runs) and /readyz (200 while calls are taken,
// 503 when not). With Config.Console it serves calls and the console, too, which ask for the tokens that calls need;
// without, a page at /. The rest asks for no token: listen where only those can reach it who may see this.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", newScrapes(promhttp.HandlerFor(s.gatherer, promhttp.HandlerOpts{}), s.work, s.panicked))
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
	if s.web != nil {
		mux.Handle("/", s.web)
		return mux
	}
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
