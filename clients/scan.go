package clients

// Line-scan streams: strips of lines out, a result for each part back, over connections that may break.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// The defaults of [ScanOptions].
const (
	// defaultScanStrips strips are held at most, and fewer where they are so large that they would take more than
	// defaultScanBytes; but never fewer than 4.
	defaultScanStrips = 64
	defaultScanBytes  = 64 << 20
	// defaultScanUpdates is how many updates wait for [Scan.Recv].
	defaultScanUpdates = 256
	// defaultScanStall is how long the server may be silent while it owes an acknowledgement.
	defaultScanStall = 10 * time.Second
	// defaultScanOutage is how long a broken connection is tried anew where the server doesn't say how long it keeps a
	// session.
	defaultScanOutage = 30 * time.Second

	minScanStrips = 4
	maxScanStrips = 4096 // more a server doesn't take
)

// ScanOptions adjust a line-scan stream. The zero value is fine.
type ScanOptions struct {
	// Strips is how many strips the stream holds at the most: those that wait for credit, and those that the server has
	// not acknowledged and may want again. It bounds the memory of the stream. At most 4096; 0 has a default.
	Strips int
	// Updates is how many updates wait to be received. When they are full nothing more is read, and the server
	// calls this a slow consumer; 0 means 256.
	Updates int
	// SharedMemory puts the strips into memory that the server maps, too, so that pixels don't travel. The server
	// must be on this host. See [SharedMemory].
	SharedMemory bool
	// Outage is how long a broken connection is tried anew before the stream ends; 0 means as long as the server keeps
	// the session. Negative means not at all.
	Outage time.Duration
	// Stall is how long the server may be silent while it owes an acknowledgement, before the connection counts as
	// broken; 0 means 10 s. The answer to the open may take 10 s at least.
	Stall time.Duration
	// Resume goes on with a session of an earlier [Scan], of another process even, instead of starting one.
	Resume *ScanSession
}

// ScanSession is what another process needs to go on with a session, within the time that the server keeps it.
type ScanSession struct {
	Token []byte
	// NextResult is the number of the first result that hasn't been received.
	NextResult uint64
}

// Strip is a run of lines for [Scan.Send].
type Strip struct {
	// Pixels are the lines, as far apart as the session's layout says. They are copied. Nil stands for what has been
	// written to the memory of [Scan.Buffer].
	Pixels []byte
	// Lines is how many there are; 0 means as many as the session's layout says.
	Lines int
	// PartStarts are the lines of the strip, from 0, at which parts start. For a marked trigger.
	PartStarts []int
	// PartIDs are the ids of the parts that start in the strip, one for each, "" for one without; or none at all.
	PartIDs []string
	// Lost is how many lines before this strip the camera has lost. They count as missing from the parts that they
	// belong to.
	Lost int
	// LostPartIDs are the ids of parts that start in the lost lines before this strip: the last one is that of the last
	// part that starts before the strip. For parts that start every so many lines.
	LostPartIDs []string
	// FrameID is the caller's own name of the frame or block that the lines are of, of at most 256 bytes, for those who
	// watch, and the history: they have that of the strip with the first of a part's lines.
	FrameID string
	// CapturedAt is when the last line was exposed; zero means now. It comes back with results.
	CapturedAt time.Time
}

// ScanUpdate is one thing that the stream reports. One of its messages is set.
type ScanUpdate struct {
	// At is when it came.
	At time.Time
	// Part is the result of a part. Each comes once, in the order of their numbers.
	Part *polyscanv1.PartResult
	// Latency is the time from the call of Send for the strip that completed the part to the arrival of the result; 0
	// if that strip was sent so long ago that it isn't known any more.
	Latency time.Duration
	// Event is what the operator of the line should know.
	Event *polyscanv1.ScanEvent
	// Reconnected says that the connection broke and the session went on.
	Reconnected *Reconnected
}

// Reconnected says what a broken connection cost.
type Reconnected struct {
	// Cause is what broke it.
	Cause error
	// Outage is the time without a connection, and Attempts how often one was tried.
	Outage   time.Duration
	Attempts int
	// Resent is how many strips go out again.
	Resent int
}

// ScanStats are the state and the counters of a stream.
type ScanStats struct {
	// Handed is how many strips Send has taken, Sent how many of them have gone out, and Acked how many are done with.
	Handed, Sent, Acked uint64
	// Lines is how many lines Send has taken, lost ones included, and Credit how many of the lines not yet sent may be.
	Lines  uint64
	Credit int64
	// Room is how many strips Send would take without waiting.
	Room int
	// Results is how many results have come; Repeated how many came again after a reconnection, and were dropped.
	Results, Repeated uint64
	// Reconnects is how often the connection broke and came back; Resent is how many strips went out again.
	Reconnects, Resent uint64
	// Waiting is how many updates wait to be received.
	Waiting int
	// Leases is how often shared memory was leased: what an earlier one held isn't in a later one.
	Leases int
}

// ErrScanEnded is returned by [Scan.Send] after [Scan.CloseSend], and when the stream has ended; then [Scan.Recv] says
// why.
var ErrScanEnded = errors.New("clients: the line-scan stream has ended")

// ErrStalled is the cause of a [Reconnected] after the server owed an acknowledgement for too long.
var ErrStalled = errors.New("the server does not answer")

// errWiped says that what was in a lease is lost with it.
var errWiped = fmt.Errorf("clients: %w, and the server has taken it back before the strips in it could be saved",
	ErrLeaseEnded)

// Scan is a line-scan session: a camera that sends strips, and the results of its parts.
//
// One goroutine sends, another receives. If updates aren't received the strips don't get acknowledged, and Send waits
// in the end. When the connection breaks the stream goes on over a new one: it sends the strips again that the server
// has not got, and drops results that it has had.
type Scan struct {
	client *Client
	open   *polyscanv1.ScanOpen
	opts   ScanOptions
	height int // most lines of a strip
	stride int // bytes from line to line
	row    int // bytes of a line
	ctx    context.Context
	cancel context.CancelCauseFunc

	updates chan *ScanUpdate
	done    chan struct{} // closed when everything has ended, with err set
	err     error         // nil: the server has answered everything

	room chan struct{} // wakes Send
	work chan struct{} // wakes the sending goroutine

	heard      atomic.Int64 // when the server said something, in nanoseconds since start
	delivering atomic.Bool  // the receiver waits for Recv
	start      time.Time

	sending sync.Mutex // held by Send

	mu      sync.Mutex
	memory  stripMemory   // nil when it was given back
	retired []stripMemory // leases that are over, of which Buffer may have handed out memory
	slots   []scanSlot    // strip n is in slot n modulo their number
	buffer  []byte        // handed out by Buffer
	closing bool          // CloseSend was called
	opened  *polyscanv1.ScanOpened
	acked   uint64 // strips before it are done with
	sent    uint64 // strips before it have gone out over this connection
	head    uint64 // strips before it have been handed over
	most    uint64 // strips before it have gone out over any connection
	line    uint64 // the line after the last one handed over
	credit  uint64
	next    uint64 // number of the next result
	stats   ScanStats
	stamps  [4096]stamp // when strips were handed over
}

type scanSlot struct {
	strip *polyscanv1.Strip
	end   uint64 // the line after its last one
	bytes int    // of its pixels
	// inUse is how many messages on their way refer to the pixels.
	inUse *atomic.Int32
}

type stamp struct {
	sequence uint64
	at       time.Time
}

// OpenScan starts a session, or goes on with one, and waits until the server has agreed. The stream lives until ctx
// ends, the server ends it, or Close; close it after use. open must not change while the stream is in use.
func (c *Client) OpenScan(ctx context.Context, open *polyscanv1.ScanOpen, o ScanOptions) (*Scan, error) {
	s, err := newScan(ctx, c, open, o)
	if err != nil {
		return nil, err
	}
	fail := func(err error) (*Scan, error) {
		s.cancel(nil)
		if s.memory != nil {
			s.memory.close()
		}
		return nil, wrap(err)
	}
	if s.memory, err = s.newMemory(); err != nil {
		return fail(err)
	}
	if o.SharedMemory {
		s.stats.Leases++
	}
	conn, err := s.connect(o.Resume != nil)
	if err != nil {
		return fail(err)
	}
	if o.Resume != nil {
		s.acked = conn.opened.GetNextSequence()
		s.sent, s.head, s.most, s.line = s.acked, s.acked, s.acked, conn.opened.GetNextLine()
	}
	s.resume(conn.opened)
	go s.run(conn)
	return s, nil
}

func newScan(ctx context.Context, c *Client, open *polyscanv1.ScanOpen, o ScanOptions) (*Scan, error) {
	l := open.GetLayout()
	raw := Raw{Width: int(l.GetWidth()), Height: int(l.GetHeight()), Format: l.GetPixelFormat(),
		Stride: int(l.GetStride())}
	size, err := raw.Bytes()
	if err != nil {
		return nil, fmt.Errorf("clients: open.layout: %w", err)
	}
	for _, n := range []struct {
		name        string
		value, most int
	}{{"Strips", o.Strips, maxScanStrips}, {"Updates", o.Updates, 1 << 20}} {
		if n.value < 0 || n.value > n.most {
			return nil, fmt.Errorf("clients: ScanOptions.%s is %d: must be 0 to %d", n.name, n.value, n.most)
		}
	}
	if o.Strips == 0 {
		o.Strips = int(min(defaultScanStrips, max(minScanStrips, defaultScanBytes/size)))
	}
	if o.Updates == 0 {
		o.Updates = defaultScanUpdates
	}
	if o.Stall <= 0 {
		o.Stall = defaultScanStall
	}
	s := &Scan{
		client: c, open: open, opts: o, height: raw.Height, stride: raw.Stride,
		row:     int(RowBytes(raw.Format, raw.Width)),
		updates: make(chan *ScanUpdate, o.Updates), done: make(chan struct{}),
		room: make(chan struct{}, 1), work: make(chan struct{}, 1),
		slots: make([]scanSlot, o.Strips), start: time.Now(),
	}
	for i := range s.slots {
		s.slots[i].inUse = new(atomic.Int32)
	}
	if s.stride == 0 {
		s.stride = s.row
	}
	if o.Resume != nil {
		s.next = o.Resume.NextResult
	}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	return s, nil
}

// bytes is the size of a strip of some lines: the last one needs no padding.
func (s *Scan) bytes(lines int) int { return s.stride*(lines-1) + s.row }

// Buffer waits until there is room for a strip, and returns the memory for its pixels, which is that of a strip of as
// many lines as the session's layout says. Write to it, and call Send with Pixels nil. The memory is there until Send
// has returned or Close is called, even if the stream ends before that, and not to be touched after. With shared memory
// these are the bytes that the server reads.
func (s *Scan) Buffer(ctx context.Context) ([]byte, error) {
	for {
		s.mu.Lock()
		if s.ended() {
			s.mu.Unlock()
			return nil, ErrScanEnded
		}
		if s.buffer != nil {
			b := s.buffer
			s.mu.Unlock()
			return b, nil
		}
		if s.head-s.acked < uint64(len(s.slots)) {
			i := int(s.head % uint64(len(s.slots)))
			if s.slots[i].inUse.Load() == 0 {
				s.buffer = s.memory.slot(i)
				b := s.buffer
				s.mu.Unlock()
				return b, nil
			}
		}
		s.mu.Unlock()
		select {
		case <-s.room:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-s.done:
			return nil, ErrScanEnded
		}
	}
}

// ended reports whether strips are taken no more. mu is held.
func (s *Scan) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return s.closing
	}
}

// Send hands over a strip and returns its sequence number. It waits, as long as ctx allows, while the stream holds as
// many strips as it may; the strip itself goes out as soon as the server has given credit for its lines. Nothing is
// lost when the connection breaks in the meantime.
func (s *Scan) Send(ctx context.Context, st Strip) (sequence uint64, err error) {
	now := time.Now()
	if st.Lines == 0 {
		st.Lines = s.height
	}
	if st.Lines < 1 || st.Lines > s.height {
		return 0, fmt.Errorf("clients: strip: lines is %d: must be 1 to %d, the height of the session's layout",
			st.Lines, s.height)
	}
	n := s.bytes(st.Lines)
	if st.Lost < 0 {
		return 0, fmt.Errorf("clients: strip: lost is %d: must not be negative", st.Lost)
	}
	if st.Pixels != nil && len(st.Pixels) != n && len(st.Pixels) != s.stride*st.Lines {
		return 0, fmt.Errorf("clients: strip: %d bytes of pixels: %d lines take %d", len(st.Pixels), st.Lines, n)
	}
	for i, p := range st.PartStarts {
		if p < 0 || p >= st.Lines || i > 0 && p <= st.PartStarts[i-1] {
			return 0, fmt.Errorf("clients: strip: part start %d is %d: must be 0 to %d, and ascend", i, p, st.Lines-1)
		}
	}
	s.sending.Lock()
	defer s.sending.Unlock()
	if st.Pixels == nil {
		s.mu.Lock()
		none := s.buffer == nil && !s.ended()
		s.mu.Unlock()
		if none {
			return 0, errors.New("clients: strip: no pixels, and no buffer was asked for")
		}
	} else {
		b, err := s.Buffer(ctx)
		if err != nil {
			return 0, err
		}
		copy(b, st.Pixels[:n])
	}
	if st.CapturedAt.IsZero() {
		st.CapturedAt = now
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended() {
		s.buffer = nil
		s.freeMemory()
		return 0, ErrScanEnded
	}
	i := int(s.head % uint64(len(s.slots)))
	buffer := s.buffer
	s.buffer = nil
	if mem := s.memory.slot(i); &mem[0] != &buffer[0] {
		// The lease ended since Buffer handed it out.
		copy(mem, buffer[:n])
		kept := s.retired[0].intact()
		s.dropRetired()
		if !kept {
			return 0, errWiped
		}
	}
	slot := &s.slots[i]
	first := s.line + uint64(st.Lost)
	frame := &polyscanv1.Frame{Encoding: polyscanv1.Encoding_ENCODING_RAW, FrameId: st.FrameID}
	if st.Lines != s.height {
		frame.Layout = &polyscanv1.FrameLayout{Height: uint32(st.Lines)}
	}
	slot.strip = &polyscanv1.Strip{Sequence: s.head, FirstLine: first, CapturedAt: timestamppb.New(st.CapturedAt),
		Frame: frame, PartIds: slices.Clone(st.PartIDs), LostPartIds: slices.Clone(st.LostPartIDs)}
	for _, p := range st.PartStarts {
		slot.strip.PartStarts = append(slot.strip.PartStarts, first+uint64(p))
	}
	slot.bytes = n
	slot.end = first + uint64(st.Lines)
	s.line = slot.end
	s.stamps[s.head%uint64(len(s.stamps))] = stamp{s.head, now}
	sequence = s.head
	s.head++
	wake(s.work)
	return sequence, nil
}

// CloseSend says that no strip follows. Those that were handed over still go out; parts that are not complete come back
// as they are, and then [Scan.Recv] returns io.EOF.
func (s *Scan) CloseSend() {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	wake(s.work)
	wake(s.room)
}

// Recv waits for the next update. It returns io.EOF after CloseSend and the last one, and an error if the stream ended
// in another way.
func (s *Scan) Recv() (*ScanUpdate, error) {
	select {
	case u := <-s.updates:
		return u, nil
	case <-s.done:
	}
	// Nothing is added any more.
	select {
	case u := <-s.updates:
		return u, nil
	default:
	}
	if s.err == nil {
		return nil, io.EOF
	}
	return nil, s.err
}

// Updates yields what Recv returns, until the end. An error comes last, beside a nil update; io.EOF isn't one.
func (s *Scan) Updates() iter.Seq2[*ScanUpdate, error] {
	return func(yield func(*ScanUpdate, error) bool) {
		for {
			u, err := s.Recv()
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(u, err) || err != nil {
				return
			}
		}
	}
}

// Close gives up what is on the way and waits until the stream's goroutines have ended. The server keeps the session
// for a while, as if the connection had broken; after CloseSend and the last update there is nothing to keep. Calls
// after the first do nothing.
func (s *Scan) Close() {
	s.cancel(context.Canceled)
	<-s.done
	s.sending.Lock() // it doesn't write any more
	defer s.sending.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buffer = nil
	s.freeMemory()
}

// Session returns what another process needs to go on with the session.
func (s *Scan) Session() ScanSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ScanSession{Token: s.opened.GetSessionToken(), NextResult: s.next}
}

// Backend is what computes at the server, such as "cpu" or "cuda".
func (s *Scan) Backend() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened.GetBackend()
}

// Stats returns the state of the stream.
func (s *Scan) Stats() ScanStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Handed, st.Sent, st.Acked, st.Lines, st.Results = s.head, s.sent, s.acked, s.line, s.next
	st.Room = len(s.slots) - int(s.head-s.acked)
	at := s.line
	if s.sent < s.head {
		at = s.slots[s.sent%uint64(len(s.slots))].strip.GetFirstLine()
	}
	st.Credit = int64(s.credit) - int64(at)
	st.Waiting = len(s.updates)
	return st
}

// wake lets the one goroutine that waits for c go on.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// dropRetired ends leases that nobody can have memory of any more. mu is held.
func (s *Scan) dropRetired() {
	for _, m := range s.retired {
		m.close()
	}
	s.retired = nil
}

// run takes the stream from connection to connection until it ends.
func (s *Scan) run(conn *scanConn) {
	var err error
	for {
		err = s.serve(conn)
		if err == nil || !s.retryable(err) {
			break
		}
		var again *Reconnected
		if conn, again, err = s.reconnect(err); err != nil {
			break
		}
		s.mu.Lock()
		s.stats.Reconnects++
		s.stats.Resent += uint64(again.Resent)
		s.mu.Unlock()
		if !s.deliver(&ScanUpdate{At: time.Now(), Reconnected: again}) {
			conn.cancel(nil)
			err = context.Cause(s.ctx)
			break
		}
	}
	if err != nil && s.ctx.Err() != nil {
		err = context.Cause(s.ctx)
	}
	if _, bare := err.(interface{ GRPCStatus() *status.Status }); bare {
		err = wrap(err)
	}
	s.err = err
	s.cancel(nil)
	close(s.done)
	s.mu.Lock()
	s.freeMemory()
	s.mu.Unlock()
}

// freeMemory gives the memory back once the stream has ended and nobody has the buffer. mu is held.
func (s *Scan) freeMemory() {
	select {
	case <-s.done:
	default:
		return
	}
	if s.buffer != nil || s.memory == nil {
		return
	}
	s.dropRetired()
	s.memory.close()
	s.memory = nil
}

// retryable reports whether err is of the connection and not of the session.
func (s *Scan) retryable(err error) bool {
	if s.ctx.Err() != nil || s.opts.Outage < 0 {
		return false
	}
	if errors.Is(err, ErrStalled) || errors.Is(err, ErrLeaseEnded) && !errors.Is(err, errWiped) {
		return true
	}
	e := AsError(err)
	if e == nil {
		return false
	}
	switch e.Code {
	// Internal, Unknown and Canceled is what a stream ends with that was reset on the way.
	case codes.Unavailable, codes.Internal, codes.Unknown, codes.Canceled:
		return true
	}
	return false
}

// The pauses between attempts to connect.
const (
	firstPause   = 20 * time.Millisecond
	longestPause = 2 * time.Second
)

// reconnect resumes the session over a new connection.
func (s *Scan) reconnect(cause error) (*scanConn, *Reconnected, error) {
	began := time.Now()
	limit := s.opts.Outage
	if limit == 0 {
		s.mu.Lock()
		limit = s.opened.GetResumeWindow().AsDuration()
		s.mu.Unlock()
		if limit <= 0 {
			limit = defaultScanOutage
		}
	}
	r := &Reconnected{Cause: wrap(cause)}
	pause := firstPause
	for {
		r.Attempts++
		if cc, ok := s.client.cc.(*grpc.ClientConn); ok {
			cc.ResetConnectBackoff() // the pauses are made here
		}
		conn, err := s.attempt()
		if err == nil {
			r.Outage = time.Since(began)
			r.Resent = s.resume(conn.opened)
			if r.Resent < 0 {
				conn.cancel(nil)
				st := s.Stats()
				return nil, nil, fmt.Errorf("clients: resumed session: the server wants strip %d; this side has strips %d to %d",
					conn.opened.GetNextSequence(), st.Acked, st.Handed)
			}
			return conn, r, nil
		}
		if s.ctx.Err() != nil {
			return nil, nil, context.Cause(s.ctx)
		}
		e := AsError(err)
		again := s.retryable(err) || e != nil && e.Code == codes.ResourceExhausted
		if !again {
			return nil, nil, fmt.Errorf("clients: the session could not be resumed: %w (the connection had broken: %v)",
				wrap(err), wrap(cause))
		}
		wait := pause/2 + rand.N(pause)
		if e != nil && e.Retry {
			wait = max(wait, e.RetryDelay)
		}
		pause = min(2*pause, longestPause)
		if time.Since(began)+wait > limit {
			return nil, nil, fmt.Errorf("clients: no connection for %v in %d attempts: %w (the connection had broken: %v)",
				time.Since(began).Round(time.Millisecond), r.Attempts, wrap(err), wrap(cause))
		}
		select {
		case <-time.After(wait):
		case <-s.ctx.Done():
			return nil, nil, context.Cause(s.ctx)
		}
	}
}

// attempt makes one connection, and leases memory anew where the lease is over.
func (s *Scan) attempt() (*scanConn, error) {
	if s.memory.lost() != nil {
		m, err := s.newMemory()
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		for n := s.acked; n < s.head; n++ {
			i := int(n % uint64(len(s.slots)))
			copy(m.slot(i), s.memory.slot(i)[:s.slots[i].bytes])
		}
		if s.head > s.acked && !s.memory.intact() {
			s.mu.Unlock()
			m.close()
			return nil, errWiped
		}
		s.retired = append(s.retired, s.memory)
		s.memory = m
		s.stats.Leases++
		if s.buffer == nil {
			s.dropRetired()
		}
		s.mu.Unlock()
	}
	return s.connect(true)
}

// resume sets the cursors to what the server says, and returns how many strips go out again; -1 if it wants what isn't
// here.
func (s *Scan) resume(opened *polyscanv1.ScanOpened) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := opened.GetNextSequence()
	if next < s.acked || next > s.head {
		return -1
	}
	if s.opened != nil { // a resumed session needn't repeat what doesn't change
		if len(opened.GetSessionToken()) == 0 {
			opened.SessionToken = s.opened.GetSessionToken()
		}
	}
	s.opened = opened
	// A transport that broke down may never say that it is done with a message, and may still be reading it.
	for i := range s.slots {
		if s.slots[i].inUse.Load() > 0 {
			s.memory.renew(i)
			s.slots[i].inUse = new(atomic.Int32)
		}
	}
	s.acked, s.sent = next, next
	s.credit = opened.GetCreditLine()
	wake(s.room)
	if s.most > next {
		return int(s.most - next)
	}
	return 0
}
