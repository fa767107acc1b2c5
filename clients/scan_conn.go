package clients

// One connection of a line-scan stream.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/polyscan/polyscan/proto/framecodec"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// scanConn is a call of ScanLines whose first response has come.
type scanConn struct {
	rpc    grpc.BidiStreamingClient[polyscanv1.ScanLinesRequest, polyscanv1.ScanLinesResponse]
	ctx    context.Context
	cancel context.CancelCauseFunc
	opened *polyscanv1.ScanOpened
}

// why is the error of a call that this side may have ended.
func (c *scanConn) why(err error) error {
	if cause := context.Cause(c.ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// connect starts a call with an open or a resume, and waits for the answer.
func (s *Scan) connect(resume bool) (*scanConn, error) {
	c := &scanConn{}
	c.ctx, c.cancel = context.WithCancelCause(s.ctx)
	stall := s.opts.Stall
	if !resume { // the server prepares regions, which may take it longer than a strip
		stall = max(stall, defaultScanStall)
	}
	stalled := time.AfterFunc(stall, func() { c.cancel(ErrStalled) })
	fail := func(err error) (*scanConn, error) {
		stalled.Stop()
		err = c.why(err)
		c.cancel(nil)
		return nil, err
	}
	var err error
	if c.rpc, err = polyscanv1.NewLineScanServiceClient(s.client.cc).ScanLines(c.ctx, frames); err != nil {
		return fail(err)
	}
	req := &polyscanv1.ScanLinesRequest{Message: &polyscanv1.ScanLinesRequest_Open{Open: s.open}}
	if resume {
		s.mu.Lock()
		r := &polyscanv1.ScanResume{NextResult: s.next}
		if s.opened != nil {
			r.SessionToken = s.opened.GetSessionToken()
		} else {
			r.SessionToken = s.opts.Resume.Token
		}
		s.mu.Unlock()
		req.Message = &polyscanv1.ScanLinesRequest_Resume{Resume: r}
	}
	// io.EOF means that the server has answered already; Recv has the reason.
	if err := c.rpc.Send(req); err != nil && !errors.Is(err, io.EOF) {
		return fail(err)
	}
	res, err := c.rpc.Recv()
	if err != nil {
		return fail(err)
	}
	if c.opened = res.GetOpened(); c.opened == nil {
		return fail(fmt.Errorf("clients: the server's first message is %T: want opened", res.GetMessage()))
	}
	if !stalled.Stop() {
		return fail(ErrStalled)
	}
	return c, nil
}

// serve sends and receives over one connection until it ends: nil when the server has answered everything.
func (s *Scan) serve(c *scanConn) error {
	s.heard.Store(int64(time.Since(s.start)))
	var running sync.WaitGroup
	running.Go(func() { s.sendStrips(c) })
	running.Go(func() { s.watch(c) })
	err := s.receive(c)
	c.cancel(nil)
	running.Wait()
	return err
}

// receive handles what the server says.
func (s *Scan) receive(c *scanConn) error {
	for {
		res, err := c.rpc.Recv()
		if errors.Is(err, io.EOF) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.closing && s.sent == s.head {
				s.acked = s.head
				return nil
			}
			return fmt.Errorf("clients: the server ended the stream at strip %d of %d without a reason", s.acked,
				s.head)
		}
		if err != nil {
			return c.why(err)
		}
		s.heard.Store(int64(time.Since(s.start)))
		switch m := res.GetMessage().(type) {
		case *polyscanv1.ScanLinesResponse_Ack:
			if err := s.ack(m.Ack); err != nil {
				return err
			}
		case *polyscanv1.ScanLinesResponse_Part:
			u, err := s.part(m.Part)
			if err != nil {
				return err
			}
			if u != nil && !s.deliver(u) {
				return context.Cause(s.ctx)
			}
		case *polyscanv1.ScanLinesResponse_Event:
			if !s.deliver(&ScanUpdate{At: time.Now(), Event: m.Event}) {
				return context.Cause(s.ctx)
			}
		default:
			return fmt.Errorf("clients: the server sent %T: want an ack, a part or an event", m)
		}
	}
}

// deliver gives an update to Recv; false when the stream is over.
func (s *Scan) deliver(u *ScanUpdate) bool {
	select {
	case s.updates <- u:
		return true
	default:
	}
	s.delivering.Store(true)
	defer func() {
		s.heard.Store(int64(time.Since(s.start)))
		s.delivering.Store(false)
	}()
	select {
	case s.updates <- u:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// ack lets go of strips.
func (s *Scan) ack(a *polyscanv1.ScanAck) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := a.GetNextSequence()
	if next > s.sent {
		return fmt.Errorf("clients: the server acknowledged strip %d: strips up to %d have been sent", next, s.sent)
	}
	// An ack that is behind what resuming has said already adds nothing.
	s.acked = max(s.acked, next)
	s.credit = max(s.credit, a.GetCreditLine())
	wake(s.room)
	wake(s.work)
	return nil
}

// part takes a result, once: nil for one that has come before.
func (s *Scan) part(p *polyscanv1.PartResult) (*ScanUpdate, error) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	n := p.GetResultNumber()
	switch {
	case n < s.next:
		s.stats.Repeated++
		return nil, nil
	case n > s.next:
		return nil, fmt.Errorf("clients: result %d came: want %d; %d results are lost", n, s.next, n-s.next)
	}
	s.next++
	u := &ScanUpdate{At: now, Part: p}
	if st := s.stamps[p.GetStripSequence()%uint64(len(s.stamps))]; st.sequence == p.GetStripSequence() &&
		!st.at.IsZero() {
		u.Latency = now.Sub(st.at)
	}
	return u, nil
}

// sendStrips sends what has been handed over, as far as credit goes.
func (s *Scan) sendStrips(c *scanConn) {
	for {
		if err := s.memory.lost(); err != nil {
			c.cancel(err)
			return
		}
		req, pixels, inUse, end := s.nextStrip()
		switch {
		case end:
			if err := c.rpc.CloseSend(); err != nil {
				c.cancel(err)
			}
			return
		case req == nil:
			select {
			case <-s.work:
				continue
			case <-c.ctx.Done():
				return
			}
		}
		m := framecodec.New(req)
		if pixels != nil {
			m.SetPayload(mem.BufferSlice{framecodec.NewBuffer(pixels, func() {
				inUse.Add(-1)
				wake(s.room)
			})})
		}
		err := c.rpc.SendMsg(m)
		m.Free()
		if err != nil {
			// io.EOF leaves the reason to Recv. Anything else is of this side, and would leave Recv waiting.
			if !errors.Is(err, io.EOF) {
				c.cancel(err)
			}
			return
		}
	}
}

// nextStrip takes the next strip to send; end says that there will be none. Where pixels travel in the message they are
// counted as in use.
func (s *Scan) nextStrip() (req *polyscanv1.ScanLinesRequest, pixels []byte, inUse *atomic.Int32, end bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sent == s.head {
		return nil, nil, nil, s.closing
	}
	i := int(s.sent % uint64(len(s.slots)))
	slot := &s.slots[i]
	// One strip may go whatever its lines: the number of the next line may be far ahead where lines were lost.
	if slot.end > s.credit && s.sent > s.acked {
		return nil, nil, nil, false
	}
	strip := slot.strip
	// A message that went out before may still be read by its connection.
	strip = &polyscanv1.Strip{
		Sequence: strip.GetSequence(), FirstLine: strip.GetFirstLine(), PartStarts: strip.GetPartStarts(),
		PartIds: strip.GetPartIds(), LostPartIds: strip.GetLostPartIds(),
		CapturedAt: strip.GetCapturedAt(), NextResult: s.next,
		Frame: &polyscanv1.Frame{Layout: strip.GetFrame().GetLayout(), Encoding: strip.GetFrame().GetEncoding(),
			FrameId: strip.GetFrame().GetFrameId()},
	}
	if shared := s.memory.shared(i, slot.bytes); shared != nil {
		strip.Frame.Source = &polyscanv1.Frame_Shared{Shared: shared}
	} else {
		strip.Frame.Source = &polyscanv1.Frame_Data{Data: []byte{}}
		pixels = s.memory.slot(i)[:slot.bytes]
		inUse = slot.inUse
		inUse.Add(1)
	}
	s.sent++
	s.most = max(s.most, s.sent)
	return &polyscanv1.ScanLinesRequest{Message: &polyscanv1.ScanLinesRequest_Strip{Strip: strip}}, pixels, inUse, false
}

// watch ends a connection over which the server owes an acknowledgement for too long.
func (s *Scan) watch(c *scanConn) {
	tick := time.NewTicker(s.opts.Stall / 4)
	defer tick.Stop()
	var owing time.Duration // since when, on the clock of heard; 0: it owes nothing
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Since(s.start)
		s.mu.Lock()
		owes := s.sent > s.acked || s.closing
		s.mu.Unlock()
		if !owes || s.delivering.Load() {
			owing = 0
			continue
		}
		if owing == 0 {
			owing = now
		}
		if now-max(owing, time.Duration(s.heard.Load())) >= s.opts.Stall {
			c.cancel(ErrStalled)
			return
		}
	}
}
