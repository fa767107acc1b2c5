package clients

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

func TestResolve(t *testing.T) {
	for _, tt := range []struct {
		target, full string
		local        bool
	}{
		{"host:1", "host:1", false},
		{"host", "host:" + DefaultPort, false},
		{"localhost", "localhost:" + DefaultPort, true},
		{"127.0.0.1:9", "127.0.0.1:9", true},
		{"10.0.0.1:9", "10.0.0.1:9", false},
		{"[::1]:9", "[::1]:9", true},
		{"::1", "[::1]:" + DefaultPort, true},
		{"[::1]", "[::1]:" + DefaultPort, true},
		{"fe80::2", "[fe80::2]:" + DefaultPort, false},
		{":7", "localhost:7", true},
		{"unix:/run/p", "unix:/run/p", true},
		{"unix:p", "unix:p", true},
		{"dns:///host:1", "dns:///host:1", false},
	} {
		full, local, err := resolve(tt.target)
		if err != nil || full != tt.full || local != tt.local {
			t.Errorf("resolve(%q) = %q, %v, %v; want %q, %v", tt.target, full, local, err, tt.full, tt.local)
		}
	}
	for _, bad := range []string{"", "host:", "a:b:c", "host:1:2"} {
		if full, _, err := resolve(bad); err == nil {
			t.Errorf("resolve(%q) = %q, want an error", bad, full)
		}
	}
}

func FuzzResolve(f *testing.F) {
	for _, s := range []string{"", "host", "host:1", "[::1]:9", "unix:/a", ":", "[", "]:1", "a:b:c", "dns:///x",
		"%zz:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := Dial(s)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n") && !strings.Contains(s, "\n") {
				t.Errorf("Dial(%q): error of several lines: %v", s, err)
			}
			return
		}
		if err := c.Close(); err != nil {
			t.Errorf("Dial(%q): close: %v", s, err)
		}
	})
}

func TestToken(t *testing.T) {
	target := serve(t, &fake{})
	path := filepath.Join(t.TempDir(), "token")
	write := func(s string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# for the inspector\n\ncertificate=gateway\n  secret name=line-4 role=run\nother\n")
	for name, o := range map[string]Option{"value": WithToken("secret"), "file": WithTokenFile(path)} {
		c, err := Dial(target, o)
		if err != nil {
			t.Fatal(err)
		}
		d, err := c.GetDevice(t.Context())
		if err != nil || d.GetDeviceName() != "Bearer secret" {
			t.Errorf("%s: %q, %v", name, d.GetDeviceName(), err)
		}
		c.Close()
	}
	c, err := Dial(target)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.GetDevice(t.Context()); AsError(err) == nil || AsError(err).Code != codes.Unauthenticated {
		t.Errorf("without a token: %v", err)
	}

	for _, content := range []string{"", " \n", "# comment\n", "two words", "caf\u00e9"} {
		write(content)
		if _, err := Dial(target, WithTokenFile(path)); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("token file %q: error %v, want one that names the file", content, err)
		}
	}
	if _, err := Dial(target, WithTokenFile(filepath.Join(t.TempDir(), "absent"))); err == nil {
		t.Error("a token file that isn't there: no error")
	}
	if _, err := Dial(target, WithToken(" ")); err == nil {
		t.Error("an empty token: no error")
	}
	// Over plain text only to this machine.
	if _, err := Dial("inspector:1", WithToken("secret")); err == nil || !strings.Contains(err.Error(), "plain text") {
		t.Errorf("token to another host without TLS: %v", err)
	}
	for _, o := range [][]Option{{WithPlainTextToken()}, {WithTLS(TLSFiles{})}} {
		c, err := Dial("inspector:1", append(o, WithToken("secret"))...)
		if err != nil {
			t.Error(err)
			continue
		}
		c.Close()
	}
}

// TestTokenFileChanges replaces the file and lets the lifetime of what was read pass.
func TestTokenFileChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &tokenFile{path: path}
	read := func() string {
		t.Helper()
		s, err := f.read()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if got := read(); got != "old" {
		t.Fatal(got)
	}
	if err := os.WriteFile(path, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := read(); got != "old" {
		t.Errorf("token %q read again at once", got)
	}
	f.until = time.Now()
	if got := read(); got != "new" {
		t.Errorf("token %q after its lifetime, want the new one", got)
	}
}

// authority makes certificates for tests.
type authority struct {
	t    *testing.T
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.key, a.cert, _, _ = a.make("ca", nil)
	return a
}

// make writes NAME.crt and NAME.key.
func (a *authority) make(name string, parent *authority) (*ecdsa.PrivateKey, *x509.Certificate, string, string) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	tpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: parent == nil, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign |
			x509.KeyUsageDigitalSignature,
		DNSNames:    []string{"inspector"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	signer, issuer := key, tpl
	if parent != nil {
		signer, issuer = parent.key, parent.cert
	}
	der, err := x509.CreateCertificate(rand.Reader, tpl, issuer, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	write := func(ext, kind string, b []byte) string {
		p := filepath.Join(a.dir, name+ext)
		if err := os.WriteFile(p, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
			a.t.Fatal(err)
		}
		return p
	}
	return key, cert, write(".crt", "CERTIFICATE", der), write(".key", "PRIVATE KEY", raw)
}

func TestTLS(t *testing.T) {
	a := newAuthority(t)
	ca := filepath.Join(a.dir, "ca.crt")
	_, _, crt, key := a.make("server", a)
	_, _, clientCrt, clientKey := a.make("client", a)
	pair, err := tls.LoadX509KeyPair(crt, key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	for _, mutual := range []bool{false, true} {
		cfg := &tls.Config{Certificates: []tls.Certificate{pair}}
		if mutual {
			cfg.ClientCAs, cfg.ClientAuth = pool, tls.RequireAndVerifyClientCert
		}
		target := serve(t, &fake{}, grpc.Creds(credentials.NewTLS(cfg)))
		call := func(o Option) error {
			c, err := Dial(target, o, WithToken("secret"))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err = c.GetDevice(ctx)
			return err
		}
		full := TLSFiles{CA: ca, Cert: clientCrt, Key: clientKey, ServerName: "inspector"}
		if err := call(WithTLS(full)); err != nil {
			t.Errorf("mutual %v: %v", mutual, err)
		}
		if err := call(WithTLSConfig(&tls.Config{RootCAs: pool, ServerName: "inspector",
			Certificates: []tls.Certificate{pair}})); err != nil {
			t.Errorf("mutual %v, own config: %v", mutual, err)
		}
		bare := TLSFiles{CA: ca, ServerName: "inspector"}
		if err := call(WithTLS(bare)); (err != nil) != mutual {
			t.Errorf("mutual %v, without a certificate: %v", mutual, err)
		}
		wrong := full
		wrong.ServerName = "elsewhere"
		if err := call(WithTLS(wrong)); err == nil || AsError(err).Code != codes.Unavailable {
			t.Errorf("mutual %v, wrong name: %v", mutual, err)
		}
		other := full
		other.CA = filepath.Join(newAuthority(t).dir, "ca.crt")
		if err := call(WithTLS(other)); err == nil {
			t.Errorf("mutual %v: a server of an unknown authority was taken", mutual)
		}
	}
	for name, f := range map[string]TLSFiles{
		"absent CA":       {CA: filepath.Join(a.dir, "absent")},
		"CA without PEM":  {CA: key},
		"certificate":     {Cert: clientCrt},
		"key":             {Key: clientKey},
		"key of another":  {Cert: clientCrt, Key: key},
		"absent key file": {Cert: clientCrt, Key: filepath.Join(a.dir, "absent")},
	} {
		if _, err := Dial("host:1", WithTLS(f)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestUnreachable: a server that isn't there shows at the first call, with the code for it.
func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	// The other end of a connection: nobody listens there, and nobody else gets the port meanwhile.
	taken, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	c, err := Dial(taken.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Reduce(t.Context(), UseRegions(), Encoded([]byte{1}))
	if e := AsError(err); e == nil || e.Code != codes.Unavailable {
		t.Errorf("error %v, want UNAVAILABLE", err)
	}
}

// TestLargeFrame sends more than gRPC's default of 4 MiB both ways.
func TestLargeFrame(t *testing.T) {
	const n = 12 << 20
	c := dial(t, &fake{reduce: func(_ context.Context, r *polyscanv1.ReduceRequest) (*polyscanv1.ReduceResponse,
		error) {
		id := strings.Repeat("x", len(r.GetFrame().GetData()))
		return &polyscanv1.ReduceResponse{Result: &polyscanv1.FrameResult{FrameId: id}}, nil
	}})
	res, err := c.Reduce(t.Context(), UseRegions(), Encoded(make([]byte, n)))
	if err != nil || len(res.GetFrameId()) != n {
		t.Errorf("%d bytes back, %v", len(res.GetFrameId()), err)
	}
}
