// DiffusionService: SolveProgressively and Edit.

package diffuse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"

	"github.com/polyscan/polyscan/diffusion"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/budget"
	"github.com/polyscan/polyscan/server/internal/device"
	"github.com/polyscan/polyscan/server/internal/wire"
)

func (s *Service) HandleSolveProgressively(stream grpc.ServerStream) error {
	req := &pb.SolveProgressivelyRequest{}
	in := framecodec.New(req)
	defer in.Free()
	if err := wire.ReceiveMessage(stream, in); err != nil {
		return err
	}
	if err := s.Host.Validate(in); err != nil {
		return err
	}
	return s.progress(stream, req, in)
}

// progress solves in one goroutine and sends in another, so that the device doesn't wait for the client: pictures that
// it has no time for are left out.
func (s *Service) progress(stream grpc.ServerStream, req *pb.SolveProgressivelyRequest,
	in *framecodec.Message) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	// Of the pictures on the way, the one that was made last and the one that is sent.
	v, err := s.newSolving(ctx, req.GetRequest(), in, solvePixelShare+2*solveChannels, nil)
	if err != nil {
		return apierr.Under("request", err)
	}
	defer v.Release()
	type picture struct {
		sol    *diffusion.Solution
		pixels []byte
	}
	latest := make(chan picture, 1)
	v.target.Progress = func(sol *diffusion.Solution) error {
		select {
		case <-latest: // the client is behind
		default:
		}
		latest <- picture{sol, slices.Clone(v.target.Pixels.Host)}
		return nil
	}
	var last *diffusion.Solution
	done := make(chan error, 1)
	s.Host.Go(func() {
		defer v.dev.End() // a client that doesn't read must not keep the device
		defer func() {
			if p := recover(); p != nil { // nobody else would: this is a goroutine of its own
				done <- s.Host.Panicked(ctx, p)
			}
		}()
		var err error
		last, err = diffusion.Render(v.ctx, v.dev.Device, v.drawing, v.target, v.opts)
		done <- err
	})
	send := func(p picture, isLast bool) error {
		m, pixels, err := v.response(p.sol, p.pixels)
		if err != nil {
			return err
		}
		out := framecodec.New(&pb.SolveProgressivelyResponse{Result: m, Last: isLast})
		out.SetPayload(mem.BufferSlice{mem.SliceBuffer(pixels)})
		defer out.Free() // the transport has references of its own
		return stream.SendMsg(&wire.Response{Message: out, Start: time.Now(), Release: func() {}})
	}
	for {
		select {
		case p := <-latest:
			if err := send(p, false); err != nil {
				cancel()
				<-done // it writes to what is released now
				return err
			}
		case err := <-done:
			if err != nil {
				return apierr.Under("request", solveError(req.GetRequest(), err))
			}
			return send(picture{last, v.target.Pixels.Host}, true)
		}
	}
}

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

// Canvas is a call of Edit. Of the messages it has what is needed, and nothing else that a client may have put there.
type Canvas struct {
	*solving
	stream grpc.ServerStream
	limit  int // of points and stops of curves together, and of the pixels of a change

	changed chan struct{} // holds one when there is something to do

	mu      sync.Mutex
	room    *sync.Cond         // refused got shorter, or the stream ends
	Ground  *diffusion.Drawing // what is under the curves: pixels and edges
	lent    bool               // the drawing that is being rendered has its flags and values
	curves  []canvasCurve
	Index   map[string]int // of curves, by their ids
	size    int            // what counts for limit
	paid    int            // how much of that there is host memory for
	held    *holding
	shares  []func() // give that back
	closed  bool     // the call has ended
	edits   uint64   // that came
	stale   bool     // something has changed since the drawing was taken that is rendered
	refused []refusal
	end     error                   // why no more come; io.EOF when the client has half-closed
	stop    context.CancelCauseFunc // ends the solve under way; nil without one
	Sent    time.Time               // of the last picture

	buffers chan []byte // of pictures, to be used again

	rendering sync.Mutex
	on        *diffusion.Canvas // nil once the device is given back
}

// holding is a canvas's part of what canvases may have of the host memory: the rest is for calls that give theirs back
// soon. One that needs more than there is gets all of it, alone.
type holding struct {
	of     *budget.Budget
	bytes  int64
	shares []func()
}

// more takes some until the canvas is closed. It doesn't wait, since others may be open for hours.
func (h *holding) more(bytes int64) bool {
	bytes = min(bytes, h.of.Cap-h.bytes)
	release, ok := h.of.Try(bytes)
	if ok {
		h.bytes += bytes
		h.shares = append(h.shares, release)
	}
	return ok
}

// open takes what a canvas needs from the start.
func (h *holding) open(bytes int64) error {
	if bytes > budget.SmallShare && !h.more(bytes) {
		return apierr.Quota(apierr.ReasonHostMemory, "host memory", fmt.Sprintf(
			"canvases may have %d bytes of it, and those that are open leave less than the %d that this one takes",
			h.of.Cap, bytes))
	}
	return nil
}

func (h *holding) release() {
	for _, release := range h.shares {
		release()
	}
}

// canvasCurve is a curve on a canvas. What its slices hold doesn't change: drawings that are being rendered share it.
type canvasCurve struct {
	id string
	diffusion.Curve
}

// size is what a curve counts for the limit.
func (c *canvasCurve) size() int {
	return curveSize(len(c.Points), len(c.Left), len(c.Right), len(c.Blur))
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
	c, err := s.OpenCanvas(ctx, stream, first)
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

// Run takes changes and sends pictures until the call ends, and gives everything back.
func (c *Canvas) Run(ctx context.Context) error {
	defer c.Release()
	defer c.Close()
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

// OpenCanvas makes a canvas of the first message, which it frees. The caller closes it, and releases its memory.
func (s *Service) OpenCanvas(ctx context.Context, stream grpc.ServerStream, in *framecodec.Message) (_ *Canvas,
	err error) {
	defer in.Free()
	if err := s.Host.Validate(in); err != nil {
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
	held := &holding{of: s.Canvases}
	v, err := s.newSolving(ctx, open, in, solvePixelShare+givenPixelShare+2*solveChannels, held.open)
	if err != nil {
		held.release()
		return nil, apierr.Under("open", err)
	}
	c := &Canvas{
		solving: v, stream: stream, Ground: v.drawing, limit: s.MaxPoints, changed: make(chan struct{}, 1),
		Index: map[string]int{}, stale: true, buffers: make(chan []byte, 2),
		on: diffusion.NewCanvas(v.dev.Device), paid: canvasPoints, held: held,
	}
	c.room = sync.NewCond(&c.mu)
	defer func() {
		if err != nil {
			c.Close()
			c.Release()
		}
	}()
	for i, curve := range drawing.GetCurves() {
		path := fmt.Sprintf("open.drawing.curves[%d]", i)
		if c.find(curve.GetId()) >= 0 {
			return nil, apierr.Refuse(path+".id", strconv.Quote(curve.GetId()), "is that of a curve before")
		}
		if err := c.put(curve); err != nil {
			return nil, apierr.Under(path, err)
		}
	}
	if err := c.give(drawing.GetPixels()); err != nil {
		return nil, apierr.Under("open.drawing", err)
	}
	c.wake()
	return c, nil
}

// leave gives the device back.
func (c *Canvas) leave() {
	c.rendering.Lock()
	defer c.rendering.Unlock()
	if c.on != nil {
		c.on.Close()
		c.on = nil
		c.dev.End()
	}
}

// Close gives back what the call has but the memory of solving. Changes may still come.
func (c *Canvas) Close() {
	c.leave()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.held.release()
	for _, release := range c.shares {
		release()
	}
}

// render makes the picture of a drawing.
func (c *Canvas) render(ctx context.Context, d *diffusion.Drawing) (*diffusion.Solution, error) {
	c.rendering.Lock()
	defer c.rendering.Unlock()
	if c.on == nil {
		return nil, device.ErrLost
	}
	return c.on.Render(ctx, d, c.target, c.opts)
}

// receive makes changes until the stream ends. It is a goroutine of its own, because only so a change can end a solve.
func (c *Canvas) receive(ctx context.Context) {
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
		bad := c.service.Host.Validate(in)
		if req.GetOpen() != nil {
			in.Free()
			err = apierr.WithDetails(codes.FailedPrecondition, "open: came a second time", apierr.Info(apierr.ReasonSecondOpen)).Err()
			return
		}
		c.Perform(ctx, req, bad)
		in.Free()
		c.wake()
	}
}

// Perform makes a change, or keeps what is wrong with it for the sender.
func (c *Canvas) Perform(ctx context.Context, req *pb.EditRequest, bad error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.refused) == maxRefusals && ctx.Err() == nil {
		c.room.Wait()
	}
	c.edits++
	if bad == nil {
		bad = c.apply(req)
	}
	if bad != nil {
		c.refused = append(c.refused, refusal{c.edits, bad})
	} else if c.stale = true; c.stop != nil && time.Since(c.Sent) < editPatience {
		c.stop(errNewer)
	}
}

// wake makes the sender look.
func (c *Canvas) wake() {
	select {
	case c.changed <- struct{}{}:
	default: // it is about to
	}
}

// send renders what has changed and sends it. It is the handler: what it returns ends the stream.
func (c *Canvas) send(ctx context.Context) error {
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
		again, err := c.Answer(ctx)
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
	edits   uint64             // that the drawing has
	end     error              // why no more come
}

// work takes what there is to do. stop ends the solve, if there is one to come.
func (c *Canvas) work(stop context.CancelCauseFunc) canvasWork {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := canvasWork{refused: c.refused, edits: c.edits, end: c.end}
	c.refused = nil
	c.room.Broadcast()
	if c.stale {
		w.drawing, c.stale, c.stop = c.drawing(), false, stop
	}
	return w
}

// Answer says which changes were refused, and makes and sends a picture if it has changed. again says that it may have
// changed meanwhile.
func (c *Canvas) Answer(ctx context.Context) (again bool, err error) {
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
	sol, err := c.render(solve, w.drawing)
	c.mu.Lock()
	c.stop, c.lent = nil, false
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
	c.Sent = time.Now()
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
func (c *Canvas) sendPicture(sol *diffusion.Solution, edits uint64) error {
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

// drawing is what is on the canvas. c.mu is held.
func (c *Canvas) drawing() *diffusion.Drawing {
	d := *c.Ground
	d.Curves = make([]diffusion.Curve, len(c.curves))
	for i := range c.curves {
		d.Curves[i] = c.curves[i].Curve
	}
	c.lent = true
	return &d
}

// own makes sure that the ground has flags and values, and that no drawing shares them. c.mu is held.
func (c *Canvas) own() {
	switch g := c.Ground; {
	case g.Flags == nil:
		n := g.Width * g.Height
		g.Flags, g.Values = make([]uint8, n), make([]float32, solveChannels*n)
	case c.lent:
		g.Flags, g.Values = slices.Clone(g.Flags), slices.Clone(g.Values)
	}
	c.lent = false
}

// apply makes a change, or says why it can't be made. c.mu is held.
func (c *Canvas) apply(req *pb.EditRequest) error {
	switch m := req.GetMessage().(type) {
	case *pb.EditRequest_PutCurve:
		return apierr.Under("put_curve", c.put(m.PutCurve))
	case *pb.EditRequest_MoveCurve:
		return apierr.Under("move_curve", c.change(m.MoveCurve.GetId(), func(to *diffusion.Curve) {
			to.Points = slices.Clone(to.Points)
			for i := range to.Points {
				to.Points[i].X += m.MoveCurve.GetDx()
				to.Points[i].Y += m.MoveCurve.GetDy()
			}
		}))
	case *pb.EditRequest_RecolorCurve:
		left, right := m.RecolorCurve.GetLeft(), m.RecolorCurve.GetRight()
		if err := checkColors(left, right); err != nil {
			return apierr.Under("recolor_curve", err)
		}
		return apierr.Under("recolor_curve", c.change(m.RecolorCurve.GetId(), func(to *diffusion.Curve) {
			to.Left, to.Right, to.Blur = stopsOf(left), stopsOf(right), blurOf(m.RecolorCurve.GetBlur())
		}))
	case *pb.EditRequest_RemoveCurve:
		i := c.find(m.RemoveCurve)
		if i < 0 {
			return unknownCurve("remove_curve", m.RemoveCurve)
		}
		c.size -= c.curves[i].size()
		c.curves = slices.Delete(c.curves, i, i+1)
		delete(c.Index, m.RemoveCurve)
		for k, curve := range c.curves[i:] {
			c.Index[curve.id] = i + k
		}
	case *pb.EditRequest_PutPixels:
		return apierr.Under("put_pixels", c.give(m.PutPixels.GetPixels()))
	case *pb.EditRequest_RemovePixels:
		return apierr.Under("remove_pixels", c.move(m.RemovePixels.GetXy(), nil))
	case *pb.EditRequest_MovePixels:
		return apierr.Under("move_pixels",
			c.move(m.MovePixels.GetXy(), &[2]int64{int64(m.MovePixels.GetDx()), int64(m.MovePixels.GetDy())}))
	case *pb.EditRequest_PutEdges:
		return apierr.Under("put_edges", c.shut(m.PutEdges.GetPixels()))
	default:
		return apierr.Refuse("message", nil, "one of the changes must be given")
	}
	return nil
}

// find returns the index of a curve, or -1.
func (c *Canvas) find(id string) int {
	if i, ok := c.Index[id]; ok {
		return i
	}
	return -1
}

// checkCurveID refuses ids that are too long to be kept, and to be repeated in an error.
func checkCurveID(path, id string) error {
	if len(id) > maxCurveID {
		return apierr.Refuse(path, fmt.Sprintf("%d bytes", len(id)), "must be at most %d", maxCurveID)
	}
	return nil
}

func unknownCurve(path, id string) error {
	if err := checkCurveID(path, id); err != nil {
		return err
	}
	return apierr.Refuse(path, strconv.Quote(id), "is no curve on the canvas")
}

// pay takes host memory for so much on the canvas. It doesn't wait, since the call has some already.
func (c *Canvas) pay(size int) error {
	if size <= c.paid {
		return nil
	}
	more := (size - c.paid + canvasPoints - 1) / canvasPoints * canvasPoints
	bytes := int64(more) * drawingPointShare
	release, ok := c.service.Memory.Try(bytes)
	if !ok || c.closed || !c.held.more(bytes) {
		if ok {
			release()
		}
		return apierr.Quota(apierr.ReasonHostMemory, "host memory",
			"other calls have what more points and stops on the canvas take")
	}
	c.paid += more
	c.shares = append(c.shares, release)
	return nil
}

// put checks a curve of a message and puts it on the canvas.
func (c *Canvas) put(curve *pb.Curve) error {
	if err := checkCurveID("id", curve.GetId()); err != nil {
		return err
	}
	if err := checkColors(curve.GetLeft(), curve.GetRight()); err != nil {
		return err
	}
	return c.set(canvasCurve{curve.GetId(), curveOf(curve)})
}

// change changes a curve, whose other parts stay.
func (c *Canvas) change(id string, f func(*diffusion.Curve)) error {
	i := c.find(id)
	if i < 0 {
		return unknownCurve("id", id)
	}
	curve := c.curves[i]
	f(&curve.Curve)
	return c.set(curve)
}

// set checks a curve and puts it on the canvas.
func (c *Canvas) set(curve canvasCurve) error {
	i, size := c.find(curve.id), c.size+curve.size()
	if i >= 0 {
		size -= c.curves[i].size()
	}
	if size > c.limit {
		return apierr.Refuse("", fmt.Sprintf("%d points and stops", curve.size()-1), "make more than %d on the canvas",
			c.limit)
	}
	d := &diffusion.Drawing{
		Width: c.Ground.Width, Height: c.Ground.Height, Channels: solveChannels, Curves: []diffusion.Curve{curve.Curve},
		Method: c.Ground.Method,
	}
	if err := d.Check(); err != nil {
		return wire.FieldError(err, func(v kernels.Violation) (path, value, reason string) {
			if v.Path[0] == "method" { // curves can only be what it doesn't solve by blocking edges
				return "barrier", "true", v.Value + " " + v.Reason
			}
			p := curvePath(v.Path)
			return p[min(2, len(p)):].String(), v.Value, v.Reason // below curves[0]
		})
	}
	if err := c.pay(size); err != nil {
		return err
	}
	if c.size = size; i >= 0 {
		c.curves[i] = curve
	} else {
		c.Index[curve.id] = len(c.curves)
		c.curves = append(c.curves, curve)
	}
	return nil
}

// give checks pixels and puts them on the canvas, all or none.
func (c *Canvas) give(pixels []*pb.GivenPixel) error {
	if err := checkGiven(pixels, c.Ground.Width, c.Ground.Height); err != nil {
		return err
	}
	if err := c.checkCount("pixels", len(pixels)); err != nil {
		return err
	}
	c.own()
	for _, p := range pixels {
		givePixel(c.Ground, p.GetX(), p.GetY(), rgbOf(p))
	}
	return nil
}

// checkCount bounds how much of the canvas a change is about.
func (c *Canvas) checkCount(field string, pixels int) error {
	if pixels > c.limit {
		return apierr.Refuse(field, fmt.Sprintf("%d pixels", pixels), "are more than the server's limit of %d", c.limit)
	}
	return nil
}

// move takes pixels away, all or none, and gives them again so far from there, unless by is nil.
func (c *Canvas) move(xy []uint32, by *[2]int64) error {
	if len(xy)%2 != 0 {
		return apierr.Refuse("xy", fmt.Sprintf("%d numbers", len(xy)), "must be pairs of x and y")
	}
	if err := c.checkCount("xy", len(xy)/2); err != nil {
		return err
	}
	g := c.Ground
	for i := 0; i < len(xy); i += 2 {
		x, y := xy[i], xy[i+1]
		if !onCanvas(g, int64(x), int64(y)) || g.Flags == nil || g.Flags[int(y)*g.Width+int(x)]&diffusion.Fixed == 0 {
			return apierr.Refuse(fmt.Sprintf("xy[%d]", i), xy[i:i+2], "is no pixel that was given")
		}
		if by != nil && !onCanvas(g, int64(x)+by[0], int64(y)+by[1]) {
			return apierr.Refuse(fmt.Sprintf("xy[%d]", i), xy[i:i+2], "is moved to %v, outside of the canvas of %dx%d",
				[2]int64{int64(x) + by[0], int64(y) + by[1]}, g.Width, g.Height)
		}
	}
	c.own()
	n := g.Width * g.Height
	taken := make([]rgb, 0, len(xy)/2)
	for i := 0; i < len(xy); i += 2 {
		at := int(xy[i+1])*g.Width + int(xy[i])
		if by != nil {
			taken = append(taken, rgb{g.Values[at], g.Values[n+at], g.Values[2*n+at]})
		}
		g.Flags[at] &^= diffusion.Fixed
	}
	for i, color := range taken {
		at := int(int64(xy[2*i+1])+by[1])*g.Width + int(int64(xy[2*i])+by[0])
		g.Flags[at] |= diffusion.Fixed
		for k, v := range color {
			g.Values[k*n+at] = v
		}
	}
	return nil
}

// onCanvas reports whether there is such a pixel.
func onCanvas(d *diffusion.Drawing, x, y int64) bool {
	return x >= 0 && y >= 0 && x < int64(d.Width) && y < int64(d.Height)
}

// shut replaces the closed edges of pixels, of all or none.
func (c *Canvas) shut(pixels []*pb.PixelEdges) error {
	if err := c.checkCount("pixels", len(pixels)); err != nil {
		return err
	}
	g := c.Ground
	good := uint32(0) // edges that were checked before
	for i, p := range pixels {
		field := fmt.Sprintf("pixels[%d]", i)
		if !onCanvas(g, int64(p.GetX()), int64(p.GetY())) {
			return apierr.Refuse(field, [2]uint32{p.GetX(), p.GetY()}, "is outside of the canvas of %dx%d", g.Width, g.Height)
		}
		if e := p.GetEdges(); e != good {
			if err := c.checkEdges(e); err != nil {
				return apierr.Under(field+".edges", err)
			}
			good = e
		}
	}
	c.own()
	for _, p := range pixels {
		at := &g.Flags[int(p.GetY())*g.Width+int(p.GetX())]
		*at = *at&diffusion.Fixed | uint8(p.GetEdges())
	}
	return nil
}

// checkEdges checks the closed edges of a pixel, for the method of the canvas as well.
func (c *Canvas) checkEdges(edges uint32) error {
	if edges > 0xff || edges&uint32(diffusion.Fixed) != 0 {
		return apierr.Refuse("", edges, "%s", noEdges)
	}
	d := &diffusion.Drawing{Width: 1, Height: 1, Channels: 1, Flags: []uint8{uint8(edges)}, Values: make([]float32, 1),
		Method: c.Ground.Method}
	return wire.FieldError(d.Check(), func(v kernels.Violation) (path, value, reason string) {
		if reason = noEdges; v.Path[0] == "method" {
			reason = v.Value + " " + v.Reason
		}
		return "", fmt.Sprint(edges), reason
	})
}
