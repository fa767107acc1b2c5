package main

// One camera: it takes lines off the belt at its pace, hands them over, and follows what comes back.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/internal/cli"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// scene is what all cameras of a run look at.
type scene struct {
	belt       *belt
	inspection *polyscanv1.Inspection
	regions    []*polyscanv1.Region // of inspection, or of its recipe
	source     string               // where they are from: a file or a recipe
	stripLines int
	partLines  int
	every      int // 0: parts are marked
	budget     time.Duration
	name       string // of the cameras, before their numbers
}

// partID is the id of a camera's part that starts at a line.
func partID(camera int, line uint64) string { return fmt.Sprintf("%d-%d", camera, line) }

// After a fault, and after the outage that it makes, results count as disturbed for a while: as long as it may take to
// catch up where nothing went through, and for a few strips where some came in another order or not at all.
const (
	longDisturbance  = time.Second
	shortDisturbance = 50 * time.Millisecond
)

// drainTime is how long results may take to come when the last strip has been sent.
const drainTime = 30 * time.Second

// camera plays a scene into one session.
type camera struct {
	id      int
	scene   *scene
	load    *load
	pacer   *pacer
	tally   *tally
	plan    faultPlan
	checker *checker

	scan *clients.Scan

	mu        sync.Mutex
	ready     [1 << 14]readyStrip // when strips were in the camera's memory
	disturbed time.Time           // until then
}

type readyStrip struct {
	sequence uint64
	at       time.Time
}

// open is the first message of the camera's session.
func (c *camera) open() *polyscanv1.ScanOpen {
	s := c.scene
	in := proto.CloneOf(s.inspection)
	in.Name = fmt.Sprintf("%s-%d", s.name, c.id)
	open := &polyscanv1.ScanOpen{
		Inspection: in,
		Layout: &polyscanv1.FrameLayout{
			Width: uint32(s.belt.width), Height: uint32(s.stripLines), PixelFormat: s.belt.format,
			SignificantBits: uint32(s.belt.bits),
		},
		LineRate:      c.pacer.profile.rate,
		PartLines:     uint32(s.partLines),
		LatencyBudget: durationpb.New(s.budget),
		Trigger:       &polyscanv1.ScanOpen_Marked{Marked: &polyscanv1.MarkedTrigger{}},
	}
	if s.every > 0 {
		open.Trigger = &polyscanv1.ScanOpen_EveryLines{EveryLines: uint32(s.every)}
	}
	if reorders(c.plan.faults) {
		open.ReorderStrips = 1
	}
	return open
}

// dial makes the camera's own connection, which its faults can reach.
func (c *camera) dial() (*clients.Client, error) {
	var opts []clients.Option
	if len(c.plan.faults) > 0 {
		s := newSaboteur(c.plan, c.fault)
		opts = append(opts, clients.WithDialOptions(s.options(func(ctx context.Context) (net.Conn, error) {
			return dialTransport(ctx, c.load.target.addr)
		})...))
	}
	return c.load.target.dial(opts...)
}

func (c *camera) fault(f fault) {
	c.tally.fault(f.kind)
	switch f.kind {
	case faultStall:
		c.disturb(time.Now().Add(f.time + longDisturbance))
	case faultKill:
		c.disturb(time.Now().Add(longDisturbance))
	default:
		c.disturb(time.Now().Add(shortDisturbance))
	}
}

func (c *camera) disturb(until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if until.After(c.disturbed) {
		c.disturbed = until
	}
}

// run plays until the belt ends or stop does, and then waits for the last results.
func (c *camera) run(ctx, stop context.Context, duration time.Duration) (err error) {
	client, err := c.dial()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	scan, err := client.OpenScan(ctx, c.open(),
		clients.ScanOptions{SharedMemory: c.load.shared, Strips: c.load.buffer, Outage: outage, Stall: c.patience()})
	if err != nil {
		return c.failure("", err)
	}
	defer scan.Close()
	c.mu.Lock()
	c.scan = scan
	c.mu.Unlock()

	received := make(chan error, 1)
	go func() { received <- c.receive() }()
	sent := c.play(ctx, stop, duration)
	c.scan.CloseSend()
	timeout := time.NewTimer(drainTime)
	defer timeout.Stop()
	select {
	case err = <-received:
	case <-timeout.C:
		c.scan.Close()
		err = <-received
		err = fmt.Errorf("camera %d: results are missing %v after the last strip: %w", c.id, drainTime, err)
	}
	c.tally.repeated(c.scan.Stats().Repeated)
	switch {
	case err != nil:
		return err
	case errors.Is(sent, clients.ErrScanEnded), errors.Is(sent, context.Canceled) && ctx.Err() == nil:
		return nil
	}
	return sent
}

// outage is how long a broken connection is tried anew. Servers keep sessions for longer; but a test whose server is
// gone should say so at once, and where one is only slow, cameras that wait for it would be held up anyway.
const outage = 2 * time.Second

// silence is how long the server may owe an acknowledgement and say nothing. It is less than the client library's: a
// server that hangs keeps its connections open, and nothing but its silence tells. Tests make it longer, for machines
// with other work.
var silence = time.Second

// patience is silence, and the time that a strip takes over a slow network (10 MB/s), and that a fault makes the
// connection hang.
func (c *camera) patience() time.Duration {
	const perByte = 100 * time.Nanosecond
	d := silence + time.Duration(c.scene.stripLines*c.scene.belt.rowBytes())*perByte
	for _, f := range c.plan.faults {
		if f.kind == faultStall {
			d += f.time
		}
	}
	return d
}

// cameraError is an error of a session in the words of the command line.
type cameraError struct {
	text string
	err  error
}

func (e *cameraError) Error() string { return e.text }
func (e *cameraError) Unwrap() error { return e.err }

// sessionFlags are the flags that set fields of a session.
var sessionFlags = map[string]string{"name": "--name", "part_lines": "--part-lines", "every_lines": "--every",
	"latency_budget": "--budget", "line_rate": "--line-rate", "recipe": "--recipe", "layout.height": "--strip-lines",
	"layout.width": "the width of the frames", "layout.pixel_format": "the format of the frames"}

// failure says what happened to the camera's session.
func (c *camera) failure(before string, err error) error {
	text, e, t := err.Error(), clients.AsError(err), c.load.target
	switch {
	case e == nil:
	case c.load.shared && e.Code == codes.FailedPrecondition:
		return usage("--transport shm: %s: %s (polyscand: --shm-socket)", t.addr, e.Reason())
	case len(e.Violations) > 0:
		text = cli.Session{Source: c.scene.source, Regions: c.scene.regions, Flags: sessionFlags}.Refused(e)
	case t.to.Explain(e) != "":
		text = t.to.Explain(e)
	}
	return &cameraError{fmt.Sprintf("camera %d: %s%s", c.id, before, text), err}
}

// place is a piece of leased memory.
type place struct {
	lease int
	first *byte
}

// play hands strips over.
func (c *camera) play(ctx, stop context.Context, duration time.Duration) error {
	s := c.scene
	var runs []stretch
	var starts []int
	var marks []uint64
	var ids []string
	held := map[place]string{} // what shared memory holds already
	row := s.belt.rowBytes()
	nextPart := uint64(0)
	var passing []uint64 // first lines of parts whose last line has not come
	period := c.pacer.profile.due(float64(s.stripLines))
	for n := uint64(0); ; n++ {
		first := n * uint64(s.stripLines)
		lines := s.stripLines
		if s.belt.end > 0 {
			if first >= s.belt.end {
				return nil
			}
			lines = int(min(uint64(lines), s.belt.end-first))
		}
		if duration > 0 && c.pacer.profile.strip(n, s.stripLines) > duration {
			return nil
		}
		// The pixels are in place before the strip is due: a camera's are written by its hardware.
		buf, err := c.scan.Buffer(stop)
		if err != nil {
			return err
		}
		runs = s.belt.runs(runs[:0], first, lines)
		if c.load.shared {
			// And where the same lines are there already, it needn't cost anything.
			at, key := place{c.scan.Stats().Leases, &buf[0]}, fmt.Sprint(runs)
			if held[at] != key {
				s.belt.copy(buf, runs)
				held[at] = key
			}
		} else {
			s.belt.copy(buf, runs)
		}
		starts, marks, ids = starts[:0], marks[:0], ids[:0]
		if s.every == 0 {
			for ; ; nextPart++ {
				at, _ := s.belt.part(nextPart)
				if at >= first+uint64(lines) {
					break
				}
				starts, marks = append(starts, int(at-first)), append(marks, at)
				ids, passing = append(ids, partID(c.id, at)), append(passing, at)
			}
		} else {
			every := uint64(s.every)
			for at := (first + every - 1) / every * every; at < first+uint64(lines); at += every {
				ids, passing = append(ids, partID(c.id, at)), append(passing, at)
			}
		}
		ready, late, slip, err := c.pacer.wait(stop)
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.ready[n%uint64(len(c.ready))] = readyStrip{n, ready}
		c.checker.sent(first, lines, marks, c.plan.dropped(n))
		c.mu.Unlock()
		for len(passing) > 0 && passing[0]+uint64(s.partLines) <= first+uint64(lines) {
			if c.load.barrier != nil {
				if _, err := fmt.Fprintln(c.load.barrier, partID(c.id, passing[0])); err != nil {
					return &cameraError{fmt.Sprintf("camera %d: the barrier: %v", c.id, err), err}
				}
			}
			passing = passing[1:]
		}
		strip := clients.Strip{Lines: lines, PartStarts: starts, PartIDs: ids, CapturedAt: ready}
		if _, err := c.scan.Send(ctx, strip); err != nil {
			return err
		}
		c.tally.strip(lines, lines*row, late > period, slip)
		if duration > 0 && c.pacer.clock.Now().Sub(c.pacer.start) > duration {
			return nil
		}
	}
}

// receive follows what comes back until the session's end.
func (c *camera) receive() error {
	for {
		u, err := c.scan.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return c.failure("the session ended: ", err)
		}
		now := u.At
		switch {
		case u.Part != nil:
			p := u.Part
			var latency time.Duration
			c.mu.Lock()
			// A part that did not come whole was waited for, or flushed at the end.
			if r := c.ready[p.GetStripSequence()%uint64(len(c.ready))]; !p.GetIncomplete() &&
				r.sequence == p.GetStripSequence() && !r.at.IsZero() {
				latency = now.Sub(r.at)
			}
			disturbed := now.Before(c.disturbed)
			claim := c.checker.take(p)
			c.mu.Unlock()
			c.tally.part(p, latency, disturbed)
			c.checker.judge(claim)
		case u.Event != nil:
			c.tally.event(u.Event)
		case u.Reconnected != nil:
			c.tally.reconnected(u.Reconnected)
			c.disturb(now.Add(longDisturbance))
		}
	}
}

// eventName is DUPLICATE for SCAN_EVENT_KIND_DUPLICATE.
func eventName(k polyscanv1.ScanEventKind) string {
	return strings.TrimPrefix(k.String(), "SCAN_EVENT_KIND_")
}
