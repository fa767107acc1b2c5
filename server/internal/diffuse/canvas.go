// DiffusionService: Edit, a canvas that a client changes and sees.

package diffuse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"

	"github.com/polyscan/polyscan/diffusion"
	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/budget"
	"github.com/polyscan/polyscan/server/internal/device"
	"github.com/polyscan/polyscan/server/internal/wire"
)

const (
	// editPatience is how old the last picture may be for a change to end the solve of the one before.
	editPatience = 100 * time.Millisecond
	// maxRefusals is how many refused changes may wait for the client to read before no more are received.
	maxRefusals = 64
	// maxCurveID is how many bytes the id of a curve may have.
	maxCurveID = 64
	// canvasPoints is for how many points and stops host memory is taken at a time.
	canvasPoints = 1 << 14
)

// errNewer ends the solve of a picture that has changed.
var errNewer = errors.New("the canvas has changed")

// canvas is a call of Edit. Of the messages it has what is needed, and nothing else that a client may have put there.
type canvas struct {
	*solving
	stream  grpc.ServerStream
	changed chan struct{} // holds one when there is something to do

	mu       sync.Mutex
	room     *sync.Cond // refused got shorter, or the stream ends
	contents contents
	memory   *memoryShare
	shares   []func() // give what contents took of the host's memory back
	closed   bool     // the call has ended
	edits    uint64   // that came
	stale    bool     // something has changed since the drawing was taken that is rendered
	refused  []refusal
	end      error                   // why no more come; io.EOF when the client has half-closed
	stop     context.CancelCauseFunc // ends the solve under way; nil without one
	sent     time.Time               // of the last picture

	buffers chan []byte // of pictures, to be used again

	rendering sync.Mutex
	on        *diffusion.Canvas // nil once the device is given back
}

// memoryShare is a canvas's part of what canvases may have of the host memory: the rest is for calls that give theirs
// back soon. One that needs more than there is gets all of it, alone.
type memoryShare struct {
	of     *budget.Budget
	bytes  int64
	shares []func()
}

// more takes some until the canvas is closed. It doesn't wait, since others may be open for hours.
func (h *memoryShare) more(bytes int64) bool {
	bytes = min(bytes, h.of.Cap-h.bytes)
	release, ok := h.of.Try(budget.Canvases, bytes)
	if ok {
		h.bytes += bytes
		h.shares = append(h.shares, release)
	}
	return ok
}

// open takes what a canvas needs from the start.
func (h *memoryShare) open(bytes int64) error {
	if bytes > budget.SmallShare && !h.more(bytes) {
		return apierr.Quota(apierr.ReasonHostMemory, "host memory", fmt.Sprintf(
			"canvases may have %d bytes of it, and those that are open leave less than the %d that this one takes",
			h.of.Cap, bytes))
	}
	return nil
}

func (h *memoryShare) release() {
	for _, release := range h.shares {
		release()
	}
}

// refusal is a change that can't be made.
type refusal struct {
	edit uint64
	err  error
}

func (s *Service) HandleEdit(stream grpc.ServerStream) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	first, err := s.receiveOpenCanvas(ctx, stream)
	if err != nil {
		return err
	}
	c, err := s.openCanvas(ctx, stream, first)
	if err != nil {
		return err
	}
	return c.run(ctx)
}

// run takes changes and sends pictures until the call ends, and gives everything back.
func (c *canvas) run(ctx context.Context) error {
	defer c.share.Release()
	defer c.close()
	c.service.Host.Go(func() { c.receive(ctx) })
	c.service.Host.Go(func() {
		select {
		case <-c.dev.Lost():
			c.leave() // it can't be opened again before, and the client may not read
		case <-ctx.Done():
		}
	})
	return c.send(ctx)
}

// receiveOpenCanvas receives the first message. Another goroutine waits for it, because only that way can the stream
// end while the client is silent.
func (s *Service) receiveOpenCanvas(ctx context.Context, stream grpc.ServerStream) (*framecodec.Message,
	error) {
	type received struct {
		in  *framecodec.Message
		err error
	}
	come := make(chan received, 1)
	s.Host.Go(func() {
		in := framecodec.New(&pb.EditRequest{})
		err := wire.ReceiveMessage(stream, in)
		come <- received{in, err}
	})
	var err error
	select {
	case r := <-come:
		if r.err == nil {
			return r.in, nil
		}
		r.in.Free()
		if errors.Is(r.err, io.EOF) {
			return nil, apierr.WithDetails(codes.FailedPrecondition, "the stream ended before its open message",
				apierr.Info(apierr.ReasonFrameOutOfOrder)).Err()
		}
		return nil, r.err
	case <-s.Host.Draining():
		err = apierr.ErrShuttingDown
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	s.Host.Go(func() { (<-come).in.Free() }) // the receiver notices that the handler has left
	return nil, err
}

// openCanvas makes a canvas of the first message, which it frees. The caller closes it, and releases its memory.
func (s *Service) openCanvas(ctx context.Context, stream grpc.ServerStream, in *framecodec.Message) (_ *canvas,
	err error) {
	defer in.Free()
	if err := s.Host.Validate(ctx, in); err != nil {
		return nil, err
	}
	open := in.Message.(*pb.EditRequest).GetOpen()
	if open == nil {
		return nil, apierr.WithDetails(codes.FailedPrecondition, "a change came before open, which must be the first message",
			apierr.Info(apierr.ReasonFrameOutOfOrder)).Err()
	}
	drawing := open.GetDrawing()
	if drawing != nil { // its curves and pixels can be changed: they are not on the ground
		open.Drawing = &pb.Drawing{Width: drawing.GetWidth(), Height: drawing.GetHeight()}
	}
	// What is rendered is a copy of what is on the canvas, and pictures that are being sent are not written to.
	memory := &memoryShare{of: s.Canvases}
	v, err := s.newSolving(ctx, open, in, solvePixelShare+givenPixelShare+2*solveChannels, memory.open)
	if err != nil {
		memory.release()
		return nil, apierr.Under("open", err)
	}
	c := &canvas{
		solving: v, stream: stream, changed: make(chan struct{}, 1), stale: true, buffers: make(chan []byte, 2),
		on: diffusion.NewCanvas(v.dev.Device), memory: memory,
	}
	c.contents = contents{
		limit: s.MaxPoints, memory: c.takeMemory, ground: v.drawing, method: v.opts.Method, index: map[string]int{},
		paid: canvasPoints,
	}
	c.room = sync.NewCond(&c.mu)
	defer func() {
		if err != nil {
			c.close()
			c.share.Release()
		}
	}()
	for i, curve := range drawing.GetCurves() {
		path := fmt.Sprintf("open.drawing.curves[%d]", i)
		if c.contents.find(curve.GetId()) >= 0 {
			return nil, apierr.Refuse(path+".id", strconv.Quote(curve.GetId()), "is that of a curve before")
		}
		if err := c.contents.put(curve); err != nil {
			return nil, apierr.Under(path, err)
		}
	}
	if err := c.contents.give(drawing.GetPixels()); err != nil {
		return nil, apierr.Under("open.drawing", err)
	}
	c.wake()
	return c, nil
}

// leave gives the device back.
func (c *canvas) leave() {
	c.rendering.Lock()
	defer c.rendering.Unlock()
	if c.on != nil {
		c.on.Close()
		c.on = nil
		c.dev.End()
	}
}

// close gives back what the call has but the memory of solving. Changes may still come.
func (c *canvas) close() {
	c.leave()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.memory.release()
	for _, release := range c.shares {
		release()
	}
}

// takeMemory takes host memory until the canvas is closed. It doesn't wait, since the call has some already. c.mu is
// held.
func (c *canvas) takeMemory(bytes int64) error {
	release, ok := c.service.Memory.Try(budget.Canvases, bytes)
	if !ok || c.closed || !c.memory.more(bytes) {
		if ok {
			release()
		}
		return apierr.Quota(apierr.ReasonHostMemory, "host memory",
			"other calls have what more points and stops on the canvas take")
	}
	c.shares = append(c.shares, release)
	return nil
}

// render makes the picture of a drawing.
func (c *canvas) render(ctx context.Context, d *diffusion.Drawing, opts *diffusion.Options) (*diffusion.Solution, error) {
	c.rendering.Lock()
	defer c.rendering.Unlock()
	if c.on == nil {
		return nil, device.ErrLost
	}
	return c.on.Render(ctx, d, c.target, opts)
}

// receive makes changes until the stream ends. It is a goroutine of its own, because only so a change can end a solve.
func (c *canvas) receive(ctx context.Context) {
	var err error
	defer func() {
		if p := recover(); p != nil { // nobody else would
			err = c.service.Host.Panicked(ctx, p)
		}
		c.mu.Lock()
		c.end = err
		c.mu.Unlock()
		c.wake()
	}()
	stopWaiting := context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.room.Broadcast()
	})
	defer stopWaiting()
	for {
		req := &pb.EditRequest{}
		in := framecodec.New(req)
		if err = wire.ReceiveMessage(c.stream, in); err != nil {
			in.Free()
			return
		}
		bad := c.service.Host.Validate(ctx, in)
		if req.GetOpen() != nil {
			in.Free()
			err = apierr.WithDetails(codes.FailedPrecondition, "open: came a second time",
				apierr.Info(apierr.ReasonSecondOpen)).Err()
			return
		}
		c.perform(ctx, req, bad)
		in.Free()
		c.wake()
	}
}

// perform makes a change, or keeps what is wrong with it for the sender.
func (c *canvas) perform(ctx context.Context, req *pb.EditRequest, bad error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.refused) == maxRefusals && ctx.Err() == nil {
		c.room.Wait()
	}
	c.edits++
	if a := req.GetSetAccuracy(); bad == nil && a != nil {
		opts := *c.opts // a picture that is being made has the one before
		opts.Tolerance, opts.MaxCycles = a.GetTolerance()/255, int(a.GetMaxCycles())
		c.opts = &opts
	} else if bad == nil {
		bad = c.contents.apply(req)
	}
	if bad != nil {
		c.refused = append(c.refused, refusal{c.edits, bad})
	} else if c.stale = true; c.stop != nil && time.Since(c.sent) < editPatience {
		c.stop(errNewer)
	}
}

// wake makes the sender look.
func (c *canvas) wake() {
	select {
	case c.changed <- struct{}{}:
	default: // it is about to
	}
}

// send renders what has changed and sends it. It is the handler: what it returns ends the stream.
func (c *canvas) send(ctx context.Context) error {
	idle := time.NewTimer(c.service.IdleTimeout)
	defer idle.Stop()
	for {
		select {
		case <-c.service.Host.Draining(): // or a client that always has another change would keep the server from ending
			return apierr.ErrShuttingDown
		default:
		}
		idle.Reset(c.service.IdleTimeout)
		select {
		case <-c.changed:
		case <-c.service.Host.Draining():
			return apierr.ErrShuttingDown
		case <-c.dev.Lost():
			return device.ErrLost
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-idle.C:
			select {
			case <-c.changed: // just now
			default:
				return c.service.idle()
			}
		}
		again, err := c.answer(ctx)
		if errors.Is(err, io.EOF) { // the client wants no more
			return nil
		}
		if err != nil {
			return err
		}
		if again {
			c.wake()
		}
	}
}

// idle is the error of a canvas whose client says nothing.
func (s *Service) idle() error {
	s.Metrics.StreamTimeouts.WithLabelValues("idle").Inc()
	return apierr.IdleError(s.IdleTimeout)
}

// canvasWork is what there is to do.
type canvasWork struct {
	refused []refusal
	drawing *diffusion.Drawing // nil where the client has the latest picture
	opts    *diffusion.Options
	edits   uint64 // that the drawing has
	end     error  // why no more come
}

// work takes what there is to do. stop ends the solve, if there is one to come.
func (c *canvas) work(stop context.CancelCauseFunc) canvasWork {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := canvasWork{refused: c.refused, edits: c.edits, end: c.end, opts: c.opts}
	c.refused = nil
	c.room.Broadcast()
	if c.stale {
		w.drawing, c.stale, c.stop = c.contents.drawing(), false, stop
	}
	return w
}

// answer says which changes were refused, and makes and sends a picture if it has changed. again says that it may have
// changed meanwhile.
func (c *canvas) answer(ctx context.Context) (again bool, err error) {
	solve, stop := context.WithCancelCause(c.ctx)
	defer stop(nil)
	w := c.work(stop)
	for _, r := range w.refused {
		m := &pb.EditResponse{Edits: r.edit,
			Outcome: &pb.EditResponse_Error{Error: c.service.Host.Status(ctx, r.err).Proto()}}
		if err := c.stream.SendMsg(m); err != nil {
			return false, err
		}
	}
	if w.drawing == nil {
		return false, w.end
	}
	sol, err := c.render(solve, w.drawing, w.opts)
	c.mu.Lock()
	c.stop, c.contents.lent = nil, false
	c.mu.Unlock()
	switch {
	case errors.Is(err, errNewer):
		return true, nil
	case err != nil && ctx.Err() != nil:
		return false, context.Cause(ctx)
	case err != nil:
		err = solveError(&pb.SolveRequest{Drawing: &pb.Drawing{}}, err)
		if !mends(err) {
			return false, apierr.Under("open", err)
		}
		st := c.service.Host.Status(ctx, err)
		if st.Code() == codes.Unavailable {
			return false, st.Err()
		}
		return true, c.stream.SendMsg(&pb.EditResponse{Edits: w.edits,
			Outcome: &pb.EditResponse_Error{Error: st.Proto()}})
	}
	err = c.sendPicture(sol, w.edits)
	c.mu.Lock()
	c.sent = time.Now()
	c.mu.Unlock()
	return true, err
}

// mends reports whether a change can make up for the reason why there is no picture. None can for what only open says:
// options, and edges and a frame that are none.
func mends(err error) bool {
	var bad *apierr.FieldError
	return !errors.As(err, &bad) || strings.HasPrefix(bad.Violations[0].Path, "drawing.")
}

// sendPicture sends what was rendered, and takes another buffer for the next.
func (c *canvas) sendPicture(sol *diffusion.Solution, edits uint64) error {
	buffer := c.target.Pixels.Host
	m, pixels, err := c.response(sol, buffer)
	if err != nil {
		return err
	}
	out := framecodec.New(&pb.EditResponse{Edits: edits, SetupKept: sol.SetupKept,
		Outcome: &pb.EditResponse_Result{Result: m}})
	defer out.Free() // the transport has references of its own
	if c.encoding == pb.Encoding_ENCODING_PNG {
		out.SetPayload(mem.BufferSlice{mem.SliceBuffer(pixels)})
	} else {
		out.SetPayload(mem.BufferSlice{framecodec.NewBuffer(pixels, func() {
			select {
			case c.buffers <- pixels:
			default:
			}
		})})
		select {
		case c.target.Pixels.Host = <-c.buffers:
		default:
			c.target.Pixels.Host = make([]byte, len(buffer))
		}
	}
	return c.stream.SendMsg(&wire.Response{Message: out, Start: time.Now(), Release: func() {}})
}
