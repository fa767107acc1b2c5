// The socket over which clients fetch the memory that they have leased.

package sharedmemory

import (
	"context"
	"crypto/subtle"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/polyscan/polyscan/internal/sharedmem"
)

const (
	// tokenTimeout is how long a connection may take to send its token, and maxFetches how many may be at it; where more
	// come, the one that has been silent for longest is closed.
	tokenTimeout = 2 * time.Second
	maxFetches   = 128
)

// withdraw makes a token useless that nobody came for. It reports false where somebody has.
func (m *Leases) withdraw(l *lease) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !l.waiting {
		return false
	}
	l.waiting = false
	m.unfetched++
	return true
}

// take uses a token up, on behalf of a connection that is to leave the lease that it returns; nil where the token is
// not known. The time does not depend on how much of a token is right.
func (m *Leases) take(t sharedmem.Token, c *net.UnixConn) *lease {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found *lease
	for _, l := range m.leases {
		if subtle.ConstantTimeCompare(l.token[:], t[:]) == 1 && l.waiting {
			found = l
		}
	}
	if found != nil {
		found.waiting = false
		found.users++
		found.conn = c
		close(found.fetched)
	}
	return found
}

// leave is called when a connection ends.
func (m *Leases) leave(l *lease) {
	m.mu.Lock()
	l.conn = nil
	delete(m.ended, l)
	m.leaveUse(l)
}

// accept lets clients fetch memory until the socket is closed.
func (m *Leases) accept() {
	var silent queue
	for {
		c, err := m.socket.AcceptUnix()
		if err != nil {
			if m.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			m.log.Warn("shared memory: accept", "error", err) // mostly too many open files
			select {
			case <-time.After(100 * time.Millisecond):
			case <-m.ctx.Done():
			}
			continue
		}
		silent.push(c)
		m.running.Go(func() {
			defer c.Close()
			defer context.AfterFunc(m.ctx, func() { c.Close() })()
			defer silent.remove(c)
			l := m.handOver(c, func() { silent.remove(c) })
			if l == nil {
				return
			}
			sharedmem.Await(c)
			if m.ctx.Err() == nil {
				sharedmem.TakeBack(c)
			}
			m.leave(l)
		})
	}
}

// queue holds connections that have not brought their token yet, in the order in which they came.
type queue struct {
	mu    sync.Mutex
	conns []*net.UnixConn
}

// push adds a connection. Those before it that are too many are closed.
func (q *queue) push(c *net.UnixConn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.conns) >= maxFetches {
		q.conns[0].Close()
		q.conns = slices.Delete(q.conns, 0, 1)
	}
	q.conns = append(q.conns, c)
}

func (q *queue) remove(c *net.UnixConn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.conns, c); i >= 0 {
		q.conns = slices.Delete(q.conns, i, i+1)
	}
}

// handOver hands a lease to a connection, and returns it for the connection to leave; nil where it was refused. It
// calls brought once the connection has said a token: from then on it is no longer one of the silent ones.
func (m *Leases) handOver(c *net.UnixConn, brought func()) *lease {
	c.SetDeadline(time.Now().Add(tokenTimeout))
	uid, err := sharedmem.PeerUID(c)
	if err != nil {
		m.log.Warn("shared memory: connection refused", "error", err)
		return nil
	}
	if !slices.Contains(m.uids, uid) {
		m.log.Warn("shared memory: connection refused", "uid", uid)
		sharedmem.Refuse(c, sharedmem.RefusedUser)
		return nil
	}
	token, err := sharedmem.ReceiveToken(c)
	if err != nil {
		m.log.Info("shared memory: connection without a token", "uid", uid, "error", err)
		return nil
	}
	brought()
	l := m.take(token, c)
	if l == nil {
		m.log.Warn("shared memory: unknown token", "uid", uid)
		sharedmem.Refuse(c, sharedmem.RefusedToken)
		return nil
	}
	if err := l.memory.Send(c); err != nil {
		m.log.Info("shared memory: client is gone", "uid", uid, "error", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended[l] == nil { // else it has a deadline already
		c.SetDeadline(time.Time{})
	}
	return l
}
