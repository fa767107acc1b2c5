package clients

// Canvases: drawings that are changed, and solved after each change.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"

	"google.golang.org/grpc"

	"github.com/polyscan/polyscan/proto/framecodec"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// Canvas is what is given of a picture, and can be changed: [Client.Edit] opens it. The methods that change it send and
// don't wait for the picture: each returns the number of the change, the first being 1, and [Canvas.Recv] says what
// came of it. They may be called from several goroutines, while another one receives. Close it after use.
//
// The server goes on to the latest state: of changes that follow closely, pictures in between are left out. One that
// nobody receives keeps it from making the next, and 64 refusals that nobody receives keep it from taking changes,
// which wait then. It closes canvases without a change for its idle timeout, 10 minutes unless it was started with
// another, with codes.Aborted, and those of which nobody receives what it has for as long, with
// codes.ResourceExhausted.
type Canvas struct {
	rpc    grpc.BidiStreamingClient[polyscanv1.EditRequest, polyscanv1.EditResponse]
	cancel context.CancelFunc

	sending sync.Mutex // held while a change goes out, so that numbers are in the order of the changes

	mu     sync.Mutex
	edits  uint64 // sent, or being sent
	closed bool   // CloseSend was called
}

// CanvasUpdate is a picture of a canvas, or why there is none.
type CanvasUpdate struct {
	// Edits is how many changes the picture has, refused ones included: those up to this number. With Err, where it is
	// a change that was refused, the number of that one.
	Edits uint64
	// Result holds the picture, in RGB8; nil with Err.
	Result *polyscanv1.SolveResponse
	// SetupKept reports that the solver could go on from its set-up before, as it can where only colours and blurs have
	// changed.
	SetupKept bool
	// Err says why a change was refused, which then changes nothing, or why what is on the canvas has no picture. The
	// canvas stays open.
	Err *Error
}

// Edit opens a canvas with what is given at first; of an empty one that is the size alone. Its curves have different
// ids. The bytes of a frame must not change until the first update has come. An open message that the server refuses
// shows at the first [Canvas.Recv].
func (c *Client) Edit(ctx context.Context, open *polyscanv1.SolveRequest) (*Canvas, error) {
	ctx, cancel := context.WithCancel(ctx)
	rpc, err := c.Diffusion.Edit(ctx, frames)
	if err != nil {
		cancel()
		return nil, wrap(err)
	}
	// io.EOF means that the server has answered already; Recv has the reason.
	in := framecodec.New(&polyscanv1.EditRequest{Message: &polyscanv1.EditRequest_Open{Open: open}})
	if err := rpc.SendMsg(in); err != nil && !errors.Is(err, io.EOF) {
		cancel()
		return nil, wrap(err)
	}
	return &Canvas{rpc: rpc, cancel: cancel}, nil
}

// PutCurve adds a curve over all others, or puts it in the place of the one with its id.
func (c *Canvas) PutCurve(curve *polyscanv1.Curve) (edit uint64, err error) {
	return c.send(&polyscanv1.EditRequest{Message: &polyscanv1.EditRequest_PutCurve{PutCurve: curve}})
}

// MoveCurve moves a curve by pixels.
func (c *Canvas) MoveCurve(id string, dx, dy float64) (edit uint64, err error) {
	return c.send(&polyscanv1.EditRequest{Message: &polyscanv1.EditRequest_MoveCurve{
		MoveCurve: &polyscanv1.MoveCurve{Id: id, Dx: dx, Dy: dy}}})
}

// RecolorCurve gives a curve other colours and another blur, without which it becomes sharp. A new picture takes less
// time than with a change of the curve's place.
func (c *Canvas) RecolorCurve(colors *polyscanv1.RecolorCurve) (edit uint64, err error) {
	return c.send(&polyscanv1.EditRequest{Message: &polyscanv1.EditRequest_RecolorCurve{RecolorCurve: colors}})
}

// RemoveCurve takes a curve away.
func (c *Canvas) RemoveCurve(id string) (edit uint64, err error) {
	return c.send(&polyscanv1.EditRequest{Message: &polyscanv1.EditRequest_RemoveCurve{RemoveCurve: id}})
}

// PutPixels gives pixels, under all curves, or other colours to those given before, those of a frame included: all of
// them, or none where one is refused.
func (c *Canvas) PutPixels(pixels ...*polyscanv1.GivenPixel) (edit uint64, err error) {
	return c.send(&polyscanv1.EditRequest{Message: &polyscanv1.EditRequest_PutPixels{
		PutPixels: &polyscanv1.GivenPixels{Pixels: pixels},
	}})
}

// RemovePixels takes pixels away that were given, those of a frame included: all of them or none.
func (c *Canvas) RemovePixels(places ...Point) (edit uint64, err error) {
	xy, err := placesOf("RemovePixels", places)
	if err != nil {
		return 0, err
	}
	return c.send(&polyscanv1.EditRequest{Message: &polyscanv1.EditRequest_RemovePixels{
		RemovePixels: &polyscanv1.PixelPlaces{Xy: xy},
	}})
}

// MovePixels moves pixels that were given, those of a frame included: all of them or none. Where they come to, they
// replace what is given.
func (c *Canvas) MovePixels(dx, dy int32, places ...Point) (edit uint64, err error) {
	xy, err := placesOf("MovePixels", places)
	if err != nil {
		return 0, err
	}
	return c.send(&polyscanv1.EditRequest{Message: &polyscanv1.EditRequest_MovePixels{
		MovePixels: &polyscanv1.MovePixels{Xy: xy, Dx: dx, Dy: dy}}})
}

func placesOf(method string, places []Point) ([]uint32, error) {
	xy := make([]uint32, 0, 2*len(places))
	for i, p := range places {
		if p.X < 0 || p.Y < 0 {
			return nil, fmt.Errorf("clients: %s: place %d is (%d, %d): must not be negative", method, i, p.X, p.Y)
		}
		xy = append(xy, uint32(p.X), uint32(p.Y))
	}
	return xy, nil
}

// PutEdges closes edges of pixels, and opens their others: of all pixels, or of none where one is refused.
func (c *Canvas) PutEdges(pixels ...*polyscanv1.PixelEdges) (edit uint64, err error) {
	return c.send(&polyscanv1.EditRequest{Message: &polyscanv1.EditRequest_PutEdges{
		PutEdges: &polyscanv1.PutEdges{Pixels: pixels},
	}})
}

// send sends a change. It returns [ErrStreamEnded] after CloseSend, and where the call has ended, for which Recv has
// the reason.
func (c *Canvas) send(m *polyscanv1.EditRequest) (uint64, error) {
	c.sending.Lock()
	defer c.sending.Unlock()
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.edits++ // before it goes out, since its answer may be here before SendMsg returns
	}
	edit := c.edits
	c.mu.Unlock()
	if closed {
		return 0, ErrStreamEnded
	}
	err := c.rpc.SendMsg(framecodec.New(m))
	if errors.Is(err, io.EOF) {
		err = ErrStreamEnded
	}
	if err != nil {
		return 0, wrap(err)
	}
	return edit, nil
}

// CloseSend says that no change follows. The picture with all of them still comes.
func (c *Canvas) CloseSend() error {
	c.sending.Lock()
	defer c.sending.Unlock()
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	return wrap(c.rpc.CloseSend())
}

// Recv waits for the next update. It returns io.EOF after CloseSend and the last one. Only one goroutine may receive.
func (c *Canvas) Recv() (*CanvasUpdate, error) {
	res := &polyscanv1.EditResponse{}
	if err := c.rpc.RecvMsg(res); err != nil {
		return nil, wrap(err)
	}
	c.mu.Lock()
	sent := c.edits
	c.mu.Unlock()
	u := &CanvasUpdate{Edits: res.GetEdits(), SetupKept: res.GetSetupKept()}
	if u.Edits > sent {
		c.cancel()
		return nil, fmt.Errorf("clients: the server answered change %d, and only %d were sent", u.Edits, sent)
	}
	switch o := res.GetOutcome().(type) {
	case *polyscanv1.EditResponse_Result:
		u.Result = o.Result
	case *polyscanv1.EditResponse_Error:
		u.Err = fromProto(o.Error)
	default:
		c.cancel()
		return nil, fmt.Errorf("clients: the server's answer to change %d holds neither a picture nor an error",
			u.Edits)
	}
	return u, nil
}

// Updates yields what Recv returns, until the end. An error comes last, beside a nil update; io.EOF isn't one. Breaking
// out of the loop leaves the canvas open.
func (c *Canvas) Updates() iter.Seq2[*CanvasUpdate, error] {
	return func(yield func(*CanvasUpdate, error) bool) {
		for {
			u, err := c.Recv()
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(u, err) || err != nil {
				return
			}
		}
	}
}

// Close ends the call, and gives up what is on the way. Calls after the first do nothing.
func (c *Canvas) Close() { c.cancel() }
