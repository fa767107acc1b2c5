//go:build cuda

// Measuring: how long the GPU takes for ops, without the host's part in it.

package cuda

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"gorgonia.org/cu"

	"github.com/polyscan/polyscan/kernels/driver"
)

// TimeDevice implements driver.Timer. What is enqueued is captured as a graph, which is run once and then between
// events. It can't be a Download, nor an op on regions that were prepared on another device or moved since; uploads
// from memory that is not page-locked are 8 MiB at most in all.
func (s *stream) TimeDevice(ctx context.Context, copies, repeats int, enqueue func(i int) error) ([]time.Duration,
	error) {
	if copies < 1 || repeats < 1 {
		return nil, fmt.Errorf("cuda: TimeDevice: copies, repeats = %d, %d: must be at least 1", copies, repeats)
	}
	// So that the ring is free from its start.
	if err := s.Wait(ctx); err != nil {
		return nil, err
	}
	runtime.LockOSThread() // a capture ends on the thread on which it began
	defer runtime.UnlockOSThread()
	err := s.dev.do(func() error { return s.dev.checkCode("cuStreamBeginCapture", beginCapture(s.cu)) })
	if err != nil {
		return nil, fmt.Errorf("cuda: TimeDevice: %w", err)
	}
	s.capturing = true
	var failed error
	for i := 0; i < copies && failed == nil; i++ {
		failed = enqueue(i)
	}
	s.capturing = false
	times := make([]time.Duration, 0, repeats)
	err = s.dev.do(func() error {
		g, code := endCapture(s.cu)
		if err := s.dev.checkCode("cuStreamEndCapture", code); err != nil {
			return err
		}
		defer g.destroy()
		if failed != nil || s.failedBefore() {
			return nil
		}
		return s.replay(ctx, g, repeats, func(d time.Duration) { times = append(times, d/time.Duration(copies)) })
	})
	s.fail("TimeDevice", err)
	if err := errors.Join(failed, s.Wait(ctx)); err != nil {
		return nil, err
	}
	return times, nil
}

// replay runs a graph once, and then n times with a look at the clock of the GPU before and after.
func (s *stream) replay(ctx context.Context, g graph, n int, took func(time.Duration)) (err error) {
	s.dirty, s.kernelLast = true, false
	defer func() {
		// The graph reads staging memory and is destroyed next: it must have ended, whatever happened.
		if e := s.drain(false); err == nil {
			err = e
		}
	}()
	var at [2]cu.Event
	for i := range at {
		e, err := cu.MakeEvent(cu.BlockingSyncEvent)
		if err != nil {
			return s.dev.check("cuEventCreate", err)
		}
		defer cu.DestroyEvent(&e) // nothing depends on it any more
		at[i] = e
	}
	if err := s.dev.checkCode("cuGraphLaunch", g.launch(s.cu)); err != nil {
		return err
	}
	for range n {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := s.dev.check("cuEventRecord", at[0].Record(s.cu)); err != nil {
			return err
		}
		if err := s.dev.checkCode("cuGraphLaunch", g.launch(s.cu)); err != nil {
			return err
		}
		if err := s.dev.check("cuEventRecord", at[1].Record(s.cu)); err != nil {
			return err
		}
		if err := s.await(at[1]); err != nil {
			return err
		}
		ms, err := at[0].Elapsed(at[1])
		if err != nil {
			return s.dev.check("cuEventElapsedTime", err)
		}
		took(time.Duration(ms * float64(time.Millisecond)))
	}
	return nil
}

// Copy copies src to dst within the memory, which ops are compared with. They are equally long and don't overlap.
func (s *stream) Copy(dst, src driver.Slice) error {
	return s.enqueue(0, task{name: "Copy", call: func() error {
		to, err := s.dev.span(dst, "Dst")
		if err != nil {
			return err
		}
		from, err := s.dev.span(src, "Src")
		if err != nil {
			return err
		}
		if from.n != to.n {
			return fmt.Errorf("%d bytes for a destination of %d", from.n, to.n)
		}
		if to.n == 0 {
			return nil
		}
		to.overwritten()
		s.dirty, s.kernelLast = true, false
		return s.dev.check("cuMemcpyDtoDAsync",
			cu.MemcpyDtoDAsync(cu.DevicePtr(to.at()), cu.DevicePtr(from.at()), to.n, s.cu))
	}})
}

// Launch has the device do nothing, which shows what a launch costs: it clears the results of no region.
func (s *stream) Launch() error {
	return s.enqueue(0, task{name: "Launch", call: func() error {
		var args reduceClearParams
		return reduceClear.launch(s, 1, 1, clearThreads, 0, &args)
	}})
}

var _ driver.Timer = (*stream)(nil)
