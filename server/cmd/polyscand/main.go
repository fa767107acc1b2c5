// Command polyscand is the polyscan server: exact statistics of the pixels inside polygons, over gRPC.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/polyscan/polyscan/server"
	"github.com/polyscan/polyscan/server/daemon"
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

type flags struct {
	daemon.Flags
	Version bool `help:"Print the version and exit." short:"v" env:"-"`
}

func options() []kong.Option {
	return append(daemon.Options(""),
		kong.Name("polyscand"),
		kong.Description("polyscand takes camera frames and polygons over gRPC and answers with exact statistics of the pixels inside them, and with verdicts.\n\n"+
			"Each setting can be given as a flag, in the environment (--max-message is POLYSCAN_MAX_MESSAGE), or in the file that --config names, in this order of precedence.\n\n"+
			"Examples:\n"+
			"  polyscand\n"+
			"  polyscand --listen :7465 --http :7466 --recipes ./recipes\n"+
			"  polyscand --listen unix:/run/polyscan.sock --threads 4\n"+
			"  polyscand --config polyscand.yaml --print-config\n"+
			"  polyscand --listen :7465 --tls-cert cert.pem --tls-key key.pem --token-file tokens"),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
	)
}

// run is the command, from its flags to its exit code. It ends when signals says so.
func run(args []string, stdout, stderr io.Writer, signals <-chan os.Signal) int {
	var f flags
	exit := -1
	parser, err := kong.New(&f, append(options(), kong.Writers(stdout, stderr), kong.Exit(func(code int) {
		exit = code
	}))...)
	if err != nil {
		fmt.Fprintln(stderr, "polyscand:", err)
		return exitFailed
	}
	_, err = parser.Parse(args)
	switch {
	case exit >= 0: // --help, --print-config
		return exit
	case err != nil:
		fmt.Fprintf(stderr, "polyscand: %v\nTry \"polyscand --help\".\n", err)
		return exitUsage
	case f.Version:
		fmt.Fprintln(stdout, server.Version())
		return exitOK
	}
	if err := daemon.Run(context.Background(), "polyscand", &f.Flags, stdout, stderr, signals); err != nil {
		fmt.Fprintln(stderr, "polyscand:", err)
		return exitFailed
	}
	return exitOK
}
