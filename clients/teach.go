package clients

// Teaching and trying: many frames, one answer.

import (
	"context"
	"errors"
	"io"
	"iter"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/proto/framecodec"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// Labeled is a frame with what is known of the part on it.
type Labeled struct {
	Frame *polyscanv1.Frame
	Label polyscanv1.FrameLabel
}

// Teach learns limits from frames of good parts and returns a recipe with them, and how it judges each of the frames.
// The server stores nothing. The iterator runs in the caller's goroutine; an error that it yields ends the call. A
// frame that the server can't use ends it, too.
func (c *Client) Teach(ctx context.Context, open *polyscanv1.TeachOpen,
	labeled iter.Seq2[Labeled, error]) (*polyscanv1.TeachResponse, error) {
	res := &polyscanv1.TeachResponse{}
	err := c.sendFrames(ctx, polyscanv1.TeachService_Teach_FullMethodName,
		&polyscanv1.TeachRequest{Message: &polyscanv1.TeachRequest_Open{Open: open}},
		func(l Labeled) proto.Message {
			return &polyscanv1.TeachRequest{Message: &polyscanv1.TeachRequest_Frame{Frame: l.Frame}, Label: l.Label}
		}, labeled, res)
	if err != nil {
		return nil, err
	}
	return res, nil
}

// Try judges frames by a recipe before it is used, and by another beside it where open names one. Frames and errors are
// as with [Client.Teach].
func (c *Client) Try(ctx context.Context, open *polyscanv1.TryOpen,
	labeled iter.Seq2[Labeled, error]) (*polyscanv1.TryResponse, error) {
	res := &polyscanv1.TryResponse{}
	err := c.sendFrames(ctx, polyscanv1.TeachService_Try_FullMethodName,
		&polyscanv1.TryRequest{Message: &polyscanv1.TryRequest_Open{Open: open}},
		func(l Labeled) proto.Message {
			return &polyscanv1.TryRequest{Message: &polyscanv1.TryRequest_Frame{Frame: l.Frame}, Label: l.Label}
		}, labeled, res)
	if err != nil {
		return nil, err
	}
	return res, nil
}

// sendFrames makes a call that sends an open message and frames, and gets one answer. Flow control holds it back to the
// pace of the server.
func (c *Client) sendFrames(ctx context.Context, method string, open proto.Message, message func(Labeled) proto.Message,
	labeled iter.Seq2[Labeled, error], res proto.Message) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // a call that isn't finished leaves nothing
	stream, err := c.cc.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, method, frames)
	if err != nil {
		return wrap(err)
	}
	err = stream.SendMsg(open)
	for l, ferr := range labeled {
		if ferr != nil {
			return ferr
		}
		if err != nil {
			break
		}
		err = stream.SendMsg(framecodec.New(message(l)))
	}
	// io.EOF means that the server has answered already; RecvMsg has the reason.
	if err != nil && !errors.Is(err, io.EOF) {
		return wrap(err)
	}
	if err := stream.CloseSend(); err != nil {
		return wrap(err)
	}
	return wrap(stream.RecvMsg(res))
}
