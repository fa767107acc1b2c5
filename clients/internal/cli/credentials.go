package cli

import (
	"embed"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/internal/explain"
)

// Sources are the files whose comments are the help of flags.
//
//go:embed credentials.go
var Sources embed.FS

// Credentials are the flags that say how a connection is secured, and what it shows to the server.
type Credentials struct {
	// Encrypt the connection, and check the server's certificate against those of the system.
	TLS bool `group:"server" needs:"addr"`
	// Encrypt the connection, and check the server's certificate against those in FILE (PEM).
	CA string `placeholder:"FILE" predictor:"file" group:"server" needs:"addr"`
	// Certificate to show to the server (PEM), with --key.
	Cert string `placeholder:"FILE" predictor:"file" group:"server" needs:"addr,key"`
	// Key of --cert (PEM).
	Key string `placeholder:"FILE" predictor:"file" group:"server" needs:"addr,cert"`
	// Name in the server's certificate, if it isn't the host of --addr.
	ServerName string `placeholder:"NAME" group:"server" needs:"addr"`
	// File with the bearer token that the server asks for.
	TokenFile string `placeholder:"FILE" env:"POLYSCAN_TOKEN_FILE" aka:"token" predictor:"file" group:"server" needs:"addr"`
}

// Secure reports whether any flag of TLS is given.
func (c *Credentials) Secure() bool {
	return c.TLS || c.CA != "" || c.Cert != "" || c.Key != "" || c.ServerName != ""
}

// Options are those of a connection that is made with the flags.
func (c *Credentials) Options() (opts []clients.Option) {
	if c.Secure() {
		opts = append(opts,
			clients.WithTLS(clients.TLSFiles{CA: c.CA, Cert: c.Cert, Key: c.Key, ServerName: c.ServerName}))
	}
	if c.TokenFile != "" {
		opts = append(opts, clients.WithTokenFile(c.TokenFile))
	}
	return opts
}

// Connection is what errors of a connection to an address are explained with.
func (c *Credentials) Connection(addr string) explain.Connection {
	return explain.Connection{Addr: addr, TLS: c.Secure(), Token: c.TokenFile != ""}
}
