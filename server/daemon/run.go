// Package daemon runs a server as a process: its settings as flags, its addresses, its signals. polyscand is nothing
// else, and polyscan serve is the same.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"

	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/server"
)

// Run runs a server until ctx ends or a signal comes: SIGHUP reads files again, the first other one lets calls in
// flight finish, for as long as ShutdownTimeout says, and a second one cancels them. It ends, too, when the device is
// lost for good, with that error. It tells stdout, under the name of the command, where the server listens and when it
// is ready, systemd the same where that listens, and logs to stderr. The error matches [ErrStart] where the server did
// not get that far, and [server.ErrConfig] where it would not the next time either.
func Run(ctx context.Context, name string, f *Flags, stdout, stderr io.Writer, signals <-chan os.Signal) (err error) {
	started := false
	defer func() {
		if err != nil && !started {
			err = &startError{err}
		}
	}()
	log := f.logger(stderr)
	say := func(format string, args ...any) { fmt.Fprintf(stdout, name+": "+format+"\n", args...) }
	if f.LogFormat == "json" {
		say = func(format string, args ...any) { log.Info(fmt.Sprintf(format, args...), "command", name) }
	}
	listeners, err := listenAll(f.Listen, fs.FileMode(f.SocketMode))
	if err != nil {
		return err
	}
	closeAll := func() {
		for _, l := range listeners {
			l.Close()
		}
	}
	var web net.Listener
	if f.HTTP == "" && f.Console {
		f.HTTP = consoleAddress
	}
	if f.HTTP != "" {
		if web, err = listen(f.HTTP, fs.FileMode(f.SocketMode)); err != nil {
			closeAll()
			return fmt.Errorf("--http: %w", err)
		}
	}
	cfg := f.Config
	cfg.Logger = log
	cfg.Console = web != nil && (f.Console || local(web))
	if f.ShmSocket != "" {
		l, err := listen("unix:"+f.ShmSocket, 0o600)
		if err != nil {
			closeAll()
			if web != nil {
				web.Close()
			}
			return fmt.Errorf("--shm-socket: %w", err)
		}
		cfg.SharedMemoryListener = l.(*net.UnixListener)
		defer l.Close() // where New or Shutdown has not
	}
	calls := listeners
	if cfg.Console { // over HTTP, too
		calls = append(slices.Clip(calls), web)
	}
	f.warn(log, calls)
	s, err := newServer(cfg)
	if err != nil {
		closeAll()
		if web != nil {
			web.Close()
		}
		return err
	}

	defer keepHeap(s)()
	failed := make(chan error, len(listeners)+1)
	var running sync.WaitGroup
	for _, l := range listeners {
		running.Go(func() {
			if err := s.Serve(l); err != nil {
				failed <- fmt.Errorf("%s: %w", l.Addr(), err)
			}
		})
	}
	httpServer := s.HTTPServer()
	if web != nil {
		running.Go(func() {
			if err := httpServer.Serve(server.HTTPListener(web, httpServer)); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("%s: %w", web.Addr(), err)
			}
		})
	}

	i := s.Device()
	if i.Backend == cpu.Name {
		// The device has its threads by now; this is one more for connections. What a call does to its pixels on the
		// way to the device and back would else keep them all busy together with an op, and the runtime looks at
		// connections every 10 ms then.
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1))
	}
	for _, l := range listeners {
		say("listening on %s", where(l))
	}
	if web != nil {
		say("metrics on http://%s/metrics", web.Addr())
		if cfg.Console {
			say("console on %s", f.consoleURL(web))
		}
	}
	say("ready; %s on %s", i.Backend, i.Device)
	started = true
	systemd := newSupervisor(log)
	defer systemd.close()
	systemd.ready(fmt.Sprintf("%s on %s", i.Backend, i.Device))

	for err == nil {
		select {
		case <-systemd.due():
			systemd.alive()
		case err = <-failed:
			log.Error("shutting down", "error", err)
		case err = <-s.Failed():
			log.Error("shutting down", "error", err)
		case <-ctx.Done():
			log.Info("shutting down", "cause", context.Cause(ctx), "within", f.ShutdownTimeout)
			err = errStopped
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

	systemd.stopping(f.ShutdownTimeout)
	grace, cancel := context.WithTimeoutCause(context.Background(), f.ShutdownTimeout,
		fmt.Errorf("they took longer than %v", f.ShutdownTimeout))
	defer cancel()
	grace, force := context.WithCancelCause(grace)
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			select {
			case <-systemd.due():
				systemd.alive()
			case sig := <-signals:
				if sig != syscall.SIGHUP {
					force(fmt.Errorf("a second %v came", sig))
				}
			case <-done:
				return
			}
		}
	})
	err = errors.Join(err, s.Shutdown(grace))
	close(done)
	watching.Wait()
	force(nil)
	httpServer.Close() // last, so that /readyz says what goes on
	running.Wait()
	return err
}

// consoleAddress is where the console is that was asked for without an address.
const consoleAddress = "localhost:7466"

// newServer is replaced by tests that need a device with faults.
var newServer = server.New

// errStopped is why Run ends when it is told to.
var errStopped = errors.New("stopped")

// ErrStart is matched by errors of [Run] that kept the server from starting: its settings, its files, its addresses.
var ErrStart = errors.New("the server could not start")

type startError struct{ error }

func (e *startError) Error() string        { return sentence(e.error) }
func (e *startError) Is(target error) bool { return target == ErrStart }
func (e *startError) Unwrap() error        { return e.error }

// settingError is wrong whenever it is tried, like errors of server.New that match server.ErrConfig.
type settingError struct{ error }

func (settingError) Is(target error) bool { return target == server.ErrConfig }
