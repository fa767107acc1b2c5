// What a session has for its client: results, events and acknowledgements, sent and to be sent.

package scan

import (
	"slices"
	"time"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// item is a result or an event for the client.
type item struct {
	event *pb.ScanEvent
	// A part, marshalled but for what is known when it is sent.
	number         uint64
	head, tail     []byte
	arrived, ready time.Time
	late           bool // when it was ready
}

// size is about what an item takes in memory.
func (i *item) size() int {
	const overhead = 256
	if i.event != nil {
		return overhead + proto.Size(i.event)
	}
	return overhead + len(i.head)
}

// report is an event for the client.
func (ss *session) report(e *pb.ScanEvent) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.push(&item{event: e})
	ss.checkUnread()
}

// push puts an item into the outbox. mu is held.
func (ss *session) push(i *item) {
	if i.event != nil {
		ss.service.Metrics.Event(i.event.GetKind())
		ss.seen.Event(i.event)
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
func (ss *session) checkUnread() {
	if ss.conn != nil && ss.unsent > ss.unread && len(ss.outbox) > leastUnread {
		ss.cut(ss.conn, errSlowConsumer)
	}
}

// leastUnread is how many results and events a client may leave unread, however large they are.
const leastUnread = 4

// forget lets go of the oldest results that were sent. What is kept for a resume must leave room for new ones. mu is
// held.
func (ss *session) forget() {
	n := 0
	for n < len(ss.sent) && ss.kept+ss.unsent > ss.unread/2 {
		ss.kept -= ss.sent[n].size()
		n++
	}
	ss.sent = slices.Delete(ss.sent, 0, n)
}

// tellSlow tells c's client that it doesn't read.
func (ss *session) tellSlow(c *call) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.conn == c {
		ss.slow()
	}
}

// slow is tellSlow with mu held, for the call that there is. The event goes in front: those behind are what is not
// read.
func (ss *session) slow() {
	if ss.told || ss.conn == nil {
		return
	}
	ss.told = true
	i := &item{event: &pb.ScanEvent{Kind: pb.ScanEventKind_SCAN_EVENT_KIND_SLOW_CONSUMER, Used: true}}
	ss.service.Metrics.Event(i.event.GetKind())
	ss.seen.Event(i.event)
	ss.outbox = slices.Insert(ss.outbox, 0, i)
	ss.unsent += i.size()
	ss.noteDue()
}

// mostBeforeAck is how many items are sent before an ack that is due.
const mostBeforeAck = 16

// next waits for something to be sent to c's client; nil says that there is nothing any more.
func (ss *session) next(c *call) any {
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
func (ss *session) take(c *call) (m any, ok bool) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.conn != c && ss.flush != c {
		return nil, true
	}
	defer func() { // the last message has been handed over when the next one is asked for
		if m == nil {
			ss.noteDue()
		}
	}()
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
			NextSequence: ss.order.done, CreditLine: ss.order.creditLine(),
		}}}, true
	case ss.finished && ss.closing:
		c.finish(ss.closeError)
		return nil, true
	}
	return nil, false
}

// sendTimes is what is known of a result when it is sent for the first time, to be merged with the rest.
func (ss *session) sendTimes(i *item) []byte {
	now := time.Now()
	latency := now.Sub(i.arrived)
	m := &pb.PartResult{
		Late:  latency > ss.budget,
		Times: &pb.PartTimes{Send: durationpb.New(now.Sub(i.ready)), Latency: durationpb.New(latency)},
	}
	ss.service.Metrics.Sent(latency, m.GetLate())
	if m.GetLate() && !i.late {
		ss.seen.Late(i.number, latency)
	}
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err) // numbers can be marshalled
	}
	return b
}
