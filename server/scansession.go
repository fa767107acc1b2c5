// Line-scan sessions: strips on their way to the device, and results on their way to the client.

package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/polygon"
	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/device"
	"github.com/polyscan/polyscan/server/internal/frames"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// scanSession is a camera's. It outlives its calls, one at a time, by the resume window. Its worker owns the scanner
// and the lease of the device, takes strips in the order of their sequence numbers, and ends when ctx does; that gives
// everything back.
type scanSession struct {
	*Server
	token   string
	log     *slog.Logger // with the client's name of the camera
	what    *wire.Inspection
	layout  *pb.FrameLayout // of strips
	lines   uint64          // of a part
	every   uint64          // lines from part to part; 0 where strips have marks
	reorder int             // strips that wait for a missing one
	budget  time.Duration
	credit  int // lines that the client may have under way
	unread  int // bytes of results and events that may wait for it

	ctx  context.Context
	stop context.CancelFunc
	wake chan struct{} // for the worker; buffered

	// The worker's.
	dev      device.Lease
	scanner  *polygon.Scanner
	nextPart uint64

	attaching sync.Mutex // held to take the session over

	mu   sync.Mutex
	conn *scanConn // nil between calls
	// flush is the call that was cut off with flushError, which still gets what there is.
	flush      *scanConn
	flushError error
	gone       bool // ended: no call any more
	// What has come, in the order of sequence numbers up to nextSequence, and what waits for strips before it.
	nextSequence, nextLine uint64
	queue, held            []*scanStrip
	outstanding            int // lines in queue, held and work
	lost                   sequenceSet
	// What is done.
	doneSequence, doneLine uint64
	inWork                 *scanStrip
	busy                   chan struct{} // closed when the worker is done with what it is at; nil where that is nothing
	closing                bool          // nothing more comes
	finished               bool          // and all of it is done
	closeError             error         // what the call ends with then
	// What the client gets.
	outbox   []*scanItem
	sent     []*scanItem // results that it may want again
	unsent   int         // bytes in outbox
	kept     int         // bytes in sent
	results  uint64
	ackDue   bool
	sinceAck int
	told     bool // that it is slow
	timer    *time.Timer
	attempt  int // counts calls, so that the timer of an earlier one does nothing
}

// scanStrip is a strip that has come. Of its message it has what is needed, and nothing else that a client may have put
// there.
type scanStrip struct {
	*pb.Strip
	lines   int
	end     uint64        // the line at which the next strip is expected
	frame   *frames.Frame // nil with err
	in      *framecodec.Message
	arrived time.Time
	err     error // why it can't be used
}

func (x *scanStrip) free() {
	if x.frame != nil {
		x.frame.Release()
		x.frame = nil
	}
	x.in.Free()
}

// scanItem is a result or an event for the client.
type scanItem struct {
	event *pb.ScanEvent
	// A part, marshalled but for what is known when it is sent.
	number         uint64
	head, tail     []byte
	arrived, ready time.Time
}

// size is about what an item takes in memory.
func (i *scanItem) size() int {
	const overhead = 256
	if i.event != nil {
		return overhead + proto.Size(i.event)
	}
	return overhead + len(i.head)
}

var (
	errSlowConsumer = apierr.Quota(apierr.ReasonSlowConsumer, "results", "they are not being read")
	errCredit       = apierr.Quota(apierr.ReasonCredit, "strips", "more lines are under way than credit_line allows")
	errStrips       = apierr.Quota(apierr.ReasonCredit, "strips", fmt.Sprintf("more than %d are under way", mostStrips))
	errTakenOver    = apierr.WithDetails(codes.Aborted, "the session was resumed by another call", apierr.Info(apierr.ReasonTakenOver)).Err()
)

// mostStrips is how many strips a client may have under way, however few lines they have.
const mostStrips = 4096

// defaultLatencyBudget is what ScanOpen.latency_budget says.
const defaultLatencyBudget = 5 * time.Millisecond

// openScan makes a session, without a call.
func (s *Server) openScan(ctx context.Context, open *pb.ScanOpen) (_ *scanSession, err error) {
	if class := open.GetInspection().GetWorkClass(); class != pb.WorkClass_WORK_CLASS_UNSPECIFIED {
		return nil, apierr.Refuse("open.inspection.work_class", class,
			"must be unspecified: line-scan streams have a class of their own")
	}
	what, err := wire.NewInspection(open.GetInspection(), "open.inspection", "strip.frame", s.recipes, s.cfg.bounds())
	if err != nil {
		return nil, err
	}
	layout := open.GetLayout()
	f, err := s.frames.Raw(layout, nil, "open")
	if err != nil {
		return nil, err
	}
	if _, _, err := f.Sizes("frame"); err != nil {
		return nil, wire.Paths{Frame: "open"}.Translate(err)
	}
	if err := s.frames.CheckPixels(layout.GetWidth(), open.GetPartLines(), "open.part_lines"); err != nil {
		return nil, err
	}
	if bytes, limit := 8*what.Results(f.Format), s.cfg.MaxMessageBytes; bytes > limit {
		return nil, apierr.Quota(apierr.ReasonResultTooLarge, "result", fmt.Sprintf(
			"histograms, percentiles and limits of %d regions would take %d bytes; the limit is %d", what.Set.Len(),
			bytes, limit))
	}
	ss := &scanSession{
		Server: s, log: s.log.With("camera", open.GetCameraId()), what: what,
		layout: &pb.FrameLayout{
			Width: layout.GetWidth(), Height: layout.GetHeight(), PixelFormat: layout.GetPixelFormat(),
			Stride: layout.GetStride(), SignificantBits: layout.GetSignificantBits(),
		},
		lines: uint64(open.GetPartLines()), every: uint64(open.GetEveryLines()), reorder: int(open.GetReorderStrips()),
		budget: defaultLatencyBudget, unread: s.cfg.ScanUnreadBytes, wake: make(chan struct{}, 1),
	}
	if b := open.GetLatencyBudget(); b != nil {
		if err := b.CheckValid(); err != nil || b.AsDuration() <= 0 {
			return nil, apierr.Refuse("open.latency_budget", b.AsDuration(), "must be more than 0")
		}
		ss.budget = b.AsDuration()
	}
	row := max(int64(layout.GetStride()), int64(layout.GetWidth())*int64(f.Format.PixelBytes()))
	ss.layout.Stride = uint32(row)
	// Room for a few strips, and for those that wait for a missing one.
	strips := minScanStrips + int64(open.GetReorderStrips())
	if bytes, limit := row*int64(f.Height), s.cfg.HostBytes; bytes > limit/strips {
		return nil, apierr.Refuse("open.reorder_strips", open.GetReorderStrips(),
			"makes room for %d strips of %d bytes necessary: the limit is %d bytes", strips, bytes, limit)
	}
	ss.credit = int(min(max(int64(s.cfg.ScanCreditBytes)/row, int64(f.Height)*strips), math.MaxInt32))

	cfg := polygon.ScanConfig{
		Width: f.Width, Format: f.Format, PartLines: int(open.GetPartLines()), Reductions: what.Reductions,
		Method: what.Method,
		Parts:  1, MaxParts: s.cfg.ScanParts, StripBytes: int(row) * f.Height,
	}
	if every := open.GetEveryLines(); every > 0 {
		// Parts that a strip can touch at the same time.
		n := (int64(open.GetPartLines())+int64(f.Height)-2)/int64(every) + 1
		if n > int64(s.cfg.ScanParts) {
			return nil, apierr.Refuse("open.every_lines", every,
				"makes %d parts under way at the same time, with parts of %d lines and strips of %d: the limit is %d",
				n, open.GetPartLines(), f.Height, s.cfg.ScanParts)
		}
		cfg.Parts = int(n)
	}
	ss.token = newScanToken()
	if err := s.scans.add(ss); err != nil {
		return nil, err
	}
	if err := ss.begin(ctx, cfg); err != nil {
		s.scans.remove(ss)
		return nil, what.Paths.Translate(err)
	}
	return ss, nil
}

// minScanStrips is how many strips of full height a client may have under way: one on the wire, one in the queue, one
// in work, one whose ack is on its way.
const minScanStrips = 4

// begin takes the device and starts the worker.
func (ss *scanSession) begin(ctx context.Context, cfg polygon.ScanConfig) error {
	dev, err := ss.Server.dev.Acquire()
	if err != nil {
		return err
	}
	scanner, err := ss.what.Set.NewScanner(scanContext(ctx), dev.Device, cfg)
	if err != nil {
		dev.End()
		return err
	}
	ss.dev, ss.scanner = dev, scanner
	ss.ctx, ss.stop = context.WithCancel(scanContext(context.Background()))
	if !ss.scans.start(ss) {
		scanner.Close()
		dev.End()
		return apierr.ErrShuttingDown
	}
	ss.metrics.Scan.Sessions.Inc()
	ss.log.InfoContext(ctx, "line-scan session begins", "width", cfg.Width, "part_lines", cfg.PartLines)
	return nil
}

// attach makes c the session's call. An older one ends.
func (ss *scanSession) attach(c *scanConn, nextResult uint64) (*pb.ScanOpened, error) {
	ss.attaching.Lock()
	defer ss.attaching.Unlock()
	ss.mu.Lock()
	for _, old := range []*scanConn{ss.conn, ss.flush} {
		if old != nil {
			old.finish(errTakenOver)
		}
	}
	ss.flush = nil
	ss.leave()
	for ss.busy != nil && !ss.gone { // what is in work is done with
		busy := ss.busy
		ss.mu.Unlock()
		select {
		case <-busy:
		case <-c.ctx.Done():
			ss.mu.Lock()
			ss.expire()
			ss.mu.Unlock()
			return nil, context.Cause(c.ctx)
		}
		ss.mu.Lock()
	}
	defer ss.mu.Unlock()
	if ss.gone {
		return nil, errUnknownSession
	}
	if err := ss.rewind(nextResult); err != nil {
		ss.expire()
		return nil, err
	}
	ss.conn = c
	ss.ackDue, ss.told, ss.sinceAck = false, false, 0
	return &pb.ScanOpened{
		SessionToken: []byte(ss.token),
		NextSequence: ss.doneSequence,
		NextLine:     ss.doneLine,
		CreditLine:   ss.doneLine + uint64(ss.credit),
		ResumeWindow: durationpb.New(ss.cfg.ScanResumeWindow),
		Backend:      ss.Server.dev.Info().Backend,
	}, nil
}

// rewind makes nextResult the next one to be sent. mu is held.
func (ss *scanSession) rewind(nextResult uint64) error {
	if nextResult > ss.results {
		return apierr.Refuse("resume.next_result", nextResult, "there are %d results", ss.results)
	}
	first := ss.results
	for _, list := range [][]*scanItem{ss.sent, ss.outbox} {
		for _, i := range list {
			if i.event == nil {
				first = min(first, i.number)
			}
		}
	}
	if nextResult < first {
		return apierr.WithDetails(codes.OutOfRange, fmt.Sprintf("resume.next_result = %d: results before %d are gone",
			nextResult, first), apierr.Info(apierr.ReasonResultsGone)).Err()
	}
	ss.confirm(nextResult)
	ss.outbox = slices.DeleteFunc(ss.outbox, func(i *scanItem) bool { // confirmed, and sent by a call that it came over
		old := i.event == nil && i.number < nextResult
		if old {
			ss.unsent -= i.size()
		}
		return old
	})
	ss.outbox = append(ss.sent, ss.outbox...)
	ss.unsent += ss.kept
	ss.sent, ss.kept = nil, 0
	return nil
}

// confirm lets go of results that the client has. mu is held.
func (ss *scanSession) confirm(next uint64) {
	n := 0
	for n < len(ss.sent) && ss.sent[n].number < next {
		ss.kept -= ss.sent[n].size()
		n++
	}
	ss.sent = slices.Delete(ss.sent, 0, n)
}

// detach takes the session from a call that has ended; complete says that the client has got everything.
func (ss *scanSession) detach(c *scanConn, complete bool) {
	ss.mu.Lock()
	if ss.flush == c {
		ss.flush = nil
	}
	if ss.conn != c {
		ss.mu.Unlock()
		return
	}
	ss.leave()
	if !complete {
		ss.expire()
		ss.mu.Unlock()
		return
	}
	ss.mu.Unlock()
	ss.drop()
}

// cutOff takes the session from a call because of its client. It still gets what there is. If it doesn't read, a status
// would wait for ever behind what the transport has, and the strips that it goes on sending would fill the window of a
// call that nobody receives from. So they are received and dropped, and the call ends when none comes any more.
func (ss *scanSession) cutOff(c *scanConn, err error) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.cut(c, err)
}

// cut is cutOff with mu held.
func (ss *scanSession) cut(c *scanConn, err error) {
	if ss.conn != c {
		return
	}
	if err == errSlowConsumer {
		ss.slow()
	}
	ss.leave()
	ss.expire()
	ss.flush, ss.flushError = c, err
	signal(c.wake)
}

// cutOffError is what c was cut off with; nil if it was not.
func (ss *scanSession) cutOffError(c *scanConn) error {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.flush != c {
		return nil
	}
	return ss.flushError
}

// leave makes the session one without a call. Strips that are not in work will come again. mu is held.
func (ss *scanSession) leave() {
	ss.conn = nil
	ss.attempt++
	if ss.timer != nil {
		ss.timer.Stop()
		ss.timer = nil
	}
	for _, list := range [][]*scanStrip{ss.queue, ss.held} {
		for _, x := range list {
			ss.outstanding -= x.lines
			x.free()
		}
	}
	clear(ss.queue)
	clear(ss.held)
	ss.queue, ss.held = ss.queue[:0], ss.held[:0]
	if !ss.finished {
		ss.closing = false
	}
	ss.nextSequence, ss.nextLine = ss.doneSequence, ss.doneLine
	if x := ss.inWork; x != nil { // its results come
		ss.nextSequence, ss.nextLine = x.GetSequence()+1, x.end
	}
	ss.lost.cut(ss.nextSequence)
}

// expire starts the resume window. mu is held.
func (ss *scanSession) expire() {
	if ss.gone {
		return
	}
	attempt := ss.attempt
	ss.timer = time.AfterFunc(ss.cfg.ScanResumeWindow, func() {
		ss.mu.Lock()
		over := ss.conn == nil && ss.attempt == attempt
		ss.mu.Unlock()
		if over {
			ss.drop()
		}
	})
}

// drop ends the session.
func (ss *scanSession) drop() {
	ss.scans.remove(ss)
	ss.stop()
}

// newStrip makes a strip of a message, and says in it what is wrong with it.
func (ss *scanSession) newStrip(ctx context.Context, req *pb.ScanLinesRequest, in *framecodec.Message,
	arrived time.Time) *scanStrip {
	x := &scanStrip{Strip: req.GetStrip(), in: in, arrived: arrived}
	if x.err = ss.validator.Validate(req); x.err == nil {
		x.err = ss.checkStrip(ctx, x)
	}
	if x.err != nil {
		x.free()
		x.lines = 0
	}
	x.Strip = &pb.Strip{Sequence: x.GetSequence(), FirstLine: x.GetFirstLine(), NextResult: x.GetNextResult()}
	if at := req.GetStrip().GetCapturedAt(); at != nil {
		x.CapturedAt = &timestamppb.Timestamp{Seconds: at.GetSeconds(), Nanos: at.GetNanos()}
	}
	if x.err == nil {
		x.PartStarts = req.GetStrip().GetPartStarts()
	}
	in.Message = nil // it is there for its buffers
	return x
}

// checkStrip completes the strip's layout by the session's, and finds its pixels.
func (ss *scanSession) checkStrip(ctx context.Context, x *scanStrip) error {
	const path = "strip.frame"
	want := ss.layout
	l := x.GetFrame().GetLayout()
	switch e := x.GetFrame().GetEncoding(); {
	case e != pb.Encoding_ENCODING_UNSPECIFIED && e != pb.Encoding_ENCODING_RAW:
		return apierr.Refuse(path+".encoding", e, "must be raw")
	case x.GetFrame().GetResident() != "":
		return apierr.Refuse(path+".resident", nil, "must be unset: a strip is new")
	case l.GetWidth() != 0 && l.GetWidth() != want.GetWidth():
		return apierr.Refuse(path+".layout.width", l.GetWidth(), "must be %d, that of the session, or unset", want.GetWidth())
	case l.GetPixelFormat() != 0 && l.GetPixelFormat() != want.GetPixelFormat():
		return apierr.Refuse(path+".layout.pixel_format", l.GetPixelFormat(), "must be %s, that of the session, or unset",
			wire.FormatName(want.GetPixelFormat()))
	case l.GetSignificantBits() != 0 && l.GetSignificantBits() != want.GetSignificantBits():
		return apierr.Refuse(path+".layout.significant_bits", l.GetSignificantBits(),
			"must be %d, those of the session, or unset", want.GetSignificantBits())
	case l.GetStride() > want.GetStride(): // or lines, which are what credit counts, could take any memory
		return apierr.Refuse(path+".layout.stride", l.GetStride(), "must be at most %d, that of the session", want.GetStride())
	case l.GetHeight() > want.GetHeight():
		return apierr.Refuse(path+".layout.height", l.GetHeight(), "must be at most %d, that of the session", want.GetHeight())
	case x.GetFirstLine() > math.MaxInt64:
		return apierr.Refuse("strip.first_line", x.GetFirstLine(), "must be at most %d", math.MaxInt64)
	}
	full := &pb.FrameLayout{
		Width: want.GetWidth(), Height: cmp.Or(l.GetHeight(), want.GetHeight()), PixelFormat: want.GetPixelFormat(),
		Stride: cmp.Or(l.GetStride(), want.GetStride()), SignificantBits: want.GetSignificantBits(),
	}
	x.lines = int(full.GetHeight())
	end := x.GetFirstLine() + uint64(x.lines)
	for i, at := range x.GetPartStarts() {
		switch {
		case ss.every != 0:
			return apierr.Refuse("strip.part_starts", len(x.GetPartStarts()),
				"must be empty: the session's trigger is every_lines")
		case at < x.GetFirstLine() || at >= end:
			return apierr.Refuse(fmt.Sprintf("strip.part_starts[%d]", i), at, "must be %d to %d, a line of the strip",
				x.GetFirstLine(), end-1)
		case i > 0 && at <= x.GetPartStarts()[i-1]:
			return apierr.Refuse(fmt.Sprintf("strip.part_starts[%d]", i), at, "must be above the one before")
		}
	}
	x.Frame.Layout = full
	f, err := ss.frames.Read(ctx, x.GetFrame(), x.in.Pieces(nil), path)
	if err != nil {
		return err
	}
	x.frame = f
	return ss.what.Paths.Translate(f.Check("frame"))
}

// arrive takes a strip in.
func (ss *scanSession) arrive(c *scanConn, x *scanStrip) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	defer ss.checkUnread()
	if ss.conn != c || ss.closing {
		x.free()
		return
	}
	ss.confirm(x.GetNextResult())
	sequence := x.GetSequence()
	event := &pb.ScanEvent{FirstSequence: sequence, EndSequence: sequence + 1, FirstLine: x.GetFirstLine(),
		EndLine: x.GetFirstLine() + uint64(x.lines)}
	at, again := slices.BinarySearchFunc(ss.held, sequence, func(x *scanStrip, n uint64) int {
		return cmp.Compare(x.GetSequence(), n)
	})
	switch {
	case sequence < ss.nextSequence || again:
		event.Kind = pb.ScanEventKind_SCAN_EVENT_KIND_DUPLICATE
		if !again && ss.lost.take(sequence) {
			event.Kind = pb.ScanEventKind_SCAN_EVENT_KIND_OUT_OF_ORDER
		}
		ss.push(&scanItem{event: event})
		x.free()
		return
	case ss.outstanding > 0 && ss.outstanding+x.lines > ss.credit:
		x.free()
		ss.cut(c, errCredit)
		return
	case len(ss.queue)+len(ss.held) >= mostStrips:
		x.free()
		ss.cut(c, errStrips)
		return
	}
	ss.outstanding += x.lines
	if at < len(ss.held) {
		event.Kind, event.Used = pb.ScanEventKind_SCAN_EVENT_KIND_OUT_OF_ORDER, x.err == nil
		ss.push(&scanItem{event: event})
	}
	ss.held = slices.Insert(ss.held, at, x)
	ss.release(ss.reorder)
}

// release moves strips to the queue whose turn has come, giving up missing ones before them where more than so many
// wait. mu is held.
func (ss *scanSession) release(most int) {
	n := 0
	for n < len(ss.held) && (ss.held[n].GetSequence() == ss.nextSequence || len(ss.held)-n > most) {
		x := ss.held[n]
		n++
		ss.accept(x)
		ss.queue = append(ss.queue, x)
	}
	if n > 0 {
		ss.held = slices.Delete(ss.held, 0, n)
		signal(ss.wake)
	}
}

// accept is the turn of a strip. mu is held.
func (ss *scanSession) accept(x *scanStrip) {
	sequence, first := x.GetSequence(), x.GetFirstLine()
	if x.err == nil && first < ss.nextLine {
		x.err = apierr.Refuse("strip.first_line", first, "must be at least %d, where the strip before it ended", ss.nextLine)
	}
	gap := &pb.ScanEvent{
		Kind: pb.ScanEventKind_SCAN_EVENT_KIND_GAP, FirstSequence: ss.nextSequence, EndSequence: sequence,
		FirstLine: ss.nextLine, EndLine: max(first, ss.nextLine),
	}
	if x.err != nil {
		gap.EndLine = gap.FirstLine // its lines are those of the next strip's gap
	}
	if gap.FirstSequence < gap.EndSequence || gap.FirstLine < gap.EndLine {
		ss.push(&scanItem{event: gap})
		ss.lost.add(ss.nextSequence, sequence)
	}
	ss.nextSequence = sequence + 1
	if x.err != nil {
		ss.push(&scanItem{event: ss.badStrip(x, x.err, false)})
	} else {
		ss.nextLine = first + uint64(x.lines)
	}
	x.end = ss.nextLine
}

// badStrip is the event for a strip that could not be used.
func (ss *scanSession) badStrip(x *scanStrip, err error, used bool) *pb.ScanEvent {
	return &pb.ScanEvent{
		Kind: pb.ScanEventKind_SCAN_EVENT_KIND_BAD_STRIP, FirstSequence: x.GetSequence(), EndSequence: x.GetSequence() +
			1,
		FirstLine: x.GetFirstLine(), EndLine: x.GetFirstLine() + uint64(x.lines), Used: used,
		Error: apierr.StatusOf(ss.ctx, ss.log, err).Proto(),
	}
}

// closeBy says that c's client sends nothing more.
func (ss *scanSession) closeBy(c *scanConn) {
	ss.mu.Lock()
	current := ss.conn == c
	if ss.flush == c {
		c.finish(ss.flushError)
	}
	ss.mu.Unlock()
	if current {
		ss.close(nil)
	}
}

// close finishes the session with what has come. The call ends with err then.
func (ss *scanSession) close(err error) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.closing {
		return
	}
	ss.release(0)
	ss.closing, ss.closeError = true, err
	signal(ss.wake)
	if ss.finished && ss.conn != nil {
		signal(ss.conn.wake)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// work is the worker.
func (ss *scanSession) work() {
	defer ss.ended()
	for ss.ctx.Err() == nil {
		select {
		case <-ss.ctx.Done():
		case <-ss.dev.Lost():
			ss.regain()
		case <-ss.wake:
			for ss.step() {
			}
		}
	}
}

// ended gives everything back.
func (ss *scanSession) ended() {
	if p := recover(); p != nil {
		ss.fail(ss.panicked(ss.ctx, p))
	}
	ss.scans.remove(ss)
	ss.scanner.Close()
	ss.mu.Lock()
	if ss.conn != nil {
		ss.conn.finish(apierr.ErrShuttingDown)
	}
	if ss.inWork != nil { // it panicked
		ss.inWork.free()
		ss.inWork = nil
	}
	ss.leave()
	ss.gone = true
	ss.log.Info("line-scan session ends", "strips", ss.doneSequence, "lines", ss.doneLine, "results", ss.results)
	ss.outbox, ss.sent = nil, nil
	if ss.busy != nil {
		close(ss.busy)
		ss.busy = nil
	}
	ss.mu.Unlock()
	if ss.dev.Device != nil {
		ss.dev.End()
	}
	ss.stop()
	ss.metrics.Scan.Sessions.Dec()
}

// fail ends the session and its call with an error.
func (ss *scanSession) fail(err error) {
	ss.mu.Lock()
	if ss.conn != nil {
		ss.conn.finish(err)
	}
	ss.mu.Unlock()
	ss.drop()
}

// step takes the next strip, and says whether to go on.
func (ss *scanSession) step() bool {
	if ss.ctx.Err() != nil || ss.dev.Device == nil {
		return false
	}
	ss.mu.Lock()
	if len(ss.queue) == 0 && (!ss.closing || ss.finished) {
		ss.mu.Unlock()
		return false
	}
	var x *scanStrip
	if len(ss.queue) > 0 {
		x = ss.queue[0]
		ss.queue = slices.Delete(ss.queue, 0, 1)
		ss.inWork = x
	}
	ss.busy = make(chan struct{})
	ss.mu.Unlock()

	var items []*scanItem
	var err error
	if x != nil {
		items, err = ss.scan(x)
	} else {
		items, err = ss.settle()
	}

	ss.mu.Lock()
	if x != nil {
		ss.inWork = nil
		ss.doneSequence, ss.doneLine = x.GetSequence()+1, x.end
		ss.outstanding -= x.lines
		x.free()
	} else {
		ss.finished = !errors.Is(err, kernels.ErrDeviceLost) // else once more on the next one
	}
	for _, i := range items {
		ss.push(i)
	}
	ss.ackDue = true
	if ss.conn != nil {
		signal(ss.conn.wake)
	}
	ss.checkUnread()
	close(ss.busy)
	ss.busy = nil
	ss.mu.Unlock()
	if errors.Is(err, kernels.ErrDeviceLost) {
		ss.regain()
	}
	return true
}

// scan processes a strip.
func (ss *scanSession) scan(x *scanStrip) (items []*scanItem, err error) {
	if x.err != nil {
		return nil, nil
	}
	start := time.Now()
	ctx := kernels.WithDeadline(ss.ctx, x.arrived.Add(ss.budget))
	var done []*polygon.ScannedPart
	for number, line := range ss.starts(x) {
		err := ss.scanner.Start(number, line)
		if errors.Is(err, polygon.ErrTooManyParts) {
			// Behind a gap those that it ended make room. If that fails they are done with the strip.
			if ended, e := ss.scanner.Settle(ctx, min(line, x.GetFirstLine())); e == nil {
				done = append(done, ended...)
				err = ss.scanner.Start(number, line)
			}
		}
		if err != nil {
			items = append(items, &scanItem{event: ss.badStrip(x, ss.startError(line, err), true)})
		}
	}
	parts, err := ss.scanner.Strip(ctx,
		polygon.ScanStrip{FirstLine: x.GetFirstLine(), Frame: x.frame.Picture, Settled: x.end})
	if err != nil {
		items = append(items, &scanItem{event: ss.badStrip(x, ss.what.Paths.Translate(err), false)})
	}
	ss.metrics.Scan.Strip(x.lines, time.Since(x.arrived))
	return append(items, ss.partItems(append(done, parts...), x, start)...), err
}

// starts are the parts that start before the strip's end and have lines in it or after it.
func (ss *scanSession) starts(x *scanStrip) func(yield func(number, line uint64) bool) {
	return func(yield func(number, line uint64) bool) {
		if ss.every == 0 {
			for _, at := range x.GetPartStarts() {
				ss.nextPart++
				if !yield(ss.nextPart-1, at) {
					return
				}
			}
			return
		}
		if first := x.GetFirstLine(); first >= ss.lines {
			ss.nextPart = max(ss.nextPart, (first-ss.lines)/ss.every+1)
		}
		for ss.nextPart*ss.every < x.end {
			ss.nextPart++
			if !yield(ss.nextPart-1, (ss.nextPart-1)*ss.every) {
				return
			}
		}
	}
}

// startError is what is wrong with the start of a part.
func (ss *scanSession) startError(line uint64, err error) error {
	if errors.Is(err, polygon.ErrTooManyParts) {
		return apierr.Quota(apierr.ReasonTooManyParts, "parts",
			fmt.Sprintf("%d are under way where another starts, at line %d", ss.scanner.Open(), line))
	}
	return err
}

// settle finishes the parts that are not complete.
func (ss *scanSession) settle() ([]*scanItem, error) {
	start := time.Now()
	parts, err := ss.scanner.Settle(ss.ctx, math.MaxUint64)
	if err != nil && !errors.Is(err, kernels.ErrDeviceLost) { // once more: the sums are still there
		parts, err = ss.scanner.Settle(ss.ctx, math.MaxUint64)
	}
	if err != nil && !errors.Is(err, kernels.ErrDeviceLost) {
		ss.fail(err)
	}
	return ss.partItems(parts, &scanStrip{Strip: &pb.Strip{Sequence: max(ss.doneSequence, 1) - 1}, arrived: start},
		start), err
}

// partItems makes results of parts that are done with strip x.
func (ss *scanSession) partItems(parts []*polygon.ScannedPart, x *scanStrip, start time.Time) (items []*scanItem) {
	if len(parts) == 0 {
		return nil
	}
	compute := time.Since(start)
	for _, p := range parts {
		m := &pb.PartResult{
			PartNumber: p.Number, FirstLine: p.FirstLine, Incomplete: p.MissingLines > 0,
			MissingLines: uint64(p.MissingLines),
			CapturedAt:   x.GetCapturedAt(), StripSequence: x.GetSequence(),
			Times: &pb.PartTimes{Queue: durationpb.New(start.Sub(x.arrived)), Compute: durationpb.New(compute)},
		}
		if p.Err != nil {
			m.Error = apierr.StatusOf(ss.ctx, ss.log, ss.what.Paths.Translate(p.Err)).Proto()
		} else {
			m.Times.Queue = durationpb.New(start.Sub(x.arrived) + p.Result.Queue)
			m.Times.Compute = durationpb.New(compute - p.Result.Queue)
			m.Regions = wire.RegionResults(p.Result)
			m.Verdict = pb.Verdict(p.Result.Verdict)
			if m.Incomplete && p.Result.Verdict == polygon.Pass {
				m.Verdict = pb.Verdict_VERDICT_UNSPECIFIED
			}
		}
		ss.metrics.Scan.Part(m)
		m.ResultNumber = ss.nextNumber()
		head, err := proto.Marshal(m)
		if err != nil { // a text that is no UTF-8, say, of which there is none
			ss.fail(err)
			return items
		}
		items = append(items, &scanItem{number: m.GetResultNumber(), head: head, arrived: x.arrived, ready: time.Now()})
	}
	return items
}

// nextNumber numbers results; only the worker makes them.
func (ss *scanSession) nextNumber() uint64 {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.results++
	return ss.results - 1
}

// regain waits for the device to be opened again, and goes on there.
func (ss *scanSession) regain() {
	ss.scanner.Detach()
	ss.dev.End()
	ss.dev = device.Lease{}
	for {
		dev, err := ss.Server.dev.Wait(ss.ctx)
		if err != nil {
			return
		}
		if err = ss.scanner.Reset(ss.ctx, dev.Device); err == nil {
			ss.dev = dev
			break
		}
		dev.End()
		if !errors.Is(err, kernels.ErrDeviceLost) {
			ss.fail(err)
			return
		}
	}
	ss.report(&pb.ScanEvent{Kind: pb.ScanEventKind_SCAN_EVENT_KIND_DEVICE_LOST})
	signal(ss.wake)
}

// report is an event for the client.
func (ss *scanSession) report(e *pb.ScanEvent) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.push(&scanItem{event: e})
	ss.checkUnread()
}

// push puts an item into the outbox. mu is held.
func (ss *scanSession) push(i *scanItem) {
	if i.event != nil {
		ss.metrics.Scan.Event(i.event.GetKind())
	}
	ss.outbox = append(ss.outbox, i)
	ss.unsent += i.size()
	ss.forget()
	if ss.unsent > ss.unread/4*3 {
		ss.slow()
	}
	if ss.conn != nil {
		signal(ss.conn.wake)
	}
}

// checkUnread cuts the client off that leaves too much unread. mu is held.
func (ss *scanSession) checkUnread() {
	if ss.conn != nil && ss.unsent > ss.unread && len(ss.outbox) > leastUnread {
		ss.cut(ss.conn, errSlowConsumer)
	}
}

// leastUnread is how many results and events a client may leave unread, however large they are.
const leastUnread = 4

// forget lets go of the oldest results that were sent. What is kept for a resume must leave room for new ones. mu is
// held.
func (ss *scanSession) forget() {
	n := 0
	for n < len(ss.sent) && ss.kept+ss.unsent > ss.unread/2 {
		ss.kept -= ss.sent[n].size()
		n++
	}
	ss.sent = slices.Delete(ss.sent, 0, n)
}

// tellSlow tells c's client that it doesn't read.
func (ss *scanSession) tellSlow(c *scanConn) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.conn == c {
		ss.slow()
	}
}

// slow is tellSlow with mu held, for the call that there is. The event goes in front: those behind are what is not
// read.
func (ss *scanSession) slow() {
	if ss.told || ss.conn == nil {
		return
	}
	ss.told = true
	i := &scanItem{event: &pb.ScanEvent{Kind: pb.ScanEventKind_SCAN_EVENT_KIND_SLOW_CONSUMER, Used: true}}
	ss.metrics.Scan.Event(i.event.GetKind())
	ss.outbox = slices.Insert(ss.outbox, 0, i)
	ss.unsent += i.size()
}

// mostBeforeAck is how many items are sent before an ack that is due.
const mostBeforeAck = 16

// next waits for something to be sent to c's client; nil says that there is nothing any more.
func (ss *scanSession) next(c *scanConn) any {
	for {
		if m, ok := ss.take(c); ok {
			return m
		}
		select {
		case <-c.wake:
		case <-c.ctx.Done():
			return nil
		}
	}
}

// take takes the next message out; ok is false where there is none yet.
func (ss *scanSession) take(c *scanConn) (m any, ok bool) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.conn != c && ss.flush != c {
		return nil, true
	}
	switch {
	case len(ss.outbox) > 0 && (ss.sinceAck < mostBeforeAck || !ss.ackDue || ss.flush == c):
		ss.sinceAck++
		i := ss.outbox[0]
		ss.outbox = slices.Delete(ss.outbox, 0, 1)
		ss.unsent -= i.size()
		if len(ss.outbox) == 0 {
			ss.told = false
		}
		if i.event != nil {
			return &pb.ScanLinesResponse{Message: &pb.ScanLinesResponse_Event{Event: i.event}}, true
		}
		if i.tail == nil {
			i.tail = ss.sendTimes(i)
		}
		ss.sent = append(ss.sent, i)
		ss.kept += i.size()
		return encodedPart(i.head, i.tail), true
	case ss.flush == c:
		return nil, false
	case ss.ackDue:
		ss.ackDue, ss.sinceAck = false, 0
		return &pb.ScanLinesResponse{Message: &pb.ScanLinesResponse_Ack{Ack: &pb.ScanAck{
			NextSequence: ss.doneSequence, CreditLine: ss.doneLine + uint64(ss.credit),
		}}}, true
	case ss.finished && ss.closing:
		c.finish(ss.closeError)
		return nil, true
	}
	return nil, false
}

// sendTimes is what is known of a result when it is sent for the first time, to be merged with the rest.
func (ss *scanSession) sendTimes(i *scanItem) []byte {
	now := time.Now()
	latency := now.Sub(i.arrived)
	m := &pb.PartResult{
		Late:  latency > ss.budget,
		Times: &pb.PartTimes{Send: durationpb.New(now.Sub(i.ready)), Latency: durationpb.New(latency)},
	}
	ss.metrics.Scan.Sent(latency, m.GetLate())
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err) // numbers can be marshalled
	}
	return b
}

// sequenceSet is the last ranges of sequence numbers that were given up.
type sequenceSet []sequenceRange

type sequenceRange struct{ from, to uint64 }

// mostLost is how many ranges are remembered.
const mostLost = 64

func (s *sequenceSet) add(from, to uint64) {
	if from >= to {
		return
	}
	*s = append(*s, sequenceRange{from, to})
	if n := len(*s) - mostLost; n > 0 {
		*s = slices.Delete(*s, 0, n)
	}
}

// cut takes the numbers from n on out.
func (s *sequenceSet) cut(n uint64) {
	for i := range *s {
		(*s)[i].to = min((*s)[i].to, n)
	}
	*s = slices.DeleteFunc(*s, func(r sequenceRange) bool { return r.from >= r.to })
}

// take takes a number out, and says whether it was there.
func (s *sequenceSet) take(n uint64) bool {
	for i, r := range *s {
		if n < r.from || n >= r.to {
			continue
		}
		rest := []sequenceRange{{r.from, n}, {n + 1, r.to}}
		rest = slices.DeleteFunc(rest, func(r sequenceRange) bool { return r.from >= r.to })
		*s = slices.Replace(*s, i, i+1, rest...)
		return true
	}
	return false
}
