package gvsp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/net/ipv4"
)

// Receiver is the socket of a stream and what assembles it.
type Receiver struct {
	conn   *net.UDPConn
	batch  *ipv4.PacketConn
	buffer int // bytes that the kernel keeps

	mu     sync.Mutex // held while packets are taken in
	asm    *Assembler
	camera netip.Addr // whose packets are taken
}

// batchSize is how many packets one system call brings at most.
const batchSize = 128

// Listen makes the socket of a stream at one of this host's addresses. buffer is what the kernel is asked to keep while
// this program does something else; [Receiver.Buffer] is what it grants.
func Listen(local netip.Addr, buffer int) (*Receiver, error) {
	c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(local, 0)))
	if err != nil {
		return nil, err
	}
	r := &Receiver{conn: c, batch: ipv4.NewPacketConn(c)}
	if r.buffer, err = growBuffer(c, buffer); err != nil {
		return nil, errors.Join(fmt.Errorf("socket buffer of %d bytes: %w", buffer, err), c.Close())
	}
	return r, nil
}

// Addr is where the camera has to send to.
func (r *Receiver) Addr() netip.AddrPort {
	a := r.conn.LocalAddr().(*net.UDPAddr).AddrPort()
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// Buffer is how many bytes the kernel keeps; 0 where it doesn't say.
func (r *Receiver) Buffer() int { return r.buffer }

// Close ends the socket, and Run.
func (r *Receiver) Close() error { return r.conn.Close() }

// TestPacket waits for a packet of at least so many bytes on the wire (SCPS), which a camera fires to try that size.
func (r *Receiver) TestPacket(camera netip.Addr, size int, wait time.Duration) bool {
	b := make([]byte, MaxPacket)
	until := time.Now().Add(wait)
	r.conn.SetReadDeadline(until)
	for {
		n, from, err := r.conn.ReadFromUDPAddrPort(b)
		if err != nil {
			return false
		}
		if from.Addr().Unmap() == camera && n+20+8 == size {
			return true
		}
	}
}

// Start says what is received from now on, and from whom.
func (r *Receiver) Start(asm *Assembler, camera netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asm, r.camera = asm, camera
}

// Restart says that the camera starts anew, maybe at another address.
func (r *Receiver) Restart(why string, camera netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asm.Restart(why)
	r.camera = camera
}

// Stats are the assembler's, with what the kernel dropped.
func (r *Receiver) Stats() Stats {
	r.mu.Lock()
	s := r.asm.Stats()
	r.mu.Unlock()
	s.KernelDropped = kernelDropped(r.Addr())
	return s
}

// Open is how many blocks are being assembled.
func (r *Receiver) Open() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.asm.open)
}

// idle is how long a read waits where nothing is due.
const idle = 100 * time.Millisecond

// Run receives until the context ends or the socket is closed; both are no error. Blocks that are open are given up
// then.
func (r *Receiver) Run(ctx context.Context) error {
	messages := make([]ipv4.Message, batchSize)
	for i := range messages {
		messages[i].Buffers = [][]byte{make([]byte,
			r.asm.geo.Unit+extendedSize+1)} // one more, to know what is too long
	}
	defer context.AfterFunc(ctx, func() { r.conn.SetReadDeadline(time.Unix(1, 0)) })()
	defer func() {
		r.mu.Lock()
		r.asm.Flush("the stream ended")
		r.mu.Unlock()
	}()
	var again time.Time
	for {
		now := time.Now()
		until := now.Add(idle)
		if !again.IsZero() && again.Before(until) {
			until = again
		}
		r.conn.SetReadDeadline(until)
		if ctx.Err() != nil {
			return nil
		}
		n, err := r.batch.ReadBatch(messages, 0)
		now = time.Now()
		r.mu.Lock()
		for i := range messages[:max(n, 0)] {
			r.take(now, &messages[i])
		}
		if n <= 0 || !now.Before(again) {
			again = r.asm.Tick(now)
		}
		r.mu.Unlock()
		switch {
		case err == nil, errors.Is(err, os.ErrDeadlineExceeded):
		case errors.Is(err, net.ErrClosed), ctx.Err() != nil:
			return nil
		default:
			return err
		}
	}
}

func (r *Receiver) take(now time.Time, m *ipv4.Message) {
	from := m.Addr.(*net.UDPAddr)
	if ip, _ := netip.AddrFromSlice(from.IP); ip.Unmap() != r.camera {
		r.asm.stats.Foreign++
		return
	}
	b := m.Buffers[0]
	if m.N >= len(b) { // cut off
		r.asm.stats.Malformed++
		return
	}
	r.asm.Packet(now, b[:m.N])
}
