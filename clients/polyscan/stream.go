package main

// polyscan stream: the frames of a folder through one stream.

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/schollz/progressbar/v3"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/internal/cli"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

type streamCmd struct {
	// Folder of frames: all PNG, JPEG, TIFF and BMP files in it, or all .raw and .bin files with --raw; in natural
	// order (frame2 before frame10).
	Dir string `arg:"" predictor:"dir"`

	regionFlags
	// Regions and limits stored on the server, instead of --regions.
	Recipe string `placeholder:"NAME[@VERSION]" group:"regions"`
	// Folder in which the server inside the process keeps recipes.
	Recipes string `placeholder:"DIR" predictor:"dir" group:"regions" needs:"recipe" without:"addr"`
	frameFlags
	reductionFlags
	goldenFlags
	flatFlags
	poseFlags
	nameFlags
	// Send the names of files, without their extension, as ids of parts; no two may be the same.
	PartIds bool `group:"server"`

	// Send all frames N times.
	Repeat int `default:"1" placeholder:"N" group:"output"`
	// Frames on the way at most.
	Window int `default:"4" placeholder:"N" group:"output"`
	// Print one JSON object for the stream.
	JSON bool `group:"output" name:"json"`
	// Write a row for each frame, region and channel to this file, as soon as the frame is answered; a refused
	// frame has a row with its error.
	CSV string `placeholder:"FILE" predictor:"file" group:"output" name:"csv"`
	// No progress bar, and no line for each frame that fails.
	Quiet bool `short:"q" group:"output"`
	// Exit with 1 if any frame is FAIL or was refused; a region must have limits, or the part be searched for.
	FailOnReject bool `group:"output"`

	deviceFlags
	serverFlags
}

func (c *streamCmd) Help() string {
	return `
Sends the regions once and then frame after frame, several on the way at a time, and prints how they came out, at what
rate, and how long each took from being sent to its answer. A file that can't be used is reported, and the stream goes
on.

Examples:

    polyscan stream testdata/conveyor --regions testdata/conveyor/regions.json
    polyscan stream frames/ -r zones.json --csv results.csv --addr inspector:7465
    polyscan stream dump/ --raw 2048x512:gray8 --recipe belt --addr inspector:7465 --fail-on-reject

Exit codes: 0 all frames were measured; 1 a frame failed or was refused and --fail-on-reject was given; 2 wrong
arguments or bad input, which a frame was refused for; 3 the server, or the way to it, failed; 130 interrupted.
`
}

// streamReport is what --json prints. Times are in milliseconds.
type streamReport struct {
	Backend   string         `json:"backend"`
	Frames    int            `json:"frames"`
	Complete  bool           `json:"complete"` // all frames were answered
	Bytes     int64          `json:"bytes"`
	Pixels    int64          `json:"pixels"`
	Seconds   float64        `json:"seconds"`
	Rate      float64        `json:"frames_per_second"`
	MBRate    float64        `json:"megabytes_per_second"`
	Latency   latencyReport  `json:"latency_ms"`
	Compute   latencyReport  `json:"compute_ms"`
	Verdicts  verdictsReport `json:"verdicts"`
	Rejected  []rejectReport `json:"rejected"`
	Truncated bool           `json:"rejected_truncated"`
}

type latencyReport struct {
	Min float64 `json:"min"`
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

type verdictsReport struct {
	Pass    int `json:"pass"`
	Fail    int `json:"fail"`
	None    int `json:"none"`
	Refused int `json:"refused"`
}

// rejectReport is a frame that failed or was refused.
type rejectReport struct {
	Sequence uint64   `json:"sequence"`
	Frame    string   `json:"frame"`
	Regions  []string `json:"regions"`   // that failed
	NotFound *string  `json:"not_found"` // why its part was not
	Error    *string  `json:"error"`     // why it was refused
}

// maxRejects is how many of them --json lists.
const maxRejects = 10_000

// cacheBytes is how much of the frames is kept in memory for --repeat; what is beyond is read again.
const cacheBytes = 1 << 30

func (c *streamCmd) Run(e *env) (err error) {
	switch {
	case c.Repeat < 1 || c.Repeat > 1<<24:
		return usage("--repeat %d: must be 1 to %d", c.Repeat, 1<<24)
	case c.CSV == "-":
		return usage("--csv -: the rows take a file; standard output has the report")
	case c.Window < 1 || c.Window > 1024:
		return usage("--window %d: must be 1 to 1024", c.Window)
	}
	if err := checkOutputs(append(c.goldenFlags.files(), c.Regions, c.Flat), output{"--csv", c.CSV, ".csv"}); err != nil {
		return err
	}
	if err := c.frameFlags.check(); err != nil {
		return err
	}
	names, err := listFrames(e, c.Dir, c.Raw.set())
	if err != nil {
		return err
	}
	if c.PartIds {
		if err := cli.CheckPartIDs(names); err != nil {
			return usage("--part-ids: %v", err)
		}
	}
	files := make([]string, len(names))
	for i, name := range names {
		files[i] = filepath.Join(c.Dir, name)
	}
	if err := c.checkOther(e, c.Strict, files...); err != nil {
		return err
	}
	t, err := c.judged(e, c.Recipe, c.Dir, c.FailOnReject)
	if err != nil {
		return err
	}
	var fallback *polyscanv1.Reductions
	if t.recipe == nil {
		fallback = tableReductions()
	}
	r, err := t.reductions(&c.reductionFlags, fallback)
	if err != nil {
		return err
	}
	conn, err := t.connect(e, &c.serverFlags, &c.deviceFlags, c.Recipes)
	if err != nil {
		return err
	}
	defer conn.end(&err)

	if c.FailOnReject {
		if err := t.requireLimits(conn, &c.poseFlags); err != nil {
			return err
		}
	}
	s := &streamRun{cmd: c, env: e, conn: conn, target: t, names: names}
	if c.CSV == "" {
		return s.run(r)
	}
	// Not a file that is whole or not at all, as others are: rows are there as soon as their frame is answered, and
	// stay whatever happens then. So it is held for this program alone, and what is in it stays until the stream has
	// opened.
	st, err := os.Stat(c.CSV)
	isNew := err != nil
	if isNew || st.Mode().IsRegular() {
		lock := flock.New(c.CSV, flock.SetPermissions(0o666))
		if ok, err := lock.TryLock(); err == nil && !ok { // where there are no locks, or no file, opening it tells
			return bad(c.CSV, "another program writes to it")
		}
		defer lock.Close()
	}
	f, err := os.OpenFile(c.CSV, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return bad(c.CSV, "%v", reason(err))
	}
	defer func() {
		if cerr := f.Close(); err == nil && cerr != nil {
			err = bad(c.CSV, "%v", reason(cerr))
		}
		if isNew && s.rows == nil { // it never opened
			os.Remove(c.CSV)
		}
	}()
	s.opened = func() error {
		s.opened = nil
		if isNew || st.Mode().IsRegular() {
			if err := f.Truncate(0); err != nil {
				return bad(c.CSV, "%v", reason(err))
			}
		}
		s.rows = csv.NewWriter(f)
		return s.writeCSV(csvHeader)
	}
	return s.run(r)
}

// listFrames finds the frames of a folder, in natural order, and warns of what else there is.
func listFrames(e *env, dir string, raw bool) ([]string, error) {
	kinds := cli.Pictures
	if raw {
		kinds = []string{".raw", ".bin"}
	}
	names, err := cli.Frames(dir, kinds, func(text string) { e.warn("%s", text) })
	switch system := new(fs.PathError); {
	case errors.As(err, &system):
		return nil, bad(dir, "%v", reason(err))
	case err != nil:
		return nil, usage("%v", err)
	}
	slices.SortFunc(names, natural)
	return names, nil
}

// natural orders names so that numbers in them count as numbers: frame2 before frame10.
func natural(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		if isDigit(x[0]) && isDigit(y[0]) {
			m, n := digitRun(x), digitRun(y)
			p, q := strings.TrimLeft(m, "0"), strings.TrimLeft(n, "0")
			if d := cmp.Or(cmp.Compare(len(p), len(q)), strings.Compare(p, q)); d != 0 {
				return d
			}
			x, y = x[len(m):], y[len(n):]
			continue
		}
		if x[0] != y[0] {
			return cmp.Compare(x[0], y[0])
		}
		x, y = x[1:], y[1:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(a, b))
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func digitRun(s string) string {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return s[:n]
}

// streamRun is a stream while it runs.
type streamRun struct {
	cmd    *streamCmd
	env    *env
	conn   *connection
	target *target
	names  []string
	rows   *csv.Writer  // of --csv, once the stream has opened
	opened func() error // makes rows, at the first answer; nil then, and without --csv

	unusable sync.Map // from *polyscanv1.Frame to why it was sent without pixels

	refused error // of the first frame that was
	report  streamReport
	latency []time.Duration
	compute []time.Duration
}

func (s *streamRun) run(r *polyscanv1.Reductions) error {
	e, c := s.env, s.cmd
	total := len(s.names) * c.Repeat
	var bar *progressbar.ProgressBar
	if e.live && !c.Quiet {
		bar = frameBar(e, total)
	}
	done := func() {
		if bar != nil {
			_ = bar.Clear() // nothing depends on it
		}
	}
	defer done()
	ctx, cancel := context.WithCancel(s.conn.ctx)
	defer cancel()
	frames := readAhead(ctx, s.frames(), c.Window)
	drawn := s.target.regions
	var err error
	if c.Pose != "" {
		if drawn, err = s.target.known(s.conn); err != nil {
			return err
		}
	}
	in := s.target.inspection(r)
	in.Name = c.Name
	if in.Pose, err = c.poseFlags.message(); err != nil {
		return err
	}
	if in.FlatField, err = c.field(e, s.target.regions); err != nil {
		return err
	}
	release, err := c.goldenFlags.put(e, s.conn, &c.frameFlags, in)
	if err != nil {
		return err
	}
	defer release()
	start := time.Now()
	judges := s.target.regions == nil || s.target.regions.hasLimits() // or a recipe may
	var first, last *polyscanv1.FrameResult
	var broken error // what ended the stream before its end
	for a, err := range s.conn.StreamFrames(ctx, in, frames,
		clients.StreamOptions{Window: c.Window}) {
		if err != nil {
			broken = s.conn.fail(err, "", s.target.regions)
			break
		}
		s.count(a)
		if err := s.writeRows(a); err != nil {
			return err
		}
		if a.Result != nil {
			l, before := a.Result.GetLayout(), last.GetLayout()
			if s.target.regions != nil && (l.GetWidth() != before.GetWidth() || l.GetHeight() != before.GetHeight()) {
				if err := s.target.regions.checkSize(e, a.Frame.GetFrameId(), l.GetWidth(), l.GetHeight()); err != nil {
					return err
				}
			}
			if first == nil {
				first = a.Result
			}
			if o := first.GetLayout(); judges && layoutText(l) != layoutText(o) && layoutText(l) != layoutText(before) {
				text := fmt.Sprintf("%s: %s, the first frame is %s: the same limits look at other pixels",
					cli.Printable(a.Frame.GetFrameId()), layoutText(l), layoutText(o))
				if c.FailOnReject || c.Strict {
					return usage("%s", text)
				}
				e.warn("%s", text)
			}
			last = a.Result
		}
		if bar != nil {
			_ = bar.Add(1)
		}
		if line := s.describe(a); line != "" && !c.Quiet && !c.JSON {
			done()
			if _, err := fmt.Fprintln(e.stdout, line); err != nil {
				return err
			}
		}
	}
	done()
	bar = nil
	s.report.Seconds = time.Since(start).Seconds()
	s.report.Rate = float64(s.report.Frames) / s.report.Seconds
	s.report.MBRate = float64(s.report.Bytes) / 1e6 / s.report.Seconds
	s.report.Latency, s.report.Compute = quantiles(s.latency), quantiles(s.compute)
	s.report.Backend, s.report.Complete = last.GetBackend(), broken == nil
	if broken == nil || s.report.Frames > 0 {
		err := s.print()
		if err == nil && !c.JSON {
			err = c.writeUnsearched(e.stdout, drawn)
		}
		if err != nil {
			return err
		}
	}
	if s.refused != nil && c.Quiet && !c.JSON { // no line has said why
		e.warn("the first refused frame: %v", s.refused)
	}
	if broken != nil {
		return broken
	}
	if v := s.report.Verdicts; c.FailOnReject && v.Fail+v.Refused > 0 {
		return errRejected
	}
	if n := s.report.Verdicts.Refused; n > 0 {
		return &refusedError{n, s.report.Frames, s.refused}
	}
	return nil
}

// layoutText is the size of a frame and what its pixels are.
func layoutText(l *polyscanv1.FrameLayout) string {
	return fmt.Sprintf("%dx%d %s", l.GetWidth(), l.GetHeight(), cli.FormatName(l.GetPixelFormat()))
}

// refusedError says that frames were refused, and that nothing is known of them. It is of the kind of the first one's.
type refusedError struct {
	refused, frames int
	first           error
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("%d of %s refused, of which nothing is known", e.refused, plural(e.frames, "frame", "frames"))
}

func (e *refusedError) Unwrap() error { return e.first }

// frames reads the folder. A file that can't be a frame goes out without pixels, so that the server refuses it in its
// turn and the others keep their numbers; why it can't is kept for the answer.
func (s *streamRun) frames() iter.Seq2[*polyscanv1.Frame, error] {
	cached, room := map[string][]byte{}, int64(cacheBytes)
	return func(yield func(*polyscanv1.Frame, error) bool) {
		for range s.cmd.Repeat {
			for _, name := range s.names {
				data, ok := cached[name]
				var err error
				if !ok {
					data, err = readInput(s.env, filepath.Join(s.cmd.Dir, name), maxFile)
					if n := int64(len(data)); s.cmd.Repeat > 1 && n <= room {
						cached[name] = data
						room -= n
					}
				}
				var f *frame
				if err == nil {
					f, err = s.cmd.frame(name, data)
				}
				m := clients.Encoded(nil)
				if err == nil {
					m = f.message()
				} else {
					s.unusable.Store(m, err)
				}
				m.FrameId = cut(name, 256)
				if s.cmd.PartIds {
					m.PartId = cli.PartID(name)
				}
				if !yield(m, nil) {
					return
				}
			}
		}
	}
}

// cut shortens a name to a number of bytes, at its front: the end tells frames apart.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[len(s)-n:], "")
}

// readAhead runs an iterator in a goroutine of its own, up to n elements ahead.
func readAhead[T any](ctx context.Context, seq iter.Seq2[T, error], n int) iter.Seq2[T, error] {
	type item struct {
		v   T
		err error
	}
	return func(yield func(T, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		ch := make(chan item, n)
		go func() {
			defer close(ch)
			for v, err := range seq {
				select {
				case ch <- item{v, err}:
				case <-ctx.Done():
					return
				}
			}
		}()
		for it := range ch {
			if !yield(it.v, it.err) {
				break
			}
		}
		cancel()
		for range ch { // until the goroutine has ended
		}
	}
}

// count adds an answer to the report.
func (s *streamRun) count(a *clients.Answer) {
	r := &s.report
	r.Frames++
	r.Bytes += int64(len(a.Frame.GetData()))
	s.latency = append(s.latency, a.Latency)
	reject := rejectReport{Sequence: a.Sequence, Frame: a.Frame.GetFrameId(), Regions: []string{}}
	switch {
	case a.Err != nil:
		r.Verdicts.Refused++
		if s.refused == nil {
			s.refused = s.refusedFor(a)
		}
		text := s.refusal(a)
		reject.Error = &text
	case a.Result.GetVerdict() == polyscanv1.Verdict_VERDICT_FAIL:
		r.Verdicts.Fail++
		reject.Regions = failed(a.Result)
		if l := a.Result.GetLocation(); cli.NotFound(l) != "" {
			reject.NotFound = &l.Reason
		}
	case a.Result.GetVerdict() == polyscanv1.Verdict_VERDICT_PASS:
		r.Verdicts.Pass++
	default:
		r.Verdicts.None++
	}
	if a.Result != nil {
		l := a.Result.GetLayout()
		r.Pixels += int64(l.GetWidth()) * int64(l.GetHeight())
		s.compute = append(s.compute, a.Result.GetTimes().GetCompute().AsDuration())
	}
	if reject.Error != nil || a.Result.GetVerdict() == polyscanv1.Verdict_VERDICT_FAIL {
		if len(r.Rejected) < maxRejects {
			r.Rejected = append(r.Rejected, reject)
		} else {
			r.Truncated = true
		}
	}
}

// refusedFor is why a frame was refused: what was wrong with its file, or else what the server said.
func (s *streamRun) refusedFor(a *clients.Answer) error {
	if err, ok := s.unusable.Load(a.Frame); ok {
		return err.(error)
	}
	return s.conn.fail(a.Err, a.Frame.GetFrameId(), s.target.regions)
}

// refusal says why a frame was refused.
func (s *streamRun) refusal(a *clients.Answer) string {
	name := a.Frame.GetFrameId()
	text := s.refusedFor(a).Error()
	if !strings.Contains(text, name) { // it is about the regions
		text = name + ": " + text
	}
	return cli.OneLine(text)
}

func failed(res *polyscanv1.FrameResult) []string {
	out := []string{}
	for _, g := range res.GetRegions() {
		if g.GetVerdict() == polyscanv1.Verdict_VERDICT_FAIL {
			out = append(out, g.GetName())
		}
	}
	return out
}

// describe is the line for a frame that didn't pass.
func (s *streamRun) describe(a *clients.Answer) string {
	if a.Err != nil {
		return s.env.paint(cli.Red, "REFUSED") + " " + s.refusal(a)
	}
	why := whyFailed(a.Result)
	if why == "" {
		return ""
	}
	return s.env.paint(cli.Red, "FAIL") + " " + cli.Printable(a.Frame.GetFrameId()) + "  " + why
}

// print writes the report.
func (s *streamRun) print() error {
	e, r := s.env, s.report
	if s.cmd.JSON {
		if r.Rejected == nil {
			r.Rejected = []rejectReport{}
		}
		return writeJSON(e.stdout, r)
	}
	v := r.Verdicts
	parts := []string{}
	for _, k := range []struct {
		n     int
		text  string
		style cli.Style
	}{{v.Pass, "PASS", cli.Green}, {v.Fail, "FAIL", cli.Red}, {v.None, "no limits", cli.Plain},
		{v.Refused, "refused", cli.Red}} {
		if k.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", k.n, e.paint(k.style, k.text)))
		}
	}
	ms := func(v float64) string { return pretty(time.Duration(v * float64(time.Millisecond))) }
	if len(s.compute) == 0 {
		_, err := fmt.Fprintf(e.stdout, "%s: %s\n", plural(r.Frames, "frame", "frames"), strings.Join(parts, ", "))
		return err
	}
	_, err := fmt.Fprintf(e.stdout,
		"%s in %s by %s: %s\n%s frames/s, %s MB/s, %s Mpixel/s\nlatency p50 %s, p90 %s, p99 %s, max %s; compute p50 %s\n",
		plural(r.Frames, "frame", "frames"), pretty(time.Duration(r.Seconds*float64(time.Second))), r.Backend,
		strings.Join(parts, ", "),
		shortly(r.Rate), shortly(r.MBRate), shortly(float64(r.Pixels)/1e6/r.Seconds),
		ms(r.Latency.P50), ms(r.Latency.P90), ms(r.Latency.P99), ms(r.Latency.Max), ms(r.Compute.P50))
	return err
}

// quantiles of durations by nearest rank, in milliseconds.
func quantiles(d []time.Duration) latencyReport {
	if len(d) == 0 {
		return latencyReport{}
	}
	d = slices.Clone(d)
	slices.Sort(d)
	at := func(p float64) float64 {
		i := max(int(math.Ceil(p/100*float64(len(d)))), 1) - 1
		return float64(d[i].Nanoseconds()) / 1e6
	}
	return latencyReport{Min: at(0), P50: at(50), P90: at(90), P99: at(99), Max: at(100)}
}

// csvHeader names the columns of --csv: a row for each frame, region and channel, and one for a frame that was refused,
// whose frame_verdict is REFUSED. Unset values are empty.
var csvHeader = []string{"sequence", "frame", "frame_verdict", "region", "verdict", "channel", "count", "sum", "mean",
	"stddev", "min", "p50", "max", "reason", "latency_ms", "error",
	"coverage"}

// writeCSV writes a row to the file at once.
func (s *streamRun) writeCSV(row []string) error {
	_ = s.rows.Write(row) // which Error has
	s.rows.Flush()
	if err := s.rows.Error(); err != nil {
		return bad(s.cmd.CSV, "%v", reason(err))
	}
	return nil
}

func (s *streamRun) writeRows(a *clients.Answer) error {
	if s.opened != nil {
		if err := s.opened(); err != nil {
			return err
		}
	}
	if s.rows == nil {
		return nil
	}
	sequence := strconv.FormatUint(a.Sequence, 10)
	latency := strconv.FormatFloat(float64(a.Latency.Microseconds())/1e3, 'f', 3, 64)
	if a.Err != nil {
		return s.writeCSV([]string{sequence, a.Frame.GetFrameId(), "REFUSED", "", "", "", "", "", "", "", "", "", "", "",
			latency, s.refusal(a), ""})
	}
	name := func(v polyscanv1.Verdict) string {
		if n := verdictName(v); n != nil {
			return *n
		}
		return ""
	}
	float := func(v *float64) string {
		if v == nil {
			return ""
		}
		return number(*v)
	}
	for _, g := range a.Result.GetRegions() {
		var reasons []string
		for _, l := range g.GetLimits() {
			if l.GetReason() != "" {
				reasons = append(reasons, l.GetReason())
			}
		}
		if lost := cli.NotFound(a.Result.GetLocation()); lost != "" && len(reasons) == 0 {
			reasons = []string{lost}
		}
		for _, ch := range g.GetChannels() {
			p50 := ""
			for _, p := range ch.GetPercentiles() {
				if p.GetPercentile() == 50 {
					p50 = number(p.GetValue())
				}
			}
			row := []string{sequence, a.Frame.GetFrameId(), name(a.Result.GetVerdict()), g.GetName(),
				name(g.GetVerdict()), channelName(ch.GetChannel()), strconv.FormatUint(g.GetCount(), 10),
				integer(ch.Sum), float(ch.Mean), float(ch.Stddev), float(sample(ch, ch.Min)), p50, float(sample(ch, ch.Max)),
				strings.Join(reasons, "; "), latency, "", float(g.Coverage)}
			if err := s.writeCSV(row); err != nil {
				return err
			}
		}
	}
	return nil
}
