// Command polyscan reduces frames over polygons: exact statistics of the pixels inside each region, and verdicts, as
// tables, JSON and pictures.
//
//	polyscan reduce testdata/board.png --regions testdata/board.regions.json --overlay overlay.png
//
// It talks to a server, or runs the same server inside its own process when no address is given. See polyscan --help.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal ends the command in good order; with the handler gone, a second one kills it.
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
