// Package simulator is a GigE Vision camera: it is found, controlled and described as one, and streams what its source
// draws, with packets lost, repeated, reordered and delayed as it is told to. It is what tests, demonstrations and
// people without a camera use.
package simulator

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/ipv4"

	"github.com/polyscan/polyscan/clients/camera/internal/gvcp"
	"github.com/polyscan/polyscan/clients/camera/internal/gvsp"
)

// Config is what a camera is like.
type Config struct {
	// Addr is where it listens. Port 0 is any, and then it can't be found but by its address; cameras have [gvcp.Port].
	Addr netip.AddrPort
	// Serial and Name are its serial number, and the name that its user gave it.
	Serial, Name string
	// Lines makes it a line camera, whose blocks are runs of Height lines.
	Lines         bool
	Width, Height int
	Format        gvsp.PixelFormat
	Pad           int     // bytes behind each line
	Rate          float64 // blocks a second
	// Draw fills a block of the whole sensor; blocks count from 0 with each start.
	Draw func(block uint64, pixels []byte)
	// Blocks is how many it sends after a start; 0: no end.
	Blocks uint64
	// Loss, Reorder and Duplicate are the shares of packets to which that happens, 0 to 1; Jitter is how much later
	// than
	// its time a block may begin. Seed decides which.
	Loss, Reorder, Duplicate float64
	Jitter                   time.Duration
	Seed                     uint64
	// NoResend: it keeps no packets to send them again.
	NoResend bool
	// Extended: ids of blocks have 64 bits.
	Extended bool
}

// Stats count what a camera did.
type Stats struct {
	Blocks, Packets          uint64 // that were sent, or lost by command
	Lost, Reordered, Doubled uint64 // packets, by command
	Resent, Unavailable      uint64 // packets that were asked for
	Malformed                uint64 // commands that could not be read
}

// keptBytes bounds the blocks that are kept to send packets of them again; maxKept is their number.
const (
	keptBytes = 64 << 20
	maxKept   = 64
)

// Camera is one that runs.
type Camera struct {
	cfg     Config
	control *net.UDPConn
	others  []*net.UDPConn // for broadcasts
	stream  *net.UDPConn
	batch   *ipv4.PacketConn
	wait    sync.WaitGroup
	cancel  context.CancelFunc
	wake    chan struct{} // wakes the goroutine that streams

	mu        sync.Mutex
	regs      registers
	owner     netip.AddrPort // who controls it; not valid: nobody
	heard     time.Time      // of the owner
	unplugged bool
	kept      []kept
	stats     Stats
	events    uint16 // number of the last one
	dice      *rand.Rand
}

// kept is a block that was sent.
type kept struct {
	id     uint64
	unit   int
	leader gvsp.Leader
	pixels []byte
}

// Start starts one. Its rate must be 0.1 to 100000 blocks a second, and its shares of packets 0 to 1.
func Start(cfg Config) (*Camera, error) {
	g := gvsp.Geometry{Format: cfg.Format, Width: cfg.Width, Height: cfg.Height, Unit: gvsp.MinPacket, Pad: cfg.Pad}
	if err := g.Check(); err != nil {
		return nil, fmt.Errorf("simulator: %w", err)
	}
	c := &Camera{cfg: cfg, wake: make(chan struct{}, 1), dice: rand.New(rand.NewPCG(cfg.Seed, 0x6769_6765))}
	var err error
	if c.control, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(cfg.Addr)); err != nil {
		return nil, fmt.Errorf("simulator: %w", err)
	}
	if c.stream, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(cfg.Addr.Addr(),
		0))); err != nil {
		return nil, errors.Join(fmt.Errorf("simulator: %w", err), c.control.Close())
	}
	_ = c.stream.SetWriteBuffer(4 << 20) // less is slower, not wrong
	c.batch = ipv4.NewPacketConn(c.stream)
	c.regs.fill(&cfg, cfg.Addr.Addr())
	if c.Addr().Port() == gvcp.Port {
		c.others = listenBroadcast(cfg.Addr.Addr())
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	for _, conn := range append([]*net.UDPConn{c.control}, c.others...) {
		c.wait.Go(func() { c.serve(conn) })
	}
	c.wait.Go(func() { c.run(ctx) })
	return c, nil
}

// Addr is where it listens.
func (c *Camera) Addr() netip.AddrPort {
	a := c.control.LocalAddr().(*net.UDPAddr).AddrPort()
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// Close ends it.
func (c *Camera) Close() error {
	c.cancel()
	err := c.control.Close()
	for _, o := range c.others {
		err = errors.Join(err, o.Close())
	}
	c.wait.Wait()
	return errors.Join(err, c.stream.Close())
}

// Stats returns what was counted.
func (c *Camera) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// Plug takes the cable out, or puts it in again. The camera goes on meanwhile.
func (c *Camera) Plug(in bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unplugged = !in
}

// serve answers commands.
func (c *Camera) serve(conn *net.UDPConn) {
	b := make([]byte, gvcp.MaxPacket+1)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // an ICMP error of somebody who has gone
		}
		from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		p, err := gvcp.ParseCommand(b[:n])
		if answer := c.command(from, p, err); answer != nil {
			_, _ = c.control.WriteToUDPAddrPort(answer.Append(nil), from) // it asks again
		}
	}
}

// command does what a packet says; the answer is nil where there is none.
func (c *Camera) command(from netip.AddrPort, p gvcp.Packet, err error) *gvcp.Packet {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unplugged || p.Command == gvcp.EventAck {
		return nil
	}
	if err != nil {
		c.stats.Malformed++
		return nil
	}
	c.expire()
	if from == c.owner {
		c.heard = time.Now()
	}
	a := &gvcp.Packet{Ack: true, Command: p.Command + 1, ID: p.ID}
	word := func(i int) uint32 { return binary.BigEndian.Uint32(p.Data[4*i:]) }
	long := func(words int) bool {
		if len(p.Data) < 4*words {
			a.Status = gvcp.StatusInvalidParam
			c.stats.Malformed++
		}
		return a.Status == gvcp.StatusOK
	}
	switch p.Command {
	case gvcp.DiscoveryCmd:
		a.Data = append(a.Data, c.regs.bootstrap[:0xf8]...)
	case gvcp.ReadRegCmd:
		for i := range len(p.Data) / 4 {
			v, s := c.read(word(i), 4)
			if s != gvcp.StatusOK {
				a.Status = s
				break
			}
			a.Data = append(a.Data, v...)
		}
		long(1)
	case gvcp.ReadMemCmd:
		if long(2) {
			var v []byte
			n := word(1) & 0xffff
			if v, a.Status = c.read(word(0), n); a.Status == gvcp.StatusOK {
				a.Data = append(append(a.Data, p.Data[:4]...), v...)
			}
		}
	case gvcp.WriteRegCmd:
		done := uint32(0)
		for i := range len(p.Data) / 8 {
			if a.Status = c.write(from, word(2*i), word(2*i+1)); a.Status != gvcp.StatusOK {
				break
			}
			done++
		}
		long(2)
		a.Data = binary.BigEndian.AppendUint32(a.Data, done)
	case gvcp.WriteMemCmd:
		if !long(2) || len(p.Data)%4 != 0 {
			a.Status = gvcp.StatusInvalidParam
			break
		}
		for i := 1; i < len(p.Data)/4 && a.Status == gvcp.StatusOK; i++ {
			a.Status = c.write(from, word(0)+uint32(4*(i-1)), word(i))
		}
		a.Data = binary.BigEndian.AppendUint32(a.Data, uint32(len(p.Data)-4))
	case gvcp.ResendCmd:
		if r, err := gvcp.ParseResend(p); err != nil {
			c.stats.Malformed++
		} else if from.Addr() == c.owner.Addr() && !c.cfg.NoResend { // some ask from the socket of the stream
			c.resend(r)
		}
		return nil
	default:
		a.Status = gvcp.StatusNotImplemented
	}
	if a.Status != gvcp.StatusOK {
		a.Data = nil
	}
	if p.Flags&gvcp.FlagAck == 0 {
		return nil
	}
	return a
}

// expire takes control away from somebody who is silent. c.mu is held.
func (c *Camera) expire() {
	timeout := time.Duration(c.regs.get(gvcp.RegHeartbeat)) * time.Millisecond
	if c.owner.IsValid() && time.Since(c.heard) > timeout {
		c.release()
	}
}

func (c *Camera) release() {
	c.owner = netip.AddrPort{}
	c.regs.set(gvcp.RegControl, 0)
	c.regs.set(regAcquisition, 0)
	c.regs.set(regLocked, 0)
	c.regs.set(gvcp.RegStreamPort, 0)
	c.regs.set(gvcp.RegMessagePort, 0)
}

func (c *Camera) read(addr, n uint32) ([]byte, gvcp.Status) {
	switch {
	case addr%4 != 0 || n%4 != 0:
		return nil, gvcp.StatusBadAlignment
	case n > gvcp.MaxData:
		return nil, gvcp.StatusInvalidParam
	}
	m := c.regs.at(addr)
	if uint32(len(m)) < n {
		return nil, gvcp.StatusInvalidAddress
	}
	return m[:n], gvcp.StatusOK
}

func (c *Camera) write(from netip.AddrPort, addr, v uint32) gvcp.Status {
	if addr%4 != 0 {
		return gvcp.StatusBadAlignment
	}
	if c.owner.IsValid() && from != c.owner {
		return gvcp.StatusAccessDenied
	}
	if addr == gvcp.RegControl {
		if v&(gvcp.ControlControl|gvcp.ControlExclusive) == 0 {
			c.release()
			return gvcp.StatusOK
		}
		c.owner, c.heard = from, time.Now()
		c.regs.set(addr, v)
		return gvcp.StatusOK
	}
	if !c.owner.IsValid() {
		return gvcp.StatusAccessDenied
	}
	s := c.regs.write(addr, v)
	if s == gvcp.StatusOK {
		switch {
		case addr == gvcp.RegPacketSize && v&gvcp.PacketFireTest != 0:
			c.fireTest(int(v & 0xffff))
		case addr == regAcquisition || addr == regTrigger:
			select {
			case c.wake <- struct{}{}:
			default:
			}
		}
	}
	return s
}

// target is where the stream goes; not valid: nowhere. c.mu is held.
func (c *Camera) target() netip.AddrPort {
	port := c.regs.get(gvcp.RegStreamPort)
	if port == 0 {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(c.regs.at(gvcp.RegStreamAddress))), uint16(port))
}

// fireTest sends a packet of a size, so that somebody sees whether the network carries it.
func (c *Camera) fireTest(size int) {
	if to := c.target(); to.IsValid() {
		p := gvsp.Packet{Kind: gvsp.KindPayload, Data: make([]byte, size-gvsp.Overhead)}
		_, _ = c.stream.WriteToUDPAddrPort(p.Append(nil), to) // a size that the network doesn't carry stays away
	}
}

// maxResend is how many packets one command is answered with.
const maxResend = 1024

// resend sends packets again. c.mu is held.
func (c *Camera) resend(r gvcp.Resend) {
	to := c.target()
	if !to.IsValid() {
		return
	}
	last := min(uint64(r.Last), uint64(r.First)+maxResend-1)
	for i := uint64(r.First); i <= last; i++ {
		p, ok := c.packet(r.Block, uint32(i))
		if !ok {
			c.stats.Unavailable++
			p = gvsp.Packet{Status: gvsp.StatusUnavailable, Block: r.Block, Extended: c.cfg.Extended,
				Kind: gvsp.KindPayload,
				ID:   uint32(i)}
			_, _ = c.stream.WriteToUDPAddrPort(p.Append(nil), to)
			return // as for the rest
		}
		c.stats.Resent++
		p.Status = gvsp.StatusResent
		if c.dice.Float64() >= c.cfg.Loss {
			_, _ = c.stream.WriteToUDPAddrPort(p.Append(nil), to)
		}
	}
}

// packet makes one of a block that is kept.
func (c *Camera) packet(block uint64, id uint32) (p gvsp.Packet, ok bool) {
	for i := range c.kept {
		if c.kept[i].id == block {
			return c.kept[i].packet(id, c.cfg.Extended)
		}
	}
	return p, false
}

func (k *kept) packets() uint32 { return uint32((len(k.pixels)+k.unit-1)/k.unit) + 2 }

func (k *kept) packet(id uint32, extended bool) (p gvsp.Packet, ok bool) {
	p = gvsp.Packet{Block: k.id, Extended: extended, ID: id}
	switch n := k.packets(); {
	case id == 0:
		p.Kind, p.Data = gvsp.KindLeader, k.leader.Append(nil)
	case id == n-1:
		p.Kind, p.Data = gvsp.KindTrailer, gvsp.Trailer{PayloadType: k.leader.PayloadType,
			Height: k.leader.Height, Payload: uint32(len(k.pixels))}.Append(nil)
	case id < n:
		from := int(id-1) * k.unit
		p.Kind, p.Data = gvsp.KindPayload, k.pixels[from:min(from+k.unit, len(k.pixels))]
	default:
		return p, false
	}
	return p, true
}

// run streams whenever it is wanted.
func (c *Camera) run(ctx context.Context) {
	for {
		c.mu.Lock()
		on := c.regs.get(regAcquisition) != 0
		c.mu.Unlock()
		if !on {
			select {
			case <-c.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		c.acquire(ctx)
	}
}

// acquire sends blocks until it is told to stop.
func (c *Camera) acquire(ctx context.Context) {
	c.mu.Lock()
	whole := make([]byte, gvsp.Geometry{Format: c.cfg.Format, Width: c.cfg.Width, Height: c.cfg.Height}.Bytes())
	c.kept = nil
	c.mu.Unlock()
	start := time.Now()
	due := start
	for n := uint64(0); ; {
		c.mu.Lock()
		c.expire()
		rate := float64(math.Float32frombits(c.regs.get(regRate)))
		period := time.Duration(float64(time.Second) / rate)
		on, trigger := c.regs.get(regAcquisition) != 0, c.regs.get(regTriggerMode) != 0
		fired := c.regs.get(regTrigger) != 0
		c.regs.set(regTrigger, 0)
		to := c.target()
		jitter := time.Duration(0)
		if c.cfg.Jitter > 0 {
			jitter = time.Duration(c.dice.Int64N(int64(c.cfg.Jitter)))
		}
		ended := c.cfg.Blocks > 0 && n == c.cfg.Blocks || n == 1 && c.regs.get(regMode) == 1
		c.mu.Unlock()
		if !on || ctx.Err() != nil {
			return
		}
		if ended || trigger && !fired || !to.IsValid() {
			if !c.sleep(ctx, 100*time.Millisecond) {
				return
			}
			due = time.Now()
			continue
		}
		if !trigger {
			if !c.sleep(ctx, time.Until(due)+jitter) {
				return
			}
			if due = due.Add(period); time.Since(due) > time.Second {
				due = time.Now() // it doesn't catch up with more
			}
		}
		c.cfg.Draw(n, whole)
		c.send(ctx, c.keep(n, whole, time.Since(start)), to, period)
		n++
	}
}

// sleep waits; it is over early where something was written to a register. It returns false at the end.
func (c *Camera) sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.wake:
	case <-ctx.Done():
		return false
	}
	return true
}

// keep makes a block of what the sensor saw, and keeps it.
func (c *Camera) keep(n uint64, whole []byte, clock time.Duration) *kept {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, _ := c.cfg.Format.Layout()
	r := &c.regs
	w, h, x, y := int(r.get(regWidth)), int(r.get(regHeight)), int(r.get(regOffsetX)), int(r.get(regOffsetY))
	row := (w*l.PixelBits + 7) / 8
	stride := row + c.cfg.Pad
	size := stride * h
	if r.get(regChunkMode) != 0 {
		size += chunkBytes
	}
	most := max(2, min(maxKept, keptBytes/size))
	var k kept
	if len(c.kept) == most {
		k, c.kept = c.kept[0], c.kept[1:]
	}
	if len(k.pixels) != size {
		k.pixels = make([]byte, size)
	}
	for i := range h {
		from := ((y+i)*c.cfg.Width + x) * l.PixelBits / 8
		copy(k.pixels[i*stride:i*stride+row], whole[from:])
	}
	k.id = n + 1
	overhead := gvsp.Overhead
	if c.cfg.Extended {
		overhead = gvsp.ExtendedOverhead
	} else {
		k.id = n%(1<<16-1) + 1
	}
	k.unit = int(r.get(gvcp.RegPacketSize)&0xffff) - overhead
	k.leader = gvsp.Leader{PayloadType: gvsp.PayloadImage, Timestamp: uint64(clock), Format: c.cfg.Format,
		Width: uint32(w), Height: uint32(h), OffsetX: uint32(x), OffsetY: uint32(y), PadX: uint16(c.cfg.Pad)}
	if r.get(regChunkMode) != 0 {
		k.leader.PayloadType |= gvsp.PayloadExtended
		appendChunks(k.pixels[:stride*h], k.id, uint64(clock), n*uint64(h))
	}
	if r.get(regEvents) != 0 {
		c.tell(gvcp.Event{ID: frameStart, Block: k.id, Timestamp: uint64(clock)})
	}
	c.kept = append(c.kept, k)
	c.stats.Blocks++
	return &k
}

// chunkBytes is what chunks take: the image's, and two of counters, with an id and a length each.
const chunkBytes = 8 + 16 + 8 + 12 + 8

// linePulses is how far the encoder goes in a line.
const linePulses = 4

// appendChunks adds chunks behind an image, as description.xml says.
func appendChunks(b []byte, id, clock, line uint64) {
	end := func(chunk, n uint32) {
		b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, chunk), n)
	}
	end(1, uint32(len(b)))
	b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, id), clock)
	end(0x1001, 16)
	b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(b, line), uint32(line*linePulses))
	end(0x1002, 12)
}

// frameStart is the id of the event of a block's start.
const frameStart = 0x9001

// tell sends an event. c.mu is held.
func (c *Camera) tell(e gvcp.Event) {
	port := c.regs.get(gvcp.RegMessagePort)
	if port == 0 || c.unplugged {
		return
	}
	to := netip.AddrPortFrom(netip.AddrFrom4([4]byte(c.regs.at(gvcp.RegMessageAddress))), uint16(port))
	if c.events++; c.events == 0 {
		c.events = 1
	}
	p := gvcp.Packet{Flags: gvcp.FlagAck, Command: gvcp.EventCmd, ID: c.events}
	if c.cfg.Extended {
		p.Flags |= gvcp.FlagExtended
	}
	p.Data = gvcp.AppendEvent(nil, e, c.cfg.Extended)
	_, _ = c.control.WriteToUDPAddrPort(p.Append(nil), to) // nobody may listen
}

// sendBatch is how many packets go out with one system call.
const sendBatch = 16

// send sends a block within most of its period, as a sensor that is read out.
func (c *Camera) send(ctx context.Context, k *kept, to netip.AddrPort, period time.Duration) {
	start := time.Now()
	addr := net.UDPAddrFromAddrPort(to)
	var messages []ipv4.Message
	var held []byte // a packet that goes out behind the next one
	n := k.packets()
	add := func(b []byte) { messages = append(messages, ipv4.Message{Buffers: [][]byte{b}, Addr: addr}) }
	for id := range n {
		p, _ := k.packet(id, c.cfg.Extended)
		b := p.Append(make([]byte, 0, len(p.Data)+20))
		c.mu.Lock()
		c.stats.Packets++
		lost, twice, later := c.chance(c.cfg.Loss), c.chance(c.cfg.Duplicate), c.chance(c.cfg.Reorder)
		switch {
		case c.unplugged:
		case lost:
			c.stats.Lost++
		default:
			if later && held == nil && id < n-1 {
				c.stats.Reordered++
				held = b
			} else {
				add(b)
				if held != nil {
					add(held)
					held = nil
				}
			}
			if twice {
				c.stats.Doubled++
				add(b)
			}
		}
		c.mu.Unlock()
		if id < n-1 && len(messages) < sendBatch {
			continue
		}
		if held != nil && id == n-1 {
			add(held)
		}
		for rest := messages; len(rest) > 0; {
			sent, err := c.batch.WriteBatch(rest, 0)
			if err != nil { // nobody is there, or it is too large: a cable doesn't say
				break
			}
			rest = rest[sent:]
		}
		messages = messages[:0]
		ahead := time.Duration(float64(period)*0.8*float64(id+1)/float64(n)) - time.Since(start)
		if id < n-1 && ahead > time.Millisecond && !c.pause(ctx, ahead) {
			return
		}
	}
}

// pause waits, whatever is written meanwhile.
func (c *Camera) pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (c *Camera) chance(share float64) bool { return share > 0 && c.dice.Float64() < share }
