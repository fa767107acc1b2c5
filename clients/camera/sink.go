package main

// From blocks to parts: lines are handed to a line-scan session in the memory that they were assembled in, and each
// part of the camera ends as a verdict, as incomplete, or as missing with its reason.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/camera/internal/gvsp"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// part is one that lines have come of, or should have.
type part struct {
	number uint64 // of the stream, from 0
	id     string
	block  uint64       // id of the block with its first line, by the camera
	data   []gvsp.Datum // of that block
	resent int          // packets of the blocks with its lines that came again
	lost   int          // lines of it that did not come
	came   int          // lines of it that did
	reason string
	last   time.Time // when the last packet of its lines came
	out    *outcome  // nil while it isn't known; then it waits for what becomes of the part's other lines
}

// outcome is what a part came to.
type outcome struct {
	part
	verdict string // PASS, FAIL, NONE, LATE, INCOMPLETE or MISSING
	result  *polyscanv1.PartResult
	latency time.Duration // from the last packet to the result; 0: no result
}

// Verdicts beside the server's PASS and FAIL.
const (
	verdictNone       = "NONE" // no limits were given
	verdictLate       = "LATE" // a PASS that came after --budget
	verdictIncomplete = "INCOMPLETE"
	verdictMissing    = "MISSING"
)

// layout is what parts are made of.
type layout struct {
	geo       gvsp.Geometry
	partLines int
	every     int
}

// spareBlocks is how many blocks are held beside the session's memory: while one waits for lost packets, or the server
// for its next life. spareBytes bounds them where they are large.
const (
	spareBlocks = 64
	spareBytes  = 256 << 20
)

// sink takes blocks, and sends their lines. Place, Block and Jump are called by the goroutine that receives, and don't
// wait; another one sends what can't be sent at once, and a third receives results.
type sink struct {
	open    func(context.Context) (*clients.Scan, error) // a new session
	lay     layout
	name    string
	report  func(outcome)
	notify  func(format string, args ...any)
	words   func(error) string      // of an error of the server, without gRPC's own
	cancel  context.CancelCauseFunc // of the stream, for an error that stays
	longest time.Duration           // between attempts to reach the server; 0: none
	idle    chan struct{}           // wakes who waits for room

	reporting sync.Mutex // held while outcomes go out, so that they do in order

	mu      sync.Mutex
	changed chan struct{} // wakes the goroutine that sends
	scan    *clients.Scan // nil while there is none
	backend string
	place   []byte // memory of the session that was handed out
	spares  int    // blocks in memory of our own, handed out or waiting
	free    [][]byte
	queue   []queued
	busy    bool   // the goroutine that sends has something
	ended   bool   // no more blocks come
	line    uint64 // of the session: the next one
	lost    int    // lines before it that did not come
	base    uint64 // number of the session's first part
	pending []part // without an outcome, in order
	next    uint64 // number of the next part
}

// queued is a block, or so many of which nothing can be kept, or a jump where block is nil.
type queued struct {
	block *gvsp.Block
	count int
	why   string
}

// newSink makes one whose first part has a number.
func newSink(lay layout, name string, first uint64) *sink {
	return &sink{lay: lay, name: name, changed: make(chan struct{}, 1), idle: make(chan struct{}, 1), base: first,
		next: first, words: error.Error}
}

// expired is a context that has ended: with it Buffer returns what is there.
var expired = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// Place implements gvsp.Sink: the session's memory where nothing else is under way, else memory of our own, as far as
// it goes.
func (s *sink) Place() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scan != nil && s.place == nil && s.spares == 0 && !s.busy && len(s.queue) == 0 {
		if b, err := s.scan.Buffer(expired); err == nil {
			s.place = b
			return b
		}
	}
	return s.spare()
}

// room is Place of a source that can wait: until all blocks before have gone out. The error is the context's.
func (s *sink) room(ctx context.Context) ([]byte, error) {
	for {
		s.mu.Lock()
		free := len(s.queue) == 0 && !s.busy && s.spares == 0
		s.mu.Unlock()
		if free {
			return s.Place(), nil
		}
		select {
		case <-s.idle:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// spare is memory of our own, nil where there is no more. s.mu is held.
func (s *sink) spare() []byte {
	size := s.lay.geo.Bytes()
	if s.spares >= min(spareBlocks, max(4, spareBytes/size)) {
		return nil
	}
	s.spares++
	if n := len(s.free); n > 0 {
		b := s.free[n-1]
		s.free = s.free[:n-1]
		return b
	}
	return make([]byte, size)
}

// giveBack takes memory of our own back. s.mu is held.
func (s *sink) giveBack(b []byte) {
	s.spares--
	s.free = append(s.free, b)
}

// Block implements gvsp.Sink.
func (s *sink) Block(b *gvsp.Block) {
	s.mu.Lock()
	defer s.mu.Unlock()
	inPlace := b.Pixels != nil && s.place != nil && &b.Pixels[0] == &s.place[0]
	if inPlace && b.Whole() && len(s.queue) == 0 && !s.busy && s.scan != nil {
		s.place = nil
		s.account(b, gvsp.Span{First: 0, End: b.Lines}, true)
		if err := s.send(expired, s.scan, b, nil, b.Lines); err != nil {
			s.drop(s.scan)
		}
		wake(s.changed) // results may have waited for these lines
		return
	}
	if inPlace { // its lines go out in pieces, or the session ended
		mine := s.spare()
		if mine == nil {
			b.Missing = []gvsp.Span{{First: 0, End: s.lay.geo.Height}}
			b.Reason = "no room: the server, or the way to it, is slower than the camera"
		} else {
			copy(mine, b.Pixels)
		}
		b.Pixels = mine
		s.place = nil
	}
	if n := len(s.queue); n > 0 && b.Pixels == nil && s.queue[n-1].block != nil && s.queue[n-1].block.Pixels == nil &&
		s.queue[n-1].block.Reason == b.Reason { // while the server is away
		s.queue[n-1].count++
	} else {
		s.queue = append(s.queue, queued{block: b, count: 1})
	}
	wake(s.changed)
}

// Jump implements gvsp.Sink: the camera went somewhere else, and a part that had begun can't go on.
func (s *sink) Jump(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, queued{why: why})
	wake(s.changed)
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// account says which parts lines of a block belong to: those that came, or did not. s.mu is held, and the lines are the
// next ones of the stream.
func (s *sink) account(b *gvsp.Block, lines gvsp.Span, came bool) {
	from := s.line + uint64(s.lost)
	end := from + uint64(lines.End-lines.First)
	every, size := uint64(s.lay.every), uint64(s.lay.partLines)
	for first := (from + every - 1) / every * every; first < end; first += every {
		number := s.base + first/every
		s.pending = append(s.pending, part{number: number, id: fmt.Sprintf("%s-%d", s.name, number), block: b.ID,
			data: b.Data})
		s.next = number + 1
	}
	for i := len(s.pending) - 1; i >= 0 && s.pending[i].number >= s.base; i-- {
		p := &s.pending[i]
		first := (p.number - s.base) * every
		if first+size <= from {
			break
		}
		n := int(min(end, first+size)) - int(max(from, first))
		if n > 0 && lines.First == 0 {
			p.resent += b.Resent
		}
		switch {
		case n <= 0:
		case came:
			p.came += n
			p.last = b.Last
		default:
			p.lost += n
			if p.reason == "" {
				p.reason = b.Reason
			}
		}
	}
}

// partIDs are those of parts that begin in lines [first, end) of the session.
func (s *sink) partIDs(first, end uint64) (ids []string) {
	every := uint64(s.lay.every)
	for at := (first + every - 1) / every * every; at < end; at += every {
		ids = append(ids, fmt.Sprintf("%s-%d", s.name, s.base+at/every))
	}
	return ids
}

// frameID is what the server keeps of a block with the parts that begin in it: the camera's id of it and what it said
// of it, as far as that fits.
func frameID(b *gvsp.Block) string {
	id := fmt.Sprintf("block %d", b.ID)
	for _, d := range b.Data {
		next := id + ", " + d.Name + " " + d.Value
		if len(next) > sourceBytes {
			break
		}
		id = next
	}
	return shortened(id)
}

// send hands lines of a block over: pixels, or what lies in the session's buffer. s.mu is held, and given up while it
// waits.
func (s *sink) send(ctx context.Context, scan *clients.Scan, b *gvsp.Block, pixels []byte, lines int) error {
	first := s.line + uint64(s.lost)
	st := clients.Strip{Pixels: pixels, Lines: lines, Lost: s.lost, FrameID: frameID(b), CapturedAt: b.Last.Round(0),
		PartIDs: s.partIDs(first, first+uint64(lines))}
	// Parts that began in what was lost, and have lines in this strip.
	st.LostPartIDs = s.partIDs(max(s.line, first-min(first, uint64(s.lay.partLines-1))), first)
	s.line += uint64(s.lost + lines)
	s.lost = 0
	if pixels == nil { // which needs no room that it doesn't have
		_, err := scan.Send(ctx, st)
		return err
	}
	s.mu.Unlock()
	_, err := scan.Send(ctx, st)
	s.mu.Lock()
	return err
}

// settle reports the parts at the front of which all is known: a result, and what became of each line; or that no line
// came. Parts have to be whole for the server, too, so that its verdict, which others see, is this one.
func (s *sink) settle() {
	s.reporting.Lock()
	defer s.reporting.Unlock()
	for {
		s.mu.Lock()
		if len(s.pending) == 0 {
			s.mu.Unlock()
			return
		}
		p := s.pending[0]
		over := p.number < s.base // its session has ended
		known := p.came+p.lost >= s.lay.partLines
		switch {
		case p.out == nil && known && p.came == 0:
			p.out = &outcome{verdict: verdictMissing}
		case p.out == nil || !known && !over:
			s.mu.Unlock()
			return
		}
		s.pending = s.pending[1:]
		s.mu.Unlock()
		o := *p.out
		p.out = nil
		if !known {
			p.lost = s.lay.partLines - p.came
			p.reason = cmp.Or(p.reason, "the stream ended")
		}
		if o.verdict != verdictMissing && p.lost > 0 {
			o.verdict = verdictIncomplete
		} else if o.verdict == "FAIL" {
			p.reason = o.reason
		}
		o.part = p
		s.report(o)
	}
}

// missing says that parts before one get no result any more, and why.
func (s *sink) missing(before uint64, why string) {
	s.mu.Lock()
	for i := range s.pending {
		p := &s.pending[i]
		if p.number >= before {
			break
		}
		if p.out == nil {
			p.out = &outcome{verdict: verdictMissing}
			if p.reason == "" || p.came > 0 {
				p.reason = why
			}
		}
	}
	s.mu.Unlock()
	s.settle()
}

// drop forgets a session that ended. s.mu is held.
func (s *sink) drop(scan *clients.Scan) {
	if s.scan != scan || scan == nil {
		return
	}
	s.scan, s.place = nil, nil
	s.base = s.next
	s.line, s.lost = 0, 0
	wake(s.changed)
}

// firstRetry is how long after a failed attempt to reach what went away the next one comes; then it takes twice as long
// each time, up to --reconnect.
const firstRetry = 100 * time.Millisecond

// run sends until finish is called and everything has gone out, and all results have come. The first session is open.
func (s *sink) run(ctx context.Context, scan *clients.Scan) error {
	for {
		s.mu.Lock()
		s.scan, s.backend = scan, scan.Backend()
		s.mu.Unlock()
		wake(s.changed)
		received := make(chan error, 1)
		go func() { received <- s.receive(scan) }()
		sent := s.deliver(ctx, scan)
		if sent {
			scan.CloseSend()
		}
		var err error
		select {
		case err = <-received:
		case <-ctx.Done():
			scan.Close()
			err = <-received
		}
		scan.Close()
		s.mu.Lock()
		s.drop(scan)
		before := s.next
		s.mu.Unlock()
		switch {
		case ctx.Err() != nil:
			s.missing(before, "the stream was given up")
			return context.Cause(ctx)
		case sent && err == nil:
			s.missing(before, "no line of it came")
			return nil
		}
		why := "the server ended the session"
		if err != nil {
			why = "the server was lost: " + s.words(err)
		}
		s.missing(before, why)
		if e := clients.AsError(err); e != nil && final(e.Code) {
			return err
		}
		if s.longest == 0 {
			s.flush(why)
			return errors.New(why)
		}
		s.notify("%s", why)
		if scan, err = s.reopen(ctx); err != nil {
			return err
		}
		s.notify("a new session with the server")
	}
}

// final reports whether trying again would end as before.
func final(c codes.Code) bool {
	switch c {
	case codes.InvalidArgument, codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented:
		return true
	}
	return false
}

// reopen opens a session until it succeeds, or finish is called.
func (s *sink) reopen(ctx context.Context) (*clients.Scan, error) {
	wait := min(firstRetry, s.longest)
	for {
		scan, err := s.open(ctx)
		if err == nil {
			return scan, nil
		}
		e := clients.AsError(err)
		s.mu.Lock()
		ended := s.ended
		s.mu.Unlock()
		if e != nil && final(e.Code) || ended || ctx.Err() != nil {
			s.flush("the server was lost: " + s.words(err))
			return nil, err
		}
		select {
		case <-time.After(wait):
			wait = min(2*wait, s.longest)
		case <-ctx.Done():
		}
	}
}

// flush reports all that waits as missing.
func (s *sink) flush(why string) {
	s.mu.Lock()
	for _, q := range s.queue {
		if q.block == nil {
			continue
		}
		q.block.Reason = why
		for range q.count {
			s.skip(q.block, gvsp.Span{First: 0, End: s.lay.geo.Height})
		}
		if q.block.Pixels != nil {
			s.giveBack(q.block.Pixels)
		}
	}
	s.queue = nil
	before := s.next
	s.mu.Unlock()
	wake(s.idle)
	s.missing(before, why)
}

// finish says that no block follows.
func (s *sink) finish() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	wake(s.changed)
}

// deliver sends what waits, until finish and to the end (true), or until the session ends.
func (s *sink) deliver(ctx context.Context, scan *clients.Scan) bool {
	for {
		s.mu.Lock()
		if s.scan != scan {
			s.mu.Unlock()
			return false
		}
		if len(s.queue) == 0 {
			ended := s.ended
			s.mu.Unlock()
			s.settle()
			if ended {
				return true
			}
			select {
			case <-s.changed:
				continue
			case <-ctx.Done():
				return false
			}
		}
		q := s.queue[0]
		s.queue = s.queue[1:]
		s.busy = true
		var err error
		if q.block == nil {
			s.jump()
			s.mu.Unlock()
			s.notify("%s", q.why)
			s.mu.Lock()
		} else {
			for range q.count - 1 {
				s.skip(q.block, gvsp.Span{First: 0, End: s.lay.geo.Height})
			}
			err = s.pieces(ctx, scan, q.block)
			if q.block.Pixels != nil {
				s.giveBack(q.block.Pixels)
			}
		}
		s.busy = false
		if err != nil {
			s.drop(scan)
		}
		s.mu.Unlock()
		wake(s.idle)
		s.settle()
	}
}

// jump lets parts that have begun end without the lines that they lack: the next line begins a new one. s.mu is held.
func (s *sink) jump() {
	at, every := s.line+uint64(s.lost), uint64(s.lay.every)
	if at == 0 || at%every == 0 && s.lay.partLines <= s.lay.every {
		return
	}
	end := max(at, (at-1)/every*every+uint64(s.lay.partLines)) // of the last part that has begun
	end = (end + every - 1) / every * every
	b := &gvsp.Block{Reason: "the camera's count of blocks jumped"}
	s.skip(b, gvsp.Span{First: 0, End: int(end - at)})
}

// skip counts lines of a block as lost. s.mu is held.
func (s *sink) skip(b *gvsp.Block, lines gvsp.Span) {
	s.account(b, lines, false)
	s.lost += lines.End - lines.First
}

// pieces sends the lines of a block that came, in runs. s.mu is held, and given up while it waits.
func (s *sink) pieces(ctx context.Context, scan *clients.Scan, b *gvsp.Block) (err error) {
	row, at, least := s.lay.geo.RowBytes(), 0, 1
	if l, _ := s.lay.geo.Format.Layout(); l.Bayer > 0 {
		least = 2 // a line without neighbours has no colours
	}
	for _, m := range append(b.Missing, gvsp.Span{First: s.lay.geo.Height, End: s.lay.geo.Height}) {
		switch {
		case m.First <= at || b.Pixels == nil:
		case err != nil, m.First-at < least: // its parts are named all the same
			s.skip(b, gvsp.Span{First: at, End: m.First})
		default:
			s.account(b, gvsp.Span{First: at, End: m.First}, true)
			err = s.send(ctx, scan, b, b.Pixels[at*row:m.First*row], m.First-at)
		}
		s.skip(b, m)
		at = m.End
	}
	return err
}

// receive takes the session's results, until it ends. The error is nil at its end.
func (s *sink) receive(scan *clients.Scan) error {
	defer func() {
		s.mu.Lock()
		s.drop(scan)
		s.mu.Unlock()
	}()
	s.mu.Lock()
	base := s.base
	s.mu.Unlock()
	for u, err := range scan.Updates() {
		switch {
		case err != nil:
			return err
		case u.Part != nil:
			number := base + u.Part.GetPartNumber()
			s.missing(number, "no line of it came")
			s.result(number, u)
		case u.Event != nil:
			if k := u.Event.GetKind(); k != polyscanv1.ScanEventKind_SCAN_EVENT_KIND_GAP {
				s.notify("server: %v of lines %d to %d", k, u.Event.GetFirstLine(), u.Event.GetEndLine())
			}
		case u.Reconnected != nil:
			s.notify("the connection to the server broke for %v; the session goes on: %v",
				u.Reconnected.Outage.Round(time.Millisecond), u.Reconnected.Cause)
		}
	}
	return nil
}

// result is the outcome of a part.
func (s *sink) result(number uint64, u *clients.ScanUpdate) {
	s.mu.Lock()
	i := slices.IndexFunc(s.pending, func(p part) bool { return p.out == nil })
	if i < 0 || s.pending[i].number != number {
		s.mu.Unlock()
		s.cancel(fmt.Errorf("the server gave a result for part %d, which it was not sent", number))
		return
	}
	o := &outcome{result: u.Part}
	if last := s.pending[i].last; !last.IsZero() {
		o.latency = u.At.Sub(last)
	}
	switch v := u.Part.GetVerdict(); {
	case u.Part.GetError() != nil:
		o.verdict, o.reason = "FAIL", u.Part.GetError().GetMessage()
	case u.Part.GetIncomplete():
		o.verdict = verdictIncomplete
	case v == polyscanv1.Verdict_VERDICT_PASS:
		o.verdict = "PASS"
	case v == polyscanv1.Verdict_VERDICT_FAIL:
		o.verdict, o.reason = "FAIL", whyFailed(u.Part)
	default:
		o.verdict = verdictNone
	}
	s.pending[i].out = o
	s.mu.Unlock()
	s.settle()
}

// whyFailed is the first limit that failed.
func whyFailed(p *polyscanv1.PartResult) string {
	for _, r := range p.GetRegions() {
		for _, l := range r.GetLimits() {
			if l.GetVerdict() == polyscanv1.Verdict_VERDICT_FAIL {
				return fmt.Sprintf("%s: %s", r.GetName(), l.GetReason())
			}
		}
	}
	return "a limit failed"
}

// openScan opens a session, with shared memory where transport says so, or where it is auto and the server has some.
func openScan(ctx context.Context, c *clients.Client, open *polyscanv1.ScanOpen, transport string) (*clients.Scan, bool,
	error) {
	if transport != "tcp" {
		s, err := c.OpenScan(ctx, proto.CloneOf(open), clients.ScanOptions{SharedMemory: true, Outage: outage})
		e := clients.AsError(err)
		elsewhere := errors.Is(err, fs.ErrNotExist) || e != nil && e.Code == codes.FailedPrecondition
		if err == nil || transport == "shm" || !elsewhere {
			return s, true, err
		}
	}
	s, err := c.OpenScan(ctx, proto.CloneOf(open), clients.ScanOptions{Outage: outage})
	return s, false, err
}

// outage is how long a broken connection is tried anew before a session is given up for another one.
const outage = 5 * time.Second
