// TLS: certificates from files that may be replaced while the server runs.

package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync/atomic"

	"github.com/polyscan/polyscan/server/internal/auth"
)

// TLS names PEM files. They are read again when they change.
type TLS struct {
	// Certificate of the server, PEM. Read again when it changes, and on SIGHUP; so are the files below.
	//
	// Certificates that lead to its authority may follow it. There are both this and KeyFile, or neither.
	CertFile string `name:"cert" type:"path" placeholder:"FILE" default:"" needs:"tls-key"`
	// Key of the certificate, PEM.
	KeyFile string `name:"key" type:"path" placeholder:"FILE" default:"" needs:"tls-cert"`
	// Authorities that must have signed the certificates of clients, PEM.
	ClientCAFile string `name:"client-ca" type:"path" placeholder:"FILE" default:"" needs:"tls-cert"`
}

// certificates is the state of the files.
type certificates struct {
	files   TLS
	log     *slog.Logger
	watched []*auth.File
	current atomic.Pointer[tls.Config]
}

func newCertificates(files TLS, log *slog.Logger) (*certificates, error) {
	switch {
	case files.CertFile == "" && files.KeyFile == "":
		if files.ClientCAFile != "" {
			return nil, errors.New("server: TLS: a client CA needs a certificate and a key of the server")
		}
		return nil, nil
	case files.CertFile == "":
		return nil, errors.New("server: TLS: the key has no certificate")
	case files.KeyFile == "":
		return nil, errors.New("server: TLS: the certificate has no key")
	}
	c := &certificates{files: files, log: log}
	for _, f := range []string{files.CertFile, files.KeyFile, files.ClientCAFile} {
		if f != "" {
			c.watched = append(c.watched, &auth.File{Path: f})
		}
	}
	if err := c.read(); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *certificates) read() error {
	for _, w := range c.watched {
		w.Look()
	}
	cert, err := tls.LoadX509KeyPair(c.files.CertFile, c.files.KeyFile)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) { // which says of which file
			return fmt.Errorf("server: TLS: %w", err)
		}
		return fmt.Errorf("server: TLS: %s, %s: %w", c.files.CertFile, c.files.KeyFile, err)
	}
	cfg := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{cert},
	}
	if c.files.ClientCAFile != "" {
		pem, err := os.ReadFile(c.files.ClientCAFile)
		if err != nil {
			return fmt.Errorf("server: TLS: client CA: %w", err)
		}
		cfg.ClientCAs = x509.NewCertPool()
		if !cfg.ClientCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("server: TLS: client CA: %s: there is no PEM certificate in it", c.files.ClientCAFile)
		}
		cfg.ClientAuth = tls.RequireAndVerifyClientCert
	}
	c.current.Store(cfg)
	return nil
}

// reload reads the files again. Where that fails, the certificates stay what they were.
func (c *certificates) reload() {
	if err := c.read(); err != nil {
		c.log.Error("the certificates stay what they were", "error", err)
		return
	}
	c.log.Info("certificates read again", "file", c.files.CertFile)
}

// config is for handshakes: each takes the certificates of its time. The protocols are those that clients are offered.
func (c *certificates) config(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			changed := false
			for _, w := range c.watched {
				changed = w.Changed() || changed
			}
			if changed {
				c.reload()
			}
			cfg := c.current.Load().Clone()
			cfg.NextProtos = protocols
			return cfg, nil
		},
	}
}
