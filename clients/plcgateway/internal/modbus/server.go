package modbus

// The transport: connections, their frames and their bounds.

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/polyscan/polyscan/clients/plcgateway/internal/station"
	"github.com/polyscan/polyscan/internal/steady"
)

// Bounds of a server.
const (
	// MaxConnections are served at a time. One more takes the place of the one that has asked nothing for longest, as the
	// implementation guide of Modbus TCP has it: dead connections must not keep a PLC out. Those that have written go
	// last, so that a flood of others does not end the one of a holder.
	MaxConnections = 128
	// writeTimeout is how long a client may take no answer.
	writeTimeout = time.Second
	// idleTimeout is how long one may ask nothing.
	idleTimeout = time.Minute
)

// Server answers for the stations that were added. Its memory is bounded: a goroutine and two frames for each of
// MaxConnections.
type Server struct {
	units [256]*unit
	first *unit // of how many there are
	n     int

	mu     sync.Mutex
	conns  map[*conn]struct{}
	closed bool
	wait   sync.WaitGroup

	accepted, dropped, requests, exceptions, malformed atomic.Uint64
}

type conn struct {
	net.Conn
	used  atomic.Int64 // when it last asked, in ns
	wrote atomic.Bool  // and was not refused
}

// Stats count since the server began.
type Stats struct {
	Connections int
	// Accepted connections, and those that were dropped for another one.
	Accepted, Dropped uint64
	Requests          uint64
	// Exceptions are requests that were refused, and Malformed those that ended their connection.
	Exceptions, Malformed uint64
}

// NewServer makes a server without stations.
func NewServer() *Server { return &Server{conns: map[*conn]struct{}{}} }

// Add makes a station a unit, from 1 to 247. It must not be called while the server serves. The only station there is
// can be reached as units 0 and 255, too, which many PLCs use for what is no gateway of a serial line.
func (s *Server) Add(id uint8, st *station.Station, order WordOrder) error {
	switch {
	case id < 1 || id > 247:
		return errors.New("modbus: a unit id is 1 to 247")
	case s.units[id] != nil:
		return errors.New("modbus: two stations with one unit id")
	}
	s.first = &unit{station: st, order: order}
	s.units[id] = s.first
	s.n++
	return nil
}

func (s *Server) unit(id uint8) *unit {
	if (id == 0 || id == 255) && s.n == 1 {
		return s.first
	}
	return s.units[id]
}

// Serve accepts connections until the listener is closed.
func (s *Server) Serve(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			s.mu.Lock()
			closed := s.closed
			s.mu.Unlock()
			if closed || errors.Is(err, net.ErrClosed) {
				return nil
			}
			if isTemporary(err) {
				time.Sleep(10 * time.Millisecond) // descriptors are short
				continue
			}
			return err
		}
		s.accept(c)
	}
}

// accept takes a connection in, in the place of an idle one where there are too many.
func (s *Server) accept(nc net.Conn) {
	c := &conn{Conn: nc}
	c.used.Store(steady.Now())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		nc.Close()
		return
	}
	s.accepted.Add(1)
	if len(s.conns) >= MaxConnections {
		var idle *conn
		for o := range s.conns {
			if idle == nil || before(o, idle) {
				idle = o
			}
		}
		delete(s.conns, idle)
		idle.Close()
		s.dropped.Add(1)
	}
	s.conns[c] = struct{}{}
	s.wait.Go(func() {
		s.serve(c)
		c.Close()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	})
}

// before says that a goes sooner than b.
func before(a, b *conn) bool {
	if a.wrote.Load() != b.wrote.Load() {
		return !a.wrote.Load()
	}
	return a.used.Load() < b.used.Load()
}

// Close ends all connections, and waits for them.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.wait.Wait()
}

// Stats are the server's counters.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	n := len(s.conns)
	s.mu.Unlock()
	return Stats{n, s.accepted.Load(), s.dropped.Load(), s.requests.Load(), s.exceptions.Load(), s.malformed.Load()}
}

// header is what stands before a request: transaction, protocol, length, unit.
const header = 7

// serve answers one request after the other.
func (s *Server) serve(c *conn) {
	from := remote(c)
	r := bufio.NewReaderSize(c, header+maxPDU)
	var in, out [header + maxPDU]byte
	for {
		c.used.Store(steady.Now())
		if c.SetReadDeadline(time.Now().Add(idleTimeout)) != nil {
			return
		}
		if _, err := io.ReadFull(r, in[:header]); err != nil {
			return
		}
		// What is no frame can't be answered, and where the next one begins nobody knows.
		length := int(binary.BigEndian.Uint16(in[4:]))
		if binary.BigEndian.Uint16(in[2:]) != 0 || length < 2 || length > 1+maxPDU {
			s.malformed.Add(1)
			return
		}
		pdu := in[header : header+length-1]
		if _, err := io.ReadFull(r, pdu); err != nil {
			return
		}
		s.requests.Add(1)
		answer := s.answer(from, in[6], pdu, append(out[:0], in[:header]...))
		switch answer[header] {
		case writeCoil, writeRegister, writeCoils, writeRegisters, readWrite:
			c.wrote.Store(true)
		}
		binary.BigEndian.PutUint16(answer[4:], uint16(len(answer)-header+1))
		if c.SetWriteDeadline(time.Now().Add(writeTimeout)) != nil {
			return
		}
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

// answer appends the answer to a request to out.
func (s *Server) answer(from netip.Addr, id uint8, pdu, out []byte) []byte {
	n := len(out)
	if u := s.unit(id); u != nil {
		out = u.answer(from, pdu, out)
	} else {
		out = append(out, pdu[0]|0x80, noTarget)
	}
	if out[n]&0x80 != 0 {
		s.exceptions.Add(1)
	}
	return out
}

func remote(c net.Conn) netip.Addr {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr()
	}
	return netip.Addr{}
}

func isTemporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}
