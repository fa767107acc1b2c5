// Streams of frames that are answered in order.

package framestream

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/polygon"
	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/events"
	"github.com/polyscan/polyscan/server/internal/observe"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// A stream holds Config.StreamDepth frames at most, counted from the moment when one is about to be received until its
// answer has been handed to the transport:
//
//	receive --(a goroutine a frame: decode, upload, compute)--> send
//
// The handler sends, in the order in which frames came. Receiving is another goroutine's work, because only that way
// can the stream end while the client is silent. When the client doesn't read answers, sending blocks, nothing more is
// received, and flow control stops the client.

// Host is what a stream needs of the server.
type Host interface {
	wire.StreamHost
	// Status is what a client gets for an error.
	Status(ctx context.Context, err error) *status.Status
}

// Streams runs calls of methods that take an open message and frames, and answer these. All its fields must be
// set.
type Streams struct {
	Host    Host
	Depth   int // frames that a call holds
	Metrics *observe.Metrics
}

// call is one call.
type call struct {
	grpc.ServerStream
	host    Host
	metrics *observe.Metrics
	method  Method
	ctx     context.Context // ends with the handler

	slots  chan struct{} // one is taken by each frame that is held
	frames chan *pending // frames in the order in which they came; has room for all that have a slot
	end    chan error    // why no more come, once frames is closed: io.EOF, or an error for the client

	work  sync.WaitGroup // goroutines of frames
	users atomic.Int32   // of the handler and the receiver, those that have not ended
}

// Method is what such a method does.
type Method interface {
	NewRequest() Request
	// Opens reports whether a request is an open message.
	Opens(Request) bool
	// Open takes the open message, which has been validated.
	Open(Request) error
	// Answer computes the answer to the frame of a number, which has been validated and whose payload is in's. Those of
	// several frames are called at the same time; before is closed when the work on the frame before is done, however it
	// ended.
	Answer(ctx context.Context, sequence uint64, req Request, in *framecodec.Message, before <-chan struct{}) Answer
	// Response is the message of a number for an answer, or for a status where there is one.
	Response(sequence uint64, a Answer, st *spb.Status) proto.Message
	// Close is called when no frame is in work any more, also where open wasn't, or failed.
	Close()
}

// Watched is a method whose answers others see, too.
type Watched interface {
	// Answered is called, in any order, when the answer to a frame is ready: took is the time since it came.
	Answered(sequence uint64, f *pb.Frame, a Answer, took time.Duration)
}

// Request is a request of a stream.
type Request interface {
	proto.Message
	GetFrame() *pb.Frame
}

// pending is a frame on its way through.
type pending struct {
	answer chan Answer // one; buffered
}

// Answer is what comes of a frame.
type Answer struct {
	Response *wire.Response  // nil with Err
	Numbers  *polygon.Result // for those who watch, of a method that is Watched
	Picture  *events.Picture // for the history, where that wants one
	Release  func()          // gives memory back; nil with Err
	Err      error
}

// Serve is the handler of a call.
func (s *Streams) Serve(stream grpc.ServerStream, method Method) error {
	ctx, cancel := context.WithCancel(stream.Context())
	fs := &call{
		ServerStream: stream,
		host:         s.Host,
		metrics:      s.Metrics,
		method:       method,
		ctx:          ctx,
		slots:        make(chan struct{}, s.Depth),
		frames:       make(chan *pending, s.Depth),
		end:          make(chan error, 1),
	}
	fs.users.Store(2)
	s.Host.Go(func() {
		defer fs.leave()
		fs.end <- fs.receive()
		close(fs.frames)
	})
	defer fs.leave()
	defer cancel()
	return fs.send()
}

// leave is called by the handler and by the receiver at their ends. The last one cleans up.
func (fs *call) leave() {
	if fs.users.Add(-1) > 0 {
		return
	}
	fs.work.Wait()
	for p := range fs.frames { // those that nobody waits for any more
		if a := <-p.answer; a.Release != nil {
			a.Release()
		}
	}
	fs.method.Close()
}

// send sends the answers in order. It is the handler: what it returns ends the stream.
func (fs *call) send() error {
	draining := fs.host.Draining()
	for sequence := uint64(0); ; sequence++ {
		var p *pending
		select {
		case p = <-fs.frames:
		case <-draining:
			// What has come is answered.
			select {
			case p = <-fs.frames:
			default:
				return apierr.ErrShuttingDown
			}
		case <-fs.ctx.Done():
			return context.Cause(fs.ctx)
		}
		if p == nil { // closed
			if err := <-fs.end; !errors.Is(err, io.EOF) {
				return err
			}
			return nil
		}
		var a Answer
		select {
		case a = <-p.answer:
		case <-fs.ctx.Done():
			fs.work.Go(func() { // its answer still comes, and what it holds must go back
				if a := <-p.answer; a.Release != nil {
					a.Release()
				}
			})
			return context.Cause(fs.ctx)
		}
		err := fs.sendAnswer(sequence, a)
		<-fs.slots
		if err != nil {
			return err
		}
	}
}

// receive receives the open message and then frames, and starts the work on them, until the stream ends, and says why.
func (fs *call) receive() (err error) {
	defer func() {
		if p := recover(); p != nil { // nobody else would: this is a goroutine of its own
			err = fs.host.Panicked(fs.ctx, p)
		}
	}()
	if err := fs.receiveOpen(); err != nil {
		return err
	}
	before := make(chan struct{})
	close(before)
	watched, _ := fs.method.(Watched)
	for sequence := uint64(0); ; sequence++ {
		select {
		case fs.slots <- struct{}{}:
		case <-fs.ctx.Done():
			return context.Cause(fs.ctx)
		}
		select {
		case <-fs.host.Draining(): // or a client that always has another frame would keep the server from ending
			return apierr.ErrShuttingDown
		default:
		}
		req := fs.method.NewRequest()
		in := framecodec.New(req)
		err := wire.ReceiveMessage(fs, in)
		if err == nil {
			err = fs.protocolError(req)
		}
		if err != nil {
			in.Free()
			return err
		}
		arrived := time.Now()
		p := &pending{make(chan Answer, 1)}
		last, done := before, make(chan struct{})
		fs.frames <- p // never blocks; before the work begins, or a server that shuts down could miss a frame in work
		fs.work.Go(func() {
			defer close(done)
			a := fs.workOn(sequence, req, in, last)
			if watched != nil && fs.ctx.Err() == nil {
				if a.Err != nil {
					a.Err = fs.host.Status(fs.ctx, a.Err).Err()
				}
				fs.tell(watched, sequence, req.GetFrame(), a, time.Since(arrived))
			} else {
				a.Picture.Release()
			}
			p.answer <- a
		})
		before = done
	}
}

// tell has others see an answer. A panic there is none of the client's, who gets the answer all the same.
func (fs *call) tell(w Watched, sequence uint64, f *pb.Frame, a Answer, took time.Duration) {
	defer func() {
		if p := recover(); p != nil { // nobody else would
			_ = fs.host.Panicked(fs.ctx, p)
		}
	}()
	w.Answered(sequence, f, a, took)
}

// receiveOpen receives the first message, which must be an open message.
func (fs *call) receiveOpen() error {
	first := fs.method.NewRequest()
	in := framecodec.New(first)
	defer in.Free()
	if err := wire.ReceiveMessage(fs, in); err != nil {
		if errors.Is(err, io.EOF) {
			return apierr.WithDetails(codes.FailedPrecondition, "the stream ended before its open message",
				apierr.Info(apierr.ReasonFrameOutOfOrder)).Err()
		}
		return err
	}
	if first.GetFrame() != nil {
		return apierr.WithDetails(codes.FailedPrecondition, "frame: came before open, which must be the first message",
			apierr.Info(apierr.ReasonFrameOutOfOrder)).Err()
	}
	if err := fs.host.Validate(fs.ctx, first); err != nil {
		return err
	}
	return fs.method.Open(first)
}

// protocolError ends a stream whose client does not keep to the order of messages.
func (fs *call) protocolError(req Request) error {
	switch {
	case fs.method.Opens(req):
		return apierr.WithDetails(codes.FailedPrecondition,
			"open: came a second time; what a stream does with its frames does not change",
			apierr.Info(apierr.ReasonSecondOpen)).Err()
	case req.GetFrame() != nil:
		return nil
	}
	return apierr.Refuse("message", nil, "one of open and frame must be given")
}

// workOn computes the answer to one frame.
func (fs *call) workOn(sequence uint64, req Request, in *framecodec.Message, before <-chan struct{}) (a Answer) {
	fs.metrics.FramesInFlight.Inc()
	defer fs.metrics.FramesInFlight.Dec()
	defer in.Free()
	defer func() {
		if p := recover(); p != nil {
			a = Answer{Err: fs.host.Panicked(fs.ctx, p)}
		}
	}()
	if err := fs.host.Validate(fs.ctx, in); err != nil {
		return Answer{Err: err}
	}
	return fs.method.Answer(fs.ctx, sequence, req, in, before)
}

// sendAnswer sends one answer, and gives back what it holds.
func (fs *call) sendAnswer(sequence uint64, a Answer) error {
	out := &wire.Response{Start: time.Now()}
	if a.Err != nil {
		if fs.ctx.Err() != nil {
			return context.Cause(fs.ctx) // it is the stream that ends, and nothing is wrong with the frame
		}
		st := fs.host.Status(fs.ctx, a.Err)
		fs.metrics.FrameErrors.WithLabelValues(st.Code().String()).Inc()
		out.Message = fs.method.Response(sequence, Answer{}, st.Proto())
	} else {
		out = a.Response
		out.Release, out.Message = a.Release, fs.method.Response(sequence, a, nil)
	}
	if m, ok := out.Message.(*framecodec.Message); ok {
		defer m.Free() // the transport has references of its own
	}
	return fs.SendMsg(out)
}
