package kernels

import (
	"context"
	"errors"
	"slices"
	"testing"
)

// What is computed on the host has a place, but while others go first; the place is given back whatever happens.
func TestOnHost(t *testing.T) {
	errFull, errWork := errors.New("full"), errors.New("work")
	held, entered := 0, 0
	var failAt int
	f := &fakeDriver{}
	d := openFake(t, f, Config{MemoryBytes: 4096, HostPlace: func(ctx context.Context) (func(), error) {
		if entered++; entered == failAt {
			return nil, errFull
		}
		held++
		return func() { held-- }, ctx.Err()
	}})
	var during []int
	work := func(pause func() error) error {
		for range 2 {
			during = append(during, held)
			if err := pause(); err != nil {
				return err
			}
		}
		during = append(during, held)
		return errWork
	}
	for _, c := range []struct {
		failAt int
		want   error
		during []int
	}{{0, errWork, []int{1, 1, 1}}, {1, errFull, nil}, {3, errFull, []int{1, 1}}} {
		failAt = c.failAt
		for name, run := range map[string]func() error{
			"in a job":    func() error { return d.Do(t.Context(), Job{}, func(q *Queue) error { return q.OnHost(work) }) },
			"without one": func() error { return d.OnHost(t.Context(), work) },
		} {
			entered, during = 0, nil
			if err := run(); !errors.Is(err, c.want) || !slices.Equal(during, c.during) || held != 0 {
				t.Errorf("%s, no place the %d. time: %v, %v held meanwhile, %d afterwards", name, c.failAt, err, during, held)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	failAt = 0
	err := d.Do(ctx, Job{}, func(q *Queue) error {
		return q.OnHost(func(pause func() error) error {
			cancel()
			return pause()
		})
	})
	if !errors.Is(err, context.Canceled) || held != 0 {
		t.Errorf("cancelled: %v, %d held", err, held)
	}
	plain := openFake(t, &fakeDriver{}, Config{MemoryBytes: 4096})
	if err := plain.OnHost(t.Context(), work); err != errWork {
		t.Errorf("a device without places: %v", err)
	}
}
