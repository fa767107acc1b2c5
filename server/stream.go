// Streams of frames that are answered in order; and InspectionService.StreamFrames.

package server

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
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
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

// frameStream is one call of a method that takes an open message and frames, and answers these.
type frameStream struct {
	*Server
	grpc.ServerStream
	method frameMethod
	ctx    context.Context // ends with the handler

	slots  chan struct{} // one is taken by each frame that is held
	frames chan *pending // frames in the order in which they came; has room for all that have a slot
	end    chan error    // why no more come, once frames is closed: io.EOF, or an error for the client

	work  sync.WaitGroup // goroutines of frames
	users atomic.Int32   // of the handler and the receiver, those that have not ended
}

// frameMethod is what such a method does.
type frameMethod interface {
	newRequest() frameRequest
	// opens reports whether a request is an open message.
	opens(frameRequest) bool
	// open takes the open message, which has been validated.
	open(frameRequest) error
	// answer computes the answer to a frame, which has been validated and whose payload is in's. Those of several
	// frames are called at the same time; before is closed when the work on the frame before is done, however it ended.
	answer(ctx context.Context, req frameRequest, in *framecodec.Message, before <-chan struct{}) answer
	// response is the message of a number for an answer, or for a status where there is one.
	response(sequence uint64, a answer, st *spb.Status) proto.Message
	// close is called when no frame is in work any more, also where open wasn't, or failed.
	close()
}

// frameRequest is a request of a stream.
type frameRequest interface {
	proto.Message
	GetFrame() *pb.Frame
}

// pending is a frame on its way through.
type pending struct {
	answer chan answer // one; buffered
}

// answer is what comes of a frame.
type answer struct {
	res     *wire.Response // nil with err
	release func()
	err     error
}

// streamFrames is the handler of a call.
func (s *Server) streamFrames(stream grpc.ServerStream, method frameMethod) error {
	ctx, cancel := context.WithCancel(stream.Context())
	fs := &frameStream{
		Server:       s,
		ServerStream: stream,
		method:       method,
		ctx:          ctx,
		slots:        make(chan struct{}, s.cfg.StreamDepth),
		frames:       make(chan *pending, s.cfg.StreamDepth),
		end:          make(chan error, 1),
	}
	fs.users.Store(2)
	s.background.Add(1)
	go func() {
		defer s.background.Done()
		defer fs.leave()
		fs.end <- fs.receive()
		close(fs.frames)
	}()
	defer fs.leave()
	defer cancel()
	return fs.send()
}

// leave is called by the handler and by the receiver at their ends. The last one cleans up.
func (fs *frameStream) leave() {
	if fs.users.Add(-1) > 0 {
		return
	}
	fs.work.Wait()
	for p := range fs.frames { // those that nobody waits for any more
		if a := <-p.answer; a.release != nil {
			a.release()
		}
	}
	fs.method.close()
}

// send sends the answers in order. It is the handler: what it returns ends the stream.
func (fs *frameStream) send() error {
	draining := fs.draining
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
		var a answer
		select {
		case a = <-p.answer:
		case <-fs.ctx.Done():
			fs.work.Go(func() { // its answer still comes, and what it holds must go back
				if a := <-p.answer; a.release != nil {
					a.release()
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
func (fs *frameStream) receive() (err error) {
	defer func() {
		if p := recover(); p != nil { // nobody else would: this is a goroutine of its own
			err = fs.panicked(fs.ctx, p)
		}
	}()
	if err := fs.receiveOpen(); err != nil {
		return err
	}
	before := make(chan struct{})
	close(before)
	for {
		select {
		case fs.slots <- struct{}{}:
		case <-fs.ctx.Done():
			return context.Cause(fs.ctx)
		}
		select {
		case <-fs.draining: // or a client that always has another frame would keep the server from ending
			return apierr.ErrShuttingDown
		default:
		}
		req := fs.method.newRequest()
		in := framecodec.New(req)
		err := wire.ReceiveMessage(fs, in)
		if err == nil {
			err = fs.protocolError(req)
		}
		if err != nil {
			in.Free()
			return err
		}
		p := &pending{make(chan answer, 1)}
		last, done := before, make(chan struct{})
		fs.work.Go(func() {
			defer close(done)
			p.answer <- fs.workOn(req, in, last)
		})
		before = done
		fs.frames <- p // never blocks
	}
}

// receiveOpen receives the first message, which must be an open message.
func (fs *frameStream) receiveOpen() error {
	first := fs.method.newRequest()
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
	if err := fs.validate(first); err != nil {
		return err
	}
	return fs.method.open(first)
}

// protocolError ends a stream whose client does not keep to the order of messages.
func (fs *frameStream) protocolError(req frameRequest) error {
	switch {
	case fs.method.opens(req):
		return apierr.WithDetails(codes.FailedPrecondition,
			"open: came a second time; what a stream does with its frames does not change",
			apierr.Info(apierr.ReasonSecondOpen)).Err()
	case req.GetFrame() != nil:
		return nil
	}
	return apierr.Refuse("message", nil, "one of open and frame must be given")
}

// workOn computes the answer to one frame.
func (fs *frameStream) workOn(req frameRequest, in *framecodec.Message, before <-chan struct{}) (a answer) {
	fs.metrics.FramesInFlight.Inc()
	defer fs.metrics.FramesInFlight.Dec()
	defer in.Free()
	defer func() {
		if p := recover(); p != nil {
			a = answer{err: fs.panicked(fs.ctx, p)}
		}
	}()
	if err := fs.validate(in); err != nil {
		return answer{err: err}
	}
	return fs.method.answer(fs.ctx, req, in, before)
}

// sendAnswer sends one answer, and gives back what it holds.
func (fs *frameStream) sendAnswer(sequence uint64, a answer) error {
	out := &wire.Response{Start: time.Now()}
	if a.err != nil {
		if fs.ctx.Err() != nil {
			return context.Cause(fs.ctx) // it is the stream that ends, and nothing is wrong with the frame
		}
		st := apierr.StatusOf(fs.ctx, fs.log, a.err)
		fs.metrics.FrameErrors.WithLabelValues(st.Code().String()).Inc()
		out.Message = fs.method.response(sequence, answer{}, st.Proto())
	} else {
		out.Message = fs.method.response(sequence, a, nil)
		out.Start, out.Release = a.res.Start, a.release
	}
	if m, ok := out.Message.(*framecodec.Message); ok {
		defer m.Free() // the transport has references of its own
	}
	return fs.SendMsg(out)
}

func (s *inspectionServer) inspectFrames(stream grpc.ServerStream) error {
	return s.streamFrames(stream, &inspectFrames{inspectionServer: s})
}

// inspectFrames is StreamFrames.
type inspectFrames struct {
	*inspectionServer
	what *wire.Inspection // nil before the open message
	own  bool             // the set is of this stream alone
}

func (*inspectFrames) newRequest() frameRequest { return &pb.StreamFramesRequest{} }

func (*inspectFrames) opens(req frameRequest) bool {
	return req.(*pb.StreamFramesRequest).GetOpen() != nil
}

func (f *inspectFrames) open(req frameRequest) error {
	what, err := wire.NewInspection(req.(*pb.StreamFramesRequest).GetOpen(), "open", "frame", f.recipes, f.cfg.bounds())
	if err != nil {
		return err
	}
	f.own = !what.Keep
	what.Keep = true
	f.what = what
	return nil
}

func (f *inspectFrames) answer(ctx context.Context, req frameRequest, in *framecodec.Message,
	before <-chan struct{}) answer {
	res, release, err := f.reduceFrame(ctx, f.what, req.GetFrame(), in, before)
	return answer{res, release, err}
}

func (*inspectFrames) response(sequence uint64, a answer, st *spb.Status) proto.Message {
	m := &pb.StreamFramesResponse{Sequence: sequence, Outcome: &pb.StreamFramesResponse_Error{Error: st}}
	if st == nil {
		m.Outcome = &pb.StreamFramesResponse_Result{Result: a.res.Message.(*pb.FrameResult)}
	}
	return m
}

func (f *inspectFrames) close() {
	if f.own && f.what != nil {
		f.prepared.drop(f.what.Set)
	}
}
