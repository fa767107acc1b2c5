// Command polyscand is the polyscan server: exact statistics of the pixels inside polygons, over gRPC.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/polyscan/polyscan/internal/command"
	"github.com/polyscan/polyscan/server"
	"github.com/polyscan/polyscan/server/daemon"
	"github.com/polyscan/polyscan/server/drivers"
)

// Exit codes.
const (
	exitOK     = 0 // it ran and was asked to stop, and finished what was in flight
	exitFailed = 1 // it could not start now, could not go on, or had to cancel calls
	exitUsage  = 2 // its settings are wrong, and will be the next time
)

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, signals))
}

type flags struct {
	daemon.Flags
	Version command.Version `help:"Print the version and exit." short:"v" env:"-"`
}

const description = `polyscand takes camera frames and polygons over gRPC and answers with exact statistics of the
pixels inside them, and with verdicts.

Each setting can be given as a flag, in the environment (--max-message is POLYSCAN_MAX_MESSAGE), or in the file that
--config names, in this order of precedence.

Examples:
  polyscand
  polyscand --listen :7465 --tls-cert cert.pem --tls-key key.pem --token-file tokens
  polyscand --http localhost:7466 --recipes ./recipes
  polyscand --listen unix:/run/polyscan.sock --threads 4
  polyscand --config polyscand.yaml --print-config`

// run is the command, from its flags to its exit code. It ends when signals says so.
func run(args []string, stdout, stderr io.Writer, signals <-chan os.Signal) int {
	var f flags
	out, served := command.NewOutput(stdout), false
	code := command.Run(&f, args, out, stderr, nil, func(_ *kong.Context, err error) int {
		var lost *command.OutputError
		if errors.As(err, &lost) {
			return exitOK // told below
		}
		if err != nil {
			daemon.Report(stderr, "polyscand", daemon.WantsJSON(args), err, "Try \"polyscand --help\".\n")
			return exitUsage
		}
		served = true
		if err = drivers.Prepare(f.Device); err == nil {
			err = daemon.Run(context.Background(), "polyscand", &f.Flags, out, stderr, signals)
		}
		if err == nil {
			return exitOK
		}
		daemon.Report(stderr, "polyscand", f.LogFormat == "json", err, "")
		if errors.Is(err, server.ErrConfig) {
			return exitUsage
		}
		return exitFailed
	}, append(daemon.Options(""), kong.Name("polyscand"), kong.Description(description),
		kong.Bind(command.VersionOf("polyscand", drivers.Names())))...)
	if err := out.Err(); err != nil && !served { // a server goes on without
		daemon.Report(stderr, "polyscand", daemon.WantsJSON(args), err, "")
		return exitUsage
	}
	return code
}
