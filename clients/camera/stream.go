package main

// The command stream: a camera into a server.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/camera/internal/gvsp"
	"github.com/polyscan/polyscan/clients/internal/cli"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

type streamCmd struct {
	// Camera, by its address, serial number, MAC or user's name; or, with a slash, a folder that fills with pictures, a
	// pipe of raw pixels (or - for standard input), a video file or /dev/video0; or rtsp://... .
	Source string `arg:"" placeholder:"SOURCE"`

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
	// End after so many parts; 0: never. Where fewer come the stream has not passed.
	Count uint64 `placeholder:"N" group:"parts" zero:""`
	// End after this time from the start on, parts or none; 0: never.
	Duration time.Duration `placeholder:"TIME" group:"parts" zero:""`
	// Latency above which a part is late, and has not passed: by this program's clock from its last packet on, or by the
	// server's. Without it results after 5ms, by either clock, are marked as late, and counted alone.
	Budget *time.Duration `placeholder:"TIME" group:"parts"`

	// Name of the stream, as watchers and metrics of the server have it, and before the numbers of its parts (default:
	// the camera's user name or serial number, or the end of the source's name).
	Name string `placeholder:"NAME" group:"camera"`
	// What the pixels of a pipe are, such as 640x480:Mono8; of other sources but cameras, what they have to be.
	Layout string `placeholder:"WIDTHxHEIGHT:FORMAT" group:"camera"`
	// Longest time between attempts to reach a camera or server that went away; 0: end instead.
	Reconnect time.Duration `default:"2s" group:"camera"`
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
	Addr string `required:"" placeholder:"ADDR" env:"POLYSCAN_ADDR" aka:"server,address,host,url" group:"server"`
	// How pixels travel: tcp, shm (memory that the server maps; it must be on this host), or auto: shm where it goes.
	Transport string `enum:"auto,tcp,shm" default:"auto" group:"server"`
	cli.Credentials
}

// The defaults of --socket-buffer and --silence, which sources that are no camera have no use for.
const (
	socketBuffer = 1 << 25
	silence      = 200 * time.Millisecond
)

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
	case c.Budget != nil && *c.Budget < time.Microsecond:
		return usage("--budget %v: must be 1us or more", *c.Budget)
	case c.PacketSize != 0 && (c.PacketSize < gvsp.MinPacket || c.PacketSize > gvsp.MaxPacket || c.PacketSize%4 != 0):
		return usage("--packet-size %d: must be %d to %d, and a multiple of 4", c.PacketSize, gvsp.MinPacket,
			gvsp.MaxPacket)
	case c.SocketBuffer < 1<<16 || c.SocketBuffer > 1<<30:
		return usage("--socket-buffer %d: must be %d to %d", c.SocketBuffer, 1<<16, 1<<30)
	case c.Reconnect < 0 || c.Reconnect > time.Hour:
		return usage("--reconnect %v: must be 0 to 1h", c.Reconnect)
	case c.Silence < time.Millisecond || c.Silence > time.Minute:
		return usage("--silence %v: must be 1ms to 1m", c.Silence)
	}
	if c.Name != "" {
		if err := cli.CheckStreamName(c.Name); err != nil {
			return usage("--name: %v", err)
		}
	}
	_, err := parseLayout(c.Layout)
	return err
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
	in, err := cli.LoadInspection(c.Regions, false, func(text string) {
		fmt.Fprintf(e.stderr, "camera: warning: %s\n", cli.OneLine(text))
	})
	if err != nil {
		return nil, usage("%v", err)
	}
	return in, nil
}

// stream is a command that runs.
type stream struct {
	*streamCmd
	e     *env
	tally *tally
	say   sync.Mutex // held while something is printed

	presence presence
	watch    *watcher // of a folder, while the stream isn't running

	mu   sync.Mutex
	src  source // nil before it was found
	lay  layout
	past gvsp.Stats // of earlier sources
	next uint64     // number of the next part
}

func newStream(c *streamCmd, e *env, seconds *prometheus.HistogramVec) *stream {
	s := &stream{streamCmd: c, e: e}
	s.tally = newTally(s, e, seconds)
	return s
}

func (s *stream) notify(format string, args ...any) {
	s.say.Lock()
	defer s.say.Unlock()
	s.tally.clearLine()
	fmt.Fprintf(s.e.stderr, "camera: %s%s\n", s.tally.prefix, cli.OneLine(fmt.Sprintf(format, args...)))
}

// stats are those of all connections.
func (s *stream) stats() (st gvsp.Stats, up bool, connections int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.src == nil {
		return s.past, false, 0
	}
	st, up, connections = s.src.stats()
	return s.past.Plus(st), up, connections
}

// happened are the events that a camera told of, over all connections of the source that there is now.
func (s *stream) happened() map[string]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cam, ok := s.src.(*gige); ok {
		return cam.happened()
	}
	return nil
}

// startTime is how long a server may take until it is there.
const startTime = 2 * time.Second

// drainTime is how long results may take when the stream has ended.
const drainTime = 10 * time.Second

func (c *streamCmd) Run(e *env) (err error) {
	if err := c.check(); err != nil {
		return err
	}
	s := newStream(c, e, newSeconds())
	if c.HTTP != "" {
		shut, err := serve(c.HTTP, s)
		if err != nil {
			return err
		}
		defer shut()
	}
	ctx, stop := c.bounded(e.ctx)
	defer stop()
	if err := s.run(ctx); err != nil {
		return err
	}
	err = s.tally.summary(e.stdout)
	return cmp.Or(s.away(), err)
}

// away is the error of a stream whose source was away at its end, unless as many parts had come as were asked for.
func (s *stream) away() error {
	if s.tally.full() {
		return nil
	}
	return s.presence.away()
}

// bounded is a context that ends --duration from now, whatever the stream waits for then.
func (c *streamCmd) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.Duration == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, c.Duration, errEnough)
}

// run streams until the context ends, the source, or as much has come as was asked for, which are no errors.
func (s *stream) run(ctx context.Context) (err error) {
	c := s.streamCmd
	src, err := s.source()
	if err != nil {
		return err
	}
	if f, ok := src.(*folder); ok {
		defer func() { s.watch = f.left() }()
	}
	found, err := src.open(ctx)
	if err != nil {
		if errors.Is(context.Cause(ctx), errEnough) {
			return nil
		}
		return err
	}
	s.presence.found()
	given := false
	defer func() {
		if !given {
			err = errors.Join(err, src.close())
		}
	}()
	geo := found.geo
	lay := layout{geo: geo, partLines: cmp.Or(c.PartLines, geo.Height)}
	lay.every = cmp.Or(c.Every, lay.partLines)
	l, _ := geo.Format.Layout()
	if l.Bayer > 0 && (lay.partLines != geo.Height || lay.every != geo.Height) {
		return usage("--part-lines, --every: a frame of %v is a part of its own, of %d lines", geo.Format, geo.Height)
	}
	in, err := c.inspection(s.e, lay)
	if err != nil {
		return err
	}
	name := cmp.Or(c.Name, streamName(found.name))
	in.Name = name
	open := &polyscanv1.ScanOpen{
		Inspection: in,
		Layout: &polyscanv1.FrameLayout{Width: uint32(geo.Width), Height: uint32(geo.Height),
			PixelFormat: pixelFormat(geo.Format), SignificantBits: uint32(l.Bits)},
		PartLines: uint32(lay.partLines), WholeParts: true, CameraId: name,
		Trigger: &polyscanv1.ScanOpen_EveryLines{EveryLines: uint32(lay.every)},
		Source:  shortened(cmp.Or(found.from, found.title)),
	}
	if c.Budget != nil {
		open.LatencyBudget = durationpb.New(*c.Budget)
	}
	client, err := c.dial()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	to := newSink(lay, name, s.next)
	to.longest, to.words = c.Reconnect, func(err error) string { return c.words(err, in) }
	shared := false
	to.open = func(ctx context.Context) (scan *clients.Scan, err error) {
		scan, shared, err = openScan(ctx, client, open, c.Transport)
		return scan, err
	}
	scan, err := to.open(context.WithoutCancel(ctx))
	until, wait, told := time.Now().Add(startTime), firstRetry, false
	for ; err != nil; scan, err = to.open(context.WithoutCancel(ctx)) {
		// A server that was started together with this program isn't there yet. Of several cameras each waits on, with
		// its source open: what a folder takes in meanwhile are parts.
		x := clients.AsError(err)
		over := time.Now().After(until)
		if x == nil || x.Code != codes.Unavailable || over && (s.tally.prefix == "" || c.Reconnect == 0) || ctx.Err() != nil {
			break
		}
		if over {
			if !told {
				s.notify("%s", c.words(err, in))
			}
			wait, told = min(2*wait, c.Reconnect), true
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	if err != nil {
		if x := clients.AsError(err); x != nil {
			if text := c.Connection(c.Addr).Explain(x); text != "" {
				return errors.New(text)
			}
		}
		return c.refused(err, in)
	}
	way := "over the network"
	if shared {
		way = "in shared memory"
	}
	if title := fmt.Sprintf("%s, %s to %s (%s)", found.title, way, c.Addr, scan.Backend()); s.tally.prefix != "" {
		s.notify("%s", title)
	} else if !c.Quiet && !c.JSON {
		fmt.Fprintf(s.e.stdout, "%s\n\n", title)
	}

	playing, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	to.notify, to.cancel = s.notify, stop
	to.report = func(o outcome) {
		if !s.tally.add(o) {
			stop(errEnough)
		}
	}
	s.mu.Lock()
	s.src, s.lay = src, lay
	s.mu.Unlock()
	s.tally.begin(name)
	hard, give := context.WithCancel(context.WithoutCancel(ctx))
	defer give()
	sent := make(chan error, 1)
	go func() {
		err := to.run(hard, scan)
		stop(err) // the camera has nobody to stream to
		sent <- err
	}()
	live := s.tally.live(playing)
	given = true
	kept := src.keep(playing, to)
	if cause := context.Cause(playing); cause == nil {
		stop(errEnough) // the source has ended, or is lost
	}
	to.finish()
	timeout := time.AfterFunc(drainTime, give)
	defer timeout.Stop()
	served := <-sent
	why := "the stream was given up"
	if served != nil && !errors.Is(served, context.Canceled) {
		why = "the server was lost: " + c.words(served, in)
	}
	to.flush(why) // what came after the server, or waited for it
	<-live
	s.mu.Lock()
	st, _, _ := src.stats()
	s.past, s.src, s.next = s.past.Plus(st), nil, to.next
	s.mu.Unlock()
	if kept != nil {
		return kept
	}
	if served != nil && !errors.Is(served, context.Canceled) {
		return c.refused(served, in)
	}
	if cause := context.Cause(playing); !errors.Is(cause, errEnough) && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

func (c *streamCmd) dial() (*clients.Client, error) {
	client, err := clients.Dial(c.Addr, c.Options()...)
	if err != nil {
		return nil, usage("--addr %s", strings.TrimPrefix(err.Error(), "clients: dial "))
	}
	return client, nil
}

// words are those of the command line for an error of the server, or of the way to it.
func (c *streamCmd) words(err error, in *polyscanv1.Inspection) string {
	x := clients.AsError(err)
	switch {
	case x == nil:
		return err.Error()
	case len(x.Violations) > 0:
		return c.session(in).Refused(x)
	}
	return cmp.Or(c.Connection(c.Addr).Explain(x), err.Error())
}

// session is where the fields of a session come from.
func (c *streamCmd) session(in *polyscanv1.Inspection) cli.Session {
	source := cmp.Or(c.Regions, "--limit")
	if c.Recipe != "" {
		source = "recipe " + c.Recipe
	}
	return cli.Session{Source: source, Regions: in.GetRegionSet().GetRegions(), Flags: map[string]string{"name": "--name",
		"part_lines": "--part-lines", "every_lines": "--every", "latency_budget": "--budget", "recipe": "--recipe",
		"layout.width": "the width of the frames", "layout.height": "the height of the frames",
		"layout.pixel_format": "the format of the frames"}}
}

// refused is an error of the server in the words of the command line, if it is one of what was asked for.
func (c *streamCmd) refused(err error, in *polyscanv1.Inspection) error {
	x := clients.AsError(err)
	if x == nil || x.Code != codes.InvalidArgument && x.Code != codes.NotFound {
		return err
	}
	return usage("%s", c.session(in).Refused(x))
}

// sourceBytes is how long the server lets what a source or a frame is be.
const sourceBytes = 256

// shortened is a title for those who watch: characters that can be printed, and no more than fit.
func shortened(title string) string {
	title = cli.Printable(title)
	for len(title) > sourceBytes {
		_, n := utf8.DecodeLastRuneInString(title)
		title = title[:len(title)-n]
	}
	return title
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
	if l, _ := f.Layout(); l.Bayer > 0 {
		first := map[int]polyscanv1.PixelFormat{8: clients.BayerRG8, 16: clients.BayerRG16LE, 10: clients.BayerRG10P,
			12: clients.BayerRG12P}[l.PixelBits]
		return first + polyscanv1.PixelFormat(l.Bayer-1)
	}
	switch f {
	case gvsp.Mono8:
		return clients.Gray8
	case gvsp.RGB8:
		return clients.RGB8
	case gvsp.BGR8:
		return clients.BGR8
	case gvsp.RGBa8:
		return clients.RGBA8
	case gvsp.Mono10p:
		return clients.Mono10P
	case gvsp.Mono12p:
		return clients.Mono12P
	case gvsp.YUV422:
		return clients.YUV422YUYV
	case gvsp.YUV422UY:
		return clients.YUV422UYVY
	}
	return clients.Gray16LE
}

// serve serves metrics and health.
func serve(addr string, streams ...*stream) (shut func(), err error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, usage("--http: %v", err)
	}
	server := &http.Server{Handler: handler(streams), ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 1 << 14}
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
