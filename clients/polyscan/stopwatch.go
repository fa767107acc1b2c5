package main

// How long the device takes, for polyscan bench: a driver around a driver, that looks at the clock.

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/polyscan/polyscan/kernels/driver"
)

// stopwatch is a driver that adds up how long the device takes for the ops of its streams, but for copies from and to
// the host: by the device's own clock where it has one, else from handing an op to the idle device until it is done. It
// does so between start and stop only; timing an op takes much longer than the op. One job at a time may run meanwhile.
type stopwatch struct {
	driver.Driver
	device  driver.Device // the one that was opened, without the watch
	running atomic.Bool
	total   time.Duration            // since start
	ops     map[string]time.Duration // the same, by the op's name
	// hasClock says that the device has one.
	hasClock bool
}

const (
	// timedCopies of an op are timed together, so that the clock's resolution and its own cost don't show.
	timedCopies = 8
	// timedRepeats is of how many such times the median is taken.
	timedRepeats = 25
	// rotateBytes of frames are read in turn, so that no cache of a GPU holds the next one.
	rotateBytes = 256 << 20
)

// Open implements driver.Driver.
func (w *stopwatch) Open(ordinal int) (driver.Device, error) {
	d, err := w.Driver.Open(ordinal)
	if err != nil {
		return nil, err
	}
	w.device = d
	return timedDevice{d, w}, nil
}

func (w *stopwatch) start() {
	w.total = 0
	w.ops = map[string]time.Duration{}
	w.running.Store(true)
}

func (w *stopwatch) count(op string, took time.Duration) {
	w.total += took
	w.ops[op] += took
}

func (w *stopwatch) stop() time.Duration {
	w.running.Store(false)
	return w.total
}

type timedDevice struct {
	driver.Device
	watch *stopwatch
}

func (d timedDevice) NewStream(priority int) (driver.Stream, error) {
	s, err := d.Device.NewStream(priority)
	if err != nil {
		return nil, err
	}
	_, d.watch.hasClock = s.(driver.Timer)
	return &timedStream{s, d.watch}, nil
}

type timedStream struct {
	driver.Stream
	watch *stopwatch
}

// Run times ops that may run several times, which those may not that change what they read.
func (s *timedStream) Run(op driver.Op) error {
	if reduce, ok := op.(*driver.MaskReduce); ok {
		return s.reduce(reduce)
	}
	for _, o := range driver.Operands(op, nil) {
		if o.Access == driver.Read|driver.Write {
			return s.Stream.Run(op)
		}
	}
	return s.time(driver.Name(op), func() error { return s.Stream.Run(op) })
}

// reduce times copies of the op on copies of the frame, with results of their own: it may add to those that are
// there.
func (s *timedStream) reduce(op *driver.MaskReduce) error {
	t, ok := s.Stream.(driver.Timer)
	if !ok || !s.watch.running.Load() {
		return s.time("MaskReduce", func() error { return s.Stream.Run(op) })
	}
	align := func(n int64) int64 { return (n + driver.Align - 1) &^ (driver.Align - 1) }
	frame, stats := align(op.Frame.Data.Len), align(op.Stats.Len)
	frames := min(max(rotateBytes/frame, 1), timedCopies)
	m, err := s.watch.device.Alloc(frames*frame + stats + align(op.Hist.Len))
	if err != nil {
		return fmt.Errorf("copies of the frame: %w", err)
	}
	defer m.Free()
	other := *op
	other.Stats = driver.Slice{Mem: m, Off: frames * frame, Len: op.Stats.Len}
	if op.Hist.Len > 0 {
		other.Hist = driver.Slice{Mem: m, Off: frames*frame + stats, Len: op.Hist.Len}
	}
	other.Accumulate = false
	at := func(i int64) driver.Slice { return driver.Slice{Mem: m, Off: i * frame, Len: op.Frame.Data.Len} }
	for i := range frames {
		if err := t.Copy(at(i), op.Frame.Data); err != nil {
			return err
		}
	}
	err = s.add("MaskReduce", t, func(i int) error {
		op := other
		op.Frame.Data = at(int64(i) % frames)
		return t.Run(&op)
	})
	if err != nil {
		return err
	}
	return t.Run(op)
}

// time hands an op to the device, and times it where the watch runs. The op may run several times.
func (s *timedStream) time(op string, enqueue func() error) error {
	if !s.watch.running.Load() {
		return enqueue()
	}
	if t, ok := s.Stream.(driver.Timer); ok {
		if err := s.add(op, t, func(int) error { return enqueue() }); err != nil {
			return err
		}
		return enqueue()
	}
	ctx := context.Background()
	if err := s.Stream.Wait(ctx); err != nil {
		return err
	}
	start := time.Now()
	if err := enqueue(); err != nil {
		return err
	}
	if err := s.Stream.Wait(ctx); err != nil {
		return err
	}
	s.watch.count(op, time.Since(start))
	return nil
}

// add times an op by the device's clock.
func (s *timedStream) add(op string, t driver.Timer, enqueue func(i int) error) error {
	times, err := t.TimeDevice(context.Background(), timedCopies, timedRepeats, enqueue)
	if err != nil {
		return err
	}
	s.watch.count(op, median(times))
	return nil
}

func median(d []time.Duration) time.Duration { return slices.Sorted(slices.Values(d))[len(d)/2] }
