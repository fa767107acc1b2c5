package kernels

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels/driver"
)

// Whatever the driver fails while memory of each kind is used: errors say what they are, what was there before is as it
// was, nothing leaks, and the next job works.
func TestEveryFaultOfMemory(t *testing.T) {
	for _, poisoning := range []bool{false, true} {
		for f := range devicetest.Faults(devicetest.Oracle(), driver.ErrOutOfMemory, driver.ErrDeviceLost) {
			faultOfMemory(t, f, poisoning)
		}
	}
}

func faultOfMemory(t *testing.T, f *devicetest.Faulty, poisoning bool) {
	t.Helper()
	fails := f.Failure()
	dev, err := Open(f, Config{MemoryBytes: 1 << 14, Streams: 1, LineScanStreams: 1, BatchStreams: 1,
		Poison: poisoning})
	if err != nil {
		if _, fired := f.Fired(); !fired || !errors.Is(err, fails.Err) {
			t.Errorf("%+v: Open: %v", fails, err)
		}
		return // the oracle refuses to close with anything left open, and Open would have said so
	}
	w := memoryWork{dev: dev}
	err = w.run()
	event, fired := f.Fired()
	if err != nil && (!fired || !errors.Is(err, fails.Err)) {
		t.Errorf("%+v: %v", fails, err)
	}
	// Without poisoning nothing happens at the driver but what somebody asked for, and is told of.
	if !poisoning && fired && err == nil {
		t.Errorf("%+v: %v failed and nobody was told", fails, event)
	}
	if s := dev.Memory(); s.ByTenant.Scratch+s.ByTenant.Session+s.ByTenant.Resident != s.Used ||
		s.ByTenant.Scratch != 0 {
		t.Errorf("%+v: %+v", fails, s)
	}
	w.end()
	if !fired {
		f.Arm(devicetest.Failure{}) // all is visited: what follows is not to fail
	}
	idle(t, dev)
	select {
	case <-dev.Lost():
		isLost(t, dev)
	default: // no job was told that it is
		again := memoryWork{dev: dev}
		if err := again.run(); err != nil {
			t.Errorf("%+v: the next: %v", fails, err)
		}
		again.end()
		works(t, dev)
	}
	if err := dev.Close(); err != nil {
		t.Errorf("%+v: Close: %v", fails, err)
	}
}

// memoryWork uses memory of each kind.
type memoryWork struct {
	dev      *Device
	kept     *Persistent[byte]
	resident *Resident[byte]
	held     bool
}

func (w *memoryWork) run() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	frame := make([]byte, 2000)
	for i := range frame {
		frame[i] = byte(i * 7)
	}
	if w.kept, err = AllocPersistent[byte](w.dev, 500, "state"); err != nil {
		return err
	}
	if w.resident, err = Store[byte](w.dev, 2000, "frame"); err != nil {
		return err
	}
	w.held = true
	if err := w.dev.Do(ctx, Job{Label: "upload"}, func(q *Queue) error {
		return Upload(q, w.resident.Buffer(), frame)
	}); err != nil {
		return err
	}
	w.resident.Release()
	w.held = false
	if err := w.dev.Do(ctx, Job{Label: "state", Footprint: 1024}, func(q *Queue) error {
		a, err := Alloc[byte](q, 700, "a")
		if err != nil {
			return err
		}
		if err := errors.Join(Fill(q, a, 1), Free(q, a)); err != nil {
			return err
		}
		b, err := Alloc[byte](q, 1000, "b")
		return errors.Join(err, Fill(q, b, 2), Fill(q, w.kept.Buffer, 3))
	}); err != nil {
		return err
	}
	buf, ok := w.resident.Acquire()
	if !ok {
		return errors.New("the frame is gone, with room for it")
	}
	w.held = true
	back, state := make([]byte, 2000), make([]byte, 500)
	if err := w.dev.Do(ctx, Job{Label: "read"}, func(q *Queue) error {
		return errors.Join(Download(q, back, buf), Download(q, state, w.kept.Buffer))
	}); err != nil {
		return err
	}
	if !bytes.Equal(back, frame) || !bytes.Equal(state, bytes.Repeat([]byte{3}, 500)) {
		return errors.New("what was kept has changed")
	}
	w.resident.Release()
	w.held = false
	// A job that needs the room evicts the frame.
	if err := w.dev.Do(ctx, Job{Label: "large", Footprint: 1<<14 - 1024}, func(*Queue) error {
		return nil
	}); err != nil {
		return err
	}
	if !w.resident.Gone() {
		return errors.New("the frame is still there, where no room is for it")
	}
	return nil
}

// end gives back what run got.
func (w *memoryWork) end() {
	if w.kept != nil {
		w.kept.Free()
	}
	if w.resident != nil {
		w.resident.Drop()
		if w.held {
			w.resident.Release()
		}
	}
}
