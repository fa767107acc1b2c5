package opcua

import (
	"bufio"
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopcua/opcua/ua"
	"github.com/gopcua/opcua/uapolicy"
)

// Config is what a server is made with.
type Config struct {
	// ApplicationURI names this server; Certificate, DER, is for it, and Key is the certificate's. Both are needed for any
	// policy but none, and for users with passwords.
	ApplicationURI string
	Certificate    []byte
	Key            *rsa.PrivateKey
	// Policies are the security policies that are offered: "None", "Basic256Sha256", "Aes128_Sha256_RsaOaep" or
	// "Aes256_Sha256_RsaPss". All but None are offered with the modes Sign and SignAndEncrypt.
	Policies []string
	// Trusted are the certificates of client applications.
	Trusted Trust
	// Anonymous lets clients in without a user, to do whatever users can.
	Anonymous bool
	// Users may log in with a password, and UserTrusted are the certificates of those who log in with one.
	Users       *Users
	UserTrusted Trust
	// Version is the program's.
	Version string
	Log     *slog.Logger
}

// Policies that can be offered, by their short names.
var policies = map[string]string{
	"None": ua.SecurityPolicyURINone, "Basic256Sha256": ua.SecurityPolicyURIBasic256Sha256,
	"Aes128_Sha256_RsaOaep": ua.SecurityPolicyURIAes128Sha256RsaOaep,
	"Aes256_Sha256_RsaPss":  ua.SecurityPolicyURIAes256Sha256RsaPss,
}

// PolicyNames are the security policies that can be offered.
var PolicyNames = []string{"None", "Basic256Sha256", "Aes128_Sha256_RsaOaep", "Aes256_Sha256_RsaPss"}

const (
	uaNamespace     = "http://opcfoundation.org/UA/"
	visionNamespace = "http://opcfoundation.org/UA/MachineVision"
	// ownNamespace has what OPC 40100-1 has no place for, and the objects of the stations.
	ownNamespace = "urn:polyscan:plcgateway"

	openRequest = 446 // OpenSecureChannelRequest's binary encoding
)

// Server is an OPC UA server over stations. It is safe for concurrent use.
type Server struct {
	cfg   Config
	log   *slog.Logger
	trust *Trust
	space *space

	ids     atomic.Uint32
	start   time.Time
	refused atomic.Uint64

	mu       sync.Mutex
	conns    []*conn // the oldest first
	sessions []*session
	closed   bool

	handlers map[uint32]handler
}

// A handler answers one kind of request. Where it is of a session, s is the activated session that asked.
type handler struct {
	request reflect.Type
	session func(s *session, r ua.Request, id uint32) (ua.Response, error)
	any     func(c *conn, r ua.Request) (ua.Response, error)
}

// NewServer returns a server without stations.
func NewServer(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg, log: cfg.Log, trust: &cfg.Trusted, start: time.Now()}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if cfg.ApplicationURI == "" {
		return nil, errors.New("opcua: no application URI")
	}
	if len(cfg.Policies) == 0 {
		return nil, fmt.Errorf("opcua: no security policy; there are %s", strings.Join(PolicyNames, ", "))
	}
	for _, p := range cfg.Policies {
		if policies[p] == "" {
			return nil, fmt.Errorf("opcua: security policy %q is unknown; there are %s", p, strings.Join(PolicyNames, ", "))
		}
		if p != "None" && (cfg.Key == nil || len(cfg.Certificate) == 0) {
			return nil, fmt.Errorf("opcua: security policy %s needs a certificate and its key", p)
		}
	}
	if !cfg.Anonymous && cfg.Users == nil && cfg.UserTrusted.Folder == "" {
		return nil, errors.New("opcua: nobody may log in: there are neither users nor anonymous access")
	}
	if cfg.Users != nil && cfg.Key == nil {
		return nil,
			errors.New("opcua: users with passwords need a certificate and its key, which passwords are encrypted for")
	}
	s.ids.Store(randomID())
	var err error
	if s.space, err = newSpace(cfg.ApplicationURI); err != nil {
		return nil, err
	}
	s.serverNodes()
	s.handlers = s.services()
	return s, nil
}

// Stats are what goes on now, and how many logins were refused since the start.
type Stats struct {
	Connections, Sessions int
	Refused               uint64
}

// Stats counts.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{len(s.conns), len(s.sessions), s.refused.Load()}
}

func (s *Server) nextID() uint32 {
	for {
		if id := s.ids.Add(1); id != 0 {
			return id
		}
	}
}

// offers says whether a policy, by its URI, is offered with a mode, or with any where mode is 0.
func (s *Server) offers(policy string, mode ua.MessageSecurityMode) bool {
	for _, p := range s.cfg.Policies {
		if policies[p] != policy {
			continue
		}
		switch {
		case mode == 0:
			return true
		case p == "None":
			return mode == ua.MessageSecurityModeNone
		}
		return mode == ua.MessageSecurityModeSign || mode == ua.MessageSecurityModeSignAndEncrypt
	}
	return false
}

// Serve accepts connections until ctx is done or the listener fails. It closes the listener and all connections.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { l.Close() })
	wg.Go(func() { s.keepTime(ctx) })
	defer func() {
		stop()
		cancel()
		l.Close()
		s.mu.Lock()
		s.closed = true
		for _, c := range s.conns {
			c.net.Close()
		}
		sessions := slices.Clone(s.sessions)
		s.mu.Unlock()
		for _, one := range sessions {
			s.drop(one, "the server stops")
		}
		wg.Wait()
	}()
	for {
		n, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			var temporary net.Error
			if errors.As(err, &temporary) && temporary.Timeout() {
				continue
			}
			return err
		}
		c := &conn{srv: s, net: n, in: bufio.NewReaderSize(n, 4096), opened: time.Now()}
		if !s.admit(c) {
			c.writeError(ua.StatusBadTCPNotEnoughResources, "too many connections")
			n.Close()
			continue
		}
		wg.Go(func() {
			err := c.serve()
			s.gone(c)
			if err != nil {
				s.log.Info("opcua: a connection ended", "peer", n.RemoteAddr().String(), "error", err)
			}
		})
	}
}

// admit takes a connection in. Where there are too many, the oldest without a session makes room.
func (s *Server) admit(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if len(s.conns) >= maxConnections {
		i := slices.IndexFunc(s.conns, func(o *conn) bool { return !o.active })
		if i < 0 {
			return false
		}
		s.conns[i].net.Close()
		s.conns = slices.Delete(s.conns, i, i+1)
	}
	s.conns = append(s.conns, c)
	return true
}

func (s *Server) gone(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.conns, c); i >= 0 {
		s.conns = slices.Delete(s.conns, i, i+1)
	}
	for _, one := range s.sessions {
		one.connGone(c)
	}
}

func (s *Server) isActive(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.active
}

// keepTime ends sessions whose clients are silent, and moves the server's clock.
func (s *Server) keepTime(ctx context.Context) {
	tick := time.NewTicker(statusInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.space.refresh(num(0, 2258), num(0, 2256))
		s.mu.Lock()
		var old []*session
		for _, one := range s.sessions {
			if one.silent() {
				old = append(old, one)
			}
		}
		s.mu.Unlock()
		for _, one := range old {
			s.drop(one, "its client was silent")
		}
	}
}

// decode returns the request that a message holds, of the services by the ids of their encodings.
func decode(b []byte, services map[uint32]reflect.Type) (any, error) {
	id, n, err := serviceID(b)
	if err != nil {
		return nil, err
	}
	t := services[id]
	if t == nil {
		return nil, fmt.Errorf("%w: service %d", ua.StatusBadServiceUnsupported, id)
	}
	if _, err := guarded(b[n:], t); err != nil {
		return nil, fmt.Errorf("%w: %w", ua.StatusBadDecodingError, err)
	}
	v := reflect.New(t).Interface()
	if _, err := ua.Decode(b[n:], v); err != nil {
		return nil, fmt.Errorf("%w: %w", ua.StatusBadDecodingError, err)
	}
	return v, nil
}

// serviceID returns the id of a message's encoding and where its body begins.
func serviceID(b []byte) (id uint32, n int, err error) {
	if n, err = guarded(b, typeExpanded); err != nil {
		return 0, 0, fmt.Errorf("%w: %w", ua.StatusBadDecodingError, err)
	}
	e := new(ua.ExpandedNodeID)
	if _, err := e.Decode(b[:n]); err != nil {
		return 0, 0, fmt.Errorf("%w: %w", ua.StatusBadDecodingError, err)
	}
	if k := keyOf(e.NodeID); k.ns != 0 || k.name != "" {
		return 0, 0, ua.StatusBadServiceUnsupported
	}
	return e.NodeID.IntID(), n, nil
}

// handle answers one message. An error ends the connection; what is only wrong with the request gets a fault.
func (s *Server) handle(c *conn, id uint32, body []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("opcua: a request panicked", "panic", fmt.Sprint(p))
			err = refuse(ua.StatusBadInternalError, "an internal error")
		}
	}()
	types := map[uint32]reflect.Type{}
	service, n, err := serviceID(body)
	if err != nil {
		return refuse(ua.StatusBadDecodingError, "%v", err)
	}
	h, known := s.handlers[service]
	if known {
		types[service] = h.request
	}
	// The header alone, so that even a request that can't be read gets its answer.
	size, err := guarded(body[n:], reflect.TypeFor[ua.RequestHeader]())
	if err != nil {
		return refuse(ua.StatusBadDecodingError, "a request's header: %v", err)
	}
	header := new(ua.RequestHeader)
	if _, err := ua.Decode(body[n:n+size], header); err != nil {
		return refuse(ua.StatusBadDecodingError, "a request's header: %v", err)
	}
	req, err := decode(body, types)
	var resp ua.Response
	if err == nil {
		resp, err = s.answer(c, id, h, req.(ua.Request))
	}
	if err != nil {
		status := ua.StatusBadInternalError
		if !errors.As(err, &status) {
			s.log.Error("opcua: a request failed", "service", service, "error", err)
		}
		resp = &ua.ServiceFault{}
		resp.SetHeader(responseHeader(header.RequestHandle, status))
	}
	if resp == nil { // it is answered later
		return nil
	}
	if resp.Header() == nil {
		resp.SetHeader(responseHeader(header.RequestHandle, ua.StatusOK))
	}
	return c.send(id, resp)
}

func (s *Server) answer(c *conn, id uint32, h handler, req ua.Request) (ua.Response, error) {
	if h.any != nil {
		return h.any(c, req)
	}
	one, err := s.sessionOf(c, req.Header())
	if err != nil {
		return nil, err
	}
	return h.session(one, req, id)
}

func responseHeader(handle uint32, status ua.StatusCode) *ua.ResponseHeader {
	return &ua.ResponseHeader{Timestamp: time.Now(), RequestHandle: handle, ServiceResult: status,
		ServiceDiagnostics: &ua.DiagnosticInfo{}, StringTable: []string{}, AdditionalHeader: ua.NewExtensionObject(nil)}
}

// on is a handler for the requests of a type of a session.
func on[Q any, P interface {
	*Q
	ua.Request
}](f func(*session, P) (ua.Response, error)) handler {
	return handler{request: reflect.TypeFor[Q](), session: func(s *session, r ua.Request, _ uint32) (ua.Response, error) {
		return f(s, r.(P))
	}}
}

// onAny is a handler for requests that need no session.
func onAny[Q any, P interface {
	*Q
	ua.Request
}](f func(*conn, P) (ua.Response, error)) handler {
	return handler{request: reflect.TypeFor[Q](), any: func(c *conn, r ua.Request) (ua.Response, error) {
		return f(c,
			r.(P))
	}}
}

func (s *Server) services() map[uint32]handler {
	list := []handler{
		onAny(s.getEndpoints), onAny(s.findServers), onAny(s.createSession), onAny(s.activateSession), onAny(s.closeSession),
		on((*session).read), on((*session).write), on((*session).call),
		on((*session).browse), on((*session).browseNext), on((*session).translate),
		on((*session).registerNodes), on((*session).unregisterNodes),
		on((*session).createSubscription), on((*session).modifySubscription), on((*session).setPublishingMode),
		on((*session).deleteSubscriptions), on((*session).transferSubscriptions), on((*session).republish),
		on((*session).createItems), on((*session).modifyItems), on((*session).setMonitoringMode), on((*session).deleteItems),
		on((*session).cancel),
		{request: reflect.TypeFor[ua.PublishRequest](), session: func(s *session, r ua.Request,
			id uint32) (ua.Response, error) {
			return s.publish(r.(*ua.PublishRequest), id)
		}},
	}
	m := map[uint32]handler{}
	for _, h := range list {
		m[uint32(ua.ServiceTypeID(reflect.New(h.request).Interface()))] = h
	}
	return m
}

// Discovery.

func (s *Server) application(endpoint string) *ua.ApplicationDescription {
	return &ua.ApplicationDescription{ApplicationURI: s.cfg.ApplicationURI, ProductURI: ownNamespace,
		ApplicationName: ua.NewLocalizedText("polyscan plcgateway"), ApplicationType: ua.ApplicationTypeServer,
		DiscoveryURLs: []string{endpoint}}
}

// endpoint is the server's address, as the client calls it: behind a translated address it is the only one that works.
func (c *conn) endpoint() string {
	if u, err := url.Parse(c.url); err == nil && u.Scheme == "opc.tcp" && u.Host != "" && len(c.url) <= 256 {
		return "opc.tcp://" + u.Host
	}
	return "opc.tcp://" + c.net.LocalAddr().String()
}

const (
	anonymousPolicy   = "anonymous"
	userPolicy        = "username"
	certificatePolicy = "certificate"
)

func (s *Server) endpoints(address string) []*ua.EndpointDescription {
	var list []*ua.EndpointDescription
	for _, p := range s.cfg.Policies {
		for _, mode := range []ua.MessageSecurityMode{
			ua.MessageSecurityModeNone, ua.MessageSecurityModeSign, ua.MessageSecurityModeSignAndEncrypt} {
			if !s.offers(policies[p], mode) {
				continue
			}
			e := &ua.EndpointDescription{EndpointURL: address, Server: s.application(address),
				ServerCertificate: s.cfg.Certificate,
				SecurityMode:      mode, SecurityPolicyURI: policies[p],
				TransportProfileURI: "http://opcfoundation.org/UA-Profile/Transport/uatcp-uasc-uabinary",
				SecurityLevel:       uapolicy.SecurityLevel(policies[p], mode)}
			tokenPolicy := ""
			if p == "None" {
				tokenPolicy = ua.SecurityPolicyURIBasic256Sha256 // secrets are encrypted even where messages are not
			}
			if s.cfg.Anonymous {
				e.UserIdentityTokens = append(e.UserIdentityTokens, &ua.UserTokenPolicy{PolicyID: anonymousPolicy,
					TokenType: ua.UserTokenTypeAnonymous})
			}
			if s.cfg.Users != nil {
				e.UserIdentityTokens = append(e.UserIdentityTokens, &ua.UserTokenPolicy{PolicyID: userPolicy,
					TokenType: ua.UserTokenTypeUserName, SecurityPolicyURI: tokenPolicy})
			}
			if s.cfg.UserTrusted.Folder != "" && s.cfg.Key != nil {
				e.UserIdentityTokens = append(e.UserIdentityTokens, &ua.UserTokenPolicy{PolicyID: certificatePolicy,
					TokenType: ua.UserTokenTypeCertificate, SecurityPolicyURI: tokenPolicy})
			}
			list = append(list, e)
		}
	}
	return list
}

func (s *Server) getEndpoints(c *conn, r *ua.GetEndpointsRequest) (ua.Response, error) {
	list := s.endpoints(c.endpoint())
	if len(r.ProfileURIs) > 0 {
		list = slices.DeleteFunc(list, func(e *ua.EndpointDescription) bool {
			return !slices.Contains(r.ProfileURIs,
				e.TransportProfileURI)
		})
	}
	return &ua.GetEndpointsResponse{Endpoints: list}, nil
}

func (s *Server) findServers(c *conn, r *ua.FindServersRequest) (ua.Response, error) {
	resp := &ua.FindServersResponse{Servers: []*ua.ApplicationDescription{}}
	if len(r.ServerURIs) == 0 || slices.Contains(r.ServerURIs, s.cfg.ApplicationURI) {
		resp.Servers = append(resp.Servers, s.application(c.endpoint()))
	}
	return resp, nil
}
