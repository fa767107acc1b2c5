package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/wire"
)

func writeFile(t testing.TB, name, content string) string {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func bearer(ctx context.Context, value ...string) context.Context {
	for _, v := range value {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", v)
	}
	return ctx
}

func TestTokens(t *testing.T) {
	file := writeFile(t, filepath.Join(t.TempDir(), "tokens"), "# of the line\nalpha\n\n  beta  \r\n")
	s := start(t, Config{TokenFile: file})
	if !strings.Contains(s.logs.String(), "in the clear") {
		t.Errorf("no warning: %s", s.logs)
	}
	device := func(ctx context.Context) error {
		_, err := s.device.GetDevice(ctx, &pb.GetDeviceRequest{})
		return err
	}
	for _, ok := range []string{"Bearer alpha", "bearer beta", "BEARER  alpha "} {
		if err := device(bearer(t.Context(), ok)); err != nil {
			t.Errorf("%q: %v", ok, err)
		}
	}
	for name, ctx := range map[string]context.Context{
		"none":      t.Context(),
		"wrong":     bearer(t.Context(), "Bearer gamma"),
		"empty":     bearer(t.Context(), "Bearer "),
		"comment":   bearer(t.Context(), "Bearer # of the line"),
		"prefix":    bearer(t.Context(), "Bearer alph"),
		"scheme":    bearer(t.Context(), "Basic alpha"),
		"no scheme": bearer(t.Context(), "alpha"),
		"two":       bearer(t.Context(), "Bearer alpha", "Bearer alpha"),
	} {
		// Unary, unary with a frame, stream, and the services that aren't ours.
		errs := []error{device(ctx)}
		_, err := s.inspection.Reduce(ctx, &pb.ReduceRequest{})
		errs = append(errs, err)
		stream, err := s.inspection.StreamFrames(ctx)
		if err != nil {
			t.Fatal(err)
		}
		_, err = stream.Recv()
		errs = append(errs, err)
		errs = append(errs, s.conn.Invoke(ctx, "/grpc.channelz.v1.Channelz/GetServers", &pb.GetDeviceRequest{},
			&pb.GetDeviceRequest{}))
		reflection, err := s.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
			"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
		if err != nil {
			t.Fatal(err)
		}
		errs = append(errs, reflection.RecvMsg(&pb.GetDeviceRequest{}))
		for i, err := range errs {
			d := detailsOf(t, err)
			if d.status.Code() != codes.Unauthenticated || d.info == nil || d.info.Reason != apierr.ReasonToken ||
				strings.Contains(d.status.Message(), "alph") {
				t.Errorf("%s: call %d: %v", name, i, err)
			}
		}
		if _, err := healthpb.NewHealthClient(s.conn).Check(ctx, &healthpb.HealthCheckRequest{}); err != nil {
			t.Errorf("%s: health: %v", name, err)
		}
	}
	if got := metric(t, s, "grpc_server_handled_total", "grpc_code", "Unauthenticated"); got != 8*5 {
		t.Errorf("%v calls without a token are counted, want %d", got, 8*5)
	}

	// Replaced while the server runs; a broken file changes nothing, and one without a token refuses everybody.
	writeFile(t, file, "gamma\n")
	s.Reload()
	if err := device(bearer(t.Context(), "Bearer gamma")); err != nil {
		t.Error(err)
	}
	if err := device(bearer(t.Context(), "Bearer alpha")); status.Code(err) != codes.Unauthenticated {
		t.Errorf("%v", err)
	}
	writeFile(t, file, "two words\n")
	s.Reload()
	if err := device(bearer(t.Context(), "Bearer gamma")); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(){
		"empty": func() { writeFile(t, file, "") }, "comments": func() { writeFile(t, file, "# nobody\n") },
		"deleted": func() { os.Remove(file) },
	} {
		writeFile(t, file, "gamma\n")
		s.Reload()
		change()
		s.Reload()
		if err := device(bearer(t.Context(), "Bearer gamma")); status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s: %v", name, err)
		}
	}
	writeFile(t, file, "delta without notice\n") // spaces: refused
	writeFile(t, file, "delta-without-notice\n")
	waitFor(t, "the file to be noticed", func() bool {
		return device(bearer(t.Context(), "Bearer delta-without-notice")) == nil
	})
}

// A token that is taken out of the file ends the calls that it began, with a reason, and no others.
func TestRevokedTokenEndsCalls(t *testing.T) {
	file := writeFile(t, filepath.Join(t.TempDir(), "tokens"), "alpha\nbeta\n")
	s := start(t, Config{TokenFile: file})
	open := func(token string) grpc.BidiStreamingClient[pb.StreamFramesRequest, pb.StreamFramesResponse] {
		stream, err := s.inspection.StreamFrames(bearer(t.Context(), "Bearer "+token))
		if err != nil {
			t.Fatal(err)
		}
		err = stream.Send(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Open{Open: inspecting(rect("a", 0, 0, 2,
			2))}})
		if err != nil {
			t.Fatal(err)
		}
		return stream
	}
	goes, stays := open("alpha"), open("beta")
	waitFor(t, "the streams to be there", func() bool {
		return metric(t, s, "polyscan_requests_in_flight", "method", pb.InspectionService_StreamFrames_FullMethodName) == 2
	})
	writeFile(t, file, "beta\n") // nobody sends a signal
	_, err := goes.Recv()
	if d := detailsOf(t, err); d.status.Code() != codes.Unauthenticated || d.info.Reason != apierr.ReasonToken {
		t.Errorf("the stream of a token that was taken back: %v", err)
	}
	if err := stays.CloseSend(); err != nil {
		t.Error(err)
	}
	if _, err := stays.Recv(); err != io.EOF {
		t.Errorf("the other stream: %v", err)
	}
}

// A call without a token is refused before its request is there.
func TestNoTokenNoRequest(t *testing.T) {
	s := start(t, Config{TokenFile: writeFile(t, filepath.Join(t.TempDir(), "tokens"), "alpha")})
	stream, err := s.conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true},
		pb.InspectionService_Reduce_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.RecvMsg(&pb.ReduceResponse{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("%v", err)
	}
}

// An answer that is encoded at a place of the pool, after its handler has ended, comes to callers with tokens, too.
func TestTokensGetLargeAnswers(t *testing.T) {
	s := start(t, Config{TokenFile: writeFile(t, filepath.Join(t.TempDir(), "tokens"), "alpha")})
	var regions []*pb.Region
	for i := range 600 {
		regions = append(regions, rect(fmt.Sprint(i), 0, 0, 8, 8))
	}
	in := inspecting(regions...)
	in.Reductions = &pb.Reductions{Statistics: []pb.Statistic{pb.Statistic_STATISTIC_HISTOGRAM}}
	res, err := s.inspection.Reduce(bearer(t.Context(), "Bearer alpha"), &pb.ReduceRequest{Inspection: in,
		Frame: noisyFrame(8, 8, 1)})
	if err != nil || len(res.GetResult().GetRegions()) != len(regions) {
		t.Fatalf("%d regions, %v", len(res.GetResult().GetRegions()), err)
	}
	if size := proto.Size(res); size <= wire.LargeMessage {
		t.Fatalf("%d bytes: no large answer", size)
	}
}

func TestRefusesTokenFiles(t *testing.T) {
	dir := t.TempDir()
	for content, want := range map[string]string{"": "no token", "# only\n": "no token", "a\nb c\n": "line 2",
		"ü\n": "line 1"} {
		file := writeFile(t, filepath.Join(dir, "tokens"), content)
		if _, err := New(Config{TokenFile: file, MemoryBytes: 1 << 20}); err == nil ||
			!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%q: %v lacks %q", content, err, want)
		}
	}
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
	file string
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{cert: cert, key: key, pool: x509.NewCertPool()}
	a.pool.AddCert(cert)
	a.file = writeFile(t, filepath.Join(t.TempDir(), "ca.pem"),
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	return a
}

// issue writes a certificate for the name localhost, and its key, over those of before.
func (a *authority) issue(t testing.TB, dir string, serial int64) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(serial), DNSNames: []string{"localhost"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile = writeFile(t, filepath.Join(dir, "cert.pem"),
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	keyFile = writeFile(t, filepath.Join(dir, "key.pem"),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})))
	return certFile, keyFile
}

func (a *authority) dial(certs ...tls.Certificate) grpc.DialOption {
	return grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: a.pool, ServerName: "localhost",
		Certificates: certs}))
}

func TestTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	dir := t.TempDir()
	cert, key := a.issue(t, dir, 100)
	s := start(t, Config{TLS: TLS{CertFile: cert, KeyFile: key}}, a.dial())
	if _, err := s.device.GetDevice(t.Context(), &pb.GetDeviceRequest{}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(s.logs.String(), "in the clear") {
		t.Error("a warning about tokens without reason")
	}
	call := func(opts ...grpc.DialOption) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := pb.NewDeviceServiceClient(s.connectCleanly(t, opts...)).GetDevice(ctx, &pb.GetDeviceRequest{})
		return err
	}
	if err := call(); status.Code(err) != codes.Unavailable {
		t.Errorf("plain text: %v", err)
	}
	if err := call(newAuthority(t).dial()); status.Code(err) != codes.Unavailable {
		t.Errorf("an authority that did not sign: %v", err)
	}
	serial := func() int64 {
		t.Helper()
		c, err := s.dial()
		if err != nil {
			t.Fatal(err)
		}
		tc := tls.Client(c, &tls.Config{RootCAs: a.pool, ServerName: "localhost", NextProtos: []string{"h2"}})
		defer tc.Close()
		if err := tc.Handshake(); err != nil {
			t.Fatal(err)
		}
		if p := tc.ConnectionState().NegotiatedProtocol; p != "h2" {
			t.Errorf("protocol %q", p)
		}
		return tc.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if n := serial(); n != 100 {
		t.Errorf("serial number %d", n)
	}
	// Renewed by signal, and without notice; half a renewal changes nothing.
	a.issue(t, dir, 101)
	s.Reload()
	if n := serial(); n != 101 {
		t.Errorf("serial number %d after Reload", n)
	}
	writeFile(t, key, "no key")
	s.Reload()
	if n := serial(); n != 101 {
		t.Errorf("serial number %d after a broken file", n)
	}
	a.issue(t, dir, 102)
	waitFor(t, "the files to be noticed", func() bool { return serial() == 102 })
	if _, err := s.device.GetDevice(t.Context(), &pb.GetDeviceRequest{}); err != nil {
		t.Errorf("the old connection: %v", err)
	}
}

func TestMutualTLS(t *testing.T) {
	servers, clients := newAuthority(t), newAuthority(t)
	cert, key := servers.issue(t, t.TempDir(), 1)
	good, goodKey := clients.issue(t, t.TempDir(), 2)
	bad, badKey := newAuthority(t).issue(t, t.TempDir(), 3)
	pair := func(c, k string) tls.Certificate {
		p, err := tls.LoadX509KeyPair(c, k)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	s := start(t, Config{TLS: TLS{CertFile: cert, KeyFile: key, ClientCAFile: clients.file}},
		servers.dial(pair(good, goodKey)))
	if _, err := s.device.GetDevice(t.Context(), &pb.GetDeviceRequest{}); err != nil {
		t.Fatal(err)
	}
	for name, opt := range map[string]grpc.DialOption{"no certificate": servers.dial(),
		"of another authority": servers.dial(pair(bad, badKey))} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, err := pb.NewDeviceServiceClient(s.connectCleanly(t, opt)).GetDevice(ctx, &pb.GetDeviceRequest{})
		cancel()
		if status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRefusesTLS(t *testing.T) {
	a := newAuthority(t)
	cert, key := a.issue(t, t.TempDir(), 1)
	_, otherKey := a.issue(t, t.TempDir(), 2)
	text := writeFile(t, filepath.Join(t.TempDir(), "text"), "hello")
	for want, files := range map[string]TLS{
		"no key":              {CertFile: cert},
		"no certificate":      {KeyFile: key},
		"needs a certificate": {ClientCAFile: a.file},
		"does not match":      {CertFile: cert, KeyFile: otherKey},
		"no such file":        {CertFile: cert + "x", KeyFile: key},
		"no PEM certificate":  {CertFile: cert, KeyFile: key, ClientCAFile: text},
	} {
		if _, err := New(Config{TLS: files, MemoryBytes: 1 << 20}); err == nil ||
			!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v lacks %q", files, err, want)
		}
	}
}

// Connections beyond the limit wait.
func TestMaxConnections(t *testing.T) {
	s := start(t, Config{MaxConnections: 1})
	if _, err := s.device.GetDevice(t.Context(), &pb.GetDeviceRequest{}); err != nil {
		t.Fatal(err)
	}
	second := s.connectCleanly(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := pb.NewDeviceServiceClient(second).GetDevice(ctx,
		&pb.GetDeviceRequest{}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("%v", err)
	}
	s.conn.Close()
	if _, err := pb.NewDeviceServiceClient(second).GetDevice(t.Context(), &pb.GetDeviceRequest{},
		grpc.WaitForReady(true)); err != nil {
		t.Error(err)
	}
}

// Calls beyond the limit of a connection wait for those before.
func TestMaxStreams(t *testing.T) {
	s := start(t, Config{MaxStreams: 2})
	a, b := s.open(t, inspecting(rect("r", 0, 0, 2, 1))), s.open(t, inspecting(rect("r", 0, 0, 2, 1)))
	a.send(smallFrame(1))
	a.recv()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := s.device.GetDevice(ctx, &pb.GetDeviceRequest{}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("%v", err)
	}
	a.end(nil)
	if _, err := s.device.GetDevice(t.Context(), &pb.GetDeviceRequest{}); err != nil {
		t.Error(err)
	}
	b.end(nil)
}
