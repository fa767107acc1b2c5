package main

// polyscan history: what parts came to, kept by a server.

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/internal/cli"
	"github.com/polyscan/polyscan/internal/spelling"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

type historyCmd struct {
	List    historyListCmd    `cmd:"" help:"List parts, the newest first."`
	Count   historyCountCmd   `cmd:"" help:"Count parts by verdict."`
	Pareto  historyParetoCmd  `cmd:"" help:"Count how often each region failed."`
	Series  historySeriesCmd  `cmd:"" help:"Show a number of a region over time, with control limits."`
	Export  historyExportCmd  `cmd:"" help:"Write a file of parts, as CSV or Parquet."`
	Picture historyPictureCmd `cmd:"" help:"Write the picture of a part that failed."`
	Audit   historyAuditCmd   `cmd:"" help:"Show who changed which recipe."`
	Status  historyStatusCmd  `cmd:"" help:"Show what is kept, and what could not be."`
}

func (c *historyCmd) Help() string {
	return `
A server that was started with --history keeps what parts came to, and pictures of those that failed. These commands
ask it.

Examples:

    polyscan history list --addr inspector:7465 --verdict fail --from 8h
    polyscan history pareto --addr inspector:7465 --name camera-3
    polyscan history series pad3 mean --addr inspector:7465 --upper 140
    polyscan history export parts.parquet --addr inspector:7465 --from 2026-03-01
`
}

// filterFlags choose parts.
type filterFlags struct {
	// From this time on: 2026-03-01, 2026-03-01T14:30, or how long ago, such as 8h.
	From string `placeholder:"TIME" group:"parts"`
	// Before this time.
	To string `placeholder:"TIME" group:"parts"`
	// Only parts of these cameras or stations. One that ends in * stands for all that begin so.
	Name []string `placeholder:"NAME" group:"parts"`
	// Only parts that these recipes judged; NAME@VERSION for one version.
	Recipe []string `placeholder:"NAME" group:"parts"`
	// Only these verdicts: pass, fail, none.
	Verdict []string `enum:"pass,fail,none" group:"parts"`
	// Only parts in which this region failed.
	Region string `name:"failed-region" placeholder:"REGION" group:"parts"`
	// Only the part of this id.
	Part string `placeholder:"ID" group:"parts"`
	// Only parts with all of these marks: late, incomplete, error, evidence.
	Mark []string `enum:"late,incomplete,error,evidence" group:"parts"`
}

// timeForms are how times are given, in the local zone where they say none.
var timeForms = []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05",
	"2006-01-02 15:04", time.DateOnly}

// timeFlag reads a time, or how long ago it was.
func timeFlag(flag, text string, now time.Time) (*timestamppb.Timestamp, error) {
	if text == "" {
		return nil, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return timestamppb.New(now.Add(-d)), nil
	}
	for _, form := range timeForms {
		if at, err := time.ParseInLocation(form, text, time.Local); err == nil {
			return timestamppb.New(at), nil
		}
	}
	return nil, usage("%s %s: want a time such as 2026-03-01 or 2026-03-01T14:30, or how long ago, such as 8h", flag,
		strconv.Quote(text))
}

func (f *filterFlags) filter() (m *polyscanv1.PartFilter, err error) {
	now := time.Now()
	m = &polyscanv1.PartFilter{Names: f.Name, Region: f.Region, PartId: f.Part}
	if m.From, err = timeFlag("--from", f.From, now); err != nil {
		return nil, err
	}
	if m.To, err = timeFlag("--to", f.To, now); err != nil {
		return nil, err
	}
	if m.From != nil && m.To != nil && m.To.AsTime().Before(m.From.AsTime()) {
		return nil, usage("--to %s: must not be before --from %s", f.To, f.From)
	}
	for _, r := range f.Recipe {
		ref, err := clients.ParseRecipeRef(r)
		if err != nil {
			return nil, usage("--recipe: %v", err)
		}
		if ref.GetVersion() != 0 && len(f.Recipe) > 1 {
			return nil, usage("--recipe %s: a version can be asked for of one recipe only", r)
		}
		m.Recipes, m.RecipeVersion = append(m.Recipes, ref.GetName()), ref.GetVersion()
	}
	for _, v := range f.Verdict {
		m.Verdicts = append(m.Verdicts, map[string]polyscanv1.Verdict{"pass": polyscanv1.Verdict_VERDICT_PASS,
			"fail": polyscanv1.Verdict_VERDICT_FAIL, "none": polyscanv1.Verdict_VERDICT_UNSPECIFIED}[v])
	}
	for _, k := range f.Mark {
		m.Marks = append(m.Marks, polyscanv1.PartMark(polyscanv1.PartMark_value["PART_MARK_"+strings.ToUpper(k)]))
	}
	return m, nil
}

// checkKnown refuses names and recipes that no part of the history has, and a region that the newest of their parts
// don't have: where nothing is found, whoever asked has misspelt them. An id that no part has is a warning alone, since
// programs ask until a part has come.
func (f *filterFlags) checkKnown(e *env, conn *connection, flag, region string) error {
	if f.Part != "" {
		only := &polyscanv1.PartFilter{PartId: f.Part}
		res, err := conn.CountParts(conn.ctx, &polyscanv1.CountPartsRequest{Filter: only})
		if err != nil {
			return err
		}
		if res.GetTotal().GetParts() == 0 {
			e.warn("--part %s: no part in the history has this id", f.Part)
		}
	}
	known := func(group polyscanv1.CountGroup) (all []string, err error) {
		res, err := conn.CountParts(conn.ctx, &polyscanv1.CountPartsRequest{Group: group})
		for _, g := range res.GetGroups() {
			if all = append(all, g.GetName()); g.GetRecipeVersion() != 0 {
				all = append(all, fmt.Sprintf("%s@%d", g.GetName(), g.GetRecipeVersion()))
			}
		}
		return all, err
	}
	for _, ask := range []struct {
		flag  string
		words []string
		group polyscanv1.CountGroup
	}{{"--name", f.Name, polyscanv1.CountGroup_COUNT_GROUP_NAME},
		{"--recipe", f.Recipe, polyscanv1.CountGroup_COUNT_GROUP_RECIPE}} {
		if len(ask.words) == 0 {
			continue
		}
		all, err := known(ask.group)
		if err != nil {
			return err
		}
		for _, word := range ask.words {
			start, open := strings.CutSuffix(word, "*")
			is := func(k string) bool { return k == word || open && strings.HasPrefix(k, start) }
			if !slices.ContainsFunc(all, is) {
				return usage("%s %s: no part in the history has it%s (a part comes into it within a second of its verdict)",
					ask.flag, cli.Printable(word), meantOf(word, all))
			}
		}
	}
	if region == "" {
		return nil
	}
	filter, err := (&filterFlags{Name: f.Name, Recipe: f.Recipe}).filter()
	if err != nil {
		return err
	}
	var regions []string
	parts, last := 0, 100
	for p, err := range conn.Parts(conn.ctx, &polyscanv1.ListPartsRequest{Filter: filter, PageSize: uint32(last),
		Numbers: polyscanv1.RegionNumbers_REGION_NUMBERS_ALL}) {
		if err != nil {
			return err
		}
		for _, r := range p.GetResults() {
			if r.GetName() == region || fmt.Sprintf("#%d", r.GetIndex()) == region {
				return nil
			}
			regions = append(regions, r.GetName())
		}
		if p.GetResultsOmitted() {
			return nil // and nobody knows
		}
		if parts++; parts == last {
			break
		}
	}
	if parts == 0 {
		return nil
	}
	return usage("%s %s: no region of the newest %s is called so%s", flag, cli.Printable(region),
		plural(parts, "part", "parts"), meantOf(region, regions))
}

// meantOf asks whether somebody who wrote a word meant a known one, or says which there are.
func meantOf(word string, known []string) string {
	low := map[string]string{}
	for _, k := range known {
		if k != "" {
			low[strings.ToLower(k)] = k
		}
	}
	words := slices.Sorted(maps.Keys(low))
	if near := spelling.Nearest(word, words); near != "" {
		return fmt.Sprintf(": did you mean %q?", cli.Printable(low[near]))
	}
	for i, w := range words {
		words[i] = cli.Printable(low[w])
	}
	if more := len(words) - 5; more > 0 {
		words = append(words[:5], fmt.Sprintf("%d more", more))
	}
	if len(words) == 0 {
		return ""
	}
	return ": there is " + strings.Join(words, ", ")
}

// askHistory runs a command over a connection to the server at --addr.
func askHistory(e *env, s *serverFlags, f func(conn *connection) error) (err error) {
	if s.Addr == "" {
		return usage("--addr: say which server keeps the history")
	}
	conn, err := connect(e, s, &deviceFlags{Device: "auto"}, "")
	if err != nil {
		return err
	}
	defer conn.end(&err)
	return conn.fail(f(conn), "", nil)
}

// ask is askHistory, once names and recipes are checked where there are several of a kind: those that are known would
// hide that another is not.
func (f *filterFlags) ask(e *env, s *serverFlags, do func(conn *connection) error) error {
	return askHistory(e, s, func(conn *connection) error {
		if len(f.Name) > 1 || len(f.Recipe) > 1 {
			if err := f.checkKnown(e, conn, "", ""); err != nil {
				return err
			}
		}
		return do(conn)
	})
}

type historyListCmd struct {
	filterFlags
	// Parts at most. 0 means all.
	Limit int `default:"20" placeholder:"N" group:"output"`
	// The oldest part first.
	OldestFirst bool `group:"output"`
	// Print each part as a JSON object on a line, as the schemas have it, with the numbers of its regions.
	JSON bool `name:"json" group:"output"`
	serverFlags
}

func (c *historyListCmd) Run(e *env) error {
	filter, err := c.filter()
	if err != nil {
		return err
	}
	if c.Limit < 0 {
		return usage("--limit %d: must not be negative", c.Limit)
	}
	return c.ask(e, &c.serverFlags, func(conn *connection) error {
		req := &polyscanv1.ListPartsRequest{Filter: filter, OldestFirst: c.OldestFirst}
		if c.Limit > 0 {
			req.PageSize = uint32(min(c.Limit, 1000))
		}
		if c.JSON {
			req.Numbers = polyscanv1.RegionNumbers_REGION_NUMBERS_ALL
		}
		t := &table{columns: []column{{title: "ID", right: true}, {title: "TIME"}, {title: "NAME"}, {title: "PART"},
			{title: "VERDICT"}, {title: "LATENCY", right: true}, {title: "WHY"}}}
		n := 0
		for p, err := range conn.Parts(conn.ctx, req) {
			if err != nil {
				return err
			}
			if c.JSON {
				err = writeProto(e, p)
			} else {
				t.add(partCells(e, p)...)
			}
			if err != nil {
				return err
			}
			if n++; n == c.Limit {
				break
			}
		}
		if n == 0 {
			if err := c.checkKnown(e, conn, "--failed-region", c.Region); err != nil {
				return err
			}
		}
		if c.JSON {
			return nil
		}
		if n == 0 {
			_, err := fmt.Fprintln(e.stdout, "no parts")
			return err
		}
		return t.write(e, e.stdout)
	})
}

// partCells is a part as a row of a table that fits a terminal.
func partCells(e *env, p *polyscanv1.HistoryPart) []cell {
	part := p.GetPartId()
	if part == "" && p.GetStreamId() != 0 {
		part = fmt.Sprintf("#%d", p.GetResultNumber())
	} else if part == "" {
		part = p.GetFrameId()
	}
	verdict, style := "none", cli.Plain
	switch {
	case p.GetError():
		verdict, style = "ERROR", cli.Red
	case p.GetVerdict() == polyscanv1.Verdict_VERDICT_FAIL:
		verdict, style = "FAIL", cli.Red
	case p.GetVerdict() == polyscanv1.Verdict_VERDICT_PASS:
		verdict, style = "PASS", cli.Green
	}
	var why []string
	if p.GetLate() {
		why = append(why, "late")
	}
	if p.GetIncomplete() {
		why = append(why, fmt.Sprintf("%d lines lost", p.GetMissingLines()))
	}
	if p.GetReason() != "" {
		why = append(why, p.GetReason())
	}
	if at := poseOf(p.GetPose()); at != nil {
		why = append(why, poseText(at))
	}
	at := p.GetAt().AsTime().Local()
	form := "01-02 15:04:05"
	if time.Since(at) > 300*24*time.Hour {
		form = time.DateOnly
	}
	text := func(s string, columns int) cell { return cell{text: e.fit(cli.Printable(s), columns)} }
	return []cell{{text: strconv.FormatUint(p.GetId(), 10)}, {text: at.Format(form)}, text(p.GetName(), 10),
		text(part, 12), {text: verdict, style: style}, {text: pretty(p.GetLatency().AsDuration())},
		{text: e.rest(cli.Printable(strings.Join(why, ", ")), 17)}}
}

type historyCountCmd struct {
	filterFlags
	// Count by name, or by recipe and version.
	By string `enum:",name,recipe" default:"" placeholder:"name|recipe" group:"output"`
	// Count by time as well, in steps of so many minutes or more, such as 1h.
	Step time.Duration `placeholder:"TIME" group:"output"`
	// Print a JSON object, as the schemas have it.
	JSON bool `name:"json" group:"output"`
	serverFlags
}

func (c *historyCountCmd) Run(e *env) error {
	filter, err := c.filter()
	if err != nil {
		return err
	}
	return c.ask(e, &c.serverFlags, func(conn *connection) error {
		req := &polyscanv1.CountPartsRequest{Filter: filter}
		if c.By != "" {
			req.Group = polyscanv1.CountGroup(polyscanv1.CountGroup_value["COUNT_GROUP_"+strings.ToUpper(c.By)])
		}
		if c.Step != 0 {
			req.Step = durationpb.New(c.Step)
		}
		res, err := conn.CountParts(conn.ctx, req)
		if err != nil {
			return err
		}
		if res.GetTotal().GetParts() == 0 {
			if err := c.checkKnown(e, conn, "--failed-region", c.Region); err != nil {
				return err
			}
		}
		if c.JSON {
			return writeProto(e, res)
		}
		if n := res.GetLostParts(); n > 0 {
			e.warn("%d parts of that time could not be kept", n)
		}
		t := &table{columns: []column{{title: "FROM"}, {title: "NAME"}}}
		for _, title := range []string{"PARTS", "PASS", "FAIL", "NONE", "ERROR", "LATE", "LOST LINES"} {
			t.columns = append(t.columns, column{title, true})
		}
		row := func(name string, n *polyscanv1.PartCounts) {
			cells := []cell{{}, {text: e.fit(cli.Printable(name), 20)}}
			if n.GetFrom() != nil {
				cells[0].text = n.GetFrom().AsTime().Local().Format("01-02 15:04")
			}
			for _, v := range []uint64{n.GetParts(), n.GetPassed(), n.GetFailed(), n.GetUnjudged(), n.GetErrors(), n.GetLate(),
				n.GetIncomplete()} {
				cells = append(cells, cell{text: strconv.FormatUint(v, 10)})
			}
			t.add(cells...)
		}
		for _, g := range res.GetGroups() {
			name := g.GetName()
			if c.By == "recipe" && name != "" {
				name = fmt.Sprintf("%s@%d", name, g.GetRecipeVersion())
			} else if c.By != "" && name == "" {
				name = "(none)"
			}
			row(name, g)
		}
		row("all", res.GetTotal())
		t.dropEmpty("FROM")
		return t.write(e, e.stdout)
	})
}

type historyParetoCmd struct {
	filterFlags
	// Regions at most.
	Limit uint32 `default:"20" placeholder:"N" group:"output"`
	// Print a JSON object, as the schemas have it.
	JSON bool `name:"json" group:"output"`
	serverFlags
}

// barColumns is how long the bar of the most frequent region is.
const barColumns = 24

func (c *historyParetoCmd) Run(e *env) error {
	filter, err := c.filter()
	if err != nil {
		return err
	}
	return c.ask(e, &c.serverFlags, func(conn *connection) error {
		res, err := conn.Pareto(conn.ctx, &polyscanv1.GetParetoRequest{Filter: filter, Limit: c.Limit})
		if err != nil {
			return err
		}
		if res.GetFailures() == 0 {
			if err := c.checkKnown(e, conn, "--failed-region", c.Region); err != nil {
				return err
			}
		}
		if c.JSON {
			return writeProto(e, res)
		}
		if res.GetFailures() == 0 {
			all, err := conn.CountParts(conn.ctx, &polyscanv1.CountPartsRequest{Filter: filter})
			if err != nil {
				return err
			}
			none := "no region failed"
			switch n := all.GetTotal(); {
			case n.GetParts() == 0: // such as of a camera whose name is misspelt
				none = "no parts"
			case n.GetFailed() > 0: // their regions have no limits, or the time of the failures is over
				none = fmt.Sprintf("no region failed, and %d of %d parts have the verdict FAIL, as one has that was not found",
					n.GetFailed(), n.GetParts())
			}
			_, err = fmt.Fprintln(e.stdout, none)
			return err
		}
		t := &table{columns: []column{{title: "REGION"}, {title: "FAILED", right: true}, {title: "SHARE", right: true},
			{title: "SUM", right: true}, {title: ""}}}
		percent := func(v float64) cell { return cell{text: fmt.Sprintf("%.1f %%", 100*v)} }
		for _, b := range res.GetBars() {
			bar := strings.Repeat("#",
				int(math.Ceil(barColumns*float64(b.GetFailures())/float64(res.GetBars()[0].GetFailures()))))
			t.add(cell{text: e.fit(cli.Printable(b.GetRegion()), 24)},
				cell{text: strconv.FormatUint(b.GetFailures(), 10)}, percent(b.GetShare()), percent(b.GetCumulative()), cell{text: bar})
		}
		if n := res.GetOtherFailures(); n > 0 {
			t.add(cell{text: fmt.Sprintf("(%d others)", res.GetOtherRegions())}, cell{text: strconv.FormatUint(n, 10)},
				percent(float64(n)/float64(res.GetFailures())), percent(1), cell{})
		}
		return t.write(e, e.stdout)
	})
}

type historySeriesCmd struct {
	// Name of the region, or # and its index.
	Of string `arg:"" name:"region"`
	// What of it: mean, p99, max, count and so on; r.mean for a channel of colours.
	Quantity string `arg:""`
	filterFlags
	// Values at most, the newest.
	Limit uint32 `default:"500" placeholder:"N" group:"output"`
	// Chart means and ranges of subgroups of so many values (X-bar and R) in place of each value (I-MR).
	Subgroup uint32 `placeholder:"N" group:"output"`
	// Lower specification limit, for Cp and Cpk.
	Lower *float64 `placeholder:"V" group:"output"`
	// Upper specification limit.
	Upper *float64 `placeholder:"V" group:"output"`
	// Print a JSON object, as the schemas have it.
	JSON bool `name:"json" group:"output"`
	serverFlags
}

func (c *historySeriesCmd) Help() string {
	return `
Examples:

    polyscan history series pad3 mean --addr inspector:7465 --from 8h --lower 90 --upper 140
    polyscan history series pad3 p99 --addr inspector:7465 --subgroup 5
`
}

func (c *historySeriesCmd) Run(e *env) error {
	switch {
	case c.Subgroup == 1 || c.Subgroup > 25:
		return usage("--subgroup %d: must be 2 to 25", c.Subgroup)
	case c.Lower != nil && c.Upper != nil && *c.Lower >= *c.Upper:
		return usage("--upper %v: must be above --lower, which is %v", *c.Upper, *c.Lower)
	}
	filter, err := c.filter()
	if err != nil {
		return err
	}
	return c.ask(e, &c.serverFlags, func(conn *connection) error {
		req := &polyscanv1.GetSeriesRequest{Filter: filter, Region: c.Of, Quantity: c.Quantity, Limit: c.Limit,
			LowerSpec: c.Lower, UpperSpec: c.Upper}
		if c.Subgroup > 0 {
			req.Chart, req.Subgroup = polyscanv1.ChartKind_CHART_KIND_XBAR_R, c.Subgroup
		}
		res, err := conn.Series(conn.ctx, req)
		if err != nil {
			return err
		}
		if len(res.GetPoints()) == 0 {
			if err := c.checkKnown(e, conn, "REGION", c.Of); err != nil {
				return err
			}
		}
		if c.JSON {
			return writeProto(e, res)
		}
		if res.GetTruncated() {
			e.warn("only the newest parts were looked at: say --name, --recipe or --from")
		}
		if len(res.GetPoints()) == 0 {
			all, err := conn.CountParts(conn.ctx, &polyscanv1.CountPartsRequest{Filter: filter})
			if err != nil {
				return err
			}
			none := "no values: no parts"
			if n := all.GetTotal().GetParts(); n > 0 {
				none = fmt.Sprintf("no values: none of %s has this number of the region, such as one that was not found (history "+
					"list says why)", plural(int(n), "part", "parts"))
			}
			_, err = fmt.Fprintln(e.stdout, none)
			return err
		}
		return writeSeries(e.stdout, res)
	})
}

// The text chart of a series.
const (
	chartRows    = 11
	chartColumns = 66
)

// writeSeries draws the points of a chart between its limits, and prints its numbers.
func writeSeries(w io.Writer, res *polyscanv1.GetSeriesResponse) error {
	chart := res.GetChart()
	points := chart.GetMeans()
	if chart.GetKind() != polyscanv1.ChartKind_CHART_KIND_XBAR_R {
		points = nil
		for _, p := range res.GetPoints() {
			points = append(points, p.GetValue())
		}
	}
	var b strings.Builder
	drawChart(&b, points, chart)
	value := func(name string, v *float64) {
		if v != nil {
			fmt.Fprintf(&b, "  %s %.6g", name, *v)
		}
	}
	fmt.Fprintf(&b, "%d values  mean %.6g", chart.GetValues(), chart.GetMean())
	value("deviation", chart.Stddev)
	value("range", chart.Range)
	b.WriteByte('\n')
	if chart.Upper != nil {
		fmt.Fprintf(&b, "control limits %.6g to %.6g  outside %d  ranges outside %d\n", chart.GetLower(), chart.GetUpper(),
			len(chart.GetOutside()), len(chart.GetRangesOutside()))
	}
	if chart.Cpk != nil {
		if chart.Cp != nil {
			fmt.Fprintf(&b, "Cp %.3f  ", chart.GetCp())
		}
		fmt.Fprintf(&b, "Cpk %.3f\n", chart.GetCpk())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// drawChart draws points: each column has the lowest and the highest of its values. Those outside the limits are X, and
// lines mark the limits and the mean.
func drawChart(b *strings.Builder, points []float64, chart *polyscanv1.ControlChart) {
	if len(points) < 2 {
		return
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range points {
		low, high = min(low, v), max(high, v)
	}
	if chart.Upper != nil {
		low, high = min(low, chart.GetLower()), max(high, chart.GetUpper())
	}
	if low == high {
		low, high = low-1, high+1
	}
	row := func(v float64) int {
		return chartRows - 1 - int(math.Round((v-low)/(high-low)*(chartRows-1)))
	}
	var grid [chartRows][]byte
	columns := min(len(points), chartColumns)
	for i := range grid {
		grid[i] = []byte(strings.Repeat(" ", columns))
	}
	rule := func(v float64, mark string) { copy(grid[row(v)], strings.Repeat(mark, columns)) }
	rule(chart.GetMean(), "-")
	if chart.Upper != nil {
		rule(chart.GetUpper(), "=")
		rule(chart.GetLower(), "=")
	}
	for i, v := range points {
		c := i * columns / len(points)
		mark := byte('o')
		if chart.Upper != nil && (v > chart.GetUpper() || v < chart.GetLower()) {
			mark = 'X'
		}
		if cell := &grid[row(v)][c]; *cell != 'X' {
			*cell = mark
		}
	}
	for i, line := range grid {
		label := ""
		switch i {
		case row(chart.GetMean()):
			label = fmt.Sprintf("%.5g", chart.GetMean())
		case 0:
			label = fmt.Sprintf("%.5g", high)
		case chartRows - 1:
			label = fmt.Sprintf("%.5g", low)
		}
		fmt.Fprintf(b, "%11s |%s\n", label, strings.TrimRight(string(line), " "))
	}
}

type historyExportCmd struct {
	// File to write: .csv or .parquet, or - for CSV on standard output.
	File string `arg:"" predictor:"file"`
	filterFlags
	// A row for each region and channel of each part, with its numbers, in place of one for each part. A part without
	// numbers has a row without a region, which says why.
	Regions bool `group:"output"`
	serverFlags
}

func (c *historyExportCmd) Run(e *env) error {
	filter, err := c.filter()
	if err != nil {
		return err
	}
	if err := checkOutputs(nil, output{"FILE", c.File, ".csv .parquet"}); err != nil {
		return err
	}
	req := &polyscanv1.ExportPartsRequest{Filter: filter}
	if strings.HasSuffix(strings.ToLower(c.File), ".parquet") {
		req.Format = polyscanv1.ExportFormat_EXPORT_FORMAT_PARQUET
	}
	if c.Regions {
		req.Rows = polyscanv1.ExportRows_EXPORT_ROWS_REGIONS
	}
	return askHistory(e, &c.serverFlags, func(conn *connection) error {
		some, err := conn.CountParts(conn.ctx, &polyscanv1.CountPartsRequest{Filter: filter})
		if err != nil {
			return err
		}
		if region := c.Region; some.GetTotal().GetParts() == 0 || len(c.Name) > 1 || len(c.Recipe) > 1 {
			if some.GetTotal().GetParts() > 0 {
				region = ""
			}
			if err := c.checkKnown(e, conn, "--failed-region", region); err != nil {
				return err
			}
		}
		if some.GetTotal().GetParts() == 0 && c.File != "-" { // which would replace a file of some
			_, err := fmt.Fprintf(e.stdout, "no parts: %s is not written\n", cli.Printable(c.File))
			return err
		}
		write := func(w io.Writer) error {
			_, err := conn.ExportParts(conn.ctx, req, w)
			return err
		}
		if c.File == "-" {
			return write(e.stdout)
		}
		return writeFile(c.File, write)
	})
}

type historyPictureCmd struct {
	// Id of the part, as list has it.
	ID uint64 `arg:""`
	// File to write: .png for the pixels, .svg for the regions by verdict, .jpg for a small picture.
	File string `arg:"" predictor:"file"`
	serverFlags
}

func (c *historyPictureCmd) Run(e *env) error {
	if err := checkOutputs(nil, output{"FILE", c.File, ".png .svg .jpg"}); err != nil {
		return err
	}
	req := &polyscanv1.GetEvidenceRequest{Id: c.ID}
	switch name := strings.ToLower(c.File); {
	case strings.HasSuffix(name, ".svg"):
		req.Kind = polyscanv1.EvidenceKind_EVIDENCE_KIND_OVERLAY
	case strings.HasSuffix(name, ".jpg"):
		req.Kind = polyscanv1.EvidenceKind_EVIDENCE_KIND_PREVIEW
	}
	return askHistory(e, &c.serverFlags, func(conn *connection) error {
		var info *polyscanv1.EvidenceInfo
		write := func(w io.Writer) (err error) {
			info, err = conn.Evidence(conn.ctx, req, w)
			return err
		}
		var err error
		if c.File == "-" {
			err = write(e.stdout)
		} else {
			err = writeFile(c.File, write)
		}
		if n := info.GetMissingLines(); err == nil && n > 0 {
			e.warn("part %d: %d lines are not in the picture", c.ID, n)
		}
		return err
	})
}

type historyAuditCmd struct {
	// Only changes of this recipe.
	Recipe string `arg:"" optional:""`
	// Changes at most. 0 means all.
	Limit int `default:"20" placeholder:"N" group:"output"`
	// Print each change as a JSON object on a line, as the schemas have it.
	JSON bool `name:"json" group:"output"`
	serverFlags
}

func (c *historyAuditCmd) Run(e *env) error {
	if c.Limit < 0 {
		return usage("--limit %d: must not be negative", c.Limit)
	}
	return askHistory(e, &c.serverFlags, func(conn *connection) error {
		n := 0
		for a, err := range conn.Audit(conn.ctx, c.Recipe) {
			if err != nil {
				return err
			}
			if c.JSON {
				err = writeProto(e, a)
			} else {
				err = writeAudit(e, a)
			}
			if err != nil {
				return err
			}
			if n++; n == c.Limit {
				break
			}
		}
		if n == 0 && c.Recipe != "" {
			if err := c.checkKnown(conn); err != nil {
				return err
			}
		}
		if n == 0 && !c.JSON {
			_, err := fmt.Fprintln(e.stdout, "no changes")
			return err
		}
		return nil
	})
}

// checkKnown refuses a recipe without changes that the server doesn't have either.
func (c *historyAuditCmd) checkKnown(conn *connection) error {
	all, err := conn.recipeNames()
	if err != nil || slices.Contains(all, c.Recipe) {
		return err
	}
	return usage("RECIPE %s: no recipe is or was called so%s", cli.Printable(c.Recipe), meantOf(c.Recipe, all))
}

// writeAudit prints a change: a line of who did what, and one for each difference below it.
func writeAudit(e *env, a *polyscanv1.AuditEntry) error {
	who := a.GetTenant()
	if who == "" {
		who = a.GetPeer()
	}
	what := "put"
	if a.GetAction() == polyscanv1.AuditAction_AUDIT_ACTION_DELETE_RECIPE {
		what = "deleted"
	}
	recipe := a.GetRecipe()
	if a.GetVersion() != 0 {
		recipe = fmt.Sprintf("%s@%d", recipe, a.GetVersion())
	}
	_, err := fmt.Fprintf(e.stdout, "%s  %s  %s %s\n", a.GetAt().AsTime().Local().Format("2006-01-02 15:04:05"),
		cli.Printable(who), what, recipe)
	for _, c := range a.GetChanges() {
		if err == nil {
			_, err = fmt.Fprintf(e.stdout, "    %s\n", cli.Printable(c))
		}
	}
	return err
}

type historyStatusCmd struct {
	// Print a JSON object, as the schemas have it.
	JSON bool `name:"json" group:"output"`
	serverFlags
}

func (c *historyStatusCmd) Run(e *env) error {
	return askHistory(e, &c.serverFlags, func(conn *connection) error {
		m, err := conn.History.GetHistory(conn.ctx, &polyscanv1.GetHistoryRequest{})
		if err != nil {
			if known := clients.AsError(err); known != nil {
				return known
			}
			return err
		}
		if c.JSON {
			return writeProto(e, m)
		}
		var b strings.Builder
		fmt.Fprintf(&b, "parts      %d", m.GetParts())
		if m.GetOldest() != nil {
			fmt.Fprintf(&b, ", from %s to %s", m.GetOldest().AsTime().Local().Format("2006-01-02 15:04:05"),
				m.GetNewest().AsTime().Local().Format("2006-01-02 15:04:05"))
		}
		fmt.Fprintf(&b, "\ndisk       %.1f MB of parts, %.1f MB of pictures\n", float64(m.GetDatabaseBytes())/1e6,
			float64(m.GetPictureBytes())/1e6)
		fmt.Fprintf(&b, "waiting    %d parts, %.1f MB\n", m.GetQueuedParts(), float64(m.GetQueuedBytes())/1e6)
		fmt.Fprintf(&b, "not kept   %d parts, %d pictures\n", m.GetLostParts(), m.GetLostPictures())
		if m.GetFailure() != "" {
			fmt.Fprintf(&b, "FAILING    %s\n", cli.Printable(m.GetFailure()))
		}
		if m.GetMovedAside() != "" {
			fmt.Fprintf(&b, "damaged    the database before is now %s\n", cli.Printable(m.GetMovedAside()))
		}
		_, err = io.WriteString(e.stdout, b.String())
		return err
	})
}
