// The line-scan sessions that there are.

package scan

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/auth"
)

// sessions finds sessions by their tokens. What ends a session takes it out first.
type sessions struct {
	max int // sessions

	mu       sync.Mutex
	sessions map[string]*session
	closed   bool
	workers  sync.WaitGroup
}

func newSessions(most int) *sessions {
	return &sessions{max: most, sessions: map[string]*session{}}
}

var errUnknownSession = apierr.WithDetails(codes.NotFound, "resume.session_token: there is no such session (any more)",
	apierr.Info(apierr.ReasonUnknownSession),
	&errdetails.ResourceInfo{ResourceType: "polyscan.v1.ScanSession", Description: "ended, or never begun"}).Err()

// newToken makes a token that nobody guesses.
func newToken() string {
	var b [32]byte
	rand.Read(b[:]) // never fails
	return string(b[:])
}

// add makes room for a session, which can't be found yet.
func (r *sessions) add(ss *session) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return apierr.ErrShuttingDown
	}
	if n := r.max; len(r.sessions) >= n {
		return apierr.Quota(apierr.ReasonTooManySessions, "line-scan sessions", fmt.Sprintf("the limit is %d", n))
	}
	var err error
	if ss.uncount, err = ss.owner.Take(auth.Sessions, 1); err != nil {
		return err
	}
	r.sessions[ss.token] = nil
	return nil
}

// start starts a session's worker, and makes it one that can be found. It returns false where the server has ended.
func (r *sessions) start(ss *session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.sessions[ss.token] = ss
	r.workers.Go(ss.work)
	return true
}

func (r *sessions) find(token []byte) *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sessions[string(token)]
}

func (r *sessions) remove(ss *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.sessions[ss.token]; ok {
		delete(r.sessions, ss.token)
		ss.uncount()
	}
}

// close ends all sessions and waits for their workers.
func (r *sessions) close() {
	r.mu.Lock()
	r.closed = true
	for _, ss := range r.sessions {
		if ss != nil {
			ss.stop()
		}
	}
	r.mu.Unlock()
	r.workers.Wait()
}

// scanContext makes jobs those of the class that goes first.
func scanContext(ctx context.Context) context.Context {
	return kernels.WithClass(ctx, kernels.LineScan)
}
