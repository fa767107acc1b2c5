package main

import (
	"context"
	"encoding/json"
	"fmt"
	"image"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/polyscan/polyscan/clients/regionfile"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
	"github.com/polyscan/polyscan/polygon"
)

func TestBench(t *testing.T) {
	out := succeed(t, "bench", "--size", "64x48", "--time", "1ms", "--method", "row-spans,naive")
	for _, want := range []string{"memcpy", "upload", "memset", "plain go", "prepare", "mask", "reduce", "reduce resident",
		"call (in-process)", "call (tcp)", "outline", "small", "row-spans", "naive", "DEVICE"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	var r benchReport
	if err := json.Unmarshal([]byte(succeed(t, "bench", "--size", "64x48,32x32", "--time", "1ms", "--json", "--regions", "outline", "--method", "auto", "--format", "rgb8")), &r); err != nil {
		t.Fatal(err)
	}
	// Three to compare with, prepare, mask, reduce four times and two calls for each size.
	if len(r.Rows) != 22 || r.Backend != "cpu" {
		t.Errorf("%d rows of %s", len(r.Rows), r.Backend)
	}
	device := map[string]bool{"prepare": true, "mask": true, "reduce": true, "reduce resident": true}
	peer := map[string]bool{"memcpy": true, "upload": true, "memset": true}
	for _, k := range r.Rows {
		bytes := 3 * k.Width * k.Height
		if k.Op == "mask" {
			bytes /= 3
		}
		if k.NsOp <= 0 || k.NsMin > k.NsOp || k.Runs < 3 || k.Bytes != int64(bytes) || (k.Vertices == 126) == peer[k.Op] {
			t.Errorf("row %+v", k)
		}
		if device[k.Op] != (k.DeviceNs > 0) {
			t.Errorf("row %+v: its device has a part: %v", k, device[k.Op])
		}
		over := k.DeviceNs
		if over == 0 {
			over = k.NsOp
		}
		if rate := float64(k.Bytes) / over; k.Op != "prepare" && math.Abs(k.GBs-rate) > 1e-9*rate {
			t.Errorf("row %+v: want %g GB/s", k, rate)
		}
	}
}

// clocked is the CPU with a clock by which each op takes tick.
type clocked struct{ driver.Driver }

const tick = 7 * time.Microsecond

func (c clocked) Open(ordinal int) (driver.Device, error) {
	d, err := c.Driver.Open(ordinal)
	return clockedDevice{d}, err
}

type clockedDevice struct{ driver.Device }

func (d clockedDevice) NewStream(priority int) (driver.Stream, error) {
	s, err := d.Device.NewStream(priority)
	return clockedStream{s}, err
}

type clockedStream struct{ driver.Stream }

var _ driver.Timer = clockedStream{}

func (s clockedStream) TimeDevice(ctx context.Context, copies, repeats int, enqueue func(i int) error) ([]time.Duration, error) {
	out := make([]time.Duration, repeats)
	for r := range out {
		for i := range copies {
			if err := enqueue(i); err != nil {
				return nil, err
			}
		}
		out[r] = tick
	}
	return out, s.Wait(ctx)
}

func (s clockedStream) Copy(dst, src driver.Slice) error {
	b := make([]byte, src.Len)
	if err := s.Download(b, src); err != nil {
		return err
	}
	if err := s.Wait(context.Background()); err != nil {
		return err
	}
	return s.Upload(dst, [][]byte{b})
}

func (s clockedStream) Launch() error { return nil }

// Timing ops by the device's clock, which runs them many times, leaves their results alone, and each op counts once.
func TestStopwatch(t *testing.T) {
	watch := &stopwatch{Driver: clocked{cpu.New(cpu.Options{Threads: 1})}}
	dev, err := kernels.Open(watch, kernels.Config{MemoryBytes: 32 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	}()
	const w, h = 160, 120
	set, err := polygon.NewSet(benchRegions("small", w, h), polygon.Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	f := polygon.Frame{Width: w, Height: h, Format: driver.Gray8, Data: [][]byte{benchPixels(w * h)}}
	type results struct {
		*polygon.Result
		*polygon.Raster
	}
	run := func() results {
		t.Helper()
		mask, err := polygon.Rasterize(t.Context(), dev, set, w, h, driver.RasterMask, driver.MethodDefault)
		if err != nil {
			t.Fatal(err)
		}
		mask.Queue, mask.Compute = 0, 0
		p, err := set.Prepare(t.Context(), dev, w, h, driver.MethodDefault)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		r, err := p.Reduce(t.Context(), f, polygon.Reductions{Statistics: polygon.AllStatistics})
		if err != nil {
			t.Fatal(err)
		}
		r.Queue, r.Compute = 0, 0
		return results{r, mask}
	}
	want := run()
	watch.start()
	got := run()
	total := watch.stop()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("results differ with the watch running:\n%s", d)
	}
	if !watch.hasClock || total < 5*tick || total%tick != 0 {
		t.Errorf("the device took %v, want %v for each op", total, tick)
	}
	if run(); watch.total != total {
		t.Error("it goes on after stop")
	}

	b := &bench{cmd: &benchCmd{Time: time.Millisecond}, env: newEnv(t.Context(), nil, nil, nil), dev: dev, watch: watch}
	if err := b.peers(t.Context(), benchRow{Bytes: 1000}, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	var ops []string
	for _, k := range b.report.Rows {
		ops = append(ops, k.Op)
		if k.Op != "memcpy" && k.Op != "upload" && k.DeviceNs != float64(tick) {
			t.Errorf("row %+v, want %v of the device", k, tick)
		}
	}
	if got := strings.Join(ops, ","); got != "memcpy,upload,memset,device copy,launch" {
		t.Errorf("rows %s", got)
	}
}

// TestBenchPeer: the program that bench compares with does the same work, as far as antialiasing lets it.
func TestBenchPeer(t *testing.T) {
	const w, h = 300, 200
	pix := benchPixels(w * h)
	regions := benchRegions("outline", w, h)
	var want uint64
	g := regionfile.Region{}
	var ring [][2]float64
	for _, p := range regions[0].Rings[0] {
		ring = append(ring, [2]float64{p.X, p.Y})
	}
	g.Rings = [][][2]float64{ring}
	img := &image.Gray{Pix: pix, Stride: w, Rect: image.Rect(0, 0, w, h)}
	c := define(g, img, 256)[0]
	var sum, sq uint64
	fmt.Sscan(string(c.Sum), &sum)
	fmt.Sscan(string(c.SumSq), &sq)
	want = sum + sq
	got := plainGo(regions, pix, w, h)
	if d := float64(got)/float64(want) - 1; d < -0.01 || d > 0.01 {
		t.Errorf("plain Go comes to %d, the definition to %d", got, want)
	}
}
