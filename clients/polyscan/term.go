package main

// What differs between a terminal and a file: colours, the progress bar, and text that must not move the cursor.

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"

	"github.com/rivo/uniseg"
	"golang.org/x/term"
)

// env is what a command runs in.
type env struct {
	ctx    context.Context
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	// colour on stdout: it is a terminal, and NO_COLOR and TERM=dumb don't object.
	colour bool
	// live output (a progress bar) on stderr.
	live bool
}

func newEnv(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) *env {
	noColour := os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb"
	return &env{
		ctx:    ctx,
		stdin:  stdin,
		stdout: stdout,
		stderr: stderr,
		colour: isTerminal(stdout) && !noColour,
		live:   isTerminal(stderr) && os.Getenv("TERM") != "dumb",
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// warn prints a line about what may not be what was meant.
func (e *env) warn(format string, args ...any) {
	fmt.Fprintf(e.stderr, "polyscan: warning: %s\n", oneLine(fmt.Sprintf(format, args...)))
}

// style is an SGR sequence.
type style string

const (
	plain style = ""
	bold  style = "\x1b[1m"
	dim   style = "\x1b[2m"
	green style = "\x1b[32m"
	red   style = "\x1b[1;31m"
)

// paint wraps text in a style where colours are on.
func (e *env) paint(s style, text string) string {
	if !e.colour || s == plain || text == "" {
		return text
	}
	return string(s) + text + "\x1b[0m"
}

// printable escapes what could break a line or command a terminal, such as names out of a file.
func printable(s string) string {
	ok := func(r rune) bool { return unicode.IsPrint(r) && r != unicode.ReplacementChar }
	if !strings.ContainsFunc(s, func(r rune) bool { return !ok(r) }) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if ok(r) {
			b.WriteRune(r)
			continue
		}
		q := strconv.QuoteRune(r)
		b.WriteString(q[1 : len(q)-1])
	}
	return b.String()
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

// plural is "1 region", "2 regions".
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
