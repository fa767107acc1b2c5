package main

// What a command runs in, and text that fits a terminal.

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/polyscan/polyscan/clients/internal/cli"
	"github.com/rivo/uniseg"
)

// env is what a command runs in.
type env struct {
	ctx    context.Context
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	// colour on stdout: it is a terminal, and NO_COLOR and TERM=dumb don't object.
	colour bool
	// columns of stdout where that is a terminal, and otherwise 0: then no text is cut.
	columns int
	// live output (a progress bar) on stderr.
	live bool
}

func newEnv(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) *env {
	return &env{
		ctx:     ctx,
		stdin:   stdin,
		stdout:  stdout,
		stderr:  stderr,
		colour:  cli.HasColours(stdout),
		columns: cli.Columns(stdout),
		live:    cli.IsTerminal(stderr),
	}
}

// warn prints a line about what may not be what was meant.
func (e *env) warn(format string, args ...any) {
	fmt.Fprintf(e.stderr, "polyscan: warning: %s\n", cli.OneLine(fmt.Sprintf(format, args...)))
}

// paint wraps text in a style where colours are on.
func (e *env) paint(s cli.Style, text string) string {
	if !e.colour {
		return text
	}
	return s.Paint(text)
}

// fit cuts a text to what a table has for it; where nobody looks at a terminal, none of it may be missing.
func (e *env) fit(s string, columns int) string {
	if e.columns == 0 {
		return s
	}
	return shorten(s, columns)
}

// rest is fit for the last column of a table: it has so many columns of a terminal of 80, and what others have beyond.
func (e *env) rest(s string, columns int) string {
	return e.fit(s, max(columns+e.columns-tableWidth, 8))
}

// shorten cuts a text to a number of columns.
func shorten(s string, columns int) string {
	if uniseg.StringWidth(s) <= columns {
		return s
	}
	var b strings.Builder
	w := 0
	g := uniseg.NewGraphemes(s)
	for g.Next() {
		if w+g.Width() > columns-1 {
			break
		}
		w += g.Width()
		b.WriteString(g.Str())
	}
	return b.String() + "…"
}

// shortenLeft drops the beginning of a text that is wider than columns, as of a path, whose end says more.
func shortenLeft(s string, columns int) string {
	w := uniseg.StringWidth(s)
	if w <= columns {
		return s
	}
	rest := s
	for g := uniseg.NewGraphemes(s); w > columns-1 && g.Next(); {
		w -= g.Width()
		rest = rest[len(g.Str()):]
	}
	return "…" + rest
}

// plural is "1 region", "2 regions".
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
