package main

// polyscan watch: what a server does, live.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rivo/uniseg"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/internal/cli"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// nameFlags say who asks.
type nameFlags struct {
	// Name of the camera or station that asks, such as camera-3: watchers, logs and metrics of the server show it.
	Name string `placeholder:"NAME" group:"server"`
}

type watchCmd struct {
	// Show only what carries one of these names. One that ends in * stands for all that begin so.
	Name []string `placeholder:"NAME" group:"watch"`
	// Show only what one of these recipes judges, and changes of them.
	Recipe []string `placeholder:"NAME" group:"watch"`
	// Show only these kinds: stream, verdict, scan (gaps and the like), recipe, device, call, history.
	Kind []string `enum:"stream,verdict,scan,recipe,device,call,history" group:"watch"`
	// Whose numbers come with a verdict, in the JSON: none, failed or all. The table has the names of those that failed.
	Numbers string `enum:"none,failed,all" default:"failed" group:"watch" needs:"json"`
	// Verdicts a second at most; those that are FAIL, late, incomplete or an error always come. 0 means all.
	Rate float64 `placeholder:"N" group:"watch" zero:""`
	// After this long without an event the server says that it is there; three times that without a word and it counts as
	// lost.
	Heartbeat time.Duration `default:"1s" group:"watch"`
	// Write small pictures into this folder, as NAME-NUMBER.jpg.
	Previews string `placeholder:"DIR" predictor:"dir" group:"output"`
	// Pictures a second at most, with --previews.
	PreviewRate float64 `default:"1" placeholder:"N" group:"output" needs:"previews"`
	// Print each message of the server as a JSON object on a line, as the schemas have it, heartbeats included.
	JSON bool `group:"output" name:"json"`
	// End after so many verdicts.
	Count int `placeholder:"N" group:"output"`

	serverFlags
}

func (c *watchCmd) Help() string {
	return `
Prints what a server does as it happens: streams that open and close, each verdict, gaps and late parts, changes of
recipes, the device. It delays nothing that it shows: where it can't keep up it loses events, and says how many.

When the server is lost it says so and tries for 30 s to come back, and goes on behind what it has seen.

Examples:

    polyscan watch --addr inspector:7465
    polyscan watch --addr inspector:7465 --name 'camera-*' --kind verdict --rate 2
    polyscan watch --addr inspector:7465 --json | jq 'select(.verdict.verdict == "VERDICT_FAIL") | .verdict.part_id'
    polyscan watch --addr inspector:7465 --previews pictures

Exit codes: 0 after --count verdicts, or without it after --timeout; 1 fewer than --count came within --timeout; 2 wrong
arguments or bad input; 3 the server, or the way to it, failed; 130 interrupted.
`
}

// watchKinds are the values of --kind.
var watchKinds = map[string]polyscanv1.WatchKind{
	"stream": polyscanv1.WatchKind_WATCH_KIND_STREAM, "verdict": polyscanv1.WatchKind_WATCH_KIND_VERDICT,
	"scan": polyscanv1.WatchKind_WATCH_KIND_SCAN, "recipe": polyscanv1.WatchKind_WATCH_KIND_RECIPE,
	"device": polyscanv1.WatchKind_WATCH_KIND_DEVICE, "call": polyscanv1.WatchKind_WATCH_KIND_CALL,
	"history": polyscanv1.WatchKind_WATCH_KIND_HISTORY,
}

func (c *watchCmd) request() *polyscanv1.WatchRequest {
	req := &polyscanv1.WatchRequest{
		Names: c.Name, Recipes: c.Recipe, VerdictRate: c.Rate, Heartbeat: durationpb.New(c.Heartbeat),
		Numbers: polyscanv1.RegionNumbers(polyscanv1.RegionNumbers_value["REGION_NUMBERS_"+strings.ToUpper(c.Numbers)]),
	}
	for _, k := range c.Kind {
		req.Kinds = append(req.Kinds, watchKinds[k])
	}
	if c.Previews != "" {
		req.Preview = &polyscanv1.PreviewOptions{Rate: c.PreviewRate}
	}
	return req
}

func (c *watchCmd) Run(e *env) (err error) {
	switch {
	case c.Addr == "":
		return usage("--addr: say which server to watch")
	case c.Count < 0:
		return usage("--count %d: must not be negative", c.Count)
	case !(c.Rate >= 0):
		return usage("--rate %v: must not be negative", c.Rate)
	case c.Heartbeat <= 0:
		return usage("--heartbeat %v: must be more than 0", c.Heartbeat)
	case c.Previews != "" && !(c.PreviewRate > 0 && c.PreviewRate <= 60):
		return usage("--preview-rate %v: must be above 0, and 60 at most", c.PreviewRate)
	case c.Count > 0 && len(c.Kind) > 0 && !slices.Contains(c.Kind, "verdict"):
		return usage("--count counts verdicts, and --kind leaves them out")
	}
	if c.Previews != "" {
		if err := os.MkdirAll(c.Previews, 0o777); err != nil {
			return bad(c.Previews, "%v", reason(err))
		}
	}
	conn, err := connect(e, &c.serverFlags, &deviceFlags{Device: "auto"}, "")
	if err != nil {
		return err
	}
	defer conn.end(&err)
	w := &watchPrinter{env: e}
	verdicts, heard, lost := 0, false, false
	for u, err := range conn.Watch(conn.ctx, c.request(), clients.WatchOptions{}) {
		if errors.Is(err, clients.ErrSilent) {
			return fmt.Errorf("%s: nothing came for %v", c.Addr, 3*c.Heartbeat)
		} else if heard && !lost && c.Timeout > 0 && errors.Is(err, context.DeadlineExceeded) {
			if c.Count > 0 {
				return &fewVerdicts{verdicts, c.Count, c.Timeout}
			}
			return nil
		} else if err != nil {
			return conn.fail(err, "", nil)
		}
		if u.Lost != nil {
			lost = true
			e.warn("%s: %v; trying again", c.Addr, u.Lost)
			continue
		}
		if lost {
			lost = false
			e.warn("%s: is back", c.Addr)
		}
		m := u.Message
		if !heard {
			c.checkKnown(e, conn, m.GetStarted())
		}
		heard = true
		if p := m.GetPreview(); p != nil && c.Previews != "" {
			if err := c.save(p); err != nil {
				return err
			}
		}
		if c.JSON {
			err = writeProto(e, m)
		} else {
			err = w.print(m)
		}
		if err != nil {
			return err
		}
		if m.GetVerdict() != nil {
			if verdicts++; verdicts == c.Count {
				return nil
			}
		}
	}
	return nil
}

// checkKnown warns of recipes that the server doesn't have, and of names under which nothing is open: either may come
// yet, and be misspelt.
func (c *watchCmd) checkKnown(e *env, conn *connection, started *polyscanv1.WatchStarted) {
	if names, err := conn.recipeNames(); err == nil { // who may watch may not be allowed to list them
		for _, r := range c.Recipe {
			if !slices.Contains(names, r) {
				e.warn("--recipe %s: the server has no recipe of this name%s", cli.Printable(r), meantOf(r, names))
			}
		}
	}
	for _, name := range c.Name {
		start, open := strings.CutSuffix(name, "*")
		if !slices.ContainsFunc(started.GetStreams(), func(s *polyscanv1.StreamState) bool {
			return s.GetName() == name || open && strings.HasPrefix(s.GetName(), start)
		}) {
			e.warn("--name %s: no stream of this name is open now; what comes is shown", cli.Printable(name))
		}
	}
}

// fewVerdicts ends a watch whose time was over before --count verdicts had come.
type fewVerdicts struct {
	come, count int
	timeout     time.Duration
}

func (e *fewVerdicts) Error() string {
	return fmt.Sprintf("%d of %s within %v (--timeout)", e.come, plural(e.count, "verdict", "verdicts"), e.timeout)
}

// save writes a preview to a file of its own.
func (c *watchCmd) save(p *polyscanv1.Preview) error {
	name := p.GetName()
	if name == "" {
		name = fmt.Sprintf("stream-%d", p.GetStreamId())
	}
	ext := ".jpg"
	if p.GetEncoding() == polyscanv1.Encoding_ENCODING_PNG {
		ext = ".png"
	}
	file := filepath.Join(c.Previews, fmt.Sprintf("%s-%d%s", strings.ReplaceAll(name, "/", "_"), p.GetResultNumber(), ext))
	if err := os.WriteFile(file, p.GetData(), 0o666); err != nil {
		return bad(file, "%v", reason(err))
	}
	return nil
}

// The columns of the table: 80 in all.
var watchColumns = []struct {
	title string
	width int
	right bool
}{{"TIME", 8, false}, {"NAME", 12, false}, {"PART", 14, false}, {"VERDICT", 7, false}, {"LATENCY", 8, true},
	{"WHAT", 21, false}}

// watchPrinter prints messages as lines of a table.
type watchPrinter struct {
	*env
	headed bool
}

// line prints one line; style is that of its fourth column.
func (w *watchPrinter) line(style cli.Style, cells ...string) error {
	var b strings.Builder
	for i, c := range watchColumns {
		text := w.fit(cli.Printable(cells[i]), c.width)
		if i == len(watchColumns)-1 {
			text = w.rest(cli.Printable(cells[i]), c.width)
		}
		pad := strings.Repeat(" ", max(c.width-uniseg.StringWidth(text), 0))
		if i == 3 || !w.headed {
			s := style
			if !w.headed {
				s = cli.Bold
			}
			text = w.paint(s, text)
		}
		switch {
		case c.right:
			text = pad + text
		case i < len(watchColumns)-1:
			text += pad
		}
		if i > 0 {
			b.WriteString("  ")
		}
		b.WriteString(text)
	}
	_, err := fmt.Fprintln(w.stdout, strings.TrimRight(b.String(), " "))
	return err
}

// print prints a message, and nothing for a heartbeat.
func (w *watchPrinter) print(m *polyscanv1.WatchResponse) error {
	if !w.headed {
		var titles []string
		for _, c := range watchColumns {
			titles = append(titles, c.title)
		}
		if err := w.line(cli.Bold, titles...); err != nil {
			return err
		}
		w.headed = true
	}
	at := m.GetAt().AsTime().Local().Format(time.TimeOnly)
	event := func(style cli.Style, name, what, text string) error {
		return w.line(style, at, name, "", what, "", text)
	}
	switch {
	case m.GetStarted() != nil:
		for _, s := range m.GetStarted().GetStreams() {
			if err := event(cli.Plain, streamName(s), "open", streamText(s)); err != nil {
				return err
			}
		}
		if d := m.GetStarted().GetDevice(); !d.GetAvailable() {
			if err := event(cli.Red, d.GetBackend(), "DEVICE", "lost"); err != nil {
				return err
			}
		}
		if h := m.GetStarted().GetHistory(); h.GetFailure() != "" || h.GetLostParts()+h.GetLostPictures() > 0 {
			return w.history(at, h)
		}
	case m.GetLost() != nil:
		var parts []string
		l := m.GetLost()
		for _, k := range slices.Sorted(maps.Keys(l.GetKinds())) {
			parts = append(parts, fmt.Sprintf("%d %s", l.GetKinds()[k], k))
		}
		if l.GetUnknown() > 0 {
			parts = append(parts, fmt.Sprintf("%d unknown", l.GetUnknown()))
		}
		if l.GetOtherServer() {
			parts = append(parts, "server is new")
		}
		return event(cli.Red, "", "LOST", strings.Join(parts, ", "))
	case m.GetOpened() != nil:
		return event(cli.Plain, streamName(m.GetOpened()), "open", streamText(m.GetOpened()))
	case m.GetClosed() != nil:
		s := m.GetClosed()
		return event(cli.Plain, streamName(s), "close", fmt.Sprintf("%d PASS, %d FAIL", s.GetPassed(), s.GetFailed()))
	case m.GetVerdict() != nil:
		return w.verdict(at, m.GetVerdict())
	case m.GetScan() != nil:
		s := m.GetScan()
		if l := s.GetLate(); l != nil {
			return w.line(cli.Red, at, s.GetName(), fmt.Sprintf("#%d", l.GetResultNumber()), "late",
				pretty(l.GetLatency().AsDuration()), "on its way")
		}
		e := s.GetScan()
		kind := strings.ToLower(strings.TrimPrefix(e.GetKind().String(), "SCAN_EVENT_KIND_"))
		return event(cli.Red, s.GetName(), strings.ReplaceAll(kind, "_", " "),
			fmt.Sprintf("lines %d to %d", e.GetFirstLine(), e.GetEndLine()))
	case m.GetRecipe() != nil:
		r, what := m.GetRecipe(), "put"
		if r.GetDeleted() {
			what = "deleted"
		}
		return event(cli.Plain, "", "recipe", fmt.Sprintf("%s@%d %s", r.GetName(), r.GetVersion(), what))
	case m.GetDevice() != nil:
		d := m.GetDevice()
		if d.GetAvailable() {
			return event(cli.Green, d.GetBackend(), "DEVICE", "back")
		}
		return event(cli.Red, d.GetBackend(), "DEVICE", "lost")
	case m.GetCall() != nil:
		call := m.GetCall()
		service, method, _ := strings.Cut(strings.TrimPrefix(call.GetMethod(), "/polyscan.v1."), "/")
		took := pretty(call.GetLatency().AsDuration())
		if err := call.GetError(); err != nil {
			return w.line(cli.Red, at, method, "", "ERROR", took, service+": "+err.GetMessage())
		}
		return w.line(cli.Plain, at, method, "", "call", took, service)
	case m.GetHistory() != nil:
		return w.history(at, m.GetHistory())
	}
	return nil
}

// history says what the history lost, and whether it can be written.
func (w *watchPrinter) history(at string, h *polyscanv1.HistoryState) error {
	text, style := "is written again", cli.Green
	if h.GetFailure() != "" {
		text, style = "can't be written: "+h.GetFailure(), cli.Red
	} else if h.GetLostParts()+h.GetLostPictures() > 0 {
		text, style = "is written", cli.Red
	}
	return w.line(style, at, "", "", "HISTORY", "", fmt.Sprintf("%s; lost %s and %s", text,
		plural(int(h.GetLostParts()), "part", "parts"), plural(int(h.GetLostPictures()), "picture", "pictures")))
}

func streamName(s *polyscanv1.StreamState) string {
	if s.GetName() != "" {
		return s.GetName()
	}
	return fmt.Sprintf("stream %d", s.GetStreamId())
}

func streamText(s *polyscanv1.StreamState) string {
	if s.GetRecipe() != "" {
		return fmt.Sprintf("%s@%d", s.GetRecipe(), s.GetRecipeVersion())
	}
	return plural(int(s.GetRegions()), "region", "regions")
}

func (w *watchPrinter) verdict(at string, v *polyscanv1.WatchVerdict) error {
	part := v.GetPartId()
	if part == "" && v.GetStreamId() != 0 {
		part = fmt.Sprintf("#%d", v.GetResultNumber())
	} else if part == "" {
		part = v.GetFrameId()
	}
	name := v.GetName()
	if name == "" && v.GetStreamId() != 0 {
		name = fmt.Sprintf("stream %d", v.GetStreamId())
	}
	verdict, style := "none", cli.Plain
	var what []string
	switch {
	case v.GetError() != nil:
		verdict, style = "ERROR", cli.Red
		what = append(what, v.GetError().GetMessage())
	case v.GetVerdict() == polyscanv1.Verdict_VERDICT_FAIL:
		verdict, style = "FAIL", cli.Red
	case v.GetVerdict() == polyscanv1.Verdict_VERDICT_PASS:
		verdict, style = "PASS", cli.Green
	}
	if v.GetLate() {
		what = append(what, "late")
	}
	if v.GetIncomplete() {
		what = append(what, fmt.Sprintf("%d lines lost", v.GetMissingLines()))
	}
	if lost := cli.NotFound(v.GetLocation()); lost != "" {
		what = append(what, lost)
	}
	named := 0
	for _, r := range v.GetResults() {
		if r.GetVerdict() == polyscanv1.Verdict_VERDICT_FAIL {
			named++
			what = append(what, r.GetName())
		}
	}
	if n := int(v.GetFailedRegions()); n > named {
		what = append(what, plural(n, "region fails", "regions fail"))
	}
	if p := poseOf(v.GetPose()); p != nil {
		what = append(what, poseText(p))
	}
	return w.line(style, at, name, part, verdict, pretty(v.GetLatency().AsDuration()), strings.Join(what, ", "))
}
