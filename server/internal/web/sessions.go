package web

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"sync"
	"time"

	"github.com/polyscan/polyscan/server/internal/network"
)

// Limits of sessions.
const (
	sessionIdle   = 12 * time.Hour // without a request or an open stream
	mostOfAToken  = 32             // sessions; the one that was used longest ago gives way
	cookieName    = "polyscan-session"
	csrfHeader    = "Polyscan-Csrf"
	sweepInterval = time.Minute
)

// session is what somebody has who has logged in.
type session struct {
	token string // that they gave
	csrf  string // that their page sends beside the cookie, which alone is good for nothing
	used  time.Time
	open  int // streams
	ctx   context.Context
	end   context.CancelFunc
}

type sessionKey [sha256.Size]byte

// sessions are known by the hashes of their cookies, so that nothing in memory is a cookie.
type sessions struct {
	mu    sync.Mutex
	byKey map[sessionKey]*session
	swept time.Time
}

func keyOf(cookie string) sessionKey { return sha256.Sum256([]byte(cookie)) }

// begin makes a session of a token that is known to be good.
func (s *sessions) begin(token string, now time.Time) (cookie string, made *session) {
	cookie = rand.Text() + rand.Text()
	ctx, end := context.WithCancel(context.Background())
	made = &session{token: token, csrf: rand.Text(), used: now, ctx: ctx, end: end}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep(now)
	n, oldest := 0, sessionKey{}
	for k, o := range s.byKey {
		if o.token == token {
			if n == 0 || o.used.Before(s.byKey[oldest].used) {
				oldest = k
			}
			n++
		}
	}
	if n >= mostOfAToken {
		s.drop(oldest)
	}
	s.byKey[keyOf(cookie)] = made
	return cookie, made
}

// sweep forgets sessions that nobody used for long. mu is held.
func (s *sessions) sweep(now time.Time) {
	if now.Sub(s.swept) < sweepInterval {
		return
	}
	s.swept = now
	for k, o := range s.byKey {
		if o.open == 0 && now.Sub(o.used) > sessionIdle {
			s.drop(k)
		}
	}
}

// drop ends a session. mu is held.
func (s *sessions) drop(k sessionKey) {
	if o := s.byKey[k]; o != nil {
		o.end()
		delete(s.byKey, k)
	}
}

// of is the session of a request; nil where there is none.
func (s *sessions) of(r *http.Request, now time.Time) *session {
	c, err := r.Cookie(cookieOf(r))
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep(now)
	k := keyOf(c.Value)
	o := s.byKey[k]
	switch {
	case o == nil:
		return nil
	case o.open == 0 && now.Sub(o.used) > sessionIdle:
		s.drop(k)
		return nil
	}
	o.used = now
	return o
}

// hold keeps a session while a stream of it is open.
func (s *sessions) hold(o *session) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.open++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		o.open--
		o.used = time.Now()
	}
}

// forget ends the session of a request.
func (s *sessions) forget(r *http.Request) {
	if c, err := r.Cookie(cookieOf(r)); err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drop(keyOf(c.Value))
	}
}

func (s *sessions) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byKey)
}

// owns says that a request of the session came from its page.
func (o *session) owns(csrf string) bool {
	return subtle.ConstantTimeCompare([]byte(csrf), []byte(o.csrf)) == 1
}

// cookieOf is the name of the cookie: under TLS one that browsers take from nobody but this host.
func cookieOf(r *http.Request) string {
	if r.TLS != nil {
		return "__Host-" + cookieName
	}
	return cookieName
}

func setCookie(w http.ResponseWriter, r *http.Request, value string) {
	c := &http.Cookie{Name: cookieOf(r), Value: value, Path: "/", HttpOnly: true, Secure: r.TLS != nil,
		SameSite: http.SameSiteStrictMode}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// Logins of a network that failed: so many may follow each other, and then one in so long.
const (
	loginBurst   = 5
	loginEvery   = 3 * time.Second
	mostNetworks = 4096 // those beyond share one count
)

// slowness counts logins that failed, by network: the address of IPv4, and the first 64 bits of IPv6.
type slowness struct {
	mu    sync.Mutex
	until map[string]time.Time // when all that was used up will have come back
}

// wait is how long a network must wait before it may try again; 0 where it may now. Each try that may counts until it
// is forgiven, so that many at once don't slip through.
func (s *slowness) wait(network string, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.until[network]; !ok && len(s.until) >= mostNetworks {
		for n, t := range s.until {
			if t.Before(now) {
				delete(s.until, n)
			}
		}
		if len(s.until) >= mostNetworks {
			network = ""
		}
	}
	t := s.until[network]
	if t.Before(now) {
		t = now
	}
	if over := t.Add(loginEvery).Sub(now) - loginBurst*loginEvery; over > 0 {
		return over
	}
	s.until[network] = t.Add(loginEvery)
	return 0
}

// forgive forgets what a network tried.
func (s *slowness) forgive(network string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.until, network)
}

func networkOf(r *http.Request) string { return network.Of(r.RemoteAddr) }
