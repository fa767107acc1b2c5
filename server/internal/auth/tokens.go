// Package auth knows who calls, and what each caller may do and hold: tenants, by bearer tokens and client
// certificates, from a file that may change while the server runs.
//
// It admits calls and ends those whose token was taken back. Of calls it knows the least role for each method; what
// they do, and what belongs to whom, the rooms know.
package auth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/polyscan/polyscan/server/internal/apierr"
)

// Tenants admits calls.
type Tenants struct {
	path   string // "": there is no file, and each certificate is a tenant
	log    *slog.Logger
	stop   chan struct{}
	done   sync.WaitGroup
	ledger *ledger

	mu    sync.Mutex
	data  []byte // of the file
	known *content
	calls map[*call]struct{} // under way
}

type hash [sha256.Size]byte

// call is one that was admitted.
type call struct {
	key   hash
	who   Caller
	least Role // that it needs
	end   context.CancelCauseFunc
}

// unauthenticated refuses a call of nobody who is known.
func unauthenticated(text string) error {
	return apierr.WithDetails(codes.Unauthenticated, text, apierr.Info(apierr.ReasonToken)).Err()
}

// errRevoked is why a call ends whose token or certificate was taken out of the file, or belongs to another tenant now.
var errRevoked = unauthenticated("authorization: the token was taken back")

// Revoked is the error for the client of a call whose context has ended because what it was admitted for was taken
// back; nil where that is not so.
func Revoked(ctx context.Context) error {
	var r *revocation
	if errors.As(context.Cause(ctx), &r) {
		return r
	}
	return nil
}

// revocation is the cause with which the context of a call ends. It is a status, and no other error is.
type revocation struct{ error }

// GRPCStatus is what gRPC asks errors for.
func (r *revocation) GRPCStatus() *status.Status { return status.Convert(r.error) }

// errNone is about a file without a token. The server does not start with it, and a running one refuses everybody.
var errNone = errors.New("there is no token in it")

// New reads the file, and again whenever its content changes, until Close. Where path is "" each certificate is a
// tenant, with the default role.
func New(path string, log *slog.Logger) (*Tenants, error) {
	t := &Tenants{path: path, log: log, stop: make(chan struct{}), calls: map[*call]struct{}{}, ledger: newLedger(),
		known: &content{}}
	if path == "" {
		return t, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("server: token file: %w", err)
	}
	if err := t.use(data); err != nil {
		return nil, err
	}
	// Modes say nothing on Windows.
	if st, err := os.Stat(path); err == nil && st.Mode().Perm()&0o007 != 0 && runtime.GOOS != "windows" {
		log.Warn("the token file is open to all users of this machine: chmod o-rwx", "file", path,
			"mode", fmt.Sprintf("%#o", st.Mode().Perm()))
	}
	t.done.Go(t.watch)
	return t, nil
}

// Close ends the watching of the file.
func (t *Tenants) Close() {
	close(t.stop)
	t.done.Wait()
}

// SetTotals says what the server has of each resource, so that no tenant takes all of it; 0 where there is no bound.
func (t *Tenants) SetTotals(totals Amounts) {
	t.ledger.mu.Lock()
	defer t.ledger.mu.Unlock()
	t.ledger.totals = totals
}

// Hold counts n of what a tenant has from before the process, until release, whatever its limit is. A nil Tenants
// counts nothing, and nothing is counted of nobody's.
func (t *Tenants) Hold(tenant string, what Resource, n int64) (release func()) {
	if t == nil || tenant == "" {
		return func() {}
	}
	t.ledger.mu.Lock()
	defer t.ledger.mu.Unlock()
	return t.ledger.hold(t.ledger.account(tenant), tenant, what, n)
}

// Usage is what each tenant holds, by name: those of the file, those that hold something, and also, unless that is "".
func (t *Tenants) Usage(also string) []Usage { return t.ledger.usage(also) }

// lookInterval is the time between two looks at the file. A file without tokens counts from the second look on, because
// some programs empty a file before they write it.
const lookInterval = 250 * time.Millisecond

func (t *Tenants) watch() {
	ticks := time.NewTicker(lookInterval)
	defer ticks.Stop()
	for missing := false; ; {
		select {
		case <-t.stop:
			return
		case <-ticks.C:
		}
		data, err := os.ReadFile(t.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			continue // no news
		}
		t.mu.Lock()
		same := bytes.Equal(data, t.data)
		t.mu.Unlock()
		was := missing
		missing = len(bytes.TrimSpace(data)) == 0
		if !same && (!missing || was) {
			t.change(data)
		}
	}
}

// Reload reads the file at once.
func (t *Tenants) Reload() {
	if t.path == "" {
		return
	}
	data, err := os.ReadFile(t.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.log.Error("the tokens stay what they were", "error", err)
		return
	}
	t.change(data)
}

// change takes what the file has now. Without a token in it nobody is admitted. A file that can't be understood changes
// nothing.
func (t *Tenants) change(data []byte) {
	switch err := t.use(data); {
	case errors.Is(err, errNone):
		t.log.Error("all calls are refused", "error", err)
	case err != nil:
		t.log.Error("the tokens stay what they were", "error", err)
	default:
		t.log.Info("tokens read again", "file", t.path)
	}
}

func (t *Tenants) use(data []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = data
	c, err := parse(data)
	if err != nil {
		return fmt.Errorf("server: token file: %s: %w", t.path, err)
	}
	t.known = c
	t.ledger.list(c.tenants)
	for call := range t.calls {
		switch now, ok := t.find(call.key); {
		case !ok || now.Tenant != call.who.Tenant:
			call.end(&revocation{errRevoked})
		case call.who.seesOthers() && !now.seesOthers():
			call.end(&revocation{apierr.WithDetails(codes.PermissionDenied,
				fmt.Sprintf("tenant %s sees no other tenants any more", now.Tenant), apierr.Info(apierr.ReasonRole)).Err()})
		case now.Role < call.least:
			call.end(&revocation{errRole(now, call.least)})
		}
	}
	if len(c.logins) == 0 {
		return fmt.Errorf("server: token file: %s: %w", t.path, errNone)
	}
	return nil
}

// find returns who has a key. The time may depend on the key, which is a hash: that tells nothing of how much of a
// token is right. mu is held.
func (t *Tenants) find(key hash) (c Caller, ok bool) {
	l, ok := t.known.logins[key]
	c = l.who
	c.ledger = t.ledger
	return c, ok
}

// Admit finds out who makes a call, and whether they may call its method. The context that it returns, with an error,
// too, says who it is where that is known ([FromContext]), and ends when what the call was admitted for is taken back
// ([Revoked]); done is to be called once the call's handler has ended. The context goes on after that, as long as ctx
// does, since answers are encoded then. Errors are for the client.
func (t *Tenants) Admit(ctx context.Context, method string) (_ context.Context, done func(), err error) {
	done = func() {}
	least, _ := LeastRole(method)
	if least == NoRole {
		return ctx, done, nil
	}
	key, certificate, err := t.keyOf(ctx)
	if err != nil {
		return ctx, done, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	who, err := t.who(key, certificate)
	if err != nil {
		return ctx, done, err
	}
	ctx = NewContext(ctx, who)
	if who.Role < least {
		return ctx, done, errRole(who, least)
	}
	t.ledger.called(who.Tenant)
	ctx, end := context.WithCancelCause(ctx)
	c := &call{key, who, least, end}
	t.calls[c] = struct{}{}
	return ctx, func() {
		t.mu.Lock()
		delete(t.calls, c)
		t.mu.Unlock()
	}, nil
}

// Identify finds out who a call would be made by, as Admit does. It counts nothing.
func (t *Tenants) Identify(ctx context.Context) (Caller, error) {
	key, certificate, err := t.keyOf(ctx)
	if err != nil {
		return Caller{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.who(key, certificate)
}

// who is the caller with what keyOf returns. mu is held.
func (t *Tenants) who(key hash, certificate string) (Caller, error) {
	who, ok := t.find(key)
	switch {
	case !ok && t.path == "":
		return Caller{Tenant: certificate, Named: true, Role: defaultRole, ledger: t.ledger}, nil
	case !ok && certificate != "":
		return who, unauthenticated(
			"authorization: a token is needed: Bearer TOKEN; the file doesn't name the certificate")
	case !ok:
		return who, unauthenticated("authorization: the token is not one of this server's")
	}
	return who, nil
}

// keyOf is what a call shows of its caller: the token where there is one, else the certificate, whose name is returned
// too.
func (t *Tenants) keyOf(ctx context.Context) (key hash, certificate string, err error) {
	md, _ := metadata.FromIncomingContext(ctx)
	values := md.Get("authorization")
	switch {
	case t.path == "", len(values) == 0: // without a file tokens mean nothing
		if name := certificateOf(ctx); name != "" {
			return keyOfCertificate(name), name, nil
		}
		return hash{}, "", unauthenticated("authorization: a token is needed: Bearer TOKEN")
	case len(values) > 1:
		return hash{}, "", unauthenticated("authorization: was given more than once")
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	if !ok || !strings.EqualFold(scheme, "bearer") {
		return hash{}, "", unauthenticated("authorization: must be of the form Bearer TOKEN")
	}
	return keyOfToken(strings.TrimSpace(token)), "", nil
}

// certificateOf is the name of the certificate of a call's client, which the handshake has verified; "" where there is
// none.
func certificateOf(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	info := p.AuthInfo
	if u, ok := info.(interface{ Unwrap() credentials.AuthInfo }); ok {
		info = u.Unwrap()
	}
	tls, ok := info.(credentials.TLSInfo)
	if !ok || len(tls.State.VerifiedChains) == 0 {
		return ""
	}
	return certificateName(tls.State.VerifiedChains[0][0])
}

// certificateName is the first name of a certificate: of its alternative names the first URI, else the first DNS name,
// else the first email address; else its common name. One that can't be written into the file, or none, gives way to a
// hash of the certificate.
func certificateName(c *x509.Certificate) string {
	name := c.Subject.CommonName
	switch {
	case len(c.URIs) > 0:
		name = c.URIs[0].String()
	case len(c.DNSNames) > 0:
		name = c.DNSNames[0]
	case len(c.EmailAddresses) > 0:
		name = c.EmailAddresses[0]
	}
	if !validName(name) {
		sum := sha256.Sum256(c.Raw)
		name = "sha256:" + hex.EncodeToString(sum[:16])
	}
	return name
}
