package main

// polyscan serve: a server in the foreground.

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/polyscan/polyscan/kernels/driver"
	"github.com/polyscan/polyscan/server"
	"github.com/polyscan/polyscan/server/drivers"
)

type serveCmd struct {
	Listen      []string `help:"Addresses for gRPC: HOST:PORT, or unix:PATH." default:"localhost:7465" placeholder:"ADDR" group:"listen"`
	HTTP        string   `help:"Address for metrics, health and readiness over HTTP; none by default." placeholder:"HOST:PORT" group:"listen" name:"http"`
	TLSCert     string   `help:"Certificate of the server (PEM); with --tls-key, connections are encrypted." placeholder:"FILE" predictor:"file" group:"listen"`
	TLSKey      string   `help:"Key of --tls-cert (PEM)." placeholder:"FILE" predictor:"file" group:"listen"`
	TLSClientCA string   `help:"Clients must show a certificate that one of these authorities signed (PEM)." placeholder:"FILE" predictor:"file" group:"listen"`
	TokenFile   string   `help:"Calls must bring one of the bearer tokens in this file, one a line." placeholder:"FILE" predictor:"file" group:"listen"`

	Recipes         string        `help:"Folder in which recipes are kept; without it they are gone with the server." placeholder:"DIR" predictor:"dir"`
	ShutdownTimeout time.Duration `help:"How long calls in flight may take to finish after the first signal." default:"30s" placeholder:"TIME"`
	Quiet           bool          `help:"Log warnings and errors only." short:"q"`

	MaxMessage int64 `help:"Largest request in bytes (default 256 MiB)." placeholder:"BYTES" group:"limits"`
	MaxPixels  int64 `help:"Largest frame in pixels (default 2^28)." placeholder:"N" group:"limits"`
	Memory     int64 `help:"Memory to reserve on the device, in bytes (default 1 GiB on the CPU)." placeholder:"BYTES" group:"limits"`

	deviceFlags
}

func (c *serveCmd) Help() string {
	return `
Answers calls until it is interrupted, and then finishes those in flight. polyscand (server/cmd/polyscand) is the same server
with all its settings.

Examples:

    polyscan serve
    polyscan serve --listen :7465 --http :9465 --recipes ./recipes --tls-cert server.pem --tls-key server.key --token-file tokens
    polyscan serve --listen unix:/run/polyscan.sock
`
}

func (c *serveCmd) Run(e *env) error {
	level := slog.LevelInfo
	if c.Quiet {
		level = slog.LevelWarn
	}
	log := slog.New(slog.NewTextHandler(e.stderr, &slog.HandlerOptions{Level: level}))
	s, err := server.New(server.Config{
		Device: c.Device, Threads: c.Threads, MemoryBytes: c.Memory,
		MaxMessageBytes: c.MaxMessage, MaxFramePixels: c.MaxPixels,
		RecipeDir: c.Recipes, TLS: server.TLS{CertFile: c.TLSCert, KeyFile: c.TLSKey, ClientCAFile: c.TLSClientCA}, TokenFile: c.TokenFile,
		Logger: log, Version: version(),
	})
	switch {
	case errors.Is(err, drivers.ErrUnknown), errors.Is(err, driver.ErrNoDevice):
		return noDevice(c.Device)
	case err != nil:
		return &inputError{err.Error()}
	}
	return c.serve(e, s, log)
}

// serve runs a server until the context ends or a listener fails.
func (c *serveCmd) serve(e *env, s *server.Server, log *slog.Logger) error {
	var listeners []net.Listener
	var web net.Listener
	err := func() error {
		for _, addr := range c.Listen {
			l, err := listen(addr)
			if err != nil {
				return err
			}
			listeners = append(listeners, l)
		}
		var err error
		if c.HTTP != "" {
			web, err = listen(c.HTTP)
		}
		return err
	}()
	if err != nil {
		for _, l := range listeners {
			l.Close()
		}
		return errors.Join(err, s.Shutdown(context.Background()))
	}

	ended := make(chan error, len(listeners)+1)
	for _, l := range listeners {
		go func() { ended <- s.Serve(l) }()
		log.Info("serving", "address", l.Addr().String(), "device", s.Device().Backend, "tls", c.TLSCert != "")
	}
	running := len(listeners)
	var site *http.Server
	if web != nil {
		site = &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second}
		running++
		go func() {
			err := site.Serve(web)
			if errors.Is(err, http.ErrServerClosed) {
				err = nil
			}
			ended <- err
		}()
		log.Info("serving metrics", "address", web.Addr().String())
	}
	var first error
	select {
	case <-e.ctx.Done():
		log.Info("stopping; calls in flight are finished", "within", c.ShutdownTimeout)
	case first = <-ended:
		running--
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.ShutdownTimeout)
	defer cancel()
	first = errors.Join(first, s.Shutdown(ctx))
	if site != nil {
		first = errors.Join(first, site.Shutdown(ctx))
	}
	for range running {
		first = errors.Join(first, <-ended)
	}
	return first
}

// listen opens HOST:PORT or unix:PATH.
func listen(addr string) (net.Listener, error) {
	network := "tcp"
	path, ok := strings.CutPrefix(addr, "unix:")
	if ok {
		network, addr = "unix", strings.TrimPrefix(path, "//")
		// A socket that nobody listens on is left over from a server that was killed.
		if st, err := os.Lstat(addr); err == nil && st.Mode()&os.ModeSocket != 0 {
			if c, err := net.Dial("unix", addr); err == nil {
				c.Close()
			} else if err := os.Remove(addr); err != nil {
				return nil, bad(addr, "%v", reason(err))
			}
		}
	}
	l, err := net.Listen(network, addr)
	if err != nil {
		var oe *net.OpError
		if errors.As(err, &oe) {
			err = oe.Err
		}
		return nil, usage("listen on %s: %v", addr, err)
	}
	return l, nil
}
