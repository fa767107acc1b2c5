package main

// The server of a run: one at an address, or one of its own.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/internal/explain"
	"github.com/polyscan/polyscan/server"
	"github.com/polyscan/polyscan/server/drivers"
)

// target is a server, and how to reach it.
type target struct {
	addr    string
	to      explain.Connection
	options []clients.Option
	pid     int // of a server of our own; 0: somebody else's
	close   func() error
}

func (t *target) dial(extra ...clients.Option) (*clients.Client, error) {
	return clients.Dial(t.addr, append(append([]clients.Option{}, t.options...), extra...)...)
}

// serverCmd is the server that a run without --addr starts as another process, so that its memory and its garbage are
// its own. It ends with its standard input.
type serverCmd struct {
	Listen  string `required:"" placeholder:"ADDR"`
	Shared  string `placeholder:"PATH"` // socket of shared memory; empty: none
	Device  string `default:"auto"`
	Threads int    `zero:""`
}

// sharedBytes is how much memory cameras may lease in all; what nobody leases isn't taken.
const sharedBytes = 8 << 30

// The words that the two processes say to each other.
const listeningOn = "listening on "

func (c *serverCmd) Run(e *env) error {
	if err := drivers.Prepare(c.Device); err != nil {
		return err
	}
	cfg := server.Config{Device: c.Device, Threads: c.Threads}
	if c.Shared != "" {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: c.Shared, Net: "unix"})
		if err != nil {
			return err
		}
		cfg.SharedMemoryListener, cfg.SharedMemoryBytes = l, sharedBytes
	}
	s, err := server.New(cfg)
	if errors.Is(err, server.ErrConfig) {
		return usage("%v", err)
	} else if err != nil {
		return err
	}
	network, addr := "tcp", c.Listen
	if path, ok := strings.CutPrefix(c.Listen, "unix:"); ok {
		network, addr = "unix", path
	}
	l, err := net.Listen(network, addr)
	if err != nil {
		return errors.Join(err, s.Shutdown(context.Background()))
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	fmt.Fprintln(e.stdout, listeningOn+l.Addr().String())
	_, err = io.Copy(io.Discard, e.stdin)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(err, s.Shutdown(ctx), <-served)
}

// childEnvironment is what the server's process gets beside this one's environment; tests set it.
var childEnvironment []string

// startServer starts a server of our own.
func startServer(transport, device string, threads int) (_ *target, err error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir := ""
	listen := "127.0.0.1:0"
	if transport != "tcp" {
		if dir, err = os.MkdirTemp("", "conveyor"); err != nil {
			return nil, err
		}
		listen = "unix:" + filepath.Join(dir, "server")
	}
	args := []string{"server", "--listen", listen, "--device", device, "--threads", fmt.Sprint(threads)}
	if transport == "shm" {
		args = append(args, "--shared", filepath.Join(dir, "memory"))
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), childEnvironment...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	t := &target{pid: cmd.Process.Pid, to: explain.Connection{Addr: "the server that was started"}}
	t.close = func() error {
		err := errors.Join(in.Close(), cmd.Wait())
		if dir != "" {
			err = errors.Join(err, os.RemoveAll(dir))
		}
		if err != nil {
			return fmt.Errorf("server: %w", err)
		}
		return nil
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), listeningOn)
	if !ok {
		ended := t.close()
		var code *exec.ExitError
		if errors.As(ended, &code) && code.ExitCode() == exitUsage {
			return nil, usage("server: it can't start with --device %s", device)
		}
		return nil, errors.Join(fmt.Errorf("server: it did not start: %w", err), ended)
	}
	if dir != "" {
		addr = "unix:" + addr
	}
	t.addr = addr
	return t, nil
}

// connectTimeout is how long the first answer of the server may take.
const connectTimeout = 10 * time.Second

// check asks the server what it is.
func (t *target) check(ctx context.Context) (backend, device string, err error) {
	c, err := t.dial()
	if err != nil {
		text := strings.TrimPrefix(err.Error(), "clients: dial ")
		if !t.to.TLS && strings.Contains(text, "TLS") {
			text += " (--tls)"
		}
		return "", "", usage("--addr %s", text)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	d, err := c.GetDevice(ctx)
	if e := clients.AsError(err); e != nil {
		if text := t.to.Explain(e); text != "" {
			return "", "", errors.New(text)
		}
	}
	if err != nil {
		return "", "", err
	}
	return d.GetBackend(), d.GetDeviceName(), nil
}
