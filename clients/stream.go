package clients

// Streams: frame after frame over one call, with a bounded number of them on the way.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/proto/framecodec"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// defaultWindow is how many frames of a stream are on the way at most, unless told otherwise: enough for one to travel,
// one to wait and two to be computed.
const defaultWindow = 4

// StreamOptions adjust a stream. The zero value is fine.
type StreamOptions struct {
	// Window is how many frames may be sent and not yet answered; 0 means 4. It bounds the memory that
	// frames hold on this side; the server has a bound of its own.
	Window int
}

// Answer is what came of one frame of a stream.
type Answer struct {
	// Sequence counts the frames from 0 in the order in which they were sent, which is the order of the answers.
	Sequence uint64
	// Frame is what was sent. Its bytes are the caller's again.
	Frame *polyscanv1.Frame
	// Result holds the numbers; nil where the frame was refused.
	Result *polyscanv1.FrameResult
	// Err says why the frame was refused; the stream goes on.
	Err *Error
	// Latency is the time from the call of Send to the arrival of the answer.
	Latency time.Duration
}

// ErrStreamEnded is returned by [Stream.Send], and by the methods that change a [Canvas], when the stream has ended;
// [Stream.Recv] and [Canvas.Recv] say why.
var ErrStreamEnded = errors.New("clients: the stream has ended")

// Stream sends frames and receives answers. One goroutine may send while another receives; a program that does both in
// one has to receive before it sends more than the window. [Client.StreamFrames] does all this.
type Stream struct{ stream }

// stream is a call that sends frames and receives answers, of one kind or another.
type stream struct {
	rpc     grpc.ClientStream
	request func(*polyscanv1.Frame) proto.Message
	ctx     context.Context
	cancel  context.CancelFunc
	window  chan struct{} // a token for each frame on the way

	mu      sync.Mutex
	pending []sent // frames on the way, oldest first
	next    uint64 // sequence of the next answer
}

type sent struct {
	frame *polyscanv1.Frame
	at    time.Time
}

// open starts the call and sends the open message; request is the message of a frame.
func (s *stream) open(
	ctx context.Context, o StreamOptions, call func(context.Context) (grpc.ClientStream, error), open proto.Message,
	request func(*polyscanv1.Frame) proto.Message,
) error {
	if o.Window < 0 {
		return fmt.Errorf("clients: window %d: must not be negative", o.Window)
	}
	if o.Window == 0 {
		o.Window = defaultWindow
	}
	s.ctx, s.cancel = context.WithCancel(ctx)
	rpc, err := call(s.ctx)
	if err != nil {
		s.cancel()
		return wrap(err)
	}
	s.rpc, s.request, s.window = rpc, request, make(chan struct{}, o.Window)
	// io.EOF means that the server has answered already; Recv has the reason.
	if err := rpc.SendMsg(open); err != nil && !errors.Is(err, io.EOF) {
		s.cancel()
		return wrap(err)
	}
	return nil
}

// OpenStream starts a stream for an inspection, which holds for all its frames. Close it after use.
// An inspection that the server refuses shows at the first [Stream.Recv].
func (c *Client) OpenStream(ctx context.Context, in *polyscanv1.Inspection, o StreamOptions) (*Stream, error) {
	s := &Stream{}
	err := s.open(ctx, o,
		func(ctx context.Context) (grpc.ClientStream, error) { return c.Inspection.StreamFrames(ctx, frames) },
		&polyscanv1.StreamFramesRequest{Message: &polyscanv1.StreamFramesRequest_Open{Open: in}},
		func(f *polyscanv1.Frame) proto.Message {
			return &polyscanv1.StreamFramesRequest{Message: &polyscanv1.StreamFramesRequest_Frame{Frame: f}}
		})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Send sends a frame. It waits while the window is full, and while the server can't take more. The frame and its bytes
// must not change until its answer has come.
func (s *stream) Send(f *polyscanv1.Frame) error { return s.send(f, s.request(f)) }

// SendAt is Send for a frame whose part has a pose, which goes before that of the inspection.
func (s *Stream) SendAt(f *polyscanv1.Frame, pose *polyscanv1.Pose) error {
	return s.send(f, &polyscanv1.StreamFramesRequest{Message: &polyscanv1.StreamFramesRequest_Frame{Frame: f}, Pose: pose})
}

func (s *stream) send(f *polyscanv1.Frame, request proto.Message) error {
	if s.ctx.Err() != nil { // the select below would choose by chance
		return ErrStreamEnded
	}
	select {
	case s.window <- struct{}{}:
	case <-s.rpc.Context().Done():
		return ErrStreamEnded
	}
	s.mu.Lock()
	s.pending = append(s.pending, sent{f, time.Now()})
	s.mu.Unlock()
	err := s.rpc.SendMsg(framecodec.New(request))
	if errors.Is(err, io.EOF) {
		return ErrStreamEnded
	}
	return wrap(err)
}

// CloseSend says that no frame follows; answers to those on the way still come.
func (s *stream) CloseSend() error { return wrap(s.rpc.CloseSend()) }

// Close ends the stream and gives up what is on the way. Calls after the first do nothing.
func (s *stream) Close() { s.cancel() }

// recv waits for the next answer, and returns what it is for.
func (s *stream) recv(res interface {
	proto.Message
	GetSequence() uint64
}) (f *polyscanv1.Frame, latency time.Duration, err error) {
	if err := s.rpc.RecvMsg(res); err != nil {
		return nil, 0, wrap(err)
	}
	now := time.Now()
	s.mu.Lock()
	if len(s.pending) == 0 || res.GetSequence() != s.next {
		n := len(s.pending)
		s.mu.Unlock()
		s.cancel()
		return nil, 0, fmt.Errorf("clients: the server answered frame %d, expected frame %d of %d on the way",
			res.GetSequence(), s.next, n)
	}
	first := s.pending[0]
	s.pending[0] = sent{}
	s.pending = s.pending[1:]
	s.next++
	s.mu.Unlock()
	<-s.window
	return first.frame, now.Sub(first.at), nil
}

// empty ends a stream whose server has answered with nothing.
func (s *stream) empty(sequence uint64) error {
	s.cancel()
	return fmt.Errorf("clients: the server's answer to frame %d holds neither a result nor an error", sequence)
}

// Recv waits for the next answer. It returns io.EOF after CloseSend and the last answer.
func (s *Stream) Recv() (*Answer, error) {
	res := &polyscanv1.StreamFramesResponse{}
	f, latency, err := s.recv(res)
	if err != nil {
		return nil, err
	}
	a := &Answer{Sequence: res.GetSequence(), Frame: f, Latency: latency}
	switch o := res.GetOutcome().(type) {
	case *polyscanv1.StreamFramesResponse_Result:
		a.Result = o.Result
	case *polyscanv1.StreamFramesResponse_Error:
		a.Err = fromProto(o.Error)
	default:
		return nil, s.empty(a.Sequence)
	}
	return a, nil
}

// StreamFrames sends the frames of an iterator and yields their answers in order. A frame that the server refuses is an
// answer with Err; the stream goes on. What ends the stream, and an error that frames yields, comes last, as the error
// of a nil answer.
//
// The iterator of frames runs in a goroutine of its own, at most Window frames ahead of the answers. It is over when
// the loop over the answers is; breaking out of that loop gives up the frames on the way and waits for the iterator to
// return.
func (c *Client) StreamFrames(ctx context.Context, in *polyscanv1.Inspection,
	frames iter.Seq2[*polyscanv1.Frame, error], o StreamOptions) iter.Seq2[*Answer, error] {
	return func(yield func(*Answer, error) bool) {
		s, err := c.OpenStream(ctx, in, o)
		if err != nil {
			yield(nil, err)
			return
		}
		exchange(&s.stream, frames, s.Recv, yield)
	}
}

// exchange sends frames and yields answers, as [Client.StreamFrames] says, and closes the stream.
func exchange[A any](s *stream, frames iter.Seq2[*polyscanv1.Frame, error], recv func() (*A, error),
	yield func(*A, error) bool) {
	defer s.Close()
	var source error
	ended := false // before all frames were sent
	done := make(chan struct{})
	go func() {
		defer close(done)
		for f, err := range frames {
			if err != nil {
				source = err
				break
			}
			if err := s.Send(f); err != nil {
				// ErrStreamEnded leaves the reason to recv. Anything else is of this side (a frame larger than
				// gRPC takes) and would leave recv waiting.
				if ended = errors.Is(err, ErrStreamEnded); !ended {
					source = err
				}
				break
			}
		}
		// Whatever ended the frames, those on the way get their answers.
		if err := s.CloseSend(); err != nil && source == nil {
			source = err
		}
	}()
	for {
		a, err := recv()
		if err == nil {
			if yield(a, nil) {
				continue
			}
			s.Close()
			<-done
			return
		}
		if !errors.Is(err, io.EOF) {
			s.Close()
			<-done
			yield(nil, err)
			return
		}
		<-done
		s.mu.Lock()
		ended = ended || len(s.pending) > 0
		s.mu.Unlock()
		if source == nil && ended {
			source = errors.New("clients: the server ended the stream before it had answered all frames")
		}
		if source != nil {
			yield(nil, source)
		}
		return
	}
}
