package main

// The command line: its grammar, its help, and how errors leave it.

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"

	"github.com/alecthomas/kong"

	"github.com/polyscan/polyscan/clients/internal/cli"
	"github.com/polyscan/polyscan/internal/command"
)

// sources are the files whose comments are the help of flags.
//
//go:embed check.go features.go run.go simulate.go stream.go app.go
var sources embed.FS

// app is the grammar.
type app struct {
	List     listCmd     `cmd:"" help:"List the cameras of this host's networks."`
	Features featuresCmd `cmd:"" help:"Print what can be read and set at a camera."`
	Set      setCmd      `cmd:"" help:"Set features of a camera, or run its commands."`
	Stream   streamCmd   `cmd:"" help:"Stream a camera into a server, and print the verdict of each part."`
	Run      runCmd      `cmd:"" help:"Stream the cameras of a file, as a service does."`
	Check    checkCmd    `cmd:"" help:"Say what of this host's settings costs packets, and what to do about it."`
	Simulate simulateCmd `cmd:"" help:"Be a camera, for tests and demonstrations."`

	// Print the version of this build.
	VersionFlag command.Version `name:"version"`
}

const description = `
Takes frames and lines from GigE Vision cameras into a polyscan server. What a camera sent and did not arrive is asked
for again; what stays lost makes its part incomplete, or missing by name, and never a PASS.

Examples:

    camera list
    camera features 192.168.1.20
    camera set 192.168.1.20 ExposureTime=2000 PixelFormat=Mono8
    camera stream 192.168.1.20 --addr localhost:7465 --regions regions.json
    camera simulate --loss 0.001
`

// Exit codes.
const (
	exitOK       = 0
	exitFail     = 1   // a part failed, or lacks lines; a host's setting costs packets
	exitUsage    = 2   // wrong arguments or bad input
	exitVoid     = 3   // no part came, or some got no verdict
	exitLost     = 4   // the camera or the server, or the way to one
	exitCanceled = 130 // a signal before the stream began; later it ends the stream as --duration does
)

// Errors of a command that has said all.
var (
	errFailed = errors.New("failed")
	errVoid   = errors.New("void")
)

// inputError is an error of the arguments or of a file.
type inputError struct{ text string }

func (e *inputError) Error() string { return e.text }

func usage(format string, args ...any) error { return &inputError{fmt.Sprintf(format, args...)} }

// env is what a command runs in.
type env struct {
	ctx            context.Context
	stdin          io.Reader
	stdout, stderr io.Writer
}

// run is the whole command. It returns the exit code and leaves nothing running.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	c := cli.Command{Name: "camera", Description: description, Sources: sources, Usage: exitUsage}
	return c.Run(&app{}, args, stdout, stderr, nil, func(k *kong.Context, out io.Writer) int {
		return (&env{ctx, stdin, out, stderr}).run(k)
	})
}

// run runs the command that was parsed.
func (e *env) run(k *kong.Context) int {
	err := k.Run(e)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errFailed):
		return exitFail
	case errors.Is(err, errVoid):
		return exitVoid
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(e.stderr, "camera: interrupted")
		return exitCanceled
	}
	fmt.Fprintf(e.stderr, "camera: %s\n", cli.OneLine(err.Error()))
	if errors.As(err, new(*inputError)) {
		return exitUsage
	}
	return exitLost
}
