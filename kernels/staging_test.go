package kernels

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/polyscan/polyscan/kernels/devicetest"
	"github.com/polyscan/polyscan/kernels/driver"
)

// hostDriver is a fakeDriver whose devices have host memory of their own.
type hostDriver struct {
	fakeDriver
	out  map[*byte]int // what AllocHost returned
	fail error         // what AllocHost returns
}

func (d *hostDriver) Open(ordinal int) (driver.Device, error) {
	dev, err := d.fakeDriver.Open(ordinal)
	return &hostDevice{dev, d}, err
}

type hostDevice struct {
	driver.Device
	d *hostDriver
}

func (x *hostDevice) AllocHost(n int) ([]byte, error) {
	x.d.mu.Lock()
	defer x.d.mu.Unlock()
	if x.d.fail != nil {
		return nil, x.d.fail
	}
	b := make([]byte, n)
	x.d.out[&b[0]] = n
	return b, nil
}

func (x *hostDevice) FreeHost(b []byte) error {
	x.d.mu.Lock()
	defer x.d.mu.Unlock()
	if n, ok := x.d.out[&b[0]]; !ok || n != len(b) || cap(b) != n {
		return errors.New("FreeHost of what AllocHost did not return")
	}
	delete(x.d.out, &b[0])
	return nil
}

func TestStagingConfig(t *testing.T) {
	for _, c := range []struct {
		cfg   Config
		field string
	}{
		{Config{StagingBuffers: -1}, "Config.StagingBuffers"},
		{Config{StagingBuffers: 1025}, "Config.StagingBuffers"},
		{Config{StagingBytes: -1}, "Config.StagingBytes"},
	} {
		_, err := Open(&fakeDriver{}, c.cfg)
		var a *ArgError
		if !errors.As(err, &a) || a.Field != c.field {
			t.Errorf("%+v: %v", c.cfg, err)
		}
	}
	d := openFake(t, &fakeDriver{}, Config{})
	if s := d.Staging().Stats(); s.Buffers != 8 || s.BufferBytes != 4<<20 || s.Allocated != 0 {
		t.Errorf("%+v", s)
	}
}

// The memory is the backend's, comes when it is leased first, is leased again, and goes back at the end.
func TestStaging(t *testing.T) {
	f := &hostDriver{out: map[*byte]int{}}
	testStaging(t, f, f)
	testStaging(t, f, devicetest.Trace(f, false)) // wrappers hand on what the device has
}

func testStaging(t *testing.T, f *hostDriver, over driver.Driver) {
	d, err := Open(over, Config{StagingBuffers: 2, StagingBytes: 1000})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	r := d.Staging()
	first := map[*byte]bool{}
	for range 10 {
		a, err1 := r.Lease(ctx, 1000, "strip")
		b, err2 := r.Lease(ctx, 0, "sums")
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if len(a.Bytes()) != 1000 || len(b.Bytes()) != 0 || cap(a.Bytes()) != 1000 || cap(b.Bytes()) != 0 {
			t.Errorf("%d and %d bytes", len(a.Bytes()), len(b.Bytes()))
		}
		first[&a.Bytes()[0]] = true
		want := StagingStats{Buffers: 2, BufferBytes: 1000, Allocated: 2, Leased: 2, HighWater: 2, ByLabel: map[string]int{"strip": 1, "sums": 1}}
		if s := r.Stats(); !reflect.DeepEqual(s, want) {
			t.Errorf("%+v", s)
		}
		a.Release()
		b.Release()
		if a.Bytes() != nil {
			t.Errorf("released memory is still to be had")
		}
	}
	if len(first) != 1 || len(f.out) != 2 { // in turn
		t.Errorf("%d buffers came first, and %d were allocated", len(first), len(f.out))
	}
	if s := r.Stats(); s.Leased != 0 || len(s.ByLabel) != 0 || s.HighWater != 2 {
		t.Errorf("%+v", s)
	}
	var a *ArgError
	for _, n := range []int{-1, 1001} {
		if _, err := r.Lease(ctx, n, "strip"); !errors.As(err, &a) || a.Field != "strip" || a.Value != n {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if err := d.Close(); err != nil || len(f.out) != 0 {
		t.Errorf("%v, %d buffers left", err, len(f.out))
	}
	if _, err := r.Lease(ctx, 1, "late"); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// What can't be allocated is an error that says why, and the place in the ring is not lost.
func TestStagingWithoutMemory(t *testing.T) {
	f := &hostDriver{out: map[*byte]int{}, fail: driver.ErrOutOfMemory}
	d, err := Open(f, Config{StagingBuffers: 1, StagingBytes: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := d.Staging().Lease(context.Background(), 1, "strip"); !errors.Is(err, driver.ErrOutOfMemory) {
			t.Errorf("%v", err)
		}
		if s := d.Staging().Stats(); s.Leased != 0 || s.Allocated != 0 {
			t.Errorf("%+v", s)
		}
	}
	f.fail = nil
	b, err := d.Staging().Lease(context.Background(), 1, "strip")
	if err != nil {
		t.Fatal(err)
	}
	b.Release()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// Who comes while all are leased waits, in order, until one comes back, ctx ends, or the device is closed.
func TestStagingWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := Open(&fakeDriver{}, Config{StagingBuffers: 1, StagingBytes: 8})
		if err != nil {
			t.Fatal(err)
		}
		r := d.Staging()
		b, err := r.Lease(context.Background(), 1, "first")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		cancelled := make(chan error, 1)
		go func() { _, err := r.Lease(ctx, 1, "cancelled"); cancelled <- err }()
		synctest.Wait()
		var order []string
		for _, name := range []string{"second", "third"} {
			go func() {
				b, err := r.Lease(context.Background(), 1, name)
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, name)
				b.Release()
			}()
			synctest.Wait()
		}
		if s := r.Stats(); s.Waiting != 3 {
			t.Errorf("%+v", s)
		}
		cancel(errCause)
		if err := <-cancelled; !errors.Is(err, errCause) {
			t.Errorf("%v", err)
		}
		if _, err := r.Lease(ctx, 1, "late"); !errors.Is(err, errCause) {
			t.Errorf("with a context that has ended: %v", err)
		}
		b.Release()
		synctest.Wait()
		if fmt.Sprint(order) != "[second third]" {
			t.Errorf("served were %v", order)
		}

		if _, err := r.Lease(context.Background(), 1, "forgotten"); err != nil {
			t.Fatal(err)
		}
		closed := make(chan error, 1)
		go func() { _, err := r.Lease(context.Background(), 1, "too late"); closed <- err }()
		synctest.Wait()
		if err := d.Close(); !errors.Is(err, ErrLeak) || !strings.Contains(err.Error(), "1 staging buffers map[forgotten:1]") {
			t.Errorf("Close: %v", err)
		}
		if err := <-closed; !errors.Is(err, ErrClosed) {
			t.Errorf("%v", err)
		}
	})
}

func TestStagingReleasedTwice(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{StagingBuffers: 2, StagingBytes: 8})
	b, err := d.Staging().Lease(context.Background(), 1, "strip")
	if err != nil {
		t.Fatal(err)
	}
	var panics atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					if !strings.Contains(fmt.Sprint(p), `"strip" released twice`) {
						t.Errorf("%v", p)
					}
					panics.Add(1)
				}
			}()
			b.Release()
		})
	}
	wg.Wait()
	if panics.Load() != 3 {
		t.Errorf("%d of 4 calls panicked", panics.Load())
	}
	if s := d.Staging().Stats(); s.Leased != 0 {
		t.Errorf("%+v", s)
	}
}

// Goroutines never share a buffer.
func TestStagingConcurrently(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{StagingBuffers: 3, StagingBytes: 64})
	var wg sync.WaitGroup
	for id := range byte(8) {
		wg.Go(func() {
			for range 200 {
				b, err := d.Staging().Lease(context.Background(), 64, fmt.Sprint(id%3))
				if err != nil {
					t.Error(err)
					return
				}
				mine := bytes.Repeat([]byte{id}, 64)
				copy(b.Bytes(), mine)
				if s := d.Staging().Stats(); s.Leased > 3 || s.Leased != sum(s.ByLabel) {
					t.Errorf("%+v", s)
				}
				if !bytes.Equal(b.Bytes(), mine) {
					t.Error("somebody else wrote to the buffer")
				}
				b.Release()
			}
		})
	}
	wg.Wait()
	if s := d.Staging().Stats(); s.Leased != 0 || s.HighWater > 3 || s.Allocated > 3 {
		t.Errorf("%+v", s)
	}
}

func sum(m map[string]int) (n int) {
	for v := range maps.Values(m) {
		n += v
	}
	return n
}

// With Poison who reads a buffer before writing, or after releasing it, finds 0xA5.
func TestStagingPoison(t *testing.T) {
	d, done := openPoisoned(t, 4096)
	b, err := d.Staging().Lease(context.Background(), 100, "strip")
	if err != nil {
		t.Fatal(err)
	}
	all := b.Bytes()
	want := bytes.Repeat([]byte{poison}, 100)
	if !bytes.Equal(all, want) {
		t.Errorf("fresh: %x", all)
	}
	clear(all)
	b.Release()
	if !bytes.Equal(all, want) {
		t.Errorf("released: %x", all)
	}
	if err := done(); err != nil {
		t.Error(err)
	}
}
