// Command polyscand is the polyscan server: exact statistics of the pixels inside polygons, over gRPC.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/polyscan/polyscan/server"
)

// Exit codes.
const (
	exitOK     = 0 // it ran and was asked to stop, and finished what was in flight
	exitFailed = 1 // it could not start, could not go on, or had to cancel calls
	exitUsage  = 2 // it did not understand its flags
)

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, signals))
}

// run is the command, from its flags to its exit code. It ends when signals says so.
func run(args []string, stdout, stderr io.Writer, signals <-chan os.Signal) int {
	var f flags
	exit := -1
	parser, err := kong.New(&f, append(options(), kong.Writers(stdout, stderr), kong.Exit(func(code int) { exit = code }))...)
	if err != nil {
		fmt.Fprintln(stderr, "polyscand:", err)
		return exitFailed
	}
	_, err = parser.Parse(args)
	switch {
	case exit >= 0: // --help
		return exit
	case err != nil:
		fmt.Fprintf(stderr, "polyscand: %v\nTry \"polyscand --help\".\n", err)
		return exitUsage
	case f.Version:
		fmt.Fprintln(stdout, server.Version())
		return exitOK
	}
	log := f.logger(stderr)
	if err := serve(f, log, stdout, signals); err != nil {
		fmt.Fprintln(stderr, "polyscand:", err)
		return exitFailed
	}
	return exitOK
}

// serve runs the server until a signal ends it.
func serve(f flags, log *slog.Logger, stdout io.Writer, signals <-chan os.Signal) (err error) {
	listeners, err := listenAll(f.Listen)
	if err != nil {
		return err
	}
	closeAll := func() {
		for _, l := range listeners {
			l.Close()
		}
	}
	var web net.Listener
	if f.HTTP != "" {
		if web, err = listen(f.HTTP); err != nil {
			closeAll()
			return fmt.Errorf("--http: %w", err)
		}
	}
	s, err := server.New(f.config(log))
	if err != nil {
		closeAll()
		if web != nil {
			web.Close()
		}
		return err
	}

	failed := make(chan error, len(listeners)+1)
	var running sync.WaitGroup
	for _, l := range listeners {
		running.Go(func() {
			if err := s.Serve(l); err != nil {
				failed <- fmt.Errorf("%s: %w", l.Addr(), err)
			}
		})
	}
	httpServer := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 1 << 16,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	if web != nil {
		running.Go(func() {
			if err := httpServer.Serve(web); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("%s: %w", web.Addr(), err)
			}
		})
	}

	i := s.Device()
	for _, l := range listeners {
		fmt.Fprintf(stdout, "polyscand: listening on %s\n", where(l))
	}
	if web != nil {
		fmt.Fprintf(stdout, "polyscand: metrics on http://%s/metrics\n", web.Addr())
	}
	fmt.Fprintf(stdout, "polyscand: ready; %s on %s\n", i.Backend, i.Device)

	for err == nil {
		select {
		case err = <-failed:
			log.Error("shutting down", "error", err)
		case sig := <-signals:
			if sig == syscall.SIGHUP {
				s.Reload()
				continue
			}
			log.Info("shutting down", "signal", sig.String(), "within", f.ShutdownTimeout)
			err = errStopped
		}
	}
	if errors.Is(err, errStopped) {
		err = nil
	}

	ctx, cancel := context.WithTimeoutCause(context.Background(), f.ShutdownTimeout, fmt.Errorf("they took longer than %v", f.ShutdownTimeout))
	defer cancel()
	ctx, force := context.WithCancelCause(ctx)
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			select {
			case sig := <-signals:
				if sig != syscall.SIGHUP {
					force(fmt.Errorf("a second %v came", sig))
				}
			case <-done:
				return
			}
		}
	})
	err = errors.Join(err, s.Shutdown(ctx))
	close(done)
	watching.Wait()
	force(nil)
	httpServer.Close() // last, so that /readyz says what goes on
	running.Wait()
	return err
}

// errStopped is why serve ends when a signal says so.
var errStopped = errors.New("stopped")
