// Line-scan sessions: how they begin, change from call to call, and end.

package scan

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/auth"
	"github.com/polyscan/polyscan/server/internal/device"
	"github.com/polyscan/polyscan/server/internal/events"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// session is a camera's. It outlives its calls, one at a time, by the resume window. Its worker owns the scanner
// and the lease of the device, takes strips in the order of their sequence numbers, and ends when ctx does; that gives
// everything back.
type session struct {
	service *Service
	token   string
	owner   auth.Caller    // its tenant's; another's calls don't find it
	uncount func()         // gives back what counts for the tenant
	log     *slog.Logger   // with the client's name of the camera
	seen    *events.Stream // what others see of it
	what    *wire.Inspection
	from    string          // what the lines come from, for people
	layout  *pb.FrameLayout // of strips
	format  kernels.PixelFormat
	lines   uint64 // of a part
	every   uint64 // lines from part to part; 0 where strips have marks
	budget  time.Duration
	unread  int // bytes of results and events that may wait for it

	boundary int64 // bytes that the scanner keeps of pixels weighted by coverage

	ctx  context.Context
	stop context.CancelFunc
	wake chan struct{} // for the worker; buffered

	// The worker's.
	dev      device.Lease
	scanner  *polygon.Scanner
	nextPart uint64
	ids      map[uint64]partNames // of parts that have begun and have some, by their numbers
	sketch   *partSketch          // of the part that others get a picture of; nil where there is none
	strips   *events.Strips       // of which the history gets pictures of parts; nil where it wants none

	attaching sync.Mutex // held to take the session over

	mu   sync.Mutex
	conn *call // nil between calls
	// flush is the call that was cut off with flushError, which still gets what there is.
	flush      *call
	flushError error
	gone       bool // ended: no call any more
	order      stripOrder
	due        bool          // the pool of the host's work knows that a strip or a result is
	busy       chan struct{} // closed when the worker is done with what it is at; nil where that is nothing
	closing    bool          // nothing more comes
	finished   bool          // and all of it is done
	closeError error         // what the call ends with then
	// What the client gets.
	outbox   []*item
	sent     []*item // results that it may want again
	unsent   int     // bytes in outbox
	kept     int     // bytes in sent
	results  uint64
	ackDue   bool
	sinceAck int
	told     bool // that it is slow
	timer    *time.Timer
	attempt  int // counts calls, so that the timer of an earlier one does nothing
}

var (
	errSlowConsumer = apierr.Quota(apierr.ReasonSlowConsumer, "results", "they are not being read")
	errCredit       = apierr.Quota(apierr.ReasonCredit, "strips", "more lines are under way than credit_line allows")
	errStrips       = apierr.Quota(apierr.ReasonCredit, "strips", fmt.Sprintf("more than %d are under way", mostStrips))
	errTakenOver    = apierr.WithDetails(codes.Aborted, "the session was resumed by another call",
		apierr.Info(apierr.ReasonTakenOver)).Err()
)

// defaultLatencyBudget is what ScanOpen.latency_budget says.
const defaultLatencyBudget = 5 * time.Millisecond

// openScan makes a session, without a call.
func (s *Service) openScan(ctx context.Context, open *pb.ScanOpen) (_ *session, err error) {
	if class := open.GetInspection().GetWorkClass(); class != pb.WorkClass_WORK_CLASS_UNSPECIFIED {
		return nil, apierr.Refuse("open.inspection.work_class", class,
			"must be unspecified: line-scan streams have a class of their own")
	}
	var what *wire.Inspection
	set := open.GetInspection().GetRegionSet()
	err = s.Frames.Work.Do(ctx, wire.SetWork(set), wire.SmallSet, func(pause func() error) error {
		what, err = wire.NewInspection(ctx, open.GetInspection(), "open.inspection", "strip.frame", s.Recipes, nil,
			s.Bounds, pause)
		if err == nil && what.Pose == nil && what.Locator != nil {
			return apierr.Refuse("open.inspection.pose", "unset", "must be given: the regions have a locate section, and parts "+
				"of line-scans aren't located, as lines are reduced before all windows have passed")
		}
		if err == nil && what.Pose != nil {
			what.Set, err = what.Moved(ctx, *what.Pose, "open.inspection.pose", false, s.Bounds, pause)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	layout := open.GetLayout()
	f, err := s.Frames.Raw(layout, nil, "open")
	if err != nil {
		return nil, err
	}
	if name := wire.FormatName(layout.GetPixelFormat()); f.Coding.Margin() > 0 {
		switch every := open.GetEveryLines(); {
		case !open.GetWholeParts():
			return nil, apierr.Refuse("open.whole_parts", false, "must be set for %s, which is of frames", name)
		case every > 0 && every < open.GetPartLines():
			return nil, apierr.Refuse("open.every_lines", every,
				"must be at least part_lines, %d, for %s, which is of frames", open.GetPartLines(), name)
		}
	}
	if _, _, err := f.Sizes("frame"); err != nil {
		return nil, wire.Paths{Frame: "open"}.Translate(err)
	}
	if err := what.CheckLines(f.Width, int(open.GetPartLines()), open.GetWholeParts(), "open"); err != nil {
		return nil, err
	}
	if err := s.Frames.CheckPixels(layout.GetWidth(), open.GetPartLines(), "open.part_lines"); err != nil {
		return nil, err
	}
	if bytes, limit := what.ResultBytes(f.Format), s.MaxMessageBytes; bytes > limit {
		return nil, apierr.Quota(apierr.ReasonResultTooLarge, "result", fmt.Sprintf(
			"histograms, percentiles and limits of %d regions would take %d bytes; the limit is %d", what.Set.Len(),
			bytes, limit))
	}
	if what.Name == "" && isName(open.GetCameraId()) {
		what.Name = open.GetCameraId()
	}
	ss := &session{
		service: s, owner: auth.FromContext(ctx), log: s.Log.With("camera", cmp.Or(what.Name, open.GetCameraId())),
		what: what, format: f.Format, from: open.GetSource(),
		ids: map[uint64]partNames{},
		layout: &pb.FrameLayout{
			Width: layout.GetWidth(), Height: layout.GetHeight(), PixelFormat: layout.GetPixelFormat(),
			Stride: layout.GetStride(), SignificantBits: layout.GetSignificantBits(), Demosaic: layout.GetDemosaic(),
		},
		lines: uint64(open.GetPartLines()), every: uint64(open.GetEveryLines()),
		order:  stripOrder{window: int(open.GetReorderStrips())},
		budget: defaultLatencyBudget, unread: s.UnreadBytes, wake: make(chan struct{}, 1),
	}
	if b := open.GetLatencyBudget(); b != nil {
		if err := b.CheckValid(); err != nil || b.AsDuration() <= 0 {
			return nil, apierr.Refuse("open.latency_budget", b.AsDuration(), "must be more than 0")
		}
		ss.budget = b.AsDuration()
	}
	row := max(int64(layout.GetStride()), int64(f.RowSize()))
	ss.layout.Stride = uint32(row)
	// Room for a few strips, and for those that wait for a missing one.
	strips := minStrips + int64(open.GetReorderStrips())
	if bytes, limit := row*int64(f.Height), s.HostBytes; bytes > limit/strips {
		return nil, apierr.Refuse("open.reorder_strips", open.GetReorderStrips(),
			"makes room for %d strips of %d bytes necessary: the limit is %d bytes", strips, bytes, limit)
	}
	ss.order.credit = int(min(max(int64(s.CreditBytes)/row, int64(f.Height)*strips), math.MaxInt32))

	cfg := polygon.ScanConfig{
		Width: f.Width, Format: f.Format, Coding: f.Coding, PartLines: int(open.GetPartLines()),
		WholeParts: open.GetWholeParts(), Reductions: what.Reductions, Method: what.Method,
		Parts: 1, MaxParts: s.Parts, StripBytes: int(row) * f.Height, Flat: what.Flat,
	}
	if every := open.GetEveryLines(); every > 0 {
		// Parts that a strip can touch at the same time.
		n := (int64(open.GetPartLines())+int64(f.Height)-2)/int64(every) + 1
		if n > int64(s.Parts) {
			return nil, apierr.Refuse("open.every_lines", every,
				"makes %d parts under way at the same time, with parts of %d lines and strips of %d: the limit is %d",
				n, open.GetPartLines(), f.Height, s.Parts)
		}
		cfg.Parts = int(n)
	}
	ss.boundary = what.Set.CoverBytes(cfg.Reductions, cfg.Width, cfg.PartLines)
	ss.token = newToken()
	if err := s.scans.add(ss); err != nil {
		return nil, err
	}
	if err := ss.begin(ctx, cfg); err != nil {
		s.scans.remove(ss)
		return nil, what.Paths.Translate(err)
	}
	return ss, nil
}

// minStrips is how many strips of full height a client may have under way: one on the wire, one in the queue, one
// in work, one whose ack is on its way.
const minStrips = 4

// begin takes the device and starts the worker.
func (ss *session) begin(ctx context.Context, cfg polygon.ScanConfig) error {
	dev, err := ss.service.Host.Acquire()
	if err != nil {
		return err
	}
	scanner, err := ss.what.Set.NewScanner(scanContext(ctx), dev.Device, cfg)
	if err != nil {
		dev.End()
		return err
	}
	ss.dev, ss.scanner = dev, scanner
	ss.ctx, ss.stop = context.WithCancel(scanContext(auth.NewContext(context.Background(), ss.owner)))
	ss.seen = ss.service.Events.Open(ss.source(ctx))
	ss.strips = ss.seen.Strips(ss.lines)
	if !ss.service.scans.start(ss) {
		ss.seen.Close(nil)
		scanner.Close()
		dev.End()
		return apierr.ErrShuttingDown
	}
	ss.service.Metrics.Sessions.Inc()
	ss.log.InfoContext(ctx, "line-scan session begins", "width", cfg.Width, "part_lines", cfg.PartLines)
	return nil
}

// attach makes c the session's call. An older one ends.
func (ss *session) attach(c *call, nextResult uint64) (*pb.ScanOpened, error) {
	ss.attaching.Lock()
	defer ss.attaching.Unlock()
	ss.mu.Lock()
	for _, old := range []*call{ss.conn, ss.flush} {
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
		NextSequence: ss.order.done,
		NextLine:     ss.order.doneLine,
		CreditLine:   ss.order.creditLine(),
		ResumeWindow: durationpb.New(ss.service.ResumeWindow),
		Backend:      ss.service.Host.Backend(),
	}, nil
}

// rewind makes nextResult the next one to be sent. mu is held.
func (ss *session) rewind(nextResult uint64) error {
	if nextResult > ss.results {
		return apierr.Refuse("resume.next_result", nextResult, "there are %d results", ss.results)
	}
	first := ss.results
	for _, list := range [][]*item{ss.sent, ss.outbox} {
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
	ss.outbox = slices.DeleteFunc(ss.outbox, func(i *item) bool { // confirmed, and sent by a call that it came over
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

// Bytes is about how much host memory sessions hold: regions and the pixels that their boundaries cross, results that
// wait or may be asked for again, and what limits over parts look back at.
func (s *Service) Bytes() (n int64) {
	s.scans.mu.Lock()
	var all []*session
	for _, ss := range s.scans.sessions {
		if ss != nil {
			all = append(all, ss)
		}
	}
	s.scans.mu.Unlock()
	for _, ss := range all {
		ss.mu.Lock()
		n += int64(ss.unsent+ss.kept) + ss.what.Set.Bytes() + ss.what.Set.NewParts().Bytes() + ss.boundary
		ss.mu.Unlock()
	}
	return n
}

// confirm lets go of results that the client has. mu is held.
func (ss *session) confirm(next uint64) {
	n := 0
	for n < len(ss.sent) && ss.sent[n].number < next {
		ss.kept -= ss.sent[n].size()
		n++
	}
	ss.sent = slices.Delete(ss.sent, 0, n)
}

// detach takes the session from a call that has ended; complete says that the client has got everything.
func (ss *session) detach(c *call, complete bool) {
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
func (ss *session) cutOff(c *call, err error) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.cut(c, err)
}

// cut is cutOff with mu held.
func (ss *session) cut(c *call, err error) {
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
func (ss *session) cutOffError(c *call) error {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.flush != c {
		return nil
	}
	return ss.flushError
}

// leave makes the session one without a call. Strips that are not in work will come again. mu is held.
func (ss *session) leave() {
	ss.conn = nil
	ss.attempt++
	if ss.timer != nil {
		ss.timer.Stop()
		ss.timer = nil
	}
	ss.order.restart((*strip).free)
	if !ss.finished {
		ss.closing = false
	}
	ss.noteDue()
}

// expire starts the resume window. mu is held.
func (ss *session) expire() {
	if ss.gone {
		return
	}
	attempt := ss.attempt
	ss.timer = time.AfterFunc(ss.service.ResumeWindow, func() {
		ss.mu.Lock()
		over := ss.conn == nil && ss.attempt == attempt
		ss.mu.Unlock()
		if over {
			ss.drop()
		}
	})
}

// drop ends the session.
func (ss *session) drop() {
	ss.service.scans.remove(ss)
	ss.stop()
}

// arrive takes a strip in.
func (ss *session) arrive(c *call, x *strip) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	defer ss.checkUnread()
	if ss.conn != c || ss.closing {
		x.free()
		return
	}
	ss.confirm(x.GetNextResult())
	became := ss.order.arrive(x)
	switch became {
	case again:
		ss.pushArrival(x, pb.ScanEventKind_SCAN_EVENT_KIND_DUPLICATE, false)
	case tooLate:
		ss.pushArrival(x, pb.ScanEventKind_SCAN_EVENT_KIND_OUT_OF_ORDER, false)
	case outOfOrder:
		ss.pushArrival(x, pb.ScanEventKind_SCAN_EVENT_KIND_OUT_OF_ORDER, x.err == nil)
	case beyondCredit:
		ss.cut(c, errCredit)
	case beyondStrips:
		ss.cut(c, errStrips)
	}
	if !became.kept() {
		x.free()
		return
	}
	ss.release(ss.order.window)
	ss.noteDue()
}

// noteDue tells those who work behind verdicts whether a strip is in work or a result to be sent. One that its client
// doesn't take is not. mu is held.
func (ss *session) noteDue() {
	due := !ss.gone && (ss.order.busy() || len(ss.outbox) > 0 && ss.conn != nil && !ss.told)
	switch {
	case due && !ss.due:
		ss.service.Frames.Work.StripDue()
	case !due && ss.due:
		ss.service.Frames.Work.StripDone()
	}
	ss.due = due
}

// pushArrival reports how a strip has come. mu is held.
func (ss *session) pushArrival(x *strip, kind pb.ScanEventKind, used bool) {
	ss.push(&item{event: &pb.ScanEvent{
		Kind: kind, Used: used, FirstSequence: x.GetSequence(), EndSequence: x.GetSequence() + 1,
		FirstLine: x.GetFirstLine(), EndLine: x.GetFirstLine() + uint64(x.lines),
	}})
}

// release moves strips to the queue whose turn has come, and reports what is missing before them. mu is held.
func (ss *session) release(most int) {
	ss.order.release(most, func(x *strip, before missing) {
		if before.any() {
			ss.push(&item{event: &pb.ScanEvent{
				Kind:          pb.ScanEventKind_SCAN_EVENT_KIND_GAP,
				FirstSequence: before.fromSequence, EndSequence: before.toSequence,
				FirstLine: before.fromLine, EndLine: before.toLine,
			}})
		}
		if x.err != nil {
			ss.push(&item{event: ss.badStrip(x, x.err, false)})
		}
	})
	if len(ss.order.queue) > 0 {
		signal(ss.wake)
	}
}

// badStrip is the event for a strip that could not be used.
func (ss *session) badStrip(x *strip, err error, used bool) *pb.ScanEvent {
	return &pb.ScanEvent{
		Kind: pb.ScanEventKind_SCAN_EVENT_KIND_BAD_STRIP, FirstSequence: x.GetSequence(), EndSequence: x.GetSequence() +
			1,
		FirstLine: x.GetFirstLine(), EndLine: x.GetFirstLine() + uint64(x.lines), Used: used,
		Error: apierr.StatusOf(ss.ctx, ss.log, err).Proto(),
	}
}

// closeBy says that c's client sends nothing more.
func (ss *session) closeBy(c *call) {
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
func (ss *session) close(err error) {
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
