package clients

// Resident frames: uploaded once, used in many calls.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/polyscan/polyscan/proto/framecodec"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// Resident makes the message for a frame that the server keeps, by the name that [Client.PutFrame] or
// [Client.UploadFrame] returned. Calls and streams take it like any other frame, and nothing is sent.
func Resident(name string) *polyscanv1.Frame {
	return &polyscanv1.Frame{Source: &polyscanv1.Frame_Resident{Resident: name}}
}

// PutFrame keeps a frame on the server's device. It goes when it is released, when nobody has used it for the idle
// timeout (0 means the server's default), or when the device needs its memory while nobody uses it; calls that name it
// get NOT_FOUND then. See the package comment for who owns the pixels.
func (c *Client) PutFrame(ctx context.Context, f *polyscanv1.Frame, idle time.Duration) (*polyscanv1.ResidentFrame,
	error) {
	req := framecodec.New(&polyscanv1.PutFrameRequest{Frame: f, IdleTimeout: idleTimeout(idle)})
	res := &polyscanv1.PutFrameResponse{}
	if err := c.cc.Invoke(ctx, polyscanv1.FrameService_PutFrame_FullMethodName, req, res, frames); err != nil {
		return nil, wrap(err)
	}
	return res.GetFrame(), nil
}

func idleTimeout(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// Pieces of an upload: large enough that a message costs little, and so many that reading, sending and the device
// overlap.
const (
	uploadPiece  = 1 << 20
	uploadPieces = 4
)

// UploadFrame is [Client.PutFrame] for raw pixels of any number, read from a stream: [Raw.Bytes] of them, and no more.
// A few MiB are in memory at a time. It is an error if the stream ends early, or fails; then the server keeps nothing.
func (c *Client) UploadFrame(ctx context.Context, r Raw, pixels io.Reader,
	idle time.Duration) (*polyscanv1.ResidentFrame, error) {
	total, err := r.Bytes()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // a stream that isn't finished leaves nothing
	desc := &grpc.StreamDesc{ClientStreams: true}
	stream, err := c.cc.NewStream(ctx, desc, polyscanv1.FrameService_UploadFrame_FullMethodName, frames)
	if err != nil {
		return nil, wrap(err)
	}
	free := make(chan []byte, uploadPieces)
	for range uploadPieces {
		free <- nil
	}
	req := &polyscanv1.UploadFrameRequest{Frame: r.Frame(nil), IdleTimeout: idleTimeout(idle)}
send:
	for left := total; left > 0; {
		var b []byte
		select {
		case b = <-free: // when the transport is done with an earlier piece
		case <-stream.Context().Done():
			break send // RecvMsg says why
		}
		if b == nil {
			b = make([]byte, min(uploadPiece, total))
		}
		n, err := io.ReadFull(pixels, b[:min(int64(len(b)), left)])
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = fmt.Errorf("the pixels end after %d of %d bytes: %w", total-left+int64(n), total,
					io.ErrUnexpectedEOF)
			}
			return nil, err
		}
		left -= int64(n)
		req.Frame.Source = &polyscanv1.Frame_Data{}
		m := framecodec.New(req)
		m.SetPayload(mem.BufferSlice{framecodec.NewBuffer(b[:n], func() { free <- b })})
		err = stream.SendMsg(m)
		m.Free()
		if errors.Is(err, io.EOF) {
			break // likewise
		}
		if err != nil {
			return nil, wrap(err)
		}
		req = &polyscanv1.UploadFrameRequest{Frame: &polyscanv1.Frame{}}
	}
	res := &polyscanv1.UploadFrameResponse{}
	if err := stream.CloseSend(); err != nil {
		return nil, wrap(err)
	}
	if err := stream.RecvMsg(res); err != nil {
		return nil, wrap(err)
	}
	return res.GetFrame(), nil
}

// GetFrame describes a frame that the server keeps. With touch it counts as a use, which postpones its end.
func (c *Client) GetFrame(ctx context.Context, name string, touch bool) (*polyscanv1.ResidentFrame, error) {
	res, err := c.Frame.GetFrame(ctx, &polyscanv1.GetFrameRequest{Name: name, Touch: touch})
	return res.GetFrame(), wrap(err)
}

// Frames lists the frames that the server keeps, ordered by name. It asks the server page by page; an error ends it.
func (c *Client) Frames(ctx context.Context) iter.Seq2[*polyscanv1.ResidentFrame, error] {
	return func(yield func(*polyscanv1.ResidentFrame, error) bool) {
		req := &polyscanv1.ListFramesRequest{}
		for {
			res, err := c.Frame.ListFrames(ctx, req)
			if err != nil {
				yield(nil, wrap(err))
				return
			}
			for _, f := range res.GetFrames() {
				if !yield(f, nil) {
					return
				}
			}
			if res.GetNextPageToken() == "" {
				return
			}
			req.PageToken = res.GetNextPageToken()
		}
	}
}

// ReleaseFrame makes the server forget a frame. Calls that use it finish.
func (c *Client) ReleaseFrame(ctx context.Context, name string) error {
	_, err := c.Frame.ReleaseFrame(ctx, &polyscanv1.ReleaseFrameRequest{Name: name})
	return wrap(err)
}
