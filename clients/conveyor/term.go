package main

// What a command runs in, and what it shows of a run that goes on.

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/polyscan/polyscan/clients/internal/cli"
)

// env is what a command runs in.
type env struct {
	ctx    context.Context
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	colour bool // on stdout
	live   bool // stdout is a terminal that can be written over
}

func newEnv(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) *env {
	return &env{ctx: ctx, stdin: stdin, stdout: stdout, stderr: stderr, colour: cli.HasColours(stdout),
		live: cli.IsTerminal(stdout)}
}

// paint wraps text in a style where colours are on.
func (e *env) paint(s cli.Style, text string) string {
	if !e.colour {
		return text
	}
	return s.Paint(text)
}

// display shows a run while it goes on: a block that is drawn over on a terminal, a line now and then elsewhere.
type display struct {
	e      *env
	lines  int // of the block on the screen
	logged time.Duration
	recent []float64 // p99 of the last intervals
}

const (
	// logEvery is how often a line is written where nothing can be drawn over.
	logEvery = time.Second
	// sparkWidth is how many intervals the curve shows.
	sparkWidth = 60
)

func (d *display) show(p point, g progress) {
	if !d.e.live {
		if g.elapsed-d.logged < logEvery {
			return
		}
		d.logged = g.elapsed
		fmt.Fprintf(d.e.stdout,
			"%6.1fs  %s lines/s  %.1f MB/s  p50 %s p99 %s max %s ms  late %s  pass %s fail %s  queued %s\n",
			g.elapsed.Seconds(),
			thousands(int64(p.LineRate)), rateOf(g)*p.LineRate/1e6, short(p.P50), short(p.P99), short(p.Max),
			thousands(g.counts.LateEither),
			thousands(g.counts.Verdicts.Pass), thousands(g.counts.Verdicts.Fail), thousands(g.queued))
		return
	}
	d.recent = append(d.recent, p.P99)
	if len(d.recent) > sparkWidth {
		d.recent = d.recent[1:]
	}
	v := g.counts.Verdicts
	left := ""
	if g.remaining > 0 {
		left = fmt.Sprintf(", %.0f s to go", g.remaining.Seconds())
	}
	late := thousands(g.counts.LateEither)
	if g.counts.LateEither > 0 {
		late = d.e.paint(cli.Yellow, late)
	}
	fail := thousands(v.Fail)
	if v.Fail > 0 {
		fail = d.e.paint(cli.Red, fail)
	}
	block := []string{
		fmt.Sprintf("time      %.1f s%s", g.elapsed.Seconds(), left),
		fmt.Sprintf("rate      %s lines/s, %.1f MB/s", thousands(int64(p.LineRate)), rateOf(g)*p.LineRate/1e6),
		fmt.Sprintf("latency   %s", g.latency),
		fmt.Sprintf("          %s %s", d.e.paint(cli.Dim, spark(d.recent)), "p99"),
		fmt.Sprintf("late      %s of %s parts; the camera was held up at %s strips", late, thousands(g.counts.Parts),
			thousands(g.counts.HeldUp)),
		fmt.Sprintf("verdicts  %s pass, %s fail, %s none, %s incomplete", d.e.paint(cli.Green, thousands(v.Pass)), fail,
			thousands(v.None), thousands(v.Incomplete)),
		fmt.Sprintf("queue     %s strips on the way, room for %s; credit for %s lines", thousands(g.queued),
			thousands(g.room), thousands(g.credit)),
	}
	if len(g.counts.Faults)+len(g.counts.Events) > 0 {
		block = append(block, fmt.Sprintf("faults    %s", list(g.counts.Faults)),
			fmt.Sprintf("events    %s", list(g.counts.Events)))
	}
	var b strings.Builder
	if d.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", d.lines)
	}
	for _, line := range block {
		b.WriteString("\x1b[2K" + line + "\n")
	}
	d.lines = max(d.lines, len(block))
	for range d.lines - len(block) {
		b.WriteString("\x1b[2K\n")
	}
	io.WriteString(d.e.stdout, b.String())
}

// clear takes the block off the screen, for the report that follows.
func (d *display) clear() {
	if d.lines > 0 {
		fmt.Fprintf(d.e.stdout, "\x1b[%dA\x1b[J", d.lines)
		d.lines = 0
	}
}

// rateOf is how many bytes a line has.
func rateOf(g progress) float64 {
	if g.counts.Lines == 0 {
		return 0
	}
	return float64(g.counts.Bytes) / float64(g.counts.Lines)
}

// spark draws values as a row of bars, the highest one full.
func spark(values []float64) string {
	bars := []rune("▁▂▃▄▅▆▇█")
	top := 0.0
	for _, v := range values {
		top = max(top, v)
	}
	out := make([]rune, len(values))
	for i, v := range values {
		k := 0
		if top > 0 {
			k = min(int(v/top*float64(len(bars))), len(bars)-1)
		}
		out[i] = bars[k]
	}
	return string(out)
}
