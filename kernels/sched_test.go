package kernels

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"golang.org/x/sync/errgroup"

	"github.com/polyscan/polyscan/kernels/driver"
)

// A large job is admitted before smaller ones that came later, however many there are.
func TestLargeJobsAreNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 10 * 256, Streams: 16})
		end := make(chan struct{})
		results := make(chan error, 20)
		var mu sync.Mutex
		var order []string
		ran := func(name string) func(*Queue) error {
			return func(*Queue) error {
				mu.Lock()
				defer mu.Unlock()
				order = append(order, name)
				return nil
			}
		}
		small := func(*Queue) error { <-end; return nil }
		for range 10 {
			go func() { results <- d.Do(t.Context(), Job{Label: "small", Footprint: 256}, small) }()
		}
		synctest.Wait()
		go func() { results <- d.Do(t.Context(), Job{Label: "large", Footprint: 10 * 256}, ran("large")) }()
		synctest.Wait()
		for range 9 { // of a size that does not run beside the large one, so that the order of the two can be seen
			go func() { results <- d.Do(t.Context(), Job{Label: "late", Footprint: 3 * 256}, ran("late")) }()
			synctest.Wait()
		}
		if _, err := Store[byte](d, 1, "stored"); !errors.Is(err, driver.ErrOutOfMemory) {
			t.Errorf("Store: %v", err)
		}
		for range 7 {
			end <- struct{}{} // freed, and wanted at once, but by those who came later
			synctest.Wait()
			if len(order) != 0 {
				t.Fatalf("%v went ahead", order)
			}
		}
		if _, err := Store[byte](d, 1, "stored"); !errors.Is(err, driver.ErrOutOfMemory) {
			t.Errorf("Store went ahead: %v", err)
		}
		close(end)
		for range 20 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		if len(order) != 10 || order[0] != "large" {
			t.Errorf("%v", order)
		}
		idle(t, d)
	})
}

// A job that gives up makes way for those behind it.
func TestCancelledHeadMakesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 10 * 256})
		k, err := AllocPersistent[byte](d, 256, "kept")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		errs := make(chan error)
		go func() { errs <- d.Do(ctx, Job{Label: "head", Footprint: 10 * 256}, func(*Queue) error { return nil }) }()
		synctest.Wait()
		go func() {
			errs <- d.Do(t.Context(), Job{Label: "next", Footprint: 256}, func(*Queue) error { return nil })
		}()
		synctest.Wait()
		if n := d.Memory().Waiting; n != 2 {
			t.Errorf("%d wait", n)
		}
		cancel(errCause)
		a, b := <-errs, <-errs
		if err := errors.Join(a, b); a != nil && b != nil || !errors.Is(err, errCause) ||
			!errors.Is(err, driver.ErrOutOfMemory) {
			t.Errorf("%v and %v", a, b)
		}
		k.Free()
		idle(t, d)
	})
}

// TestStoreBesideBusyStreams: jobs that wait for a stream don't keep residents from memory that there is plenty of;
// those that wait for memory do.
func TestStoreBesideBusyStreams(t *testing.T) {
	dev, err := Open(&fakeDriver{}, Config{MemoryBytes: 1 << 20, Streams: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	store := func() error {
		r, err := Store[byte](dev, 100, "r")
		if err == nil {
			r.Drop()
			r.Release()
		}
		return err
	}
	run := func(footprint int64, entered chan<- struct{}, leave <-chan struct{}) func() error {
		return func() error {
			return dev.Do(t.Context(), Job{Label: "j", Footprint: footprint}, func(*Queue) error {
				entered <- struct{}{}
				<-leave
				return nil
			})
		}
	}
	entered, leave := make(chan struct{}), make(chan struct{})
	var jobs errgroup.Group
	jobs.Go(run(256, entered, leave))
	<-entered
	jobs.Go(run(256, entered, leave)) // waits for the stream
	for dev.Memory().Waiting == 0 {
		runtime.Gosched()
	}
	if err := store(); err != nil {
		t.Errorf("beside a busy stream: %v", err)
	}
	leave <- struct{}{}
	<-entered
	leave <- struct{}{}
	if err := jobs.Wait(); err != nil {
		t.Error(err)
	}

	kept, err := AllocPersistent[byte](dev, 1<<19, "kept")
	if err != nil {
		t.Fatal(err)
	}
	jobs.Go(run(1<<20, entered, leave)) // waits for memory
	for dev.Memory().Waiting == 0 {
		runtime.Gosched()
	}
	if err := store(); !errors.Is(err, driver.ErrOutOfMemory) {
		t.Errorf("beside a job that waits for memory: %v", err)
	}
	kept.Free()
	<-entered
	leave <- struct{}{}
	if err := jobs.Wait(); err != nil {
		t.Error(err)
	}
}
