package web

import (
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// Listen takes the connections of l, and those that begin with TLS as such. No other's first byte is that of a
// handshake.
func Listen(l net.Listener, cfg *tls.Config) net.Listener {
	e := &either{Listener: l, cfg: cfg, conns: make(chan net.Conn), closed: make(chan struct{})}
	e.running.Go(e.accept)
	return e
}

// firstByte is how long a connection may say nothing. Then it is closed.
const firstByte = 10 * time.Second

// either is a listener of both.
type either struct {
	net.Listener
	cfg     *tls.Config
	conns   chan net.Conn
	closed  chan struct{}
	once    sync.Once
	running sync.WaitGroup
	err     error // of the listener; set before conns is closed
}

func (e *either) accept() {
	defer close(e.conns)
	var looking sync.WaitGroup
	defer looking.Wait()
	for {
		c, err := e.Listener.Accept()
		if err != nil {
			e.err = err
			return
		}
		looking.Go(func() { e.look(c) })
	}
}

func (e *either) look(c net.Conn) {
	p := &peeked{Conn: c}
	c.SetReadDeadline(time.Now().Add(firstByte))
	stop := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-e.closed:
			c.Close()
		case <-stop:
		}
	})
	n, err := c.Read(p.first[:])
	close(stop)
	watching.Wait()
	if n == 0 || err != nil {
		c.Close()
		return
	}
	p.left = n
	c.SetReadDeadline(time.Time{})
	var conn net.Conn = p
	const handshake = 22
	if p.first[0] == handshake {
		conn = tls.Server(p, e.cfg)
	}
	select {
	case e.conns <- conn:
	case <-e.closed:
		c.Close()
	}
}

// Accept implements net.Listener.
func (e *either) Accept() (net.Conn, error) {
	c, ok := <-e.conns
	if !ok {
		return nil, e.err
	}
	return c, nil
}

// Close implements net.Listener.
func (e *either) Close() error {
	err := e.Listener.Close()
	e.once.Do(func() { close(e.closed) })
	e.running.Wait()
	return err
}

// peeked is a connection whose first byte was read.
type peeked struct {
	net.Conn
	first [1]byte
	left  int
}

// Read implements net.Conn.
func (p *peeked) Read(b []byte) (int, error) {
	if p.left > 0 && len(b) > 0 {
		p.left = 0
		b[0] = p.first[0]
		return 1, nil
	}
	return p.Conn.Read(b)
}
