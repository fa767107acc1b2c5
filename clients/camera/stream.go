package main

// The command stream: a camera into a server.

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/camera/internal/gvcp"
	"github.com/polyscan/polyscan/clients/camera/internal/gvsp"
	"github.com/polyscan/polyscan/clients/internal/cli"
	"github.com/polyscan/polyscan/clients/regionfile"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

type streamCmd struct {
	cameraArg

	// Regions of a part: polyscan's own JSON, LabelMe, COCO, GeoJSON or SVG.
	Regions string `short:"r" placeholder:"FILE" predictor:"file" group:"parts"`
	// Recipe of the server in place of --regions: NAME or NAME@VERSION.
	Recipe string `placeholder:"NAME" group:"parts"`
	// Limit on a whole part in place of regions, such as "mean in [90, 140]". May be given more than once.
	Limit []string `placeholder:"LIMIT" sep:"none" group:"parts"`
	// Lines of a part (default: the height of the camera's frames or blocks).
	PartLines int `placeholder:"N" group:"parts"`
	// Lines from the start of a part to that of the next one (default: those of a part).
	Every int `placeholder:"N" group:"parts"`
	// End after so many parts; 0: never.
	Count uint64 `placeholder:"N" group:"parts"`
	// End after this time; 0: never.
	Duration time.Duration `placeholder:"TIME" group:"parts"`
	// Latency above which the server marks a result as late.
	Budget time.Duration `default:"5ms" group:"parts"`

	// Name of the stream, as watchers and metrics of the server have it, and before the numbers of its parts (default:
	// the camera's user name or serial number).
	Name string `placeholder:"NAME" group:"camera"`
	// Set a feature before the stream starts: FEATURE=VALUE, or a command. May be given more than once.
	Set []string `placeholder:"FEATURE=VALUE" sep:"none" group:"camera"`
	// Bytes of a packet, with the headers of IP and UDP. By default the largest that the network carries.
	PacketSize int `placeholder:"BYTES" group:"camera"`
	// Bytes that the kernel keeps while this program does something else.
	SocketBuffer int `default:"33554432" placeholder:"BYTES" group:"camera"`
	// Ask for no packet again: what is lost is a gap at once.
	NoResend bool `group:"camera"`
	// Time without a packet after which a frame or block counts as ended.
	Silence time.Duration `default:"200ms" group:"camera"`

	// Print each part as JSON, a line each, instead of a table.
	JSON bool `name:"json" group:"output"`
	// Print no parts, but the summary.
	Quiet bool `short:"q" group:"output"`
	// Address for metrics (/metrics) and health (/healthz).
	HTTP string `name:"http" placeholder:"ADDR" group:"output"`

	// Server: HOST:PORT or unix:PATH.
	Addr string `required:"" placeholder:"ADDR" env:"POLYSCAN_ADDR" group:"server"`
	// How pixels travel: tcp, shm (memory that the server maps; it must be on this host), or auto: shm where it goes.
	Transport string `enum:"auto,tcp,shm" default:"auto" group:"server"`
	cli.Credentials
}

func (c *streamCmd) check() error {
	given := 0
	for _, g := range []bool{c.Regions != "", c.Recipe != "", len(c.Limit) > 0} {
		if g {
			given++
		}
	}
	switch {
	case given != 1:
		return usage("give one of --regions FILE, --recipe NAME and --limit LIMIT")
	case c.PartLines < 0 || c.PartLines > 1<<20:
		return usage("--part-lines %d: must be 1 to %d", c.PartLines, 1<<20)
	case c.Every < 0 || c.Every > 1<<20:
		return usage("--every %d: must be 1 to %d", c.Every, 1<<20)
	case c.Duration < 0:
		return usage("--duration %v: must not be negative", c.Duration)
	case c.Budget < time.Microsecond:
		return usage("--budget %v: must be 1us or more", c.Budget)
	case c.PacketSize != 0 && (c.PacketSize < gvsp.MinPacket || c.PacketSize > gvsp.MaxPacket || c.PacketSize%4 != 0):
		return usage("--packet-size %d: must be %d to %d, and a multiple of 4", c.PacketSize, gvsp.MinPacket,
			gvsp.MaxPacket)
	case c.SocketBuffer < 1<<16 || c.SocketBuffer > 1<<30:
		return usage("--socket-buffer %d: must be %d to %d", c.SocketBuffer, 1<<16, 1<<30)
	case c.Silence < time.Millisecond || c.Silence > time.Minute:
		return usage("--silence %v: must be 1ms to 1m", c.Silence)
	}
	return nil
}

// inspection is what parts are held to.
func (c *streamCmd) inspection(e *env, lay layout) (*polyscanv1.Inspection, error) {
	if len(c.Limit) > 0 {
		w, h := float64(lay.geo.Width), float64(lay.partLines)
		whole := clients.Polygon("part", 0, 0, w, 0, w, h, 0, h)
		whole.Limits = c.Limit
		return clients.UseRegions(whole), nil
	}
	if c.Recipe != "" {
		ref, err := clients.ParseRecipeRef(c.Recipe)
		if err != nil {
			return nil, usage("--recipe: %v", err)
		}
		return clients.UseRecipe(ref.GetName(), ref.GetVersion()), nil
	}
	file, err := regionfile.Load(c.Regions, regionfile.Options{})
	if err != nil {
		return nil, usage("%v", err)
	}
	for _, w := range file.Warnings {
		fmt.Fprintf(e.stderr, "camera: warning: %s\n", cli.OneLine(c.Regions+": "+w))
	}
	return clients.UseRegions(cli.Regions(file)...), nil
}

// stream is a command that runs.
type stream struct {
	*streamCmd
	e     *env
	info  gvcp.Info // of the camera, as it was found last
	lay   layout
	sink  *sink
	tally *tally
	say   sync.Mutex // held while something is printed

	mu    sync.Mutex
	rx    *gvsp.Receiver // nil while there is none
	past  gvsp.Stats     // of earlier connections
	links int
}

func (s *stream) notify(format string, args ...any) {
	s.say.Lock()
	defer s.say.Unlock()
	s.tally.clearLine()
	fmt.Fprintf(s.e.stderr, "camera: %s\n", cli.OneLine(fmt.Sprintf(format, args...)))
}

// stats are those of all connections.
func (s *stream) stats() gvsp.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rx == nil {
		return s.past
	}
	return s.past.Plus(s.rx.Stats())
}

// connection is a camera that is controlled and streams.
type connection struct {
	link *link
	rx   *gvsp.Receiver
	geo  gvsp.Geometry
	asm  *gvsp.Assembler
}

// asker is the sink of an assembler, with the camera that is asked for packets.
type asker struct {
	*sink
	dev *gvcp.Device
}

// Ask implements gvsp.Sink.
func (a asker) Ask(block uint64, extended bool, first, last uint32) {
	_ = a.dev.Resend(gvcp.Resend{Block: block, First: first, Last: last, Extended: extended}) // it is asked for again
}

// prepare opens the camera, sets what is to be set, and reads what its blocks are; it doesn't stream yet.
func (s *stream) prepare(ctx context.Context) (_ *connection, err error) {
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
	if err := c.geo.Check(); err != nil {
		return usage("camera %s: %v", c.link.info.Name(), err)
	}
	return nil
}

// The largest packets that are tried where nobody says another size: jumbo frames.
const largestPacket = 9000

// packetSize tells the camera where to stream to and how large its packets are: as large as the network between
// carries.
func (s *stream) packetSize(ctx context.Context, c *connection) (int, error) {
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
	return errors.Join(err, c.link.close())
}

// play streams until the context ends (nil), or the camera is lost.
func (s *stream) play(ctx context.Context, c *connection) error {
	v, err := c.link.dev.ReadReg(ctx, gvcp.RegCapability)
	if err != nil {
		return err
	}
	timing := gvsp.DefaultTiming(v&gvcp.CapabilityResend != 0 && !s.NoResend)
	timing.Silence = s.Silence
	if c.asm, err = gvsp.NewAssembler(c.geo, timing, asker{s.sink, c.link.dev}); err != nil {
		return err
	}
	c.rx.Start(c.asm, s.info.Addr.Addr())
	s.mu.Lock()
	s.rx = c.rx
	s.links++
	s.mu.Unlock()
	run, stop := context.WithCancel(ctx)
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
			off, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			_ = c.link.Execute(off, "AcquisitionStop") // it stops without a heartbeat, too
			if c.link.Model.Has("TLParamsLocked") {
				_ = c.link.Set(off, "TLParamsLocked", "0")
			}
			cancel()
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

// keep streams the camera until the context ends, and finds it again whenever it is lost, wherever it is then.
func (s *stream) keep(ctx context.Context, c *connection) error {
	for {
		err := s.play(ctx, c)
		closed := c.close()
		if ctx.Err() != nil {
			return closed
		}
		s.sink.Jump(fmt.Sprintf("camera %s was lost: %v", s.info.Name(), err))
		wait := firstRetry
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
				wait = min(2*wait, lastRetry)
			case <-ctx.Done():
				return nil
			}
		}
		s.notify("camera %s streams again, from %v", s.info.Name(), s.info.Addr)
	}
}

// again finds the camera where it is now.
func (s *stream) again(ctx context.Context) (*connection, error) {
	info, err := ask(ctx, s.info.Addr)
	if err != nil || info.Serial != s.info.Serial {
		name := cmp.Or(s.info.Serial, s.Camera)
		if info, err = find(ctx, name); err != nil {
			return nil, err
		}
	}
	s.info = info
	c, err := s.prepare(ctx)
	if err != nil {
		return nil, err
	}
	if now := c.geo; now.Format != s.lay.geo.Format || now.Width != s.lay.geo.Width || now.Height != s.lay.geo.Height {
		return nil, errors.Join(usage("camera %s has blocks of %d x %d %v now, not %d x %d %v", info.Name(), now.Width,
			now.Height, now.Format, s.lay.geo.Width, s.lay.geo.Height, s.lay.geo.Format), c.close())
	}
	return c, nil
}

// startTime is how long a server may take until it is there.
const startTime = 2 * time.Second

// drainTime is how long results may take when the stream has ended.
const drainTime = 10 * time.Second

func (c *streamCmd) Run(e *env) (err error) {
	if err := c.check(); err != nil {
		return err
	}
	s := &stream{streamCmd: c, e: e}
	if s.info, err = find(e.ctx, c.Camera); err != nil {
		return err
	}
	conn, err := s.prepare(e.ctx)
	if err != nil {
		return err
	}
	given := false
	defer func() {
		if !given {
			err = errors.Join(err, conn.close())
		}
	}()
	geo := conn.geo
	s.lay = layout{geo: geo, partLines: cmp.Or(c.PartLines, geo.Height)}
	s.lay.every = cmp.Or(c.Every, s.lay.partLines)
	in, err := c.inspection(e, s.lay)
	if err != nil {
		return err
	}
	name := cmp.Or(c.Name, streamName(s.info.Name()))
	in.Name = name
	l, _ := geo.Format.Layout()
	open := &polyscanv1.ScanOpen{
		Inspection: in,
		Layout: &polyscanv1.FrameLayout{Width: uint32(geo.Width), Height: uint32(geo.Height),
			PixelFormat: pixelFormat(geo.Format), SignificantBits: uint32(l.Bits)},
		PartLines: uint32(s.lay.partLines), LatencyBudget: durationpb.New(c.Budget), CameraId: name,
		Trigger: &polyscanv1.ScanOpen_EveryLines{EveryLines: uint32(s.lay.every)},
	}
	client, err := clients.Dial(c.Addr, c.Options()...)
	if err != nil {
		return usage("--addr %s", strings.TrimPrefix(err.Error(), "clients: dial "))
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	s.sink = newSink(s.lay, name)
	shared := false
	s.sink.open = func(ctx context.Context) (scan *clients.Scan, err error) {
		scan, shared, err = openScan(ctx, client, open, c.Transport)
		return scan, err
	}
	scan, err := s.sink.open(context.WithoutCancel(e.ctx))
	for until := time.Now().Add(startTime); err != nil; scan, err = s.sink.open(context.WithoutCancel(e.ctx)) {
		// A server that was started together with this program isn't there yet.
		x := clients.AsError(err)
		if x == nil || x.Code != codes.Unavailable || time.Now().After(until) || e.ctx.Err() != nil {
			break
		}
		time.Sleep(firstRetry)
	}
	if err != nil {
		if x := clients.AsError(err); x != nil {
			if text := c.Connection(c.Addr).Explain(x); text != "" {
				return errors.New(text)
			}
		}
		return err
	}
	s.tally = newTally(s, e)
	if !c.Quiet && !c.JSON {
		way := "over the network"
		if shared {
			way = "in shared memory"
		}
		fmt.Fprintf(e.stdout, "%s %s: %d x %d %v, packets of %d bytes, %s to %s (%s)\n\n", s.info.Manufacturer,
			s.info.Name(),
			geo.Width, geo.Height, geo.Format, geo.Unit+gvsp.Overhead, way, c.Addr, scan.Backend())
	}

	playing, stop := context.WithCancelCause(e.ctx)
	defer stop(nil)
	if c.Duration > 0 {
		t := time.AfterFunc(c.Duration, func() { stop(errEnough) })
		defer t.Stop()
	}
	s.sink.notify, s.sink.cancel = s.notify, stop
	s.sink.report = func(o outcome) {
		if !s.tally.add(o) {
			stop(errEnough)
		}
	}
	if c.HTTP != "" {
		shut, err := s.serve()
		if err != nil {
			scan.Close()
			return err
		}
		defer shut()
	}
	hard, give := context.WithCancel(context.WithoutCancel(e.ctx))
	defer give()
	sent := make(chan error, 1)
	go func() {
		err := s.sink.run(hard, scan)
		stop(err) // the camera has nobody to stream to
		sent <- err
	}()
	live := s.tally.live(playing)
	given = true
	kept := s.keep(playing, conn)
	stop(errEnough)
	s.sink.finish()
	timeout := time.AfterFunc(drainTime, give)
	defer timeout.Stop()
	served := <-sent
	<-live
	if kept != nil {
		return kept
	}
	if served != nil && !errors.Is(served, context.Canceled) {
		return served
	}
	var bad error
	if cause := context.Cause(playing); !errors.Is(cause, errEnough) && !errors.Is(cause, context.Canceled) {
		bad = cause
	}
	return errors.Join(bad, s.tally.summary(e.stdout))
}

// errEnough ends a stream that has run as long as it was to.
var errEnough = errors.New("enough")

// streamName makes a name of an inspection of what a camera says.
func streamName(name string) string {
	out := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-' {
			return r
		}
		return '-'
	}, name)
	return cmp.Or(strings.TrimLeft(out[:min(len(out), 48)], "._-"), "camera")
}

// pixelFormat is the server's name of a camera's format.
func pixelFormat(f gvsp.PixelFormat) polyscanv1.PixelFormat {
	switch f {
	case gvsp.Mono8:
		return clients.Gray8
	case gvsp.RGB8:
		return clients.RGB8
	case gvsp.BGR8:
		return clients.BGR8
	case gvsp.RGBa8:
		return clients.RGBA8
	}
	return clients.Gray16LE
}

// serve serves metrics and health.
func (s *stream) serve() (shut func(), err error) {
	l, err := net.Listen("tcp", s.HTTP)
	if err != nil {
		return nil, usage("--http: %v", err)
	}
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 1 << 14}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // until it is closed
	}()
	return func() {
		_ = server.Close()
		<-done
	}, nil
}
