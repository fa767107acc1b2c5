package kernels

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A job's timing is there once it has ended, whether or not it failed, and of a job that never ran there is none.
func TestJobTiming(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 1 << 20})
	failed := errors.New("failed")
	for _, want := range []error{nil, failed} {
		var got Timing
		var waited time.Duration
		start := time.Now()
		err := d.Do(t.Context(), Job{Timing: &got}, func(q *Queue) error {
			waited = q.waited()
			return want
		})
		if took := time.Since(start); !errors.Is(err, want) || got.Backend != d.Info().Backend || got.Queue != waited ||
			got.Compute <= 0 || got.Queue+got.Compute > took {
			t.Errorf("%v: %+v of %v", err, got, took)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var got Timing
	if err := d.Do(ended, Job{Timing: &got}, func(*Queue) error { return nil }); err == nil || got != (Timing{}) {
		t.Errorf("%v, %+v", err, got)
	}
}
