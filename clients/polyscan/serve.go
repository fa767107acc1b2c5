package main

// polyscan serve: a server in the foreground.

import (
	"errors"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/server"
	"github.com/polyscan/polyscan/server/daemon"
	"github.com/polyscan/polyscan/server/drivers"
)

type serveCmd struct {
	daemon.Flags
}

func (c *serveCmd) Help() string {
	return `
Answers calls until it is interrupted, and then finishes those in flight. It is polyscand (server/cmd/polyscand) and
takes its settings from the same places: flags, the environment (--max-message is POLYSCAN_MAX_MESSAGE), and the file
that --config names.

Examples:

    polyscan serve
    polyscan serve --listen :7465 --tls-cert server.pem --tls-key server.key --token-file tokens
    polyscan serve --http localhost:7466 --recipes ./recipes
    polyscan serve --listen unix:/run/polyscan.sock
`
}

// serveError ended a server that another try may start, such as one whose address is in use: polyscand exits as this.
type serveError struct{ error }

func (e *serveError) Unwrap() error { return e.error }

func (c *serveCmd) Run(e *env) error {
	err := daemon.Run(e.ctx, "polyscan serve", &c.Flags, e.stdout, e.stderr, nil)
	wrong := errors.Is(err, server.ErrConfig)
	switch {
	case c.LogFormat == "json" && errors.Is(err, daemon.ErrStart):
		daemon.Report(e.stderr, "polyscan serve", true, err, "")
		if wrong {
			return errSaid
		}
		return errRejected
	case errors.Is(err, drivers.ErrUnknown), errors.Is(err, kernels.ErrNoDevice):
		return noDevice(c.Device, err)
	case wrong:
		return &inputError{err.Error()}
	case err != nil:
		return &serveError{err}
	}
	return nil
}
