package main

// polyscan bench: how long the device and the server take.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"math"
	"net"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/image/vector"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/internal/cli"
	"github.com/polyscan/polyscan/clients/internal/explain"
	"github.com/polyscan/polyscan/internal/command"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
	"github.com/polyscan/polyscan/polygon"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server"
	"github.com/polyscan/polyscan/server/drivers"
)

type benchCmd struct {
	// Sizes of the frames: by default 2880x1440 and 10000x4000, of low-poly pictures 480x270 to 15360x8640, and of
	// diffusion curves 256x256 to 1024x1024.
	Size []string `placeholder:"WxH"`
	// Sets of regions: outline (one of 126 vertices that covers two thirds of the frame), small (1000 hexagons); by
	// default both.
	Regions []string `enum:"outline,small" placeholder:"KIND" without:"vertices|solver"`
	// Methods: naive, tiled, edge-filtered, tiled-edge-filtered, row-spans, or auto; by default all but the first
	// and the last.
	Method []string `enum:"${mask_methods}" placeholder:"METHOD" without:"vertices|solver"`
	// Pixel format: gray8, gray16le, rgb8, bgr8 or rgba8; by default gray8, and of low-poly pictures and diffusion
	// curves rgb8.
	Format string `default:"" enum:",gray8,gray16le,rgb8,bgr8,rgba8" placeholder:"FORMAT" predictor:"format"`
	// Time low-poly pictures of so many vertices instead: edges, selection of vertices, triangulation and shading.
	Vertices []int `placeholder:"N" without:"solver"`
	// Time diffusion curves instead, by these methods: multigrid, naive, pyramid-cautious, pyramid-greedy,
	// variable-stencil.
	Solver []string `enum:"${solvers}" placeholder:"METHOD"`
	// With --solver, stop after so many cycles, whatever the error.
	MaxCycles int `default:"100" placeholder:"N" needs:"solver"`
	// With --solver, stop naive and the pyramids as diffuse --threshold does, and the others as ever.
	Threshold string `placeholder:"paper|LEVELS" needs:"solver"`
	// With --solver, measure how far off pictures are, by a solution to 0.00025 levels that is computed first.
	MeasureError bool `needs:"solver"`
	// Time for each row, at least.
	Time time.Duration `default:"300ms" placeholder:"TIME"`
	// Print one JSON object.
	JSON bool `name:"json"`
	deviceFlags
}

func (c *benchCmd) Help() string {
	return `
Times, on this machine and in one run: preparing regions, drawing their mask, and reducing frames by each method,
frames that are copied to the device and frames that are there ("resident"); whole calls, through the server inside
this process and over TCP on the loopback interface; and what to compare with: clearing as many bytes as the frame has
("memset"), copying them on the device, on the host ("memcpy") and from there to the device ("upload"), launching
nothing and waiting for it, and a plain Go program (a mask drawn by golang.org/x/image/vector, then a loop over the
pixels).

Each row is repeated for a while, and shows the median and the fastest run; the two are far apart on a machine that
does other things, too. DEVICE is the median of the device's part, without copies from and to the host: on a GPU by
its own clock, with several frames in turn so that its cache doesn't hold them; on the CPU the time inside the
operations. GB/s are bytes over the device's time where there is one, and else over the median: the bytes of the whole
frame or mask, and twice that for copies on the device.

Statistics: "sums" is count, sum, sum of squares, mean, variance, min and max; "all" adds the histogram, and with it
percentiles, median, mode and the number of distinct values.

With --vertices it times low-poly pictures: each step, all of them on the device, and the whole call, from host memory
and back, once it has seen that each pixel is covered by one triangle and has its colour.

With --solver it times a picture of 300 diffusion curves by each method, from control points to pixels on the device.
ESTIMATE is how far the solver takes the solution to be from the exact one, in levels of 8 bits, where it knows. With
--measure-error, ERROR is how far it is before it is rounded, and RMS the root of the mean square. Methods that go by
the error alone take long: of 1024x1024 pixels naive takes minutes on a CPU.

Examples:

    polyscan bench
    polyscan bench --vertices 2500,20000
    polyscan bench --solver multigrid,naive,pyramid-cautious,pyramid-greedy --size 256x256
    polyscan bench --solver multigrid,pyramid-greedy --size 1024x1024 --threshold paper --measure-error
    polyscan bench --device cuda --regions outline --json
    polyscan bench --size 4096x3000 --method row-spans --threads 1 --json
`
}

// benchReport is what --json prints.
type benchReport struct {
	Backend string `json:"backend"`
	Device  string `json:"device"`
	Threads int    `json:"compute_units"`
	Isa     string `json:"capability"`
	Go      string `json:"go"`
	Version string `json:"version"`
	// Complete is false where an interrupt or an error came before the last row.
	Complete bool       `json:"complete"`
	Rows     []benchRow `json:"rows"`
}

type benchRow struct {
	Op       string  `json:"op"`     // see Help
	Method   string  `json:"method"` // empty where it has none
	Stats    string  `json:"stats"`
	Regions  string  `json:"regions"`
	Vertices int     `json:"vertices"`
	Width    int     `json:"width"`
	Height   int     `json:"height"`
	Format   string  `json:"format"`
	Bytes    int64   `json:"bytes"`
	Runs     int     `json:"runs"`
	NsOp     float64 `json:"ns_op"`     // median
	NsMin    float64 `json:"ns_min"`    // fastest
	DeviceNs float64 `json:"device_ns"` // median of the device's time; 0 where it has no part
	GBs      float64 `json:"gb_s"`
	// Of diffusion: how many cycles it took, whether it was done then, and in levels of 8 bits how far off it is at most
	// and on root mean square, null where that was not to be measured, and takes itself to be, null where it doesn't know.
	Cycles    int      `json:"cycles"`
	Converged bool     `json:"converged"`
	Error     *float64 `json:"error"`
	RMS       *float64 `json:"rms"`
	Estimate  *float64 `json:"estimate"`
	CheckNs   float64  `json:"check_ns"` // median of the time that it took to know, which is not counted above
}

// maxBenchPixels keeps a frame and its prepared regions well inside the memory of the server's defaults.
const maxBenchPixels = 1 << 27

func (c *benchCmd) Run(e *env) error {
	if c.Time < time.Millisecond || c.Time > time.Minute {
		return usage("--time %v: must be from 1ms to 1m", c.Time)
	}
	switch {
	case c.Threshold != "" && !slices.ContainsFunc(c.Solver, func(s string) bool { return solvers[s].Thresholds() }):
		return usage("--threshold %s: %s stops by the error that it estimates, and takes no threshold", c.Threshold,
			strings.Join(c.Solver, " and "))
	case c.MaxCycles < 1 || c.MaxCycles > 100000:
		return usage("--max-cycles %d: must be 1 to 100000", c.MaxCycles)
	}
	if _, err := thresholdOf(c.Threshold, "naive"); err != nil {
		return err
	}
	if len(c.Regions) == 0 {
		c.Regions = []string{"outline", "small"}
	}
	if len(c.Method) == 0 {
		c.Method = []string{"tiled", "edge-filtered", "tiled-edge-filtered", "row-spans"}
	}
	if len(c.Size) == 0 {
		c.Size = []string{"2880x1440", "10000x4000"}
		if len(c.Vertices) > 0 {
			c.Size = lowPolySizes
		}
		if len(c.Solver) > 0 {
			c.Size = diffusionSizes
		}
	}
	if c.Format == "" {
		c.Format = "gray8"
		if len(c.Vertices) > 0 || len(c.Solver) > 0 {
			c.Format = "rgb8"
		}
	}
	format, err := parseFormat(c.Format)
	if err != nil {
		return usage("--format %s: %v", cli.Printable(c.Format), err)
	}
	type wh struct{ w, h int }
	var sizes []wh
	for _, s := range c.Size {
		w, h, err := parseSize(s)
		if err != nil {
			return usage("--size: %v", err)
		}
		if w < 16 || h < 16 || kernels.CheckSize(w, h) != nil || w*h > maxBenchPixels {
			return usage("--size %s: want from 16x16 to %d pixels", s, maxBenchPixels)
		}
		sizes = append(sizes, wh{w, h})
	}
	if len(c.Vertices) > 0 && format == clients.Gray16LE {
		return usage("--format gray16le: low-poly pictures are of 8 bits a channel here")
	}
	if len(c.Solver) > 0 && format != clients.RGB8 {
		return usage("--format %s: diffusion curves are rgb8 here", c.Format)
	}
	for _, n := range c.Vertices {
		if n < 4 || n > maxBenchPixels {
			return usage("--vertices %d: must be from 4 to %d", n, maxBenchPixels)
		}
	}
	drv, err := drivers.Open(c.Device, drivers.Options{Threads: c.Threads})
	if errors.Is(err, drivers.ErrUnknown) {
		return noDevice(c.Device, err)
	} else if err != nil {
		return &inputError{err.Error()}
	}
	watch := &stopwatch{Driver: drv}
	cfg := kernels.Config{MemoBytes: -1} // each picture of curves is timed with its set-up
	for _, s := range sizes {
		if len(c.Vertices) > 0 { // the picture, edges, keys, places, and all in their colours
			cfg.MemoryBytes = max(cfg.MemoryBytes, 1<<28+24*int64(s.w)*int64(s.h)+512*int64(slices.Max(c.Vertices)))
		}
		if len(c.Solver) > 0 {
			cfg.MemoryBytes = max(cfg.MemoryBytes, 1<<28+solveMemory*int64(s.w)*int64(s.h))
		}
	}
	dev, err := kernels.Open(watch, cfg)
	if errors.Is(err, kernels.ErrNoDevice) {
		return noDevice(c.Device, err)
	} else if err != nil {
		return &inputError{err.Error()}
	}
	b := &bench{cmd: c, env: e, dev: dev, watch: watch, busy: e.busy("bench")}
	info := dev.Info()
	b.report = benchReport{Backend: info.Backend, Device: info.Device, Threads: info.ComputeUnits, Isa: info.Capability,
		Go: runtime.Version(), Version: command.Build(), Rows: []benchRow{}}
	err = func() error {
		for _, s := range sizes {
			var err error
			switch {
			case len(c.Vertices) > 0:
				err = b.lowPoly(e.ctx, s.w, s.h, driverFormat(format), c.Vertices)
			case len(c.Solver) > 0:
				err = b.diffusion(e.ctx, s.w, s.h)
			default:
				err = b.size(e.ctx, s.w, s.h, format)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}()
	if cerr := dev.Close(); err == nil {
		err = cerr
	}
	b.busy.end()
	b.report.Complete = err == nil
	if err != nil && len(b.report.Rows) == 0 {
		return err
	}
	// Rows that there are took their time, and are printed however the run ended.
	return cmp.Or(b.print(), err)
}

// print prints the report.
func (b *bench) print() error {
	switch c := b.cmd; {
	case c.JSON:
		return writeJSON(b.env.stdout, b.report)
	case len(c.Solver) > 0:
		return b.printDiffusion()
	}
	return b.printRows()
}

// bench is a run of the command.
type bench struct {
	cmd    *benchCmd
	env    *env
	dev    *kernels.Device
	watch  *stopwatch
	report benchReport
	busy   *busy
}

// size times everything for frames of one size.
func (b *bench) size(ctx context.Context, w, h int, pf polyscanv1.PixelFormat) error {
	format := driverFormat(pf)
	pix := benchPixels(w * h * format.PixelBytes())
	row := benchRow{Width: w, Height: h, Format: b.cmd.Format, Bytes: int64(len(pix))}

	if err := b.peers(ctx, row, pix); err != nil {
		return err
	}
	for _, kind := range b.cmd.Regions {
		regions := benchRegions(kind, w, h)
		set, err := polygon.NewSet(regions, polygon.Bounds{})
		if err != nil {
			return err
		}
		row.Regions, row.Vertices = kind, set.Vertices()
		if pf == clients.Gray8 {
			r := row
			r.Op, r.Stats = "plain go", "all"
			if err := b.time(ctx, r, func() error { plainGo(regions, pix, w, h); return nil }); err != nil {
				return err
			}
		}
		f := kernels.Picture{Width: w, Height: h, Format: format, Data: [][]byte{pix}}
		for _, name := range b.cmd.Method {
			row := row
			row.Method = name
			if err := b.method(ctx, row, set, f, polygon.Method(methods[name])); err != nil {
				return err
			}
		}
		if err := b.calls(ctx, row, regions, pix, pf); err != nil {
			return err
		}
	}
	return nil
}

// peers times what the rows of frames of this size are compared with.
func (b *bench) peers(ctx context.Context, row benchRow, pix []byte) (err error) {
	copied := make([]byte, len(pix))
	row.Op = "memcpy"
	if err := b.time(ctx, row, func() error { copy(copied, pix); return nil }); err != nil {
		return err
	}
	n := row.Bytes
	m, err := b.watch.device.Alloc(2 * n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Free()) }()
	s, err := b.watch.device.NewStream(0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	dst, src := driver.Slice{Mem: m, Len: n}, driver.Slice{Mem: m, Off: n, Len: n}
	timer, _ := s.(driver.Timer)
	type peer struct {
		op      string
		bytes   int64
		enqueue func() error
	}
	peers := []peer{
		{"upload", n, func() error { return s.Upload(dst, [][]byte{pix}) }},
		{"memset", n, func() error { return s.Run(&driver.Fill{Dst: dst, Value: 0}) }},
	}
	if timer != nil {
		peers = append(peers,
			peer{"device copy", 2 * n, func() error { return timer.Copy(dst, src) }},
			peer{"launch", 0, timer.Launch})
	}
	for _, p := range peers {
		row.Op, row.Bytes = p.op, p.bytes
		device := time.Duration(0)
		if timer != nil && p.op != "upload" { // which is the host's work as well
			times, err := timer.TimeDevice(ctx, timedCopies, timedRepeats, func(int) error { return p.enqueue() })
			if err != nil {
				return err
			}
			device = median(times)
		}
		if err := b.timeWith(ctx, row, device, func() error {
			if err := p.enqueue(); err != nil {
				return err
			}
			return s.Wait(ctx)
		}); err != nil {
			return err
		}
	}
	return nil
}

// method times the ops of the device by one method.
func (b *bench) method(ctx context.Context, row benchRow, set *polygon.Set, f kernels.Picture,
	m polygon.Method) (err error) {
	row.Op = "prepare"
	err = b.timeBoth(ctx, row, func() error {
		p, err := set.Prepare(ctx, b.dev, f.Width, f.Height, m)
		if err != nil {
			return err
		}
		return p.Close()
	})
	if errors.Is(err, kernels.ErrNotSupported) {
		return nil // a method of the other backend
	}
	if err != nil {
		return err
	}
	drawn := row
	drawn.Op, drawn.Bytes = "mask", int64(f.Width*f.Height)
	err = b.timeBoth(ctx, drawn, func() error {
		_, err := polygon.Rasterize(ctx, b.dev, set, f.Width, f.Height, polygon.RasterMask, m)
		return err
	})
	if err != nil {
		return err
	}
	p, err := set.Prepare(ctx, b.dev, f.Width, f.Height, m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	resident, err := b.store(ctx, f.Data[0])
	if err != nil {
		return err
	}
	defer resident.Drop()
	defer resident.Release()
	there := f
	there.Data, there.Resident = nil, resident.Buffer()
	for _, op := range []struct {
		name  string
		frame kernels.Picture
	}{{"reduce", f}, {"reduce resident", there}} {
		for _, s := range []struct {
			name string
			what polygon.Statistics
		}{{"sums", polygon.Basic}, {"all", polygon.Skewness - 1}} {
			row.Op, row.Stats = op.name, s.name
			err := b.timeBoth(ctx, row, func() error {
				_, err := p.Reduce(ctx, op.frame, polygon.Reductions{Statistics: s.what})
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// store puts a frame on the device.
func (b *bench) store(ctx context.Context, pix []byte) (*kernels.Resident[byte], error) {
	r, err := kernels.Store[byte](b.dev, len(pix), "frame")
	if err != nil {
		return nil, err
	}
	err = b.dev.Do(ctx, kernels.Job{Label: "upload"}, func(q *kernels.Queue) error {
		return kernels.Upload(q, r.Buffer(), pix)
	})
	if err != nil {
		r.Release()
		r.Drop()
		return nil, err
	}
	return r, nil
}

// calls times Reduce as a client sees it.
func (b *bench) calls(ctx context.Context, row benchRow, regions []polygon.Region, pix []byte,
	pf polyscanv1.PixelFormat) error {
	var msgs []*polyscanv1.Region
	for _, r := range regions {
		var xy []float64
		for _, p := range r.Rings[0] {
			xy = append(xy, p.X, p.Y)
		}
		msgs = append(msgs, clients.Polygon(r.Name, xy...))
	}
	frame := clients.Raw{Width: row.Width, Height: row.Height, Format: pf}.Frame(pix)
	row.Stats = "sums"
	cfg := server.Config{Device: b.cmd.Device, Threads: b.cmd.Threads}
	for _, way := range []struct {
		name string
		open func(server.Config) (*connection, error)
	}{{"call (in-process)", inProcess}, {"call (tcp)", loopback}} {
		conn, err := way.open(cfg)
		if err != nil {
			return err
		}
		row.Op = way.name
		err = b.time(ctx, row, func() error {
			_, err := conn.Reduce(ctx, clients.UseRegions(msgs...), frame)
			return err
		})
		if cerr := conn.close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// loopback starts a server on a port of the loopback interface and dials it.
func loopback(cfg server.Config) (*connection, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	s, err := server.New(cfg)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	c, err := clients.Dial(l.Addr().String())
	stop := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
		defer cancel()
		return errors.Join(s.Shutdown(ctx), <-served)
	}
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	return &connection{Client: c, to: explain.Connection{Addr: l.Addr().String()}, close: func() error {
		return errors.Join(c.Close(), stop())
	}}, nil
}

// say shows which row comes next.
func (b *bench) say(row benchRow) {
	b.busy.say("row %d: %s", len(b.report.Rows)+1, strings.Join(strings.Fields(fmt.Sprintf("%dx%d %s %s %s %s", row.Width,
		row.Height, row.Regions, row.Op, row.Method, row.Stats)), " "))
}

// timeBoth times fn, and then the device's part of it.
func (b *bench) timeBoth(ctx context.Context, row benchRow, fn func() error) error {
	b.say(row)
	took, err := b.repeat(ctx, fn)
	if err != nil {
		return err
	}
	const laps = 3 // each is a median already where the device has a clock
	var device []time.Duration
	for begun := time.Now(); len(device) < laps || !b.watch.hasClock && time.Since(begun) < b.cmd.Time; {
		b.watch.start()
		err := fn()
		device = append(device, b.watch.stop())
		if err != nil {
			return err
		}
	}
	b.add(row, took, median(device))
	return nil
}

// time times fn.
func (b *bench) time(ctx context.Context, row benchRow, fn func() error) error {
	return b.timeWith(ctx, row, 0, fn)
}

// timeWith times fn, whose part on the device is known.
func (b *bench) timeWith(ctx context.Context, row benchRow, device time.Duration, fn func() error) error {
	b.say(row)
	took, err := b.repeat(ctx, fn)
	if err != nil {
		return err
	}
	b.add(row, took, device)
	return nil
}

// add adds a row.
func (b *bench) add(row benchRow, took []time.Duration, device time.Duration) {
	row.NsOp, row.NsMin, row.Runs = float64(median(took)), float64(slices.Min(took)), len(took)
	row.DeviceNs = float64(device)
	over := row.DeviceNs
	if device == 0 {
		over = row.NsOp
	}
	if over > 0 && row.Op != "prepare" {
		row.GBs = float64(row.Bytes) / over
	}
	b.report.Rows = append(b.report.Rows, row)
}

// repeat runs fn for a while and returns how long each run took.
func (b *bench) repeat(ctx context.Context, fn func() error) ([]time.Duration, error) {
	if err := fn(); err != nil { // warm up
		return nil, err
	}
	var took []time.Duration
	for total := time.Duration(0); total < b.cmd.Time && len(took) < 1<<20 || len(took) < 3; {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		start := time.Now()
		if err := fn(); err != nil {
			return nil, err
		}
		d := time.Since(start)
		took = append(took, d)
		total += d
	}
	return took, nil
}

// printHead prints what was timed.
func (b *bench) printHead() error {
	r := b.report
	_, err := fmt.Fprintf(b.env.stdout, "%s: %s, %d compute units, %s; polyscan %s, %s\n\n", r.Backend, r.Device,
		r.Threads, r.Isa, r.Version, r.Go)
	return err
}

// shortOps makes the names of ops fit a terminal, with the other columns.
var shortOps = strings.NewReplacer("reduce resident", "resident", "(in-process)", "(inside)")

func (b *bench) printRows() error {
	e, r := b.env, b.report
	if err := b.printHead(); err != nil {
		return err
	}
	t := &table{columns: []column{{title: "OP"}, {title: "METHOD"},
		{title: "STATS"}, {title: "DEVICE", right: true}, {title: "MEDIAN", right: true}, {title: "BEST", right: true},
		{title: "GB/s", right: true}, {title: "RUNS", right: true}}}
	group := ""
	for _, k := range r.Rows {
		device, took, best, rate := "", "", "", ""
		what := fmt.Sprintf("%dx%d %s", k.Width, k.Height, k.Format)
		if k.Regions != "" {
			what += ", " + k.Regions
		}
		if k.Vertices > 0 {
			what += fmt.Sprintf(", %d vertices", k.Vertices)
		}
		if what != group {
			group = what
			t.add(cell{what, cli.Bold})
		}
		if k.DeviceNs > 0 {
			device = pretty(time.Duration(k.DeviceNs))
		}
		if k.NsOp > 0 { // a step of low-poly pictures is timed on the device alone
			took, best = pretty(time.Duration(k.NsOp)), pretty(time.Duration(k.NsMin))
		}
		if k.GBs > 0 {
			rate = shortly(k.GBs)
		}
		t.add(cell{text: shortOps.Replace(k.Op)}, cell{text: k.Method}, cell{text: k.Stats}, cell{text: device},
			cell{text: took}, cell{text: best}, cell{text: rate}, cell{text: fmt.Sprint(k.Runs)})
	}
	t.dropEmpty("METHOD")
	t.dropEmpty("STATS")
	return t.write(e, e.stdout)
}

func driverFormat(f polyscanv1.PixelFormat) kernels.PixelFormat {
	switch f {
	case clients.Gray16LE:
		return kernels.Gray16(16)
	case clients.RGB8:
		return kernels.RGB8
	case clients.BGR8:
		return kernels.BGR8
	case clients.RGBA8:
		return kernels.RGBA8
	}
	return kernels.Gray8
}

// benchPixels are bytes without a pattern that a histogram could profit from, the same in each run.
func benchPixels(n int) []byte {
	pix := make([]byte, n)
	x := uint64(0x9e3779b97f4a7c15)
	for i := range pix {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		pix[i] = byte(x >> 32)
	}
	return pix
}

// benchRegions makes a set of regions for a frame.
func benchRegions(kind string, w, h int) []polygon.Region {
	ring := func(cx, cy float64, n int, rx, ry func(i int) float64) polygon.Ring {
		out := make(polygon.Ring, n)
		for i := range out {
			a := 2 * math.Pi * float64(i) / float64(n)
			out[i] = polygon.Point{X: cx + rx(i)*math.Cos(a), Y: cy + ry(i)*math.Sin(a)}
		}
		return out
	}
	fw, fh := float64(w), float64(h)
	if strings.EqualFold(kind, "small") {
		// 40 by 25 hexagons, each a third of its cell.
		var out []polygon.Region
		for i := range 1000 {
			cw, ch := fw/40, fh/25
			cx, cy := (float64(i%40)+0.5)*cw, (float64(i/40)+0.5)*ch
			r := min(cw, ch) / 3
			same := func(int) float64 { return r }
			out = append(out, polygon.Region{Name: fmt.Sprintf("hexagon %d", i),
				Rings: []polygon.Ring{ring(cx, cy, 6, same, same)}})
		}
		return out
	}
	// A wavy outline of 126 vertices.
	wave := func(r float64) func(int) float64 {
		return func(i int) float64 { return r * (0.97 - 0.03*float64(i%3)) }
	}
	return []polygon.Region{{Name: "outline", Rings: []polygon.Ring{ring(fw/2, fh/2, 126, wave(fw/2), wave(fh/2))}}}
}

// plainGo is what a Go program would do without polyscan: draw each region with an antialiasing rasteriser, and loop
// over the pixels that are more in than out. Its masks are not exact. The result keeps the work from being dropped.
func plainGo(regions []polygon.Region, pix []byte, w, h int) (sum uint64) {
	for _, r := range regions {
		x0, y0, x1, y1 := w, h, 0, 0
		for _, p := range r.Rings[0] {
			x0, y0 = min(x0, int(p.X)), min(y0, int(p.Y))
			x1, y1 = max(x1, int(p.X)+1), max(y1, int(p.Y)+1)
		}
		x0, y0, x1, y1 = max(x0, 0), max(y0, 0), min(x1, w), min(y1, h)
		if x0 >= x1 || y0 >= y1 {
			continue
		}
		z := vector.NewRasterizer(x1-x0, y1-y0)
		for i, p := range r.Rings[0] {
			x, y := float32(p.X)-float32(x0), float32(p.Y)-float32(y0)
			if i == 0 {
				z.MoveTo(x, y)
			} else {
				z.LineTo(x, y)
			}
		}
		z.ClosePath()
		mask := image.NewAlpha(image.Rect(0, 0, x1-x0, y1-y0))
		z.Draw(mask, mask.Rect, image.Opaque, image.Point{})
		var hist [256]uint32
		var sq uint64
		lo, hi := byte(255), byte(0)
		for y := y0; y < y1; y++ {
			in := mask.Pix[(y-y0)*mask.Stride:][:x1-x0]
			for x, v := range pix[y*w+x0:][:x1-x0] {
				if in[x] >= 128 {
					sum += uint64(v)
					sq += uint64(v) * uint64(v)
					lo, hi = min(lo, v), max(hi, v)
					hist[v]++
				}
			}
		}
		sum += sq + uint64(lo) + uint64(hi) + uint64(hist[0])
	}
	return sum
}
