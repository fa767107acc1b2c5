package clients

// Videos: streams of frames that are converted to low-poly pictures.

import (
	"context"
	"iter"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// Converted is what came of one frame of a video.
type Converted struct {
	// Sequence counts the frames from 0 in the order in which they were sent, which is the order of the answers.
	Sequence uint64
	// Frame is what was sent. Its bytes are the caller's again.
	Frame *polyscanv1.Frame
	// Result is the picture, and what else was asked for; nil where the frame was refused.
	Result *polyscanv1.ConvertResponse
	// Err says why the frame was refused; the stream goes on.
	Err *Error
	// Latency is the time from the call of Send to the arrival of the answer.
	Latency time.Duration
}

// VideoStream is a [Stream] of frames that are converted. [Client.ConvertFrames] uses it.
type VideoStream struct{ stream }

// OpenVideo starts a stream for a video; open, which may be nil, holds for all its frames. Close it after use. Options
// that the server refuses show at the first [VideoStream.Recv], or as the answer to a frame that they don't suit.
func (c *Client) OpenVideo(ctx context.Context, open *polyscanv1.ConvertFramesOpen, o StreamOptions) (*VideoStream,
	error) {
	if open == nil {
		open = &polyscanv1.ConvertFramesOpen{}
	}
	s := &VideoStream{}
	err := s.open(ctx, o,
		func(ctx context.Context) (grpc.ClientStream, error) { return c.LowPoly.ConvertFrames(ctx, frames) },
		&polyscanv1.ConvertFramesRequest{Message: &polyscanv1.ConvertFramesRequest_Open{Open: open}},
		func(f *polyscanv1.Frame) proto.Message {
			return &polyscanv1.ConvertFramesRequest{Message: &polyscanv1.ConvertFramesRequest_Frame{Frame: f}}
		})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Recv waits for the next answer. It returns io.EOF after CloseSend and the last answer.
func (s *VideoStream) Recv() (*Converted, error) {
	res := &polyscanv1.ConvertFramesResponse{}
	f, latency, err := s.recv(res)
	if err != nil {
		return nil, err
	}
	a := &Converted{Sequence: res.GetSequence(), Frame: f, Latency: latency}
	switch o := res.GetOutcome().(type) {
	case *polyscanv1.ConvertFramesResponse_Result:
		a.Result = o.Result
	case *polyscanv1.ConvertFramesResponse_Error:
		a.Err = fromProto(o.Error)
	default:
		return nil, s.empty(a.Sequence)
	}
	return a, nil
}

// ConvertFrames makes low-poly pictures of the frames of a video. Vertices and colours stay where the picture does, so
// that it doesn't flicker. Frames and answers go as in [Client.StreamFrames].
func (c *Client) ConvertFrames(
	ctx context.Context, open *polyscanv1.ConvertFramesOpen, frames iter.Seq2[*polyscanv1.Frame, error],
	o StreamOptions,
) iter.Seq2[*Converted, error] {
	return func(yield func(*Converted, error) bool) {
		s, err := c.OpenVideo(ctx, open, o)
		if err != nil {
			yield(nil, err)
			return
		}
		exchange(&s.stream, frames, s.Recv, yield)
	}
}
