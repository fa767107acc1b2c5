// DiffusionService: SolveProgressively and Edit.

package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"

	"github.com/polyscan/polyscan/diffusion"
	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// SolveProgressively implements pb.DiffusionServiceServer, for callers inside the process.
func (s *diffusionServer) SolveProgressively(req *pb.SolveProgressivelyRequest, stream grpc.ServerStreamingServer[pb.SolveProgressivelyResponse]) error {
	return s.progress(stream, req, framecodec.New(req))
}

func (s *diffusionServer) solveProgressively(stream grpc.ServerStream) error {
	req := &pb.SolveProgressivelyRequest{}
	in := framecodec.New(req)
	defer in.Free()
	if err := receiveMessage(stream, in); err != nil {
		return err
	}
	if err := s.validate(in); err != nil {
		return err
	}
	return s.progress(stream, req, in)
}

// progress solves in one goroutine and sends in another, so that the device doesn't wait for the client: pictures that it has no time
// for are left out.
func (s *diffusionServer) progress(stream grpc.ServerStream, req *pb.SolveProgressivelyRequest, in *framecodec.Message) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	// Of the pictures on the way, the one that was made last and the one that is sent.
	v, err := s.newSolving(ctx, req.GetRequest(), in, solvePixelShare+2*solveChannels)
	if err != nil {
		return under("request", err)
	}
	defer v.release()
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
	s.Server.background.Go(func() {
		defer v.dev.end() // a client that doesn't read must not keep the device
		defer func() {
			if p := recover(); p != nil { // nobody else would: this is a goroutine of its own
				done <- s.panicked(ctx, p)
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
		return stream.SendMsg(&response{Message: out, start: time.Now(), release: func() {}})
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
				return under("request", solveError(req.GetRequest(), err))
			}
			return send(picture{last, v.target.Pixels.Host}, true)
		}
	}
}

// under puts the fields of a refusal below one of another message.
func under(field string, err error) error {
	var bad *fieldError
	if errors.As(err, &bad) {
		for i := range bad.violations {
			bad.violations[i].path = field + "." + bad.violations[i].path
		}
	}
	return err
}

// Edit implements pb.DiffusionServiceServer, for callers inside the process.
func (s *diffusionServer) Edit(stream grpc.BidiStreamingServer[pb.EditRequest, pb.EditResponse]) error {
	return s.edit(stream)
}

const (
	// editPatience is how old the last picture may be for a change to end the solve of the one before.
	editPatience = 100 * time.Millisecond
	// maxRefusals is how many refused changes may wait for the client to read before no more are received.
	maxRefusals = 64
	// canvasPointShare is the host memory that a point, a stop or a pixel on a canvas takes, in bytes, about; it is taken for
	// canvasPoints at a time.
	canvasPointShare = 128
	canvasPoints     = 1 << 14
)

// errNewer ends the solve of a picture that has changed.
var errNewer = errors.New("the canvas has changed")

// canvas is a call of Edit.
type canvas struct {
	*solving
	stream grpc.ServerStream
	ground *diffusion.Drawing // what is under curves and pixels
	limit  int                // of points of curves, stops and pixels together

	changed chan struct{} // holds one when there is something to do

	mu      sync.Mutex
	room    *sync.Cond // refused got shorter, or the stream ends
	curves  []*pb.Curve
	index   map[string]int // of curves, by their ids
	pixels  map[[2]uint32]*pb.GivenPixel
	size    int      // what counts for limit
	paid    int      // how much of that there is host memory for
	shares  []func() // give that back
	closed  bool     // the call has ended
	edits   uint64   // that came
	stale   bool     // something has changed since the drawing was taken that is rendered
	refused []refusal
	end     error                   // why no more come; io.EOF when the client has half-closed
	stop    context.CancelCauseFunc // ends the solve under way; nil without one
	sent    time.Time               // of the last picture

	buffers chan []byte // of pictures, to be used again

	rendering sync.Mutex
	on        *diffusion.Canvas // nil once the device is given back
}

// refusal is a change that can't be made.
type refusal struct {
	edit uint64
	err  error
}

func (s *diffusionServer) edit(stream grpc.ServerStream) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	first := &pb.EditRequest{}
	in := framecodec.New(first)
	defer in.Free()
	if err := receiveMessage(stream, in); err != nil {
		if errors.Is(err, io.EOF) {
			return withDetails(codes.FailedPrecondition, "the stream ended before its open message", info(reasonFrameOutOfOrder)).Err()
		}
		return err
	}
	if err := s.validate(in); err != nil {
		return err
	}
	open := first.GetOpen()
	if open == nil {
		return withDetails(codes.FailedPrecondition, "a change came before open, which must be the first message", info(reasonFrameOutOfOrder)).Err()
	}
	drawing := open.GetDrawing()
	if drawing != nil { // its curves and pixels can be changed: they are not on the ground
		open.Drawing = &pb.Drawing{Width: drawing.GetWidth(), Height: drawing.GetHeight()}
	}
	// What is rendered is a copy of what is on the canvas, and pictures that are being sent are not written to.
	v, err := s.newSolving(ctx, open, in, solvePixelShare+givenPixelShare+2*solveChannels)
	if err != nil {
		return under("open", err)
	}
	defer v.release()
	c := &canvas{
		solving: v, stream: stream, ground: v.drawing, limit: s.cfg.MaxPoints, changed: make(chan struct{}, 1),
		index: map[string]int{}, pixels: map[[2]uint32]*pb.GivenPixel{}, stale: true, buffers: make(chan []byte, 2),
		on: diffusion.NewCanvas(v.dev.Device), paid: canvasPoints,
	}
	c.room = sync.NewCond(&c.mu)
	defer c.close()
	for i, curve := range drawing.GetCurves() {
		if c.find(curve.GetId()) >= 0 {
			return refuse(fmt.Sprintf("open.drawing.curves[%d].id", i), curve.GetId(), "is that of a curve before")
		}
		if err := c.put(curve); err != nil {
			return under(fmt.Sprintf("open.drawing.curves[%d]", i), err)
		}
	}
	if err := c.give(drawing.GetPixels()); err != nil {
		return under("open.drawing", err)
	}
	c.changed <- struct{}{}
	s.Server.background.Go(func() { c.receive(ctx) })
	s.Server.background.Go(func() {
		select {
		case <-c.dev.Lost():
			c.leave() // it can't be opened again before, and the client may not read
		case <-ctx.Done():
		}
	})
	return c.send(ctx)
}

// leave gives the device back.
func (c *canvas) leave() {
	c.rendering.Lock()
	defer c.rendering.Unlock()
	if c.on != nil {
		c.on.Close()
		c.on = nil
		c.dev.end()
	}
}

// close gives back what the call has but the memory of solving. Changes may still come.
func (c *canvas) close() {
	c.leave()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, release := range c.shares {
		release()
	}
}

// render makes the picture of a drawing.
func (c *canvas) render(ctx context.Context, d *diffusion.Drawing) (*diffusion.Solution, error) {
	c.rendering.Lock()
	defer c.rendering.Unlock()
	if c.on == nil {
		return nil, errDeviceLost
	}
	return c.on.Render(ctx, d, c.target, c.opts)
}

// receive makes changes until the stream ends. It is a goroutine of its own, because only so a change can end a solve.
func (c *canvas) receive(ctx context.Context) {
	var err error
	defer func() {
		if p := recover(); p != nil { // nobody else would
			err = c.panicked(ctx, p)
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
		if err = receiveMessage(c.stream, in); err != nil {
			in.Free()
			return
		}
		bad := c.validate(in)
		if req.GetOpen() != nil {
			in.Free()
			err = withDetails(codes.FailedPrecondition, "open: came a second time", info(reasonSecondOpen)).Err()
			return
		}
		c.mu.Lock()
		for len(c.refused) == maxRefusals && ctx.Err() == nil {
			c.room.Wait()
		}
		c.edits++
		if bad == nil {
			bad = c.apply(req)
		}
		if bad != nil {
			c.refused = append(c.refused, refusal{c.edits, bad})
		} else if c.stale = true; c.stop != nil && time.Since(c.sent) < editPatience {
			c.stop(errNewer)
		}
		c.mu.Unlock()
		in.Free()
		c.wake()
	}
}

// wake makes the sender look.
func (c *canvas) wake() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// send renders what has changed and sends it. It is the handler: what it returns ends the stream.
func (c *canvas) send(ctx context.Context) error {
	for {
		select {
		case <-c.draining: // or a client that always has another change would keep the server from ending
			return errShuttingDown
		default:
		}
		select {
		case <-c.changed:
		case <-c.draining:
			return errShuttingDown
		case <-c.dev.Lost():
			return errDeviceLost
		case <-ctx.Done():
			return context.Cause(ctx)
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

// answer says which changes were refused, and makes and sends a picture if it has changed. again says that it may have changed meanwhile.
func (c *canvas) answer(ctx context.Context) (again bool, err error) {
	solve, stop := context.WithCancelCause(c.ctx)
	defer stop(nil)
	var d *diffusion.Drawing
	c.mu.Lock()
	refused, edits, end := c.refused, c.edits, c.end
	c.refused = nil
	c.room.Broadcast()
	if c.stale {
		d, c.stale, c.stop = c.drawing(), false, stop
	}
	c.mu.Unlock()
	for _, r := range refused {
		m := &pb.EditResponse{Edits: r.edit, Outcome: &pb.EditResponse_Error{Error: statusOf(ctx, c.log, r.err).Proto()}}
		if err := c.stream.SendMsg(m); err != nil {
			return false, err
		}
	}
	if d == nil {
		return false, end
	}
	sol, err := c.render(solve, d)
	c.mu.Lock()
	c.stop = nil
	c.mu.Unlock()
	switch {
	case errors.Is(err, errNewer):
		return true, nil
	case err != nil && ctx.Err() != nil:
		return false, context.Cause(ctx)
	case err != nil:
		st := statusOf(ctx, c.log, solveError(&pb.SolveRequest{Drawing: &pb.Drawing{}}, err))
		if st.Code() == codes.Unavailable {
			return false, st.Err()
		}
		return true, c.stream.SendMsg(&pb.EditResponse{Edits: edits, Outcome: &pb.EditResponse_Error{Error: st.Proto()}})
	}
	err = c.sendPicture(sol, edits)
	c.mu.Lock()
	c.sent = time.Now()
	c.mu.Unlock()
	return true, err
}

// sendPicture sends what was rendered, and takes another buffer for the next.
func (c *canvas) sendPicture(sol *diffusion.Solution, edits uint64) error {
	buffer := c.target.Pixels.Host
	m, pixels, err := c.response(sol, buffer)
	if err != nil {
		return err
	}
	out := framecodec.New(&pb.EditResponse{Edits: edits, SetupKept: sol.SetupKept, Outcome: &pb.EditResponse_Result{Result: m}})
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
	return c.stream.SendMsg(&response{Message: out, start: time.Now(), release: func() {}})
}

// drawing is what is on the canvas. c.mu is held.
func (c *canvas) drawing() *diffusion.Drawing {
	d := *c.ground
	d.Curves = make([]diffusion.Curve, len(c.curves))
	for i, curve := range c.curves {
		d.Curves[i] = curveOf(curve)
	}
	if len(c.pixels) > 0 {
		d.Flags, d.Values = slices.Clone(d.Flags), slices.Clone(d.Values)
		pixels := make([]*pb.GivenPixel, 0, len(c.pixels))
		for _, p := range c.pixels {
			pixels = append(pixels, p)
		}
		givePixels(&d, pixels)
	}
	return &d
}

// apply makes a change, or says why it can't be made. c.mu is held.
func (c *canvas) apply(req *pb.EditRequest) error {
	switch m := req.GetMessage().(type) {
	case *pb.EditRequest_PutCurve:
		return under("put_curve", c.put(m.PutCurve))
	case *pb.EditRequest_MoveCurve:
		return under("move_curve", c.change(m.MoveCurve.GetId(), func(to *pb.Curve) {
			for i := range to.Xy {
				to.Xy[i] += []float64{m.MoveCurve.GetDx(), m.MoveCurve.GetDy()}[i%2]
			}
		}))
	case *pb.EditRequest_RecolorCurve:
		return under("recolor_curve", c.change(m.RecolorCurve.GetId(), func(to *pb.Curve) {
			to.Left, to.Right, to.Blur = m.RecolorCurve.GetLeft(), m.RecolorCurve.GetRight(), m.RecolorCurve.GetBlur()
		}))
	case *pb.EditRequest_RemoveCurve:
		i := c.find(m.RemoveCurve)
		if i < 0 {
			return refuse("remove_curve", m.RemoveCurve, "is no curve on the canvas")
		}
		c.size -= sizeOf(c.curves[i])
		c.curves = slices.Delete(c.curves, i, i+1)
		delete(c.index, m.RemoveCurve)
		for k, curve := range c.curves[i:] {
			c.index[curve.GetId()] = i + k
		}
	case *pb.EditRequest_PutPixels:
		return under("put_pixels", c.give(m.PutPixels.GetPixels()))
	case *pb.EditRequest_RemovePixels:
		xy, before := m.RemovePixels.GetXy(), len(c.pixels)
		if len(xy)%2 != 0 {
			return refuse("remove_pixels.xy", fmt.Sprintf("%d numbers", len(xy)), "must be pairs of x and y")
		}
		for i := 0; i < len(xy); i += 2 {
			if c.pixels[[2]uint32(xy[i:])] == nil {
				return refuse(fmt.Sprintf("remove_pixels.xy[%d]", i), xy[i:i+2], "is no pixel that was given")
			}
		}
		for i := 0; i < len(xy); i += 2 {
			delete(c.pixels, [2]uint32(xy[i:]))
		}
		c.size += len(c.pixels) - before
	default:
		return refuse("message", nil, "one of the changes must be given")
	}
	return nil
}

// find returns the index of a curve, or -1.
func (c *canvas) find(id string) int {
	if i, ok := c.index[id]; ok {
		return i
	}
	return -1
}

// sizeOf is what a curve counts for the limit.
func sizeOf(c *pb.Curve) int {
	return len(c.GetXy())/2 + len(c.GetLeft()) + len(c.GetRight()) + len(c.GetBlur()) + 1
}

// pay takes host memory for so much on the canvas. It doesn't wait, since the call has some already.
func (c *canvas) pay(size int) error {
	if size <= c.paid {
		return nil
	}
	more := (size - c.paid + canvasPoints - 1) / canvasPoints * canvasPoints
	release, ok := c.host.try(int64(more) * canvasPointShare)
	if !ok || c.closed {
		if ok {
			release()
		}
		return &quotaError{reasonHostMemory, "host memory", "other calls have what more points, stops and pixels on the canvas take"}
	}
	c.paid += more
	c.shares = append(c.shares, release)
	return nil
}

// put checks a curve and puts it on the canvas.
func (c *canvas) put(curve *pb.Curve) error {
	i, size := c.find(curve.GetId()), c.size+sizeOf(curve)
	if i >= 0 {
		size -= sizeOf(c.curves[i])
	}
	if size > c.limit {
		return refuse("xy", len(curve.GetXy()), "makes more than %d points, stops and pixels on the canvas", c.limit)
	}
	d := &diffusion.Drawing{Width: c.ground.Width, Height: c.ground.Height, Channels: solveChannels, Curves: []diffusion.Curve{curveOf(curve)}}
	if err := d.Check(); err != nil {
		var invalid *diffusion.InvalidError
		if errors.As(err, &invalid) {
			return refuse(strings.TrimPrefix(curveField(invalid.Field), "curves[0]."), invalid.Value, "%s", invalid.Problem)
		}
		return err
	}
	if err := c.pay(size); err != nil {
		return err
	}
	if c.size = size; i >= 0 {
		c.curves[i] = curve
	} else {
		c.index[curve.GetId()] = len(c.curves)
		c.curves = append(c.curves, curve)
	}
	return nil
}

// change changes a curve, whose other parts stay.
func (c *canvas) change(id string, f func(*pb.Curve)) error {
	i := c.find(id)
	if i < 0 {
		return refuse("id", id, "is no curve on the canvas")
	}
	was := c.curves[i]
	to := &pb.Curve{Id: was.GetId(), Xy: slices.Clone(was.GetXy()), Left: was.GetLeft(), Right: was.GetRight(), Blur: was.GetBlur(), Barrier: was.GetBarrier()}
	f(to)
	return c.put(to)
}

// give checks pixels and puts them on the canvas, all or none.
func (c *canvas) give(pixels []*pb.GivenPixel) error {
	if err := checkGiven(&pb.Drawing{Width: uint32(c.ground.Width), Height: uint32(c.ground.Height), Pixels: pixels}); err != nil {
		var bad *fieldError
		if errors.As(err, &bad) {
			for i := range bad.violations {
				bad.violations[i].path = strings.TrimPrefix(bad.violations[i].path, "drawing.")
			}
		}
		return err
	}
	if c.size+len(pixels) > c.limit {
		return refuse("pixels", len(pixels), "make more than %d points, stops and pixels on the canvas", c.limit)
	}
	if err := c.pay(c.size + len(pixels)); err != nil {
		return err
	}
	before := len(c.pixels)
	for _, p := range pixels {
		c.pixels[[2]uint32{p.GetX(), p.GetY()}] = p
	}
	c.size += len(c.pixels) - before
	return nil
}
