package intake

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"
)

// given is a listener of connections that a test gives.
type given struct {
	conns  chan net.Conn
	errs   chan error
	closed chan struct{}
	once   sync.Once
}

func newGiven() *given {
	return &given{conns: make(chan net.Conn), errs: make(chan error), closed: make(chan struct{})}
}

func (l *given) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case err := <-l.errs:
		return nil, err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *given) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *given) Addr() net.Addr { return remoteAddr("given") }

// from makes a connection from somewhere. gone is closed once it is.
func from(addr string) (c *goneConn) {
	return &goneConn{remoteConn: remoteConn{nil, addr}, gone: make(chan struct{})}
}

type goneConn struct {
	remoteConn
	gone chan struct{}
	once sync.Once
}

func (c *goneConn) Close() error { c.once.Do(func() { close(c.gone) }); return nil }

// Those from elsewhere come in between a burst, which is handed on in order.
func TestPaceTakesTurns(t *testing.T) {
	l := newGiven()
	p := Pace(l)
	defer p.Close()
	const burst = 100
	for i := range burst {
		l.conns <- from(fmt.Sprintf("10.0.0.1:%d", i+1))
	}
	l.conns <- from("10.0.0.2:1")
	for p.(*paced).count() < burst+1 { // the last one is in line a moment later
		time.Sleep(time.Millisecond)
	}
	var got []string
	for range burst + 1 {
		c, err := p.Accept()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, c.RemoteAddr().String())
	}
	if got[0] != "10.0.0.1:1" || got[1] != "10.0.0.2:1" || got[2] != "10.0.0.1:2" || got[burst] != "10.0.0.1:100" {
		t.Errorf("%q", got)
	}
}

func (p *paced) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting
}

// Too many who wait push out their own.
func TestPaceIsBounded(t *testing.T) {
	l := newGiven()
	p := Pace(l)
	elsewhere := from("10.0.0.2:1")
	l.conns <- elsewhere
	var all []*goneConn
	for i := range mostWaiting + 10 {
		c := from(fmt.Sprintf("10.0.0.1:%d", i+1))
		all = append(all, c)
		l.conns <- c
	}
	for _, c := range all[mostWaiting:] {
		<-c.gone
	}
	select {
	case <-elsewhere.gone:
		t.Error("one from elsewhere was closed")
	case <-all[0].gone:
		t.Error("the first one was closed")
	default:
	}
	if n := p.(*paced).count(); n != mostWaiting {
		t.Errorf("%d wait", n)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	<-elsewhere.gone
	<-all[0].gone
	if _, err := p.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

type passingError struct{ error }

func (passingError) Temporary() bool { return true }

// Errors are handed on, and only those end the listening that don't pass.
func TestPaceHandsOnErrors(t *testing.T) {
	l := newGiven()
	p := Pace(l)
	defer p.Close()
	passes, stays := passingError{errors.New("too many files")}, errors.New("broken")
	for _, want := range []error{passes, nil, stays} {
		go func() {
			if want == nil {
				l.conns <- from("10.0.0.1:1")
			} else {
				l.errs <- want
			}
		}()
		if _, err := p.Accept(); err != want {
			t.Errorf("%v, want %v", err, want)
		}
	}
}
