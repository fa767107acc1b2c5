package cpu

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOpen(t *testing.T) {
	if Driver.Name() != "cpu" {
		t.Errorf("the driver is called %q", Driver.Name())
	}
	if _, err := Driver.Open(1); !errors.Is(err, driver.ErrNoDevice) {
		t.Errorf("device 1: %v", err)
	}
	if _, err := New(Options{Threads: -1}).Open(0); err == nil {
		t.Error("-1 threads are accepted")
	}
	d, err := Driver.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	i := d.Info()
	if i.Backend != "cpu" || i.Device == "" || i.ComputeUnits != runtime.GOMAXPROCS(0) || i.Capability == "" ||
		i.MemoryBytes != 1<<30 || i.MaskMethod != driver.RowSpans {
		t.Errorf("%+v", i)
	}
	s, err := d.NewStream(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err == nil {
		t.Error("the device closes without complaint while a stream is open")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closing a stream twice: %v", err)
	}
	if err := s.Run(&driver.Fill{Dst: driver.Slice{}, Value: 0}); err == nil {
		t.Error("a closed stream takes ops")
	}
	if _, err := d.NewStream(0); err == nil {
		t.Error("a closed device makes streams")
	}
}

func TestMemory(t *testing.T) {
	d, err := Driver.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, n := range []int64{-1, 1 << 62} {
		if _, err := d.Alloc(n); !errors.Is(err, driver.ErrOutOfMemory) {
			t.Errorf("alloc of %d bytes: %v", n, err)
		}
	}
	for _, n := range []int64{0, 1, 4095, 1 << 30} {
		m, err := d.Alloc(n)
		if err != nil {
			t.Fatal(err)
		}
		if m.Bytes() != n {
			t.Errorf("%d bytes, want %d", m.Bytes(), n)
		}
		b := view(driver.Slice{Mem: m, Len: n})
		if len(b) != int(n) {
			t.Errorf("a view of %d bytes has %d", n, len(b))
		}
		if n > 0 && !aligned(b) {
			t.Error("not aligned")
		}
		if err := m.Free(); err != nil {
			t.Error(err)
		}
		if err := m.Free(); err == nil {
			t.Error("memory is freed twice")
		}
		if n > 0 && views(driver.Slice{Mem: m, Len: n}) {
			t.Error("a view of freed memory")
		}
	}
}

// TestMemoryBesideHeap: what is reserved must neither be counted by the garbage collector nor touched.
func TestMemoryBesideHeap(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only where memory is mapped")
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f := newFixture(t, 1, 1<<30)
	runtime.ReadMemStats(&after)
	if n := int64(after.HeapSys) - int64(before.HeapSys); n > 64<<20 {
		t.Errorf("the heap grew by %d bytes", n)
	}
	f.upload([]byte("x"))
	f.wait()
}

func TestViewBounds(t *testing.T) {
	f := newFixture(t, 1, 1000)
	for _, s := range []driver.Slice{
		{Mem: f.mem, Off: -1, Len: 1}, {Mem: f.mem, Off: 0, Len: -1}, {Mem: f.mem, Off: 0, Len: 1001},
		{Mem: f.mem, Off: 1 << 62, Len: 1 << 62}, {Mem: f.mem, Off: 999, Len: 2}, {Mem: nil, Off: 0, Len: 1},
		{Mem: otherMem{}, Len: 1},
	} {
		if views(s) {
			t.Errorf("a view of %+v", s)
		}
	}
	for _, s := range []driver.Slice{{}, {Mem: f.mem, Off: 1000}, {Mem: f.mem, Off: 0, Len: 1000}} {
		if !views(s) {
			t.Errorf("no view of %+v", s)
		}
	}
}

// views reports whether there is a view of a slice: where there is none, that is an error of the op.
func views(s driver.Slice) bool {
	return guard("view", func() error { view(s); return nil }) == nil
}

type otherMem struct{}

func (otherMem) Bytes() int64 { return 1 << 20 }
func (otherMem) Free() error  { return nil }

func TestCopies(t *testing.T) {
	f := newFixture(t, 2, 64<<20)
	rng := seed.New(t, 1, 1)
	for _, n := range []int{0, 1, 255, 256, 257, 70_000, copyStep - 1, copyStep, 2*copyStep + 3, copyBlock,
		3*copyBlock + 5} {
		f.reset()
		src := make([]byte, n)
		kernelFills["noise"](rng, src)
		s := f.slice(int64(n))
		for _, longest := range []int{n, 100, copyStep, copyBlock + 1} {
			if longest == 100 && n > 100_000 {
				continue
			}
			pieces := [][]byte{nil}
			for rest := src; len(rest) > 0; {
				k := rng.IntN(min(longest, len(rest)) + 1)
				pieces = append(pieces, rest[:k])
				rest = rest[k:]
			}
			f.ok(f.s.Run(&driver.Fill{Dst: s, Value: 0x5a}))
			f.ok(f.s.Upload(s, append(pieces, nil)))
			if got := download[byte](f, s); !bytes.Equal(got, src) {
				t.Errorf("%d bytes in pieces of up to %d came back otherwise", n, longest)
			}
		}
		for _, v := range []byte{0, 7} {
			f.ok(f.s.Run(&driver.Fill{Dst: s, Value: v}))
			if got := download[byte](f, s); !bytes.Equal(got, bytes.Repeat([]byte{v}, n)) {
				t.Errorf("%d bytes are not all %d", n, v)
			}
		}
	}
	short := f.slice(10)
	for name, op := range map[string]func() error{
		"upload too long":    func() error { return f.s.Upload(short, [][]byte{make([]byte, 11)}) },
		"upload too short":   func() error { return f.s.Upload(short, [][]byte{make([]byte, 9)}) },
		"download too long":  func() error { return f.s.Download(make([]byte, 11), short) },
		"download too short": func() error { return f.s.Download(make([]byte, 9), short) },
	} {
		err := op()
		if err == nil {
			err = f.s.Wait(t.Context())
		}
		if err == nil {
			t.Errorf("%s passes", name)
		}
	}
}

// TestStickyError: an op that fails makes those behind it do nothing, until Wait has told.
func TestStickyError(t *testing.T) {
	f := newFixture(t, 1, 4096)
	a := f.slice(16)
	f.ok(f.s.Run(&driver.Fill{Dst: a, Value: 1}))
	f.ok(f.s.Upload(a, [][]byte{{1}}))
	f.ok(f.s.Run(&driver.Fill{Dst: a, Value: 2}))
	err := f.s.Wait(t.Context())
	if err == nil || !strings.Contains(err.Error(), "Upload") {
		t.Fatalf("the error is %v", err)
	}
	if got := download[byte](f, a); got[0] != 1 {
		t.Errorf("an op behind a failed one ran: %v", got)
	}
}

// TestPanic: a panic in an op, on whatever thread, is an error of the op.
func TestPanic(t *testing.T) {
	f := newFixture(t, 2, 4096)
	s := f.s.(*stream)
	f.ok(s.enqueue(task{name: "Test", call: func(*stopFlag) error { panic("oh") }}))
	err := s.Wait(t.Context())
	if err == nil || !strings.Contains(err.Error(), "panic in Test: oh (stream_test.go:") ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("the error is %v", err)
	}
	var none []int
	f.ok(s.enqueue(task{name: "Test", call: func(*stopFlag) error { none[len(none)]++; return nil }}))
	if err := s.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "out of range") ||
		!strings.Contains(err.Error(), "stream_test.go:") {
		t.Errorf("the error is %v", err)
	}
	f.ok(s.enqueue(task{name: "Test", call: func(*stopFlag) error {
		return s.dev.share("Test", 2, new(stopFlag), func(*scratch) error {
			time.Sleep(time.Millisecond)
			panic("oh")
		})
	}}))
	if err := s.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "oh") {
		t.Errorf("the error is %v", err)
	}
	f.wait()
	s.dev.crews[0].running.Wait()
	if n := len(s.dev.crews[0].tokens); n != 1 {
		t.Errorf("%d helpers may be started, want 1", n)
	}
}

// slowJob takes seconds by any method: many times a region with many edges.
func slowJob(f *fixture, m driver.Method) *driver.MaskPrepare {
	const width, height = 2000, 2000
	r := one(driver.NonZero,
		ring(nil, star(rand.New(rand.NewPCG(1, 1)), 20_000, width/2, height/2, width/2, height/2)...))
	for range 30 {
		r.Regions = append(r.Regions, r.Regions[0])
	}
	n, err := f.dev.Scratch(&driver.MaskPrepare{Regions: r, Width: width, Height: height, Method: m})
	f.ok(err)
	return &driver.MaskPrepare{Regions: r, Width: width, Height: height, Method: m, Dst: f.slice(n)}
}

const slowBytes = 1 << 30 // that the slow job reserves; it touches little of them

// waitRunning waits until a stream works on an op, and a little more, so that the op is somewhere in its midst.
func waitRunning(t *testing.T, s driver.Stream) {
	t.Helper()
	for x, patience := s.(*stream), time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		x.mu.Lock()
		running := x.running
		x.mu.Unlock()
		if running {
			break
		}
		if time.Now().After(patience) {
			t.Fatal("no op has begun in a minute")
		}
	}
	time.Sleep(20 * time.Millisecond)
}

// isNotPrepared reports whether a stream finds no regions in what an op has left.
func isNotPrepared(t *testing.T, s driver.Stream, prepared, pixel driver.Slice) bool {
	t.Helper()
	err := s.Run(&driver.MaskRaster{Prepared: prepared, Count: 1,
		Dst: driver.Image{Data: pixel, Width: 1, Height: 1, Stride: 1, Format: driver.Gray8}})
	if err == nil {
		err = s.Wait(t.Context())
	}
	return errors.Is(err, errNotPrepared)
}

// TestAbort: when the context ends, a long op stops, those behind it are dropped, and the stream can be used again.
func TestAbort(t *testing.T) {
	f := newFixture(t, 2, slowBytes)
	for _, m := range allMethods {
		f.reset()
		mark, pixel := f.slice(8), f.slice(1)
		op := slowJob(f, m)
		f.ok(f.s.Run(&driver.Fill{Dst: mark, Value: 1}))
		f.wait()
		f.ok(f.s.Run(op))
		f.ok(f.s.Run(&driver.Fill{Dst: mark, Value: 2}))
		cause := errors.New("the part is past the gate")
		ctx, cancel := context.WithCancelCause(t.Context())
		waitRunning(t, f.s)
		time.AfterFunc(time.Millisecond, func() { cancel(cause) })
		if err := f.s.Wait(ctx); !errors.Is(err, cause) {
			t.Fatalf("%v: %v", m, err)
		}
		if got := download[byte](f, mark); got[0] != 1 {
			t.Errorf("%v: an op that had not begun ran", m)
		}
		if !isNotPrepared(t, f.s, op.Dst, pixel) {
			t.Errorf("%v: it was not stopped, or what it left is taken for regions", m)
		}
	}
}

// TestWaitEnded: a context that has ended before Wait.
func TestWaitEnded(t *testing.T) {
	f := newFixture(t, 1, slowBytes)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f.ok(f.s.Run(slowJob(f, driver.RowSpans)))
	if err := f.s.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	f.wait()
	f.reset()
	f.upload([]byte("still works"))
	f.wait()
}

// TestCloseBusy: closing a stream stops what runs.
func TestCloseBusy(t *testing.T) {
	f := newFixture(t, 2, slowBytes)
	pixel := f.slice(1)
	op := slowJob(f, driver.Naive)
	f.ok(f.s.Run(op))
	waitRunning(t, f.s)
	f.ok(f.s.Close())
	other, err := f.dev.NewStream(0)
	f.ok(err)
	if !isNotPrepared(t, other, op.Dst, pixel) {
		t.Error("it was not stopped")
	}
	f.ok(other.Close())
}
