package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/auth"
)

// methods are all methods that a server has, and whether they are streams.
func methods(s *Server) map[string]bool {
	all := map[string]bool{}
	for service, info := range s.grpc.GetServiceInfo() {
		for _, m := range info.Methods {
			all["/"+service+"/"+m.Name] = m.IsClientStream || m.IsServerStream
		}
	}
	return all
}

// Each method of each service says which role it needs; what is forgotten is for admins.
func TestEveryMethodHasRole(t *testing.T) {
	s := start(t, Config{})
	all := methods(s.Server)
	if len(all) < 30 {
		t.Fatalf("%d methods", len(all))
	}
	for m := range all {
		if _, known := auth.LeastRole(m); !known {
			t.Errorf("%s: no role is said to be needed", m)
		}
	}
	if least, known := auth.LeastRole("/polyscan.v1.NoService/Forgotten"); known || least != auth.Admin {
		t.Errorf("a method that is forgotten needs %v, %t", least, known)
	}
}

// A caller of each role gets through to those methods whose role theirs includes, and to no other.
func TestRoles(t *testing.T) {
	file := writeFile(t, filepath.Join(t.TempDir(), "tokens"), `
v name=shift-lead role=view
r name=line-4 role=run
t name=teacher role=teach
a name=ops role=admin
n
`)
	s := start(t, Config{TokenFile: file})
	roles := map[string]auth.Role{"v": auth.View, "r": auth.Run, "t": auth.Teach, "a": auth.Admin, "n": auth.Teach}
	all := methods(s.Server)
	refused := 0
	for _, method := range slices.Sorted(maps.Keys(all)) {
		least, _ := auth.LeastRole(method)
		for token, role := range roles {
			t.Run(fmt.Sprintf("%s/%s", token, method), func(t *testing.T) {
				stream, err := s.conn.NewStream(bearer(t.Context(), "Bearer "+token),
					&grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
				if err != nil {
					t.Fatal(err)
				}
				if role >= least { // an empty request, and the end: whatever comes of it, it isn't for want of a role
					_ = stream.SendMsg(&emptypb.Empty{})
					_ = stream.CloseSend()
				}
				d := detailsOf(t, recvErr(stream))
				denied := d.status.Code() == codes.PermissionDenied
				if denied != (role < least) {
					t.Errorf("role %v, and %v is needed: %v", role, least, d.status)
				}
				if denied {
					refused++
					if d.info.GetReason() != apierr.ReasonRole || d.info.GetMetadata()["needed"] != least.String() {
						t.Errorf("%v", d.info)
					}
				}
			})
		}
	}
	if refused < 20 {
		t.Errorf("%d calls were refused", refused)
	}
}

// certificate issues a certificate of a client.
func (a *authority) certificate(t testing.TB, names *x509.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	names.SerialNumber = big.NewInt(7)
	names.NotBefore, names.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	names.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, names, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// seen is a caller as an interceptor of the server sees it.
func seen(t testing.TB, s *testServer, ctx context.Context, opt grpc.DialOption) (auth.Caller, error) {
	t.Helper()
	_, err := pb.NewDeviceServiceClient(s.connectCleanly(t, opt)).GetDevice(ctx, &pb.GetDeviceRequest{})
	select {
	case c := <-callers:
		return c, err
	default:
		return auth.Caller{}, err
	}
}

var callers = make(chan auth.Caller, 1)

func seeCallers() grpc.ServerOption {
	return grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo,
		next grpc.UnaryHandler) (any, error) {
		res, err := next(ctx, req)
		if err == nil {
			callers <- auth.FromContext(ctx)
		}
		return res, err
	})
}

// Who a certificate is, with a file and without; and a token goes before a certificate.
func TestCertificateCallers(t *testing.T) {
	a := newAuthority(t)
	cert, key := a.issue(t, t.TempDir(), 1)
	file := writeFile(t, filepath.Join(t.TempDir(), "tokens"), `
certificate=gateway.plant role=view
certificate=spiffe://plant/ops name=ops role=admin
secret name=line-4 role=run
`)
	spiffe, _ := url.Parse("spiffe://plant/ops")
	common := pkix.Name{CommonName: "gateway.plant"}
	type want struct {
		tenant string // "": refused
		role   auth.Role
	}
	viewer, teacher := want{"gateway.plant", auth.View}, want{"gateway.plant", auth.Teach}
	dns := func(names ...string) x509.Certificate { return x509.Certificate{DNSNames: names} }
	uri, email := dns("gateway.plant"), x509.Certificate{Subject: common, EmailAddresses: []string{"ops@plant"}}
	uri.Subject, uri.URIs = common, []*url.URL{spiffe}
	for name, c := range map[string]struct {
		cert        x509.Certificate
		token       string
		with, alone want // with the file, and without
	}{
		"DNS name":        {dns("gateway.plant", "x"), "", viewer, teacher},
		"common name":     {x509.Certificate{Subject: common}, "", viewer, teacher},
		"URI first":       {uri, "", want{"ops", auth.Admin}, want{"spiffe://plant/ops", auth.Teach}},
		"email":           {email, "", want{}, want{"ops@plant", auth.Teach}},
		"not in the file": {dns("mallory"), "", want{}, want{"mallory", auth.Teach}},
		"not first":       {dns("mallory", "gateway.plant"), "", want{}, want{"mallory", auth.Teach}},
		"token":           {dns("mallory"), "secret", want{"line-4", auth.Run}, want{"mallory", auth.Teach}},
		"wrong token":     {dns("gateway.plant"), "wrong", want{}, teacher},
	} {
		pair := a.certificate(t, &c.cert)
		for _, tokens := range []string{file, ""} {
			t.Run(fmt.Sprintf("%s/file=%t", name, tokens != ""), func(t *testing.T) {
				s := start(t, Config{TokenFile: tokens, TLS: TLS{CertFile: cert, KeyFile: key, ClientCAFile: a.file},
					grpcOptions: []grpc.ServerOption{seeCallers()}})
				ctx := t.Context()
				if c.token != "" {
					ctx = bearer(ctx, "Bearer "+c.token)
				}
				got, err := seen(t, s, ctx, a.dial(pair))
				w := c.alone
				if tokens != "" {
					w = c.with
				}
				switch {
				case w.tenant == "" && status.Code(err) != codes.Unauthenticated:
					t.Errorf("admitted as %+v, %v", got, err)
				case w.tenant != "" && (err != nil || got.Tenant != w.tenant || got.Role != w.role || !got.Named):
					t.Errorf("%+v, %v; want %v", got, err, w)
				}
			})
		}
	}
	// A name that no file could have gives way to a hash.
	s := start(t, Config{TLS: TLS{CertFile: cert, KeyFile: key, ClientCAFile: a.file},
		grpcOptions: []grpc.ServerOption{seeCallers()}})
	for _, n := range []string{"", "two words", "line\nbreak", strings.Repeat("n", 200), "token:1"} {
		got, err := seen(t, s, t.Context(), a.dial(a.certificate(t, &x509.Certificate{Subject: pkix.Name{CommonName: n}})))
		if err != nil || !strings.HasPrefix(got.Tenant, "sha256:") || len(got.Tenant) != 39 {
			t.Errorf("%q: %+v, %v", n, got, err)
		}
	}
}

// recvErr receives once.
func recvErr(stream grpc.ClientStream) error {
	if err := stream.RecvMsg(&emptypb.Empty{}); err != io.EOF {
		return err
	}
	return nil
}
