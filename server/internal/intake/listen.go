package intake

import (
	"errors"
	"net"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/polyscan/polyscan/server/internal/network"
)

// A handshake takes some 0.1 ms of the host's time, and nobody knows yet who asks for it: so there are so many a second
// for each processor, and so many more at once.
const (
	handshakes     = 500
	handshakeBurst = 32
	// mostWaiting connections wait for theirs. One more takes the place of the last one of the network with the most.
	mostWaiting = 1024
)

// Pace hands on the connections of l at a bounded rate, the networks that they come from in turns: so a burst of
// thousands takes the time of nobody who is connected, and little of somebody's who comes from elsewhere.
func Pace(l net.Listener) net.Listener {
	p := &paced{Listener: l, pace: rate.NewLimiter(rate.Limit(runtime.NumCPU()*handshakes), handshakeBurst),
		come: make(chan struct{}, 1), failed: make(chan error), closed: make(chan struct{})}
	p.accepting.Go(p.accept)
	return p
}

type paced struct {
	net.Listener
	pace      *rate.Limiter
	come      chan struct{} // a connection waits; buffered
	failed    chan error
	closed    chan struct{}
	once      sync.Once
	accepting sync.WaitGroup

	mu      sync.Mutex
	lines   []*line // of those who wait, in the order of their turns
	waiting int
}

// line is the connections of a network that wait.
type line struct {
	network string
	conns   []net.Conn
}

func (p *paced) accept() {
	for {
		c, err := p.Listener.Accept()
		if err == nil {
			if out := p.queue(c); out != nil {
				out.Close()
			}
			continue
		}
		select {
		case p.failed <- err:
		case <-p.closed:
			return
		}
		if t, ok := err.(interface{ Temporary() bool }); !ok || !t.Temporary() { // as package grpc asks
			return
		}
	}
}

// queue makes a connection wait, and returns the one that must go for it.
func (p *paced) queue(c net.Conn) (out net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.closed:
		return c
	default:
	}
	from := network.Of(c.RemoteAddr().String())
	i := slices.IndexFunc(p.lines, func(l *line) bool { return l.network == from })
	if i < 0 {
		i = len(p.lines)
		p.lines = append(p.lines, &line{network: from})
	}
	p.lines[i].conns = append(p.lines[i].conns, c)
	if p.waiting++; p.waiting > mostWaiting {
		longest := slices.MaxFunc(p.lines, func(a, b *line) int { return len(a.conns) - len(b.conns) })
		last := len(longest.conns) - 1
		out, longest.conns = longest.conns[last], longest.conns[:last]
		p.waiting--
		p.lines = slices.DeleteFunc(p.lines, func(l *line) bool { return len(l.conns) == 0 })
	}
	select {
	case p.come <- struct{}{}:
	default:
	}
	return out
}

// next is the connection whose turn it is; nil where none waits.
func (p *paced) next() net.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.lines) == 0 {
		return nil
	}
	l := p.lines[0]
	p.lines = p.lines[1:]
	c := l.conns[0]
	if l.conns = l.conns[1:]; len(l.conns) > 0 {
		p.lines = append(p.lines, l)
	}
	p.waiting--
	return c
}

// some says that a connection waits.
func (p *paced) some() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting > 0
}

// Accept implements net.Listener, for one goroutine at a time.
func (p *paced) Accept() (net.Conn, error) {
	for {
		if p.some() {
			turn := time.NewTimer(p.pace.Reserve().Delay())
			select {
			case <-turn.C:
			case <-p.closed:
				turn.Stop()
				return nil, net.ErrClosed
			}
			if c := p.next(); c != nil {
				return c, nil
			}
		}
		select {
		case <-p.come:
		case err := <-p.failed:
			return nil, err
		case <-p.closed:
			return nil, net.ErrClosed
		}
	}
}

// Close implements net.Listener. Connections that wait are closed.
func (p *paced) Close() error {
	err := p.Listener.Close()
	p.once.Do(func() {
		p.mu.Lock()
		close(p.closed)
		p.mu.Unlock()
		for c := p.next(); c != nil; c = p.next() {
			err = errors.Join(err, c.Close())
		}
	})
	p.accepting.Wait()
	return err
}
