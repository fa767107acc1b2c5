// What Fault, Trace and Perturb share: a driver around a driver, that is told of every event.

package devicetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Event is a call that a wrapped driver saw.
type Event struct {
	Op     string // "Open", "Alloc", "NewStream", "Upload", "Download", "Fill", "Wait", or the name of an op's method
	Stream int    // number of the stream, from 1; 0 where there is none
	Bytes  int64  // asked for, or moved: see [Record]
	Args   any    // the op struct of mask ops
}

func (e Event) String() string {
	if e.Stream == 0 {
		return fmt.Sprintf("%s of %d bytes", e.Op, e.Bytes)
	}
	return fmt.Sprintf("%s of %d bytes on stream %d", e.Op, e.Bytes, e.Stream)
}

// hooks are told of events from several goroutines.
type hooks interface {
	// before is called ahead of an event. With atOnce the call returns that error; with inWait the op fails as one
	// that was enqueued does.
	before(Event) (atOnce, inWait error)
	// after is called when the call has returned. An error replaces a nil one of the call.
	after(e Event, s driver.Stream, start time.Time, err error) error
}

type wrapped struct {
	driver.Driver
	hooks   hooks
	streams atomic.Int64
}

func (d *wrapped) Open(ordinal int) (driver.Device, error) {
	var dev driver.Device
	err := call(d.hooks, Event{Op: "Open"}, nil, func() (err error) {
		dev, err = d.Driver.Open(ordinal)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &wrappedDevice{dev, d}, nil
}

// call runs f between the hooks, for events that can't fail later.
func call(h hooks, e Event, s driver.Stream, f func() error) error {
	start := time.Now()
	atOnce, inWait := h.before(e)
	if atOnce == nil {
		atOnce = inWait
	}
	if atOnce == nil {
		atOnce = f()
	}
	if err := h.after(e, s, start, atOnce); atOnce == nil {
		return err
	}
	return atOnce
}

type wrappedDevice struct {
	driver.Device
	drv *wrapped
}

func (d *wrappedDevice) Alloc(n int64) (driver.Mem, error) {
	var m driver.Mem
	err := call(d.drv.hooks, Event{Op: "Alloc", Bytes: n}, nil, func() (err error) {
		m, err = d.Device.Alloc(n)
		return err
	})
	return m, err
}

func (d *wrappedDevice) NewStream(priority int) (driver.Stream, error) {
	var s driver.Stream
	err := call(d.drv.hooks, Event{Op: "NewStream"}, nil, func() (err error) {
		s, err = d.Device.NewStream(priority)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &wrappedStream{Stream: s, hooks: d.drv.hooks, number: int(d.drv.streams.Add(1))}, nil
}

type wrappedStream struct {
	driver.Stream
	hooks  hooks
	number int
	err    error // that Wait has to return
}

func (s *wrappedStream) op(e Event, f func() error) error {
	if s.err != nil {
		return nil // as an op behind one that failed
	}
	e.Stream = s.number
	start := time.Now()
	err, inWait := s.hooks.before(e)
	if inWait != nil {
		s.err = inWait
		return s.hooks.after(e, s.Stream, start, inWait)
	}
	if err == nil {
		err = f()
	}
	if aerr := s.hooks.after(e, s.Stream, start, err); err == nil {
		return aerr
	}
	return err
}

func (s *wrappedStream) Upload(dst driver.Slice, src [][]byte) error {
	return s.op(Event{Op: "Upload", Bytes: dst.Len}, func() error { return s.Stream.Upload(dst, src) })
}

func (s *wrappedStream) Download(dst []byte, src driver.Slice) error {
	return s.op(Event{Op: "Download", Bytes: src.Len}, func() error { return s.Stream.Download(dst, src) })
}

func (s *wrappedStream) Fill(dst driver.Slice, value byte) error {
	return s.op(Event{Op: "Fill", Bytes: dst.Len}, func() error { return s.Stream.Fill(dst, value) })
}

func (s *wrappedStream) MaskPrepare(op driver.MaskPrepare) error {
	return s.op(Event{Op: "MaskPrepare", Bytes: op.Dst.Len, Args: op}, func() error { return s.Stream.MaskPrepare(op) })
}

func (s *wrappedStream) MaskReduce(op driver.MaskReduce) error {
	n := int64(op.Frame.Width)*int64(op.Frame.Height)*int64(op.Frame.Format.PixelBytes()) + op.Stats.Len + op.Hist.Len
	return s.op(Event{Op: "MaskReduce", Bytes: n, Args: op}, func() error { return s.Stream.MaskReduce(op) })
}

func (s *wrappedStream) MaskRaster(op driver.MaskRaster) error {
	n := int64(op.Dst.Width) * int64(op.Dst.Height) * int64(op.Dst.Format.PixelBytes())
	return s.op(Event{Op: "MaskRaster", Bytes: n, Args: op}, func() error { return s.Stream.MaskRaster(op) })
}

func (s *wrappedStream) Triangulate(op driver.Triangulate) error {
	n := op.Points.Len + op.Triangles.Len
	return s.op(Event{Op: "Triangulate", Bytes: n, Args: op}, func() error { return s.Stream.Triangulate(op) })
}

func (s *wrappedStream) Voronoi(op driver.Voronoi) error {
	n := op.Sites.Len + op.Labels.Len
	return s.op(Event{Op: "Voronoi", Bytes: n, Args: op}, func() error { return s.Stream.Voronoi(op) })
}

func (s *wrappedStream) Islands(op driver.Islands) error {
	n := op.Sites.Len + 2*op.Labels.Len
	return s.op(Event{Op: "Islands", Bytes: n, Args: op}, func() error { return s.Stream.Islands(op) })
}

func (s *wrappedStream) DualTriangles(op driver.DualTriangles) error {
	n := op.Sites.Len + op.Labels.Len + op.Triangles.Len
	return s.op(Event{Op: "DualTriangles", Bytes: n, Args: op}, func() error { return s.Stream.DualTriangles(op) })
}

func (s *wrappedStream) HullCompletion(op driver.HullCompletion) error {
	n := op.Sites.Len + op.Labels.Len + op.Triangles.Len
	return s.op(Event{Op: "HullCompletion", Bytes: n, Args: op}, func() error { return s.Stream.HullCompletion(op) })
}

func (s *wrappedStream) Flips(op driver.Flips) error {
	n := op.Points.Len + 2*op.Triangles.Len
	return s.op(Event{Op: "Flips", Bytes: n, Args: op}, func() error { return s.Stream.Flips(op) })
}

func (s *wrappedStream) Edges(op driver.Edges) error {
	n := int64(op.Src.Width)*int64(op.Src.Height)*int64(op.Src.Format.PixelBytes()) + op.Dst.Len
	return s.op(Event{Op: "Edges", Bytes: n, Args: op}, func() error { return s.Stream.Edges(op) })
}

func (s *wrappedStream) SelectVertices(op driver.SelectVertices) error {
	n := op.Edges.Len + op.Previous.Len + op.Points.Len
	return s.op(Event{Op: "SelectVertices", Bytes: n, Args: op}, func() error { return s.Stream.SelectVertices(op) })
}

func (s *wrappedStream) Shade(op driver.Shade) error {
	n := 2*int64(op.Src.Width)*int64(op.Src.Height)*int64(op.Src.Format.PixelBytes()) + op.Points.Len +
		op.Triangles.Len + op.Colors.Len
	return s.op(Event{Op: "Shade", Bytes: n, Args: op}, func() error { return s.Stream.Shade(op) })
}

func (s *wrappedStream) Hold(op driver.Hold) error {
	n := 2*int64(op.Dst.Width)*int64(op.Dst.Height)*int64(op.Dst.Format.PixelBytes()) + op.Points.Len +
		op.Triangles.Len + 2*op.Colors.Len
	return s.op(Event{Op: "Hold", Bytes: n, Args: op}, func() error { return s.Stream.Hold(op) })
}

func (s *wrappedStream) DiffusionSetup(op driver.DiffusionSetup) error {
	n := op.Flags.Len + op.Dst.Len + op.Counts.Len
	return s.op(Event{Op: "DiffusionSetup", Bytes: n, Args: op}, func() error { return s.Stream.DiffusionSetup(op) })
}

func (s *wrappedStream) DiffusionSolve(op driver.DiffusionSolve) error {
	n := op.Setup.Len + op.Colours.Len + op.X.Len + op.Status.Len
	return s.op(Event{Op: "DiffusionSolve", Bytes: n, Args: op}, func() error { return s.Stream.DiffusionSolve(op) })
}

func (s *wrappedStream) CurveRaster(op driver.CurveRaster) error {
	n := op.Flags.Len + op.Values.Len
	return s.op(Event{Op: "CurveRaster", Bytes: n, Args: op}, func() error { return s.Stream.CurveRaster(op) })
}

func (s *wrappedStream) Unpack(op driver.Unpack) error {
	n := op.Mask.Len + op.Flags.Len + op.Planes.Len +
		int64(op.Src.Width)*int64(op.Src.Height)*int64(op.Src.Format.PixelBytes())
	return s.op(Event{Op: "Unpack", Bytes: n, Args: op}, func() error { return s.Stream.Unpack(op) })
}

func (s *wrappedStream) Pack(op driver.Pack) error {
	n := op.Planes.Len + op.Flags.Len + int64(op.Dst.Width)*int64(op.Dst.Height)*int64(op.Dst.Format.PixelBytes())
	return s.op(Event{Op: "Pack", Bytes: n, Args: op}, func() error { return s.Stream.Pack(op) })
}

func (s *wrappedStream) Fingerprint(op driver.Fingerprint) error {
	n := op.Src.Len + op.Dst.Len
	return s.op(Event{Op: "Fingerprint", Bytes: n, Args: op}, func() error { return s.Stream.Fingerprint(op) })
}

func (s *wrappedStream) Blur(op driver.Blur) error {
	n := op.Src.Len + op.Sigma.Len + op.Dst.Len
	return s.op(Event{Op: "Blur", Bytes: n, Args: op}, func() error { return s.Stream.Blur(op) })
}

func (s *wrappedStream) Wait(ctx context.Context) error {
	start := time.Now()
	err := s.Stream.Wait(ctx)
	if err == nil {
		err = s.err
	}
	s.err = nil
	if aerr := s.hooks.after(Event{Op: "Wait", Stream: s.number}, s.Stream, start, err); err == nil {
		return aerr
	}
	return err
}
