package clients

// Dialling: transport security, tokens, and the sizes that large frames need.

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
)

// DefaultPort is the port of a server that wasn't told another.
const DefaultPort = "7465"

// Sizes that fit frames of many megabytes.
const (
	// windowBytes is how much the other side may send before this one has read it, for each stream and for the
	// connection. Responses are small, but the masks of large frames aren't.
	windowBytes = 8 << 20
	// bufferBytes is what is read or written by one system call. gRPC cuts messages into frames of 16 KiB; with
	// its default of 32 KiB a frame of 5 MB would take 150 calls.
	bufferBytes = 256 << 10
	// maxReceiveBytes bounds a response. The server bounds requests itself, and says by how much they are too large.
	maxReceiveBytes = 1<<31 - 1
)

// DialOptions make a connection fit large frames: windows, buffers and message sizes. [Dial] uses them; they are for
// those who dial themselves.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithInitialWindowSize(windowBytes),
		grpc.WithInitialConnWindowSize(windowBytes),
		grpc.WithReadBufferSize(bufferBytes),
		grpc.WithWriteBufferSize(bufferBytes),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(maxReceiveBytes),
			grpc.MaxCallSendMsgSize(maxReceiveBytes),
		),
	}
}

// Option adjusts [Dial].
type Option func(*dialer) error

type dialer struct {
	tls       *tls.Config // nil: plain text
	token     func() (string, error)
	plainText bool // the token may go over plain text to any host
	extra     []grpc.DialOption
}

// TLSFiles names PEM files.
type TLSFiles struct {
	// CA holds the certificates that may have signed the server's; empty means those of the system.
	CA string
	// Cert and Key are the client's own certificate, for servers that ask for one. Both or neither.
	Cert, Key string
	// ServerName is the name in the server's certificate, where it isn't the host that is dialled.
	ServerName string
}

// Config reads the files. Its errors are those of the files.
func (f TLSFiles) Config() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.ServerName}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("CA certificates: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("CA certificates: %s: no PEM certificate in it", f.CA)
		}
	}
	if (f.Cert == "") != (f.Key == "") {
		return nil, errors.New("client certificate: the certificate and its key are given by two files, and one is missing")
	}
	if f.Cert != "" {
		cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("client certificate: %s, %s: %w", f.Cert, f.Key, err)
		}
		cfg.Certificates = []tls.Certificate{cert}
	}
	return cfg, nil
}

// WithTLS encrypts the connection and checks the server's certificate; with Cert and Key the server checks the
// client's, too.
func WithTLS(f TLSFiles) Option {
	return func(d *dialer) (err error) {
		d.tls, err = f.Config()
		return err
	}
}

// WithTLSConfig encrypts the connection as cfg says.
func WithTLSConfig(cfg *tls.Config) Option {
	return func(d *dialer) error {
		d.tls = cfg.Clone()
		return nil
	}
}

// WithToken sends a bearer token with each call. Without TLS that is refused unless the server is on this machine (a
// Unix socket or a loopback address), because anyone on the way could read it; see [WithPlainTextToken].
func WithToken(token string) Option {
	return func(d *dialer) error {
		d.token = func() (string, error) { return token, nil }
		if strings.TrimSpace(token) == "" {
			return errors.New("token: it is empty")
		}
		return nil
	}
}

// WithTokenFile is [WithToken] with the token in a file: the first one, so that a server's own file will do. Empty
// lines, those that start with #, and what follows a token on its line don't count. The file is looked at again every
// few seconds, so that a token can be replaced while clients run.
func WithTokenFile(path string) Option {
	return func(d *dialer) error {
		f := &tokenFile{path: path}
		d.token = f.read
		_, err := f.read()
		return err
	}
}

// WithPlainTextToken lets a token travel without TLS to any host, for networks that are private by other means.
func WithPlainTextToken() Option {
	return func(d *dialer) error {
		d.plainText = true
		return nil
	}
}

// WithDialOptions adds options of gRPC, behind the ones of this package.
func WithDialOptions(opts ...grpc.DialOption) Option {
	return func(d *dialer) error {
		d.extra = append(d.extra, opts...)
		return nil
	}
}

// Dial makes a client of the server at target: "host:port", "host" (with [DefaultPort]), "unix:/path", or any target
// that gRPC knows. The connection is made when it is first needed, so that a server that isn't there shows at the first
// call. Without [WithTLS] it is plain text. Close the client after use.
func Dial(target string, opts ...Option) (*Client, error) {
	d := &dialer{}
	for _, o := range opts {
		if err := o(d); err != nil {
			return nil, fmt.Errorf("clients: dial %s: %w", target, err)
		}
	}
	full, local, err := resolve(target)
	if err != nil {
		return nil, fmt.Errorf("clients: dial %q: %w", target, err)
	}
	creds := insecure.NewCredentials()
	if d.tls != nil {
		creds = credentials.NewTLS(d.tls)
	}
	grpcOpts := append(DialOptions(), grpc.WithTransportCredentials(creds))
	if d.token != nil {
		if d.tls == nil && !local && !d.plainText {
			return nil, fmt.Errorf("clients: dial %s: a token would travel in plain text; use TLS", target)
		}
		grpcOpts = append(grpcOpts, grpc.WithPerRPCCredentials(bearer{d.token, d.tls != nil}))
	}
	cc, err := grpc.NewClient(full, append(grpcOpts, d.extra...)...)
	if err != nil {
		return nil, fmt.Errorf("clients: dial %s: %w", target, err)
	}
	c := New(cc)
	c.closer = cc
	return c, nil
}

// resolve completes a target, and reports whether it names this machine.
func resolve(target string) (full string, local bool, err error) {
	switch {
	case target == "":
		return "", false, errors.New("no address; want host:port")
	case strings.HasPrefix(target, "unix:"), strings.HasPrefix(target, "unix-abstract:"):
		return target, true, nil
	case strings.Contains(target, "://"):
		scheme, rest, _ := strings.Cut(target, "://")
		if resolver.Get(scheme) != nil {
			return target, false, nil
		}
		with := ""
		if scheme == "https" {
			with = ", with TLS"
		}
		return "", false, fmt.Errorf("no address: want host:port without %s://%s, such as %s", scheme, with,
			strings.TrimRight(rest, "/"))
	}
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		// No port. An IPv6 address may come with brackets or without.
		host, port = strings.TrimSuffix(strings.TrimPrefix(target, "["), "]"), DefaultPort
		if strings.Contains(host, ":") && net.ParseIP(host) == nil {
			return "", false, fmt.Errorf("no address: %w", err)
		}
	}
	if host == "" {
		host = "localhost" // ":7465", as servers are told to listen
	}
	if port == "" {
		return "", false, errors.New("the port is missing")
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return "", false, fmt.Errorf("the port %q: want a number from 1 to 65535", port)
	}
	ip := net.ParseIP(host)
	return net.JoinHostPort(host, port), host == "localhost" || ip != nil && ip.IsLoopback(), nil
}

// bearer puts the token into the metadata of each call.
type bearer struct {
	token  func() (string, error)
	secure bool
}

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	t, err := b.token()
	if err != nil {
		return nil, err
	}
	return map[string]string{"authorization": "Bearer " + t}, nil
}

func (b bearer) RequireTransportSecurity() bool { return b.secure }

// tokenFile keeps the content of a file for a while.
type tokenFile struct {
	path string

	mu    sync.Mutex
	token string
	until time.Time
}

// tokenLifetime is how long a replaced token may go on being sent.
const tokenLifetime = 5 * time.Second

func (f *tokenFile) read() (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.Before(f.until) {
		return f.token, nil
	}
	data, err := os.ReadFile(f.path)
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	token := ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || strings.HasPrefix(line, "certificate=") {
			continue
		}
		token = line
		// What a server's file says behind a token is the server's.
		settings := strings.Fields(line)[1:]
		if !slices.ContainsFunc(settings, func(s string) bool { return !strings.Contains(s, "=") }) {
			token = strings.Fields(line)[0]
		}
		break
	}
	if token == "" {
		return "", fmt.Errorf("token file: %s: no token in it", f.path)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("token file: %s: a token is printable ASCII without spaces", f.path)
	}
	f.token, f.until = token, now.Add(tokenLifetime)
	return token, nil
}
