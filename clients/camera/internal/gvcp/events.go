package gvcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
)

// Event is something that a camera says happened.
type Event struct {
	ID        uint16
	Block     uint64
	Timestamp uint64 // in ticks of the camera's clock
}

// Sizes of an event in a packet.
const (
	eventSize         = 16
	extendedEventSize = 24
)

// AppendEvent adds an event's bytes to dst.
func AppendEvent(dst []byte, e Event, extended bool) []byte {
	dst = append(dst, 0, 0)
	dst = binary.BigEndian.AppendUint16(dst, e.ID)
	dst = append(dst, 0, 0) // the stream channel
	if extended {
		dst = append(dst, 0, 0)
		dst = binary.BigEndian.AppendUint64(dst, e.Block)
	} else {
		dst = binary.BigEndian.AppendUint16(dst, uint16(e.Block))
	}
	return binary.BigEndian.AppendUint64(dst, e.Timestamp)
}

// ParseEvents reads a command with events: several, or one with data of the camera's own, which is left alone.
func ParseEvents(p Packet) (events []Event, err error) {
	size := eventSize
	if p.Flags&FlagExtended != 0 {
		size = extendedEventSize
	}
	if p.Command != EventCmd && p.Command != EventDataCmd {
		return nil, fmt.Errorf("gvcp: command %#04x: want events", uint16(p.Command))
	}
	if len(p.Data) < size {
		return nil, fmt.Errorf("gvcp: events of %d bytes: one has %d", len(p.Data), size)
	}
	for b := p.Data; len(b) >= size; b = b[size:] {
		e := Event{ID: binary.BigEndian.Uint16(b[2:]), Block: uint64(binary.BigEndian.Uint16(b[6:]))}
		if size == extendedEventSize {
			e.Block = binary.BigEndian.Uint64(b[8:])
		}
		e.Timestamp = binary.BigEndian.Uint64(b[size-8:])
		events = append(events, e)
		if p.Command == EventDataCmd {
			break
		}
	}
	return events, nil
}

// Events is the socket to which a camera sends events.
type Events struct {
	conn *net.UDPConn
	done sync.WaitGroup
}

// ListenEvents calls take with each event of a camera, until Close; what others send is dropped, and so is a packet
// that comes again because its answer was lost.
func ListenEvents(local, camera netip.Addr, take func(Event)) (*Events, error) {
	c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(local, 0)))
	if err != nil {
		return nil, err
	}
	e := &Events{conn: c}
	e.done.Go(func() { e.serve(camera, take) })
	return e, nil
}

// Port is where the camera has to send to.
func (e *Events) Port() uint16 { return e.conn.LocalAddr().(*net.UDPAddr).AddrPort().Port() }

// Close ends it.
func (e *Events) Close() error {
	err := e.conn.Close()
	e.done.Wait()
	return err
}

func (e *Events) serve(camera netip.Addr, take func(Event)) {
	b := make([]byte, MaxPacket+1)
	last, any := uint16(0), false
	for {
		n, from, err := e.conn.ReadFromUDPAddrPort(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil || from.Addr().Unmap() != camera {
			continue
		}
		p, err := ParseCommand(b[:n])
		if err != nil {
			continue
		}
		events, err := ParseEvents(p)
		if err != nil {
			continue
		}
		if p.Flags&FlagAck != 0 {
			ack := Packet{Ack: true, Command: p.Command + 1, ID: p.ID}
			_, _ = e.conn.WriteToUDPAddrPort(ack.Append(nil), from) // the camera sends them again
		}
		if any && p.ID == last {
			continue
		}
		last, any = p.ID, true
		for _, x := range events {
			take(x)
		}
	}
}
