package opcua

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/gopcua/opcua/ua"
	"github.com/gopcua/opcua/uapolicy"
)

// A session is a client that may have logged in. It outlives its connection by its timeout, so that a client that
// reconnects goes on where it was.
type session struct {
	srv     *Server
	id      nodeID
	token   []byte
	name    string
	policy  string
	cert    []byte
	timeout time.Duration

	mu        sync.Mutex
	conn      *conn
	nonce     []byte
	activated bool
	user      string // with how it logged in; decides whether another connection may take the session over
	seen      time.Time
	closed    bool

	subscriptions []*subscription
	waiting       []publishRequest
	queued        int // room that its items' queues have, of maxQueued
	items         int
	continuations map[string][]*ua.ReferenceDescription
	onClose       []func()
}

func (s *session) silent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.seen) > s.timeout
}

func (s *session) connGone(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = slices.DeleteFunc(s.waiting, func(p publishRequest) bool { return p.conn == c })
	if s.conn == c {
		s.conn = nil
	}
}

// who names the session in logs and as a station's holder.
func (s *session) who() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	peer := "nowhere"
	if s.conn != nil {
		peer = s.conn.net.RemoteAddr().String()
	}
	return fmt.Sprintf("opcua %s at %s", s.user, peer)
}

func (s *Server) sessionOf(c *conn, h *ua.RequestHeader) (*session, error) {
	one := s.find(h.AuthenticationToken)
	if one == nil {
		return nil, ua.StatusBadSessionIDInvalid
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	switch {
	case one.closed:
		return nil, ua.StatusBadSessionIDInvalid
	case !one.activated:
		return nil, ua.StatusBadSessionNotActivated
	case one.conn != c:
		return nil, ua.StatusBadSecureChannelIDInvalid
	}
	one.seen = time.Now()
	return one, nil
}

func (s *Server) find(token *ua.NodeID) *session {
	if token.Type() != ua.NodeIDTypeByteString {
		return nil
	}
	key := keyOf(token).name
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.sessions {
		if string(one.token) == key {
			return one
		}
	}
	return nil
}

// drop ends a session with all that is its own.
func (s *Server) drop(one *session, why string) {
	s.mu.Lock()
	if i := slices.Index(s.sessions, one); i >= 0 {
		s.sessions = slices.Delete(s.sessions, i, i+1)
	}
	one.mu.Lock()
	if c := one.conn; c != nil {
		c.active = slices.ContainsFunc(s.sessions, func(o *session) bool { return o.conn == c && o.activated })
	}
	s.mu.Unlock()
	if one.closed {
		one.mu.Unlock()
		return
	}
	one.closed = true
	subs, waiting, after, user := one.subscriptions, one.waiting, one.onClose, one.user
	one.subscriptions, one.waiting, one.continuations = nil, nil, nil
	one.mu.Unlock()
	for _, sub := range subs {
		sub.close()
	}
	for _, p := range waiting {
		go p.fault(ua.StatusBadSessionClosed) // a client that does not read must not hold up the others' end
	}
	for _, f := range after {
		f()
	}
	s.log.Info("opcua: a session ended", "session", one.name, "user", user, "why", why)
}

func (s *Server) createSession(c *conn, r *ua.CreateSessionRequest) (ua.Response, error) {
	if !s.offers(c.channel.policy, c.channel.mode) {
		return nil, ua.StatusBadSecurityPolicyRejected // a channel without security, for discovery alone
	}
	resp := &ua.CreateSessionResponse{ServerCertificate: s.cfg.Certificate, ServerEndpoints: s.endpoints(c.endpoint()),
		ServerSoftwareCertificates: []*ua.SignedSoftwareCertificate{}, ServerSignature: &ua.SignatureData{},
		MaxRequestMessageSize: maxMessage}
	if c.channel.cert != nil {
		certs, err := x509.ParseCertificates(r.ClientCertificate)
		if err != nil || len(certs) == 0 || !bytes.Equal(certs[0].Raw, c.channel.cert) {
			return nil, ua.StatusBadCertificateInvalid
		}
		if !slices.ContainsFunc(certs[0].URIs,
			func(u *url.URL) bool { return u.String() == r.ClientDescription.ApplicationURI }) {
			return nil, ua.StatusBadCertificateURIInvalid
		}
		if len(r.ClientNonce) < 32 {
			return nil, ua.StatusBadNonceInvalid
		}
		alg, err := asymmetric(c.channel.policy, s.cfg.Key, certs[0])
		if err != nil {
			return nil, ua.StatusBadCertificateInvalid
		}
		if resp.ServerSignature.Signature, err = alg.Signature(slices.Concat(c.channel.cert, r.ClientNonce)); err != nil {
			return nil, err
		}
		resp.ServerSignature.Algorithm = alg.SignatureURI()
	}
	name := r.SessionName
	if len(name) > 100 {
		name = name[:100]
	}
	timeout := min(max(time.Duration(min(r.RequestedSessionTimeout, 1e9))*time.Millisecond, minTimeout), maxTimeout)
	one := &session{srv: s, token: make([]byte, 32), nonce: make([]byte, 32), name: name, policy: c.channel.policy,
		cert: c.channel.cert, timeout: timeout, conn: c, seen: time.Now(),
		continuations: map[string][]*ua.ReferenceDescription{}}
	rand.Read(one.token)
	rand.Read(one.nonce)
	one.id = num(1, s.nextID())

	s.mu.Lock()
	var old *session
	full := len(s.sessions) >= maxSessions
	if full {
		for _, o := range s.sessions {
			o.mu.Lock()
			if !o.activated && old == nil {
				old = o
			}
			o.mu.Unlock()
		}
	}
	s.mu.Unlock()
	if full && old == nil {
		return nil, ua.StatusBadTooManySessions
	}
	if old != nil {
		s.drop(old, "it was never activated, and others wait")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sessions) >= maxSessions || s.closed {
		return nil, ua.StatusBadTooManySessions
	}
	s.sessions = append(s.sessions, one)
	resp.SessionID, resp.AuthenticationToken = one.id.ua(), ua.NewByteStringNodeID(0, one.token)
	resp.RevisedSessionTimeout, resp.ServerNonce = float64(timeout/time.Millisecond), one.nonce
	return resp, nil
}

func (s *Server) activateSession(c *conn, r *ua.ActivateSessionRequest) (ua.Response, error) {
	one := s.find(r.RequestHeader.AuthenticationToken)
	if one == nil {
		return nil, ua.StatusBadSessionIDInvalid
	}
	one.mu.Lock()
	nonce, before, activated, onConn := one.nonce, one.user, one.activated, one.conn
	one.mu.Unlock()
	switch {
	case !activated && onConn != c:
		return nil, ua.StatusBadSecureChannelIDInvalid
	case one.policy != c.channel.policy || !bytes.Equal(one.cert, c.channel.cert):
		return nil, ua.StatusBadSecurityChecksFailed
	}
	if c.channel.cert != nil {
		if !s.signed(c.channel.policy, c.channel.cert, nonce, r.ClientSignature) {
			return nil, ua.StatusBadApplicationSignatureInvalid
		}
	}
	user, status := s.identify(c, nonce, r)
	if status != ua.StatusOK {
		s.refused.Add(1)
		s.log.Warn("opcua: a login was refused", "peer", c.net.RemoteAddr().String(), "user", user, "status", status.Error())
		return nil, status
	}
	if activated && onConn != c && user != before {
		return nil, ua.StatusBadIdentityChangeNotSupported
	}
	next := make([]byte, 32)
	rand.Read(next)
	s.mu.Lock()
	defer s.mu.Unlock()
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.closed {
		return nil, ua.StatusBadSessionIDInvalid
	}
	var rest []publishRequest
	for _, p := range one.waiting {
		if p.conn == c {
			rest = append(rest, p)
		}
	}
	one.waiting = rest
	one.nonce, one.activated, one.user, one.conn, one.seen = next, true, user, c, time.Now()
	c.active = true
	return &ua.ActivateSessionResponse{ServerNonce: next, Results: []ua.StatusCode{},
		DiagnosticInfos: []*ua.DiagnosticInfo{}}, nil
}

// signed says whether a signature is of our certificate and the nonce, by the key of a certificate.
func (s *Server) signed(policy string, cert, nonce []byte, sig *ua.SignatureData) bool {
	parsed, err := x509.ParseCertificate(cert)
	if err != nil {
		return false
	}
	alg, err := asymmetric(policy, s.cfg.Key, parsed)
	return err == nil && sig.Algorithm == alg.SignatureURI() &&
		alg.VerifySignature(slices.Concat(s.cfg.Certificate, nonce), sig.Signature) == nil
}

// identify returns who logs in, with the way it did.
func (s *Server) identify(c *conn, nonce []byte, r *ua.ActivateSessionRequest) (string, ua.StatusCode) {
	policy := c.channel.policy
	if policy == ua.SecurityPolicyURINone {
		policy = ua.SecurityPolicyURIBasic256Sha256
	}
	var token any
	if r.UserIdentityToken != nil {
		token = r.UserIdentityToken.Value
	}
	switch t := token.(type) {
	case nil, *ua.AnonymousIdentityToken:
		if !s.cfg.Anonymous {
			return "anonymous", ua.StatusBadIdentityTokenRejected
		}
		return "anonymous", ua.StatusOK
	case *ua.UserNameIdentityToken:
		who := fmt.Sprintf("%.64q", t.UserName)
		if s.cfg.Users == nil || t.PolicyID != userPolicy {
			return who, ua.StatusBadIdentityTokenRejected
		}
		password, ok := s.decrypt(policy, nonce, t)
		if !ok {
			return who, ua.StatusBadIdentityTokenInvalid
		}
		if !s.cfg.Users.check(t.UserName, password) {
			return who, ua.StatusBadUserAccessDenied
		}
		return t.UserName, ua.StatusOK
	case *ua.X509IdentityToken:
		if s.cfg.UserTrusted.Folder == "" || s.cfg.Key == nil || t.PolicyID != certificatePolicy {
			return "a certificate", ua.StatusBadIdentityTokenRejected
		}
		cert, status := s.cfg.UserTrusted.check(t.CertificateData)
		if status != ua.StatusOK {
			return "a certificate", ua.StatusBadIdentityTokenRejected
		}
		who := fmt.Sprintf("%.64s", cert.Subject.CommonName)
		if !s.signed(policy, cert.Raw, nonce, r.UserTokenSignature) {
			return who, ua.StatusBadUserSignatureInvalid
		}
		return fmt.Sprintf("certificate %s %x", who, cert.SerialNumber), ua.StatusOK
	default:
		return "a token of another type", ua.StatusBadIdentityTokenInvalid
	}
}

// decrypt returns the password of a token. One that came unencrypted is refused: it has been read by whoever listens.
func (s *Server) decrypt(policy string, nonce []byte, t *ua.UserNameIdentityToken) ([]byte, bool) {
	var none *rsa.PublicKey
	alg, err := uapolicy.Asymmetric(policy, s.cfg.Key, none)
	size := s.cfg.Key.Size()
	if err != nil || t.EncryptionAlgorithm != alg.EncryptionURI() || len(t.Password) == 0 ||
		len(t.Password)%size != 0 || len(t.Password) > 8*size {
		return nil, false
	}
	b, err := alg.Decrypt(t.Password)
	if err != nil || len(b) < 4+len(nonce) {
		return nil, false
	}
	n := binary.LittleEndian.Uint32(b)
	b = b[4:]
	if int64(n) > int64(len(b)) || int(n) < len(nonce) || !bytes.Equal(b[int(n)-len(nonce):n], nonce) {
		return nil, false
	}
	return b[:int(n)-len(nonce)], true
}

func (s *Server) closeSession(c *conn, r *ua.CloseSessionRequest) (ua.Response, error) {
	one := s.find(r.RequestHeader.AuthenticationToken)
	if one == nil {
		return nil, ua.StatusBadSessionIDInvalid
	}
	one.mu.Lock()
	mine := one.conn == c
	one.mu.Unlock()
	if !mine {
		return nil, ua.StatusBadSecureChannelIDInvalid
	}
	s.drop(one, "its client closed it")
	return &ua.CloseSessionResponse{}, nil
}

func (s *session) cancel(r *ua.CancelRequest) (ua.Response, error) {
	s.mu.Lock()
	var cancelled []publishRequest
	s.waiting = slices.DeleteFunc(s.waiting, func(p publishRequest) bool {
		if p.handle == r.RequestHandle {
			cancelled = append(cancelled, p)
			return true
		}
		return false
	})
	s.mu.Unlock()
	for _, p := range cancelled {
		p.fault(ua.StatusBadRequestCancelledByClient)
	}
	return &ua.CancelResponse{CancelCount: uint32(len(cancelled))}, nil
}
