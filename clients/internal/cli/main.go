package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/polyscan/polyscan/internal/command"
)

// A Program is a whole command: it returns the exit code and leaves nothing running.
type Program func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int

// Main runs a program on what the process was given, and leaves with its code.
func Main(run Program) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal ends the command in good order; with the handler gone, a second one kills it.
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// WithOutput runs part of a program with an output that remembers its errors, such as of a pipe that was closed: where
// run says that all went well (0) and output was lost, it says so and returns code.
func WithOutput(name string, stdout, stderr io.Writer, code int, run func(stdout io.Writer) int) int {
	out := command.NewOutput(stdout)
	got := run(out)
	if err := out.Err(); err != nil && got == 0 {
		fmt.Fprintf(stderr, "%s: %s\n", name, OneLine(err.Error()))
		return code
	}
	return got
}
