package main

// conveyor: one run, from flags to report.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/internal/cli"
	"github.com/polyscan/polyscan/clients/internal/reductions"
	"github.com/polyscan/polyscan/internal/command"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// sceneFlags say what the cameras see, and how.
type sceneFlags struct {
	// Folder of frames to play, one behind the other in the order of their names. Without it synthetic parts are
	// made.
	Frames string `arg:"" optional:"" placeholder:"DIR"`

	// Regions of a part: polyscan's own JSON, LabelMe, COCO, GeoJSON, SVG or PNG masks. Synthetic parts have their own.
	Regions string `short:"r" placeholder:"FILE" group:"parts"`
	// Make an error of what is only a warning about --regions, such as a key that looks misspelt.
	Strict bool `group:"parts" needs:"regions"`
	// Recipe of the server in place of --regions: NAME or NAME@VERSION.
	Recipe string `placeholder:"NAME" group:"parts"`
	// Number of times that the frames pass, or of synthetic parts. With 0 they go on until --duration is over.
	Repeat int `group:"parts" zero:""`
	// Lines of a part (default: the height of a frame; 512 for synthetic parts).
	PartLines int `placeholder:"N" group:"parts"`
	// Lines from the start of a part to that of the next one, with --trigger every. By default parts follow each
	// other on the belt.
	Every int `placeholder:"N" group:"parts" without:"trigger=marked"`
	// What starts a part: every so many lines (every), or the camera (marked).
	Trigger string `enum:"every,marked" default:"every" group:"parts"`
	// Pixels of a line, of synthetic parts.
	Width int `default:"4096" group:"parts" without:"frames"`
	// Regions of a synthetic part.
	RegionCount int `default:"50" group:"parts" without:"frames"`
	// Lines of bare belt behind a synthetic part. With --trigger marked up to as many more lie before it, at
	// random.
	Gap int `placeholder:"N" group:"parts" zero:"" without:"frames"`
	// Share of synthetic parts with a defect, 0 to 1.
	Defects float64 `default:"0.05" group:"parts" without:"frames"`
	// Seed of everything random: parts, gaps and faults.
	Seed uint64 `default:"1" group:"parts"`

	// Lines of a strip.
	StripLines int `default:"128" group:"camera"`
	// Lines a second, of each camera.
	LineRate float64 `default:"20000" group:"camera" without:"ramp"`
	// Number of cameras.
	Cameras int `default:"1" group:"camera"`
	// Name of the cameras, before their numbers: NAME-0, NAME-1 and so on, as watchers and metrics of the server have it.
	Name string `default:"conveyor" placeholder:"NAME" group:"camera"`
	// Latency above which the server marks a result as late.
	Budget time.Duration `default:"5ms" group:"camera"`
	// Strips that a camera holds until they are acknowledged. By default 64, or 64 MiB of them.
	Buffer int `placeholder:"N" group:"camera"`
}

// playFlags are those of a plain run.
type playFlags struct {
	// Time to play. With 0 frames pass --repeat times, or once without it; synthetic parts without --repeat go on until
	// an interrupt.
	Duration time.Duration `default:"10s" group:"camera"`
	// Line rate that changes evenly, in place of --line-rate.
	Ramp string `placeholder:"FROM:TO:TIME" group:"load" without:"find-capacity"`
	// Size of the groups in which strips are handed over, at the same rate on average.
	Burst int `placeholder:"N" group:"load" without:"find-capacity"`
	// Something that goes wrong with a share of the strips: stall:RATE[:TIME], kill:RATE (the connection is reset),
	// duplicate:RATE, reorder:RATE or drop:RATE. May be given more than once. Which strips is decided by --seed.
	Fault []string `placeholder:"KIND:RATE" group:"load" without:"find-capacity"`
	// Write the id of each part to FILE, a line each, when its last line is in the camera's memory: what a light
	// barrier tells a PLC. A pipe that nobody reads stops the belt.
	Barrier string `placeholder:"FILE" group:"output" without:"find-capacity"`
	// In the second half of the run, keep so many large batch jobs running beside the cameras, and compare
	// latencies.
	BatchLoad int `placeholder:"N" group:"load" zero:"" without:"find-capacity"`
	// Find the highest line rate at which nothing is late, instead of playing at one.
	FindCapacity bool `group:"load"`
	// Check the numbers and verdicts of every part against an oracle in this process.
	Verify bool `group:"check"`
	// Lines a second of each camera below which the run is void.
	MinRate float64 `placeholder:"RATE" group:"check"`
	// Latency, from a strip's being due at the camera to the result's arrival, that 99 of 100 parts must not exceed.
	// By default there is no limit.
	MaxP99 time.Duration `name:"max-p99" placeholder:"TIME" group:"check"`
	// Share of the parts that may be later than --budget, by the server's clock or by the camera's, 0 to 1. By default
	// all may.
	MaxLate *float64 `placeholder:"SHARE" group:"check"`
	// Share of the strips that cameras may hand over more than a strip's time late, because there was no room for
	// them, 0 to 1.
	MaxHeldUp float64 `default:"0.5" placeholder:"SHARE" group:"check"`
}

// outputFlags say where results go.
type outputFlags struct {
	// Write the report as JSON; - is standard output, which gets nothing else then.
	JSON string `name:"json" placeholder:"FILE" group:"output"`
	// Draw the latencies into an .svg or .png file.
	Plot string `placeholder:"FILE" group:"output"`
	// Show nothing while it runs.
	Quiet bool `short:"q" group:"output"`
	// Process whose resident memory is watched; that of a server that was started is.
	RSSPid int `name:"rss-pid" placeholder:"PID" group:"output"`
	// Where the server's metrics are, to read its resident memory there.
	MetricsURL string `placeholder:"URL" group:"output"`
}

type playCmd struct {
	sceneFlags
	playFlags
	outputFlags
	serverFlags
}

// The defaults of synthetic parts.
const syntheticPartLines = 512

// defaultMaxHeldUp is of --max-held-up: cameras that are held up for most of a run were not played at their rate.
const defaultMaxHeldUp = 0.5

// What the flags may be.
const (
	maxWidth   = 1 << 16
	maxLines   = 1 << 16
	maxCameras = 1024
)

func (c *playCmd) Run(e *env) error {
	p, err := c.profile()
	if err != nil {
		return err
	}
	faults, err := parseFaults(c.Fault)
	if err != nil {
		return err
	}
	for _, n := range []struct {
		name  string
		value float64
		max   float64
	}{{"--burst", float64(c.Burst), 1 << 16}, {"--batch-load", float64(c.BatchLoad), 256},
		{"--min-rate", c.MinRate, math.MaxFloat64}} {
		if !(n.value >= 0 && n.value <= n.max) {
			return usage("%s %v: must be 0 to %v", n.name, n.value, n.max)
		}
	}
	if c.MaxP99 < 0 {
		return usage("--max-p99 %v: must not be negative", c.MaxP99)
	}
	for _, n := range []struct {
		name  string
		value *float64
	}{{"--max-late", c.MaxLate}, {"--max-held-up", &c.MaxHeldUp}} {
		if n.value != nil && !(*n.value >= 0 && *n.value <= 1) {
			return usage("%s %v: must be 0 to 1", n.name, *n.value)
		}
	}
	want := demands{c.MinRate, c.MaxP99, c.MaxLate, c.MaxHeldUp}
	if c.Duration < 0 {
		return usage("--duration %v: must not be negative", c.Duration)
	}
	if c.Duration == 0 && c.Frames != "" && !c.FindCapacity { // whose steps have times of their own
		c.Repeat = max(c.Repeat, 1)
	}
	if c.BatchLoad > 0 && c.Duration == 0 {
		return usage("--batch-load: it fills the second half of --duration, which is 0")
	}
	return c.outputFlags.with(e, &c.sceneFlags, &c.serverFlags, func(ctx context.Context, l *load) (_ *report, err error) {
		if c.Barrier != "" {
			f, failed := os.OpenFile(c.Barrier, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
			if failed != nil {
				return nil, usage("--barrier: %v", failed)
			}
			defer func() { err = errors.Join(err, f.Close()) }()
			l.barrier = f
		}
		l.profile, l.faults, l.duration, l.verify, l.batch = p, faults, c.Duration, c.Verify, c.BatchLoad
		if c.FindCapacity {
			return findCapacity(ctx, e, l, capacityStepTime, want)
		}
		o, err := l.run(ctx)
		if err != nil {
			return nil, err
		}
		return newReport(l, o, want), nil
	})
}

// profile is the line rate over time.
func (c *playCmd) profile() (profile, error) {
	p := profile{rate: c.LineRate}
	if c.Ramp != "" {
		var err error
		if p, err = parseRamp(c.Ramp); err != nil {
			return p, err
		}
	}
	p.burst = c.Burst
	return p, nil
}

func parseFaults(texts []string) ([]fault, error) {
	var out []fault
	for _, s := range texts {
		f, err := parseFault(s)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// with sets a run up, plays it, and writes its report wherever it is wanted.
func (c *outputFlags) with(e *env, sf *sceneFlags, sv *serverFlags,
	play func(context.Context, *load) (*report, error)) (err error) {
	format := ""
	if c.Plot != "" {
		if format, err = plotFormat(c.Plot); err != nil {
			return err
		}
	}
	if ext := filepath.Ext(c.JSON); c.JSON != "" && c.JSON != "-" && !strings.EqualFold(ext, ".json") {
		return usage("--json %s: want a name that ends in .json", c.JSON)
	}
	if c.RSSPid < 0 {
		return usage("--rss-pid %d: must be more than 0", c.RSSPid)
	}
	if u, err := url.Parse(c.MetricsURL); c.MetricsURL != "" &&
		(err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return usage("--metrics-url %q: want a URL such as http://localhost:7466/metrics", c.MetricsURL)
	}
	if err := c.checkOutputs(sf.Regions); err != nil {
		return err
	}
	if err := sf.check(); err != nil {
		return err
	}
	b, err := sf.belt(e.stderr)
	if err != nil {
		return err
	}
	t, err := sv.target()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	backend, device, err := t.check(e.ctx)
	if err != nil {
		return err
	}
	s, err := sf.scene(e.ctx, e.stderr, b, t)
	if err != nil {
		return err
	}
	l := &load{
		target: t, scene: s, cameras: sf.Cameras, profile: profile{rate: sf.LineRate}, seed: sf.Seed,
		shared: sv.Transport == "shm", buffer: sf.Buffer,
		pid: t.pid, metrics: c.MetricsURL, clock: systemClock{}, interval: 250 * time.Millisecond,
	}
	if c.RSSPid != 0 {
		l.pid = c.RSSPid
	}
	d := &display{e: e}
	if !c.Quiet && c.JSON != "-" {
		l.watch = d.show
	}
	started := time.Now()
	r, err := play(e.ctx, l)
	d.clear()
	if err != nil {
		return err
	}
	r.Version, r.Started = command.Build(), started.UTC().Format(time.RFC3339)
	r.Server = serverInfo{t.addr, backend, device}
	r.Setup.Transport = sv.Transport
	if err := c.write(e, r, format); err != nil {
		return err
	}
	if r.gone != nil {
		return r.gone
	}
	switch r.Outcome {
	case runBad:
		return errFailed
	case runVoid:
		return errVoid
	}
	return nil
}

// write puts the report where it belongs.
func (c *outputFlags) write(e *env, r *report, format string) error {
	if c.JSON != "" {
		data, err := r.json()
		if err != nil {
			return err
		}
		if c.JSON == "-" {
			_, err = e.stdout.Write(data)
		} else {
			err = writeFile(c.JSON, data)
		}
		if err != nil {
			return err
		}
	}
	if c.Plot != "" {
		data, err := plotLatency(r, format)
		if err != nil {
			return err
		}
		if err := writeFile(c.Plot, data); err != nil {
			return err
		}
	}
	if c.JSON == "-" {
		return nil
	}
	return r.write(e, e.stdout)
}

// writeFile writes a file, whose errors are those of its name.
func writeFile(name string, data []byte) error {
	if err := os.WriteFile(name, data, 0o644); err != nil {
		return usage("%v", err)
	}
	return nil
}

// checkOutputs refuses files whose folder isn't there, and that of the regions, before anything is played.
func (c *outputFlags) checkOutputs(regions string) error {
	for _, name := range []string{c.JSON, c.Plot} {
		if name == "" || name == "-" {
			continue
		}
		if regions != "" && cli.Replaces(name, regions) {
			return usage("%s would replace %s, which is read: name another file", cli.Printable(name),
				cli.Printable(regions))
		}
		if st, err := os.Stat(filepath.Dir(name)); err != nil {
			return usage("%s: its folder: %v", cli.Printable(name), err)
		} else if !st.IsDir() {
			return usage("%s: %s is no folder", cli.Printable(name), filepath.Dir(name))
		}
	}
	return nil
}

// check holds the flags against their bounds.
func (f *sceneFlags) check() error {
	for _, n := range []struct {
		name     string
		value    int
		min, max int
	}{
		{"--width", f.Width, 1, maxWidth},
		{"--strip-lines", f.StripLines, 1, maxLines},
		{"--part-lines", f.PartLines, 0, maxLines},
		{"--every", f.Every, 0, maxLines},
		{"--gap", f.Gap, 0, maxLines},
		{"--region-count", f.RegionCount, 1, 100_000},
		{"--cameras", f.Cameras, 1, maxCameras},
		{"--repeat", f.Repeat, 0, 1 << 30},
		{"--buffer", f.Buffer, 0, 4096},
	} {
		if n.value < n.min || n.value > n.max {
			return usage("%s %d: must be %d to %d", n.name, n.value, n.min, n.max)
		}
	}
	switch {
	case !(f.LineRate > 0) || f.LineRate > 1e9:
		return usage("--line-rate %v: must be above 0, and 1e9 at most", f.LineRate)
	case !(f.Defects >= 0 && f.Defects <= 1):
		return usage("--defects %v: must be 0 to 1", f.Defects)
	case f.Budget <= 0:
		return usage("--budget %v: must be above 0", f.Budget)
	case f.Regions != "" && f.Recipe != "":
		return usage("--regions and --recipe: give one of them")
	case f.Frames != "" && f.Regions == "" && f.Recipe == "":
		return usage("%s: --regions FILE or --recipe NAME is missing", f.Frames)
	case f.Frames == "" && f.Width*max(f.PartLines, syntheticPartLines) > pictureBytes/2:
		return usage("--width %d, --part-lines %d: a part takes more than %d MiB", f.Width, f.PartLines,
			pictureBytes>>21)
	}
	return nil
}

// synthetic describes the parts that are made where no frames are given.
func (f *sceneFlags) synthetic() synthetic {
	s := synthetic{width: f.Width, partLines: f.PartLines, gap: f.Gap, regions: f.RegionCount, defects: f.Defects,
		seed: f.Seed, repeat: f.Repeat}
	if s.partLines == 0 {
		s.partLines = syntheticPartLines
	}
	if f.Trigger == "marked" {
		s.jitter = f.Gap
	}
	return s
}

// warn says something that isn't an error.
func warn(stderr io.Writer, text string) {
	fmt.Fprintf(stderr, "conveyor: warning: %s\n", cli.OneLine(text))
}

// belt makes or reads the pictures.
func (f *sceneFlags) belt(stderr io.Writer) (*belt, error) {
	if f.Frames == "" {
		return f.synthetic().belt()
	}
	return frameBelt(f.Frames, f.Repeat, func(text string) { warn(stderr, text) })
}

// scene puts together what the cameras look at; recipes come from the server.
func (f *sceneFlags) scene(ctx context.Context, stderr io.Writer, b *belt, t *target) (_ *scene, err error) {
	s := &scene{belt: b, stripLines: f.StripLines, partLines: f.PartLines, every: f.Every, budget: f.Budget, name: f.Name}
	if f.Frames == "" {
		s.partLines = f.synthetic().partLines
	} else if s.partLines == 0 {
		s.partLines = b.pictures[0].rows
	}
	if s.every == 0 && f.Trigger == "every" {
		s.every = b.pictures[0].rows
		if f.Frames == "" {
			s.every = int(f.synthetic().pitch())
		}
	}
	locates := false
	switch {
	case f.Recipe != "":
		ref, err := clients.ParseRecipeRef(f.Recipe)
		if err != nil {
			return nil, usage("--recipe: %v", err)
		}
		c, err := t.dial()
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		r, err := c.GetRecipe(ctx, ref.GetName(), ref.GetVersion())
		if e := clients.AsError(err); e != nil && e.Code == codes.NotFound {
			return nil, usage("--recipe %s: the server holds none of that name and version", f.Recipe)
		}
		if err != nil {
			return nil, err
		}
		locates = r.GetRegionSet().GetLocate() != nil
		s.source = "recipe " + f.Recipe
		s.inspection, s.regions = clients.UseRecipe(r.GetName(), r.GetVersion()), r.GetRegionSet().GetRegions()
		s.inspection.Reductions = r.GetReductions()
	case f.Regions != "":
		s.inspection, err = cli.LoadInspection(f.Regions, f.Strict, func(text string) { warn(stderr, text) })
		if err != nil {
			return nil, usage("%v", err)
		}
		locates = s.inspection.GetRegionSet().GetLocate() != nil
		s.source, s.regions = f.Regions, s.inspection.GetRegionSet().GetRegions()
	default:
		s.source, s.regions = "the parts that conveyor makes", f.synthetic().inspection()
		s.inspection = clients.UseRegions(s.regions...)
	}
	if locates {
		return nil, usage("%s: it has a locate section, and parts of line-scans aren't located, as lines are reduced before "+
			"all windows have passed: say regions without that section", s.source)
	}
	// What the oracle checks, beside what a recipe or a file asks for: its verdict may hang on that.
	if s.inspection.Reductions == nil {
		s.inspection.Reductions = &polyscanv1.Reductions{}
	}
	return s, reductions.AddStatistic(s.inspection.Reductions, "basic")
}

// isUnix reports whether an address is of a socket in the file system.
func isUnix(addr string) bool { return strings.HasPrefix(addr, "unix:") }

// dialTransport connects to an address without gRPC.
func dialTransport(ctx context.Context, addr string) (net.Conn, error) {
	d := &net.Dialer{}
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return d.DialContext(ctx, "unix", strings.TrimPrefix(path, "//"))
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		host, port = strings.Trim(addr, "[]"), clients.DefaultPort
	}
	return d.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
}
