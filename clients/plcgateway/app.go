package main

// The command line: its grammar, its help, and how errors leave it.

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/polyscan/polyscan/clients/internal/cli"
	"github.com/polyscan/polyscan/clients/plcgateway/internal/modbus"
	"github.com/polyscan/polyscan/internal/command"
)

// sources are the files whose comments are the help of flags.
//
//go:embed app.go simulate.go timeline.go
var sources embed.FS

// app is the grammar.
type app struct {
	Run      runCmd      `cmd:"" default:"withargs" help:"Serve PLCs as the configuration says. The default."`
	Map      mapCmd      `cmd:"" help:"Print the Modbus map: a table, CSV, or constants of structured text."`
	Timeline timelineCmd `cmd:"" help:"Print when a part was where, from the camera's line to the PLC's acknowledgement."`
	Simulate simulateCmd `cmd:"" help:"Play a PLC against a gateway, and print the timeline of each part."`

	// Print the version of this build.
	VersionFlag command.Version `name:"version"`
}

const description = `
Stands between polyscan servers and PLCs: triggers, part ids and recipes come in; verdicts, numbers and counters go out.
Every accepted trigger gets exactly one answer in time, and whatever is late, lost or unread is REJECT.

Examples:

    plcgateway --config plcgateway.yaml --print-config
    plcgateway --config plcgateway.yaml
    plcgateway map --format st > polyscan.st
    plcgateway simulate --addr localhost:502 --count 20
    journalctl -u plcgateway -o cat | plcgateway timeline B-17
`

// Exit codes.
const (
	exitOK       = 0
	exitFail     = 1 // it could not start now, or a simulated PLC did not get what it has to
	exitUsage    = 2 // wrong arguments or configuration, and wrong the next time, too; or output that got lost
	exitAway     = 3 // a simulated PLC did not reach the gateway
	exitCanceled = 130
)

// awayError is that of a gateway that isn't there.
type awayError struct{ error }

// inputError is an error of the arguments or of a file.
type inputError struct{ text string }

func (e *inputError) Error() string { return e.text }

func usage(format string, args ...any) error { return &inputError{fmt.Sprintf(format, args...)} }

// env is what a command runs in.
type env struct {
	ctx            context.Context
	stdin          io.Reader
	stdout, stderr io.Writer
	json           bool // errors are lines of the log, in JSON
}

// run is the whole command. It returns the exit code and leaves nothing running.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	c := cli.Command{Name: "plcgateway", Description: description, Sources: sources, Usage: exitUsage}
	return c.Run(&app{}, args, stdout, stderr, nil, func(k *kong.Context, out io.Writer) int {
		return (&env{ctx: ctx, stdin: stdin, stdout: out, stderr: stderr}).run(k)
	})
}

// run runs the command that was parsed.
func (e *env) run(k *kong.Context) int {
	err := k.Run(e)
	var in *inputError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, context.Canceled):
		return exitCanceled
	case errors.As(err, &in):
		for line := range strings.Lines(in.text) { // a configuration has all its mistakes told
			e.report(cli.OneLine(line))
		}
		return exitUsage
	}
	e.report(cli.OneLine(err.Error()))
	switch {
	case errors.As(err, new(awayError)):
		return exitAway
	case errors.As(err, new(*command.OutputError)):
		return exitUsage
	}
	return exitFail
}

func (e *env) report(text string) {
	if e.json {
		slog.New(slog.NewJSONHandler(e.stderr, nil)).Error(text, "command", "plcgateway")
		return
	}
	fmt.Fprintf(e.stderr, "plcgateway: %s\n", text)
}

type runCmd struct {
	// File of stations and servers.
	Config string `required:"" placeholder:"FILE" predictor:"file"`
	// Print the configuration with its defaults, checked, instead of running.
	PrintConfig bool
}

func (c *runCmd) Run(e *env) error {
	text, err := readConfig(c.Config)
	if err != nil {
		return err
	}
	e.json = !c.PrintConfig && inJSON.Match(text)
	cfg, err := parseConfig(c.Config, text)
	if err != nil {
		return err
	}
	if c.PrintConfig {
		return cfg.print(e.stdout)
	}
	return serve(e.ctx, cfg, e.stdout, e.stderr)
}

type mapCmd struct {
	// Form: table, csv, or st (constants of structured text, IEC 61131-3).
	Format string `enum:"table,csv,st" default:"table"`
	// Configuration whose names of values are shown.
	Config string `placeholder:"FILE" predictor:"file"`
	// Station of the configuration; the first by default.
	Station string `placeholder:"NAME" needs:"config"`
}

func (c *mapCmd) Run(e *env) error {
	var values []string
	if c.Config != "" {
		cfg, err := loadConfig(c.Config)
		if err != nil {
			return err
		}
		st := &cfg.Stations[0]
		if c.Station != "" {
			if st = cfg.station(c.Station); st == nil {
				return usage("--station %s: %s has none of that name", c.Station, c.Config)
			}
		}
		values = st.Values
	}
	switch c.Format {
	case "csv":
		return modbus.WriteCSV(e.stdout, values)
	case "st":
		return modbus.WriteST(e.stdout, values)
	}
	return modbus.WriteTable(e.stdout, values)
}
