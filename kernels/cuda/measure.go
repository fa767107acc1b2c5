//go:build cuda

// Measuring: how long the GPU takes for ops, without the host's part in it.

package cuda

import (
	"context"
	"fmt"
	"time"

	"gorgonia.org/cu"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Measure returns how long the device takes for what fn enqueues on the stream. It calls fn copies times, with
// 0 <= i < copies, and captures what is enqueued as a graph instead of running it; it runs the graph once, and then
// replays times between events. Each result is the time between two events, divided by copies. With several copies the
// gaps between graphs don't count, and fn can vary the memory by i so that caches don't serve it.
//
// fn may enqueue MaskPrepare, MaskReduce, MaskRaster, Fill and Upload (8 MiB in all that are not page-locked); what was
// prepared must have been so on this device, and not been moved. The stream must have drained before, as after Wait, and
// has drained after.
func (s *stream) Measure(ctx context.Context, copies, replays int, fn func(i int) error) ([]time.Duration, error) {
	if copies < 1 || replays < 1 {
		return nil, fmt.Errorf("cuda: Measure: copies, replays = %d, %d: must be at least 1", copies, replays)
	}
	begin := func() error {
		// Not a driver's wait but ours, so that the ring is free from its start.
		if err := s.drain(false); err != nil {
			return err
		}
		if err := s.dev.checkCode("cuStreamBeginCapture", beginCapture(s.cu)); err != nil {
			return err
		}
		s.capturing = true
		return nil
	}
	if err := s.enqueue("Measure", begin); err != nil {
		return nil, err
	}
	var fnErr error
	for i := range copies {
		if fnErr = fn(i); fnErr != nil {
			break
		}
	}
	times := make([]time.Duration, 0, replays)
	end := func() error {
		if !s.capturing {
			return nil
		}
		s.capturing = false
		g, code := endCapture(s.cu)
		if err := s.dev.checkCode("cuStreamEndCapture", code); err != nil {
			return err
		}
		defer g.destroy()
		if fnErr != nil || s.failedBefore() {
			return nil
		}
		return s.replay(ctx, g, replays, func(d time.Duration) { times = append(times, d/time.Duration(copies)) })
	}
	if err := s.put(task{name: "Measure", run: end, always: true}); err != nil {
		return nil, err
	}
	if err := s.Wait(ctx); err != nil {
		return nil, err
	}
	return times, fnErr
}

func (s *stream) failedBefore() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil
}

// replay runs a graph once, and then n times with a look at the clock of the GPU before and after.
func (s *stream) replay(ctx context.Context, g graph, n int, took func(time.Duration)) (err error) {
	s.dirty = true
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

var _ driver.Stream = (*stream)(nil)
