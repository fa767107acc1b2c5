package main

import (
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/polyscan/polyscan/clients/regionfile"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
	"github.com/polyscan/polyscan/lowpoly"
	"github.com/polyscan/polyscan/polygon"
)

func TestBench(t *testing.T) {
	out := succeed(t, "bench", "--size", "64x48", "--time", "1ms", "--method", "row-spans,naive")
	for _, want := range []string{"memcpy", "upload", "memset", "plain go", "prepare", "mask", "reduce",
		"resident", "call (inside)", "call (tcp)", "outline", "small", "row-spans", "naive", "DEVICE"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	_, rows, _ := strings.Cut(out, "\n\n")
	for row := range strings.Lines(rows) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(row, "\n")); n > tableWidth {
			t.Errorf("%d columns: %s", n, row)
		}
	}
	var r benchReport
	if err := json.Unmarshal([]byte(succeed(t, "bench", "--size", "64x48,32x32", "--time", "1ms", "--json", "--regions",
		"outline", "--method", "auto", "--format", "rgb8")), &r); err != nil {
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
		if k.NsOp <= 0 || k.NsMin > k.NsOp || k.Runs < 3 || k.Bytes != int64(bytes) ||
			(k.Vertices == 126) == peer[k.Op] {
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

func TestBenchLowPoly(t *testing.T) {
	out := succeed(t, "bench", "--vertices", "40,90", "--size", "64x48", "--time", "1ms")
	for _, want := range []string{"\n64x48 rgb8, 40 vertices\n", "\n64x48 rgb8, 90 vertices\n", "DEVICE", "RUNS",
		"\nedges  ", "\nselection  ", "\ntriangulation  ", "\nshading  ", "\nlow-poly  "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	_, rows, _ := strings.Cut(out, "\n\n") // behind the line about the machine
	for line := range strings.SplitSeq(rows, "\n") {
		if utf8.RuneCountInString(line) > tableWidth || strings.Contains(line, "0.00 µs") {
			t.Errorf("%d columns: %s", utf8.RuneCountInString(line), line)
		}
	}
	for _, format := range []string{"gray8", "bgr8", "rgba8"} {
		var r benchReport
		if err := json.Unmarshal([]byte(succeed(t, "bench", "--vertices", "40,90", "--size", "64x48", "--time", "1ms",
			"--json", "--format", format)), &r); err != nil {
			t.Fatal(err)
		}
		if len(r.Rows) != 10 {
			t.Fatalf("%s: %d rows", format, len(r.Rows))
		}
		for i, k := range r.Rows {
			if k.Op != [...]string{"edges", "selection", "triangulation", "shading", "low-poly"}[i%5] ||
				k.DeviceNs <= 0 || k.Vertices != 40+i/5*50 || k.Runs < 3 {
				t.Errorf("%s: row %+v", format, k)
			}
		}
		if all := r.Rows[4]; all.NsOp <= 0 || all.GBs <= 0 {
			t.Errorf("%s: row %+v", format, all)
		}
	}
}

func TestBenchDiffusion(t *testing.T) {
	all := "multigrid,naive,pyramid-cautious,pyramid-greedy,variable-stencil"
	out := succeed(t, "bench", "--solver", all, "--size", "64x48", "--time", "1ms", "--threshold", "paper")
	for _, want := range append(strings.Split(all, ","), "64x48 rgb8", "CYCLES", "ERROR", "RMS", "ESTIMATE", "MEDIAN",
		" - ") {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	var r benchReport
	if err := json.Unmarshal([]byte(succeed(t, "bench", "--solver", all, "--size", "64x48,31x50", "--time", "1ms",
		"--measure-error", "--json")), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 10 || r.Backend != "cpu" {
		t.Fatalf("%d rows of %s", len(r.Rows), r.Backend)
	}
	for i, k := range r.Rows {
		if k.Method != strings.Split(all, ",")[i%5] || !k.Converged || k.Cycles < 1 || k.Runs < 1 || k.NsOp <= 0 ||
			k.NsMin > k.NsOp ||
			!(*k.Error > 0 && *k.Error < 0.5) || !(*k.RMS > 0 && *k.RMS <= *k.Error) || !(*k.Estimate <= 0.25) ||
			i == 0 && *k.Estimate == 0 {
			t.Errorf("row %+v", k)
		}
	}
	// Of a method that is stopped the error shows.
	if err := json.Unmarshal([]byte(succeed(t, "bench", "--solver", "naive", "--size", "128x128", "--time", "1ms",
		"--max-cycles", "1", "--measure-error", "--json")), &r); err != nil {
		t.Fatal(err)
	}
	if k := r.Rows[0]; len(r.Rows) != 1 || k.Converged || k.Cycles != 1 || *k.Error < 0.5 {
		t.Errorf("rows %+v", r.Rows)
	}
	// What wasn't asked for is not measured, and of a method that stops by a threshold nothing is known.
	if err := json.Unmarshal([]byte(succeed(t, "bench", "--solver", "multigrid,pyramid-greedy", "--size", "128x128",
		"--time", "1ms", "--threshold", "5", "--json")), &r); err != nil {
		t.Fatal(err)
	}
	if a, b := r.Rows[0], r.Rows[1]; a.Error != nil || a.RMS != nil || a.Estimate == nil || b.Error != nil ||
		b.Estimate != nil || !b.Converged || b.CheckNs != 0 {
		t.Errorf("rows %+v", r.Rows)
	}
	for _, c := range [][]string{{"--solver", "naive", "--vertices", "9"}, {"--solver", "naive", "--format", "gray8"},
		{"--solver", "naive", "--max-cycles", "0"}, {"--solver", "fast"}, {"--solver", "naive", "--threshold", "0"},
		{"--threshold", "1"}, {"--measure-error"}, {"--solver", "multigrid,variable-stencil", "--threshold", "1"}} {
		if _, stderr, code := polyscan(t, append([]string{"bench"}, c...)...); code != 2 {
			t.Errorf("%v: exit %d: %s", c, code, stderr)
		}
	}
}

// The check before pictures are timed has to notice what it is for.
func TestCheckCover(t *testing.T) {
	square := func() *lowpoly.Result {
		return &lowpoly.Result{
			// the diagonal goes through two centres: the right triangle has them
			Picture: kernels.Picture{Width: 2, Height: 2, Format: driver.Gray8, Data: [][]byte{{7, 9, 9, 9}}},
			Mesh: lowpoly.Mesh{
				Width: 2, Height: 2, Points: []driver.Point{{}, {X: 2}, {Y: 2}, {X: 2, Y: 2}},
				Triangles: []driver.Triangle{{A: 0, B: 1, C: 2}, {A: 1, B: 3, C: 2}},
				Colors:    []color.NRGBA{{R: 7, G: 7, B: 7, A: 255}, {R: 9, G: 9, B: 9, A: 255}},
			},
		}
	}
	for _, c := range []struct {
		says  string
		spoil func(*lowpoly.Result)
	}{
		{"", func(*lowpoly.Result) {}},
		{"1 pixels of 4 are covered", func(p *lowpoly.Result) { p.Mesh.Triangles = p.Mesh.Triangles[:1] }},
		{"covered twice", func(p *lowpoly.Result) { p.Mesh.Triangles[1].C = 0 }},
		{"pixel (1, 1) is [0], its triangle is [9]", func(p *lowpoly.Result) { p.Data[0][3] = 0 }},
	} {
		p := square()
		c.spoil(p)
		if err := checkCover(p); c.says == "" && err != nil || c.says != "" &&
			(err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%v, want %q", err, c.says)
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

func (s clockedStream) TimeDevice(ctx context.Context, copies, repeats int, enqueue func(i int) error) ([]time.Duration,
	error) {
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
	f := kernels.Picture{Width: w, Height: h, Format: driver.Gray8, Data: [][]byte{benchPixels(w * h)}}
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
	if d := cmp.Diff(want, got, cmpopts.IgnoreTypes(kernels.Picture{}.Resident),
		cmpopts.IgnoreUnexported(polygon.Result{}), cmp.Comparer(slices.Equal[[]byte]),
		cmp.Comparer(slices.Equal[[]uint64])); d != "" {
		t.Errorf("results differ with the watch running:\n%s", d)
	}
	if !watch.hasClock || total < 5*tick || total%tick != 0 {
		t.Errorf("the device took %v, want %v for each op", total, tick)
	}
	if run(); watch.total != total {
		t.Error("it goes on after stop")
	}

	e := newEnv(t.Context(), nil, nil, nil)
	b := &bench{cmd: &benchCmd{Time: time.Millisecond}, env: e, dev: dev, watch: watch, busy: e.busy("")}
	defer b.busy.end()
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

// TestBenchInterrupted: the rows that there are get printed.
func TestBenchInterrupted(t *testing.T) {
	for wait := 200 * time.Millisecond; ; wait *= 2 { // a busy machine has no row so soon
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(wait, cancel)
		stdout, stderr, code := polyscanIn(t, ctx, nil, "bench", "--size", "64x48", "--time", "100ms", "--json")
		cancel()
		if code != exitCanceled {
			t.Fatalf("exit %d: %s", code, stderr)
		}
		if stdout == "" && wait < time.Minute {
			continue
		}
		var r benchReport
		if err := json.Unmarshal([]byte(stdout), &r); err != nil || r.Complete || len(r.Rows) == 0 ||
			r.Rows[0].Op != "memcpy" {
			t.Errorf("%v: %+v", err, r)
		}
		return
	}
}
