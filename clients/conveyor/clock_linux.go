package main

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// systemClock sleeps in the kernel: the runtime's timers are rounded up to a millisecond where nothing else is
// to be done, which is half the time of a fast camera's strip.
type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

// nap is the longest sleep in one piece, as it can't be interrupted.
const nap = 20 * time.Millisecond

func (systemClock) Sleep(ctx context.Context, t time.Time) error {
	for {
		d := time.Until(t)
		if d <= 0 || ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if d > 2*nap {
			timer := time.NewTimer(d - nap)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
			}
			continue
		}
		ts := unix.NsecToTimespec(int64(d))
		// An interrupted sleep is taken up by the loop.
		if err := unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &ts, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
