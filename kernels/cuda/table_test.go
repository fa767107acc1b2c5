//go:build cuda

package cuda

// The benchmark table: the work whose times docs/performance.md gives, with the time of the GPU and that of the whole
// call, each result compared with the CPU's before it is timed.

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
)

// row is a line of the table. Times are medians, in microseconds; 0 where there is no such time.
type row struct {
	Name     string  `json:"name"`
	DeviceUS float64 `json:"device_us"` // between events around graphs of the ops, divided by their number
	LeastUS  float64 `json:"device_least_us"`
	CallUS   float64 `json:"call_us"` // from the first enqueue until Wait has returned, downloads of results included
	Bytes    int64   `json:"bytes"`   // that have to be moved at least
	GBPerS   float64 `json:"gb_per_s"`
	GoalUS   float64 `json:"goal_us,omitempty"`
}

// rows is the table, for the report.
var rows []row

// randC is rand() of the GNU C library, by which the prototypes drew their polygon.
type randC []uint32

func newRandC(seed int32) *randC {
	r := make(randC, 34, 512)
	if seed == 0 {
		seed = 1
	}
	v := int64(seed)
	for i := range 31 {
		r[i] = uint32(v)
		v = 16807 * v % 2147483647
	}
	for i := 31; i < 34; i++ {
		r[i] = r[i-31]
	}
	for range 310 {
		r.step()
	}
	return &r
}

func (r *randC) step() uint32 {
	n := len(*r)
	v := (*r)[n-31] + (*r)[n-3]
	*r = append(*r, v)
	return v >> 1
}

func TestRandC(t *testing.T) {
	counted(t)
	r := newRandC(1)
	for i, want := range []uint32{1804289383, 846930886, 1681692777} {
		if got := r.step(); got != want {
			t.Errorf("number %d is %d, the C library's is %d", i, got, want)
		}
	}
}

// star is the prototypes' spiky star, and a circle with ripples, as edges of one region.
func star(m *driver.MaskRegions, cx, cy, radius float64, n int, stretch float64, seed int32) {
	r := newRandC(seed)
	polar(m, cx, cy, n, stretch, func(float64) float64 { return radius * (0.6 + 0.4*float64(r.step())/math.MaxInt32) })
}

func coast(m *driver.MaskRegions, cx, cy, radius float64, n int, stretch float64) {
	polar(m, cx, cy, n, stretch, func(a float64) float64 {
		return radius * (1 + 0.05*math.Sin(a*400) + 0.03*math.Sin(a*1777))
	})
}

func polar(m *driver.MaskRegions, cx, cy float64, n int, stretch float64, radius func(a float64) float64) {
	xs, ys := make([]int32, n), make([]int32, n)
	for i := range n {
		a := 2 * math.Pi * float64(i) / float64(n)
		rr := radius(a)
		xs[i], ys[i] = int32((cx+rr*math.Cos(a)*stretch)*256), int32((cy+rr*math.Sin(a))*256)
	}
	first := len(m.Edges)
	for i := range n {
		j := (i + 1) % n
		m.Edges = append(m.Edges, driver.Edge{X0: xs[i], Y0: ys[i], X1: xs[j], Y1: ys[j]})
	}
	m.Regions = append(m.Regions, driver.Region{First: uint32(first), Count: uint32(n)})
}

// scene is the frame of the prototypes: waves and noise.
func scene(w, h int, f driver.PixelFormat) []byte {
	wide := f.SampleBytes == 2
	cols, lines := make([]float64, w), make([]float64, h)
	scale := 1.0
	if wide {
		scale = 300
	}
	for x := range cols {
		cols[x] = 40 * scale * math.Sin(float64(x)/97)
	}
	for y := range lines {
		lines[y] = 120*scale + 20*scale*math.Cos(float64(y)/53)
	}
	out := make([]byte, 0, w*h*int(f.SampleBytes))
	seed := uint32(1)
	for y := range h {
		for x := range w {
			seed = seed*1664525 + 1013904223
			if wide {
				v := uint16(lines[y] + cols[x] + float64(seed>>20&2047))
				out = append(out, byte(v), byte(v>>8))
			} else {
				out = append(out, uint8(lines[y]+cols[x]+float64(seed>>24&15)-8))
			}
		}
	}
	return out
}

// bench is a problem on the device, with copies of its frame that together exceed the caches.
type bench struct {
	t      *testing.T
	dev    *device
	s      *stream
	w      work
	frames []driver.Slice
	cpu    *cpuResults
}

// cpuResults are what the CPU gets.
type cpuResults struct {
	stats []driver.MaskStats
	hist  []uint32
	mask  []byte
}

const everything = driver.MaskSums | driver.MaskExtrema | driver.MaskMoments | driver.MaskHistogram

func benchProblem(w, h int, f driver.PixelFormat, regions driver.MaskRegions) *devicetest.Problem {
	return &devicetest.Problem{
		Regions: regions, Width: w, Height: h, Format: f, Stride: w * f.PixelBytes(), Pixels: scene(w, h, f),
		What: everything, Count: len(regions.Regions), Strips: []devicetest.Strip{{Height: h}},
	}
}

func newBench(t *testing.T, dev driver.Device, p *devicetest.Problem, copies int) *bench {
	t.Helper()
	b := &bench{t: t, dev: dev.(*device), s: newStream(t, dev).(*stream)}
	n, err := dev.Scratch(&driver.MaskPrepare{Regions: p.Regions, Width: p.Width, Height: p.Height,
		Method: driver.MethodDefault})
	if err != nil {
		t.Fatal(err)
	}
	_, size := placeWork(p, n, nil)
	b.w, _ = placeWork(p, n, alloc(t, dev, size).Mem)
	all := alloc(t, dev, int64(copies)*alignUp(int64(len(p.Pixels))))
	for i := range copies {
		f := part(all, int64(i)*alignUp(int64(len(p.Pixels))), int64(len(p.Pixels)))
		b.frames = append(b.frames, f)
		b.must(b.s.Upload(f, [][]byte{p.Pixels}))
	}
	b.w.frame.Data = b.frames[0]
	b.must(b.s.Run(b.w.prepare(driver.MethodDefault)), b.s.Wait(t.Context()))
	b.cpu = onCPU(t, p)
	return b
}

func (b *bench) must(errs ...error) {
	b.t.Helper()
	if err := errors.Join(errs...); err != nil {
		b.t.Fatal(err)
	}
}

// onCPU computes a problem on the CPU.
func onCPU(t *testing.T, p *devicetest.Problem) *cpuResults {
	t.Helper()
	dev := open(t, cpu.Driver)
	s := newStream(t, dev)
	n, err := dev.Scratch(&driver.MaskPrepare{Regions: p.Regions, Width: p.Width, Height: p.Height,
		Method: driver.MethodDefault})
	if err != nil {
		t.Fatal(err)
	}
	_, size := placeWork(p, n, nil)
	w, _ := placeWork(p, n, alloc(t, dev, size).Mem)
	r := &cpuResults{
		stats: make([]driver.MaskStats, w.stats.Len/statsBytes),
		hist:  make([]uint32, w.hist.Len/4),
		mask:  make([]byte, w.mask.Data.Len),
	}
	err = errors.Join(
		s.Upload(w.frame.Data, [][]byte{p.Pixels}),
		s.Run(w.prepare(driver.MethodDefault)),
		s.Run(w.reduce(devicetest.Strip{Height: p.Height}, false)),
		s.Run(w.raster(driver.RasterMask)),
		s.Download(bytesOf(r.stats), w.stats),
		s.Download(bytesOf(r.hist), w.hist),
		s.Download(r.mask, w.mask.Data),
		s.Wait(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// reduceOp is a reduction of copy i of the frame.
func (b *bench) reduceOp(i int, what driver.MaskWhat) *driver.MaskReduce {
	op := b.w.reduce(devicetest.Strip{Height: b.w.p.Height}, false)
	op.Frame.Data = b.frames[i%len(b.frames)]
	if op.What = what; what&driver.MaskHistogram == 0 {
		op.Hist = driver.Slice{}
	}
	return op
}

// checkReduce compares a reduction with the CPU's.
func (b *bench) checkReduce(op *driver.MaskReduce) {
	b.t.Helper()
	stats, hist := make([]driver.MaskStats, op.Stats.Len/statsBytes), make([]uint32, op.Hist.Len/4)
	b.must(b.s.Run(&driver.Fill{Dst: op.Stats, Value: 0xa5}), b.s.Run(op), b.s.Download(bytesOf(stats), op.Stats),
		b.s.Download(bytesOf(hist), op.Hist), b.s.Wait(b.t.Context()))
	want := slices.Clone(b.cpu.stats)
	for i := range want {
		if op.What&driver.MaskExtrema == 0 {
			want[i].MinKey, want[i].MaxKey = driver.EmptyMaskStats.MinKey, driver.EmptyMaskStats.MaxKey
		}
		if op.What&driver.MaskMoments == 0 {
			want[i].SumX, want[i].SumY, want[i].SumVX, want[i].SumVY = 0, 0, 0, 0
		}
	}
	channels := op.Channels()
	if d := devicetest.CompareStats(stats, want, 0, channels); d != nil {
		b.t.Error(d)
	}
	if op.Hist.Len > 0 {
		if d := devicetest.CompareHist(hist, b.cpu.hist, 0, channels, b.w.p.Format.Levels()); d != nil {
			b.t.Error(d)
		}
	}
}

// checkMask compares the mask on the device with the CPU's.
func (b *bench) checkMask() {
	b.t.Helper()
	mask := make([]byte, b.w.mask.Data.Len)
	b.must(b.s.Download(mask, b.w.mask.Data), b.s.Wait(b.t.Context()))
	if !bytes.Equal(mask, b.cpu.mask) {
		b.t.Error("the mask differs from the CPU's")
	}
}

func median(d []time.Duration) float64 {
	d = slices.Clone(d)
	slices.Sort(d)
	return float64(d[len(d)/2]) / float64(time.Microsecond)
}

// timed adds a row. device enqueues the ops whose device time counts, nil for none; call does a whole call but for the
// Wait.
func (b *bench) timed(name string, bytes int64, goal float64, copies int, device, call func(i int) error) {
	b.t.Helper()
	r := row{Name: name, Bytes: bytes, GoalUS: goal}
	if device != nil {
		replays := 15
		if testing.Short() {
			replays = 2
		}
		times, err := b.s.TimeDevice(b.t.Context(), copies, replays, device)
		if err != nil {
			b.t.Errorf("%s: %v", name, err)
			return
		}
		r.DeviceUS, r.LeastUS = median(times), float64(slices.Min(times))/float64(time.Microsecond)
	}
	if call != nil {
		var times []time.Duration
		least, until := 20, time.Now().Add(200*time.Millisecond)
		if testing.Short() {
			least, until = 3, time.Now()
		}
		for i := 0; i < least || i < 1000 && time.Now().Before(until); i++ {
			start := time.Now()
			b.must(call(i), b.s.Wait(b.t.Context()))
			times = append(times, time.Since(start))
		}
		r.CallUS = median(times[2:])
	}
	if us := r.DeviceUS; us > 0 {
		r.GBPerS = float64(bytes) / us / 1e3
	} else if r.CallUS > 0 {
		r.GBPerS = float64(bytes) / r.CallUS / 1e3
	}
	rows = append(rows, r)
}

// rasters adds a row for each method, and the peer.
func (b *bench) rasters(name string, goal float64) {
	n := b.w.mask.Data.Len
	b.timed("memset of "+name, n, 0, 50, func(int) error { return b.s.Run(&driver.Fill{Dst: b.w.mask.Data, Value: 0}) },
		nil)
	for _, m := range everyMethod[1:] {
		b.must(b.s.Run(b.w.prepare(m)), b.s.Run(&driver.Fill{Dst: b.w.mask.Data, Value: 0x5a}),
			b.s.Run(b.w.raster(driver.RasterMask)))
		b.checkMask()
		copies, g := 50, 0.0
		if m == driver.Naive {
			copies = 5
		}
		if m == driver.RowSpans {
			g = goal
		}
		draw := func(int) error { return b.s.Run(b.w.raster(driver.RasterMask)) }
		b.timed(fmt.Sprintf("mask of %s, %v", name, m), n, g, copies, draw, draw)
	}
	b.must(b.s.Run(b.w.prepare(driver.MethodDefault)), b.s.Wait(b.t.Context()))
}

// covered is how many bytes of pixels all regions have.
func (b *bench) covered() (n int64) {
	for i := 0; i < len(b.cpu.stats); i += b.w.reduce(devicetest.Strip{Height: b.w.p.Height}, false).Channels() {
		n += int64(b.cpu.stats[i].Count) * int64(b.w.p.Format.PixelBytes())
	}
	return n
}

func (b *bench) reduction(name string, what driver.MaskWhat, goal float64) {
	b.checkReduce(b.reduceOp(0, what))
	op := b.reduceOp(0, what)
	stats, hist := make([]driver.MaskStats, op.Stats.Len/statsBytes), make([]uint32, op.Hist.Len/4)
	b.timed(name, b.covered()+op.Stats.Len+op.Hist.Len, goal, 40,
		func(i int) error { return b.s.Run(b.reduceOp(i, what)) },
		func(i int) error {
			return errors.Join(b.s.Run(b.reduceOp(i, what)), b.s.Download(bytesOf(stats), op.Stats),
				b.s.Download(bytesOf(hist), op.Hist))
		})
}

// prepares adds rows for preparing: tables, upload and kernels.
func (b *bench) prepares(name string, copies int, methods ...driver.Method) {
	n := int64(len(b.w.p.Regions.Edges)) * edgeBytes
	for _, m := range methods {
		do := func(int) error { return b.s.Run(b.w.prepare(m)) }
		b.timed(fmt.Sprintf("prepare %s, %v", name, m), n, 0, copies, do, do)
	}
	b.must(b.s.Run(b.w.prepare(driver.MethodDefault)), b.s.Wait(b.t.Context()))
}

const (
	sums    = driver.MaskSums | driver.MaskExtrema
	sumsBin = sums | driver.MaskHistogram
)

// TestBenchmarks makes the table. When short it tries that all of it works, on small frames.
func TestBenchmarks(t *testing.T) {
	counted(t)
	dev := open(t, Driver)
	small := 1
	if testing.Short() {
		small = 16
	}

	// One star over a frame. The goals are those for an H200.
	for _, c := range []struct {
		w, h, copies                  int
		mask, sums, histogram, moment float64
	}{
		{2880, 1440, 32, 5, 0, 0, 8},
		{10240, 4096, 6, 15, 12, 20, 0},
	} {
		size, large := fmt.Sprintf("%dx%d", c.w, c.h), c.w == 10240
		c.w, c.h = c.w/small, c.h/small
		t.Run(size, func(t *testing.T) {
			counted(t)
			var regions driver.MaskRegions
			stretch := 1.0
			if float64(c.w) > float64(c.h)*1.5 {
				stretch = float64(c.w) / float64(c.h)
			}
			star(&regions, float64(c.w)/2, float64(c.h)/2, float64(min(c.w, c.h))*0.49, 126, stretch, 3)
			b := newBench(t, dev, benchProblem(c.w, c.h, driver.Gray8, regions), c.copies)
			b.rasters("126 edges, "+size, c.mask)
			b.prepares("126 edges, "+size, 20, everyMethod[2:]...)
			b.reduction("sums and extrema, "+size, sums, c.sums)
			b.reduction("sums, extrema, 256 bins, "+size, sumsBin, c.histogram)
			b.reduction("all, "+size, everything, c.moment)
			if large {
				b.cooccurrence("co-occurrence, 64 levels, 4 offsets, "+size, 150)
				b.weigh("sums by fractional coverage, "+size, driver.MaskSums, 18)
				b.weigh("sums, 256 bins by fractional coverage, "+size, driver.MaskSums|driver.MaskHistogram, 0)
				b.correlation("autocorrelation, 16 lags, "+size, sixteenLags(), false, 10, 80)
				b.correlation("two-point correlation, 32 pixels, "+size, discLags(32), false, 1, 0)
				b.correlation("correlation with another frame, one shift, "+size, []driver.Lag{{}}, true, 10, 0)
				b.copies()
				b.strips(256 / small)
			}
		})
	}

	t.Run("regions", func(t *testing.T) {
		counted(t)
		var regions driver.MaskRegions
		for i := range 1000 / small {
			r := newRandC(int32(i*7 + 1))
			x := 64 + float64(r.step()%(4096-128))
			star(&regions, x, 64+float64(r.step()%(4096-128)), 32, 12, 1, int32(i))
		}
		b := newBench(t, dev, benchProblem(4096, 4096, driver.Gray8, regions), 8)
		b.prepares("1000 regions of 12 edges, 4096x4096", 20, driver.RowSpans)
		b.reduction("1000 regions, sums and extrema, 4096x4096", sums, 0)
		b.reduction("1000 regions, all, 4096x4096", everything, 10)
		b.cooccurrence("1000 regions, co-occurrence, 64 levels, 4 offsets, 4096x4096", 0)
		b.weigh("1000 regions, sums by fractional coverage, 4096x4096", driver.MaskSums, 0)
		b.correlation("1000 regions, correlation with another frame, one shift, 4096x4096", []driver.Lag{{}}, true, 10,
			20)
		b.correlation("1000 regions, correlation with another frame, a shift of (1,0), 4096x4096",
			[]driver.Lag{{DX: 1}}, true, 10, 20)
		b.correlation("1000 regions, autocorrelation, 16 lags, 4096x4096", sixteenLags(), false, 10, 0)
	})

	blobRowsOf(t, dev, small)

	for _, c := range []struct {
		name string
		draw func(*driver.MaskRegions)
	}{
		{"rippled ring of 67000 edges", func(m *driver.MaskRegions) {
			coast(m, 2048, 1024, 2048*0.45, 67000/small, 1.9)
		}},
		{"spiky star of 67000 edges", func(m *driver.MaskRegions) {
			star(m, 2048, 1024, 2048*0.49, 67000/small, 1.9, 3)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			counted(t)
			var regions driver.MaskRegions
			c.draw(&regions)
			b := newBench(t, dev, benchProblem(4096, 2048, driver.Gray8, regions), 16)
			draw := func(int) error { return b.s.Run(b.w.raster(driver.RasterMask)) }
			b.must(draw(0))
			b.checkMask()
			b.timed("mask of "+c.name+", 4096x2048", b.w.mask.Data.Len, 0, 10, draw, draw)
			b.prepares(c.name+", 4096x2048", 4, driver.RowSpans)
			b.reduction("all of "+c.name+", prepared, 4096x2048", everything, 40)
		})
	}

	for _, c := range []struct {
		w, h, n int
		goal    float64
	}{
		{1920, 1080, 2500, 600}, {1920, 1080, 20000, 600}, {15360, 8640, 2500, 15000}, {15360, 8640, 20000, 15000},
	} {
		t.Run(fmt.Sprintf("low-poly %dx%d %d", c.w, c.h, c.n), func(t *testing.T) {
			lowPolyRows(t, dev, c.w/small, c.h/small, c.n/small, c.goal)
		})
	}

	for _, n := range []int{100_000, 1_000_000} {
		t.Run(fmt.Sprintf("mesh 4096x4096 %d", n), func(t *testing.T) { meshRows(t, dev, 4096/small, n/small) })
	}

	for _, c := range []struct{ n, side int }{{400, 1024}, {400 * 16, 4096}} {
		t.Run(fmt.Sprintf("curves %dx%d", c.side, c.side), func(t *testing.T) {
			curveRows(t, dev, c.n/small, c.side/small, c.side/small)
		})
	}

	for _, c := range []struct {
		side int
		goal float64
	}{{1024, 4}, {4096, 10}} {
		t.Run(fmt.Sprintf("fingerprint %dx%d", c.side, c.side), func(t *testing.T) {
			fingerprintRows(t, dev, c.side/small, c.goal)
		})
	}

	t.Run("16-bit", func(t *testing.T) {
		counted(t)
		var regions driver.MaskRegions
		w, h := 10240/small, 4096/small
		star(&regions, float64(w)/2, float64(h)/2, float64(h)*0.49, 126, 2.5, 3)
		b := newBench(t, dev, benchProblem(w, h, driver.Gray16(16), regions), 3)
		b.reduction("16-bit, sums and extrema, 10240x4096", sums, 0)
		b.reduction("16-bit, sums, extrema, 65536 bins, 10240x4096", sumsBin, 60)
	})

	t.Run("triangulations", func(t *testing.T) {
		counted(t)
		triangulations(t, dev, small)
	})
}

// copies adds the peers: what copies and launches take by themselves.
func (b *bench) copies() {
	n := b.frames[0].Len
	b.timed("device copy of 10240x4096, read and written", 2*n, 0, 20, func(int) error {
		return b.s.Copy(b.frames[0], b.frames[1])
	}, nil)
	b.timed("empty launch", 0, 0, 50, func(int) error { return b.s.Launch() }, nil)
	const launches = 500
	b.must(b.s.Launch(), b.s.Wait(b.t.Context()))
	start := time.Now()
	for range launches {
		b.must(b.s.Launch())
	}
	took := time.Since(start)
	b.must(b.s.Wait(b.t.Context()))
	rows = append(rows, row{Name: "empty launch, time of the host",
		CallUS: float64(took) / float64(time.Microsecond) / launches})
	b.timed("empty launch and Wait", 0, 0, 1, nil, func(int) error { return b.s.Launch() })
	small := part(b.w.stats, 0, 80)
	b.timed("Fill of 80 bytes and Wait", 80, 0, 1, nil,
		func(int) error { return b.s.Run(&driver.Fill{Dst: small, Value: 0}) })
}

// strips adds the whole way of a strip: from host memory to results on the host.
func (b *bench) strips(rows int) {
	p := b.w.p
	n, row0 := int64(p.Stride)*int64(rows), p.Height/4
	dst := part(b.frames[0], int64(row0)*int64(p.Stride), n)
	src := p.Pixels[row0*p.Stride:][:n]
	pinned, unlock := pageLocked(b.t, b.dev, int(n))
	defer func() { b.must(unlock()) }()
	copy(pinned, src)
	op := b.w.reduce(devicetest.Strip{Row0: row0, Height: rows}, true)
	op.Frame.Data = dst
	first := *op
	first.Accumulate = false
	stats, hist := make([]driver.MaskStats, 1), make([]uint32, 256)
	b.must(b.s.Run(&first))
	b.timed("all, strip of 10240x256 on the device", n, 0, 40, func(i int) error {
		o := *op
		o.Frame.Data = part(b.frames[i%len(b.frames)], int64(row0)*int64(p.Stride), n)
		return b.s.Run(&o)
	}, nil)
	for _, c := range []struct {
		name string
		src  []byte
		goal float64
	}{{"page-locked", pinned, 70}, {"other", src, 0}} {
		b.timed("upload of a strip of 10240x256 from "+c.name+" host memory", n, 0, 1, nil, func(int) error {
			return b.s.Upload(dst, [][]byte{c.src})
		})
		b.must(b.s.Run(&first))
		b.timed("strip of 10240x256 from "+c.name+" host memory to results on the host", n, c.goal, 1, nil,
			func(int) error {
				return errors.Join(
					b.s.Upload(dst, [][]byte{c.src}),
					b.s.Run(op),
					b.s.Download(bytesOf(stats), op.Stats), b.s.Download(bytesOf(hist), op.Hist))
			})
	}
	// The sums are those of as many strips as were added: all the same.
	got := make([]driver.MaskStats, 1)
	b.must(b.s.Run(&first), b.s.Download(bytesOf(got), op.Stats), b.s.Wait(b.t.Context()))
	if one := got[0]; one.Count == 0 || stats[0].Count%one.Count != 0 ||
		stats[0].Sum != one.Sum*(stats[0].Count/one.Count) || stats[0].MaxKey != one.MaxKey {
		b.t.Errorf("accumulated strips: %+v, one is %+v", stats[0], got[0])
	}
}

// table is the rows as text.
func table(rows []row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-72s %10s %10s %8s %8s\n", "work", "device µs", "call µs", "GB/s", "goal µs")
	cell := func(v float64, format string) string {
		if v == 0 {
			return "-"
		}
		return fmt.Sprintf(format, v)
	}
	for _, r := range rows {
		fmt.Fprintf(&b, "%-72s %10s %10s %8s %8s\n", r.Name, cell(r.DeviceUS, "%.2f"), cell(r.CallUS, "%.1f"),
			cell(r.GBPerS, "%.0f"), cell(r.GoalUS, "%.0f"))
	}
	return b.String()
}
