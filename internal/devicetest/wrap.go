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
	Op     string    // "Open", "Alloc", "NewStream", "Upload", "Download", "Wait", or the name of an op
	Stream int       // number of the stream, from 1; 0 where there is none
	Bytes  int64     // asked for, or moved: see [Record]
	Args   driver.Op // nil where there is none
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

func (s *wrappedStream) Run(op driver.Op) error {
	e := Event{Op: driver.Name(op), Args: op}
	for _, o := range driver.Operands(op, nil) {
		e.Bytes += o.Slice.Len
	}
	return s.op(e, func() error { return s.Stream.Run(op) })
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
