package main

// The command line: its grammar, its help, and how errors leave it.

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"

	"github.com/alecthomas/kong"
	"google.golang.org/grpc/codes"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/internal/cli"
	"github.com/polyscan/polyscan/internal/command"
	"github.com/polyscan/polyscan/server/drivers"
)

// sources are the files whose comments are the help of flags.
//
//go:embed app.go play.go soak.go
var sources embed.FS

// app is the grammar.
type app struct {
	Play   playCmd   `cmd:"" default:"withargs" help:"Play frames or synthetic parts, and report. The default."`
	Soak   soakCmd   `cmd:"" help:"Measure the capacity, and then run at a share of it, with faults, checking every part."`
	Help   helpCmd   `cmd:"" help:"Explain a command."`
	Server serverCmd `cmd:"" hidden:""`

	// Print the version of this build.
	VersionFlag command.Version `name:"version"`
}

const description = `
Plays a folder of frames, or synthetic parts, into a polyscan server as line-scan cameras would, and says how fast and
how right the answers were. Without --addr it starts a server of its own.

Its flags are those of "conveyor play": see conveyor play --help.

Examples:

    conveyor --line-rate 20000 --verify
    conveyor testdata/conveyor --regions testdata/conveyor/regions.json --line-rate 2000 --duration 10s
    conveyor --cameras 4 --batch-load 4 --duration 30s --plot latency.svg
    conveyor --fault kill:0.001 --fault reorder:0.01 --verify --duration 1m
    conveyor --find-capacity
    conveyor soak --duration 30m --json soak.json
`

type helpCmd struct {
	// The command to explain: play or soak.
	Command []string `arg:"" optional:""`
}

func (c *helpCmd) Run(e *env) error {
	if code := run(e.ctx, append(c.Command, "--help"), e.stdin, e.stdout, e.stderr); code != exitOK {
		return errSaid
	}
	return nil
}

// Exit codes.
const (
	exitOK       = 0
	exitFail     = 1   // a result was wrong, missing or silently late, or the run kept to none of its limits
	exitUsage    = 2   // wrong arguments or bad input
	exitVoid     = 3   // too slow, or not checked: the run proves nothing
	exitServer   = 4   // the server, or the way to it
	exitCanceled = 130 // interrupted before anything was played
)

// The errors of a run that was reported.
var (
	errFailed = errors.New("failed")
	errVoid   = errors.New("void")
)

// errSaid ends a command that was used wrongly, and that has said so.
var errSaid error = &inputError{"wrong arguments"}

// inputError is an error of the arguments or of a file.
type inputError struct{ text string }

func (e *inputError) Error() string { return e.text }

func usage(format string, args ...any) error { return &inputError{fmt.Sprintf(format, args...)} }

// run is the whole command. It returns the exit code and leaves nothing running.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	e := newEnv(ctx, stdin, stdout, stderr)
	c := cli.Command{Name: "conveyor", Description: description, Devices: drivers.Names(), Sources: sources,
		Usage: exitUsage}
	return c.Run(&app{}, args, stdout, stderr, nil, func(k *kong.Context, out io.Writer) int {
		e.stdout = out
		return e.run(k)
	}, kong.ExplicitGroups([]kong.Group{
		{Key: "parts", Title: "Parts:"},
		{Key: "camera", Title: "Cameras:"},
		{Key: "load", Title: "Load and faults:"},
		{Key: "check", Title: "Checks:"},
		{Key: "output", Title: "Output:"},
		{Key: "server", Title: "Server:"},
	}))
}

// run runs the command that was parsed.
func (e *env) run(k *kong.Context) int {
	err := k.Run(e)
	code := exitCode(err)
	switch {
	case err == nil, errors.Is(err, errFailed), errors.Is(err, errVoid), errors.Is(err, errSaid):
	case code == exitCanceled:
		fmt.Fprintln(e.stderr, "conveyor: interrupted")
	default:
		fmt.Fprintf(e.stderr, "conveyor: %s\n", cli.OneLine(err.Error()))
	}
	return code
}

// exitCode classifies an error, nil included.
func exitCode(err error) int {
	var in *inputError
	var lost *command.OutputError
	e := clients.AsError(err)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errFailed):
		return exitFail
	case errors.Is(err, errVoid):
		return exitVoid
	case errors.As(err, &in), errors.As(err, &lost):
		return exitUsage
	case errors.Is(err, context.Canceled):
		return exitCanceled
	case e != nil && e.Code == codes.InvalidArgument: // such as limits on a channel that the frames lack
		return exitUsage
	}
	return exitServer
}

// serverFlags choose the server.
type serverFlags struct {
	// Server to talk to: HOST:PORT or unix:PATH. Without it a server is started as another process.
	Addr string `placeholder:"ADDR" env:"POLYSCAN_ADDR" aka:"server,address,host,url" group:"server"`
	// How pixels travel: tcp, unix (a socket), or shm (memory that the server maps; it must be on this host). The
	// kind of --addr decides between tcp and unix.
	Transport string `enum:"auto,tcp,unix,shm" default:"auto" group:"server"`
	cli.Credentials
	// Device of the server that is started: auto, cpu, or cuda in builds that have it.
	Device string `enum:"auto,cpu,cuda" default:"auto" group:"server" without:"addr"`
	// Threads of the CPU of the server that is started (default: all).
	Threads int `placeholder:"N" group:"server" without:"addr|device=cuda"`
}

// target finds the server, or starts it.
func (s *serverFlags) target() (*target, error) {
	if s.Addr == "" {
		if s.Threads < 0 {
			return nil, usage("--threads %d: must not be negative", s.Threads)
		}
		if s.Transport == "auto" {
			s.Transport = "tcp"
		}
		return startServer(s.Transport, s.Device, s.Threads)
	}
	kind := "tcp"
	if isUnix(s.Addr) {
		kind = "unix"
	}
	switch s.Transport {
	case "auto":
		s.Transport = kind
	case "tcp", "unix":
		if s.Transport != kind {
			return nil, usage("--transport %s: --addr %s is of %s", s.Transport, s.Addr, kind)
		}
	}
	return &target{addr: s.Addr, close: func() error { return nil }, to: s.Connection(s.Addr), options: s.Options()}, nil
}
