package main

// A GigE Vision camera as a source.

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/polyscan/polyscan/clients/camera/internal/genicam"
	"github.com/polyscan/polyscan/clients/camera/internal/gvcp"
	"github.com/polyscan/polyscan/clients/camera/internal/gvsp"
)

// gige is a camera.
type gige struct {
	*streamCmd
	e      *env
	notify func(format string, args ...any)
	info   gvcp.Info // as it was found last
	conn   *connection
	geo    gvsp.Geometry // of the first connection

	presence *presence

	mu    sync.Mutex
	rx    *gvsp.Receiver // nil while there is none
	past  gvsp.Stats     // of earlier connections
	links int

	// Events of the camera, by their names, of which there are few; when the last one was told, and how many were not.
	events map[string]uint64
	told   time.Time
	untold int
}

// open implements source.
func (s *gige) open(ctx context.Context) (about, error) {
	var err error
	if s.info, err = find(ctx, s.Source); err != nil {
		return about{}, err
	}
	if s.conn, err = s.prepare(ctx); err != nil {
		return about{}, err
	}
	s.geo = s.conn.geo
	return about{name: s.info.Name(), title: fmt.Sprintf("%s %s: %d x %d %v, packets of %d bytes", s.info.Manufacturer,
		s.info.Name(), s.geo.Width, s.geo.Height, s.geo.Format, s.geo.Unit+gvsp.Overhead), geo: s.geo,
		from: fmt.Sprintf("%s %s %s at %v", s.info.Manufacturer, s.info.Model, s.info.Serial, s.info.Addr.Addr())}, nil
}

// close implements source.
func (s *gige) close() error { return s.conn.close() }

// maxEventNames bounds the names of events; the rest are "other".
const maxEventNames = 32

// tellEvery is how often an event is printed at most.
const tellEvery = time.Second

// event takes one of the camera.
func (s *gige) event(names map[uint16]string, e gvcp.Event) {
	name := cmp.Or(names[e.ID], fmt.Sprintf("%#04x", e.ID))
	s.mu.Lock()
	if s.events == nil {
		s.events = map[string]uint64{}
	}
	if _, ok := s.events[name]; !ok && len(s.events) >= maxEventNames {
		name = "other"
	}
	s.events[name]++
	now := time.Now()
	tell, untold := now.Sub(s.told) >= tellEvery, s.untold
	if s.untold++; tell {
		s.told, s.untold = now, 0
	}
	s.mu.Unlock()
	if !tell {
		return
	}
	more := ""
	if untold > 0 {
		more = fmt.Sprintf(" (and %d events before it)", untold)
	}
	s.notify("the camera's event %s, id %#04x, of block %d%s", name, e.ID, e.Block, more)
}

// happened are the events so far.
func (s *gige) happened() map[string]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.events)
}

// stats implements source: those of all connections.
func (s *gige) stats() (st gvsp.Stats, up bool, connections int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rx == nil {
		return s.past, false, s.links
	}
	return s.past.Plus(s.rx.Stats()), true, s.links
}

// connection is a camera that is controlled and streams.
type connection struct {
	link *link
	rx   *gvsp.Receiver
	geo  gvsp.Geometry
	asm  *gvsp.Assembler

	chunks *genicam.Chunks // nil where there are none
	events *gvcp.Events    // nil where the camera has none
}

// asker is the sink of an assembler, with the camera that is asked for packets.
type asker struct {
	*sink
	dev    *gvcp.Device
	chunks *genicam.Chunks
}

// Block implements gvsp.Sink: what the camera said of the block goes with it.
func (a asker) Block(b *gvsp.Block) {
	if b.Timestamp != 0 {
		b.Data = append(b.Data, gvsp.Datum{Name: "timestamp", Value: strconv.FormatUint(b.Timestamp, 10)})
	}
	if a.chunks != nil && b.Chunks != nil {
		all, _ := gvsp.ParseChunks(b.Chunks) // what can't be read isn't there
		by := map[uint32][]byte{}
		for _, c := range all {
			by[c.ID] = c.Data
		}
		for _, v := range a.chunks.Read(by) {
			b.Data = append(b.Data, gvsp.Datum(v))
		}
	}
	a.sink.Block(b)
}

// Ask implements gvsp.Sink.
func (a asker) Ask(block uint64, extended bool, first, last uint32) {
	_ = a.dev.Resend(gvcp.Resend{Block: block, First: first, Last: last, Extended: extended}) // it is asked for again
}

// prepare opens the camera, sets what is to be set, and reads what its blocks are; it doesn't stream yet.
func (s *gige) prepare(ctx context.Context) (_ *connection, err error) {
	c := &connection{}
	if c.link, err = open(ctx, s.info, true); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	_ = c.link.Execute(ctx, "AcquisitionStop") // of a program that left it on; some know no stop while they are idle
	if c.link.Model.Has("TLParamsLocked") {
		_ = c.link.Set(ctx, "TLParamsLocked", "0")
	}
	for _, set := range s.Set {
		if err := c.link.apply(s.e, set); err != nil {
			return nil, err
		}
	}
	if err := c.geometry(ctx); err != nil {
		return nil, err
	}
	if c.rx, err = gvsp.Listen(c.link.dev.Local(), s.SocketBuffer); err != nil {
		return nil, err
	}
	size, err := s.packetSize(ctx, c)
	if err != nil {
		return nil, err
	}
	c.geo.Unit = size - gvsp.Overhead
	if err := c.geo.Check(); err != nil {
		return nil, usage("camera %s: %v", s.info.Name(), err)
	}
	return c, nil
}

// geometry reads what a block is.
func (c *connection) geometry(ctx context.Context) error {
	number := func(name string) (int, error) {
		v, err := c.link.Int(ctx, name)
		return int(min(max(v, -1), 1<<32)), err
	}
	w, err := number("Width")
	if err != nil {
		return err
	}
	h, err := number("Height")
	if err != nil {
		return err
	}
	f, err := number("PixelFormat")
	if err != nil {
		return err
	}
	c.geo = gvsp.Geometry{Format: gvsp.PixelFormat(f), Width: w, Height: h, Unit: gvsp.MinPacket}
	if on, err := c.link.Int(ctx, "ChunkModeActive"); err == nil && on != 0 {
		payload, err := number("PayloadSize")
		if err != nil {
			return err
		}
		c.geo.Extra = max(0, payload-c.geo.Bytes())
		if c.chunks, err = c.link.Chunks(ctx); err != nil {
			return err
		}
	}
	if err := c.geo.Check(); err != nil {
		return usage("camera %s: %v", c.link.info.Name(), err)
	}
	return nil
}

// The largest packets that are tried where nobody says another size: jumbo frames.
const largestPacket = 9000

// packetSize tells the camera where to stream to and how large its packets are: as large as the network between
// carries.
func (s *gige) packetSize(ctx context.Context, c *connection) (int, error) {
	to := c.rx.Addr()
	b := to.Addr().As4()
	dev := c.link.dev
	if err := dev.WriteReg(ctx, gvcp.RegStreamAddress, binary.BigEndian.Uint32(b[:])); err != nil {
		return 0, err
	}
	if err := dev.WriteReg(ctx, gvcp.RegStreamPort, uint32(to.Port())); err != nil {
		return 0, err
	}
	set := func(size int) (int, error) {
		if err := dev.WriteReg(ctx, gvcp.RegPacketSize, gvcp.PacketNoFragment|uint32(size)); err != nil {
			return 0, err
		}
		v, err := dev.ReadReg(ctx, gvcp.RegPacketSize) // cameras round it
		if got := int(v & 0xffff); err == nil && (got < gvsp.MinPacket || got > gvsp.MaxPacket) {
			return 0, fmt.Errorf("camera %s: packets of %d bytes: must be %d to %d", s.info.Name(), got, gvsp.MinPacket,
				gvsp.MaxPacket)
		}
		return int(v & 0xffff), err
	}
	if s.PacketSize > 0 {
		return set(s.PacketSize)
	}
	largest := min(mtu(to.Addr()), largestPacket)
	for _, size := range []int{largest, 8192, 4096, 1500, 1400, gvsp.MinPacket} {
		if size = size / 4 * 4; size > largest {
			continue
		}
		for range 2 {
			// Where the camera refuses a size or knows no test packets, none comes.
			if dev.WriteReg(ctx, gvcp.RegPacketSize, gvcp.PacketFireTest|gvcp.PacketNoFragment|uint32(size)) == nil &&
				c.rx.TestPacket(s.info.Addr.Addr(), size, 50*time.Millisecond) {
				return set(size)
			}
		}
	}
	// It sends no test packets: what every network carries is safe.
	return set(min(1400, largest))
}

// mtu is that of the interface with an address; 1500 where it isn't known.
func mtu(local netip.Addr) int {
	interfaces, _ := net.Interfaces()
	for _, i := range interfaces {
		addrs, _ := i.Addrs()
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr() == local {
				return max(i.MTU, gvsp.MinPacket)
			}
		}
	}
	return 1500
}

func (c *connection) close() (err error) {
	if c.rx != nil {
		err = c.rx.Close()
	}
	if c.events != nil {
		err = errors.Join(err, c.events.Close())
	}
	return errors.Join(err, c.link.close())
}

// listen tells the camera where its events go, where it has any.
func (s *gige) listen(ctx context.Context, c *connection) error {
	dev := c.link.dev
	if n, err := dev.ReadReg(ctx, gvcp.RegMessageChannels); err != nil || n == 0 {
		return nil // not all have the register
	}
	names := map[uint16]string{} // looked up once for each id
	events, err := gvcp.ListenEvents(dev.Local(), s.info.Addr.Addr(), func(e gvcp.Event) {
		if _, ok := names[e.ID]; !ok && len(names) < maxEventNames {
			names[e.ID] = c.link.Model.EventName(e.ID)
		}
		s.event(names, e)
	})
	if err != nil {
		return err
	}
	c.events = events
	b := dev.Local().As4()
	err = dev.WriteReg(ctx, gvcp.RegMessageAddress, binary.BigEndian.Uint32(b[:]))
	if err == nil {
		err = dev.WriteReg(ctx, gvcp.RegMessagePort, uint32(events.Port()))
	}
	if err != nil && !errors.Is(err, gvcp.ErrSilent) {
		s.notify("the camera sends no events: %v", err)
		return nil
	}
	return err
}

// play streams until the context ends (nil), or the camera is lost.
func (s *gige) play(ctx context.Context, c *connection, to *sink) error {
	v, err := c.link.dev.ReadReg(ctx, gvcp.RegCapability)
	if err != nil {
		return err
	}
	timing := gvsp.DefaultTiming(v&gvcp.CapabilityResend != 0 && !s.NoResend)
	timing.Silence = s.Silence
	if c.asm, err = gvsp.NewAssembler(c.geo, timing, asker{to, c.link.dev, c.chunks}); err != nil {
		return err
	}
	if err := s.listen(ctx, c); err != nil {
		return err
	}
	c.rx.Start(c.asm, s.info.Addr.Addr())
	s.mu.Lock()
	s.rx = c.rx
	s.links++
	s.mu.Unlock()
	run, stop := context.WithCancel(context.WithoutCancel(ctx)) // blocks that are under way come to their end
	received := make(chan error, 1)
	go func() { received <- c.rx.Run(run) }()
	defer func() {
		stop()
		s.mu.Lock()
		s.past, s.rx = s.past.Plus(c.rx.Stats()), nil
		s.mu.Unlock()
	}()
	if c.link.Model.Has("TLParamsLocked") {
		_ = c.link.Set(ctx, "TLParamsLocked", "1") // a camera that lacks it is not locked
	}
	if err = c.link.Execute(ctx, "AcquisitionStart"); err == nil {
		select {
		case <-ctx.Done():
			off, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			stopped := c.link.Execute(off, "AcquisitionStop") // it stops without a heartbeat, too
			if errors.Is(stopped, gvcp.ErrSilent) {
				s.presence.lost(c.link.dev.Heard(), fmt.Errorf("camera %s was lost: %w", s.info.Name(), stopped))
			} else if c.link.Model.Has("TLParamsLocked") {
				_ = c.link.Set(off, "TLParamsLocked", "0")
			}
			cancel()
			c.drain(timing)
		case <-c.link.dev.Lost():
			err = c.link.dev.Err()
		case err = <-received:
			received <- err
			if err == nil {
				err = errors.New("the socket was closed")
			}
		}
	}
	stop()
	return errors.Join(err, <-received)
}

// drain waits for the rest of the blocks that have begun, of a camera that was stopped.
func (c *connection) drain(t gvsp.Timing) {
	end := time.Now().Add(t.Silence + t.Retain)
	for tick := t.Reorder; c.rx.Open() > 0 && time.Now().Before(end); {
		time.Sleep(tick) // no packet may come any more that could wake anybody
	}
}

// keep implements source: it finds the camera again whenever it is lost, wherever it is then.
func (s *gige) keep(ctx context.Context, to *sink) error {
	c := s.conn
	for {
		err := s.play(ctx, c, to)
		closed := c.close()
		if ctx.Err() != nil {
			return closed
		}
		if s.Reconnect == 0 {
			return fmt.Errorf("camera %s was lost: %w", s.info.Name(), err)
		}
		err = fmt.Errorf("camera %s was lost: %w", s.info.Name(), err)
		s.presence.lost(c.link.dev.Heard(), err)
		to.Jump(err.Error())
		wait := min(firstRetry, s.Reconnect)
		for {
			if c, err = s.again(ctx); err == nil {
				break
			}
			var in *inputError
			if errors.As(err, &in) && ctx.Err() == nil {
				return err // it is another camera now, or set otherwise
			}
			select {
			case <-time.After(wait):
				wait = min(2*wait, s.Reconnect)
			case <-ctx.Done():
				return nil
			}
		}
		s.presence.found()
		to.notify("camera %s streams again, from %v", s.info.Name(), s.info.Addr)
	}
}

// again finds the camera where it is now.
func (s *gige) again(ctx context.Context) (*connection, error) {
	info, err := ask(ctx, s.info.Addr)
	if err != nil || info.Serial != s.info.Serial {
		name := cmp.Or(s.info.Serial, s.Source)
		if info, err = find(ctx, name); err != nil {
			return nil, err
		}
	}
	s.info = info
	c, err := s.prepare(ctx)
	if err != nil {
		return nil, err
	}
	if now := c.geo; now.Format != s.geo.Format || now.Width != s.geo.Width || now.Height != s.geo.Height {
		return nil, errors.Join(usage("camera %s has blocks of %d x %d %v now, not %d x %d %v", info.Name(), now.Width,
			now.Height, now.Format, s.geo.Width, s.geo.Height, s.geo.Format), c.close())
	}
	return c, nil
}
