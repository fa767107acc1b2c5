// Command conveyor plays frames, or synthetic parts, into a polyscan server as line-scan cameras would, and says how
// fast and how right the answers were.
//
//	conveyor --line-rate 20000 --verify
//	conveyor testdata/conveyor --regions testdata/conveyor/regions.json --line-rate 2000
//
// It is a demonstration, a load generator and a soak test. See conveyor --help.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal stops the cameras; with the handler gone, a second one kills.
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
