package kernels

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels/driver"
)

// openFake opens a device over d, and at the end closes it and looks for what is left open.
func openFake(t *testing.T, d *fakeDriver, cfg Config) *Device {
	t.Helper()
	dev, err := Open(d, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if n := d.open(); n != [4]int{} {
			t.Errorf("devices, streams, blocks and busy streams left open: %v", n)
		}
		for _, p := range d.promises {
			t.Errorf("the backend was given what package driver rules out: %s", p)
		}
	})
	return dev
}

// idle checks that no job holds anything.
func idle(t *testing.T, d *Device) {
	t.Helper()
	if m := d.Memory(); m.Used != 0 || m.Waiting != 0 || len(m.ByLabel) != 0 || m.Largest != m.Reserved {
		t.Errorf("memory after the jobs: %+v", m)
	}
	s := &d.sched
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting != 0 || len(s.pauses) != 0 {
		t.Errorf("%d jobs wait, and %d pause", s.waiting, len(s.pauses))
	}
	for c := range s.classes {
		q := &s.classes[c]
		if q.leased != 0 || len(q.running) != 0 || len(q.waiting) != 0 {
			t.Errorf("%v: %d of %d streams came back, %d jobs run, %d wait", Class(c), q.streams-q.leased, q.streams,
				len(q.running), len(q.waiting))
		}
	}
}

// works runs a job that succeeds.
func works(t *testing.T, d *Device) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := d.Do(ctx, Job{Label: "next", Footprint: 512}, func(q *Queue) error {
		b, err := Alloc[byte](q, 300, "x")
		if err != nil {
			return err
		}
		return Upload(q, b, make([]byte, 300))
	})
	if err != nil {
		t.Errorf("the next job: %v", err)
	}
	idle(t, d)
}

// isLost checks that a device was lost, and that it says so at once.
func isLost(t *testing.T, d *Device) {
	t.Helper()
	select {
	case <-d.Lost():
	default:
		t.Error("the device was lost, and does not say so")
	}
	err := d.Do(context.Background(), Job{Label: "next"}, func(*Queue) error { t.Error("a job ran"); return nil })
	if !errors.Is(err, driver.ErrDeviceLost) {
		t.Errorf("the next job: %v", err)
	}
	if _, err := AllocPersistent[byte](d, 1, "next"); !errors.Is(err, driver.ErrDeviceLost) {
		t.Errorf("Keep: %v", err)
	}
	idle(t, d)
}

func TestOpenChecksItsConfig(t *testing.T) {
	for _, c := range []struct {
		cfg   Config
		field string
	}{
		{Config{MemoryBytes: -1}, "Config.MemoryBytes"},
		{Config{Streams: -1}, "Config.Streams"},
		{Config{Streams: 257}, "Config.Streams"},
		{Config{LineScanStreams: -1}, "Config.LineScanStreams"},
		{Config{BatchStreams: 257}, "Config.BatchStreams"},
		{Config{MaxWaiting: -1}, "Config.MaxWaiting"},
	} {
		d := &fakeDriver{}
		_, err := Open(d, c.cfg)
		var a *ArgError
		if !errors.As(err, &a) || a.Op != "Open" || a.Field != c.field {
			t.Errorf("%+v: %v", c.cfg, err)
		}
		if d.open() != [4]int{} {
			t.Errorf("%+v: left open: %v", c.cfg, d.open())
		}
	}
}

func TestInfoAndDefaults(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{})
	if i := d.Info(); i.MemoryBytes != 1<<20 || i.ComputeUnits != 7 || i.Backend != "fake" ||
		i.MaskMethod != driver.Tiled {
		t.Errorf("%+v", i)
	}
	if n := d.sched.classes[Interactive].streams; n != 4 {
		t.Errorf("%d streams", n)
	}
	d = openFake(t, &fakeDriver{}, Config{MemoryBytes: 1000, Streams: 2})
	if i := d.Info(); i.MemoryBytes != 1024 || d.Memory().Reserved != 1024 {
		t.Errorf("1000 bytes: %+v", i)
	}
	if n := d.sched.classes[Interactive].streams; n != 2 {
		t.Errorf("%d streams", n)
	}
}

// Whatever the driver fails, errors say what they are, nothing is left open, and once it works again so does the front.
func TestEveryFault(t *testing.T) {
	for f := range devicetest.Faults(&fakeDriver{}, driver.ErrOutOfMemory, driver.ErrDeviceLost) {
		base := f.Driver.(*fakeDriver)
		fails := f.Failure()
		check := func(what string, err error) {
			t.Helper()
			_, fired := f.Fired()
			if err != nil && (!fired || !errors.Is(err, fails.Err)) {
				t.Errorf("%+v: %s: %v", fails, what, err)
			}
		}
		dev, err := Open(f, Config{Streams: 2, MemoryBytes: 1 << 16})
		check("Open", err)
		if err != nil {
			if n := base.open(); n != [4]int{} {
				t.Errorf("%+v: Open left open: %v", fails, n)
			}
			continue
		}
		_, fired := f.Fired()
		err = dev.Do(context.Background(), Job{Label: "work", Footprint: 1 << 15}, func(q *Queue) error {
			var steps []error
			pixels, err := Alloc[byte](q, 100, "pixels")
			steps = append(steps, err)
			prepared, err := Alloc[byte](q, 1000, "prepared")
			steps = append(steps, err)
			stats, err := Alloc[driver.MaskStats](q, 1, "stats")
			steps = append(steps, err, Upload(q, pixels, make([]byte, 100)))
			op := driver.MaskPrepare{Width: 10, Height: 10, Dst: prepared.Slice()}
			op.Regions.Regions = make([]driver.Region, 1)
			image := driver.Image{Data: pixels.Slice(), Width: 10, Height: 10, Stride: 10, Format: driver.Gray8}
			steps = append(steps,
				q.Run(&op),
				q.Run(&driver.MaskReduce{Prepared: prepared.Slice(), Count: 1, Frame: image,
					Stats: stats.Slice()}),
				q.Run(&driver.MaskRaster{Prepared: prepared.Slice(), Count: 1, Dst: image}),
				Fill(q, pixels, 1),
				q.Yield(),
				Download(q, make([]driver.MaskStats, 1), stats),
				q.Wait())
			return errors.Join(steps...)
		})
		check("Do", err)
		if now, ok := f.Fired(); ok && !fired && err == nil {
			t.Errorf("%+v: %v failed and Do returns nil", fails, now)
		}
		idle(t, dev)
		if _, ok := f.Fired(); !ok {
			f.Arm(devicetest.Failure{}) // all is visited: what follows is not to fail
		}
		if errors.Is(err, driver.ErrDeviceLost) {
			isLost(t, dev)
		} else {
			works(t, dev)
		}
		if err := dev.Close(); err != nil {
			t.Errorf("%+v: Close: %v", fails, err)
		}
		if n := base.open(); n != [4]int{} {
			t.Errorf("%+v: left open: %v", fails, n)
		}
	}
}

func TestDoRefusesBadJobs(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 1 << 16})
	never := func(*Queue) error { t.Error("the job ran"); return nil }
	var a *ArgError
	if err := d.Do(context.Background(), Job{Label: "x", Footprint: -1}, never); !errors.As(err, &a) ||
		a.Field != "Job.Footprint" {
		t.Errorf("a negative footprint: %v", err)
	}
	for _, n := range []int64{1<<16 + 1, math.MaxInt64 - 1, math.MaxInt64} {
		err := d.Do(context.Background(), Job{Label: "big", Footprint: n}, never)
		var c *CapacityError
		if !errors.As(err, &c) || !c.Never() || !errors.Is(err, driver.ErrOutOfMemory) || c.Label != "big" ||
			c.Total != 1<<16 || c.Needed <= 1<<16 {
			t.Errorf("a footprint of %d: %v", n, err)
		}
	}
	// What the caller holds is as good as not there, and jobs that need no memory don't mind.
	if err := d.Do(context.Background(), Job{Label: "x", Held: -1}, never); !errors.As(err, &a) ||
		a.Field != "Job.Held" {
		t.Errorf("negative bytes held: %v", err)
	}
	for _, job := range []Job{{Footprint: 1 << 15, Held: 1<<15 + 1}, {Footprint: 1, Held: math.MaxInt64},
		{Footprint: math.MaxInt64, Held: math.MaxInt64}} {
		var c *CapacityError
		if err := d.Do(context.Background(), job, never); !errors.As(err, &c) || !c.Never() || c.Needed <= 1<<16 {
			t.Errorf("%+v: %v", job, err)
		}
	}
	for _, job := range []Job{{Footprint: 1 << 15, Held: 1 << 15}, {Held: math.MaxInt64}} {
		if err := d.Do(context.Background(), job, func(*Queue) error { return nil }); err != nil {
			t.Errorf("%+v: %v", job, err)
		}
	}
	if m := d.Memory(); m.Refused != 6 {
		t.Errorf("%+v", m)
	}
	works(t, d)
}

func TestDoWithoutFootprint(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 1024})
	all, err := AllocPersistent[byte](d, 1024, "all")
	if err != nil {
		t.Fatal(err)
	}
	err = d.Do(context.Background(), Job{Label: "on kept memory"}, func(q *Queue) error {
		if _, err := Alloc[byte](q, 1, "x"); err == nil {
			t.Error("Alloc without a footprint")
		}
		return Fill(q, all.Buffer, 0)
	})
	if err != nil {
		t.Errorf("a job without a footprint: %v", err)
	}
	all.Free()
	works(t, d)
}

var errCause = errors.New("the belt stopped")

// The context ends at each stage of a job.
func TestDoCancelled(t *testing.T) {
	never := func(*Queue) error { return errors.New("the job ran") }
	t.Run("before", func(t *testing.T) {
		d := openFake(t, &fakeDriver{}, Config{})
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(errCause)
		if err := d.Do(ctx, Job{Label: "x", Footprint: 1}, never); !errors.Is(err, errCause) {
			t.Error(err)
		}
		works(t, d)
	})
	t.Run("waiting for memory", func(t *testing.T) {
		d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 1024})
		k, err := AllocPersistent[byte](d, 600, "kept")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		go func() {
			for d.Memory().Waiting == 0 {
				time.Sleep(100 * time.Microsecond)
			}
			cancel(errCause)
		}()
		err = d.Do(ctx, Job{Label: "late", Footprint: 1000}, never)
		var c *CapacityError
		if !errors.Is(err, errCause) || !errors.As(err, &c) || c.Never() || c.Available != 256 || c.Label != "late" {
			t.Error(err)
		}
		k.Free()
		works(t, d)
	})
	t.Run("waiting for a stream", func(t *testing.T) {
		f := &fakeDriver{hold: make(chan struct{})}
		d := openFake(t, f, Config{Streams: 1})
		running := make(chan struct{})
		first := make(chan error)
		go func() {
			first <- d.Do(context.Background(), Job{Label: "first", Footprint: 1},
				func(*Queue) error { close(running); return nil })
		}()
		<-running
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(5*time.Millisecond, func() { cancel(errCause) })
		if err := d.Do(ctx, Job{Label: "second", Footprint: 1}, never); !errors.Is(err, errCause) {
			t.Error(err)
		}
		if m := d.Memory(); m.ByLabel["second"] != 0 || m.ByLabel["first"] != 256 {
			t.Errorf("%+v", m)
		}
		close(f.hold)
		if err := <-first; err != nil {
			t.Error(err)
		}
		works(t, d)
	})
	t.Run("running", func(t *testing.T) {
		f := &fakeDriver{}
		d := openFake(t, f, Config{})
		ctx, cancel := context.WithCancelCause(context.Background())
		err := d.Do(ctx, Job{Label: "x", Footprint: 1000}, func(q *Queue) error {
			b, err := Alloc[byte](q, 10, "x")
			if err != nil {
				return err
			}
			if err := Fill(q, b, 1); err != nil {
				return err
			}
			cancel(errCause)
			if err := q.Wait(); !errors.Is(err, errCause) {
				t.Errorf("Wait: %v", err)
			}
			return nil
		})
		if !errors.Is(err, errCause) {
			t.Error(err)
		}
		works(t, d)
	})
	t.Run("draining", func(t *testing.T) {
		// Memory and stream stay taken until Wait returns, however long ago the context ended.
		f := &fakeDriver{hold: make(chan struct{})}
		d := openFake(t, f, Config{})
		ctx, cancel := context.WithCancelCause(context.Background())
		done := make(chan error)
		go func() {
			done <- d.Do(ctx, Job{Label: "x", Footprint: 1000}, func(q *Queue) error { cancel(errCause); return nil })
		}()
		<-ctx.Done()
		time.Sleep(5 * time.Millisecond)
		select {
		case err := <-done:
			t.Errorf("Do returned before the stream had drained: %v", err)
		default:
		}
		if m := d.Memory(); m.Used != 1024 {
			t.Errorf("memory of a job that still runs: %+v", m)
		}
		close(f.hold)
		if err := <-done; !errors.Is(err, errCause) {
			t.Error(err)
		}
		works(t, d)
	})
}

// Which error Do returns when there are several.
func TestDoErrors(t *testing.T) {
	errOp, errFn := errors.New("op"), errors.New("fn")
	f := &fakeDriver{}
	d := openFake(t, f, Config{})
	f.opErr = errOp
	if err := d.Do(context.Background(), Job{}, func(*Queue) error { return nil }); !errors.Is(err, errOp) {
		t.Errorf("an op failed: %v", err)
	}
	if err := d.Do(context.Background(), Job{}, func(*Queue) error {
		return errFn
	}); !errors.Is(err, errFn) || errors.Is(err, errOp) {
		t.Errorf("both failed: %v", err)
	}
	f.opErr = nil
	waits := f.waits
	if err := d.Do(context.Background(), Job{}, func(*Queue) error { return errFn }); !errors.Is(err, errFn) {
		t.Errorf("fn failed: %v", err)
	}
	if f.waits != waits+1 {
		t.Errorf("the stream of a job that failed was not waited for")
	}
	works(t, d)
}

// A panic in a job, or the end of its goroutine, leaves the device usable; the stream is drained before the memory is
// given back.
func TestDoPanics(t *testing.T) {
	f := &fakeDriver{}
	d := openFake(t, f, Config{Streams: 1, MemoryBytes: 1024})
	inWait := int64(-1)
	f.wait = func(context.Context) error {
		inWait = d.mem.stats.Used // nobody else is there
		return nil
	}
	job := func(end func()) func(*Queue) error {
		return func(q *Queue) error {
			b, err := Alloc[byte](q, 700, "x")
			if err != nil {
				t.Error(err)
			}
			if err := Fill(q, b, 1); err != nil {
				t.Error(err)
			}
			end()
			return nil
		}
	}
	func() {
		defer func() {
			if p := recover(); p != "a bug" {
				t.Errorf("the panic that came out is %v", p)
			}
		}()
		_ = d.Do(context.Background(), Job{Label: "x", Footprint: 1000}, job(func() { panic("a bug") }))
		t.Error("Do returned")
	}()
	if inWait != 1024 {
		t.Errorf("%d bytes were in use while the stream drained", inWait)
	}
	works(t, d)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = d.Do(context.Background(), Job{Label: "x", Footprint: 1000}, job(runtime.Goexit))
		t.Error("Do returned")
	}()
	<-done
	works(t, d)
}

func TestAllocWithinTheFootprint(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 1 << 16})
	footprint := Bytes[byte](300) + Bytes[driver.MaskStats](3) + Bytes[uint32](0)
	err := d.Do(context.Background(), Job{Label: "x", Footprint: footprint}, func(q *Queue) error {
		a, err1 := Alloc[byte](q, 300, "a")
		b, err2 := Alloc[driver.MaskStats](q, 3, "b")
		c, err3 := Alloc[uint32](q, 0, "c")
		if err := errors.Join(err1, err2, err3); err != nil {
			return err
		}
		if a.Len() != 300 || b.Len() != 3 || c.Len() != 0 || a.Slice().Len != 300 || b.Slice().Len != 240 ||
			c.Slice().Len != 0 {
			t.Errorf("%+v %+v %+v", a, b, c)
		}
		for _, s := range []driver.Slice{a.Slice(), b.Slice(), c.Slice()} {
			if s.Off%driver.Align != 0 {
				t.Errorf("slice at %d", s.Off)
			}
		}
		if b.Slice().Off < a.Slice().Off+a.Slice().Len {
			t.Errorf("%+v and %+v overlap", a, b)
		}
		for _, n := range []int{1, 100000, math.MaxInt} {
			_, err := Alloc[byte](q, n, "more")
			var x *ArgError
			if !errors.As(err, &x) || x.Field != "more" ||
				!strings.Contains(err.Error(), "exceeds the job's declared footprint (1024 of 1024 bytes taken)") {
				t.Errorf("%d more: %v", n, err)
			}
		}
		_, err := Alloc[float64](q, -1, "less")
		var x *ArgError
		if !errors.As(err, &x) || x.Field != "less" || x.Value != -1 {
			t.Errorf("a negative length: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestRange(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{})
	err := d.Do(context.Background(), Job{Label: "x", Footprint: 4096}, func(q *Queue) error {
		b, err := Alloc[uint32](q, 100, "b")
		if err != nil {
			return err
		}
		r := b.Range(10, 30)
		if r.Len() != 20 || r.Slice().Off != b.Slice().Off+40 || r.Slice().Len != 80 || r.Slice().Mem != b.Slice().Mem {
			t.Errorf("%+v of %+v", r, b)
		}
		if e := b.Range(100, 100); e.Len() != 0 || e.Slice().Len != 0 {
			t.Errorf("%+v", e)
		}
		for _, c := range [][2]int{{-1, 3}, {5, 4}, {0, 101}, {math.MinInt, math.MaxInt}} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("Range(%d, %d) of 100", c[0], c[1])
					}
				}()
				b.Range(c[0], c[1])
			}()
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A queue is of no use after its job.
func TestQueueAfterItsJob(t *testing.T) {
	f := &fakeDriver{}
	d := openFake(t, f, Config{})
	var q *Queue
	var b Buffer[byte]
	if err := d.Do(context.Background(), Job{Label: "x", Footprint: 4096}, func(x *Queue) (err error) {
		q = x
		b, err = Alloc[byte](q, 2000, "b")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	ops, waits := f.ops, f.waits
	im := driver.Image{Data: b.Slice(), Width: 10, Height: 10, Stride: 10, Format: driver.Gray8}
	_, alloc := Alloc[byte](q, 1, "late")
	for name, err := range map[string]error{
		"Alloc":        alloc,
		"Upload":       Upload(q, b, make([]byte, 2000)),
		"UploadGather": UploadGather(q, b, [][]byte{make([]byte, 2000)}),
		"Download":     Download(q, make([]byte, 2000), b),
		"Fill":         Fill(q, b, 1),
		"MaskPrepare":  q.Run(&driver.MaskPrepare{Width: 1, Height: 1, Dst: b.Slice()}),
		"MaskReduce":   q.Run(&driver.MaskReduce{Prepared: b.Slice(), Frame: im}),
		"MaskRaster":   q.Run(&driver.MaskRaster{Prepared: b.Slice(), Dst: im}),
		"Triangulate":  q.Run(&driver.Triangulate{Count: b.Range(0, 4).Slice(), Scratch: b.Slice()}),
		"Voronoi": q.Run(&driver.Voronoi{Width: 1, Height: 1, Labels: b.Range(0, 4).Slice(),
			Scratch: b.Slice()}),
		"CurveRaster": q.Run(&driver.CurveRaster{Width: 1, Height: 1, Channels: 1, Flags: b.Range(0, 1).Slice(),
			Values: b.Range(0, 4).Slice(), Scratch: b.Slice()}),
		"Blur": q.Run(&driver.Blur{Width: 1, Height: 1, Channels: 1, Scale: 1, Src: b.Range(0, 4).Slice(),
			Sigma: b.Range(0, 4).Slice(), Dst: b.Range(256, 260).Slice(), Scratch: b.Slice()}),
		"Edges": q.Run(&driver.Edges{Src: im, Dst: b.Range(256, 456).Slice()}),
		"Unpack": q.Run(&driver.Unpack{Src: im, Flags: b.Range(100, 200).Slice(),
			Planes: b.Range(256, 656).Slice()}),
		"Pack":  q.Run(&driver.Pack{Dst: im, Planes: b.Range(256, 656).Slice()}),
		"Free":  Free(q, b),
		"Wait":  q.Wait(),
		"Yield": q.Yield(),
	} {
		if !errors.Is(err, ErrEnded) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if f.ops != ops || f.waits != waits {
		t.Errorf("%d ops and %d waits reached the stream, which may be another job's", f.ops-ops, f.waits-waits)
	}
	if q.waited() < 0 {
		t.Errorf("%v", q.waited())
	}
}

// As many jobs run at a time as there are streams, and no two on one stream.
func TestJobsRunConcurrently(t *testing.T) {
	const streams = 3
	d := openFake(t, &fakeDriver{}, Config{Streams: streams, MemoryBytes: 1 << 20})
	var running, most atomic.Int64
	var mu sync.Mutex
	on := map[driver.Stream]bool{}
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			err := d.Do(context.Background(), Job{Label: fmt.Sprint(i % 4), Footprint: int64(i) * 1000},
				func(q *Queue) error {
					mu.Lock()
					if on[q.stream] {
						t.Error("two jobs on one stream")
					}
					on[q.stream] = true
					mu.Unlock()
					n := running.Add(1)
					for {
						m := most.Load()
						if n <= m || most.CompareAndSwap(m, n) {
							break
						}
					}
					for end := time.Now().Add(10 * time.Second); most.Load() < streams && time.Now().Before(end); {
						time.Sleep(100 * time.Microsecond) // the others are coming
					}
					time.Sleep(time.Millisecond) // and perhaps more of them than may
					running.Add(-1)
					mu.Lock()
					on[q.stream] = false
					mu.Unlock()
					return nil
				})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if m := most.Load(); m != streams {
		t.Errorf("%d jobs ran at a time", m)
	}
	idle(t, d)
}

// The time that a job waited is told apart from that of its work.
func TestWaited(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{Streams: 1})
	const nap = 20 * time.Millisecond
	started := make(chan struct{})
	go func() {
		_ = d.Do(context.Background(), Job{}, func(*Queue) error {
			close(started)
			for end := time.Now().Add(10 * time.Second); d.Sched()[Interactive].Waiting == 0 &&
				time.Now().Before(end); {
				time.Sleep(100 * time.Microsecond)
			}
			time.Sleep(nap)
			return nil
		})
	}()
	<-started
	err := d.Do(context.Background(), Job{}, func(q *Queue) error {
		if w := q.waited(); w < nap {
			t.Errorf("waited %v for a job that took %v more", w, nap)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestKeep(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 4096})
	k, err := AllocPersistent[uint32](d, 100, "regions")
	if err != nil {
		t.Fatal(err)
	}
	if k.Len() != 100 || k.Slice().Len != 400 || d.Memory().ByLabel["regions"] != 512 {
		t.Errorf("%+v, %+v", k.Slice(), d.Memory())
	}
	var a *ArgError
	if _, err := AllocPersistent[byte](d, -1, "less"); !errors.As(err, &a) || a.Field != "less" {
		t.Errorf("a negative length: %v", err)
	}
	for _, n := range []int{4096, math.MaxInt, math.MaxInt / 8} {
		_, err := AllocPersistent[uint64](d, n, "more")
		var c *CapacityError
		if !errors.As(err, &c) || c.Label != "more" || c.Available != 4096-512 || c.Needed < 4096*8 || !c.Never() {
			t.Errorf("%d more: %v", n, err)
		}
	}
	if _, err := AllocPersistent[byte](d, 3700, "more"); !errors.Is(err, driver.ErrOutOfMemory) {
		t.Errorf("all and a little: %v", err)
	}
	k.Free()
	if k.Len() != 0 || k.Slice() != (driver.Slice{}) {
		t.Errorf("freed memory is still to be had: %+v", k.Slice())
	}
	idle(t, d)
	func() {
		defer func() {
			if p := fmt.Sprint(recover()); !strings.Contains(p, `"regions" freed twice`) {
				t.Errorf("Free twice: %v", p)
			}
		}()
		k.Free()
	}()
	idle(t, d)
}

// Of calls of Free at the same time one frees, and all others panic.
func TestKeptFreedTwiceAtATime(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{})
	for range 50 {
		k, err := AllocPersistent[byte](d, 1, "x")
		if err != nil {
			t.Fatal(err)
		}
		var panics atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				defer func() {
					if recover() != nil {
						panics.Add(1)
					}
				}()
				k.Free()
			})
		}
		wg.Wait()
		if n := panics.Load(); n != 3 {
			t.Fatalf("%d of 4 calls panicked", n)
		}
	}
	idle(t, d)
}

func TestCloseReportsLeaks(t *testing.T) {
	f := &fakeDriver{}
	d, err := Open(f, Config{MemoryBytes: 4096})
	if err != nil {
		t.Fatal(err)
	}
	k, err := AllocPersistent[byte](d, 300, "forgotten")
	if err != nil {
		t.Fatal(err)
	}
	err = d.Close()
	if !errors.Is(err, ErrLeak) || !strings.Contains(err.Error(), "512 bytes map[forgotten:512]") {
		t.Errorf("Close: %v", err)
	}
	if n := f.open(); n != [4]int{} {
		t.Errorf("left open: %v", n)
	}
	k.Free() // too late, and harmless
	if err := d.Close(); err != nil {
		t.Errorf("Close again: %v", err)
	}
}

func TestClosed(t *testing.T) {
	d, err := Open(&fakeDriver{}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Do(context.Background(), Job{}, func(*Queue) error {
		t.Error("the job ran")
		return nil
	}); !errors.Is(err, ErrClosed) {
		t.Errorf("Do: %v", err)
	}
	if _, err := AllocPersistent[byte](d, 1, "x"); !errors.Is(err, ErrClosed) {
		t.Errorf("Keep: %v", err)
	}
	if _, err := d.Scratch(&driver.MaskPrepare{Regions: driver.MaskRegions{}, Width: 1, Height: 1,
		Method: driver.Naive}); !errors.Is(err, ErrClosed) {
		t.Errorf("MaskPreparedBytes: %v", err)
	}
}

// Close lets jobs finish that run, and turns away those that wait, for memory and for a stream.
func TestCloseWithJobs(t *testing.T) {
	f := &fakeDriver{}
	d, err := Open(f, Config{MemoryBytes: 4096, Streams: 1})
	if err != nil {
		t.Fatal(err)
	}
	release, running := make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	go func() {
		first <- d.Do(context.Background(), Job{Label: "first", Footprint: 1024}, func(q *Queue) error {
			close(running)
			<-release
			b, err := Alloc[byte](q, 10, "x")
			return errors.Join(err, Fill(q, b, 1))
		})
	}()
	<-running
	waiting := make(chan error, 2)
	never := func(*Queue) error { t.Error("the job ran"); return nil }
	go func() { waiting <- d.Do(context.Background(), Job{Label: "for a stream", Footprint: 256}, never) }()
	go func() { waiting <- d.Do(context.Background(), Job{Label: "for memory", Footprint: 4096}, never) }()
	for d.Memory().Waiting < 2 {
		time.Sleep(100 * time.Microsecond)
	}
	closed := make(chan error, 1)
	go func() { closed <- d.Close() }()
	for range 2 {
		if err := <-waiting; !errors.Is(err, ErrClosed) {
			t.Errorf("a job that waited: %v", err)
		}
	}
	select {
	case err := <-closed:
		t.Errorf("Close returned with a job running: %v", err)
	case <-time.After(5 * time.Millisecond):
	}
	close(release)
	if err := <-first; err != nil {
		t.Errorf("the job that ran: %v", err)
	}
	if err := <-closed; err != nil {
		t.Errorf("Close: %v", err)
	}
	if n := f.open(); n != [4]int{} {
		t.Errorf("left open: %v", n)
	}
}

// Copies come back, over a driver that runs them no sooner than it has to.
func TestCopies(t *testing.T) {
	d, err := Open(devicetest.Oracle(), Config{MemoryBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	err = d.Do(context.Background(), Job{Label: "copies", Footprint: 1 << 16}, func(q *Queue) error {
		a, err := Alloc[uint16](q, 333, "a")
		if err != nil {
			return err
		}
		b, err := Alloc[byte](q, 7, "b")
		if err != nil {
			return err
		}
		src, back, part := make([]uint16, 333), make([]uint16, 333), make([]uint16, 3)
		for i := range src {
			src[i] = uint16(i * 199)
		}
		bytes := make([]byte, 7)
		if err := errors.Join(
			Upload(q, a, src),
			Download(q, back, a),
			Download(q, part, a.Range(100, 103)),
			Fill(q, a.Range(0, 2), 0x12),
			UploadGather(q, b, [][]byte{{1, 2}, nil, {3, 4, 5, 6}, {7}}),
			Download(q, bytes, b),
			Upload(q, Buffer[byte]{}, nil),
			UploadGather(q, Buffer[byte]{}, [][]byte{nil, {}}),
			Download(q, []byte{}, Buffer[byte]{}),
			Fill(q, Buffer[byte]{}, 1),
			q.Wait(),
		); err != nil {
			return err
		}
		for i, v := range back {
			if v != src[i] {
				t.Fatalf("element %d is %d", i, v)
			}
		}
		if part[0] != src[100] || part[2] != src[102] || fmt.Sprint(bytes) != "[1 2 3 4 5 6 7]" {
			t.Errorf("%v %v", part, bytes)
		}
		if err := errors.Join(Download(q, back, a), q.Wait()); err != nil {
			return err
		}
		if back[0] != 0x1212 || back[1] != 0x1212 || back[2] != src[2] {
			t.Errorf("after Fill: %x", back[:3])
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
