package polygon

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/internal/race"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
)

// untimed is a result without what differs from run to run.
func untimed(r *Result) *Result {
	r.Queue, r.Compute = 0, 0
	return r
}

func TestPreparedConcurrently(t *testing.T) {
	dev := openCPU(t, kernels.Config{Poison: true})
	regions := append(manyRegions(300, 9, 200, 100),
		Region{Name: "out", Rings: []Ring{rectangle(-50, -50, 100, 100)}, Limits: []string{"coverage > 0.2"}})
	set := mustSet(t, regions...)
	ctx := context.Background()
	p, err := set.Prepare(ctx, dev, 200, 100, driver.MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	if p.Bytes() <= 0 || dev.Memory().Used < p.Bytes() {
		t.Errorf("%d bytes of %d in use", p.Bytes(), dev.Memory().Used)
	}
	var frames []kernels.Picture
	var want []*Result
	for i := range 4 {
		f := noise(200, 100, driver.Gray8)
		for k := range f.Data[0] {
			f.Data[0][k] += byte(i * k)
		}
		r, err := Reduce(ctx, dev, set, f, Reductions{Statistics: AllStatistics}, driver.RowSpans)
		if err != nil {
			t.Fatal(err)
		}
		frames, want = append(frames, f), append(want, untimed(r))
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for k := range 10 {
				i := (g + k) % len(frames)
				r, err := p.Reduce(ctx, frames[i], Reductions{Statistics: AllStatistics})
				if err != nil {
					t.Error(err)
					return
				}
				if !reflect.DeepEqual(untimed(r), want[i]) {
					t.Errorf("frame %d differs", i)
				}
			}
		})
	}
	wg.Wait()
	// A frame of another format, and requests of other kinds, meet the same regions.
	if _, err := p.Reduce(ctx, noise(200, 100, driver.RGB8), Reductions{}); err != nil {
		t.Error(err)
	}
	if _, err := p.Reduce(ctx, noise(100, 200, driver.Gray8), Reductions{}); err == nil ||
		err.Error() != "polygon: frame = 100x200 pixels: the regions are prepared for 200x100" {
		t.Errorf("a frame of another size: %v", err)
	}
	for range 2 {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if used := dev.Memory().Used; used != 0 {
		t.Errorf("%d bytes in use after Close", used)
	}
	if _, err := p.Reduce(ctx, frames[0], Reductions{}); !errors.Is(err, ErrClosed) {
		t.Errorf("Reduce after Close: %v", err)
	}
}

// slow is a driver whose mask reductions wait for a sign.
type slow struct {
	driver.Driver
	begun, goOn chan struct{}
}

type slowDevice struct {
	driver.Device
	slow *slow
}

type slowStream struct {
	driver.Stream
	slow *slow
}

func (d *slow) Open(n int) (driver.Device, error) {
	dev, err := d.Driver.Open(n)
	return slowDevice{dev, d}, err
}

func (d slowDevice) NewStream(priority int) (driver.Stream, error) {
	s, err := d.Device.NewStream(priority)
	return slowStream{s, d.slow}, err
}

func (s slowStream) Run(op driver.Op) error {
	if _, ok := op.(*driver.MaskReduce); ok {
		s.slow.begun <- struct{}{}
		<-s.slow.goOn
	}
	return s.Stream.Run(op)
}

// TestCloseSpares: Close does not take the memory away under a call in flight, and refuses later calls at once; the
// memory is free when the call is done.
func TestCloseSpares(t *testing.T) {
	d := &slow{cpu.Driver, make(chan struct{}), make(chan struct{})}
	dev, err := kernels.Open(d, kernels.Config{MemoryBytes: 1 << 20, Poison: true})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	ctx := context.Background()
	p, err := mustSet(t, Region{Rings: []Ring{rectangle(0, 0, 4, 4)}}).Prepare(ctx, dev, 8, 8, driver.MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	type outcome struct {
		res *Result
		err error
	}
	done := make(chan outcome)
	go func() {
		res, err := p.Reduce(ctx, noise(8, 8, driver.Gray8), Reductions{})
		done <- outcome{res, err}
	}()
	<-d.begun
	if err := p.Close(); err != nil || !p.Gone() {
		t.Errorf("%v, gone: %v", err, p.Gone())
	}
	if _, err := p.Reduce(ctx, noise(8, 8, driver.Gray8), Reductions{}); !errors.Is(err, ErrClosed) {
		t.Errorf("Reduce after Close: %v", err)
	}
	if dev.Memory().ByLabel["prepared regions"] == 0 {
		t.Error("the memory went back with a call in flight")
	}
	close(d.goOn)
	if o := <-done; o.err != nil || o.res.Regions[0].Count != 16 {
		t.Errorf("the call in flight: %+v, %v", o.res, o.err)
	}
	if n := dev.Memory().Used; n != 0 {
		t.Errorf("%d bytes in use after the last call", n)
	}
}

// TestEviction: prepared regions that no call uses give way to what needs their room, and say so; those in use don't.
func TestEviction(t *testing.T) {
	d := &slow{cpu.Driver, make(chan struct{}, 1), make(chan struct{}, 1)}
	const memory = 1 << 16
	dev, err := kernels.Open(d, kernels.Config{MemoryBytes: memory, Poison: true})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	ctx := context.Background()
	set := mustSet(t, Region{Rings: []Ring{rectangle(0, 0, 4, 4)}})
	p, err := set.Prepare(ctx, dev, 8, 8, driver.MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	everything := func() error {
		return dev.Do(ctx, kernels.Job{Label: "large", Footprint: memory}, func(*kernels.Queue) error { return nil })
	}
	done, large := make(chan error), make(chan error)
	go func() {
		_, err := p.Reduce(ctx, noise(8, 8, driver.Gray8), Reductions{})
		done <- err
	}()
	<-d.begun
	go func() { large <- everything() }()
	for dev.Memory().Waiting == 0 {
		runtime.Gosched()
	}
	if p.Gone() {
		t.Error("evicted in use")
	}
	d.goOn <- struct{}{}
	if err := <-done; err != nil {
		t.Errorf("the call in flight: %v", err)
	}
	if err := <-large; err != nil {
		t.Error(err)
	}
	if !p.Gone() || dev.Memory().Used != 0 {
		t.Errorf("gone: %v, %d bytes in use", p.Gone(), dev.Memory().Used)
	}
	if _, err := p.Reduce(ctx, noise(8, 8, driver.Gray8), Reductions{}); !errors.Is(err, ErrEvicted) {
		t.Errorf("Reduce after eviction: %v", err)
	}
	p.Close()
	if _, err := p.Reduce(ctx, noise(8, 8, driver.Gray8), Reductions{}); !errors.Is(err, ErrClosed) {
		t.Errorf("Reduce after Close: %v", err)
	}
}

// TestPreparedNeverWaitsForItself: calls don't wait for the memory of the regions that they hold, nor behind a job that
// waits for it.
func TestPreparedNeverWaitsForItself(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	set := mustSet(t, manyRegions(300, 9, 200, 100)...)
	made, refused := 0, 0
	for size := int64(20 << 10); size <= 200<<10; size += 4 << 10 {
		dev := openCPU(t, kernels.Config{MemoryBytes: size})
		p, err := set.Prepare(ctx, dev, 200, 100, driver.MethodDefault)
		var full *kernels.CapacityError
		if errors.As(err, &full) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		switch _, err := p.Reduce(ctx, noise(200, 100, driver.Gray8), Reductions{}); {
		case err == nil:
			made++
		case errors.As(err, &full) && full.Never() && ctx.Err() == nil:
			refused++
		default:
			t.Fatalf("%d bytes: %v", size, err)
		}
		p.Close()
	}
	if made == 0 || refused == 0 {
		t.Errorf("%d calls were answered and %d refused", made, refused)
	}

	const memory = 1 << 16
	d := &slow{cpu.Driver, make(chan struct{}, 1), make(chan struct{}, 1)}
	dev, err := kernels.Open(d, kernels.Config{MemoryBytes: memory})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	p, err := mustSet(t, Region{Rings: []Ring{rectangle(0, 0, 4, 4)}}).Prepare(ctx, dev, 8, 8, driver.MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	calls, large := make(chan error, 2), make(chan error, 1)
	reduce := func() {
		_, err := p.Reduce(ctx, noise(8, 8, driver.Gray8), Reductions{})
		calls <- err
	}
	waiting := func(n int) {
		for dev.Memory().Waiting < n {
			runtime.Gosched()
		}
	}
	go reduce()
	<-d.begun
	go func() {
		large <- dev.Do(ctx, kernels.Job{Label: "large", Footprint: memory}, func(*kernels.Queue) error { return nil })
	}()
	waiting(1)
	go reduce() // which holds what the large job waits for
	waiting(2)
	d.goOn <- struct{}{}
	d.goOn <- struct{}{}
	for range 2 {
		if err := <-calls; err != nil {
			t.Error(err)
		}
	}
	if err := <-large; err != nil {
		t.Error(err)
	}
}

func TestPrepareRefuses(t *testing.T) {
	dev := openCPU(t, kernels.Config{MemoryBytes: 1 << 16})
	ctx := context.Background()
	s := mustSet(t, Region{Rings: []Ring{triangle}})
	for _, c := range []struct {
		w, h int
		m    driver.Method
		want string
	}{
		{0, 4, 0, "kernels: width = 0: must be 1 to 1048576"},
		{4, 1 << 21, 0, "kernels: height = 2097152: must be 1 to 1048576"},
		{4, 4, 99, "polygon: method = 99: must be 0 to 5"},
	} {
		if _, err := s.Prepare(ctx, dev, c.w, c.h, c.m); err == nil || err.Error() != c.want {
			t.Errorf("%dx%d: %v, want %s", c.w, c.h, err, c.want)
		}
		if _, err := Rasterize(ctx, dev, s, c.w, c.h, driver.RasterMask, c.m); err == nil || err.Error() != c.want {
			t.Errorf("raster of %dx%d: %v, want %s", c.w, c.h, err, c.want)
		}
		if _, _, err := s.Mask(dev, c.w, c.h, c.m); err == nil || err.Error() != c.want {
			t.Errorf("mask of %dx%d: %v, want %s", c.w, c.h, err, c.want)
		}
	}
	if _, err := Rasterize(ctx, dev, s, 4, 4, 2, 0); err == nil ||
		err.Error() != "polygon: mode = 2: must be 0 (mask) or 1 (labels)" {
		t.Errorf("raster mode 2: %v", err)
	}
	many := mustSet(t, manyRegions(65_536, 3, 100, 100)...)
	if _, err := Rasterize(ctx, dev, many, 4, 4, driver.RasterLabels, 0); err == nil ||
		err.Error() != "polygon: regions = 65536: are too many: labels number at most 65535 regions" {
		t.Errorf("65,536 labels: %v", err)
	}
	// No room, which is told apart from bad input.
	var capacity *kernels.CapacityError
	if _, err := many.Prepare(ctx, dev, 1000, 1000, 0); !errors.As(err, &capacity) ||
		!errors.Is(err, driver.ErrOutOfMemory) {
		t.Errorf("no room for regions: %v", err)
	}
	if _, err := Reduce(ctx, dev, s, noise(1000, 1000, driver.Gray8), Reductions{}, 0); err != nil {
		t.Errorf("4 rows of a large frame: %v", err)
	}
	tall := mustSet(t, Region{Rings: []Ring{rectangle(0, 0, 1, 1000)}})
	if _, err := Reduce(ctx, dev, tall, noise(1000, 1000, driver.Gray8), Reductions{}, 0); !errors.As(err, &capacity) {
		t.Errorf("no room for a frame: %v", err)
	}
	if n := dev.Memory().Used; n != 0 {
		t.Errorf("%d bytes in use", n)
	}
	canceled, cancel := context.WithCancelCause(ctx)
	reason := errors.New("the part is gone")
	cancel(reason)
	if _, err := s.Prepare(canceled, dev, 8, 8, 0); !errors.Is(err, reason) {
		t.Errorf("canceled Prepare: %v", err)
	}
	if _, err := Reduce(canceled, dev, s, noise(8, 8, driver.Gray8), Reductions{}, 0); !errors.Is(err, reason) {
		t.Errorf("canceled Reduce: %v", err)
	}
	if _, err := Rasterize(canceled, dev, s, 8, 8, driver.RasterMask, 0); !errors.Is(err, reason) {
		t.Errorf("canceled Rasterize: %v", err)
	}
	if n := dev.Memory().Used; n != 0 {
		t.Errorf("%d bytes in use", n)
	}
}

// TestBatches: on a device with little memory histograms come in many batches, with the same results.
func TestBatches(t *testing.T) {
	regions := append(manyRegions(150, 7, 90, 60),
		Region{Name: "nothing", Rings: []Ring{{{0, 0}, {0, 0}, {0, 0}}}, Limits: []string{"p50 > 100"}})
	for i := range regions {
		regions[i].Limits = []string{"p50 > 128", "count of pixels below 100 < 5"}
	}
	set := mustSet(t, regions...)
	for _, format := range []driver.PixelFormat{driver.Gray8, driver.RGBA8, driver.Gray16(10), driver.Gray16(12),
		driver.Gray16(16)} {
		f := noise(90, 60, format)
		request := Reductions{Statistics: AllStatistics, Histogram: HistogramSpec{Bins: 10}}
		var first *Result
		for _, memory := range []int64{512 << 20, 3 << 20, 1 << 20, 600 << 10} {
			if memory < 1<<20 && format.Levels() > 4096 {
				continue // not even one region's
			}
			dev := openCPU(t, kernels.Config{MemoryBytes: memory, Poison: true})
			for _, how := range []string{"once", "prepared"} {
				ctx := context.Background()
				var res *Result
				var err error
				if how == "once" {
					res, err = Reduce(ctx, dev, set, f, request, driver.RowSpans)
				} else {
					p, perr := set.Prepare(ctx, dev, 90, 60, driver.RowSpans)
					if perr != nil {
						t.Fatal(perr)
					}
					res, err = p.Reduce(ctx, f, request)
					p.Close()
				}
				if err != nil {
					t.Fatalf("%s, %d bytes, %s: %v", format, memory, how, err)
				}
				if dev.Memory().HighWater > memory {
					t.Errorf("took %d bytes of %d", dev.Memory().HighWater, memory)
				}
				if untimed(res); first == nil {
					first = res
				} else if !reflect.DeepEqual(res, first) {
					t.Errorf("%s, %d bytes, %s: differs", format, memory, how)
				}
			}
		}
		for i := 0; i < len(regions); i += 10 {
			plain := first.Regions[i]
			plain.Limits, plain.Verdict = nil, NoVerdict
			if diff := differences(plain, oracle(regions[i], f), f, request); diff != nil {
				t.Errorf("%s: region %d: %v", format, i, diff)
			}
		}
	}
}

// TestSteadyStateAllocations: a call for one region with 256 bins stays far below 100 KB, whatever the frame's size.
func TestSteadyStateAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates, and drops pooled memory at random")
	}
	dev := openCPU(t, kernels.Config{})
	set := mustSet(t, manyRegions(1, 126, 2880, 1440)...)
	f := noise(2880, 1440, driver.Gray8)
	ctx := context.Background()
	p, err := set.Prepare(ctx, dev, 2880, 1440, driver.MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for name, call := range map[string]func() (*Result, error){
		"once": func() (*Result, error) {
			return Reduce(ctx, dev, set, f, Reductions{Statistics: AllStatistics}, driver.MethodDefault)
		},
		"prepared": func() (*Result, error) { return p.Reduce(ctx, f, Reductions{Statistics: AllStatistics}) },
	} {
		const calls = 50
		var before, after runtime.MemStats
		for i := range calls + 5 {
			if i == 5 { // pools are filled
				runtime.ReadMemStats(&before)
			}
			if _, err := call(); err != nil {
				t.Fatal(err)
			}
		}
		runtime.ReadMemStats(&after)
		if n := (after.TotalAlloc - before.TotalAlloc) / calls; n > 24<<10 {
			t.Errorf("%s: %d bytes a call", name, n)
		}
	}
}

// TestUnknownCoverage: where counting outside the frame takes too long, coverage is unknown, all else is there, and a
// limit on it fails.
func TestUnknownCoverage(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	ctx := context.Background()
	region := func(x float64) Region {
		return Region{Rings: []Ring{rectangle(x, 0, 8, 4)}, Limits: []string{"coverage > 0", "count > 0"}}
	}
	set := mustSet(t, region(0), region(-4), region(4), region(-2))
	p, err := newPlan(set, noise(8, 8, driver.Gray8), Reductions{})
	if err != nil {
		t.Fatal(err)
	}
	d := newDeriver(p, known{})
	d.steps = 4 // a rectangle takes two
	memory, err := set.Prepare(ctx, dev, 8, 8, driver.MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	if err := d.run(ctx, dev, 0, 0, func(*kernels.Queue) (driver.Slice, error) {
		return memory.memory.Buffer().Slice(), nil
	}); err != nil {
		t.Fatal(err)
	}
	const reason = "coverage is unknown: the region reaches too far outside the frame"
	for i, want := range []struct {
		coverage float64
		known    bool
		verdict  Verdict
		reason   string
	}{{1, true, Pass, ""}, {0.5, true, Pass, ""}, {0.5, true, Pass, ""}, {0, false, Fail, reason}} {
		r := d.res.Regions[i]
		if r.Coverage != want.coverage || r.CoverageKnown != want.known || r.Verdict != want.verdict ||
			r.Limits[0].Reason != want.reason ||
			r.Limits[0].Measured != want.known || r.Limits[1].Verdict != Pass {
			t.Errorf("region %d: %+v", i, r)
		}
	}
}

// TestFailures makes each event of the driver fail in turn: the error comes out, no memory stays in use, and the next
// call works.
func TestFailures(t *testing.T) {
	for _, inWait := range []bool{false, true} {
		broken := errors.New("the device smells of smoke")
		faulty := devicetest.Fault(cpu.Driver, devicetest.Failure{})
		dev, err := kernels.Open(faulty, kernels.Config{MemoryBytes: 8 << 20, Poison: true})
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		set := mustSet(t, manyRegions(20, 5, 40, 40)...)
		f := noise(40, 40, driver.Gray16(16)) // several batches, sums waited for
		prepared, err := set.Prepare(ctx, dev, 40, 40, driver.MethodDefault)
		if err != nil {
			t.Fatal(err)
		}
		for name, call := range map[string]func() (any, error){
			"Reduce": func() (any, error) {
				return Reduce(ctx, dev, set, f, Reductions{Statistics: Median}, driver.MethodDefault)
			},
			"Prepared.Reduce": func() (any, error) { return prepared.Reduce(ctx, f, Reductions{Statistics: Median}) },
			"Rasterize": func() (any, error) {
				return Rasterize(ctx, dev, set, 40, 40, driver.RasterMask, driver.MethodDefault)
			},
			"Mask.Draw": func() (any, error) { return drawMask(ctx, dev, set, 40, 40, driver.MethodDefault) },
			"Prepare": func() (any, error) {
				p, err := set.Prepare(ctx, dev, 40, 40, driver.MethodDefault)
				if err == nil {
					faulty.Arm(devicetest.Failure{}) // Close fills the memory, which can't fail for its caller
					err = p.Close()
				}
				return nil, err
			},
		} {
			for n := 1; ; n++ {
				before := dev.Memory().Used
				faulty.Arm(devicetest.Failure{N: n, Err: broken, InWait: inWait})
				_, err := call()
				event, fired := faulty.Fired()
				faulty.Arm(devicetest.Failure{})
				if used := dev.Memory().Used; used != before {
					t.Errorf("%s: %d bytes stay in use after a failure of %v", name, used-before, event)
				}
				if !fired {
					if err != nil || n < 2 {
						t.Errorf("%s, %d events: %v", name, n-1, err)
					}
					break
				}
				if !errors.Is(err, broken) {
					t.Errorf("%s: error %v after a failure of %v", name, err, event)
				}
				if _, err := call(); err != nil {
					t.Errorf("%s: the call after a failure of %v: %v", name, event, err)
				}
			}
		}
		prepared.Close()
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestRaster(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	set := mustSet(t,
		Region{Rings: []Ring{rectangle(1, 0, 3, 2)}},
		Region{Rings: []Ring{rectangle(-5, 1, 8, 9)}},
		Region{Rings: []Ring{rectangle(9, 9, 1, 1)}})
	mask, err := Rasterize(context.Background(), dev, set, 5, 3, driver.RasterMask, driver.MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	labels, err := Rasterize(context.Background(), dev, set, 5, 3, driver.RasterLabels, driver.Tiled)
	if err != nil {
		t.Fatal(err)
	}
	if mask.Backend != "cpu" || mask.Method != driver.RowSpans || labels.Method != driver.Tiled || mask.Compute <= 0 {
		t.Errorf("%q, %v, %v, %v", mask.Backend, mask.Method, labels.Method, mask.Compute)
	}
	if mask.Format != driver.Gray8 || mask.Stride != 5 || labels.Format != driver.Gray16(16) || labels.Stride != 10 ||
		mask.Width != 5 || mask.Height != 3 {
		t.Errorf("%+v, %+v", mask, labels)
	}
	if want := []uint64{6, 6, 0}; fmt.Sprint(mask.Counts) != fmt.Sprint(want) ||
		fmt.Sprint(labels.Counts) != fmt.Sprint(want) {
		t.Errorf("counts %v and %v, want %v", mask.Counts, labels.Counts, want)
	}
	if want := "[0 255 255 255 0 255 255 255 255 0 255 255 255 0 0]"; fmt.Sprint(mask.Data[0]) != want {
		t.Errorf("mask %v, want %s", mask.Data[0], want)
	}
	if want := "[0 0 1 0 1 0 1 0 0 0 2 0 2 0 2 0 1 0 0 0 2 0 2 0 2 0 0 0 0 0]"; fmt.Sprint(labels.Data[0]) != want {
		t.Errorf("labels %v, want %s", labels.Data[0], want)
	}
}
