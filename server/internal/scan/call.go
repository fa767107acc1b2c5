// LineScanService: calls of ScanLines, which come and go while the session stays.

package scan

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/polyscan/polyscan/internal/steady"
	"github.com/polyscan/polyscan/polygon"
	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/auth"
	"github.com/polyscan/polyscan/server/internal/device"
	"github.com/polyscan/polyscan/server/internal/events"
	"github.com/polyscan/polyscan/server/internal/frames"
	"github.com/polyscan/polyscan/server/internal/observe"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// Host is what the service needs of the server.
type Host interface {
	wire.Host
	// WaitForDevice is Acquire once the device is there.
	WaitForDevice(ctx context.Context) (device.Lease, error)
	// Backend is the name of what computes.
	Backend() string
}

// Config is what the service works with. All of it must be set.
type Config struct {
	Host            Host
	Frames          *frames.Reader
	Metrics         *observe.Scan
	Recipes         wire.Recipes
	Events          *events.Bus
	Log             *slog.Logger
	Bounds          polygon.Bounds // of sets of regions
	MaxMessageBytes int64
	HostBytes       int64         // that the strips of a session may take
	Sessions        int           // that there may be
	CreditBytes     int           // of strips that a client may have under way
	UnreadBytes     int           // of results and events that a client may leave unread
	Parts           int           // of a session that may be under way
	ResumeWindow    time.Duration // how long a session outlives its connection
	DrainTime       time.Duration // how long clients may go on when the server shuts down
}

// Service answers the calls of LineScanService.
type Service struct {
	pb.UnimplementedLineScanServiceServer
	Config
	scans *sessions
}

func New(cfg Config) *Service {
	return &Service{Config: cfg, scans: newSessions(cfg.Sessions)}
}

// CutOff says that the client of a session was cut off, and its call has not ended.
func (s *Service) CutOff(token []byte) bool {
	ss := s.scans.find(token)
	if ss == nil {
		return false
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.flush != nil
}

// Close ends all sessions and waits for them.
func (s *Service) Close() { s.scans.close() }

// Desc is the generated description of the service with a handler that doesn't copy strips.
func Desc() *grpc.ServiceDesc {
	return wire.WithHandlers(pb.LineScanService_ServiceDesc, nil, map[string]grpc.StreamHandler{
		"ScanLines": func(srv any, stream grpc.ServerStream) error { return srv.(*Service).scanLines(stream) },
	})
}

// A call has three goroutines, and its session has one of its own:
//
//	receive --(queue)--> session: upload, compute --(outbox)--> send
//
// The handler waits for what ends the call: so it can be ended while the client neither sends nor reads. Receiving
// never waits for anything behind it, because the queue is bounded by the client's credit and the outbox by what a
// client may leave unread; a client that goes beyond either is cut off.

// call is a call of ScanLines.
type call struct {
	grpc.ServerStream
	service *Service
	ctx     context.Context // ends with the handler
	cancel  context.CancelFunc

	attached chan *session // the session, once; buffered
	gone     atomic.Bool   // the handler has returned
	wake     chan struct{} // there may be something to send; buffered
	end      chan error    // what the call ends with; buffered, the first one counts
	opened   func()        // says that the session is open, or will not be
	once     sync.Once
	sending  atomic.Int64 // when the message was handed over that the transport has not taken; 0 where there is none
	heard    atomic.Int64 // when the last strip came
}

const (
	// slowNotice is how long the transport may refuse a message before the client is called slow, and slowLimit before
	// it is cut off.
	slowNotice = time.Second
	slowLimit  = 10 * time.Second
	slowCheck  = 100 * time.Millisecond
	// cutOffQuiet is how long a client that was cut off must have been silent before its call ends.
	cutOffQuiet = 200 * time.Millisecond
)

func (s *Service) scanLines(stream grpc.ServerStream) error {
	c := &call{
		ServerStream: stream, service: s,
		attached: make(chan *session, 1), wake: make(chan struct{}, 1), end: make(chan error, 1),
	}
	opened, err := auth.FromContext(stream.Context()).Take(auth.Openings, 1)
	if err != nil {
		return err
	}
	c.opened = sync.OnceFunc(opened)
	defer c.opened()
	defer s.Frames.Work.LineScan()() // while a strip may come, a place is kept free
	c.ctx, c.cancel = context.WithCancel(stream.Context())
	s.Host.Go(func() {
		defer c.recover()
		if err := c.receive(); err != nil {
			c.finish(err)
		}
	})
	err = c.wait()
	c.cancel()
	c.gone.Store(true)
	if ss := c.session(); ss != nil {
		ss.detach(c, err == nil || errors.Is(err, apierr.ErrShuttingDown))
	}
	return err
}

// finish ends the call. The first error counts; nil ends it well.
func (c *call) finish(err error) { c.once.Do(func() { c.end <- err }) }

// recover is deferred by the goroutines of the call.
func (c *call) recover() {
	if p := recover(); p != nil {
		c.finish(c.service.Host.Panicked(c.ctx, p))
	}
}

// wait waits for the end of the call.
func (c *call) wait() error {
	tick := time.NewTicker(slowCheck)
	defer tick.Stop()
	draining := c.service.Host.Draining()
	var grace <-chan time.Time
	last := false
	for {
		select {
		case err := <-c.end:
			return err
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		case <-draining:
			draining = nil
			ss := c.session()
			if ss == nil {
				return apierr.ErrShuttingDown
			}
			ss.report(&pb.ScanEvent{Kind: pb.ScanEventKind_SCAN_EVENT_KIND_DRAINING, Used: true})
			grace = time.After(c.service.DrainTime)
		case <-grace:
			if last {
				return apierr.ErrShuttingDown
			}
			// The client goes on. What has come is finished, in as much time again.
			last = true
			c.session().close(apierr.ErrShuttingDown)
			grace = time.After(c.service.DrainTime)
		case <-tick.C:
			if ss := c.session(); ss != nil && steady.Now()-c.heard.Load() > int64(cutOffQuiet) {
				if err := ss.cutOffError(c); err != nil {
					return err
				}
			}
			since := c.sending.Load()
			if since == 0 {
				continue
			}
			switch blocked := steady.Now() - since; {
			case blocked > int64(slowLimit):
				c.session().cutOff(c, errSlowConsumer)
			case blocked > int64(slowNotice):
				c.session().tellSlow(c)
			}
		}
	}
}

// session is that of the call, or nil before there is one.
func (c *call) session() *session {
	select {
	case ss := <-c.attached:
		c.attached <- ss
		return ss
	default:
		return nil
	}
}

// receive receives until the client has nothing more to say, or an error ends the call.
func (c *call) receive() error {
	ss, opened, err := c.receiveFirst()
	c.opened()
	if err != nil {
		return err
	}
	c.attached <- ss
	if c.gone.Load() {
		ss.detach(c, false)
		return nil
	}
	c.service.Host.Go(func() {
		defer c.recover()
		c.send(ss, opened)
	})
	for {
		req := &pb.ScanLinesRequest{}
		in := framecodec.New(req)
		err := wire.ReceiveMessage(c, in)
		if err == nil && req.GetStrip() == nil {
			err = apierr.WithDetails(codes.FailedPrecondition, "message: must be a strip: the session is open",
				apierr.Info(apierr.ReasonSecondOpen)).Err()
		}
		if err != nil {
			in.Free()
			if errors.Is(err, io.EOF) {
				ss.closeBy(c)
				return nil
			}
			return err
		}
		arrived := time.Now()
		c.heard.Store(steady.Now())
		if ss.cutOffError(c) != nil {
			in.Free()
			time.Sleep(discardPause)
			continue
		}
		x := ss.newStrip(c.ctx, req, in, arrived)
		if isUnknownLease(x.err) {
			// As a rule the connection is breaking, and the lease has gone first. The client has the pixels yet, and
			// sends them again when it resumes, with another lease.
			return apierr.WithDetails(codes.Unavailable, status.Convert(x.err).Message(),
				apierr.Info(apierr.ReasonUnknownLease)).Err()
		}
		ss.arrive(c, x)
	}
}

// isUnknownLease says that pixels were to be in shared memory that is not leased, or not any more.
func isUnknownLease(err error) bool {
	s, ok := status.FromError(err)
	if !ok || s.Code() != codes.NotFound {
		return false
	}
	for _, d := range s.Details() {
		if i, ok := d.(*errdetails.ErrorInfo); ok && i.GetReason() == apierr.ReasonUnknownLease {
			return true
		}
	}
	return false
}

// discardPause is what dropping a strip of a client that was cut off takes at least, so that it costs little.
const discardPause = time.Millisecond

// receiveFirst opens or resumes a session and makes this its call.
func (c *call) receiveFirst() (*session, *pb.ScanOpened, error) {
	req := &pb.ScanLinesRequest{}
	in := framecodec.New(req)
	defer in.Free()
	if err := wire.ReceiveMessage(c, in); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil, apierr.WithDetails(codes.FailedPrecondition, "the stream ended before open or resume",
				apierr.Info(apierr.ReasonFrameOutOfOrder)).Err()
		}
		return nil, nil, err
	}
	if req.GetStrip() != nil {
		return nil, nil, apierr.WithDetails(codes.FailedPrecondition,
			"strip: came before open or resume, one of which must be the first message",
			apierr.Info(apierr.ReasonFrameOutOfOrder)).Err()
	}
	if err := c.service.Host.Validate(c.ctx, req); err != nil {
		return nil, nil, err
	}
	if resume := req.GetResume(); resume != nil {
		ss := c.service.scans.find(resume.GetSessionToken())
		if ss == nil || !auth.FromContext(c.ctx).Owns(ss.owner.Tenant) {
			return nil, nil, errUnknownSession
		}
		opened, err := ss.attach(c, resume.GetNextResult())
		return ss, opened, err
	}
	ss, err := c.service.openScan(c.ctx, req.GetOpen())
	if err != nil {
		return nil, nil, err
	}
	opened, err := ss.attach(c, 0)
	if err != nil {
		ss.drop()
	}
	return ss, opened, err
}

// send sends what the session has for the client.
func (c *call) send(ss *session, opened *pb.ScanOpened) {
	var m any = &pb.ScanLinesResponse{Message: &pb.ScanLinesResponse_Opened{Opened: opened}}
	for {
		c.sending.Store(steady.Now())
		err := c.SendMsg(m)
		c.sending.Store(0)
		if err != nil {
			c.finish(err)
			return
		}
		if m = ss.next(c); m == nil {
			return
		}
	}
}

// encodedPart is a ScanLinesResponse with a part result, which is the concatenation of head and tail.
func encodedPart(head, tail []byte) wire.Encoded {
	b := protowire.AppendTag(nil, 3, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(len(head)+len(tail)))
	return wire.Encoded{mem.SliceBuffer(b), mem.SliceBuffer(head), mem.SliceBuffer(tail)}
}
